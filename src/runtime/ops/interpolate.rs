//! Values between grid points.

use super::cast::cast;
use super::gather::by_size;
use super::{extent, Call, Kernel};
use crate::runtime::dtype::Class;
use crate::runtime::error::shape;
use crate::runtime::tensor::{row_major, Dims, OpResult, Tensor};
use crate::runtime::DType;

/// A place between two grid points: the points, and the weight of the upper. Outside the grid both are
/// its border, still with weights.
fn between(coordinate: f64, n: usize, nearest: bool) -> (usize, usize, f64) {
    let last = n.saturating_sub(1) as f64;
    // NaN goes to the first point.
    let inside = |c: f64| c.max(0.0).min(last);
    if nearest {
        let i = inside(inside(coordinate).round_ties_even()) as usize;
        return (i, i, 0.0);
    }
    let c = if coordinate.is_finite() {
        coordinate
    } else {
        inside(coordinate)
    };
    let low = c.floor();
    (inside(low) as usize, inside(low + 1.0) as usize, c - low)
}

fn nearest(call: &Call<'_>) -> OpResult<bool> {
    match call.word("interpolation_mode")? {
        "linear" => Ok(false),
        "nearest_neighbor" => Ok(true),
        other => Err(format!("unknown mode {other}")),
    }
}

/// An element has two corners for each dimension, all of which are held at once.
const MAX_DIMENSIONS: usize = 16;

/// Where the elements along a dimension come from: two offsets, and the weight of the second.
type Places = Vec<(usize, usize, f32)>;

/// The corners around an element, over the given dimensions: offsets and weights, those of the first
/// dimension changing fastest.
fn corners(places: &[&(usize, usize, f32)], nearest: bool, out: &mut Vec<(usize, f32)>) {
    out.clear();
    out.push((0, 1.0));
    for (low, high, w) in places {
        let n = out.len();
        if !nearest {
            out.extend_from_within(..);
        }
        for (i, (at, weight)) in out.iter_mut().enumerate() {
            let upper = i >= n;
            *at += if upper { *high } else { *low };
            if !nearest {
                *weight *= if upper { *w } else { 1.0 - w };
            }
        }
    }
}

/// Weights are single, and corners are added one after the other: the last digit decides how the result is
/// rounded to its type. A corner of weight zero counts if it is NaN or infinity: 0 times those is NaN.
///
/// All dimensions have corners, also the ones that keep their size. PyTorch interpolates behind the first two
/// alone, and its first elements have a second corner; what an asset means is what Core AI's interpreter does.
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
    let wide = wide(own, nearest);
    let t = cast(&t, wide)?.contiguous()?;
    let mut out = Tensor::alloc(wide, &sizes)?;
    if out.is_empty() {
        return cast(&out, own);
    }
    if t.is_empty() {
        return Err("nothing to interpolate between".into());
    }
    let steps = row_major(t.dims());
    // A dimension that stays as it is needs one corner.
    let mut same = Vec::with_capacity(t.rank());
    let mut places: Vec<Places> = Vec::with_capacity(t.rank());
    for a in 0..t.rank() {
        let (n, step) = (t.dims()[a], steps[a] as usize);
        let along = (0..sizes[a]).map(|i| {
            let c = (i as f32 + 0.5 - offset[a]) / scale[a] - 0.5;
            between(f64::from(c), n, nearest)
        });
        let along: Vec<(usize, usize, f64)> = along.collect();
        let kept = |(i, (low, _, w)): (usize, &(usize, usize, f64))| *low == i && *w == 0.0;
        same.push(sizes[a] == n && along.iter().enumerate().all(kept));
        let offsets = along
            .iter()
            .map(|(l, h, w)| (l * step, h * step, *w as f32));
        places.push(offsets.collect());
    }
    if same.iter().filter(|s| !**s).count() > MAX_DIMENSIONS {
        return Err(format!(
            "interpolation along more than {MAX_DIMENSIONS} dimensions"
        ));
    }
    let grid = Grid {
        dims: t.dims(),
        steps: &steps,
        sizes: &sizes,
        places: &places,
        same: &same,
        nearest,
    };
    match wide {
        _ if nearest => by_size!(own.size(), T => grid.pick::<T>(t.data()?, out.data_mut()?)),
        DType::F64 => grid.mix::<f64>(t.data()?, out.data_mut()?)?,
        _ => grid.mix::<f32>(t.data()?, out.data_mut()?)?,
    }
    cast(&out, own)
}

/// What values are kept in: what only moves stays as it is.
fn wide(own: DType, nearest: bool) -> DType {
    match own {
        _ if nearest => own,
        DType::F64 | DType::I64 | DType::U64 => DType::F64,
        _ => DType::F32,
    }
}

/// Where all elements come from.
struct Grid<'a> {
    dims: &'a [usize],
    /// From an element to the next along a dimension.
    steps: &'a [isize],
    sizes: &'a [usize],
    places: &'a [Places],
    /// The dimensions that stay as they are.
    same: &'a [bool],
    nearest: bool,
}

