//! How far two tensors lie apart.

use serde::Serialize;

use super::numbers::{Number, Values};
use super::tolerance::Tolerance;
use crate::runtime::{Class, DType, Tensor};

/// A last axis of at least this extent makes a float tensor one of scores: the place of the largest is
/// compared, too.
const SCORES: usize = 8;

/// Distances between a tensor of ours and the one PyTorch has. JSON knows no infinity: a distance
/// that is none is `null`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Metrics {
    /// Number of elements.
    pub elements: usize,
    /// How many lie beyond the tolerance.
    pub beyond: usize,
    /// Largest distance.
    pub max_abs: f64,
    /// Mean distance.
    pub mae: f64,
    /// Mean of the squares.
    pub mse: f64,
    /// Mean of distance by the larger of both magnitudes.
    pub mean_relative: f64,
    /// Peak signal-to-noise ratio in dB, the peak being PyTorch's largest magnitude; absent where both
    /// are equal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub psnr: Option<f64>,
    /// Share of rows whose largest element stands in the same place; for floats with a last extent of 8
    /// and more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top1: Option<f64>,
    /// The first element beyond the tolerance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<Element>,
}

/// One element on both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Element {
    /// Its index.
    pub index: Vec<usize>,
    /// Our value.
    pub ours: Number,
    /// PyTorch's value.
    pub theirs: Number,
}

/// Why two tensors cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Incomparable {
    /// Another shape.
    #[error("shape {} against {}", super::numbers::shape(.0), super::numbers::shape(.1))]
    Shape(Vec<usize>, Vec<usize>),
    /// Memory is not to be had.
    #[error("no memory to compare")]
    Memory,
}

/// The values as doubles; complex numbers as real part, imaginary part.
pub fn reals(t: &Tensor) -> Option<Vec<f64>> {
    match t.dtype().part() {
        None => t.reals(),
        Some(part) => {
            let shape: Vec<usize> = t.shape().iter().copied().chain([2]).collect();
            Tensor::from_bytes(part, &shape, &t.bytes()).ok()?.reals()
        }
    }
}

/// Whether two values agree at a distance of at most `allowed`.
pub fn agree(a: f64, b: f64, allowed: f64) -> bool {
    a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= allowed
}

/// The largest finite magnitude.
pub fn scale(values: &[f64]) -> f64 {
    values
        .iter()
        .map(|v| v.abs())
        .filter(|v| v.is_finite())
        .fold(0.0, f64::max)
}

/// Whether all values agree within the tolerance.
pub fn close(ours: &Tensor, theirs: &Tensor, tolerance: Tolerance) -> bool {
    matches!(compare(ours, theirs, tolerance), Ok(m) if m.beyond == 0)
}

/// Whether two tensors are equal bit for bit.
pub fn identical(a: &Tensor, b: &Tensor) -> bool {
    a.dtype() == b.dtype() && a.shape() == b.shape() && a.bytes() == b.bytes()
}

/// Compares a tensor of ours with PyTorch's.
///
/// # Errors
/// Where the shapes differ.
pub fn compare(
    ours: &Tensor,
    theirs: &Tensor,
    tolerance: Tolerance,
) -> Result<Metrics, Incomparable> {
    if ours.shape() != theirs.shape() {
        return Err(Incomparable::Shape(
            ours.shape().to_vec(),
            theirs.shape().to_vec(),
        ));
    }
    let mut m = Metrics {
        elements: ours.len(),
        beyond: 0,
        max_abs: 0.0,
        mae: 0.0,
        mse: 0.0,
        mean_relative: 0.0,
        psnr: None,
        top1: None,
        first: None,
    };
    let last = ours.shape().last().copied().unwrap_or(1);
    let scores = ours.dtype().class() == Class::Float && last >= SCORES && !ours.is_empty();
    if identical(ours, theirs) {
        m.top1 = scores.then_some(1.0);
        return Ok(m);
    }
    let (Some(ours_at), Some(theirs_at)) = (Values::of(ours), Values::of(theirs)) else {
        return Err(Incomparable::Memory);
    };
    let (a, b) = (&ours_at.reals, &theirs_at.reals);
    let peak = scale(b);
    let allowed = tolerance.at(peak);
    let mut first = None;
    for (i, (x, y)) in a.iter().zip(b).enumerate() {
        let distance = ours_at.distance(&theirs_at, i);
        if distance > allowed {
            m.beyond += 1;
            first.get_or_insert(i);
        }
        m.max_abs = m.max_abs.max(distance);
        m.mae += distance;
        m.mse += distance * distance;
        let larger = x.abs().max(y.abs());
        if distance > 0.0 {
            m.mean_relative += if larger > 0.0 && larger.is_finite() {
                distance / larger
            } else {
                1.0
            };
        }
    }
    let n = a.len().max(1) as f64;
    m.mae /= n;
    m.mse /= n;
    m.mean_relative /= n;
    if m.mse > 0.0 && m.mse.is_finite() && peak > 0.0 {
        m.psnr = Some(20.0 * (peak / m.mse.sqrt()).log10());
    }
    if scores {
        let rows = a.chunks_exact(last).zip(b.chunks_exact(last));
        let equal = rows.filter(|(x, y)| largest(x) == largest(y)).count();
        m.top1 = Some(equal as f64 / (a.len() / last) as f64);
    }
    m.first = first.and_then(|i| {
        Some(Element {
            index: unravel(i / (a.len() / ours.len().max(1)).max(1), ours.shape()),
            ours: ours_at.at(i)?,
            theirs: theirs_at.at(i)?,
        })
    });
    Ok(m)
}

