//! What stands behind the names: exchanged, changed, or not recorded.

use super::change::{Change, ChangeId, Impact};
use super::entry::{places, sentence, shown_source, Entry};
use super::Role;
use super::{Comparison, Pair};
use crate::contract::{Source, SourceKind};
use crate::text;
use std::collections::HashMap;

/// Two entries taken for one.
#[derive(Clone, Copy)]
struct Compared<'a> {
    old: &'a Entry<'a>,
    new: &'a Entry<'a>,
}

/// Tells every difference between the sources of the paired entries.
pub(super) fn changes(changes: &mut Vec<Change>, comparison: &Comparison<'_>, pairs: &[Pair]) {
    let pairs: Vec<Compared<'_>> = pairs
        .iter()
        .map(|&(old, new)| Compared {
            old: &comparison.old[old],
            new: &comparison.new[new],
        })
        .collect();
    exchanged_or_changed(changes, comparison, &pairs);
    for pair in &pairs {
        same_tensor(changes, comparison, pair);
    }
    one_sided(changes, comparison, &pairs);
}

/// Sources that are another tensor: rings of exchanges first, then the rest one by one.
fn exchanged_or_changed(
    changes: &mut Vec<Change>,
    comparison: &Comparison<'_>,
    pairs: &[Compared<'_>],
) {
    let changed: Vec<Compared<'_>> = pairs
        .iter()
        .filter(|pair| pair.old.is_resourced(pair.new))
        .copied()
        .collect();
    let had = owners(changed.iter().map(|pair| pair.old));
    // For each changed entry, the changed entry that had its source before.
    let gave: Vec<Option<usize>> = changed
        .iter()
        .map(|pair| source_names(pair.new).find_map(|key| had.get(&key).copied()))
        .collect();
    let has_now = owners(comparison.new.iter());
    let mut in_ring = vec![false; changed.len()];
    for ring in rings(&gave) {
        for &at in &ring {
            in_ring[at] = true;
        }
        let mut members: Vec<Compared<'_>> = ring.iter().map(|&at| changed[at]).collect();
        members.sort_by_key(|pair| (pair.new.role, pair.new.position));
        changes.push(exchanged(comparison, &members));
    }
    for (pair, _) in changed
        .iter()
        .zip(&in_ring)
        .filter(|(_, in_ring)| !**in_ring)
    {
        let heir = source_names(pair.old).find_map(|key| has_now.get(&key));
        changes.push(changed_alone(
            comparison,
            pair,
            heir.map(|&at| &comparison.new[at]),
        ));
    }
}

type SourceName<'a> = (SourceKind, &'a str);

fn source_names<'a>(entry: &Entry<'a>) -> impl Iterator<Item = SourceName<'a>> {
    entry
        .source
        .into_iter()
        .flat_map(|s| s.names().map(|name| (s.kind, name)))
}

/// Under each source name, the first entry that has it.
fn owners<'a>(entries: impl Iterator<Item = &'a Entry<'a>>) -> HashMap<SourceName<'a>, usize> {
    let mut owners = HashMap::new();
    for (at, entry) in entries.enumerate() {
        for key in source_names(entry) {
            owners.entry(key).or_insert(at);
        }
    }
    owners
}

/// The closed rings of a "took over from" relation, in which each may have taken over from one.
fn rings(gave: &[Option<usize>]) -> Vec<Vec<usize>> {
    // 0: not seen; n: seen on the n-th walk.
    let mut walk_of = vec![0usize; gave.len()];
    let mut rings = Vec::new();
    for start in 0..gave.len() {
        let walk = start + 1;
        let mut at = Some(start);
        while let Some(here) = at.filter(|&here| walk_of[here] == 0) {
            walk_of[here] = walk;
            at = gave[here];
        }
        if let Some(closing) = at.filter(|&here| walk_of[here] == walk) {
            let mut ring = vec![closing];
            let mut next = gave[closing];
            while let Some(here) = next.filter(|&here| here != closing) {
                ring.push(here);
                next = gave[here];
            }
            rings.push(ring);
        }
    }
    rings
}

