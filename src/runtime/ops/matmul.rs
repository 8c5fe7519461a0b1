//! Matrix products. Halves and smaller floats are multiplied and summed in single precision.

use half::{bf16, f16};
use num_complex::Complex;
use rayon::prelude::*;

use super::cast::cast;
use super::dot::Stored;
use super::scalar::{dispatch_real, Combiner, Scalar};
use super::unary::{compute_type, narrow};
use super::{broadcast_dims, broadcast_view, Call, Kernel};
use crate::runtime::dtype::Class;
use crate::runtime::error::shape;
use crate::runtime::tensor::{count, room, rows, sized, Dims, OpResult, Tensor};
use crate::runtime::DType;

/// A matrix inside a slice: element `(i, j)` lies at `start + i * rows + j * cols`.
#[derive(Clone, Copy)]
pub(super) struct Matrix<'a, T> {
    pub data: &'a [T],
    pub start: usize,
    pub rows: usize,
    pub cols: usize,
}

impl<T> Matrix<'_, T> {
    /// Whether all `m × n` elements lie inside the slice.
    fn covers(&self, m: usize, n: usize) -> bool {
        let reach = |count: usize, step: usize| count.saturating_sub(1).checked_mul(step);
        m == 0
            || n == 0
            || reach(m, self.rows)
                .zip(reach(n, self.cols))
                .and_then(|(a, b)| self.start.checked_add(a)?.checked_add(b))
                .is_some_and(|last| last < self.data.len())
    }
}

/// `out = a · b`, with `out` row-major.
pub(super) fn product<T: num_traits::Float + 'static>(
    (m, k, n): (usize, usize, usize),
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
    out: &mut [T],
    threads: gemm::Parallelism,
) -> OpResult<()> {
    if !a.covers(m, k) || !b.covers(k, n) || m.checked_mul(n) != Some(out.len()) {
        return Err("internal: a matrix reaches beyond its memory".into());
    }
    if k == 0 {
        out.fill(T::zero());
        return Ok(());
    }
    // SAFETY: gemm reads `lhs[i * rs + j * cs]` for all i < m, j < k, the same of `rhs`, and writes
    // (without reading, as `read_dst` is false) `dst[i * n + j]` for all i < m, j < n. `covers` has
    // shown that the largest of these offsets, and as strides are not negative all others, lie inside
    // the slices; `out` holds m * n elements and is borrowed mutably, so nothing else aliases it. T is
    // f32 or f64, the types gemm dispatches on.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            out.as_mut_ptr(),
            1,
            n as isize,
            false,
            a.data.as_ptr().add(a.start),
            a.cols as isize,
            a.rows as isize,
            b.data.as_ptr().add(b.start),
            b.cols as isize,
            b.rows as isize,
            T::zero(),
            T::one(),
            false,
            false,
            false,
            threads,
        );
    }
    Ok(())
}

/// The threads there are. Outside of a pool of the model's own, everything stays on the caller's.
fn pool() -> usize {
    rayon::current_thread_index().map_or(1, |_| rayon::current_num_threads())
}

/// How many threads a product of this many multiplications is worth.
pub(super) fn threads(work: usize) -> gemm::Parallelism {
    match pool() {
        n if n > 1 && work > 1 << 18 => gemm::Parallelism::Rayon(n),
        _ => gemm::Parallelism::None,
    }
}

/// `a · b` of matrices in their memory, in single or double precision.
pub(super) fn plain<T: num_traits::Float + 'static>(
    (m, k, n): (usize, usize, usize),
    a: &[T],
    b: &[T],
    out: &mut [T],
) -> OpResult<()> {
    let whole = |data, rows| Matrix {
        data,
        start: 0,
        rows,
        cols: 1,
    };
    let work = m.saturating_mul(k).saturating_mul(n);
    product((m, k, n), whole(a, k), whole(b, n), out, threads(work))
}

/// Columns of `b` converted at a time: small enough to stay in the cache.
pub(super) const BLOCK: usize = 64;
/// Elements of the result that exist in single precision at a time, about.
const ROUND: usize = 1 << 20;

/// Memory of one thread for [`by_columns`].
#[derive(Default)]
pub(super) struct Scratch {
    /// Columns of the result, row-major, all of which are written.
    pub part: Vec<f32>,
    /// Columns of the right side, of any value and size.
    pub panel: Vec<f32>,
}

/// Columns of a product of one row with rows of halves that are computed at a time: so many that each of the
/// streams [`Stored::dots`] reads is long, and few enough for a thread that is early to take some over.
fn streamed(n: usize) -> usize {
    n.div_ceil(2 * pool()).max(BLOCK)
}

