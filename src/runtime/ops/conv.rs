//! Convolutions over any number of spatial dimensions.

use num_complex::Complex;

use super::binary;
use super::cast::cast;
use super::complex::{joined, part};
use super::matmul::plain;
use super::{extent, Call, Kernel};
use crate::runtime::dtype::Class;
use crate::runtime::error::shape;
use crate::runtime::tensor::{count, row_major, Dims, OpResult, Tensor};
use crate::runtime::DType;

/// Positive integers, one for each spatial dimension.
pub(super) fn extents(t: &Tensor, n: usize, least: usize, what: &str) -> OpResult<Vec<usize>> {
    let values: Vec<usize> = t
        .ints()?
        .iter()
        .map(|v| extent(*v))
        .collect::<OpResult<_>>()?;
    if values.len() != n || values.iter().any(|v| *v < least) {
        return Err(format!("{what} {values:?} for {n} dimensions"));
    }
    Ok(values)
}

/// The number of windows along each dimension.
pub(super) fn windows(
    dims: &[usize],
    kernel: &[usize],
    stride: &[usize],
    dilation: &[usize],
    ceil: bool,
) -> OpResult<Dims> {
    (0..dims.len())
        .map(|i| {
            let reach = kernel[i]
                .checked_sub(1)
                .and_then(|k| k.checked_mul(dilation[i]))
                .and_then(|k| dims[i].checked_sub(k)?.checked_sub(1));
            match reach {
                Some(free) if ceil => Ok(free.div_ceil(stride[i]) + 1),
                Some(free) => Ok(free / stride[i] + 1),
                None => Err(format!(
                    "a window of {} (dilation {}) does not fit a dimension of {}",
                    kernel[i], dilation[i], dims[i]
                )),
            }
        })
        .collect()
}

/// The coordinates of element `i` of a row-major shape.
pub fn unravel(mut i: usize, dims: &[usize], out: &mut [usize]) {
    for (o, d) in out.iter_mut().zip(dims).rev() {
        *o = i % d;
        i /= d;
    }
}

/// Operands both directions share.
struct Shapes {
    spatial: usize,
    groups: usize,
    wide: DType,
}

fn operands(call: &Call<'_>, spatial: usize, groups: usize) -> OpResult<Shapes> {
    let (x, w) = (call.arg(0)?, call.arg(1)?);
    let groups = extent(call.arg(groups)?.int()?)?;
    let fits = x.rank() == spatial + 2 && w.rank() == spatial + 2 && x.dtype() == w.dtype();
    let defined = matches!(x.dtype().class(), Class::Float | Class::Complex);
    if !fits || groups == 0 || !defined {
        return Err(format!(
            "{} {} with weights {} {} in {groups} groups",
            x.dtype(),
            shape(x.dims()),
            w.dtype(),
            shape(w.dims())
        ));
    }
    Ok(Shapes {
        spatial,
        groups,
        wide: match x.dtype() {
            DType::F64 | DType::C64 => x.dtype(),
            other if other.part().is_some() => DType::C32,
            _ => DType::F32,
        },
    })
}

