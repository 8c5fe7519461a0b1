//! Element types a tensor can have while a program runs.

use std::fmt;

use crate::ir::{Element, Float, Sign};

/// The element type of a [`super::Tensor`].
///
/// Every element lies on its own bytes: booleans and integers and floats below eight bits take one
/// byte each (a boolean is 0 or 1, signed integers carry their sign through the byte). Complex
/// numbers are the real part, then the imaginary part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DType {
    /// `bool`.
    Bool,
    /// Signed integer of 2 bits.
    I2,
    /// Signed integer of 4 bits.
    I4,
    /// Signed integer of 8 bits.
    I8,
    /// Signed integer of 16 bits.
    I16,
    /// Signed integer of 32 bits.
    I32,
    /// Signed integer of 64 bits.
    I64,
    /// Unsigned integer of 1 bits.
    U1,
    /// Unsigned integer of 2 bits.
    U2,
    /// Unsigned integer of 3 bits.
    U3,
    /// Unsigned integer of 4 bits.
    U4,
    /// Unsigned integer of 6 bits.
    U6,
    /// Unsigned integer of 8 bits.
    U8,
    /// Unsigned integer of 16 bits.
    U16,
    /// Unsigned integer of 32 bits.
    U32,
    /// Unsigned integer of 64 bits.
    U64,
    /// 4-bit float, one code per byte.
    F4E2M1,
    /// 8-bit float, IEEE-like.
    F8E5M2,
    /// 8-bit float without infinities.
    F8E4M3,
    /// 8-bit power of two.
    F8E8M0,
    /// IEEE half.
    F16,
    /// Upper half of an IEEE single.
    BF16,
    /// IEEE single.
    F32,
    /// IEEE double.
    F64,
    /// Complex of halves.
    C16,
    /// Complex of bfloat16.
    CBF16,
    /// Complex of singles.
    C32,
    /// Complex of doubles.
    C64,
}

/// Which arithmetic a type belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// `bool`.
    Bool,
    /// Integers, with their sign and the number of bits that count.
    Int { signed: bool, bits: u32 },
    /// Real floats.
    Float,
    /// Complex floats.
    Complex,
}

impl DType {
    /// Every type, for tables and tests.
    pub const ALL: [DType; 28] = {
        use DType::*;
        [
            Bool, I2, I4, I8, I16, I32, I64, U1, U2, U3, U4, U6, U8, U16, U32, U64, F4E2M1, F8E5M2,
            F8E4M3, F8E8M0, F16, BF16, F32, F64, C16, CBF16, C32, C64,
        ]
    };

    /// The name, as contracts write it (`float16`, `int4`, `bfloat16`).
    pub fn name(self) -> &'static str {
        use DType::*;
        match self {
            Bool => "bool",
            I2 => "int2",
            I4 => "int4",
            I8 => "int8",
            I16 => "int16",
            I32 => "int32",
            I64 => "int64",
            U1 => "uint1",
            U2 => "uint2",
            U3 => "uint3",
            U4 => "uint4",
            U6 => "uint6",
            U8 => "uint8",
            U16 => "uint16",
            U32 => "uint32",
            U64 => "uint64",
            F4E2M1 => "float4e2m1fn",
            F8E5M2 => "float8e5m2",
            F8E4M3 => "float8e4m3fn",
            F8E8M0 => "float8e8m0fn",
            F16 => "float16",
            BF16 => "bfloat16",
            F32 => "float32",
            F64 => "float64",
            C16 => "cfloat16",
            CBF16 => "cbfloat16",
            C32 => "cfloat32",
            C64 => "cfloat64",
        }
    }

    /// The type with this [`DType::name`].
    pub fn from_name(name: &str) -> Option<DType> {
        DType::ALL.into_iter().find(|d| d.name() == name)
    }

    /// Bytes of one element.
    pub fn size(self) -> usize {
        use DType::*;
        match self {
            I16 | U16 | F16 | BF16 => 2,
            I32 | U32 | F32 | C16 | CBF16 => 4,
            I64 | U64 | F64 | C32 => 8,
            C64 => 16,
            _ => 1,
        }
    }

    /// Which arithmetic applies.
    pub fn class(self) -> Class {
        use DType::*;
        let int = |signed, bits| Class::Int { signed, bits };
        match self {
            Bool => Class::Bool,
            I2 => int(true, 2),
            I4 => int(true, 4),
            I8 => int(true, 8),
            I16 => int(true, 16),
            I32 => int(true, 32),
            I64 => int(true, 64),
            U1 => int(false, 1),
            U2 => int(false, 2),
            U3 => int(false, 3),
            U4 => int(false, 4),
            U6 => int(false, 6),
            U8 => int(false, 8),
            U16 => int(false, 16),
            U32 => int(false, 32),
            U64 => int(false, 64),
            C16 | CBF16 | C32 | C64 => Class::Complex,
            _ => Class::Float,
        }
    }

    /// The type of the parts of a complex number; `None` for any other.
    pub fn part(self) -> Option<DType> {
        match self {
            DType::C16 => Some(DType::F16),
            DType::CBF16 => Some(DType::BF16),
            DType::C32 => Some(DType::F32),
            DType::C64 => Some(DType::F64),
            _ => None,
        }
    }

    /// Integers of fewer than eight bits.
    pub fn is_narrow_int(self) -> bool {
        matches!(self.class(), Class::Int { bits, .. } if bits < 8)
    }

    /// The small float formats, which are computed through single precision.
    pub fn small_float(self) -> Option<Float> {
        match self {
            DType::F4E2M1 => Some(Float::F4E2M1FN),
            DType::F8E5M2 => Some(Float::F8E5M2),
            DType::F8E4M3 => Some(Float::F8E4M3FN),
            DType::F8E8M0 => Some(Float::F8E8M0FNU),
            _ => None,
        }
    }

    /// The type for an element type of a program; `None` where no asset can hold it.
    pub fn from_element(element: Element) -> Option<DType> {
        use DType::*;
        Some(match element.as_saved() {
            Element::Bool => Bool,
            Element::Index => I64,
            Element::Int { sign, width } => match (sign, width) {
                (Sign::Signed, 2) => I2,
                (Sign::Signed, 4) => I4,
                (Sign::Signed, 8) => I8,
                (Sign::Signed, 16) => I16,
                (Sign::Signed, 32) => I32,
                (Sign::Signed, 64) => I64,
                (Sign::Unsigned | Sign::Signless, 1) => U1,
                (Sign::Unsigned | Sign::Signless, 2) => U2,
                (Sign::Unsigned | Sign::Signless, 3) => U3,
                (Sign::Unsigned | Sign::Signless, 4) => U4,
                (Sign::Unsigned | Sign::Signless, 6) => U6,
                (Sign::Unsigned | Sign::Signless, 8) => U8,
                (Sign::Unsigned | Sign::Signless, 16) => U16,
                (Sign::Unsigned | Sign::Signless, 32) => U32,
                (Sign::Unsigned | Sign::Signless, 64) => U64,
                _ => return None,
            },
            Element::Float(f) => match f {
                Float::F64 => F64,
                Float::F32 => F32,
                Float::F16 => F16,
                Float::Bf16 => BF16,
                Float::F8E5M2 => F8E5M2,
                Float::F8E4M3FN => F8E4M3,
                Float::F8E8M0FNU => F8E8M0,
                Float::F4E2M1FN => F4E2M1,
                Float::Tf32 => return None,
            },
            Element::Complex(f) => match f {
                Float::F64 => C64,
                Float::F32 => C32,
                Float::F16 => C16,
                Float::Bf16 => CBF16,
                _ => return None,
            },
        })
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
