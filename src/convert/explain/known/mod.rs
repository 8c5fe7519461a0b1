//! Messages of PyTorch and the converter that say less than is known.

mod lowering;
mod outside;
mod shared;
mod sizes;

use super::stage_of;
use crate::contract::signature::FunctionSignature;
use crate::convert::outcome::Failure;
use crate::convert::protocol::PythonError;
use crate::report::{Finding, Severity};

type Explainer = fn(&Failure, &PythonError, &FunctionSignature) -> Option<Finding>;

/// The best explanation of a Python error, and whether it is more than the bare message.
pub(super) fn explain(
    failure: &Failure,
    error: &PythonError,
    functions: &[FunctionSignature],
) -> (Finding, bool) {
    let explainers: [Explainer; 13] = [
        shared::internal_assertion,
        shared::buffer_bound_as_it_is,
        sizes::resized,
        outside::unregistered_tensor,
        outside::fake_tensor_left,
        shared::one_value_copied_twice,
        shared::one_value_in_two_states,
        sizes::written_type,
        lowering::baked_argument,
        lowering::no_tensor_returned,
        lowering::missing_lowering,
        lowering::placeholder_order,
        lowering::tokens,
    ];
    for signature in functions {
        for explainer in explainers {
            if let Some(finding) = explainer(failure, error, signature) {
                return (finding.in_function(&signature.name), true);
            }
        }
    }
    let finding = failed(
        failure,
        format!("in stage {}: {}", failure.stage, failure.headline()),
    )
    .with_evidence_lines(&error.message);
    (finding, false)
}

fn failed(failure: &Failure, message: impl Into<String>) -> Finding {
    Finding::new(
        "conversion-failed",
        stage_of(failure.stage),
        Severity::Error,
        message,
    )
}

trait EvidenceLines {
    fn with_evidence_lines(self, message: &str) -> Self;
}

impl EvidenceLines for Finding {
    /// The rest of a message of several lines, cut where it gets long.
    fn with_evidence_lines(mut self, message: &str) -> Self {
        const MOST: usize = 12;
        let lines: Vec<&str> = message
            .lines()
            .skip(1)
            .filter(|l| !l.trim().is_empty())
            .collect();
        self.evidence
            .extend(lines.iter().take(MOST).map(|l| l.trim_end().to_owned()));
        if lines.len() > MOST {
            self.evidence
                .push(format!("… {} more lines", lines.len() - MOST));
        }
        self
    }
}