/// The place of the first largest number.
fn largest(row: &[f64]) -> usize {
    let mut at = 0;
    for (i, v) in row.iter().enumerate() {
        if *v > row[at] || (row[at].is_nan() && !v.is_nan()) {
            at = i;
        }
    }
    at
}

/// The index of element `i`, row-major.
pub fn unravel(mut i: usize, shape: &[usize]) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for (slot, extent) in index.iter_mut().zip(shape).rev() {
        *slot = i % (*extent).max(1);
        i /= (*extent).max(1);
    }
    index
}

/// The float types among two, narrowest first; for messages.
pub fn is_float(dtype: DType) -> bool {
    matches!(dtype.class(), Class::Float | Class::Complex)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOSE: Tolerance = Tolerance {
        atol: 0.1,
        rtol: 0.0,
    };

    #[test]
    fn distances_are_those_of_the_textbook() {
        let a = Tensor::from_values(&[2, 2], &[1.0f32, 2.0, 3.0, 4.0]).unwrap();
        let b = Tensor::from_values(&[2, 2], &[1.0f32, 2.0, 3.0, 2.0]).unwrap();
        let m = compare(&a, &b, LOOSE).unwrap();
        assert_eq!(
            (
                m.elements,
                m.beyond,
                m.max_abs,
                m.mae,
                m.mse,
                m.mean_relative
            ),
            (4, 1, 2.0, 0.5, 1.0, 0.125)
        );
        assert_eq!(
            m.first,
            Some(Element {
                index: vec![1, 1],
                ours: 4.0.into(),
                theirs: 2.0.into()
            })
        );
        assert!((m.psnr.unwrap() - 20.0 * 3f64.log10()).abs() < 1e-12);
        assert_eq!(m.top1, None);
    }

    #[test]
    fn what_is_no_number_agrees_only_with_its_like() {
        let a = Tensor::from_values(&[3], &[f32::NAN, f32::INFINITY, f32::NAN]).unwrap();
        let b = Tensor::from_values(&[3], &[f32::NAN, f32::INFINITY, 1.0]).unwrap();
        let m = compare(&a, &b, LOOSE).unwrap();
        assert_eq!((m.beyond, m.max_abs), (1, f64::INFINITY));
        assert_eq!(m.first.unwrap().index, [2]);
    }

    #[test]
    fn integers_that_share_a_double_differ() {
        let a = Tensor::from_values(&[2], &[7i64, 1 << 53]).unwrap();
        let b = Tensor::from_values(&[2], &[7i64, (1 << 53) + 1]).unwrap();
        let m = compare(&a, &b, Tolerance::EXACT).unwrap();
        assert_eq!((m.beyond, m.max_abs), (1, 1.0));
        let first = m.first.unwrap();
        assert_eq!(
            (first.ours.to_string(), first.theirs.to_string()),
            ("9007199254740992".into(), "9007199254740993".into())
        );
    }

    #[test]
    fn scores_are_compared_by_the_place_of_the_largest() {
        let mut row = [0f32; 16];
        row[3] = 1.0;
        row[12] = 1.0;
        let a = Tensor::from_values(&[2, 8], &row).unwrap();
        row[12] = 0.5;
        row[9] = 0.75;
        let b = Tensor::from_values(&[2, 8], &row).unwrap();
        assert_eq!(compare(&a, &b, LOOSE).unwrap().top1, Some(0.5));
    }

    #[test]
    fn shapes_must_be_equal() {
        let a = Tensor::from_values(&[2], &[1f32, 2.0]).unwrap();
        let b = Tensor::from_values(&[1, 2], &[1f32, 2.0]).unwrap();
        assert_eq!(
            compare(&a, &b, LOOSE).unwrap_err().to_string(),
            "shape [2] against [1, 2]"
        );
    }
}
