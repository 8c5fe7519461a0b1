//! Halves with the instructions of x86-64: eight at a time.

use std::arch::x86_64::{
    __m128i, __m256, _mm256_add_epi32, _mm256_add_ps, _mm256_and_ps, _mm256_and_si256,
    _mm256_blendv_epi8, _mm256_castps_si256, _mm256_castsi256_ps, _mm256_castsi256_si128,
    _mm256_cmp_ps, _mm256_cvtepu16_epi32, _mm256_cvtph_ps, _mm256_cvtps_ph,
    _mm256_extracti128_si256, _mm256_fmadd_ps, _mm256_or_ps, _mm256_set1_epi32, _mm256_set1_ps,
    _mm256_setzero_ps, _mm256_slli_epi32, _mm256_srli_epi32, _mm_packus_epi32, _mm_prefetch,
    _CMP_UNORD_Q, _MM_FROUND_TO_NEAREST_INT, _MM_HINT_NTA,
};

/// Whether the processor has what the functions here are compiled for.
pub fn available() -> bool {
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c")
}

/// A NaN keeps its bits, but for the one that makes it quiet.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn quiet(values: __m256) -> __m256 {
    let nan = _mm256_cmp_ps::<_CMP_UNORD_Q>(values, values);
    let bit = _mm256_castsi256_ps(_mm256_set1_epi32(0x40_0000));
    _mm256_or_ps(values, _mm256_and_ps(nan, bit))
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn widen_bf16(bits: __m128i) -> __m256 {
    quiet(_mm256_castsi256_ps(_mm256_slli_epi32::<16>(
        _mm256_cvtepu16_epi32(bits),
    )))
}

/// The upper halves, after adding what makes them the nearest, ties to even.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn round_bf16(values: __m256) -> __m128i {
    let bits = _mm256_castps_si256(quiet(values));
    let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
    let near = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    let nan = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(values, values));
    let upper = _mm256_srli_epi32::<16>(_mm256_blendv_epi8(near, bits, nan));
    _mm_packus_epi32(
        _mm256_castsi256_si128(upper),
        _mm256_extracti128_si256::<1>(upper),
    )
}

/// Eight values.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn wide(values: &[f32]) -> __m256 {
    bytemuck::pod_read_unaligned(bytemuck::cast_slice(&values[..8]))
}

/// Rows multiplied at a time. Their sums, two for each, the factors and what is converted fit in the sixteen
/// registers.
const STREAMS: usize = 4;

/// How far in front of what is multiplied memory is asked for, in bytes.
const AHEAD: usize = 128;

/// Asks for the memory a little behind these values. The processor asks too, but keeps what came in the outer
/// caches, where weights, which are read once in a step, take the place of the keys and values of the next.
#[inline]
fn ask_behind<T>(values: &[T]) {
    let place = values.as_ptr().cast::<i8>().wrapping_add(AHEAD);
    // SAFETY: it is a hint, which reads nothing and does nothing where no memory is.
    unsafe { _mm_prefetch::<_MM_HINT_NTA>(place) };
}

/// The sum of all, in as few steps after each other as there can be.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn total([a, b]: [__m256; 2]) -> f32 {
    let [a, b, c, d, e, f, g, h]: [f32; 8] = bytemuck::cast(_mm256_add_ps(a, b));
    ((a + b) + (c + d)) + ((e + f) + (g + h))
}

