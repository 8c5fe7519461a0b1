//! What can go wrong while a program is loaded or run.

use std::fmt;
use std::path::PathBuf;

use super::DType;
use crate::asset;
use crate::text::name;

/// Why an asset cannot be run at all.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The asset cannot be read.
    #[error(transparent)]
    Asset(#[from] asset::Error),
    /// The program uses ops this runtime does not have.
    #[error("{}: {}", path.display(), unsupported(ops))]
    Unsupported {
        /// The asset.
        path: PathBuf,
        /// Each op with the graph it occurs in.
        ops: Vec<UnsupportedOp>,
    },
    /// An op or a graph that cannot be made sense of.
    #[error("{}: graph {}: {what}", path.display(), name(graph))]
    Invalid {
        /// The asset.
        path: PathBuf,
        /// The graph.
        graph: String,
        /// What is wrong, and with which op.
        what: String,
    },
    /// The threads asked for cannot be started.
    #[error("{}: no threads to run it on: {what}", path.display())]
    Threads {
        /// The asset.
        path: PathBuf,
        /// What the system said.
        what: String,
    },
}

fn unsupported(ops: &[UnsupportedOp]) -> String {
    let list: Vec<String> = ops.iter().map(ToString::to_string).collect();
    format!("this runtime cannot execute {}", list.join(", "))
}

/// An op the runtime does not have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnsupportedOp {
    /// Its name in printed IR.
    pub op: String,
    /// The graph.
    pub graph: String,
    /// How often it occurs there, stored definitions included.
    pub count: usize,
}

impl fmt::Display for UnsupportedOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} ({} in graph {})",
            name(&self.op),
            self.count,
            name(&self.graph)
        )
    }
}

/// Which list a value belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortKind {
    /// Read only.
    Input,
    /// Read and updated in place.
    State,
    /// Produced.
    Output,
}

impl fmt::Display for PortKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PortKind::Input => "input",
            PortKind::State => "state",
            PortKind::Output => "output",
        })
    }
}

/// Why a call failed. Whatever the error, every state keeps its shape and dtype; what it holds after
/// [`RunError::Op`] and the limits is unspecified, after all others it is untouched.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// No such function.
    #[error("no function {} in the asset; it has {}", name(wanted), list(known))]
    UnknownFunction {
        /// The name asked for.
        wanted: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// A value the function needs was not given.
    #[error("function {}: {kind} {} is missing", name(function), name(port))]
    Missing {
        /// The function.
        function: String,
        /// The list.
        kind: PortKind,
        /// The value.
        port: String,
    },
    /// A value the function does not know.
    #[error(
        "function {} has no {kind} {}; it has {}",
        name(function),
        name(port),
        list(known)
    )]
    Unknown {
        /// The function.
        function: String,
        /// The list.
        kind: PortKind,
        /// The value.
        port: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// A value given twice.
    #[error(
        "function {}: {kind} {} is given more than once",
        name(function),
        name(port)
    )]
    Duplicate {
        /// The function.
        function: String,
        /// The list.
        kind: PortKind,
        /// The value.
        port: String,
    },
    /// A value of another element type.
    #[error(
        "function {}: {kind} {} is {found}, expected {expected}; values are never converted",
        name(function),
        name(port)
    )]
    DType {
        /// The function.
        function: String,
        /// The list.
        kind: PortKind,
        /// The value.
        port: String,
        /// What was given.
        found: DType,
        /// What the function takes.
        expected: DType,
    },
    /// A value with another number of dimensions.
    #[error("function {}: {kind} {} has {} dimensions, expected {} ({})", name(function), name(port), found.len(), expected.len(), extents(expected))]
    Rank {
        /// The function.
        function: String,
        /// The list.
        kind: PortKind,
        /// The value.
        port: String,
        /// What was given.
        found: Vec<usize>,
        /// What the function takes.
        expected: Vec<Option<u64>>,
    },
    /// A value of another shape.
    #[error(
        "function {}: {kind} {} has shape {}, expected {}",
        name(function),
        name(port),
        shape(found),
        extents(expected)
    )]
    Shape {
        /// The function.
        function: String,
        /// The list.
        kind: PortKind,
        /// The value.
        port: String,
        /// What was given.
        found: Vec<usize>,
        /// What the function takes.
        expected: Vec<Option<u64>>,
    },
    /// An op could not be executed.
    #[error("graph {}: {} (op {index}): {what}", name(graph), name(op))]
    Op {
        /// The graph.
        graph: String,
        /// The op's name in printed IR.
        op: String,
        /// Its place in the graph's program, counting from 0, nested ops included.
        index: u32,
        /// What is wrong.
        what: String,
    },
}

fn list(names: &[String]) -> String {
    if names.is_empty() {
        return "none".into();
    }
    let names: Vec<_> = names.iter().map(|n| name(n).to_string()).collect();
    names.join(", ")
}

/// A shape as people write it.
pub(super) fn shape(dims: &[usize]) -> String {
    let dims: Vec<String> = dims.iter().map(ToString::to_string).collect();
    format!("[{}]", dims.join(", "))
}

/// Extents as people write them; `?` for a dynamic one.
pub(super) fn extents(dims: &[Option<u64>]) -> String {
    let dims: Vec<String> = dims
        .iter()
        .map(|d| d.map_or("?".into(), |n| n.to_string()))
        .collect();
    format!("[{}]", dims.join(", "))
}
