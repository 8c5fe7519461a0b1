//! Matrix products with the heads of a cache, each read where it lies by every query head of its group.
//!
//! Made by the rewriting of programs (`rewrite/grouped.rs`), which says what the operands are.

use super::matmul::{products, room_for_matrices};
use crate::runtime::tensor::{OpResult, Tensor};
use crate::runtime::DType;

/// How the right side of a grouped product comes from the heads of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::runtime) struct Grouped {
    /// The two last dimensions are exchanged.
    pub transposed: bool,
    /// The result is broadcast to a shape.
    pub broadcast: bool,
    /// How often every head is repeated; `None` where indices pick the heads.
    pub times: Option<u32>,
}

impl Grouped {
    /// The form in which a program carries it.
    pub fn codes(self) -> [i32; 3] {
        let times = self.times.and_then(|n| i32::try_from(n).ok());
        [
            i32::from(self.transposed),
            i32::from(self.broadcast),
            times.unwrap_or(-1),
        ]
    }

    /// From that form.
    pub fn from_codes(codes: &[i64]) -> Option<Grouped> {
        let &[transposed, broadcast, times] = codes else {
            return None;
        };
        Some(Grouped {
            transposed: transposed != 0,
            broadcast: broadcast != 0,
            times: u32::try_from(times).ok(),
        })
    }
}

/// Heads of a cache where they lie: one matrix for each query head.
pub(super) struct Lying {
    /// Batch and query heads.
    pub outer: [usize; 2],
    /// Where each matrix starts in the memory of the cache.
    pub starts: Vec<usize>,
    /// Rows and columns of each.
    pub size: (usize, usize),
    /// Between rows, and between columns.
    pub steps: (isize, isize),
}

/// The right side of a grouped product, as `how` says; `None` where it does not lie in memory in a way this is
/// made for, or is none at all: then the ops of the program say why. `args` are the cache, the indices that pick
/// its heads and the shape it is broadcast to, where there are such, and what only the program needs.
pub(super) fn lying(how: &Tensor, args: &[Tensor]) -> OpResult<Option<Lying>> {
    let few = "internal: operands of a grouped product";
    let how = Grouped::from_codes(&how.ints()?).ok_or(few)?;
    let mut args = args.iter();
    let cache = args.next().ok_or(few)?;
    if cache.rank() != 4 || cache.strides().iter().any(|s| *s < 0) {
        return Ok(None);
    }
    let heads = match how.times {
        Some(times) => {
            let times = usize::try_from(times).map_err(|_| few)?;
            let mut heads = room_for_matrices(&[cache.dims()[1], times])?;
            let each = |h| std::iter::repeat_n(h, times);
            heads.extend((0..cache.dims()[1]).flat_map(each));
            heads
        }
        None => match picked(cache, args.next().ok_or(few)?)? {
            Some(heads) => heads,
            None => return Ok(None),
        },
    };
    let (t, d) = (cache.dims()[2], cache.dims()[3]);
    let (st, sd) = (cache.strides()[2], cache.strides()[3]);
    let (size, steps) = match how.transposed {
        true => ((d, t), (sd, st)),
        false => ((t, d), (st, sd)),
    };
    let outer = [cache.dims()[0], heads.len()];
    if how.broadcast {
        let target = args.next().ok_or(few)?.ints()?;
        let wanted = [outer[0], outer[1], size.0, size.1];
        if target.len() != 4 || !target.iter().zip(wanted).all(|(a, b)| *a == b as i64) {
            return Ok(None);
        }
    }
    let mut starts = room_for_matrices(&outer)?;
    for b in 0..outer[0] {
        for h in &heads {
            let at = b * cache.strides()[0] as usize + h * cache.strides()[1] as usize;
            starts.push(cache.offset() + at);
        }
    }
    Ok(Some(Lying {
        outer,
        starts,
        size,
        steps,
    }))
}

/// A product with heads of a cache, each read where it lies by every query head of its group; `None` where it
/// is to be computed op by op. The operands are those of [`lying`], with the left side behind the first.
pub(in crate::runtime) fn grouped_product(args: &[Tensor]) -> OpResult<Option<Tensor>> {
    let [how, a, args @ ..] = args else {
        return Err("internal: operands of a grouped product".into());
    };
    let Some(right) = lying(how, args)? else {
        return Ok(None);
    };
    let cache = &args[0];
    let fits = matches!(a.dtype(), DType::F32 | DType::F16 | DType::BF16)
        && a.dtype() == cache.dtype()
        && a.rank() == 4
        && a.dims()[..2] == right.outer
        && a.dims()[3] == right.size.0;
    if !fits {
        return Ok(None);
    }
    let dims = [right.outer[0], right.outer[1], a.dims()[2], right.size.1];
    products(a, &dims, cache, &right.starts, right.size, right.steps).map(Some)
}

/// The heads that indices pick, where they are the same list everywhere, and each takes a whole head and is
/// inside.
fn picked(cache: &Tensor, indices: &Tensor) -> OpResult<Option<Vec<usize>>> {
    let repeated = |i: usize| indices.dims()[i] == 1 || indices.strides()[i] == 0;
    let whole = |i: usize| indices.dims()[i] == cache.dims()[i];
    if indices.rank() != 4
        || ![0, 2, 3].iter().all(|i| repeated(*i) && whole(*i))
        || indices.is_empty()
    {
        return Ok(None);
    }
    let list = indices.view(
        [indices.dims()[1]].as_slice().into(),
        [indices.strides()[1]].as_slice().into(),
        indices.offset(),
    );
    let heads = list.ints()?.into_iter();
    let heads = heads.map(|i| super::gather::position(i, cache.dims()[1]).ok());
    Ok(heads.collect())
}
