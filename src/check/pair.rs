//! An asset and a trace side by side: which port is which tensor of the trace.

use std::path::Path;

use serde::Serialize;

use super::options::Options;
use super::trace::{self, Trace, TraceError, AGAIN};
use super::{CheckError, Tolerance};
use crate::contract::{self, Contract, Role, Source, SourceKind};
use crate::ir::{Body, Graph, Module, Type};
use crate::runtime::{DType, Model, Port};
use crate::text::name as shown;

/// How it is known what a port is in PyTorch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// The contract says so.
    Contract,
    /// The contract recorded in the trace says so.
    Trace,
    /// The names are equal.
    Name,
    /// It is what is left.
    Position,
    /// Running it shows: the only tensor of this shape whose values match.
    Values,
}

impl How {
    /// In words.
    pub fn as_str(self) -> &'static str {
        match self {
            How::Contract => "by the contract",
            How::Trace => "by the contract in the trace",
            How::Name => "by name",
            How::Position => "by position",
            How::Values => "by values",
        }
    }
}

/// An input or state with its tensor of the trace.
#[derive(Clone, Debug)]
pub struct Bound {
    /// The port.
    pub port: Port,
    /// What it is; `None` where nothing tells.
    pub source: Option<Source>,
    /// How that is known.
    pub how: Option<How>,
}

/// A function of the asset with its part of the trace.
pub struct Function<'a> {
    /// Its name.
    pub name: String,
    /// To run it.
    pub run: crate::runtime::Function,
    /// Its program.
    pub graph: &'a Graph,
    /// What was traced.
    pub traced: &'a trace::Function,
    /// Inputs in order.
    pub inputs: Vec<Bound>,
    /// States in order.
    pub states: Vec<Bound>,
    /// The narrowest float type it computes with.
    pub narrowest: Option<DType>,
}

/// The asset and the trace.
pub struct Pair<'a> {
    /// The program.
    pub module: &'a Module,
    /// The same, ready to run.
    pub model: Model,
    /// Functions that were traced, in the order of the asset.
    pub functions: Vec<Function<'a>>,
    /// The trace.
    pub trace: &'a Trace,
    /// What to check.
    pub options: &'a Options,
    /// Remarks on how they fit.
    pub notes: Vec<String>,
}

