//! Weights in blocks of small integers, used as they are stored.
//!
//! `x · transpose(blockwise_shift_scale(q, scale, zero, offset))` and `gather_nd` of such a table become
//! one op each that reads the packed integers: nothing is expanded when the model is loaded, and a
//! product moves a quarter of the memory.

use super::{Edit, Editor, Source};
use crate::ir::{Attr, Dense, Element, Op, OpId, Payload, Sign, Type, ValueId};

/// Replaces products with, and gathers from, a block-quantised matrix.
pub(super) fn rule(editor: &Editor<'_>, place: usize) -> Option<Edit> {
    let op = editor.op(place);
    let result = *op.results.first()?;
    let mut edit = Edit::default();
    let (name, given) = match op.name.rsplit('.').next()? {
        "batch_matmul" | "broadcasting_batch_matmul" => {
            let &[x, weights] = op.operands.as_slice() else {
                return None;
            };
            let (id, transpose) = editor.source(weights)?;
            if !transpose.is("coreai.transpose")
                || editor.ints(*transpose.operands.get(1)?)?.as_slice() != [1, 0]
            {
                return None;
            }
            drop_unused(editor, weights, id, &mut edit);
            let table = *transpose.operands.first()?;
            ("coreaix.packed_product", (x, table, editor.uses(weights)))
        }
        "gather_nd" => {
            let &[table, at] = op.operands.as_slice() else {
                return None;
            };
            // One index for each row.
            if editor.body.ty(at).as_tensor()?.dims.last() != Some(&Some(1)) {
                return None;
            }
            ("coreaix.packed_gather", (at, table, 1))
        }
        _ => return None,
    };
    let (first, table, users) = given;
    let (id, scaled) = editor.source(table)?;
    if users == 1 {
        drop_unused(editor, table, id, &mut edit);
    }
    let operands = table_operands(editor, scaled, editor.body.ty(result), &mut edit)?;
    let mut all = vec![Source::Old(first)];
    all.extend(operands);
    edit.op(name, all, editor.body.ty(result).clone());
    Some(edit)
}

/// An op that only this edit's op uses goes away with it.
fn drop_unused(editor: &Editor<'_>, value: ValueId, id: OpId, edit: &mut Edit) {
    if editor.uses(value) == 1 {
        edit.remove(id);
    }
}

/// Packed integers, a scalar that says how they are packed, scales, zero points and offsets.
fn table_operands(
    editor: &Editor<'_>,
    op: &Op,
    result: &Type,
    edit: &mut Edit,
) -> Option<Vec<Source>> {
    let &[data, scale, zero, offset] = op.operands.as_slice() else {
        return None;
    };
    if !op.is("coreai.blockwise_shift_scale") {
        return None;
    }
    let out = editor.body.ty(*op.results.first()?).as_tensor()?;
    if out.element != result.as_tensor()?.element || !matches!(out.element, Element::Float(_)) {
        return None;
    }
    let ty = editor.body.ty(data).as_tensor()?;
    let blocks = editor.body.ty(scale).as_tensor()?;
    let &[Some(rows), Some(columns)] = ty.dims.as_slice() else {
        return None;
    };
    let &[Some(of_rows), Some(of_columns)] = blocks.dims.as_slice() else {
        return None;
    };
    if of_rows != rows || of_columns == 0 || columns % of_columns != 0 || columns % 2 != 0 {
        return None;
    }
    // All of it known when the model is loaded.
    for value in [scale, zero, offset] {
        dense(editor, value)?;
    }
    let stored = dense(editor, data)?;
    let Element::Int { sign, width } = ty.element else {
        return None;
    };
    let signed = match sign {
        Sign::Signed => true,
        Sign::Unsigned => false,
        Sign::Signless => return None,
    };
    let (packed, kind) = match width {
        8 => (Source::Old(data), if signed { 3 } else { 2 }),
        4 => {
            let Payload::Resource {
                data: Some(blob), ..
            } = &stored.payload
            else {
                return None;
            };
            let bytes = rows.checked_mul(columns / 2)?;
            if blob.bytes().len() as u64 != bytes {
                return None;
            }
            let ty = Type::tensor(vec![Some(rows), Some(columns / 2)], Element::ui(8));
            let same_bytes = Dense {
                ty: ty.clone(),
                payload: stored.payload.clone(),
            };
            (edit.constant(same_bytes), i32::from(signed))
        }
        _ => return None,
    };
    let kind = edit.ints(&[], &[kind]);
    Some(vec![
        packed,
        kind,
        Source::Old(scale),
        Source::Old(zero),
        Source::Old(offset),
    ])
}

fn dense<'b>(editor: &Editor<'b>, value: ValueId) -> Option<&'b Dense> {
    let (_, op) = editor.source(value)?;
    match op.attrs.get("value") {
        Some(Attr::Dense(d)) if op.is("coreai.constant") => Some(d),
        _ => None,
    }
}
