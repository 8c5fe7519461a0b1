//! Matrix products. Halves and smaller floats are multiplied and summed in single precision.

use half::{bf16, f16};
use num_complex::Complex;
use rayon::prelude::*;

use super::cast::cast;
use super::dot::Half;
use super::{broadcast_dims, broadcast_view, Call, Kernel};
use crate::runtime::dtype::Class;
use crate::runtime::error::shape;
use crate::runtime::tensor::{rows, Dims, OpResult, Tensor};
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

/// How many threads a product of this many multiplications is worth.
pub(super) fn threads(work: usize) -> gemm::Parallelism {
    // Outside of a pool of the model's own, everything stays on the caller's thread.
    let threads = rayon::current_thread_index().map_or(1, |_| rayon::current_num_threads());
    match threads {
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

/// `out = a · b` for `b` in a half format, widened block by block.
fn widening<H: Half>(
    (m, k, n): (usize, usize, usize),
    a: &[f32],
    b: Matrix<'_, H>,
    out: &mut [f32],
) -> OpResult<()> {
    if !b.covers(k, n) {
        return Err("internal: a matrix reaches beyond its memory".into());
    }
    let block = |first: usize| -> OpResult<Vec<f32>> {
        let width = BLOCK.min(n - first);
        let mut part = vec![0f32; m * width];
        if b.rows == 1 && m == 1 {
            let mut scratch = vec![0f32; k];
            for (j, o) in part.iter_mut().enumerate() {
                let at = b.start + (first + j) * b.cols;
                *o = H::dot(a, &b.data[at..at + k], &mut scratch);
            }
            return Ok(part);
        }
        let mut panel = vec![0f32; width * k];
        let panel_matrix = if b.rows == 1 {
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
            data: &panel,
            start: 0,
            rows: panel_matrix.0,
            cols: panel_matrix.1,
        };
        let lhs = Matrix {
            data: a,
            start: 0,
            rows: k,
            cols: 1,
        };
        product((m, k, width), lhs, rhs, &mut part, gemm::Parallelism::None)?;
        Ok(part)
    };
    let firsts: Vec<usize> = (0..n).step_by(BLOCK).collect();
    let parts: Vec<OpResult<Vec<f32>>> = match threads(m.saturating_mul(k).saturating_mul(n)) {
        gemm::Parallelism::Rayon(_) => firsts.par_iter().map(|f| block(*f)).collect(),
        _ => firsts.iter().map(|f| block(*f)).collect(),
    };
    for (first, part) in firsts.iter().zip(parts) {
        let part = part?;
        let width = part.len() / m.max(1);
        for (i, row) in part.chunks_exact(width.max(1)).enumerate() {
            out[i * n + first..i * n + first + width].copy_from_slice(row);
        }
    }
    Ok(())
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

/// Matrices per batch entry: where each starts in the memory of `t`.
fn batches(t: &Tensor) -> Vec<usize> {
    let outer = t.rank() - 2;
    let mut starts = Vec::new();
    rows(
        &t.dims()[..outer],
        [&t.strides()[..outer]],
        |[at], n, [step]| {
            for i in 0..n as isize {
                starts.push((t.offset() as isize + at + i * step) as usize);
            }
        },
    );
    starts
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
    if !matches!(dtype.class(), Class::Float | Class::Complex) {
        return Err(format!("a matrix product of {dtype}"));
    }
    let size = (m, k, n);
    let tile = m * n;
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
    let mut out = Tensor::alloc(DType::F32, &dims)?;
    if out.is_empty() {
        return cast(&out, dtype);
    }
    let x = cast(a, DType::F32)?.contiguous()?;
    let b = match dtype {
        DType::F32 | DType::F16 | DType::BF16 => b.clone(),
        _ => cast(b, DType::F32)?,
    };
    let negative = b.strides()[rank - 2..].iter().any(|s| *s < 0);
    let b = if negative { b.contiguous()? } else { b };
    let (rs, cs) = (
        b.strides()[rank - 2] as usize,
        b.strides()[rank - 1] as usize,
    );
    // A dimension of one element has no stride to speak of.
    let (rs, cs) = (
        if k == 1 { n.max(1) } else { rs },
        if n == 1 { k.max(1) } else { cs },
    );
    let starts = batches(&b);
    let x = x.data::<f32>()?;
    let work = m.saturating_mul(k).saturating_mul(n);
    for (i, o) in out.data_mut::<f32>()?.chunks_exact_mut(tile).enumerate() {
        let lhs = &x[i * m * k..(i + 1) * m * k];
        let start = starts[i];
        match b.dtype() {
            DType::F16 => {
                let data = b.memory::<f16>()?;
                widening(
                    size,
                    lhs,
                    Matrix {
                        data,
                        start,
                        rows: rs,
                        cols: cs,
                    },
                    o,
                )?;
            }
            DType::BF16 => {
                let data = b.memory::<bf16>()?;
                widening(
                    size,
                    lhs,
                    Matrix {
                        data,
                        start,
                        rows: rs,
                        cols: cs,
                    },
                    o,
                )?;
            }
            _ => {
                let data = b.memory::<f32>()?;
                let lhs = Matrix {
                    data: lhs,
                    start: 0,
                    rows: k,
                    cols: 1,
                };
                let rhs = Matrix {
                    data,
                    start,
                    rows: rs,
                    cols: cs,
                };
                product(size, lhs, rhs, o, threads(work))?;
            }
        }
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
