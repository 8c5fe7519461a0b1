//! Turns a failed conversion into what to change in the recipe.
//!
//! The converter's messages count and quote the tracer's node names. The graph signature is known by
//! then, so the same thing can be said with the user's own buffers and arguments.

mod counts;
mod known;
mod shadowed;

use super::outcome::{bytes, Failure, FailureKind};
use super::protocol::{PythonError, Step};
use crate::contract::FunctionSignature;
use crate::report::{Finding, Severity, Stage};

/// A failed conversion, explained.
#[derive(Debug)]
pub struct Explanation {
    /// What to tell.
    pub findings: Vec<Finding>,
    /// The check saw something wrong with the model (exit code 1); otherwise it could not run (2).
    pub found: bool,
    /// The cause is known; otherwise the message is all there is.
    pub certain: bool,
}

/// Explains why a conversion did not get to the end.
pub fn explain(failure: &Failure, functions: &[FunctionSignature]) -> Explanation {
    let explanation = match &failure.kind {
        FailureKind::Python(error) => python(failure, error, functions),
        _ => could_not(worker_death(failure)),
    };
    with_log(explanation, failure)
}

fn could_not(finding: Finding) -> Explanation {
    Explanation {
        findings: vec![finding],
        found: false,
        certain: true,
    }
}

fn python(failure: &Failure, error: &PythonError, functions: &[FunctionSignature]) -> Explanation {
    match error.kind.as_str() {
        "usage" => could_not(Finding::new(
            "recipe-error",
            Stage::Export,
            Severity::Error,
            error.message.clone(),
        )),
        "missing-package" => could_not(missing_package(error)),
        _ => {
            if failure.stage == Step::Convert {
                let model = counts::explain(error, functions)
                    .or_else(|| shadowed::explain(error, functions));
                if let Some(explanation) = model {
                    return explanation;
                }
            }
            let (finding, certain) = known::explain(failure, error, functions);
            Explanation {
                certain,
                ..could_not(with_frames(finding, error))
            }
        }
    }
}

fn missing_package(error: &PythonError) -> Finding {
    let module = error.module.as_deref().unwrap_or("torch");
    let package = match module.split('.').next().unwrap_or(module) {
        "coreai_torch" => "coreai-torch",
        "coreai" => "coreai-core",
        other => other,
    };
    Finding::new(
        "missing-package",
        Stage::Export,
        Severity::Error,
        format!("{package} is not installed in the Python that converts"),
    )
    .with_evidence(error.message.clone())
    .with_fix(
        "pip install \"coreai-audit[convert]\" there, or choose another environment with --python",
    )
}

fn worker_death(failure: &Failure) -> Finding {
    let stage = stage_of(failure.stage);
    let (id, fix) = match &failure.kind {
        FailureKind::Timeout(_) => (
            "timed-out",
            "raise --timeout if the model is just large".to_owned(),
        ),
        FailureKind::Memory { used, .. } => (
            "out-of-memory",
            format!(
                "raise --max-memory above {} if the machine has it",
                bytes(*used)
            ),
        ),
        _ => (
            "worker-died",
            "the last lines of its log are above; the next model gets a fresh worker".to_owned(),
        ),
    };
    Finding::new(
        id,
        stage,
        Severity::Error,
        format!("in stage {}: {}", failure.stage, failure.headline()),
    )
    .with_fix(fix)
}

/// The report's stage for a conversion stage.
pub(super) fn stage_of(step: Step) -> Stage {
    match step {
        Step::Check => Stage::Check,
        Step::Start | Step::Recipe | Step::Observe | Step::Reference | Step::Export => {
            Stage::Export
        }
        _ => Stage::Convert,
    }
}

/// The user's own frames first, the innermost last; then what else is known; library frames are counted.
fn with_frames(mut finding: Finding, error: &PythonError) -> Finding {
    const MOST: usize = 4;
    let (own, library): (Vec<_>, Vec<_>) = error.frames.iter().partition(|f| f.user);
    let mut evidence: Vec<String> = own[own.len().saturating_sub(MOST)..]
        .iter()
        .map(|frame| {
            let line = frame.line.map_or_else(String::new, |l| format!(":{l}"));
            let code = frame.code.as_deref().unwrap_or_default();
            format!("{}{line} in {}: {code}", frame.file, frame.function)
        })
        .collect();
    evidence.append(&mut finding.evidence);
    finding.evidence = evidence;
    if let Some(last) = library.last() {
        let line = last.line.map_or_else(String::new, |l| format!(":{l}"));
        let file = last
            .file
            .rsplit("site-packages/")
            .next()
            .unwrap_or(&last.file);
        finding = finding.with_evidence(format!(
            "raised in {file}{line}, {} library frames down",
            library.len()
        ));
    }
    finding
}

fn with_log(mut explanation: Explanation, failure: &Failure) -> Explanation {
    let shows_log = !matches!(failure.kind, FailureKind::Python(_));
    if let (Some(finding), true) = (explanation.findings.first_mut(), shows_log) {
        if failure.log.is_empty() {
            finding
                .evidence
                .push("the worker wrote nothing to its log".to_owned());
        }
        finding
            .evidence
            .extend(failure.log.iter().map(|line| format!("log: {line}")));
    }
    explanation
}
