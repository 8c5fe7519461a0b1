//! Which rows of a state changed.

use super::numbers::Values;
use crate::runtime::Tensor;

/// For each axis, the indices along it at which anything differs between two tensors of one shape;
/// `None` for tensors of different shape.
pub fn changed(before: &Tensor, after: &Tensor) -> Option<Vec<Vec<usize>>> {
    differing(before, after, 0.0)
}

/// As [`changed`], where values lie further apart than `allowed`.
pub fn differing(before: &Tensor, after: &Tensor, allowed: f64) -> Option<Vec<Vec<usize>>> {
    if before.shape() != after.shape() {
        return None;
    }
    let shape = after.shape();
    let mut hit: Vec<Vec<bool>> = shape.iter().map(|n| vec![false; *n]).collect();
    let identical = before.dtype() == after.dtype() && before.bytes() == after.bytes();
    if !identical {
        let (a, b) = (Values::of(before)?, Values::of(after)?);
        // Complex numbers have two each.
        let parts = a.reals.len() / after.len().max(1);
        let mut index = vec![0usize; shape.len()];
        for at in (0..after.len()).map(|i| i * parts) {
            if (at..at + parts).any(|i| a.distance(&b, i) > allowed) {
                for (axis, i) in index.iter().enumerate() {
                    hit[axis][*i] = true;
                }
            }
            for axis in (0..shape.len()).rev() {
                index[axis] += 1;
                if index[axis] < shape[axis] {
                    break;
                }
                index[axis] = 0;
            }
        }
    }
    let list = |h: Vec<bool>| (0..h.len()).filter(|i| h[*i]).collect();
    Some(hit.into_iter().map(list).collect())
}

/// The axis along which only part changed in every step, and most narrowly: the one that counts
/// positions. `None` where every axis changes as a whole somewhere.
pub fn partial_axis(shape: &[usize], steps: &[Vec<Vec<usize>>]) -> Option<usize> {
    let written: Vec<_> = steps
        .iter()
        .filter(|s| s.iter().any(|a| !a.is_empty()))
        .collect();
    if written.is_empty() {
        return None;
    }
    let share = |axis: usize| {
        let most = written.iter().map(|s| s[axis].len()).max().unwrap_or(0);
        (most, shape[axis])
    };
    (0..shape.len())
        .filter(|a| shape[*a] > 1 && share(*a).0 < shape[*a])
        .min_by(|a, b| {
            let ((m, n), (k, l)) = (share(*a), share(*b));
            (m * l).cmp(&(k * n))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_that_one_double_stands_for_are_told_apart() {
        const BIG: i64 = 1 << 53;
        let a = Tensor::from_values(&[3], &[BIG, BIG, -BIG]).unwrap();
        let b = Tensor::from_values(&[3], &[BIG, BIG + 1, -BIG - 1]).unwrap();
        assert_eq!(changed(&a, &b).unwrap(), [vec![1, 2]]);
        assert_eq!(differing(&a, &b, 1.0).unwrap(), [Vec::<usize>::new()]);
        let a = Tensor::from_values(&[2], &[u64::MAX, 0]).unwrap();
        let b = Tensor::from_values(&[2], &[u64::MAX - 1, 0]).unwrap();
        assert_eq!(changed(&a, &b).unwrap(), [vec![0]]);
    }

    #[test]
    fn nan_stays_nan_and_infinity_infinity() {
        let a = Tensor::from_values(&[4], &[f32::NAN, f32::INFINITY, 0.0, 1.0]).unwrap();
        let b = Tensor::from_values(&[4], &[f32::NAN, f32::INFINITY, -0.0, f32::NAN]).unwrap();
        assert_eq!(changed(&a, &b).unwrap(), [vec![3]]);
        assert_eq!(differing(&a, &b, 9.0).unwrap(), [vec![3]]);
    }

    #[test]
    fn the_rows_that_changed_are_found_on_every_axis() {
        let a = Tensor::from_values(&[2, 3], &[0f32; 6]).unwrap();
        let b = Tensor::from_values(&[2, 3], &[0f32, 0.0, 0.0, 0.0, 5.0, 6.0]).unwrap();
        let steps = changed(&a, &b).unwrap();
        assert_eq!(steps, [vec![1], vec![1, 2]]);
        assert_eq!(partial_axis(&[2, 3], &[steps]), Some(0));
        assert_eq!(partial_axis(&[2, 3], &[changed(&a, &a).unwrap()]), None);
        let all = Tensor::from_values(&[2, 3], &[1f32; 6]).unwrap();
        assert_eq!(partial_axis(&[2, 3], &[changed(&a, &all).unwrap()]), None);
    }
}
