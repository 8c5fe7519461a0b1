//! Entry points of one asset must agree on the states they share.

use std::collections::BTreeMap;

use super::error;
use crate::contract::signature::FunctionSignature;
use crate::contract::{Contract, Export, Function, SourceKind, State};
use crate::report::Finding;
use crate::text;

/// The same state must be the same tensor, in the same order, in every function.
pub(super) fn functions_disagree(
    contract: &Contract,
    signatures: &[FunctionSignature],
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (i, a) in contract.functions.iter().enumerate() {
        for b in &contract.functions[i + 1..] {
            let keys = |f: &Function| keys_of(f, signatures);
            let (keys_a, keys_b) = (keys(a), keys(b));
            let clash = a.states.iter().any(|s| {
                let other = b.states.iter().find(|t| t.name == s.name);
                other.is_some_and(|t| match (keys_a.get(&s.name), keys_b.get(&t.name)) {
                    (Some(x), Some(y)) => x != y,
                    _ => false,
                })
            });
            let order = |f: &Function, other: &Function| -> Vec<String> {
                f.states
                    .iter()
                    .map(|s| s.name.clone())
                    .filter(|n| other.states.iter().any(|s| &s.name == n))
                    .collect()
            };
            let reordered = order(a, b) != order(b, a);
            if clash || reordered {
                findings.push(functions_finding(a, b, clash));
            }
            findings.extend(baked(a, b, signatures));
            findings.extend(baked(b, a, signatures));
        }
    }
    findings
}

fn functions_finding(a: &Function, b: &Function, clash: bool) -> Finding {
    let message = if clash {
        format!(
            "{} and {} call different buffers by the same name",
            a.name, b.name
        )
    } else {
        format!(
            "{} and {} list the states they share in different order",
            a.name, b.name
        )
    };
    let mode = |f: &Function| match f.export {
        Some(Export { strict: true }) => " (strict export: order of first use)",
        Some(Export { strict: false }) => " (registration order)",
        None => "",
    };
    let line = |f: &Function| {
        let states: Vec<String> = f
            .states
            .iter()
            .map(|s| match &s.source {
                Some(source) => format!("{} is {}", text::name(&s.name), source.name),
                None => text::name(&s.name).into_owned(),
            })
            .collect();
        format!("{}: {}{}", f.name, states.join(", "), mode(f))
    };
    let (of_a, of_b) = (line(a), line(b));
    // The same buffers by name are still two tensors when each function has a module of its own.
    let names = |f: &Function| {
        f.states
            .iter()
            .map(|s| s.source.clone())
            .collect::<Vec<_>>()
    };
    if clash && names(a) == names(b) {
        return error(
            "functions-disagree",
            format!(
                "{} and {} have states of one name that are two different tensors",
                a.name, b.name
            ),
        )
        .with_evidence(of_a)
        .with_evidence(of_b)
        .with_evidence("a consumer that hands one array to both mixes two models")
        .with_fix("build the entry points on one shared module");
    }
    error("functions-disagree", message)
        .with_evidence(line(a))
        .with_evidence(line(b))
        .with_evidence("what one function writes, the other reads as something else; nothing raises")
        .with_fix("export every entry point in the same mode, and give state_names in that order for each")
}

/// A buffer that is a state in `writer` and only read in `reader` is a constant there.
fn baked(writer: &Function, reader: &Function, signatures: &[FunctionSignature]) -> Vec<Finding> {
    let signature_of = |f: &Function| signatures.iter().find(|s| s.name == f.name);
    let (Some(w), Some(r)) = (signature_of(writer), signature_of(reader)) else {
        return Vec::new();
    };
    let Some(program) = &r.program else {
        return Vec::new();
    };
    let written = keys_of(writer, signatures);
    let key = |s: &FunctionSignature, name: &str| {
        s.buffers
            .iter()
            .find(|b| b.name == name)
            .map(|b| b.key.clone())
    };
    let ported: Vec<&str> = program
        .expected()
        .iter()
        .filter_map(|e| e.placeholder.target.as_deref())
        .collect();
    let mut findings = Vec::new();
    for placeholder in program
        .placeholders
        .iter()
        .filter(|p| p.kind == "buffer" && p.used)
    {
        let Some(target) = placeholder.target.as_deref() else {
            continue;
        };
        let Some(key) = key(r, target) else { continue };
        // Where the reader writes it as well, it is that write which is lost.
        let mut changed = r.observed.iter().flat_map(|o| &o.changed);
        let lost = changed.any(|c| c.kind == "buffer" && c.name == target);
        if lost || ported.contains(&target) {
            continue;
        }
        if let Some((state, _)) = written.iter().find(|(_, k)| **k == key) {
            findings.push(
                error(
                    "functions-disagree",
                    format!("{state} is a state of {} and a constant in {}", w.name, r.name),
                )
                .in_function(&reader.name)
                .about(state)
                .with_evidence(format!("{} only reads buffer {target}: its value at export is baked in", r.name))
                .with_evidence(format!("what {} writes never reaches {}", w.name, r.name))
                .with_fix("pass the value as an argument, or write it back (buffer.copy_(buffer * 1.0)) so that it is a state there too"),
            );
        }
    }
    findings
}

/// State name → identity of the tensor behind it.
fn keys_of(function: &Function, signatures: &[FunctionSignature]) -> BTreeMap<String, String> {
    let Some(signature) = signatures.iter().find(|s| s.name == function.name) else {
        return BTreeMap::new();
    };
    function
        .states
        .iter()
        .filter_map(|state: &State| {
            let source = state
                .source
                .as_ref()
                .filter(|s| s.kind == SourceKind::Buffer)?;
            let buffer = signature
                .buffers
                .iter()
                .find(|b| source.names().any(|n| n == b.name))?;
            Some((state.name.clone(), buffer.key.clone()))
        })
        .collect()
}
