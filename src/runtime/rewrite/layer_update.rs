//! A row written into one layer of a stacked cache.
//!
//! `cache[layer][:, :, a:b] = rows` becomes a selection over the whole cache: the layer is taken out,
//! the rows are written into a copy of it, and `where(layer == i, copy, cache)` computes every element
//! of the cache anew. Here it becomes one `slice_update` of the cache, which runs in place and costs
//! what the rows cost, whatever the capacity; and `cache[layer].index_copy_(…)` one `scatter_nd`. Of
//! several stacked axes (`cache[layer, 0]`) the inner one goes first.

use super::{Edit, Editor, Source};
use crate::ir::{Element, OpId, Type, ValueId};

/// Replaces `where(one-hot along an axis, broadcast(expand(U)), C)`.
pub(super) fn rule(editor: &Editor<'_>, place: usize) -> Option<Edit> {
    let op = editor.op(place);
    let short = op.name.rsplit('.').next()?;
    if !matches!(short, "where" | "broadcasting_where") {
        return None;
    }
    let ([mask, broadcast, cache], [result]) = (op.operands.as_slice(), op.results.as_slice())
    else {
        return None;
    };
    let whole = editor.body.ty(*cache).as_tensor()?;
    if editor.body.ty(*result).as_tensor()? != whole {
        return None;
    }
    let rank = whole.dims.len();
    let (axis, layer) = chosen(editor, *mask, &whole.dims)?;
    let mut edit = Edit::default();
    let part = expanded(editor, *broadcast, axis, &mut edit)?;
    let mut one_layer = whole.clone();
    one_layer.dims[axis] = Some(1);
    let mut without = whole.clone();
    without.dims.remove(axis);
    if editor.body.ty(part).as_tensor()? != &without {
        return None;
    }
    let layer_of = Layer {
        cache: *cache,
        axis,
        index: layer,
    };
    let of_type = editor.body.ty(*result).clone();
    rows(editor, &layer_of, part, &of_type, &mut edit)
        .or_else(|| points(editor, &layer_of, part, &of_type, &mut edit))
        .or_else(|| {
            let (mut from, mut to) = (vec![0; rank], vec![i32::MAX; rank]);
            (from[axis], to[axis]) = (layer, layer + 1);
            let length = [rank as u64];
            let bounds = [from, to, vec![1; rank]].map(|b| edit.ints(&length, &b));
            let dims = one_layer.dims.clone();
            edit.update(*cache, bounds, (part, dims, axis), &of_type);
            Some(())
        })?;
    Some(edit)
}

/// One layer of a stacked cache.
struct Layer {
    cache: ValueId,
    axis: usize,
    index: i32,
}

impl Edit {
    /// A `slice_update` of the cache with a value that lacks the layer's axis; `dims` are those with it.
    fn update(
        &mut self,
        cache: ValueId,
        [start, end, step]: [Source; 3],
        (value, dims, axis): (ValueId, Vec<Option<u64>>, usize),
        ty: &Type,
    ) {
        let element = ty.as_tensor().map_or(Element::si(32), |t| t.element);
        let axes = self.ints(&[1], &[axis as i32]);
        let value = self.op(
            "coreai.expand_dims",
            vec![Source::Old(value), axes],
            Type::tensor(dims, element),
        );
        let operands = vec![Source::Old(cache), start, end, step, value];
        self.op("coreai.slice_update", operands, ty.clone());
    }
}

/// Rows written into the very layer, which nobody else looks at: the rows are all there is to write.
fn rows(
    editor: &Editor<'_>,
    layer: &Layer,
    part: ValueId,
    ty: &Type,
    edit: &mut Edit,
) -> Option<()> {
    let (id, op) = editor.source(part)?;
    let &[target, start, end, step, value] = op.operands.as_slice() else {
        return None;
    };
    let own = op.is("coreai.slice_update") && editor.uses(part) == 1;
    if !own || !is_layer(editor, target, layer) {
        return None;
    }
    for bound in [start, end, step] {
        if editor.body.ty(bound).as_tensor()?.element != Element::si(32) {
            return None;
        }
    }
    let rank = ty.as_tensor()?.dims.len();
    let mut dims = editor.body.ty(value).as_tensor()?.dims.clone();
    if dims.len() + 1 != rank {
        return None;
    }
    dims.insert(layer.axis, Some(1));
    edit.remove(id);
    edit.stand_for(id);
    let at = edit.ints(&[1], &[layer.index]);
    let next = edit.ints(&[1], &[layer.index + 1]);
    let one = edit.ints(&[1], &[1]);
    let bounds = [
        inserted(edit, start, at, layer.axis, rank),
        inserted(edit, end, next, layer.axis, rank),
        inserted(edit, step, one, layer.axis, rank),
    ];
    edit.update(layer.cache, bounds, (value, dims, layer.axis), ty);
    Some(())
}

