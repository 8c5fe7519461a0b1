//! Differences that nothing known accounts for, told with what can be seen of them.

use super::{error, place, Evidence, Told};
use crate::check::graph;
use crate::check::metrics::{reals, scale};
use crate::check::numbers::{number, rows as row_list};
use crate::check::parity::PortParity;
use crate::check::rows::{differing, partial_axis};
use crate::check::CheckError;
use crate::contract::Role;
use crate::runtime::Tensor;
use crate::text::name;

pub(super) fn find(evidence: &Evidence<'_, '_>, told: &mut Told) -> Result<(), CheckError> {
    while let Some(port) = evidence.open(told).first().copied() {
        let step = evidence.failing(port);
        let from = match evidence.outcome.run.kind {
            crate::check::trace::Start::Registered => "",
            crate::check::trace::Start::Zeros => " from zeros",
        };
        let first = port.first_beyond();
        let metrics = first.and_then(|s| s.metrics.as_ref());
        let message = match (metrics.and_then(|m| m.first.as_ref().map(|e| (m, e))), first) {
            (Some((m, e)), _) => format!(
                "{} {} differs{from} from step {step} on{}: {} in the asset, {} in PyTorch ({} of {} elements)",
                port.role, name(&port.port), place(&e.index), number(e.ours), number(e.theirs), m.beyond, m.elements
            ),
            (None, first) => format!(
                "{} {} differs{from} from step {step} on: {}",
                port.role, name(&port.port),
                first.and_then(|s| s.incomparable.clone()).unwrap_or_default()
            ),
        };
        let mut finding = error("values-differ", message)
            .in_function(&port.function)
            .about(&port.port);
        if let Some(m) = metrics {
            finding = finding.with_evidence(format!(
                "largest difference {}, mean {}, relative {}; allowed {} + {} of the largest magnitude",
                number(m.max_abs), number(m.mae), number(m.mean_relative),
                number(port.tolerance.atol), number(port.tolerance.rtol)
            ));
            if let Some(top1) = m.top1.filter(|t| *t < 1.0) {
                finding = finding.with_evidence(format!(
                    "the largest score stands in the same place in {} of 100 rows",
                    number(top1 * 100.0)
                ));
            }
        }
        for line in by_row(evidence, port, step)? {
            finding = finding.with_evidence(line);
        }
        let steps = port.steps.len();
        if steps > 1 {
            let bad = port.steps.iter().filter(|s| !s.good()).count();
            finding = finding.with_evidence(match port.grows() {
                true => format!(
                    "{}; the difference grows from step to step",
                    evidence.shown(port)?
                ),
                false => format!("{bad} of {steps} steps differ; the difference does not grow"),
            });
        }
        if port.role == Role::Output && states_agree(evidence, port) {
            finding = finding
                .with_evidence("the states agree: the difference arises on the way to the output");
        }
        let finding = evidence.consequences(port, finding, told)?;
        told.findings.push(finding.with_fix(
            "compare the two computations from the first differing step; if the distance is meant, give --atol and --rtol",
        ));
    }
    Ok(())
}

fn states_agree(evidence: &Evidence<'_, '_>, port: &PortParity) -> bool {
    let mut states = evidence
        .outcome
        .ports
        .iter()
        .filter(|p| p.role == Role::State && p.function == port.function)
        .peekable();
    states.peek().is_some() && states.all(|p| p.first_beyond().is_none())
}

/// Which rows differ and which agree, and what PyTorch has there.
fn by_row(
    evidence: &Evidence<'_, '_>,
    port: &PortParity,
    step: usize,
) -> Result<Vec<String>, CheckError> {
    let (Some(ours), Some(theirs)) = (evidence.ours(port, step), evidence.theirs(port, step)?)
    else {
        return Ok(Vec::new());
    };
    let Some(values) = reals(&theirs) else {
        return Ok(Vec::new());
    };
    let allowed = port.tolerance.at(scale(&values));
    let Some(axes) = differing(ours, &theirs, allowed) else {
        return Ok(Vec::new());
    };
    let shape = theirs.shape();
    let Some(axis) = partial_axis(shape, std::slice::from_ref(&axes)) else {
        return Ok(Vec::new());
    };
    let own = &axes[axis];
    let others: Vec<usize> = (0..shape[axis]).filter(|i| !own.contains(i)).collect();
    let zero = own.iter().all(|i| is_zero(&theirs, &values, axis, *i));
    let subject = name(&port.port);
    let mut lines = Vec::new();
    let attention = evidence
        .function(port)
        .is_some_and(|f| graph::has_attention(evidence.pair.module, f.graph));
    let one = own.len() == 1;
    if zero {
        let verb = if one { "is" } else { "are" };
        lines.push(format!(
            "{} of {subject} {verb} 0 in PyTorch (along axis {axis})",
            row_list(own)
        ));
        if attention {
            lines.push("PyTorch's attention gives 0 for a query that may see nothing; the asset attends to every cache row as if nothing were masked".into());
        }
    } else {
        let verb = if one { "differs" } else { "differ" };
        lines.push(format!(
            "{} of {subject} {verb} (along axis {axis})",
            row_list(own)
        ));
    }
    let verb = if others.len() == 1 { "agrees" } else { "agree" };
    let noun = match (attention && axis + 2 == shape.len(), others.len()) {
        (true, 1) => format!("query {}", others[0]),
        (true, _) => row_list(&others).replacen("rows", "queries", 1),
        _ => row_list(&others),
    };
    lines.push(format!("{noun} {verb}"));
    Ok(lines)
}

fn is_zero(t: &Tensor, values: &[f64], axis: usize, at: usize) -> bool {
    let shape = t.shape();
    let inner: usize = shape[axis + 1..].iter().product();
    let extent = shape[axis];
    let parts = (values.len() / t.len().max(1)).max(1);
    let mut all = values.chunks_exact(parts).enumerate();
    all.all(|(i, v)| (i / inner.max(1)) % extent != at || v.iter().all(|v| *v == 0.0))
}
