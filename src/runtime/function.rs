//! Functions: values bound to ports, checked and run.

use std::sync::Arc;

use super::error::PortKind;
use super::exec::Exec;
use super::model::{Arg, Port, Program, Signature};
use super::ops::Val;
use super::recycle::Recycler;
use super::tensor::Tensor;
use super::RunError;

/// A function of a model.
#[derive(Clone)]
pub struct Function {
    pub(super) program: Arc<Program>,
    pub(super) pool: Option<Arc<rayon::ThreadPool>>,
    pub(super) memory: Arc<Recycler>,
    pub(super) index: usize,
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Function")
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}

impl Function {
    fn signature(&self) -> &Signature {
        &self.program.functions[self.index]
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.signature().name
    }

    /// What it reads, in order.
    pub fn inputs(&self) -> &[Port] {
        &self.signature().inputs
    }

    /// What it reads and updates, in order.
    pub fn states(&self) -> &[Port] {
        &self.signature().states
    }

    /// What it computes, in order.
    pub fn outputs(&self) -> &[Port] {
        &self.signature().outputs
    }

    /// Runs the function once.
    ///
    /// Every input and every state must be given, in any order, of exactly the port's dtype and
    /// shape. States are updated in place and are never among the results. An output for which a view
    /// is given is written there and not returned; all others are returned in descriptor order.
    ///
    /// What an output with a dynamic extent comes to is learned from the calls: which extents of inputs
    /// and states it is equal to. As long as that does not tell, or a view contradicts it, a call with a
    /// view for such an output works on copies of the states, so that a view of another shape is refused
    /// with the states as they were. An extent that depends on values is never told, and such calls always
    /// copy; where one has only happened to be equal so far, a wrong view is refused after the states
    /// were written.
    ///
    /// # Errors
    /// A value that is missing, unknown, given twice or of another rank, shape or dtype, before
    /// anything is written; [`RunError::Op`] for an op that cannot be executed, after which the
    /// contents of the states are unspecified.
    pub fn run(
        &self,
        inputs: &[(&str, &Tensor)],
        states: &mut [(&str, &mut Tensor)],
        output_views: &mut [(&str, &mut Tensor)],
    ) -> Result<Vec<(String, Tensor)>, RunError> {
        let s = self.signature();
        let names: Vec<&str> = output_views.iter().map(|i| i.0).collect();
        let views = self.bind(PortKind::Output, &s.outputs, &names, false)?;
        for (port, place) in s.outputs.iter().zip(&views) {
            if let Some(i) = place {
                self.check(PortKind::Output, port, output_views[*i].1)?;
            }
        }
        let expected: Vec<Option<Vec<usize>>> = views
            .iter()
            .map(|place| Some(output_views[(*place)?].1.shape().to_vec()))
            .collect();
        let values = self.execute(inputs, states, &expected)?;
        let mut returned = Vec::new();
        for ((port, value), view) in s.outputs.iter().zip(values).zip(&views) {
            let Some(view) = view else {
                returned.push((port.name.clone(), value));
                continue;
            };
            let target = &mut *output_views[*view].1;
            let bytes = target.bytes_mut().map_err(|e| self.failed(e.to_string()))?;
            bytes.copy_from_slice(&value.bytes());
        }
        Ok(returned)
    }

    /// As [`Function::run`], with the shapes that some outputs must have instead of views; all outputs
    /// are returned.
    ///
    /// # Errors
    /// As there.
    pub fn run_expecting(
        &self,
        inputs: &[(&str, &Tensor)],
        states: &mut [(&str, &mut Tensor)],
        shapes: &[(&str, &[usize])],
    ) -> Result<Vec<(String, Tensor)>, RunError> {
        let s = self.signature();
        let names: Vec<&str> = shapes.iter().map(|i| i.0).collect();
        let bound = self.bind(PortKind::Output, &s.outputs, &names, false)?;
        let mut expected = Vec::new();
        for (port, place) in s.outputs.iter().zip(&bound) {
            let shape = place.map(|i| shapes[i].1.to_vec());
            if let Some(shape) = &shape {
                self.check_shape(PortKind::Output, port, shape)?;
            }
            expected.push(shape);
        }
        let values = self.execute(inputs, states, &expected)?;
        let names = s.outputs.iter().map(|p| p.name.clone());
        Ok(names.zip(values).collect())
    }

