//! The writing end, in bytes: what every kind of writer does.

use std::sync::{Arc, OnceLock, PoisonError};
use std::time::Duration;

use trunkline_proto::message::stream::Until;
use trunkline_proto::stream::{ElementForm, StreamFault, WriterLink};
use trunkline_ring::ElementProducer;

use super::Closed;
use crate::end::{End, GATHER_BYTES, Inner, WriterEnd, Writing};
use crate::error::StreamError;
use crate::held::Held;
use crate::journal::{Durability, JournalError};
use crate::rendezvous::{Met, Registration};
use crate::wait::Waits;
use crate::wait_shared::{Patience, Ring, wait_shared};

/// How long closing waits for what the writer still has, where nothing else is said.
pub(crate) const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// What every kind of writer is made of.
pub struct WriterCore {
    pub(crate) link: Held<WriterEnd>,
    pub(crate) ring: ElementProducer,
    pub(crate) form: ElementForm,
    /// Elements and bytes of this end's buffer; a ring that both ends use holds more.
    capacity: u64,
    bytes_max: u64,
    /// Written since the link last had reason to look.
    unsent: u64,
    /// Elements that were written at the last flush.
    flushed: u64,
    /// The last flush was of one element.
    flushes_each: bool,
    /// So that the one after it went out when it was written.
    has_sent: bool,
    /// The ring is that of both ends' processes.
    is_shared: bool,
    /// Elements that were written when the other end was woken last, until it has read them: it may
    /// sleep again, for more of them, without saying so at once.
    woken_at: Option<u64>,
    patience: Patience,
    /// Held while it writes, where the ring's memory may be given back.
    writing: Option<Writing>,
    /// Has a value once the stream is over.
    over: Arc<OnceLock<()>>,
    /// It has a journal: what is written goes there, and not into the ring from here.
    pub(super) journal: Option<Durability>,
    /// Ends with the endpoint.
    pub(super) registration: Option<Registration>,
}

/// Waiting for so much room.
struct Room<'a> {
    ring: &'a mut ElementProducer,
    bytes: u64,
    elements: u64,
}

impl Ring for Room<'_> {
    fn has(&mut self) -> bool {
        // What the other program may have written there is found by the link.
        self.ring
            .has_room(self.bytes, self.elements)
            .unwrap_or(false)
    }

    fn say(&mut self) -> bool {
        let waits = self.ring.wait_for_room(self.bytes, self.elements);
        waits.is_ok_and(|waits| !waits)
    }

    fn position(&self) -> u64 {
        self.ring.written_elements()
    }
}

/// Waiting until so many elements have been read in all.
struct Read<'a> {
    ring: &'a mut ElementProducer,
    elements: u64,
}

impl Ring for Read<'_> {
    fn has(&mut self) -> bool {
        // What the other program may have written there is found by the link.
        let read = self.ring.read_elements();
        read.is_ok_and(|read| read >= self.elements)
    }

    fn say(&mut self) -> bool {
        // Of more room than there is.
        let _ = self.ring.wait_for_room(u64::MAX, 0);
        self.has()
    }

    fn position(&self) -> u64 {
        self.ring.written_elements()
    }
}

impl WriterCore {
    pub(crate) fn new(met: Met<WriterEnd>, ring: ElementProducer) -> Self {
        let (capacity, bytes_max) = met.link.with(|end, _, _| {
            let options = end.link.options();
            (options.capacity, options.bytes_max)
        });
        Self {
            capacity,
            bytes_max,
            is_shared: is_shared(&met.link),
            woken_at: None,
            writing: met.link.with(|end, _, _| end.inner.writing()),
            over: met.link.with(|end, _, _| end.over()),
            link: met.link,
            ring,
            form: met.form,
            unsent: 0,
            flushed: 0,
            flushes_each: false,
            has_sent: false,
            patience: Patience::new(met.spin),
            journal: None,
            registration: met.registration,
        }
    }

    pub(crate) fn capacity(&self) -> usize {
        // A capacity came as a usize.
        usize::try_from(self.capacity).unwrap_or(usize::MAX)
    }

