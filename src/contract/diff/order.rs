//! Reorders: who changed places with whom, and whether what stands behind the names moved too.

use super::change::{Change, ChangeId, Impact};
use super::entry::{places, sentence, sources_noun, Entry};
use super::Role;
use super::{Comparison, Pair};
use std::collections::HashMap;

/// Up to so many separate reorders of one kind are told one by one, more as one change.
const TOLD_APART: usize = 3;

/// What the sources of reordered entries did.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Behind {
    /// Each name took its source along.
    Moved,
    /// The names moved, the sources stayed where they were.
    Stayed,
    /// Neither; what changed is told as changes of sources.
    Mixed,
    /// Not recorded on (at least) one side.
    Unknown,
    /// Not recorded either, but dtypes and shapes fit the places better than the names.
    LooksStayed,
}

/// Tells the reorders of each list, and returns which entries to compare field by field.
///
/// That is the matching itself, except where names changed places and what they stand for stayed: there
/// the entries that kept their place are compared.
pub(super) fn reorderings(changes: &mut Vec<Change>, comparison: &Comparison<'_>) -> Vec<Pair> {
    let mut pairs: Vec<Pair> = comparison.matching.pairs.clone();
    for role in Role::ALL {
        let order = Order::of(comparison, role);
        let mut by_kind: Vec<(Behind, Vec<Vec<usize>>)> = Vec::new();
        for cycle in order.cycles() {
            let behind = order.behind(&cycle);
            if matches!(behind, Behind::Stayed | Behind::LooksStayed) {
                for &rank in &cycle {
                    let kept = order.new_at_rank[rank];
                    pairs[order.pair_at_rank[rank]] = (order.old_at_rank[rank], kept);
                }
            }
            match by_kind.iter_mut().find(|(kind, _)| *kind == behind) {
                Some((_, cycles)) => cycles.push(cycle),
                None => by_kind.push((behind, vec![cycle])),
            }
        }
        for (behind, cycles) in by_kind {
            if cycles.len() <= TOLD_APART {
                changes.extend(cycles.iter().map(|cycle| order.told(cycle, behind)));
            } else {
                let mut ranks: Vec<usize> = cycles.into_iter().flatten().collect();
                ranks.sort_unstable();
                changes.push(order.told(&ranks, behind));
            }
        }
    }
    pairs
}

/// The matched entries of one role, by rank: the place among the matched, so that what was added or
/// removed in between does not count as a move.
struct Order<'a> {
    comparison: &'a Comparison<'a>,
    role: Role,
    /// Index into `comparison.matching.pairs`, by old rank.
    pair_at_rank: Vec<usize>,
    old_at_rank: Vec<usize>,
    new_at_rank: Vec<usize>,
    /// New rank, by old rank.
    moves: Vec<usize>,
}

impl<'a> Order<'a> {
    fn of(comparison: &'a Comparison<'a>, role: Role) -> Self {
        // Pairs come by old index, which within a role is by old position.
        let in_role = |&(_, &(old, new)): &(usize, &Pair)| {
            comparison.old[old].role == role && comparison.new[new].role == role
        };
        let pairs: Vec<(usize, &Pair)> = comparison
            .matching
            .pairs
            .iter()
            .enumerate()
            .filter(in_role)
            .collect();
        let mut new_at_rank: Vec<usize> = pairs.iter().map(|(_, &(_, new))| new).collect();
        new_at_rank.sort_unstable();
        let rank: HashMap<usize, usize> = new_at_rank
            .iter()
            .enumerate()
            .map(|(rank, &new)| (new, rank))
            .collect();
        Order {
            comparison,
            role,
            moves: pairs.iter().map(|(_, (_, new))| rank[new]).collect(),
            pair_at_rank: pairs.iter().map(|&(at, _)| at).collect(),
            old_at_rank: pairs.iter().map(|(_, &(old, _))| old).collect(),
            new_at_rank,
        }
    }

    /// The cycles of the permutation, each from its lowest rank on; entries in place are left out.
    fn cycles(&self) -> Vec<Vec<usize>> {
        let mut seen = vec![false; self.moves.len()];
        let mut cycles = Vec::new();
        for start in 0..self.moves.len() {
            let mut cycle = Vec::new();
            let mut rank = start;
            while !seen[rank] {
                seen[rank] = true;
                cycle.push(rank);
                rank = self.moves[rank];
            }
            if cycle.len() > 1 {
                cycles.push(cycle);
            }
        }
        cycles
    }

