//! Dot products with integers of four bits in blocks of 32, sixteen at a time: the four bits look the value
//! up in a register.

/// Integers in a block.
pub(super) const BLOCK: usize = 32;
/// Integers taken at a time: eight for each of sixteen words.
const CHUNK: usize = 128;

/// Whether the processor has what [`dot`] is compiled for.
pub(super) fn available() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("avx512f");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// A vector in the order in which [`dot`] reads it: of every 128 values those that meet the first four bits
/// of all words, then those that meet the next; zeros fill the last.
pub(super) fn in_reading_order(x: &[f32]) -> Vec<f32> {
    let mut ordered = vec![0f32; x.len().next_multiple_of(CHUNK)];
    for (to, from) in ordered.chunks_exact_mut(CHUNK).zip(x.chunks(CHUNK)) {
        for (i, v) in from.iter().enumerate() {
            to[i % 8 * 16 + i / 8] = *v;
        }
    }
    ordered
}

/// `Σ scale[b] · Σ values[q] · x` over the blocks of a row of integers, the first of two in the low half of
/// a byte, with `x` in reading order. `None` where the processor cannot, or the lengths do not fit.
pub(super) fn dot(row: &[u8], x: &[f32], scales: &[f32], values: &[f32; 16]) -> Option<f32> {
    let fits = row.len() == scales.len() * BLOCK / 2
        && x.len() == (scales.len() * BLOCK).next_multiple_of(CHUNK);
    if !fits || !available() {
        return None;
    }
    #[cfg(target_arch = "x86_64")]
    // SAFETY: `available` has found the feature the function is compiled for.
    return Some(unsafe { x86::dot(row, x, scales, values) });
    #[cfg(not(target_arch = "x86_64"))]
    None
}

/// The values of four bits without a sign.
pub(super) const UNSIGNED: [f32; 16] = [
    0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0,
];
/// The values of four bits in two's complement.
pub(super) const SIGNED: [f32; 16] = [
    0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, -8.0, -7.0, -6.0, -5.0, -4.0, -3.0, -2.0, -1.0,
];

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m512, __m512i, _mm512_add_ps, _mm512_castps128_ps512, _mm512_fmadd_ps, _mm512_loadu_ps,
        _mm512_loadu_si512, _mm512_mul_ps, _mm512_permutexvar_ps, _mm512_reduce_add_ps,
        _mm512_setr_epi32, _mm512_setzero_ps, _mm512_srli_epi32, _mm_loadu_ps,
    };

    use super::{BLOCK, CHUNK};

    #[target_feature(enable = "avx512f")]
    fn floats(from: &[f32; 16]) -> __m512 {
        // SAFETY: the reference is to sixteen floats, which an unaligned load reads.
        unsafe { _mm512_loadu_ps(from.as_ptr()) }
    }

    #[target_feature(enable = "avx512f")]
    fn words(from: &[u8; 64]) -> __m512i {
        // SAFETY: the reference is to 64 bytes, which an unaligned load reads.
        unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
    }

    #[target_feature(enable = "avx512f")]
    fn four(from: &[f32; 4]) -> __m512 {
        // SAFETY: the reference is to four floats, which an unaligned load reads.
        let low = unsafe { _mm_loadu_ps(from.as_ptr()) };
        // Four words hold a block.
        let each = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
        _mm512_permutexvar_ps(each, _mm512_castps128_ps512(low))
    }

    /// Four blocks, each sum times its scale, added to `total`.
    #[target_feature(enable = "avx512f")]
    fn add(
        total: __m512,
        q: __m512i,
        x: &[[f32; 16]; 8],
        scales: &[f32; 4],
        table: __m512,
    ) -> __m512 {
        // Of an index only the lowest four bits count.
        let at = |q: __m512i| _mm512_permutexvar_ps(q, table);
        let even = _mm512_mul_ps(at(q), floats(&x[0]));
        let odd = _mm512_mul_ps(at(_mm512_srli_epi32::<4>(q)), floats(&x[1]));
        let even = _mm512_fmadd_ps(at(_mm512_srli_epi32::<8>(q)), floats(&x[2]), even);
        let odd = _mm512_fmadd_ps(at(_mm512_srli_epi32::<12>(q)), floats(&x[3]), odd);
        let even = _mm512_fmadd_ps(at(_mm512_srli_epi32::<16>(q)), floats(&x[4]), even);
        let odd = _mm512_fmadd_ps(at(_mm512_srli_epi32::<20>(q)), floats(&x[5]), odd);
        let even = _mm512_fmadd_ps(at(_mm512_srli_epi32::<24>(q)), floats(&x[6]), even);
        let odd = _mm512_fmadd_ps(at(_mm512_srli_epi32::<28>(q)), floats(&x[7]), odd);
        _mm512_fmadd_ps(_mm512_add_ps(even, odd), four(scales), total)
    }

    /// As [`super::dot`], which has checked the lengths.
    #[target_feature(enable = "avx512f")]
    pub fn dot(row: &[u8], x: &[f32], scales: &[f32], values: &[f32; 16]) -> f32 {
        let table = floats(values);
        let mut total = _mm512_setzero_ps();
        let (row, last_row) = row.as_chunks::<{ CHUNK / 2 }>();
        let (scales, last_scales) = scales.as_chunks::<{ CHUNK / BLOCK }>();
        let (x, _) = x.as_chunks::<16>();
        let (x, _) = x.as_chunks::<8>();
        for ((q, x), scales) in row.iter().zip(x).zip(scales) {
            total = add(total, words(q), x, scales, table);
        }
        if let (Some(x), false) = (x.get(row.len()), last_scales.is_empty()) {
            let (mut q, mut scales) = ([0u8; 64], [0f32; 4]);
            q[..last_row.len()].copy_from_slice(last_row);
            scales[..last_scales.len()].copy_from_slice(last_scales);
            total = add(total, words(&q), x, &scales, table);
        }
        _mm512_reduce_add_ps(total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_of_any_number_of_blocks_are_those_of_plain_code() {
        for blocks in 0..12 {
            let n = blocks * BLOCK;
            let row: Vec<u8> = (0..n / 2).map(|i| (i * 37 + 11) as u8).collect();
            let x: Vec<f32> = (0..n).map(|i| (i % 9) as f32 - 4.0).collect();
            let scales: Vec<f32> = (0..blocks).map(|b| 0.5 + b as f32).collect();
            for values in [UNSIGNED, SIGNED] {
                let q = |i: usize| values[usize::from(row[i / 2] >> (4 * (i % 2)) & 0xf)];
                let expected: f32 = (0..n).map(|i| q(i) * x[i] * scales[i / BLOCK]).sum();
                let found = dot(&row, &in_reading_order(&x), &scales, &values);
                assert_eq!(found, available().then_some(expected), "{blocks} blocks");
            }
        }
    }

    #[test]
    fn lengths_that_do_not_fit_are_refused() {
        let x = in_reading_order(&[1.0; BLOCK]);
        assert_eq!(dot(&[0; 15], &x, &[1.0], &UNSIGNED), None);
        assert_eq!(dot(&[0; 16], &x[1..], &[1.0], &UNSIGNED), None);
    }
}
