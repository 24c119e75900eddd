//! Reads a file into the regions of a ring, with several reads at a time.
//!
//! ```text
//!   file --> Backend --> region --> (once all earlier regions are filled) --> output device
//!                 \--> staging --copied--/
//! ```
//!
//! Whole blocks are read directly into a region. Partial blocks, and data whose alignment in memory
//! differs from that in the file, are read into staging memory and copied; the copied bytes are
//! counted. Reads complete in any order; the ring passes regions to the device in the order of the
//! calls.

mod error;
mod slot;
mod steps;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use trunkline_ring::{NoRegion, RegionMemory, RegionWriter, WriteRegion};

pub use self::error::{ReadFailure, ReadFault, ReadQueueError, RefusedRead};
use self::slot::Slot;
use crate::backend::{Backend, FallbackReason, Span, Wait};
use crate::staging::Staging;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadOptions {
    /// Maximum number of outstanding reads. Default: 4.
    pub outstanding_max: NonZeroUsize,
    /// The longest time that [`read`](ReadQueue::read) waits when the maximum is outstanding.
    /// Default: 5 s.
    pub wait: Duration,
    /// The position in the file at which reading begins. Default: 0.
    pub from: u64,
    /// Total number of bytes to read. Default: up to the end of the file.
    pub total: Option<u64>,
    /// Size in bytes of the staging memory of each outstanding read, at least two blocks. Default:
    /// 256 KiB.
    pub bounce_bytes: usize,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            outstanding_max: const { NonZeroUsize::new(4).unwrap() },
            wait: Duration::from_secs(5),
            from: 0,
            total: None,
            bounce_bytes: 256 << 10,
        }
    }
}