    /// As [`write`](Self::write) where there is room; false where there is none, or the stream is
    /// over.
    #[inline(always)]
    pub(crate) fn try_write(&mut self, bytes: &[u8], elements: usize) -> bool {
        self.journal.is_none() && self.over.get().is_none() && self.push(bytes, elements as u64)
    }

    /// Elements that fit now.
    pub(crate) fn room(&mut self) -> usize {
        // Nobody but this program has the memory, so its positions are true.
        let freed = self.ring.read_elements().unwrap_or(0);
        let kept = self.ring.written_elements().saturating_sub(freed);
        let room = self.ring.shape().capacity().saturating_sub(kept);
        usize::try_from(room).unwrap_or(usize::MAX)
    }

    /// Writes `elements` that lie in `bytes`: all of them, or none.
    pub(crate) async fn write(
        &mut self,
        waits: &impl Waits,
        bytes: &[u8],
        elements: usize,
        timeout: Option<Duration>,
    ) -> Result<(), StreamError> {
        self.check_open()?;
        if self.journal.is_some() {
            return self.write_journaled(waits, bytes, elements, timeout).await;
        }
        if self.push(bytes, elements as u64) {
            return Ok(());
        }
        let waited = self.wait_for_room(waits, bytes.len(), elements, timeout);
        let waited = waited.await;
        #[cfg(feature = "planted")]
        if waited.is_err()
            && trunkline_types::planted::is(trunkline_types::planted::Bug::LateWriteMoves)
        {
            let first = crate::element::bytes_of(self.form, bytes, 1).unwrap_or(0);
            self.push(&bytes[..first], 1);
        }
        waited?;
        self.push(bytes, elements as u64);
        Ok(())
    }

    /// # Errors
    /// The stream is over, and nobody would ever read it (NS-46).
    #[inline]
    pub(crate) fn check_open(&self) -> Result<(), StreamError> {
        match self.over.get() {
            None => Ok(()),
            Some(()) => Err(self.why_over()),
        }
    }

    #[cold]
    fn why_over(&self) -> StreamError {
        let over = self.link.with(|end, _, _| over(&end.link));
        over.unwrap_or(StreamError::Closed)
    }

    /// Appends to the ring, if there is room, and sees to it that it is sent.
    #[inline(always)]
    fn push(&mut self, bytes: &[u8], elements: u64) -> bool {
        if !self.can_ever_fit(bytes.len(), elements) || !self.push_into_ring(bytes, elements) {
            return false;
        }
        self.wrote(bytes.len() as u64);
        true
    }

    #[inline(always)]
    fn push_into_ring(&mut self, bytes: &[u8], elements: u64) -> bool {
        // It protects nothing that could be half done.
        let writing = self.writing.as_ref();
        let _held = writing.map(|writing| writing.lock().unwrap_or_else(PoisonError::into_inner));
        // Nobody but this program has the memory, so its positions are true.
        self.ring.push(bytes, elements).unwrap_or(false)
    }

    /// Whether so much is no more than the end's own buffer holds (NS-33).
    #[inline]
    pub(crate) fn can_ever_fit(&self, bytes: usize, elements: u64) -> bool {
        elements <= self.capacity && bytes as u64 <= self.bytes_max
    }

    /// So many bytes were given to the ring.
    #[inline(always)]
    pub(crate) fn wrote(&mut self, bytes: u64) {
        self.unsent += bytes;
        if self.ring.glance_wake() {
            self.wake();
        } else if self.unsent >= GATHER_BYTES && !self.is_shared {
            self.send();
        }
    }

    #[cold]
    fn wake(&mut self) {
        self.unsent = 0;
        self.woken_at = Some(self.ring.written_elements());
        let flushes_each = std::mem::take(&mut self.flushes_each);
        (self.is_shared, self.has_sent) = self.link.with(|end, _, _| {
            end.wake();
            let sends = flushes_each && end.rest_now();
            (end.ring_bell(), sends)
        });
    }

