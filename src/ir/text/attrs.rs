//! Attributes in printed IR.

use super::lexer::Tok;
use super::parser::{PResult, Parser};
use crate::ir::attr::{Attr, AttrDict, Composite, HwConstraints, KeywordSet, SparseEncoding};
use crate::ir::numeric;
use crate::ir::types::{Element, Extent, Float, Sign, Type};

impl<'a> Parser<'a> {
    /// Any attribute.
    pub(super) fn attr(&mut self) -> PResult<Attr> {
        self.count_node(1)?;
        self.nested(Self::attr_inner)
    }

    fn attr_inner(&mut self) -> PResult<Attr> {
        match self.tok {
            Tok::Hash(name) if name.contains('.') => self.dialect_attr(name),
            Tok::Hash(name) => {
                let attr = self.attr_alias(name)?;
                self.advance()?;
                Ok(attr)
            }
            Tok::Str(_) => {
                let text = self.string()?;
                if self.eat(b':')? {
                    self.ty()?;
                }
                Ok(Attr::String(text))
            }
            Tok::Int(_) | Tok::Float(_) | Tok::Punct(b'-') => self.number(),
            Tok::Punct(b'[') => {
                self.advance()?;
                Ok(Attr::Array(self.list(b']', Self::attr)?))
            }
            Tok::Punct(b'{') => Ok(Attr::Dict(self.dict()?)),
            Tok::At(..) => Ok(Attr::Symbol(self.symbol_path()?)),
            Tok::Ident("unit") => self.word(Attr::Unit),
            Tok::Ident("true") => self.word(Attr::Bool(true)),
            Tok::Ident("false") => self.word(Attr::Bool(false)),
            Tok::Ident("dense" | "dense_resource") => self.dense(),
            Tok::Ident(
                "array" | "sparse" | "strided" | "affine_map" | "affine_set" | "distinct",
            ) => self.opaque_builtin(),
            Tok::Ident("loc") => {
                let from = self.start;
                self.location()?;
                Ok(Attr::Opaque(self.src()[from..self.last].to_string()))
            }
            Tok::Ident(_) | Tok::Bang(_) | Tok::Punct(b'(') => Ok(Attr::Type(self.ty()?)),
            _ => Err(self.wanted("an attribute")),
        }
    }

    fn word(&mut self, attr: Attr) -> PResult<Attr> {
        self.advance()?;
        Ok(attr)
    }

    fn opaque_builtin(&mut self) -> PResult<Attr> {
        let from = self.start;
        self.advance()?;
        if self.is(b'[') {
            self.skip_balanced()?;
        }
        if !self.is(b'<') {
            return Err(self.wanted("`<`"));
        }
        self.skip_balanced()?;
        if self.is(b':') {
            self.advance()?;
            self.ty()?;
        }
        Ok(Attr::Opaque(self.src()[from..self.last].to_string()))
    }

    /// A name before `=` or `:`; bare or quoted.
    pub(super) fn key(&mut self) -> PResult<String> {
        match self.tok {
            Tok::Ident(name) => {
                self.advance()?;
                Ok(name.to_string())
            }
            Tok::Str(_) => self.string(),
            _ => Err(self.wanted("an attribute name")),
        }
    }

    /// `{a = 1 : i32, b}`.
    pub(super) fn dict(&mut self) -> PResult<AttrDict> {
        self.expect(b'{')?;
        let mut dict = AttrDict::new();
        self.list(b'}', |p| {
            p.count_node(1)?;
            let at = p.start;
            let key = p.key()?;
            let value = if p.eat(b'=')? { p.attr()? } else { Attr::Unit };
            match dict.insert(key, value) {
                None => Ok(()),
                Some(_) => Err(p.error(at, "each attribute name once", "one given twice")),
            }
        })?;
        Ok(dict)
    }