    /// Binds, compares and runs; the outputs in order. Those with an expected shape have it.
    fn execute(
        &self,
        inputs: &[(&str, &Tensor)],
        states: &mut [(&str, &mut Tensor)],
        expected: &[Option<Vec<usize>>],
    ) -> Result<Vec<Tensor>, RunError> {
        let s = self.signature();
        let names: Vec<&str> = inputs.iter().map(|i| i.0).collect();
        let bound_inputs = self.bind(PortKind::Input, &s.inputs, &names, true)?;
        let names: Vec<&str> = states.iter().map(|i| i.0).collect();
        let bound_states = self.bind(PortKind::State, &s.states, &names, true)?;
        for (port, place) in s.inputs.iter().zip(&bound_inputs) {
            if let Some(i) = place {
                self.check(PortKind::Input, port, inputs[*i].1)?;
            }
        }
        for (port, place) in s.states.iter().zip(&bound_states) {
            if let Some(i) = place {
                self.check(PortKind::State, port, states[*i].1)?;
            }
        }
        let inputs_given = bound_inputs.iter().flatten().map(|i| inputs[*i].1);
        let states_given = bound_states.iter().flatten().map(|i| &*states[*i].1);
        let given: Vec<usize> = inputs_given
            .chain(states_given)
            .flat_map(|t| t.shape().iter().copied())
            .collect();
        // An expected shape that may turn out to be another: the states have to outlast that.
        let open = s
            .outputs
            .iter()
            .zip(expected)
            .any(|(port, shape)| shape.is_some() && port.shape.iter().any(Option::is_none));
        let careful = open && !s.seen.fits(&given, &s.outputs, expected);
        // The states' memory moves into the execution and back, so that it can be written in place.
        let mut moved = Vec::with_capacity(s.states.len());
        for place in bound_states.iter().flatten() {
            let own = &mut *states[*place].1;
            // What is shared is copied by whatever writes to it.
            moved.push(match careful {
                true => own.clone(),
                false => std::mem::replace(own, Tensor::empty()),
            });
        }
        let mut exec = Exec::new(&self.program.routines, moved);
        let args = s
            .args
            .iter()
            .map(|arg| match arg {
                Arg::Input(i) => {
                    let place = bound_inputs[*i].unwrap_or_default();
                    Val::Tensor(inputs[place].1.clone())
                }
                Arg::State(i) => Val::Handle(*i),
                Arg::Token => Val::Token,
            })
            .collect();
        let call = || self.memory.during(|| exec.call(s.routine, args));
        let done = match &self.pool {
            Some(pool) => pool.install(call),
            None => call(),
        };
        let left = exec.into_states();
        if !careful {
            for (place, value) in bound_states.iter().flatten().zip(left) {
                *states[*place].1 =
                    value.ok_or_else(|| self.failed("no memory for a state".into()))?;
            }
            return self.collected(done?, expected, open.then_some(&given));
        }
        let outputs = self.collected(done?, expected, Some(&given))?;
        let left: Option<Vec<Tensor>> = left.into_iter().collect();
        let left = left.ok_or_else(|| self.failed("no memory for a state".into()))?;
        for (place, value) in bound_states.iter().flatten().zip(left) {
            *states[*place].1 = value;
        }
        Ok(outputs)
    }

