//! Evenly spaced numbers.

use super::cast::cast;
use super::{bounded, Call, Kernel};
use crate::runtime::dtype::Class;
use crate::runtime::tensor::{OpResult, Tensor};
use crate::runtime::DType;

fn range(call: &mut Call<'_>) -> OpResult<Tensor> {
    let dtype = call.arg(0)?.dtype();
    if call.args.iter().any(|a| a.dtype() != dtype || a.len() != 1) {
        return Err("bounds and step are single numbers of one type".into());
    }
    match dtype.class() {
        Class::Int { .. } => {
            let (start, stop, step) = (
                call.arg(0)?.int()?,
                call.arg(1)?.int()?,
                call.arg(2)?.int()?,
            );
            if step == 0 {
                return Err("a step of 0".into());
            }
            let (start, step) = (i128::from(start), i128::from(step));
            let span = (i128::from(stop) - start) * step.signum();
            let n = usize::try_from(span.max(0).unsigned_abs().div_ceil(step.unsigned_abs()))
                .unwrap_or(usize::MAX);
            bounded(&[n])?;
            let mut out = Tensor::alloc(DType::I64, &[n])?;
            for (i, o) in out.data_mut::<i64>()?.iter_mut().enumerate() {
                *o = (start + i as i128 * step) as i64;
            }
            cast(&out, dtype)
        }
        Class::Float => {
            let read = |i: usize| -> OpResult<f64> {
                let t = cast(call.arg(i)?, DType::F64)?.contiguous()?;
                Ok(t.data::<f64>()?[0])
            };
            let (start, stop, step) = (read(0)?, read(1)?, read(2)?);
            let n = ((stop - start) / step).ceil();
            if step == 0.0 || !n.is_finite() {
                return Err(format!("no range from {start} to {stop} by {step}"));
            }
            let n = n.max(0.0) as usize;
            bounded(&[n])?;
            let mut out = Tensor::alloc(DType::F64, &[n])?;
            for (i, o) in out.data_mut::<f64>()?.iter_mut().enumerate() {
                *o = start + i as f64 * step;
            }
            cast(&out, dtype)
        }
        _ => Err(format!("is not defined for {dtype}")),
    }
}

pub const OPS: &[(&str, Kernel)] = &[("range", Kernel::One(range))];
