//! Which axis of a state counts positions.
//!
//! A cache is written at a place that moves from call to call along one axis; a running state is
//! written as a whole. The axis is read off the graph: where the extent is not known, where a slice
//! or scatter gets its index from run-time data, where rows are shifted, or where a mask selects.

use super::attr::Attr;
use super::dataflow::{self, HandleUse};
use super::graph::{Body, Op, ValueDef, ValueId};
use super::numeric;
use super::types::Extent;

/// Ops looked at in one question.
const MAX_STEPS: usize = 4096;
/// Values are followed this many ops back.
const MAX_DEPTH: usize = 128;

/// An axis of a state that counts positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Positional {
    /// The axis, outermost is 0.
    pub axis: usize,
    /// How it shows.
    pub how: How,
}

/// How an axis shows that it counts positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum How {
    /// Its extent is not known.
    Dynamic,
    /// Slices are written at an index from run-time data.
    Slice,
    /// Rows are scattered to indices from run-time data.
    Scatter,
    /// Old rows move to make room for new ones.
    Shift,
    /// A mask from run-time data selects the rows that change.
    Mask,
}

impl How {
    /// The word used in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            How::Dynamic => "dynamic",
            How::Slice => "slice",
            How::Scatter => "scatter",
            How::Shift => "shift",
            How::Mask => "mask",
        }
    }
}

/// The positional axis of the state behind a handle, where it has exactly one.
pub fn positional_axis(body: &Body, handle: ValueId) -> Option<Positional> {
    let shape = &body.ty(handle).as_tensor()?.dims;
    let mut dynamic = shape.iter().enumerate().filter(|(_, d)| d.is_none());
    if let (Some((axis, _)), None) = (dynamic.next(), dynamic.next()) {
        return Some(Positional {
            axis,
            how: How::Dynamic,
        });
    }
    let mut trace = Trace {
        body,
        handle,
        steps: 0,
        depth: 0,
    };
    dataflow::handle_uses(body, handle)
        .iter()
        .find_map(|(_, used)| match used {
            HandleUse::Write { value, .. } => trace.written(*value),
            _ => None,
        })
}

struct Trace<'a> {
    body: &'a Body,
    handle: ValueId,
    steps: usize,
    depth: usize,
}