fn exchanged(comparison: &Comparison<'_>, members: &[Compared<'_>]) -> Change {
    let role = members[0].new.role;
    let one_role = members
        .iter()
        .all(|pair| pair.new.role == role && pair.old.role == role);
    let positions =
        |place: fn(&Compared<'_>) -> usize| members.iter().map(place).collect::<Vec<_>>();
    let new_positions = positions(|pair| pair.new.position);
    let which = if one_role {
        places(role, &new_positions)
    } else {
        let labels: Vec<String> = members
            .iter()
            .map(|pair| places(pair.new.role, &[pair.new.position]))
            .collect();
        text::list(&labels)
    };
    let owners: Vec<String> = members
        .iter()
        .map(|pair| format!("{} is now {}", pair.new.shown(), shown(pair.new.source)))
        .collect();
    let sources = |side: fn(&Compared<'_>) -> Option<String>| {
        members
            .iter()
            .filter_map(side)
            .collect::<Vec<_>>()
            .join(", ")
    };
    let silent = members
        .iter()
        .all(|pair| pair.old.is_interchangeable(pair.new));
    let seen = seen(members[0].new, silent);
    Change {
        id: ChangeId::SourceChanged,
        severity: Impact::Breaking,
        function: comparison.function.to_owned(),
        role: one_role.then_some(role),
        old_role: None,
        subject: None,
        old_positions: positions(|pair| pair.old.position),
        new_positions,
        old: Some(sources(|pair| pair.old.source.map(shown_source))),
        new: Some(sources(|pair| pair.new.source.map(shown_source))),
        message: format!("sources of {which} exchanged: {}", sentence(&owners)),
        by_position: seen.clone(),
        by_name: seen,
    }
}

fn shown(source: Option<&Source>) -> String {
    source.map_or_else(|| "unknown".to_owned(), shown_source)
}

/// What a consumer sees of a changed source: nothing that raises, if dtype and shape are as before.
fn seen(entry: &Entry<'_>, silent: bool) -> String {
    let what = match entry.role {
        Role::State => "keeps the contents of another tensor of the model in this place",
        Role::Input => "passes its value to another argument",
        Role::Output => "reads another value",
    };
    if silent {
        format!("{what}, without an error: names, order, dtypes and shapes are as before")
    } else {
        what.to_owned()
    }
}

fn changed_alone(
    comparison: &Comparison<'_>,
    pair: &Compared<'_>,
    heir: Option<&Entry<'_>>,
) -> Change {
    let dtype_too = pair.old.source.map(|s| &s.dtype) != pair.new.source.map(|s| &s.dtype);
    let in_full = |source: Option<&Source>| match source {
        Some(s) if dtype_too => format!("{} ({} in torch)", shown_source(s), text::line(&s.dtype)),
        other => shown(other),
    };
    let (before, after) = (in_full(pair.old.source), in_full(pair.new.source));
    let mut message = format!(
        "source of {} changed: was {before}, is {after}",
        pair.new.label()
    );
    match heir {
        Some(heir) => {
            let which = shown(pair.old.source);
            message.push_str(&format!("; {which} is now behind {}", heir.label()));
        }
        None => message.push_str("; nothing else has the old one"),
    }
    let silent = pair.old.is_interchangeable(pair.new) && pair.old.name == pair.new.name;
    let seen = seen(pair.new, silent);
    change(
        comparison,
        ChangeId::SourceChanged,
        Impact::Breaking,
        pair,
        (before, after),
        message,
        seen,
    )
}

/// Differences between two sources that are the same tensor.
fn same_tensor(changes: &mut Vec<Change>, comparison: &Comparison<'_>, pair: &Compared<'_>) {
    let (Some(before), Some(after)) = (pair.old.source, pair.new.source) else {
        return;
    };
    if !before.same_tensor(after) {
        return;
    }
    // A dtype that changed in the asset as it did in torch is told once, as the asset's.
    let told = pair.old.dtype != pair.new.dtype
        && before.dtype == pair.old.dtype
        && after.dtype == pair.new.dtype;
    if before.dtype != after.dtype && !told {
        let narrowed = if after.dtype != pair.new.dtype {
            format!("; in the asset it is {}", text::line(pair.new.dtype))
        } else {
            String::new()
        };
        let message = format!(
            "{}: {} is {} in torch, it was {}{narrowed}",
            pair.new.label(),
            shown_source(after),
            text::line(&after.dtype),
            text::line(&before.dtype)
        );
        let values = (before.dtype.clone(), after.dtype.clone());
        let seen =
            "notices nothing in the interface; values may be rounded or wrap where they were not";
        changes.push(change(
            comparison,
            ChangeId::SourceDtypeChanged,
            Impact::Note,
            pair,
            values,
            message,
            seen.to_owned(),
        ));
    }
    if before.name != after.name || before.aliases != after.aliases {
        let all = |source: &Source| {
            source
                .names()
                .map(|name| text::name(name).into_owned())
                .collect::<Vec<_>>()
                .join(", ")
        };
        let message = format!(
            "{}: the same {} under other names: {} → {}",
            pair.new.label(),
            after.kind.as_str(),
            all(before),
            all(after)
        );
        changes.push(change(
            comparison,
            ChangeId::SourceAliasChanged,
            Impact::Note,
            pair,
            (all(before), all(after)),
            message,
            "notices nothing".to_owned(),
        ));
    }
}

fn change(
    comparison: &Comparison<'_>,
    id: ChangeId,
    severity: Impact,
    pair: &Compared<'_>,
    values: (String, String),
    message: String,
    seen: String,
) -> Change {
    Change {
        id,
        severity,
        function: comparison.function.to_owned(),
        role: Some(pair.new.role),
        old_role: pair.old.left_for(pair.new),
        subject: Some(pair.new.name.to_owned()),
        old_positions: vec![pair.old.position],
        new_positions: vec![pair.new.position],
        old: Some(values.0),
        new: Some(values.1),
        message,
        by_position: seen.clone(),
        by_name: seen,
    }
}

/// Sources that only one contract has: one note per list and side, since an asset read from disk has
/// none at all. An entry that moved to another list has a note of its own.
fn one_sided(changes: &mut Vec<Change>, comparison: &Comparison<'_>, pairs: &[Compared<'_>]) {
    for in_new in [false, true] {
        let one_sided = pairs
            .iter()
            .filter(|pair| match (pair.old.source, pair.new.source) {
                (None, Some(_)) => in_new,
                (Some(_), None) => !in_new,
                _ => false,
            });
        let (stayed, promoted): (Vec<Compared<'_>>, Vec<Compared<'_>>) = one_sided
            .copied()
            .partition(|pair| pair.old.role == pair.new.role);
        for role in Role::ALL {
            let members: Vec<Compared<'_>> = stayed
                .iter()
                .filter(|pair| pair.new.role == role)
                .copied()
                .collect();
            changes.extend(known_on_one_side(comparison, &members, in_new));
        }
        for pair in promoted {
            changes.extend(known_on_one_side(comparison, &[pair], in_new));
        }
    }
}

