//! Evenly spaced numbers.

use half::{bf16, f16};

use super::cast::cast;
use super::{Call, Kernel};
use crate::ir::numeric;
use crate::runtime::dtype::Class;
use crate::runtime::tensor::{OpResult, Tensor};
use crate::runtime::DType;

/// A declared extent below the computed one ends the range: the writer derives none for a constant
/// range that counts down.
fn declared(call: &Call<'_>, n: usize) -> usize {
    let extent = call.declared().ok().and_then(|d| *d.dims.first()?);
    extent.map_or(n, |e| n.min(usize::try_from(e).unwrap_or(n)))
}

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
            let n = declared(call, n);
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
            let n = declared(call, n.max(0.0) as usize);
            let mut out = Tensor::alloc(DType::F64, &[n])?;
            // One step after the other, each sum rounded to the type.
            let round: fn(f64) -> f64 = match dtype {
                DType::F16 => |v| f16::from_f32(numeric::single(v)).to_f64(),
                DType::BF16 => |v| bf16::from_f32(numeric::single(v)).to_f64(),
                DType::F32 => |v| f64::from(v as f32),
                _ => |v| v,
            };
            let mut next = start;
            for o in out.data_mut::<f64>()? {
                *o = next;
                next = round(next + step);
            }
            cast(&out, dtype)
        }
        _ => Err(format!("is not defined for {dtype}")),
    }
}

pub const OPS: &[(&str, Kernel)] = &[("range", Kernel::One(range))];
