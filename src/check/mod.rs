//! The runtime check: an asset run on our runtime against what PyTorch computed.
//!
//! [`check`] binds the ports of an asset to the tensors of a [`Trace`] by their sources, runs every
//! call with one store of states, and compares each output and each state after each call. What lies
//! beyond the tolerance is searched for its cause (`faults`), and what a consumer may and may not do
//! with the states is tried (`protocols`).

mod align;
mod error;
mod faults;
mod graph;
mod metrics;
mod numbers;
mod options;
mod oracle;
mod pair;
mod parity;
mod protocols;
mod report;
mod rows;
mod session;
mod tolerance;
pub mod trace;
mod uncompared;
mod values;

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub use error::CheckError;
pub use metrics::{Element, Metrics};
pub use numbers::{number, Number, Values};
pub use options::{CastPair, Hints, Lost, Options, RandomOp, Tolerances};
pub use oracle::{Oracle, OracleError, OraclePort};
pub use pair::How;
pub use parity::{PortParity, StepParity};
pub use protocols::{Kind as ProtocolKind, Protocol, Verdict};
pub use report::{Binding, Report, RunSummary, SCHEMA_VERSION};
pub use tolerance::Tolerance;
pub use trace::{Trace, TraceError};
pub use uncompared::Uncompared;

use std::path::Path;

use crate::asset::{Asset, ReadOptions};
use crate::contract::{Contract, Role};
use crate::ir::Module;
use faults::{Evidence, Told};
use pair::Pair;
use parity::{Alignment, Outcome, Stopped};
use trace::Start;

/// Told how far a check is.
pub trait Progress {
    /// A call of a run begins: the call and how many there are, counting from 0.
    fn call(&mut self, run: Start, call: usize, calls: usize);
    /// A protocol begins.
    fn protocol(&mut self, kind: ProtocolKind);
    /// The vendor's interpreter begins.
    fn oracle(&mut self) {}
}

/// Nobody is told.
impl Progress for () {
    fn call(&mut self, _: Start, _: usize, _: usize) {}
    fn protocol(&mut self, _: ProtocolKind) {}
}

/// Checks the asset in a directory against a trace.
///
/// `contract` says what each port is; sources it does not have are taken from the contract in the
/// trace, from equal names, and from what running shows.
///
/// # Errors
/// When the asset or the trace cannot be used at all. What is wrong with the asset's behaviour is in
/// the report.
pub fn check(
    asset: &Path,
    contract: &Contract,
    trace: &Trace,
    options: &Options,
) -> Result<Report, CheckError> {
    check_with(asset, contract, trace, options, &mut ())
}

/// As [`check`], and tells how far it is.
///
/// # Errors
/// As [`check`].
pub fn check_with(
    asset: &Path,
    contract: &Contract,
    trace: &Trace,
    options: &Options,
    progress: &mut dyn Progress,
) -> Result<Report, CheckError> {
    let opened = Asset::open(asset)?;
    opened.weights_will_be_read();
    let program = opened.program(ReadOptions {
        definitions: true,
        locations: false,
        weights: true,
    })?;
    check_module(asset, &program.module, contract, trace, options, progress)
}

/// As [`check_with`], for a program read before; `path` is for messages.
///
/// # Errors
/// As [`check`].
pub fn check_module(
    path: &Path,
    module: &Module,
    contract: &Contract,
    trace: &Trace,
    options: &Options,
    progress: &mut dyn Progress,
) -> Result<Report, CheckError> {
    // What the recorder knew of the program is as good as what the caller knows.
    let with_hints;
    let options = match options.hints == Hints::default() {
        true => {
            with_hints = Options {
                hints: trace.hints().clone(),
                ..options.clone()
            };
            &with_hints
        }
        false => options,
    };
    let mut pair = Pair::new(path, module, contract, trace, options)?;
    values::bind(&mut pair)?;
    let mut alignment = Alignment::new();
    let mut outcomes: Vec<Outcome<'_>> = Vec::new();
    for run in trace.runs() {
        let mut told = |call| progress.call(run.kind, call, run.calls.len());
        outcomes.push(parity::run(&pair, run, &mut alignment, &mut told)?);
    }
    let mut told = Told::default();
    for outcome in &outcomes {
        let evidence = Evidence {
            pair: &pair,
            outcome,
            alignment: &alignment,
        };
        if outcome.run.kind == Start::Registered {
            faults::lost_buffers(&evidence, &mut told)?;
            faults::lost_in_training(&evidence, &mut told);
        }
        // What a run from zeros shows again is told once.
        faults::explain(&evidence, &mut told)?;
        if outcome.run.kind == Start::Registered {
            told.findings.extend(faults::initial_values(&evidence)?);
            told.findings.extend(faults::misnamed(&evidence, &told)?);
        }
    }
    let mut findings = told.findings;
    let mut protocols = Vec::new();
    if let Some(first) = outcomes.first() {
        let bench = protocols::Bench::new(&pair, first.run, first.done, options.budget);
        let (ran, found) =
            protocols::run(&bench, &mut |kind| progress.protocol(kind), &mut told.notes)?;
        protocols = ran;
        findings.extend(found);
    }
    pair.notes.append(&mut told.notes);
    let mut oracle = None;
    if let (Some(python), Some(first)) = (&options.oracle, outcomes.first()) {
        progress.oracle();
        let (gave, found) = oracle::consult(path, python, &pair, first, &alignment)?;
        oracle = Some(gave);
        findings.extend(found);
    }
    let not_compared = uncompared::uncompared(&pair, &outcomes, &alignment);
    let mut ports = outcomes.iter().flat_map(|o| &o.ports);
    let nothing = ports.all(|p| p.steps.is_empty()) && outcomes.iter().all(|o| o.stopped.is_none());
    findings.extend(uncompared::findings(&not_compared, &findings, nothing));
    findings.sort();
    findings.dedup();
    Ok(Report {
        schema_version: SCHEMA_VERSION,
        findings,
        bindings: bindings(&pair),
        runs: outcomes.iter().map(summary).collect(),
        not_compared,
        parity: outcomes.into_iter().flat_map(|o| o.ports).collect(),
        protocols,
        oracle,
        notes: pair.notes,
    })
}

fn summary(outcome: &Outcome<'_>) -> RunSummary {
    RunSummary {
        kind: outcome.run.kind,
        calls: outcome.run.calls.len(),
        compared: outcome.done,
        stopped: outcome.stopped.as_ref().map(|s| match s {
            Stopped::Eager(call, said) => format!("PyTorch refuses call {}: {said}", call + 1),
            Stopped::Ours(call, said) => format!("the asset fails at call {}: {said}", call + 1),
        }),
    }
}

fn bindings(pair: &Pair<'_>) -> Vec<Binding> {
    let mut all = Vec::new();
    for function in &pair.functions {
        let lists = [
            (Role::Input, &function.inputs),
            (Role::State, &function.states),
        ];
        for (role, list) in lists {
            all.extend(list.iter().map(|b| Binding {
                function: function.name.clone(),
                role,
                port: b.port.name.clone(),
                source: b.source.clone(),
                how: b.how,
            }));
        }
    }
    all
}
