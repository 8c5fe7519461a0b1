//! Constant data in printed IR.

use std::sync::Arc;

use super::attrs::integer;
use super::lexer::Tok;
use super::parser::{PResult, Parser};
use crate::ir::attr::{Attr, Dense, Payload};
use crate::ir::numeric;
use crate::ir::types::{Element, Float, TensorType, Type};

/// The bytes of a run of hexadecimal digits.
pub(super) fn hex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) {
        return None;
    }
    let digit = |b: u8| (b as char).to_digit(16).map(|d| d as u8);
    text.as_bytes()
        .chunks_exact(2)
        .map(|c| Some(digit(c[0])? << 4 | digit(c[1])?))
        .collect()
}

impl<'a> Parser<'a> {
    /// `dense<…> : T` or `dense_resource<…> : T`.
    pub(super) fn dense(&mut self) -> PResult<Attr> {
        let resource = self.is_word("dense_resource");
        self.advance()?;
        self.expect(b'<')?;
        if resource {
            let key = self.key()?;
            self.expect(b'>')?;
            self.expect(b':')?;
            let ty = self.ty()?;
            let payload = if key == "__elided__" {
                Payload::Elided
            } else {
                Payload::Resource {
                    key: Arc::from(key),
                    data: None,
                }
            };
            return Ok(Attr::Dense(Dense { ty, payload }));
        }
        // The element type comes last; pass over the data once to learn it.
        let data = self.start;
        let mut depth = 0usize;
        loop {
            match self.tok {
                Tok::Punct(b'[' | b'(') => depth += 1,
                Tok::Punct(b']' | b')') => {
                    depth = depth
                        .checked_sub(1)
                        .ok_or_else(|| self.wanted("brackets in pairs"))?;
                }
                Tok::Punct(b'>') if depth == 0 => break,
                Tok::Punct(b',' | b'-') | Tok::Int(_) | Tok::Float(_) | Tok::Str(_) => {}
                Tok::Ident("true" | "false" | "__elided__") => {}
                _ => {
                    return Err(self.wanted("numbers, `true`, `false`, a hexadecimal string or `>`"))
                }
            }
            self.advance()?;
        }
        self.advance()?;
        self.expect(b':')?;
        let ty = self.ty()?;
        let after = self.last;
        let Some(tensor) = ty.as_tensor().cloned() else {
            return Err(self.error(data, "constant data of a tensor type", "another type"));
        };
        if matches!(tensor.element, Element::Int { width, .. } if width > 128) {
            return Err(self.error(
                data,
                "integers of at most 128 bits",
                tensor.element.to_string(),
            ));
        }
        if tensor.dims.contains(&None) {
            return Err(self.error(data, "constant data of a static shape", "a dynamic one"));
        }
        self.jump(data)?;
        let payload = self.dense_data(&tensor)?;
        if !self.is(b'>') {
            return Err(self.wanted("`>`"));
        }
        self.jump(after)?;
        Ok(Attr::Dense(Dense { ty, payload }))
    }

    fn dense_data(&mut self, ty: &TensorType) -> PResult<Payload> {
        let size = ty.element.bytes();
        match self.tok {
            Tok::Punct(b'>') if ty.elements() == Some(0) => Ok(Payload::Elements(Arc::from([]))),
            Tok::Ident("__elided__") => {
                self.advance()?;
                Ok(Payload::Elided)
            }
            Tok::Str(text) => {
                let bytes = text.strip_prefix("0x").and_then(hex);
                let bytes = bytes.ok_or_else(|| self.wanted("a hexadecimal string `\"0x…\"`"))?;
                let n = ty.elements().and_then(|n| usize::try_from(n).ok());
                let whole = n.and_then(|n| n.checked_mul(size));
                if ty.element != Element::Bool && bytes.len() == size && n != Some(0) {
                    self.advance()?;
                    return Ok(Payload::Splat(bytes.into()));
                }
                // Booleans are one bit each here, first in the lowest bit.
                let elements = if ty.element == Element::Bool
                    && n.is_some_and(|n| bytes.len() == n.div_ceil(8))
                {
                    (0..n.unwrap_or(0))
                        .map(|i| bytes[i / 8] >> (i % 8) & 1)
                        .collect()
                } else if Some(bytes.len()) == whole {
                    bytes
                } else {
                    return Err(self.wanted("as many bytes as the type needs"));
                };
                self.advance()?;
                Ok(Payload::from_elements(elements, size))
            }
            Tok::Punct(b'[') => {
                let at = self.start;
                let mut bytes = Vec::new();
                self.dense_list(ty.element, &ty.dims, &mut bytes)?;
                let expected = ty
                    .elements()
                    .and_then(|n| usize::try_from(n).ok()?.checked_mul(size));
                if expected != Some(bytes.len()) {
                    return Err(self.error(at, "a list of the shape of the type", "another"));
                }
                Ok(Payload::from_elements(bytes, size))
            }
            _ => {
                let mut bytes = Vec::new();
                self.dense_element(ty.element, &mut bytes)?;
                Ok(Payload::Splat(bytes.into()))
            }
        }
    }

    fn dense_list(
        &mut self,
        element: Element,
        dims: &[Option<u64>],
        out: &mut Vec<u8>,
    ) -> PResult<()> {
        let Some((extent, inner)) = dims.split_first() else {
            return self.dense_element(element, out);
        };
        let at = self.start;
        self.nested(|p| {
            p.expect(b'[')?;
            let n = p.list(b']', |p| p.dense_list(element, inner, out))?.len();
            if Some(n as u64) != *extent {
                let expected = extent.map_or("a static extent".into(), |e| format!("{e} entries"));
                return Err(p.error(at, &expected, format!("{n}")));
            }
            Ok(())
        })
    }

    fn dense_element(&mut self, element: Element, out: &mut Vec<u8>) -> PResult<()> {
        match element {
            Element::Complex(part) => {
                self.expect(b'(')?;
                self.float_element(part, out)?;
                self.expect(b',')?;
                self.float_element(part, out)?;
                self.expect(b')')
            }
            Element::Float(kind) => self.float_element(kind, out),
            _ => {
                let value = match self.tok {
                    Tok::Ident("true") => Some(1),
                    Tok::Ident("false") => Some(0),
                    _ => {
                        let negative = self.eat(b'-')?;
                        match self.tok {
                            Tok::Int(text) => integer(negative, text),
                            _ => None,
                        }
                    }
                };
                let bytes = value.and_then(|v| numeric::int_bytes(element, v));
                out.extend(bytes.ok_or_else(|| self.wanted("an integer of the element type"))?);
                self.advance()?;
                Ok(())
            }
        }
    }

    fn float_element(&mut self, kind: Float, out: &mut Vec<u8>) -> PResult<()> {
        let negative = self.eat(b'-')?;
        let bits = match self.tok {
            Tok::Float(text) => {
                let sign = if negative { "-" } else { "" };
                numeric::float_bits(kind, &format!("{sign}{text}"))
            }
            Tok::Int(text) => match text.strip_prefix("0x") {
                Some(hex) => u64::from_str_radix(hex, 16).ok(),
                None => None,
            },
            _ => None,
        };
        let bits =
            bits.ok_or_else(|| self.wanted("a decimal number or a hexadecimal bit pattern"))?;
        out.extend(numeric::bits_bytes(kind, bits));
        self.advance()?;
        Ok(())
    }
}

/// The type of the value a constant defines.
pub(super) fn constant_type(attr: &Attr) -> Option<&Type> {
    match attr {
        Attr::Dense(d) => Some(&d.ty),
        _ => None,
    }
}
