//! Do the names fit what they are pinned on?
//!
//! Names are given by position, so a list in the wrong order pins every name on its neighbour's buffer
//! and nothing else shows it. A name is compared with the qualified name of its source, word by word;
//! when exchanging names would fit clearly better for everyone involved, the order is wrong.

use pathfinding::kuhn_munkres::kuhn_munkres;
use pathfinding::matrix::Matrix;

/// A name must fit its proper source at least this well (1 is the same words) …
const FIT: f64 = 0.3;
/// … and better than the one it is pinned on by this much.
const MARGIN: f64 = 0.2;
/// Scores are compared as integers.
const SCALE: f64 = 1000.0;

/// How well two names fit: 1.0 for the same words in any order, 0.0 for nothing in common.
///
/// Words are split at punctuation, at `aB` and between letters and digits. A word that begins the
/// other (`k` and `key`) counts half.
pub fn fit(a: &str, b: &str) -> f64 {
    let (a, b) = (words(a), words(b));
    if a.is_empty() || b.is_empty() {
        return 0.0;
    }
    let mut free: Vec<Option<&String>> = b.iter().map(Some).collect();
    let mut score = 0.0;
    let mut rest = Vec::new();
    for word in &a {
        match free.iter_mut().find(|f| f.as_deref() == Some(word)) {
            Some(slot) => {
                *slot = None;
                score += 1.0;
            }
            None => rest.push(word),
        }
    }
    for word in rest {
        let begins = |other: &String| {
            let digits = |w: &str| w.starts_with(|c: char| c.is_ascii_digit());
            !digits(word)
                && !digits(other)
                && (word.starts_with(other.as_str()) || other.starts_with(word.as_str()))
        };
        if let Some(slot) = free.iter_mut().find(|f| f.is_some_and(begins)) {
            *slot = None;
            score += 0.5;
        }
    }
    2.0 * score / (a.len() + b.len()) as f64
}

/// Names that are pinned on each other's sources: `(position, position of the source it fits)`.
///
/// `names[i]` is pinned on `sources[i]`. Empty when the order is right, or when the names say nothing
/// about it: a name is accused only together with everyone whose place it would take.
pub fn misplaced(names: &[&str], sources: &[&str]) -> Vec<(usize, usize)> {
    let n = names.len();
    if n < 2 || n != sources.len() {
        return Vec::new();
    }
    let scores: Vec<Vec<f64>> = names
        .iter()
        .map(|name| sources.iter().map(|s| fit(name, s)).collect())
        .collect();
    // Ties go to the order as it is.
    let weight = |i: usize, j: usize| {
        let stays = i64::from(i == j);
        (scores[i][j] * SCALE).round() as i64 * (n as i64 + 1) + stays
    };
    let Ok(weights) =
        Matrix::from_rows((0..n).map(|i| (0..n).map(move |j| (i, j)).collect::<Vec<_>>()))
    else {
        return Vec::new();
    };
    let weights = weights.map(|(i, j)| weight(i, j));
    let (_, best) = kuhn_munkres(&weights);
    cycles(&best)
        .into_iter()
        .filter(|cycle| {
            cycle
                .iter()
                .all(|&i| scores[i][best[i]] >= FIT && scores[i][best[i]] - scores[i][i] >= MARGIN)
        })
        .flatten()
        .map(|i| (i, best[i]))
        .collect::<std::collections::BTreeMap<_, _>>()
        .into_iter()
        .collect()
}

/// The cycles of a permutation, fixed points left out.
fn cycles(permutation: &[usize]) -> Vec<Vec<usize>> {
    let mut seen = vec![false; permutation.len()];
    let mut found = Vec::new();
    for start in 0..permutation.len() {
        let mut cycle = Vec::new();
        let mut at = start;
        while !seen[at] {
            seen[at] = true;
            cycle.push(at);
            at = permutation[at];
        }
        if cycle.len() > 1 {
            found.push(cycle);
        }
    }
    found
}

fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut previous: Option<char> = None;
    for c in name.chars() {
        if c.is_alphanumeric() {
            let starts = match previous {
                Some(p) if p.is_alphanumeric() => {
                    (p.is_lowercase() && c.is_uppercase())
                        || p.is_ascii_digit() != c.is_ascii_digit()
                }
                _ => true,
            };
            if starts {
                words.push(String::new());
            }
            if let Some(word) = words.last_mut() {
                word.extend(c.to_lowercase());
            }
        }
        previous = Some(c);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_where_a_reader_would() {
        assert_eq!(
            words("layers.0.keyCache_v2"),
            ["layers", "0", "key", "cache", "v", "2"]
        );
        assert_eq!(words("cache['k']"), ["cache", "k"]);
        assert_eq!(words("__"), Vec::<String>::new());
    }

    #[test]
    fn the_same_words_fit_and_others_do_not() {
        assert_eq!(fit("key_cache", "keyCache"), 1.0);
        assert_eq!(fit("k1", "layers.1.k"), 0.8);
        assert_eq!(fit("keyCache", "k_cache"), 0.75);
        assert_eq!(fit("attn", "pos_idx"), 0.0);
        assert_eq!(fit("", "x"), 0.0);
    }

    #[test]
    fn two_exchanged_names_are_both_accused() {
        assert_eq!(
            misplaced(&["key_cache", "value_cache"], &["value_cache", "key_cache"]),
            [(0, 1), (1, 0)]
        );
        assert_eq!(
            misplaced(&["k", "v"], &["cache['v']", "cache['k']"]),
            [(0, 1), (1, 0)]
        );
        assert_eq!(
            misplaced(&["keyCache", "valueCache"], &["v_cache", "k_cache"]),
            [(0, 1), (1, 0)]
        );
    }

    #[test]
    fn keys_first_on_interleaved_buffers_leaves_the_ends_in_peace() {
        let sources = [
            "layers.0.k",
            "layers.0.v",
            "layers.1.k",
            "layers.1.v",
            "layers.2.k",
            "layers.2.v",
        ];
        let found = misplaced(&["k0", "k1", "k2", "v0", "v1", "v2"], &sources);
        assert_eq!(found, [(1, 2), (2, 4), (3, 1), (4, 3)]);
    }

    #[test]
    fn descending_keys_leave_the_middle_in_peace() {
        let sources = [
            "layers.10.k",
            "layers.10.v",
            "layers.2.k",
            "layers.2.v",
            "layers.1.k",
            "layers.1.v",
        ];
        let found = misplaced(&["k1", "v1", "k2", "v2", "k10", "v10"], &sources);
        assert_eq!(found, [(0, 4), (1, 5), (4, 0), (5, 1)]);
    }

    #[test]
    fn a_single_letter_is_enough() {
        assert_eq!(
            misplaced(&["v", "k"], &["key_cache", "value_cache"]),
            [(0, 1), (1, 0)]
        );
        assert_eq!(
            misplaced(&["values", "keys"], &["k_cache", "v_cache"]),
            [(0, 1), (1, 0)]
        );
    }

    #[test]
    fn names_that_say_nothing_accuse_nobody() {
        assert!(misplaced(&["a", "b"], &["kv_cache", "pos_idx"]).is_empty());
        assert!(misplaced(&["state_a", "state_b"], &["x", "y"]).is_empty());
        assert!(misplaced(&["s"], &["t"]).is_empty());
    }

    #[test]
    fn counting_from_one_is_no_mismatch() {
        let sources = ["layers.0.k", "layers.1.k", "layers.2.k"];
        assert!(misplaced(&["k1", "k2", "k3"], &sources).is_empty());
    }

    #[test]
    fn names_in_order_are_right() {
        assert!(misplaced(&["key_cache", "value_cache"], &["key_cache", "value_cache"]).is_empty());
        assert!(misplaced(&["k", "v", "y_state"], &["layer.k", "layer.v", "y"]).is_empty());
    }
}
