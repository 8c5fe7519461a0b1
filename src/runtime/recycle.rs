//! Memory that ops are done with, kept for the next.
//!
//! A decode step asks for the same buffers as the step before it, a layer for those of the layer before.
//! From the system each would come as new pages, which cost more than what is computed in them. So while a
//! call runs, what its values leave behind is kept, and handed out again; what a whole call had no use for
//! is given back.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Smaller buffers are left to the allocator, which is as fast.
const LEAST: usize = 4096 / 8;
/// A buffer is handed out for requests of at least a part of it this large.
const WASTE: usize = 2;
/// This many bytes are kept from one call to the next unless the caller says otherwise.
const BETWEEN_CALLS: usize = 64 << 20;

thread_local! {
    /// The memory of the call that runs on this thread.
    static RUNNING: RefCell<Option<Kept>> = const { RefCell::new(None) };
}

/// Free buffers by size.
#[derive(Default)]
struct Free(BTreeMap<usize, Vec<Vec<u64>>>);

impl Free {
    fn take(&mut self, words: usize) -> Option<Vec<u64>> {
        let (size, of_size) = self
            .0
            .range_mut(words..=words.saturating_mul(WASTE))
            .next()?;
        let (size, buffer) = (*size, of_size.pop());
        if of_size.is_empty() {
            self.0.remove(&size);
        }
        buffer
    }

    fn give(&mut self, buffer: Vec<u64>) {
        self.0.entry(buffer.len()).or_default().push(buffer);
    }

    fn bytes(&self) -> usize {
        self.0.iter().map(|(size, of)| 8 * size * of.len()).sum()
    }
}

/// What is kept: buffers of the call that runs, and those of the last that it had no use for yet.
#[derive(Default)]
struct Kept {
    fresh: Free,
    last: Free,
}

/// The memory that calls of one model leave to each other.
pub(super) struct Recycler {
    free: Mutex<Free>,
    /// More bytes than this are not kept when a call ends.
    limit: usize,
}

impl Default for Recycler {
    fn default() -> Recycler {
        Recycler::of(BETWEEN_CALLS)
    }
}

impl Recycler {
    pub(super) fn of(limit: usize) -> Recycler {
        Recycler {
            free: Mutex::default(),
            limit,
        }
    }

    /// Runs a call on this thread; buffers it asks for are those left by the last one where they fit.
    pub(super) fn during<T>(&self, call: impl FnOnce() -> T) -> T {
        let last = std::mem::take(&mut *self.free.lock().unwrap_or_else(PoisonError::into_inner));
        let kept = Kept {
            last,
            ..Kept::default()
        };
        let outer = RUNNING.replace(Some(kept));
        // Also where a kernel panics: what it left may hold anything, as all buffers here may.
        let _restored = Restored { of: self, outer };
        call()
    }
}

/// Ends a call: its memory goes to the recycler, and an outer call goes on.
struct Restored<'r> {
    of: &'r Recycler,
    outer: Option<Kept>,
}

impl Drop for Restored<'_> {
    fn drop(&mut self) {
        let ended = RUNNING.replace(self.outer.take());
        let left = ended.map(|kept| kept.fresh).unwrap_or_default();
        if left.bytes() <= self.of.limit {
            *self.of.free.lock().unwrap_or_else(PoisonError::into_inner) = left;
        }
    }
}

/// A buffer of at least so many words, whose values are left over from something else.
pub(super) fn take(words: usize) -> Option<Vec<u64>> {
    if words < LEAST {
        return None;
    }
    RUNNING.with_borrow_mut(|running| {
        let kept = running.as_mut()?;
        kept.fresh.take(words).or_else(|| kept.last.take(words))
    })
}

/// Keeps a buffer for later, where a call runs on this thread.
pub(super) fn give(buffer: Vec<u64>) {
    if buffer.len() < LEAST {
        return;
    }
    // A value may outlive everything else of its thread.
    let _ = RUNNING.try_with(|running| {
        if let Some(kept) = running.borrow_mut().as_mut() {
            kept.fresh.give(buffer);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_call_leaves_the_next_is_given() {
        let recycler = Recycler::default();
        let first = recycler.during(|| {
            assert_eq!(take(1000), None);
            let buffer = vec![7; 1000];
            let address = buffer.as_ptr();
            give(buffer);
            address
        });
        let second = recycler.during(|| take(600).expect("of half the size and more"));
        assert_eq!((second.as_ptr(), second.len()), (first, 1000));
    }

    #[test]
    fn small_requests_get_no_large_buffer_and_small_buffers_are_not_kept() {
        Recycler::default().during(|| {
            give(vec![0; 3000]);
            assert_eq!(take(1499), None);
            assert_eq!(take(1500).map(|b| b.len()), Some(3000));
            give(vec![0; LEAST - 1]);
            assert_eq!(take(LEAST - 1), None);
        });
    }

    #[test]
    fn what_a_whole_call_had_no_use_for_is_given_back() {
        let recycler = Recycler::default();
        recycler.during(|| give(vec![0; 1000]));
        recycler.during(|| give(vec![0; 5000]));
        recycler.during(|| {
            assert_eq!(take(1000), None);
            assert_eq!(take(5000).map(|b| b.len()), Some(5000));
        });
    }

    #[test]
    fn no_more_than_the_limit_is_kept_between_calls() {
        for (limit, kept) in [(7999, None), (8000, Some(1000))] {
            let recycler = Recycler::of(limit);
            recycler.during(|| {
                give(vec![0; 1000]);
                assert_eq!(take(1000).map(give), Some(()));
            });
            recycler.during(|| assert_eq!(take(1000).map(|b| b.len()), kept));
        }
    }

    #[test]
    fn a_call_within_a_call_has_memory_of_its_own() {
        let (outer, inner) = (Recycler::default(), Recycler::default());
        outer.during(|| {
            give(vec![1; 1000]);
            inner.during(|| assert_eq!(take(1000), None));
            assert_eq!(take(1000).map(|b| b[0]), Some(1));
        });
    }

    #[test]
    fn nothing_is_kept_outside_a_call() {
        give(vec![0; 1000]);
        assert_eq!(take(1000), None);
    }
}
