//! Compressed weights: tables, blocks and bitmasks back to plain tensors.

use half::{bf16, f16};

use super::cast::cast;
use super::gather::by_size;
use super::{Call, Declared, Kernel, Sparse, Val};
use crate::runtime::dtype::Class;
use crate::runtime::error::shape;
use crate::runtime::tensor::{row_major, Dims, OpResult, Tensor};
use crate::runtime::DType;

/// Extents of the blocks that make `dims` out of `blocks`.
fn block_sizes(dims: &[usize], blocks: &[usize]) -> OpResult<Dims> {
    let fits = dims.len() == blocks.len()
        && dims
            .iter()
            .zip(blocks)
            .all(|(d, b)| if *b == 0 { *d == 0 } else { d % b == 0 });
    if !fits {
        return Err(format!(
            "blocks of shape {} in shape {}",
            shape(blocks),
            shape(dims)
        ));
    }
    Ok(dims
        .iter()
        .zip(blocks)
        .map(|(d, b)| (d / (*b).max(1)).max(1))
        .collect())
}

/// Calls `f(element, block)` for every element in order.
fn each(dims: &[usize], sizes: &[usize], blocks: &[usize], mut f: impl FnMut(usize, usize)) {
    let steps = row_major(blocks);
    let Some((last, outer)) = dims.split_last() else {
        f(0, 0);
        return;
    };
    let rows = outer.iter().product::<usize>();
    let mut index: Dims = outer.iter().map(|_| 0).collect();
    for r in 0..rows {
        let base: usize = (0..outer.len())
            .map(|d| index[d] / sizes[d] * steps[d] as usize)
            .sum();
        let size = sizes[outer.len()];
        for i in 0..*last {
            f(r * last + i, base + i / size);
        }
        for d in (0..outer.len()).rev() {
            index[d] += 1;
            if index[d] < outer[d] {
                break;
            }
            index[d] = 0;
        }
    }
}

/// `(data - offset1) * scale + offset2`, rounded as the reference rounds where that is defined, in
/// single precision otherwise.
fn blockwise_shift_scale(call: &mut Call<'_>) -> OpResult<Tensor> {
    let (data, scale, first, second) = (call.arg(0)?, call.arg(1)?, call.arg(2)?, call.arg(3)?);
    let to = second.dtype();
    if scale.dims() != first.dims()
        || scale.dims() != second.dims()
        || first.dtype() != data.dtype()
    {
        return Err(format!(
            "scale {} {}, offsets {} {} and {} {}",
            scale.dtype(),
            shape(scale.dims()),
            first.dtype(),
            shape(first.dims()),
            to,
            shape(second.dims())
        ));
    }
    if !matches!(data.dtype().class(), Class::Int { .. } | Class::Float)
        || to.class() != Class::Float
    {
        return Err(format!("is not defined for {} to {to}", data.dtype()));
    }
    let blocks: Dims = match scale.rank() {
        // One for all.
        0 => data.dims().iter().map(|_| 1).collect(),
        _ => scale.dims().into(),
    };
    let sizes = block_sizes(data.dims(), &blocks)?;
    let round: fn(f32) -> f32 = match to {
        DType::F16 => |v| f16::from_f32(v).to_f32(),
        DType::BF16 => |v| bf16::from_f32(v).to_f32(),
        _ => |v| v,
    };
    let f32s = |t: &Tensor| cast(t, DType::F32)?.contiguous();
    let (data, scale, first, second) = (f32s(data)?, f32s(scale)?, f32s(first)?, f32s(second)?);
    let mut out = Tensor::alloc(DType::F32, data.dims())?;
    let (values, scales) = (data.data::<f32>()?, scale.data::<f32>()?);
    let (firsts, seconds) = (first.data::<f32>()?, second.data::<f32>()?);
    let own = out.data_mut::<f32>()?;
    each(data.dims(), &sizes, &blocks, |i, b| {
        own[i] = round((values[i] - firsts[b]) * scales[b]) + seconds[b];
    });
    cast(&out, to)
}

