//! Products with matrices of small integers in blocks, each block with a scale: `(q - zero) * scale +
//! offset`. The integers stay packed as the asset stores them, two to a byte or one.
//!
//! Made by the rewriting of programs (`rewrite/packed.rs`); operands are the packed matrix, how it is
//! packed, and scales, zero points and offsets of shape rows × blocks.

use half::{bf16, f16};

use super::cast::cast;
use super::dot::Stored;
use super::matmul::{by_columns, product, Matrix, Scratch, BLOCK};
use super::{nibbles, Call, Kernel};
use crate::runtime::error::shape;
use crate::runtime::tensor::{sized, Dims, OpResult, Tensor};
use crate::runtime::DType;

/// Below this, sums of products with 8-bit integers stay finite.
const MODERATE: f32 = 1e30;

/// How the integers lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Packing {
    /// Two to a byte, the first in the low half.
    U4,
    I4,
    U8,
    I8,
}

impl Packing {
    fn from_code(code: i64) -> OpResult<Packing> {
        Ok(match code {
            0 => Packing::U4,
            1 => Packing::I4,
            2 => Packing::U8,
            3 => Packing::I8,
            _ => return Err("internal: no such packing".into()),
        })
    }

    fn per_byte(self) -> usize {
        match self {
            Packing::U4 | Packing::I4 => 2,
            Packing::U8 | Packing::I8 => 1,
        }
    }

    /// Integer `i` of a row.
    fn at(self, row: &[u8], i: usize) -> f32 {
        let nibble = |i: usize| row[i / 2] >> (4 * (i % 2)) & 0xf;
        match self {
            Packing::U4 => f32::from(nibble(i)),
            Packing::I4 => f32::from((nibble(i) ^ 8) as i8 - 8),
            Packing::U8 => f32::from(row[i]),
            Packing::I8 => f32::from(row[i] as i8),
        }
    }
}

/// A packed matrix of `rows × columns` whose rows are cut into blocks.
struct Table {
    packing: Packing,
    /// Bytes of either sign, row after row.
    data: Tensor,
    rows: usize,
    columns: usize,
    /// Blocks in a row.
    blocks: usize,
    scales: Tensor,
    /// Absent where all are zero.
    zeros: Option<Tensor>,
    offsets: Option<Tensor>,
    /// The type whose rounding an expanded value has.
    to: DType,
}

impl Table {
    /// Operands 1 to 5 of a call.
    fn of(call: &Call<'_>) -> OpResult<Table> {
        let data = call.arg(1)?;
        let packing = Packing::from_code(call.arg(2)?.int()?)?;
        let (scale, zero, offset) = (call.arg(3)?, call.arg(4)?, call.arg(5)?);
        let &[rows, stored] = data.dims() else {
            return Err(format!("a packed matrix of shape {}", shape(data.dims())));
        };
        let columns = stored.saturating_mul(packing.per_byte());
        let fits = scale.dims().len() == 2
            && scale.dims()[0] == rows
            && scale.dims()[1] > 0
            && columns % scale.dims()[1] == 0
            && scale.dims() == zero.dims()
            && scale.dims() == offset.dims();
        if !fits || data.dtype().size() != 1 {
            return Err(format!(
                "scales of shape {} for a matrix of {rows} × {columns}",
                shape(scale.dims())
            ));
        }
        let some = |t: &Tensor| -> OpResult<Option<Tensor>> {
            // A splat says so without being looked through.
            let one = t
                .strides()
                .iter()
                .all(|s| *s == 0)
                .then(|| t.element_at_start());
            let probe = one.as_ref().unwrap_or(t);
            let values = cast(probe, DType::F32)?.contiguous()?;
            if values.data::<f32>()?.iter().all(|v| *v == 0.0) {
                return Ok(None);
            }
            Ok(Some(cast(t, DType::F32)?.contiguous()?))
        };
        Ok(Table {
            packing,
            // Equal ones are stored once.
            data: data.contiguous()?,
            rows,
            columns,
            blocks: scale.dims()[1],
            scales: scale.contiguous()?,
            zeros: some(zero)?,
            offsets: some(offset)?,
            to: offset.dtype(),
        })
    }

