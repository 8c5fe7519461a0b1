//! Values picked by index, and the places of values that are not zero.

use bytemuck::Pod;

use super::cast::cast;
use super::{axis, Call, Kernel};
use crate::runtime::error::shape;
use crate::runtime::tensor::{count, room, row_major, Dims, OpResult, Tensor};
use crate::runtime::DType;

/// An index in `-n..n` as a position.
pub(super) fn position(index: i64, n: usize) -> OpResult<usize> {
    let wrapped = if index < 0 { index + n as i64 } else { index };
    match usize::try_from(wrapped) {
        Ok(i) if i < n => Ok(i),
        _ => Err(format!("index {index} is outside a dimension of {n}")),
    }
}

/// Runs `$e` with `$T` an unsigned stand-in of the element's size.
macro_rules! by_size {
    ($size:expr, $T:ident => $e:expr) => {
        match $size {
            1 => { type $T = u8; $e }
            2 => { type $T = u16; $e }
            4 => { type $T = u32; $e }
            8 => { type $T = u64; $e }
            _ => { type $T = [u64; 2]; $e }
        }
    };
}
pub(super) use by_size;

/// The element offsets `indices` (rows of `q`) address in a row-major tensor of shape `dims`.
pub(super) fn places(dims: &[usize], indices: &Tensor) -> OpResult<(Vec<usize>, usize)> {
    let Some((q, _)) = indices.dims().split_last() else {
        return Err("indices of rank 0".into());
    };
    let q = *q;
    if q > dims.len() {
        return Err(format!("{q} indices into shape {}", shape(dims)));
    }
    let strides = row_major(dims);
    let values = indices.ints()?;
    let inner = dims[q..].iter().product();
    let rows = count(&indices.dims()[..indices.rank() - 1]).unwrap_or(0);
    if q == 0 {
        let mut first = room(rows)?;
        first.resize(rows, 0);
        return Ok((first, inner));
    }
    let mut out = room(rows)?;
    for row in values.chunks_exact(q) {
        let mut at = 0;
        for (i, index) in row.iter().enumerate() {
            at += position(*index, dims[i])? * strides[i] as usize;
        }
        out.push(at);
    }
    Ok((out, inner))
}

fn gather_nd(call: &mut Call<'_>) -> OpResult<Tensor> {
    let (t, indices) = (call.arg(0)?.contiguous()?, call.arg(1)?.contiguous()?);
    let (at, inner) = places(t.dims(), &indices)?;
    let q = indices.dims()[indices.rank() - 1];
    let mut dims: Dims = indices.dims()[..indices.rank() - 1].into();
    dims.extend_from_slice(&t.dims()[q..]);
    let mut out = Tensor::alloc(t.dtype(), &dims)?;
    if out.is_empty() {
        return Ok(out);
    }
    by_size!(t.dtype().size(), T => {
        let from = t.data::<T>()?;
        for (o, a) in out.data_mut::<T>()?.chunks_exact_mut(inner).zip(&at) {
            o.copy_from_slice(&from[*a..*a + inner]);
        }
    });
    Ok(out)
}

fn gather_along_axis(call: &mut Call<'_>) -> OpResult<Tensor> {
    let (t, indices) = (call.take(0)?, call.take(1)?);
    let a = axis(call.arg(2)?.int()?, t.rank())?;
    let t = reached(&t, &indices, a)?.contiguous()?;
    let mut out = Tensor::alloc(t.dtype(), indices.dims())?;
    if out.is_empty() {
        return Ok(out);
    }
    // One list of indices for all: whole rows are picked (heads repeated for grouped queries).
    let repeated = |i: usize| i == a || indices.dims()[i] == 1 || indices.strides()[i] == 0;
    if (0..indices.rank()).all(repeated) {
        let list = indices.view(
            [indices.dims()[a]].as_slice().into(),
            [indices.strides()[a]].as_slice().into(),
            indices.offset(),
        );
        by_size!(t.dtype().size(), T => pick_rows::<T>(&t, &list, a, &mut out)?);
        return Ok(out);
    }
    let indices = indices.contiguous()?;
    by_size!(t.dtype().size(), T => pick::<T>(&t, &indices, a, &mut out)?);
    Ok(out)
}

fn pick_rows<T: Pod>(t: &Tensor, list: &Tensor, a: usize, out: &mut Tensor) -> OpResult<()> {
    let n = t.dims()[a];
    let inner: usize = t.dims()[a + 1..].iter().product();
    let list = list.ints()?;
    let rows = list.iter().map(|i| position(*i, n));
    let rows: Vec<usize> = rows.collect::<OpResult<_>>()?;
    let from = t.data::<T>()?;
    let to = out.data_mut::<T>()?;
    for (i, o) in to.chunks_exact_mut(inner).enumerate() {
        let at = (i / rows.len() * n + rows[i % rows.len()]) * inner;
        o.copy_from_slice(&from[at..at + inner]);
    }
    Ok(())
}

fn pick<T: Pod>(t: &Tensor, indices: &Tensor, a: usize, out: &mut Tensor) -> OpResult<()> {
    let (n, m) = (t.dims()[a], indices.dims()[a]);
    let inner: usize = t.dims()[a + 1..].iter().product();
    let from = t.data::<T>()?;
    let to = out.data_mut::<T>()?;
    for (i, index) in indices.ints()?.iter().enumerate() {
        let outer = i / (m * inner);
        to[i] = from[(outer * n + position(*index, n)?) * inner + i % inner];
    }
    Ok(())
}

/// The part of a tensor that indices along an axis reach: elsewhere they may be fewer than its elements.
pub(super) fn reached(t: &Tensor, indices: &Tensor, a: usize) -> OpResult<Tensor> {
    let fits = t.rank() == indices.rank()
        && (0..t.rank()).all(|i| i == a || t.dims()[i] >= indices.dims()[i]);
    if !fits {
        return Err(format!(
            "indices of shape {} for shape {} along dimension {a}",
            shape(indices.dims()),
            shape(t.dims())
        ));
    }
    let mut dims: Dims = indices.dims().into();
    dims[a] = t.dims()[a];
    Ok(t.view(dims, t.strides().into(), t.offset()))
}

fn non_zero(call: &mut Call<'_>) -> OpResult<Tensor> {
    let to = call.declared()?.dtype;
    let t = cast(call.arg(0)?, DType::Bool)?.contiguous()?;
    let strides = row_major(t.dims());
    let mut found = Vec::new();
    let mut rows = 0;
    for (i, _) in t.data::<u8>()?.iter().enumerate().filter(|(_, v)| **v != 0) {
        rows += 1;
        for (d, s) in t.dims().iter().zip(&strides) {
            found.push((i / *s as usize % d) as i64);
        }
    }
    cast(&Tensor::of(DType::I64, &[rows, t.rank()], &found)?, to)
}

pub const OPS: &[(&str, Kernel)] = &[
    ("gather_along_axis", Kernel::One(gather_along_axis)),
    ("gather_nd", Kernel::One(gather_nd)),
    ("non_zero", Kernel::One(non_zero)),
];
