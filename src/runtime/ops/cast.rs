//! Conversion between element types. Nothing wraps and nothing is undefined: what does not fit an integer
//! becomes the nearest value that does.

use half::{bf16, f16};
use num_complex::Complex;

use super::dot::Stored;
use super::{Call, Kernel};
use crate::ir::{numeric, Float};
use crate::runtime::dtype::Class;
use crate::runtime::tensor::{OpResult, Tensor};
use crate::runtime::DType;

use super::complex::part;

pub const OPS: &[(&str, Kernel)] = &[("cast", Kernel::One(run))];

fn run(call: &mut Call<'_>) -> OpResult<Tensor> {
    let to = call.declared()?.dtype;
    cast(&call.take(0)?, to)
}

/// The values of `t` as `to`.
pub fn cast(t: &Tensor, to: DType) -> OpResult<Tensor> {
    if t.dtype() == to {
        return Ok(t.clone());
    }
    let t = t.contiguous()?;
    match (t.dtype().class(), to.class()) {
        (_, Class::Complex) => to_complex(&t, to),
        (Class::Complex, Class::Bool) => {
            let mut out = Tensor::alloc(to, t.dims())?;
            let wide = to_complex(&t, DType::C64)?;
            let values = wide.data::<Complex<f64>>()?;
            for (o, v) in out.data_mut::<u8>()?.iter_mut().zip(values) {
                *o = u8::from(v.re != 0.0 || v.im != 0.0);
            }
            Ok(out)
        }
        // The imaginary part is dropped.
        (Class::Complex, _) => cast(&part(&t, 0)?, to),
        (_, Class::Bool) => to_bool(&t),
        (_, Class::Int { signed, bits }) => to_int(&t, to, signed, bits),
        (_, Class::Float) => to_float(&t, to),
    }
}

/// Writes `f` of each value of `t` as `T`.
macro_rules! each {
    ($t:expr, $out:expr, $o:ty, $v:ident: $in:ty => $e:expr) => {{
        let from = $t.data::<$in>()?;
        for (o, v) in $out.data_mut::<$o>()?.iter_mut().zip(from) {
            let $v = *v;
            *o = $e;
        }
    }};
}

/// Dispatches over the real types: `$int` for integers widened to `i128`, `$float` for floats widened
/// to `f64`.
macro_rules! from_real {
    ($t:expr, $out:expr, $o:ty, $v:ident, int $int:expr, float $float:expr) => {{
        use DType::*;
        match $t.dtype() {
            I2 | I4 | I8 => each!($t, $out, $o, v: i8 => { let $v = i128::from(v); $int }),
            I16 => each!($t, $out, $o, v: i16 => { let $v = i128::from(v); $int }),
            I32 => each!($t, $out, $o, v: i32 => { let $v = i128::from(v); $int }),
            I64 => each!($t, $out, $o, v: i64 => { let $v = i128::from(v); $int }),
            Bool | U1 | U2 | U3 | U4 | U6 | U8 => {
                each!($t, $out, $o, v: u8 => { let $v = i128::from(v); $int })
            }
            U16 => each!($t, $out, $o, v: u16 => { let $v = i128::from(v); $int }),
            U32 => each!($t, $out, $o, v: u32 => { let $v = i128::from(v); $int }),
            U64 => each!($t, $out, $o, v: u64 => { let $v = i128::from(v); $int }),
            F16 => each!($t, $out, $o, v: f16 => { let $v = v.to_f64(); $float }),
            BF16 => each!($t, $out, $o, v: bf16 => { let $v = v.to_f64(); $float }),
            F32 => each!($t, $out, $o, v: f32 => { let $v = f64::from(v); $float }),
            F64 => each!($t, $out, $o, v: f64 => { let $v = v; $float }),
            F4E2M1 | F8E5M2 | F8E4M3 | F8E8M0 => {
                let table = codes($t.dtype());
                each!($t, $out, $o, v: u8 => { let $v = table[usize::from(v)]; $float })
            }
            C16 | CBF16 | C32 | C64 => return Err("complex numbers are not converted here".into()),
        }
    }};
}

/// The value of every code of a small float type.
fn codes(dtype: DType) -> Vec<f64> {
    let kind = dtype.small_float().unwrap_or(Float::F8E5M2);
    let mask = (1u64 << kind.width()) - 1;
    (0..256u64)
        .map(|code| numeric::float_value(kind, code & mask))
        .collect()
}

fn to_bool(t: &Tensor) -> OpResult<Tensor> {
    let mut out = Tensor::unset(DType::Bool, t.dims())?;
    from_real!(t, out, u8, v, int u8::from(v != 0), float u8::from(v != 0.0));
    Ok(out)
}

fn to_int(t: &Tensor, to: DType, signed: bool, bits: u32) -> OpResult<Tensor> {
    let mut out = Tensor::unset(to, t.dims())?;
    let (low, high) = if signed {
        (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)
    } else {
        (0, (1i128 << bits) - 1)
    };
    // Rust's float casts saturate and make NaN zero.
    macro_rules! into {
        ($o:ty) => {
            from_real!(t, out, $o, v,
                int v.clamp(low, high) as $o,
                float (v as i128).clamp(low, high) as $o)
        };
    }
    match (signed, to.size()) {
        (true, 1) => into!(i8),
        (true, 2) => into!(i16),
        (true, 4) => into!(i32),
        (true, _) => into!(i64),
        (false, 1) => into!(u8),
        (false, 2) => into!(u16),
        (false, 4) => into!(u32),
        (false, _) => into!(u64),
    }
    Ok(out)
}

