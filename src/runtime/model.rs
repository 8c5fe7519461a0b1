//! Models and their functions: what a consumer sees.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::error::PortKind;
use super::exec::{Exec, Routine};
use super::ops::Val;
use super::plan::{declared, Planner};
use super::tensor::Tensor;
use super::{DType, LoadError, RunError, UnsupportedOp};
use crate::asset;
use crate::ir::{unnamed, AttrDict, Graph, Module, Type};

/// A value a function takes or gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// The name consumers bind by.
    pub name: String,
    /// The element type; values are never converted.
    pub dtype: DType,
    /// The extents; `None` where the caller chooses.
    pub shape: Vec<Option<u64>>,
}

/// An asset ready to run.
#[derive(Clone)]
pub struct Model {
    path: PathBuf,
    program: Arc<Program>,
    pool: Option<Arc<rayon::ThreadPool>>,
}

struct Program {
    routines: Vec<Routine>,
    functions: Vec<Signature>,
}

struct Signature {
    name: String,
    /// The graph.
    routine: usize,
    /// What each argument of the graph is.
    args: Vec<Arg>,
    /// Which results are outputs.
    results: Vec<Option<usize>>,
    inputs: Vec<Port>,
    states: Vec<Port>,
    outputs: Vec<Port>,
    seen: Seen,
}

/// Which extents of inputs and states each extent of an output has been equal to in every call so far, by
/// output and dimension; `None` before the first call.
#[derive(Default)]
struct Seen(Mutex<Option<Vec<Vec<Vec<usize>>>>>);

impl Seen {
    /// Whether the outputs are going to have these shapes as far as earlier calls tell.
    fn fits(&self, given: &[usize], outputs: &[Port], expected: &[Option<Vec<usize>>]) -> bool {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(seen) = seen.as_ref() else {
            return false;
        };
        outputs
            .iter()
            .zip(seen)
            .zip(expected)
            .all(|((port, like), wanted)| {
                let Some(wanted) = wanted else {
                    return true;
                };
                let mut extents = port.shape.iter().zip(like).zip(wanted);
                extents.all(|((declared, like), wanted)| {
                    declared.is_some()
                        || (!like.is_empty() && like.iter().all(|i| given[*i] == *wanted))
                })
            })
    }

    fn learn(&self, given: &[usize], came: &[Tensor]) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all = || (0..given.len()).collect::<Vec<_>>();
        let seen = seen.get_or_insert_with(|| {
            came.iter()
                .map(|t| t.shape().iter().map(|_| all()).collect())
                .collect()
        });
        for (like, came) in seen.iter_mut().zip(came) {
            for (like, extent) in like.iter_mut().zip(came.shape()) {
                like.retain(|i| given[*i] == *extent);
            }
        }
    }
}

enum Arg {
    Input(usize),
    State(usize),
    Token,
}

impl std::fmt::Debug for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Model")
            .field("path", &self.path)
            .field("functions", &self.function_names())
            .finish_non_exhaustive()
    }
}

impl Model {
    /// Loads the asset in a directory. Weights stay in the mapped file; constants are evaluated once,
    /// here.
    ///
    /// # Errors
    /// When the asset cannot be read, uses ops this runtime does not have, or makes no sense.
    pub fn load(path: &Path) -> Result<Model, LoadError> {
        let program = asset::Asset::open(path)?.program(asset::ReadOptions {
            definitions: true,
            locations: false,
            weights: true,
        })?;
        Model::from_module(path, &program.module)
    }

    /// Prepares a program read before; `path` is for messages.
    ///
    /// # Errors
    /// As [`Model::load`].
    pub fn from_module(path: &Path, module: &Module) -> Result<Model, LoadError> {
        let mut routines = Vec::with_capacity(module.graphs.len());
        let mut unsupported = Vec::new();
        let names = module.flat_names();
        for (graph, name) in module.graphs.iter().zip(names.clone()) {
            let mut planner = Planner::new(module);
            let plan = planner.graph(graph).map_err(|what| LoadError::Invalid {
                path: path.into(),
                graph: name.clone(),
                what,
            })?;
            for (op, count) in planner.unsupported {
                let graph = name.clone();
                unsupported.push(UnsupportedOp { op, graph, count });
            }
            let args = graph.args.iter().map(|a| declared(&a.ty)).collect();
            routines.push(Routine { name, plan, args });
        }
        if !unsupported.is_empty() {
            return Err(LoadError::Unsupported {
                path: path.into(),
                ops: unsupported,
            });
        }
        let mut functions = Vec::new();
        for (i, (graph, name)) in module.graphs.iter().zip(names).enumerate() {
            if graph.is_function() {
                let signature =
                    signature(graph, name.clone(), i).map_err(|what| LoadError::Invalid {
                        path: path.into(),
                        graph: name,
                        what,
                    })?;
                functions.push(signature);
            }
        }
        Ok(Model {
            path: path.into(),
            program: Arc::new(Program {
                routines,
                functions,
            }),
            pool: None,
        })
    }

