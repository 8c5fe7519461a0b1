//! Types in printed IR.

use std::sync::Arc;

use super::lexer::Tok;
use super::parser::{PResult, Parser};
use crate::ir::types::{Element, Extent, Float, FunctionType, ImageType, TensorType, Type};

impl<'a> Parser<'a> {
    /// Any type.
    pub(super) fn ty(&mut self) -> PResult<Type> {
        self.count_node(1)?;
        self.nested(Self::ty_inner)
    }

    fn ty_inner(&mut self) -> PResult<Type> {
        match self.tok {
            Tok::Ident("tensor") => self.tensor(),
            Tok::Ident(name @ ("none" | "memref" | "vector" | "tuple")) => {
                let from = self.start;
                self.advance()?;
                if name != "none" {
                    self.skip_balanced()?;
                }
                Ok(self.opaque_type(from))
            }
            Tok::Ident(_) => match self.element()? {
                Some(element) => Ok(Type::Scalar(element)),
                None => Err(self.wanted("a type")),
            },
            Tok::Bang("coreai.token") => {
                self.advance()?;
                Ok(Type::Token)
            }
            Tok::Bang("param.symbol") => {
                self.advance()?;
                Ok(Type::ParamSymbol)
            }
            Tok::Bang("coreai.handle") => {
                self.advance()?;
                self.handle_rest()
            }
            Tok::Bang("coreai.image") => self.image(),
            Tok::Bang(name) if name.contains('.') => {
                let from = self.start;
                self.advance()?;
                if self.is(b'<') && self.start == self.last {
                    self.skip_balanced()?;
                }
                Ok(self.opaque_type(from))
            }
            Tok::Bang(name) => {
                let ty = self.type_alias(name)?;
                self.advance()?;
                Ok(ty)
            }
            Tok::Punct(b'(') => {
                let inputs = self.type_list()?;
                if self.tok != Tok::Arrow {
                    return Err(self.wanted("`->`"));
                }
                self.advance()?;
                let results = if self.is(b'(') {
                    self.type_list()?
                } else {
                    vec![self.ty()?]
                };
                Ok(Type::Function(Arc::new(FunctionType { inputs, results })))
            }
            _ => Err(self.wanted("a type")),
        }
    }

    /// A type where `<…>` stands for a handle, as in the type lists of `read_handle`.
    pub(super) fn operand_type(&mut self) -> PResult<Type> {
        if self.is(b'<') {
            self.nested(Self::handle_rest)
        } else {
            self.ty()
        }
    }

    /// `(T, T)`.
    pub(super) fn type_list(&mut self) -> PResult<Vec<Type>> {
        self.expect(b'(')?;
        self.list(b')', Self::operand_type)
    }

    fn handle_rest(&mut self) -> PResult<Type> {
        self.expect(b'<')?;
        let inner = self.ty()?;
        self.expect(b'>')?;
        Ok(Type::handle(inner))
    }

    fn opaque_type(&self, from: usize) -> Type {
        Type::Opaque(Arc::from(&self.src()[from..self.last]))
    }

    /// A number type; `None` leaves the token.
    pub(super) fn element(&mut self) -> PResult<Option<Element>> {
        let Tok::Ident(name) = self.tok else {
            return Ok(None);
        };
        if name == "complex" {
            self.advance()?;
            self.expect(b'<')?;
            let Tok::Ident(name) = self.tok else {
                return Err(self.wanted("a floating-point type"));
            };
            let part =
                Float::from_name(name).ok_or_else(|| self.wanted("a floating-point type"))?;
            self.advance()?;
            self.expect(b'>')?;
            return Ok(Some(Element::Complex(part)));
        }
        let element = Element::from_name(name);
        if element.is_some() {
            self.advance()?;
        }
        Ok(element)
    }

    fn tensor(&mut self) -> PResult<Type> {
        let from = self.start;
        self.advance()?;
        if !self.is(b'<') {
            return Err(self.wanted("`<`"));
        }
        let open = self.start;
        self.advance()?;
        if self.is(b'*') {
            self.jump(open)?;
            self.skip_balanced()?;
            return Ok(self.opaque_type(from));
        }
        let dims = self.dims()?;
        let Some(element) = self.element()? else {
            // Elements of a dialect's own type.
            if let Tok::Bang(_) = self.tok {
                self.jump(open)?;
                self.skip_balanced()?;
                return Ok(self.opaque_type(from));
            }
            return Err(self.wanted("an element type"));
        };
        let encoding = if self.eat(b',')? {
            Some(self.attr()?)
        } else {
            None
        };
        self.expect(b'>')?;
        Ok(Type::Tensor(Arc::new(TensorType {
            dims,
            element,
            encoding,
        })))
    }

    /// `2x?x` at the current token; read from characters, because `0x1` is two extents here.
    fn dims(&mut self) -> PResult<Vec<Extent>> {
        let mut dims = Vec::new();
        let mut pos = self.start;
        let bytes = self.src().as_bytes();
        loop {
            let digits = bytes[pos..]
                .iter()
                .take_while(|b| b.is_ascii_digit())
                .count();
            if digits > 0 {
                let value = self.src()[pos..pos + digits].parse::<u64>();
                let value = value.ok().filter(|v| i64::try_from(*v).is_ok());
                dims.push(Some(value.ok_or_else(|| {
                    self.error(pos, "an extent below 2^63", "a larger number")
                })?));
                pos += digits;
            } else if bytes.get(pos) == Some(&b'?') {
                dims.push(None);
                pos += 1;
            } else {
                break;
            }
            if dims.len() > 64 {
                return Err(self.error(pos, "at most 64 extents", "more"));
            }
            if bytes.get(pos) != Some(&b'x') {
                return Err(self.error(pos, "`x` after an extent", "another character"));
            }
            pos += 1;
        }
        self.jump(pos)?;
        Ok(dims)
    }

    /// `!coreai.image<<k32BGRA> x 4 : i64 x 6 : i64>`.
    fn image(&mut self) -> PResult<Type> {
        self.advance()?;
        self.expect(b'<')?;
        let fourcc = self.fourcc_body()?;
        let extent = |p: &mut Self| -> PResult<u64> {
            p.expect_word("x")?;
            let Tok::Int(text) = p.tok else {
                return Err(p.wanted("an extent"));
            };
            let value = text.parse().map_err(|_| p.wanted("an extent below 2^64"))?;
            p.advance()?;
            if p.eat(b':')? {
                p.ty()?;
            }
            Ok(value)
        };
        let height = extent(self)?;
        let width = extent(self)?;
        let mut constraints = None;
        if self.eat(b',')? {
            self.expect_word("image_constraints")?;
            self.expect(b'=')?;
            constraints = Some(self.attr()?);
        }
        self.expect(b'>')?;
        Ok(Type::Image(Arc::new(ImageType {
            fourcc,
            height,
            width,
            constraints,
        })))
    }
}
