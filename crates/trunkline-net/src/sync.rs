//! The locks, condition variables and atomics of this crate: the standard library's, or shuttle's
//! when a test explores schedules (`RUSTFLAGS="--cfg shuttle"`).
//!
//! Locks ignore poisoning: the data behind them is consistent between two statements, and a panic
//! of user code must not affect the other users of the connection.

use std::sync::{PoisonError, TryLockError};
use std::time::Duration;

pub(crate) use std::sync::Arc;

#[cfg(not(shuttle))]
pub(crate) use std::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering, fence},
};

#[cfg(shuttle)]
pub(crate) use shuttle::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering, fence},
};

/// A process-wide number, which cannot belong to one test's schedule.
pub(crate) type ProcessWide = std::sync::atomic::AtomicUsize;

/// A number in memory that another process may have mapped, which cannot belong to one test's
/// schedule.
pub(crate) type SharedWord = std::sync::atomic::AtomicU64;

/// Locks `mutex` and ignores poisoning.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks `mutex` if it is free, without waiting.
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Waits for a notification of `condvar`.
pub(crate) fn wait<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condvar.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a notification of `condvar`, for at most `timeout`. Does not report which of the two
/// ended the wait, because the caller checks its condition and its clock.
#[cfg(not(shuttle))]
pub(crate) fn wait_timeout<'a, T>(
    _mutex: &'a Mutex<T>,
    condvar: &Condvar,
    guard: MutexGuard<'a, T>,
    timeout: Duration,
) -> MutexGuard<'a, T> {
    condvar
        .wait_timeout(guard, timeout)
        .unwrap_or_else(PoisonError::into_inner)
        .0
}

#[cfg(shuttle)]
std::thread_local! {
    /// Tests set this to make every wait with a time-out end. Otherwise a schedule may let such a
    /// wait last forever, which reveals a lost wake-up that a time-out would hide.
    pub(crate) static WAITS_TIME_OUT: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// The same under shuttle, which has no time: the schedule decides whether the time-out occurs
/// first.
#[cfg(shuttle)]
pub(crate) fn wait_timeout<'a, T>(
    mutex: &'a Mutex<T>,
    condvar: &Condvar,
    guard: MutexGuard<'a, T>,
    _timeout: Duration,
) -> MutexGuard<'a, T> {
    use shuttle::rand::{Rng, thread_rng};
    if WAITS_TIME_OUT.get() || thread_rng().gen_bool(0.5) {
        drop(guard);
        shuttle::thread::yield_now();
        return lock(mutex);
    }
    wait(condvar, guard)
}
