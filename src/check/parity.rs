//! The calls of a trace run on our runtime, and how far they lie from what PyTorch has.

use std::collections::BTreeMap;

use serde::Serialize;

use super::align::align;
use super::metrics::{compare, Metrics};
use super::pair::{How, Pair};
use super::session::{Loss, Session};
use super::tolerance::Tolerance;
use super::trace::{Run, Start, Value};
use super::CheckError;
use crate::contract::{Role, Source};
use crate::runtime::{DType, Tensor};

/// Values kept for finding the cause of a difference, in bytes.
const KEEP: usize = 256 << 20;

/// One port over the calls of a run.
#[derive(Clone, Debug, Serialize)]
pub struct PortParity {
    /// What the run started from.
    pub run: Start,
    /// The function.
    pub function: String,
    /// Output or state.
    pub role: Role,
    /// The port.
    pub port: String,
    /// What it is in PyTorch; for outputs the path below the return value.
    pub source: Option<String>,
    /// How that is known.
    pub how: Option<How>,
    /// The port's dtype.
    pub dtype: &'static str,
    /// torch's dtype.
    pub torch_dtype: Option<String>,
    /// What is allowed.
    pub tolerance: Tolerance,
    /// The calls, in order.
    pub steps: Vec<StepParity>,
}

/// One port after one call.
#[derive(Clone, Debug, Serialize)]
pub struct StepParity {
    /// The call, from 1.
    pub step: usize,
    /// Distances; absent where the shapes differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics: Option<Metrics>,
    /// Why there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incomparable: Option<String>,
}

impl StepParity {
    /// Whether it is within the tolerance.
    pub fn good(&self) -> bool {
        self.metrics.as_ref().is_some_and(|m| m.beyond == 0)
    }
}

impl PortParity {
    /// The first step beyond the tolerance.
    pub fn first_beyond(&self) -> Option<&StepParity> {
        self.steps.iter().find(|s| !s.good())
    }

    /// Largest distance over all steps.
    pub fn worst(&self) -> f64 {
        let all = self.steps.iter().filter_map(|s| s.metrics.as_ref());
        all.map(|m| m.max_abs).fold(0.0, f64::max)
    }

    /// The step with the largest distance.
    pub fn worst_step(&self) -> Option<(usize, &Metrics)> {
        let all = self
            .steps
            .iter()
            .filter_map(|s| Some((s.step, s.metrics.as_ref()?)));
        all.reduce(|a, b| if b.1.max_abs > a.1.max_abs { b } else { a })
    }
}

/// Why a run did not go to its end.
#[derive(Clone, Debug)]
pub enum Stopped {
    /// Eager PyTorch refused this call.
    Eager(usize, String),
    /// Our runtime refused this call.
    Ours(usize, String),
}

/// Values of one step, kept for finding causes.
pub struct Kept {
    /// The call, from 0.
    pub call: usize,
    /// Index of the function.
    pub function: usize,
    /// Outputs in order.
    pub outputs: Vec<Tensor>,
    /// All states after the call.
    pub states: BTreeMap<String, Tensor>,
}

/// A run of ours.
pub struct Outcome<'t> {
    /// The run of the trace.
    pub run: &'t Run,
    /// States before the first call.
    pub start: BTreeMap<String, Tensor>,
    /// The steps whose values were kept: all, or the first until memory was used up.
    pub kept: Vec<Kept>,
    /// Calls that ran.
    pub done: usize,
    /// Why not all did.
    pub stopped: Option<Stopped>,
    /// The ports.
    pub ports: Vec<PortParity>,
    /// Inputs that lost something on the way to the port's dtype: call, function, input.
    pub losses: Vec<(usize, String, String, Loss)>,
}

/// For each function, which returned leaf each output is.
pub type Alignment = BTreeMap<usize, Vec<Option<usize>>>;

/// Runs all calls of a run and compares after each.
///
/// # Errors
/// When the trace cannot be read.
pub fn run<'t>(
    pair: &Pair<'t>,
    run: &'t Run,
    alignment: &mut Alignment,
    told: &mut dyn FnMut(usize),
) -> Result<Outcome<'t>, CheckError> {
    let mut session = pair.start(run)?;
    let mut outcome = Outcome {
        run,
        start: session.states.clone(),
        kept: Vec::new(),
        done: 0,
        stopped: None,
        ports: Vec::new(),
        losses: Vec::new(),
    };
    let mut bytes = 0usize;
    for (index, call) in run.calls.iter().enumerate() {
        told(index);
        if let Some(said) = &call.error {
            outcome.stopped = Some(Stopped::Eager(index, said.clone()));
            break;
        }
        if let Some((_, function)) = pair.function(&call.function) {
            for (name, _, loss) in pair.inputs(function, call)? {
                if let Some(loss) = loss {
                    let function = function.name.clone();
                    outcome.losses.push((index, function, name, loss));
                }
            }
        }
        let ran = match pair.step(&mut session, call) {
            Ok(Some(ran)) => ran,
            Ok(None) => continue,
            Err(CheckError::Run(error)) => {
                outcome.stopped = Some(Stopped::Ours(index, error.to_string()));
                break;
            }
            Err(other) => return Err(other),
        };
        outcome.done = index + 1;
        let leaves = match alignment.get(&ran.function) {
            Some(leaves) => leaves.clone(),
            None => {
                let leaves = align(pair, ran.function, call, &ran.outputs)?;
                alignment.insert(ran.function, leaves.clone());
                leaves
            }
        };
        compare_step(
            pair,
            &mut outcome,
            &session,
            ran.function,
            &ran.outputs,
            &leaves,
        )?;
        let size = |t: &Tensor| t.len() * t.dtype().size();
        bytes += session.states.values().map(size).sum::<usize>();
        bytes += ran.outputs.iter().map(|(_, t)| size(t)).sum::<usize>();
        // A kept state is copied by the next write to it: nothing is kept beyond the limit.
        if bytes <= KEEP {
            outcome.kept.push(Kept {
                call: index,
                function: ran.function,
                outputs: ran.outputs.into_iter().map(|(_, t)| t).collect(),
                states: session.states.clone(),
            });
        }
    }
    Ok(outcome)
}