    fn send(&mut self) {
        self.unsent = 0;
        // Who asks for the endpoint sends what there is.
        self.link.with(|_, _, _| ());
    }

    /// Waits until so much fits.
    #[cold]
    pub(crate) async fn wait_for_room(
        &mut self,
        waits: &impl Waits,
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
            if self.patience.is_there(&mut room) {
                return Ok(());
            }
            let until = self.link.deadline(timeout);
            let over = |end: &End<WriterEnd>| over(&end.link);
            let found = wait_shared(
                waits,
                &self.link,
                &mut self.patience,
                until,
                &mut room,
                over,
            );
            return match found.await? {
                true => Ok(()),
                false => Err(self.gave_up(timeout, NO_ROOM)),
            };
        }
        let ring = &mut self.ring;
        let until = self.link.deadline(timeout);
        let (bytes, count) = (bytes as u64, elements as u64);
        let found = self.link.wait(waits, until, |end, _| {
            if let Some(error) = over(&end.link) {
                return Some(Err(error));
            }
            let has_room = ring.has_room(bytes, count).unwrap_or(false);
            end.link.set_short_of_room(!has_room);
            if !has_room {
                end.look();
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
                Err(self.gave_up(timeout, NO_ROOM))
            }
        }
    }

    pub(super) fn gave_up(&self, timeout: Option<Duration>, what: &'static str) -> StreamError {
        match timeout {
            Some(timeout) if !self.link.is_closed() => StreamError::Timeout { timeout, what },
            _ => StreamError::Closed,
        }
    }

