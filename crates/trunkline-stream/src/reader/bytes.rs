//! The reading end, in bytes: what every kind of reader does.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use trunkline_proto::Features;
use trunkline_proto::stream::{ElementForm, ReaderLink, StreamFault};
use trunkline_ring::ElementConsumer;
use trunkline_types::wire::DecodeError;

use super::journaled::Commits;
use crate::element::LENGTH_BYTES;
use crate::end::{End, Inner, ReaderEnd};
use crate::error::StreamError;
use crate::held::Held;
use crate::rendezvous::{Met, Registration};
use crate::sync::{AtomicU64, Ordering};
use crate::wait::Waits;
use crate::wait_shared::{Patience, Ring, wait_shared};

/// Bytes of the memory for copies that a reader keeps between calls.
const COPIED_KEPT: usize = 1 << 20;

/// What every kind of reader is made of.
pub struct ReaderCore {
    pub(crate) link: Held<ReaderEnd>,
    pub(crate) ring: ElementConsumer,
    pub(crate) form: ElementForm,
    /// Elements of this end's buffer; a ring that both ends use holds more.
    capacity: u64,
    /// When the program has read up to here, the writer waits for credit.
    credit_at: u64,
    /// The ring is that of both ends' processes.
    is_shared: bool,
    patience: Patience,
    /// Elements that vary in size, as they were copied out of the ring.
    copied: Vec<u8>,
    /// Where the next elements are missing, of a writer that drops some.
    lost_at: Option<Arc<AtomicU64>>,
    /// It has a journal.
    pub(super) journal: Option<Commits>,
    pub(super) registration: Option<Registration>,
}

/// Waiting for so many elements.
struct Elements<'a> {
    ring: &'a mut ElementConsumer,
    bytes: u64,
    elements: u64,
}

impl Ring for Elements<'_> {
    fn has(&mut self) -> bool {
        // What the other program may have written there is found by the link.
        self.ring.has(self.bytes, self.elements).unwrap_or(false)
    }

    fn say(&mut self) -> bool {
        let waits = self.ring.wait_for(self.bytes, self.elements);
        waits.is_ok_and(|waits| !waits)
    }

    fn position(&self) -> u64 {
        self.ring.read_elements()
    }
}

/// How many elements a read is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wanted {
    Exactly(usize),
    Available,
}

impl ReaderCore {
    pub(crate) fn new(met: Met<ReaderEnd>, ring: ElementConsumer) -> Self {
        let (is_shared, capacity) = met
            .link
            .with(|end, _, _| (end.inner.shared().is_some(), end.link.options().capacity));
        let lost_at = met.link.with(|end, _, _| {
            let drops = end
                .link
                .peer()
                .is_some_and(|peer| peer.features.contains(Features::DROPS));
            drops.then(|| end.inner.lost_at.clone())
        });
        Self {
            capacity,
            lost_at,
            link: met.link,
            ring,
            form: met.form,
            credit_at: if is_shared { u64::MAX } else { 0 },
            is_shared,
            patience: Patience::new(met.spin),
            copied: Vec::new(),
            journal: None,
            registration: met.registration,
        }
    }

    pub(crate) fn capacity(&self) -> usize {
        // A capacity came as a usize.
        usize::try_from(self.capacity).unwrap_or(usize::MAX)
    }

    /// Elements that can be read now.
    pub(crate) fn available(&mut self) -> usize {
        // Nobody but this program has the memory, so its positions are true.
        let (_, elements) = self.ring.available().unwrap_or((0, 0));
        let elements = elements.min(self.capacity).min(self.before_lost());
        usize::try_from(elements).unwrap_or(usize::MAX)
    }

    /// Elements before the next place where some are missing.
    #[inline]
    fn before_lost(&self) -> u64 {
        match &self.lost_at {
            None => u64::MAX,
            // What lies behind it was given to the ring after this was set.
            Some(at) => at
                .load(Ordering::Acquire)
                .saturating_sub(self.ring.read_elements()),
        }
    }

