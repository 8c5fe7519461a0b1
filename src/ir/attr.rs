//! Attributes: compile-time data on ops, arguments, results and types.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::types::{Element, Extent, Float, SymbolPath, Type};

/// Named attributes, ordered by name as the vendor prints them.
pub type AttrDict = BTreeMap<String, Attr>;

/// One attribute.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Attr {
    /// `unit`: present, no value.
    Unit,
    /// `true` or `false`.
    Bool(bool),
    /// `3 : si64`.
    Int {
        /// The value.
        value: i128,
        /// `Int` or `Index`.
        ty: Element,
    },
    /// `1.5 : f32`.
    Float {
        /// The bit pattern, in the low bits.
        bits: u64,
        /// The format. An asset stores the width alone, so 16-bit values read from one say `F16`.
        kind: Float,
    },
    /// `"text"`.
    String(String),
    /// A type.
    Type(Type),
    /// `[…]`.
    Array(Vec<Attr>),
    /// `{…}`.
    Dict(AttrDict),
    /// `@outer::@inner`; also a callee written `#param.constant<@f> : !param.symbol`.
    Symbol(SymbolPath),
    /// Constant tensor data.
    Dense(Dense),
    /// One of a fixed set of words (`#coreai.padding_mode<constant>`).
    Keyword {
        /// Which set.
        set: KeywordSet,
        /// The word as printed (`constant`).
        word: String,
    },
    /// `#coreaix.hw_constraints<…>` on a tensor type.
    HwConstraints(HwConstraints),
    /// `#coreai.sparse_tensor_encoding<…>` on a tensor type.
    Sparse(SparseEncoding),
    /// `#coreai.composite_declaration<"name" = {…}>` on a graph.
    Composite(Box<Composite>),
    /// `#coreai.fourcc<…>`.
    FourCc(u32),
    /// An attribute this crate does not interpret, as printed.
    Opaque(String),
}

/// A set of words an attribute chooses from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeywordSet {
    /// How `pad` fills.
    PaddingMode,
    /// Which formula `gelu` uses.
    GeluApproximation,
    /// How `scatter_along_axis` combines.
    ScatterMode,
    /// What `scan` accumulates.
    ScanCombiner,
    /// How `interpolate` samples.
    InterpolationMode,
    /// How far a target specification was compiled.
    Compilation,
}

impl KeywordSet {
    /// Every set.
    pub const ALL: [KeywordSet; 6] = [
        KeywordSet::PaddingMode,
        KeywordSet::GeluApproximation,
        KeywordSet::ScatterMode,
        KeywordSet::ScanCombiner,
        KeywordSet::InterpolationMode,
        KeywordSet::Compilation,
    ];

    /// The attribute's name in printed IR, without `#`.
    pub fn mnemonic(self) -> &'static str {
        match self {
            KeywordSet::PaddingMode => "coreai.padding_mode",
            KeywordSet::GeluApproximation => "coreai.approximate",
            KeywordSet::ScatterMode => "coreai.scatter_mode",
            KeywordSet::ScanCombiner => "coreai.scan_combiner",
            KeywordSet::InterpolationMode => "coreai.interpolation_mode",
            KeywordSet::Compilation => "coreai.compilation",
        }
    }

    /// The words, in the order of their codes in an asset.
    pub fn words(self) -> &'static [&'static str] {
        match self {
            KeywordSet::PaddingMode => {
                &["circular", "constant", "reflect", "replicate", "symmetric"]
            }
            KeywordSet::GeluApproximation => &["none", "tanh", "sigmoid"],
            KeywordSet::ScatterMode => &["update", "add", "sub", "mul", "div", "max", "min"],
            KeywordSet::ScanCombiner => &["sum", "product", "min", "max"],
            KeywordSet::InterpolationMode => &["linear", "nearest_neighbor"],
            KeywordSet::Compilation => &["full", "partial", "finalized"],
        }
    }
}

/// Where and how a tensor must be laid out for the hardware.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HwConstraints {
    /// `IOSurface`, `MTLBuffer` or `Heap`.
    pub backing: String,
    /// Byte alignment of each dimension and of the whole: rank + 1 entries.
    pub alignments: Vec<Extent>,
    /// Interleave factor of each dimension.
    pub interleave: Vec<Extent>,
}

