//! Single numbers of every type, for ops that combine them one after the other.

use bytemuck::Pod;
use half::{bf16, f16};
use num_complex::Complex;

use crate::runtime::dtype::Class;
use crate::runtime::tensor::OpResult;
use crate::runtime::DType;

/// How two values become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combiner {
    Add,
    Sub,
    Mul,
    Div,
    Max,
    Min,
    And,
    Or,
    Xor,
    /// The second value replaces the first.
    Replace,
}

impl Combiner {
    /// The op with this short name.
    pub fn from_op(name: &str) -> Option<Combiner> {
        Some(match name {
            "add" => Combiner::Add,
            "sub" => Combiner::Sub,
            "mul" => Combiner::Mul,
            "divide" => Combiner::Div,
            "maximum" => Combiner::Max,
            "minimum" => Combiner::Min,
            "and" | "bitwise_and" => Combiner::And,
            "or" | "bitwise_or" => Combiner::Or,
            "xor" | "bitwise_xor" => Combiner::Xor,
            _ => return None,
        })
    }

    /// The combination that has the same result on booleans, which are bytes of 0 or 1.
    pub fn of(self, dtype: DType) -> Combiner {
        match self {
            _ if dtype != DType::Bool => self,
            Combiner::Add => Combiner::Or,
            Combiner::Mul | Combiner::Div => Combiner::And,
            Combiner::Sub => Combiner::Xor,
            other => other,
        }
    }

    /// Whether the order of the operands matters.
    pub fn commutes(self) -> bool {
        !matches!(self, Combiner::Sub | Combiner::Div | Combiner::Replace)
    }

    /// Refuses types the combination is not defined for.
    pub fn check(self, dtype: DType) -> OpResult<()> {
        use Combiner::*;
        let fine = match dtype.class() {
            Class::Bool => true,
            Class::Int { .. } => true,
            Class::Float => !matches!(self, And | Or | Xor),
            Class::Complex => matches!(self, Add | Sub | Mul | Div | Replace),
        };
        if fine {
            Ok(())
        } else {
            Err(format!("{self:?} is not defined for {dtype}"))
        }
    }
}

/// A number that can be combined; halves are carried in single precision.
pub trait Scalar: Pod {
    /// What a running value is kept in.
    type Wide: Pod + PartialEq;
    fn widen(self) -> Self::Wide;
    fn narrow(wide: Self::Wide) -> Self;
    /// The combination; division of an integer by zero gives zero and is the caller's to refuse.
    fn combine(how: Combiner, a: Self::Wide, b: Self::Wide) -> Self::Wide;
    fn zero() -> Self::Wide;
    fn one() -> Self::Wide;
    /// Below every number.
    fn lowest() -> Self::Wide;
    /// Above every number.
    fn highest() -> Self::Wide;
}

macro_rules! ints {
    ($($t:ty),*) => {$(
        impl Scalar for $t {
            type Wide = $t;
            fn widen(self) -> $t { self }
            fn narrow(wide: $t) -> $t { wide }
            fn combine(how: Combiner, a: $t, b: $t) -> $t {
                match how {
                    Combiner::Add => a.wrapping_add(b),
                    Combiner::Sub => a.wrapping_sub(b),
                    Combiner::Mul => a.wrapping_mul(b),
                    Combiner::Div => a.checked_div(b).unwrap_or(0),
                    Combiner::Max => a.max(b),
                    Combiner::Min => a.min(b),
                    Combiner::And => a & b,
                    Combiner::Or => a | b,
                    Combiner::Xor => a ^ b,
                    Combiner::Replace => b,
                }
            }
            fn zero() -> $t { 0 }
            fn one() -> $t { 1 }
            fn lowest() -> $t { <$t>::MIN }
            fn highest() -> $t { <$t>::MAX }
        }
    )*};
}

ints!(i8, i16, i32, i64, u8, u16, u32, u64);

