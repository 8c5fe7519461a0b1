//! Filling states with what does not belong there.

use std::ops::Range;

use crate::check::metrics::is_float;
use crate::check::numbers::{wholes, Values};
use crate::runtime::{Class, DType, Tensor, TensorError};

/// What to fill with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Not a number; integers and booleans stay as they are.
    Nan,
    /// Finite numbers of the size of activations; integers from 23 to 119; booleans are turned over.
    Garbage,
    /// Integers one off, which still are positions and indices as a rule; booleans are turned over;
    /// floats stay as they are.
    Near,
    /// One number that nothing writes by chance; booleans are turned over.
    Mark,
}

/// Whether a state can be filled: floats of 16 bits and more, integers of 8 bits and more, booleans.
pub fn fillable(dtype: DType) -> bool {
    let float = is_float(dtype) && dtype.part().is_none() && dtype.small_float().is_none();
    float || is_whole(dtype)
}

/// Whether a state holds integers or booleans: they may be positions, counters, flags or contents.
pub fn is_whole(dtype: DType) -> bool {
    match dtype.class() {
        Class::Bool => true,
        Class::Int { bits, .. } => bits >= 8,
        _ => false,
    }
}

/// Fills the rows of `rows` along an axis; everything for `None`.
pub fn fill(
    t: &mut Tensor,
    fill: Fill,
    rows: Option<(usize, Range<usize>)>,
) -> Result<(), TensorError> {
    let dtype = t.dtype();
    let whole = is_whole(dtype);
    let untouched = if whole {
        fill == Fill::Nan
    } else {
        fill == Fill::Near || !fillable(dtype)
    };
    if untouched {
        return Ok(());
    }
    let shape = t.shape().to_vec();
    let axis = rows.as_ref().map(|r| r.0);
    let inner = axis.map_or(1, |axis| shape.iter().skip(axis + 1).product::<usize>());
    let extent = axis.map_or(1, |axis| shape.get(axis).copied().unwrap_or(1));
    let filled = if whole {
        let own = Values::of(t);
        let held = |i| own.as_ref().and_then(|v| v.whole(i)).unwrap_or_default();
        let values = (0..t.len()).map(|i| integer(fill, dtype, i, held(i)));
        wholes(dtype, &shape, &values.collect::<Vec<_>>())?
    } else {
        let values: Vec<f64> = (0..t.len()).map(|i| float(fill, i)).collect();
        Tensor::from_values(&shape, &values)?.cast(dtype)?
    };
    let size = dtype.size();
    let from = filled.bytes().into_owned();
    let bytes = t.bytes_mut()?;
    for i in 0..filled.len() {
        let row = (i / inner.max(1)) % extent.max(1);
        if rows.as_ref().is_none_or(|(_, range)| range.contains(&row)) {
            bytes[i * size..(i + 1) * size].copy_from_slice(&from[i * size..(i + 1) * size]);
        }
    }
    Ok(())
}

/// Numbers that are neither equal nor zero, in -50..50.
fn float(fill: Fill, i: usize) -> f64 {
    match fill {
        Fill::Nan => f64::NAN,
        Fill::Mark => 0.728_515_625,
        _ => ((i.wrapping_mul(2_654_435_761) >> 7) % 9973) as f64 / 99.73 - 49.9,
    }
}

/// An integer or boolean that is not the one that is held.
fn integer(fill: Fill, dtype: DType, i: usize, held: i128) -> i128 {
    let Class::Int { signed, bits } = dtype.class() else {
        return i128::from(held == 0);
    };
    let last = (1i128 << (bits - u32::from(signed))) - 1;
    let wanted = match fill {
        // At the end of a type the next one is below.
        Fill::Near if held == last => held - 1,
        Fill::Near => held + 1,
        Fill::Mark => 91,
        _ => 23 + ((i.wrapping_mul(2_654_435_761) >> 7) % 97) as i128,
    };
    // All of them, and one more, fit into eight bits.
    match wanted == held {
        true => wanted + 1,
        false => wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_from_one_on_are_filled_and_the_rest_stays() {
        let mut t = Tensor::from_values(&[2, 3, 2], &[1f32; 12]).unwrap();
        fill(&mut t, Fill::Nan, Some((1, 1..3))).unwrap();
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
    }

    #[test]
    fn no_integer_stays_as_it_was() {
        for dtype in [DType::I8, DType::U8, DType::I16, DType::I32, DType::I64] {
            for held in [0.0, 23.0, 91.0, 127.0] {
                for what in [Fill::Garbage, Fill::Near, Fill::Mark] {
                    let held = Tensor::from_values(&[50], &[held; 50]).unwrap();
                    let held = held.cast(dtype).unwrap();
                    let mut t = held.clone();
                    fill(&mut t, what, None).unwrap();
                    let pairs = t.reals().unwrap().into_iter().zip(held.reals().unwrap());
                    assert!(pairs.into_iter().all(|(a, b)| a != b), "{dtype} {what:?}");
                }
            }
        }
        let mut t = Tensor::from_values(&[2], &[254u8, 255]).unwrap();
        fill(&mut t, Fill::Near, None).unwrap();
        assert_eq!(t.values::<u8>().unwrap(), [255, 254]);
        let mut t = Tensor::from_values(&[3], &[i64::MIN, 1 << 53, i64::MAX]).unwrap();
        fill(&mut t, Fill::Near, None).unwrap();
        let near = [i64::MIN + 1, (1 << 53) + 1, i64::MAX - 1];
        assert_eq!(t.values::<i64>().unwrap(), near);
        let mut t = Tensor::from_values(&[2], &[1u64 << 53, u64::MAX]).unwrap();
        fill(&mut t, Fill::Near, None).unwrap();
        assert_eq!(t.values::<u64>().unwrap(), [(1 << 53) + 1, u64::MAX - 1]);
    }

    #[test]
    fn booleans_are_turned_over_and_integers_are_never_nan() {
        let mut t = Tensor::from_values(&[3], &[0f32, 1.0, 0.0]).unwrap();
        t = t.cast(DType::Bool).unwrap();
        fill(&mut t, Fill::Garbage, Some((0, 1..3))).unwrap();
        assert_eq!(t.reals().unwrap(), [0.0, 0.0, 1.0]);
        let mut t = Tensor::zeros(DType::I32, &[2]).unwrap();
        fill(&mut t, Fill::Nan, None).unwrap();
        assert_eq!(t.values::<i32>().unwrap(), [0, 0]);
    }
}