/// Elements or rows written by index into the very layer (`cache[layer].index_copy_(…)`): the layer
/// becomes one more component of each index.
fn points(
    editor: &Editor<'_>,
    layer: &Layer,
    part: ValueId,
    ty: &Type,
    edit: &mut Edit,
) -> Option<()> {
    let (id, op) = editor.source(part)?;
    let &[target, indices, updates] = op.operands.as_slice() else {
        return None;
    };
    let own = op.is("coreai.scatter_nd") && editor.uses(part) == 1;
    if !own || !is_layer(editor, target, layer) {
        return None;
    }
    let wide = editor.body.ty(indices).as_tensor()?.clone();
    let last = wide.dims.len().checked_sub(1)?;
    let depth = usize::try_from(wide.dims[last]?).ok()?;
    // The indices have to reach the layer's axis for it to be put among them.
    if layer.axis > depth || wide.element != Element::si(32) {
        return None;
    }
    edit.remove(id);
    edit.stand_for(id);
    let rank = last + 1;
    let length = [rank as u64];
    let steps = edit.ints(&length, &vec![1; rank]);
    let along = edit.ints(&[], &[last as i32]);
    let columns = |edit: &mut Edit, from: usize, to: usize| {
        let (mut start, mut end) = (vec![0; rank], vec![i32::MAX; rank]);
        (start[last], end[last]) = (from as i32, to as i32);
        let (start, end) = (edit.ints(&length, &start), edit.ints(&length, &end));
        let mut dims = wide.dims.clone();
        dims[last] = Some((to - from) as u64);
        let operands = vec![Source::Old(indices), start, end, steps];
        edit.op("coreai.slice", operands, Type::tensor(dims, wide.element))
    };
    // A column of the layer's number, as long as the indices are.
    let mut dims = wide.dims.clone();
    dims[last] = Some(1);
    let column = Type::tensor(dims, wide.element);
    let any = columns(edit, 0, 1);
    let (zero, number) = (edit.ints(&[], &[0]), edit.ints(&[], &[layer.index]));
    let zeros = edit.op(
        "coreai.decomposable.broadcasting_mul",
        vec![any, zero],
        column.clone(),
    );
    let own = edit.op(
        "coreai.decomposable.broadcasting_add",
        vec![zeros, number],
        column,
    );
    let mut operands = vec![along];
    if layer.axis > 0 {
        operands.push(columns(edit, 0, layer.axis));
    }
    operands.push(own);
    if layer.axis < depth {
        operands.push(columns(edit, layer.axis, depth));
    }
    let mut dims = wide.dims.clone();
    dims[last] = Some(depth as u64 + 1);
    let indices = edit.op("coreai.concat", operands, Type::tensor(dims, wide.element));
    edit.op_with_regions(
        "coreai.scatter_nd",
        vec![Source::Old(layer.cache), indices, Source::Old(updates)],
        ty.clone(),
        id,
    );
    Some(())
}

/// The axis and position that a constant mask picks: true for one index of one axis, whatever the others.
fn chosen(editor: &Editor<'_>, mask: ValueId, dims: &[Option<u64>]) -> Option<(usize, i32)> {
    let mask = editor.constant(mask)?;
    let missing = dims.len().checked_sub(mask.shape().len())?;
    let mut long = mask.shape().iter().enumerate().filter(|(_, d)| **d != 1);
    let (axis, count) = long.next()?;
    if long.next().is_some() || dims[missing + axis] != Some(*count as u64) {
        return None;
    }
    let set: Vec<usize> = mask
        .ints()
        .ok()?
        .iter()
        .enumerate()
        .filter_map(|(i, v)| (*v != 0).then_some(i))
        .collect();
    match set.as_slice() {
        [one] => Some((missing + axis, i32::try_from(*one).ok()?)),
        _ => None,
    }
}

