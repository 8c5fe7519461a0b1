//! Entries added, removed, renamed, or promoted between inputs and states.

use super::change::{Change, ChangeId, Impact};
use super::entry::{shown_source, Entry};
use super::Comparison;
use super::Role;
use std::collections::HashSet;

/// Tells renames and promotions of matched entries, and what has no partner.
pub(super) fn changes(changes: &mut Vec<Change>, comparison: &Comparison<'_>) {
    let new_names: HashSet<(Role, &str)> = comparison
        .new
        .iter()
        .map(|entry| (entry.role, entry.name))
        .collect();
    for &(old, new) in &comparison.matching.pairs {
        let (old, new) = (&comparison.old[old], &comparison.new[new]);
        if old.role != new.role {
            changes.push(promoted(comparison, old, new));
        } else if old.name != new.name {
            let reused = new_names.contains(&(old.role, old.name));
            changes.push(renamed(comparison, old, new, reused));
        }
    }
    for &at in &comparison.matching.removed {
        changes.push(removed(comparison, &comparison.old[at]));
    }
    let trailing = trailing_outputs(comparison);
    for &at in &comparison.matching.added {
        changes.push(added(
            comparison,
            &comparison.new[at],
            trailing.contains(&at),
        ));
    }
}

fn promoted(comparison: &Comparison<'_>, old: &Entry<'_>, new: &Entry<'_>) -> Change {
    let same = old.source.filter(|_| old.has_source_of(new));
    let who = same.map_or_else(|| format!("{} {}", old.role, old.shown()), shown_source);
    let article = if new.role == Role::Input { "an" } else { "a" };
    let called = if old.name == new.name && same.is_none_or(|s| s.name == new.name) {
        String::new()
    } else {
        format!(" {}", new.shown())
    };
    let place = new.position;
    let (was, is) = (old.role, new.role);
    let id = if is == Role::State {
        ChangeId::InputBecameState
    } else {
        ChangeId::StateBecameInput
    };
    let meaning = if is == Role::State {
        "the caller has to own it, and the function may change it in place"
    } else {
        "what the function writes to it is lost"
    };
    Change {
        old_role: Some(was),
        old_positions: vec![old.position],
        new_positions: vec![place],
        old: Some(format!("{was} {}", old.shown())),
        new: Some(format!("{is} {}", new.shown())),
        message: format!(
            "{who} is now {article} {is}{called} (position {place}) and no longer {} {was}",
            if was == Role::Input { "an" } else { "a" }
        ),
        by_position: format!("is refused: one {was} too many, one {is} missing; {meaning}"),
        by_name: format!(
            "is refused: {} has to be passed as {article} {is}; {meaning}",
            new.shown()
        ),
        ..about(comparison, id, new)
    }
}

fn renamed(comparison: &Comparison<'_>, old: &Entry<'_>, new: &Entry<'_>, reused: bool) -> Change {
    let role = new.role;
    let (before, after) = (old.shown(), new.shown());
    let because = match new.source.filter(|_| old.has_source_of(new)) {
        Some(source) => format!("it is still {}", shown_source(source)),
        None => "taken for one by dtype, shape and place".to_owned(),
    };
    let by_name = match (role, reused) {
        (_, true) => {
            format!("finds another {role} under the name {before}, without an error where it fits")
        }
        (Role::Output, false) => format!("finds no output {before}"),
        (_, false) => format!("is refused: there is no {role} {before}, and {after} is missing"),
    };
    Change {
        old_positions: vec![old.position],
        new_positions: vec![new.position],
        old: Some(before.clone()),
        new: Some(after.clone()),
        message: format!(
            "{role} {} renamed: {before} → {after}; {because}",
            old.position
        ),
        by_position: "notices nothing".to_owned(),
        by_name,
        ..about(comparison, ChangeId::renamed(role), new)
    }
}

fn removed(comparison: &Comparison<'_>, old: &Entry<'_>) -> Change {
    let role = old.role;
    let name = old.shown();
    let (by_position, by_name) = match role {
        Role::Output => (
            format!(
                "reads another output, or none, from position {} on",
                old.position
            ),
            format!("finds no output {name}"),
        ),
        _ => (
            format!("is refused: one {role} too many"),
            format!("is refused: there is no {role} {name}"),
        ),
    };
    Change {
        old_positions: vec![old.position],
        old: Some(old.description()),
        message: format!("{} removed; it was {}", old.label(), old.description()),
        by_position,
        by_name,
        ..about(comparison, ChangeId::removed(role), old)
    }
}

fn added(comparison: &Comparison<'_>, new: &Entry<'_>, at_end: bool) -> Change {
    let role = new.role;
    let (by_position, by_name) = match role {
        Role::Output if at_end => ("notices nothing".to_owned(), "notices nothing".to_owned()),
        Role::Output => (
            format!("reads another output from position {} on", new.position),
            "notices nothing".to_owned(),
        ),
        _ => (
            format!("is refused: one {role} is missing"),
            format!("is refused: {role} {} is missing", new.shown()),
        ),
    };
    let place = if at_end { " at the end" } else { "" };
    Change {
        severity: if at_end {
            Impact::Compatible
        } else {
            Impact::Breaking
        },
        new_positions: vec![new.position],
        new: Some(new.description()),
        message: format!("{} added{place}: {}", new.label(), new.description()),
        by_position,
        by_name,
        ..about(comparison, ChangeId::added(role), new)
    }
}

/// The indices of new outputs at and after whose place no old output stands, or stood.
fn trailing_outputs(comparison: &Comparison<'_>) -> std::ops::Range<usize> {
    let is_output = |entry: &&Entry<'_>| entry.role == Role::Output;
    let old_count = comparison.old.iter().filter(is_output).count();
    let first_output = comparison.new.len() - comparison.new.iter().filter(is_output).count();
    // Entries come by role and position, outputs last.
    let mut start = comparison.new.len();
    for &at in comparison.matching.added.iter().rev() {
        if at + 1 != start || at < first_output + old_count {
            break;
        }
        start = at;
    }
    start..comparison.new.len()
}

fn about(comparison: &Comparison<'_>, id: ChangeId, entry: &Entry<'_>) -> Change {
    Change {
        id,
        severity: Impact::Breaking,
        function: comparison.function.to_owned(),
        role: Some(entry.role),
        old_role: None,
        subject: Some(entry.name.to_owned()),
        old_positions: vec![],
        new_positions: vec![],
        old: None,
        new: None,
        message: String::new(),
        by_position: String::new(),
        by_name: String::new(),
    }
}
