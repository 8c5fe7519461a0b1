//! Products of a single-precision vector with a vector of halves: what a decode step spends its time on,
//! so they are written to keep up with the memory the halves come from.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

/// Elements converted at a time where values go through single precision: small enough for the stack.
pub(super) const SLICE: usize = 512;

/// A format that values are stored in, and that is computed with in single precision; it converts by whole
/// slices.
pub(super) trait Stored: bytemuck::Pod + Send + Sync {
    /// The values in single precision; both slices have one length.
    fn widen(from: &[Self], to: &mut [f32]);
    /// The nearest values, ties to even; both slices have one length.
    fn rounded(from: &[f32], to: &mut [Self]);
    /// The sum of products of two slices of one length; `scratch` is as long.
    fn dot(a: &[f32], b: &[Self], scratch: &mut [f32]) -> f32;
}

impl Stored for f32 {
    fn widen(from: &[f32], to: &mut [f32]) {
        to.copy_from_slice(from);
    }

    fn rounded(from: &[f32], to: &mut [f32]) {
        to.copy_from_slice(from);
    }

    fn dot(a: &[f32], b: &[f32], _: &mut [f32]) -> f32 {
        dot(a, b)
    }
}

impl Stored for f16 {
    fn widen(from: &[f16], to: &mut [f32]) {
        from.convert_to_f32_slice(to);
    }

    fn rounded(from: &[f32], to: &mut [f16]) {
        to.convert_from_f32_slice(from);
    }

    fn dot(a: &[f32], b: &[f16], scratch: &mut [f32]) -> f32 {
        #[cfg(target_arch = "x86_64")]
        if x86::available() {
            // SAFETY: `available` has found every feature the function is compiled for.
            return unsafe { x86::dot_f16(a, bytemuck::cast_slice(b)) };
        }
        f16::widen(b, scratch);
        dot(a, scratch)
    }
}

impl Stored for bf16 {
    fn widen(from: &[bf16], to: &mut [f32]) {
        from.convert_to_f32_slice(to);
    }

    fn rounded(from: &[f32], to: &mut [bf16]) {
        to.convert_from_f32_slice(from);
    }

    fn dot(a: &[f32], b: &[bf16], scratch: &mut [f32]) -> f32 {
        #[cfg(target_arch = "x86_64")]
        if x86::available() {
            // SAFETY: `available` has found every feature the function is compiled for.
            return unsafe { x86::dot_bf16(a, bytemuck::cast_slice(b)) };
        }
        bf16::widen(b, scratch);
        dot(a, scratch)
    }
}

/// The sum of products, in eight interleaved sums.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0f32; 8];
    let (xs, ys) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: f32 = xs
        .remainder()
        .iter()
        .zip(ys.remainder())
        .map(|(x, y)| x * y)
        .sum();
    for (x, y) in xs.zip(ys) {
        for i in 0..8 {
            sums[i] += x[i] * y[i];
        }
    }
    sums.iter().sum::<f32>() + rest
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m128i, __m256, _mm256_castsi256_ps, _mm256_cvtepu16_epi32, _mm256_cvtph_ps,
        _mm256_fmadd_ps, _mm256_setzero_ps, _mm256_slli_epi32,
    };

    use half::{bf16, f16};

    /// Whether the processor has what the functions here are compiled for.
    pub fn available() -> bool {
        is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c")
    }

    /// Defines a function: `$widen` makes eight floats of eight halves, `$one` one of one.
    macro_rules! dot {
        ($name:ident, $widen:expr, $one:expr) => {
            #[target_feature(enable = "avx2,fma,f16c")]
            pub fn $name(a: &[f32], b: &[u16]) -> f32 {
                let mut sums = [_mm256_setzero_ps(); 4];
                let (xs, ys) = (a.chunks_exact(32), b.chunks_exact(32));
                let rest: f32 = xs
                    .remainder()
                    .iter()
                    .zip(ys.remainder())
                    .map(|(x, y)| x * $one(*y))
                    .sum();
                for (x, y) in xs.zip(ys) {
                    for (i, sum) in sums.iter_mut().enumerate() {
                        let x: __m256 = bytemuck::pod_read_unaligned(bytemuck::cast_slice(
                            &x[8 * i..8 * i + 8],
                        ));
                        let y: __m128i = bytemuck::pod_read_unaligned(bytemuck::cast_slice(
                            &y[8 * i..8 * i + 8],
                        ));
                        *sum = _mm256_fmadd_ps(x, $widen(y), *sum);
                    }
                }
                let sums: [[f32; 8]; 4] = bytemuck::cast(sums);
                sums.iter().flatten().sum::<f32>() + rest
            }
        };
    }

    dot!(dot_f16, |y: __m128i| _mm256_cvtph_ps(y), |y: u16| {
        f16::from_bits(y).to_f32()
    });
    dot!(
        dot_bf16,
        |y: __m128i| _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(y))),
        |y: u16| bf16::from_bits(y).to_f32()
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_of_every_length_are_those_of_plain_code() {
        for n in 0..100 {
            let a: Vec<f32> = (0..n).map(|i| (i % 7) as f32 - 3.0).collect();
            let b: Vec<f32> = (0..n).map(|i| (i % 5) as f32 * 0.5 - 1.0).collect();
            let expected: f32 = a.iter().zip(&b).map(|(x, y)| x * y).sum();
            let mut scratch = vec![0.0; n];
            let half: Vec<f16> = b.iter().map(|v| f16::from_f32(*v)).collect();
            assert_eq!(f16::dot(&a, &half, &mut scratch), expected, "{n}");
            let half: Vec<bf16> = b.iter().map(|v| bf16::from_f32(*v)).collect();
            assert_eq!(bf16::dot(&a, &half, &mut scratch), expected, "{n}");
            assert_eq!(dot(&a, &b), expected, "{n}");
        }
    }
}
