//! The memory behind tensors.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use super::recycle;
use crate::ir::Blob;

/// Bytes, aligned for every element type when owned; a view into the asset's map otherwise.
#[derive(Debug)]
pub(crate) enum Buffer {
    /// Memory of our own, counted in whole words so that it is aligned.
    Owned { words: Words, len: usize },
    /// A constant inside the mapped asset.
    Mapped(Blob),
    /// Memory of the caller's.
    Foreign(Foreign),
}

/// Memory of our own, which goes back to where it may be used again.
#[derive(Debug)]
pub(crate) struct Words {
    words: Vec<u64>,
    /// No other buffer has or had it, while addresses come again.
    number: u64,
}

impl Words {
    fn new(words: Vec<u64>) -> Words {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Words { words, number }
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        recycle::give(std::mem::take(&mut self.words));
    }
}

/// Memory that somebody else owns and lends for as long as this value or a clone of it exists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Foreign {
    start: std::ptr::NonNull<u8>,
    len: usize,
}

// SAFETY: whoever made it promised that nobody else touches the memory ([`Foreign::new`]), so it may be
// used from any thread like memory of our own.
unsafe impl Send for Foreign {}
// SAFETY: as above; a shared reference only reads.
unsafe impl Sync for Foreign {}

impl Foreign {
    /// # Safety
    /// `start` must point to `len` readable and writable bytes, initialised, that nobody else reads or
    /// writes until the last copy of the result is gone.
    pub unsafe fn new(start: std::ptr::NonNull<u8>, len: usize) -> Foreign {
        Foreign { start, len }
    }
}

impl Buffer {
    /// `len` zero bytes; `None` when the memory is not to be had.
    pub fn zeroed(len: usize) -> Option<Buffer> {
        let count = len.div_ceil(8);
        if let Some(mut words) = recycle::take(count) {
            words[..count].fill(0);
            let words = Words::new(words);
            return Some(Buffer::Owned { words, len });
        }
        // Asking first makes an error of what would end the process; asking for zeros gets pages that
        // cost nothing until they are written.
        let mut asked: Vec<u64> = Vec::new();
        asked.try_reserve_exact(count).ok()?;
        drop(asked);
        let words = Words::new(vec![0u64; count]);
        Some(Buffer::Owned { words, len })
    }

    /// `len` bytes of any value, all of which the caller writes; `None` when the memory is not to be had.
    pub fn unset(len: usize) -> Option<Buffer> {
        let buffer = match recycle::take(len.div_ceil(8)) {
            Some(words) => Buffer::Owned {
                words: Words::new(words),
                len,
            },
            None => Buffer::zeroed(len)?,
        };
        // Zeros would hide a byte that is not written after all.
        #[cfg(debug_assertions)]
        let buffer = match buffer {
            Buffer::Owned { mut words, len } => {
                words.words.fill(0xa5a5_a5a5_a5a5_a5a5);
                Buffer::Owned { words, len }
            }
            other => other,
        };
        Some(buffer)
    }

    /// No bytes.
    pub fn empty() -> Buffer {
        Buffer::Owned {
            words: Words::new(Vec::new()),
            len: 0,
        }
    }

    /// A copy of `bytes`.
    pub fn copy_of(bytes: &[u8]) -> Option<Buffer> {
        let mut buffer = Buffer::unset(bytes.len())?;
        if let Some(own) = buffer.bytes_mut() {
            own.copy_from_slice(bytes);
        }
        Some(buffer)
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Buffer::Owned { words, len } => &bytemuck::cast_slice(&words.words)[..*len],
            Buffer::Mapped(blob) => blob.bytes(),
            // SAFETY: the memory is ours until the value is gone ([`Foreign::new`]), and the reference
            // lives no longer than the value.
            Buffer::Foreign(f) => unsafe { std::slice::from_raw_parts(f.start.as_ptr(), f.len) },
        }
    }

    /// Tells memory of our own from any other, earlier and later; `None` for somebody else's.
    pub fn number(&self) -> Option<u64> {
        match self {
            Buffer::Owned { words, .. } => Some(words.number),
            Buffer::Mapped(_) | Buffer::Foreign(_) => None,
        }
    }

    /// Whether it may be written in place.
    pub fn is_writable(&self) -> bool {
        !matches!(self, Buffer::Mapped(_))
    }

    /// The bytes to write to; `None` for a view into the map.
    pub fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        match self {
            Buffer::Owned { words, len } => {
                Some(&mut bytemuck::cast_slice_mut(&mut words.words)[..*len])
            }
            Buffer::Mapped(_) => None,
            // SAFETY: as for reading; `&mut self`, reached only through `Arc::get_mut`, is the only way
            // in, so nothing else refers to the memory meanwhile.
            Buffer::Foreign(f) => {
                Some(unsafe { std::slice::from_raw_parts_mut(f.start.as_ptr(), f.len) })
            }
        }
    }
}

/// A buffer that may be shared.
pub(crate) type Shared = Arc<Buffer>;