impl Trace<'_> {
    fn step(&mut self) -> Option<()> {
        self.steps += 1;
        (self.steps <= MAX_STEPS).then_some(())
    }

    /// Runs `f` one op further back.
    fn further<T>(&mut self, f: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        self.step()?;
        if self.depth >= MAX_DEPTH {
            return None;
        }
        self.depth += 1;
        let result = f(self);
        self.depth -= 1;
        result
    }

    fn shape(&self, value: ValueId) -> &[Extent] {
        self.body.ty(value).as_tensor().map_or(&[], |t| &t.dims)
    }

    /// The positional axis of a value on its way into the state, in the value's own axes.
    fn written(&mut self, value: ValueId) -> Option<Positional> {
        self.further(|trace| trace.written_by_op(value))
    }

    fn written_by_op(&mut self, value: ValueId) -> Option<Positional> {
        let (_, op) = dataflow::defining_op(self.body, value)?;
        let name = op.name.strip_prefix("coreai.").unwrap_or(&op.name);
        let name = name.strip_prefix("decomposable.").unwrap_or(name);
        match (name, &op.operands[..]) {
            ("slice_update", [input, starts, ..]) => {
                let moving = self.runtime_entries(*starts);
                single(&moving, How::Slice).or_else(|| self.written(*input))
            }
            ("scatter_nd", [input, indices, ..]) => {
                let moving = self.runtime_columns(*indices);
                single(&moving, How::Scatter).or_else(|| self.written(*input))
            }
            ("concat", [axis, parts @ ..]) => self.joined(*axis, parts),
            ("reshape" | "expand_dims" | "shrink_dims", [input, ..]) => {
                let inner = self.written(*input)?;
                let axis = same_axis(self.shape(*input), self.shape(value), inner.axis)?;
                Some(Positional { axis, ..inner })
            }
            ("transpose", [input, permutation]) => {
                let inner = self.written(*input)?;
                let order = self.integers(*permutation)?;
                let axis = order.iter().position(|p| *p == Some(inner.axis as i64))?;
                Some(Positional { axis, ..inner })
            }
            ("broadcasting_where", [mask, one, other]) => self
                .masked(*mask, value)
                .or_else(|| self.written(*one))
                .or_else(|| self.written(*other)),
            ("broadcasting_mul", [a, b]) => {
                let mask = if self.is_mask(*a) { *a } else { *b };
                self.is_mask(mask)
                    .then(|| self.masked(mask, value))
                    .flatten()
            }
            ("broadcasting_add" | "broadcasting_sub", [a, b]) => {
                self.written(*a).or_else(|| self.written(*b))
            }
            (
                "cast"
                | "broadcast_in_dims"
                | "copy_with_constraints"
                | "copy_discarding_constraints",
                [input, ..],
            ) => self.written(*input),
            _ if op.name.starts_with("coreaix.") => self.written(*op.operands.first()?),
            _ => None,
        }
    }

    /// A concatenation either shifts along its axis, or stacks parts that are written each.
    fn joined(&mut self, axis: ValueId, parts: &[ValueId]) -> Option<Positional> {
        let axis = self.integers(axis)?.first().copied().flatten()?;
        let rank = self.shape(*parts.first()?).len() as i64;
        let axis = usize::try_from(if axis < 0 { axis + rank } else { axis }).ok()?;
        let old = parts.iter().filter(|p| self.is_slice_of_state(**p)).count();
        if old > 0 && old < parts.len() {
            return Some(Positional {
                axis,
                how: How::Shift,
            });
        }
        parts
            .iter()
            .find_map(|p| self.written(*p))
            .filter(|p| p.axis != axis)
    }

    /// Whether the value is a part of the state as it was read, in the state's own layout.
    fn is_slice_of_state(&mut self, value: ValueId) -> bool {
        let mut at = value;
        let mut sliced = false;
        for _ in 0..16 {
            let Some((_, op)) = dataflow::defining_op(self.body, at) else {
                return false;
            };
            match (&*op.name, op.operands.first()) {
                ("coreai.read_handle", Some(handle)) => return sliced && *handle == self.handle,
                ("coreai.slice", Some(input)) => {
                    sliced = true;
                    at = *input;
                }
                (
                    "coreai.reshape" | "coreai.shrink_dims" | "coreai.expand_dims" | "coreai.cast",
                    Some(input),
                ) => {
                    at = *input;
                }
                _ => return false,
            }
        }
        false
    }

    /// The one axis along which a mask from run-time data varies, in the axes of what it selects.
    fn masked(&mut self, mask: ValueId, selected: ValueId) -> Option<Positional> {
        let (narrow, wide) = (self.shape(mask), self.shape(selected));
        let lead = wide.len().checked_sub(narrow.len())?;
        let mut varying = narrow.iter().enumerate().filter(|(_, d)| **d != Some(1));
        let ((axis, _), None) = (varying.next()?, varying.next()) else {
            return None;
        };
        let axis = lead + axis;
        let spread = wide.iter().filter(|d| **d != Some(1)).count() > 1;
        (spread && self.is_runtime(mask)).then_some(Positional {
            axis,
            how: How::Mask,
        })
    }

    /// Whether a factor is a mask or the complement of one: an argument, or the outcome of a
    /// comparison. A factor that is computed otherwise (a decay) leaves nothing as it was.
    fn is_mask(&self, factor: ValueId) -> bool {
        let mut at = factor;
        for _ in 0..16 {
            let Some((_, op)) = dataflow::defining_op(self.body, at) else {
                return matches!(self.body.def(at), ValueDef::Entry { .. });
            };
            let name = op.name.strip_prefix("coreai.").unwrap_or(&op.name);
            match (
                name.strip_prefix("decomposable.broadcasting_")
                    .unwrap_or(name),
                &op.operands[..],
            ) {
                ("equal" | "not_equal" | "greater" | "and" | "or" | "xor", _) => return true,
                (
                    "reshape" | "expand_dims" | "shrink_dims" | "cast" | "transpose" | "not",
                    [input, ..],
                )
                | ("broadcast_to" | "broadcast_in_dims" | "slice", [input, ..]) => at = *input,
                // One minus the mask.
                ("sub", [one, mask]) if self.is_constant(*one) => at = *mask,
                _ => return false,
            }
        }
        false
    }

    fn is_constant(&self, value: ValueId) -> bool {
        dataflow::defining_op(self.body, value).is_some_and(|(_, op)| op.is("coreai.constant"))
    }

    /// The entries of a list of integers that come from run-time data.
    fn runtime_entries(&mut self, list: ValueId) -> Vec<bool> {
        match self.integers(list) {
            Some(entries) => entries.iter().map(Option::is_none).collect(),
            None => Vec::new(),
        }
    }

    /// The columns of an index table that come from run-time data: the last axis of `indices` names
    /// an axis of the scattered value for each column.
    fn runtime_columns(&mut self, indices: ValueId) -> Vec<bool> {
        let mut at = indices;
        for _ in 0..8 {
            let Some((_, op)) = dataflow::defining_op(self.body, at) else {
                return Vec::new();
            };
            match (&*op.name, &op.operands[..]) {
                ("coreai.concat", [axis, columns @ ..]) => {
                    let rank = self.shape(at).len() as i64;
                    let last = self
                        .integers(*axis)
                        .and_then(|a| a.first().copied().flatten());
                    if last != Some(rank - 1) && last != Some(-1) {
                        return Vec::new();
                    }
                    return columns.iter().map(|c| self.is_runtime(*c)).collect();
                }
                ("coreai.cast", [input, ..]) => at = *input,
                _ => return vec![self.is_runtime(at)],
            }
        }
        Vec::new()
    }

    /// Whether a value depends on the contents of an argument, not only on shapes and constants.
    fn is_runtime(&mut self, value: ValueId) -> bool {
        let mut open = vec![value];
        let mut seen = std::collections::HashSet::new();
        while let Some(value) = open.pop() {
            if !seen.insert(value) {
                continue;
            }
            if self.step().is_none() {
                return false;
            }
            match self.body.def(value) {
                ValueDef::Entry { .. } => return true,
                ValueDef::BlockArg { op, .. } => open.extend(&self.body.op(op).operands),
                ValueDef::Result { op, .. } => match &*self.body.op(op).name {
                    "coreai.get_shape" | "coreai.constant" | "coreai.read_handle" => {}
                    // Only the shape of what is broadcast to counts.
                    "coreai.broadcast_in_dims" | "coreai.broadcast_to" | "coreai.reshape" => {
                        open.extend(self.body.op(op).operands.first());
                    }
                    _ => open.extend(&self.body.op(op).operands),
                },
            }
        }
        false
    }

    /// The entries of a small integer tensor, row-major; `None` for those that are not constant.
    fn integers(&mut self, value: ValueId) -> Option<Vec<Option<i64>>> {
        self.further(|trace| trace.integers_of_op(value))
    }

    fn integers_of_op(&mut self, value: ValueId) -> Option<Vec<Option<i64>>> {
        let ty = self.body.ty(value).as_tensor()?;
        let count = ty
            .elements()
            .and_then(|n| usize::try_from(n).ok())
            .filter(|n| *n <= 64)?;
        let unknown = vec![None; count];
        let Some((_, op)) = dataflow::defining_op(self.body, value) else {
            return Some(unknown);
        };
        let known = match (&*op.name, &op.operands[..]) {
            ("coreai.constant", _) => constant(op),
            ("coreai.concat", [_, parts @ ..]) if ty.dims.len() == 1 => {
                let parts: Option<Vec<_>> = parts.iter().map(|p| self.integers(*p)).collect();
                parts.map(|p| p.concat())
            }
            (
                "coreai.reshape" | "coreai.expand_dims" | "coreai.shrink_dims" | "coreai.cast",
                [input, ..],
            ) => self.integers(*input),
            ("coreai.get_shape", [input]) => Some(
                self.shape(*input)
                    .iter()
                    .map(|d| d.and_then(|n| i64::try_from(n).ok()))
                    .collect(),
            ),
            _ => None,
        };
        Some(known.filter(|k| k.len() == count).unwrap_or(unknown))
    }
}