    /// Copies elements of one size out, if all are there.
    #[inline(always)]
    pub(crate) fn try_read(&mut self, into: &mut [u8], count: usize) -> bool {
        let is_read = self.journal.is_none()
            && (self.lost_at.is_none() || self.has(count))
            && count as u64 <= self.capacity
            && self.ring.pull(into, count as u64).unwrap_or(false);
        if is_read {
            self.gave_back();
        }
        is_read
    }

    /// Waits until the elements are there, and says how many the call gets: all that it wants, or
    /// what is left of a stream that has ended (NS-48).
    pub(crate) async fn wait_for(
        &mut self,
        waits: &impl Waits,
        wanted: Wanted,
        timeout: Option<Duration>,
    ) -> Result<usize, StreamError> {
        if self.journal.is_some() {
            self.commit_before_read(waits).await?;
        }
        match wanted {
            Wanted::Exactly(count) if self.has(count) => Ok(count),
            Wanted::Exactly(count) => self.wait_long(waits, count, timeout).await,
            Wanted::Available => {
                let count = self.available();
                if count > 0 {
                    return Ok(count);
                }
                // What has arrived and was not taken in yet is available too; and an end is told.
                match self.wait_long(waits, 1, Some(Duration::ZERO)).await {
                    Ok(_) => Ok(self.available()),
                    Err(StreamError::Timeout { .. }) => Ok(0),
                    Err(error) => Err(error),
                }
            }
        }
    }

    /// Whether the elements are there, and nothing is to be done before they are read.
    #[inline]
    pub(crate) fn is_at_hand(&mut self, count: usize) -> bool {
        self.journal.is_none() && self.has(count)
    }

    #[inline]
    fn has(&mut self, count: usize) -> bool {
        let bytes = match self.form {
            ElementForm::Fixed(size) => (count as u64).saturating_mul(u64::from(size)),
            ElementForm::Variable => 0,
        };
        // Looked for first: a loss that is not known by then lies behind these.
        count as u64 <= self.capacity
            && self.ring.has(bytes, count as u64).unwrap_or(false)
            && count as u64 <= self.before_lost()
    }

    /// What a call gets that comes to a place where elements are missing: those before it, and then
    /// word of it.
    fn at_lost(&mut self, end: &mut End<ReaderEnd>) -> Option<Result<usize, StreamError>> {
        let (at, elements) = end.link.next_lost()?;
        match at.saturating_sub(self.ring.read_elements()) {
            0 => {
                end.link.take_lost();
                end.inner.note_lost(&end.link);
                Some(Err(StreamError::Lost { elements }))
            }
            before => usize::try_from(before).ok().map(Ok),
        }
    }

