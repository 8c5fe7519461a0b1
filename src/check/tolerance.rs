//! How far values may lie apart.
//!
//! A value of ours agrees with one of PyTorch's when they are equal, both are not a number, or
//! `|ours - theirs| <= atol + rtol * scale`, where the scale is the largest finite magnitude that the
//! tensor has in PyTorch. Integers and booleans must be equal. The narrowest float type on the way
//! decides: that of the tensor in PyTorch, of the port, and of what the function computes with.

use super::options::Tolerances;
use crate::runtime::{Class, DType};

/// Allowed distances for one tensor.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Tolerance {
    /// Absolute.
    pub atol: f64,
    /// Relative to the scale.
    pub rtol: f64,
}

impl Tolerance {
    /// Nothing but equal.
    pub const EXACT: Tolerance = Tolerance {
        atol: 0.0,
        rtol: 0.0,
    };

    /// For a port of dtype `port` whose tensor in PyTorch is `torch`, in a function whose narrowest
    /// float is `narrowest`.
    pub fn new(
        asked: Tolerances,
        port: DType,
        torch: DType,
        narrowest: Option<DType>,
    ) -> Tolerance {
        let float = |d: DType| matches!(d.class(), Class::Float | Class::Complex);
        if !float(port) && !float(torch) {
            return Tolerance::EXACT;
        }
        let all = [Some(port), Some(torch), narrowest];
        let kinds = all.into_iter().flatten().filter(|d| float(*d));
        let widest = kinds
            .map(of)
            .fold((0f64, 0f64), |a, b| (a.0.max(b.0), a.1.max(b.1)));
        Tolerance {
            atol: asked.atol.unwrap_or(widest.0),
            rtol: asked.rtol.unwrap_or(widest.1),
        }
    }

    /// The allowed distance at a scale.
    pub fn at(self, scale: f64) -> f64 {
        self.atol + self.rtol * scale
    }
}

/// Absolute and relative distance of a float type.
fn of(dtype: DType) -> (f64, f64) {
    match dtype.part().unwrap_or(dtype) {
        DType::F64 | DType::F32 => (1e-5, 5e-4),
        DType::F16 => (1e-3, 1e-2),
        DType::BF16 => (1e-2, 4e-2),
        _ => (5e-2, 1.5e-1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_narrowest_type_decides_and_integers_are_exact() {
        let of = |port, torch, narrowest| {
            Tolerance::new(Tolerances::default(), port, torch, narrowest).at(100.0)
        };
        assert_eq!(of(DType::I32, DType::I64, Some(DType::F16)), 0.0);
        assert_eq!(of(DType::F32, DType::F64, None), 1e-5 + 5e-4 * 100.0);
        assert_eq!(
            of(DType::F32, DType::F32, Some(DType::F16)),
            1e-3 + 1e-2 * 100.0
        );
        let asked = Tolerances {
            atol: Some(0.5),
            rtol: Some(0.0),
        };
        assert_eq!(
            Tolerance::new(asked, DType::BF16, DType::F32, None).at(100.0),
            0.5
        );
    }
}
