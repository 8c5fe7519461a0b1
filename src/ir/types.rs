//! Types of values: tensors, handles, tokens, images.

use std::sync::Arc;

use super::attr::Attr;

/// The extent of one tensor dimension: `Some(n)` where static, `None` where dynamic (`?`).
pub type Extent = Option<u64>;

/// A floating-point format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Float {
    /// IEEE double.
    F64,
    /// IEEE single.
    F32,
    /// 19 significant bits stored in 32.
    Tf32,
    /// IEEE half.
    F16,
    /// Upper half of an IEEE single.
    Bf16,
    /// 5 exponent bits, IEEE-like.
    F8E5M2,
    /// 4 exponent bits, no infinities.
    F8E4M3FN,
    /// A power of two, no sign.
    F8E8M0FNU,
    /// 4 bits: 0 0.5 1 1.5 2 3 4 6 and their negatives.
    F4E2M1FN,
}

impl Float {
    /// Every format, widest first.
    pub const ALL: [Float; 9] = [
        Float::F64,
        Float::F32,
        Float::Tf32,
        Float::F16,
        Float::Bf16,
        Float::F8E5M2,
        Float::F8E4M3FN,
        Float::F8E8M0FNU,
        Float::F4E2M1FN,
    ];

    /// The name in printed IR (`f32`, `bf16`, `f8E4M3FN`).
    pub fn name(self) -> &'static str {
        match self {
            Float::F64 => "f64",
            Float::F32 => "f32",
            Float::Tf32 => "tf32",
            Float::F16 => "f16",
            Float::Bf16 => "bf16",
            Float::F8E5M2 => "f8E5M2",
            Float::F8E4M3FN => "f8E4M3FN",
            Float::F8E8M0FNU => "f8E8M0FNU",
            Float::F4E2M1FN => "f4E2M1FN",
        }
    }

    /// Number of bits of one value.
    pub fn width(self) -> u32 {
        match self {
            Float::F64 => 64,
            Float::F32 => 32,
            Float::Tf32 => 19,
            Float::F16 | Float::Bf16 => 16,
            Float::F8E5M2 | Float::F8E4M3FN | Float::F8E8M0FNU => 8,
            Float::F4E2M1FN => 4,
        }
    }

    /// The format with this printed name.
    pub fn from_name(name: &str) -> Option<Float> {
        Float::ALL.into_iter().find(|f| f.name() == name)
    }
}

/// Whether an integer type carries a sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Sign {
    /// `siN`: two's complement.
    Signed,
    /// `uiN`.
    Unsigned,
    /// `iN`: unspecified; saved assets hold it as unsigned.
    Signless,
}

/// The element type of a tensor, or the type of a scalar attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Element {
    /// `i1`.
    Bool,
    /// `si32`, `ui4`, `i64`, …
    Int {
        /// Signedness.
        sign: Sign,
        /// Number of bits, 1 to 16384.
        width: u16,
    },
    /// A real floating-point number.
    Float(Float),
    /// Real part, then imaginary part.
    Complex(Float),
    /// `index`: platform-sized.
    Index,
}

impl Element {
    /// Signed integer of `width` bits.
    pub const fn si(width: u16) -> Element {
        Element::Int {
            sign: Sign::Signed,
            width,
        }
    }

    /// Unsigned integer of `width` bits.
    pub const fn ui(width: u16) -> Element {
        Element::Int {
            sign: Sign::Unsigned,
            width,
        }
    }

    /// Number of bits of one element; complex counts both parts, `index` is 64.
    pub fn width(self) -> u32 {
        match self {
            Element::Bool => 1,
            Element::Int { width, .. } => u32::from(width),
            Element::Float(f) => f.width(),
            Element::Complex(f) => 2 * f.width(),
            Element::Index => 64,
        }
    }

    /// Bytes one element takes when every element starts on a byte: sub-byte elements and booleans
    /// take one byte each. This is the layout of [`super::Payload`].
    pub fn bytes(self) -> usize {
        match self {
            Element::Float(f) => float_bytes(f),
            Element::Complex(f) => 2 * float_bytes(f),
            other => (other.width() as usize).div_ceil(8),
        }
    }

    /// The element type a saved asset holds: signless integers become unsigned, `si1` becomes `i1`.
    pub fn as_saved(self) -> Element {
        match self {
            Element::Int {
                width: 1,
                sign: Sign::Signed,
            } => Element::Bool,
            Element::Int {
                width,
                sign: Sign::Signless,
            } => Element::ui(width),
            other => other,
        }
    }

