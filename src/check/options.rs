//! What a check is told.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::protocols::Kind;

/// What to check, and how closely.
#[derive(Clone, Debug)]
pub struct Options {
    /// How far values may lie apart.
    pub tolerances: Tolerances,
    /// What is known from the exported program.
    pub hints: Hints,
    /// Which protocols to run.
    pub protocols: Vec<Kind>,
    /// The Python of an environment with coreai-core, whose interpreter runs the calls as well.
    pub oracle: Option<PathBuf>,
    /// Threads for large products.
    pub threads: usize,
    /// What is left of the protocols after so much time is not run, and says so.
    pub budget: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            tolerances: Tolerances::default(),
            hints: Hints::default(),
            protocols: Kind::ALL.to_vec(),
            oracle: None,
            threads: 1,
            budget: Duration::from_secs(120),
        }
    }
}

/// How far values may lie apart: `atol + rtol * largest magnitude of the tensor in PyTorch`. What is
/// not given follows from the dtype, see `docs/check.md`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Tolerances {
    /// Absolute, in units of the value.
    pub atol: Option<f64>,
    /// Relative to the tensor's largest magnitude.
    pub rtol: Option<f64>,
}

/// Facts about the exported program that neither the asset nor what is computed shows. `convert --trace`
/// and `gate` put them into the trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Hints {
    /// Functions whose exported program was read: their casts and random ops are all here.
    pub read: Vec<String>,
    /// Casts from float to integer and back, which the converter folds away.
    pub casts: Vec<CastPair>,
    /// Ops that draw random numbers in PyTorch.
    pub random: Vec<RandomOp>,
    /// What eager PyTorch changes from call to call without it being a state of the asset.
    pub lost: Vec<Lost>,
}

/// A cast to an integer type and back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CastPair {
    /// The entry point.
    pub function: String,
    /// torch's name of the float type.
    pub from: String,
    /// torch's name of the integer type on the way.
    pub via: String,
    /// Where in the author's code: `model.py:12`.
    pub site: String,
}

/// An op that is random in PyTorch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RandomOp {
    /// The entry point.
    pub function: String,
    /// The op, with what makes it random: `scaled_dot_product_attention, dropout_p 0.5`.
    pub what: String,
    /// Where in the author's code.
    pub site: String,
}

/// Something that changes in PyTorch and is no state of the asset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// The entry point.
    pub function: String,
    /// `parameter`, `tensor` or `python`; `buffer` where it changes in the training mode of the recipe and
    /// not in the evaluation mode that was exported and traced.
    pub kind: String,
    /// Its path in the module.
    pub name: String,
}