/// Vectors out of a table, one table for each block of indices.
fn lut_to_dense(call: &mut Call<'_>) -> OpResult<Tensor> {
    let (indices, lut) = (call.arg(0)?.contiguous()?, call.arg(1)?.contiguous()?);
    let a = call.arg(2)?.int()?;
    let k = indices.rank();
    let misfit = || {
        format!(
            "a table {} for indices {}",
            shape(lut.dims()),
            shape(indices.dims())
        )
    };
    if lut.rank() != k + 2 {
        return Err(misfit());
    }
    let (entries, width) = (lut.dims()[k], lut.dims()[k + 1]);
    let a = match usize::try_from(a) {
        Ok(a) if a < k => a,
        _ if width == 1 => 0,
        _ => return Err(format!("axis {a} of indices {}", shape(indices.dims()))),
    };
    let blocks: Dims = lut.dims()[..k].into();
    let sizes = block_sizes(indices.dims(), &blocks)?;
    let codes = indices.ints()?;
    if codes.iter().any(|c| *c < 0 || *c >= entries as i64) {
        return Err(format!("an index beyond a table of {entries}"));
    }
    let mut dims: Dims = indices.dims().into();
    let inner: usize = if k == 0 {
        1
    } else {
        dims[a + 1..].iter().product()
    };
    if k > 0 {
        dims[a] = dims[a].saturating_mul(width);
    } else if width != 1 {
        return Err(misfit());
    }
    let mut out = Tensor::alloc(lut.dtype(), &dims)?;
    by_size!(lut.dtype().size(), T => {
        let table = lut.data::<T>()?;
        let to = out.data_mut::<T>()?;
        each(indices.dims(), &sizes, &blocks, |i, b| {
            let entry = &table[(b * entries + codes[i] as usize) * width..][..width];
            let place = i / inner * inner * width + i % inner;
            for (j, v) in entry.iter().enumerate() {
                to[place + j * inner] = *v;
            }
        });
    });
    Ok(out)
}

fn tensor(values: &[Val], i: usize) -> OpResult<&Tensor> {
    match values.get(i) {
        Some(Val::Tensor(t)) => Ok(t),
        _ => Err("expected a tensor".into()),
    }
}

fn sparse(values: &[Val]) -> OpResult<&Sparse> {
    match values.first() {
        Some(Val::Sparse(s)) => Ok(s),
        _ => Err("expected a sparse tensor".into()),
    }
}

fn build_sparse(values: &[Val], _: &[Option<Declared>]) -> OpResult<Val> {
    let (stored, mask) = (
        tensor(values, 0)?.contiguous()?,
        tensor(values, 1)?.contiguous()?,
    );
    let set = mask.ints()?.iter().filter(|b| **b != 0).count();
    if stored.rank() != 1 || stored.len() != set {
        return Err(format!(
            "{} stored values for {set} set bits",
            shape(stored.dims())
        ));
    }
    Ok(Val::Sparse(Box::new(Sparse {
        values: stored,
        mask,
    })))
}

fn sparse_to_dense(values: &[Val], _: &[Option<Declared>]) -> OpResult<Val> {
    let s = sparse(values)?;
    let mut out = Tensor::alloc(s.values.dtype(), s.mask.dims())?;
    by_size!(s.values.dtype().size(), T => {
        let mut stored = s.values.data::<T>()?.iter();
        let places = out.data_mut::<T>()?.iter_mut().zip(s.mask.data::<u8>()?);
        for (o, _) in places.filter(|(_, b)| **b != 0) {
            *o = *stored.next().ok_or("fewer stored values than set bits")?;
        }
    });
    Ok(Val::Tensor(out))
}

fn lut_to_sparse(values: &[Val], _: &[Option<Declared>]) -> OpResult<Val> {
    let s = sparse(values)?;
    let lut = tensor(values, 1)?;
    let scalar = lut.len()
        == lut
            .dims()
            .get(lut.rank().wrapping_sub(2))
            .copied()
            .unwrap_or(0);
    if !scalar {
        return Err(format!("a table {} for a sparse tensor", shape(lut.dims())));
    }
    let table = lut.contiguous()?;
    let codes = s.values.ints()?;
    let mut out = Tensor::alloc(lut.dtype(), &[codes.len()])?;
    by_size!(lut.dtype().size(), T => {
        let table = table.data::<T>()?;
        for (o, c) in out.data_mut::<T>()?.iter_mut().zip(&codes) {
            *o = *usize::try_from(*c)
                .ok()
                .and_then(|c| table.get(c))
                .ok_or_else(|| format!("index {c} beyond a table of {}", table.len()))?;
        }
    });
    Ok(Val::Sparse(Box::new(Sparse {
        values: out,
        mask: s.mask.clone(),
    })))
}

pub const OPS: &[(&str, Kernel)] = &[
    ("blockwise_shift_scale", Kernel::One(blockwise_shift_scale)),
    ("build_sparse_with_bitmask", Kernel::Values(build_sparse)),
    ("lut_to_dense", Kernel::One(lut_to_dense)),
    ("lut_to_sparse_with_bitmask", Kernel::Values(lut_to_sparse)),
    (
        "sparse_with_bitmask_to_dense",
        Kernel::Values(sparse_to_dense),
    ),
];
