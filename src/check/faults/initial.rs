//! States that do not start at zero in PyTorch: the asset carries no initial values.

use super::{error, Evidence};
use crate::check::metrics::{compare, identical, reals, Metrics};
use crate::check::numbers::{number, shape, Number, Values};
use crate::check::pair::{Bound, Function, Pair};
use crate::check::trace::{Run, Start};
use crate::check::CheckError;
use crate::contract::SourceKind;
use crate::report::{Finding, Severity};
use crate::runtime::Tensor;
use crate::text::name;

/// Tries what happens when each state that has an initial value starts from zeros instead.
///
/// # Errors
/// When the trace cannot be read.
pub fn initial_values(evidence: &Evidence<'_, '_>) -> Result<Vec<Finding>, CheckError> {
    let pair = evidence.pair;
    let run = evidence.outcome.run;
    if run.kind != Start::Registered || evidence.outcome.done == 0 {
        return Ok(Vec::new());
    }
    let mut findings = Vec::new();
    for (function, state) in pair.states() {
        if state
            .source
            .as_ref()
            .is_none_or(|s| s.kind != SourceKind::Buffer)
        {
            continue;
        }
        let Some(value) = pair.initial(run, function, state) else {
            continue;
        };
        let start = pair.trace.tensor(value)?;
        if reals(&start).is_none_or(|v| v.iter().all(|v| *v == 0.0)) {
            continue;
        }
        findings.extend(judge(evidence, function, state, &start)?);
    }
    Ok(findings)
}

/// Where a run with one state zeroed parts from PyTorch.
#[derive(Default)]
struct Parting {
    /// Step, output, ours and theirs there.
    output: Option<(usize, String, Metrics)>,
    /// The first step at which any state differs from what it is with the initial value.
    state: Option<usize>,
    /// Whether every output was zero throughout.
    zeros: bool,
}

fn judge(
    evidence: &Evidence<'_, '_>,
    function: &Function<'_>,
    state: &Bound,
    start: &Tensor,
) -> Result<Option<Finding>, CheckError> {
    let parting = run_from_zero(evidence, evidence.outcome.run, &state.port.name)?;
    let source = state
        .source
        .as_ref()
        .map(|s| s.name.clone())
        .unwrap_or_default();
    let begins = describe(start);
    let who = name(&source).into_owned();
    let mut finding = match &parting.output {
        Some((step, output, metrics)) => {
            let mut finding = error(
                "initial-value-lost",
                format!("buffer {who} starts {begins}, not 0; from zeros step {step} differs from PyTorch"),
            );
            if let Some(e) = &metrics.first {
                finding = finding.with_evidence(format!(
                    "from zeros {} is {} at step {step}, in PyTorch {}",
                    name(output),
                    number(e.ours),
                    number(e.theirs)
                ));
            }
            if parting.zeros {
                finding = finding.with_evidence("from zeros every output is 0");
            }
            finding
        }
        None => {
            let Some(step) = parting.state else {
                return Ok(None);
            };
            let mut finding = error(
                "initial-value-lost",
                format!("buffer {who} starts {begins}, not 0; from zeros the states differ from PyTorch from step {step} on"),
            );
            finding.severity = Severity::Warning;
            finding.with_evidence("the outputs of these calls do not show it")
        }
    };
    finding = finding
        .in_function(&function.name)
        .about(&state.port.name)
        .with_evidence("the asset carries no initial values: consumers start from zeros");
    Ok(Some(finding.with_fix(format!(
        "a consumer must fill state {} {} before the first call; or store the difference to it, so that zero is the right start",
        name(&state.port.name),
        match begins.strip_prefix("at ") {
            Some(value) => format!("with {value}"),
            None => format!("as it {begins}"),
        }
    ))))
}

fn run_from_zero(
    evidence: &Evidence<'_, '_>,
    run: &Run,
    state: &str,
) -> Result<Parting, CheckError> {
    let pair: &Pair<'_> = evidence.pair;
    let mut parting = Parting {
        zeros: true,
        ..Parting::default()
    };
    let (mut session, mut usual) = (pair.start(run)?, pair.start(run)?);
    if let Some(t) = session.states.get_mut(state) {
        *t = Tensor::zeros(t.dtype(), t.shape())?;
    }
    for (index, call) in run.calls.iter().take(evidence.outcome.done).enumerate() {
        let (ran, other) = match (pair.step(&mut session, call), pair.step(&mut usual, call)) {
            (Ok(Some(ran)), Ok(Some(other))) => (ran, other),
            (Err(CheckError::Run(_)), _) | (_, Err(CheckError::Run(_))) => break,
            (Err(e), _) | (_, Err(e)) => return Err(e),
            _ => continue,
        };
        let function = &pair.functions[ran.function];
        let leaves = evidence
            .alignment
            .get(&ran.function)
            .cloned()
            .unwrap_or_default();
        for (place, (port, ours)) in ran.outputs.iter().enumerate() {
            parting.zeros &= reals(ours).is_some_and(|v| v.iter().all(|v| *v == 0.0));
            let leaf = leaves.get(place).copied().flatten();
            let Some(value) = leaf.and_then(|l| call.outputs.get(l)?.value.as_ref()) else {
                continue;
            };
            // What the initial value changes: a difference to PyTorch that is there with it as well
            // is another fault.
            let tolerance = function.tolerance(pair.options, ours.dtype(), &value.dtype);
            let changed =
                compare(ours, &other.outputs[place].1, tolerance).is_ok_and(|m| m.beyond > 0);
            let theirs = pair.trace.tensor(value)?;
            if let (Ok(m), true, None) =
                (compare(ours, &theirs, tolerance), changed, &parting.output)
            {
                if m.beyond > 0 {
                    parting.output = Some((index + 1, port.clone(), m));
                }
            }
        }
        let differs = session
            .states
            .iter()
            .any(|(n, t)| usual.states.get(n).is_some_and(|u| !identical(t, u)));
        if differs && parting.state.is_none() {
            parting.state = Some(index + 1);
        }
    }
    Ok(parting)
}

/// `at -10000`, `at the identity`, `with values from -1 to 2`.
pub fn describe(start: &Tensor) -> String {
    let held = Values::of(start);
    let ends = held.as_ref().and_then(Values::range);
    let values = held.map(|v| v.reals).unwrap_or_default();
    let dims = start.shape();
    if let Some((low, high)) = ends {
        if low == high && !values.iter().any(|v| v.is_nan()) {
            return format!("at {}", number(low));
        }
    }
    let square = dims.len() >= 2 && dims[dims.len() - 1] == dims[dims.len() - 2];
    if square {
        let n = dims[dims.len() - 1];
        let unit = |i: usize| if (i / n) % n == i % n { 1.0 } else { 0.0 };
        if values.iter().enumerate().all(|(i, v)| *v == unit(i)) {
            return "at the identity".into();
        }
    }
    let nan = Number::Real(f64::NAN);
    let (low, high) = ends.unwrap_or((nan, nan));
    format!(
        "with values from {} to {} ({})",
        number(low),
        number(high),
        shape(dims)
    )
}
