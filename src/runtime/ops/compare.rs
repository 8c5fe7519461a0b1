//! Comparison, and selection by it.

use half::{bf16, f16};
use num_complex::Complex;

use super::binary::{operands, zip};
use super::cast::cast;
use super::unary::compute_type;
use super::{broadcast_dims, broadcast_view, Call, Kernel};
use crate::runtime::error::shape;
use crate::runtime::tensor::{rows, OpResult, Tensor};
use crate::runtime::DType;

/// `$op` on every type; complex numbers where `complex` is given.
macro_rules! comparison {
    ($name:ident, $op:tt $(, complex $c:tt)?) => {
        fn $name((a, b): (Tensor, Tensor)) -> OpResult<Tensor> {
            let wide = compute_type(a.dtype());
            let (a, b) = (&cast(&a, wide)?, &cast(&b, wide)?);
            let to = DType::Bool;
            match wide {
                DType::Bool | DType::U8 => zip(a, b, to, |x: u8, y: u8| u8::from(x $op y)),
                DType::U16 => zip(a, b, to, |x: u16, y: u16| u8::from(x $op y)),
                DType::U32 => zip(a, b, to, |x: u32, y: u32| u8::from(x $op y)),
                DType::U64 => zip(a, b, to, |x: u64, y: u64| u8::from(x $op y)),
                DType::I8 => zip(a, b, to, |x: i8, y: i8| u8::from(x $op y)),
                DType::I16 => zip(a, b, to, |x: i16, y: i16| u8::from(x $op y)),
                DType::I32 => zip(a, b, to, |x: i32, y: i32| u8::from(x $op y)),
                DType::I64 => zip(a, b, to, |x: i64, y: i64| u8::from(x $op y)),
                DType::F16 => zip(a, b, to, |x: f16, y: f16| u8::from(x $op y)),
                DType::BF16 => zip(a, b, to, |x: bf16, y: bf16| u8::from(x $op y)),
                DType::F32 => zip(a, b, to, |x: f32, y: f32| u8::from(x $op y)),
                DType::F64 => zip(a, b, to, |x: f64, y: f64| u8::from(x $op y)),
                $(
                    DType::C32 => {
                        zip(a, b, to, |x: Complex<f32>, y: Complex<f32>| u8::from(x $c y))
                    }
                    DType::C64 => {
                        zip(a, b, to, |x: Complex<f64>, y: Complex<f64>| u8::from(x $c y))
                    }
                )?
                other => Err(format!("is not defined for {other}")),
            }
        }
    };
}

comparison!(equal, ==, complex ==);
comparison!(not_equal, !=, complex !=);
comparison!(greater, >);

fn select(call: &mut Call<'_>, broadcast: bool) -> OpResult<Tensor> {
    let (mut c, mut a, mut b) = (call.take(0)?, call.take(1)?, call.take(2)?);
    if c.dtype() != DType::Bool {
        return Err(format!("the condition is {}, expected bool", c.dtype()));
    }
    if a.dtype() != b.dtype() {
        return Err(format!("a choice between {} and {}", a.dtype(), b.dtype()));
    }
    if c.dims() != a.dims() || a.dims() != b.dims() {
        if !broadcast {
            return Err(format!(
                "operands of shapes {}, {} and {}",
                shape(c.dims()),
                shape(a.dims()),
                shape(b.dims())
            ));
        }
        let dims = broadcast_dims(&broadcast_dims(c.dims(), a.dims())?, b.dims())?;
        c = broadcast_view(&c, &dims)?;
        a = broadcast_view(&a, &dims)?;
        b = broadcast_view(&b, &dims)?;
    }
    match a.dtype().size() {
        1 => choose::<u8>(&c, &a, &b),
        2 => choose::<u16>(&c, &a, &b),
        4 => choose::<u32>(&c, &a, &b),
        8 => choose::<u64>(&c, &a, &b),
        _ => choose::<[u64; 2]>(&c, &a, &b),
    }
}

fn choose<T: bytemuck::Pod>(c: &Tensor, a: &Tensor, b: &Tensor) -> OpResult<Tensor> {
    let mut out = Tensor::alloc(a.dtype(), a.dims())?;
    let (cs, xs, ys) = (c.memory::<u8>()?, a.memory::<T>()?, b.memory::<T>()?);
    let to = out.data_mut::<T>()?;
    let start = [c.offset(), a.offset(), b.offset()].map(|o| o as isize);
    let mut at = 0;
    let strides = [c.strides(), a.strides(), b.strides()];
    rows(a.dims(), strides, |[i, j, k], n, [s, t, u]| {
        for (n, o) in to[at..at + n].iter_mut().enumerate() {
            let n = n as isize;
            *o = if cs[(start[0] + i + n * s) as usize] != 0 {
                xs[(start[1] + j + n * t) as usize]
            } else {
                ys[(start[2] + k + n * u) as usize]
            };
        }
        at += n;
    });
    Ok(out)
}

pub const OPS: &[(&str, Kernel)] = &[
    ("equal", Kernel::One(|call| equal(operands(call, false)?))),
    (
        "not_equal",
        Kernel::One(|call| not_equal(operands(call, false)?)),
    ),
    (
        "greater",
        Kernel::One(|call| greater(operands(call, false)?)),
    ),
    ("where", Kernel::One(|call| select(call, false))),
    (
        "broadcasting_equal",
        Kernel::One(|call| equal(operands(call, true)?)),
    ),
    (
        "broadcasting_not_equal",
        Kernel::One(|call| not_equal(operands(call, true)?)),
    ),
    (
        "broadcasting_greater",
        Kernel::One(|call| greater(operands(call, true)?)),
    ),
    ("broadcasting_where", Kernel::One(|call| select(call, true))),
];
