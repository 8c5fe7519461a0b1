//! Printing in the vendor's syntax. What is printed here reads back to the same thing.

mod module;
mod names;

use std::fmt::{self, Display, Formatter, Write};

pub use module::PrintOptions;

use super::attr::{Attr, AttrDict, Dense, Payload};
use super::numeric;
use super::types::{Element, Extent, Sign, SymbolPath, TensorType, Type};

/// Pixel formats with a word of their own, and their codes.
pub(crate) const FOURCC: &[(&str, u32)] = &[
    ("k24RGB", 24),
    ("k32ARGB", 32),
    ("k32BGRA", 0x4247_5241),
    ("k420YpCbCr8Planar", 0x7934_3230),
];

/// Lists longer than this are printed as hexadecimal strings.
const HEX_ABOVE: usize = 100;

/// Whether a name can stand without quotes.
pub(super) fn is_bare(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes
        .next()
        .is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$' | b'.'))
}

/// A string in quotes, everything but printable ASCII as `\HH`.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for b in text.bytes() {
        match b {
            b'\\' => out.push_str("\\\\"),
            b' '..=b'~' if b != b'"' => out.push(b as char),
            _ => {
                out.push('\\');
                for nibble in [b >> 4, b & 15] {
                    out.push(
                        char::from_digit(nibble.into(), 16)
                            .unwrap_or('0')
                            .to_ascii_uppercase(),
                    );
                }
            }
        }
    }
    out.push('"');
    out
}

/// `@name` or `@"na me"`.
pub(super) fn symbol(name: &str) -> String {
    if is_bare(name) {
        format!("@{name}")
    } else {
        format!("@{}", quoted(name))
    }
}

/// `@outer::@inner`.
pub(super) fn symbol_path(path: &SymbolPath) -> String {
    path.0
        .iter()
        .map(|s| symbol(s))
        .collect::<Vec<_>>()
        .join("::")
}

/// Writes items with `, ` between them.
pub(super) fn join<T>(
    out: &mut dyn Write,
    items: impl IntoIterator<Item = T>,
    mut each: impl FnMut(&mut dyn Write, T) -> fmt::Result,
) -> fmt::Result {
    for (i, item) in items.into_iter().enumerate() {
        if i > 0 {
            out.write_str(", ")?;
        }
        each(out, item)?;
    }
    Ok(())
}

impl Display for Element {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Element::Bool => f.write_str("i1"),
            Element::Int {
                sign: Sign::Signed,
                width,
            } => write!(f, "si{width}"),
            Element::Int {
                sign: Sign::Unsigned,
                width,
            } => write!(f, "ui{width}"),
            Element::Int {
                sign: Sign::Signless,
                width,
            } => write!(f, "i{width}"),
            Element::Float(kind) => f.write_str(kind.name()),
            Element::Complex(kind) => write!(f, "complex<{}>", kind.name()),
            Element::Index => f.write_str("index"),
        }
    }
}

fn extents(dims: &[Extent]) -> String {
    let each = |d: &Extent| d.map_or("?".to_string(), |n| n.to_string());
    dims.iter().map(each).collect::<Vec<_>>().join("x")
}

impl Display for TensorType {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "tensor<{}", extents(&self.dims))?;
        if !self.dims.is_empty() {
            f.write_char('x')?;
        }
        write!(f, "{}", self.element)?;
        if let Some(encoding) = &self.encoding {
            write!(f, ", {encoding}")?;
        }
        f.write_char('>')
    }
}

impl Display for Type {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Type::Tensor(t) => t.fmt(f),
            Type::Handle(inner) => write!(f, "!coreai.handle<{inner}>"),
            Type::Token => f.write_str("!coreai.token"),
            Type::Image(image) => {
                f.write_str("!coreai.image<")?;
                fourcc(f, image.fourcc)?;
                write!(f, " x {} : i64 x {} : i64", image.height, image.width)?;
                if let Some(constraints) = &image.constraints {
                    write!(f, ", image_constraints = {constraints}")?;
                }
                f.write_char('>')
            }
            Type::Function(ty) => {
                f.write_char('(')?;
                join(f, &ty.inputs, |o, t| write!(o, "{t}"))?;
                f.write_str(") -> ")?;
                match &ty.results[..] {
                    [one] if !matches!(one, Type::Function(_)) => one.fmt(f),
                    many => {
                        f.write_char('(')?;
                        join(f, many, |o, t| write!(o, "{t}"))?;
                        f.write_char(')')
                    }
                }
            }
            Type::Scalar(element) => element.fmt(f),
            Type::ParamSymbol => f.write_str("!param.symbol"),
            Type::Opaque(text) => f.write_str(text),
        }
    }
}

fn fourcc(f: &mut Formatter<'_>, code: u32) -> fmt::Result {
    match FOURCC.iter().find(|(_, c)| *c == code) {
        Some((word, _)) => write!(f, "<{word}>"),
        None => {
            let bytes = code.to_be_bytes();
            // Four characters, where they need no escape.
            let plain = |b: &u8| matches!(b, b' '..=b'~' if !matches!(b, b'"' | b'\\'));
            match std::str::from_utf8(&bytes) {
                Ok(text) if bytes.iter().all(plain) => write!(f, "<\"{text}\">"),
                _ => write!(f, "<{code}>"),
            }
        }
    }
}

