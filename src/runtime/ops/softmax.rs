//! Softmax, with the maximum subtracted (the stored definition overflows).

use half::{bf16, f16};

use super::cast::cast;
use super::dot::Stored;
use super::exponential::power;
use super::{around, axis, Call, Kernel};
use crate::runtime::dtype::Class;
use crate::runtime::tensor::{OpResult, Tensor};
use crate::runtime::DType;

fn softmax(call: &mut Call<'_>) -> OpResult<Tensor> {
    let mut t = call.take(0)?;
    let a = axis(call.arg(1)?.int()?, t.rank())?;
    let own = t.dtype();
    if own.class() != Class::Float {
        return Err(format!("is not defined for {own}"));
    }
    let (_, n, inner) = around(t.dims(), a);
    if n == 0 || inner == 0 {
        return Ok(t);
    }
    match own {
        DType::F64 => {
            t.make_unique()?;
            strided(t.data_mut::<f64>()?, n, inner);
            Ok(t)
        }
        DType::F32 if inner == 1 => {
            t.make_unique()?;
            t.data_mut::<f32>()?.chunks_exact_mut(n).for_each(row);
            Ok(t)
        }
        DType::F16 if inner == 1 => halves::<f16>(t, n),
        DType::BF16 if inner == 1 => halves::<bf16>(t, n),
        _ => {
            // Rows that lie apart are brought together.
            let mut wide = cast(&t, DType::F32)?;
            wide.make_unique()?;
            let mut together = vec![0f32; n];
            for block in wide.data_mut::<f32>()?.chunks_exact_mut(n * inner) {
                for i in 0..inner {
                    let column = block[i..].iter().step_by(inner);
                    together.iter_mut().zip(column).for_each(|(to, v)| *to = *v);
                    row(&mut together);
                    let column = block[i..].iter_mut().step_by(inner);
                    column.zip(&together).for_each(|(to, v)| *to = *v);
                }
            }
            cast(&wide, own)
        }
    }
}

/// Rows of `n` halves, in single precision.
fn halves<H: Stored>(mut t: Tensor, n: usize) -> OpResult<Tensor> {
    t.make_unique()?;
    let mut wide = vec![0f32; n];
    for block in t.data_mut::<H>()?.chunks_exact_mut(n) {
        H::widen(block, &mut wide);
        row(&mut wide);
        H::rounded(&wide, block);
    }
    Ok(t)
}

/// Lanes that are computed side by side.
const LANES: usize = 8;

/// One row: every value to its share. A NaN anywhere, an infinity, or nothing but negative infinities
/// make all of it NaN, as the definition has it.
pub(super) fn row(values: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the feature the function is compiled for has just been found.
        return unsafe { row_avx2(values) };
    }
    row_anywhere(values);
}

/// The same code with registers twice as wide.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn row_avx2(values: &mut [f32]) {
    row_anywhere(values);
}

#[inline(always)]
fn row_anywhere(values: &mut [f32]) {
    let mut highest = [f32::NEG_INFINITY; LANES];
    let chunks = values.chunks_exact(LANES);
    let rest = chunks.remainder();
    let higher = |a: f32, b: f32| if b > a { b } else { a };
    for chunk in chunks {
        for (h, v) in highest.iter_mut().zip(chunk) {
            *h = higher(*h, *v);
        }
    }
    let max = highest.iter().chain(rest).copied();
    let max = max.fold(f32::NEG_INFINITY, higher);
    values.iter_mut().for_each(|v| *v = power(*v - max));
    let mut sums = [0f32; LANES];
    let chunks = values.chunks_exact(LANES);
    let rest: f32 = chunks.remainder().iter().sum();
    for chunk in chunks {
        for (s, v) in sums.iter_mut().zip(chunk) {
            *s += v;
        }
    }
    let sum = sums.iter().sum::<f32>() + rest;
    values.iter_mut().for_each(|v| *v /= sum);
}

fn strided(values: &mut [f64], n: usize, inner: usize) {
    for block in values.chunks_exact_mut(n * inner) {
        for i in 0..inner {
            let at = |k: usize| k * inner + i;
            let max = (0..n).fold(f64::NEG_INFINITY, |m, k| m.max(block[at(k)]));
            let mut sum = 0.0;
            for k in 0..n {
                let e = (block[at(k)] - max).exp();
                block[at(k)] = e;
                sum += e;
            }
            for k in 0..n {
                block[at(k)] /= sum;
            }
        }
    }
}

pub const OPS: &[(&str, Kernel)] = &[("softmax", Kernel::One(softmax))];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_power_is_within_one_and_a_half_units_of_the_last_place() {
        let mut worst = 0f64;
        // Every 997th number from -0 to -87, where results have full precision.
        for bits in (0x8000_0000u32..0xc2ae_0000).step_by(997) {
            let x = f32::from_bits(bits);
            let exact = f64::from(x).exp();
            let unit =
                f64::from(f32::from_bits((exact as f32).to_bits() + 1)) - f64::from(exact as f32);
            worst = worst.max((f64::from(power(x)) - exact).abs() / unit);
        }
        assert!(worst <= 1.5, "{worst}");
        assert_eq!(power(0.0), 1.0);
        assert_eq!(power(f32::NEG_INFINITY), 0.0);
        assert_eq!(power(-88.0), (-88f64).exp() as f32);
        assert!(power(f32::NAN).is_nan());
    }

    #[test]
    fn rows_of_every_length_add_up_to_one_and_keep_their_proportions() {
        for n in 1..40usize {
            let mut values: Vec<f32> = (0..n).map(|i| (i % 11) as f32 - 1_000.0).collect();
            row(&mut values);
            let exact: f64 = (0..n).map(|i| ((i % 11) as f64).exp()).sum();
            for (i, v) in values.iter().enumerate() {
                let expected = ((i % 11) as f64).exp() / exact;
                assert!((f64::from(*v) / expected - 1.0).abs() < 1e-6, "{n} {i} {v}");
            }
        }
    }

    #[test]
    fn what_has_no_shares_is_nan_throughout() {
        let lowest = f32::NEG_INFINITY;
        for mut values in [[lowest; 9], [f32::INFINITY; 9]] {
            row(&mut values);
            assert!(values.iter().all(|v| v.is_nan()), "{values:?}");
        }
        for at in 0..9 {
            let mut values = [1.0; 9];
            values[at] = f32::NAN;
            row(&mut values);
            assert!(values.iter().all(|v| v.is_nan()), "{values:?}");
        }
        let mut one = [lowest, 3.0, lowest];
        row(&mut one);
        assert_eq!(one, [0.0, 1.0, 0.0]);
    }
}