impl<'a> Pair<'a> {
    /// Binds every port. States for which neither a contract nor a name tells stay unbound.
    ///
    /// # Errors
    /// When no function was traced, an input has no argument, or a call no value for one.
    pub fn new(
        path: &Path,
        module: &'a Module,
        contract: &Contract,
        trace: &'a Trace,
        options: &'a Options,
    ) -> Result<Pair<'a>, CheckError> {
        let model = Model::from_module(path, module)?.with_threads(options.threads)?;
        let known = |f: &contract::Function| model.function_names().contains(&f.name.as_str());
        if !contract.functions.is_empty() && !contract.functions.iter().any(known) {
            return Err(CheckError::Contract {
                contract: contract.functions.iter().map(|f| f.name.clone()).collect(),
                functions: model
                    .function_names()
                    .iter()
                    .map(ToString::to_string)
                    .collect(),
            });
        }
        let mut functions = Vec::new();
        let mut notes = Vec::new();
        let named = module.graphs.iter().zip(module.flat_names());
        for (graph, name) in named.filter(|(g, _)| g.is_function()) {
            let Some(traced) = traced_as(&name, &model, trace) else {
                notes.push(format!("function {name} has no call in the trace"));
                continue;
            };
            let run = model.function(&name)?;
            let given = contract.functions.iter().find(|f| f.name == name);
            given.map_or(Ok(()), |given| of_this(given, &run))?;
            let known = [
                (
                    How::Contract,
                    contract.functions.iter().find(|f| f.name == name),
                ),
                (
                    How::Trace,
                    trace
                        .contract()
                        .and_then(|c| c.functions.iter().find(|f| f.name == name)),
                ),
            ];
            let mut states = Vec::new();
            for port in run.states() {
                let told = known.iter().find_map(|(how, f)| {
                    let state = f.as_ref()?.states.iter().find(|s| s.name == port.name)?;
                    Some((state.source.clone()?, *how))
                });
                let (source, how) = told.or_else(|| by_name(&port.name, traced, true)).unzip();
                states.push(Bound {
                    port: port.clone(),
                    source,
                    how,
                });
            }
            let mut inputs = Vec::new();
            for port in run.inputs() {
                let told = known.iter().find_map(|(how, f)| {
                    let input = f.as_ref()?.inputs.iter().find(|s| s.name == port.name)?;
                    let source = input.source.clone()?;
                    let recorded = traced.arguments.iter().any(|a| a.path == source.name);
                    recorded.then_some((source, *how))
                });
                let (source, how) = told.or_else(|| by_name(&port.name, traced, false)).unzip();
                inputs.push(Bound {
                    port: port.clone(),
                    source,
                    how,
                });
            }
            rest(&mut inputs, &states, traced);
            if let Some(lonely) = inputs.iter().find(|i| i.source.is_none()) {
                let calls = trace.runs().iter().flat_map(|r| &r.calls);
                let mut own = calls.filter(|c| c.function == traced.name);
                if let Some(said) = own.next().and_then(|c| c.error.clone()) {
                    return Err(CheckError::Refused {
                        trace: trace.path().into(),
                        function: name,
                        input: lonely.port.name.clone(),
                        said,
                    });
                }
                return Err(CheckError::Input {
                    trace: trace.path().into(),
                    function: name,
                    input: lonely.port.name.clone(),
                    arguments: traced.arguments.iter().map(|a| a.path.clone()).collect(),
                });
            }
            functions.push(Function {
                narrowest: narrowest(module, graph),
                name,
                run,
                graph,
                traced,
                inputs,
                states,
            });
        }
        if functions.is_empty() {
            return Err(CheckError::NoFunction {
                trace: trace.path().into(),
                traced: trace.functions().iter().map(|f| f.name.clone()).collect(),
                functions: model
                    .function_names()
                    .iter()
                    .map(ToString::to_string)
                    .collect(),
            });
        }
        complete(&functions, trace)?;
        Ok(Pair {
            module,
            model,
            functions,
            trace,
            options,
            notes,
        })
    }

    /// The function a call of the trace is of.
    pub fn function(&self, traced: &str) -> Option<(usize, &Function<'a>)> {
        self.functions
            .iter()
            .enumerate()
            .find(|(_, f)| f.traced.name == traced)
    }

    /// Every state by name, with the first function that has it.
    pub fn states(&self) -> Vec<(&Function<'a>, &Bound)> {
        let mut all: Vec<(&Function<'a>, &Bound)> = Vec::new();
        for function in &self.functions {
            for state in &function.states {
                if all.iter().all(|(_, s)| s.port.name != state.port.name) {
                    all.push((function, state));
                }
            }
        }
        all
    }
}

/// Whether every call that is compared has a value for each input of its function. What the asset does not
/// take may be missing.
fn complete(functions: &[Function<'_>], trace: &Trace) -> Result<(), CheckError> {
    for (r, run) in trace.runs().iter().enumerate() {
        // Nothing is run from the call on that PyTorch refuses.
        let calls = run.calls.iter().take_while(|c| c.error.is_none());
        for (c, call) in calls.enumerate() {
            // Another entry point is not run.
            let own = functions.iter().find(|f| f.traced.name == call.function);
            let Some(function) = own else { continue };
            for input in &function.inputs {
                let path = input.source.as_ref().map(|s| s.name.as_str());
                let Some(path) = path.filter(|p| !call.inputs.contains_key(*p)) else {
                    continue;
                };
                return Err(CheckError::Trace(TraceError::Value {
                    path: trace.path().into(),
                    key: format!("runs[{r}].calls[{c}].inputs"),
                    what: format!(
                        "call {} has no {path:?}, and {} takes it in every call as the input {}; give it there and {AGAIN}",
                        c + 1,
                        shown(&function.name),
                        shown(&input.port.name),
                    ),
                }));
            }
        }
    }
    Ok(())
}

/// Whether a contract's function has the inputs and states of the asset's, in any order.
fn of_this(given: &contract::Function, run: &crate::runtime::Function) -> Result<(), CheckError> {
    let inputs: Vec<&String> = given.inputs.iter().map(|p| &p.name).collect();
    let states: Vec<&String> = given.states.iter().map(|s| &s.name).collect();
    let sorted = |names: Vec<&String>| {
        let mut names: Vec<String> = names.into_iter().cloned().collect();
        names.sort();
        names
    };
    for (role, own, ports) in [
        (Role::Input, inputs, run.inputs()),
        (Role::State, states, run.states()),
    ] {
        let contract = sorted(own);
        let asset = sorted(ports.iter().map(|p| &p.name).collect());
        if contract != asset {
            return Err(CheckError::OtherContract {
                function: given.name.clone(),
                role,
                contract,
                asset,
            });
        }
    }
    Ok(())
}

impl Function<'_> {
    /// The state with this name.
    pub fn state(&self, name: &str) -> Option<&Bound> {
        self.states.iter().find(|s| s.port.name == name)
    }

    /// The allowed distances for a port.
    pub fn tolerance(&self, options: &Options, port: DType, torch: &str) -> Tolerance {
        let torch = trace::torch_dtype(torch).unwrap_or(port);
        Tolerance::new(options.tolerances, port, torch, self.narrowest)
    }
}

