//! Implements the byte-level core that all kinds of writers share.

mod closed;
mod flushing;
mod journaled;

use std::sync::{Arc, OnceLock, PoisonError};
use std::time::Duration;

use trunkline_proto::stream::{ElementForm, StreamFault, WriterLink};
use trunkline_ring::ElementProducer;

use super::ConnectedEnd;
use crate::directory::Registration;
use crate::end::{EndpointRole, GATHER_BYTES, WriteLock, WriterEnd};
use crate::error::StreamError;
use crate::handle::{EndpointHandle, RingCondition, WaitPolicy};
use crate::journal::Durability;
use crate::properties::{Monitor, Properties};
use crate::wait::Waiter;

pub use self::closed::Closed;
pub(crate) use self::closed::{ABORTED, CLOSE_TIMEOUT, NOT_RECEIVED_IN_TIME, PANICKED};

pub struct WriterCore {
    pub(crate) link: EndpointHandle<WriterEnd>,
    pub(crate) ring: ElementProducer,
    pub(crate) form: ElementForm,
    /// Capacity of this endpoint's buffer, in elements; a ring shared by both ends holds more.
    capacity: u64,
    /// Capacity of this endpoint's buffer, in bytes.
    bytes_max: u64,
    /// Length of the longest element known to fit both buffers.
    longest_checked: usize,
    /// Bytes written since the link last polled the ring.
    unsent: u64,
    /// Total number of elements that had been written at the last flush.
    flushed: u64,
    /// The last flush covered at most one element.
    flushes_each_element: bool,
    /// The last write was already sent, so a flush has nothing to send.
    has_sent: bool,
    /// The ring is shared with the peer's process.
    is_shared: bool,
    /// Total number of elements written when the reader was last woken. Cleared when the reader has
    /// read them. Until then the reader may wait for more elements without having announced its
    /// wait.
    woken_at: Option<u64>,
    wait_policy: WaitPolicy,
    /// Locked during a write, if the ring's memory may be released.
    write_lock: Option<WriteLock>,
    /// Set once the stream is over.
    over: Arc<OnceLock<()>>,
    /// Set if the writer has a journal: writes go into the journal, and not directly into the ring.
    pub(crate) journal: Option<Durability>,
    /// Held for as long as the endpoint exists.
    registration: Option<Registration>,
}

/// Holds when the ring has room for this many bytes and elements.
struct Room<'a> {
    ring: &'a mut ElementProducer,
    bytes: u64,
    elements: u64,
}

impl RingCondition for Room<'_> {
    fn holds(&mut self) -> bool {
        // The link detects invalid positions from the other program.
        self.ring
            .has_room(self.bytes, self.elements)
            .unwrap_or(false)
    }

    fn announce_wait(&mut self) -> bool {
        let waits = self.ring.wait_for_room(self.bytes, self.elements);
        waits.is_ok_and(|waits| !waits)
    }

    fn position(&self) -> u64 {
        self.ring.written_elements()
    }
}

