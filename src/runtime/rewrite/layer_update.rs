//! A row written into one layer of a stacked cache.
//!
//! `cache[layer][:, :, a:b] = rows` becomes a selection over the whole cache: the layer is taken out,
//! the rows are written into a copy of it, and `where(layer == i, copy, cache)` computes every element
//! of the cache anew. Here it becomes one `slice_update` of the cache, which runs in place and costs
//! what the rows cost, whatever the capacity.

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
    // Rows written into the very layer, which nobody else looks at: the rows are all there is to write.
    let inner = editor.source(part).filter(|(_, u)| {
        u.is("coreai.slice_update")
            && u.operands.len() == 5
            && editor.uses(part) == 1
            && is_layer(editor, u.operands[0], *cache, axis, layer)
    });
    let at = edit.ints(&[1], &[layer]);
    let next = edit.ints(&[1], &[layer + 1]);
    let one = edit.ints(&[1], &[1]);
    let (start, end, step, value, dims) = match inner {
        Some((id, u)) => {
            let [_, start, end, step, value] = u.operands.as_slice() else {
                return None;
            };
            for bound in [start, end, step] {
                if editor.body.ty(*bound).as_tensor()?.element != Element::si(32) {
                    return None;
                }
            }
            let mut dims = editor.body.ty(*value).as_tensor()?.dims.clone();
            if dims.len() + 1 != rank {
                return None;
            }
            dims.insert(axis, Some(1));
            edit.remove(id);
            let start = inserted(&mut edit, *start, at, axis, rank);
            let end = inserted(&mut edit, *end, next, axis, rank);
            let step = inserted(&mut edit, *step, one, axis, rank);
            (start, end, step, *value, dims)
        }
        None => {
            let mut from = vec![0; rank];
            let mut to = vec![i32::MAX; rank];
            (from[axis], to[axis]) = (layer, layer + 1);
            let length = [rank as u64];
            let start = edit.ints(&length, &from);
            let end = edit.ints(&length, &to);
            let step = edit.ints(&length, &vec![1; rank]);
            (start, end, step, part, one_layer.dims)
        }
    };
    let axes = edit.ints(&[1], &[axis as i32]);
    let value = edit.op(
        "coreai.expand_dims",
        vec![Source::Old(value), axes],
        Type::tensor(dims, whole.element),
    );
    edit.op(
        "coreai.slice_update",
        vec![Source::Old(*cache), start, end, step, value],
        editor.body.ty(*result).clone(),
    );
    Some(edit)
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
            _ => return None,
        }
    }
    None
}

/// Whether a value is the layer of the cache, all of it and without its axis.
fn is_layer(editor: &Editor<'_>, value: ValueId, cache: ValueId, axis: usize, layer: i32) -> bool {
    let fits = || {
        let (_, shrink) = editor.source(value)?;
        let taken = *shrink.operands.first()?;
        let (_, slice) = editor.source(taken)?;
        let &[from, start, end, step] = slice.operands.as_slice() else {
            return None;
        };
        if !shrink.is("coreai.shrink_dims") || !slice.is("coreai.slice") || from != cache {
            return None;
        }
        let dims = &editor.body.ty(cache).as_tensor()?.dims;
        let rank = dims.len() as i64;
        let axes = editor.ints(*shrink.operands.get(1)?)?;
        let only = matches!(axes.as_slice(), [a] if *a == axis as i64 || *a + rank == axis as i64);
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
                wrap(start[d]) == i64::from(layer) && wrap(end[d]) == i64::from(layer) + 1
            } else {
                start[d] == 0 && (end[d] == i64::from(i32::MAX) || Some(end[d]) == extent)
            }
        });
        all.then_some(())
    };
    fits().is_some()
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