/// The traced function that stands for one of the asset: the one of its name, or the only one for the
/// only one.
fn traced_as<'a>(name: &str, model: &Model, trace: &'a Trace) -> Option<&'a trace::Function> {
    trace
        .function(name)
        .or_else(|| match (model.function_names().len(), trace.functions()) {
            (1, [only]) => Some(only),
            _ => None,
        })
}

/// Names as the exporter makes identifiers of them.
fn plain(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if c.is_alphanumeric() {
            out.extend(c.to_lowercase());
        } else if !out.ends_with('_') && !out.is_empty() {
            out.push('_');
        }
    }
    out.trim_end_matches('_').to_string()
}

/// The only buffer or argument of this name. States may be buffers, written ones first.
fn by_name(name: &str, traced: &trace::Function, state: bool) -> Option<(Source, How)> {
    let wanted = plain(name);
    let mut found: Vec<(bool, Source)> = Vec::new();
    if state {
        for buffer in &traced.buffers {
            let prefixed = |n: &str| wanted == format!("b_{}", plain(n));
            if buffer.names().any(|n| plain(n) == wanted || prefixed(n)) {
                found.push((buffer.written, buffer_source(buffer)));
            }
        }
    }
    for argument in &traced.arguments {
        if plain(&argument.path) == wanted {
            found.push((argument.written, argument_source(argument)));
        }
    }
    if found.len() > 1 && state {
        found.retain(|f| f.0);
    }
    match found.as_slice() {
        [(_, only)] => Some((only.clone(), How::Name)),
        _ => None,
    }
}

pub fn buffer_source(buffer: &trace::Buffer) -> Source {
    Source {
        kind: SourceKind::Buffer,
        name: buffer.name.clone(),
        dtype: buffer.dtype.clone(),
        aliases: buffer.aliases.clone(),
    }
}

pub fn argument_source(argument: &trace::Argument) -> Source {
    Source {
        kind: SourceKind::Argument,
        name: argument.path.clone(),
        dtype: argument.dtype.clone(),
        aliases: Vec::new(),
    }
}

/// Inputs without an argument take those that are left, where there are as many.
fn rest(inputs: &mut [Bound], states: &[Bound], traced: &trace::Function) {
    let taken = |path: &str| {
        let own = |s: &Bound| {
            let source = s.source.as_ref();
            source.is_some_and(|s| s.kind == SourceKind::Argument && s.name == path)
        };
        inputs.iter().any(own) || states.iter().any(own)
    };
    let left: Vec<&trace::Argument> = traced
        .arguments
        .iter()
        .filter(|a| !taken(&a.path) && !a.written)
        .collect();
    let open: Vec<usize> = (0..inputs.len())
        .filter(|i| inputs[*i].source.is_none())
        .collect();
    if open.len() == left.len() {
        for (i, argument) in open.into_iter().zip(left) {
            inputs[i].source = Some(argument_source(argument));
            inputs[i].how = Some(How::Position);
        }
    }
}

/// The narrowest float type of any value a graph computes, definitions aside.
fn narrowest(module: &Module, graph: &Graph) -> Option<DType> {
    let mut found: Option<DType> = None;
    let mut look = |body: &Body| {
        for (_, op) in body.walk().filter(|(_, op)| !op.is("coreai.constant")) {
            for value in &op.results {
                if let Type::Tensor(t) = body.ty(*value) {
                    let dtype =
                        DType::from_element(t.element).filter(|d| super::metrics::is_float(*d));
                    let wider = |d: &DType| found.is_none_or(|f| rank(*d) < rank(f));
                    if let Some(dtype) = dtype.filter(wider) {
                        found = Some(dtype);
                    }
                }
            }
        }
    };
    look(&graph.body);
    for callee in super::graph::callees(module, graph) {
        look(&callee.body);
    }
    found
}

fn rank(dtype: DType) -> u32 {
    match dtype.part().unwrap_or(dtype) {
        DType::F64 => 5,
        DType::F32 => 4,
        DType::F16 => 3,
        DType::BF16 => 2,
        _ => 1,
    }
}