/// The values of an integer constant.
fn constant(op: &Op) -> Option<Vec<Option<i64>>> {
    let Some(Attr::Dense(data)) = op.attrs.get("value") else {
        return None;
    };
    let element = data.tensor()?.element;
    let bytes = data.elements()?;
    let values = bytes.chunks_exact(element.bytes());
    Some(
        values
            .map(|b| numeric::int_value(element, b).and_then(|v| i64::try_from(v).ok()))
            .collect(),
    )
}

/// The one marked axis.
fn single(marked: &[bool], how: How) -> Option<Positional> {
    let mut axes = marked.iter().enumerate().filter(|(_, m)| **m);
    match (axes.next(), axes.next()) {
        (Some((axis, _)), None) => Some(Positional { axis, how }),
        _ => None,
    }
}

/// The axis of `to` that is `axis` of `from`: the same extent with as many elements in front of it.
fn same_axis(from: &[Extent], to: &[Extent], axis: usize) -> Option<usize> {
    let before = |dims: &[Extent]| dims.iter().try_fold(1u64, |n, d| n.checked_mul((*d)?));
    let (extent, lead) = (from.get(axis)?, before(&from[..axis])?);
    (0..to.len()).find(|i| to[*i] == *extent && before(&to[..*i]) == Some(lead))
}
