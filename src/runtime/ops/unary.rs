//! One value in, one value out.

use half::{bf16, f16};
use num_complex::Complex;

use super::cast::cast;
use super::dot::{Stored, SLICE};
use super::{exponential, Call, Kernel};
use crate::runtime::dtype::Class;
use crate::runtime::tensor::{OpResult, Tensor};
use crate::runtime::DType;

/// The type arithmetic happens in: small formats go through a wider one.
pub(super) fn compute_type(dtype: DType) -> DType {
    use DType::*;
    match dtype {
        F4E2M1 | F8E5M2 | F8E4M3 | F8E8M0 => F32,
        C16 | CBF16 => C32,
        I2 | I4 => I8,
        U1 | U2 | U3 | U4 | U6 => U8,
        other => other,
    }
}

/// Back from the wider type; narrow integers wrap to their bits.
pub(super) fn narrow(t: Tensor, to: DType) -> OpResult<Tensor> {
    match to.class() {
        Class::Int { signed, bits } if bits < 8 => {
            let mut t = t.contiguous()?;
            t.make_unique()?;
            let mask = (1u8 << bits) - 1;
            for v in t.data_mut::<u8>()? {
                *v &= mask;
                if signed && *v >> (bits - 1) == 1 {
                    *v |= !mask;
                }
            }
            Ok(t.retyped(to))
        }
        _ => cast(&t, to),
    }
}

/// Applies `f` to each value, in place where nobody else holds them.
pub(super) fn map<T: bytemuck::Pod>(mut t: Tensor, f: impl Fn(T) -> T) -> OpResult<Tensor> {
    t.make_unique()?;
    for v in t.data_mut::<T>()? {
        *v = f(*v);
    }
    Ok(t)
}

/// As [`map`] for a half format: `f` sees single precision, whole slices are converted at a time.
fn map_halves<H: Stored>(t: Tensor, f: impl Fn(f32) -> f32) -> OpResult<Tensor> {
    map_rows::<H>(t, |wide| wide.iter_mut().for_each(|v| *v = f(*v)))
}

/// As [`map_halves`], for a function of whole slices.
fn map_rows<H: Stored>(mut t: Tensor, f: impl Fn(&mut [f32])) -> OpResult<Tensor> {
    t.make_unique()?;
    let mut wide = [0f32; SLICE];
    for block in t.data_mut::<H>()?.chunks_mut(SLICE) {
        let wide = &mut wide[..block.len()];
        H::widen(block, wide);
        f(wide);
        H::rounded(wide, block);
    }
    Ok(t)
}

/// Runs `op` in the computing type of the argument.
fn widened(call: &mut Call<'_>, op: impl Fn(Tensor) -> OpResult<Tensor>) -> OpResult<Tensor> {
    let t = call.take(0)?;
    let (own, wide) = (t.dtype(), compute_type(t.dtype()));
    if own == wide {
        return op(t);
    }
    narrow(op(cast(&t, wide)?)?, own)
}

fn refuse(dtype: DType) -> String {
    format!("is not defined for {dtype}")
}

/// A function of floats, and of complex numbers where `complex` is given.
macro_rules! float_op {
    ($name:ident, $x:ident, $e:expr $(, complex $c:expr)?) => {
        fn $name(call: &mut Call<'_>) -> OpResult<Tensor> {
            widened(call, |t| match t.dtype() {
                DType::F32 => map(t, |$x: f32| $e),
                DType::F64 => map(t, |$x: f64| $e),
                DType::F16 => map_halves::<f16>(t, |$x: f32| $e),
                DType::BF16 => map_halves::<bf16>(t, |$x: f32| $e),
                $(
                    DType::C32 => map(t, |$x: Complex<f32>| $c),
                    DType::C64 => map(t, |$x: Complex<f64>| $c),
                )?
                other => Err(refuse(other)),
            })
        }
    };
}

/// What the standard library lacks, for both widths.
trait Special: Copy {
    fn erf_(self) -> Self;
    /// Those of the standard library overflow where the argument's square does.
    fn asinh_(self) -> Self;
    fn acosh_(self) -> Self;
    fn sigmoid_(self) -> Self;
    fn gelu_(self) -> Self;
    fn gelu_tanh_(self) -> Self;
}

