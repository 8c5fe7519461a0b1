//! Values put in another place: joined, cut, repeated, mirrored.

use smallvec::smallvec;

use super::{around, axes, axis, bounded, extent, Call, Kernel};
use crate::runtime::error::shape;
use crate::runtime::tensor::{row_major, Dims, OpResult, Strides, Tensor};

fn concat(call: &mut Call<'_>) -> OpResult<Tensor> {
    // Single numbers count as lists of one.
    let part = |t: &Tensor| -> OpResult<Tensor> {
        match t.rank() {
            0 => Ok(t.view(smallvec![1], smallvec![1], t.offset())),
            _ => t.contiguous(),
        }
    };
    let parts: Vec<Tensor> = call
        .args
        .iter()
        .skip(1)
        .map(part)
        .collect::<OpResult<_>>()?;
    let first = parts.first().ok_or("nothing to join")?;
    let (dtype, rank) = (first.dtype(), first.rank());
    let a = axis(call.arg(0)?.int()?, rank)?;
    let mut dims: Dims = first.dims().into();
    dims[a] = 0;
    for part in &parts {
        let fits = part.rank() == rank
            && part.dtype() == dtype
            && (0..rank).all(|i| i == a || part.dims()[i] == dims[i]);
        if !fits {
            return Err(format!(
                "{} of {} does not join {} of {dtype} along dimension {a}",
                shape(part.dims()),
                part.dtype(),
                shape(parts[0].dims())
            ));
        }
        dims[a] = dims[a].saturating_add(part.dims()[a]);
    }
    let mut out = Tensor::unset(dtype, &dims)?;
    let (outer, _, inner) = around(&dims, a);
    let row = dims[a] * inner * dtype.size();
    let to = out.data_mut::<u8>()?;
    let mut at = 0;
    for part in &parts {
        let bytes = part.bytes();
        let n = part.dims()[a] * inner * dtype.size();
        if n == 0 {
            continue;
        }
        for (o, from) in (0..outer).zip(bytes.chunks_exact(n)) {
            to[o * row + at..o * row + at + n].copy_from_slice(from);
        }
        at += n;
    }
    Ok(out)
}

fn split(call: &mut Call<'_>) -> OpResult<Vec<Tensor>> {
    let t = call.take(0)?;
    let a = axis(call.arg(2)?.int()?, t.rank())?;
    let total = t.dims()[a];
    let wanted = call.arg(1)?;
    let sizes: Vec<usize> = if wanted.rank() == 0 {
        let size = extent(wanted.int()?)?;
        if size == 0 {
            return Err("a split into pieces of 0".into());
        }
        let whole = total / size;
        if whole > call.results.len() {
            return Err(format!("{whole} pieces for {} results", call.results.len()));
        }
        let rest = (total % size > 0).then_some(total % size);
        std::iter::repeat_n(size, whole).chain(rest).collect()
    } else {
        wanted
            .ints()?
            .iter()
            .map(|s| extent(*s))
            .collect::<OpResult<_>>()?
    };
    let sum = sizes.iter().try_fold(0usize, |n, s| n.checked_add(*s));
    if sum != Some(total) || sizes.len() != call.results.len() {
        return Err(format!(
            "sections {sizes:?} of a dimension of {total} for {} results",
            call.results.len()
        ));
    }
    let mut at = 0;
    Ok(sizes
        .iter()
        .map(|size| {
            let mut dims: Dims = t.dims().into();
            dims[a] = *size;
            let offset = t.offset() as isize + at as isize * t.strides()[a];
            at += size;
            let offset = if *size == 0 { 0 } else { offset as usize };
            t.view(dims, t.strides().into(), offset)
        })
        .collect())
}

fn tile(call: &mut Call<'_>) -> OpResult<Tensor> {
    let times = call.arg(1)?.ints()?;
    let t = call.take(0)?;
    let Some(missing) = t.rank().checked_sub(times.len()) else {
        return Err(format!(
            "{} repetitions for shape {}",
            times.len(),
            shape(t.dims())
        ));
    };
    let (mut wide, mut strides, mut dims) = (Dims::new(), Strides::new(), Dims::new());
    for i in 0..t.rank() {
        let n = match i.checked_sub(missing) {
            Some(j) => extent(times[j])?,
            None => 1,
        };
        wide.extend([n, t.dims()[i]]);
        strides.extend([0, t.strides()[i]]);
        dims.push(n.saturating_mul(t.dims()[i]));
    }
    bounded(&wide)?;
    let out = t.view(wide, strides, t.offset()).contiguous()?;
    let strides = row_major(&dims);
    Ok(out.view(dims, strides, out.offset()))
}

fn reverse(call: &mut Call<'_>) -> OpResult<Tensor> {
    let wanted = call.arg(1)?.ints()?;
    let t = call.take(0)?;
    let which = axes(&wanted, t.rank())?;
    if t.is_empty() {
        return Ok(t);
    }
    let mut strides: Strides = t.strides().into();
    let mut offset = t.offset() as isize;
    for a in which {
        offset += (t.dims()[a] as isize - 1) * strides[a];
        strides[a] = -strides[a];
    }
    Ok(t.view(t.dims().into(), strides, offset as usize))
}

pub const OPS: &[(&str, Kernel)] = &[
    ("concat", Kernel::One(concat)),
    ("reverse", Kernel::One(reverse)),
    ("split", Kernel::Many(split)),
    ("tile", Kernel::One(tile)),
];
