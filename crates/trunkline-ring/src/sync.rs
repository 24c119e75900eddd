//! Where this crate's atomics come from: the standard library, or loom under `--cfg loom`.
//!
//! Nothing else in the crate names either, so the code that loom explores is the code that runs.

#[cfg(not(loom))]
pub(crate) use std::{
    hint::spin_loop,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, fence},
    },
};

#[cfg(loom)]
pub(crate) use loom::{
    hint::spin_loop,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, fence},
    },
};

// A cell whose accesses loom sees.
#[cfg(loom)]
pub(crate) use loom::cell::UnsafeCell as TracedCell;

// loom has no `OnceLock`; its models initialise before they start threads.
pub(crate) use std::sync::{OnceLock, PoisonError, atomic::Ordering};

/// Between two accesses that are sequentially consistent: nothing. loom takes such accesses for
/// weaker ones, so there it is the fence that puts them in one order.
#[inline(always)]
pub(crate) fn total_order() {
    #[cfg(loom)]
    fence(Ordering::SeqCst);
}

/// Allocates `count` atomic words of zero and touches every one of them.
///
/// The stores are not idle: an allocation of zeroes may be pages that do not exist yet, and the
/// first access would pay for each with a page fault. Paying here is what makes the first access
/// of a real-time thread cost what later ones cost.
pub(crate) fn zeroed_words(count: usize) -> Box<[AtomicU64]> {
    let words: Box<[AtomicU64]> = (0..count).map(|_| AtomicU64::new(0)).collect();
    for word in &words {
        word.store(0, Ordering::Relaxed);
    }
    words
}
