//! One-to-one relations between two lists, found by keys.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// A one-to-one relation between the entries of an old and a new list, by index.
#[derive(Clone, Debug)]
pub(super) struct Links {
    /// For each old entry, its new partner.
    pub to_new: Vec<Option<usize>>,
    /// For each new entry, its old partner.
    pub to_old: Vec<Option<usize>>,
}

/// Indices into the two lists.
#[derive(Debug, Default)]
pub(super) struct Matching {
    /// Old and new index of what is one and the same, by old index.
    pub pairs: Vec<(usize, usize)>,
    /// Old entries without a partner.
    pub removed: Vec<usize>,
    /// New entries without a partner.
    pub added: Vec<usize>,
}

impl Links {
    /// No links yet between lists of these lengths.
    pub fn new(old: usize, new: usize) -> Self {
        Links {
            to_new: vec![None; old],
            to_old: vec![None; new],
        }
    }

    pub fn add(&mut self, old: usize, new: usize) {
        self.to_new[old] = Some(new);
        self.to_old[new] = Some(old);
    }

    /// Links every free old entry, in order, to the first free new entry that shares a key with it,
    /// unless `fits` refuses the two. Linear in the number of keys.
    pub fn link<K: Eq + Hash>(
        &mut self,
        old_keys: impl IntoIterator<Item = Vec<K>>,
        new_keys: impl IntoIterator<Item = Vec<K>>,
        fits: impl Fn(usize, usize) -> bool,
    ) {
        let mut waiting: HashMap<K, VecDeque<usize>> = HashMap::new();
        for (new, keys) in new_keys.into_iter().enumerate() {
            if self.to_old[new].is_none() {
                for key in keys {
                    waiting.entry(key).or_default().push_back(new);
                }
            }
        }
        for (old, keys) in old_keys.into_iter().enumerate() {
            if self.to_new[old].is_some() {
                continue;
            }
            for key in keys {
                let Some(queue) = waiting.get_mut(&key) else {
                    continue;
                };
                // An entry waits under each of its keys and may have been taken under another.
                while queue
                    .front()
                    .is_some_and(|&first| self.to_old[first].is_some())
                {
                    queue.pop_front();
                }
                if let Some(&first) = queue.front().filter(|&&first| fits(old, first)) {
                    self.add(old, first);
                    break;
                }
            }
        }
    }

    pub fn into_matching(self) -> Matching {
        let mut matching = Matching::default();
        for (old, new) in self.to_new.into_iter().enumerate() {
            match new {
                Some(new) => matching.pairs.push((old, new)),
                None => matching.removed.push(old),
            }
        }
        let alone = self
            .to_old
            .into_iter()
            .enumerate()
            .filter(|(_, old)| old.is_none());
        matching.added = alone.map(|(new, _)| new).collect();
        matching
    }
}