fn to_float(t: &Tensor, to: DType) -> OpResult<Tensor> {
    let mut out = Tensor::unset(to, t.dims())?;
    // The common conversions, by whole slices.
    match (t.dtype(), to) {
        (DType::F16, DType::F32) => {
            f16::widen(t.data()?, out.data_mut()?);
            return Ok(out);
        }
        (DType::BF16, DType::F32) => {
            bf16::widen(t.data()?, out.data_mut()?);
            return Ok(out);
        }
        (DType::F32, DType::BF16) => {
            bf16::rounded(t.data()?, out.data_mut()?);
            return Ok(out);
        }
        (DType::F32, DType::F16) => {
            f16::rounded(t.data()?, out.data_mut()?);
            return Ok(out);
        }
        _ => {}
    }
    match to {
        DType::F64 => from_real!(t, out, f64, v, int v as f64, float v),
        DType::F32 => from_real!(t, out, f32, v, int v as f32, float v as f32),
        DType::F16 => {
            from_real!(t, out, f16, v, int f16::from_f32(numeric::single(v as f64)), float f16::from_f32(numeric::single(v)))
        }
        DType::BF16 => {
            from_real!(t, out, bf16, v, int bf16::from_f32(numeric::single(v as f64)), float bf16::from_f32(numeric::single(v)))
        }
        small => {
            let kind = small.small_float().ok_or("no float type")?;
            from_real!(t, out, u8, v, int encode_int(kind, v as f64), float encode(kind, v));
        }
    }
    Ok(out)
}

fn to_complex(t: &Tensor, to: DType) -> OpResult<Tensor> {
    let part = to.part().ok_or("no complex type")?;
    if let Some(own) = t.dtype().part() {
        // Complex to complex: convert the parts as one long run.
        let count = t.len() * 2;
        let mut parts = Tensor::alloc(own, &[count])?;
        parts.data_mut::<u8>()?.copy_from_slice(&t.bytes());
        let parts = cast(&parts, part)?;
        let mut out = Tensor::alloc(to, t.dims())?;
        out.data_mut::<u8>()?.copy_from_slice(&parts.bytes());
        return Ok(out);
    }
    let real = cast(t, DType::F64)?;
    let values: Vec<Complex<f64>> = real
        .data::<f64>()?
        .iter()
        .map(|v| Complex::new(*v, 0.0))
        .collect();
    cast(&Tensor::of(DType::C64, t.dims(), &values)?, to)
}

/// The nearest code of an integer, as the reference has it: in the format without infinities it has no
/// codes between 240 and 448, and stays at the largest beyond.
fn encode_int(kind: Float, value: f64) -> u8 {
    match (kind, value.abs()) {
        // Zero is no power of two, and the sign is dropped; halfway goes down.
        (Float::F8E8M0FNU, 0.0) => encode(kind, f64::NAN),
        (Float::F8E8M0FNU, v) => encode(kind, v * (1.0 - f64::EPSILON / 2.0)),
        (Float::F8E4M3FN, v) if v >= 496.0 => encode(kind, 448f64.copysign(value)),
        (Float::F8E4M3FN, v) if v >= 248.0 => encode(kind, f64::NAN),
        // Rounded first: the largest is reached from above it.
        (Float::F8E5M2, v) if v < 61_440.0 => encode(kind, value.clamp(-57_344.0, 57_344.0)),
        _ => encode(kind, value),
    }
}

/// The nearest code; ties to the even one, of powers of two (which have no zero) to the larger. Beyond the largest value 8-bit floats become infinite, or NaN
/// where there is no infinity; the others stay at the largest. NaN stays NaN where the format has one,
/// else it is zero.
pub fn encode(kind: Float, value: f64) -> u8 {
    let (max_code, nan): (u8, u8) = match kind {
        Float::F8E5M2 => (0x7b, 0x7d),
        Float::F8E4M3FN => (0x7e, 0x7f),
        Float::F8E8M0FNU => (0xfe, 0xff),
        _ => (0x07, 0x00),
    };
    let powers = kind == Float::F8E8M0FNU;
    if value.is_nan() || (powers && (value == 0.0 || value.is_infinite())) {
        return nan;
    }
    let decode = |code: u8| numeric::float_value(kind, u64::from(code));
    let (sign, magnitude) = match kind {
        Float::F8E8M0FNU => (0, value),
        Float::F4E2M1FN => (u8::from(value.is_sign_negative()) << 3, value.abs()),
        _ => (u8::from(value.is_sign_negative()) << 7, value.abs()),
    };
    // Codes grow with their value: find the last one not above.
    let (mut low, mut high) = (0u8, max_code);
    let overflow = match kind {
        Float::F8E5M2 if magnitude > 57_344.0 => Some(0x7c),
        Float::F8E4M3FN if magnitude > 448.0 => Some(nan),
        _ => None,
    };
    if let Some(code) = overflow {
        return sign | code;
    }
    if magnitude >= decode(max_code) {
        return sign | max_code;
    }
    while high - low > 1 {
        let mid = low + (high - low) / 2;
        if decode(mid) <= magnitude {
            low = mid;
        } else {
            high = mid;
        }
    }
    let (below, above) = (magnitude - decode(low), decode(high) - magnitude);
    let up = above < below || (above == below && (powers || low % 2 == 1));
    sign | if up { high } else { low }
}