    async fn wait_long(
        &mut self,
        waits: &impl Waits,
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
            return self.wait_in_shared(waits, count, timeout).await;
        }
        let link = self.link.clone();
        let found = link.wait(waits, link.deadline(timeout), |end, _| {
            end.look();
            if self.has(count) {
                return Some(Ok(count));
            }
            if let Some(lost) = self.at_lost(end) {
                return Some(lost);
            }
            let failed = end.journal_error();
            if self.has(count) {
                return Some(Ok(count));
            }
            if let Some(error) = failed {
                // What was stored before stays where it is: a call gets all that it asks for, or
                // nothing.
                return Some(Err(error.into()));
            }
            let error = over(&end.link)?;
            // Everything that came is in the ring by now.
            let left = self.available();
            Some(if left > 0 { Ok(left) } else { Err(error) })
        });
        match found.await {
            Some(result) => result,
            #[cfg(feature = "planted")]
            None if self.available() > 0
                && trunkline_types::planted::is(trunkline_types::planted::Bug::LateReadMoves) =>
            {
                Ok(self.available())
            }
            None => Err(self.gave_up(timeout)),
        }
    }

    async fn wait_in_shared(
        &mut self,
        waits: &impl Waits,
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
        if self.patience.is_there(&mut elements) {
            return Ok(count);
        }
        let until = self.link.deadline(timeout);
        let over = |end: &End<ReaderEnd>| over(&end.link);
        let found = wait_shared(
            waits,
            &self.link,
            &mut self.patience,
            until,
            &mut elements,
            over,
        );
        match found.await {
            Ok(true) => Ok(count),
            Ok(false) => Err(self.gave_up(timeout)),
            Err(error) => match self.available() {
                0 => Err(error),
                left => Ok(left.min(count)),
            },
        }
    }

    fn gave_up(&self, timeout: Option<Duration>) -> StreamError {
        match timeout {
            Some(timeout) if !self.link.is_closed() => StreamError::Timeout {
                timeout,
                what: "not all of the elements have come",
            },
            _ => StreamError::Closed,
        }
    }

    /// The bytes of the next `count` elements, which are there.
    ///
    /// Elements that vary in size are a copy. The ring may be memory that the writing program can
    /// still alter, so a length or text that is checked in it may be another when it is used.
    ///
    /// # Errors
    /// [`StreamError::Element`]: the lengths lead beyond what is there. [`StreamError::Memory`].
    pub(crate) fn region(&mut self, count: usize) -> Result<&[u8], StreamError> {
        match self.form {
            ElementForm::Fixed(size) => Ok(self.known_region(count * size as usize)),
            ElementForm::Variable => {
                self.copy_varying(count)?;
                Ok(&self.copied)
            }
        }
    }

    /// Copies the next `count` elements with their lengths, each of which it reads once.
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
        let position = self.ring.read() + offset as u64;
        // Mirrored memory: it lies in one piece.
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

    /// So many bytes of the next elements, which are known to be there.
    pub(crate) fn known_region(&self, bytes: usize) -> &[u8] {
        // Mirrored memory: it lies in one piece.
        let [bytes, _] = self
            .ring
            .region_at(self.ring.read(), bytes)
            .unwrap_or_default();
        bytes
    }

    /// Elements that the writer has dropped, as far as it is known.
    pub(crate) fn lost_total(&self) -> u64 {
        self.link.with(|end, _, _| end.link.lost())
    }

    /// The next elements were read: so many, of so many bytes.
    #[inline]
    pub(crate) fn release(&mut self, bytes: usize, count: usize) {
        self.ring.release(bytes as u64, count as u64);
        if self.copied.capacity() > COPIED_KEPT {
            self.copied = Vec::new();
        }
        #[cfg(feature = "planted")]
        if trunkline_types::planted::is(trunkline_types::planted::Bug::CommittedTooEarly) {
            self.commit_all();
        }
        self.gave_back();
    }

    /// Something was given back to the ring: sees to it that the writer learns of it.
    #[inline(always)]
    fn gave_back(&mut self) {
        if self.ring.read() >= self.credit_at || self.ring.glance_wake() {
            self.give_credit();
        }
    }

    #[cold]
    fn give_credit(&mut self) {
        (self.is_shared, self.credit_at) = self.link.with(|end, _, _| {
            end.look();
            match end.ring_bell() {
                true => (true, u64::MAX),
                false => (false, end.link.wants_read_at()),
            }
        });
        // At least one element further, or every read would take the lock.
        self.credit_at = self.credit_at.max(self.ring.read() + 1);
    }
}

/// Why nothing more comes; what has come may still be read.
fn over(link: &ReaderLink) -> Option<StreamError> {
    // An end before a fault: the connection of a stream that has ended is gone too.
    if let Some(close) = link.end().filter(|close| close.position <= link.arrived()) {
        let missing = close.written.saturating_sub(close.position);
        if missing == 0 && !close.is_aborted {
            return Some(StreamError::Ended);
        }
        // A journal keeps that it was aborted, and not why.
        let reason = link
            .abort_reason()
            .unwrap_or("its program did not close it");
        let reason = reason.to_owned();
        return Some(StreamError::Aborted { missing, reason });
    }
    match link.fault() {
        Some(fault) => Some(fault.clone().into()),
        None if link.is_over() => Some(StreamFault::Destroyed.into()),
        None => None,
    }
}

impl std::fmt::Debug for ReaderCore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReaderCore")
            .field("ring", &self.ring)
            .finish_non_exhaustive()
    }
}