fn known_on_one_side(
    comparison: &Comparison<'_>,
    members: &[Compared<'_>],
    in_new: bool,
) -> Option<Change> {
    let first = members.first()?;
    let side = if in_new { "new" } else { "old" };
    let role = first.new.role;
    let alone = members.len() == 1;
    let known = shown(if in_new {
        first.new.source
    } else {
        first.old.source
    });
    let message = if alone {
        format!(
            "the source of {} is recorded only in the {side} contract: {known}",
            first.new.label()
        )
    } else {
        format!(
            "the sources of {} are recorded only in the {side} contract: whether they are still the same \
             buffers and arguments cannot be told",
            text::count(members.len(), role.as_str())
        )
    };
    Some(Change {
        id: ChangeId::SourceOnOneSide,
        severity: Impact::Note,
        function: comparison.function.to_owned(),
        role: Some(role),
        old_role: first.old.left_for(first.new),
        subject: alone.then(|| first.new.name.to_owned()),
        old_positions: members.iter().map(|pair| pair.old.position).collect(),
        new_positions: members.iter().map(|pair| pair.new.position).collect(),
        old: (alone && !in_new).then(|| known.clone()),
        new: (alone && in_new).then_some(known),
        message,
        by_position: "notices nothing".to_owned(),
        by_name: "notices nothing".to_owned(),
    })
}
