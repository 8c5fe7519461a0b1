//! One model from recipe to verdict: convert, read, join, compare with what was accepted.

mod json;
mod place;
mod reading;
mod runtime;
mod table;

use std::fs;
use std::io;
use std::path::PathBuf;

use crate::check;
use crate::contract::snapshot::{self, Status, Store};
use crate::contract::{Change, Contract};
use crate::convert::{
    explain, FailureKind, Outcome, Progress, Request, StageTime, Supervisor, SupervisorError,
    Toolchain,
};
use crate::manifest::{Allow, Model};
use crate::report::{Finding, Severity, Stage};

pub use json::document;
pub use place::{asset_path, check_names, replace, temporary_beside};
pub use reading::{read, Reading};
pub use runtime::{merge, run, trace_path, Checked};
pub use table::{details, table};

/// What holds for every model of one run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Folder of the accepted contracts.
    pub snapshots: PathBuf,
    /// Never write a snapshot, and fail where one is missing.
    pub ci: bool,
    /// Keep stack traces of the author's code in the asset.
    pub debug_info: bool,
    /// Where assets are written.
    pub assets: PathBuf,
    /// Run every asset against a reference recorded in PyTorch.
    pub check: bool,
}

/// How a model did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Everything is as it was accepted.
    Pass,
    /// No contract has been accepted yet; one is pending.
    New,
    /// Something was found.
    Fail,
    /// It could not be judged.
    Error,
}

impl Verdict {
    /// The word in reports and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Pass => "pass",
            Verdict::New => "new",
            Verdict::Fail => "fail",
            Verdict::Error => "error",
        }
    }
}

/// The contract against the accepted one.
#[derive(Clone, Debug, PartialEq)]
pub enum Comparison {
    /// As accepted.
    Same,
    /// Different from what was accepted.
    Changed(Vec<Change>),
    /// Nothing was accepted yet.
    New,
    /// There is no contract to compare.
    NotRead,
}

impl Comparison {
    /// The word in reports and JSON.
    pub fn as_str(&self) -> &'static str {
        match self {
            Comparison::Same => "same",
            Comparison::Changed(_) => "changed",
            Comparison::New => "new",
            Comparison::NotRead => "not-read",
        }
    }
}

/// Everything there is to say about one model.
#[derive(Debug)]
pub struct ModelReport {
    /// What was judged.
    pub model: Model,
    /// How it did.
    pub verdict: Verdict,
    /// Its contract, sources included, as far as it was read.
    pub contract: Option<Contract>,
    /// Against the accepted contract.
    pub comparison: Comparison,
    /// What was found, worst first.
    pub findings: Vec<Finding>,
    /// Something could not be done at all.
    pub could_not: bool,
    /// What running the asset against PyTorch came to.
    pub check: Option<check::Report>,
    /// Findings that the manifest accepts, with its reasons.
    pub allowed: Vec<(Finding, String)>,
    /// Wall time of the stages.
    pub stages: Vec<StageTime>,
    /// Versions of what made the asset.
    pub toolchain: Toolchain,
    /// Where the asset stands.
    pub asset: Option<PathBuf>,
    /// Whether a pending snapshot was written.
    pub pending: bool,
}

impl ModelReport {
    /// What went wrong on this side is this model's error, not the end of the run.
    fn cannot(&mut self, id: &'static str, stage: Stage, error: &dyn std::error::Error) {
        let mut finding = Finding::new(id, stage, Severity::Error, error.to_string());
        let mut cause = error.source();
        while let Some(error) = cause {
            let text = error.to_string();
            if !finding.message.contains(&text) {
                finding = finding.with_evidence(text);
            }
            cause = error.source();
        }
        self.findings.push(finding);
        self.could_not = true;
    }
}

/// Whether a conversion failed in Python for a reason that nothing known accounts for.
fn is_unexplained(outcome: &Outcome) -> bool {
    let Some(failure) = &outcome.failure else {
        return false;
    };
    matches!(failure.kind, FailureKind::Python(_)) && !explain(failure, &outcome.functions).certain
}

