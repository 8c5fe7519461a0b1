//! Constants of a program as tensors.

use std::sync::Arc;

use super::buffer::Buffer;
use super::dtype::Class;
use super::tensor::{bounded, count, OpResult, Tensor};
use super::DType;
use crate::ir::{Dense, Payload};

/// A constant as a tensor: a view into the asset where its layout allows.
pub(super) fn constant(dense: &Dense) -> OpResult<Tensor> {
    let ty = dense.tensor().ok_or("a constant without a tensor type")?;
    let dtype = DType::from_element(ty.element).ok_or("a constant of an unknown type")?;
    let dims: Option<Vec<usize>> = ty
        .dims
        .iter()
        .map(|d| usize::try_from((*d)?).ok())
        .collect();
    let dims = dims.ok_or("a constant of dynamic shape")?;
    let n = count(&dims).ok_or("a constant beyond all bounds")?;
    let size = dtype.size();
    if let Payload::Splat(one) = &dense.payload {
        if one.len() != size {
            return Err(format!("{} bytes for one {dtype}", one.len()));
        }
        let mut one = Tensor::of(dtype, &[], &one[..])?;
        normalize(&mut one)?;
        bounded(&dims)?;
        let strides = dims.iter().map(|_| 0).collect();
        return Ok(one.view(dims.as_slice().into(), strides, 0));
    }
    if let Payload::Resource {
        data: Some(blob), ..
    } = &dense.payload
    {
        let bytes = blob.bytes();
        let aligned = bytes.as_ptr().align_offset(size.min(8)) == 0;
        let plain = !dtype.is_narrow_int() && dtype != DType::F4E2M1 && dtype != DType::Bool;
        if plain && aligned && Some(bytes.len()) == n.checked_mul(size) {
            return Tensor::over_shared(dtype, &dims, Arc::new(Buffer::Mapped(blob.clone())));
        }
    }
    let bytes = dense
        .elements()
        .ok_or("the data of a constant does not fit its type")?;
    let mut t = Tensor::from_bytes(DType::U8, &[bytes.len()], &bytes).map_err(|e| e.to_string())?;
    if Some(bytes.len()) != n.checked_mul(size) {
        return Err("the data of a constant does not fit its type".into());
    }
    t = t.restored(dtype, &dims);
    normalize(&mut t)?;
    Ok(t)
}

/// Signed elements below eight bits carry their sign through the byte; booleans are 0 or 1.
fn normalize(t: &mut Tensor) -> OpResult<()> {
    match t.dtype().class() {
        Class::Bool => t
            .data_mut::<u8>()?
            .iter_mut()
            .for_each(|b| *b = u8::from(*b != 0)),
        Class::Int { signed, bits } if bits < 8 => {
            let mask = (1u8 << bits) - 1;
            for b in t.data_mut::<u8>()? {
                *b &= mask;
                if signed && *b >> (bits - 1) == 1 {
                    *b |= !mask;
                }
            }
        }
        _ => {}
    }
    Ok(())
}
