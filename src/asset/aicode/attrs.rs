//! Attributes of the dialect.

use std::sync::Arc;

use super::types::extent;
use super::{hex, names, Decoder};
use crate::asset::cursor::{Cursor, MResult};
use crate::ir::{
    Attr, AttrDict, Blob, Composite, Dense, Element, Extent, Float, HwConstraints, KeywordSet,
    Payload, Sign, SparseEncoding, SymbolPath, Type,
};

/// Codes of the attributes this reader interprets.
mod code {
    pub(super) const STRING: u64 = 1;
    pub(super) const INTEGER: u64 = 2;
    pub(super) const FLOAT: u64 = 3;
    pub(super) const TYPE: u64 = 4;
    pub(super) const ARRAY: u64 = 5;
    pub(super) const DENSE: u64 = 6;
    pub(super) const RESOURCE: u64 = 7;
    pub(super) const NAMED: u64 = 9;
    pub(super) const HW_CONSTRAINTS: u64 = 12;
    pub(super) const SYMBOL: u64 = 14;
    pub(super) const PARAM_CONSTANT: u64 = 16;
    pub(super) const PADDING_MODE: u64 = 17;
    pub(super) const GELU: u64 = 19;
    pub(super) const SCATTER_MODE: u64 = 20;
    pub(super) const SPARSE: u64 = 21;
    pub(super) const SPARSE_BLOCKS: u64 = 23;
    pub(super) const SCAN: u64 = 25;
    pub(super) const IMAGE_CONSTRAINTS: u64 = 26;
    pub(super) const FOURCC: u64 = 27;
    pub(super) const COMPILATION: u64 = 28;
    pub(super) const TARGET_SPEC: u64 = 29;
    pub(super) const DEBUG_FILE: u64 = 30;
    pub(super) const DEBUG_POSITION: u64 = 31;
    pub(super) const INTERPOLATION: u64 = 43;
    pub(super) const LOCATION: u64 = 40;
    pub(super) const DICTIONARY: u64 = 45;
    pub(super) const UNIT: u64 = 46;
}

impl<'a> Decoder<'a> {
    pub(super) fn decode_attr(&mut self, c: &mut Cursor<'a>) -> MResult<Attr> {
        let code = c.varint()?;
        Ok(match code {
            code::STRING => Attr::String(self.text(c)?),
            code::INTEGER => integer(c)?,
            code::FLOAT => float(c)?,
            code::TYPE => Attr::Type(self.type_ref(c)?),
            code::ARRAY => Attr::Array(self.list(c, "attributes", Self::attr_ref)?),
            code::NAMED => self.named(c)?,
            code::DICTIONARY => {
                let count = c.count("entries")?;
                let mut dict = AttrDict::new();
                for _ in 0..count {
                    self.entry(c, &mut dict)?;
                }
                Attr::Dict(dict)
            }
            code::UNIT => Attr::Unit,
            code::SYMBOL => Attr::Symbol(SymbolPath(self.list(c, "names", Self::text)?)),
            code::PARAM_CONSTANT => {
                let value = self.attr_ref(c)?;
                self.type_ref(c)?;
                value
            }
            code::HW_CONSTRAINTS => {
                let alignments = self.per_dimension(c, "alignments", |_, c| extent(c))?;
                let interleave = self.per_dimension(c, "interleave factors", |_, c| extent(c))?;
                let backing = word(c, &["IOSurface", "MTLBuffer", "Heap"], 1)?;
                Attr::HwConstraints(HwConstraints {
                    backing,
                    alignments,
                    interleave,
                })
            }
            code::SPARSE | code::SPARSE_BLOCKS => {
                let scheme = word(c, &["bitmask", "coo", "csr", "csc", "bsr"], 0)?;
                let (position_width, coordinate_width) = (c.varint()?, c.varint()?);
                let non_zero = if c.bool()? { Some(c.varint()?) } else { None };
                let block_size = match code {
                    code::SPARSE => Vec::new(),
                    _ => self.per_dimension(c, "block extents", |_, c| c.varint())?,
                };
                Attr::Sparse(SparseEncoding {
                    scheme,
                    non_zero,
                    position_width,
                    coordinate_width,
                    block_size,
                })
            }
            code::PADDING_MODE => keyword(c, KeywordSet::PaddingMode)?,
            code::GELU => keyword(c, KeywordSet::GeluApproximation)?,
            code::SCATTER_MODE => keyword(c, KeywordSet::ScatterMode)?,
            code::SCAN => keyword(c, KeywordSet::ScanCombiner)?,
            code::INTERPOLATION => keyword(c, KeywordSet::InterpolationMode)?,
            code::COMPILATION => keyword(c, KeywordSet::Compilation)?,
            code::FOURCC => {
                let at = c.offset();
                let value = c.varint()?;
                Attr::FourCc(
                    u32::try_from(value).map_err(|_| {
                        c.error_at(at, "a pixel format of 32 bits", value.to_string())
                    })?,
                )
            }
            code::IMAGE_CONSTRAINTS => {
                let backing = word(c, &["CVPixelBuffer", "MTLTexture"], 1)?;
                let rows = self.per_dimension(c, "alignments", |_, c| extent(c))?;
                let rows: Vec<String> = rows
                    .iter()
                    .map(|e: &Extent| e.map_or("?".into(), |n| n.to_string()))
                    .collect();
                Attr::Opaque(format!(
                    "#coreaix.image_constraints<{backing}, rowAlignmentsPerPlane: [{}]>",
                    rows.join("x")
                ))
            }
            code::TARGET_SPEC => {
                let fields = [self.attr_ref(c)?, self.attr_ref(c)?, self.attr_ref(c)?];
                let [triple, soc, options] = fields;
                Attr::Opaque(format!(
                    "#coreai.target_spec<triple = {triple}, soc = {soc}, options = {options}>"
                ))
            }
            _ => {
                // Unknown codes, debug information and data outside constants are kept as they are.
                let rest = c.bytes(c.remaining())?;
                Attr::Opaque(format!("#aicode.unknown<{code}, \"{}\">", hex(rest)))
            }
        })
    }

