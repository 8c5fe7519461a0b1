//! Types of the dialect.

use std::sync::Arc;

use super::{hex, Decoder};
use crate::asset::cursor::{Cursor, MResult};
use crate::ir::{Element, Extent, Float, FunctionType, ImageType, Sign, TensorType, Type};

/// An extent that is not known: the smallest 64-bit number.
const DYNAMIC: i64 = i64::MIN;

impl<'a> Decoder<'a> {
    pub(super) fn decode_type(&mut self, c: &mut Cursor<'a>) -> MResult<Type> {
        let code = c.varint()?;
        Ok(match code {
            2 | 3 => {
                let dims = self.per_dimension(c, "extents", |_, c| extent(c))?;
                let place = c.offset();
                let element = match self.type_ref(c)? {
                    Type::Scalar(element) => element,
                    other => {
                        let found = format!("the type {other}");
                        return Err(c.error_at(place, "an element type", found));
                    }
                };
                let encoding = if code == 3 {
                    Some(self.attr_ref(c)?)
                } else {
                    None
                };
                Type::Tensor(Arc::new(TensorType {
                    dims,
                    element,
                    encoding,
                }))
            }
            30 => {
                // Results come first.
                let results = self.list(c, "types", Self::type_ref)?;
                let inputs = self.list(c, "types", Self::type_ref)?;
                Type::Function(Arc::new(FunctionType { inputs, results }))
            }
            31 => Type::handle(self.type_ref(c)?),
            32 => Type::Token,
            33 => Type::ParamSymbol,
            39 | 40 => {
                let fourcc = self.fourcc(c)?;
                let (height, width) = (c.varint()?, c.varint()?);
                let constraints = if code == 40 {
                    Some(self.attr_ref(c)?)
                } else {
                    None
                };
                Type::Image(Arc::new(ImageType {
                    fourcc,
                    height,
                    width,
                    constraints,
                }))
            }
            _ => match scalar(code) {
                Some(element) => Type::Scalar(element),
                // Unknown codes are kept; whoever needs their meaning says so.
                None => {
                    let rest = c.bytes(c.remaining())?;
                    let text = format!("!aicode.unknown<{code}, \"{}\">", hex(rest));
                    Type::Opaque(text.into())
                }
            },
        })
    }
}

/// A dynamic extent is the smallest number; every other is not negative.
pub(super) fn extent(c: &mut Cursor<'_>) -> MResult<Extent> {
    let at = c.offset();
    match c.signed()? {
        DYNAMIC => Ok(None),
        n => match u64::try_from(n) {
            Ok(n) => Ok(Some(n)),
            Err(_) => Err(c.error_at(at, "an extent of 0 or more", n.to_string())),
        },
    }
}

fn scalar(code: u64) -> Option<Element> {
    let float = |f| Some(Element::Float(f));
    let complex = |f| Some(Element::Complex(f));
    match code {
        4 => Some(Element::Bool),
        5 => float(Float::F64),
        6 => float(Float::F32),
        7 => float(Float::F16),
        8 => float(Float::Bf16),
        9 => float(Float::F8E5M2),
        10 => float(Float::F8E4M3FN),
        11 => complex(Float::F64),
        12 => complex(Float::F32),
        13 => complex(Float::F16),
        14 => complex(Float::Bf16),
        15 => complex(Float::F8E5M2),
        16 => complex(Float::F8E4M3FN),
        17..=22 => Some(Element::si([64, 32, 16, 8, 4, 2][code as usize - 17])),
        23..=29 => Some(Element::ui([64, 32, 16, 8, 4, 2, 1][code as usize - 23])),
        36 => Some(Element::Int {
            sign: Sign::Unsigned,
            width: 6,
        }),
        37 => Some(Element::Int {
            sign: Sign::Unsigned,
            width: 3,
        }),
        46 => float(Float::F4E2M1FN),
        47 => float(Float::F8E8M0FNU),
        _ => None,
    }
}
