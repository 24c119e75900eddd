//! Implements the byte-level core that all kinds of readers share.

mod closing;
mod journaled;
mod region;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use trunkline_proto::Features;
use trunkline_proto::stream::{ElementForm, ReaderLink, StreamFault};
use trunkline_ring::ElementConsumer;
use trunkline_types::wire::DecodeError;

use self::journaled::Commits;
use super::ConnectedEnd;
use crate::directory::Registration;
use crate::element::LENGTH_BYTES;
use crate::end::{EndpointRole, ReaderEnd, StreamEndpoint};
use crate::error::StreamError;
use crate::handle::{EndpointHandle, RingCondition, WaitPolicy};
use crate::properties::{Monitor, Properties};
use crate::sync::{AtomicU64, Ordering};
use crate::wait::Waiter;

pub use self::region::{ByteRegion, Region};

/// Maximum capacity of the copy buffer that a reader keeps between calls, in bytes.
const COPY_BUFFER_BYTES_MAX: usize = 1 << 20;

pub struct ReaderCore {
    pub(crate) link: EndpointHandle<ReaderEnd>,
    pub(crate) ring: ElementConsumer,
    pub(crate) form: ElementForm,
    /// Capacity of this endpoint's buffer, in elements; a ring shared by both ends holds more.
    capacity: u64,
    /// Read position at which the writer needs new credit, in bytes.
    credit_at: u64,
    /// The ring is shared with the peer's process.
    is_shared: bool,
    wait_policy: WaitPolicy,
    /// Copies of elements that vary in size.
    copied: Vec<u8>,
    /// Position of the next gap, in elements, if the writer drops elements.
    gap_at: Option<Arc<AtomicU64>>,
    /// Set if the reader has a journal.
    journal: Option<Commits>,
    registration: Option<Registration>,
}

/// Holds when the ring contains this many bytes and elements.
struct Elements<'a> {
    ring: &'a mut ElementConsumer,
    bytes: u64,
    elements: u64,
}

impl RingCondition for Elements<'_> {
    fn holds(&mut self) -> bool {
        // The link detects invalid positions from the other program.
        self.ring.has(self.bytes, self.elements).unwrap_or(false)
    }

    fn announce_wait(&mut self) -> bool {
        let waits = self.ring.wait_for(self.bytes, self.elements);
        waits.is_ok_and(|waits| !waits)
    }

    fn position(&self) -> u64 {
        self.ring.read_elements()
    }
}

/// The number of elements that a read asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ReadAmount {
    Exactly(usize),
    /// All elements that have arrived; the read does not wait for more.
    Available,
}

impl ReaderCore {
    pub(crate) fn new(connected: ConnectedEnd<ReaderEnd>, ring: ElementConsumer) -> Self {
        let (is_shared, capacity) = connected
            .link
            .with(|end, _, _| (end.inner.shared().is_some(), end.link.options().capacity));
        let gap_at = connected.link.with(|end, _, _| {
            let drops = end
                .link
                .peer()
                .is_some_and(|peer| peer.features.contains(Features::DROPS));
            drops.then(|| end.inner.gap_at.clone())
        });
        Self {
            capacity,
            gap_at,
            link: connected.link,
            ring,
            form: connected.form,
            credit_at: if is_shared { u64::MAX } else { 0 },
            is_shared,
            wait_policy: WaitPolicy::new(connected.spin),
            copied: Vec::new(),
            journal: None,
            registration: connected.registration,
        }
    }

    pub(crate) fn monitor(&self) -> Monitor {
        Monitor::of(&self.link)
    }

    pub(crate) fn properties(&self) -> Properties {
        Properties::of(&self.link)
    }

    /// Returns true if the stream has ended, and everything was read.
    pub(crate) fn is_at_end(&mut self) -> bool {
        let is_ended =
            |end: &ReaderLink| matches!(end_of_stream_error(end), Some(StreamError::Ended));
        self.available() == 0 && self.link.with(|end, _, _| is_ended(&end.link))
    }

    pub(crate) fn capacity(&self) -> usize {
        // The capacity was configured as a `usize`.
        usize::try_from(self.capacity).unwrap_or(usize::MAX)
    }

    pub(crate) fn available(&mut self) -> usize {
        // The link detects invalid positions from the other program.
        let (_, elements) = self.ring.available().unwrap_or((0, 0));
        let elements = elements.min(self.capacity).min(self.elements_before_gap());
        usize::try_from(elements).unwrap_or(usize::MAX)
    }

    /// Number of elements before the next gap.
    #[inline]
    fn elements_before_gap(&self) -> u64 {
        match &self.gap_at {
            None => u64::MAX,
            // Acquire: the link sets this before it puts the elements after the gap into the ring.
            Some(at) => at
                .load(Ordering::Acquire)
                .saturating_sub(self.ring.read_elements()),
        }
    }

