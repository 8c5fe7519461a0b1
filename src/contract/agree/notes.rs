//! Oddities of a program's signature as findings.

use crate::contract::Note;
use crate::report::{Finding, Severity, Stage};

/// What a [`Note`] means for whoever ships the asset.
pub fn finding_of(note: &Note) -> Finding {
    let (id, severity, subject, fix) = match note {
        Note::MutationWithoutHandle { input, .. } => (
            "markers-without-handles",
            Severity::Error,
            Some(input.clone()),
            "convert with coreai-torch 0.4.3 or later, or call optimize() on the program before saving it",
        ),
        Note::HandleWithoutMutation { state, .. } => (
            "unmarked-state",
            Severity::Warning,
            Some(state.clone()),
            "tools that look for the mark will not see this state; the runtime does",
        ),
        Note::MutationOfOtherName { state, .. } => (
            "unmarked-state",
            Severity::Warning,
            Some(state.clone()),
            "tools that follow the mark will look for another name; give output and state names that differ",
        ),
        Note::DuplicateName { name, .. } => (
            "duplicate-or-shadowed-name",
            Severity::Error,
            Some(name.clone()),
            "give every input, state and output a name of its own",
        ),
        Note::MissingName { .. } => (
            "unnamed-port",
            Severity::Error,
            None,
            "give names in the recipe",
        ),
        Note::UnknownEncoding { name, .. } => (
            "unknown-encoding",
            Severity::Warning,
            Some(name.clone()),
            "update this tool, or tell its makers which producer wrote the asset",
        ),
        Note::TokenWithoutState { name, .. } => (
            "token-without-state",
            Severity::Error,
            name.clone(),
            "report this: the program orders writes to a state it does not have",
        ),
        Note::HandleReturned { name, .. } => (
            "handle-returned",
            Severity::Error,
            name.clone(),
            "report this: a state is updated in place and never a result",
        ),
        Note::StateWithoutToken { state, .. } => (
            "state-without-token",
            Severity::Error,
            Some(state.clone()),
            "report this: nothing orders the caller's next use behind the write",
        ),
    };
    let mut finding = Finding::new(id, Stage::Contract, severity, note.to_string())
        .in_function(note.function())
        .with_fix(fix);
    finding.subject = subject;
    finding
}
