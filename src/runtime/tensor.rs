//! Tensors: a shape over shared memory.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use bytemuck::Pod;
use half::{bf16, f16};
use num_complex::Complex;
use smallvec::{smallvec, SmallVec};

use super::buffer::{Buffer, Foreign, Shared};
use super::error::shape as show;
use super::DType;

/// Extents. As many as most values have are kept in place, and no more: every value is moved several times,
/// which is cheap up to 128 bytes.
pub(crate) type Dims = SmallVec<[usize; 5]>;
/// Distance between neighbours along each dimension, in elements.
pub(crate) type Strides = SmallVec<[isize; 5]>;

/// What a kernel says when it cannot go on; the executor adds the op and the graph.
pub(crate) type OpResult<T> = Result<T, String>;

/// No value computed by a program may be larger: a request for more is an error, not an attempt.
const MAX_ELEMENTS: usize = (1 << 31) - 1;
/// The same in bytes.
const MAX_BYTES: usize = 1 << 31;

/// A tensor: element type, shape and values. Cloning shares the values; writing to a shared tensor
/// copies them first.
#[derive(Debug)]
pub struct Tensor {
    dtype: DType,
    dims: Dims,
    strides: Strides,
    offset: usize,
    buffer: Shared,
}

impl Clone for Tensor {
    fn clone(&self) -> Tensor {
        Tensor {
            dtype: self.dtype,
            // Copies, where a derived clone goes element by element: every value that is read is cloned.
            dims: Dims::from_slice(&self.dims),
            strides: Strides::from_slice(&self.strides),
            offset: self.offset,
            buffer: self.buffer.clone(),
        }
    }
}

/// A Rust type that is an element of a tensor.
pub trait Element: Pod + private::Sealed {
    /// The element type.
    const DTYPE: DType;
}

mod private {
    pub trait Sealed {}
}

macro_rules! elements {
    ($($t:ty => $d:ident),* $(,)?) => {$(
        impl private::Sealed for $t {}
        impl Element for $t {
            const DTYPE: DType = DType::$d;
        }
    )*};
}

elements! {
    i8 => I8, i16 => I16, i32 => I32, i64 => I64, u8 => U8, u16 => U16, u32 => U32, u64 => U64,
    f16 => F16, bf16 => BF16, f32 => F32, f64 => F64, Complex<f32> => C32, Complex<f64> => C64,
}

/// Why bytes are no tensor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TensorError(String);

impl Tensor {
    /// A tensor of zeros.
    ///
    /// # Errors
    /// When the memory is not to be had.
    pub fn zeros(dtype: DType, shape: &[usize]) -> Result<Tensor, TensorError> {
        let bytes = count(shape)
            .and_then(|n| n.checked_mul(dtype.size()))
            .and_then(Buffer::zeroed);
        let buffer = bytes
            .ok_or_else(|| TensorError(format!("no memory for {} of {dtype}", show(shape))))?;
        Ok(Tensor::over(dtype, shape, buffer))
    }

    /// A tensor with these bytes: row-major, little-endian, each element on its own bytes.
    ///
    /// # Errors
    /// When the length does not fit the shape, or a boolean is neither 0 nor 1.
    pub fn from_bytes(dtype: DType, shape: &[usize], bytes: &[u8]) -> Result<Tensor, TensorError> {
        fits(dtype, shape, bytes)?;
        match Buffer::copy_of(bytes) {
            Some(buffer) => Ok(Tensor::over(dtype, shape, buffer)),
            None => Err(TensorError(format!(
                "no memory for {} of {dtype}",
                show(shape)
            ))),
        }
    }

    /// A tensor over memory of the caller's: what is written to it is written there.
    ///
    /// Writing replaces the values in place unless the program computes the whole tensor anew; compare
    /// [`Tensor::address`] to see whether the memory was left.
    ///
    /// # Errors
    /// When the length does not fit the shape, a boolean is neither 0 nor 1, or the memory is not aligned
    /// for the element type.
    ///
    /// # Safety
    /// Nobody else may read or write `bytes` until this tensor and everything that shares its values (its
    /// clones, outputs of a run that had it as a state) are gone.
    pub unsafe fn over_memory(
        dtype: DType,
        shape: &[usize],
        bytes: &mut [u8],
    ) -> Result<Tensor, TensorError> {
        fits(dtype, shape, bytes)?;
        // Complex numbers align like their parts.
        let align = dtype.part().unwrap_or(dtype).size().next_power_of_two();
        if bytes.as_ptr().align_offset(align) != 0 {
            return Err(TensorError(format!(
                "the memory is not aligned to {align} bytes, as {dtype} needs"
            )));
        }
        let len = bytes.len();
        let start = std::ptr::NonNull::from(bytes).cast();
        // SAFETY: the caller lends the memory, as this function demands.
        let lent = unsafe { Foreign::new(start, len) };
        Ok(Tensor::over(dtype, shape, Buffer::Foreign(lent)))
    }