    /// A number with its optional type: `-1 : si64`, `0x7FC00000 : f32`, `1.5`.
    fn number(&mut self) -> PResult<Attr> {
        let at = self.start;
        let negative = self.eat(b'-')?;
        let tok = self.advance()?;
        let ty = if self.eat(b':')? {
            Some(self.ty()?)
        } else {
            None
        };
        let wrong = |p: &Self, what: &str| p.error(at, what, "a number that does not fit it");
        match (tok, ty) {
            (Tok::Int(text), Some(Type::Scalar(Element::Float(kind)))) => {
                let hex = text.strip_prefix("0x").filter(|_| !negative);
                let bits = hex.and_then(|h| u64::from_str_radix(h, 16).ok());
                let fits =
                    |b: &u64| kind.width() == 64 || kind == Float::Tf32 || b >> kind.width() == 0;
                match bits.filter(fits) {
                    Some(bits) => Ok(Attr::Float { bits, kind }),
                    None => Err(wrong(self, "a decimal number or a hexadecimal bit pattern")),
                }
            }
            (Tok::Int(text), ty) => {
                let element = match ty {
                    None => Element::Int {
                        sign: Sign::Signless,
                        width: 64,
                    },
                    Some(Type::Scalar(e @ (Element::Int { .. } | Element::Index))) => e,
                    Some(Type::Scalar(Element::Bool)) => Element::Bool,
                    Some(_) => return Err(wrong(self, "an integer type")),
                };
                let value =
                    integer(negative, text).ok_or_else(|| wrong(self, "an integer of 127 bits"))?;
                if element == Element::Bool {
                    return Ok(Attr::Bool(value != 0));
                }
                if numeric::int_bytes(element, value).is_none() {
                    return Err(wrong(self, &format!("a value of {} bits", element.width())));
                }
                Ok(Attr::Int { value, ty: element })
            }
            (Tok::Float(text), ty) => {
                let kind = match ty {
                    None => Float::F64,
                    Some(Type::Scalar(Element::Float(kind))) => kind,
                    Some(_) => return Err(wrong(self, "a floating-point type")),
                };
                let sign = if negative { "-" } else { "" };
                let bits = numeric::float_bits(kind, &format!("{sign}{text}"));
                bits.map(|bits| Attr::Float { bits, kind })
                    .ok_or_else(|| wrong(self, "a number"))
            }
            _ => Err(self.error(at, "a number", "something else")),
        }
    }

    // --- dialect attributes -------------------------------------------------------------------

    fn dialect_attr(&mut self, name: &'a str) -> PResult<Attr> {
        let from = self.start;
        if let Some(set) = KeywordSet::ALL.into_iter().find(|s| s.mnemonic() == name) {
            self.advance()?;
            return self.keyword_body(set);
        }
        match name {
            "coreaix.hw_constraints" => {
                self.advance()?;
                self.hw_constraints()
            }
            "coreai.sparse_tensor_encoding" => {
                self.advance()?;
                self.sparse()
            }
            "coreai.composite_declaration" => {
                self.advance()?;
                self.expect(b'<')?;
                let name = self.string()?;
                self.expect(b'=')?;
                let attrs = self.dict()?;
                self.expect(b'>')?;
                Ok(Attr::Composite(Box::new(Composite { name, attrs })))
            }
            "coreai.fourcc" => {
                self.advance()?;
                Ok(Attr::FourCc(self.fourcc_body()?))
            }
            "param.constant" => {
                self.advance()?;
                self.expect(b'<')?;
                let inner = self.attr()?;
                self.expect(b'>')?;
                if self.eat(b':')? {
                    self.ty()?;
                }
                match inner {
                    Attr::Symbol(_) => Ok(inner),
                    _ => Ok(Attr::Opaque(self.src()[from..self.last].to_string())),
                }
            }
            _ => {
                self.advance()?;
                if self.is(b'<') && self.start == self.last {
                    self.skip_balanced()?;
                }
                // An attribute of an unknown kind may state its type.
                if self.eat(b':')? {
                    self.ty()?;
                }
                Ok(Attr::Opaque(self.src()[from..self.last].to_string()))
            }
        }
    }

    /// `<constant>`, of a known set of words; a word outside the set is kept.
    pub(super) fn keyword_body(&mut self, set: KeywordSet) -> PResult<Attr> {
        self.expect(b'<')?;
        let Tok::Ident(word) = self.tok else {
            return Err(self.wanted(&format!("one of {}", set.words().join(", "))));
        };
        self.advance()?;
        self.expect(b'>')?;
        Ok(Attr::keyword(set, word))
    }

