//! Models: what a consumer loads.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::exec::Routine;
use super::plan::{declared, Planner};
use super::recycle::Recycler;
use super::tensor::Tensor;
use super::{DType, Function, LoadError, RunError, UnsupportedOp};
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
    memory: Arc<Recycler>,
}

pub(super) struct Program {
    pub(super) routines: Vec<Routine>,
    pub(super) functions: Vec<Signature>,
}

pub(super) struct Signature {
    pub(super) name: String,
    /// The graph.
    pub(super) routine: usize,
    /// What each argument of the graph is.
    pub(super) args: Vec<Arg>,
    /// Which results are outputs.
    pub(super) results: Vec<Option<usize>>,
    pub(super) inputs: Vec<Port>,
    pub(super) states: Vec<Port>,
    pub(super) outputs: Vec<Port>,
    pub(super) seen: Seen,
}

/// Which extents of inputs and states each extent of an output has been equal to in every call so far, by
/// output and dimension; `None` before the first call.
#[derive(Default)]
pub(super) struct Seen(Mutex<Option<Vec<Vec<Vec<usize>>>>>);

impl Seen {
    /// Whether the outputs are going to have these shapes as far as earlier calls tell.
    pub(super) fn fits(
        &self,
        given: &[usize],
        outputs: &[Port],
        expected: &[Option<Vec<usize>>],
    ) -> bool {
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

    pub(super) fn learn(&self, given: &[usize], came: &[Tensor]) {
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

pub(super) enum Arg {
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
        let asset = asset::Asset::open(path)?;
        asset.weights_will_be_read();
        let program = asset.program(asset::ReadOptions {
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
            memory: Arc::default(),
        })
    }

    /// The same model, whose large products run on so many threads, at most 256; on one without this.
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

    /// The same model, whose calls leave at most so many bytes of memory for the next call to use again
    /// (64 MiB without this). With 0 everything is given back when a call ends, and the next is slower.
    pub fn with_kept_memory(mut self, bytes: usize) -> Model {
        self.memory = Arc::new(Recycler::of(bytes));
        self
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
                memory: self.memory.clone(),
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
        if result.ty.is_handle() {
            return Err(format!(
                "result {i} is the handle of a state, which no call returns"
            ));
        }
        s.results.push(Some(s.outputs.len()));
        s.outputs
            .push(port(&result.attrs, &result.ty, unnamed("result", i))?);
    }
    Ok(s)
}
