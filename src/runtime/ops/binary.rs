//! Two values in, one of the same type out.

use std::cell::Cell;

use bytemuck::Pod;
use half::{bf16, f16};
use num_complex::Complex;

use super::cast::cast;
use super::dot::{Stored, SLICE};
use super::unary::{compute_type, narrow};
use super::{broadcast_dims, broadcast_view, Call, Kernel};
use crate::runtime::error::shape;
use crate::runtime::tensor::{rows, OpResult, Tensor};
use crate::runtime::DType;

/// `f` of each pair; both tensors have shape `dims` already, possibly with strides of 0.
pub(super) fn zip<T: Pod, U: Pod>(
    a: &Tensor,
    b: &Tensor,
    dtype: DType,
    f: impl Fn(T, T) -> U,
) -> OpResult<Tensor> {
    let mut out = Tensor::unset(dtype, a.dims())?;
    let (xs, ys) = (a.memory::<T>()?, b.memory::<T>()?);
    let to = out.data_mut::<U>()?;
    let mut at = 0;
    rows(a.dims(), [a.strides(), b.strides()], |[i, j], n, steps| {
        let (i, j) = (a.offset() as isize + i, b.offset() as isize + j);
        let row = &mut to[at..at + n];
        at += n;
        if n == 0 {
            return;
        }
        let (i, j) = (i as usize, j as usize);
        match steps {
            [1, 1] => {
                for ((o, x), y) in row.iter_mut().zip(&xs[i..i + n]).zip(&ys[j..j + n]) {
                    *o = f(*x, *y);
                }
            }
            [1, 0] => {
                let y = ys[j];
                for (o, x) in row.iter_mut().zip(&xs[i..i + n]) {
                    *o = f(*x, y);
                }
            }
            [0, 1] => {
                let x = xs[i];
                for (o, y) in row.iter_mut().zip(&ys[j..j + n]) {
                    *o = f(x, *y);
                }
            }
            [s, t] => {
                for (k, o) in row.iter_mut().enumerate() {
                    let k = k as isize;
                    let x = xs[(i as isize + k * s) as usize];
                    *o = f(x, ys[(j as isize + k * t) as usize]);
                }
            }
        }
    });
    Ok(out)
}

/// As [`zip`] for a half format: `f` sees single precision, whole slices are converted at a time.
fn zip_halves<H: Stored>(
    a: &Tensor,
    b: &Tensor,
    dtype: DType,
    f: impl Fn(f32, f32) -> f32,
) -> OpResult<Tensor> {
    let mut out = Tensor::unset(dtype, a.dims())?;
    let (xs, ys) = (a.memory::<H>()?, b.memory::<H>()?);
    let to = out.data_mut::<H>()?;
    let mut at = 0;
    let (mut left, mut right) = ([0f32; SLICE], [0f32; SLICE]);
    rows(a.dims(), [a.strides(), b.strides()], |[i, j], n, steps| {
        let (i, j) = (a.offset() as isize + i, b.offset() as isize + j);
        let row = &mut to[at..at + n];
        at += n;
        for (block, out) in row.chunks_mut(SLICE).enumerate() {
            let (left, right) = (&mut left[..out.len()], &mut right[..out.len()]);
            let start = |at: isize, step: isize| at + (block * SLICE) as isize * step;
            widen_row(xs, start(i, steps[0]), steps[0], left);
            widen_row(ys, start(j, steps[1]), steps[1], right);
            for (x, y) in left.iter_mut().zip(right.iter()) {
                *x = f(*x, *y);
            }
            H::rounded(left, out);
        }
    });
    Ok(out)
}

/// Reads elements at `at`, `at + step`, … in single precision.
pub(super) fn widen_row<H: Stored>(from: &[H], at: isize, step: isize, to: &mut [f32]) {
    let first = at as usize;
    match step {
        1 => H::widen(&from[first..first + to.len()], to),
        0 => {
            let mut one = [0f32];
            H::widen(&from[first..first + 1], &mut one);
            to.fill(one[0]);
        }
        _ => {
            for (k, o) in to.iter_mut().enumerate() {
                let one = (at + k as isize * step) as usize;
                H::widen(&from[one..one + 1], std::slice::from_mut(o));
            }
        }
    }
}

