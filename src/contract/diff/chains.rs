//! Choosing between a partner by name and a partner by source, where an entry has both.
//!
//! See [`matching`](super::matching) for why such entries form alternating chains and rings.

use super::entry::Entry;
use super::links::Links;
use super::Role;
use std::collections::{HashMap, HashSet};

/// One of two possible partners of an entry.
#[derive(Clone, Copy)]
struct Link {
    old: usize,
    new: usize,
    by_name: bool,
}

/// Old and new index of two entries taken for one.
type Pair = (usize, usize);

/// Keeps what names and sources agree on, and one or the other where they do not.
pub(super) fn settle(
    old: &[Entry<'_>],
    new: &[Entry<'_>],
    names: &Links,
    sources: &Links,
) -> Links {
    let mut matched = Links::new(old.len(), new.len());
    let mut graph = Graph {
        links: Vec::new(),
        at_old: vec![Vec::new(); old.len()],
        at_new: vec![Vec::new(); new.len()],
    };
    for at in 0..old.len() {
        match (names.to_new[at], sources.to_new[at]) {
            (Some(by_name), Some(by_source)) if by_name == by_source => matched.add(at, by_name),
            (by_name, by_source) => {
                graph.add(at, by_name, true);
                graph.add(at, by_source, false);
            }
        }
    }
    let choice = Choice {
        old,
        new,
        old_gaps: gaps(old, &matched.to_new),
        new_gaps: gaps(new, &matched.to_old),
    };
    let (chains, rings) = graph.take_apart();
    let chosen = chains.iter().map(|chain| choice.of_chain(chain));
    for (old, new) in chosen
        .chain(rings.iter().map(|ring| choice.of_ring(ring)))
        .flatten()
    {
        matched.add(old, new);
    }
    matched
}

/// For each entry, how many matched entries of its role stand before it: its place, as far as additions
/// and removals around it do not count.
pub(super) fn gaps(entries: &[Entry<'_>], partner: &[Option<usize>]) -> Vec<usize> {
    let mut before: HashMap<Role, usize> = HashMap::new();
    let mut gaps = Vec::with_capacity(entries.len());
    for (entry, partner) in entries.iter().zip(partner) {
        let count = before.entry(entry.role).or_default();
        gaps.push(*count);
        *count += usize::from(partner.is_some());
    }
    gaps
}

/// The links that compete, and where they meet: at most two at each entry.
struct Graph {
    links: Vec<Link>,
    at_old: Vec<Vec<usize>>,
    at_new: Vec<Vec<usize>>,
}

impl Graph {
    fn add(&mut self, old: usize, partner: Option<usize>, by_name: bool) {
        if let Some(new) = partner {
            self.at_old[old].push(self.links.len());
            self.at_new[new].push(self.links.len());
            self.links.push(Link { old, new, by_name });
        }
    }

    /// The chains, each from one end to the other, and the rings.
    fn take_apart(&self) -> (Vec<Vec<Link>>, Vec<Vec<Link>>) {
        let mut seen = vec![false; self.links.len()];
        let is_end = |l: &Link| self.at_old[l.old].len() == 1 || self.at_new[l.new].len() == 1;
        let (mut chains, mut rings) = (Vec::new(), Vec::new());
        for (first, link) in self.links.iter().enumerate() {
            if !seen[first] && is_end(link) {
                chains.push(self.follow(first, &mut seen));
            }
        }
        // What has no end is a ring.
        for first in 0..self.links.len() {
            if !seen[first] {
                rings.push(self.follow(first, &mut seen));
            }
        }
        (chains, rings)
    }

    fn follow(&self, first: usize, seen: &mut [bool]) -> Vec<Link> {
        let mut links = Vec::new();
        let mut next = Some(first);
        while let Some(at) = next {
            seen[at] = true;
            let link = self.links[at];
            links.push(link);
            let mut around = self.at_old[link.old]
                .iter()
                .chain(&self.at_new[link.new])
                .copied();
            next = around.find(|&at| !seen[at]);
        }
        links
    }
}

struct Choice<'a, 'e> {
    old: &'a [Entry<'e>],
    new: &'a [Entry<'e>],
    old_gaps: Vec<usize>,
    new_gaps: Vec<usize>,
}

impl Choice<'_, '_> {
    /// How far apart the two stand, if they are in one list.
    fn distance(&self, link: &Link) -> usize {
        if self.is_promotion(link) {
            0
        } else {
            self.old_gaps[link.old].abs_diff(self.new_gaps[link.new])
        }
    }

    fn is_promotion(&self, link: &Link) -> bool {
        self.old[link.old].role != self.new[link.new].role
    }

    /// What there is to tell when the two are taken for one: ten for each change. A rename costs a little
    /// more than a changed source, a move a little on top, and a name found in another list says less than
    /// a source found there.
    fn cost(&self, link: &Link) -> u64 {
        let (old, new) = (&self.old[link.old], &self.new[link.new]);
        let promoted = u64::from(self.is_promotion(link));
        let told = match link.by_name {
            true if old.is_resourced(new) => 10 + 5 * promoted,
            true => 5 * promoted,
            false => 11 + 2 * promoted,
        };
        let moved = if self.distance(link) > 0 { 2 } else { 0 };
        told + moved + 10 * old.unlikeness(new) as u64
    }

    /// Within one list a ring is read by name: an exchange of sources instead of renames. Where it runs
    /// through inputs and states, it is read the way that leaves more entries in place.
    fn of_ring(&self, ring: &[Link]) -> Vec<Pair> {
        let total = |by_name: bool| -> (usize, u64) {
            let links = ring.iter().filter(|link| link.by_name == by_name);
            links.fold((0, 0), |(distance, cost), link| {
                (distance + self.distance(link), cost + self.cost(link))
            })
        };
        let one_list = !ring.iter().any(|link| self.is_promotion(link));
        pairs(ring, one_list || total(true) <= total(false))
    }

    fn of_chain(&self, chain: &[Link]) -> Vec<Pair> {
        self.closed_by_place(chain)
            .unwrap_or_else(|| self.best_of_chain(chain))
    }

    /// The links to keep of a chain, no two of them neighbours: as many as possible, then the cheapest.
    fn best_of_chain(&self, chain: &[Link]) -> Vec<Pair> {
        // best[n]: links kept (as a negative number) and their cost, for the first n links.
        let mut best: Vec<(i64, u64)> = vec![(0, 0)];
        for (at, link) in chain.iter().enumerate() {
            let (kept, cost) = best[at.saturating_sub(1)];
            best.push(best[at].min((kept - 1, cost + self.cost(link))));
        }
        let mut kept = Vec::new();
        let mut at = chain.len();
        while at > 0 {
            if best[at] == best[at - 1] {
                at -= 1;
            } else {
                kept.push((chain[at - 1].old, chain[at - 1].new));
                at = at.saturating_sub(2);
            }
        }
        kept
    }

    /// A chain read as a ring whose missing link is one of place: `a`=A, `b`=B became `c`=B, `b`=A, which
    /// is an exchange of sources and one rename (`a` to `c`, in place), and not two renames and a swap.
    ///
    /// `None` where the entries would not be in order that way, or are in order by source.
    fn closed_by_place(&self, chain: &[Link]) -> Option<Vec<Pair>> {
        let (by_source, mut by_name) = (pairs(chain, false), pairs(chain, true));
        if by_name.is_empty() || by_source.len() != by_name.len() + 1 {
            return None;
        }
        let (named_old, named_new): (HashSet<usize>, HashSet<usize>) =
            by_name.iter().copied().unzip();
        let end_old = by_source
            .iter()
            .map(|pair| pair.0)
            .find(|end| !named_old.contains(end))?;
        let end_new = by_source
            .iter()
            .map(|pair| pair.1)
            .find(|end| !named_new.contains(end))?;
        by_name.push((end_old, end_new));
        let in_order = |pairs: &[Pair]| {
            let mut pairs = pairs.to_vec();
            pairs.sort_unstable();
            let one_list = pairs
                .iter()
                .all(|&(a, b)| self.old[a].role == self.new[b].role);
            one_list && pairs.is_sorted_by_key(|&(_, new)| new)
        };
        let unlike = |pairs: &[Pair]| -> usize {
            pairs
                .iter()
                .map(|&(a, b)| self.old[a].unlikeness(&self.new[b]))
                .sum()
        };
        let better = !in_order(&by_source) && unlike(&by_name) <= unlike(&by_source);
        (in_order(&by_name) && better).then_some(by_name)
    }
}

fn pairs(links: &[Link], by_name: bool) -> Vec<Pair> {
    let chosen = links.iter().filter(|link| link.by_name == by_name);
    chosen.map(|link| (link.old, link.new)).collect()
}