/// Why a run could not go on; a model that fails is a report, not an error.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// No worker.
    #[error(transparent)]
    Worker(#[from] SupervisorError),
    /// The asset cannot be put in place.
    #[error("{}: cannot put the asset in place", path.display())]
    Place {
        /// Where it should stand.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Converts and judges one model.
pub fn judge(
    model: &Model,
    settings: &Settings,
    supervisor: &mut Supervisor,
    progress: &mut dyn Progress,
) -> Result<ModelReport, GateError> {
    let target = asset_path(settings, model);
    let temporary = temporary_beside(&target);
    let trace = trace_path(&target);
    let mut request = Request::new(model, &temporary, settings.debug_info);
    if settings.check {
        request = request.with_reference(&trace);
    }
    let mut outcome = convert(&request, supervisor, progress)?;
    let mut reading = read(&outcome, &temporary);
    let mut checked = Checked::default();
    if let (true, Some(contract)) = (settings.check, &reading.contract) {
        checked = run(model, &outcome, contract, &temporary, &trace, progress);
    }
    merge(
        &mut reading.findings,
        checked.findings,
        checked.report.as_ref(),
    );
    outcome.stages.extend(checked.time);
    let placed = place::place(&outcome, &temporary, &target);
    let toolchain = outcome.toolchain.clone();
    let mut report = ModelReport {
        model: model.clone(),
        verdict: Verdict::Error,
        contract: reading.contract,
        comparison: Comparison::NotRead,
        findings: reading.findings,
        could_not: reading.could_not || checked.could_not,
        check: checked.report,
        allowed: Vec::new(),
        stages: outcome.stages,
        toolchain,
        asset: None,
        pending: false,
    };
    if !matches!(placed, Ok(Some(_))) {
        // A reference without its asset is of no use; that it cannot be removed is no news.
        let _ = fs::remove_file(&trace);
    }
    match placed {
        Ok(asset) => report.asset = asset,
        Err(error) => report.cannot("asset-not-placed", Stage::Convert, &error),
    }
    accept_known(&mut report);
    if let Err(error) = compare(&mut report, settings) {
        report.cannot("snapshot-unusable", Stage::Snapshot, &error);
    }
    report.findings.sort();
    report.verdict = verdict(&report, settings);
    Ok(report)
}

/// Converts, once more in a fresh worker where one that served other models fails without a known reason.
///
/// # Errors
/// When no worker can be started.
pub fn convert(
    request: &Request,
    supervisor: &mut Supervisor,
    progress: &mut dyn Progress,
) -> Result<Outcome, SupervisorError> {
    let outcome = supervisor.convert(request, progress)?;
    if supervisor.served() > 1 && is_unexplained(&outcome) {
        // An earlier recipe may have left the worker in a state that this model suffers from.
        supervisor.renew();
        return supervisor.convert(request, progress);
    }
    Ok(outcome)
}

/// Moves the findings that the manifest accepts out of the way.
///
/// Only where a contract was read: an exception is for what a model is, never for a conversion that failed.
fn accept_known(report: &mut ModelReport) {
    if report.contract.is_none() {
        return;
    }
    let accepts = |allow: &Allow, finding: &Finding| {
        allow.id == finding.id
            && allow
                .subject
                .as_ref()
                .is_none_or(|s| finding.subject.as_ref() == Some(s))
    };
    let allow = report.model.allow.clone();
    let (kept, allowed): (Vec<_>, Vec<_>) = report
        .findings
        .drain(..)
        .map(|finding| {
            let reason = allow
                .iter()
                .find(|a| accepts(a, &finding))
                .map(|a| a.reason.clone());
            (finding, reason)
        })
        .partition(|(_, reason)| reason.is_none());
    report.findings = kept.into_iter().map(|(f, _)| f).collect();
    report.allowed = allowed
        .into_iter()
        .filter_map(|(f, reason)| Some((f, reason?)))
        .collect();
    for allow in allow {
        let used = report.allowed.iter().any(|(f, _)| accepts(&allow, f));
        if !used {
            report.findings.push(
                Finding::new(
                    "unused-exception",
                    Stage::Contract,
                    Severity::Advice,
                    format!(
                        "the manifest accepts {} here, and nothing of that kind was found",
                        allow.id
                    ),
                )
                .with_fix("take the exception out of the manifest"),
            );
        }
    }
}

fn compare(report: &mut ModelReport, settings: &Settings) -> Result<(), snapshot::SnapshotError> {
    let Some(contract) = &report.contract else {
        return Ok(());
    };
    let store = Store::new(&settings.snapshots, settings.ci);
    let name = &report.model.name;
    report.comparison = match store.check(name, contract)? {
        Status::Same => Comparison::Same,
        Status::New => Comparison::New,
        Status::Changed(changes) => Comparison::Changed(changes),
    };
    if !settings.ci {
        if report.comparison == Comparison::Same {
            store.discard_pending(name)?;
        } else {
            store.store_pending(name, contract, &toolchain_info(&report.toolchain))?;
            report.pending = true;
        }
    }
    Ok(())
}

fn verdict(report: &ModelReport, settings: &Settings) -> Verdict {
    let errors = report
        .findings
        .iter()
        .any(|f| f.severity == Severity::Error);
    let changed = match &report.comparison {
        Comparison::Changed(changes) => changes.iter().any(|c| c.counts_at(report.model.level)),
        _ => false,
    };
    if report.could_not {
        Verdict::Error
    } else if errors || changed || (report.comparison == Comparison::New && settings.ci) {
        Verdict::Fail
    } else {
        match report.comparison {
            Comparison::Same | Comparison::Changed(_) => Verdict::Pass,
            Comparison::New => Verdict::New,
            // Nothing was compared: whatever the reason, that is no pass.
            Comparison::NotRead => Verdict::Error,
        }
    }
}

fn toolchain_info(toolchain: &Toolchain) -> Vec<(String, String)> {
    let entries = [
        ("coreai-audit", Some(env!("CARGO_PKG_VERSION").to_owned())),
        ("torch", toolchain.torch.clone()),
        ("coreai-torch", toolchain.coreai_torch.clone()),
        ("coreai-core", toolchain.coreai_core.clone()),
    ];
    entries
        .into_iter()
        .filter_map(|(k, v)| Some((k.to_owned(), v?)))
        .collect()
}