/// `{a = 1 : i32, b}`.
pub(super) fn dict(out: &mut dyn Write, attrs: &AttrDict) -> fmt::Result {
    out.write_char('{')?;
    join(out, attrs, |o, (key, value)| {
        match is_bare(key) {
            true => o.write_str(key)?,
            false => o.write_str(&quoted(key))?,
        }
        match value {
            Attr::Unit => Ok(()),
            value => write!(o, " = {value}"),
        }
    })?;
    out.write_char('}')
}

impl Display for Attr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Attr::Unit => f.write_str("unit"),
            Attr::Bool(value) => write!(f, "{value}"),
            Attr::Int { value, ty } => write!(f, "{value} : {ty}"),
            Attr::Float { bits, kind } => {
                write!(
                    f,
                    "{} : {}",
                    numeric::print_float(*kind, *bits),
                    kind.name()
                )
            }
            Attr::String(text) => f.write_str(&quoted(text)),
            Attr::Type(ty) => ty.fmt(f),
            Attr::Array(list) => {
                f.write_char('[')?;
                join(f, list, |o, a| write!(o, "{a}"))?;
                f.write_char(']')
            }
            Attr::Dict(attrs) => dict(f, attrs),
            Attr::Symbol(path) => f.write_str(&symbol_path(path)),
            Attr::Dense(data) => dense(f, data, None),
            Attr::Keyword { set, word } => write!(f, "#{}<{word}>", set.mnemonic()),
            Attr::HwConstraints(c) => write!(
                f,
                "#coreaix.hw_constraints<{}, alignments: [{}], interleave: [{}]>",
                c.backing,
                extents(&c.alignments),
                extents(&c.interleave)
            ),
            Attr::Sparse(s) => {
                write!(f, "#coreai.sparse_tensor_encoding<{}", s.scheme)?;
                if let Some(n) = s.non_zero {
                    write!(f, ", numNonZero = {n}")?;
                }
                write!(
                    f,
                    ", posWidth = {}, crdWidth = {}",
                    s.position_width, s.coordinate_width
                )?;
                if !s.block_size.is_empty() {
                    f.write_str(", blockSize = [")?;
                    join(f, &s.block_size, |o, n| write!(o, "{n}"))?;
                    f.write_char(']')?;
                }
                f.write_char('>')
            }
            Attr::Composite(c) => {
                write!(f, "#coreai.composite_declaration<{} = ", quoted(&c.name))?;
                dict(f, &c.attrs)?;
                f.write_char('>')
            }
            Attr::FourCc(code) => {
                f.write_str("#coreai.fourcc")?;
                fourcc(f, *code)
            }
            Attr::Opaque(text) => f.write_str(text),
        }
    }
}

/// Constant data; lists of more than `limit` elements are left out.
pub(super) fn dense(out: &mut dyn Write, data: &Dense, limit: Option<usize>) -> fmt::Result {
    let element = data.ty.as_tensor().map(|t| (t.element, &t.dims[..]));
    match (&data.payload, element) {
        (Payload::Splat(bytes), Some((element, _))) => {
            out.write_str("dense<")?;
            one(out, element, bytes)?;
            out.write_char('>')?;
        }
        (Payload::Elements(bytes), Some((element, dims))) => {
            let count = bytes.len() / element.bytes();
            if limit.is_some_and(|l| count > l) {
                out.write_str("dense_resource<__elided__>")?;
            } else if count > HEX_ABOVE && element != Element::Bool {
                out.write_str("dense<\"0x")?;
                for b in bytes.iter() {
                    write!(out, "{b:02X}")?;
                }
                out.write_str("\">")?;
            } else {
                out.write_str("dense<")?;
                if count > 0 {
                    let dims: Vec<usize> = dims
                        .iter()
                        .map(|d| d.unwrap_or(0).try_into().unwrap_or(usize::MAX))
                        .collect();
                    nested(out, element, &dims, bytes)?;
                }
                out.write_char('>')?;
            }
        }
        (Payload::Resource { key, .. }, _) if is_bare(key) => write!(out, "dense_resource<{key}>")?,
        (Payload::Resource { key, .. }, _) => write!(out, "dense_resource<{}>", quoted(key))?,
        _ => out.write_str("dense_resource<__elided__>")?,
    }
    write!(out, " : {}", data.ty)
}

fn nested(out: &mut dyn Write, element: Element, dims: &[usize], bytes: &[u8]) -> fmt::Result {
    match dims.split_first() {
        None => one(out, element, bytes),
        Some((extent, inner)) => {
            let each = (bytes.len() / (*extent).max(1)).max(1);
            out.write_char('[')?;
            join(out, bytes.chunks(each), |o, chunk| {
                nested(o, element, inner, chunk)
            })?;
            out.write_char(']')
        }
    }
}

fn one(out: &mut dyn Write, element: Element, bytes: &[u8]) -> fmt::Result {
    match element {
        Element::Bool | Element::Int { width: 1, .. } => {
            out.write_str(if bytes.first() == Some(&0) {
                "false"
            } else {
                "true"
            })
        }
        Element::Float(kind) => out.write_str(&numeric::print_float(kind, numeric::bits_of(bytes))),
        Element::Complex(kind) => {
            let (re, im) = bytes.split_at(bytes.len() / 2);
            write!(
                out,
                "({},{})",
                numeric::print_float(kind, numeric::bits_of(re)),
                numeric::print_float(kind, numeric::bits_of(im))
            )
        }
        _ => match numeric::int_value(element, bytes) {
            Some(value) => write!(out, "{value}"),
            None => out.write_char('0'),
        },
    }
}