/// A product of `m` rows and `n` columns, `width` columns at a time, on several threads where so many
/// multiplications are worth it. `block` writes the columns from the given one on.
pub(super) fn by_columns<H: Stored>(
    (m, n, width): (usize, usize, usize),
    work: usize,
    out: &mut [H],
    block: impl Fn(usize, &mut Scratch) -> OpResult<()> + Sync,
) -> OpResult<()> {
    if m == 0 || n == 0 {
        return Ok(());
    }
    if m == 1 {
        // What belongs to a block lies together.
        let write = |scratch: &mut Scratch, (i, out): (usize, &mut [H])| {
            sized(&mut scratch.part, out.len())?;
            block(i * width, scratch)?;
            H::rounded(&scratch.part, out);
            Ok(())
        };
        return match threads(work) {
            gemm::Parallelism::Rayon(_) => out
                .par_chunks_mut(width)
                .enumerate()
                .try_for_each_init(Scratch::default, write),
            gemm::Parallelism::None => {
                let mut scratch = Scratch::default();
                let mut blocks = out.chunks_mut(width).enumerate();
                blocks.try_for_each(|block| write(&mut scratch, block))
            }
        };
    }
    let rounded = |first: usize, scratch: &mut Scratch| -> OpResult<Vec<H>> {
        let width = width.min(n - first);
        sized(&mut scratch.part, m * width)?;
        block(first, scratch)?;
        let mut part = vec![H::zeroed(); m * width];
        H::rounded(&scratch.part, &mut part);
        Ok(part)
    };
    let firsts: Vec<usize> = (0..n).step_by(width).collect();
    for firsts in firsts.chunks(ROUND.div_ceil(m * width)) {
        let parts: Vec<OpResult<Vec<H>>> = match threads(work) {
            gemm::Parallelism::Rayon(_) => firsts
                .par_iter()
                .map_init(Scratch::default, |scratch, f| rounded(*f, scratch))
                .collect(),
            gemm::Parallelism::None => {
                let mut scratch = Scratch::default();
                firsts.iter().map(|f| rounded(*f, &mut scratch)).collect()
            }
        };
        for (first, part) in firsts.iter().zip(parts) {
            let part = part?;
            let width = part.len() / m;
            for (i, row) in part.chunks_exact(width).enumerate() {
                out[i * n + first..i * n + first + width].copy_from_slice(row);
            }
        }
    }
    Ok(())
}

/// `out = a · b` for `b` in a half format, widened block by block.
fn widening<H: Stored>(
    (m, k, n): (usize, usize, usize),
    a: &[f32],
    b: Matrix<'_, H>,
    out: &mut [H],
) -> OpResult<()> {
    if !b.covers(k, n) {
        return Err("internal: a matrix reaches beyond its memory".into());
    }
    let streams = b.rows == 1 && m == 1;
    let block = |first: usize, scratch: &mut Scratch| -> OpResult<()> {
        let Scratch { part, panel } = scratch;
        let width = part.len() / m;
        if streams {
            let rows = &b.data[b.start + first * b.cols..];
            H::dots(a, rows, b.cols, part, panel);
            return Ok(());
        }
        sized(panel, width * k)?;
        let (rows, cols) = if b.rows == 1 {
            for (j, row) in panel.chunks_exact_mut(k.max(1)).enumerate() {
                let at = b.start + (first + j) * b.cols;
                H::widen(&b.data[at..at + k], row);
            }
            (1, k)
        } else {
            for (i, row) in panel.chunks_exact_mut(width).enumerate() {
                let at = b.start + i * b.rows + first * b.cols;
                if b.cols == 1 {
                    H::widen(&b.data[at..at + width], row);
                } else {
                    for (j, o) in row.iter_mut().enumerate() {
                        H::widen(&[b.data[at + j * b.cols]], std::slice::from_mut(o));
                    }
                }
            }
            (width, 1)
        };
        let rhs = Matrix {
            data: panel,
            start: 0,
            rows,
            cols,
        };
        let lhs = Matrix {
            data: a,
            start: 0,
            rows: k,
            cols: 1,
        };
        product((m, k, width), lhs, rhs, part, gemm::Parallelism::None)
    };
    let work = m.saturating_mul(k).saturating_mul(n);
    let width = if streams { streamed(n) } else { BLOCK };
    by_columns((m, n, width), work, out, block)
}

fn complex(
    (m, k, n): (usize, usize, usize),
    a: &[Complex<f64>],
    b: &[Complex<f64>],
    out: &mut [Complex<f64>],
) {
    for i in 0..m {
        for j in 0..n {
            out[i * n + j] = (0..k).map(|l| a[i * k + l] * b[l * n + j]).sum();
        }
    }
}

/// Most matrices of one product: where each starts is in memory.
const MOST: usize = 1 << 26;

