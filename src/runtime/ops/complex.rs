//! Complex numbers from their parts and back.

use bytemuck::Pod;

use super::{Call, Kernel};
use crate::runtime::error::shape;
use crate::runtime::tensor::{OpResult, Tensor};
use crate::runtime::DType;

fn create(call: &mut Call<'_>) -> OpResult<Tensor> {
    let to = call.declared()?.dtype;
    let (re, im) = (call.arg(0)?.contiguous()?, call.arg(1)?.contiguous()?);
    if re.dims() != im.dims() {
        return Err(format!(
            "parts of shapes {} and {}",
            shape(re.dims()),
            shape(im.dims())
        ));
    }
    if to.part() != Some(re.dtype()) || im.dtype() != re.dtype() {
        return Err(format!(
            "parts of types {} and {} for {to}",
            re.dtype(),
            im.dtype()
        ));
    }
    joined(&re, &im, to)
}

/// Numbers of type `to` from their parts, contiguous and of one shape.
pub(super) fn joined(re: &Tensor, im: &Tensor, to: DType) -> OpResult<Tensor> {
    fn join<T: Pod>(re: &Tensor, im: &Tensor, out: &mut Tensor) -> OpResult<()> {
        let (re, im) = (re.data::<T>()?, im.data::<T>()?);
        for (o, (r, i)) in out
            .data_mut::<T>()?
            .chunks_exact_mut(2)
            .zip(re.iter().zip(im))
        {
            o[0] = *r;
            o[1] = *i;
        }
        Ok(())
    }
    let mut out = Tensor::alloc(to, re.dims())?;
    match re.dtype().size() {
        2 => join::<u16>(re, im, &mut out)?,
        4 => join::<u32>(re, im, &mut out)?,
        _ => join::<u64>(re, im, &mut out)?,
    }
    Ok(out)
}

/// The real (0) or imaginary (1) parts.
pub(super) fn part(t: &Tensor, which: usize) -> OpResult<Tensor> {
    let t = t.contiguous()?;
    let Some(part) = t.dtype().part() else {
        return Err(format!("is not defined for {}", t.dtype()));
    };
    fn take<T: Pod>(t: &Tensor, which: usize, out: &mut Tensor) -> OpResult<()> {
        let pairs = t.data::<T>()?.chunks_exact(2);
        for (o, pair) in out.data_mut::<T>()?.iter_mut().zip(pairs) {
            *o = pair[which];
        }
        Ok(())
    }
    let mut out = Tensor::alloc(part, t.dims())?;
    match part.size() {
        2 => take::<u16>(&t, which, &mut out)?,
        4 => take::<u32>(&t, which, &mut out)?,
        _ => take::<u64>(&t, which, &mut out)?,
    }
    Ok(out)
}

pub const OPS: &[(&str, Kernel)] = &[
    ("create_complex", Kernel::One(create)),
    ("real_part", Kernel::One(|call| part(call.arg(0)?, 0))),
    ("imaginary_part", Kernel::One(|call| part(call.arg(0)?, 1))),
];
