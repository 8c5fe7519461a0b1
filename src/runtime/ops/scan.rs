//! Running sums, products and extremes.

use super::cast::cast;
use super::scalar::{dispatch, Combiner, Scalar};
use super::unary::{compute_type, narrow};
use super::{around, axis, Call, Kernel};
use crate::runtime::dtype::Class;
use crate::runtime::tensor::{OpResult, Tensor};

fn scan(call: &mut Call<'_>) -> OpResult<Tensor> {
    let how = match call.word("scan_op")? {
        "sum" => Combiner::Add,
        "product" => Combiner::Mul,
        "min" => Combiner::Min,
        "max" => Combiner::Max,
        other => return Err(format!("unknown combiner {other}")),
    };
    let backwards = call.arg(2)?.int()? != 0;
    let t = call.take(0)?;
    let a = axis(call.arg(1)?.int()?, t.rank())?;
    let (own, wide) = (t.dtype(), compute_type(t.dtype()));
    if own.class() == Class::Bool {
        return Err(format!("is not defined for {own}"));
    }
    how.check(wide)?;
    let extreme = matches!(how, Combiner::Max | Combiner::Min);
    let mut t = cast(&t, wide)?.contiguous()?;
    t.make_unique()?;
    let (outer, n, inner) = around(t.dims(), a);
    dispatch!(wide, T => {
        let values = t.data_mut::<T>()?;
        for o in 0..outer {
            for i in 0..inner {
                let at = |k: usize| (o * n + if backwards { n - 1 - k } else { k }) * inner + i;
                let mut acc = match how {
                    Combiner::Add => T::zero(),
                    Combiner::Mul => T::one(),
                    Combiner::Max => T::lowest(),
                    _ => T::highest(),
                };
                for k in 0..n {
                    let v = values[at(k)].widen();
                    let next = T::combine(how, acc, v);
                    // NaN is never the extreme so far: it equals neither.
                    if !extreme || next == v || next == acc {
                        acc = next;
                    }
                    values[at(k)] = T::narrow(acc);
                    if how == Combiner::Mul {
                        // What has left the type's range does not come back.
                        acc = values[at(k)].widen();
                    }
                }
            }
        }
        Ok::<(), String>(())
    })?;
    narrow(t, own)
}

pub const OPS: &[(&str, Kernel)] = &[("scan", Kernel::One(scan))];
