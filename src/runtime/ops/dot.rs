//! Products of a single-precision vector with rows of halves: what a decode step spends its time on, so they
//! are written to keep up with the memory the halves come from.

#[cfg(target_arch = "x86_64")]
mod x86;

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

    /// For each row of `b`, which start so many elements from each other and are as long as `a`: the sum of
    /// its products with `a`, the same whatever the other rows are. `scratch` may hold anything. Many rows are
    /// read as several streams: memory delivers those faster than one.
    ///
    /// # Panics
    /// When a row reaches beyond `b`.
    fn dots(a: &[f32], b: &[Self], step: usize, sums: &mut [f32], scratch: &mut Vec<f32>) {
        dots(a, b, step, sums, scratch);
    }

    /// The sum of rows, each times its factor; they start so many elements from each other and are as long
    /// as `sums`. `scratch` may hold anything.
    ///
    /// # Panics
    /// When a row reaches beyond `rows`.
    fn mixed(
        factors: &[f32],
        rows: &[Self],
        step: usize,
        sums: &mut [f32],
        scratch: &mut Vec<f32>,
    ) {
        mixed(factors, rows, step, sums, scratch);
    }
}

impl Stored for f32 {
    fn widen(from: &[f32], to: &mut [f32]) {
        to.copy_from_slice(from);
    }

    fn rounded(from: &[f32], to: &mut [f32]) {
        to.copy_from_slice(from);
    }
}

/// Implements [`Stored`] for a half, by the functions in the module of its name where the processor has
/// what they need.
macro_rules! stored {
    ($half:ident) => {
        impl Stored for $half {
            fn widen(from: &[$half], to: &mut [f32]) {
                #[cfg(target_arch = "x86_64")]
                if x86::available() {
                    // SAFETY: `available` has found every feature the function is compiled for.
                    return unsafe { x86::$half::widen(from, to) };
                }
                from.convert_to_f32_slice(to);
            }

            fn rounded(from: &[f32], to: &mut [$half]) {
                #[cfg(target_arch = "x86_64")]
                if x86::available() {
                    // SAFETY: `available` has found every feature the function is compiled for.
                    return unsafe { x86::$half::rounded(from, to) };
                }
                to.convert_from_f32_slice(from);
            }

            fn dots(a: &[f32], b: &[$half], step: usize, sums: &mut [f32], scratch: &mut Vec<f32>) {
                #[cfg(target_arch = "x86_64")]
                if x86::available() {
                    // SAFETY: `available` has found every feature the function is compiled for.
                    return unsafe { x86::$half::dots(a, b, step, sums) };
                }
                dots(a, b, step, sums, scratch);
            }

            fn mixed(
                factors: &[f32],
                rows: &[$half],
                step: usize,
                sums: &mut [f32],
                scratch: &mut Vec<f32>,
            ) {
                #[cfg(target_arch = "x86_64")]
                if x86::available() {
                    // SAFETY: `available` has found every feature the function is compiled for.
                    return unsafe { x86::$half::mixed(factors, rows, step, sums) };
                }
                mixed(factors, rows, step, sums, scratch);
            }
        }
    };
}

stored!(f16);
stored!(bf16);

/// [`Stored::dots`] on any processor.
fn dots<S: Stored>(a: &[f32], b: &[S], step: usize, sums: &mut [f32], scratch: &mut Vec<f32>) {
    scratch.resize(a.len(), 0f32);
    for (i, sum) in sums.iter_mut().enumerate() {
        S::widen(&b[i * step..i * step + a.len()], scratch);
        *sum = dot(a, scratch);
    }
}

/// [`Stored::mixed`] on any processor.
fn mixed<S: Stored>(
    factors: &[f32],
    rows: &[S],
    step: usize,
    sums: &mut [f32],
    scratch: &mut Vec<f32>,
) {
    scratch.resize(sums.len(), 0f32);
    sums.fill(0.0);
    for (i, factor) in factors.iter().enumerate() {
        S::widen(&rows[i * step..i * step + sums.len()], scratch);
        for (sum, v) in sums.iter_mut().zip(&*scratch) {
            *sum += factor * v;
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn check_lengths<H: Stored>(half: fn(f32) -> H) {
        for n in 0..100 {
            let a: Vec<f32> = (0..n).map(|i| (i % 7) as f32 - 3.0).collect();
            // Two rows for each stream, and three that are left.
            let b: Vec<f32> = (0..11 * n).map(|i| (i % 5) as f32 * 0.5 - 1.0).collect();
            let rows = || b.chunks_exact(n.max(1)).take(11);
            let expected: Vec<f32> = rows()
                .map(|row| a.iter().zip(row).map(|(x, y)| x * y).sum())
                .collect();
            let narrow: Vec<H> = b.iter().map(|v| half(*v)).collect();
            let mut scratch = Vec::new();
            let mut sums = vec![f32::NAN; expected.len()];
            H::dots(&a, &narrow, n, &mut sums, &mut scratch);
            assert_eq!(sums, expected, "{n}");
            dots(&a, &narrow, n, &mut sums, &mut scratch);
            assert_eq!(sums, expected, "{n}, on any processor");

            let factors = [1.5, -2.0, 0.25];
            let expected: Vec<f32> = (0..n)
                .map(|j| (0..3).map(|i| factors[i] * b[i * n + j]).sum())
                .collect();
            for mix in [H::mixed, mixed::<H>] {
                let mut sums = vec![f32::NAN; n];
                mix(&factors, &narrow, n, &mut sums, &mut scratch);
                assert_eq!(sums, expected, "{n}");
            }
        }
    }

    #[test]
    fn products_of_every_length_are_those_of_plain_code() {
        check_lengths(f16::from_f32);
        check_lengths(bf16::from_f32);
        check_lengths(|v| v);
    }

    /// Every half is widened, and what is near to it rounded, as the library has it.
    fn check_values<H: Stored>(wide: fn(H) -> f32, near: fn(f32) -> H) {
        let all: Vec<u16> = (0..=u16::MAX).collect();
        let all: &[H] = bytemuck::cast_slice(&all);
        let mut widened = vec![0f32; all.len()];
        H::widen(all, &mut widened);
        for (h, w) in all.iter().zip(&widened) {
            assert_eq!(w.to_bits(), wide(*h).to_bits());
        }
        let ulps = [0u32, 1, 0xfff, 0x1000, 0x1001, 0x7fff, 0x8000, 0x8001];
        let from: Vec<f32> = widened
            .iter()
            .flat_map(|w| ulps.map(|u| f32::from_bits(w.to_bits().wrapping_add(u))))
            .collect();
        let mut rounded = vec![H::zeroed(); from.len()];
        H::rounded(&from, &mut rounded);
        for (f, r) in from.iter().zip(&rounded) {
            let (found, expected) = (bytemuck::bytes_of(r), near(*f));
            assert_eq!(
                found,
                bytemuck::bytes_of(&expected),
                "{f} {:x}",
                f.to_bits()
            );
        }
    }

    #[test]
    fn conversions_are_those_of_the_library() {
        check_values(f16::to_f32, f16::from_f32);
        check_values(bf16::to_f32, bf16::from_f32);
    }
}
