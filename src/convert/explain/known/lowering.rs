//! What the converter cannot make something of: values that are no tensors, ops, orders and names.

use super::failed;
use crate::contract::agree::source;
use crate::contract::signature::FunctionSignature;
use crate::convert::explain::stage_of;
use crate::convert::outcome::Failure;
use crate::convert::protocol::PythonError;
use crate::report::{Finding, Severity, Stage};
use crate::text;

/// `Could not resolve placeholder op`: a Python value in the example is no tensor.
pub(super) fn baked_argument(
    failure: &Failure,
    error: &PythonError,
    signature: &FunctionSignature,
) -> Option<Finding> {
    if !error.message.contains("Could not resolve placeholder op") {
        return None;
    }
    let program = signature.program.as_ref()?;
    let placeholder = program
        .placeholders
        .iter()
        .find(|p| p.kind == "user_input" && p.dtype.is_none())?;
    let name = placeholder.display_name();
    let value = placeholder.constant.as_deref().unwrap_or("no tensor");
    let fix = if value == "None" {
        "leave it out of the example; an optional argument that is not passed does not become an input"
    } else {
        "pass it as a tensor if it should be an input; else leave it out and give forward a default"
    };
    Some(
        failed(
            failure,
            format!("argument {name} is {value} in the example; only tensors can be inputs"),
        )
        .about(name)
        .with_evidence(format!(
            "the converter says: {}",
            error.message.lines().next().unwrap_or_default()
        ))
        .with_fix(fix),
    )
}

/// `'NoneType' object has no attribute 'meta'`: forward returns no tensor.
pub(super) fn no_tensor_returned(
    failure: &Failure,
    error: &PythonError,
    signature: &FunctionSignature,
) -> Option<Finding> {
    if !error.message.contains("has no attribute") {
        return None;
    }
    let program = signature.program.as_ref()?;
    let returned: Vec<_> = program.returns().collect();
    let (position, output) = returned
        .iter()
        .enumerate()
        .find(|(_, o)| o.constant.is_some())?;
    let value = output.constant.as_deref().unwrap_or("None");
    let message = if returned.len() == 1 {
        format!("forward returns {value}")
    } else {
        format!("forward returns {value} as value {position}")
    };
    Some(
        failed(failure, message)
            .with_evidence(format!("the converter says: {}", error.message.lines().next().unwrap_or_default()))
            .with_fix("return a tensor; a function that only updates states can return one of its inputs + 0"),
    )
}

/// Ops that the converter cannot lower, with what to write instead where that is known to work.
pub(super) fn missing_lowering(
    failure: &Failure,
    error: &PythonError,
    signature: &FunctionSignature,
) -> Option<Finding> {
    let listed = error
        .message
        .split_once("unsupported ATen ops: ")
        .and_then(|(_, rest)| rest.split(". Use").next())
        .or_else(|| {
            error
                .message
                .split_once("Unsupported ATen op: ")
                .and_then(|(_, rest)| rest.split(". Use").next())
        })?;
    let ops: Vec<String> = listed
        .split(", ")
        .map(|op| op.trim().trim_end_matches('.').to_owned())
        .collect();
    let mut finding = failed(
        failure,
        format!("the converter has no lowering for {}", text::list(&ops)),
    );
    let known = signature.program.as_ref().map(|p| &p.ops);
    for op in &ops {
        let site = known.and_then(|ops| ops.iter().find(|(name, _)| name.ends_with(op.as_str())));
        if let Some((_, site)) = site {
            finding = finding.with_evidence(format!("{op}: {}", site.describe()));
        }
        if let Some(instead) = instead_of(op) {
            finding = finding.with_evidence(format!("{op}: {instead}"));
        }
    }
    Some(finding.with_fix(
        "rewrite the op, or convert in the recipe with a TorchConverter of your own (register_torch_lowering) and return Recipe(program=…)",
    ))
}

fn instead_of(op: &str) -> Option<&'static str> {
    let base = op.trim_start_matches("aten.").split('.').next()?;
    match base {
        "remainder" => Some(
            "the same with a tensor divisor, torch.fmod(pos, n), or pos - pos // n * n converts and is right for positions",
        ),
        _ => None,
    }
}

/// The converter's own guard of the order of states.
pub(super) fn placeholder_order(
    failure: &Failure,
    error: &PythonError,
    signature: &FunctionSignature,
) -> Option<Finding> {
    if !error.message.contains("FX placeholder order violates") {
        return None;
    }
    let program = signature.program.as_ref()?;
    let mut finding = Finding::new(
        "placeholder-order",
        stage_of(failure.stage),
        Severity::Error,
        "this PyTorch lists mutated arguments before buffers, so the order of states cannot be relied on",
    );
    for expected in program.expected().iter().filter(|e| e.mutation.is_some()) {
        finding = finding.with_evidence(format!("state: {}", source(expected, signature)));
    }
    Some(finding.with_fix("use the PyTorch version the converter was validated with"))
}

/// `number of handle inputs must match number of token outputs`: two states of one name.
pub(super) fn tokens(
    failure: &Failure,
    error: &PythonError,
    signature: &FunctionSignature,
) -> Option<Finding> {
    if !error.message.contains("number of handle inputs must match") {
        return None;
    }
    let names = signature.names.states.as_ref()?;
    let repeated = names
        .iter()
        .enumerate()
        .find(|(i, n)| names[..*i].contains(n))
        .map(|(_, n)| n)?;
    Some(
        Finding::new(
            "duplicate-or-shadowed-name",
            Stage::Convert,
            Severity::Error,
            format!("{} stands twice in state_names", text::name(repeated)),
        )
        .about(repeated)
        .with_evidence(format!("raised in stage {}", failure.stage))
        .with_fix("give every state a name of its own"),
    )
}
