//! A writer that does not wait for slow readers: it records which elements it drops, and where.
//!
//! ```text
//!   ring       | kept .......... written |          positions of the ring, which only grow
//!   to reader  | kept - shift ..         |          positions of the reader, without lost elements
//! ```
//!
//! A reader's positions have no gaps: lost elements do not count. Where the stream continues after
//! a loss, S_LOST contains the number of missing elements. The number of elements that a reader
//! has, plus the number that it knows to be lost, always determines its place in the stream. Each
//! loss is therefore reported exactly once, even if connections are lost.

use super::options::ElementForm;
use super::output::RingBytes;
use super::walk::{ElementWalk, walk};
use super::writer::Writer;
use crate::message::stream::{Ack, Lost, ReaderState};

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Drops {
    pub(super) may: bool,
    /// Number of bytes by which the ring's positions are ahead of the reader's positions.
    pub(super) shift: u64,
    /// Number of elements that the reader will never receive.
    pub(super) lost: u64,
    /// Number of these elements already reported to the reader, on this or an earlier connection.
    said: u64,
    /// Number of elements before the last acknowledgement that preceded a drop.
    behind: u64,
    /// Position up to which bytes had been written when the last mark was set.
    pub(super) mark: u64,
}

impl Drops {
    pub(super) fn new(may: bool) -> Self {
        Self {
            may,
            ..Self::default()
        }
    }
}

impl Writer {
    /// Returns the number of elements before a position that precedes everything in the ring.
    pub(super) fn elements_behind(&self, position: u64) -> u64 {
        match self.form {
            ElementForm::Fixed(size) => position.checked_div(u64::from(size)).unwrap_or(0),
            ElementForm::Variable => self.drops.behind.min(self.kept.elements()),
        }
    }

    /// Reports unreported losses to the reader, before anything that follows them.
    pub(super) fn say_lost(&mut self, out: &mut Vec<u8>) {
        if self.drops.lost > self.drops.said {
            let (position, lost) = (self.handed, self.drops.lost);
            Lost { position, lost }.encode(out);
            self.drops.said = lost;
        }
    }

    /// Locates a returning reader by the number of elements that it has and the number that it
    /// knows to be lost.
    pub(super) fn find_reader(&mut self, reader: &ReaderState, at: &Ack) -> Result<(), String> {
        self.check_order(at, self.reached)?;
        self.check_again(at)?;
        let (from, kept) = (self.kept.boundary(), self.kept.elements());
        if reader.lost == self.drops.lost && at.arrived >= from {
            self.drops.said = reader.lost;
            return Ok(());
        }
        let has = reader.arrived_elements.saturating_add(reader.lost);
        let known = kept.saturating_add(self.drops.lost);
        let is_whole = match self.form {
            ElementForm::Fixed(size) => {
                at.arrived == reader.arrived_elements.saturating_mul(u64::from(size))
            }
            ElementForm::Variable => true,
        };
        if reader.lost > self.drops.lost || at.arrived > from || has >= known || !is_whole {
            return Err(format!(
                "it has {} bytes and {} elements, and knows of {} that are lost, which were {}",
                at.arrived, reader.arrived_elements, reader.lost, self.drops.lost
            ));
        }
        // The bytes that were dropped while in flight to the reader have not arrived.
        self.leave_out(at.arrived, from);
        self.drops.lost = known.saturating_sub(reader.arrived_elements);
        self.written_elements = self
            .written_elements
            .saturating_sub(kept.saturating_sub(reader.arrived_elements));
        self.drops.said = reader.lost;
        let elements = reader.arrived_elements;
        self.kept = ElementWalk::new(self.form, u64::MAX, at.arrived, elements);
        Ok(())
    }

    /// Removes the range between two positions from the reader's stream.
    fn leave_out(&mut self, from: u64, to: u64) {
        let gone = to.saturating_sub(from);
        let moved = |position: u64| match position <= from {
            true => position,
            false => position.saturating_sub(gone).max(from),
        };
        self.written = moved(self.written);
        self.end = self.end.map(moved);
        self.asks = self.asks.map(moved);
        self.asked = [0; 3];
        self.drops.mark = moved(self.drops.mark);
        self.drops.shift = self.drops.shift.saturating_add(gone);
        self.ahead = None;
    }

    /// Returns the end of the last whole element that was handed out, and the number of elements
    /// before it.
    pub(super) fn handed_place(&mut self, ring: &dyn RingBytes) -> (u64, u64) {
        if let Some(ahead) = self.ahead.as_ref().filter(|a| a.position() == self.handed) {
            return (ahead.boundary(), ahead.elements());
        }
        let (from, elements) = (self.kept.boundary(), self.kept.elements());
        let mut place = ElementWalk::new(self.form, u64::MAX, from, elements);
        let bytes = self.handed.saturating_sub(from);
        walk(&mut place, ring, bytes, u64::MAX);
        (place.boundary(), place.elements())
    }

    pub(super) fn drop_to(&mut self, target: u64, target_elements: u64, ring: &dyn RingBytes) {
        self.free(ring);
        if target <= self.kept.boundary() || self.end.is_some() || self.is_aborted {
            return;
        }
        if self.arrived >= self.kept.boundary() {
            self.drops.behind = self.kept.elements();
        }
        let (from, elements) = self.handed_place(ring);
        if target <= from {
            // All of these bytes are in flight. Only the reader's next report shows whether they
            // have arrived.
            self.kept = ElementWalk::new(self.form, u64::MAX, target, target_elements);
            return;
        }
        let lost = target_elements.saturating_sub(elements);
        self.drops.lost = self.drops.lost.saturating_add(lost);
        self.written_elements = self.written_elements.saturating_sub(lost);
        self.leave_out(from, target);
        self.kept = ElementWalk::new(self.form, u64::MAX, from, elements);
        self.handed = from;
        self.sent = self.sent.min(from);
        self.reached = from;
    }
}