/// Room for where so many matrices start, given by the extents that number them.
pub(super) fn room_for_matrices(outer: &[usize]) -> OpResult<Vec<usize>> {
    match count(outer) {
        Some(n) if n <= MOST => room(n),
        _ => Err(format!(
            "products of more than {MOST} matrices, of shape {}",
            shape(outer)
        )),
    }
}

/// Where each matrix starts in the memory of `t`.
pub(super) fn batches(t: &Tensor) -> OpResult<Vec<usize>> {
    let outer = t.rank() - 2;
    let mut starts = room_for_matrices(&t.dims()[..outer])?;
    rows(
        &t.dims()[..outer],
        [&t.strides()[..outer]],
        |[at], n, [step]| {
            for i in 0..n as isize {
                starts.push((t.offset() as isize + at + i * step) as usize);
            }
        },
    );
    Ok(starts)
}

/// `a · b` over the two last dimensions, all others equal.
pub(super) fn batch_matmul(a: &Tensor, b: &Tensor) -> OpResult<Tensor> {
    let dtype = a.dtype();
    let rank = a.rank();
    let misfit = || {
        format!(
            "a product of {} {} and {} {}",
            a.dtype(),
            shape(a.dims()),
            b.dtype(),
            shape(b.dims())
        )
    };
    if rank < 2
        || b.rank() != rank
        || b.dtype() != dtype
        || a.dims()[..rank - 2] != b.dims()[..rank - 2]
    {
        return Err(misfit());
    }
    let (m, k, n) = (a.dims()[rank - 2], a.dims()[rank - 1], b.dims()[rank - 1]);
    if b.dims()[rank - 2] != k {
        return Err(misfit());
    }
    let mut dims: Dims = a.dims().into();
    dims[rank - 1] = n;
    if matches!(dtype, DType::F32 | DType::F16 | DType::BF16) {
        let negative = b.strides()[rank - 2..].iter().any(|s| *s < 0);
        let b = if negative { b.contiguous()? } else { b.clone() };
        let steps = (b.strides()[rank - 2], b.strides()[rank - 1]);
        return products(a, &dims, &b, &batches(&b)?, (k, n), steps);
    }
    let size = (m, k, n);
    let tile = m * n;
    match dtype.class() {
        Class::Int { .. } => return integers(a, b, &dims, size),
        Class::Bool => return Err(format!("a matrix product of {dtype}")),
        Class::Float | Class::Complex => {}
    }
    if dtype.class() == Class::Complex {
        let (x, y) = (
            cast(&a.contiguous()?, DType::C64)?,
            cast(&b.contiguous()?, DType::C64)?,
        );
        let mut out = Tensor::alloc(DType::C64, &dims)?;
        let (x, y) = (x.data()?, y.data()?);
        for (i, o) in out.data_mut()?.chunks_exact_mut(tile.max(1)).enumerate() {
            complex(size, &x[i * m * k..], &y[i * k * n..], o);
        }
        return cast(&out, dtype);
    }
    if dtype == DType::F64 {
        let (x, y) = (a.contiguous()?, b.contiguous()?);
        let mut out = Tensor::alloc(dtype, &dims)?;
        let (x, y) = (x.data::<f64>()?, y.data::<f64>()?);
        for (i, o) in out.data_mut()?.chunks_exact_mut(tile.max(1)).enumerate() {
            plain(size, &x[i * m * k..], &y[i * k * n..], o)?;
        }
        return Ok(out);
    }
    let b = cast(b, DType::F32)?.contiguous()?;
    let steps = (n as isize, 1);
    products(a, &dims, &b, &batches(&b)?, (k, n), steps)
}

/// Products of integers, which wrap.
fn integers(
    a: &Tensor,
    b: &Tensor,
    dims: &[usize],
    (m, k, n): (usize, usize, usize),
) -> OpResult<Tensor> {
    let (own, wide) = (a.dtype(), compute_type(a.dtype()));
    let (x, y) = (cast(a, wide)?.contiguous()?, cast(b, wide)?.contiguous()?);
    let mut out = Tensor::alloc(wide, dims)?;
    dispatch_real!(wide, T => {
        let (x, y) = (x.data::<T>()?, y.data::<T>()?);
        let rows = out.data_mut::<T>()?.chunks_exact_mut(n.max(1)).enumerate();
        for (i, row) in rows {
            let y = &y[i / m.max(1) * k * n..];
            for (x, y) in x[i * k..(i + 1) * k].iter().zip(y.chunks_exact(n.max(1))) {
                for (o, y) in row.iter_mut().zip(y) {
                    let product = T::combine(Combiner::Mul, x.widen(), y.widen());
                    *o = T::narrow(T::combine(Combiner::Add, o.widen(), product));
                }
            }
        }
        Ok::<(), String>(())
    })?;
    narrow(out, own)
}

