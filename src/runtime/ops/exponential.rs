//! The exponential function of many values, several at a time.

/// `e` to a power of at most zero, within 1.5 units in the last place; NaN stays. Without branches, so that
/// several are computed at a time.
#[inline(always)]
pub(super) fn power(x: f32) -> f32 {
    use std::f32::consts::LOG2_E;
    // Beyond this the result is zero.
    let x = if x < -104.0 { -104.0 } else { x };
    // Adding and subtracting this rounds to an integer.
    const ROUND: f32 = 12_582_912.0;
    let rounded = x * LOG2_E + ROUND;
    let whole = rounded - ROUND;
    // The logarithm of 2 in two parts, the first with few digits.
    let rest = x - whole * 0.693_359_4 - whole * -2.121_944_4e-4;
    // The series of the exponential function; the rest is at most 0.35.
    let mut sum = 1.0 / 5_040.0;
    for factor in [
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
        1.0,
        1.0,
    ] {
        sum = sum * rest + factor;
    }
    // The integer is in the last bits. Two steps, as this power of 2 may be too small for a number of full
    // precision; of NaN they are anything.
    let whole = rounded.to_bits().wrapping_sub(ROUND.to_bits()) as i32;
    let half = whole >> 1;
    let two_to = |n: i32| f32::from_bits((n.wrapping_add(127) as u32) << 23);
    sum * two_to(half) * two_to(whole - half)
}

/// The logistic function of each value. Each half is computed where it keeps its precision.
pub(super) fn sigmoid(values: &mut [f32]) {
    each(values, |_, share| share);
}

/// Each value times its logistic function.
pub(super) fn silu(values: &mut [f32]) {
    each(values, |value, share| value * share);
}

#[inline(always)]
fn each(values: &mut [f32], f: impl Fn(f32, f32) -> f32 + Copy) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the feature the function is compiled for has just been found.
        return unsafe { each_avx2(values, f) };
    }
    each_anywhere(values, f);
}

/// The same code with registers twice as wide.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn each_avx2(values: &mut [f32], f: impl Fn(f32, f32) -> f32 + Copy) {
    each_anywhere(values, f);
}

#[inline(always)]
fn each_anywhere(values: &mut [f32], f: impl Fn(f32, f32) -> f32 + Copy) {
    for value in values {
        let small = power(-value.abs());
        let share = if *value < 0.0 { small } else { 1.0 } / (1.0 + small);
        *value = f(*value, share);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logistic_functions_are_those_of_doubles() {
        let mut from: Vec<f32> = (-4000..4000).map(|i| i as f32 * 0.03).collect();
        from.extend([0.0, -0.0, 1e-30, -1e-30, 1e30, -1e30]);
        let (mut shares, mut products) = (from.clone(), from.clone());
        sigmoid(&mut shares);
        silu(&mut products);
        for ((x, share), product) in from.iter().zip(shares).zip(products) {
            let exact = 1.0 / (1.0 + (-f64::from(*x)).exp());
            // Where the result has lost digits, by the smallest number there is.
            let near = |found: f32, wanted: f64| {
                (f64::from(found) - wanted).abs()
                    <= 3e-7 * wanted.abs() + f64::from(f32::MIN_POSITIVE)
            };
            assert!(near(share, exact), "{x}: {share}, {exact}");
            assert!(near(product, f64::from(*x) * exact), "{x}: {product}");
        }
    }

    #[test]
    fn limits_are_kept() {
        let mut shares = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN];
        let mut products = shares;
        sigmoid(&mut shares);
        silu(&mut products);
        assert_eq!(shares[..2], [1.0, 0.0]);
        assert_eq!(products[0], f32::INFINITY);
        assert!(shares[2].is_nan() && products[1].is_nan() && products[2].is_nan());
    }
}
