//! Narrow integers that stop at their limit where PyTorch wraps around.

use super::{error, Evidence, Told};
use crate::check::graph;
use crate::check::numbers::number;
use crate::check::parity::PortParity;
use crate::check::CheckError;
use crate::contract::Role;
use crate::runtime::{Class, DType};
use crate::text::name;

pub(super) fn find(evidence: &Evidence<'_, '_>, told: &mut Told) -> Result<(), CheckError> {
    while let Some((port, bits)) = evidence
        .open(told)
        .into_iter()
        .find_map(|p| Some((p, cause(evidence, p)?)))
    {
        let step = evidence.failing(port);
        let first = port
            .first_beyond()
            .and_then(|s| s.metrics.as_ref()?.first.clone());
        let (ours, theirs) = first.map_or((0.0.into(), 0.0.into()), |e| (e.ours, e.theirs));
        let article = if bits == 8 { "an" } else { "a" };
        let what = match port.role {
            Role::State => "state",
            _ => "value",
        };
        let finding = error(
            "narrow-integer-saturates",
            format!(
                "{} {} is {} against {} at step {step}: the asset saturates where PyTorch wraps around",
                port.role, name(&port.port), number(ours), number(theirs)
            ),
        )
        .in_function(&port.function)
        .about(&port.port)
        .with_evidence(format!("{} {}", port.role, evidence.shown(port)?))
        .with_evidence(format!(
            "{}: a scalar added to {article} {bits}-bit {what} goes through 32 bits and saturates on the way back",
            port.dtype
        ));
        let finding = evidence.consequences(port, finding, told)?;
        told.findings.push(
            finding.with_fix("keep the counter in int32, or wrap it in forward where it must wrap"),
        );
    }
    Ok(())
}

/// The width of a narrow integer port that stands at its limit where PyTorch does not.
fn cause(evidence: &Evidence<'_, '_>, port: &PortParity) -> Option<u32> {
    let dtype = DType::from_name(port.dtype)?;
    let Class::Int { signed, bits } = dtype.class() else {
        return None;
    };
    if bits > 16 {
        return None;
    }
    let (low, high) = match signed {
        true => (
            -(2f64.powi(bits as i32 - 1)),
            2f64.powi(bits as i32 - 1) - 1.0,
        ),
        false => (0.0, 2f64.powi(bits as i32) - 1.0),
    };
    let first = port.first_beyond()?.metrics.as_ref()?.first.as_ref()?;
    let at_limit = [low, high].contains(&first.ours.real());
    // On the way to the value it may have saturated, too.
    let within = evidence
        .function(port)
        .is_some_and(|f| graph::narrows_integers(f.graph));
    (at_limit || within).then_some(bits)
}
