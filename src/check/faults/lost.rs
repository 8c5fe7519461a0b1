//! What changes in PyTorch from call to call and is no state of the asset.

use super::{elsewhere, error, Evidence, Told};
use crate::check::numbers::{number, Number, Values};
use crate::check::pair::{Bound, Function};
use crate::check::parity::PortParity;
use crate::check::protocols::fill::{fill, Fill};
use crate::check::session::execute;
use crate::check::trace::Buffer;
use crate::check::CheckError;
use crate::contract::{Role, SourceKind};
use crate::report::Finding;
use crate::runtime::Tensor;
use crate::text::{count, list, name};

/// Buffers and arguments whose recorded contents change and which no state of the asset is.
pub fn lost_buffers(evidence: &Evidence<'_, '_>, told: &mut Told) -> Result<(), CheckError> {
    for function in &evidence.pair.functions {
        let mut lost: Vec<(&Buffer, String)> = Vec::new();
        for buffer in function.traced.buffers.iter().filter(|b| b.written) {
            // What only another function writes is told of the one that has it as a constant.
            let is_state = function.states.iter().any(|s| is(s, buffer));
            if is_state || !writes(evidence, function, buffer)? {
                continue;
            }
            if let Some(change) = change(evidence, function, &buffer.name)? {
                lost.push((buffer, change));
            }
        }
        if lost.is_empty() {
            continue;
        }
        let names: Vec<_> = lost.iter().map(|l| name(&l.0.name).into_owned()).collect();
        let states = count(function.states.len(), "state");
        let verb = if lost.len() == 1 { "changes" } else { "change" };
        let mut finding = error(
            "write-lost",
            format!(
                "{} {verb} in PyTorch, and the asset has {states}: what is written there is lost",
                list(&names)
            ),
        )
        .in_function(&function.name)
        .about(&lost[0].0.name)
        .with_evidence(format!(
            "{states} in the asset, none of which is {}",
            list(&names)
        ));
        for (buffer, change) in lost.iter().take(8) {
            finding = finding.with_evidence(format!("{}: {change}", name(&buffer.name)));
        }
        finding = outputs(evidence, function, finding, told)?;
        finding = held_elsewhere(evidence, function, &lost, finding, told)?;
        told.lose(finding.with_fix(
            "write the registered buffer in place in forward (copy_, add_, index assignment), in the mode in which it is exported",
        ));
    }
    Ok(())
}

/// Buffers that change in the training mode a recipe hands its module over in. The trace has the mode that
/// was exported, in which they stay what they are: they are no reason for anything that differs.
pub fn lost_in_training(evidence: &Evidence<'_, '_>, told: &mut Told) {
    for function in &evidence.pair.functions {
        let hinted = |buffer: &&Buffer| {
            let mut lost = evidence.pair.options.hints.lost.iter();
            lost.any(|l| {
                l.kind == "buffer"
                    && l.function == function.name
                    && buffer.names().any(|n| n == l.name)
            })
        };
        let buffers = function.traced.buffers.iter().filter(hinted);
        let lost: Vec<&Buffer> = buffers
            .filter(|b| !b.written && !function.states.iter().any(|s| is(s, b)))
            .collect();
        let Some(first) = lost.first() else { continue };
        let names: Vec<_> = lost.iter().map(|b| name(&b.name).into_owned()).collect();
        let states = count(function.states.len(), "state");
        let verb = if lost.len() == 1 { "changes" } else { "change" };
        told.findings.push(
            error(
                "write-lost",
                format!(
                    "{} {verb} in PyTorch in the training mode the recipe hands the module over in, and the asset has \
                     {states}",
                    list(&names)
                ),
            )
            .in_function(&function.name)
            .about(&first.name)
            .with_evidence(
                "it was exported and traced in evaluation mode, in which nothing is written: outputs cannot show it",
            )
            .with_fix(
                "call .eval() in the recipe if it need not change; else write the buffer in place in forward",
            ),
        );
    }
}

/// Whether a state is this buffer.
fn is(state: &Bound, buffer: &Buffer) -> bool {
    let source = state.source.as_ref();
    source.is_some_and(|s| {
        s.kind == SourceKind::Buffer && s.names().any(|n| buffer.names().any(|b| b == n))
    })
}

/// States of other functions that are what this one loses: they lack what it wrote.
fn held_elsewhere(
    evidence: &Evidence<'_, '_>,
    function: &Function<'_>,
    lost: &[(&Buffer, String)],
    mut finding: Finding,
    told: &mut Told,
) -> Result<Finding, CheckError> {
    for other in evidence.pair.functions.iter() {
        let of_buffer = |s: &&Bound| lost.iter().any(|(b, _)| is(s, b));
        if other.name == function.name {
            continue;
        }
        for state in other.states.iter().filter(of_buffer) {
            let port = evidence.port(&other.name, Role::State, &state.port.name);
            let Some(port) = port.filter(|p| p.first_beyond().is_some() && !told.covers(p)) else {
                continue;
            };
            finding = finding.with_evidence(format!(
                "it is a state of {}: {}",
                other.name,
                evidence.shown(port)?
            ));
            finding = evidence.consequences(port, finding, told)?;
        }
    }
    Ok(finding)
}