    /// # Errors
    /// It can never fit (NS-33).
    pub(super) fn check_size(&self, bytes: usize, elements: usize) -> Result<(), StreamError> {
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
    pub(crate) fn check_element(&self, bytes: usize) -> Result<(), StreamError> {
        let max = self.link.with(|end, _, _| end.link.element_bytes_max());
        match bytes as u64 > max {
            true => Err(StreamError::TooLong { bytes, max }),
            false => Ok(()),
        }
    }

    /// Sends everything now, and waits until it has come so far.
    pub(crate) async fn flush(
        &mut self,
        waits: &impl Waits,
        until: Until,
        timeout: Option<Duration>,
    ) -> Result<(), StreamError> {
        if self.journal.is_some() || until == Until::Durable {
            self.check_durable(until)?;
        }
        if self.is_shared {
            self.wake_reader();
        }
        // Waking it has shown whether it is still there.
        if self.is_shared {
            return self.flush_shared(waits, until, timeout).await;
        }
        let written = self.ring.written_elements();
        self.flushes_each = written.saturating_sub(self.flushed) <= 1;
        self.flushed = written;
        let has_sent = std::mem::take(&mut self.has_sent) && self.unsent == 0;
        if has_sent && until == Until::Sent && timeout == Some(Duration::ZERO) {
            return Ok(());
        }
        self.unsent = 0;
        let flushes_each = self.flushes_each;
        let (position, is_reached) = self.link.with(|end, _, _| {
            end.look();
            if flushes_each {
                end.rest_now();
            }
            let position = end.link.flush(until);
            (position, end.link.is_reached(until, position))
        });
        if is_reached || timeout == Some(Duration::ZERO) {
            return Ok(());
        }
        let reached = self
            .link
            .wait(waits, self.link.deadline(timeout), |end, _| {
                if end.link.is_reached(until, position) {
                    return Some(Ok(()));
                }
                over(&end.link).map(Err)
            });
        match reached.await {
            Some(result) => result,
            None => Err(self.gave_up(timeout, "not all elements have come so far")),
        }
    }

    /// Wakes the other end of the ring if it sleeps. One that looks for itself is not disturbed,
    /// and costs a fence.
    fn wake_reader(&mut self) {
        if let Some(at) = self.woken_at {
            let has_read = self.ring.read_elements().is_ok_and(|read| read >= at);
            self.woken_at = self.woken_at.filter(|_| !has_read);
        }
        if self.ring.must_wake() || self.woken_at.is_some() {
            self.wake();
        }
    }

    /// [`flush`](Self::flush) where the buffers of both ends are one ring: nothing has to be sent.
    async fn flush_shared(
        &mut self,
        waits: &impl Waits,
        until: Until,
        timeout: Option<Duration>,
    ) -> Result<(), StreamError> {
        let written = self.ring.written_elements();
        let target = match until {
            Until::Sent => return Ok(()),
            Until::Available => {
                let fills = |end: &mut End<WriterEnd>, _, _| {
                    end.inner.shared().map_or(0, |shared| shared.fills.reader)
                };
                written.saturating_sub(self.link.with(fills))
            }
            // Ends with journals share no ring, so nobody waits for a disk here.
            Until::Read | Until::Durable => written,
        };
        let mut read = Read {
            ring: &mut self.ring,
            elements: target,
        };
        if read.has() || timeout == Some(Duration::ZERO) || self.patience.is_there(&mut read) {
            return Ok(());
        }
        let until = self.link.deadline(timeout);
        let over = |end: &End<WriterEnd>| over(&end.link);
        let found = wait_shared(
            waits,
            &self.link,
            &mut self.patience,
            until,
            &mut read,
            over,
        );
        match found.await? {
            true => Ok(()),
            false => Err(self.gave_up(timeout, "not all elements have come so far")),
        }
    }

    /// Nothing more is written: waits until the reader has everything, and says what it lacks. What
    /// it has not by then is given up, and the reader told so: otherwise it would wait for it. With
    /// a journal it is kept.
    pub(crate) async fn close(&mut self, waits: &impl Waits, timeout: Option<Duration>) -> Closed {
        let ended = self.link.with(|end, _, _| {
            end.end_journal()?;
            end.look();
            end.link.close();
            Ok(())
        });
        if let Err(error) = ended {
            // The stream goes on in the next life.
            return self.end(Some(error));
        }
        let closed = |end: &mut End<WriterEnd>, _| end.link.is_closed().then_some(());
        let is_closed = self
            .link
            .wait(waits, self.link.deadline(timeout), closed)
            .await;
        match is_closed {
            Some(()) => self.end(None),
            // The rest is for the next life of this end.
            None if self.journal.is_some() => self.end(None),
            None => self.abort(waits).await,
        }
    }

    /// Nothing more is sent.
    pub(crate) async fn abort(&mut self, waits: &impl Waits) -> Closed {
        self.link.with(|end, _, _| {
            end.look();
            end.link.abort();
        });
        let soon = self.link.now().saturating_add(Duration::from_secs(1));
        // Until the reader has said how far it came, or the connection is gone.
        let settled = |end: &mut End<WriterEnd>, _| end.link.is_closed().then_some(());
        let _is_settled = self.link.wait(waits, Some(soon), settled).await;
        self.end(None)
    }

    /// `failed`: what its journal could not be told.
    fn end(&mut self, failed: Option<JournalError>) -> Closed {
        let left = self.link.with(|end, _, _| end.left());
        let emptied = self.leave_journal();
        self.link.close(self.link.now());
        self.registration = None;
        Closed::new(left, failed.or(emptied.err()))
    }
}

impl Drop for WriterCore {
    fn drop(&mut self) {
        if self.journal.is_some() {
            self.leave();
        } else if !self.link.is_closed() {
            crate::wait::block(self.close(&crate::wait::Blocking, Some(CLOSE_TIMEOUT)));
        }
    }
}

/// What a write waits for.
const NO_ROOM: &str = "the buffer has no room for all of the elements";

/// Whether both ends use one ring.
fn is_shared(link: &Held<WriterEnd>) -> bool {
    link.with(|end, _, _| end.inner.shared().is_some())
}

/// Why nothing more can be written.
pub(super) fn over(link: &WriterLink) -> Option<StreamError> {
    match link.fault() {
        Some(fault) => Some(fault.clone().into()),
        None if link.is_over() => Some(StreamFault::Destroyed.into()),
        None => None,
    }
}

impl std::fmt::Debug for WriterCore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WriterCore")
            .field("ring", &self.ring)
            .finish_non_exhaustive()
    }
}