    /// `<k32BGRA>` or `<1234>`.
    pub(super) fn fourcc_body(&mut self) -> PResult<u32> {
        self.expect(b'<')?;
        let known = match self.tok {
            Tok::Ident(word) => crate::ir::print::FOURCC
                .iter()
                .find(|(w, _)| *w == word)
                .map(|(_, c)| *c),
            Tok::Int(text) => text.parse().ok(),
            Tok::Str(text) if text.len() == 4 && text.is_ascii() => {
                Some(text.bytes().fold(0, |code, b| code << 8 | u32::from(b)))
            }
            _ => None,
        };
        let code = known.ok_or_else(|| {
            self.wanted("a pixel format: a known word, four characters or a number")
        })?;
        self.advance()?;
        self.expect(b'>')?;
        Ok(code)
    }

    /// `1x?x32`, read from characters; ends before the first other one.
    fn extents(&mut self) -> PResult<Vec<Extent>> {
        let bytes = self.src().as_bytes();
        let mut pos = self.start;
        let mut extents = Vec::new();
        loop {
            let digits = bytes[pos..]
                .iter()
                .take_while(|b| b.is_ascii_digit())
                .count();
            if digits > 0 {
                let value = self.src()[pos..pos + digits].parse::<u64>();
                extents.push(Some(value.map_err(|_| {
                    self.error(pos, "a number below 2^64", "a larger one")
                })?));
                pos += digits;
            } else if bytes.get(pos) == Some(&b'?') {
                extents.push(None);
                pos += 1;
            } else if extents.is_empty() {
                break;
            } else {
                return Err(self.error(pos, "a number or `?` after `x`", "another character"));
            }
            if bytes.get(pos) == Some(&b'x') {
                pos += 1;
            } else {
                break;
            }
        }
        self.jump(pos)?;
        Ok(extents)
    }

    /// `<IOSurface, alignments: [1x1x32x1], interleave: [1x1x1]>`.
    fn hw_constraints(&mut self) -> PResult<Attr> {
        self.expect(b'<')?;
        let Tok::Ident(backing) = self.tok else {
            return Err(self.wanted("a backing store"));
        };
        self.advance()?;
        let field = |p: &mut Self, name: &str| -> PResult<Vec<Extent>> {
            p.expect(b',')?;
            p.expect_word(name)?;
            p.expect(b':')?;
            p.expect(b'[')?;
            let list = p.extents()?;
            p.expect(b']')?;
            Ok(list)
        };
        let alignments = field(self, "alignments")?;
        let interleave = field(self, "interleave")?;
        self.expect(b'>')?;
        Ok(Attr::HwConstraints(HwConstraints {
            backing: backing.to_string(),
            alignments,
            interleave,
        }))
    }

    /// `<bitmask, numNonZero = 3, posWidth = 1, crdWidth = 1>`.
    fn sparse(&mut self) -> PResult<Attr> {
        self.expect(b'<')?;
        let Tok::Ident(scheme) = self.tok else {
            return Err(self.wanted("a sparse scheme"));
        };
        let mut sparse = SparseEncoding {
            scheme: scheme.to_string(),
            non_zero: None,
            position_width: 0,
            coordinate_width: 0,
            block_size: Vec::new(),
        };
        self.advance()?;
        let number = |p: &mut Self| -> PResult<u64> {
            let Tok::Int(text) = p.tok else {
                return Err(p.wanted("a number"));
            };
            let value = text.parse().map_err(|_| p.wanted("a number below 2^64"))?;
            p.advance()?;
            Ok(value)
        };
        while self.eat(b',')? {
            let Tok::Ident(field) = self.tok else {
                return Err(self.wanted("a field name"));
            };
            self.advance()?;
            self.expect(b'=')?;
            match field {
                "numNonZero" => sparse.non_zero = Some(number(self)?),
                "posWidth" => sparse.position_width = number(self)?,
                "crdWidth" => sparse.coordinate_width = number(self)?,
                "blockSize" => {
                    self.expect(b'[')?;
                    sparse.block_size = self.list(b']', number)?;
                }
                _ => return Err(self.wanted("numNonZero, posWidth, crdWidth or blockSize")),
            }
        }
        self.expect(b'>')?;
        Ok(Attr::Sparse(sparse))
    }
}

/// The value of an integer token.
pub(super) fn integer(negative: bool, text: &str) -> Option<i128> {
    let magnitude = match text.strip_prefix("0x") {
        Some(hex) => i128::from_str_radix(hex, 16).ok()?,
        None => text.parse::<i128>().ok()?,
    };
    Some(if negative { -magnitude } else { magnitude })
}
