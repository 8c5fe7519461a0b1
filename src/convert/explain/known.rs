//! Messages of PyTorch and the converter that say less than is known.

use super::stage_of;
use crate::contract::agree::source;
use crate::contract::signature::{asset_dtype, Expected, FunctionSignature, Written};
use crate::contract::Dim;
use crate::convert::outcome::Failure;
use crate::convert::protocol::PythonError;
use crate::report::{Finding, Severity, Stage};
use crate::text;

const FIXED_SIZE: &str =
    "a state cannot change its size: give it a fixed capacity and write into it, or make it \
    a functional cache, an argument and an output with a dynamic dimension";

type Explainer = fn(&Failure, &PythonError, &FunctionSignature) -> Option<Finding>;

/// The best explanation of a Python error, and whether it is more than the bare message.
pub(super) fn explain(
    failure: &Failure,
    error: &PythonError,
    functions: &[FunctionSignature],
) -> (Finding, bool) {
    let explainers: [Explainer; 13] = [
        internal_assertion,
        buffer_bound_as_it_is,
        resized,
        unregistered_tensor,
        fake_tensor_left,
        one_value_copied_twice,
        one_value_in_two_states,
        written_type,
        baked_argument,
        no_tensor_returned,
        missing_lowering,
        placeholder_order,
        tokens,
    ];
    for signature in functions {
        for explainer in explainers {
            if let Some(finding) = explainer(failure, error, signature) {
                return (finding.in_function(&signature.name), true);
            }
        }
    }
    let finding = failed(
        failure,
        format!("in stage {}: {}", failure.stage, failure.headline()),
    )
    .with_evidence_lines(&error.message);
    (finding, false)
}

fn failed(failure: &Failure, message: impl Into<String>) -> Finding {
    Finding::new(
        "conversion-failed",
        stage_of(failure.stage),
        Severity::Error,
        message,
    )
}

trait EvidenceLines {
    fn with_evidence_lines(self, message: &str) -> Self;
}

impl EvidenceLines for Finding {
    /// The rest of a message of several lines, cut where it gets long.
    fn with_evidence_lines(mut self, message: &str) -> Self {
        const MOST: usize = 12;
        let lines: Vec<&str> = message
            .lines()
            .skip(1)
            .filter(|l| !l.trim().is_empty())
            .collect();
        self.evidence
            .extend(lines.iter().take(MOST).map(|l| l.trim_end().to_owned()));
        if lines.len() > MOST {
            self.evidence
                .push(format!("… {} more lines", lines.len() - MOST));
        }
        self
    }
}

