//! Parts of a tensor, read and written.

use super::{Call, Kernel};
use crate::runtime::error::shape;
use crate::runtime::tensor::{rows, Dims, OpResult, Strides, Tensor};

/// What a slice of `dims` covers: first element, extents, and steps per dimension.
struct Region {
    starts: Vec<i64>,
    steps: Vec<i64>,
    dims: Dims,
}

/// Bounds wrap once, then are clamped.
fn resolve(dims: &[usize], start: &[i64], end: &[i64], step: &[i64]) -> OpResult<Region> {
    let rank = dims.len();
    if start.len() != rank || end.len() != rank || step.len() != rank {
        return Err(format!(
            "{} starts, {} ends and {} steps for shape {}",
            start.len(),
            end.len(),
            step.len(),
            shape(dims)
        ));
    }
    let mut region = Region {
        starts: Vec::with_capacity(rank),
        steps: step.to_vec(),
        dims: Dims::new(),
    };
    for i in 0..rank {
        let (n, s) = (dims[i] as i64, step[i]);
        let wrap = |v: i64, low: i64| if v < low { v.saturating_add(n) } else { v };
        let (from, to) = match s {
            0 => return Err(format!("a step of 0 along dimension {i}")),
            1.. => (wrap(start[i], 0).clamp(0, n), wrap(end[i], 0).clamp(0, n)),
            _ if n == 0 => (0, 0),
            _ => (
                wrap(start[i], 0).clamp(0, n - 1),
                wrap(end[i], -1).clamp(-1, n - 1),
            ),
        };
        let span = if s > 0 { to - from } else { from - to };
        let size = u64::try_from(span).unwrap_or(0).div_ceil(s.unsigned_abs());
        region.starts.push(from);
        region.dims.push(size as usize);
    }
    Ok(region)
}

impl Region {
    /// The view of `t` the region covers.
    fn view(&self, strides: &[isize], offset: usize) -> (Strides, usize) {
        if self.dims.contains(&0) {
            return (strides.into(), 0);
        }
        let mut at = offset as isize;
        let mut steps = Strides::new();
        for (i, s) in strides.iter().enumerate() {
            at += self.starts[i] as isize * s;
            // A single element needs no step, and a wild one would overflow.
            steps.push(if self.dims[i] == 1 {
                0
            } else {
                self.steps[i] as isize * s
            });
        }
        (steps, at as usize)
    }
}

fn slice(call: &mut Call<'_>) -> OpResult<Tensor> {
    let (start, end, step) = (
        call.arg(1)?.ints()?,
        call.arg(2)?.ints()?,
        call.arg(3)?.ints()?,
    );
    let t = call.take(0)?;
    let mut region = resolve(t.dims(), &start, &end, &step)?;
    // For steps back to a constant end before the first element the writer derives an element too few, and the
    // reference yields what is declared.
    if let Ok(declared) = call.declared() {
        for (i, extent) in declared.dims.iter().enumerate().take(region.dims.len()) {
            let extent = extent.and_then(|e| usize::try_from(e).ok());
            let fewer = extent.filter(|e| region.steps[i] < 0 && *e < region.dims[i]);
            region.dims[i] = fewer.unwrap_or(region.dims[i]);
        }
    }
    let (strides, offset) = region.view(t.strides(), t.offset());
    Ok(t.view(region.dims, strides, offset))
}

/// Writes in place where nobody else holds the values. Of an update larger than what clamping has left of
/// the region (a position behind the end), the reference writes the leading part; so does this.
fn slice_update(call: &mut Call<'_>) -> OpResult<Tensor> {
    let (start, end, step) = (
        call.arg(1)?.ints()?,
        call.arg(2)?.ints()?,
        call.arg(3)?.ints()?,
    );
    let (mut t, update) = (call.take(0)?, call.take(4)?);
    let region = resolve(t.dims(), &start, &end, &step)?;
    if t.dtype() != update.dtype() || t.rank() != update.rank() {
        return Err(format!(
            "an update of {} {} for {} {}",
            update.dtype(),
            shape(update.dims()),
            t.dtype(),
            shape(t.dims())
        ));
    }
    if region.dims.contains(&0) {
        return Ok(t);
    }
    if region.dims.iter().zip(update.dims()).any(|(r, u)| r > u) {
        return Err(format!(
            "an update of shape {} for a region of shape {}",
            shape(update.dims()),
            shape(&region.dims)
        ));
    }
    t.make_unique()?;
    let (strides, offset) = region.view(t.strides(), t.offset());
    match t.dtype().size() {
        1 => write::<u8>(&mut t, &region.dims, &strides, offset, &update)?,
        2 => write::<u16>(&mut t, &region.dims, &strides, offset, &update)?,
        4 => write::<u32>(&mut t, &region.dims, &strides, offset, &update)?,
        8 => write::<u64>(&mut t, &region.dims, &strides, offset, &update)?,
        _ => write::<[u64; 2]>(&mut t, &region.dims, &strides, offset, &update)?,
    }
    Ok(t)
}

fn write<T: bytemuck::Pod>(
    t: &mut Tensor,
    dims: &[usize],
    strides: &[isize],
    offset: usize,
    update: &Tensor,
) -> OpResult<()> {
    // `data_mut` starts at the tensor's own offset.
    let base = offset as isize - t.offset() as isize;
    let from = update.memory::<T>()?;
    let first = update.offset() as isize;
    let to = t.data_mut::<T>()?;
    rows(dims, [strides, update.strides()], |[i, j], n, [s, u]| {
        let (i, j) = (base + i, first + j);
        if s == 1 && u == 1 {
            let (i, j) = (i as usize, j as usize);
            to[i..i + n].copy_from_slice(&from[j..j + n]);
            return;
        }
        for k in 0..n as isize {
            to[(i + k * s) as usize] = from[(j + k * u) as usize];
        }
    });
    Ok(())
}

pub const OPS: &[(&str, Kernel)] = &[
    ("slice", Kernel::One(slice)),
    ("slice_update", Kernel::One(slice_update)),
];