/// Whether any call of the function itself changes a buffer in PyTorch.
fn writes(
    evidence: &Evidence<'_, '_>,
    function: &Function<'_>,
    buffer: &Buffer,
) -> Result<bool, CheckError> {
    let run = evidence.outcome.run;
    let other = |f: &str| f != function.traced.name;
    // A call of another function in between may be what changed it, and is not seen here.
    let mut held = run.began(&function.traced.name, &buffer.name);
    let mut known = true;
    for call in &run.calls {
        let left = call.buffer(&buffer.name);
        if other(&call.function) {
            known &= left.is_some() || !may_have(evidence, &call.function, buffer);
            held = left.or(held);
            continue;
        }
        if let (Some(a), Some(b), true) = (held, left, known) {
            if !evidence.pair.trace.same(a, b) {
                return Ok(true);
            }
        }
        (held, known) = (left.or(held), true);
    }
    Ok(false)
}

/// Whether a traced function may know the buffer under another name.
fn may_have(evidence: &Evidence<'_, '_>, function: &str, buffer: &Buffer) -> bool {
    let alike = |b: &Buffer| b.written && b.shape == buffer.shape && b.dtype == buffer.dtype;
    let traced = evidence.pair.trace.function(function);
    traced.is_some_and(|f| f.buffers.iter().any(alike))
}

/// How a buffer's first changing element goes from call to call; `None` where it never changes.
fn change(
    evidence: &Evidence<'_, '_>,
    function: &Function<'_>,
    buffer: &str,
) -> Result<Option<String>, CheckError> {
    let run = evidence.outcome.run;
    let start = run.began(&function.traced.name, buffer);
    let mut values = Vec::new();
    values.extend(start);
    let calls = run
        .calls
        .iter()
        .filter(|c| c.function == function.traced.name);
    values.extend(calls.filter_map(|c| c.buffer(buffer)));
    let Some(moved) = values
        .windows(2)
        .find(|w| !evidence.pair.trace.same(w[0], w[1]))
    else {
        return Ok(None);
    };
    let read = |v| -> Result<Option<Values>, CheckError> {
        Ok(Values::of(&evidence.pair.trace.tensor(v)?))
    };
    let (Some(a), Some(b)) = (read(moved[0])?, read(moved[1])?) else {
        return Ok(Some("it changes".into()));
    };
    let least = a.reals.len().min(b.reals.len());
    let Some(at) = (0..least).find(|i| a.at(*i) != b.at(*i)) else {
        return Ok(Some("its shape changes".into()));
    };
    let mut shown = Vec::new();
    for value in values.iter().take(5) {
        shown.extend(read(value)?.and_then(|v| v.at(at)).map(number));
    }
    Ok(Some(format!("goes {} in PyTorch", shown.join(", "))))
}

/// What the outputs show of it, as evidence; explains those that fail.
fn outputs(
    evidence: &Evidence<'_, '_>,
    function: &Function<'_>,
    mut finding: Finding,
    told: &mut Told,
) -> Result<Finding, CheckError> {
    let failing: Vec<&PortParity> = evidence
        .open(told)
        .into_iter()
        .filter(|p| p.function == function.name)
        .collect();
    if failing.is_empty() {
        let compared = |p: &PortParity| {
            p.function == function.name && p.role == Role::Output && !p.steps.is_empty()
        };
        // Without a value compared they may well differ.
        if !evidence.outcome.ports.iter().any(compared) {
            return Ok(finding.with_evidence("no output was compared in this run"));
        }
        return Ok(finding.with_evidence("outputs agree in every step: they cannot show it"));
    }
    for port in failing.iter().take(4) {
        let series = evidence.series(port)?;
        let from = evidence.failing(port);
        if let Some((_, ours, theirs)) = series.iter().find(|s| s.0 == from) {
            finding = finding.with_evidence(format!(
                "{} is {} at step {from} where PyTorch gives {}",
                name(&port.port),
                number(*ours),
                number(*theirs)
            ));
        }
        finding = finding.with_evidence(format!(
            "{}: {}; outputs differ from step {from}",
            name(&port.port),
            both(&series)
        ));
    }
    failing.iter().for_each(|p| told.explain(p));
    Ok(finding)
}

