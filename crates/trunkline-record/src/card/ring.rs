//! The end of a device's ring that is recorded from, with a way to wait for the device's thread.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

use trunkline_ring::{NoRegion, ReadRegion, RegionMemory, RegionReader};

use crate::clock::monotonic;

/// What a device's thread and who records from it share.
#[derive(Debug, Default)]
pub(super) struct Meeting(Mutex<Met>);

#[derive(Debug, Default)]
struct Met {
    waits: Option<Thread>,
    is_over: bool,
}

impl Meeting {
    /// Wakes who waits.
    pub(super) fn wake(&self) {
        if let Some(thread) = &self.met().waits {
            thread.unpark();
        }
    }

    /// Nothing more comes.
    pub(super) fn end(&self) {
        self.met().is_over = true;
        self.wake();
    }

    fn is_over(&self) -> bool {
        self.met().is_over
    }

    fn meet(&self) {
        self.met().waits = Some(thread::current());
    }

    fn met(&self) -> MutexGuard<'_, Met> {
        // Nothing in here panics.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A device's ring, as who records sees it.
#[derive(Debug)]
pub struct CardRing {
    /// Its memory, for a [`WriteQueue`](crate::WriteQueue) to register.
    pub memory: Arc<RegionMemory>,
    /// Regions of it.
    pub reader: RegionReader,
    pub(super) meeting: Arc<Meeting>,
}

impl CardRing {
    /// The next region, of `rows` rows or up to the end of the memory or to a gap; waits for it. Of
    /// a device that has ended, what is left. None when nothing is left.
    ///
    /// # Errors
    /// [`NoRegion::NotYet`] when it is not there after `wait`; what else [`NoRegion`] says.
    pub fn next(&mut self, rows: u64, wait: Duration) -> Result<Option<ReadRegion>, NoRegion> {
        let until = monotonic().saturating_add(wait);
        loop {
            // Looked at before the ring: what a device puts in before it ends is found.
            let is_over = self.meeting.is_over();
            match self.reader.acquire(rows) {
                Ok(region) => return Ok(Some(region)),
                Err(NoRegion::NotYet { available: 0 }) if is_over => return Ok(None),
                Err(NoRegion::NotYet { .. }) if is_over => {
                    return self.reader.acquire_available(rows).map(Some);
                }
                Err(NoRegion::NotYet { available }) => {
                    let left = until.saturating_sub(monotonic());
                    if left.is_zero() {
                        return Err(NoRegion::NotYet { available });
                    }
                    self.meeting.meet();
                    // More than there is may never come in one piece.
                    if self.reader.wait_for(available + 1)? && !self.meeting.is_over() {
                        thread::park_timeout(left);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }
}
