//! Reading a file into regions of a ring, several of them at a time.
//!
//! ```text
//!   file --> Backend --> region --> (once all before it are filled) --> the device that plays
//!                 \--> staging --copied--/
//! ```
//!
//! A region is filled where it lies. What is no whole block, or does not lie in memory as it does
//! in the file, is read into staging and copied, and counted. Reads are done in any order; the ring
//! gives regions to the device in the order of the calls.

mod error;
mod slot;
mod steps;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use trunkline_ring::{NoRegion, RegionMemory, RegionWriter, WriteRegion};

pub use self::error::{ReadFailure, ReadFault, ReadQueueError, RefusedRead};
use self::slot::Slot;
use crate::backend::{Backend, Span, Wait, WhyNot};
use crate::staging::Staging;

/// How a queue reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadOptions {
    /// Reads that may be outstanding. Unless set, 4.
    pub outstanding_max: NonZeroUsize,
    /// How long [`read`](ReadQueue::read) waits when as many are. Unless set, 5 s.
    pub wait: Duration,
    /// Where in the file it begins. Unless set, at the beginning.
    pub from: u64,
    /// Bytes to be read, all together. Unless set, up to the end of the file.
    pub total: Option<u64>,
    /// Staging of each outstanding read, at least two blocks. Unless set, 256 KiB.
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
    /// Reads that a backend has to run at a time for this.
    #[must_use]
    pub fn reads_max(&self) -> usize {
        // Of a region, whole blocks and odd ends are read at the same time.
        2 * self.outstanding_max.get()
    }
}

/// How far a queue is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ReadProgress {
    /// Bytes whose reading was begun.
    pub begun: u64,
    /// Bytes that are in the ring, with all before them.
    pub read: u64,
    /// Bytes that are to be read all together.
    pub total: u64,
    /// Regions between the first two.
    pub outstanding: usize,
    /// Everything is in the ring; but what is no whole element at the end, when
    /// [`fill`](ReadQueue::fill) has come there.
    pub is_finished: bool,
    /// Bytes that went through staging, and that the CPU has copied.
    pub bytes_copied: u64,
    /// Why nothing more is read.
    pub failure: Option<ReadFailure>,
}

/// Reads one file into regions, which the device gets in the order of the calls.
#[derive(Debug)]
pub struct ReadQueue<B: Backend> {
    // First, because it waits for what is running when it is dropped; then what that reads into.
    backend: B,
    slots: Box<[Slot]>,
    staging: Staging,
    _memories: Vec<Arc<RegionMemory>>,
    not_registered: Option<WhyNot>,
    options: ReadOptions,
    block_bytes: usize,
    /// Bytes of the file.
    length: u64,
    total: u64,
    /// Numbers of the oldest read that is outstanding, and of the next.
    oldest: u64,
    next: u64,
    position: u64,
    begun: u64,
    read: u64,
    /// Bytes at the end that are no whole element of the ring that is filled.
    tail: u64,
    failure: Option<ReadFailure>,
    /// The first read that is not done.
    failed_from: u64,
    bytes_copied: u64,
}

impl<B: Backend> ReadQueue<B> {
    /// A queue for a file of `length` bytes, which is read into regions of `memories`.
    ///
    /// # Errors
    /// [`ReadQueueError::BeyondEnd`]: the options ask for more than the file has.
    pub fn new(
        mut backend: B,
        length: u64,
        options: ReadOptions,
        memories: Vec<Arc<RegionMemory>>,
    ) -> Result<Self, ReadQueueError> {
        let there = length.saturating_sub(options.from);
        let total = options.total.unwrap_or(there);
        if total > there {
            return Err(ReadQueueError::BeyondEnd {
                position: options.from,
                bytes: total,
                length,
            });
        }
        let block_bytes = backend.block_bytes().max(1);
        let places = options.outstanding_max.get();
        let staging = Staging::new(places, options.bounce_bytes.max(2 * block_bytes));
        let (start, bytes) = staging.span();
        let mut spans = vec![Span { start, bytes }];
        spans.extend(memories.iter().map(|memory| {
            let (start, bytes) = memory.span();
            Span { start, bytes }
        }));
        // SAFETY: this keeps all of it until the backend is dropped, which it is first.
        let not_registered = unsafe { backend.register(&spans) };
        Ok(Self {
            backend,
            slots: (0..places).map(|_| Slot::default()).collect(),
            staging,
            _memories: memories,
            not_registered,
            options,
            block_bytes,
            length,
            total,
            oldest: 0,
            next: 0,
            position: options.from,
            begun: 0,
            read: 0,
            tail: 0,
            failure: None,
            failed_from: u64::MAX,
            bytes_copied: 0,
        })
    }

    /// Why the memory is not registered with the kernel, so that each read costs more; none where
    /// it is, or where that is of no use.
    pub fn not_registered(&self) -> Option<&WhyNot> {
        self.not_registered.as_ref()
    }

    /// What it reads with.
    pub fn backend(&self) -> &B {
        &self.backend
    }

    /// What positions and addresses have to have in common, to be read without a copy.
    pub fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    /// Where in the file the next region is read from.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The next region is read from `position` on. What is to be read all together stays the same.
    pub fn seek(&mut self, position: u64) {
        self.position = position;
    }