    /// A name with one value, or with named entries: the declaration of a composite.
    fn named(&mut self, c: &mut Cursor<'a>) -> MResult<Attr> {
        let name = self.text(c)?;
        let limit = self.container.attribute_count();
        let values = self.list(c, "attributes", |_, c| {
            c.index(limit, "an attribute number")
        })?;
        if let [value] = values[..] {
            if self.attr_code(value) != Some(code::NAMED) {
                let value = self.attr(value)?;
                return Ok(Attr::Dict(AttrDict::from([(
                    names::attribute(&name),
                    value,
                )])));
            }
        }
        let mut attrs = AttrDict::new();
        for value in values {
            match self.attr(value)? {
                Attr::Dict(one) if self.attr_code(value) == Some(code::NAMED) => {
                    merge(c, c.offset(), &mut attrs, one)?;
                }
                _ => return Err(c.error("named entries of a composite", "another attribute")),
            }
        }
        Ok(Attr::Composite(Box::new(Composite { name, attrs })))
    }

    /// Adds the named entry that `c` refers to.
    fn entry(&mut self, c: &mut Cursor<'_>, dict: &mut AttrDict) -> MResult<()> {
        let at = c.offset();
        match self.attr_ref(c)? {
            Attr::Dict(one) => merge(c, at, dict, one),
            _ => Err(c.error_at(at, "a named entry", "another attribute")),
        }
    }

    /// An array of named entries as a dictionary.
    pub(super) fn entries(&mut self, c: &Cursor<'_>, attr: Attr) -> MResult<AttrDict> {
        let Attr::Array(list) = attr else {
            return Err(c.error("a list of named entries", "another attribute"));
        };
        let mut dict = AttrDict::new();
        for item in list {
            match item {
                Attr::Dict(one) => merge(c, c.offset(), &mut dict, one)?,
                _ => return Err(c.error("a named entry", "another attribute")),
            }
        }
        Ok(dict)
    }

    pub(super) fn fourcc(&mut self, c: &mut Cursor<'a>) -> MResult<u32> {
        let at = c.offset();
        match self.attr_ref(c)? {
            Attr::FourCc(code) => Ok(code),
            _ => Err(c.error_at(at, "a pixel format", "another attribute")),
        }
    }

    /// The data of a constant of type `ty`, from a reference to it.
    pub(super) fn constant(&mut self, c: &mut Cursor<'a>, ty: &Type) -> MResult<Dense> {
        let index = c.index(self.container.attribute_count(), "an attribute number")?;
        let known = (index, ty.clone());
        if let Some(payload) = self.constants.get(&known) {
            return Ok(Dense {
                ty: known.1,
                payload: payload.clone(),
            });
        }
        let mut c = self.container.body(self.container.attribute(index));
        let at = c.offset();
        let payload = match c.varint()? {
            code::DENSE => {
                let splat = c.bool()?;
                let length = c.length()?;
                let at = c.offset();
                let bytes = c.bytes(length)?;
                self.spend(length / 16, &c)?;
                inline(&c, at, ty, splat, bytes)?
            }
            code::RESOURCE => self.resource(&mut c)?,
            other => {
                let found = format!("an attribute of code {other}");
                return Err(c.error_at(at, "constant data (code 6 or 7)", found));
            }
        };
        c.finish("the constant data")?;
        self.constants.insert(known, payload.clone());
        Ok(Dense {
            ty: ty.clone(),
            payload,
        })
    }

