//! Casts from float to integer and back that the converter folds away, and the truncation with them.

use super::{error, Evidence, Told};
use crate::check::metrics::reals;
use crate::check::numbers::number;
use crate::check::parity::PortParity;
use crate::check::CheckError;
use crate::contract::Role;
use crate::text::name;

/// With `known`, differences that only the cast pairs of the program account for count as well.
pub(super) fn find(
    evidence: &Evidence<'_, '_>,
    told: &mut Told,
    known: bool,
) -> Result<(), CheckError> {
    loop {
        let mut found = None;
        for port in evidence.open(told) {
            let sites = sites(evidence, port);
            // A program that was read and has no such casts folds none away.
            let read = evidence.pair.options.hints.read.contains(&port.function);
            if read && sites.is_empty() {
                continue;
            }
            let accounted = shows(evidence, port)? || (known && !sites.is_empty());
            if port.is_float() && accounted {
                found = Some((port, sites));
                break;
            }
        }
        let Some((port, sites)) = found else {
            return Ok(());
        };
        let first = port
            .first_beyond()
            .and_then(|s| s.metrics.as_ref()?.first.clone());
        let (ours, theirs) = first.map_or((0.0.into(), 0.0.into()), |e| (e.ours, e.theirs));
        let step = evidence.failing(port);
        let mut finding = error(
            "float-int-float",
            format!(
                "{} {} is {} against {} at step {step}: a cast to an integer and back is folded away, and the truncation with it",
                port.role, name(&port.port), number(ours), number(theirs)
            ),
        )
        .in_function(&port.function)
        .about(&port.port)
        .with_evidence(format!("{} {}", port.role, evidence.shown(port)?));
        for site in sites {
            finding = finding.with_evidence(site);
        }
        if port.grows() {
            finding = finding.with_evidence(match port.role {
                Role::State => "the state drifts further at each step",
                _ => "the difference grows at each step",
            });
        }
        let finding = evidence.consequences(port, finding, told)?;
        told.findings.push(finding.with_fix(
            "truncate with torch.trunc (or torch.floor), which stays in floating point and is kept",
        ));
    }
}

/// The cast pairs known of the function; those through 8 and 16 bits are kept by the converter.
fn sites(evidence: &Evidence<'_, '_>, port: &PortParity) -> Vec<String> {
    let wide = |via: &str| matches!(via, "int32" | "int64" | "uint32" | "uint64");
    let casts = evidence.pair.options.hints.casts.iter();
    casts
        .filter(|c| c.function == port.function && wide(&c.via))
        .map(|c| match c.site.as_str() {
            "" => format!("{} to {} and back", c.from, c.via),
            site => format!("{} to {} and back at {site}", c.from, c.via),
        })
        .collect()
}

/// Whether the values show it at every step that differs: PyTorch's are ours with the fraction cut off,
/// as they stand or, while the states before agree, as what the step added.
fn shows(evidence: &Evidence<'_, '_>, port: &PortParity) -> Result<bool, CheckError> {
    let bad = port.steps.iter().filter(|s| !s.good()).map(|s| s.step);
    let (mut any, first) = (false, evidence.failing(port));
    for step in bad.take(16) {
        if evidence.ours(port, step).is_none() {
            break;
        }
        // From the second differing step on a state has gone on from another value.
        if step > first && port.role == Role::State {
            break;
        }
        if !shows_at(evidence, port, step)? {
            return Ok(false);
        }
        any = true;
    }
    Ok(any)
}

fn shows_at(
    evidence: &Evidence<'_, '_>,
    port: &PortParity,
    step: usize,
) -> Result<bool, CheckError> {
    let (Some(ours), Some(theirs)) = (evidence.ours(port, step), evidence.theirs(port, step)?)
    else {
        return Ok(false);
    };
    let (Some(a), Some(b)) = (reals(ours), reals(&theirs)) else {
        return Ok(false);
    };
    if a.len() != b.len() {
        return Ok(false);
    }
    let cut = |a: &[f64], b: &[f64]| {
        let mut cut = 0;
        let all = a.iter().zip(b).all(|(a, b)| {
            cut += usize::from(a != b && *b == b.trunc());
            a == b || *b == a.trunc()
        });
        all && cut > 0
    };
    if cut(&a, &b) {
        return Ok(true);
    }
    if port.role != Role::State {
        return Ok(false);
    }
    let before = evidence.before(port, step)?.and_then(|t| reals(&t));
    let Some(before) = before.filter(|p| p.len() == a.len()) else {
        return Ok(false);
    };
    let less = |v: &[f64]| -> Vec<f64> { v.iter().zip(&before).map(|(v, p)| v - p).collect() };
    // Sums of single precision leave a little on the fraction.
    let round = |v: Vec<f64>| -> Vec<f64> { v.iter().map(|v| (v * 1e4).round() / 1e4).collect() };
    Ok(cut(&round(less(&a)), &round(less(&b))))
}
