//! The program: typed graphs, ops, values and attributes.
//!
//! Two readers fill these types, one from printed IR ([`text::parse`]) and one from the bytecode of
//! an asset, and [`compare`] tells whether both read the same program.

mod attr;
mod compare;
pub mod dataflow;
mod dense;
mod graph;
pub(crate) mod numeric;
mod positional;
pub(crate) mod print;
mod stats;
pub(crate) mod syntax;
pub mod text;
mod types;

pub use attr::{
    Attr, AttrDict, Blob, Composite, Dense, HwConstraints, KeywordSet, Payload, SparseEncoding,
};
pub use compare::{compare, Difference};
pub use graph::{
    unnamed, Arg, Block, Body, Graph, Location, Module, Op, OpId, Outcome, Region, Value, ValueDef,
    ValueId,
};
pub use positional::{positional_axis, How, Positional};
pub use print::PrintOptions;
pub use stats::summary_name;
pub use syntax::normalize;
pub use types::{
    Element, Extent, Float, FunctionType, ImageType, Sign, SymbolPath, TensorType, Type,
};
