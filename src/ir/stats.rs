//! Counts over a program.

use std::collections::BTreeMap;

use super::graph::{Body, Module, Op};

impl Module {
    /// How often each op occurs, stored definitions included, under the names of the vendor's
    /// summary: without dialect, family and version. Graphs, their outputs and yields do not count.
    pub fn op_counts(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for body in self.bodies() {
            count(body, true, &mut counts);
        }
        counts
    }

    /// The same without stored definitions: the ops of graphs and their control flow.
    pub fn graph_op_counts(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for body in self.bodies() {
            count(body, false, &mut counts);
        }
        counts
    }

    /// The bodies of all graphs, and the ops outside graphs.
    pub fn bodies(&self) -> impl Iterator<Item = &Body> {
        self.graphs.iter().map(|g| &g.body).chain([&self.other])
    }
}

fn count(body: &Body, definitions: bool, counts: &mut BTreeMap<String, usize>) {
    for (_, op) in body.walk() {
        if let Some(name) = summary_name(op) {
            *counts.entry(name.to_string()).or_default() += 1;
        }
        if let (true, Some(definition)) = (definitions, &op.definition) {
            count(definition, definitions, counts);
        }
    }
}

/// The name the vendor's summary counts an op under; `None` where it does not count it.
pub fn summary_name(op: &Op) -> Option<&str> {
    let stored = op.stored_name.as_deref().unwrap_or(&op.name);
    let name = match stored.rsplit_once("_v") {
        Some((name, v)) if !v.is_empty() && v.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => stored,
    };
    let short = name.rsplit_once('.').map_or(name, |(_, short)| short);
    (!matches!(short, "graph" | "output" | "yield" | "namespace" | "asset")).then_some(short)
}