/// One product for each matrix of `a` and each start in the memory of `b`, whose matrices have `k × n`
/// elements at these distances.
pub(super) fn products(
    a: &Tensor,
    dims: &[usize],
    b: &Tensor,
    starts: &[usize],
    (k, n): (usize, usize),
    (rs, cs): (isize, isize),
) -> OpResult<Tensor> {
    let dtype = a.dtype();
    let m = dims[dims.len() - 2];
    let size = (m, k, n);
    let tile = m * n;
    // Halves are rounded as they are computed; there is no whole result in single precision.
    let own = match b.dtype() {
        half @ (DType::F16 | DType::BF16) if half == dtype => half,
        _ => DType::F32,
    };
    if k == 0 {
        return Tensor::alloc(dtype, dims);
    }
    let mut out = Tensor::unset(own, dims)?;
    if out.is_empty() {
        return cast(&out, dtype);
    }
    let x = cast(a, DType::F32)?.contiguous()?;
    // A dimension of one element has no stride to speak of.
    let step = |count: usize, step: isize, other: usize| match count {
        1 => Ok(other.max(1)),
        _ => {
            usize::try_from(step).map_err(|_| "internal: a matrix that runs backwards".to_string())
        }
    };
    let (rows, cols) = (step(k, rs, n)?, step(n, cs, k)?);
    if starts.len() != out.len() / tile.max(1) {
        return Err("internal: another number of matrices".into());
    }
    let x = x.data::<f32>()?;
    macro_rules! each {
        ($t:ty, $product:expr) => {{
            let data = b.memory::<$t>()?;
            let tiles = out.data_mut::<$t>()?.chunks_exact_mut(tile).zip(starts);
            for (i, (o, start)) in tiles.enumerate() {
                let rhs = Matrix {
                    data,
                    start: *start,
                    rows,
                    cols,
                };
                $product(&x[i * m * k..(i + 1) * m * k], rhs, o)?;
            }
        }};
    }
    match own {
        DType::F16 => each!(f16, |lhs, rhs, o| widening(size, lhs, rhs, o)),
        DType::BF16 => each!(bf16, |lhs, rhs, o| widening(size, lhs, rhs, o)),
        _ => each!(f32, |data, rhs, o| {
            let work = m.saturating_mul(k).saturating_mul(n);
            let lhs = Matrix {
                data,
                start: 0,
                rows: k,
                cols: 1,
            };
            product(size, lhs, rhs, o, threads(work))
        }),
    }
    cast(&out, dtype)
}

fn strict(call: &mut Call<'_>) -> OpResult<Tensor> {
    batch_matmul(call.arg(0)?, call.arg(1)?)
}

fn broadcasting(call: &mut Call<'_>) -> OpResult<Tensor> {
    let (a, b) = (call.take(0)?, call.take(1)?);
    if a.rank() < 2 || b.rank() < 2 {
        return Err(format!(
            "a product of shapes {} and {}",
            shape(a.dims()),
            shape(b.dims())
        ));
    }
    let (outer_a, outer_b) = (&a.dims()[..a.rank() - 2], &b.dims()[..b.rank() - 2]);
    let outer = broadcast_dims(outer_a, outer_b)?;
    let wide = |t: &Tensor| -> OpResult<Tensor> {
        let mut dims = outer.clone();
        dims.extend_from_slice(&t.dims()[t.rank() - 2..]);
        broadcast_view(t, &dims)
    };
    batch_matmul(&wide(&a)?, &wide(&b)?)
}

pub const OPS: &[(&str, Kernel)] = &[
    ("batch_matmul", Kernel::One(strict)),
    ("broadcasting_batch_matmul", Kernel::One(broadcasting)),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Threads divide the columns differently; each sum is that of one order of additions.
    #[test]
    fn a_product_is_the_same_on_any_number_of_threads() {
        let (k, n) = (500, 1003);
        let halves = |count: usize, step: usize| -> Vec<f16> {
            let each = (0..count).map(|i| (i * step % 1009) as f32 / 100.0 - 5.0);
            each.map(f16::from_f32).collect()
        };
        let a = Tensor::from_values(&[1, k], &halves(k, 7)).unwrap();
        let rows = Tensor::from_values(&[n, k], &halves(n * k, 11)).unwrap();
        let b = rows.view(
            [k, n].as_slice().into(),
            [1, k as isize].as_slice().into(),
            0,
        );
        let alone = batch_matmul(&a, &b).unwrap().bytes().into_owned();
        for count in 1..=5 {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(count);
            let together = pool.build().unwrap().install(|| batch_matmul(&a, &b));
            assert_eq!(alone, *together.unwrap().bytes(), "{count} threads");
        }
    }
}
