//! PyTorch draws random numbers, the asset does not.

use super::{error, Evidence, Told};
use crate::check::graph;
use crate::report::Severity;

pub(super) fn find(evidence: &Evidence<'_, '_>, told: &mut Told) {
    for function in &evidence.pair.functions {
        let calls = &evidence.outcome.run.calls;
        let drawn: Vec<usize> = (0..evidence.outcome.done)
            .filter(|c| calls[*c].random && calls[*c].function == function.traced.name)
            .collect();
        let Some(first) = drawn.first() else {
            continue;
        };
        let differing: Vec<_> = evidence
            .open(told)
            .into_iter()
            .filter(|p| p.function == function.name && evidence.failing(p) > *first)
            .collect();
        let in_asset = graph::is_random(evidence.pair.module, function.graph);
        let (message, severity) = match (in_asset, differing.is_empty()) {
            (true, true) => continue,
            (true, false) => (
                "the reference is random and so is the asset: they draw different numbers, and no parity can be stated",
                Severity::Warning,
            ),
            (false, false) => (
                "the reference is random, the asset is not: what makes it random has no trace in the asset",
                Severity::Error,
            ),
            (false, true) => (
                "the reference draws random numbers that have no trace in the asset; in these calls it makes no difference",
                Severity::Warning,
            ),
        };
        let mut finding = error("randomness-dropped", message).in_function(&function.name);
        finding.severity = severity;
        for op in evidence
            .pair
            .options
            .hints
            .random
            .iter()
            .filter(|r| r.function == function.name)
        {
            finding = finding.with_evidence(format!(
                "{} has no trace in the asset ({})",
                op.what, op.site
            ));
        }
        finding = finding.with_evidence(format!(
            "PyTorch draws random numbers at step {}, also in evaluation mode where dropout_p is given to attention itself",
            first + 1
        ));
        for port in differing {
            if let Ok(shown) = evidence.shown(port) {
                finding = finding.with_evidence(format!(
                    "{} {shown}: not a numerical error, the reference is random",
                    port.role
                ));
            }
            told.explain(port);
        }
        told.findings.push(finding.with_fix(
            "make evaluation deterministic: pass dropout_p=self.dropout if self.training else 0.0, and no random sampling in forward",
        ));
    }
}