    fn row(&self, j: usize) -> OpResult<&[u8]> {
        let stored = self.columns / self.packing.per_byte();
        Ok(&self.data.data::<u8>()?[j * stored..(j + 1) * stored])
    }

    /// The scales of a row in single precision.
    fn scales_of(&self, j: usize, to: &mut [f32]) -> OpResult<()> {
        let range = j * self.blocks..(j + 1) * self.blocks;
        match self.scales.dtype() {
            DType::F16 => f16::widen(&self.scales.data()?[range], to),
            DType::BF16 => bf16::widen(&self.scales.data()?[range], to),
            DType::F32 => to.copy_from_slice(&self.scales.data::<f32>()?[range]),
            other => return Err(format!("scales of {other}")),
        }
        Ok(())
    }

    /// Of a row, zero points or offsets.
    fn part<'t>(&self, t: &'t Option<Tensor>, j: usize) -> OpResult<Option<&'t [f32]>> {
        let range = j * self.blocks..(j + 1) * self.blocks;
        match t {
            Some(t) => Ok(Some(&t.data::<f32>()?[range])),
            None => Ok(None),
        }
    }

    /// The values of row `j`, rounded as the definition rounds them; `scales` is scratch.
    fn widen(&self, j: usize, scales: &mut [f32], to: &mut [f32]) -> OpResult<()> {
        let round: fn(f32) -> f32 = match self.to {
            DType::F16 => |v| f16::from_f32(v).to_f32(),
            DType::BF16 => |v| bf16::from_f32(v).to_f32(),
            _ => |v| v,
        };
        self.scales_of(j, scales)?;
        let (zeros, offsets) = (self.part(&self.zeros, j)?, self.part(&self.offsets, j)?);
        let row = self.row(j)?;
        let size = self.columns / self.blocks;
        for (b, out) in to.chunks_exact_mut(size.max(1)).enumerate() {
            let zero = zeros.map_or(0.0, |z| z[b]);
            for (i, o) in out.iter_mut().enumerate() {
                *o = round((self.packing.at(row, b * size + i) - zero) * scales[b]);
            }
            if let Some(offsets) = offsets {
                out.iter_mut().for_each(|o| *o = round(*o + offsets[b]));
            }
        }
        Ok(())
    }

    /// Row `j` times `x` (in reading order), whose blocks sum to `sums`; `scales` is scratch.
    fn dot(&self, j: usize, x: &[f32], sums: &[f32], scales: &mut [f32]) -> OpResult<f32> {
        self.scales_of(j, scales)?;
        let size = self.columns / self.blocks;
        let row = self.row(j)?;
        let mut total = blocks_dot(self.packing, row, x, sums, size, scales)?;
        if let Some(zeros) = self.part(&self.zeros, j)? {
            let shift = zeros.iter().zip(&*scales).zip(sums);
            total -= shift.map(|((z, s), x)| z * s * x).sum::<f32>();
        }
        if let Some(offsets) = self.part(&self.offsets, j)? {
            total += offsets.iter().zip(sums).map(|(o, x)| o * x).sum::<f32>();
        }
        Ok(total)
    }
}

