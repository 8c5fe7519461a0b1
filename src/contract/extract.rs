//! Reads the contract off a program.
//!
//! Types decide: an argument of handle type is a state, a tensor is an input or output, a token is
//! neither. The attribute `MutableBuffers.buffer_mutation` accompanies states but proves nothing
//! (older producers set it on plain tensors, which no consumer sees as a state); where it and the
//! types disagree, a [`Note`] says so.

use std::collections::{HashMap, HashSet};
use std::fmt;

use serde::Serialize;

use super::access::Accesses;
use super::{Contract, Function, Port, Role, State};
use crate::ir::{unnamed, Attr, AttrDict, Element, Float, Graph, Module, Sign, Type};
use crate::text::{line, name};

/// The name consumers bind by.
const NAME: &str = "coreai.name";
/// Set by the converter on the argument that stands for a mutated buffer.
const MUTATION: &str = "MutableBuffers.buffer_mutation";

/// A contract, and what was odd about the program it was read from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extracted {
    /// Public functions in file order; `source` and `export` are not in a program.
    pub contract: Contract,
    /// Contradictions between names, attributes and types, in order of occurrence.
    pub notes: Vec<Note>,
}

/// Something about a function's signature that a reader of the contract should know.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Note {
    /// A plain tensor is marked as a mutated buffer: made without handles by an older producer. The
    /// runtime reports no state for it.
    MutationWithoutHandle {
        /// The function.
        function: String,
        /// The input's name.
        input: String,
        /// The buffer the mark names.
        buffer: String,
    },
    /// A state without the mark of a mutated buffer.
    HandleWithoutMutation {
        /// The function.
        function: String,
        /// The state's name.
        state: String,
    },
    /// A state whose mark names something else than the state.
    MutationOfOtherName {
        /// The function.
        function: String,
        /// The state's name.
        state: String,
        /// The name in the mark.
        buffer: String,
    },
    /// Two entries of one list bear one name: binding by name reaches one of them.
    DuplicateName {
        /// The function.
        function: String,
        /// The list.
        role: Role,
        /// The name.
        name: String,
    },
    /// An entry without a name. The runtime leaves it out of its list of names, so that names and
    /// types behind it no longer belong together. The contract calls it `%argN` or `%resultN`.
    MissingName {
        /// The function.
        function: String,
        /// The list.
        role: Role,
        /// Position among the graph's arguments or results.
        position: usize,
    },
    /// The type carries an attribute this tool does not know: how the values are laid out is not judged.
    UnknownEncoding {
        /// The function.
        function: String,
        /// The list.
        role: Role,
        /// The name.
        name: String,
        /// The attribute as it is printed.
        encoding: String,
    },
    /// A token result that bears the name of no state.
    TokenWithoutState {
        /// The function.
        function: String,
        /// Position among the graph's results.
        position: usize,
        /// The token's name, where it has one.
        name: Option<String>,
    },
    /// A handle among the results, which no runtime loads. It is no output.
    HandleReturned {
        /// The function.
        function: String,
        /// Position among the graph's results.
        position: usize,
        /// The result's name, where it has one.
        name: Option<String>,
    },
    /// A state that is written, but whose token is no result: nothing orders the caller's next use
    /// behind the write.
    StateWithoutToken {
        /// The function.
        function: String,
        /// The state's name.
        state: String,
    },
}