/// How the elements of a sparse tensor are addressed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SparseEncoding {
    /// `bitmask`, `coo`, `csr`, `csc` or `bsr`.
    pub scheme: String,
    /// Number of stored elements, where stated.
    pub non_zero: Option<u64>,
    /// Bits of a position.
    pub position_width: u64,
    /// Bits of a coordinate.
    pub coordinate_width: u64,
    /// Block extents of a blocked scheme.
    pub block_size: Vec<u64>,
}

/// What a private graph stands for (`rms_norm`, `scaled_dot_product_attention`, …).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Composite {
    /// The composite's name.
    pub name: String,
    /// `input_names`, `output_names`, `op_attrs`, …
    pub attrs: AttrDict,
}

/// The data of a constant tensor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Dense {
    /// The tensor's type.
    pub ty: Type,
    /// The elements, or where they are.
    pub payload: Payload,
}

/// The elements of a constant.
///
/// `Splat` and `Elements` hold them row-major and little-endian with every element on its own bytes
/// ([`Element::bytes`]): booleans and sub-byte elements take one byte each, whatever the asset's
/// packing was. A resource keeps the bytes as stored.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Payload {
    /// One element that fills the tensor.
    Splat(Arc<[u8]>),
    /// All elements.
    Elements(Arc<[u8]>),
    /// Data kept apart, by key.
    Resource {
        /// Carries no meaning and differs between conversions.
        key: Arc<str>,
        /// The bytes as stored (sub-byte elements packed), where they are at hand.
        data: Option<Blob>,
    },
    /// Left out by the printer.
    Elided,
}

impl Payload {
    /// Data of `size`-byte elements, stored once when all elements are equal.
    pub fn from_elements(data: Vec<u8>, size: usize) -> Payload {
        let size = size.max(1);
        if data.len() >= size && data.len().is_multiple_of(size) {
            let first = &data[..size];
            if data.chunks_exact(size).all(|c| c == first) {
                return Payload::Splat(first.into());
            }
        }
        Payload::Elements(data.into())
    }
}

/// A run of bytes inside a shared owner, such as a mapped file.
#[derive(Clone)]
pub struct Blob {
    owner: Arc<dyn AsRef<[u8]> + Send + Sync>,
    range: Range<usize>,
}

impl Blob {
    /// The bytes of `owner` within `range`, cut to what there is.
    pub fn new(owner: Arc<dyn AsRef<[u8]> + Send + Sync>, range: Range<usize>) -> Blob {
        let len = (*owner).as_ref().len();
        let end = range.end.min(len);
        Blob {
            range: range.start.min(end)..end,
            owner,
        }
    }

    /// Where the bytes lie in their owner.
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &(*self.owner).as_ref()[self.range.clone()]
    }
}

impl From<Vec<u8>> for Blob {
    fn from(bytes: Vec<u8>) -> Blob {
        let range = 0..bytes.len();
        Blob {
            owner: Arc::new(bytes),
            range,
        }
    }
}

impl std::fmt::Debug for Blob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Blob({} bytes)", self.range.len())
    }
}

impl PartialEq for Blob {
    fn eq(&self, other: &Blob) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for Blob {}

impl std::hash::Hash for Blob {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.bytes().hash(state);
    }
}

impl Attr {
    /// An integer attribute.
    pub fn int(value: impl Into<i128>, ty: Element) -> Attr {
        Attr::Int {
            value: value.into(),
            ty,
        }
    }

    /// A keyword attribute.
    pub fn keyword(set: KeywordSet, word: impl Into<String>) -> Attr {
        Attr::Keyword {
            set,
            word: word.into(),
        }
    }

    /// The text of a string attribute.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Attr::String(s) => Some(s),
            _ => None,
        }
    }

    /// The value of an integer attribute that fits 64 bits.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Attr::Int { value, .. } => i64::try_from(*value).ok(),
            _ => None,
        }
    }

    /// The entries of an array attribute.
    pub fn as_array(&self) -> Option<&[Attr]> {
        match self {
            Attr::Array(a) => Some(a),
            _ => None,
        }
    }

    /// The entries of a dictionary attribute.
    pub fn as_dict(&self) -> Option<&AttrDict> {
        match self {
            Attr::Dict(d) => Some(d),
            _ => None,
        }
    }

    /// The path of a symbol attribute.
    pub fn as_symbol(&self) -> Option<&SymbolPath> {
        match self {
            Attr::Symbol(s) => Some(s),
            _ => None,
        }
    }
}
