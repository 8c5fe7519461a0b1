//! A truncation that no value shows as it stands, found by trying: the fraction of each value of the
//! program is cut off in turn, and the calls are run again.
//!
//! The converter folds a cast to an integer and back away without a trace. Where the truncated value is
//! scaled or added to before anybody sees it, nothing of it can be read off the results; but with the
//! cut put back in the right place, everything agrees again.

use std::path::Path;
use std::time::{Duration, Instant};

use super::{error, Evidence, Told};
use crate::check::metrics::{close, is_float};
use crate::check::numbers::number;
use crate::check::pair::Function;
use crate::check::session::{execute_on, Session};
use crate::check::trace::Call;
use crate::check::CheckError;
use crate::contract::Role;
use crate::ir::{Element, Module, Op, OpId, Type, ValueDef, ValueId};
use crate::runtime::{DType, Model, Tensor};
use crate::text::name;

/// More values than this are not tried.
const MOST: usize = 400;
/// Ops of a program that is copied for each trial.
const MOST_OPS: usize = 1 << 14;
/// When to give up.
const TIME: Duration = Duration::from_secs(10);

pub(super) fn find(evidence: &Evidence<'_, '_>, told: &mut Told) -> Result<(), CheckError> {
    for function in &evidence.pair.functions {
        let open = evidence.open_of(function, told);
        // A program that was read says by itself where it casts.
        let read = evidence.pair.options.hints.read.contains(&function.name);
        let floats = open.iter().all(|p| p.is_float());
        let Some(first) = open.first().filter(|_| floats && !read) else {
            continue;
        };
        let place = match place(evidence, function)? {
            Trials::Found(place) => place,
            Trials::None => continue,
            Trials::GivenUp(why) => {
                told.notes.push(format!(
                    "whether {} of {} differs by a truncation the converter lost was not tried to the end: {why}",
                    name(&first.port),
                    name(&function.name)
                ));
                continue;
            }
        };
        let element = first
            .first_beyond()
            .and_then(|s| s.metrics.as_ref()?.first.clone());
        let (ours, theirs) = element.map_or((0.0.into(), 0.0.into()), |e| (e.ours, e.theirs));
        let finding = error(
            "float-int-float",
            format!(
                "{} {} is {} against {} at step {}: a cast to an integer and back is folded away, and the truncation with it",
                first.role,
                name(&first.port),
                number(ours),
                number(theirs),
                evidence.failing(first)
            ),
        )
        .in_function(&function.name)
        .about(&first.port)
        .with_evidence(format!("{} {}", first.role, evidence.shown(first)?))
        .with_evidence(format!(
            "with the fraction of {place} cut off, the asset gives PyTorch's values in every step"
        ));
        let finding = evidence.consequences(first, finding, told)?;
        told.findings.push(finding.with_fix(
            "truncate with torch.trunc (or torch.floor), which stays in floating point and is kept",
        ));
    }
    Ok(())
}

/// What trying came to.
enum Trials {
    /// The value whose truncation makes everything agree, in words.
    Found(String),
    /// There is none.
    None,
    /// Not all values were tried.
    GivenUp(String),
}

/// The value whose truncation makes everything agree.
fn place(evidence: &Evidence<'_, '_>, function: &Function<'_>) -> Result<Trials, CheckError> {
    let module = evidence.pair.module;
    let body = &function.graph.body;
    let ops: usize = module.graphs.iter().map(|g| g.body.ops.len()).sum();
    let candidates = candidates(function);
    let count = candidates.len();
    if count > MOST || ops > MOST_OPS {
        return Ok(Trials::GivenUp(format!(
            "the program has {count} values and {ops} ops, the limits are {MOST} and {MOST_OPS}"
        )));
    }
    let deadline = Instant::now() + TIME;
    for (tried, value) in candidates.into_iter().enumerate() {
        if Instant::now() > deadline {
            return Ok(Trials::GivenUp(format!(
                "{tried} of {count} values took {} seconds",
                TIME.as_secs()
            )));
        }
        let Some(model) = cut(module, function, value) else {
            continue;
        };
        if agrees(evidence, function, &model)? {
            return Ok(Trials::Found(match body.def(value) {
                ValueDef::Result { op, .. } => {
                    format!("the result of {} (op {})", name(&body.op(op).name), op.0)
                }
                _ => match crate::check::graph::argument(function.graph, value) {
                    Some(origin) => origin.to_string(),
                    None => "an argument".into(),
                },
            }));
        }
    }
    Ok(Trials::None)
}