impl Note {
    /// The function the note is about.
    pub fn function(&self) -> &str {
        match self {
            Note::MutationWithoutHandle { function, .. }
            | Note::HandleWithoutMutation { function, .. }
            | Note::MutationOfOtherName { function, .. }
            | Note::DuplicateName { function, .. }
            | Note::MissingName { function, .. }
            | Note::UnknownEncoding { function, .. }
            | Note::TokenWithoutState { function, .. }
            | Note::HandleReturned { function, .. }
            | Note::StateWithoutToken { function, .. } => function,
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::MutationWithoutHandle { input, buffer, .. } => write!(
                f,
                "input {} is marked as the mutated buffer {} but is a plain tensor: the runtime \
                 reports no state for it",
                name(input),
                name(buffer)
            ),
            Note::HandleWithoutMutation { state, .. } => {
                write!(f, "state {} is not marked as a mutated buffer", name(state))
            }
            Note::MutationOfOtherName { state, buffer, .. } => {
                write!(
                    f,
                    "state {} is marked as the mutated buffer {}",
                    name(state),
                    name(buffer)
                )
            }
            Note::DuplicateName {
                role, name: port, ..
            } => {
                write!(
                    f,
                    "more than one {} is called {}",
                    role.as_str(),
                    name(port)
                )
            }
            Note::MissingName { role, position, .. } => write!(
                f,
                "the {} at position {position} has no name: the runtime's names and types shift",
                role.as_str()
            ),
            Note::UnknownEncoding {
                role,
                name: port,
                encoding,
                ..
            } => write!(
                f,
                "{} {} has an encoding this tool does not know, {}: it may not be laid out as its type says",
                role.as_str(),
                name(port),
                line(encoding)
            ),
            Note::TokenWithoutState {
                position,
                name: Some(port),
                ..
            } => {
                write!(
                    f,
                    "result {position} is the token of {}, which is no state",
                    name(port)
                )
            }
            Note::TokenWithoutState {
                position,
                name: None,
                ..
            } => {
                write!(f, "result {position} is a token without a name")
            }
            Note::HandleReturned { position, name, .. } => {
                write!(f, "result {position}")?;
                if let Some(port) = name {
                    write!(f, ", {},", self::name(port))?;
                }
                write!(
                    f,
                    " is the handle of a state: the runtime refuses the program"
                )
            }
            Note::StateWithoutToken { state, .. } => {
                write!(
                    f,
                    "state {} is written, but its token is not returned",
                    name(state)
                )
            }
        }
    }
}

/// The contract of a program's public functions.
///
/// Private graphs and the bodies of composites are left out. States come in the order of the handle arguments, inputs and outputs
/// in the order of tensor arguments and results; `source` and `export` are never set.
pub fn extract(module: &Module) -> Extracted {
    let mut accesses = Accesses::new(module);
    let mut extracted = Extracted::default();
    let named = module.graphs.iter().zip(module.flat_names());
    for (graph, name) in named.filter(|(g, _)| g.is_function()) {
        let function = function(graph, name, &mut accesses, &mut extracted.notes);
        extracted.contract.functions.push(function);
    }
    extracted
}