    /// A tensor with these values, row-major.
    ///
    /// # Errors
    /// When their number does not fit the shape.
    pub fn from_values<T: Element>(shape: &[usize], values: &[T]) -> Result<Tensor, TensorError> {
        Tensor::from_bytes(T::DTYPE, shape, bytemuck::cast_slice(values))
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The extents, outermost first.
    pub fn shape(&self) -> &[usize] {
        &self.dims
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.dims.iter().product()
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.dims.contains(&0)
    }

    /// The bytes, row-major; borrowed where they lie that way already.
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        let size = self.dtype.size();
        if self.is_contiguous() {
            let start = self.offset * size;
            return Cow::Borrowed(&self.buffer.bytes()[start..start + self.len() * size]);
        }
        let mut out = vec![0; self.len() * size];
        self.copy_into(&mut out);
        Cow::Owned(out)
    }

    /// The bytes to write to. Shared values are copied first.
    ///
    /// # Errors
    /// When the memory for that copy is not to be had.
    pub fn bytes_mut(&mut self) -> Result<&mut [u8], TensorError> {
        self.make_unique().map_err(TensorError)?;
        let range = self.byte_range();
        Arc::get_mut(&mut self.buffer)
            .and_then(Buffer::bytes_mut)
            .map(|b| &mut b[range])
            .ok_or_else(|| TensorError("the values cannot be written".into()))
    }

    /// The values, where `T` is the element type.
    pub fn values<T: Element>(&self) -> Option<Vec<T>> {
        (T::DTYPE == self.dtype).then(|| {
            let bytes = self.bytes();
            let each = bytes.chunks_exact(size_of::<T>());
            each.map(bytemuck::pod_read_unaligned).collect()
        })
    }

    /// The values as doubles (the nearest, for 64-bit integers); `None` for complex numbers.
    pub fn reals(&self) -> Option<Vec<f64>> {
        let t = super::ops::cast(self, DType::F64).ok()?;
        t.values()
    }

    /// Where the first element lies in memory.
    #[cfg(feature = "python")]
    pub(crate) fn start(&self) -> *const u8 {
        let start = self.offset * self.dtype.size();
        self.buffer.bytes()[start..].as_ptr()
    }

    /// The values in another element type, with the runtime's casts: they saturate, floats become
    /// integers by truncation.
    ///
    /// # Errors
    /// When there is no such cast, or no memory.
    pub fn cast(&self, to: DType) -> Result<Tensor, TensorError> {
        super::ops::cast(self, to).map_err(TensorError)
    }

    /// Where the values lie, and whose memory that is: equal before and after a run only for a state
    /// that was updated in place, also where memory that was given back is used again.
    pub(crate) fn place(&self) -> (*const u8, Option<u64>) {
        (self.address(), self.buffer.number())
    }

    /// Where the values lie in memory: equal before and after a run for a state updated in place.
    pub fn address(&self) -> *const u8 {
        self.buffer.bytes().as_ptr()
    }
}

/// Whether bytes are a tensor of this type and shape.
fn fits(dtype: DType, shape: &[usize], bytes: &[u8]) -> Result<(), TensorError> {
    let wanted = count(shape).and_then(|n| n.checked_mul(dtype.size()));
    if wanted != Some(bytes.len()) {
        return Err(TensorError(format!(
            "{} bytes do not make {} of {dtype}",
            bytes.len(),
            show(shape)
        )));
    }
    if dtype == DType::Bool && bytes.iter().any(|b| *b > 1) {
        return Err(TensorError("a boolean is stored as 0 or 1".into()));
    }
    Ok(())
}

/// The number of elements of a shape.
pub(crate) fn count(dims: &[usize]) -> Option<usize> {
    if dims.contains(&0) {
        return Some(0);
    }
    dims.iter().try_fold(1usize, |n, d| n.checked_mul(*d))
}