/// Whether the vectorised products take blocks of this size.
fn is_vectorised(size: usize) -> bool {
    #[cfg(target_arch = "x86_64")]
    return size.is_multiple_of(32) && x86::available();
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Whether blocks of this size are multiplied as [`nibbles`] does.
fn is_looked_up(packing: Packing, size: usize) -> bool {
    packing.per_byte() == 2 && size == nibbles::BLOCK && nibbles::available()
}

/// The vector in the order in which the products read it: for two integers to a byte, of every 32 values
/// those that meet low halves first, then those that meet high ones.
fn in_reading_order(packing: Packing, size: usize, x: &[f32]) -> Vec<f32> {
    if is_looked_up(packing, size) {
        return nibbles::in_reading_order(x);
    }
    if packing.per_byte() == 1 || !is_vectorised(size) {
        return x.to_vec();
    }
    let each = x.chunks_exact(32).flat_map(|c| {
        let low = c.iter().step_by(2);
        low.chain(c.iter().skip(1).step_by(2)).copied()
    });
    each.collect()
}

/// `Σ scale[b] · Σ q · x` over the blocks of a row, with `x` in reading order and the sums of its blocks.
fn blocks_dot(
    packing: Packing,
    row: &[u8],
    x: &[f32],
    sums: &[f32],
    size: usize,
    scales: &[f32],
) -> OpResult<f32> {
    if is_looked_up(packing, size) {
        let values = match packing {
            Packing::U4 => &nibbles::UNSIGNED,
            _ => &nibbles::SIGNED,
        };
        let total = nibbles::dot(row, x, scales, values);
        return total.ok_or_else(|| "internal: a row of another length".into());
    }
    #[cfg(target_arch = "x86_64")]
    if is_vectorised(size) {
        // SAFETY: `is_vectorised` has found every feature the functions are compiled for.
        return Ok(unsafe {
            match packing {
                Packing::U4 => x86::dot_u4(row, x, size, scales),
                // Stored as q, read as q + 8, which is not negative.
                Packing::I4 => {
                    let shift = scales.iter().zip(sums).map(|(s, x)| s * x).sum::<f32>();
                    x86::dot_i4(row, x, size, scales) - 8.0 * shift
                }
                Packing::U8 => x86::dot_u8(row, x, size, scales),
                Packing::I8 => x86::dot_i8(row, x, size, scales),
            }
        });
    }
    let _ = sums;
    let mut total = 0.0;
    for (b, x) in x.chunks_exact(size.max(1)).enumerate() {
        let each = x.iter().enumerate();
        let sum: f32 = each.map(|(i, x)| packing.at(row, b * size + i) * x).sum();
        total += sum * scales[b];
    }
    Ok(total)
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m128i, __m256, _mm256_add_ps, _mm256_cvtepi32_ps, _mm256_cvtepi8_epi32,
        _mm256_cvtepu8_epi32, _mm256_fmadd_ps, _mm256_mul_ps, _mm256_set1_ps, _mm256_setzero_ps,
        _mm_and_si128, _mm_set1_epi8, _mm_srli_epi16, _mm_srli_si128, _mm_xor_si128,
    };

    /// Whether the processor has what the functions here are compiled for.
    pub fn available() -> bool {
        is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
    }

    /// Thirty-two halves of bytes: the low ones, then the high ones.
    #[target_feature(enable = "avx2,fma")]
    fn halves(packed: __m128i) -> [__m128i; 2] {
        let mask = _mm_set1_epi8(0xf);
        [
            _mm_and_si128(packed, mask),
            _mm_and_si128(_mm_srli_epi16::<4>(packed), mask),
        ]
    }

    #[target_feature(enable = "avx2,fma")]
    fn unsigned4(bytes: &[u8]) -> [__m128i; 2] {
        halves(bytemuck::pod_read_unaligned(&bytes[..16]))
    }

    /// Eight more than each.
    #[target_feature(enable = "avx2,fma")]
    fn signed4(bytes: &[u8]) -> [__m128i; 2] {
        let packed: __m128i = bytemuck::pod_read_unaligned(&bytes[..16]);
        halves(_mm_xor_si128(packed, _mm_set1_epi8(0x88u8 as i8)))
    }

    #[target_feature(enable = "avx2,fma")]
    fn whole(bytes: &[u8]) -> [__m128i; 2] {
        [
            bytemuck::pod_read_unaligned(&bytes[..16]),
            bytemuck::pod_read_unaligned(&bytes[16..32]),
        ]
    }

    #[target_feature(enable = "avx2,fma")]
    fn load(x: &[f32]) -> __m256 {
        bytemuck::pod_read_unaligned(bytemuck::cast_slice(&x[..8]))
    }

    /// Defines the dot product for one packing: `$unpack` makes 32 bytes, `$widen` eight integers of
    /// eight bytes, `$stored` is the number of bytes that hold 32 integers.
    macro_rules! dot {
        ($name:ident, $unpack:ident, $widen:ident, $stored:expr) => {
            #[target_feature(enable = "avx2,fma")]
            pub fn $name(row: &[u8], x: &[f32], size: usize, scales: &[f32]) -> f32 {
                let mut total = _mm256_setzero_ps();
                let parts = row.chunks_exact($stored).zip(x.chunks_exact(32));
                let mut parts = parts.peekable();
                for scale in scales {
                    let mut sums = [_mm256_setzero_ps(); 2];
                    for _ in 0..size / 32 {
                        let Some((bytes, x)) = parts.next() else {
                            break;
                        };
                        let [a, b] = $unpack(bytes);
                        let (a2, b2) = (_mm_srli_si128::<8>(a), _mm_srli_si128::<8>(b));
                        let q = [$widen(a), $widen(a2), $widen(b), $widen(b2)];
                        for (i, q) in q.into_iter().enumerate() {
                            let sum = &mut sums[i % 2];
                            *sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(q), load(&x[8 * i..]), *sum);
                        }
                    }
                    let sum = _mm256_add_ps(sums[0], sums[1]);
                    total = _mm256_add_ps(total, _mm256_mul_ps(sum, _mm256_set1_ps(*scale)));
                }
                let total: [f32; 8] = bytemuck::cast(total);
                total.iter().sum()
            }
        };
    }

    dot!(dot_u4, unsigned4, _mm256_cvtepu8_epi32, 16);
    dot!(dot_i4, signed4, _mm256_cvtepu8_epi32, 16);
    dot!(dot_u8, whole, _mm256_cvtepu8_epi32, 32);
    dot!(dot_i8, whole, _mm256_cvtepi8_epi32, 32);
}

