//! What a difference comes from.
//!
//! Each cause looks at the ports that are beyond their tolerance and nobody has accounted for, and
//! explains those for which the values are evidence. What is left is `values-differ`.

mod differ;
mod disagree;
mod elsewhere;
mod frozen;
mod initial;
mod lost;
mod narrowed;
mod random;
mod saturated;
mod swapped;
mod trial;
mod truncated;

pub use initial::{describe, initial_values};
pub use lost::{lost_buffers, lost_in_training};
pub use swapped::misnamed;

use std::collections::HashSet;

use super::numbers::{number, shape, Number, Values};
use super::pair::{Function, Pair};
use super::parity::{Alignment, Outcome, PortParity, Stopped};
use super::trace::{Start, Value};
use super::CheckError;
use crate::contract::Role;
use crate::report::{Finding, Severity, Stage};
use crate::runtime::Tensor;
use crate::text::name;

/// What is looked at.
pub struct Evidence<'e, 't> {
    /// Asset and trace.
    pub pair: &'e Pair<'t>,
    /// A run.
    pub outcome: &'e Outcome<'t>,
    /// Which returned value each output is.
    pub alignment: &'e Alignment,
}

/// What was found so far, and what that explains.
#[derive(Default)]
pub struct Told {
    /// The findings.
    pub findings: Vec<Finding>,
    explained: HashSet<(String, Role, String)>,
    /// What was not looked for, and why.
    pub notes: Vec<String>,
    /// Functions that mean different tensors by one name.
    disagreeing: Vec<String>,
    /// Functions that lose what they write, and the finding that says so.
    losses: Vec<(String, usize)>,
}

impl Told {
    fn explain(&mut self, port: &PortParity) {
        let key = (port.function.clone(), port.role, port.port.clone());
        self.explained.insert(key);
    }

    /// Keeps the finding that a function loses something; its place.
    fn lose(&mut self, finding: Finding) -> usize {
        let place = self.findings.len();
        self.losses
            .extend(finding.function.clone().map(|f| (f, place)));
        self.findings.push(finding);
        place
    }

    /// The place of the finding that a function loses something.
    fn loss(&self, function: &str) -> Option<usize> {
        let mut all = self.losses.iter();
        all.find(|(f, _)| f == function).map(|(_, place)| *place)
    }

    /// Whether a port is accounted for.
    pub fn covers(&self, port: &PortParity) -> bool {
        let key = (port.function.clone(), port.role, port.port.clone());
        self.explained.contains(&key)
    }
}

/// An error about a difference.
fn error(id: &'static str, message: impl Into<String>) -> Finding {
    Finding::new(id, Stage::Check, Severity::Error, message)
}

/// Finds the causes of everything beyond tolerance in a run.
///
/// # Errors
/// When the trace cannot be read.
pub fn explain(evidence: &Evidence<'_, '_>, told: &mut Told) -> Result<(), CheckError> {
    stopped(evidence, told);
    random::find(evidence, told);
    disagree::find(evidence, told)?;
    swapped::find(evidence, told)?;
    saturated::find(evidence, told)?;
    narrowed::find(evidence, told)?;
    truncated::find(evidence, told, false)?;
    trial::find(evidence, told)?;
    frozen::find(evidence, told)?;
    lost::find(evidence, told)?;
    truncated::find(evidence, told, true)?;
    elsewhere::find(evidence, told)?;
    differ::find(evidence, told)
}