fn conv(call: &mut Call<'_>, spatial: usize) -> OpResult<Tensor> {
    let s = operands(call, spatial, 4)?;
    let stride = extents(call.arg(2)?, spatial, 1, "strides")?;
    let dilation = extents(call.arg(3)?, spatial, 1, "dilations")?;
    let own = call.arg(0)?.dtype();
    let x = cast(call.arg(0)?, s.wide)?.contiguous()?;
    let w = cast(call.arg(1)?, s.wide)?.contiguous()?;
    if x.dims()[1] != w.dims()[1] * s.groups || w.dims()[0] % s.groups != 0 {
        return Err(format!(
            "{} channels with weights {} in {} groups",
            x.dims()[1],
            shape(w.dims()),
            s.groups
        ));
    }
    let out = match s.wide {
        DType::F64 => forward::<f64>(&x, &w, &s, &stride, &dilation)?,
        DType::F32 => forward::<f32>(&x, &w, &s, &stride, &dilation)?,
        _ => {
            let parts = |t: &Tensor| Ok::<_, String>((part(t, 0)?, part(t, 1)?));
            let ((xr, xi), (wr, wi)) = (parts(&x)?, parts(&w)?);
            let of = |x: &Tensor, w: &Tensor| -> OpResult<Tensor> {
                let s = Shapes {
                    wide: x.dtype(),
                    ..s
                };
                match s.wide {
                    DType::F64 => forward::<f64>(x, w, &s, &stride, &dilation),
                    _ => forward::<f32>(x, w, &s, &stride, &dilation),
                }
            };
            let re = binary::sub(&of(&xr, &wr)?, &of(&xi, &wi)?)?;
            let im = binary::add(&of(&xr, &wi)?, &of(&xi, &wr)?)?;
            joined(&re, &im, s.wide)?
        }
    };
    cast(&out, own)
}

/// By a matrix product over columns, one for each image and group.
fn forward<T: num_traits::Float + bytemuck::Pod>(
    x: &Tensor,
    w: &Tensor,
    s: &Shapes,
    stride: &[usize],
    dilation: &[usize],
) -> OpResult<Tensor> {
    let (image, kernel) = (&x.dims()[2..], &w.dims()[2..]);
    let places = windows(image, kernel, stride, dilation, false)?;
    let mut dims: Dims = [x.dims()[0], w.dims()[0]].into_iter().collect();
    dims.extend_from_slice(&places);
    let mut out = Tensor::alloc(s.wide, &dims)?;
    let (cin, cout) = (w.dims()[1], w.dims()[0] / s.groups);
    let (area, taps) = (count(image).unwrap_or(0), count(kernel).unwrap_or(0));
    let n = count(&places).unwrap_or(0);
    if out.is_empty() {
        return Ok(out);
    }
    let k = cin * taps;
    let mut columns = Tensor::alloc(s.wide, &[k, n])?;
    let (from, weights) = (x.data::<T>()?, w.data::<T>()?);
    let steps = row_major(image);
    let offset = |at: &[usize], tap: &[usize]| -> usize {
        (0..s.spatial)
            .map(|d| (at[d] * stride[d] + tap[d] * dilation[d]) * steps[d] as usize)
            .sum()
    };
    let origin = vec![0; s.spatial];
    let mut at = origin.clone();
    let bases: Vec<usize> = (0..n)
        .map(|i| {
            unravel(i, &places, &mut at);
            offset(&at, &origin)
        })
        .collect();
    let shifts: Vec<usize> = (0..taps)
        .map(|i| {
            unravel(i, kernel, &mut at);
            offset(&origin, &at)
        })
        .collect();
    let to = out.data_mut::<T>()?;
    for image in 0..x.dims()[0] {
        for g in 0..s.groups {
            let cols = columns.data_mut::<T>()?;
            for c in 0..cin {
                let plane = &from[((image * s.groups + g) * cin + c) * area..][..area];
                for (t, shift) in shifts.iter().enumerate() {
                    let row = &mut cols[(c * taps + t) * n..][..n];
                    for (o, base) in row.iter_mut().zip(&bases) {
                        *o = plane[base + shift];
                    }
                }
            }
            let first = (image * s.groups + g) * cout;
            let target = &mut to[first * n..(first + cout) * n];
            let own = &weights[g * cout * k..(g + 1) * cout * k];
            plain((cout, k, n), own, columns.data::<T>()?, target)?;
        }
    }
    Ok(out)
}