fn compare_step(
    pair: &Pair<'_>,
    outcome: &mut Outcome<'_>,
    session: &Session,
    function: usize,
    outputs: &[(String, Tensor)],
    leaves: &[Option<usize>],
) -> Result<(), CheckError> {
    let index = outcome.done - 1;
    let call = &outcome.run.calls[index];
    let f = &pair.functions[function];
    for ((name, ours), leaf) in outputs.iter().zip(leaves) {
        let returned = leaf.and_then(|l| call.outputs.get(l));
        let Some(value) = returned.and_then(|r| r.value.as_ref()) else {
            continue;
        };
        let path = returned.map(|r| r.path.clone()).filter(|p| !p.is_empty());
        let key = (Role::Output, name.as_str(), path, None);
        push(pair, outcome, function, key, ours, value)?;
    }
    for state in &f.states {
        let (Some(value), Some(ours)) = (
            pair.after(call, state),
            session.states.get(&state.port.name),
        ) else {
            continue;
        };
        let source = state.source.as_ref().map(Source::to_string);
        let key = (Role::State, state.port.name.as_str(), source, state.how);
        push(pair, outcome, function, key, ours, value)?;
    }
    Ok(())
}

type Key<'k> = (Role, &'k str, Option<String>, Option<How>);

fn push(
    pair: &Pair<'_>,
    outcome: &mut Outcome<'_>,
    function: usize,
    (role, port, source, how): Key<'_>,
    ours: &Tensor,
    value: &Value,
) -> Result<(), CheckError> {
    let f = &pair.functions[function];
    let tolerance = f.tolerance(pair.options, ours.dtype(), &value.dtype);
    let theirs = pair.trace.tensor(value)?;
    let (metrics, incomparable) = match compare(ours, &theirs, tolerance) {
        Ok(metrics) => (Some(metrics), None),
        Err(why) => (None, Some(why.to_string())),
    };
    let step = StepParity {
        step: outcome.done,
        metrics,
        incomparable,
    };
    let own = |p: &&mut PortParity| p.function == f.name && p.role == role && p.port == port;
    match outcome.ports.iter_mut().find(own) {
        Some(known) => known.steps.push(step),
        None => outcome.ports.push(PortParity {
            run: outcome.run.kind,
            function: f.name.clone(),
            role,
            port: port.into(),
            source,
            how,
            dtype: DType::name(ours.dtype()),
            torch_dtype: Some(value.dtype.clone()),
            tolerance,
            steps: vec![step],
        }),
    }
    Ok(())
}

impl Outcome<'_> {
    /// Ports beyond the tolerance somewhere.
    pub fn beyond(&self) -> impl Iterator<Item = &PortParity> {
        self.ports.iter().filter(|p| p.first_beyond().is_some())
    }

    /// The values kept of a step (from 1).
    pub fn kept(&self, step: usize) -> Option<&Kept> {
        self.kept.iter().find(|k| k.call + 1 == step)
    }

    /// A state of ours before a step (from 1).
    pub fn before(&self, step: usize, state: &str) -> Option<&Tensor> {
        match step {
            1 => self.start.get(state),
            _ => self.kept(step - 1)?.states.get(state),
        }
    }
}

impl PortParity {
    /// Whether both sides are floats.
    pub fn is_float(&self) -> bool {
        let float = |name: &str| name.starts_with("float") || name.starts_with("bfloat");
        float(self.dtype) && self.torch_dtype.as_deref().is_none_or(float)
    }

    /// Whether the largest distance grows with every step from the first failing one.
    pub fn grows(&self) -> bool {
        let from = self.first_beyond().map_or(usize::MAX, |s| s.step);
        let later: Vec<f64> = self
            .steps
            .iter()
            .filter(|s| s.step >= from)
            .filter_map(|s| Some(s.metrics.as_ref()?.max_abs))
            .collect();
        later.len() > 1 && later.windows(2).all(|w| w[1] > w[0] * 1.0001)
    }
}
