//! Attention: scores, mask, softmax and the sum of values for a few rows at a time, so that the scores of
//! all rows are never in memory together. Keys and values are read where they lie in the cache.

use bytemuck::Pod;
use half::{bf16, f16};
use rayon::prelude::*;

use super::binary::widen_row;
use super::cast::cast;
use super::dot::{Stored, SLICE};
use super::grouped::lying;
use super::matmul::{batches, product, threads, Matrix};
use super::{broadcast_view, softmax};
use crate::runtime::tensor::{sized, Dims, OpResult, Tensor};
use crate::runtime::DType;

/// Rows whose scores are in memory together.
const ROWS: usize = 32;

/// What the operands behind the first are, in this order: the queries; keys; the mask, if there is one;
/// the shapes the scores are brought to before the softmax, and the shares behind it; values.
///
/// Keys and values are one operand, the right side of a product, or those of a grouped product without its left
/// side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtime) struct Layout {
    /// How many operands are keys.
    pub keys: usize,
    /// Whether there is a mask.
    pub mask: bool,
    /// Shapes before the softmax.
    pub before: usize,
    /// Shapes behind it.
    pub after: usize,
    /// How many operands are values.
    pub values: usize,
}

impl Layout {
    /// The form in which a program carries it.
    pub fn codes(self) -> [i32; 5] {
        let mask = usize::from(self.mask);
        [self.keys, mask, self.before, self.after, self.values].map(|n| n as i32)
    }

    fn from_codes(codes: &[i64]) -> Option<Layout> {
        let &[keys, mask, before, after, values] = codes else {
            return None;
        };
        let count = |n: i64| usize::try_from(n).ok();
        Some(Layout {
            keys: count(keys)?,
            mask: mask != 0,
            before: count(before)?,
            after: count(after)?,
            values: count(values)?,
        })
    }
}

/// Keys or values: for each query head a matrix with a row for each position of the cache.
struct Side<'a> {
    tensor: &'a Tensor,
    starts: Vec<usize>,
    rows: usize,
    cols: usize,
    row_step: usize,
    col_step: usize,
}

/// The keys (the transposed right side of a product) or values (the right side) for these query heads;
/// `None` where they do not lie in memory in a way this is made for.
fn side<'a>(outer: &[usize], args: &'a [Tensor], keys: bool) -> OpResult<Option<Side<'a>>> {
    let (tensor, starts, size, steps) = match args {
        [right] => {
            let rank = right.rank();
            if rank < 2 {
                return Ok(None);
            }
            let mut dims: Dims = outer.into();
            dims.extend_from_slice(&right.dims()[rank - 2..]);
            let Ok(view) = broadcast_view(right, &dims) else {
                return Ok(None);
            };
            let n = dims.len();
            if view.strides().iter().any(|s| *s < 0) {
                return Ok(None);
            }
            let steps = (view.strides()[n - 2], view.strides()[n - 1]);
            (right, batches(&view)?, (dims[n - 2], dims[n - 1]), steps)
        }
        [how, args @ ..] => match lying(how, args)? {
            Some(found) if found.outer == outer => {
                (&args[0], found.starts, found.size, found.steps)
            }
            _ => return Ok(None),
        },
        [] => return Ok(None),
    };
    // An extent of one has no step to speak of.
    let step = |count: usize, step: isize| if count == 1 { 1 } else { step as usize };
    let (rs, cs) = (step(size.0, steps.0), step(size.1, steps.1));
    Ok(Some(match keys {
        true => Side {
            tensor,
            starts,
            rows: size.1,
            cols: size.0,
            row_step: cs,
            col_step: rs,
        },
        false => Side {
            tensor,
            starts,
            rows: size.0,
            cols: size.1,
            row_step: rs,
            col_step: cs,
        },
    }))
}

