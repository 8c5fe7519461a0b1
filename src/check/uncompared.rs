//! Ports that no step of the trace compares: they neither agree nor differ.

use serde::Serialize;

use super::pair::{Bound, Function, Pair};
use super::parity::{Alignment, Outcome};
use crate::contract::{Role, SourceKind};
use crate::report::{Finding, Severity, Stage};
use crate::text::{list, name};

/// A port whose values nothing says anything about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Uncompared {
    /// The function.
    pub function: String,
    /// Output or state.
    pub role: Role,
    /// The port.
    pub port: String,
    /// Why no step compares it.
    pub why: String,
    /// What to do about it.
    pub fix: String,
}

/// Every output and state that no run compares in any step. Runs that stopped before a function was
/// called for the first time say so by themselves.
pub fn uncompared(
    pair: &Pair<'_>,
    outcomes: &[Outcome<'_>],
    alignment: &Alignment,
) -> Vec<Uncompared> {
    let stopped = outcomes.iter().any(|o| o.stopped.is_some());
    let mut all = Vec::new();
    let model = &pair.model;
    for own in model.function_names() {
        let index = pair.functions.iter().position(|f| f.name == own);
        let function = index.map(|i| &pair.functions[i]);
        let called = function.is_some_and(|f| {
            let mut calls = outcomes.iter().flat_map(|o| &o.run.calls[..o.done]);
            calls.any(|c| c.function == f.traced.name)
        });
        if !called && stopped {
            continue;
        }
        let Ok(run) = model.function(own) else {
            continue;
        };
        let mut push = |role: Role, port: &str, (why, fix): (String, String)| {
            let mut ports = outcomes.iter().flat_map(|o| &o.ports);
            let compared = ports.any(|p| {
                p.function == own && p.role == role && p.port == port && !p.steps.is_empty()
            });
            if !compared {
                all.push(Uncompared {
                    function: own.into(),
                    role,
                    port: port.into(),
                    why,
                    fix,
                });
            }
        };
        let uncalled = || {
            (
                format!("no call of the trace is one of {}", name(own)),
                format!(
                    "record the trace again with calls of {} among them",
                    name(own)
                ),
            )
        };
        for (place, output) in run.outputs().iter().enumerate() {
            let reason = match (called, index) {
                (true, Some(i)) => output_reason(alignment, i, place, outcomes, own),
                _ => uncalled(),
            };
            push(Role::Output, &output.name, reason);
        }
        for state in run.states() {
            let reason = match function.filter(|_| called) {
                Some(f) => state_reason(f, f.state(&state.name)),
                None => uncalled(),
            };
            push(Role::State, &state.name, reason);
        }
    }
    all
}

fn output_reason(
    alignment: &Alignment,
    function: usize,
    place: usize,
    outcomes: &[Outcome<'_>],
    own: &str,
) -> (String, String) {
    let leaf = alignment.get(&function).and_then(|l| l.get(place).copied());
    let constant = leaf.flatten().and_then(|l| {
        let mut calls = outcomes.iter().flat_map(|o| &o.run.calls);
        calls.find_map(|c| c.outputs.get(l)?.constant.clone())
    });
    match constant {
        Some(value) => (
            format!("PyTorch returns {value} there, which is no tensor"),
            "return a tensor, or leave the value out".into(),
        ),
        None => (
            format!("no value that {} returns in PyTorch fits it", name(own)),
            "compare the outputs of the asset with what forward returns, and record the trace of this asset's recipe".into(),
        ),
    }
}

fn state_reason(function: &Function<'_>, state: Option<&Bound>) -> (String, String) {
    let source = state.and_then(|s| s.source.as_ref());
    let Some(source) = source else {
        return (
            "neither a contract nor a name says which buffer or argument it is".into(),
            "give the contract with the sources: --contract".into(),
        );
    };
    let written = match source.kind {
        SourceKind::Buffer => {
            let mut buffers = function.traced.buffers.iter();
            buffers.any(|b| b.written && b.names().any(|n| source.names().any(|m| m == n)))
        }
        SourceKind::Argument => {
            let mut arguments = function.traced.arguments.iter();
            arguments.any(|a| a.written && a.path == source.name)
        }
    };
    match written {
        true => (
            format!("the trace has no value of {source} after any call"),
            "record the trace again".into(),
        ),
        false => (
            format!("no call writes {source} in PyTorch, so the trace has no value of it"),
            "record calls that write it; or do not make it a state".into(),
        ),
    }
}

/// One finding for each function and reason, unless `told` accounts for it.
///
/// Where nothing at all was compared (`nothing`), that is an error: such a trace proves nothing.
pub fn findings(all: &[Uncompared], told: &[Finding], nothing: bool) -> Vec<Finding> {
    let severity = match nothing {
        true => Severity::Error,
        false => Severity::Warning,
    };
    let mut findings: Vec<Finding> = Vec::new();
    let mut done: Vec<(&str, &str)> = Vec::new();
    for one in all {
        let key = (one.function.as_str(), one.why.as_str());
        // A lost update that appears as one output more is told as what it is.
        let update =
            |f: &Finding| f.id == "mutated-parameter" && f.function.as_ref() == Some(&one.function);
        if done.contains(&key) || (one.role == Role::Output && told.iter().any(update)) {
            continue;
        }
        done.push(key);
        let alike = all
            .iter()
            .filter(|o| o.function == one.function && o.why == one.why);
        let mut ports: Vec<String> = alike
            .map(|o| format!("{} {}", o.role, name(&o.port)))
            .collect();
        let verb = if ports.len() == 1 { "is" } else { "are" };
        if ports.len() > 4 {
            let more = ports.len() - 3;
            ports.truncate(3);
            ports.push(format!("{more} more"));
        }
        findings.push(
            Finding::new(
                "not-compared",
                Stage::Check,
                severity,
                format!(
                    "{} {verb} not compared with PyTorch in any step: {}",
                    list(&ports),
                    one.why
                ),
            )
            .in_function(&one.function)
            .about(&one.port)
            .with_fix(one.fix.clone()),
        );
    }
    findings
}