fn transposed(call: &mut Call<'_>, spatial: usize) -> OpResult<Tensor> {
    let s = operands(call, spatial, 6)?;
    let stride = extents(call.arg(2)?, spatial, 1, "strides")?;
    let padding = extents(call.arg(3)?, spatial, 0, "paddings")?;
    let dilation = extents(call.arg(4)?, spatial, 1, "dilations")?;
    let extra = extents(call.arg(5)?, spatial, 0, "output paddings")?;
    let own = call.arg(0)?.dtype();
    let x = cast(call.arg(0)?, s.wide)?.contiguous()?;
    let w = cast(call.arg(1)?, s.wide)?.contiguous()?;
    if x.dims()[1] != w.dims()[0] || x.dims()[1] % s.groups != 0 {
        return Err(format!(
            "{} channels with weights {} in {} groups",
            x.dims()[1],
            shape(w.dims()),
            s.groups
        ));
    }
    let mut dims: Dims = [x.dims()[0], w.dims()[1] * s.groups].into_iter().collect();
    for d in 0..spatial {
        let reach = |n: usize, step: usize| i64::try_from(n.saturating_sub(1).saturating_mul(step));
        let size = reach(x.dims()[d + 2], stride[d])
            .ok()
            .zip(reach(w.dims()[d + 2], dilation[d]).ok())
            .and_then(|(a, b)| a.checked_add(b)?.checked_add(extra[d] as i64 + 1))
            .and_then(|n| n.checked_sub(2 * padding[d] as i64))
            .ok_or("a result beyond all bounds")?;
        dims.push(extent(size)?);
    }
    let mut out = Tensor::alloc(s.wide, &dims)?;
    let steps = (&*stride, &*padding, &*dilation);
    match s.wide {
        DType::F64 => backward::<f64>(&x, &w, &s, steps, &mut out)?,
        DType::C32 => backward::<Complex<f32>>(&x, &w, &s, steps, &mut out)?,
        DType::C64 => backward::<Complex<f64>>(&x, &w, &s, steps, &mut out)?,
        _ => backward::<f32>(&x, &w, &s, steps, &mut out)?,
    }
    cast(&out, own)
}

/// Every input value adds to all places its kernel reaches.
fn backward<T: num_traits::Num + bytemuck::Pod>(
    x: &Tensor,
    w: &Tensor,
    s: &Shapes,
    (stride, padding, dilation): (&[usize], &[usize], &[usize]),
    out: &mut Tensor,
) -> OpResult<()> {
    let (image, kernel) = (x.dims()[2..].to_vec(), w.dims()[2..].to_vec());
    let target: Dims = out.dims()[2..].into();
    let (cin, cout) = (x.dims()[1] / s.groups, w.dims()[1]);
    let (area, taps, size) = (
        count(&image).unwrap_or(0),
        count(&kernel).unwrap_or(0),
        count(&target).unwrap_or(0),
    );
    let steps = row_major(&target);
    let (from, weights) = (x.data::<T>()?, w.data::<T>()?);
    let batch = x.dims()[0];
    let to = out.data_mut::<T>()?;
    let (mut at, mut tap) = (vec![0; s.spatial], vec![0; s.spatial]);
    for i in 0..area {
        unravel(i, &image, &mut at);
        for t in 0..taps {
            unravel(t, &kernel, &mut tap);
            let place = (0..s.spatial).try_fold(0usize, |sum, d| {
                let p = (at[d] * stride[d] + tap[d] * dilation[d]).checked_sub(padding[d])?;
                (p < target[d]).then_some(sum + p * steps[d] as usize)
            });
            let Some(place) = place else { continue };
            for b in 0..batch {
                for c in 0..cin * s.groups {
                    let value = from[(b * cin * s.groups + c) * area + i];
                    let first = (b * s.groups + c / cin.max(1)) * cout;
                    for o in 0..cout {
                        let p = (first + o) * size + place;
                        to[p] = to[p] + value * weights[(c * cout + o) * taps + t];
                    }
                }
            }
        }
    }
    Ok(())
}

pub const OPS: &[(&str, Kernel)] = &[
    ("conv2d", Kernel::One(|c| conv(c, 2))),
    ("conv3d", Kernel::One(|c| conv(c, 3))),
    ("conv_transpose2d", Kernel::One(|c| transposed(c, 2))),
    ("conv_transpose3d", Kernel::One(|c| transposed(c, 3))),
];
