//! Numbers and indices as people read them.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::runtime::{DType, Tensor, TensorError};

/// A value of a tensor. A double cannot hold every 64-bit integer, so those stay what they are.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    /// What a double holds exactly.
    Real(f64),
    /// An integer of 64 bits.
    Whole(i128),
}

impl Number {
    /// The nearest double.
    pub fn real(self) -> f64 {
        match self {
            Number::Real(v) => v,
            Number::Whole(v) => v as f64,
        }
    }

    /// Whether it is smaller; no rounding makes two integers equal.
    pub fn is_below(self, other: Number) -> bool {
        match (self, other) {
            (Number::Whole(a), Number::Whole(b)) => a < b,
            _ => self.real() < other.real(),
        }
    }

    /// All digits, for a value that is told apart from a close one.
    pub fn exactly(self) -> String {
        match self {
            Number::Real(v) if v.is_finite() && v != 0.0 && !(1e-5..1e15).contains(&v.abs()) => {
                format!("{v:e}")
            }
            Number::Real(v) if v.is_finite() => format!("{}", v + 0.0),
            other => number(other),
        }
    }
}

impl From<f64> for Number {
    fn from(v: f64) -> Number {
        Number::Real(v)
    }
}

impl PartialEq for Number {
    /// Equal as numbers: no rounding makes two integers equal.
    fn eq(&self, other: &Number) -> bool {
        match (*self, *other) {
            (Number::Real(a), Number::Real(b)) => a == b,
            (Number::Whole(a), Number::Whole(b)) => a == b,
            (Number::Real(a), Number::Whole(b)) | (Number::Whole(b), Number::Real(a)) => {
                // A double of that size holds no fraction, and an i128 holds all of it.
                a.trunc() == a && a.abs() < 2f64.powi(126) && a as i128 == b
            }
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&number(*self))
    }
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match *self {
            Number::Real(v) => s.serialize_f64(v),
            Number::Whole(v) => s.serialize_i128(v),
        }
    }
}

/// The values of a tensor; the parts of complex numbers one after the other.
pub struct Values {
    /// The nearest doubles.
    pub reals: Vec<f64>,
    wholes: Option<Vec<i128>>,
}

impl Values {
    /// `None` where memory is not to be had.
    pub fn of(t: &Tensor) -> Option<Values> {
        let wholes = match t.dtype() {
            DType::I64 => t
                .values::<i64>()
                .map(|v| v.into_iter().map(i128::from).collect()),
            DType::U64 => t
                .values::<u64>()
                .map(|v| v.into_iter().map(i128::from).collect()),
            _ => None,
        };
        let reals = super::metrics::reals(t)?;
        Some(Values { reals, wholes })
    }

    /// The value at a place, as it is.
    pub fn at(&self, i: usize) -> Option<Number> {
        match &self.wholes {
            Some(all) => all.get(i).copied().map(Number::Whole),
            None => self.reals.get(i).copied().map(Number::Real),
        }
    }

    /// The integer at a place; of other numbers the part before the point.
    pub fn whole(&self, i: usize) -> Option<i128> {
        self.at(i).map(|v| match v {
            Number::Whole(v) => v,
            Number::Real(v) => v as i128,
        })
    }

    /// How far the values at a place lie apart: nothing where both are no number, infinitely far where
    /// one is.
    pub fn distance(&self, other: &Values, i: usize) -> f64 {
        if let (Some(a), Some(b)) = (&self.wholes, &other.wholes) {
            return a[i].abs_diff(b[i]) as f64;
        }
        let (x, y) = (self.reals[i], other.reals[i]);
        match (x == y || (x.is_nan() && y.is_nan()), x - y) {
            (true, _) => 0.0,
            (false, d) if d.is_nan() => f64::INFINITY,
            (false, d) => d.abs(),
        }
    }

    /// The smallest and the largest value, numbers only.
    pub fn range(&self) -> Option<(Number, Number)> {
        if let Some(all) = &self.wholes {
            let ends = all.iter().min().zip(all.iter().max());
            return ends.map(|(a, b)| (Number::Whole(*a), Number::Whole(*b)));
        }
        let numbers = self.reals.iter().copied().filter(|v| !v.is_nan());
        let low = numbers.clone().reduce(f64::min)?;
        Some((low.into(), numbers.reduce(f64::max)?.into()))
    }
}

/// A tensor of integers or booleans; what is beyond its type becomes the nearest value that is not.
///
/// # Errors
/// When the memory is not to be had.
pub fn wholes(dtype: DType, shape: &[usize], values: &[i128]) -> Result<Tensor, TensorError> {
    // Of all types these two hold the others.
    if dtype == DType::U64 {
        let top = u64::MAX.into();
        let values: Vec<u64> = values.iter().map(|v| (*v).clamp(0, top) as u64).collect();
        return Tensor::from_values(shape, &values);
    }
    let (low, high) = (i64::MIN.into(), i64::MAX.into());
    let values: Vec<i64> = values
        .iter()
        .map(|v| (*v).clamp(low, high) as i64)
        .collect();
    Tensor::from_values(shape, &values)?.cast(dtype)
}