/// The number of elements of a shape, where a value may have so many. One without elements may have no more
/// along its other dimensions: kernels walk those too.
pub(crate) fn bounded(dims: &[usize]) -> OpResult<usize> {
    let mut others = dims.iter().filter(|d| **d != 0);
    match others.try_fold(1usize, |n, d| n.checked_mul(*d)) {
        Some(n) if n <= MAX_ELEMENTS => Ok(if dims.contains(&0) { 0 } else { n }),
        _ => Err(format!(
            "a value of shape {} is beyond the limit of {MAX_ELEMENTS} elements",
            show(dims)
        )),
    }
}

/// Row-major strides.
pub(crate) fn row_major(dims: &[usize]) -> Strides {
    let mut strides: Strides = smallvec![0; dims.len()];
    let mut step = 1usize;
    for (s, d) in strides.iter_mut().zip(dims).rev() {
        *s = step as isize;
        step = step.saturating_mul(*d);
    }
    strides
}

impl Tensor {
    fn over(dtype: DType, dims: &[usize], buffer: Buffer) -> Tensor {
        Tensor {
            dtype,
            dims: Dims::from_slice(dims),
            strides: row_major(dims),
            offset: 0,
            buffer: Arc::new(buffer),
        }
    }

    /// A tensor over memory that holds exactly its elements.
    pub(crate) fn over_shared(dtype: DType, dims: &[usize], buffer: Shared) -> OpResult<Tensor> {
        if count(dims).and_then(|n| n.checked_mul(dtype.size())) != Some(buffer.bytes().len()) {
            return Err(format!("the data does not fit {} of {dtype}", show(dims)));
        }
        Ok(Tensor {
            dtype,
            dims: Dims::from_slice(dims),
            strides: row_major(dims),
            offset: 0,
            buffer,
        })
    }

    /// No element, as bytes; all of them share one buffer.
    pub(crate) fn empty() -> Tensor {
        static EMPTY: LazyLock<Shared> = LazyLock::new(|| Arc::new(Buffer::empty()));
        Tensor {
            dtype: DType::U8,
            dims: smallvec![0],
            strides: smallvec![1],
            offset: 0,
            buffer: EMPTY.clone(),
        }
    }

    /// Zeros for a result, within the limits of a result.
    pub(crate) fn alloc(dtype: DType, dims: &[usize]) -> OpResult<Tensor> {
        Tensor::made(dtype, dims, Buffer::zeroed)
    }

    /// Any values for a result of which every element is written: cheaper than zeros.
    pub(crate) fn unset(dtype: DType, dims: &[usize]) -> OpResult<Tensor> {
        Tensor::made(dtype, dims, Buffer::unset)
    }

    fn made(dtype: DType, dims: &[usize], buffer: fn(usize) -> Option<Buffer>) -> OpResult<Tensor> {
        let bytes = bounded(dims)?
            .checked_mul(dtype.size())
            .filter(|n| *n <= MAX_BYTES)
            .ok_or_else(|| {
                format!(
                    "a value of shape {} of {dtype} is beyond the limit of {MAX_BYTES} bytes",
                    show(dims)
                )
            })?;
        let buffer =
            buffer(bytes).ok_or_else(|| format!("no memory for {} of {dtype}", show(dims)))?;
        Ok(Tensor::over(dtype, dims, buffer))
    }

    /// A result made of these values.
    pub(crate) fn of<T: Pod>(dtype: DType, dims: &[usize], values: &[T]) -> OpResult<Tensor> {
        let mut out = Tensor::unset(dtype, dims)?;
        let own = out.data_mut::<T>()?;
        if own.len() != values.len() {
            return Err(format!("{} values for shape {}", values.len(), show(dims)));
        }
        own.copy_from_slice(values);
        Ok(out)
    }

    pub(crate) fn dims(&self) -> &[usize] {
        &self.dims
    }

    pub(crate) fn rank(&self) -> usize {
        self.dims.len()
    }

    pub(crate) fn strides(&self) -> &[isize] {
        &self.strides
    }

    pub(crate) fn offset(&self) -> usize {
        self.offset
    }

    /// Whether the elements lie row-major without gaps.
    pub(crate) fn is_contiguous(&self) -> bool {
        let mut step = 1isize;
        for (d, s) in self.dims.iter().zip(&self.strides).rev() {
            if *d == 0 {
                return true;
            }
            if *d != 1 && *s != step {
                return false;
            }
            step *= *d as isize;
        }
        true
    }