/// `expected compiled_fn to be GraphModule`: torch met one tensor under two names.
fn internal_assertion(
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
fn buffer_bound_as_it_is(
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

/// A buffer is bound to a value of another size.
fn resized(
    failure: &Failure,
    error: &PythonError,
    signature: &FunctionSignature,
) -> Option<Finding> {
    if signature.program.is_some() || !error.message.contains("copy_") {
        return None;
    }
    for written in &signature.written {
        let Some(shape) = written
            .sites
            .iter()
            .rev()
            .find_map(|s| s.value_shape.clone())
        else {
            continue;
        };
        let Some(buffer) = signature.buffers.iter().find(|b| b.name == written.name) else {
            continue;
        };
        if broadcasts(&shape, &buffer.shape) {
            continue;
        }
        return Some(
            failed(
                failure,
                format!(
                    "buffer {} is {}, the value written is {}",
                    buffer.name,
                    tuple(&buffer.shape),
                    tuple(&shape)
                ),
            )
            .about(&buffer.name)
            .with_evidence(format!(
                "torch says: {}",
                error.message.lines().next().unwrap_or_default()
            ))
            .with_fix(FIXED_SIZE),
        );
    }
    None
}

/// `Constant t is mutated in the forward method`: a tensor attribute that is no buffer.
fn unregistered_tensor(
    failure: &Failure,
    error: &PythonError,
    signature: &FunctionSignature,
) -> Option<Finding> {
    let (_, rest) = error.message.split_once("Constant ")?;
    let (name, _) = rest.split_once(" is mutated in the forward method")?;
    // What is found in a list or dictionary gets a name from export; eager PyTorch tells whose it is.
    let kept = kept(signature);
    if let (true, Some(first)) = (name.starts_with("lifted_tensor_"), kept.first()) {
        let (are, it) = match kept.len() {
            1 => ("is a plain tensor", "it"),
            _ => ("are plain tensors", "each"),
        };
        let message = format!(
            "{} {are} that forward writes; only a registered buffer can be a state",
            text::list(&kept)
        );
        return Some(failed(failure, message).about(*first).with_fix(format!(
            "keep {it} in a buffer (register_buffer), and write that in place"
        )));
    }
    let mut finding = failed(
        failure,
        format!(
            "{name} is a plain tensor that forward writes; only a registered buffer can be a state"
        ),
    )
    .about(name);
    for site in signature
        .written
        .iter()
        .filter(|w| w.name == name)
        .flat_map(|w| &w.sites)
    {
        finding = finding.with_evidence(format!("written at {}", site.describe()));
    }
    Some(finding.with_fix(format!(
        "self.register_buffer({name:?}, …) instead of self.{name} = …"
    )))
}

/// `We found a fake tensor in the exported program constant's list`: forward keeps a tensor outside of
/// its buffers, and an export before this one left one of its own there.
fn fake_tensor_left(
    failure: &Failure,
    error: &PythonError,
    signature: &FunctionSignature,
) -> Option<Finding> {
    if !error
        .message
        .contains("found a fake tensor in the exported program")
    {
        return None;
    }
    let kept = kept(signature);
    let first = kept.first()?;
    let message = format!(
        "{} keeps a tensor in {}: its export leaves a fake one there, which the next cannot read",
        signature.name,
        text::list(&kept)
    );
    Some(
        failed(failure, message)
            .about(*first)
            .with_evidence("what forward binds there is lost in the asset as well")
            .with_fix("keep it in a buffer (register_buffer) of a module that the entry points share, and write that in place"),
    )
}

/// Tensors outside of the buffers that change from call to call.
fn kept(signature: &FunctionSignature) -> Vec<&str> {
    let observed = signature.observed.iter().flat_map(|o| &o.changed);
    observed
        .filter(|c| c.kind == "attribute")
        .map(|c| c.name.as_str())
        .collect()
}

/// `SpecViolationError`: the same value is copied into two buffers, and torch loses count of its outputs.
fn one_value_copied_twice(
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
fn one_value_in_two_states(
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

/// A state is given a value of another shape or dtype than it has.
fn written_type(
    failure: &Failure,
    _: &PythonError,
    signature: &FunctionSignature,
) -> Option<Finding> {
    let program = signature.program.as_ref()?;
    for expected in program.expected() {
        let Some(mutation) = expected.mutation else {
            continue;
        };
        let (Some(is), Some(written)) = (&expected.placeholder.shape, &mutation.shape) else {
            continue;
        };
        let dtypes = (
            expected.placeholder.dtype.as_deref()?,
            mutation.dtype.as_deref().unwrap_or("?"),
        );
        let same_dtype = asset_dtype(dtypes.0) == asset_dtype(dtypes.1);
        if is == written && same_dtype {
            continue;
        }
        return Some(written_type_finding(
            failure, &expected, signature, is, written, dtypes,
        ));
    }
    None
}

fn written_type_finding(
    failure: &Failure,
    expected: &Expected<'_>,
    signature: &FunctionSignature,
    is: &[Dim],
    written: &[Dim],
    dtypes: (&str, &str),
) -> Finding {
    let source = source(expected, signature);
    let name = source
        .name
        .rsplit('.')
        .next()
        .unwrap_or(&source.name)
        .to_owned();
    let (message, fix) = if is != written {
        let fix = if broadcasts(written, is) {
            format!("expand it before copy_ ({name}.copy_(value.expand_as({name}))); slice assignment ({name}[:] = value) works")
        } else {
            FIXED_SIZE.to_owned()
        };
        (
            format!(
                "{source} is {}, the value written is {}",
                tuple(is),
                tuple(written)
            ),
            fix,
        )
    } else {
        (
            format!(
                "{source} is {}, the value written is {}",
                dtypes.0, dtypes.1
            ),
            format!("cast the value before it is written (value.to({name}.dtype))"),
        )
    };
    let mut finding = failed(failure, message).about(source.name);
    for site in &expected.placeholder.sites {
        finding = finding.with_evidence(format!("written at {}", site.describe()));
    }
    finding.with_fix(fix)
}

/// `(1, ?, 4)`, as torch writes a shape.
fn tuple(shape: &[Dim]) -> String {
    let items: Vec<String> = shape
        .iter()
        .map(|d| d.map_or("?".to_owned(), |n| n.to_string()))
        .collect();
    match items.as_slice() {
        [one] => format!("({one},)"),
        _ => format!("({})", items.join(", ")),
    }
}

fn broadcasts(from: &[Dim], to: &[Dim]) -> bool {
    from.len() <= to.len()
        && from
            .iter()
            .rev()
            .zip(to.iter().rev())
            .all(|(a, b)| a == b || (*a == Some(1) && *b != Some(0)))
}

/// `Could not resolve placeholder op`: a Python value in the example is no tensor.
fn baked_argument(
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
fn no_tensor_returned(
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
fn missing_lowering(
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
fn placeholder_order(
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
fn tokens(
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
