//! Values written by index.

use super::cast::cast;
use super::gather::{by_size, places, position, reached};
use super::scalar::{dispatch, Combiner, Scalar};
use super::unary::{compute_type, narrow};
use super::{axis, broadcast_view, Call, Kernel};
use crate::runtime::dtype::Class;
use crate::runtime::error::shape;
use crate::runtime::tensor::{room, row_major, rows, Dims, OpResult, Tensor};

fn refuse_zero_divisors(how: Combiner, updates: &Tensor) -> OpResult<()> {
    let int = matches!(updates.dtype().class(), Class::Int { .. });
    if how == Combiner::Div && int && updates.ints()?.contains(&0) {
        return Err("division by zero".into());
    }
    Ok(())
}

/// Combines `updates` into `t` at `indices` (rows of leading indices); later rows win.
pub fn scatter_nd(
    t: Tensor,
    indices: &Tensor,
    updates: &Tensor,
    how: Combiner,
) -> OpResult<Tensor> {
    let (at, inner) = places(t.dims(), indices)?;
    let q = indices.dims()[indices.rank() - 1];
    let lead = &indices.dims()[..indices.rank() - 1];
    // Advanced indexing of one row hands updates over without their leading ones, and what is
    // written everywhere as it is.
    let wanted: Dims = lead.iter().chain(&t.dims()[q..]).copied().collect();
    let several = |d: &&usize| **d != 1;
    let same = updates
        .dims()
        .iter()
        .filter(several)
        .eq(wanted.iter().filter(several));
    let spread = match same {
        true => Ok(updates.clone()),
        false => broadcast_view(updates, &wanted),
    };
    let fits = updates.dtype() == t.dtype() && spread.is_ok();
    if !fits {
        return Err(format!(
            "updates of {} {} at indices {} into {} {}",
            updates.dtype(),
            shape(updates.dims()),
            shape(indices.dims()),
            t.dtype(),
            shape(t.dims())
        ));
    }
    combined(t, &spread?, how, |i| {
        Ok(at[i / inner.max(1)] + i % inner.max(1))
    })
}

/// Combines each update into the place `to` names.
fn combined(
    mut t: Tensor,
    updates: &Tensor,
    how: Combiner,
    to: impl Fn(usize) -> OpResult<usize>,
) -> OpResult<Tensor> {
    let updates = updates.contiguous()?;
    if how == Combiner::Replace {
        t.make_unique()?;
        by_size!(t.dtype().size(), T => {
            let values = t.data_mut::<T>()?;
            for (i, u) in updates.data::<T>()?.iter().enumerate() {
                values[to(i)?] = *u;
            }
        });
        return Ok(t);
    }
    refuse_zero_divisors(how, &updates)?;
    let how = how.of(t.dtype());
    let (own, wide) = (t.dtype(), compute_type(t.dtype()));
    how.check(wide)?;
    let updates = cast(&updates, wide)?;
    if own != wide {
        t = cast(&t, wide)?;
    }
    t.make_unique()?;
    dispatch!(wide, T => {
        let values = t.data_mut::<T>()?;
        for (i, u) in updates.data::<T>()?.iter().enumerate() {
            let place = &mut values[to(i)?];
            *place = T::narrow(T::combine(how, place.widen(), u.widen()));
        }
        Ok::<(), String>(())
    })?;
    narrow(t, own)
}

fn scatter_along_axis(call: &mut Call<'_>) -> OpResult<Tensor> {
    let how = match call.word("scatter_mode")? {
        "update" => Combiner::Replace,
        "add" => Combiner::Add,
        "sub" => Combiner::Sub,
        "mul" => Combiner::Mul,
        "div" => Combiner::Div,
        "max" => Combiner::Max,
        "min" => Combiner::Min,
        other => return Err(format!("unknown mode {other}")),
    };
    let indices = call.take(1)?;
    let updates = call.take(2)?;
    let t = call.take(0)?;
    let a = axis(call.arg(3)?.int()?, t.rank())?;
    reached(&t, &indices, a)?;
    if updates.dims() != indices.dims() || updates.dtype() != t.dtype() {
        return Err(format!(
            "updates of {} {} at indices of shape {} into {}",
            updates.dtype(),
            shape(updates.dims()),
            shape(indices.dims()),
            t.dtype()
        ));
    }
    // Every index is checked before a value is written.
    let at = indices.ints()?.into_iter();
    let at: Vec<usize> = at
        .map(|index| position(index, t.dims()[a]))
        .collect::<OpResult<_>>()?;
    // Where each row of indices starts in the memory the values will lie in, one along the axis aside.
    let mut steps = row_major(t.dims());
    let along = std::mem::take(&mut steps[a]) as usize;
    let width = indices.dims().last().copied().unwrap_or(1).max(1);
    let last = steps.last().copied().unwrap_or(0) as usize;
    let mut starts = room(indices.len() / width)?;
    rows(indices.dims(), [&steps], |[start], _, _| {
        starts.push(start as usize);
    });
    combined(t, &updates, how, |i| {
        Ok(starts[i / width] + i % width * last + at[i] * along)
    })
}

pub const OPS: &[(&str, Kernel)] = &[("scatter_along_axis", Kernel::One(scatter_along_axis))];