/// A run that did not go to its end.
fn stopped(evidence: &Evidence<'_, '_>, told: &mut Told) {
    let outcome = evidence.outcome;
    let function = |call: usize| outcome.run.calls.get(call).map(|c| c.function.clone());
    let from = match outcome.run.kind {
        Start::Registered => "",
        Start::Zeros => " from zeros",
    };
    match &outcome.stopped {
        None => {}
        Some(Stopped::Eager(call, said)) => {
            let overlap = ["overlap", "memory location", "written-to"];
            let kind = match overlap.iter().any(|w| said.contains(w)) {
                true => "an overlap error",
                false => "an error",
            };
            let mut finding = error(
                "eager-refuses",
                format!(
                    "the reference{from} fails at step {} with {kind}; no parity can be stated",
                    call + 1
                ),
            );
            finding.function = function(*call);
            told.findings.push(
                finding
                    .with_evidence(format!("eager PyTorch: {}", first_line(said)))
                    .with_evidence(match call {
                        0 => "the asset runs nevertheless; what it computes cannot be called right or wrong".into(),
                        n => format!("compared up to step {n}"),
                    })
                    .with_fix(match kind {
                        "an error" => "correct the call, or forward, so that PyTorch itself runs it",
                        _ => "change forward so that PyTorch itself runs it, such as a copy of the source (s[:, :-1].clone()) where memory overlaps",
                    }),
            );
        }
        Some(Stopped::Ours(call, said)) => {
            let mut finding = error(
                "run-failed",
                format!(
                    "step {}{from} runs in PyTorch and not in the asset",
                    call + 1
                ),
            );
            finding.function = function(*call);
            told.findings
                .push(finding.with_evidence(said.clone()).with_fix(
                "compare the shapes and values of this call with what the model was exported for",
            ));
        }
    }
}

fn first_line(text: &str) -> &str {
    text.lines()
        .map(str::trim)
        .find(|l| !l.is_empty())
        .unwrap_or_default()
}

