//! Running the calls of a trace on our runtime, as a consumer would.
//!
//! One store holds the states by name, for all functions. A state that is an argument in PyTorch is
//! set to the recorded argument before a call only when that is not what the previous call left
//! behind: otherwise it is carried, as a consumer carries it.

use std::collections::BTreeMap;

use super::numbers::{Number, Values};
use super::pair::{Bound, Function, Pair};
use super::trace::{Call, Run, Value};
use super::CheckError;
use crate::contract::SourceKind;
use crate::runtime::{DType, RunError, Tensor};

/// The states between calls.
#[derive(Clone, Debug, Default)]
pub struct Session {
    /// By name.
    pub states: BTreeMap<String, Tensor>,
    /// What the previous call left in arguments that are states.
    left: BTreeMap<String, Value>,
}

/// What a call gave.
pub struct Ran {
    /// Index of the function.
    pub function: usize,
    /// Outputs in order.
    pub outputs: Vec<(String, Tensor)>,
}

/// Values that did not survive the way from torch's dtype to the port's.
#[derive(Clone, Debug, PartialEq)]
pub enum Loss {
    /// A value lies outside of the port's range; the first such.
    Range(Number, Number),
    /// Values were rounded; the first such.
    Rounding(Number, Number),
}

/// A tensor in a port's dtype.
pub fn narrow(tensor: &Tensor, to: DType) -> Result<(Tensor, Option<Loss>), CheckError> {
    if tensor.dtype() == to {
        return Ok((tensor.clone(), None));
    }
    let cast = tensor.cast(to)?;
    let mut loss = None;
    let values = |t: &Tensor| t.dtype().part().is_none().then(|| Values::of(t))?;
    if let (Some(a), Some(b)) = (values(tensor), values(&cast)) {
        for (a, b) in (0..).map_while(|i| a.at(i).zip(b.at(i))) {
            if a == b || a.real().is_nan() {
                continue;
            }
            let rounded =
                super::metrics::is_float(to) && (b.real().is_finite() || a.real().is_infinite());
            if !rounded {
                loss = Some(Loss::Range(a, b));
                break;
            }
            loss.get_or_insert(Loss::Rounding(a, b));
        }
    }
    Ok((cast, loss))
}

impl<'a> Pair<'a> {
    /// The states before the first call of a run.
    ///
    /// # Errors
    /// When a tensor cannot be read.
    pub fn start(&self, run: &Run) -> Result<Session, CheckError> {
        let mut session = Session::default();
        for (function, state) in self.states() {
            let value = self.initial(run, function, state);
            let tensor = match value {
                Some(value) => narrow(&self.trace.tensor(value)?, state.port.dtype)?.0,
                None => {
                    let dims = state.port.shape.iter().map(|d| d.unwrap_or(1));
                    let dims: Vec<usize> = dims
                        .map(|d| usize::try_from(d).unwrap_or(usize::MAX))
                        .collect();
                    Tensor::zeros(state.port.dtype, &dims)?
                }
            };
            if state
                .source
                .as_ref()
                .is_some_and(|s| s.kind == SourceKind::Argument)
            {
                if let Some(value) = value {
                    session.left.insert(state.port.name.clone(), value.clone());
                }
            }
            session.states.insert(state.port.name.clone(), tensor);
        }
        Ok(session)
    }

