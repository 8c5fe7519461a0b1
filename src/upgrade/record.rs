//! What became of one model in one environment, as it is kept and sent.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::contract::{Contract, Dim, FunctionSignature, Placeholder, SignatureOutput};
use crate::convert::{StageTime, Toolchain};
use crate::report::Finding;

/// Everything that is compared between environments, and what it cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Versions of what converted.
    pub toolchain: Toolchain,
    /// What the packages said when they were imported.
    pub warnings: Vec<String>,
    /// Why there is no asset.
    pub failure: Option<Failed>,
    /// What was found while reading, and by the runtime check.
    pub findings: Vec<Finding>,
    /// The contract, sources included.
    pub contract: Option<Contract>,
    /// The semantic fingerprint of the asset.
    pub fingerprint: Option<String>,
    /// Whether the asset, run against what PyTorch computed in the first environment, does the same
    /// under the same names; `None` where it was not run.
    #[serde(default)]
    pub checked: Option<bool>,
    /// The graph signatures, as far as the conversion came.
    pub signature: Vec<Signature>,
    /// What it cost and where it came from; differs from run to run.
    pub run: Run,
}

/// A conversion that did not get to an asset, or did not begin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// `environment`, or the stage of the conversion.
    pub stage: String,
    /// What happened, in one line.
    pub message: String,
    /// Whether it lies in the environment, the machine or its limits, and not in the model.
    pub outside: bool,
}

/// What a record cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Taken from an earlier run.
    pub cached: bool,
    /// Wall time of the stages, in seconds.
    pub stages: Vec<StageTime>,
    /// Most memory of the worker, in bytes.
    pub peak_memory: Option<u64>,
    /// The files the recipe was made from; empty where they are not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<PathBuf>,
}

/// The graph signature of one entry point, in graph order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signature {
    /// Entry-point name.
    pub function: String,
    /// Parameters, buffers, constants and user inputs.
    pub placeholders: Vec<Slot>,
    /// Mutations, then what `forward` returns.
    pub outputs: Vec<Slot>,
    /// ATen ops after decomposition, with the number of their calls.
    pub ops: BTreeMap<String, u64>,
}

/// A placeholder or output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// The tracer's name.
    pub node: Option<String>,
    /// `buffer`, `parameter`, `user_input`, `buffer_mutation`, …
    pub kind: String,
    /// Qualified name, argument path, or path in what is returned.
    pub name: Option<String>,
    /// torch's dtype name.
    pub dtype: Option<String>,
    /// Extents; `None` where symbolic.
    pub shape: Option<Vec<Dim>>,
    /// Whether the program writes it.
    pub written: bool,
}

impl Record {
    /// A cell whose conversion could not begin.
    pub fn not_begun(message: String) -> Record {
        Record {
            failure: Some(Failed {
                stage: ENVIRONMENT.to_owned(),
                message,
                outside: true,
            }),
            ..Record::default()
        }
    }

    /// Wall time of all stages, in seconds.
    pub fn seconds(&self) -> f64 {
        self.run.stages.iter().map(|s| s.seconds).sum()
    }
}

/// The stage before all others: the environment is made.
pub const ENVIRONMENT: &str = "environment";

/// The signatures of the functions that came as far as decomposition.
pub fn signatures(functions: &[FunctionSignature]) -> Vec<Signature> {
    let with_program = functions
        .iter()
        .filter_map(|f| Some((f, f.program.as_ref()?)));
    with_program
        .map(|(function, program)| {
            let written: Vec<&Placeholder> = program
                .expected()
                .iter()
                .filter(|e| e.mutation.is_some())
                .map(|e| e.placeholder)
                .collect();
            let is_written = |p: &Placeholder| written.iter().any(|w| std::ptr::eq(*w, p));
            Signature {
                function: function.name.clone(),
                placeholders: program
                    .placeholders
                    .iter()
                    .map(|p| placeholder(p, is_written(p)))
                    .collect(),
                outputs: program.outputs.iter().map(output).collect(),
                ops: program.histogram.clone(),
            }
        })
        .collect()
}

fn placeholder(from: &Placeholder, written: bool) -> Slot {
    Slot {
        node: from.node.clone(),
        kind: from.kind.clone(),
        name: from.path.clone().or_else(|| from.target.clone()),
        dtype: from.dtype.clone(),
        shape: from.shape.clone(),
        written,
    }
}

fn output(from: &SignatureOutput) -> Slot {
    Slot {
        node: from.node.clone(),
        kind: from.kind.clone(),
        name: from.target.clone().or_else(|| from.path.clone()),
        dtype: from.dtype.clone(),
        shape: from.shape.clone(),
        written: false,
    }
}