impl ReadOptions {
    /// Returns the number of concurrent reads that a backend must support for these options.
    pub fn reads_max(&self) -> usize {
        // The whole blocks of a region and its unaligned ends are read at the same time.
        2 * self.outstanding_max.get()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadProgress {
    /// Number of bytes for which reads have been started.
    pub started: u64,
    /// Number of bytes in the ring, up to the first outstanding read.
    pub read: u64,
    pub total: u64,
    /// Number of regions for which reads have been started and that are not in the ring yet.
    pub outstanding: usize,
    /// True once all bytes are in the ring, except for a partial element at the end that
    /// [`fill`](ReadQueue::fill) skipped.
    pub is_finished: bool,
    /// Number of bytes that the CPU copied from staging memory to regions.
    pub bytes_copied: u64,
    /// The failure that stopped reading, if any.
    pub failure: Option<ReadFailure>,
}

/// Reads one file into regions, which the device receives in the order of the calls.
#[derive(Debug)]
pub struct ReadQueue {
    // The backend must be the first field: dropping it waits for running reads, and only then may
    // the memory that they read into be dropped.
    backend: Box<dyn Backend>,
    slots: Box<[Slot]>,
    staging: Staging,
    _memories: Vec<Arc<RegionMemory>>,
    registration_failure: Option<FallbackReason>,
    options: ReadOptions,
    block_bytes: usize,
    /// Length of the file in bytes.
    length: u64,
    total: u64,
    /// Number of the oldest outstanding read.
    oldest: u64,
    /// Number of the next read to start.
    next: u64,
    position: u64,
    started: u64,
    read: u64,
    /// Length in bytes of the partial element at the end that [`fill`](Self::fill) skipped.
    partial_element_bytes: u64,
    failure: Option<ReadFailure>,
    /// Number of the first read that failed; `u64::MAX` if none has.
    first_failed: u64,
    bytes_copied: u64,
}

impl ReadQueue {
    /// Creates a queue that reads a file of `length` bytes into regions of `memories`.
    ///
    /// # Errors
    /// [`ReadQueueError::BeyondEnd`]: the options ask for more than the file has.
    pub fn new(
        mut backend: Box<dyn Backend>,
        length: u64,
        options: ReadOptions,
        memories: Vec<Arc<RegionMemory>>,
    ) -> Result<Self, ReadQueueError> {
        let available = length.saturating_sub(options.from);
        let total = options.total.unwrap_or(available);
        if total > available {
            return Err(ReadQueueError::BeyondEnd {
                position: options.from,
                bytes: total,
                length,
            });
        }
        let block_bytes = backend.block_bytes().max(1);
        let slot_count = options.outstanding_max.get();
        let staging = Staging::new(slot_count, options.bounce_bytes.max(2 * block_bytes));
        let mut spans = vec![staging.span()];
        spans.extend(memories.iter().map(|memory| {
            let (start, bytes) = memory.span();
            Span { start, bytes }
        }));
        // SAFETY: `self` keeps this memory mapped until the backend, its first field, has been
        // dropped.
        let registration_failure = unsafe { backend.register(&spans) };
        Ok(Self {
            backend,
            slots: (0..slot_count).map(|_| Slot::default()).collect(),
            staging,
            _memories: memories,
            registration_failure,
            options,
            block_bytes,
            length,
            total,
            oldest: 0,
            next: 0,
            position: options.from,
            started: 0,
            read: 0,
            partial_element_bytes: 0,
            failure: None,
            first_failed: u64::MAX,
            bytes_copied: 0,
        })
    }

    /// Returns the reason why the memory is not registered with the kernel, which makes each read
    /// more expensive. `None` if it is registered or registering has no benefit.
    pub fn registration_failure(&self) -> Option<&FallbackReason> {
        self.registration_failure.as_ref()
    }

    pub fn backend(&self) -> &dyn Backend {
        &*self.backend
    }

    /// Returns the block size. Data is read without a copy if its position in the file and its
    /// address are equal modulo this size.
    pub fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    /// Returns the position in the file from which the next region is read.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Sets the position from which the next region is read. The total number of bytes to read does
    /// not change.
    pub fn seek(&mut self, position: u64) {
        self.position = position;
    }

    /// Returns the number of bytes for which no read has been started.
    pub fn remaining(&self) -> u64 {
        self.total - self.started
    }

    pub fn outstanding(&self) -> usize {
        // The difference is at most the number of slots, which is a `usize`.
        (self.next - self.oldest) as usize
    }

    pub fn progress(&self) -> ReadProgress {
        ReadProgress {
            started: self.started,
            read: self.read,
            total: self.total,
            outstanding: self.outstanding(),
            is_finished: self.read + self.partial_element_bytes == self.total,
            bytes_copied: self.bytes_copied,
            failure: self.failure,
        }
    }

    /// Waits until another read can start, for at most the time set in the options.
    pub fn wait_for_slot(&mut self) -> Result<(), ReadQueueError> {
        self.poll()?;
        let waited = self.options.wait;
        let deadline = self.backend.now().saturating_add(waited);
        while self.outstanding() == self.slots.len() {
            if !self.step(Wait::Until(deadline))? && self.backend.now() >= deadline {
                let outstanding = self.outstanding();
                return Err(ReadQueueError::Busy {
                    outstanding,
                    waited,
                });
            }
        }
        self.check_failure()
    }

    /// Starts reading the next bytes of the file into a region. The region is finished once it is
    /// filled. This call waits only while the maximum number of reads is outstanding.
    ///
    /// # Errors
    /// [`RefusedRead`] returns the region, into which nothing was read.
    pub fn read(&mut self, region: WriteRegion) -> Result<(), Box<RefusedRead>> {
        let checked = self.wait_for_slot().and_then(|()| self.check(&region));
        if let Err(error) = checked {
            return Err(Box::new(RefusedRead { region, error }));
        }
        let slot = Slot::new(region, self.position, self.block_bytes);
        let (number, bytes) = (self.next, slot.bytes);
        let index = self.slot_index(number);
        self.slots[index] = slot;
        self.next += 1;
        self.position += bytes;
        self.started += bytes;
        self.partial_element_bytes = 0;
        self.advance(number);
        Ok(())
    }

    fn check(&self, region: &WriteRegion) -> Result<(), ReadQueueError> {
        let (bytes, remaining) = (region.byte_len() as u64, self.remaining());
        if bytes > remaining {
            return Err(ReadQueueError::TooLong { bytes, remaining });
        }
        if bytes > self.length.saturating_sub(self.position) {
            return Err(ReadQueueError::BeyondEnd {
                position: self.position,
                bytes,
                length: self.length,
            });
        }
        Ok(())
    }

    /// Starts reads into regions of at most `elements_max` elements while the ring has free space.
    /// This call does not wait. Returns the number of elements for which reads were started.
    ///
    /// A partial element at the end of the data is skipped.
    ///
    /// # Errors
    /// [`ReadQueueError::Failed`], [`ReadQueueError::Backend`], [`ReadQueueError::BeyondEnd`];
    /// [`ReadQueueError::Ring`] if the ring is no longer usable.
    pub fn fill(
        &mut self,
        ring: &mut RegionWriter,
        elements_max: u64,
    ) -> Result<u64, ReadQueueError> {
        self.poll()?;
        let size = ring.element_bytes() as u64;
        let elements_max = elements_max.clamp(1, ring.capacity());
        let mut started = 0;
        while self.failure.is_none() && self.outstanding() < self.slots.len() {
            let elements = elements_max.min(self.remaining() / size);
            if elements == 0 {
                self.partial_element_bytes = self.remaining();
                break;
            }
            let region = match ring.acquire(elements) {
                Ok(region) => region,
                Err(NoRegion::NotYet { .. } | NoRegion::AllLent { .. }) => break,
                Err(error) => return Err(error.into()),
            };
            started += region.elements();
            self.read(region).map_err(|refused| refused.error)?;
        }
        self.check_failure().map(|()| started)
    }

    fn check_failure(&self) -> Result<(), ReadQueueError> {
        self.failure.map_or(Ok(()), |failure| Err(failure.into()))
    }

    /// Waits until the data of all started reads is in the ring.
    pub fn wait(&mut self, wait: Duration) -> Result<(), ReadQueueError> {
        let deadline = self.backend.now().saturating_add(wait);
        while self.outstanding() > 0 {
            if !self.step(Wait::Until(deadline))? && self.backend.now() >= deadline {
                return Err(ReadQueueError::TimedOut {
                    outstanding: self.outstanding(),
                    waited: wait,
                });
            }
        }
        self.check_failure()
    }

    /// Waits until one of the running reads completes; returns at once if none is running.
    pub fn wait_for_one(&mut self, wait: Duration) -> Result<(), ReadQueueError> {
        if self.outstanding() > 0 {
            let deadline = self.backend.now().saturating_add(wait);
            self.step(Wait::Until(deadline))?;
        }
        Ok(())
    }

    fn slot_index(&self, number: u64) -> usize {
        // The remainder is less than the number of slots, which is a `usize`.
        (number % self.slots.len() as u64) as usize
    }
}
