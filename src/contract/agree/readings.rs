//! Compares the contract with another reading of the same asset.

use super::error;
use crate::contract::{shape, Contract, Dim, Port};
use crate::report::Finding;
use crate::text;

/// One port as another reading has it; `None` where that reading cannot say.
#[derive(Clone, Debug)]
pub struct OtherPort {
    /// Its name.
    pub name: String,
    /// dtype under the runtime descriptor's name.
    pub dtype: Option<String>,
    /// Extents.
    pub shape: Option<Vec<Dim>>,
}

/// A function as another reading has it.
#[derive(Clone, Debug)]
pub struct OtherFunction {
    /// Its name.
    pub name: String,
    /// Inputs in that reading's order.
    pub inputs: Vec<OtherPort>,
    /// States in that reading's order.
    pub states: Vec<OtherPort>,
    /// Outputs in that reading's order.
    pub outputs: Vec<OtherPort>,
}

/// Compares the contract with another reading of the same asset, named `reading` in the findings.
///
/// Functions that only the other reading lists are left out: the runtime lists private helpers too.
pub fn compare_reading(
    contract: &Contract,
    reading: &str,
    other: &[OtherFunction],
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for function in &contract.functions {
        let Some(theirs) = other.iter().find(|f| f.name == function.name) else {
            findings.push(
                error(
                    "readings-disagree",
                    format!("the {reading} does not list this function"),
                )
                .in_function(&function.name),
            );
            continue;
        };
        let states: Vec<Port> = function
            .states
            .iter()
            .map(|s| Port {
                name: s.name.clone(),
                dtype: s.dtype.clone(),
                shape: s.shape.clone(),
                source: None,
            })
            .collect();
        let pairs = [
            ("inputs", &function.inputs, &theirs.inputs),
            ("states", &states, &theirs.states),
            ("outputs", &function.outputs, &theirs.outputs),
        ];
        for (role, ours, theirs) in pairs {
            if !same_ports(ours, theirs) {
                findings.push(
                    error(
                        "readings-disagree",
                        format!("the emitted IR and the {reading} disagree on the {role}"),
                    )
                    .in_function(&function.name)
                    .with_evidence(format!("emitted IR: {}", describe_ports(ours)))
                    .with_evidence(format!("{reading}: {}", describe_others(theirs))),
                );
            }
        }
    }
    findings
}

fn same_ports(ours: &[Port], theirs: &[OtherPort]) -> bool {
    ours.len() == theirs.len()
        && ours.iter().zip(theirs).all(|(a, b)| {
            a.name == b.name
                && b.dtype.as_ref().is_none_or(|d| *d == a.dtype)
                && b.shape.as_ref().is_none_or(|s| *s == a.shape)
        })
}

fn describe_ports(ports: &[Port]) -> String {
    let items: Vec<String> = ports
        .iter()
        .map(|p| format!("{} {} {}", text::name(&p.name), p.dtype, shape(&p.shape)))
        .collect();
    if items.is_empty() {
        "none".to_owned()
    } else {
        items.join(", ")
    }
}

fn describe_others(ports: &[OtherPort]) -> String {
    let items: Vec<String> = ports
        .iter()
        .map(|p| {
            let shape = p
                .shape
                .as_deref()
                .map(shape)
                .map_or("?".to_owned(), |s| s.to_string());
            format!(
                "{} {} {shape}",
                text::name(&p.name),
                p.dtype.as_deref().unwrap_or("?")
            )
        })
        .collect();
    if items.is_empty() {
        "none".to_owned()
    } else {
        items.join(", ")
    }
}