macro_rules! floats {
    ($($t:ty as $w:ident, $widen:expr, $narrow:expr;)*) => {$(
        impl Scalar for $t {
            type Wide = $w;
            fn widen(self) -> $w { $widen(self) }
            fn narrow(wide: $w) -> $t { $narrow(wide) }
            fn combine(how: Combiner, a: $w, b: $w) -> $w {
                match how {
                    Combiner::Add => a + b,
                    Combiner::Sub => a - b,
                    Combiner::Mul => a * b,
                    Combiner::Div => a / b,
                    Combiner::Max => if a > b || a.is_nan() { a } else { b },
                    Combiner::Min => if a < b || a.is_nan() { a } else { b },
                    _ => b,
                }
            }
            fn zero() -> $w { 0.0 }
            fn one() -> $w { 1.0 }
            fn lowest() -> $w { $w::NEG_INFINITY }
            fn highest() -> $w { $w::INFINITY }
        }
    )*};
}

floats! {
    f32 as f32, std::convert::identity, std::convert::identity;
    f64 as f64, std::convert::identity, std::convert::identity;
    f16 as f32, f16::to_f32, f16::from_f32;
    bf16 as f32, bf16::to_f32, bf16::from_f32;
}

macro_rules! complexes {
    ($($t:ident),*) => {$(
        impl Scalar for Complex<$t> {
            type Wide = Complex<$t>;
            fn widen(self) -> Complex<$t> { self }
            fn narrow(wide: Complex<$t>) -> Complex<$t> { wide }
            fn combine(how: Combiner, a: Complex<$t>, b: Complex<$t>) -> Complex<$t> {
                match how {
                    Combiner::Add => a + b,
                    Combiner::Sub => a - b,
                    Combiner::Mul => a * b,
                    Combiner::Div => a / b,
                    _ => b,
                }
            }
            fn zero() -> Complex<$t> { Complex::new(0.0, 0.0) }
            fn one() -> Complex<$t> { Complex::new(1.0, 0.0) }
            fn lowest() -> Complex<$t> { Complex::new($t::NEG_INFINITY, 0.0) }
            fn highest() -> Complex<$t> { Complex::new($t::INFINITY, 0.0) }
        }
    )*};
}

complexes!(f32, f64);

/// Runs `$e` with `$T` standing for the Rust type of a real computing type
/// ([`super::unary::compute_type`]); booleans are bytes.
macro_rules! dispatch_real {
    ($dtype:expr, $T:ident => $e:expr) => {
        crate::runtime::ops::scalar::dispatch_real!($dtype, $T => $e, {})
    };
    ($dtype:expr, $T:ident => $e:expr, {$($more:tt)*}) => {{
        use crate::runtime::DType as D;
        match $dtype {
            D::I8 => { type $T = i8; $e }
            D::I16 => { type $T = i16; $e }
            D::I32 => { type $T = i32; $e }
            D::I64 => { type $T = i64; $e }
            D::Bool | D::U8 => { type $T = u8; $e }
            D::U16 => { type $T = u16; $e }
            D::U32 => { type $T = u32; $e }
            D::U64 => { type $T = u64; $e }
            D::F16 => { type $T = half::f16; $e }
            D::BF16 => { type $T = half::bf16; $e }
            D::F32 => { type $T = f32; $e }
            D::F64 => { type $T = f64; $e }
            $($more)*
            other => Err(format!("is not defined for {other}")),
        }
    }};
}
pub(super) use dispatch_real;

/// [`dispatch_real`], and complex types.
macro_rules! dispatch {
    ($dtype:expr, $T:ident => $e:expr) => {
        crate::runtime::ops::scalar::dispatch_real!($dtype, $T => $e, {
            D::C32 => { type $T = num_complex::Complex<f32>; $e }
            D::C64 => { type $T = num_complex::Complex<f64>; $e }
        })
    };
}
pub(super) use dispatch;