/// `x · tableᵀ` over the last dimension of `x`.
fn packed_product(call: &mut Call<'_>) -> OpResult<Tensor> {
    let x = call.arg(0)?;
    let dtype = x.dtype();
    let table = Table::of(call)?;
    let (Some((k, outer)), true) = (x.dims().split_last(), x.rank() >= 2) else {
        return Err(format!("a product of shape {}", shape(x.dims())));
    };
    if *k != table.columns || dtype != table.to {
        return Err(format!(
            "a product of {dtype} {} and {} [{}, {}]",
            shape(x.dims()),
            table.to,
            table.columns,
            table.rows
        ));
    }
    let (k, n) = (*k, table.rows);
    let m: usize = outer.iter().product();
    let mut dims: Dims = outer.into();
    dims.push(n);
    // Halves are rounded as they are computed; there is no whole result in single precision.
    let own = match dtype {
        half @ (DType::F16 | DType::BF16) => half,
        _ => DType::F32,
    };
    if k == 0 {
        return Tensor::alloc(dtype, &dims);
    }
    let mut out = Tensor::unset(own, &dims)?;
    if out.is_empty() {
        return cast(&out, dtype);
    }
    let x = cast(x, DType::F32)?.contiguous()?;
    let x = x.data::<f32>()?;
    let size = k / table.blocks;
    // Scales, zero points and offsets come to sums of products: values that are not finite, or whose sums
    // might not be, need the weights themselves.
    let by_blocks = m == 1 && x.iter().all(|v| v.abs() < MODERATE);
    let (sums, ordered): (Vec<f32>, _) = match by_blocks {
        true => (
            x.chunks_exact(size).map(|b| b.iter().sum()).collect(),
            in_reading_order(table.packing, size, x),
        ),
        false => Default::default(),
    };
    let block = |first: usize, scratch: &mut Scratch| -> OpResult<()> {
        let Scratch { part, panel } = scratch;
        let width = part.len() / m;
        let mut scales = vec![0f32; table.blocks];
        if by_blocks {
            for (j, o) in part.iter_mut().enumerate() {
                *o = table.dot(first + j, &ordered, &sums, &mut scales)?;
            }
            return Ok(());
        }
        sized(panel, width * k)?;
        for (j, row) in panel.chunks_exact_mut(k).enumerate() {
            table.widen(first + j, &mut scales, row)?;
        }
        let (lhs, rhs) = (matrix(x, k, 1), matrix(panel, 1, k));
        product((m, k, width), lhs, rhs, part, gemm::Parallelism::None)
    };
    let work = m.saturating_mul(k).saturating_mul(n);
    match own {
        DType::F16 => by_columns((m, n, BLOCK), work, out.data_mut::<f16>()?, block)?,
        DType::BF16 => by_columns((m, n, BLOCK), work, out.data_mut::<bf16>()?, block)?,
        _ => by_columns((m, n, BLOCK), work, out.data_mut::<f32>()?, block)?,
    }
    cast(&out, dtype)
}

