//! What a check has to say.

use serde::Serialize;

use super::oracle::Oracle;
use super::pair::How;
use super::parity::PortParity;
use super::protocols::Protocol;
use super::trace::Start;
use super::uncompared::Uncompared;
use crate::contract::{Role, Source};
use crate::report::Finding;

/// Version of the JSON document.
pub const SCHEMA_VERSION: u32 = 1;

/// The result of a check.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Version of this document.
    pub schema_version: u32,
    /// What was found, worst first.
    pub findings: Vec<Finding>,
    /// Which tensor of the trace each port is.
    pub bindings: Vec<Binding>,
    /// The runs of the trace, as far as they went.
    pub runs: Vec<RunSummary>,
    /// Outputs and states that no step of any run compares.
    pub not_compared: Vec<Uncompared>,
    /// Every output and state over the steps of every run.
    pub parity: Vec<PortParity>,
    /// What was tried with the states.
    pub protocols: Vec<Protocol>,
    /// What the vendor's interpreter gave, where it was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oracle: Option<Oracle>,
    /// Remarks.
    pub notes: Vec<String>,
}

impl Report {
    /// Whether every compared value is within its tolerance, in runs that went to their end. Where
    /// nothing at all is compared, nothing holds.
    pub fn parity_holds(&self) -> bool {
        (!self.parity.is_empty() || self.not_compared.is_empty())
            && self.parity.iter().all(|p| p.first_beyond().is_none())
            && self.runs.iter().all(|r| r.stopped.is_none())
    }
}

/// A port and what it is in PyTorch.
#[derive(Clone, Debug, Serialize)]
pub struct Binding {
    /// The function.
    pub function: String,
    /// Input or state.
    pub role: Role,
    /// The port.
    pub port: String,
    /// The buffer or argument.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// How that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub how: Option<How>,
}

/// A run in short.
#[derive(Clone, Debug, Serialize)]
pub struct RunSummary {
    /// What it started from.
    pub kind: Start,
    /// Calls in the trace.
    pub calls: usize,
    /// Calls that ran and were compared.
    pub compared: usize,
    /// Why it did not go to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
}
