//! Which entry of the old function is which entry of the new one.
//!
//! A name and a source each claim to say who an entry is, and the two may disagree: when the names
//! of two states stay and the buffers behind them change places, names say "nothing moved" and
//! sources say "both were renamed". Names and sources are each (nearly) unique, so an entry has at
//! most one partner by name and one by source, and the entries that disagree form alternating chains
//! and rings of name and source links:
//!
//! - a ring (`k`=K, `v`=V became `k`=V, `v`=K) is matched by name: one exchange of sources instead of
//!   two renames (a ring through inputs and states: the way that moves less);
//! - a chain is matched so that as few entries as possible stay alone (`a`=A, `b`=B became `b`=A,
//!   `c`=B: two renames by source, not a removal, an addition and a changed source), and by name where
//!   that is a tie.
//!
//! Links by source also run between inputs and states: that is how an argument that became a state is
//! found. What is left is matched by dtype, shape, access and neighbourhood.

use super::chains::{gaps, settle};
use super::entry::Entry;
use super::links::{Links, Matching};
use super::Role;
use crate::contract::SourceKind;
use std::collections::HashMap;

/// Matches the entries of two functions. Linear in the number of entries and source names.
pub(super) fn match_entries(old: &[Entry<'_>], new: &[Entry<'_>]) -> Matching {
    let mut names = Links::new(old.len(), new.len());
    // What agrees in name and source first, so that a repeated name or source takes its own partner.
    link(&mut names, old, new, |e| {
        source_keys(e).map(|key| (e.role, e.name, key)).collect()
    });
    let mut sources = names.clone();
    link(&mut names, old, new, |e| vec![(e.role, e.name)]);
    link(&mut names, old, new, |e| if_movable(e, vec![e.name]));
    link(&mut sources, old, new, |e| {
        source_keys(e).map(|key| (e.role, key)).collect()
    });
    link(&mut sources, old, new, |e| {
        if_movable(e, source_keys(e).collect())
    });

    let mut matched = settle(old, new, &names, &sources);
    match_the_rest(&mut matched, old, new);
    matched.into_matching()
}

fn link<'a, K: Eq + std::hash::Hash>(
    links: &mut Links,
    old: &[Entry<'a>],
    new: &[Entry<'a>],
    keys: impl Fn(&Entry<'a>) -> Vec<K>,
) {
    links.link(old.iter().map(&keys), new.iter().map(&keys), |_, _| true);
}

/// Keys under which an entry may be found in another role: an input can become a state and a state an
/// input; an output is always one.
fn if_movable<K>(entry: &Entry<'_>, keys: Vec<K>) -> Vec<K> {
    match entry.role {
        Role::Output => Vec::new(),
        Role::Input | Role::State => keys,
    }
}

fn source_keys<'a>(entry: &Entry<'a>) -> impl Iterator<Item = (SourceKind, &'a str)> {
    entry
        .source
        .into_iter()
        .flat_map(|s| s.names().map(|name| (s.kind, name)))
}

/// Matches what has no partner by name or source, by looks and place.
///
/// Where both sources are known and differ, only what looks alike in the same neighbourhood counts:
/// elsewhere nothing says that the two are one.
fn match_the_rest(matched: &mut Links, old: &[Entry<'_>], new: &[Entry<'_>]) {
    let (old_places, new_places) = (places(old, &matched.to_new), places(new, &matched.to_old));
    let may_be_one = |a: usize, b: usize| old[a].source.is_none() || new[b].source.is_none();

    // One for one in the same place, with at most one difference.
    let mut neighbourhoods: HashMap<Place, (Vec<usize>, Vec<usize>)> = HashMap::new();
    for (at, place) in old_places
        .iter()
        .enumerate()
        .filter(|(at, _)| matched.to_new[*at].is_none())
    {
        neighbourhoods.entry(*place).or_default().0.push(at);
    }
    for (at, place) in new_places
        .iter()
        .enumerate()
        .filter(|(at, _)| matched.to_old[*at].is_none())
    {
        neighbourhoods.entry(*place).or_default().1.push(at);
    }
    for (before, after) in neighbourhoods
        .into_values()
        .filter(|(a, b)| a.len() == b.len())
    {
        let pairs: Vec<(usize, usize)> = before.into_iter().zip(after).collect();
        let differences = |&(a, b): &(usize, usize)| old[a].unlikeness(&new[b]);
        let possible = pairs
            .iter()
            .all(|pair| differences(pair) == 0 || may_be_one(pair.0, pair.1));
        if possible && pairs.iter().map(differences).sum::<usize>() <= 1 {
            pairs.into_iter().for_each(|(a, b)| matched.add(a, b));
        }
    }
    // What looks alike in the same place.
    matched.link(
        old.iter()
            .zip(&old_places)
            .map(|(e, place)| vec![(e.look(), place)]),
        new.iter()
            .zip(&new_places)
            .map(|(e, place)| vec![(e.look(), place)]),
        |_, _| true,
    );
    // What looks alike in another place.
    matched.link(
        old.iter().map(|e| vec![(e.look(), e.role)]),
        new.iter().map(|e| vec![(e.look(), e.role)]),
        may_be_one,
    );
    // What agrees in dtype or shape in the same place.
    matched.link(
        old_places.iter().map(|place| vec![place]),
        new_places.iter().map(|place| vec![place]),
        |a, b| may_be_one(a, b) && (old[a].dtype == new[b].dtype || old[a].shape == new[b].shape),
    );
}

/// A list and a place in it between matched entries.
type Place = (Role, usize);

fn places(entries: &[Entry<'_>], partner: &[Option<usize>]) -> Vec<Place> {
    entries
        .iter()
        .zip(gaps(entries, partner))
        .map(|(e, gap)| (e.role, gap))
        .collect()
}