/// `the asset returns 2, 2, 2, PyTorch 2, 3, 3.5`
fn both(series: &[(usize, Number, Number)]) -> String {
    let join = |f: &dyn Fn(&(usize, Number, Number)) -> Number| {
        let all: Vec<String> = series.iter().take(6).map(|s| number(f(s))).collect();
        all.join(", ")
    };
    format!(
        "the asset returns {}, PyTorch {}",
        join(&|s| s.1),
        join(&|s| s.2)
    )
}

/// Outputs and states that show a memory which the asset has not.
pub(super) fn find(evidence: &Evidence<'_, '_>, told: &mut Told) -> Result<(), CheckError> {
    unwritten(evidence, told)?;
    for function in &evidence.pair.functions {
        let open = evidence.open_of(function, told);
        let Some(first) = open.first() else {
            continue;
        };
        let hints = hints(evidence, function);
        let proof = memory(evidence, function)?;
        let later = evidence.failing(first) > first.steps.first().map_or(1, |s| s.step);
        // What another function lost is told with that.
        if elsewhere::loser(evidence, function, evidence.failing(first), told)?.is_some() {
            continue;
        }
        let stateless = function.states.is_empty() && later && proof.is_none();
        // What is remembered shows from the second call on; before, only where the write of the same
        // call is lost with it.
        let shown = !hints.is_empty() && (later || function.states.is_empty());
        if !shown && proof.is_none() && !stateless {
            continue;
        }
        let finding = remembered(evidence, function, &hints)?;
        let mut finding = finding.in_function(&function.name).about(&first.port);
        if let Some((a, b)) = proof {
            finding = finding.with_evidence(format!(
                "steps {a} and {b} have equal inputs and equal states in PyTorch, and other results: something else changes from call to call"
            ));
        }
        let finding = outputs(evidence, function, finding, told)?;
        told.lose(finding.with_fix(REGISTER));
    }
    Ok(())
}

/// What to do about a memory that the asset has not.
pub(super) const REGISTER: &str =
    "register what changes with register_buffer and write it in place in forward";

/// What eager PyTorch was seen to change, states of the asset aside.
pub(super) fn hints<'e>(
    evidence: &Evidence<'e, '_>,
    function: &Function<'_>,
) -> Vec<(&'e str, String)> {
    let functions = &evidence.pair.functions;
    let is_state = |name: &str| {
        let mut states = functions.iter().flat_map(|f| &f.states);
        states.any(|s| {
            s.source
                .as_ref()
                .is_some_and(|s| s.names().any(|n| n == name))
        })
    };
    let lost = evidence.pair.options.hints.lost.iter();
    // Buffers are those that change in another mode than the one that runs.
    lost.filter(|l| l.function == function.name && l.kind != "buffer" && !is_state(&l.name))
        .map(|l| (l.kind.as_str(), l.name.clone()))
        .collect()
}

/// The finding for what a function changes in PyTorch and the asset does not.
pub(super) fn remembered(
    evidence: &Evidence<'_, '_>,
    function: &Function<'_>,
    hints: &[(&str, String)],
) -> Result<Finding, CheckError> {
    let states = count(function.states.len(), "state");
    let of = |kind: &str| -> Vec<String> {
        hints
            .iter()
            .filter(|h| h.0 == kind)
            .map(|h| h.1.clone())
            .collect()
    };
    let (python, parameters) = (of("python"), of("parameter"));
    let tensors: Vec<String> = hints
        .iter()
        .filter(|h| h.0 != "python" && h.0 != "parameter")
        .map(|h| h.1.clone())
        .collect();
    let verb = |n: usize| if n == 1 { "changes" } else { "change" };
    let returned = evidence
        .outcome
        .run
        .calls
        .iter()
        .find(|c| c.function == function.traced.name)
        .map_or(0, |c| c.outputs.len());
    let outputs = function.run.outputs().len();
    Ok(
        if !parameters.is_empty() || (hints.is_empty() && outputs > returned) {
            let who = match parameters.is_empty() {
                true => "a parameter".to_string(),
                false => list(&parameters),
            };
            error(
                "mutated-parameter",
                format!("{who} changes in PyTorch and is no state of the asset"),
            )
            .with_evidence(format!(
            "{} for {returned} returned: the lost update appears as an additional output; {states}",
            count(outputs, "output")
        ))
        } else if tensors.is_empty() && !python.is_empty() {
            error(
            "python-state-frozen",
            format!(
                "{} {} in PyTorch from call to call and is frozen in the asset at its export-time value",
                list(&python), verb(python.len())
            ),
        )
        } else {
            let who = match tensors.is_empty() {
                true => "something".to_string(),
                false => list(&tensors),
            };
            error(
            "write-lost",
            format!(
                "{who} {} in PyTorch from call to call and {}: the asset has {states}",
                verb(tensors.len().max(1)),
                if tensors.len() > 1 { "are no states" } else { "is no state" }
            ),
        )
        .with_evidence("a tensor in a list, dictionary, deque, class attribute or plain attribute becomes a constant of export time; export may also leave a fake tensor there, so a reference has to be taken in another process")
        },
    )
}