/// Defines the module of one half: `$widen` makes eight floats of eight halves, `$round` the reverse.
macro_rules! half {
    ($half:ident, $widen:expr, $round:expr) => {
        pub mod $half {
            use half::$half;

            use super::*;

            #[inline]
            #[target_feature(enable = "avx2,fma,f16c")]
            fn narrow(values: &[$half]) -> __m256 {
                let bits = bytemuck::pod_read_unaligned(bytemuck::cast_slice(&values[..8]));
                $widen(bits)
            }

            #[target_feature(enable = "avx2,fma,f16c")]
            pub fn widen(from: &[$half], to: &mut [f32]) {
                let (froms, tos) = (from.chunks_exact(8), to.chunks_exact_mut(8));
                let rest = froms.remainder();
                let done = from.len() - rest.len();
                for (from, to) in froms.zip(tos) {
                    to.copy_from_slice(&bytemuck::cast::<__m256, [f32; 8]>(narrow(from)));
                }
                for (from, to) in rest.iter().zip(&mut to[done..]) {
                    *to = from.to_f32();
                }
            }

            #[target_feature(enable = "avx2,fma,f16c")]
            pub fn rounded(from: &[f32], to: &mut [$half]) {
                let (froms, tos) = (from.chunks_exact(8), to.chunks_exact_mut(8));
                let rest = froms.remainder();
                let done = from.len() - rest.len();
                for (from, to) in froms.zip(tos) {
                    to.copy_from_slice(&bytemuck::cast::<__m128i, [$half; 8]>($round(wide(from))));
                }
                for (from, to) in rest.iter().zip(&mut to[done..]) {
                    *to = $half::from_f32(*from);
                }
            }

            #[target_feature(enable = "avx2,fma,f16c")]
            pub fn dots(a: &[f32], b: &[$half], step: usize, sums: &mut [f32]) {
                let row = |i: usize| &b[i * step..i * step + a.len()];
                // Far from each other where there are many, so that each stream is one the processor foresees.
                let stream = sums.len() / STREAMS;
                let (streams, rest) = sums.split_at_mut(stream * STREAMS);
                for i in 0..stream {
                    let rows: [_; STREAMS] = std::array::from_fn(|s| row(s * stream + i));
                    for (s, sum) in products(a, rows).into_iter().enumerate() {
                        streams[s * stream + i] = sum;
                    }
                }
                for (i, sum) in rest.iter_mut().enumerate() {
                    [*sum] = products(a, [row(stream * STREAMS + i)]);
                }
            }

            /// The sums of products of each row with `a`.
            #[inline]
            #[target_feature(enable = "avx2,fma,f16c")]
            fn products<const N: usize>(a: &[f32], rows: [&[$half]; N]) -> [f32; N] {
                let mut sums = [[_mm256_setzero_ps(); 2]; N];
                let (xs, last) = a.as_chunks::<32>();
                let rows = rows.map(|row| row.as_chunks::<32>());
                for (at, x) in xs.iter().enumerate() {
                    let ys = rows.map(|(lines, _)| &lines[at]);
                    ys.iter().for_each(|line| ask_behind(*line));
                    for part in 0..4 {
                        let x = wide(&x[8 * part..]);
                        for (sums, y) in sums.iter_mut().zip(ys) {
                            let sum = &mut sums[part % 2];
                            *sum = _mm256_fmadd_ps(x, narrow(&y[8 * part..]), *sum);
                        }
                    }
                }
                std::array::from_fn(|i| {
                    let rest = last.iter().zip(rows[i].1);
                    let rest: f32 = rest.map(|(x, y)| x * y.to_f32()).sum();
                    total(sums[i]) + rest
                })
            }

            #[target_feature(enable = "avx2,fma,f16c")]
            pub fn mixed(factors: &[f32], rows: &[$half], step: usize, sums: &mut [f32]) {
                let whole = sums.len() / 64 * 64;
                // Sums of 64 columns stay in registers.
                for first in (0..whole).step_by(64) {
                    let mut parts = [_mm256_setzero_ps(); 8];
                    for (i, factor) in factors.iter().enumerate() {
                        let row = &rows[i * step + first..i * step + first + 64];
                        let factor = _mm256_set1_ps(*factor);
                        for (p, part) in parts.iter_mut().enumerate() {
                            *part = _mm256_fmadd_ps(factor, narrow(&row[8 * p..]), *part);
                        }
                    }
                    let parts: [[f32; 8]; 8] = bytemuck::cast(parts);
                    sums[first..first + 64].copy_from_slice(parts.as_flattened());
                }
                for (j, sum) in sums.iter_mut().enumerate().skip(whole) {
                    let each = factors.iter().enumerate();
                    *sum = each.map(|(i, f)| f * rows[i * step + j].to_f32()).sum();
                }
            }
        }
    };
}

half!(
    f16,
    |bits: __m128i| _mm256_cvtph_ps(bits),
    |values: __m256| _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(values)
);
half!(bf16, widen_bf16, round_bf16);
