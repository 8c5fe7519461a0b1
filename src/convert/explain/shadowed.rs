//! An output that has the name of a state.
//!
//! Where both have one type the converter drops the output without a word; where they differ it fails
//! while it rewrites the program, with a message about neither.

use super::Explanation;
use crate::contract::agree::source;
use crate::contract::signature::FunctionSignature;
use crate::convert::protocol::PythonError;
use crate::report::{Finding, Severity, Stage};
use crate::text;

/// Explains a failure of the converter's rewrite by a name that is given twice.
pub(super) fn explain(error: &PythonError, functions: &[FunctionSignature]) -> Option<Explanation> {
    if !error.message.contains("rewrite pipeline") {
        return None;
    }
    let findings: Vec<Finding> = functions
        .iter()
        .filter_map(|f| shadowed(f, error))
        .collect();
    (!findings.is_empty()).then_some(Explanation {
        findings,
        found: true,
        certain: true,
    })
}

fn shadowed(signature: &FunctionSignature, error: &PythonError) -> Option<Finding> {
    let program = signature.program.as_ref()?;
    let states = signature.names.states.as_ref()?;
    let outputs = signature.names.outputs.as_ref()?;
    let name = outputs.iter().find(|o| states.contains(o))?;
    let position = states.iter().position(|s| s == name)?;
    let expected = program.expected();
    let state = expected
        .iter()
        .filter(|e| e.mutation.is_some())
        .nth(position)?;
    Some(
        Finding::new(
            "duplicate-or-shadowed-name",
            Stage::Contract,
            Severity::Error,
            format!("{} is a state and an output", text::name(name)),
        )
        .in_function(&signature.name)
        .about(name)
        .with_evidence(format!(
            "the converter would write the output's value into the state, which is {}; here their types differ and it fails",
            source(state, signature)
        ))
        .with_evidence(error.message.lines().next().unwrap_or_default())
        .with_fix("give the output another name in output_names"),
    )
}