fn function<'m>(
    graph: &'m Graph,
    function: String,
    accesses: &mut Accesses<'m>,
    notes: &mut Vec<Note>,
) -> Function {
    let mut result = Function {
        name: function.clone(),
        export: None,
        inputs: Vec::new(),
        states: Vec::new(),
        outputs: Vec::new(),
    };
    let tokens: HashSet<&str> = graph
        .results
        .iter()
        .filter(|r| r.ty == Type::Token)
        .filter_map(|r| name_of(&r.attrs))
        .collect();
    let mut seen: HashMap<(Role, String), usize> = HashMap::new();
    let mut named = |role: Role, position: usize, attrs: &AttrDict, notes: &mut Vec<Note>| {
        let Some(name) = name_of(attrs) else {
            notes.push(Note::MissingName {
                function: function.clone(),
                role,
                position,
            });
            let word = if role == Role::Output {
                "result"
            } else {
                "arg"
            };
            return unnamed(word, position);
        };
        let count = seen.entry((role, name.to_string())).or_default();
        *count += 1;
        if *count == 2 {
            notes.push(Note::DuplicateName {
                function: function.clone(),
                role,
                name: name.to_string(),
            });
        }
        name.to_string()
    };
    let unknown = |role: Role, name: &str, ty: &Type| {
        let encoding = ty.as_tensor()?.encoding.as_ref()?;
        matches!(encoding, Attr::Opaque(text) if text.starts_with("#aicode.unknown")).then(|| {
            Note::UnknownEncoding {
                function: function.clone(),
                role,
                name: name.to_string(),
                encoding: encoding.to_string(),
            }
        })
    };
    for (position, arg) in graph.args.iter().enumerate() {
        let mutation = arg.attrs.get(MUTATION).and_then(|a| a.as_str());
        if arg.ty.is_handle() {
            let name = named(Role::State, position, &arg.attrs, notes);
            notes.extend(unknown(Role::State, &name, &arg.ty));
            let (dtype, shape) = element_and_shape(&arg.ty);
            let access = accesses.of(graph, arg.value);
            let (function, state) = (function.clone(), name.clone());
            match mutation {
                None => notes.push(Note::HandleWithoutMutation { function, state }),
                Some(buffer) if buffer != name => {
                    notes.push(Note::MutationOfOtherName {
                        function,
                        state,
                        buffer: buffer.into(),
                    });
                }
                Some(_) => {}
            }
            if matches!(access, super::Access::ReadWrite | super::Access::WriteOnly)
                && !tokens.contains(name.as_str())
            {
                let (function, state) = (result.name.clone(), name.clone());
                notes.push(Note::StateWithoutToken { function, state });
            }
            result.states.push(State {
                name,
                dtype,
                shape,
                access,
                source: None,
            });
        } else if arg.ty != Type::Token {
            let name = named(Role::Input, position, &arg.attrs, notes);
            notes.extend(unknown(Role::Input, &name, &arg.ty));
            if let Some(buffer) = mutation {
                notes.push(Note::MutationWithoutHandle {
                    function: function.clone(),
                    input: name.clone(),
                    buffer: buffer.to_string(),
                });
            }
            let (dtype, shape) = element_and_shape(&arg.ty);
            result.inputs.push(Port {
                name,
                dtype,
                shape,
                source: None,
            });
        }
    }
    for (position, outcome) in graph.results.iter().enumerate() {
        if outcome.ty == Type::Token {
            let name = name_of(&outcome.attrs);
            if !name.is_some_and(|n| result.states.iter().any(|s| s.name == n)) {
                let (function, name) = (function.clone(), name.map(str::to_string));
                notes.push(Note::TokenWithoutState {
                    function,
                    position,
                    name,
                });
            }
            continue;
        }
        if outcome.ty.is_handle() {
            notes.push(Note::HandleReturned {
                function: function.clone(),
                position,
                name: name_of(&outcome.attrs).map(str::to_string),
            });
            continue;
        }
        let name = named(Role::Output, position, &outcome.attrs, notes);
        notes.extend(unknown(Role::Output, &name, &outcome.ty));
        let (dtype, shape) = element_and_shape(&outcome.ty);
        result.outputs.push(Port {
            name,
            dtype,
            shape,
            source: None,
        });
    }
    result
}

fn name_of(attrs: &AttrDict) -> Option<&str> {
    attrs.get(NAME).and_then(|a| a.as_str())
}

/// Descriptor name and extents of a tensor, the tensor behind a handle, or an image.
fn element_and_shape(ty: &Type) -> (String, Vec<super::Dim>) {
    match ty {
        Type::Image(image) => (
            "image".to_string(),
            vec![Some(image.height), Some(image.width)],
        ),
        _ => match ty.as_tensor() {
            Some(tensor) => (dtype_name(tensor.element), tensor.dims.clone()),
            None => match ty {
                Type::Scalar(element) => (dtype_name(*element), Vec::new()),
                other => (other.to_string(), Vec::new()),
            },
        },
    }
}

/// The name the runtime descriptor gives an element type (`float32`, `int4`, `bool`, `cfloat32`).
///
/// A saved asset holds signless integers as unsigned, so they are named that way.
pub fn dtype_name(element: Element) -> String {
    let float = |f: Float| match f {
        Float::F64 => "float64",
        Float::F32 => "float32",
        Float::Tf32 => "tfloat32",
        Float::F16 => "float16",
        Float::Bf16 => "bfloat16",
        Float::F8E5M2 => "float8e5m2",
        Float::F8E4M3FN => "float8e4m3fn",
        Float::F8E8M0FNU => "float8e8m0fn",
        Float::F4E2M1FN => "float4e2m1fn",
    };
    match element.as_saved() {
        Element::Bool => "bool".to_string(),
        Element::Int {
            sign: Sign::Signed,
            width,
        } => format!("int{width}"),
        Element::Int { width, .. } => format!("uint{width}"),
        Element::Float(f) => float(f).to_string(),
        Element::Complex(f) => format!("c{}", float(f)),
        Element::Index => "index".to_string(),
    }
}
