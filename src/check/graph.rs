//! What the graph says about writes and reductions.

use std::collections::{BTreeSet, HashSet};

use crate::ir::dataflow::{self, HandleUse};
use crate::ir::{Attr, Body, Graph, Module, Op, Type, ValueDef, ValueId};

/// Ops looked at in one question.
const MAX_STEPS: usize = 1 << 14;

/// An argument of a graph.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    /// A state, or an input.
    pub state: bool,
    /// Its name.
    pub name: String,
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = if self.state { "state" } else { "input" };
        write!(f, "{kind} {}", crate::text::name(&self.name))
    }
}

/// A write into part of a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartialWrite {
    /// The state.
    pub state: String,
    /// The op: `slice_update` or `scatter_nd`.
    pub op: String,
    /// The position is the contents of these.
    pub contents: Vec<Origin>,
    /// The position is the length of these inputs.
    pub lengths: Vec<String>,
    /// The vendor's interpreter dies of it.
    pub deadly: bool,
}

/// A reduction over nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmptyReduction {
    /// The op.
    pub op: String,
    /// Whose value is reduced, where it is an argument's as it is.
    pub of: Option<Origin>,
    /// The shape that is reduced.
    pub shape: Vec<Option<u64>>,
}

/// The name of an argument of the graph.
pub fn argument(graph: &Graph, value: ValueId) -> Option<Origin> {
    let arg = graph.args.iter().find(|a| a.value == value)?;
    let name = arg.attrs.get("coreai.name").and_then(|a| a.as_str())?;
    Some(Origin {
        state: arg.ty.is_handle(),
        name: name.to_string(),
    })
}

/// The private graphs a graph calls, and those they call.
pub fn callees<'m>(module: &'m Module, graph: &Graph) -> Vec<&'m Graph> {
    let mut found: Vec<&Graph> = Vec::new();
    let mut open = vec![&graph.body];
    while let Some(body) = open.pop() {
        for (_, op) in body.walk() {
            let callee = op.callee().and_then(|c| module.graph(c));
            if let Some(callee) = callee.filter(|c| found.iter().all(|f| f.name != c.name)) {
                found.push(callee);
                open.push(&callee.body);
            }
        }
    }
    found
}

/// Whether a graph computes attention: a composite of that name, or a softmax.
pub fn has_attention(module: &Module, graph: &Graph) -> bool {
    let composite = |g: &&Graph| {
        let name = g.composite.as_ref().map(|c| c.name.as_str());
        name.is_some_and(|n| n.contains("attention") || n.contains("sdpa"))
    };
    callees(module, graph).iter().any(composite)
}

/// Whether a graph draws random numbers.
pub fn is_random(module: &Module, graph: &Graph) -> bool {
    let random = |body: &Body| body.walk().any(|(_, op)| op.name.contains("random"));
    random(&graph.body) || callees(module, graph).iter().any(|g| random(&g.body))
}

/// Whether a graph casts integers to an integer type of eight or sixteen bits.
pub fn narrows_integers(graph: &Graph) -> bool {
    use crate::ir::Element;
    let int = |v: ValueId| match graph.body.ty(v) {
        Type::Tensor(t) => match t.element {
            Element::Int { width, .. } => Some(width),
            _ => None,
        },
        _ => None,
    };
    graph.body.walk().any(|(_, op)| {
        let (from, to) = (op.operands.first(), op.results.first());
        op.is("coreai.cast")
            && match (from.and_then(|v| int(*v)), to.and_then(|v| int(*v))) {
                (Some(from), Some(to)) => from > to && (8..=16).contains(&to),
                _ => false,
            }
    })
}

/// The writes into parts of states, in program order.
pub fn partial_writes(graph: &Graph) -> Vec<PartialWrite> {
    let body = &graph.body;
    let mut found = Vec::new();
    for arg in graph.args.iter().filter(|a| a.ty.is_handle()) {
        let Some(state) = argument(graph, arg.value) else {
            continue;
        };
        for (_, used) in dataflow::handle_uses(body, arg.value) {
            if let HandleUse::Write { value, .. } = used {
                for op in content_ops(body, value) {
                    found.extend(partial_write(graph, &state.name, op));
                }
            }
        }
    }
    found
}

