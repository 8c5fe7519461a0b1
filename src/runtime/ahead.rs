//! Weights are read ahead. Between two products of a decode step one thread computes, the others wait, and
//! the memory, whose speed is that of the whole step, delivers nothing. Meanwhile the others fetch the
//! beginning of their shares of the next product's weights into the processor's cache.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use super::tensor::Tensor;

/// Bytes that one thread fetches at most: about what its part of the caches holds.
const SHARE: usize = 4 << 20;
/// Bytes between two looks at whether to stop.
const PIECE: usize = 8 << 10;

/// Reading that goes on until this value is gone.
pub(super) struct Ahead(Arc<AtomicBool>);

impl Drop for Ahead {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Has the other threads of the current pool read these weights; `None` where there are no others.
pub(super) fn start(weights: &Tensor) -> Option<Ahead> {
    rayon::current_thread_index()?;
    let threads = rayon::current_num_threads();
    if threads < 2 {
        return None;
    }
    let ahead = Ahead(Arc::default());
    for own in 1..threads {
        let (weights, stop) = (weights.clone(), ahead.0.clone());
        rayon::spawn(move || {
            read(share(weights.stored(), own, threads), &stop);
        });
    }
    Some(ahead)
}

/// What of the weights belongs to one of so many threads, as the products divide them.
fn share(bytes: &[u8], own: usize, of: usize) -> &[u8] {
    let size = bytes.len() / of;
    &bytes[own * size..(own + 1) * size]
}

/// Reads the beginning of these bytes; how many were read.
fn read(bytes: &[u8], stop: &AtomicBool) -> usize {
    let mut count = 0;
    for piece in bytes[..bytes.len().min(SHARE)].chunks(PIECE) {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        // All bytes, as one of each cache line is slower: the processor does not see it coming.
        std::hint::black_box(piece.iter().fold(0, |all, byte| all ^ byte));
        count += piece.len();
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_ends_at_the_limit_and_when_it_is_told_to() {
        let stop = AtomicBool::new(false);
        assert_eq!(read(&[], &stop), 0);
        assert_eq!(read(&vec![1; 3 * PIECE + 1], &stop), 3 * PIECE + 1);
        assert_eq!(read(&vec![1; SHARE + 1], &stop), SHARE);
        stop.store(true, Ordering::Relaxed);
        assert_eq!(read(&[1; 10], &stop), 0);
    }

    #[test]
    fn shares_follow_each_other() {
        let bytes: Vec<u8> = (0..10).collect();
        assert_eq!(share(&bytes, 1, 3), [3, 4, 5]);
        assert_eq!(share(&bytes, 2, 3), [6, 7, 8]);
        assert_eq!(share(&bytes[..2], 2, 3), [0u8; 0]);
    }

    #[test]
    fn only_the_threads_of_a_pool_read() {
        let weights = Tensor::zeros(crate::runtime::DType::U8, &[100]).unwrap();
        assert!(start(&weights).is_none());
        let pool = |n| {
            rayon::ThreadPoolBuilder::new()
                .num_threads(n)
                .build()
                .unwrap()
        };
        assert!(pool(1).install(|| start(&weights).is_none()));
        let ahead = pool(2).install(|| start(&weights)).unwrap();
        let stop = ahead.0.clone();
        assert!(!stop.load(Ordering::Relaxed));
        drop(ahead);
        assert!(stop.load(Ordering::Relaxed));
    }
}