impl<'t> Evidence<'_, 't> {
    /// Ports beyond tolerance that nobody has explained, states first, in the order in which they fail.
    fn open<'p>(&'p self, told: &Told) -> Vec<&'p PortParity> {
        let mut open: Vec<&PortParity> =
            self.outcome.beyond().filter(|p| !told.covers(p)).collect();
        open.sort_by_key(|p| (self.failing(p), p.role));
        open
    }

    /// Of these, the ports of one function.
    fn open_of<'p>(&'p self, function: &Function<'_>, told: &Told) -> Vec<&'p PortParity> {
        let mut open = self.open(told);
        open.retain(|p| p.function == function.name);
        open
    }

    /// The first failing step of a port.
    fn failing(&self, port: &PortParity) -> usize {
        port.first_beyond().map_or(usize::MAX, |s| s.step)
    }

    fn function(&self, port: &PortParity) -> Option<&Function<'t>> {
        self.pair.functions.iter().find(|f| f.name == port.function)
    }

    fn port(&self, function: &str, role: Role, port: &str) -> Option<&PortParity> {
        let own = |p: &&PortParity| p.function == function && p.role == role && p.port == port;
        self.outcome.ports.iter().find(own)
    }

    /// PyTorch's value of a port after a step.
    fn recorded(&self, port: &PortParity, step: usize) -> Option<&'t Value> {
        let call = self.outcome.run.calls.get(step.checked_sub(1)?)?;
        let index = self
            .pair
            .functions
            .iter()
            .position(|f| f.name == port.function)?;
        let function = &self.pair.functions[index];
        match port.role {
            Role::State => self.pair.after(call, function.state(&port.port)?),
            _ => {
                let place = function
                    .run
                    .outputs()
                    .iter()
                    .position(|o| o.name == port.port)?;
                let leaf = self.alignment.get(&index)?.get(place).copied().flatten()?;
                call.outputs.get(leaf)?.value.as_ref()
            }
        }
    }

    fn theirs(&self, port: &PortParity, step: usize) -> Result<Option<Tensor>, CheckError> {
        let value = self.recorded(port, step);
        Ok(value.map(|v| self.pair.trace.tensor(v)).transpose()?)
    }

    /// Our value of a port after a step, where it was kept.
    fn ours(&self, port: &PortParity, step: usize) -> Option<&Tensor> {
        let kept = self.outcome.kept(step)?;
        match port.role {
            Role::State => kept.states.get(&port.port),
            _ => {
                let function = self.pair.functions.get(kept.function)?;
                let place = function
                    .run
                    .outputs()
                    .iter()
                    .position(|o| o.name == port.port)?;
                kept.outputs.get(place)
            }
        }
    }

    /// What PyTorch has in a state before a step.
    fn before(&self, port: &PortParity, step: usize) -> Result<Option<Tensor>, CheckError> {
        let function = self.function(port);
        let state = function.and_then(|f| Some((f, f.state(&port.port)?)));
        let value = state
            .zip(step.checked_sub(1))
            .and_then(|((f, s), call)| self.pair.held(self.outcome.run, call, f, s));
        Ok(value.map(|v| self.pair.trace.tensor(v)).transpose()?)
    }

    /// One element of a port at every step: ours, PyTorch's, the steps' numbers. The element is the
    /// first one beyond tolerance.
    fn series(&self, port: &PortParity) -> Result<Vec<(usize, Number, Number)>, CheckError> {
        let Some(first) = port
            .first_beyond()
            .and_then(|s| s.metrics.as_ref()?.first.clone())
        else {
            return Ok(Vec::new());
        };
        let mut series = Vec::new();
        for step in port.steps.iter().take(64).map(|s| s.step) {
            let (Some(ours), Some(theirs)) = (self.ours(port, step), self.theirs(port, step)?)
            else {
                continue;
            };
            let at = |t: &Tensor| element(t, &first.index);
            if let (Some(a), Some(b)) = (at(ours), at(&theirs)) {
                series.push((step, a, b));
            }
        }
        Ok(series)
    }

    /// `y 0.3125 against 0.3 at step 1, 0.5 against 0.2 at step 4`: the failing steps of a port.
    fn shown(&self, port: &PortParity) -> Result<String, CheckError> {
        let from = self.failing(port);
        let all = self.series(port)?;
        let mut shown: Vec<String> = all
            .iter()
            .filter(|(step, ..)| *step >= from)
            .map(|(step, a, b)| format!("{} against {} at step {step}", number(*a), number(*b)))
            .collect();
        if shown.is_empty() {
            shown.extend(
                port.first_beyond()
                    .map(|s| match (&s.metrics, &s.incomparable) {
                        (Some(Metrics { first: Some(e), .. }), _) => {
                            format!(
                                "{} against {} at step {}",
                                number(e.ours),
                                number(e.theirs),
                                s.step
                            )
                        }
                        (_, Some(why)) => format!("{why} at step {}", s.step),
                        _ => format!("differs at step {}", s.step),
                    }),
            );
        }
        if shown.len() > 6 {
            shown.drain(3..shown.len() - 2);
        }
        Ok(format!("{} {}", name(&port.port), shown.join(", ")))
    }

    /// Explains every other open port of the function that fails no earlier, as a consequence.
    fn consequences(
        &self,
        cause: &PortParity,
        mut finding: Finding,
        told: &mut Told,
    ) -> Result<Finding, CheckError> {
        told.explain(cause);
        let from = self.failing(cause);
        let mut more = 0;
        for port in self.open(told) {
            if self.failing(port) < from || !self.shares(port, cause) {
                continue;
            }
            if more < 4 {
                finding = finding.with_evidence(format!("{} {}", port.role, self.shown(port)?));
            }
            more += 1;
            told.explain(port);
        }
        if more > 4 {
            finding = finding.with_evidence(format!("and {} more", more - 4));
        }
        Ok(finding)
    }

    /// Whether a difference in one port can come from the other: the same function, or shared states.
    fn shares(&self, port: &PortParity, cause: &PortParity) -> bool {
        let state = |f: &str, s: &str| {
            let function = self.pair.functions.iter().find(|g| g.name == f);
            function.is_some_and(|f| f.state(s).is_some())
        };
        port.function == cause.function
            || (cause.role == Role::State && state(&port.function, &cause.port))
    }
}

use super::metrics::Metrics;

/// The element at an index; the first part of a complex one.
fn element(t: &Tensor, index: &[usize]) -> Option<Number> {
    let mut at = 0usize;
    for (i, extent) in index.iter().zip(t.shape()) {
        at = at.checked_mul(*extent)?.checked_add(*i)?;
    }
    let values = Values::of(t)?;
    let parts = values.reals.len() / t.len().max(1);
    values.at(at * parts.max(1))
}

/// ` at [0, 3]`; nothing for a single number.
fn place(index: &[usize]) -> String {
    match index.len() {
        0 => String::new(),
        _ => format!(" at {}", shape(index)),
    }
}
