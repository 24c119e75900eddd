//! Reads a device's ring, and waits for the device's thread if the ring is empty.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

use trunkline_ring::{NoRegion, ReadRegion, RegionMemory, RegionReader};

use crate::monotonic;

/// State shared by a device's thread and the reader of its ring.
#[derive(Debug, Default)]
pub(crate) struct Signal(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Thread of the reader, if it has registered to be woken.
    waiting_thread: Option<Thread>,
    is_over: bool,
}

impl Signal {
    /// Wakes the waiting reader, if any.
    pub(crate) fn wake(&self) {
        if let Some(thread) = &self.state().waiting_thread {
            thread.unpark();
        }
    }

    /// Marks the device as ended and wakes the reader.
    pub(crate) fn end(&self) {
        self.state().is_over = true;
        self.wake();
    }

    fn is_over(&self) -> bool {
        self.state().is_over
    }

    /// Registers this thread as the one to wake.
    fn register(&self) {
        self.state().waiting_thread = Some(thread::current());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The reader's end of a device's ring.
#[derive(Debug)]
pub struct CardRing {
    /// The ring's memory, for a backend of the recorder to register.
    pub memory: Arc<RegionMemory>,
    /// Acquires regions of the ring.
    pub reader: RegionReader,
    pub(crate) signal: Arc<Signal>,
}

impl CardRing {
    /// Waits for the next region and returns it. The region has `rows` rows, or fewer at the end of
    /// the memory, at a gap, or when the device has ended. Returns `None` when the device has ended
    /// and all rows were read.
    ///
    /// # Errors
    /// [`NoRegion::NotYet`] if the rows are not available within `wait`; see [`NoRegion`] for the
    /// other errors.
    pub fn next(&mut self, rows: u64, wait: Duration) -> Result<Option<ReadRegion>, NoRegion> {
        let deadline = monotonic().saturating_add(wait);
        loop {
            // Read the flag before the ring, so that rows written before the device ended are found.
            let is_over = self.signal.is_over();
            match self.reader.acquire(rows) {
                Ok(region) => return Ok(Some(region)),
                Err(NoRegion::NotYet { available: 0 }) if is_over => return Ok(None),
                Err(NoRegion::NotYet { .. }) if is_over => {
                    return self.reader.acquire_available(rows).map(Some);
                }
                Err(NoRegion::NotYet { available }) => {
                    let remaining = deadline.saturating_sub(monotonic());
                    if remaining.is_zero() {
                        return Err(NoRegion::NotYet { available });
                    }
                    self.signal.register();
                    // A larger number of rows may never be contiguously available.
                    if self.reader.wait_for(available + 1)? && !self.signal.is_over() {
                        thread::park_timeout(remaining);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }
}
