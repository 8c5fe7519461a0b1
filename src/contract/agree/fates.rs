//! What becomes of the values that `forward` returns.

use crate::contract::signature::{FunctionSignature, Output, Program};
use crate::text;

/// What became of one returned value.
#[derive(Debug, PartialEq)]
pub(crate) enum Fate {
    /// An output of the asset.
    Output,
    /// It is the new value of a state: `(return, state)`.
    State(usize, String),
    /// It is the same value as an earlier return: `(return, earlier)`.
    Repeated(usize, usize),
    /// A later output has its name: `(return, later, name)`.
    Overwritten(usize, usize, String),
    /// It is no tensor: `(return, value)`.
    Constant(usize, String),
}

impl Fate {
    /// One line for the evidence; nothing for a value that survives.
    pub(crate) fn explain(&self) -> Option<String> {
        Some(match self {
            Fate::Output => return None,
            Fate::State(i, state) => {
                format!("return {i} is the state {state} itself, which is no output")
            }
            Fate::Repeated(i, first) => format!("return {i} is the same value as return {first}"),
            Fate::Overwritten(i, later, name) => {
                format!("return {i} and return {later} are both named {}; the asset keeps return {later}", text::name(name))
            }
            Fate::Constant(i, value) => format!("return {i} is {value}, which is no tensor"),
        })
    }
}

/// What becomes of everything `forward` returns, in order.
pub(crate) fn return_fates(program: &Program, signature: &FunctionSignature) -> Vec<Fate> {
    let returned: Vec<&Output> = program.returns().collect();
    let given = signature.names.outputs.as_deref().unwrap_or_default();
    let mut fates: Vec<Fate> = Vec::new();
    for (i, output) in returned.iter().enumerate() {
        let mutation = program
            .mutations()
            .find(|m| m.node.is_some() && m.node == output.node);
        let earlier = returned[..i]
            .iter()
            .position(|o| o.node.is_some() && o.node == output.node);
        fates.push(if let Some(value) = &output.constant {
            Fate::Constant(i, value.clone())
        } else if let Some(mutation) = mutation {
            Fate::State(i, mutated_name(program, mutation))
        } else if let Some(earlier) = earlier {
            Fate::Repeated(i, earlier)
        } else {
            Fate::Output
        });
    }
    // Names go to the values that are left; of two with one name the last survives.
    let live: Vec<usize> = fates
        .iter()
        .enumerate()
        .filter(|(_, f)| matches!(f, Fate::Output))
        .map(|(i, _)| i)
        .collect();
    if given.len() == live.len() {
        for (k, &i) in live.iter().enumerate() {
            if let Some(later) = (k + 1..live.len()).rev().find(|&j| given[j] == given[k]) {
                fates[i] = Fate::Overwritten(i, live[later], given[k].clone());
            }
        }
    }
    fates
}

/// The user's name of a mutated buffer or argument.
pub(crate) fn mutated_name(program: &Program, mutation: &Output) -> String {
    let target = mutation.target.clone().unwrap_or_default();
    if mutation.kind == "buffer_mutation" {
        return target;
    }
    program
        .placeholders
        .iter()
        .find(|p| p.node.as_deref() == Some(&target))
        .map_or(target.clone(), |p| p.display_name().to_owned())
}

pub(crate) fn output_fix(fates: &[Fate]) -> String {
    let state = fates.iter().find_map(|f| match f {
        Fate::State(_, state) => Some(state.clone()),
        _ => None,
    });
    if let Some(state) = state {
        let short = state.rsplit('.').next().unwrap_or(&state).to_owned();
        format!("return an out-of-place result such as {short} + 0, which keeps its output")
    } else if fates.iter().any(|f| matches!(f, Fate::Overwritten(..))) {
        "give every output a name of its own in output_names".to_owned()
    } else if fates.iter().any(|f| matches!(f, Fate::Repeated(..))) {
        "return each value once, or an out-of-place copy such as y + 0".to_owned()
    } else {
        "return tensors only".to_owned()
    }
}