    /// The same model, whose large products run on so many threads; on one without this.
    ///
    /// # Errors
    /// When the threads cannot be started.
    pub fn with_threads(mut self, threads: usize) -> Result<Model, LoadError> {
        let pool = rayon::ThreadPoolBuilder::new()
            // More than any machine has cores would only use up memory.
            .num_threads(threads.clamp(1, 256))
            .build()
            .map_err(|e| LoadError::Threads {
                path: self.path.clone(),
                what: e.to_string(),
            })?;
        self.pool = Some(Arc::new(pool));
        Ok(self)
    }

    /// The names of the functions, in file order.
    pub fn function_names(&self) -> Vec<&str> {
        self.program
            .functions
            .iter()
            .map(|f| f.name.as_str())
            .collect()
    }

    /// The function with this name.
    ///
    /// # Errors
    /// [`RunError::UnknownFunction`].
    pub fn function(&self, name: &str) -> Result<Function, RunError> {
        let index = self.program.functions.iter().position(|f| f.name == name);
        match index {
            Some(index) => Ok(Function {
                program: self.program.clone(),
                pool: self.pool.clone(),
                index,
            }),
            None => Err(RunError::UnknownFunction {
                wanted: name.into(),
                known: self
                    .function_names()
                    .iter()
                    .map(ToString::to_string)
                    .collect(),
            }),
        }
    }
}

/// The port of a tensor or handle type.
fn port(attrs: &AttrDict, ty: &Type, fallback: String) -> Result<Port, String> {
    let name = attrs.get("coreai.name").and_then(|a| a.as_str());
    let name = name.map_or(fallback, str::to_string);
    let tensor = ty
        .as_tensor()
        .ok_or_else(|| format!("{name} is {ty}, which cannot be given"))?;
    let dtype = DType::from_element(tensor.element)
        .ok_or_else(|| format!("{name} is {ty}, whose elements cannot be given"))?;
    Ok(Port {
        name,
        dtype,
        shape: tensor.dims.clone(),
    })
}

fn signature(graph: &Graph, name: String, routine: usize) -> Result<Signature, String> {
    let mut s = Signature {
        name,
        routine,
        args: Vec::new(),
        results: Vec::new(),
        inputs: Vec::new(),
        states: Vec::new(),
        outputs: Vec::new(),
        seen: Seen::default(),
    };
    for (i, arg) in graph.args.iter().enumerate() {
        if arg.ty == Type::Token {
            s.args.push(Arg::Token);
            continue;
        }
        let port = port(&arg.attrs, &arg.ty, unnamed("arg", i))?;
        if arg.ty.is_handle() {
            s.args.push(Arg::State(s.states.len()));
            s.states.push(port);
        } else {
            s.args.push(Arg::Input(s.inputs.len()));
            s.inputs.push(port);
        }
    }
    for (i, result) in graph.results.iter().enumerate() {
        if result.ty == Type::Token {
            s.results.push(None);
            continue;
        }
        s.results.push(Some(s.outputs.len()));
        s.outputs
            .push(port(&result.attrs, &result.ty, unnamed("result", i))?);
    }
    Ok(s)
}

/// A function of a model.
#[derive(Clone)]
pub struct Function {
    program: Arc<Program>,
    pool: Option<Arc<rayon::ThreadPool>>,
    index: usize,
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
        let empty = Tensor::zeros(DType::U8, &[0]).map_err(|e| self.failed(e.to_string()))?;
        let mut moved = Vec::with_capacity(s.states.len());
        for place in bound_states.iter().flatten() {
            let own = &mut *states[*place].1;
            // What is shared is copied by whatever writes to it.
            moved.push(match careful {
                true => own.clone(),
                false => std::mem::replace(own, empty.clone()),
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
        let done = match &self.pool {
            Some(pool) => pool.install(|| exec.call(s.routine, args)),
            None => exec.call(s.routine, args),
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