/// Real floats of the program's own block that something uses.
fn candidates(function: &Function<'_>) -> Vec<ValueId> {
    let body = &function.graph.body;
    let float = |v: &ValueId| {
        let Type::Tensor(t) = body.ty(*v) else {
            return false;
        };
        DType::from_element(t.element).is_some_and(|d| is_float(d) && d.part().is_none())
    };
    let arguments = function.graph.args.iter().map(|a| a.value);
    let entry = body.entry().into_iter().flat_map(|b| body.block_ops(b));
    let results = entry
        .filter(|(_, op)| !op.is("coreai.constant"))
        .flat_map(|(_, op)| op.results.iter().copied());
    arguments.chain(results).filter(float).collect()
}

/// The program with the fraction of one value cut off.
fn cut(module: &Module, function: &Function<'_>, value: ValueId) -> Option<Model> {
    let mut module = module.clone();
    let graph = module
        .graphs
        .iter_mut()
        .find(|g| g.name == function.graph.name)?;
    let body = &mut graph.body;
    let ty = body.ty(value).clone();
    let mut whole = ty.as_tensor()?.clone();
    whole.element = Element::si(32);
    for op in &mut body.ops {
        for operand in &mut op.operands {
            // A number that no value has yet; it gets its own below.
            if *operand == value {
                *operand = ValueId(u32::MAX);
            }
        }
    }
    let mut added = Vec::new();
    let mut from = value;
    for ty in [Type::Tensor(whole.into()), ty] {
        let id = OpId(u32::try_from(body.ops.len()).ok()?);
        let result = body.add_value(ty, ValueDef::Result { op: id, index: 0 });
        let mut op = Op::new("coreai.cast");
        op.operands = vec![from];
        op.results = vec![result];
        body.ops.push(op);
        added.push(id);
        from = result;
    }
    for op in &mut body.ops {
        for operand in &mut op.operands {
            if *operand == ValueId(u32::MAX) {
                *operand = from;
            }
        }
    }
    let place = match body.def(value) {
        ValueDef::Result { op, .. } => {
            let entry = body.entry()?;
            entry.ops.iter().position(|o| *o == op)? + 1
        }
        _ => 0,
    };
    let entry = body.region.blocks.first_mut()?;
    entry.ops.splice(place..place, added);
    Model::from_module(Path::new(""), &module).ok()
}

/// Whether a model gives PyTorch's values in every call.
fn agrees(
    evidence: &Evidence<'_, '_>,
    function: &Function<'_>,
    model: &Model,
) -> Result<bool, CheckError> {
    let (pair, outcome) = (evidence.pair, evidence.outcome);
    let Ok(run) = model.function(&function.name) else {
        return Ok(false);
    };
    let mut session = pair.start(outcome.run)?;
    for call in &outcome.run.calls[..outcome.done] {
        if call.function != function.traced.name {
            match pair.step(&mut session, call) {
                Ok(_) => continue,
                Err(CheckError::Run(_)) => return Ok(false),
                Err(other) => return Err(other),
            }
        }
        pair.set_arguments(&mut session, function, call)?;
        let inputs = pair.inputs(function, call)?.into_iter();
        let inputs: Vec<(String, Tensor)> = inputs.map(|(n, t, _)| (n, t)).collect();
        let Ok(outputs) = execute_on(&run, function, &mut session, &inputs) else {
            return Ok(false);
        };
        if !matches(evidence, function, call, &session, &outputs)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether what a call gave, and the states after it, are PyTorch's.
pub(super) fn matches(
    evidence: &Evidence<'_, '_>,
    function: &Function<'_>,
    call: &Call,
    session: &Session,
    outputs: &[(String, Tensor)],
) -> Result<bool, CheckError> {
    let pair = evidence.pair;
    let index = pair.functions.iter().position(|f| f.name == function.name);
    let leaves = index.and_then(|i| evidence.alignment.get(&i));
    let mut values = Vec::new();
    for (place, (port, ours)) in outputs.iter().enumerate() {
        let leaf = leaves.and_then(|l| l.get(place).copied().flatten());
        let value = leaf.and_then(|l| call.outputs.get(l)?.value.as_ref());
        values.extend(value.map(|v| (Role::Output, port, ours, v)));
    }
    for state in &function.states {
        let ours = session.states.get(&state.port.name);
        let both = ours.zip(pair.after(call, state));
        values.extend(both.map(|(ours, v)| (Role::State, &state.port.name, ours, v)));
    }
    for (role, port, ours, value) in values {
        let tolerance = match evidence.port(&function.name, role, port) {
            Some(known) => known.tolerance,
            None => function.tolerance(pair.options, ours.dtype(), &value.dtype),
        };
        if !close(ours, &pair.trace.tensor(value)?, tolerance) {
            return Ok(false);
        }
    }
    Ok(true)
}