/// A number with up to six significant digits; an integer with all of them.
pub fn number(v: impl Into<Number>) -> String {
    let v = match v.into() {
        Number::Whole(v) => return v.to_string(),
        Number::Real(v) => v,
    };
    if v.is_nan() {
        return "NaN".into();
    }
    if v.is_infinite() {
        return if v > 0.0 { "inf" } else { "-inf" }.into();
    }
    if v == v.trunc() && v.abs() < 1e15 {
        return format!("{}", v.trunc() + 0.0);
    }
    let exponent = v.abs().log10().floor() as i32;
    if (-5..9).contains(&exponent) {
        let digits = usize::try_from(5 - exponent).unwrap_or(0);
        let text = format!("{v:.digits$}");
        return match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.').into(),
            false => text,
        };
    }
    let text = format!("{v:.5e}");
    match text.split_once('e') {
        Some((mantissa, power)) => {
            let mantissa = mantissa.trim_end_matches('0').trim_end_matches('.');
            format!("{mantissa}e{power}")
        }
        None => text,
    }
}

/// `0`, `0, 1`, `0, 2, 4`, `0 to 7`; long lists are cut.
pub fn indices(list: &[usize]) -> String {
    let run = list.windows(2).all(|w| w[1] == w[0] + 1);
    match list {
        [] => "none".into(),
        [only] => only.to_string(),
        [first, .., last] if run && list.len() > 4 => format!("{first} to {last}"),
        _ if list.len() > 8 => {
            let head: Vec<String> = list[..8].iter().map(ToString::to_string).collect();
            format!("{} and {} more", head.join(", "), list.len() - 8)
        }
        _ => {
            let all: Vec<String> = list.iter().map(ToString::to_string).collect();
            all.join(", ")
        }
    }
}

/// `row 0`, `rows 0 and 1`, `no row`.
pub fn rows(list: &[usize]) -> String {
    match list {
        [] => "no row".into(),
        [only] => format!("row {only}"),
        _ => format!("rows {}", indices(list)),
    }
}

/// `[1, 4]`
pub fn shape(dims: &[usize]) -> String {
    let dims: Vec<String> = dims.iter().map(ToString::to_string).collect();
    format!("[{}]", dims.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_exact_where_they_can_be() {
        let shown: Vec<String> = [
            0.3125,
            0.30000001,
            -10000.0,
            2.7,
            255.0,
            -0.0,
            1e-7,
            1.5e20,
            123456.78,
            f64::NAN,
        ]
        .iter()
        .map(|v| number(*v))
        .collect();
        assert_eq!(
            shown,
            ["0.3125", "0.3", "-10000", "2.7", "255", "0", "1e-7", "1.5e20", "123457", "NaN"]
        );
    }

    #[test]
    fn integers_of_64_bits_keep_all_their_digits() {
        const BIG: i64 = 9_205_357_640_488_583_168;
        let t = Tensor::from_values(&[3], &[BIG, BIG + 1, i64::MIN]).unwrap();
        let values = Values::of(&t).unwrap();
        let shown: Vec<String> = (0..3).map(|i| number(values.at(i).unwrap())).collect();
        assert_eq!(
            shown,
            [
                "9205357640488583168",
                "9205357640488583169",
                "-9223372036854775808"
            ]
        );
        assert_ne!(values.at(0), values.at(1));
        assert_eq!(Number::Real(BIG as f64), Number::Whole(i128::from(BIG)));
        assert_ne!(Number::Real(BIG as f64), Number::Whole(i128::from(BIG) + 1));
        let (low, high) = values.range().unwrap();
        assert_eq!(
            (low.exactly(), high.exactly()),
            ("-9223372036854775808".into(), "9205357640488583169".into())
        );
        let json = serde_json::to_string(&[values.at(1), values.at(2)]).unwrap();
        assert_eq!(json, "[9205357640488583169,-9223372036854775808]");
        let t = Tensor::from_values(&[1], &[u64::MAX]).unwrap();
        let top = Values::of(&t).unwrap().at(0).unwrap();
        assert_eq!(serde_json::to_string(&top).unwrap(), "18446744073709551615");
    }

    #[test]
    fn integers_stay_inside_their_type() {
        let all = [i128::MIN, -3, 1 << 53 | 1, i128::MAX];
        let of = |dtype| Values::of(&wholes(dtype, &[4], &all).unwrap()).unwrap();
        let held = |dtype| {
            let v = of(dtype);
            (0..4).map(|i| v.whole(i).unwrap()).collect::<Vec<_>>()
        };
        let odd = 9_007_199_254_740_993;
        assert_eq!(
            held(DType::I64),
            [i64::MIN.into(), -3, odd, i64::MAX.into()]
        );
        assert_eq!(held(DType::U64), [0, 0, odd, u64::MAX.into()]);
        assert_eq!(held(DType::I8), [-128, -3, 127, 127]);
        assert_eq!(held(DType::U4), [0, 0, 15, 15]);
    }

    #[test]
    fn exactly_is_every_digit_of_a_double() {
        let shown: Vec<String> = [0.1f32.into(), 1000000.3, 1e300, -0.0, f64::NAN, 3e-7]
            .map(|v: f64| Number::from(v).exactly())
            .to_vec();
        assert_eq!(
            shown,
            [
                "0.10000000149011612",
                "1000000.3",
                "1e300",
                "0",
                "NaN",
                "3e-7"
            ]
        );
    }

    #[test]
    fn lists_of_rows_are_short() {
        assert_eq!(rows(&[]), "no row");
        assert_eq!(rows(&[3]), "row 3");
        assert_eq!(rows(&[0, 1]), "rows 0, 1");
        assert_eq!(rows(&[0, 1, 2, 3, 4]), "rows 0 to 4");
        assert_eq!(rows(&[0, 3, 7]), "rows 0, 3, 7");
        assert_eq!(
            rows(&[0, 2, 4, 6, 8, 10, 12, 14, 16]),
            "rows 0, 2, 4, 6, 8, 10, 12, 14 and 1 more"
        );
    }
}
