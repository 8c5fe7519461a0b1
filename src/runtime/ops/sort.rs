//! Order along an axis. Equal values keep their order; NaN comes last either way.

use std::cmp::Ordering;

use super::cast::cast;
use super::gather::by_size;
use super::scalar::dispatch_real;
use super::unary::compute_type;
use super::{around, axis, Call, Kernel};
use crate::runtime::tensor::{room, OpResult, Tensor};
use crate::runtime::DType;

/// For every run along the axis, the positions in order; laid out as the values are.
fn order(t: &Tensor, a: usize, descending: bool) -> OpResult<Vec<u32>> {
    let wide = compute_type(t.dtype());
    let t = cast(t, wide)?;
    let (outer, n, inner) = around(t.dims(), a);
    let mut out = room(t.len())?;
    out.resize(t.len(), 0u32);
    let mut run: Vec<u32> = Vec::with_capacity(n);
    dispatch_real!(wide, T => {
        let values = t.data::<T>()?;
        for o in 0..outer {
            for i in 0..inner {
                let at = |k: u32| (o * n + k as usize) * inner + i;
                run.clear();
                run.extend(0..n as u32);
                run.sort_by(|x, y| rank(&values[at(*x)], &values[at(*y)], descending));
                for (k, from) in run.iter().enumerate() {
                    out[at(k as u32)] = *from;
                }
            }
        }
        Ok::<(), String>(())
    })?;
    Ok(out)
}

/// Ascending or descending, what has no order last.
fn rank<T: PartialOrd>(x: &T, y: &T, descending: bool) -> Ordering {
    match x.partial_cmp(y) {
        Some(order) if descending => order.reverse(),
        Some(order) => order,
        None => {
            let nan = |v: &T| v.partial_cmp(v).is_none();
            nan(x).cmp(&nan(y))
        }
    }
}

fn operands(call: &mut Call<'_>) -> OpResult<(Tensor, usize, bool)> {
    let descending = call.arg(2)?.int()? != 0;
    let t = call.arg(0)?.contiguous()?;
    let a = axis(call.arg(1)?.int()?, t.rank())?;
    Ok((t, a, descending))
}

fn argsort(call: &mut Call<'_>) -> OpResult<Tensor> {
    let to = call.declared()?.dtype;
    let (t, a, descending) = operands(call)?;
    cast(
        &Tensor::of(DType::U32, t.dims(), &order(&t, a, descending)?)?,
        to,
    )
}

fn sort(call: &mut Call<'_>) -> OpResult<Tensor> {
    let (t, a, descending) = operands(call)?;
    let order = order(&t, a, descending)?;
    let (_, n, inner) = around(t.dims(), a);
    let mut out = Tensor::alloc(t.dtype(), t.dims())?;
    by_size!(t.dtype().size(), T => {
        let from = t.data::<T>()?;
        for (i, o) in out.data_mut::<T>()?.iter_mut().enumerate() {
            *o = from[(i / (n * inner) * n + order[i] as usize) * inner + i % inner];
        }
    });
    Ok(out)
}

pub const OPS: &[(&str, Kernel)] = &[
    ("argsort", Kernel::One(argsort)),
    ("sort", Kernel::One(sort)),
];