/// Two steps with equal inputs and equal states before them in PyTorch, and other results.
pub(super) fn memory(
    evidence: &Evidence<'_, '_>,
    function: &Function<'_>,
) -> Result<Option<(usize, usize)>, CheckError> {
    let run = evidence.outcome.run;
    let trace = evidence.pair.trace;
    let calls: Vec<usize> = (0..evidence.outcome.done)
        .filter(|c| run.calls[*c].function == function.traced.name && !run.calls[*c].random)
        .take(64)
        .collect();
    let mut pairs = calls
        .iter()
        .flat_map(|b| calls.iter().filter(move |a| *a < b).map(move |a| (*a, *b)));
    let state = |call: usize, s| evidence.pair.held(run, call, function, s);
    let found = pairs.find(|(a, b)| {
        let (x, y) = (&run.calls[*a], &run.calls[*b]);
        let inputs = x.inputs.len() == y.inputs.len()
            && x.inputs
                .iter()
                .all(|(n, v)| y.inputs.get(n).is_some_and(|w| trace.same(v, w)));
        let states = function
            .states
            .iter()
            .all(|s| match (state(*a, s), state(*b, s)) {
                (Some(v), Some(w)) => trace.same(v, w),
                _ => false,
            });
        let mut returned = x.outputs.iter().zip(&y.outputs);
        inputs
            && states
            && returned.any(|(v, w)| match (&v.value, &w.value) {
                (Some(v), Some(w)) => !trace.same(v, w),
                _ => v.constant != w.constant,
            })
    });
    Ok(found.map(|(a, b)| (a + 1, b + 1)))
}

/// States that PyTorch writes and the asset never does.
fn unwritten(evidence: &Evidence<'_, '_>, told: &mut Told) -> Result<(), CheckError> {
    for port in evidence.open(told) {
        if port.role != Role::State || told.covers(port) {
            continue;
        }
        let function = evidence.function(port);
        let loser = |f| elsewhere::loser(evidence, f, evidence.failing(port), told);
        if function.map(loser).transpose()?.flatten().is_some() {
            continue;
        }
        // What another function lost is found in this one, too, although it only reads.
        let (mut still, mut theirs) = (true, false);
        for step in port.steps.iter().map(|s| s.step) {
            let pair = (
                evidence.outcome.before(step, &port.port),
                evidence.ours(port, step),
            );
            still &= matches!(pair, (Some(a), Some(b)) if same(a, b));
            let pair = (evidence.before(port, step)?, evidence.theirs(port, step)?);
            theirs |= matches!(&pair, (Some(a), Some(b)) if !same(a, b));
        }
        // What is written with the value it has, such as a fraction of nothing, is not lost.
        if !still || !theirs || is_written(evidence, port)? {
            continue;
        }
        let finding = error(
            "write-lost",
            format!(
                "{} is written in PyTorch and never in the asset",
                port.source
                    .clone()
                    .unwrap_or_else(|| name(&port.port).into_owned())
            ),
        )
        .in_function(&port.function)
        .about(&port.port)
        .with_evidence(format!("state {}", evidence.shown(port)?))
        .with_fix("check that the write changes the value and is not folded away");
        let finding = evidence.consequences(port, finding, told)?;
        told.findings.push(finding);
    }
    Ok(())
}

/// Whether the asset writes a state in the first step that differs: another value in it is gone afterwards.
fn is_written(evidence: &Evidence<'_, '_>, port: &PortParity) -> Result<bool, CheckError> {
    let (pair, run) = (evidence.pair, evidence.outcome.run);
    let step = evidence.failing(port);
    let call = step.checked_sub(1).and_then(|s| run.calls.get(s));
    let (Some(function), Some(call)) = (evidence.function(port), call) else {
        return Ok(false);
    };
    let mut session = pair.start(run)?;
    let Some(state) = session.states.get_mut(&port.port) else {
        return Ok(false);
    };
    fill(state, Fill::Garbage, None)?;
    let laid = state.clone();
    let inputs = pair.inputs(function, call)?.into_iter();
    let inputs: Vec<(String, Tensor)> = inputs.map(|(n, t, _)| (n, t)).collect();
    let ran = execute(function, &mut session, &inputs).is_ok();
    let left = session.states.get(&port.port);
    Ok(ran && left.is_some_and(|t| !same(t, &laid)))
}

fn same(a: &Tensor, b: &Tensor) -> bool {
    crate::check::metrics::identical(a, b)
}