    /// Copies out elements of fixed size, if all of them are available.
    #[inline(always)]
    pub(crate) fn try_read(&mut self, into: &mut [u8], count: usize) -> bool {
        let is_read = self.journal.is_none()
            && (self.gap_at.is_none() || self.has(count))
            && count as u64 <= self.capacity
            && self.ring.pull(into, count as u64).unwrap_or(false);
        if is_read {
            self.after_release();
        }
        is_read
    }

    /// Waits until the elements are available, and returns the number of elements that the caller
    /// gets: the requested number, the elements before a gap, or the remaining elements of a stream
    /// that has ended (NS-48).
    pub(crate) async fn wait_for(
        &mut self,
        waiter: &impl Waiter,
        amount: ReadAmount,
        timeout: Option<Duration>,
    ) -> Result<usize, StreamError> {
        if self.journal.is_some() {
            self.commit_before_read(waiter).await?;
        }
        match amount {
            ReadAmount::Exactly(count) if self.has(count) => Ok(count),
            ReadAmount::Exactly(count) => self.wait_long(waiter, count, timeout).await,
            ReadAmount::Available => {
                let count = self.available();
                if count > 0 {
                    return Ok(count);
                }
                // Moves data that has arrived into the ring, and detects the end of the stream.
                match self.wait_long(waiter, 1, Some(Duration::ZERO)).await {
                    Ok(_) => Ok(self.available()),
                    Err(StreamError::Timeout { .. }) => Ok(0),
                    Err(error) => Err(error),
                }
            }
        }
    }

    /// Returns true if the elements are available and nothing has to be done before reading them.
    #[inline]
    pub(crate) fn can_read_now(&mut self, count: usize) -> bool {
        self.journal.is_none() && self.has(count)
    }

    #[inline]
    fn has(&mut self, count: usize) -> bool {
        let bytes = match self.form {
            ElementForm::Fixed(size) => (count as u64).saturating_mul(u64::from(size)),
            ElementForm::Variable => 0,
        };
        // The ring is checked first: a loss that is not known at that point comes after these
        // elements.
        count as u64 <= self.capacity
            && self.ring.has(bytes, count as u64).unwrap_or(false)
            && count as u64 <= self.elements_before_gap()
    }

    /// Returns the result of a read that reaches a gap: the number of elements before the gap, or the
    /// loss if no elements remain before it.
    fn at_gap(
        &mut self,
        end: &mut StreamEndpoint<ReaderEnd>,
    ) -> Option<Result<usize, StreamError>> {
        let (at, elements) = end.link.next_loss()?;
        match at.saturating_sub(self.ring.read_elements()) {
            0 => {
                end.link.take_loss();
                end.inner.note_gap(&end.link);
                Some(Err(StreamError::Lost { elements }))
            }
            before => usize::try_from(before).ok().map(Ok),
        }
    }

    async fn wait_long(
        &mut self,
        waiter: &impl Waiter,
        count: usize,
        timeout: Option<Duration>,
    ) -> Result<usize, StreamError> {
        if count as u64 > self.capacity {
            return Err(StreamError::TooMany {
                asked: count,
                capacity: self.capacity(),
            });
        }
        if self.is_shared {
            return self.wait_in_shared(waiter, count, timeout).await;
        }
        let link = self.link.clone();
        let found = link.wait(waiter, link.deadline(timeout), |end, _| {
            end.poll_ring();
            if self.has(count) {
                return Some(Ok(count));
            }
            if let Some(lost) = self.at_gap(end) {
                return Some(lost);
            }
            let failed = end.journal_error();
            if self.has(count) {
                return Some(Ok(count));
            }
            if let Some(error) = failed {
                // Elements that were stored earlier stay in the ring: a call gets everything it
                // asks for, or nothing.
                return Some(Err(error.into()));
            }
            let error = end_of_stream_error(&end.link)?;
            // At this point everything that arrived is in the ring.
            let left = self.available();
            Some(if left > 0 { Ok(left) } else { Err(error) })
        });
        match found.await {
            Some(result) => result,
            None => Err(self.link.wait_error(timeout, NOT_ARRIVED)),
        }
    }

    async fn wait_in_shared(
        &mut self,
        waiter: &impl Waiter,
        count: usize,
        timeout: Option<Duration>,
    ) -> Result<usize, StreamError> {
        let bytes = match self.form {
            ElementForm::Fixed(size) => (count as u64).saturating_mul(u64::from(size)),
            ElementForm::Variable => 0,
        };
        let mut elements = Elements {
            ring: &mut self.ring,
            bytes,
            elements: count as u64,
        };
        if self.wait_policy.poll_briefly(&mut elements) {
            return Ok(count);
        }
        let (link, policy) = (&self.link, &mut self.wait_policy);
        let found = link.wait_shared(waiter, policy, timeout, &mut elements, end_of_stream_error);
        match found.await {
            Ok(true) => Ok(count),
            Ok(false) => Err(self.link.wait_error(timeout, NOT_ARRIVED)),
            Err(error) => match self.available() {
                0 => Err(error),
                left => Ok(left.min(count)),
            },
        }
    }

