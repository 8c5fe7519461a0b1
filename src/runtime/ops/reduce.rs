//! Many values along some axes to one.

use super::cast::cast;
use super::scalar::{dispatch, Combiner, Scalar};
use super::unary::{compute_type, narrow};
use super::{axes, axis, Call, Kernel};
use crate::runtime::dtype::Class;
use crate::runtime::tensor::{Dims, OpResult, Strides, Tensor};
use crate::runtime::DType;

/// `t` with the axes last and row-major, the number of values per result, and the result's shape.
fn arranged(t: &Tensor, axes: &[usize]) -> OpResult<(Tensor, usize, Dims)> {
    let kept = (0..t.rank()).filter(|i| !axes.contains(i));
    let order: Vec<usize> = kept.chain(axes.iter().copied()).collect();
    let dims: Dims = order.iter().map(|i| t.dims()[*i]).collect();
    let strides: Strides = order.iter().map(|i| t.strides()[*i]).collect();
    let mut out: Dims = t.dims().into();
    let mut n = 1;
    for a in axes {
        n *= t.dims()[*a];
        out[*a] = 1;
    }
    Ok((t.view(dims, strides, t.offset()).contiguous()?, n, out))
}

/// Sums and products in blocks, so that rounding errors grow slowly; the rest one after the other.
fn fold<T: Scalar>(how: Combiner, init: T::Wide, row: &[T]) -> T::Wide {
    let mut acc = init;
    for block in row.chunks(128) {
        if how == Combiner::Add && row.len() > 128 {
            let part = block
                .iter()
                .fold(T::zero(), |a, v| T::combine(how, a, v.widen()));
            acc = T::combine(how, acc, part);
        } else {
            acc = block.iter().fold(acc, |a, v| T::combine(how, a, v.widen()));
        }
    }
    acc
}

/// Reduces with a known combination, starting from `init` (a rank-0 tensor of the same type).
pub fn reduce_with(t: &Tensor, wanted: &[i64], init: &Tensor, how: Combiner) -> OpResult<Tensor> {
    if init.dtype() != t.dtype() || init.len() != 1 {
        return Err(format!(
            "an initial value of {} for {}",
            init.dtype(),
            t.dtype()
        ));
    }
    let (own, wide) = (t.dtype(), compute_type(t.dtype()));
    how.check(wide)?;
    let how = how.of(own);
    let (t, init) = (cast(t, wide)?, cast(init, wide)?.contiguous()?);
    let axes = axes(wanted, t.rank())?;
    let (t, n, dims) = arranged(&t, &axes)?;
    let out = dispatch!(wide, T => {
        let first = init.data::<T>()?[0].widen();
        reduce_rows::<T>(&t, n, &dims, |row| T::narrow(fold::<T>(how, first, row)))
    })?;
    narrow(out, own)
}

fn reduce_rows<T: Scalar>(
    t: &Tensor,
    n: usize,
    dims: &[usize],
    f: impl Fn(&[T]) -> T,
) -> OpResult<Tensor> {
    let mut out = Tensor::unset(t.dtype(), dims)?;
    let from = t.data::<T>()?;
    let to = out.data_mut::<T>()?;
    if n == 0 {
        to.fill(f(&[]));
        return Ok(out);
    }
    for (o, row) in to.iter_mut().zip(from.chunks_exact(n)) {
        *o = f(row);
    }
    Ok(out)
}

fn reduce_axes(call: &mut Call<'_>, how: Combiner, mean: bool) -> OpResult<Tensor> {
    let wanted = call.arg(1)?.ints()?;
    let t = call.take(0)?;
    let (own, wide) = (t.dtype(), compute_type(t.dtype()));
    if mean && !matches!(wide.class(), Class::Float | Class::Complex) {
        return Err(format!("a mean of {own}"));
    }
    if own == DType::Bool && !matches!(how, Combiner::Max | Combiner::Min) {
        return Err(format!("is not defined for {own}"));
    }
    how.check(wide)?;
    let t = cast(&t, wide)?;
    let axes = axes(&wanted, t.rank())?;
    let (t, n, dims) = arranged(&t, &axes)?;
    let out = dispatch!(wide, T => {
        let init = match how {
            Combiner::Mul => T::one(),
            Combiner::Max => T::lowest(),
            Combiner::Min => T::highest(),
            _ => T::zero(),
        };
        let count = count::<T>(n);
        reduce_rows::<T>(&t, n, &dims, |row| {
            let all = fold::<T>(how, init, row);
            T::narrow(if mean { T::combine(Combiner::Div, all, count) } else { all })
        })
    })?;
    narrow(out, own)
}

/// `n` as a number, by doubling.
fn count<T: Scalar>(n: usize) -> T::Wide {
    let (mut value, mut power) = (T::zero(), T::one());
    let mut left = n;
    while left > 0 {
        if left & 1 == 1 {
            value = T::combine(Combiner::Add, value, power);
        }
        power = T::combine(Combiner::Add, power, power);
        left >>= 1;
    }
    value
}

/// The position of the largest value: the first of equals; NaN never wins.
fn argmax(call: &mut Call<'_>) -> OpResult<Tensor> {
    let to = call.declared()?.dtype;
    let t = call.take(0)?;
    let a = axis(call.arg(1)?.int()?, t.rank())?;
    let wide = compute_type(t.dtype());
    if wide.class() == Class::Complex {
        return Err(format!("is not defined for {}", t.dtype()));
    }
    let (t, n, dims) = arranged(&cast(&t, wide)?, &[a])?;
    let mut out = Tensor::alloc(DType::I64, &dims)?;
    if n == 0 && !out.is_empty() {
        return Err("the largest of no values".into());
    }
    dispatch!(wide, T => {
        let from = t.data::<T>()?;
        let rows = from.chunks_exact(n.max(1));
        for (o, row) in out.data_mut::<i64>()?.iter_mut().zip(rows) {
            let mut best = T::lowest();
            for (i, v) in row.iter().enumerate() {
                let v = v.widen();
                let higher = T::combine(Combiner::Max, best, v);
                // NaN is not equal to itself, and equal values do not replace the first.
                if higher == v && v != best {
                    best = v;
                    *o = i as i64;
                }
            }
        }
        Ok::<(), String>(())
    })?;
    cast(&out, to)
}

pub const OPS: &[(&str, Kernel)] = &[
    ("argmax", Kernel::One(argmax)),
    (
        "reduce_max",
        Kernel::One(|c| reduce_axes(c, Combiner::Max, false)),
    ),
    (
        "reduce_mean",
        Kernel::One(|c| reduce_axes(c, Combiner::Add, true)),
    ),
    (
        "reduce_min",
        Kernel::One(|c| reduce_axes(c, Combiner::Min, false)),
    ),
    (
        "reduce_product",
        Kernel::One(|c| reduce_axes(c, Combiner::Mul, false)),
    ),
    (
        "reduce_sum",
        Kernel::One(|c| reduce_axes(c, Combiner::Add, false)),
    ),
];
