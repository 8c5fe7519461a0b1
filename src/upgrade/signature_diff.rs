//! What differs between the graph signatures of one model under two toolchains.
//!
//! Names are the tracer's and no part of a contract; they explain why a contract moved, and where there
//! is no asset they are all there is to compare.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::record::{Signature, Slot};
use crate::text;

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignatureChange {
    /// What kind.
    pub kind: Kind,
    /// The entry point.
    pub function: String,
    /// What happened.
    pub message: String,
}

/// The kinds of difference, those that a consumer would notice first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// What is written comes in another order: states would change places.
    StateOrder,
    /// The arguments come in another order: inputs would change places.
    InputOrder,
    /// What is returned is another list.
    Returned,
    /// Something is written on one side only.
    Written,
    /// Placeholders are there on one side only.
    Placeholders,
    /// Placeholders that are no ports come in another order.
    PlaceholderOrder,
    /// The tracer calls a placeholder something else.
    PlaceholderNames,
    /// The tracer calls an output something else.
    OutputNames,
    /// Ops of the decomposed program appeared, went, or are called another number of times.
    Ops,
}

impl Kind {
    /// Whether positions that consumers use would be others.
    pub fn moves_ports(self) -> bool {
        matches!(
            self,
            Kind::StateOrder | Kind::InputOrder | Kind::Returned | Kind::Written
        )
    }
}

/// Names listed in one message; the JSON document has the signatures whole.
const MOST_LISTED: usize = 6;

/// Every difference, function by function in the order of `new`.
pub fn compare(old: &[Signature], new: &[Signature]) -> Vec<SignatureChange> {
    let mut changes = Vec::new();
    for new in new {
        if let Some(old) = old.iter().find(|o| o.function == new.function) {
            function(&mut changes, old, new);
        }
    }
    changes
}

fn function(changes: &mut Vec<SignatureChange>, old: &Signature, new: &Signature) {
    let mut tell = |kind, message: Option<String>| {
        if let Some(message) = message {
            changes.push(SignatureChange {
                kind,
                function: new.function.clone(),
                message,
            });
        }
    };
    let written = |s: &Signature| keys(s.placeholders.iter().filter(|p| p.written));
    let inputs = |s: &Signature| keys(s.placeholders.iter().filter(|p| is_input(p)));
    let others = |s: &Signature| keys(s.placeholders.iter().filter(|p| !p.written && !is_input(p)));
    let (old_written, new_written) = (written(old), written(new));
    tell(
        Kind::StateOrder,
        reorder(
            "what is written comes in another order",
            &old_written,
            &new_written,
        ),
    );
    tell(
        Kind::InputOrder,
        reorder(
            "arguments come in another order",
            &inputs(old),
            &inputs(new),
        ),
    );
    let returned = |s: &Signature| -> Vec<String> {
        let outputs = s.outputs.iter().filter(|o| o.kind == "user_output");
        outputs
            .map(|o| format!("{} {}", or_unknown(&o.dtype), shape(o)))
            .collect()
    };
    let (a, b) = (returned(old), returned(new));
    tell(
        Kind::Returned,
        (a != b).then(|| {
            format!(
                "forward returned [{}], now [{}]",
                a.join(", "),
                b.join(", ")
            )
        }),
    );
    tell(
        Kind::Written,
        membership("written", &old_written, &new_written),
    );
    let all = |s: &Signature| keys(s.placeholders.iter());
    tell(
        Kind::Placeholders,
        membership("placeholder", &all(old), &all(new)),
    );
    tell(
        Kind::PlaceholderOrder,
        reorder(
            "placeholders come in another order",
            &others(old),
            &others(new),
        ),
    );
    tell(Kind::PlaceholderNames, renamed(old, new));
    tell(Kind::OutputNames, output_names(old, new));
    tell(Kind::Ops, ops(&old.ops, &new.ops));
}

fn is_input(slot: &Slot) -> bool {
    slot.kind == "user_input" && !slot.written
}