fn matrix(data: &[f32], rows: usize, cols: usize) -> Matrix<'_, f32> {
    Matrix {
        data,
        start: 0,
        rows,
        cols,
    }
}

/// Rows of the table by index; the last dimension of the indices has one element.
fn packed_gather(call: &mut Call<'_>) -> OpResult<Tensor> {
    let at = call.arg(0)?;
    let table = Table::of(call)?;
    let Some((1, outer)) = at.dims().split_last() else {
        return Err(format!("indices of shape {}", shape(at.dims())));
    };
    let mut dims: Dims = outer.into();
    dims.push(table.columns);
    let mut out = Tensor::alloc(DType::F32, &dims)?;
    let mut scales = vec![0f32; table.blocks];
    let rows = out
        .data_mut::<f32>()?
        .chunks_exact_mut(table.columns.max(1));
    for (index, row) in at.ints()?.iter().zip(rows) {
        let n = table.rows as i64;
        let wrapped = if *index < 0 { index + n } else { *index };
        match usize::try_from(wrapped) {
            Ok(j) if j < table.rows => table.widen(j, &mut scales, row)?,
            _ => return Err(format!("index {index} is outside a dimension of {n}")),
        }
    }
    cast(&out, table.to)
}

pub const OPS: &[(&str, Kernel)] = &[
    ("packed_product", Kernel::One(packed_product)),
    ("packed_gather", Kernel::One(packed_gather)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_of_blocks_are_those_of_plain_code() {
        for packing in [Packing::U4, Packing::I4, Packing::U8, Packing::I8] {
            for (size, blocks) in [(32, 1), (32, 3), (64, 2), (16, 4), (2, 5), (96, 1)] {
                let n = size * blocks;
                let row: Vec<u8> = (0..n / packing.per_byte())
                    .map(|i| (i * 37 + 11) as u8)
                    .collect();
                let x: Vec<f32> = (0..n).map(|i| (i % 9) as f32 - 4.0).collect();
                let scales: Vec<f32> = (0..blocks).map(|b| 0.5 + b as f32).collect();
                let expected: f32 = (0..n)
                    .map(|i| packing.at(&row, i) * x[i] * scales[i / size])
                    .sum();
                let sums: Vec<f32> = x.chunks_exact(size).map(|b| b.iter().sum()).collect();
                let ordered = in_reading_order(packing, size, &x);
                let found = blocks_dot(packing, &row, &ordered, &sums, size, &scales);
                assert_eq!(found, Ok(expected), "{packing:?} {size} × {blocks}");
            }
        }
    }

    #[test]
    fn signed_halves_of_bytes_carry_their_sign() {
        let row = [0x8f, 0x70];
        let values: Vec<f32> = (0..4).map(|i| Packing::I4.at(&row, i)).collect();
        assert_eq!(values, [-1.0, -8.0, 0.0, 7.0]);
        let values: Vec<f32> = (0..4).map(|i| Packing::U4.at(&row, i)).collect();
        assert_eq!(values, [15.0, 8.0, 0.0, 7.0]);
    }
}