    /// The outputs among the results; with the extents that were given, theirs are learned from.
    fn collected(
        &self,
        values: Vec<Val>,
        expected: &[Option<Vec<usize>>],
        given: Option<&[usize]>,
    ) -> Result<Vec<Tensor>, RunError> {
        let s = self.signature();
        let mut outputs: Vec<Option<Tensor>> = vec![None; s.outputs.len()];
        for (value, place) in values.into_iter().zip(&s.results) {
            if let (Val::Tensor(t), Some(i)) = (value, place) {
                outputs[*i] = Some(t.contiguous().map_err(|e| self.failed(e))?);
            }
        }
        let mut all = Vec::with_capacity(outputs.len());
        for (port, value) in s.outputs.iter().zip(outputs) {
            all.push(value.ok_or_else(|| self.failed(format!("no value for {}", port.name)))?);
        }
        if let Some(given) = given {
            s.seen.learn(given, &all);
        }
        for ((port, value), wanted) in s.outputs.iter().zip(&all).zip(expected) {
            if let Some(found) = wanted.as_ref().filter(|w| w.as_slice() != value.shape()) {
                return Err(RunError::Shape {
                    function: s.name.clone(),
                    kind: PortKind::Output,
                    port: port.name.clone(),
                    found: found.clone(),
                    expected: value.shape().iter().map(|d| Some(*d as u64)).collect(),
                });
            }
        }
        Ok(all)
    }

    fn failed(&self, what: String) -> RunError {
        RunError::Op {
            graph: self.name().into(),
            op: "coreai.graph".into(),
            index: 0,
            what,
        }
    }

    /// For each port, which of the given values is its own.
    fn bind(
        &self,
        kind: PortKind,
        ports: &[Port],
        given: &[&str],
        all: bool,
    ) -> Result<Vec<Option<usize>>, RunError> {
        let function = || self.name().to_string();
        let mut bound = vec![None; ports.len()];
        for (i, name) in given.iter().enumerate() {
            let own = |(_, p): &(usize, &Port)| p.name == *name;
            let free = ports
                .iter()
                .enumerate()
                .filter(own)
                .find(|(j, _)| bound[*j].is_none());
            match free {
                Some((j, _)) => bound[j] = Some(i),
                None if ports.iter().any(|p| p.name == *name) => {
                    return Err(RunError::Duplicate {
                        function: function(),
                        kind,
                        port: name.to_string(),
                    })
                }
                None => {
                    return Err(RunError::Unknown {
                        function: function(),
                        kind,
                        port: name.to_string(),
                        known: ports.iter().map(|p| p.name.clone()).collect(),
                    })
                }
            }
        }
        if let Some(j) = bound.iter().position(Option::is_none).filter(|_| all) {
            return Err(RunError::Missing {
                function: function(),
                kind,
                port: ports[j].name.clone(),
            });
        }
        Ok(bound)
    }

    fn check(&self, kind: PortKind, port: &Port, value: &Tensor) -> Result<(), RunError> {
        let (function, name) = (self.name().to_string(), port.name.clone());
        if value.dtype() != port.dtype {
            return Err(RunError::DType {
                function,
                kind,
                port: name,
                found: value.dtype(),
                expected: port.dtype,
            });
        }
        self.check_shape(kind, port, value.shape())
    }

    fn check_shape(&self, kind: PortKind, port: &Port, shape: &[usize]) -> Result<(), RunError> {
        let (function, name) = (self.name().to_string(), port.name.clone());
        let (found, expected) = (shape.to_vec(), port.shape.clone());
        if found.len() != expected.len() {
            return Err(RunError::Rank {
                function,
                kind,
                port: name,
                found,
                expected,
            });
        }
        let fits = |(have, want): (&usize, &Option<u64>)| want.is_none_or(|w| w == *have as u64);
        if !found.iter().zip(&expected).all(fits) {
            return Err(RunError::Shape {
                function,
                kind,
                port: name,
                found,
                expected,
            });
        }
        Ok(())
    }
}
