//! Changes of entry points as a whole.

use super::change::{Change, ChangeId, Impact};
use super::links::{Links, Matching};
use crate::contract::{Function, Port};
use crate::text;

/// Which function is which: by name, then by equal lists, then by equal names in the lists.
pub(super) fn match_functions(old: &[Function], new: &[Function]) -> Matching {
    let mut links = Links::new(old.len(), new.len());
    let name = |f: &Function| vec![f.name.clone()];
    let lists = |f: &Function| vec![format!("{:?}", (&f.inputs, &f.states, &f.outputs))];
    let ports = |ports: &[Port]| ports.iter().map(|p| p.name.clone()).collect::<Vec<_>>();
    let names = |f: &Function| {
        let states: Vec<String> = f.states.iter().map(|s| s.name.clone()).collect();
        vec![(ports(&f.inputs), states, ports(&f.outputs))]
    };
    links.link(old.iter().map(name), new.iter().map(name), |_, _| true);
    links.link(old.iter().map(lists), new.iter().map(lists), |_, _| true);
    links.link(old.iter().map(names), new.iter().map(names), |_, _| true);
    links.into_matching()
}

/// Functions added, removed, renamed and reordered.
pub(super) fn changes(
    changes: &mut Vec<Change>,
    old: &[Function],
    new: &[Function],
    matching: &Matching,
) {
    for &at in &matching.removed {
        let function = &old[at];
        let name = text::name(&function.name);
        changes.push(Change {
            old_positions: vec![at],
            old: Some(function.name.clone()),
            ..told(
                ChangeId::FunctionRemoved,
                Impact::Breaking,
                &function.name,
                format!("function {name} removed"),
                format!("finds no function {name}"),
            )
        });
    }
    for &(old_at, new_at) in &matching.pairs {
        let (before, after) = (&old[old_at].name, &new[new_at].name);
        if before != after {
            let (shown_before, shown_after) = (text::name(before), text::name(after));
            changes.push(Change {
                old_positions: vec![old_at],
                new_positions: vec![new_at],
                old: Some(before.clone()),
                new: Some(after.clone()),
                ..told(
                    ChangeId::FunctionRenamed,
                    Impact::Breaking,
                    after,
                    format!("function renamed: {shown_before} → {shown_after}"),
                    format!("finds no function {shown_before}"),
                )
            });
        }
    }
    for &at in &matching.added {
        let function = &new[at];
        changes.push(Change {
            new_positions: vec![at],
            new: Some(function.name.clone()),
            ..told(
                ChangeId::FunctionAdded,
                Impact::Compatible,
                &function.name,
                format!("function {} added", text::name(&function.name)),
                "notices nothing".to_owned(),
            )
        });
    }
    reordered(changes, old, new, &matching.pairs);
}

fn reordered(
    changes: &mut Vec<Change>,
    old: &[Function],
    new: &[Function],
    pairs: &[(usize, usize)],
) {
    if pairs.is_sorted_by_key(|&(_, new_at)| new_at) {
        return;
    }
    let mut by_new: Vec<(usize, usize)> = pairs.to_vec();
    by_new.sort_by_key(|&(_, new_at)| new_at);
    let names = |indices: &mut dyn Iterator<Item = &String>| {
        indices
            .map(|name| text::name(name))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let before = names(&mut pairs.iter().map(|&(old_at, _)| &old[old_at].name));
    let after = names(&mut by_new.iter().map(|&(_, new_at)| &new[new_at].name));
    let first = by_new
        .first()
        .map_or("", |&(_, new_at)| new[new_at].name.as_str());
    changes.push(Change {
        subject: None,
        old_positions: pairs.iter().map(|&(old_at, _)| old_at).collect(),
        new_positions: pairs.iter().map(|&(_, new_at)| new_at).collect(),
        message: format!("functions reordered: {before} → {after}"),
        old: Some(before),
        new: Some(after),
        ..told(
            ChangeId::FunctionsReordered,
            Impact::Note,
            first,
            String::new(),
            "notices nothing: functions are loaded by name".to_owned(),
        )
    });
}

/// A change of the function as a whole; consumers see the same either way, functions having no
/// position.
fn told(id: ChangeId, severity: Impact, function: &str, message: String, seen: String) -> Change {
    Change {
        id,
        severity,
        function: function.to_owned(),
        role: None,
        old_role: None,
        subject: Some(function.to_owned()),
        old_positions: vec![],
        new_positions: vec![],
        old: None,
        new: None,
        message,
        by_position: seen.clone(),
        by_name: seen,
    }
}

/// Another export mode, or one that is recorded on one side only.
pub(super) fn export_mode(changes: &mut Vec<Change>, old: &Function, new: &Function) {
    let mode = |f: &Function| {
        f.export
            .map(|e| if e.strict { "strict" } else { "not strict" })
    };
    let (before, after) = (mode(old), mode(new));
    if before == after {
        return;
    }
    let (id, message) = match (before, after) {
        (Some(before), Some(after)) => (
            ChangeId::ExportModeChanged,
            format!(
                "export mode changed: {before} → {after}; without strict, buffers become states in the \
                 order they are registered, with it in the order they are first used"
            ),
        ),
        _ => (
            ChangeId::ExportModeOnOneSide,
            format!(
                "the export mode is recorded only in the {} contract ({})",
                if before.is_some() { "old" } else { "new" },
                before.or(after).unwrap_or_default(),
            ),
        ),
    };
    changes.push(Change {
        subject: None,
        old: before.map(str::to_owned),
        new: after.map(str::to_owned),
        ..told(
            id,
            Impact::Note,
            &new.name,
            message,
            "notices nothing beyond the other changes listed".to_owned(),
        )
    });
}
