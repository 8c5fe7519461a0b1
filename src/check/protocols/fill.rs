//! Filling states with what does not belong there.

use crate::check::metrics::is_float;
use crate::runtime::{DType, Tensor, TensorError};

/// What to fill with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Not a number; integers stay as they are.
    Nan,
    /// Finite numbers of the size of activations; integers stay as they are.
    Garbage,
    /// One number that nothing writes by chance.
    Mark,
}

/// Whether a state can be filled: floats can, integers may be positions.
pub fn fillable(dtype: DType) -> bool {
    is_float(dtype) && dtype.part().is_none() && dtype.small_float().is_none()
}

/// Fills the rows from `from` on along `axis`; everything for `None`.
pub fn fill(t: &mut Tensor, fill: Fill, rows: Option<(usize, usize)>) -> Result<(), TensorError> {
    if !fillable(t.dtype()) {
        return Ok(());
    }
    let shape = t.shape().to_vec();
    let inner = rows.map_or(1, |(axis, _)| {
        shape.iter().skip(axis + 1).product::<usize>()
    });
    let extent = rows.map_or(1, |(axis, _)| shape.get(axis).copied().unwrap_or(1));
    let n = t.len();
    // Numbers that are neither equal nor zero, in -50..50.
    let value = |i: usize| match fill {
        Fill::Nan => f64::NAN,
        Fill::Mark => 0.728_515_625,
        Fill::Garbage => ((i.wrapping_mul(2_654_435_761) >> 7) % 9973) as f64 / 99.73 - 49.9,
    };
    let values: Vec<f64> = (0..n).map(value).collect();
    let filled = Tensor::from_values(&shape, &values)?.cast(t.dtype())?;
    let size = t.dtype().size();
    let from = filled.bytes().into_owned();
    let own = t.bytes_mut()?;
    for i in 0..n {
        let row = (i / inner.max(1)) % extent.max(1);
        if rows.is_none_or(|(_, first)| row >= first) {
            own[i * size..(i + 1) * size].copy_from_slice(&from[i * size..(i + 1) * size]);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_from_one_on_are_filled_and_the_rest_stays() {
        let mut t = Tensor::from_values(&[2, 3, 2], &[1f32; 12]).unwrap();
        fill(&mut t, Fill::Nan, Some((1, 1))).unwrap();
        let nan: Vec<bool> = t
            .values::<f32>()
            .unwrap()
            .iter()
            .map(|v| v.is_nan())
            .collect();
        let row = [false, false, true, true, true, true];
        assert_eq!(nan, [row, row].concat());
    }

    #[test]
    fn garbage_is_finite_in_every_float_type() {
        for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64] {
            let mut t = Tensor::zeros(dtype, &[100]).unwrap();
            fill(&mut t, Fill::Garbage, None).unwrap();
            assert!(
                t.reals()
                    .unwrap()
                    .iter()
                    .all(|v| v.is_finite() && *v != 0.0),
                "{dtype}"
            );
        }
        let mut t = Tensor::zeros(DType::I32, &[2]).unwrap();
        fill(&mut t, Fill::Garbage, None).unwrap();
        assert_eq!(t.values::<i32>().unwrap(), [0, 0]);
    }
}
