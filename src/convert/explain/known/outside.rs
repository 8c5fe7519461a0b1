//! Tensors that forward keeps outside of its buffers.

use super::failed;
use crate::contract::signature::FunctionSignature;
use crate::convert::outcome::Failure;
use crate::convert::protocol::PythonError;
use crate::report::Finding;
use crate::text;

/// `Constant t is mutated in the forward method`: a tensor attribute that is no buffer.
pub(super) fn unregistered_tensor(
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
pub(super) fn fake_tensor_left(
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
