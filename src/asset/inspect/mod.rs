//! Everything there is to say about an asset, as data.

mod files;
mod remarks;
mod weights;

pub use files::{FileEntry, FileRole, Files};
pub use remarks::Remark;
pub use weights::{Constant, DtypeWeights, Storage, Weights};

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Asset, Error, Fingerprint, Integrity, Metadata, Program, ReadOptions};
use crate::contract::{self, Contract};
use crate::ir::{positional_axis, Graph, Module};

/// Version of the JSON rendering of an inspection.
pub const SCHEMA_VERSION: u32 = 1;

/// The newest dialect revision known: what the writer asks for when saving for OS 27.
pub const NEWEST_REVISION: i64 = 20_260_409;

/// The only version of the dialect that occurs.
pub const DIALECT_VERSION: u64 = 2;

/// An inspected asset.
#[derive(Debug, Serialize)]
pub struct Inspection {
    /// Version of this rendering.
    pub schema_version: u32,
    /// What the asset says about itself; `None` without a metadata file.
    pub metadata: Option<Metadata>,
    /// The bytecode file.
    pub bytecode: Bytecode,
    /// Whether the program is what its hash says; `None` where that was not checked.
    pub integrity: Option<Integrity>,
    /// Equal for two conversions of one model; `None` where weights were not read.
    pub fingerprint: Option<Fingerprint>,
    /// The files of the asset.
    pub files: Files,
    /// Entry points in file order.
    pub functions: Vec<FunctionInfo>,
    /// Graphs that are no entry points.
    pub helpers: usize,
    /// How many graphs stand for which composite.
    pub composites: BTreeMap<String, usize>,
    /// How often each op occurs.
    pub ops: OpCounts,
    /// The constants.
    pub weights: Weights,
    /// What the asset knows of its sources.
    pub debug: Debug,
    /// What a reader should know before using it, most important first.
    #[serde(serialize_with = "remarks::with_messages")]
    pub remarks: Vec<Remark>,
}

/// Facts of the bytecode file.
#[derive(Debug, Serialize)]
pub struct Bytecode {
    /// Who wrote the container (`MLIR22.0.0git`).
    pub producer: String,
    /// Version of the dialect `aicode`.
    pub dialect_version: Option<u64>,
    /// The dialect revision the program needs, a date `YYYYMMDD`: the oldest that has all it uses.
    pub revision: Option<i64>,
    /// The newest revision known to this tool.
    pub newest_known_revision: i64,
}

/// An entry point.
#[derive(Debug, Serialize)]
pub struct FunctionInfo {
    /// Its contract.
    #[serde(flatten)]
    pub contract: contract::Function,
    /// The positional axis of each state that has one, by the state's position.
    pub positional: BTreeMap<usize, PositionalInfo>,
    /// Ops in its graph, control flow included, stored definitions not.
    pub ops: usize,
}

/// The axis of a state that counts positions.
#[derive(Debug, Serialize)]
pub struct PositionalInfo {
    /// The axis, outermost is 0.
    pub axis: usize,
    /// `dynamic`, `slice`, `scatter`, `shift` or `mask`.
    pub how: &'static str,
}

/// How often each op occurs, under the vendor's names.
#[derive(Debug, Serialize)]
pub struct OpCounts {
    /// In graphs and their control flow.
    pub graph: BTreeMap<String, usize>,
    /// With the stored definitions, as the vendor's summary counts.
    pub all: BTreeMap<String, usize>,
}

/// Source information in the asset.
#[derive(Debug, Serialize)]
pub struct Debug {
    /// Whether source files are named.
    pub present: bool,
    /// The files.
    pub files: Vec<String>,
    /// Those that are absolute paths: they tell about the author's machine.
    pub absolute_paths: usize,
}

/// What to check that costs time on large assets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Hash the file, and the weights for the fingerprint.
    pub hash: bool,
}

/// Inspects an asset.
///
/// # Errors
/// When a file cannot be read, or the program is malformed.
pub fn inspect(asset: &Asset, effort: Effort) -> Result<(Inspection, Module), Error> {
    let metadata = asset.metadata()?;
    let files = files::list(asset)?;
    let program = asset.program(ReadOptions {
        definitions: true,
        locations: false,
        weights: true,
    })?;
    let (integrity, fingerprint) = if effort.hash {
        // The file is hashed from one end to the other, the weights on the cores that are left.
        let (integrity, fingerprint) = std::thread::scope(|scope| {
            let whole = scope.spawn(|| asset.integrity());
            let fingerprint = asset.fingerprint(&program.module);
            (
                whole
                    .join()
                    .unwrap_or_else(|e| std::panic::resume_unwind(e)),
                fingerprint,
            )
        });
        (Some(integrity?), Some(fingerprint?))
    } else {
        (None, None)
    };
    let Program {
        module,
        revision,
        bytecode_producer,
        dialect_version,
        debug,
    } = program;
    let extracted = contract::extract(&module);
    let bytecode = Bytecode {
        producer: bytecode_producer,
        dialect_version,
        revision: revision.and_then(|r| i64::try_from(r).ok()),
        newest_known_revision: NEWEST_REVISION,
    };
    let weights = weights::measure(&module);
    let absolute_paths = debug.files.iter().filter(|f| is_absolute(f)).count();
    let debug = Debug {
        present: !debug.files.is_empty(),
        files: debug.files,
        absolute_paths,
    };
    let mut inspection = Inspection {
        schema_version: SCHEMA_VERSION,
        functions: functions(&module, extracted.contract),
        helpers: module.graphs.iter().filter(|g| !g.is_function()).count(),
        composites: composites(&module),
        ops: OpCounts {
            graph: module.graph_op_counts(),
            all: module.op_counts(),
        },
        metadata,
        bytecode,
        integrity,
        fingerprint,
        files,
        weights,
        debug,
        remarks: Vec::new(),
    };
    inspection.remarks = remarks::about(&inspection, extracted.notes);
    Ok((inspection, module))
}

fn functions(module: &Module, contract: Contract) -> Vec<FunctionInfo> {
    let graphs = module.graphs.iter().filter(|g| g.is_function());
    graphs
        .zip(contract.functions)
        .map(|(graph, contract)| function(graph, contract))
        .collect()
}

fn function(graph: &Graph, contract: contract::Function) -> FunctionInfo {
    let handles = graph.args.iter().filter(|a| a.ty.is_handle());
    let positional = handles
        .enumerate()
        .filter_map(|(i, arg)| Some((i, positional_axis(&graph.body, arg.value)?)))
        .map(|(i, found)| {
            (
                i,
                PositionalInfo {
                    axis: found.axis,
                    how: found.how.as_str(),
                },
            )
        })
        .collect();
    let ops = graph
        .body
        .walk()
        .filter(|(_, op)| crate::ir::summary_name(op).is_some())
        .count();
    FunctionInfo {
        contract,
        positional,
        ops,
    }
}

fn composites(module: &Module) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for composite in module.graphs.iter().filter_map(|g| g.composite.as_ref()) {
        *counts.entry(composite.name.clone()).or_default() += 1;
    }
    counts
}

/// Absolute on any system: `/…`, `\…`, `C:…`.
fn is_absolute(path: &str) -> bool {
    let bytes = path.as_bytes();
    path.starts_with(['/', '\\', '~'])
        || (bytes.len() > 2 && bytes[0].is_ascii_alphabetic() && bytes[1] == b':')
}