    /// The element type with this printed name; complex is not a name (`complex<f32>`).
    pub fn from_name(name: &str) -> Option<Element> {
        if name == "i1" {
            return Some(Element::Bool);
        }
        if name == "index" {
            return Some(Element::Index);
        }
        if let Some(float) = Float::from_name(name) {
            return Some(Element::Float(float));
        }
        let (sign, digits) = if let Some(d) = name.strip_prefix("si") {
            (Sign::Signed, d)
        } else if let Some(d) = name.strip_prefix("ui") {
            (Sign::Unsigned, d)
        } else {
            (Sign::Signless, name.strip_prefix('i')?)
        };
        if digits.starts_with('0') || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let width: u16 = digits.parse().ok()?;
        (1..=16384)
            .contains(&width)
            .then_some(Element::Int { sign, width })
    }
}

fn float_bytes(float: Float) -> usize {
    // tf32 is stored in four bytes although only 19 bits count.
    if float == Float::Tf32 {
        4
    } else {
        (float.width() as usize).div_ceil(8)
    }
}

/// A ranked tensor type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorType {
    /// Extents, outermost first; empty for a scalar.
    pub dims: Vec<Extent>,
    /// Element type.
    pub element: Element,
    /// Hardware constraints or sparsity, where present.
    pub encoding: Option<Attr>,
}

impl TensorType {
    /// Number of elements, where every extent is static and the product fits.
    pub fn elements(&self) -> Option<u64> {
        self.dims.iter().try_fold(1u64, |n, d| n.checked_mul((*d)?))
    }
}

/// The type of a picture a function takes or returns.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ImageType {
    /// Pixel format code.
    pub fourcc: u32,
    /// Height in pixels.
    pub height: u64,
    /// Width in pixels.
    pub width: u64,
    /// Backing and row alignments, where present.
    pub constraints: Option<Attr>,
}

/// A function type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FunctionType {
    /// Types of the arguments.
    pub inputs: Vec<Type>,
    /// Types of the results.
    pub results: Vec<Type>,
}

/// The type of a value or of a type attribute. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// `tensor<…>`.
    Tensor(Arc<TensorType>),
    /// `!coreai.handle<…>`: a mutable state; the type behind it is a tensor.
    Handle(Arc<Type>),
    /// `!coreai.token`: orders reads and writes of handles.
    Token,
    /// `!coreai.image<…>`.
    Image(Arc<ImageType>),
    /// `(…) -> (…)`.
    Function(Arc<FunctionType>),
    /// A number outside a tensor (`i32`), as in typed attributes.
    Scalar(Element),
    /// `!param.symbol`: the type of a callee reference.
    ParamSymbol,
    /// A type this crate does not interpret, as printed.
    Opaque(Arc<str>),
}

impl Type {
    /// A tensor type without encoding.
    pub fn tensor(dims: impl Into<Vec<Extent>>, element: Element) -> Type {
        Type::Tensor(Arc::new(TensorType {
            dims: dims.into(),
            element,
            encoding: None,
        }))
    }

    /// A handle to `inner`.
    pub fn handle(inner: Type) -> Type {
        Type::Handle(Arc::new(inner))
    }

    /// The tensor type itself, or the one behind a handle.
    pub fn as_tensor(&self) -> Option<&TensorType> {
        match self {
            Type::Tensor(t) => Some(t),
            Type::Handle(inner) => match &**inner {
                Type::Tensor(t) => Some(t),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether this is a handle (a state).
    pub fn is_handle(&self) -> bool {
        matches!(self, Type::Handle(_))
    }
}

/// A symbol with its namespaces, outermost first. Displays as `outer::inner::name`, without quotes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SymbolPath(pub Vec<String>);

impl SymbolPath {
    /// A symbol outside any namespace.
    pub fn root(name: impl Into<String>) -> SymbolPath {
        SymbolPath(vec![name.into()])
    }

    /// The symbol's own name, without namespaces.
    pub fn leaf(&self) -> &str {
        self.0.last().map_or("", String::as_str)
    }

    /// The enclosing namespaces, outermost first.
    pub fn namespaces(&self) -> &[String] {
        &self.0[..self.0.len().saturating_sub(1)]
    }
}

impl std::fmt::Display for SymbolPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&self.0.join("::"))
    }
}
