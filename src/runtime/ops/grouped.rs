//! Matrix products with the heads of a cache, each read where it lies by every query head of its group.
//!
//! Made by the rewriting of programs (`rewrite/grouped.rs`), which says what the operands are.

use super::matmul::{products, room_for_matrices};
use super::{Call, Kernel};
use crate::runtime::error::shape;
use crate::runtime::tensor::{OpResult, Tensor};
use crate::runtime::DType;

/// How the right side of a grouped product comes from the heads of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::runtime) struct Grouped {
    /// The two last dimensions are exchanged.
    pub transposed: bool,
    /// Every head is repeated so many times; else the heads are picked by indices.
    pub tiled: bool,
    /// The result is broadcast to a shape.
    pub broadcast: bool,
}

impl Grouped {
    /// The form in which a program carries it.
    pub fn code(self) -> i32 {
        i32::from(self.transposed) | i32::from(self.tiled) << 1 | i32::from(self.broadcast) << 2
    }

    /// From that form.
    pub fn from_code(code: i64) -> Grouped {
        Grouped {
            transposed: code & 1 != 0,
            tiled: code & 2 != 0,
            broadcast: code & 4 != 0,
        }
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

/// The right side of a grouped product, where the heads can be read where they lie: of the cache, what
/// repeats its heads, how, and the shape it is broadcast to.
pub(super) fn lying(args: &[Tensor]) -> OpResult<Option<Lying>> {
    let [cache, repeat, how, target @ ..] = args else {
        return Err("too few operands".into());
    };
    let how = Grouped::from_code(how.int()?);
    if cache.rank() != 4 {
        return Err(format!("heads of shape {}", shape(cache.dims())));
    }
    let heads: Vec<usize> = if how.tiled {
        let times = usize::try_from(repeat.int()?).map_err(|_| "a negative count")?;
        let each = |h| std::iter::repeat_n(h, times);
        let mut heads = room_for_matrices(&[cache.dims()[1], times])?;
        heads.extend((0..cache.dims()[1]).flat_map(each));
        heads
    } else {
        match picked(cache, repeat)? {
            Some(heads) => heads,
            // Not one list of heads for all.
            None => return Ok(None),
        }
    };
    let (t, d) = (cache.dims()[2], cache.dims()[3]);
    let (st, sd) = (cache.strides()[2], cache.strides()[3]);
    let (size, steps) = match how.transposed {
        true => ((d, t), (sd, st)),
        false => ((t, d), (st, sd)),
    };
    let outer = [cache.dims()[0], heads.len()];
    if how.broadcast {
        let target = target.first().ok_or("too few operands")?.ints()?;
        let wanted = [outer[0], outer[1], size.0, size.1];
        if target.len() != 4 || !target.iter().zip(wanted).all(|(a, b)| *a == b as i64) {
            return Ok(None);
        }
    }
    if cache.strides().iter().any(|s| *s < 0) {
        return Ok(None);
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

/// A product with heads of a cache, each read where it lies by every query head of its group.
fn grouped(call: &mut Call<'_>) -> OpResult<Tensor> {
    let how = Grouped::from_code(call.arg(3)?.int()?);
    let (a, cache) = (call.arg(0)?, call.arg(1)?);
    let plain = matches!(a.dtype(), DType::F32 | DType::F16 | DType::BF16)
        && a.dtype() == cache.dtype()
        && a.rank() == 4;
    match lying(&call.args[1..])? {
        Some(right) if plain && a.dims()[..2] == right.outer && a.dims()[3] == right.size.0 => {
            let dims = [right.outer[0], right.outer[1], a.dims()[2], right.size.1];
            products(a, &dims, cache, &right.starts, right.size, right.steps)
        }
        // As the program says.
        _ => copied(call, how),
    }
}

/// The heads that indices pick, where they are the same list everywhere and each takes a whole head.
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
    let heads = heads.map(|i| super::gather::position(i, cache.dims()[1]));
    heads.collect::<OpResult<_>>().map(Some)
}

/// The same by the ops of the program.
fn copied(call: &mut Call<'_>, how: Grouped) -> OpResult<Tensor> {
    let (a, cache, repeat) = (call.take(0)?, call.take(1)?, call.take(2)?);
    let run = |name: &str, args: Vec<Tensor>| -> OpResult<Tensor> {
        let Some(Kernel::One(kernel)) = super::find(&format!("coreai.{name}")) else {
            return Err(format!("internal: no {name}"));
        };
        kernel(&mut Call {
            args: args.into(),
            attrs: call.attrs,
            results: &[],
        })
    };
    let ints = |values: &[i32]| Tensor::of(DType::I32, &[values.len()], values);
    let one = |value: i32| Tensor::of(DType::I32, &[], &[value]);
    let mut right = if how.tiled {
        let [b, h, t, d] = [0, 1, 2, 3].map(|i| cache.dims()[i]);
        let times = usize::try_from(repeat.int()?).map_err(|_| "a negative count")?;
        let wide = run("expand_dims", vec![cache, ints(&[2])?])?;
        let tiled = run(
            "tile",
            vec![wide, ints(&[1, 1, repeat.int()? as i32, 1, 1])?],
        )?;
        let strides = crate::runtime::tensor::row_major(&[b, h * times, t, d]);
        let tiled = tiled.contiguous()?;
        tiled.view(
            [b, h * times, t, d].as_slice().into(),
            strides,
            tiled.offset(),
        )
    } else {
        run("gather_along_axis", vec![cache, repeat, one(1)?])?
    };
    if how.transposed {
        right = run("transpose", vec![right, ints(&[0, 1, 3, 2])?])?;
    }
    if how.broadcast {
        let target = call.arg(4)?.clone();
        right = run("broadcast_to", vec![right, target])?;
    }
    run("broadcasting_batch_matmul", vec![a, right])
}

pub const OPS: &[(&str, Kernel)] = &[("grouped_product", Kernel::One(grouped))];
