//! Softmax, with the maximum subtracted (the stored definition overflows).

use super::cast::cast;
use super::{around, axis, Call, Kernel};
use crate::runtime::dtype::Class;
use crate::runtime::tensor::{OpResult, Tensor};
use crate::runtime::DType;

fn softmax(call: &mut Call<'_>) -> OpResult<Tensor> {
    let t = call.take(0)?;
    let a = axis(call.arg(1)?.int()?, t.rank())?;
    let own = t.dtype();
    if own.class() != Class::Float {
        return Err(format!("is not defined for {own}"));
    }
    let (_, n, inner) = around(t.dims(), a);
    if own == DType::F64 {
        let mut t = t;
        t.make_unique()?;
        run(t.data_mut::<f64>()?, n, inner, f64::exp, f64::NEG_INFINITY);
        return Ok(t);
    }
    let mut t = cast(&t, DType::F32)?;
    t.make_unique()?;
    run(t.data_mut::<f32>()?, n, inner, f32::exp, f32::NEG_INFINITY);
    cast(&t, own)
}

fn run<T>(values: &mut [T], n: usize, inner: usize, exp: impl Fn(T) -> T, lowest: T)
where
    T: num_traits::Float + std::iter::Sum,
{
    if n == 0 || inner == 0 {
        return;
    }
    for block in values.chunks_exact_mut(n * inner) {
        for i in 0..inner {
            let at = |k: usize| k * inner + i;
            let max = (0..n).fold(lowest, |m, k| m.max(block[at(k)]));
            let mut sum = T::zero();
            for k in 0..n {
                let e = exp(block[at(k)] - max);
                block[at(k)] = e;
                sum = sum + e;
            }
            for k in 0..n {
                block[at(k)] = block[at(k)] / sum;
            }
        }
    }
}

pub const OPS: &[(&str, Kernel)] = &[("softmax", Kernel::One(softmax))];
