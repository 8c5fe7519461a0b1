//! One tensor, or one value, where there should be two.

use crate::contract::signature::{FunctionSignature, Written};
use crate::convert::explain::stage_of;
use crate::convert::outcome::Failure;
use crate::convert::protocol::PythonError;
use crate::report::{Finding, Severity};
use crate::text;

/// `expected compiled_fn to be GraphModule`: torch met one tensor under two names.
pub(super) fn internal_assertion(
    failure: &Failure,
    error: &PythonError,
    signature: &FunctionSignature,
) -> Option<Finding> {
    if !error
        .message
        .contains("expected compiled_fn to be GraphModule")
    {
        return None;
    }
    let said = format!(
        "torch says: {}: {}",
        error.class,
        error.message.lines().next().unwrap_or_default()
    );
    let stage = stage_of(failure.stage);
    if let Some(group) = signature.shared_arguments.first() {
        return Some(
            Finding::new(
                "shared-example-tensor",
                stage,
                Severity::Error,
                format!(
                    "arguments {} are one tensor in the example, and forward writes one of them",
                    text::list(group)
                ),
            )
            .about(&group[0])
            .with_evidence(said)
            .with_fix("pass two tensors: a clone for each argument"),
        );
    }
    if let Some(group) = signature.aliases.first() {
        return Some(
            Finding::new(
                "aliased-buffers",
                stage,
                Severity::Error,
                format!("{} are one tensor", text::list(group)),
            )
            .about(&group[0])
            .with_evidence(said)
            .with_evidence("the default export cannot write a buffer that is reachable under two names; strict=True can, and orders states by first use")
            .with_fix("keep the tensor under one name only"),
        );
    }
    let group = signature.storages.first()?;
    Some(
        Finding::new(
            "aliased-buffers",
            stage,
            Severity::Error,
            format!("{} are views of the same memory", text::list(group)),
        )
        .about(&group[0])
        .with_evidence(said)
        .with_fix("take the view inside forward, or give each its own memory (clone)"),
    )
}

/// `SpecViolationError`: a buffer is bound to an argument or to another buffer as it is.
pub(super) fn buffer_bound_as_it_is(
    failure: &Failure,
    error: &PythonError,
    signature: &FunctionSignature,
) -> Option<Finding> {
    if error.class != "SpecViolationError" {
        return None;
    }
    let said = format!(
        "torch says: {}: {}",
        error.class,
        error.message.lines().next().unwrap_or_default()
    );
    let stage = stage_of(failure.stage);
    let bound = signature.written.iter().find_map(|w| {
        let origin = w.sites.last()?.value_origin.as_ref()?;
        (*origin != w.name).then_some((w.name.as_str(), origin.as_str()))
    });
    let finding = match bound {
        Some((name, origin)) => Finding::new(
            "aliased-buffers",
            stage,
            Severity::Error,
            format!("buffer {name} is bound to {origin} as it is, so both are one tensor"),
        )
        .about(name)
        .with_fix(format!("copy the value: self.{name}.copy_({origin} + 0)")),
        // Raised while the program is exported: it is not known yet, but only a copy that no line of
        // forward wrote lacks this mark.
        None if error.message.contains("missing nn_module_stack") => {
            let changed = signature.observed.iter().flat_map(|o| &o.changed);
            let buffers: Vec<&str> = changed
                .filter(|c| c.kind == "buffer")
                .map(|c| c.name.as_str())
                .collect();
            let which = if buffers.is_empty() {
                "a buffer".to_owned()
            } else {
                format!("buffer {}", text::list(&buffers))
            };
            Finding::new(
                "aliased-buffers",
                stage,
                Severity::Error,
                format!("{which} is bound to an argument or another buffer as it is, so both are one tensor"),
            )
            .with_fix("copy the value: self.buffer.copy_(value)")
        }
        None => return None,
    };
    Some(finding.with_evidence(said))
}

/// `SpecViolationError`: the same value is copied into two buffers, and torch loses count of its outputs.
pub(super) fn one_value_copied_twice(
    failure: &Failure,
    error: &PythonError,
    signature: &FunctionSignature,
) -> Option<Finding> {
    if error.class != "SpecViolationError" {
        return None;
    }
    let last_copy = |w: &Written| {
        w.sites
            .last()
            .and_then(|s| Some((s.value.clone()?, s.describe())))
    };
    let copies: Vec<(&str, (String, String))> = signature
        .written
        .iter()
        .filter_map(|w| Some((w.name.as_str(), last_copy(w)?)))
        .collect();
    for (i, (a, (value, place))) in copies.iter().enumerate() {
        let Some((b, (_, other))) = copies[i + 1..].iter().find(|(_, (v, _))| v == value) else {
            continue;
        };
        return Some(
            Finding::new(
                "aliased-buffers",
                stage_of(failure.stage),
                Severity::Error,
                format!("{a} and {b} are given one and the same value, which torch.export cannot express"),
            )
            .about(*a)
            .with_evidence(format!("{a}: {place}"))
            .with_evidence(format!("{b}: {other}"))
            .with_evidence(format!("torch says: {}", error.message.lines().next().unwrap_or_default()))
            .with_fix(format!("write a copy into one of them: {b}.copy_(value + 0)")),
        );
    }
    None
}

/// One node is the new value of two states.
pub(super) fn one_value_in_two_states(
    failure: &Failure,
    _: &PythonError,
    signature: &FunctionSignature,
) -> Option<Finding> {
    let program = signature.program.as_ref()?;
    let mutations: Vec<_> = program.mutations().collect();
    for (i, a) in mutations.iter().enumerate() {
        let shared = mutations[i + 1..]
            .iter()
            .find(|b| a.node.is_some() && a.node == b.node);
        let Some(b) = shared else { continue };
        let (a, b) = (
            crate::contract::agree::mutated_name(program, a),
            crate::contract::agree::mutated_name(program, b),
        );
        return Some(
            Finding::new(
                "aliased-buffers",
                stage_of(failure.stage),
                Severity::Error,
                format!("{a} and {b} are one tensor when forward is done, so one new value would have to serve two states"),
            )
            .about(&a)
            .with_evidence("that is what the converter calls a state input/output count mismatch")
            .with_fix(format!("write the value into {a} with {a}.copy_(…) instead of binding the name to another tensor, or write a copy (value + 0) into one of them")),
        );
    }
    None
}