/// The two operands under one shape.
pub(super) fn operands(call: &mut Call<'_>, broadcast: bool) -> OpResult<(Tensor, Tensor)> {
    let (a, b) = (call.take(0)?, call.take(1)?);
    if a.dtype() != b.dtype() {
        return Err(format!("operands of types {} and {}", a.dtype(), b.dtype()));
    }
    if a.dims() == b.dims() {
        return Ok((a, b));
    }
    if !broadcast {
        return Err(format!(
            "operands of shapes {} and {}",
            shape(a.dims()),
            shape(b.dims())
        ));
    }
    let dims = broadcast_dims(a.dims(), b.dims())?;
    Ok((broadcast_view(&a, &dims)?, broadcast_view(&b, &dims)?))
}

/// Runs `op` in the computing type of the operands.
fn widened(
    (a, b): (Tensor, Tensor),
    op: impl Fn(&Tensor, &Tensor) -> OpResult<Tensor>,
) -> OpResult<Tensor> {
    let (own, wide) = (a.dtype(), compute_type(a.dtype()));
    if own == wide {
        return op(&a, &b);
    }
    narrow(op(&cast(&a, wide)?, &cast(&b, wide)?)?, own)
}

/// Defines the function `$name(a, b)` with one expression per class of types. `int` sees native
/// integers, `float` sees `f32` or `f64` (halves go through `f32`).
macro_rules! arithmetic {
    ($name:ident, $x:ident, $y:ident $(, int $i:expr)? $(, float $f:expr)? $(, complex $c:expr)? $(, bool $b:expr)?) => {
        pub(super) fn $name(a: &Tensor, b: &Tensor) -> OpResult<Tensor> {
            let dtype = a.dtype();
            match dtype {
                $(
                    DType::I8 => zip(a, b, dtype, |$x: i8, $y: i8| $i),
                    DType::I16 => zip(a, b, dtype, |$x: i16, $y: i16| $i),
                    DType::I32 => zip(a, b, dtype, |$x: i32, $y: i32| $i),
                    DType::I64 => zip(a, b, dtype, |$x: i64, $y: i64| $i),
                    DType::U8 => zip(a, b, dtype, |$x: u8, $y: u8| $i),
                    DType::U16 => zip(a, b, dtype, |$x: u16, $y: u16| $i),
                    DType::U32 => zip(a, b, dtype, |$x: u32, $y: u32| $i),
                    DType::U64 => zip(a, b, dtype, |$x: u64, $y: u64| $i),
                )?
                $(
                    DType::F32 => zip(a, b, dtype, |$x: f32, $y: f32| $f),
                    DType::F64 => zip(a, b, dtype, |$x: f64, $y: f64| $f),
                    DType::F16 => zip_halves::<f16>(a, b, dtype, |$x: f32, $y: f32| $f),
                    DType::BF16 => zip_halves::<bf16>(a, b, dtype, |$x: f32, $y: f32| $f),
                )?
                $(
                    DType::C32 => zip(a, b, dtype, |$x: Complex<f32>, $y: Complex<f32>| $c),
                    DType::C64 => zip(a, b, dtype, |$x: Complex<f64>, $y: Complex<f64>| $c),
                )?
                $(DType::Bool => zip(a, b, dtype, |$x: u8, $y: u8| $b),)?
                other => Err(format!("is not defined for {other}")),
            }
        }
    };
}

arithmetic!(add, x, y, int x.wrapping_add(y), float x + y, complex x + y, bool x | y);
arithmetic!(sub, x, y, int x.wrapping_sub(y), float x - y, complex x - y);
arithmetic!(mul, x, y, int x.wrapping_mul(y), float x * y, complex x * y, bool x & y);
arithmetic!(maximum, x, y, int x.max(y), float x.max_(y), bool x | y);
arithmetic!(minimum, x, y, int x.min(y), float x.min_(y), bool x & y);
arithmetic!(bitwise_and, x, y, int x & y, bool x & y);
arithmetic!(bitwise_or, x, y, int x | y, bool x | y);
arithmetic!(bitwise_xor, x, y, int x ^ y, bool x ^ y);
arithmetic!(float_divide, x, y, float x / y, complex x / y);
arithmetic!(float_modulo, x, y, float x % y);
arithmetic!(wide_floor_divide, x, y, float x.floor_divide_(y, x / y));
arithmetic!(float_pow, x, y, float x.power_(y), complex (x.ln() * y).exp());
arithmetic!(int_pow, x, y, int x.pow_(y));