/// The attention the operands ask for; `None` where it is to be computed op by op.
pub(in crate::runtime) fn attention(args: &[Tensor]) -> OpResult<Option<Tensor>> {
    let few = "internal: operands of attention";
    let (layout, rest) = args.split_first().ok_or(few)?;
    let layout = Layout::from_codes(&layout.ints()?).ok_or(few)?;
    let mut rest = rest.iter();
    let mut take = |n: usize| -> OpResult<&[Tensor]> {
        let all = rest.as_slice();
        let taken = all.get(..n).ok_or(few)?;
        rest = all[n..].iter();
        Ok(taken)
    };
    let (queries, keys) = (&take(1)?[0], take(layout.keys)?);
    let mask = take(usize::from(layout.mask))?.first();
    let (before, after) = (take(layout.before)?, take(layout.after)?);
    let values = take(layout.values)?;

    let own = queries.dtype();
    let rank = queries.rank();
    let other_mask = mask.is_some_and(|m| m.dtype() != own);
    if other_mask || rank < 2 || !matches!(own, DType::F32 | DType::F16 | DType::BF16) {
        return Ok(None);
    }
    let (outer, m) = (&queries.dims()[..rank - 2], queries.dims()[rank - 2]);
    let Some(keys) = side(outer, keys, true)? else {
        return Ok(None);
    };
    let mut shape: Dims = queries.dims().into();
    shape[rank - 1] = keys.rows;
    let mask = match mask.map(|m| broadcast_view(m, &shape)) {
        None => None,
        Some(Ok(view)) => Some(view),
        Some(Err(_)) => return Ok(None),
    };
    for target in before {
        if !is_shape(target, &shape)? {
            return Ok(None);
        }
    }
    for target in after {
        if !is_shape(target, &shape)? {
            // The heads of all batches may become one dimension.
            let merged: usize = outer.iter().product();
            shape = [merged, m, keys.rows].as_slice().into();
            if !is_shape(target, &shape)? {
                return Ok(None);
            }
        }
    }
    let heads = shape.len() - 2;
    let Some(values) = side(&shape[..heads], values, false)? else {
        return Ok(None);
    };
    let fits = [&keys, &values]
        .iter()
        .all(|side| side.tensor.dtype() == own)
        && keys.cols == queries.dims()[rank - 1]
        && values.rows == keys.rows
        && keys.starts.len() == values.starts.len();
    shape[heads + 1] = values.cols;
    let mut out = Tensor::alloc(DType::F32, &shape)?;
    if !fits || out.is_empty() || keys.rows == 0 || keys.cols == 0 {
        return Ok(None);
    }
    let wide = cast(queries, DType::F32)?.contiguous()?;
    let step = Step {
        queries: wide.data()?,
        m,
        keys,
        mask,
        values,
    };
    let out_values = out.data_mut()?;
    match own {
        DType::F16 => step.run::<f16>(out_values)?,
        DType::BF16 => step.run::<bf16>(out_values)?,
        _ => step.run::<f32>(out_values)?,
    }
    cast(&out, own).map(Some)
}

fn is_shape(target: &Tensor, shape: &[usize]) -> OpResult<bool> {
    let target = target.ints()?;
    Ok(target.len() == shape.len() && target.iter().zip(shape).all(|(a, b)| *a == *b as i64))
}

/// One attention whose operands are known to fit.
struct Step<'a> {
    /// Contiguous, in single precision.
    queries: &'a [f32],
    m: usize,
    keys: Side<'a>,
    /// Under the shape of the scores.
    mask: Option<Tensor>,
    values: Side<'a>,
}

impl Step<'_> {
    /// Writes the sums of all heads, in single precision.
    fn run<T: Stored>(&self, out: &mut [f32]) -> OpResult<()> {
        let masks = self.mask.as_ref().map(batches).transpose()?;
        let each = |memory: &mut Memory, (i, out): (usize, &mut [f32])| {
            self.head::<T>(i, masks.as_deref(), memory, out)
        };
        let work = [self.keys.cols, self.m, self.keys.starts.len()]
            .into_iter()
            .fold(self.keys.rows, usize::saturating_mul);
        let one = self.m * self.values.cols;
        match threads(work) {
            gemm::Parallelism::Rayon(_) => out
                .par_chunks_exact_mut(one)
                .enumerate()
                .try_for_each_init(Memory::default, each),
            gemm::Parallelism::None => {
                let mut memory = Memory::default();
                let mut heads = out.chunks_exact_mut(one).enumerate();
                heads.try_for_each(|head| each(&mut memory, head))
            }
        }
    }

    fn head<T: Stored>(
        &self,
        i: usize,
        masks: Option<&[usize]>,
        memory: &mut Memory,
        out: &mut [f32],
    ) -> OpResult<()> {
        let (t, d, n) = (self.keys.rows, self.keys.cols, self.values.cols);
        // For one row, keys and values are read once; for several they are converted once.
        let single = self.m == 1 && self.keys.col_step == 1 && self.values.col_step == 1;
        let (keys, values) = match single {
            true => (Vec::new(), Vec::new()),
            false => (panel::<T>(&self.keys, i)?, panel::<T>(&self.values, i)?),
        };
        let Memory { scores, scratch } = memory;
        sized(scores, ROWS.min(self.m).saturating_mul(t))?;
        sized(scratch, t.max(d).max(n))?;
        let queries = &self.queries[i * self.m * d..(i + 1) * self.m * d];
        let blocks = queries.chunks(ROWS * d).zip(out.chunks_mut(ROWS * n));
        for (block, (queries, out)) in blocks.enumerate() {
            let rows = queries.len() / d;
            let scores = &mut scores[..rows * t];
            match single {
                true => {
                    let memory = self.keys.tensor.memory::<T>()?;
                    let rows = &memory[self.keys.starts[i]..];
                    T::dots(queries, rows, self.keys.row_step, scores, scratch);
                }
                // Keys as columns.
                false => multiply((rows, d, t), queries, &keys, (1, d), scores)?,
            }
            round::<T>(scores);
            if let (Some(mask), Some(masks)) = (&self.mask, masks) {
                let (memory, rank) = (mask.memory::<T>()?, mask.rank());
                let (down, along) = (mask.strides()[rank - 2], mask.strides()[rank - 1]);
                for (r, row) in scores.chunks_exact_mut(t).enumerate() {
                    let first = masks[i] as isize + (block * ROWS + r) as isize * down;
                    sized(scratch, t)?;
                    widen_row(memory, first, along, &mut scratch[..t]);
                    row.iter_mut().zip(&*scratch).for_each(|(s, m)| *s += m);
                }
                round::<T>(scores);
            }
            scores.chunks_exact_mut(t).for_each(softmax::row);
            round::<T>(scores);
            match single {
                true => {
                    let memory = self.values.tensor.memory::<T>()?;
                    let rows = &memory[self.values.starts[i]..];
                    T::mixed(scores, rows, self.values.row_step, out, scratch);
                }
                false => multiply((rows, t, n), scores, &values, (n, 1), out)?,
            }
        }
        Ok(())
    }
}