/// The ops that put a value together from parts, from the value backwards.
fn content_ops(body: &Body, value: ValueId) -> Vec<&Op> {
    let mut found = Vec::new();
    let mut open = vec![value];
    let mut seen = HashSet::new();
    while let Some(value) = open.pop() {
        if !seen.insert(value) || seen.len() > MAX_STEPS {
            continue;
        }
        let Some((_, op)) = dataflow::defining_op(body, value) else {
            continue;
        };
        match short(op) {
            "slice_update" | "scatter_nd" | "scatter_along_axis" => {
                found.push(op);
                open.extend(op.operands.first());
            }
            "reshape" | "expand_dims" | "shrink_dims" | "transpose" | "cast" | "slice"
            | "broadcast_in_dims" | "broadcast_to" => {
                open.extend(op.operands.first());
            }
            "concat" | "where" | "broadcasting_where" => open.extend(&op.operands[1..]),
            _ => {}
        }
    }
    found
}

/// How a write puts the whole of a state together anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rebuilt {
    /// Its rows are taken in another order.
    Reordered,
    /// One of its layers is taken out, written, and selected back in.
    Layer,
    /// It is joined from parts.
    Joined,
    /// Old and new contents are selected or weighed by a mask.
    Blended,
}

/// How the writes to a state build it anew; `None` where nothing known does.
pub fn rebuilt(graph: &Graph, state: &str) -> Option<Rebuilt> {
    let body = &graph.body;
    let handle = graph
        .args
        .iter()
        .find(|a| a.ty.is_handle() && argument(graph, a.value).is_some_and(|o| o.name == state))?;
    let mut found: Option<Rebuilt> = None;
    let mut open: Vec<ValueId> = dataflow::handle_uses(body, handle.value)
        .into_iter()
        .filter_map(|(_, used)| match used {
            HandleUse::Write { value, .. } => Some(value),
            _ => None,
        })
        .collect();
    let mut seen = HashSet::new();
    while let Some(value) = open.pop() {
        if !seen.insert(value) || seen.len() > MAX_STEPS {
            continue;
        }
        let Some((_, op)) = dataflow::defining_op(body, value) else {
            continue;
        };
        let whole = op.results.first().map(|r| body.ty(*r)) == Some(handle_contents(graph, handle));
        let kind = match short(op) {
            "gather_nd" | "gather_along_axis" => Some(Rebuilt::Reordered),
            "where" | "broadcasting_where" => {
                let mask = op
                    .operands
                    .first()
                    .and_then(|v| dataflow::defining_op(body, *v));
                match mask.is_some_and(|(_, m)| m.is("coreai.constant")) {
                    true => Some(Rebuilt::Layer),
                    false => Some(Rebuilt::Blended),
                }
            }
            "concat" => Some(Rebuilt::Joined),
            "broadcasting_add" | "broadcasting_mul" | "add" | "mul" => Some(Rebuilt::Blended),
            _ => None,
        };
        let kind = kind.filter(|_| whole);
        found = match (found, kind) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        match short(op) {
            "slice_update" | "scatter_nd" | "scatter_along_axis" | "gather_nd"
            | "gather_along_axis" | "reshape" | "expand_dims" | "shrink_dims" | "transpose"
            | "slice" | "broadcast_in_dims" | "broadcast_to" => open.extend(op.operands.first()),
            "where" | "broadcasting_where" | "concat" => open.extend(&op.operands[1..]),
            "broadcasting_add" | "broadcasting_mul" | "add" | "mul" => open.extend(&op.operands),
            _ => {}
        }
    }
    found
}

/// The type of what a handle holds, as a value.
fn handle_contents<'g>(graph: &'g Graph, handle: &'g crate::ir::Arg) -> &'g Type {
    let body = &graph.body;
    let read = body.walk().find_map(|(_, op)| {
        let own = op.is("coreai.read_handle") && op.operands.first() == Some(&handle.value);
        own.then(|| op.results.first().map(|r| body.ty(*r)))?
    });
    read.unwrap_or(&handle.ty)
}

fn short(op: &Op) -> &str {
    let name = op.name.strip_prefix("coreai.").unwrap_or(&op.name);
    name.strip_prefix("decomposable.").unwrap_or(name)
}

fn partial_write(graph: &Graph, state: &str, op: &Op) -> Option<PartialWrite> {
    let body = &graph.body;
    let at = *op.operands.get(1)?;
    let (contents, lengths) = provenance(graph, at);
    Some(PartialWrite {
        state: state.into(),
        op: short(op).into(),
        deadly: short(op) == "scatter_nd" && deadly(body, op),
        contents: contents.into_iter().collect(),
        lengths: lengths.into_iter().collect(),
    })
}