    /// The memory the values lie in, whatever else is in it.
    pub(crate) fn stored(&self) -> &[u8] {
        self.buffer.bytes()
    }

    fn byte_range(&self) -> std::ops::Range<usize> {
        let size = self.dtype.size();
        self.offset * size..(self.offset + self.len()) * size
    }

    /// The same values under another view. The caller has checked that every element lies inside.
    pub(crate) fn view(&self, dims: Dims, strides: Strides, offset: usize) -> Tensor {
        Tensor {
            dtype: self.dtype,
            dims,
            strides,
            offset,
            buffer: self.buffer.clone(),
        }
    }

    /// The same memory read as another type of the same size.
    pub(crate) fn retyped(mut self, dtype: DType) -> Tensor {
        debug_assert_eq!(dtype.size(), self.dtype.size());
        self.dtype = dtype;
        self
    }

    /// The memory of a fresh byte tensor as elements of another type.
    pub(crate) fn restored(mut self, dtype: DType, dims: &[usize]) -> Tensor {
        debug_assert_eq!(count(dims).map(|n| n * dtype.size()), Some(self.len()));
        self.dtype = dtype;
        self.strides = row_major(dims);
        self.dims = Dims::from_slice(dims);
        self
    }

    /// Element `i` of a row-major tensor, by itself.
    pub(crate) fn element(&self, i: usize) -> Tensor {
        self.view(Dims::new(), Strides::new(), self.offset + i)
    }

    /// The first element, by itself.
    pub(crate) fn element_at_start(&self) -> Tensor {
        self.view(Dims::new(), Strides::new(), self.offset)
    }

    /// Row-major values, copied only where they are not.
    pub(crate) fn contiguous(&self) -> OpResult<Tensor> {
        if self.is_contiguous() {
            return Ok(self.clone());
        }
        let mut out = Tensor::unset(self.dtype, &self.dims)?;
        self.copy_into(out.data_mut::<u8>()?);
        Ok(out)
    }

    fn copy_into(&self, out: &mut [u8]) {
        let from = self.buffer.bytes();
        let size = self.dtype.size();
        let mut at = 0;
        rows(&self.dims, [&self.strides], |[start], n, [step]| {
            let start = self.offset as isize + start;
            if step == 1 {
                let start = start as usize * size;
                out[at..at + n * size].copy_from_slice(&from[start..start + n * size]);
                at += n * size;
                return;
            }
            for i in 0..n as isize {
                let p = (start + i * step) as usize * size;
                match size {
                    1 => out[at] = from[p],
                    2 => out[at..at + 2].copy_from_slice(&from[p..p + 2]),
                    4 => out[at..at + 4].copy_from_slice(&from[p..p + 4]),
                    8 => out[at..at + 8].copy_from_slice(&from[p..p + 8]),
                    _ => out[at..at + size].copy_from_slice(&from[p..p + size]),
                }
                at += size;
            }
        });
    }

    /// The values of a row-major tensor.
    pub(crate) fn data<T: Pod>(&self) -> OpResult<&[T]> {
        if !self.is_contiguous() {
            return Err("internal: values are not in order".into());
        }
        bytemuck::try_cast_slice(&self.buffer.bytes()[self.byte_range()])
            .map_err(|e| format!("internal: {e}"))
    }

    /// All memory behind the tensor, for use with offset and strides.
    pub(crate) fn memory<T: Pod>(&self) -> OpResult<&[T]> {
        let bytes = self.buffer.bytes();
        let whole = bytes.len() / size_of::<T>() * size_of::<T>();
        bytemuck::try_cast_slice(&bytes[..whole]).map_err(|e| format!("internal: {e}"))
    }

    /// Memory of its own, so that it can be written; a copy only where it is shared.
    pub(crate) fn make_unique(&mut self) -> OpResult<()> {
        let own =
            self.is_contiguous() && Arc::get_mut(&mut self.buffer).is_some_and(|b| b.is_writable());
        if !own {
            let mut out = Tensor::unset(self.dtype, &self.dims)?;
            self.copy_into(out.data_mut::<u8>()?);
            *self = out;
        }
        Ok(())
    }

    /// The values of a unique row-major tensor ([`Tensor::make_unique`]).
    pub(crate) fn data_mut<T: Pod>(&mut self) -> OpResult<&mut [T]> {
        let range = self.byte_range();
        let bytes = Arc::get_mut(&mut self.buffer)
            .and_then(Buffer::bytes_mut)
            .ok_or("internal: values are shared")?;
        bytemuck::try_cast_slice_mut(&mut bytes[range]).map_err(|e| format!("internal: {e}"))
    }

