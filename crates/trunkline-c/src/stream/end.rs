//! One end of a stream, which several threads have a handle of, and the memory that it lends.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use libc::size_t;
use trunkline::stream::{Monitor, StreamError, element_bytes};
use trunkline::types::{DataType, FaultCode};

use crate::arguments::Timeout;
use crate::errors::{
    Failure, TL_ERROR_ARGUMENT, TL_ERROR_BUSY, TL_ERROR_LIMIT, TL_ERROR_STREAM_ABORTED,
    TL_ERROR_STREAM_ENDED, TL_ERROR_STREAM_LOST, TL_ERROR_STREAM_OVER, TL_ERROR_SYNTAX,
    TL_ERROR_SYSTEM, TL_ERROR_TIMEOUT,
};

impl From<StreamError> for Failure {
    fn from(error: StreamError) -> Self {
        let status = match &error {
            StreamError::Url(_) | StreamError::RemoteHost { .. } => TL_ERROR_SYNTAX,
            StreamError::Capacity { .. }
            | StreamError::MultiplePeers
            | StreamError::SharedPort { .. }
            | StreamError::NoJournal => TL_ERROR_ARGUMENT,
            StreamError::TooMany { .. } | StreamError::TooLong { .. } => TL_ERROR_LIMIT,
            StreamError::Memory { .. }
            | StreamError::Random { .. }
            | StreamError::Tls(_)
            | StreamError::Start(_)
            | StreamError::Listen(_)
            | StreamError::NoDirectory { .. }
            | StreamError::NotEncrypted { .. }
            | StreamError::Journal(_) => TL_ERROR_SYSTEM,
            StreamError::NoPeer { .. } | StreamError::Timeout { .. } => TL_ERROR_TIMEOUT,
            StreamError::Refused { code, .. } => i32::from(code.number()),
            StreamError::UnequalLengths { .. }
            | StreamError::Type { .. }
            | StreamError::VariableSize { .. } => i32::from(FaultCode::WrongType.number()),
            StreamError::Lost { .. } => TL_ERROR_STREAM_LOST,
            StreamError::Ended => TL_ERROR_STREAM_ENDED,
            StreamError::Aborted { .. } => TL_ERROR_STREAM_ABORTED,
            StreamError::Fault(_) | StreamError::Element(_) | StreamError::Closed => {
                TL_ERROR_STREAM_OVER
            }
        };
        Self::new(status, error.to_string())
    }
}

/// An end of a stream that several threads have a handle of.
pub(crate) struct End<E> {
    end: Mutex<Option<E>>,
    pub(super) monitor: Monitor,
    is_closing: AtomicBool,
    /// True while the program uses memory of this end. Only changed under the lock of `end`, which keeps
    /// the end, and with it the memory, until the program has returned it.
    is_lent: AtomicBool,
}

impl<E> End<E> {
    pub(super) fn new(end: E, monitor: Monitor) -> Self {
        Self {
            end: Mutex::new(Some(end)),
            monitor,
            is_closing: AtomicBool::new(false),
            is_lent: AtomicBool::new(false),
        }
    }

    fn lock(&self) -> Result<MutexGuard<'_, Option<E>>, Failure> {
        match self.end.try_lock() {
            Ok(end) => Ok(end),
            Err(TryLockError::Poisoned(end)) => Ok(PoisonError::into_inner(end)),
            Err(TryLockError::WouldBlock) => Err(Failure::new(
                TL_ERROR_BUSY,
                "another thread uses this end of the stream; one thread at a time may read or write",
            )),
        }
    }

    fn check_not_lent(&self) -> Result<(), Failure> {
        match self.is_lent.load(Ordering::Relaxed) {
            false => Ok(()),
            true => Err(Failure::new(
                TL_ERROR_BUSY,
                "the program uses memory of this end of the stream; return it with tl_stream_commit \
                 or tl_stream_release first",
            )),
        }
    }

    /// Calls `attempt`, which changes nothing if it times out, until it succeeds, the timeout passes or
    /// another thread closes this end.
    pub(super) fn wait<T>(
        &self,
        timeout: Timeout,
        mut attempt: impl FnMut(&mut E, Duration) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut guard = self.lock()?;
        self.check_not_lent()?;
        self.wait_locked(&mut guard, timeout, &mut attempt)
    }

    fn wait_locked<T>(
        &self,
        guard: &mut MutexGuard<'_, Option<E>>,
        timeout: Timeout,
        attempt: &mut impl FnMut(&mut E, Duration) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let end = guard.as_mut().ok_or_else(closed)?;
        let mut last = Err(Failure::timeout("nothing happened in time"));
        for part in timeout.parts() {
            if self.is_closing.load(Ordering::Acquire) {
                return Err(closed());
            }
            last = attempt(end, part);
            match &last {
                Err(failure) if failure.status == TL_ERROR_TIMEOUT => {}
                _ => return last,
            }
        }
        last
    }

    /// As [`wait`](Self::wait), for a call that lends memory of the end if it succeeds.
    pub(super) fn lend<T>(
        &self,
        timeout: Timeout,
        mut attempt: impl FnMut(&mut E, Duration) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut guard = self.lock()?;
        self.check_not_lent()?;
        let lent = self.wait_locked(&mut guard, timeout, &mut attempt)?;
        self.is_lent.store(true, Ordering::Relaxed);
        Ok(lent)
    }

    /// As [`wait`](Self::wait), for a call that ends the use of the memory if it succeeds.
    pub(super) fn take_back<T>(
        &self,
        timeout: Timeout,
        mut attempt: impl FnMut(&mut E, Duration) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut guard = self.lock()?;
        if !self.is_lent.load(Ordering::Relaxed) {
            return Err(Failure::argument(
                "the program has no memory of this end of the stream; call tl_stream_reserve or \
                 tl_stream_acquire first",
            ));
        }
        let taken = self.wait_locked(&mut guard, timeout, &mut attempt)?;
        self.is_lent.store(false, Ordering::Relaxed);
        Ok(taken)
    }

    /// Takes the end out. Waits until a call of another thread has noticed.
    ///
    /// # Errors
    /// The program uses memory of this end, or another thread has closed it.
    pub(super) fn take(&self) -> Result<E, Failure> {
        self.check_not_lent()?;
        self.is_closing.store(true, Ordering::Release);
        let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(failure) = self.check_not_lent() {
            // A call of another thread has lent the memory meanwhile.
            self.is_closing.store(false, Ordering::Release);
            return Err(failure);
        }
        end.take().ok_or_else(closed)
    }
}

fn closed() -> Failure {
    Failure::closed("this end of the stream")
}

/// Returns the number of bytes of `count` elements, if an element has as many bytes as the caller says.
pub(super) fn bytes_of(
    data_type: &DataType,
    element_size: size_t,
    count: size_t,
) -> Result<usize, Failure> {
    let Some(needed) = element_bytes(data_type) else {
        return Err(Failure::fault(
            FaultCode::WrongType,
            format!("elements of type {data_type} vary in size; use the functions for text"),
        ));
    };
    if element_size != needed {
        return Err(Failure::fault(
            FaultCode::WrongType,
            format!(
                "an element of this stream has {needed} bytes, not {element_size}; pass an array of its \
                 type, {data_type}"
            ),
        ));
    }
    count.checked_mul(needed).ok_or_else(|| {
        Failure::argument(format!(
            "there cannot be {count} elements; pass the number of elements of the array"
        ))
    })
}
