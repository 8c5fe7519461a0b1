//! The memory behind tensors.

use std::sync::Arc;

use crate::ir::Blob;

/// Bytes, aligned for every element type when owned; a view into the asset's map otherwise.
#[derive(Clone, Debug)]
pub(crate) enum Buffer {
    /// Memory of our own, counted in whole words so that it is aligned.
    Owned { words: Vec<u64>, len: usize },
    /// A constant inside the mapped asset.
    Mapped(Blob),
}

impl Buffer {
    /// `len` zero bytes; `None` when the memory is not to be had.
    pub fn zeroed(len: usize) -> Option<Buffer> {
        let count = len.div_ceil(8);
        // Asking first makes an error of what would end the process; asking for zeros gets pages that
        // cost nothing until they are written.
        let mut asked: Vec<u64> = Vec::new();
        asked.try_reserve_exact(count).ok()?;
        drop(asked);
        let words = vec![0u64; count];
        Some(Buffer::Owned { words, len })
    }

    /// A copy of `bytes`.
    pub fn copy_of(bytes: &[u8]) -> Option<Buffer> {
        let mut buffer = Buffer::zeroed(bytes.len())?;
        if let Some(own) = buffer.bytes_mut() {
            own.copy_from_slice(bytes);
        }
        Some(buffer)
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Buffer::Owned { words, len } => &bytemuck::cast_slice(words)[..*len],
            Buffer::Mapped(blob) => blob.bytes(),
        }
    }

    /// The bytes to write to; `None` for a view into the map.
    pub fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        match self {
            Buffer::Owned { words, len } => Some(&mut bytemuck::cast_slice_mut(words)[..*len]),
            Buffer::Mapped(_) => None,
        }
    }
}

/// A buffer that may be shared.
pub(crate) type Shared = Arc<Buffer>;