/// What a placeholder is, whatever the tracer calls it.
fn key(slot: &Slot) -> String {
    let name = slot.name.as_deref().or(slot.node.as_deref());
    name.unwrap_or("?").to_owned()
}

fn keys<'a>(slots: impl Iterator<Item = &'a Slot>) -> Vec<String> {
    slots.map(key).collect()
}

/// Those on both sides, where their order differs.
fn reorder(what: &str, old: &[String], new: &[String]) -> Option<String> {
    let a: Vec<&String> = old.iter().filter(|k| new.contains(k)).collect();
    let b: Vec<&String> = new.iter().filter(|k| old.contains(k)).collect();
    (a != b).then(|| {
        let moved: Vec<usize> = (0..a.len().min(b.len()))
            .filter(|&i| a[i] != b[i])
            .collect();
        let show = |list: &[&String]| {
            listed(
                moved
                    .iter()
                    .filter_map(|&i| list.get(i))
                    .map(|s| text::name(s).into_owned()),
            )
        };
        format!("{what}: {} became {}", show(&a), show(&b))
    })
}

fn membership(what: &str, old: &[String], new: &[String]) -> Option<String> {
    let only = |a: &[String], b: &[String]| {
        let only: Vec<String> = a.iter().filter(|k| !b.contains(k)).cloned().collect();
        (!only.is_empty()).then(|| listed(only.iter().map(|s| text::name(s).into_owned())))
    };
    let parts: Vec<String> = [("no longer", only(old, new)), ("now", only(new, old))]
        .into_iter()
        .filter_map(|(word, names)| Some(format!("{word} {what}: {}", names?)))
        .collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn renamed(old: &Signature, new: &Signature) -> Option<String> {
    let nodes: BTreeMap<String, &Option<String>> =
        old.placeholders.iter().map(|p| (key(p), &p.node)).collect();
    let pairs = new.placeholders.iter().filter_map(|p| {
        let before = *nodes.get(&key(p))?;
        (before != &p.node).then(|| format!("{} → {}", or_unknown(before), or_unknown(&p.node)))
    });
    let pairs: Vec<String> = pairs.collect();
    (!pairs.is_empty()).then(|| {
        format!(
            "the tracer renames {}: {}",
            text::count(pairs.len(), "placeholder"),
            listed(pairs.into_iter())
        )
    })
}

fn output_names(old: &Signature, new: &Signature) -> Option<String> {
    let pairs: Vec<String> = old
        .outputs
        .iter()
        .zip(&new.outputs)
        .filter(|(a, b)| a.node != b.node)
        .map(|(a, b)| format!("{} → {}", or_unknown(&a.node), or_unknown(&b.node)))
        .collect();
    (!pairs.is_empty()).then(|| {
        format!(
            "the tracer renames {}: {}",
            text::count(pairs.len(), "output"),
            listed(pairs.into_iter())
        )
    })
}

fn ops(old: &BTreeMap<String, u64>, new: &BTreeMap<String, u64>) -> Option<String> {
    let short = |op: &str| op.trim_start_matches("aten.").to_owned();
    let mut parts = Vec::new();
    let gone = old.iter().filter(|(op, _)| !new.contains_key(*op));
    let gone: Vec<String> = gone.map(|(op, n)| format!("{} ×{n}", short(op))).collect();
    let came = new.iter().filter(|(op, _)| !old.contains_key(*op));
    let came: Vec<String> = came.map(|(op, n)| format!("{} ×{n}", short(op))).collect();
    let other = new.iter().filter_map(|(op, n)| {
        let before = old.get(op)?;
        (before != n).then(|| format!("{} {before} → {n}", short(op)))
    });
    let other: Vec<String> = other.collect();
    for (word, list) in [("gone", gone), ("new", came), ("calls", other)] {
        if !list.is_empty() {
            parts.push(format!("{word}: {}", listed(list.into_iter())));
        }
    }
    (!parts.is_empty()).then(|| format!("ops after decomposition: {}", parts.join("; ")))
}

fn listed(items: impl Iterator<Item = String>) -> String {
    let items: Vec<String> = items.collect();
    match items.len() {
        n if n > MOST_LISTED => {
            format!("{}, … ({n} in all)", items[..MOST_LISTED].join(", "))
        }
        _ => items.join(", "),
    }
}

fn or_unknown(text: &Option<String>) -> &str {
    text.as_deref().unwrap_or("?")
}

fn shape(slot: &Slot) -> String {
    match &slot.shape {
        Some(dims) => {
            let dims: Vec<String> = dims
                .iter()
                .map(|d| d.map_or_else(|| "?".to_owned(), |n| n.to_string()))
                .collect();
            format!("({})", dims.join(", "))
        }
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(node: &str, kind: &str, name: &str, written: bool) -> Slot {
        Slot {
            node: Some(node.into()),
            kind: kind.into(),
            name: Some(name.into()),
            dtype: Some("float32".into()),
            shape: Some(vec![Some(4), None]),
            written,
        }
    }

    fn signature() -> Signature {
        Signature {
            function: "main".into(),
            placeholders: vec![
                slot("p_w", "parameter", "w", false),
                slot("b_k", "buffer", "k", true),
                slot("b_v", "buffer", "v", true),
                slot("x", "user_input", "x", false),
                slot("y", "user_input", "y", false),
            ],
            outputs: vec![
                slot("add", "buffer_mutation", "k", false),
                slot("mul", "user_output", "", false),
            ],
            ops: [
                ("aten.add.Tensor".to_owned(), 2),
                ("aten.mul.Tensor".to_owned(), 1),
            ]
            .into(),
        }
    }

    fn told(change: impl FnOnce(&mut Signature)) -> Vec<String> {
        let mut new = signature();
        change(&mut new);
        compare(&[signature()], &[new])
            .into_iter()
            .map(|c| {
                format!(
                    "{}: {}",
                    serde_json::to_value(c.kind).unwrap().as_str().unwrap(),
                    c.message
                )
            })
            .collect()
    }

    #[test]
    fn equal_signatures_differ_in_nothing() {
        assert_eq!(told(|_| ()), [""; 0]);
    }

    #[test]
    fn an_order_is_told_by_what_changed_places() {
        assert_eq!(
            told(|s| s.placeholders.swap(1, 2)),
            ["state-order: what is written comes in another order: k, v became v, k"]
        );
        assert_eq!(
            told(|s| s.placeholders.swap(3, 4)),
            ["input-order: arguments come in another order: x, y became y, x"]
        );
    }

    #[test]
    fn what_is_written_or_there_on_one_side_only_is_named() {
        assert_eq!(
            told(|s| s.placeholders[2].written = false),
            ["written: no longer written: v"]
        );
        assert_eq!(
            told(|s| s.placeholders[0].name = Some("u".into())),
            ["placeholders: no longer placeholder: w; now placeholder: u"]
        );
    }

    #[test]
    fn names_of_the_tracer_and_ops_are_evidence() {
        assert_eq!(
            told(|s| s.placeholders[1].node = Some("b_k_1".into())),
            ["placeholder-names: the tracer renames 1 placeholder: b_k → b_k_1"]
        );
        assert_eq!(
            told(|s| s.outputs[1].node = Some("mul_1".into())),
            ["output-names: the tracer renames 1 output: mul → mul_1"]
        );
        assert_eq!(
            told(|s| {
                s.ops.remove("aten.mul.Tensor");
                s.ops.insert("aten.add.Tensor".into(), 3);
                s.ops.insert("aten.sub.Tensor".into(), 1);
            }),
            ["ops: ops after decomposition: gone: mul.Tensor ×1; new: sub.Tensor ×1; calls: add.Tensor 2 → 3"]
        );
    }

    #[test]
    fn another_result_is_told_with_both() {
        assert_eq!(
            told(|s| s.outputs[1].shape = Some(vec![Some(4)])),
            ["returned: forward returned [float32 (4, ?)], now [float32 (4)]"]
        );
    }
}