    fn resource(&mut self, c: &mut Cursor<'a>) -> MResult<Payload> {
        let resources = &self.container.resources;
        let index = c.index(resources.len(), "a resource number")?;
        let data = if self.weights {
            let range = self.container.resource_data(&resources[index])?;
            Some(Blob::new(self.owner.clone(), range))
        } else {
            None
        };
        let key = self
            .keys
            .entry(index)
            .or_insert_with(|| resources[index].key.into());
        Ok(Payload::Resource {
            key: key.clone(),
            data,
        })
    }

    /// The code of an attribute, without decoding it; `None` where it is malformed.
    fn attr_code(&self, index: usize) -> Option<u64> {
        self.container
            .body(self.container.attribute(index))
            .varint()
            .ok()
    }

    /// The path in a debug file attribute, where it names a file; `None` for other attributes, and where
    /// the paths so far are longer than the file can mean.
    pub(crate) fn debug_file(&mut self, index: usize) -> Option<Arc<str>> {
        if self.attr_code(index) != Some(code::DEBUG_FILE) {
            return None;
        }
        if let Some(known) = self.files.get(&index) {
            return known.clone();
        }
        let path = self.debug_path(index);
        self.files.insert(index, path.clone());
        path
    }

    fn debug_path(&mut self, index: usize) -> Option<Arc<str>> {
        let mut c = self.container.body(self.container.attribute(index));
        if c.varint().ok()? != code::DEBUG_FILE {
            return None;
        }
        let name = self.container.string(&mut c).ok()?;
        let directory = self.container.string(&mut c).ok()?.trim_end_matches('/');
        self.spend((name.len() + directory.len()) / 16, &c).ok()?;
        match (name, directory) {
            ("" | "-", _) => None,
            (name, "") => Some(name.into()),
            (name, directory) => Some(format!("{directory}/{name}").into()),
        }
    }

    /// File, line and column of a location; `None` where it has none.
    pub(super) fn position(&mut self, index: usize) -> Option<(Arc<str>, u64, u64)> {
        let container = self.container;
        let attributes = container.attribute_count();
        let reference = |c: &mut Cursor<'a>| c.index(attributes, "an attribute number").ok();
        let mut c = container.body(container.attribute(index));
        let mut position = match c.varint().ok()? {
            code::LOCATION => container.body(container.attribute(reference(&mut c)?)),
            code::DEBUG_POSITION => container.body(container.attribute(index)),
            _ => return None,
        };
        if position.varint().ok()? != code::DEBUG_POSITION {
            return None;
        }
        let file = reference(&mut position)?;
        let place = (position.varint().ok()?, position.varint().ok()?);
        Some((self.debug_file(file)?, place.0, place.1))
    }
}

/// Adds entries to a dictionary, each name once: readers would not agree which of two counts.
fn merge(c: &Cursor<'_>, at: usize, dict: &mut AttrDict, entries: AttrDict) -> MResult<()> {
    for (name, value) in entries {
        if dict.contains_key(&name) {
            return Err(c.error_at(
                at,
                "attributes of different names",
                format!("two called {name:?}"),
            ));
        }
        dict.insert(name, value);
    }
    Ok(())
}

/// A keyword by its code.
fn keyword(c: &mut Cursor<'_>, set: KeywordSet) -> MResult<Attr> {
    Ok(Attr::keyword(set, word(c, set.words(), 0)?))
}

/// The word of a code, the first of which is `base`.
fn word(c: &mut Cursor<'_>, words: &[&str], base: u64) -> MResult<String> {
    let at = c.offset();
    let code = c.varint()?;
    let index = code.checked_sub(base).and_then(|i| usize::try_from(i).ok());
    index
        .and_then(|i| words.get(i))
        .map(|w| w.to_string())
        .ok_or_else(|| {
            c.error_at(
                at,
                format!("a code of one of {}", words.join(", ")),
                code.to_string(),
            )
        })
}

