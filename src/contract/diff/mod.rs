//! What changed between two contracts, told the way it happened.
//!
//! A text diff of two contracts shows lines; a consumer needs to know what happened: that two states
//! changed places, that one was renamed, that the same names now stand for other buffers. [`diff`]
//! first decides which entry of the old contract *is* which entry of the new one (see [`matching`])
//! and then tells every difference between the two as one [`Change`].

mod chains;
mod change;
mod entry;
mod fields;
mod functions;
mod links;
mod matching;
mod membership;
mod order;
mod sources;

pub use change::{Change, ChangeId, Impact, Level};

use super::{Contract, Function, Role};
use entry::Entry;

/// Every difference between two contracts; empty exactly when they are equal.
///
/// Breaking changes come first, then compatible ones, then notes; within each, functions keep their
/// order. A change of place, of name and of source are told apart, and each is told once:
///
/// ```
/// # use coreai_audit::contract::*;
/// # let state = |name: &str, buffer: &str| State {
/// #     name: name.into(), dtype: "float16".into(), shape: vec![Some(4)], access: Access::ReadWrite,
/// #     source: Some(Source { kind: SourceKind::Buffer, name: buffer.into(), dtype: "float16".into(), aliases: vec![] }),
/// # };
/// # let contract = |states| Contract { functions: vec![Function {
/// #     name: "main".into(), export: None, inputs: vec![], states, outputs: vec![] }] };
/// let old = contract(vec![state("key_cache", "k"), state("value_cache", "v")]);
/// let new = contract(vec![state("key_cache", "v"), state("value_cache", "k")]);
/// let changes = diff(&old, &new);
/// assert_eq!(changes.len(), 1);
/// assert_eq!(
///     changes[0].message,
///     "sources of states 0 and 1 exchanged: key_cache is now buffer v, value_cache is now buffer k"
/// );
/// ```
pub fn diff(old: &Contract, new: &Contract) -> Vec<Change> {
    let mut changes = Vec::new();
    let matching = functions::match_functions(&old.functions, &new.functions);
    functions::changes(&mut changes, &old.functions, &new.functions, &matching);
    for &(old_at, new_at) in &matching.pairs {
        diff_function(&mut changes, &old.functions[old_at], &new.functions[new_at]);
    }
    changes.sort_by_key(|change| change.severity);
    changes
}

/// Two entries to compare field by field, as indices into [`Comparison::old`] and [`Comparison::new`].
type Pair = (usize, usize);

/// Two functions taken for one and the same, and which entry of the one is which of the other.
struct Comparison<'a> {
    /// The name in the new contract.
    function: &'a str,
    old: Vec<Entry<'a>>,
    new: Vec<Entry<'a>>,
    matching: links::Matching,
}

fn diff_function(changes: &mut Vec<Change>, old: &Function, new: &Function) {
    functions::export_mode(changes, old, new);
    let (old_entries, new_entries) = (Entry::all(old), Entry::all(new));
    let matching = matching::match_entries(&old_entries, &new_entries);
    let comparison = Comparison {
        function: &new.name,
        old: old_entries,
        new: new_entries,
        matching,
    };
    // Where names changed places and the buffers did not, what stands at a position is compared with
    // what stood there: order says which pairs those are.
    let pairs = order::reorderings(changes, &comparison);
    membership::changes(changes, &comparison);
    fields::changes(changes, &comparison, &pairs);
    sources::changes(changes, &comparison, &pairs);
}

#[cfg(test)]
mod tests;