    /// The entry that stood at the rank, in the old contract.
    fn before(&self, rank: usize) -> &Entry<'a> {
        &self.comparison.old[self.old_at_rank[rank]]
    }

    /// The entry that stands at the rank now.
    fn after(&self, rank: usize) -> &Entry<'a> {
        &self.comparison.new[self.new_at_rank[rank]]
    }

    /// What became of the entry that stood at the rank.
    fn partner(&self, rank: usize) -> &Entry<'a> {
        self.after(self.moves[rank])
    }

    fn behind(&self, cycle: &[usize]) -> Behind {
        let unknown =
            |rank: usize| self.before(rank).source.is_none() || self.partner(rank).source.is_none();
        if cycle.iter().any(|&rank| unknown(rank)) {
            let (mut stayed, mut moved) = (0, 0);
            for &rank in cycle {
                stayed += self.before(rank).unlikeness(self.after(rank));
                moved += self.before(rank).unlikeness(self.partner(rank));
            }
            if stayed < moved {
                Behind::LooksStayed
            } else {
                Behind::Unknown
            }
        } else if cycle
            .iter()
            .all(|&rank| self.before(rank).has_source_of(self.partner(rank)))
        {
            Behind::Moved
        } else if cycle
            .iter()
            .all(|&rank| self.before(rank).has_source_of(self.after(rank)))
        {
            Behind::Stayed
        } else {
            Behind::Mixed
        }
    }

    fn told(&self, ranks: &[usize], behind: Behind) -> Change {
        let mut sorted = ranks.to_vec();
        sorted.sort_unstable();
        let noun = sources_noun(sorted.iter().filter_map(|&rank| self.before(rank).source));
        let mut message = self.movement(ranks, &sorted);
        match behind {
            Behind::Moved => {
                message.push_str(&format!("; the {noun} behind them moved with their names"));
            }
            Behind::Stayed => message.push_str(&format!("; the {noun} behind them did not move")),
            Behind::Mixed => message.push_str(&format!("; not all {noun} moved with them")),
            Behind::LooksStayed => message.push_str("; their dtypes and shapes did not move"),
            Behind::Unknown => {}
        }
        let names = |name: &dyn Fn(usize) -> String| {
            sorted
                .iter()
                .map(|&rank| name(rank))
                .collect::<Vec<_>>()
                .join(", ")
        };
        Change {
            id: ChangeId::reordered(self.role),
            severity: Impact::Breaking,
            function: self.comparison.function.to_owned(),
            role: Some(self.role),
            old_role: None,
            subject: None,
            old_positions: sorted
                .iter()
                .map(|&rank| self.before(rank).position)
                .collect(),
            new_positions: sorted
                .iter()
                .map(|&rank| self.partner(rank).position)
                .collect(),
            old: Some(names(&|rank| self.before(rank).shown())),
            new: Some(names(&|rank| self.after(rank).shown())),
            message,
            by_position: self.seen_by_position(&sorted, behind, noun),
            by_name: self.seen_by_name(&sorted, behind, noun),
        }
    }

    /// `states 0 and 1 swapped: a ⇄ b`, `state a moved from position 0 to 3 …`, or each move.
    fn movement(&self, ranks: &[usize], sorted: &[usize]) -> String {
        let role = self.role;
        if let [first, second] = *sorted {
            let was = [self.before(first).position, self.before(second).position];
            let mut message = format!(
                "{} swapped: {} ⇄ {}",
                places(role, &was),
                self.renamed(first),
                self.renamed(second)
            );
            let now = [self.partner(second).position, self.partner(first).position];
            if was != now {
                message.push_str(&format!(" (now {} and {})", now[0], now[1]));
            }
            return message;
        }
        if let Some(rank) = self.only_mover(ranks, sorted) {
            return format!(
                "{role} {} moved from position {} to {}, past {} others",
                self.renamed(rank),
                self.before(rank).position,
                self.partner(rank).position,
                sorted.len() - 1
            );
        }
        let moves: Vec<String> = sorted
            .iter()
            .map(|&rank| {
                let (was, now) = (self.before(rank).position, self.partner(rank).position);
                format!("{} {was} → {now}", self.renamed(rank))
            })
            .collect();
        format!("{role}s reordered: {}", sentence(&moves))
    }

    /// The rank of the one entry that jumped over all others, which only made way.
    fn only_mover(&self, cycle: &[usize], sorted: &[usize]) -> Option<usize> {
        let (&low, &high) = (sorted.first()?, sorted.last()?);
        if high - low + 1 != cycle.len() {
            return None;
        }
        if self.moves[low] == high && sorted[1..].iter().all(|&rank| self.moves[rank] + 1 == rank) {
            return Some(low);
        }
        let rest = &sorted[..sorted.len() - 1];
        (self.moves[high] == low && rest.iter().all(|&rank| self.moves[rank] == rank + 1))
            .then_some(high)
    }

    /// The name, with the new one where that changed too.
    fn renamed(&self, rank: usize) -> String {
        let (before, partner) = (self.before(rank), self.partner(rank));
        if before.name == partner.name {
            before.shown()
        } else {
            format!("{} (now {})", before.shown(), partner.shown())
        }
    }

    fn seen_by_position(&self, ranks: &[usize], behind: Behind, noun: &str) -> String {
        if behind == Behind::Stayed {
            let noun = noun.trim_end_matches('s');
            return format!("notices nothing: each position still is the same {noun}");
        }
        if behind == Behind::LooksStayed {
            return "finds the dtypes and shapes it expects, under other names".to_owned();
        }
        let silent = ranks
            .iter()
            .any(|&rank| self.before(rank).is_interchangeable(self.after(rank)));
        self.confused("at these positions", silent)
    }

    fn seen_by_name(&self, ranks: &[usize], behind: Behind, noun: &str) -> String {
        let noun_one = noun.trim_end_matches('s');
        match behind {
            Behind::Moved => "notices nothing".to_owned(),
            Behind::LooksStayed => self.confused("under these names", false),
            Behind::Mixed => "see the changes of sources".to_owned(),
            Behind::Unknown if self.role == Role::Output => "notices nothing".to_owned(),
            Behind::Unknown => {
                "finds every name; whether it still means the same buffer or argument is not recorded"
                    .to_owned()
            }
            Behind::Stayed => {
                let silent =
                    ranks.iter().any(|&rank| self.before(rank).is_interchangeable(self.partner(rank)));
                if silent {
                    format!("gets another {noun_one} under the same name, without an error")
                } else {
                    self.confused("under these names", false)
                }
            }
        }
    }

    fn confused(&self, place: &str, silent: bool) -> String {
        let role = self.role;
        match (role, silent) {
            (Role::Output, true) => format!("reads another output {place}, without an error"),
            (Role::Output, false) => format!("reads another dtype or shape {place}"),
            (_, true) => format!("passes another {role} {place}, without an error"),
            (_, false) => format!("is refused: dtype or shape differ {place}"),
        }
    }
}