macro_rules! special {
    ($t:ident, $erf:path, $asinh:path, $acosh:path) => {
        impl Special for $t {
            fn erf_(self) -> $t {
                $erf(self)
            }
            fn asinh_(self) -> $t {
                $asinh(self)
            }
            fn acosh_(self) -> $t {
                // Far below one the library gives a number.
                if self < 1.0 {
                    $t::NAN
                } else {
                    $acosh(self)
                }
            }
            fn sigmoid_(self) -> $t {
                1.0 / (1.0 + (-self).exp())
            }
            fn gelu_(self) -> $t {
                0.5 * self * (1.0 + $erf(self * std::$t::consts::FRAC_1_SQRT_2))
            }
            fn gelu_tanh_(self) -> $t {
                let root = std::$t::consts::FRAC_2_SQRT_PI * std::$t::consts::FRAC_1_SQRT_2;
                0.5 * self * (1.0 + (root * (self + 0.044_715 * self * self * self)).tanh())
            }
        }
    };
}

special!(f32, libm::erff, libm::asinhf, libm::acoshf);
special!(f64, libm::erf, libm::asinh, libm::acosh);

float_op!(exp, x, x.exp(), complex x.exp());
float_op!(log, x, x.ln(), complex x.ln());
float_op!(sqrt, x, x.sqrt(), complex x.sqrt());
float_op!(rsqrt, x, 1.0 / x.sqrt(), complex x.sqrt().inv());
float_op!(sin, x, x.sin(), complex x.sin());
float_op!(cos, x, x.cos(), complex x.cos());
float_op!(tan, x, x.tan(), complex x.tan());
float_op!(asin, x, x.asin(), complex x.asin());
float_op!(acos, x, x.acos(), complex x.acos());
float_op!(atan, x, x.atan(), complex x.atan());
float_op!(sinh, x, x.sinh(), complex x.sinh());
float_op!(cosh, x, x.cosh(), complex x.cosh());
float_op!(tanh, x, x.tanh(), complex x.tanh());
float_op!(asinh, x, x.asinh_(), complex x.asinh());
float_op!(acosh, x, x.acosh_(), complex x.acosh());
float_op!(atanh, x, x.atanh(), complex x.atanh());
float_op!(erf, x, x.erf_());
float_op!(
    sigmoid_wide,
    x,
    x.sigmoid_(),
    complex(x * 0.0 + 1.0) / ((-x).exp() + 1.0)
);
float_op!(silu_wide, x, x * x.sigmoid_(), complex x / ((-x).exp() + 1.0));
float_op!(gelu_none_wide, x, x.gelu_());
float_op!(gelu_tanh_wide, x, x.gelu_tanh_());
float_op!(gelu_sigmoid_wide, x, x * (1.702 * x).sigmoid_());
float_op!(round_float, x, x.round_ties_even());

/// Halves lose nothing by a function of many values at a time.
fn sigmoid(call: &mut Call<'_>) -> OpResult<Tensor> {
    match call.arg(0)?.dtype() {
        DType::F16 => map_rows::<f16>(call.take(0)?, exponential::sigmoid),
        DType::BF16 => map_rows::<bf16>(call.take(0)?, exponential::sigmoid),
        _ => sigmoid_wide(call),
    }
}

fn silu(call: &mut Call<'_>) -> OpResult<Tensor> {
    match call.arg(0)?.dtype() {
        DType::F16 => map_rows::<f16>(call.take(0)?, exponential::silu),
        DType::BF16 => map_rows::<bf16>(call.take(0)?, exponential::silu),
        _ => silu_wide(call),
    }
}

fn gelu(call: &mut Call<'_>) -> OpResult<Tensor> {
    let how = call.word("approximate")?.to_string();
    if call.arg(0)?.dtype() == DType::F16 {
        let f: fn(f16) -> f16 = match &*how {
            "none" => half_gelu,
            "tanh" => half_gelu_tanh,
            "sigmoid" => half_gelu_sigmoid,
            other => return Err(format!("unknown approximation {other}")),
        };
        return map(call.take(0)?, f);
    }
    match &*how {
        "none" => gelu_none_wide(call),
        "tanh" => gelu_tanh_wide(call),
        "sigmoid" => gelu_sigmoid_wide(call),
        other => Err(format!("unknown approximation {other}")),
    }
}

/// The reference composes this of half operations, each of which rounds.
fn half_gelu(x: f16) -> f16 {
    let root = f16::from_f32(std::f32::consts::FRAC_1_SQRT_2);
    let tail = f16::from_f32(libm::erfcf(-(x * root).to_f32()));
    x * f16::from_f32(0.5) * tail
}

