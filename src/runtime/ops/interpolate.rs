//! Values between grid points.

use super::cast::cast;
use super::{around, extent, Call, Kernel};
use crate::runtime::dtype::Class;
use crate::runtime::error::shape;
use crate::runtime::tensor::{row_major, Dims, OpResult, Tensor};
use crate::runtime::DType;

/// A place between two grid points: the points, and the weight of the upper.
fn between(coordinate: f64, n: usize, nearest: bool) -> (usize, usize, f64) {
    let last = n.saturating_sub(1);
    // NaN goes to the first point.
    let c = coordinate.max(0.0).min(last as f64);
    if nearest {
        let i = c.round_ties_even() as usize;
        return (i.min(last), i.min(last), 0.0);
    }
    let low = c.floor() as usize;
    (low, (low + 1).min(last), c - low as f64)
}

fn nearest(call: &Call<'_>) -> OpResult<bool> {
    match call.word("interpolation_mode")? {
        "linear" => Ok(false),
        "nearest_neighbor" => Ok(true),
        other => Err(format!("unknown mode {other}")),
    }
}

/// One dimension after the other: linear interpolation separates.
fn interpolate(call: &mut Call<'_>) -> OpResult<Tensor> {
    let nearest = nearest(call)?;
    let sizes: Dims = call
        .arg(1)?
        .ints()?
        .iter()
        .map(|v| extent(*v))
        .collect::<OpResult<_>>()?;
    let floats = |i: usize| -> OpResult<Vec<f32>> {
        Ok(cast(call.arg(i)?, DType::F32)?
            .contiguous()?
            .data::<f32>()?
            .to_vec())
    };
    let (scale, offset) = (floats(2)?, floats(3)?);
    let t = call.arg(0)?.clone();
    if [sizes.len(), scale.len(), offset.len()] != [t.rank(); 3] {
        return Err(format!("parameters do not fit shape {}", shape(t.dims())));
    }
    let own = t.dtype();
    if own.class() == Class::Complex {
        return Err(format!("is not defined for {own}"));
    }
    let mut t = cast(&t, DType::F64)?.contiguous()?;
    for a in 0..t.rank() {
        let n = t.dims()[a];
        if n == 0 && sizes[a] > 0 {
            return Err("nothing to interpolate between".into());
        }
        let places: Vec<(usize, usize, f64)> = (0..sizes[a])
            .map(|i| {
                let c = (i as f32 + 0.5 - offset[a]) / scale[a] - 0.5;
                between(f64::from(c), n, nearest)
            })
            .collect();
        let same = sizes[a] == n
            && places
                .iter()
                .enumerate()
                .all(|(i, (low, _, w))| *low == i && *w == 0.0);
        if same {
            continue;
        }
        let mut dims: Dims = t.dims().into();
        dims[a] = sizes[a];
        let mut out = Tensor::alloc(DType::F64, &dims)?;
        let (outer, _, inner) = around(&dims, a);
        let from = t.data::<f64>()?;
        let to = out.data_mut::<f64>()?;
        let mut at = 0;
        for o in 0..outer {
            for (low, high, w) in &places {
                for i in 0..inner {
                    let x = from[(o * n + low) * inner + i];
                    to[at] = if *w == 0.0 {
                        x
                    } else {
                        x * (1.0 - w) + from[(o * n + high) * inner + i] * w
                    };
                    at += 1;
                }
            }
        }
        t = out;
    }
    cast(&t, own)
}

fn interpolate_coordinates(call: &mut Call<'_>) -> OpResult<Tensor> {
    let nearest = nearest(call)?;
    let (t, points) = (call.arg(0)?, call.arg(1)?);
    let own = t.dtype();
    let k = t.rank();
    if points.rank() != 2 || points.dims()[1] != k || t.is_empty() || own.class() == Class::Complex
    {
        return Err(format!(
            "points of shape {} in {own} {}",
            shape(points.dims()),
            shape(t.dims())
        ));
    }
    if k > 16 {
        return Err(format!("interpolation in {k} dimensions"));
    }
    let steps = row_major(t.dims());
    let field = cast(t, DType::F64)?.contiguous()?;
    let points = cast(points, DType::F64)?.contiguous()?;
    let mut out = Tensor::alloc(DType::F64, &[points.dims()[0]])?;
    let from = field.data::<f64>()?;
    let coordinates = points.data::<f64>()?;
    for (i, o) in out.data_mut::<f64>()?.iter_mut().enumerate() {
        let places: Vec<_> = (0..k)
            .map(|d| between(coordinates[i * k + d], t.dims()[d], nearest))
            .collect();
        for corner in 0..1usize << k {
            let (mut weight, mut at) = (1.0, 0);
            for (d, (low, high, w)) in places.iter().enumerate() {
                let upper = corner >> d & 1 == 1;
                weight *= if upper { *w } else { 1.0 - w };
                at += if upper { *high } else { *low } * steps[d] as usize;
            }
            if weight != 0.0 {
                *o += weight * from[at];
            }
        }
    }
    cast(&out, own)
}

pub const OPS: &[(&str, Kernel)] = &[
    ("interpolate", Kernel::One(interpolate)),
    (
        "interpolate_coordinates",
        Kernel::One(interpolate_coordinates),
    ),
];