/// The bits of a number of `width` bits: a byte up to eight, then signed varints.
fn bits(c: &mut Cursor<'_>, width: u64) -> MResult<i128> {
    Ok(match width {
        0..=8 => i128::from(c.byte()? as i8),
        9..=64 => i128::from(c.signed()?),
        _ => {
            let at = c.offset();
            let words = c.count("words")?;
            let mut value = 0i128;
            for i in 0..words {
                let word = c.signed()?;
                match i {
                    0 => value = i128::from(word as u64),
                    1 => value |= i128::from(word) << 64,
                    _ => return Err(c.error_at(at, "a number of at most 128 bits", "a wider one")),
                }
            }
            value
        }
    })
}

fn integer(c: &mut Cursor<'_>) -> MResult<Attr> {
    let at = c.offset();
    let width = c.varint()?;
    let Some(width) = u16::try_from(width).ok().filter(|w| (1..=128).contains(w)) else {
        return Err(c.error_at(at, "a width of 1 to 128 bits", width.to_string()));
    };
    let unsigned = c.bool()?;
    let raw = bits(c, width.into())?;
    if width == 1 {
        return Ok(Attr::Bool(raw & 1 == 1));
    }
    let mask = if width == 128 {
        -1
    } else {
        (1i128 << width) - 1
    };
    let value = if unsigned { raw & mask } else { raw };
    let sign = if unsigned {
        Sign::Unsigned
    } else {
        Sign::Signed
    };
    Ok(Attr::Int {
        value,
        ty: Element::Int { sign, width },
    })
}

fn float(c: &mut Cursor<'_>) -> MResult<Attr> {
    let at = c.offset();
    let width = c.varint()?;
    // The kind is not stored: of the formats of one width, one stands for all.
    let kind = match width {
        64 => Float::F64,
        32 => Float::F32,
        19 => Float::Tf32,
        16 => Float::F16,
        8 => Float::F8E4M3FN,
        4 => Float::F4E2M1FN,
        _ => {
            return Err(c.error_at(
                at,
                "a float of 4, 8, 16, 19, 32 or 64 bits",
                width.to_string(),
            ))
        }
    };
    let mask = if width == 64 {
        u64::MAX
    } else {
        (1 << width) - 1
    };
    Ok(Attr::Float {
        bits: bits(c, width)? as u64 & mask,
        kind,
    })
}

/// Inline data: every element on its own bytes, but for `ui1`, which is packed.
fn inline(c: &Cursor<'_>, at: usize, ty: &Type, splat: bool, bytes: &[u8]) -> MResult<Payload> {
    let Some(tensor) = ty.as_tensor() else {
        return Err(c.error_at(at, "data of a tensor", format!("a constant of type {ty}")));
    };
    let size = tensor.element.bytes();
    let count = tensor.elements().and_then(|n| usize::try_from(n).ok());
    let total = count.and_then(|n| n.checked_mul(size));
    let wrong = |expected: String| Err(c.error_at(at, expected, format!("{} bytes", bytes.len())));
    let (Some(count), Some(total)) = (count, total) else {
        return wrong(format!("data of a static shape, for {ty}"));
    };
    if tensor.element == Element::ui(1) {
        if splat && !bytes.is_empty() {
            return Ok(Payload::Splat([bytes[0] & 1].into()));
        }
        if bytes.len() != count.div_ceil(8) {
            return wrong(format!("{} bytes for {ty}", count.div_ceil(8)));
        }
        let elements = (0..count).map(|i| bytes[i / 8] >> (i % 8) & 1).collect();
        return Ok(Payload::from_elements(elements, 1));
    }
    // Booleans are written in full even when splat.
    if splat && bytes.len() == size && count > 0 {
        return Ok(Payload::Splat(low_bits(tensor.element, bytes).into()));
    }
    if bytes.len() != total || (splat && tensor.element != Element::Bool) {
        let expected = if splat { size } else { total };
        return wrong(format!("{expected} bytes for {ty}"));
    }
    Ok(Payload::from_elements(
        low_bits(tensor.element, bytes),
        size,
    ))
}

/// The significant bits of elements below eight bits; a boolean is 0 or 1.
fn low_bits(element: Element, bytes: &[u8]) -> Vec<u8> {
    let width = match element {
        Element::Bool => return bytes.iter().map(|b| u8::from(*b != 0)).collect(),
        Element::Complex(_) => 8,
        other => other.width(),
    };
    let mask = if width < 8 { (1u8 << width) - 1 } else { 0xff };
    bytes.iter().map(|b| b & mask).collect()
}