/// As [`half_gelu`]; the root of 2 / π is taken of halves, too.
fn half_gelu_tanh(x: f16) -> f16 {
    let (half, one) = (f16::from_f32(0.5), f16::ONE);
    let (root, cubic) = (f16::from_f32(0.797_363_3), f16::from_f32(0.044_715));
    let inner = root * (x + cubic * (x * x * x));
    half * x * (one + f16::from_f32(inner.to_f32().tanh()))
}

/// As [`half_gelu`].
fn half_gelu_sigmoid(x: f16) -> f16 {
    let power = f16::from_f32((-(f16::from_f32(1.702) * x)).to_f32().exp());
    x * (f16::ONE / (f16::ONE + power))
}

fn round(call: &mut Call<'_>) -> OpResult<Tensor> {
    match call.arg(0)?.dtype().class() {
        Class::Int { .. } | Class::Bool => call.take(0),
        _ => round_float(call),
    }
}

fn abs(call: &mut Call<'_>) -> OpResult<Tensor> {
    use DType::*;
    let part = call.arg(0)?.dtype().part();
    if let Some(part) = part {
        let t = call.take(0)?;
        let wide = cast(&t, C64)?.contiguous()?;
        let values: Vec<f64> = wide
            .data::<Complex<f64>>()?
            .iter()
            .map(|v| v.re.hypot(v.im))
            .collect();
        return cast(&Tensor::of(F64, t.dims(), &values)?, part);
    }
    widened(call, |t| match t.dtype() {
        I8 => map(t, i8::wrapping_abs),
        I16 => map(t, i16::wrapping_abs),
        I32 => map(t, i32::wrapping_abs),
        I64 => map(t, i64::wrapping_abs),
        U8 | U16 | U32 | U64 => Ok(t),
        F32 => map(t, f32::abs),
        F64 => map(t, f64::abs),
        F16 => map(t, |v: f16| f16::from_bits(v.to_bits() & 0x7fff)),
        BF16 => map(t, |v: bf16| bf16::from_bits(v.to_bits() & 0x7fff)),
        other => Err(refuse(other)),
    })
}

/// Negative values become zero; NaN stays.
fn relu(call: &mut Call<'_>) -> OpResult<Tensor> {
    use DType::*;
    widened(call, |t| match t.dtype() {
        I8 => map(t, |v: i8| v.max(0)),
        I16 => map(t, |v: i16| v.max(0)),
        I32 => map(t, |v: i32| v.max(0)),
        I64 => map(t, |v: i64| v.max(0)),
        U8 | U16 | U32 | U64 => Ok(t),
        F32 => map(t, |v: f32| if v < 0.0 { 0.0 } else { v }),
        F64 => map(t, |v: f64| if v < 0.0 { 0.0 } else { v }),
        F16 => map(t, |v: f16| if v < f16::ZERO { f16::ZERO } else { v }),
        BF16 => map(t, |v: bf16| if v < bf16::ZERO { bf16::ZERO } else { v }),
        other => Err(refuse(other)),
    })
}

fn not(call: &mut Call<'_>) -> OpResult<Tensor> {
    let t = call.take(0)?;
    match t.dtype() {
        DType::Bool | DType::U1 => map(t, |v: u8| v ^ 1),
        other => Err(refuse(other)),
    }
}

/// Layout constraints of the hardware mean nothing here.
fn same(call: &mut Call<'_>) -> OpResult<Tensor> {
    call.take(0)
}

pub const OPS: &[(&str, Kernel)] = &[
    ("abs", Kernel::One(abs)),
    ("acos", Kernel::One(acos)),
    ("acosh", Kernel::One(acosh)),
    ("asin", Kernel::One(asin)),
    ("asinh", Kernel::One(asinh)),
    ("atan", Kernel::One(atan)),
    ("atanh", Kernel::One(atanh)),
    ("copy_discarding_constraints", Kernel::One(same)),
    ("copy_with_constraints", Kernel::One(same)),
    ("cos", Kernel::One(cos)),
    ("cosh", Kernel::One(cosh)),
    ("erf", Kernel::One(erf)),
    ("exp", Kernel::One(exp)),
    ("gelu", Kernel::One(gelu)),
    ("log", Kernel::One(log)),
    ("not", Kernel::One(not)),
    ("relu", Kernel::One(relu)),
    ("round", Kernel::One(round)),
    ("rsqrt", Kernel::One(rsqrt)),
    ("sigmoid", Kernel::One(sigmoid)),
    ("silu", Kernel::One(silu)),
    ("sin", Kernel::One(sin)),
    ("sinh", Kernel::One(sinh)),
    ("sqrt", Kernel::One(sqrt)),
    ("tan", Kernel::One(tan)),
    ("tanh", Kernel::One(tanh)),
];