/// Of bfloat16 the quotient is rounded before it is floored.
fn float_floor_divide(a: &Tensor, b: &Tensor) -> OpResult<Tensor> {
    if a.dtype() != DType::BF16 {
        return wide_floor_divide(a, b);
    }
    zip(a, b, DType::BF16, |x: bf16, y: bf16| {
        let (x, y) = (x.to_f32(), y.to_f32());
        bf16::from_f32(x.floor_divide_(y, bf16::from_f32(x / y).to_f32()))
    })
}

/// What the standard library decides otherwise: extremes keep NaN, and an infinite dividend has no
/// floored quotient (unless divided by zero).
trait Floats {
    fn floor_divide_(self, other: Self, quotient: Self) -> Self;
    fn max_(self, other: Self) -> Self;
    fn min_(self, other: Self) -> Self;
    /// The square, which is what powers mostly are, without the general case.
    fn power_(self, exponent: Self) -> Self;
}

macro_rules! extremes {
    ($($t:ty),*) => {$(
        impl Floats for $t {
            fn floor_divide_(self, other: $t, quotient: $t) -> $t {
                if self.is_infinite() && other != 0.0 {
                    <$t>::NAN
                } else {
                    quotient.floor()
                }
            }
            fn max_(self, other: $t) -> $t {
                if self > other || self.is_nan() { self } else { other }
            }
            fn min_(self, other: $t) -> $t {
                if self < other || self.is_nan() { self } else { other }
            }
            fn power_(self, exponent: $t) -> $t {
                if exponent == 2.0 { self * self } else { self.powf(exponent) }
            }
        }
    )*};
}

extremes!(f32, f64);

/// Powers of integers: wrap; a negative exponent gives zero, whatever the base.
trait Power: Copy {
    fn pow_(self, exponent: Self) -> Self;
}

fn wrapping_power<T: num_traits::PrimInt + num_traits::WrappingMul>(base: T, exponent: T) -> T {
    let (mut base, mut left, mut result) = (base, exponent, T::one());
    while left != T::zero() {
        if left & T::one() == T::one() {
            result = result.wrapping_mul(&base);
        }
        base = base.wrapping_mul(&base);
        left = left.unsigned_shr(1);
    }
    result
}

macro_rules! power {
    (signed $($t:ty),*) => {$(
        impl Power for $t {
            fn pow_(self, exponent: $t) -> $t {
                if exponent < 0 {
                    return 0;
                }
                wrapping_power(self, exponent)
            }
        }
    )*};
    (unsigned $($t:ty),*) => {$(
        impl Power for $t {
            fn pow_(self, exponent: $t) -> $t {
                wrapping_power(self, exponent)
            }
        }
    )*};
}

power!(signed i8, i16, i32, i64);
power!(unsigned u8, u16, u32, u64);

/// Division of integers, with what has no result as an error.
trait Division: Copy + Default {
    fn quotient(self, other: Self) -> Option<Self>;
    fn floor_quotient(self, other: Self) -> Option<Self>;
    fn remainder(self, other: Self) -> Option<Self>;
}

macro_rules! division {
    ($($t:ty: $floor:expr),*) => {$(
        impl Division for $t {
            fn quotient(self, other: $t) -> Option<$t> {
                self.checked_div(other)
            }
            fn floor_quotient(self, other: $t) -> Option<$t> {
                let floor: fn($t, $t) -> $t = $floor;
                self.checked_div(other).map(|_| floor(self, other))
            }
            fn remainder(self, other: $t) -> Option<$t> {
                self.checked_rem(other)
            }
        }
    )*};
}