/// Whether the interpreter dies of a scatter: one row, which lost its leading axes on the way, of more
/// than one element.
fn deadly(body: &Body, op: &Op) -> bool {
    let dims = |v: Option<&ValueId>| {
        v.and_then(|v| body.ty(*v).as_tensor())
            .map(|t| t.dims.clone())
    };
    let (Some(data), Some(indices), Some(updates)) = (
        dims(op.operands.first()),
        dims(op.operands.get(1)),
        dims(op.operands.get(2)),
    ) else {
        return false;
    };
    let depth = indices
        .last()
        .copied()
        .flatten()
        .and_then(|n| usize::try_from(n).ok());
    let Some(tail) = depth.and_then(|d| data.get(d..)) else {
        return false;
    };
    let wanted = indices.len().saturating_sub(1) + tail.len();
    let several = tail.iter().any(|d| d.is_none_or(|n| n > 1));
    updates.len() < wanted && several
}

/// The arguments whose contents, and the inputs whose lengths, decide a value.
fn provenance(graph: &Graph, value: ValueId) -> (BTreeSet<Origin>, BTreeSet<String>) {
    let body = &graph.body;
    let (mut contents, mut lengths) = (BTreeSet::new(), BTreeSet::new());
    let mut open = vec![(value, false)];
    let mut seen = HashSet::new();
    while let Some((value, length)) = open.pop() {
        if !seen.insert((value, length)) || seen.len() > MAX_STEPS {
            continue;
        }
        let op = match body.def(value) {
            ValueDef::Entry { .. } => {
                match argument(graph, value) {
                    Some(origin) if !length => {
                        contents.insert(origin);
                    }
                    // The extent has to be free for the length to say anything.
                    Some(origin) if !origin.state && is_free(body, value) => {
                        lengths.insert(origin.name);
                    }
                    _ => {}
                }
                continue;
            }
            ValueDef::BlockArg { op, .. } | ValueDef::Result { op, .. } => body.op(op),
        };
        match short(op) {
            "constant" => {}
            "get_shape" => open.extend(op.operands.first().map(|v| (*v, true))),
            "read_handle" => open.extend(op.operands.first().map(|v| (*v, length))),
            "broadcast_to" | "broadcast_in_dims" | "reshape" if !length => {
                open.extend(op.operands.first().map(|v| (*v, false)));
            }
            _ => open.extend(op.operands.iter().map(|v| (*v, length))),
        }
    }
    (contents, lengths)
}

fn is_free(body: &Body, value: ValueId) -> bool {
    let dims = body.ty(value).as_tensor().map(|t| &t.dims);
    dims.is_some_and(|d| d.iter().any(Option::is_none))
}

/// Reductions over an extent of 0.
pub fn empty_reductions(module: &Module, graph: &Graph) -> Vec<EmptyReduction> {
    let mut found = Vec::new();
    let graphs = std::iter::once(graph).chain(callees(module, graph));
    for graph in graphs {
        for (_, op) in graph.body.walk() {
            let name = short(op);
            if !(name.starts_with("reduce") || name == "softmax" || name == "argmax") {
                continue;
            }
            let Some(input) = op.operands.first() else {
                continue;
            };
            let Some(tensor) = graph.body.ty(*input).as_tensor() else {
                continue;
            };
            let rank = tensor.dims.len() as i64;
            let axes = op.operands.get(1).and_then(|v| constant(&graph.body, *v));
            let empty = |axis: &i64| {
                let axis = if *axis < 0 { axis + rank } else { *axis };
                let dim = usize::try_from(axis).ok().and_then(|a| tensor.dims.get(a));
                dim == Some(&Some(0))
            };
            if axes.is_some_and(|axes| axes.iter().any(empty)) {
                found.push(EmptyReduction {
                    op: name.into(),
                    of: whose(graph, *input),
                    shape: tensor.dims.clone(),
                });
            }
        }
    }
    found
}

/// The argument a value is, read as it stands.
fn whose(graph: &Graph, value: ValueId) -> Option<Origin> {
    let mut at = value;
    for _ in 0..8 {
        if let Some(origin) = argument(graph, at) {
            return Some(origin);
        }
        let (_, op) = dataflow::defining_op(&graph.body, at)?;
        at = *op.operands.first()?;
    }
    None
}

/// The integers of a constant.
pub fn constant(body: &Body, value: ValueId) -> Option<Vec<i64>> {
    let (_, op) = dataflow::defining_op(body, value)?;
    if !op.is("coreai.constant") {
        return None;
    }
    let Some(Attr::Dense(data)) = op.attrs.get("value") else {
        return None;
    };
    // Axes and positions are short; a constant of one value repeated may claim any size.
    if data.tensor()?.elements().is_none_or(|n| n > 64) {
        return None;
    }
    let element = data.tensor()?.element;
    let bytes = data.elements()?;
    let values = bytes.chunks_exact(element.bytes());
    values
        .map(|b| crate::ir::numeric::int_value(element, b).and_then(|v| i64::try_from(v).ok()))
        .collect()
}
