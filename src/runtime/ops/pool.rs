//! Maxima and sums over windows.

use super::cast::cast;
use super::conv::{extents, unravel, windows};
use super::scalar::{dispatch, Combiner, Scalar};
use super::unary::{compute_type, narrow};
use super::{Call, Kernel};
use crate::runtime::error::shape;
use crate::runtime::tensor::{count, row_major, Dims, OpResult, Tensor};

fn pool(call: &mut Call<'_>, spatial: usize, how: Combiner) -> OpResult<Tensor> {
    let kernel = extents(call.arg(1)?, spatial, 1, "windows")?;
    let stride = extents(call.arg(2)?, spatial, 1, "strides")?;
    let dilation = extents(call.arg(3)?, spatial, 1, "dilations")?;
    let ceil = call.args.len() > 4 && call.arg(4)?.int()? != 0;
    let t = call.take(0)?;
    if t.rank() != spatial + 2 {
        return Err(format!("is not defined for shape {}", shape(t.dims())));
    }
    let (own, wide) = (t.dtype(), compute_type(t.dtype()));
    how.check(wide)?;
    let how = how.of(own);
    let t = cast(&t, wide)?.contiguous()?;
    let image: Dims = t.dims()[2..].into();
    let places = windows(&image, &kernel, &stride, &dilation, ceil)?;
    let mut dims: Dims = t.dims()[..2].into();
    dims.extend_from_slice(&places);
    let mut out = Tensor::alloc(wide, &dims)?;
    if out.is_empty() {
        return narrow(out, own);
    }
    let (area, taps) = (count(&image).unwrap_or(0), count(&kernel).unwrap_or(0));
    let n = count(&places).unwrap_or(0);
    let steps = row_major(&image);
    dispatch!(wide, T => {
        let from = t.data::<T>()?;
        let init = if how == Combiner::Max { T::lowest() } else { T::zero() };
        let (mut at, mut tap) = (vec![0; spatial], vec![0; spatial]);
        let to = out.data_mut::<T>()?;
        for (plane, target) in from.chunks_exact(area).zip(to.chunks_exact_mut(n)) {
            for (i, o) in target.iter_mut().enumerate() {
                unravel(i, &places, &mut at);
                let mut acc = init;
                for k in 0..taps {
                    unravel(k, &kernel, &mut tap);
                    let place = (0..spatial).try_fold(0usize, |sum, d| {
                        let p = at[d] * stride[d] + tap[d] * dilation[d];
                        (p < image[d]).then_some(sum + p * steps[d] as usize)
                    });
                    if let Some(p) = place {
                        acc = T::combine(how, acc, plane[p].widen());
                    }
                }
                *o = T::narrow(acc);
            }
        }
        Ok::<(), String>(())
    })?;
    narrow(out, own)
}

pub const OPS: &[(&str, Kernel)] = &[
    ("max_pool_2d", Kernel::One(|c| pool(c, 2, Combiner::Max))),
    ("max_pool_3d", Kernel::One(|c| pool(c, 3, Combiner::Max))),
    ("sum_pool_2d", Kernel::One(|c| pool(c, 2, Combiner::Add))),
    ("sum_pool_3d", Kernel::One(|c| pool(c, 3, Combiner::Add))),
];