    /// The bytes of the next `count` elements, which must be available.
    ///
    /// Elements that vary in size are copied. The ring may be memory that the writing program can
    /// still modify, so a length or text checked in place could differ when it is used.
    ///
    /// # Errors
    /// [`StreamError::Element`]: the lengths exceed the available bytes. [`StreamError::Memory`].
    pub(crate) fn region(&mut self, count: usize) -> Result<&[u8], StreamError> {
        match self.form {
            ElementForm::Fixed(size) => Ok(self.available_region(count * size as usize)),
            ElementForm::Variable => {
                self.copy_varying(count)?;
                Ok(&self.copied)
            }
        }
    }

    /// Copies the next `count` elements with their lengths, reading each length only once.
    fn copy_varying(&mut self, count: usize) -> Result<(), StreamError> {
        self.copied.clear();
        for _ in 0..count {
            self.copy_next(LENGTH_BYTES)?;
            let length = self.copied.last_chunk().copied().unwrap_or_default();
            self.copy_next(u32::from_le_bytes(length) as usize)?;
        }
        Ok(())
    }

    /// Appends the next `bytes` bytes of the ring to the copy.
    fn copy_next(&mut self, bytes: usize) -> Result<(), StreamError> {
        let offset = self.copied.len();
        let position = self.ring.read_position() + offset as u64;
        // The memory is mirrored: the region is in one piece.
        let Some([piece, _]) = self.ring.region_at(position, bytes) else {
            let (present, _) = self.ring.available().unwrap_or((0, 0));
            return Err(StreamError::Element(DecodeError::Truncated {
                offset,
                needed: bytes as u64,
                present: usize::try_from(present).unwrap_or(usize::MAX),
            }));
        };
        self.copied
            .try_reserve(bytes)
            .map_err(|_| StreamError::Memory {
                bytes,
                cause: io::ErrorKind::OutOfMemory.into(),
            })?;
        self.copied.extend_from_slice(piece);
        Ok(())
    }

    /// The next `bytes` bytes, which are known to be available.
    pub(crate) fn available_region(&self, bytes: usize) -> &[u8] {
        // The memory is mirrored: the region is in one piece.
        let [bytes, _] = self
            .ring
            .region_at(self.ring.read_position(), bytes)
            .unwrap_or_default();
        bytes
    }

    /// Number of elements that the writer is known to have dropped.
    pub(crate) fn lost_total(&self) -> u64 {
        self.link.with(|end, _, _| end.link.lost())
    }

    /// Releases the next `count` elements of `bytes` bytes, after they were read.
    #[inline]
    pub(crate) fn release(&mut self, bytes: usize, count: usize) {
        self.ring.release(bytes as u64, count as u64);
        if self.copied.capacity() > COPY_BUFFER_BYTES_MAX {
            self.copied = Vec::new();
        }
        self.after_release();
    }

    /// Notifies the writer, if necessary, that the ring has room again.
    #[inline(always)]
    fn after_release(&mut self) {
        if self.ring.read_position() >= self.credit_at || self.ring.must_wake_unfenced() {
            self.give_credit();
        }
    }

    #[cold]
    fn give_credit(&mut self) {
        (self.is_shared, self.credit_at) = self.link.with(|end, _, _| {
            end.poll_ring();
            match end.ring_bell() {
                true => (true, u64::MAX),
                false => (false, end.link.credit_due_position()),
            }
        });
        // At least one element ahead; otherwise every read would take the lock.
        self.credit_at = self.credit_at.max(self.ring.read_position() + 1);
    }
}

const NOT_ARRIVED: &str = "not enough elements have arrived";

/// Returns the reason why no more elements will arrive, if any. Elements that have arrived can still
/// be read.
fn end_of_stream_error(link: &ReaderLink) -> Option<StreamError> {
    // The end takes precedence over a fault: the connection of a stream that has ended is also
    // gone.
    if let Some(close) = link.end().filter(|close| close.position <= link.arrived()) {
        let missing = close.written.saturating_sub(close.position);
        if missing == 0 && !close.is_aborted {
            return Some(StreamError::Ended);
        }
        // A journal records that the stream was aborted, but not why.
        let reason = link
            .abort_reason()
            .unwrap_or("the writer's program did not close the stream");
        let reason = reason.to_owned();
        return Some(StreamError::Aborted { missing, reason });
    }
    match link.fault() {
        Some(fault) => Some(fault.clone().into()),
        None if link.is_over() => Some(StreamFault::Destroyed.into()),
        None => None,
    }
}