/// `a · b` on this thread; `steps` are those of `b`.
fn multiply(
    size: (usize, usize, usize),
    a: &[f32],
    b: &[f32],
    steps: (usize, usize),
    out: &mut [f32],
) -> OpResult<()> {
    let left = Matrix {
        data: a,
        start: 0,
        rows: size.1,
        cols: 1,
    };
    let right = Matrix {
        data: b,
        start: 0,
        rows: steps.0,
        cols: steps.1,
    };
    product(size, left, right, out, gemm::Parallelism::None)
}

/// Memory of one thread.
#[derive(Default)]
struct Memory {
    scores: Vec<f32>,
    scratch: Vec<f32>,
}

/// So many zeros: positions may be spread from one, so there may be more than there is memory for.
fn zeros(count: usize) -> OpResult<Vec<f32>> {
    let mut values = Vec::new();
    sized(&mut values, count)?;
    Ok(values)
}

/// One head's matrix, row-major and in single precision.
fn panel<T: Stored + Pod>(side: &Side<'_>, i: usize) -> OpResult<Vec<f32>> {
    let memory = side.tensor.memory::<T>()?;
    let mut panel = zeros(side.rows.saturating_mul(side.cols))?;
    for (j, row) in panel.chunks_exact_mut(side.cols).enumerate() {
        let at = side.starts[i] + j * side.row_step;
        widen_row(memory, at as isize, side.col_step as isize, row);
    }
    Ok(panel)
}

/// Rounds to the format the program computes in.
fn round<T: Stored>(values: &mut [f32]) {
    if std::mem::size_of::<T>() == std::mem::size_of::<f32>() {
        return;
    }
    let mut narrow = [T::zeroed(); SLICE];
    for block in values.chunks_mut(SLICE) {
        let narrow = &mut narrow[..block.len()];
        T::rounded(block, narrow);
        T::widen(narrow, block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::ops::grouped::Grouped;

    fn halves(shape: &[usize], step: usize) -> Tensor {
        let count = shape.iter().product::<usize>();
        let each = (0..count).map(|i| f16::from_f32((i * step % 17) as f32 / 8.0 - 1.0));
        Tensor::from_values(shape, &each.collect::<Vec<_>>()).unwrap()
    }

    fn ints(values: &[i32]) -> Tensor {
        Tensor::from_values(&[values.len()], values).unwrap()
    }

    fn layout(keys: usize, values: usize) -> Tensor {
        let layout = Layout {
            keys,
            mask: false,
            before: 0,
            after: 0,
            values,
        };
        ints(&layout.codes())
    }

    /// Heads that several query heads share are read where they lie, and not computed op by op.
    #[test]
    fn shared_heads_are_those_that_were_repeated() {
        let (q, k, v) = (
            halves(&[1, 4, 1, 32], 3),
            halves(&[1, 2, 9, 32], 5),
            halves(&[1, 2, 9, 32], 7),
        );
        let twice = |cache: &Tensor, columns: bool| {
            let heads = cache.values::<f16>().unwrap();
            let each = heads.chunks_exact(9 * 32).flat_map(|head| [head, head]);
            let repeated = Tensor::from_values(&[1, 4, 9, 32], &each.collect::<Vec<_>>().concat());
            let (repeated, n) = (repeated.unwrap(), 9 * 32);
            match columns {
                true => repeated.view(
                    [1, 4, 32, 9].as_slice().into(),
                    [4 * n, n, 1, 32].as_slice().into(),
                    0,
                ),
                false => repeated,
            }
        };
        let how = |transposed| {
            let how = Grouped {
                transposed,
                broadcast: false,
                times: Some(2),
            };
            ints(&how.codes())
        };
        let plain = [layout(1, 1), q.clone(), twice(&k, true), twice(&v, false)];
        let plain = attention(&plain).unwrap().expect("a kernel");
        let grouped = [layout(2, 2), q, how(true), k, how(false), v];
        let grouped = attention(&grouped).unwrap().expect("a kernel");
        assert_eq!(grouped.shape(), [1, 4, 1, 32]);
        assert_eq!(grouped.bytes(), plain.bytes());
    }
}