    /// What a state holds before the first call.
    pub fn initial<'r>(
        &self,
        run: &'r Run,
        function: &Function<'_>,
        state: &Bound,
    ) -> Option<&'r Value> {
        let source = state.source.as_ref()?;
        match source.kind {
            SourceKind::Buffer => {
                let mut names = source.names();
                names.find_map(|n| run.began(&function.traced.name, n))
            }
            SourceKind::Argument => {
                let first = run
                    .calls
                    .iter()
                    .find(|c| c.function == function.traced.name)?;
                first.inputs.get(&source.name)
            }
        }
    }

    /// What PyTorch has in a state of a function before a call, counted from 0. Functions may know one
    /// tensor under different names; what they have in common is the name of the state.
    pub fn held<'r>(
        &self,
        run: &'r Run,
        call: usize,
        function: &Function<'_>,
        state: &Bound,
    ) -> Option<&'r Value> {
        let source = state.source.as_ref()?;
        if source.kind == SourceKind::Argument {
            return run.calls.get(call)?.inputs.get(&source.name);
        }
        let earlier = run.calls.get(..call)?.iter().rev();
        let mut left = earlier.filter_map(|c| {
            let (_, own) = self.function(&c.function)?;
            // A function that does not have the state may still know its tensor by name.
            match own.state(&state.port.name) {
                Some(own) => self.after(c, own),
                None => self.after(c, state),
            }
        });
        left.next().or_else(|| self.initial(run, function, state))
    }

    /// What PyTorch has in a state after a call.
    pub fn after<'r>(&self, call: &'r Call, state: &Bound) -> Option<&'r Value> {
        let source = state.source.as_ref()?;
        match source.kind {
            SourceKind::Buffer => source.names().find_map(|n| call.buffer(n)),
            // What nothing writes is after the call what it was before.
            SourceKind::Argument => call.argument(&source.name).or_else(|| {
                let (_, function) = self.function(&call.function)?;
                let traced = function.traced.arguments.iter();
                let mut own = traced.filter(|a| a.path == source.name);
                let unwritten = own.next().is_some_and(|a| !a.written);
                unwritten.then(|| call.inputs.get(&source.name))?
            }),
        }
    }

    /// The inputs of a call, in the dtypes of the ports, and what was lost on the way.
    ///
    /// # Errors
    /// When a tensor cannot be read.
    pub fn inputs(
        &self,
        function: &Function<'_>,
        call: &Call,
    ) -> Result<Vec<(String, Tensor, Option<Loss>)>, CheckError> {
        let mut inputs = Vec::new();
        for input in &function.inputs {
            let path = input
                .source
                .as_ref()
                .map(|s| s.name.as_str())
                .unwrap_or_default();
            // Those that are compared have one.
            if let Some(value) = call.inputs.get(path) {
                let (tensor, loss) = narrow(&self.trace.tensor(value)?, input.port.dtype)?;
                inputs.push((input.port.name.clone(), tensor, loss));
            }
        }
        Ok(inputs)
    }

    /// Sets the states that this call of the trace brings along as arguments; their names.
    ///
    /// # Errors
    /// When a tensor cannot be read.
    pub fn set_arguments(
        &self,
        session: &mut Session,
        function: &Function<'_>,
        call: &Call,
    ) -> Result<Vec<String>, CheckError> {
        let mut set = Vec::new();
        for state in &function.states {
            let Some(source) = state
                .source
                .as_ref()
                .filter(|s| s.kind == SourceKind::Argument)
            else {
                continue;
            };
            let Some(given) = call.inputs.get(&source.name) else {
                continue;
            };
            let name = &state.port.name;
            let carried = session
                .left
                .get(name)
                .is_some_and(|l| self.trace.same(l, given));
            if !carried {
                let tensor = narrow(&self.trace.tensor(given)?, state.port.dtype)?.0;
                session.states.insert(name.clone(), tensor);
                set.push(name.clone());
            }
            let after = call.argument(&source.name).unwrap_or(given);
            session.left.insert(name.clone(), after.clone());
        }
        Ok(set)
    }

    /// Runs one call of the trace.
    ///
    /// # Errors
    /// When a tensor cannot be read, or the call fails.
    pub fn step(&self, session: &mut Session, call: &Call) -> Result<Option<Ran>, CheckError> {
        let Some((index, function)) = self.function(&call.function) else {
            return Ok(None);
        };
        self.set_arguments(session, function, call)?;
        let inputs: Vec<(String, Tensor)> = self
            .inputs(function, call)?
            .into_iter()
            .map(|(n, t, _)| (n, t))
            .collect();
        let outputs = execute(function, session, &inputs)?;
        Ok(Some(Ran {
            function: index,
            outputs,
        }))
    }
}

/// Runs a function on the states of a session.
///
/// # Errors
/// As [`crate::runtime::Function::run`].
pub fn execute(
    function: &Function<'_>,
    session: &mut Session,
    inputs: &[(String, Tensor)],
) -> Result<Vec<(String, Tensor)>, RunError> {
    execute_on(&function.run, function, session, inputs)
}

/// As [`execute`], on another program with the same ports.
///
/// # Errors
/// As [`crate::runtime::Function::run`].
pub fn execute_on(
    run: &crate::runtime::Function,
    function: &Function<'_>,
    session: &mut Session,
    inputs: &[(String, Tensor)],
) -> Result<Vec<(String, Tensor)>, RunError> {
    let inputs: Vec<(&str, &Tensor)> = inputs.iter().map(|(n, t)| (n.as_str(), t)).collect();
    let mut states: Vec<(&str, &mut Tensor)> = session
        .states
        .iter_mut()
        .filter(|(name, _)| function.state(name).is_some())
        .map(|(n, t)| (n.as_str(), t))
        .collect();
    run.run(&inputs, &mut states, &mut [])
}
