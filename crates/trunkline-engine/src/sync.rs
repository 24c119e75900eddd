//! The only source of locks, atomics and hash seeds in this crate: parking_lot and std, or shuttle
//! under `--cfg shuttle`. Under shuttle, every lock operation is a scheduling point, and nothing is
//! random.

use std::num::NonZeroUsize;
pub(crate) use std::sync::{Arc, OnceLock, Weak, atomic::fence};

#[cfg(not(shuttle))]
pub(crate) use parking_lot::{Mutex, MutexGuard, RwLock, RwLockWriteGuard};
#[cfg(not(shuttle))]
pub(crate) use std::collections::hash_map::RandomState as HashSeed;
#[cfg(not(shuttle))]
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

#[cfg(shuttle)]
pub(crate) use instrumented::{Mutex, MutexGuard, RwLock, RwLockWriteGuard};
#[cfg(shuttle)]
pub(crate) use shuttle::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
#[cfg(shuttle)]
pub(crate) type HashSeed = std::hash::BuildHasherDefault<std::hash::DefaultHasher>;

/// Returns a number that no other call in this process returns. Implies no ordering between
/// threads.
#[cold]
pub(crate) fn unique_number() -> NonZeroUsize {
    // An atomic of std even under shuttle: numbers are only compared, so no schedule depends on
    // them.
    static LAST: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    // Relaxed: the number orders no other data.
    let last = LAST.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    NonZeroUsize::MIN.saturating_add(last)
}

/// Marks a point at which threads may interleave although no lock is taken or released. Has an
/// effect only under shuttle, which may switch threads here, because it does not control the
/// atomics behind marks and cells.
#[inline(always)]
pub(crate) fn crossing() {
    #[cfg(shuttle)]
    shuttle::thread::yield_now();
}

#[cfg(shuttle)]
mod instrumented {
    //! The locks of shuttle with the interface of parking_lot: no poisoning.

    pub(crate) type MutexGuard<'a, T> = shuttle::sync::MutexGuard<'a, T>;
    pub(crate) type RwLockWriteGuard<'a, T> = shuttle::sync::RwLockWriteGuard<'a, T>;

    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(shuttle::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0
                .lock()
                .unwrap_or_else(|poisoned| poisoned.into_inner())
        }
    }

    #[derive(Debug, Default)]
    pub(crate) struct RwLock<T>(shuttle::sync::RwLock<T>);

    impl<T> RwLock<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(shuttle::sync::RwLock::new(value))
        }

        pub(crate) fn read(&self) -> shuttle::sync::RwLockReadGuard<'_, T> {
            self.0
                .read()
                .unwrap_or_else(|poisoned| poisoned.into_inner())
        }

        pub(crate) fn write(&self) -> shuttle::sync::RwLockWriteGuard<'_, T> {
            self.0
                .write()
                .unwrap_or_else(|poisoned| poisoned.into_inner())
        }
    }
}