/// What is given a new axis and spread along it; the ops that do so are removed.
fn expanded(
    editor: &Editor<'_>,
    mut value: ValueId,
    axis: usize,
    edit: &mut Edit,
) -> Option<ValueId> {
    for _ in 0..4 {
        let (id, op): (OpId, _) = editor.source(value)?;
        if editor.uses(value) != 1 {
            return None;
        }
        let from = *op.operands.first()?;
        edit.remove(id);
        match op.name.rsplit('.').next()? {
            "broadcast_in_dims" | "broadcast_to" => {
                let rank = |v| Some(editor.body.ty(v).as_tensor()?.dims.len());
                let dims = editor.body.ty(from).as_tensor()?.dims.clone();
                let target = editor.body.ty(value).as_tensor()?;
                // Only along the new axis.
                let same = dims
                    .iter()
                    .zip(&target.dims)
                    .enumerate()
                    .all(|(i, (a, b))| i == axis || a == b);
                if rank(from)? != target.dims.len() || dims[axis] != Some(1) || !same {
                    return None;
                }
                value = from;
            }
            "expand_dims" => {
                let rank = editor.body.ty(value).as_tensor()?.dims.len() as i64;
                return match editor.ints(*op.operands.get(1)?)?.as_slice() {
                    [a] if *a == axis as i64 || *a + rank == axis as i64 => Some(from),
                    _ => None,
                };
            }
            "reshape" => return without_unit(editor, value, from, axis).then_some(from),
            _ => return None,
        }
    }
    None
}

/// Whether a value is the layer of the cache, all of it and without its axis.
fn is_layer(editor: &Editor<'_>, value: ValueId, layer: &Layer) -> bool {
    let &Layer { cache, axis, index } = layer;
    let fits = || {
        let (_, shrink) = editor.source(value)?;
        let taken = *shrink.operands.first()?;
        let (_, slice) = editor.source(taken)?;
        let &[from, start, end, step] = slice.operands.as_slice() else {
            return None;
        };
        if !slice.is("coreai.slice") || from != cache {
            return None;
        }
        let dims = &editor.body.ty(cache).as_tensor()?.dims;
        let rank = dims.len() as i64;
        let only = if shrink.is("coreai.shrink_dims") {
            let axes = editor.ints(*shrink.operands.get(1)?)?;
            matches!(axes.as_slice(), [a] if *a == axis as i64 || *a + rank == axis as i64)
        } else {
            shrink.is("coreai.reshape") && without_unit(editor, taken, value, axis)
        };
        let (start, end) = (editor.ints(start)?, editor.ints(end)?);
        let unit = editor.ints(step)?.iter().all(|s| *s == 1);
        if !only || !unit || start.len() != dims.len() || end.len() != dims.len() {
            return None;
        }
        let all = (0..dims.len()).all(|d| {
            let extent = dims[d].map(|n| n as i64);
            if d == axis {
                let Some(n) = extent else { return false };
                let wrap = |v: i64| if v < 0 { v + n } else { v.min(n) };
                wrap(start[d]) == i64::from(index) && wrap(end[d]) == i64::from(index) + 1
            } else {
                start[d] == 0 && (end[d] == i64::from(i32::MAX) || Some(end[d]) == extent)
            }
        });
        all.then_some(())
    };
    fits().is_some()
}

/// Whether two shapes are the same but for an axis of extent 1 that the second lacks. Of extents that
/// are not known there may be one, which then is the same by the number of elements.
fn without_unit(editor: &Editor<'_>, long: ValueId, short: ValueId, axis: usize) -> bool {
    let dims = |v| Some(editor.body.ty(v).as_tensor()?.dims.clone());
    let (Some(mut long), Some(short)) = (dims(long), dims(short)) else {
        return false;
    };
    let free = long.iter().filter(|d| d.is_none()).count();
    if long.get(axis) != Some(&Some(1)) || free > 1 {
        return false;
    }
    long.remove(axis);
    long == short
}

/// The vector `bounds` of `rank - 1` integers with `new` put in at `axis`.
fn inserted(edit: &mut Edit, bounds: ValueId, new: Source, axis: usize, rank: usize) -> Source {
    let vector = |n: usize| Type::tensor(vec![Some(n as u64)], Element::si(32));
    let along = edit.ints(&[], &[0]);
    if axis == 0 {
        return edit.op(
            "coreai.concat",
            vec![along, new, Source::Old(bounds)],
            vector(rank),
        );
    }
    let one = edit.ints(&[1], &[1]);
    let zero = edit.ints(&[1], &[0]);
    let middle = edit.ints(&[1], &[axis as i32]);
    let head = edit.op(
        "coreai.slice",
        vec![Source::Old(bounds), zero, middle, one],
        vector(axis),
    );
    if axis + 1 == rank {
        return edit.op("coreai.concat", vec![along, head, new], vector(rank));
    }
    let end = edit.ints(&[1], &[rank as i32 - 1]);
    let tail = edit.op(
        "coreai.slice",
        vec![Source::Old(bounds), middle, end, one],
        vector(rank - 1 - axis),
    );
    edit.op("coreai.concat", vec![along, head, new, tail], vector(rank))
}
