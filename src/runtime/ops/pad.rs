//! Borders around a tensor.

use super::gather::by_size;
use super::{extent, Call, Kernel};
use crate::runtime::error::shape;
use crate::runtime::tensor::{rows, Dims, OpResult, Tensor};

/// Where element `i` of a padded dimension comes from; `None` for the padding value.
fn source(i: i64, n: i64, mode: &str) -> OpResult<Option<i64>> {
    if (0..n).contains(&i) {
        return Ok(Some(i));
    }
    let from = match mode {
        "constant" => return Ok(None),
        "replicate" => i.clamp(0, n - 1),
        "reflect" if i < 0 => -i,
        "reflect" => 2 * (n - 1) - i,
        "symmetric" if i < 0 => -i - 1,
        "symmetric" => 2 * n - 1 - i,
        "circular" if i < 0 => i + n,
        "circular" => i - n,
        other => return Err(format!("unknown mode {other}")),
    };
    if (0..n).contains(&from) {
        Ok(Some(from))
    } else {
        Err(format!(
            "a {mode} border wider than a dimension of {n} allows"
        ))
    }
}

fn pad(call: &mut Call<'_>) -> OpResult<Tensor> {
    let amounts = call.arg(1)?.ints()?;
    let mode = call.word("padding_mode")?.to_string();
    let (t, value) = (call.arg(0)?.contiguous()?, call.arg(2)?.contiguous()?);
    if amounts.len() != 2 * t.rank() {
        return Err(format!(
            "{} amounts for shape {}",
            amounts.len(),
            shape(t.dims())
        ));
    }
    if value.dtype() != t.dtype() || value.len() != 1 {
        return Err(format!("a value of {} for {}", value.dtype(), t.dtype()));
    }
    let mut dims = Dims::new();
    for (i, pair) in amounts.chunks_exact(2).enumerate() {
        let size = (t.dims()[i] as i64)
            .checked_add(pair[0])
            .and_then(|n| n.checked_add(pair[1]))
            .ok_or("an amount beyond all bounds")?;
        dims.push(extent(size)?);
    }
    let mut out = Tensor::alloc(t.dtype(), &dims)?;
    // Where each index of each dimension comes from, once.
    let mut maps: Vec<Vec<Option<usize>>> = Vec::new();
    for (i, n) in dims.iter().enumerate() {
        let (have, before) = (t.dims()[i] as i64, amounts[2 * i]);
        let map = (0..*n as i64).map(|j| Ok(source(j - before, have, &mode)?.map(|v| v as usize)));
        maps.push(map.collect::<OpResult<_>>()?);
    }
    by_size!(t.dtype().size(), T => {
        let fill = value.data::<T>()?[0];
        let from = t.data::<T>()?;
        let to = out.data_mut::<T>()?;
        if t.rank() == 0 {
            to.copy_from_slice(from);
            return Ok(out);
        }
        let mut index: Dims = dims.iter().map(|_| 0).collect();
        let mut at = 0;
        let none: Vec<isize> = vec![0; dims.len()];
        let last = dims.len() - 1;
        rows(&dims, [&none], |_, n, _| {
            let base = (0..last).try_fold(0usize, |a, d| {
                maps[d][index[d]].map(|i| (a + i) * t.dims()[d + 1])
            });
            for (o, i) in to[at..at + n].iter_mut().zip(&maps[last]) {
                *o = match (base, i) {
                    (Some(b), Some(i)) => from[b + i],
                    _ => fill,
                };
            }
            at += n;
            for d in (0..last).rev() {
                index[d] += 1;
                if index[d] < dims[d] {
                    break;
                }
                index[d] = 0;
            }
        });
    });
    Ok(out)
}

pub const OPS: &[(&str, Kernel)] = &[("pad", Kernel::One(pad))];