impl WriterCore {
    pub(crate) fn new(connected: ConnectedEnd<WriterEnd>, ring: ElementProducer) -> Self {
        let (capacity, bytes_max) = connected.link.with(|end, _, _| {
            let options = end.link.options();
            (options.capacity, options.bytes_max)
        });
        Self {
            capacity,
            bytes_max,
            longest_checked: 0,
            is_shared: is_shared(&connected.link),
            woken_at: None,
            write_lock: connected.link.with(|end, _, _| end.inner.write_lock()),
            over: connected.link.with(|end, _, _| end.over()),
            link: connected.link,
            ring,
            form: connected.form,
            unsent: 0,
            flushed: 0,
            flushes_each_element: false,
            has_sent: false,
            wait_policy: WaitPolicy::new(connected.spin),
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

    pub(crate) fn capacity(&self) -> usize {
        // The capacity was configured as a `usize`.
        usize::try_from(self.capacity).unwrap_or(usize::MAX)
    }

    /// Like [`write`](Self::write), without waiting. Returns false if there is no room or the
    /// stream is over.
    #[inline(always)]
    pub(crate) fn try_write(&mut self, bytes: &[u8], elements: usize) -> bool {
        self.journal.is_none() && self.over.get().is_none() && self.push(bytes, elements as u64)
    }

    pub(crate) fn room(&mut self) -> usize {
        // The link detects invalid positions from the other program.
        let freed = self.ring.read_elements().unwrap_or(0);
        let occupied = self.ring.written_elements().saturating_sub(freed);
        let room = self.ring.shape().capacity().saturating_sub(occupied);
        usize::try_from(room).unwrap_or(usize::MAX)
    }

    /// Writes `elements` elements from `bytes`: all of them, or none.
    pub(crate) async fn write(
        &mut self,
        waiter: &impl Waiter,
        bytes: &[u8],
        elements: usize,
        timeout: Option<Duration>,
    ) -> Result<(), StreamError> {
        self.check_open()?;
        if self.journal.is_some() {
            return self.write_journaled(waiter, bytes, elements, timeout).await;
        }
        if self.push(bytes, elements as u64) {
            return Ok(());
        }
        self.wait_for_room(waiter, bytes.len(), elements, timeout)
            .await?;
        self.push(bytes, elements as u64);
        Ok(())
    }

    /// # Errors
    /// The stream is over, so the elements would never be read (NS-46).
    #[inline]
    pub(crate) fn check_open(&self) -> Result<(), StreamError> {
        match self.over.get() {
            None => Ok(()),
            Some(()) => Err(self.end_error()),
        }
    }

    #[cold]
    fn end_error(&self) -> StreamError {
        let error = self.link.with(|end, _, _| end_of_stream_error(&end.link));
        error.unwrap_or(StreamError::Closed)
    }

    /// Appends to the ring if there is room, and makes sure that the elements are sent.
    #[inline(always)]
    fn push(&mut self, bytes: &[u8], elements: u64) -> bool {
        if !self.can_ever_fit(bytes.len(), elements) {
            return false;
        }
        // A poisoned lock can be used: it protects no state that a panic could leave inconsistent.
        let lock = self.write_lock.as_ref();
        let guard = lock.map(|lock| lock.lock().unwrap_or_else(PoisonError::into_inner));
        // The link detects invalid positions from the other program.
        let is_pushed = self.ring.push(bytes, elements).unwrap_or(false);
        drop(guard);
        if is_pushed {
            self.after_write(bytes.len() as u64);
        }
        is_pushed
    }

    /// Returns true if this many bytes and elements fit the endpoint's own buffer when it is empty
    /// (NS-33).
    #[inline]
    pub(crate) fn can_ever_fit(&self, bytes: usize, elements: u64) -> bool {
        elements <= self.capacity && bytes as u64 <= self.bytes_max
    }

    /// Returns the memory for the next elements; there must be room for them.
    #[inline]
    pub(crate) fn free_space(&mut self, bytes: usize) -> &mut [u8] {
        let position = self.ring.written();
        // The memory is mirrored: the space is in one piece, aligned to the element's size.
        let space = self.ring.free_at(position, bytes);
        space.map(|[piece, _]| piece).unwrap_or_default()
    }

    #[inline]
    pub(crate) fn commit(&mut self, bytes: usize, elements: usize) {
        self.ring.commit(bytes as u64, elements as u64);
        self.after_write(bytes as u64);
    }

    /// Called after `bytes` bytes were added to the ring.
    #[inline(always)]
    fn after_write(&mut self, bytes: u64) {
        self.unsent += bytes;
        if self.ring.must_wake_unfenced() {
            self.wake();
        } else if self.unsent >= GATHER_BYTES && !self.is_shared {
            self.send();
        }
    }

    #[cold]
    fn wake(&mut self) {
        self.unsent = 0;
        self.woken_at = Some(self.ring.written_elements());
        let flushes_each_element = std::mem::take(&mut self.flushes_each_element);
        (self.is_shared, self.has_sent) = self.link.with(|end, _, _| {
            end.wake();
            let sends = flushes_each_element && end.stop_polling_now();
            (end.ring_bell(), sends)
        });
    }

    fn send(&mut self) {
        self.unsent = 0;
        // Accessing the endpoint sends all output that is due.
        self.link.with(|_, _, _| ());
    }

    /// Waits until there is room for this many bytes and elements.
    #[cold]
    pub(crate) async fn wait_for_room(
        &mut self,
        waiter: &impl Waiter,
        bytes: usize,
        elements: usize,
        timeout: Option<Duration>,
    ) -> Result<(), StreamError> {
        self.check_size(bytes, elements)?;
        if self.is_shared {
            let mut room = Room {
                ring: &mut self.ring,
                bytes: bytes as u64,
                elements: elements as u64,
            };
            if self.wait_policy.poll_briefly(&mut room) {
                return Ok(());
            }
            let (link, policy) = (&self.link, &mut self.wait_policy);
            let found = link.wait_shared(waiter, policy, timeout, &mut room, end_of_stream_error);
            return match found.await? {
                true => Ok(()),
                false => Err(self.link.wait_error(timeout, NO_ROOM)),
            };
        }
        let ring = &mut self.ring;
        let deadline = self.link.deadline(timeout);
        let (bytes, count) = (bytes as u64, elements as u64);
        let found = self.link.wait(waiter, deadline, |end, _| {
            if let Some(error) = end_of_stream_error(&end.link) {
                return Some(Err(error));
            }
            let has_room = ring.has_room(bytes, count).unwrap_or(false);
            end.link.set_short_of_room(!has_room);
            if !has_room {
                end.poll_ring();
                return None;
            }
            Some(Ok(()))
        });
        let found = found.await;
        match found {
            Some(result) => result,
            None => {
                self.link
                    .with(|end, _, _| end.link.set_short_of_room(false));
                Err(self.link.wait_error(timeout, NO_ROOM))
            }
        }
    }

    /// # Errors
    /// The elements can never fit (NS-33).
    pub(crate) fn check_size(&self, bytes: usize, elements: usize) -> Result<(), StreamError> {
        if !self.can_ever_fit(bytes, elements as u64) {
            if elements == 1 {
                let max = self.bytes_max;
                return Err(StreamError::TooLong { bytes, max });
            }
            return Err(StreamError::TooMany {
                asked: elements,
                capacity: self.capacity(),
            });
        }
        Ok(())
    }

    /// # Errors
    /// An element of varying length is longer than one of the two buffers.
    pub(crate) fn check_element(&mut self, bytes: usize) -> Result<(), StreamError> {
        if bytes <= self.longest_checked || self.form != ElementForm::Variable {
            return Ok(());
        }
        let max = self.link.with(|end, _, _| end.link.element_bytes_max());
        if bytes as u64 > max {
            return Err(StreamError::TooLong { bytes, max });
        }
        self.longest_checked = bytes;
        Ok(())
    }
}

/// The condition that a write's timeout error reports.
const NO_ROOM: &str = "the buffer has no room for all of the elements";

fn is_shared(link: &EndpointHandle<WriterEnd>) -> bool {
    link.with(|end, _, _| end.inner.shared().is_some())
}

/// Returns the reason why nothing more can be written, if any.
fn end_of_stream_error(link: &WriterLink) -> Option<StreamError> {
    match link.fault() {
        Some(fault) => Some(fault.clone().into()),
        None if link.is_over() => Some(StreamFault::Destroyed.into()),
        None => None,
    }
}
