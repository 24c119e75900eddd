//! The source of this crate's atomics: the standard library, or loom under `--cfg loom`.
//!
//! No other part of the crate refers to either, so loom explores the same code that runs in
//! production.

#[cfg(not(loom))]
pub(crate) use std::{
    hint::spin_loop,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU64, fence},
    },
};

#[cfg(loom)]
pub(crate) use loom::{
    hint::spin_loop,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU64, fence},
    },
};

// A cell whose accesses loom observes.
#[cfg(loom)]
pub(crate) use loom::cell::UnsafeCell as TracedCell;

// loom has no `OnceLock`; its models initialise before they start threads.
pub(crate) use std::sync::{OnceLock, PoisonError, atomic::Ordering};

/// Orders two sequentially consistent accesses. It has an effect only under loom, which treats such
/// accesses as weaker ones and needs a fence to establish a total order.
#[inline(always)]
pub(crate) fn total_order() {
    #[cfg(loom)]
    fence(Ordering::SeqCst);
}

/// Allocates `count` atomic words of zero and touches every one of them.
///
/// The stores are necessary: a zeroed allocation may consist of pages that do not exist yet, and
/// the first access to each would cause a page fault. Because the faults occur here, the first
/// access of a real-time thread costs the same as later ones.
pub(crate) fn zeroed_words(count: usize) -> Box<[AtomicU64]> {
    let words: Box<[AtomicU64]> = (0..count).map(|_| AtomicU64::new(0)).collect();
    for word in &words {
        word.store(0, Ordering::Relaxed);
    }
    words
}
