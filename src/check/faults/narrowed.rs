//! 64-bit tensors that are 32-bit in the asset, where it makes a difference.

use super::{error, Evidence, Told};
use crate::check::metrics::{compare, reals, scale};
use crate::check::numbers::Values;
use crate::check::parity::PortParity;
use crate::check::session::Loss;
use crate::check::tolerance::Tolerance;
use crate::check::CheckError;
use crate::contract::Role;
use crate::report::Severity;
use crate::text::name;

/// A difference of at most so many units in the last place of single precision is rounding.
const ROUNDING: f64 = 4.0;

pub(super) fn find(evidence: &Evidence<'_, '_>, told: &mut Told) -> Result<(), CheckError> {
    states(evidence, told)?;
    inputs(evidence, told)
}

fn states(evidence: &Evidence<'_, '_>, told: &mut Told) -> Result<(), CheckError> {
    let narrowed: Vec<&PortParity> = evidence
        .outcome
        .ports
        .iter()
        .filter(|p| p.role == Role::State && is_narrowed(p))
        .collect();
    for state in narrowed {
        let Some(since) = differs_since(evidence, state)? else {
            continue;
        };
        let failing: Vec<&PortParity> = evidence
            .open(told)
            .into_iter()
            .filter(|p| evidence.failing(p) >= since && evidence.shares(p, state))
            .collect();
        let Some(first) = failing.first().copied() else {
            continue;
        };
        let torch = state.torch_dtype.clone().unwrap_or_default();
        let mut finding =
            error(
                "int64-narrowed",
                format!(
                "{torch} state {} is {} in the asset, and from step {} on the values differ for it",
                name(&state.port), state.dtype, evidence.failing(first)
            ),
            )
            .in_function(&state.function)
            .about(&state.port);
        if let Some(line) = values(evidence, state, since)? {
            finding = finding.with_evidence(line);
        }
        for port in failing.iter().take(4) {
            finding = finding.with_evidence(format!("{} {}", port.role, evidence.shown(port)?));
        }
        failing.iter().for_each(|p| told.explain(p));
        told.explain(state);
        told.findings.push(finding.with_fix(match torch.starts_with("float") {
            true => "keep the whole and the fraction in states of their own, or reduce the value in each step (torch.frac of the sum) so that it stays small",
            false => "keep the value within 32 bits, or split it over two states",
        }));
    }
    Ok(())
}

fn is_narrowed(port: &PortParity) -> bool {
    let torch = port.torch_dtype.as_deref().unwrap_or_default();
    matches!(torch, "float64" | "int64" | "uint64" | "complex128") && torch != port.dtype
}

/// The first step at which a narrowed state differs at all, if what differs there is what the narrower
/// type cannot hold.
fn differs_since(
    evidence: &Evidence<'_, '_>,
    state: &PortParity,
) -> Result<Option<usize>, CheckError> {
    for step in state.steps.iter().map(|s| s.step) {
        let (Some(ours), Some(theirs)) =
            (evidence.ours(state, step), evidence.theirs(state, step)?)
        else {
            continue;
        };
        let Ok(m) = compare(ours, &theirs, Tolerance::EXACT) else {
            return Ok(None);
        };
        if m.beyond == 0 {
            continue;
        }
        let (Some(a), Some(b)) = (reals(ours), reals(&theirs)) else {
            return Ok(None);
        };
        let integer = !crate::check::metrics::is_float(ours.dtype());
        let (low, high) = match state.dtype {
            "uint32" => (0.0, f64::from(u32::MAX)),
            _ => (f64::from(i32::MIN), f64::from(i32::MAX)),
        };
        let unit = f64::from(f32::EPSILON) * scale(&b);
        let held = a
            .iter()
            .zip(&b)
            .filter(|(a, b)| a != b && !(a.is_nan() && b.is_nan()))
            .all(|(a, b)| match integer {
                true => *b < low || *b > high,
                false => (a - b).abs() <= ROUNDING * unit || b.abs() > f64::from(f32::MAX),
            });
        return Ok(held.then_some(step));
    }
    Ok(None)
}

/// `state s holds 1000000.3125 where PyTorch has 1000000.3 at step 1`
fn values(
    evidence: &Evidence<'_, '_>,
    state: &PortParity,
    step: usize,
) -> Result<Option<String>, CheckError> {
    let (Some(ours), Some(theirs)) = (evidence.ours(state, step), evidence.theirs(state, step)?)
    else {
        return Ok(None);
    };
    let (Some(a), Some(b)) = (Values::of(ours), Values::of(&theirs)) else {
        return Ok(None);
    };
    let mut all = (0..a.reals.len()).map_while(|i| a.at(i).zip(b.at(i)));
    Ok(all.find(|(a, b)| a != b).map(|(a, b)| {
        format!(
            "state {} holds {} where PyTorch has {} at step {step}",
            name(&state.port),
            a.exactly(),
            b.exactly()
        )
    }))
}

/// Inputs whose values the port's type cannot hold.
fn inputs(evidence: &Evidence<'_, '_>, told: &mut Told) -> Result<(), CheckError> {
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for (call, function, input, loss) in &evidence.outcome.losses {
        if seen.contains(&(function.as_str(), input.as_str())) {
            continue;
        }
        let failing: Vec<&PortParity> = evidence
            .open(told)
            .into_iter()
            .filter(|p| p.function == *function && evidence.failing(p) > *call)
            .collect();
        let (range, given, left) = match loss {
            Loss::Range(a, b) => (true, a, b),
            Loss::Rounding(a, b) => (false, a, b),
        };
        if failing.is_empty() && !range {
            continue;
        }
        seen.push((function, input));
        let verb = if range { "cannot hold" } else { "rounds" };
        let mut finding = error(
            "int64-narrowed",
            format!(
                "input {} is {} at step {}, which its dtype in the asset {verb}: it becomes {}",
                name(input),
                given.exactly(),
                call + 1,
                left.exactly()
            ),
        )
        .in_function(function)
        .about(input);
        if failing.is_empty() {
            finding.severity = Severity::Warning;
        }
        for port in failing {
            finding = finding.with_evidence(format!("{} {}", port.role, evidence.shown(port)?));
            told.explain(port);
        }
        told.findings
            .push(finding.with_fix("pass values that 32 bits hold"));
    }
    Ok(())
}