    /// Integers of any integer or boolean type.
    pub(crate) fn ints(&self) -> OpResult<SmallVec<[i64; 8]>> {
        let t = match self.is_contiguous() {
            true => Cow::Borrowed(self),
            false => Cow::Owned(self.contiguous()?),
        };
        let mut out = SmallVec::new();
        // As many as a program asks for: an error and not the end of the process.
        out.try_reserve_exact(t.len())
            .map_err(|_| format!("no memory for {} integers", t.len()))?;
        use DType::*;
        match self.dtype {
            I2 | I4 | I8 => out.extend(t.data::<i8>()?.iter().map(|v| i64::from(*v))),
            I16 => out.extend(t.data::<i16>()?.iter().map(|v| i64::from(*v))),
            I32 => out.extend(t.data::<i32>()?.iter().map(|v| i64::from(*v))),
            I64 => out.extend(t.data::<i64>()?.iter().copied()),
            Bool | U1 | U2 | U3 | U4 | U6 | U8 => {
                out.extend(t.data::<u8>()?.iter().map(|v| i64::from(*v)));
            }
            U16 => out.extend(t.data::<u16>()?.iter().map(|v| i64::from(*v))),
            U32 => out.extend(t.data::<u32>()?.iter().map(|v| i64::from(*v))),
            U64 => {
                let values = t.data::<u64>()?.iter();
                out.extend(values.map(|v| i64::try_from(*v).unwrap_or(i64::MAX)));
            }
            other => return Err(format!("expected integers, found {other}")),
        }
        Ok(out)
    }

    /// The only integer.
    pub(crate) fn int(&self) -> OpResult<i64> {
        match self.ints()?.as_slice() {
            [one] => Ok(*one),
            all => Err(format!("expected one integer, found {}", all.len())),
        }
    }
}

/// Room for so many values, as a program asks for: an error and not the end of the process.
pub(crate) fn room<T>(count: usize) -> OpResult<Vec<T>> {
    let mut values = Vec::new();
    values
        .try_reserve_exact(count)
        .map_err(|_| format!("no memory for {count} values"))?;
    Ok(values)
}

/// Brings a vector to so many values, whichever they are: an error and not the end of the process where there
/// is no memory.
pub(crate) fn sized(values: &mut Vec<f32>, count: usize) -> OpResult<()> {
    if let Some(more) = count.checked_sub(values.len()) {
        values
            .try_reserve(more)
            .map_err(|_| format!("no memory for {count} values"))?;
    }
    values.resize(count, 0f32);
    Ok(())
}

/// Walks rows: `f(starts, length, steps)` for each position of all but the last dimension.
pub(crate) fn rows<const N: usize>(
    dims: &[usize],
    strides: [&[isize]; N],
    mut f: impl FnMut([isize; N], usize, [isize; N]),
) {
    if dims.contains(&0) {
        return;
    }
    let Some((last, outer)) = dims.split_last() else {
        f([0; N], 1, [1; N]);
        return;
    };
    let steps = strides.map(|s| s[outer.len()]);
    let mut index: Dims = smallvec![0; outer.len()];
    let mut starts = [0isize; N];
    loop {
        f(starts, *last, steps);
        let mut d = outer.len();
        loop {
            if d == 0 {
                return;
            }
            d -= 1;
            index[d] += 1;
            for (start, s) in starts.iter_mut().zip(&strides) {
                *start += s[d];
            }
            if index[d] < outer[d] {
                break;
            }
            for (start, s) in starts.iter_mut().zip(&strides) {
                *start -= s[d] * outer[d] as isize;
            }
            index[d] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_beyond_a_limit_names_the_one_it_is_beyond() {
        let told = |dtype, n| Tensor::alloc(dtype, &[n]).unwrap_err();
        let elements = "is beyond the limit of 2147483647 elements";
        let bytes = "is beyond the limit of 2147483648 bytes";
        assert_eq!(
            told(DType::U8, 1 << 31),
            format!("a value of shape [2147483648] {elements}")
        );
        assert_eq!(
            told(DType::F16, (1 << 30) + 1),
            format!("a value of shape [1073741825] of float16 {bytes}")
        );
        assert_eq!(
            told(DType::C64, (1 << 31) - 1),
            format!("a value of shape [2147483647] of cfloat64 {bytes}")
        );
    }
}
