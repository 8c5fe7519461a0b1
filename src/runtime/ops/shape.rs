//! Shapes: computed, and put on values that stay where they are.

use smallvec::SmallVec;

use super::cast::cast;
use super::{axes, axis, broadcast_dims, broadcast_view, extent, Call, Kernel};
use crate::runtime::error::shape;
use crate::runtime::tensor::{count, row_major, Dims, OpResult, Strides, Tensor};
use crate::runtime::DType;

fn get_shape(call: &mut Call<'_>) -> OpResult<Tensor> {
    let to = call.declared()?.dtype;
    let dims: Vec<i64> = call.arg(0)?.dims().iter().map(|d| *d as i64).collect();
    cast(&Tensor::of(DType::I64, &[dims.len()], &dims)?, to)
}

fn broadcast_shapes(call: &mut Call<'_>) -> OpResult<Tensor> {
    let to = call.declared()?.dtype;
    let read =
        |i: usize| -> OpResult<Dims> { call.arg(i)?.ints()?.iter().map(|d| extent(*d)).collect() };
    let dims = broadcast_dims(&read(0)?, &read(1)?)?;
    let dims: Vec<i64> = dims.iter().map(|d| *d as i64).collect();
    cast(&Tensor::of(DType::I64, &[dims.len()], &dims)?, to)
}

fn reshape(call: &mut Call<'_>) -> OpResult<Tensor> {
    let wanted = call.arg(1)?.ints()?;
    let t = call.take(0)?;
    let have = t.len();
    let mut free = None;
    let mut dims = Dims::new();
    for (i, d) in wanted.iter().enumerate() {
        if *d == -1 && free.is_none() {
            free = Some(i);
            dims.push(1);
        } else {
            dims.push(extent(*d)?);
        }
    }
    let rest = count(&dims);
    if let (Some(i), Some(rest)) = (free, rest) {
        if rest != 0 && have % rest == 0 {
            dims[i] = have / rest;
        } else if rest == 0 && have == 0 {
            dims[i] = 0;
        }
    }
    if count(&dims) != Some(have) {
        return Err(format!(
            "{} elements of shape {} do not make {}",
            have,
            shape(t.dims()),
            format_args!("{wanted:?}")
        ));
    }
    let t = t.contiguous()?;
    let strides = row_major(&dims);
    Ok(t.view(dims, strides, t.offset()))
}

fn expand_dims(call: &mut Call<'_>) -> OpResult<Tensor> {
    let wanted = call.arg(1)?.ints()?;
    let t = call.take(0)?;
    let rank = t.rank() + wanted.len();
    let new = axes(&wanted, rank)?;
    let (mut dims, mut strides) = (Dims::new(), Strides::new());
    let mut old = t.dims().iter().zip(t.strides());
    for i in 0..rank {
        if new.contains(&i) {
            dims.push(1);
            strides.push(0);
        } else if let Some((d, s)) = old.next() {
            dims.push(*d);
            strides.push(*s);
        }
    }
    Ok(t.view(dims, strides, t.offset()))
}

fn shrink_dims(call: &mut Call<'_>) -> OpResult<Tensor> {
    let wanted = call.arg(1)?.ints()?;
    let t = call.take(0)?;
    let gone = axes(&wanted, t.rank())?;
    if let Some(a) = gone.iter().find(|a| t.dims()[**a] != 1) {
        return Err(format!(
            "dimension {a} of shape {} is to be removed and is not 1",
            shape(t.dims())
        ));
    }
    let kept: SmallVec<[usize; 6]> = (0..t.rank()).filter(|i| !gone.contains(i)).collect();
    let dims = kept.iter().map(|i| t.dims()[*i]).collect();
    let strides = kept.iter().map(|i| t.strides()[*i]).collect();
    Ok(t.view(dims, strides, t.offset()))
}

fn broadcast_to(call: &mut Call<'_>) -> OpResult<Tensor> {
    let dims: Dims = call
        .arg(1)?
        .ints()?
        .iter()
        .map(|d| extent(*d))
        .collect::<OpResult<_>>()?;
    let t = call.take(0)?;
    broadcast_view(&t, &dims)
}

fn broadcast_in_dims(call: &mut Call<'_>) -> OpResult<Tensor> {
    let sizes = call.arg(1)?.ints()?;
    let wanted = call.arg(2)?.ints()?;
    let t = call.take(0)?;
    if sizes.len() != wanted.len() {
        return Err(format!("{} sizes for {} axes", sizes.len(), wanted.len()));
    }
    let mut dims: Dims = t.dims().into();
    for (size, a) in sizes.iter().zip(&wanted) {
        let (a, size) = (axis(*a, t.rank())?, extent(*size)?);
        if t.dims()[a] != 1 && t.dims()[a] != size {
            return Err(format!(
                "dimension {a} of shape {} cannot become {size}",
                shape(t.dims())
            ));
        }
        dims[a] = size;
    }
    broadcast_view(&t, &dims)
}

fn transpose(call: &mut Call<'_>) -> OpResult<Tensor> {
    let order = call.arg(1)?.ints()?;
    let t = call.take(0)?;
    if order.len() != t.rank() {
        return Err(format!(
            "a permutation of {} for shape {}",
            order.len(),
            shape(t.dims())
        ));
    }
    let order: SmallVec<[usize; 6]> = order
        .iter()
        .map(|a| axis(*a, t.rank()))
        .collect::<OpResult<_>>()?;
    axes(
        &order.iter().map(|a| *a as i64).collect::<Vec<_>>(),
        t.rank(),
    )?;
    let dims = order.iter().map(|i| t.dims()[*i]).collect();
    let strides = order.iter().map(|i| t.strides()[*i]).collect();
    Ok(t.view(dims, strides, t.offset()))
}

pub const OPS: &[(&str, Kernel)] = &[
    ("broadcast_in_dims", Kernel::One(broadcast_in_dims)),
    ("broadcast_shapes", Kernel::One(broadcast_shapes)),
    ("broadcast_to", Kernel::One(broadcast_to)),
    ("expand_dims", Kernel::One(expand_dims)),
    ("get_shape", Kernel::One(get_shape)),
    ("reshape", Kernel::One(reshape)),
    ("shrink_dims", Kernel::One(shrink_dims)),
    ("transpose", Kernel::One(transpose)),
];
