//! One cell: a model converted in the worker of one environment, read, and summed up as a record.

use std::path::{Path, PathBuf};

use super::record::{signatures, Failed, Record, Run};
use crate::asset::{Asset, ReadOptions};
use crate::convert::{
    explain, Failure, FailureKind, Outcome, Progress, Request, Step, Supervisor, SupervisorError,
};
use crate::gate;
use crate::manifest::Model;
use crate::report::{Finding, Severity, Stage};

/// SIGKILL: nobody but the system's memory keeper sends it to a worker of ours.
const KILLED: i32 = 9;
/// Python's own exceptions for a disk or memory that is full; the model may be fine.
const OUTSIDE: &[&str] = &[
    "MemoryError",
    "OSError",
    "BlockingIOError",
    "PermissionError",
];

/// What an asset is run against.
pub enum Reference<'a> {
    /// A trace recorded now, in the first environment; it is left at this path.
    Record(&'a Path),
    /// The trace that the first environment leaves: asked for when the asset stands.
    Use(&'a dyn Fn() -> Option<PathBuf>),
}

/// Converts `model` with the supervisor's environment, reads the asset and runs it against the reference;
/// the asset is written below `scratch` and removed.
///
/// # Errors
/// When no worker can be started.
pub fn run(
    model: &Model,
    debug_info: bool,
    scratch: &Path,
    reference: &Reference<'_>,
    supervisor: &mut Supervisor,
    progress: &mut dyn Progress,
) -> Result<Record, SupervisorError> {
    let asset = scratch.join("cell.aimodel");
    let trace = gate::trace_path(&asset);
    let _ = std::fs::remove_dir_all(&asset);
    let _ = std::fs::remove_file(&trace);
    let mut request = Request::new(model, &asset, debug_info);
    if let Reference::Record(_) = reference {
        request = request.with_reference(&trace);
    }
    let mut outcome = gate::convert(&request, supervisor, progress)?;
    let peak_memory = supervisor.peak_memory();
    let mut reading = gate::read(&outcome, &asset);
    let wanted = match reference {
        Reference::Record(_) => true,
        Reference::Use(find) => {
            // The check writes into the trace; the reference itself is for all.
            outcome.reference = find().is_some_and(|found| share(&found, &trace).is_ok());
            outcome.reference
        }
    };
    let mut checked = gate::Checked::default();
    if let (true, Some(contract)) = (wanted, &reading.contract) {
        checked = gate::run(model, &outcome, contract, &asset, &trace, progress);
    }
    let good = !checked
        .findings
        .iter()
        .any(|f| f.severity == Severity::Error);
    gate::merge(
        &mut reading.findings,
        checked.findings,
        checked.report.as_ref(),
    );
    outcome.stages.extend(checked.time);
    if let Reference::Record(target) = reference {
        if outcome.reference {
            let _ = share(&trace, target);
        }
    }
    let _ = std::fs::remove_file(&trace);
    let mut record = Record {
        failure: failed(&outcome),
        findings: reading.findings,
        checked: checked.report.map(|r| good && r.parity_holds()),
        contract: reading.contract,
        signature: signatures(&outcome.functions),
        ..Record::default()
    };
    if outcome.saved && record.failure.is_none() {
        match fingerprint(&asset) {
            Ok(text) => record.fingerprint = Some(text),
            Err(finding) => record.findings.push(*finding),
        }
    }
    let _ = std::fs::remove_dir_all(&asset);
    record.findings.sort();
    record.toolchain = outcome.toolchain;
    record.warnings = outcome.warnings;
    record.run = Run {
        cached: false,
        stages: outcome.stages,
        peak_memory,
        // The runtime reads the asset itself.
        files: outcome
            .files
            .into_iter()
            .filter(|f| !f.starts_with(scratch))
            .collect(),
    };
    Ok(record)
}

/// The same file under another name: a link where the disk is the same.
pub(super) fn share(from: &Path, to: &Path) -> std::io::Result<()> {
    if to.exists() {
        std::fs::remove_file(to)?;
    }
    std::fs::hard_link(from, to).or_else(|_| std::fs::copy(from, to).map(drop))
}

/// Whether the same conversion would end the same way: then the record may be kept.
pub fn is_lasting(record: &Record) -> bool {
    !record.run.files.is_empty()
        && record
            .failure
            .as_ref()
            .is_none_or(|f| !f.outside && !f.message.contains("(signal "))
}

fn failed(outcome: &Outcome) -> Option<Failed> {
    let failure = outcome.failure.as_ref()?;
    // The asset stands; that coreai-core refuses it is a finding.
    if failure.stage == Step::Describe && matches!(failure.kind, FailureKind::Python(_)) {
        return None;
    }
    Some(Failed {
        stage: failure.stage.as_str().to_owned(),
        message: message(failure, outcome),
        outside: is_outside(failure),
    })
}

/// The explanation's sentence, which names what the user knows.
fn message(failure: &Failure, outcome: &Outcome) -> String {
    let explained = explain(failure, &outcome.functions).findings;
    match explained
        .into_iter()
        .find(|f| f.severity == Severity::Error)
    {
        // The first that is missing is seldom the only one.
        Some(finding) if failure.stage == Step::Start && finding.id == "missing-package" => {
            format!(
                "{}: torch and coreai-torch are needed there",
                finding.message
            )
        }
        Some(finding) => finding.message,
        None => failure.headline(),
    }
}

fn is_outside(failure: &Failure) -> bool {
    if failure.stage == Step::Start {
        return true;
    }
    match &failure.kind {
        FailureKind::Python(error) => {
            error.kind == "missing-package" || OUTSIDE.contains(&error.class.as_str())
        }
        FailureKind::Signal(signal) => *signal == KILLED,
        FailureKind::Exited(_) => false,
        FailureKind::Timeout(_) | FailureKind::Memory { .. } | FailureKind::Protocol(_) => true,
    }
}

fn fingerprint(path: &Path) -> Result<String, Box<Finding>> {
    let read = || {
        let asset = Asset::open(path)?;
        let options = ReadOptions {
            definitions: true,
            locations: false,
            weights: true,
        };
        let program = asset.program(options)?;
        asset.fingerprint(&program.module)
    };
    read().map(|f| f.to_string()).map_err(|error| {
        Box::new(Finding::new(
            "asset-unreadable",
            Stage::Contract,
            Severity::Error,
            format!("the saved asset has no fingerprint: {error}"),
        ))
    })
}
