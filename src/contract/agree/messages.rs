//! The longer findings of the join, as sentences.

use super::error;
use crate::contract::signature::{Changed, Expected, FunctionSignature, Program};
use crate::contract::{Access, Source};
use crate::report::{Finding, Severity, Stage};
use crate::text;

pub(super) fn not_written(
    name: &str,
    position: usize,
    access: Access,
    source: &Source,
    e: &Expected<'_>,
) -> Finding {
    let mut finding = error(
        "write-lost",
        format!("state {position} is {access} in the asset, although forward writes {source}"),
    )
    .about(name);
    for site in &e.placeholder.sites {
        finding = finding.with_evidence(format!("written at {}", site.describe()));
    }
    finding.with_fix(
        "check that the write changes the value: a write of the value itself is folded away",
    )
}

/// An argument that became a state; `position` is its place among the states.
pub(crate) fn promoted_input(e: &Expected<'_>, position: usize, severity: Severity) -> Finding {
    let name = e.placeholder.display_name();
    let mut finding = Finding::new(
        "promoted-input",
        Stage::Contract,
        severity,
        format!("argument {name} is a state (position {position}) and no longer an input"),
    )
    .about(name);
    for site in &e.placeholder.sites {
        finding = finding.with_evidence(format!("written in place at {}", site.describe()));
    }
    if e.placeholder.sites.is_empty() {
        finding = finding.with_evidence(
            "torch.export records a write to it; no in-place op of forward was found",
        );
    }
    finding.with_fix(format!(
        "if it should stay an input, write out of place ({name} = {name} * 2) or on a copy \
         ({name} = {name}.clone()); if it is meant as a state, name it in state_names"
    ))
}

pub(super) fn name_order_finding(
    role: &str,
    field: &str,
    names: &[&str],
    sources: &[&str],
    moved: &[(usize, usize)],
    signature: &FunctionSignature,
) -> Finding {
    let place = |i: usize| format!("{} is {}", text::name(names[i]), sources[i]);
    let message = match moved {
        [(a, _), (b, _)] => format!(
            "{role} {} is {}, and {} is {}: the names are exchanged",
            text::name(names[*a]),
            sources[*a],
            text::name(names[*b]),
            sources[*b]
        ),
        _ => format!(
            "{} of {} {role} names are pinned on another one's source",
            moved.len(),
            names.len()
        ),
    };
    let mut finding = error("name-order-mismatch", message);
    for (i, _) in moved {
        finding = finding.with_evidence(format!("{role} {i}: {}", place(*i)));
    }
    let right: Vec<String> = (0..names.len())
        .filter(|i| moved.iter().all(|(m, _)| m != i))
        .map(|i| text::name(names[i]).into_owned())
        .collect();
    if !right.is_empty() {
        let verb = if right.len() == 1 { "is" } else { "are" };
        finding = finding.with_evidence(format!("{} {verb} right", text::list(&right)));
    }
    if role == "state" {
        let rule = match signature.strict {
            Some(true) => "strict export orders buffers by first use",
            _ => "buffers come in registration order, depth first; then mutated arguments",
        };
        finding = finding.with_evidence(rule);
        finding = finding.with_evidence("outputs agree with PyTorch; a consumer that binds by name or position reads the wrong state");
    }
    let mut proper: Vec<&str> = names.to_vec();
    for (i, j) in moved {
        proper[*j] = names[*i];
    }
    let proper: Vec<String> = proper.iter().map(|n| format!("{n:?}")).collect();
    finding.with_fix(format!("{field}=[{}]", proper.join(", ")))
}

pub(super) fn lost_write(changed: &Changed, states: usize, training: bool) -> Finding {
    let name = &changed.name;
    let mode = if training {
        " in the training mode the recipe hands it over in"
    } else {
        ""
    };
    let in_asset = format!(
        "the asset has {} and {name} is none of them",
        text::count(states, "state")
    );
    match changed.kind.as_str() {
        "parameter" => error(
            "mutated-parameter",
            format!("parameter {name} changes from call to call in PyTorch{mode}; the asset bakes it in as a constant"),
        )
        .about(name)
        .with_evidence(in_asset)
        .with_fix("register it as a buffer and write it in place"),
        "python" => Finding::new(
            "python-state-frozen",
            Stage::Contract,
            Severity::Warning,
            format!("{name} is a Python value that forward changes; in the asset it is frozen as it was at export"),
        )
        .about(name)
        .with_fix("keep it in a registered buffer, or pass it as an argument"),
        kind => {
            let what = if kind == "buffer" { "buffer" } else { "tensor" };
            let message = format!("{what} {name} changes from call to call in PyTorch{mode}, and is no state of the asset");
            let finding = error("write-lost", message).about(name).with_evidence(in_asset);
            let finding = if changed.appeared {
                finding.with_evidence("it is None or absent before the first call")
            } else {
                finding
            };
            finding.with_fix(match (kind, training) {
                ("buffer", true) => "call .eval() in the recipe if it need not change; else write the buffer in place in forward",
                ("buffer", false) => "write the registered buffer in place (copy_, add_, index assignment); re-binding it is lost",
                _ => "register it with register_buffer and write it in place",
            })
        }
    }
}

/// Outputs that nobody returned: what torch makes of a write to something that is no buffer.
pub(super) fn extra_outputs(program: &Program, returned: usize, outputs: usize) -> Finding {
    let mut finding = error(
        "extra-output",
        format!(
            "the asset has {} for {} returned",
            text::count(outputs, "output"),
            text::count(returned, "value")
        ),
    );
    for output in &program.outputs {
        if output.kind != "user_output" && !output.is_mutation() {
            let target = output.target.as_deref().unwrap_or("?");
            let kind = output.kind.replace('_', " ");
            finding = finding.with_evidence(format!("{kind} of {target}"));
        }
    }
    finding.with_fix("write only registered buffers in forward")
}

/// The recipe says there is none of a role, and there are `n`.
pub(super) fn unexpected(role: &str, n: usize) -> Finding {
    error(
        "unexpected-port",
        format!(
            "{role}_names is empty, and the asset has {}",
            text::count(n, role)
        ),
    )
    .with_fix(format!(
        "name what is meant to be there in {role}_names; else find what makes it one"
    ))
}
