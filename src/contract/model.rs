//! The contract's data model and its JSON rendering.

use super::strict::{object, objects};
use serde::{Deserialize, Serialize};

/// Version of the JSON rendering; it stands first in every file the tool writes.
pub const SCHEMA_VERSION: u32 = 1;

/// The extent of one dimension: `Some(n)` where static, `None` (JSON `null`) where dynamic.
pub type Dim = Option<u64>;

/// The ordered input, state and output contract of every public function of an asset.
///
/// Order is meaning: consumers index states by position, so two contracts with the same entries in
/// another order are different contracts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contract {
    /// The functions (entry points) in file order; private helper graphs are not part of it.
    #[serde(deserialize_with = "objects")]
    pub functions: Vec<Function>,
}

/// One entry point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Function {
    /// Entry-point name, `main` by default.
    pub name: String,
    /// How the function was exported, where that is known (it is not in the asset).
    #[serde(
        default,
        deserialize_with = "object",
        skip_serializing_if = "Option::is_none"
    )]
    pub export: Option<Export>,
    /// Read-only values a caller passes per call, in graph-argument order.
    #[serde(deserialize_with = "objects")]
    pub inputs: Vec<Port>,
    /// Values a caller owns and the function updates in place, in graph-argument order.
    #[serde(deserialize_with = "objects")]
    pub states: Vec<State>,
    /// Values a call returns, in graph-result order (tokens left out).
    #[serde(deserialize_with = "objects")]
    pub outputs: Vec<Port>,
}

/// The export settings that decide the order of states.
///
/// Without `strict`, buffers come in `named_buffers()` order; with it, in order of first use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Export {
    /// The `strict` argument of `torch.export.export`.
    pub strict: bool,
}

/// An input or output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Port {
    /// The name a consumer binds by.
    pub name: String,
    /// Element type under the runtime descriptor's name (`float32`, `bfloat16`, `int32`, `bool`, …).
    pub dtype: String,
    /// Extents, outermost first; `null` is dynamic.
    pub shape: Vec<Dim>,
    /// The `forward` argument behind an input, where the graph signature is known.
    #[serde(
        default,
        deserialize_with = "object",
        skip_serializing_if = "Option::is_none"
    )]
    pub source: Option<Source>,
}

/// A state: a graph argument of handle type, updated in place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// The name a consumer binds by (many bind by position instead).
    pub name: String,
    /// Element type of the tensor behind the handle, under the runtime descriptor's name.
    pub dtype: String,
    /// Extents, outermost first; `null` is dynamic.
    pub shape: Vec<Dim>,
    /// What the function does with it.
    pub access: Access,
    /// The buffer or argument behind it, where the graph signature is known.
    #[serde(
        default,
        deserialize_with = "object",
        skip_serializing_if = "Option::is_none"
    )]
    pub source: Option<Source>,
}

/// What a function does with a state, read off its `read_handle` and `write_handle` ops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// Its value on entry is read, and a new value is written.
    ReadWrite,
    /// Written before anything reads it: the value on entry never matters.
    WriteOnly,
    /// Read, never written.
    ReadOnly,
    /// Neither read nor written.
    Unused,
}

impl Access {
    /// The name used in JSON and in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Access::ReadWrite => "read-write",
            Access::WriteOnly => "write-only",
            Access::ReadOnly => "read-only",
            Access::Unused => "unused",
        }
    }
}

impl std::fmt::Display for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// What a port or state is in PyTorch.
///
/// `state_names` is positional: when a PyTorch upgrade swaps two placeholders of equal shape, the
/// converter pins the same names on exchanged buffers and names, order, shapes and dtypes of the
/// asset stay as they were. Only the source shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Buffer of the module, or argument of `forward`.
    pub kind: SourceKind,
    /// Qualified buffer name (`layers.0.k`), or argument path (`x`, `cache['k']`).
    pub name: String,
    /// The dtype it has in torch, so that narrowing (int64 → int32) shows.
    pub dtype: String,
    /// Further qualified names of the same tensor (a shared submodule, a buffer registered twice).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
}

impl Source {
    /// Whether both name the same tensor of the module: same kind, and a name in common.
    pub fn same_tensor(&self, other: &Source) -> bool {
        self.kind == other.kind && self.names().any(|a| other.names().any(|b| a == b))
    }

    /// The name and the aliases.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.name.as_str()).chain(self.aliases.iter().map(String::as_str))
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.kind.as_str(), self.name)
    }
}

/// Where a [`Source`] lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SourceKind {
    /// A buffer of the module, registered with `register_buffer`.
    Buffer,
    /// An argument of `forward`, or a value inside one.
    Argument,
}

impl SourceKind {
    /// The name used in JSON and in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            SourceKind::Buffer => "buffer",
            SourceKind::Argument => "argument",
        }
    }
}