division!(
    i8: |a, b| a / b - i8::from(a % b != 0 && (a < 0) != (b < 0)),
    i16: |a, b| a / b - i16::from(a % b != 0 && (a < 0) != (b < 0)),
    i32: |a, b| a / b - i32::from(a % b != 0 && (a < 0) != (b < 0)),
    i64: |a, b| a / b - i64::from(a % b != 0 && (a < 0) != (b < 0)),
    u8: |a, b| a / b,
    u16: |a, b| a / b,
    u32: |a, b| a / b,
    u64: |a, b| a / b
);

macro_rules! int_division {
    ($name:ident, $method:ident, $float:ident) => {
        pub(super) fn $name(a: &Tensor, b: &Tensor) -> OpResult<Tensor> {
            fn go<T: Pod + Division>(a: &Tensor, b: &Tensor) -> OpResult<Tensor> {
                let failed = Cell::new(false);
                let out = zip(a, b, a.dtype(), |x: T, y: T| {
                    x.$method(y).unwrap_or_else(|| {
                        failed.set(true);
                        T::default()
                    })
                })?;
                if failed.get() {
                    return Err(
                        "division by zero, or of the smallest value by -1, has no integer result"
                            .into(),
                    );
                }
                Ok(out)
            }
            match a.dtype() {
                DType::I8 => go::<i8>(a, b),
                DType::I16 => go::<i16>(a, b),
                DType::I32 => go::<i32>(a, b),
                DType::I64 => go::<i64>(a, b),
                DType::U8 => go::<u8>(a, b),
                DType::U16 => go::<u16>(a, b),
                DType::U32 => go::<u32>(a, b),
                DType::U64 => go::<u64>(a, b),
                _ => $float(a, b),
            }
        }
    };
}

int_division!(divide, quotient, float_divide);
int_division!(floor_divide, floor_quotient, float_floor_divide);
int_division!(modulo, remainder, float_modulo);

pub(super) fn pow(a: &Tensor, b: &Tensor) -> OpResult<Tensor> {
    match a.dtype().class() {
        crate::runtime::dtype::Class::Int { .. } => int_pow(a, b),
        _ => float_pow(a, b),
    }
}

fn logical(a: &Tensor, b: &Tensor, f: impl Fn(u8, u8) -> u8) -> OpResult<Tensor> {
    match a.dtype() {
        DType::Bool => zip(a, b, DType::Bool, f),
        other => Err(format!("is not defined for {other}")),
    }
}

pub(super) fn and(a: &Tensor, b: &Tensor) -> OpResult<Tensor> {
    logical(a, b, |x, y| x & y)
}

pub(super) fn or(a: &Tensor, b: &Tensor) -> OpResult<Tensor> {
    logical(a, b, |x, y| x | y)
}

pub(super) fn xor(a: &Tensor, b: &Tensor) -> OpResult<Tensor> {
    logical(a, b, |x, y| x ^ y)
}

/// Entries for the strict and the broadcasting form.
macro_rules! entries {
    ($($name:literal, $broadcasting:literal => $f:ident;)*) => {
        pub const OPS: &[(&str, Kernel)] = &[$(
            ($name, Kernel::One(|call| widened(operands(call, false)?, $f))),
            ($broadcasting, Kernel::One(|call| widened(operands(call, true)?, $f))),
        )*];
    };
}

entries! {
    "add", "broadcasting_add" => add;
    "sub", "broadcasting_sub" => sub;
    "mul", "broadcasting_mul" => mul;
    "divide", "broadcasting_divide" => divide;
    "floor_divide", "broadcasting_floor_divide" => floor_divide;
    "modulo", "broadcasting_modulo" => modulo;
    "pow", "broadcasting_pow" => pow;
    "maximum", "broadcasting_maximum" => maximum;
    "minimum", "broadcasting_minimum" => minimum;
    "bitwise_and", "broadcasting_bitwise_and" => bitwise_and;
    "bitwise_or", "broadcasting_bitwise_or" => bitwise_or;
    "bitwise_xor", "broadcasting_bitwise_xor" => bitwise_xor;
    "and", "broadcasting_and" => and;
    "or", "broadcasting_or" => or;
    "xor", "broadcasting_xor" => xor;
}