    /// Bytes whose reading was not begun yet.
    pub fn left(&self) -> u64 {
        self.total - self.begun
    }

    /// Regions that are being read into.
    pub fn outstanding(&self) -> usize {
        // At most the slots, which is a usize.
        (self.next - self.oldest) as usize
    }

    /// How far it is.
    pub fn progress(&self) -> ReadProgress {
        ReadProgress {
            begun: self.begun,
            read: self.read,
            total: self.total,
            outstanding: self.outstanding(),
            is_finished: self.read + self.tail == self.total,
            bytes_copied: self.bytes_copied,
            failure: self.failure,
        }
    }

    /// Waits until one more region may be read into, as long as the options say.
    ///
    /// # Errors
    /// [`ReadQueueError::Busy`], [`ReadQueueError::Failed`], [`ReadQueueError::Backend`].
    pub fn make_room(&mut self) -> Result<(), ReadQueueError> {
        self.poll()?;
        let waited = self.options.wait;
        let until = self.backend.now().saturating_add(waited);
        while self.outstanding() == self.slots.len() {
            if !self.step(Wait::Until(until))? && self.backend.now() >= until {
                let outstanding = self.outstanding();
                return Err(ReadQueueError::Busy {
                    outstanding,
                    waited,
                });
            }
        }
        self.not_failed()
    }

    /// Reads the next bytes of the file into a region, which is finished when they are there.
    /// Returns at once, unless as many are outstanding as may be.
    ///
    /// # Errors
    /// [`RefusedRead`], with the region; nothing is read into it.
    pub fn read(&mut self, region: WriteRegion) -> Result<(), Box<RefusedRead>> {
        let checked = self.make_room().and_then(|()| self.check(&region));
        if let Err(error) = checked {
            return Err(Box::new(RefusedRead { region, error }));
        }
        let slot = Slot::new(region, self.position, self.block_bytes);
        let (number, bytes) = (self.next, slot.bytes);
        let place = self.place(number);
        self.slots[place] = slot;
        self.next += 1;
        self.position += bytes;
        self.begun += bytes;
        self.tail = 0;
        self.go_on(number);
        Ok(())
    }

    fn check(&self, region: &WriteRegion) -> Result<(), ReadQueueError> {
        let (bytes, left) = (region.byte_len() as u64, self.left());
        if bytes > left {
            return Err(ReadQueueError::TooLong { bytes, left });
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

    /// Reads on into regions of `elements_max` elements at most, as far as there is room in the
    /// ring, without waiting. Returns how many elements were begun.
    ///
    /// Bytes at the end that are no whole element are never read: without them it is finished.
    ///
    /// # Errors
    /// [`ReadQueueError::Failed`], [`ReadQueueError::Backend`], [`ReadQueueError::BeyondEnd`];
    /// [`ReadQueueError::Ring`] where the ring is of no use any more.
    pub fn fill(
        &mut self,
        ring: &mut RegionWriter,
        elements_max: u64,
    ) -> Result<u64, ReadQueueError> {
        self.poll()?;
        let size = ring.element_bytes() as u64;
        let most = elements_max.clamp(1, ring.capacity());
        let mut begun = 0;
        while self.failure.is_none() && self.outstanding() < self.slots.len() {
            let elements = most.min(self.left() / size);
            if elements == 0 {
                self.tail = self.left();
                break;
            }
            let region = match ring.acquire(elements) {
                Ok(region) => region,
                Err(NoRegion::NotYet { .. } | NoRegion::AllLent { .. }) => break,
                Err(error) => return Err(error.into()),
            };
            begun += region.elements();
            self.read(region).map_err(|refused| refused.error)?;
        }
        self.not_failed().map(|()| begun)
    }

    fn not_failed(&self) -> Result<(), ReadQueueError> {
        self.failure.map_or(Ok(()), |failure| Err(failure.into()))
    }

    /// Waits until everything that was begun is in the ring.
    ///
    /// # Errors
    /// [`ReadQueueError::NotDone`], [`ReadQueueError::Failed`], [`ReadQueueError::Backend`].
    pub fn wait(&mut self, wait: Duration) -> Result<(), ReadQueueError> {
        let until = self.backend.now().saturating_add(wait);
        while self.outstanding() > 0 {
            if !self.step(Wait::Until(until))? && self.backend.now() >= until {
                return Err(ReadQueueError::NotDone {
                    outstanding: self.outstanding(),
                    waited: wait,
                });
            }
        }
        self.not_failed()
    }

    /// Waits until one of the reads that run is done; at once when none runs.
    ///
    /// # Errors
    /// [`ReadQueueError::Backend`].
    pub fn wait_for_one(&mut self, wait: Duration) -> Result<(), ReadQueueError> {
        if self.outstanding() > 0 {
            let until = self.backend.now().saturating_add(wait);
            self.step(Wait::Until(until))?;
        }
        Ok(())
    }

    fn place(&self, number: u64) -> usize {
        // Below the number of slots, which is a usize.
        (number % self.slots.len() as u64) as usize
    }
}