impl Grid<'_> {
    /// Each element is the nearest one.
    fn pick<T: Copy>(&self, from: &[T], to: &mut [T]) {
        self.each(from, to, |base, around, (low, _, _)| {
            from[base + around[0].0 + low]
        });
    }

    /// Each element is what lies between its corners.
    fn mix<T: num_traits::Float>(&self, from: &[T], to: &mut [T]) -> OpResult<()> {
        if from.iter().all(|v| v.is_finite()) {
            self.add_up(from, to);
            return Ok(());
        }
        let mut all = Vec::new();
        all.try_reserve_exact(from.len())
            .map_err(|_| "no memory for the values".to_string())?;
        all.extend_from_slice(from);
        self.weigh_nothing(&mut all);
        self.add_up(&all, to);
        Ok(())
    }

    /// Makes NaN of every element with a second corner, of weight zero, that is not finite.
    ///
    /// That is all those corners do, so nothing has to add up twice as many for each dimension that stays.
    fn weigh_nothing<T: num_traits::Float>(&self, all: &mut [T]) {
        let kept = (0..self.dims.len()).filter(|d| self.same[*d]);
        for (n, step) in kept.map(|d| (self.dims[d], self.steps[d] as usize)) {
            for i in 0..all.len() {
                // At the border the corners are one.
                let inside = (i / step) % n + 1 < n;
                let high = if inside { i + step } else { i };
                // What is behind has not been changed for this dimension yet.
                if !all[high].is_finite() {
                    all[i] = T::nan();
                }
            }
        }
    }

    /// The corners of each element, times their weights.
    fn add_up<T: num_traits::Float>(&self, from: &[T], to: &mut [T]) {
        let whole = self.same.last() == Some(&true);
        self.each(from, to, |base, around, (low, high, w)| {
            let sum = |at: usize, w: f32, start: T| {
                around.iter().fold(start, |sum, (corner, weight)| {
                    sum + from[base + corner + at] * number(weight * w)
                })
            };
            match whole {
                true => sum(*low, 1.0, T::zero()),
                false => sum(*high, *w, sum(*low, 1.0 - w, T::zero())),
            }
        });
    }

    /// Writes `value` of each element: where the dimensions that stay put it, its corners over the others but
    /// the last, its place along the last.
    fn each<T: Copy>(
        &self,
        from: &[T],
        to: &mut [T],
        value: impl Fn(usize, &[(usize, f32)], &(usize, usize, f32)) -> T,
    ) {
        let (sizes, places) = (self.sizes, self.places);
        let Some(last) = sizes.len().checked_sub(1) else {
            to.copy_from_slice(from);
            return;
        };
        let mut index: Dims = sizes.iter().map(|_| 0).collect();
        let (mut around, mut outer) = (Vec::new(), Vec::with_capacity(last));
        for row in to.chunks_exact_mut(sizes[last]) {
            let mut base = 0;
            outer.clear();
            for d in 0..last {
                let place = &places[d][index[d]];
                if self.same[d] {
                    base += place.0;
                } else {
                    outer.push(place);
                }
            }
            corners(&outer, self.nearest, &mut around);
            for (o, place) in row.iter_mut().zip(&places[last]) {
                *o = value(base, &around, place);
            }
            for d in (0..last).rev() {
                index[d] += 1;
                if index[d] < sizes[d] {
                    break;
                }
                index[d] = 0;
            }
        }
    }
}

/// A weight as a number of the values' type.
fn number<T: num_traits::Float>(weight: f32) -> T {
    T::from(weight).unwrap_or_else(T::nan)
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
    if k > MAX_DIMENSIONS {
        return Err(format!(
            "interpolation along more than {MAX_DIMENSIONS} dimensions"
        ));
    }
    let steps = row_major(t.dims());
    // Between points the reference knows nothing wider than single precision.
    let wide = if nearest { own } else { DType::F32 };
    let field = cast(t, wide)?.contiguous()?;
    let points = cast(points, DType::F64)?.contiguous()?;
    let mut out = Tensor::alloc(wide, &[points.dims()[0]])?;
    let coordinates = points.data::<f64>()?;
    let (mut places, mut around) = (Vec::with_capacity(k), Vec::new());
    for i in 0..points.dims()[0] {
        places.clear();
        for d in 0..k {
            let (low, high, w) = between(coordinates[i * k + d], t.dims()[d], nearest);
            let step = steps[d] as usize;
            places.push((low * step, high * step, w as f32));
        }
        let all: Vec<&(usize, usize, f32)> = places.iter().collect();
        corners(&all, nearest, &mut around);
        if nearest {
            by_size!(own.size(), T => out.data_mut::<T>()?[i] = field.data::<T>()?[around[0].0]);
            continue;
        }
        let from = field.data::<f32>()?;
        let corners = around.iter();
        out.data_mut::<f32>()?[i] = corners.fold(0.0, |sum, (at, w)| sum + from[*at] * w);
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
