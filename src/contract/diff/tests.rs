//! Each case is an edit of a model and how it is told.
//!
//! Contracts are written `inputs | states | outputs`, an entry as `name=source:dtype[shape]`: `k=K` is a
//! float16 entry `k` of shape `[4]` with the source `K` (a buffer; `@x` is an argument), `k` one whose
//! source is not recorded. Inputs name their arguments without the `@`.

use super::*;
use crate::contract::testing::{self, any_contract};
use crate::contract::{Access, Dim, Export, Port, SourceKind, State};

mod fields;
mod identity;
mod properties;
mod reorders;

fn entry(spec: &str, kind: SourceKind) -> Port {
    let (spec, shape) = match spec.split_once('[') {
        Some((spec, shape)) => (spec, shape.trim_end_matches(']')),
        None => (spec, "4"),
    };
    let shape: Vec<Dim> = shape
        .split(',')
        .filter(|extent| !extent.is_empty())
        .map(|extent| (extent != "?").then(|| extent.parse().unwrap()))
        .collect();
    let (spec, dtype) = spec.split_once(':').unwrap_or((spec, "float16"));
    let (name, source) = match spec.split_once('=') {
        None => (spec, None),
        Some((name, source)) => {
            let kind = if source.starts_with('@') {
                SourceKind::Argument
            } else {
                kind
            };
            let mut names = source.trim_start_matches('@').split('+');
            let mut source = testing::source(kind, names.next().unwrap(), dtype);
            if let Some(source) = &mut source {
                source.aliases = names.map(str::to_owned).collect();
            }
            (name, source)
        }
    };
    testing::port(name, dtype, &shape, source)
}

fn state(spec: &str) -> State {
    let (spec, access) = match spec.split_once('!') {
        None => (spec, Access::ReadWrite),
        Some((spec, "w")) => (spec, Access::WriteOnly),
        Some((spec, "r")) => (spec, Access::ReadOnly),
        Some((spec, _)) => (spec, Access::Unused),
    };
    let port = entry(spec, SourceKind::Buffer);
    State {
        access,
        ..testing::state(&port.name, &port.dtype, &port.shape, port.source)
    }
}

fn main(spec: &str) -> Function {
    let mut lists = spec.split('|').map(|list| list.split_whitespace());
    let inputs = lists
        .next()
        .unwrap()
        .map(|s| entry(s, SourceKind::Argument))
        .collect();
    let states = lists
        .next()
        .unwrap_or("".split_whitespace())
        .map(state)
        .collect();
    let outputs = lists.next().unwrap_or("".split_whitespace());
    let outputs = outputs.map(|s| entry(s, SourceKind::Argument)).collect();
    testing::function("main", inputs, states, outputs)
}

fn contract(spec: &str) -> Contract {
    testing::contract([main(spec)])
}

/// What `diff` tells: `severity id: message`, a line each.
fn told(old: &str, new: &str) -> Vec<String> {
    lines(&diff(&contract(old), &contract(new)))
}

fn lines(changes: &[Change]) -> Vec<String> {
    changes
        .iter()
        .map(|c| format!("{} {}: {}", c.severity, c.id, c.message))
        .collect()
}

fn is_told(old: &str, new: &str, expected: &[&str]) {
    assert_eq!(told(old, new), expected, "{old}  →  {new}");
}
