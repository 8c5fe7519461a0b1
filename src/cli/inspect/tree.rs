//! Who calls whom in a program.

use std::collections::{BTreeMap, HashSet};
use std::fmt::{self, Write};

use crate::ir::{summary_name, Body, Graph, Module, Region, SymbolPath};
use crate::text::{count, name};

/// Calls are unfolded this deep.
const MAX_DEPTH: usize = 32;

/// Functions with the graphs they call, each graph unfolded once.
pub(super) fn render(out: &mut dyn Write, module: &Module) -> fmt::Result {
    let mut shown = HashSet::new();
    for graph in module.graphs.iter().filter(|g| g.is_function()) {
        write!(out, "{}", name(&graph.name.to_string()))?;
        unfold(out, module, graph, 0, &mut shown)?;
    }
    let uncalled = module
        .graphs
        .iter()
        .filter(|g| !g.is_function() && !shown.contains(&g.name));
    for graph in uncalled {
        write!(out, "not called: {}", title(graph))?;
        writeln!(out, "  {}", count(ops(graph), "op"))?;
    }
    Ok(())
}

/// The rest of a graph's line, and what it calls below it.
fn unfold<'m>(
    out: &mut dyn Write,
    module: &'m Module,
    graph: &'m Graph,
    depth: usize,
    shown: &mut HashSet<&'m SymbolPath>,
) -> fmt::Result {
    writeln!(out, "  {}", count(ops(graph), "op"))?;
    if !shown.insert(&graph.name) {
        return Ok(());
    }
    if depth >= MAX_DEPTH {
        return writeln!(out, "{}…", "  ".repeat(depth + 1));
    }
    region(
        out,
        module,
        &graph.body,
        &graph.body.region,
        depth + 1,
        shown,
    )
}

fn region<'m>(
    out: &mut dyn Write,
    module: &'m Module,
    body: &'m Body,
    inside: &'m Region,
    depth: usize,
    shown: &mut HashSet<&'m SymbolPath>,
) -> fmt::Result {
    let indent = "  ".repeat(depth);
    let mut calls: Vec<(&SymbolPath, usize)> = Vec::new();
    for (_, op) in inside.blocks.iter().flat_map(|b| body.block_ops(b)) {
        if let Some(callee) = op.callee() {
            match calls.iter_mut().find(|(c, _)| *c == callee) {
                Some((_, n)) => *n += 1,
                None => calls.push((callee, 1)),
            }
        }
        // Loops and branches; the small regions of reductions say nothing about structure.
        if op.is("coreai.while") || op.is("coreai.if") {
            let words: [&str; 2] = if op.is("coreai.while") {
                ["while", "do"]
            } else {
                ["if", "else"]
            };
            for (word, inner) in words.iter().zip(&op.regions) {
                writeln!(
                    out,
                    "{indent}{word}  {}",
                    count(region_ops(body, inner), "op")
                )?;
                region(out, module, body, inner, depth + 1, shown)?;
            }
        }
    }
    for (callee, times) in calls {
        let times = if times > 1 {
            format!("{times} × ")
        } else {
            String::new()
        };
        match module.graph(callee) {
            Some(graph) => {
                write!(out, "{indent}{times}{}", title(graph))?;
                if shown.contains(callee) {
                    writeln!(out, "  (above)")?;
                } else {
                    unfold(out, module, graph, depth, shown)?;
                }
            }
            None => writeln!(
                out,
                "{indent}{times}{}  not in the program",
                name(&callee.to_string())
            )?,
        }
    }
    Ok(())
}

/// `rms_norm (layer.norm_66c1)` for a composite.
fn title(graph: &Graph) -> String {
    let symbol = graph.name.to_string();
    match &graph.composite {
        Some(composite) => format!("{} ({})", name(&composite.name), name(&symbol)),
        None => name(&symbol).into_owned(),
    }
}

fn ops(graph: &Graph) -> usize {
    graph
        .body
        .walk()
        .filter(|(_, op)| summary_name(op).is_some())
        .count()
}

fn region_ops(body: &Body, region: &Region) -> usize {
    let inside = region.blocks.iter().flat_map(|b| body.block_ops(b));
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, op) in inside {
        if let Some(op) = summary_name(op) {
            *counts.entry(op).or_default() += 1;
        }
    }
    counts.values().sum()
}
