//! Which rows of a state changed.

use super::metrics::reals;
use crate::runtime::Tensor;

/// For each axis, the indices along it at which anything differs between two tensors of one shape;
/// `None` for tensors of different shape.
pub fn changed(before: &Tensor, after: &Tensor) -> Option<Vec<Vec<usize>>> {
    differing(before, after, |a, b| {
        !(a == b || (a.is_nan() && b.is_nan()))
    })
}

/// As [`changed`], for whatever counts as different.
pub fn differing(
    before: &Tensor,
    after: &Tensor,
    differ: impl Fn(f64, f64) -> bool,
) -> Option<Vec<Vec<usize>>> {
    if before.shape() != after.shape() {
        return None;
    }
    let shape = after.shape();
    let mut hit: Vec<Vec<bool>> = shape.iter().map(|n| vec![false; *n]).collect();
    let identical = before.dtype() == after.dtype() && before.bytes() == after.bytes();
    if !identical {
        let (a, b) = (reals(before)?, reals(after)?);
        let parts = a.len() / after.len().max(1);
        let mut index = vec![0usize; shape.len()];
        for (x, y) in a
            .chunks_exact(parts.max(1))
            .zip(b.chunks_exact(parts.max(1)))
        {
            if x.iter().zip(y).any(|(x, y)| differ(*x, *y)) {
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
