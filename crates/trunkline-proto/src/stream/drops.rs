//! Records the elements that a writer drops because it does not wait for slow readers.
//!
//! ```text
//!   ring       | kept .......... written |          ring positions, which only grow
//!   to reader  | kept - shift ..         |          reader positions, which exclude lost elements
//! ```
//!
//! A reader's positions have no gaps, because lost elements do not count. Before the stream
//! continues after a loss, S_LOST reports the number of missing elements. The number of elements
//! that a reader has, plus the number of losses reported to it, always determines the reader's
//! position in the ring. Each loss is therefore reported exactly once, even if connections are
//! lost.

use super::options::ElementForm;
use super::output::RingBytes;
use super::walk::{ElementWalk, walk};
use super::writer::Writer;
use crate::message::stream::{Ack, Lost, ReaderState};

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Drops {
    /// True if this writer may drop elements.
    pub(super) is_enabled: bool,
    /// Number of bytes by which the ring's positions are ahead of the reader's positions.
    pub(super) shift: u64,
    /// Number of elements that the reader will never receive.
    pub(super) lost: u64,
    /// Number of lost elements already reported to the reader, on this or an earlier connection.
    reported: u64,
    /// Number of elements before the kept bytes at the last drop for which the reader had
    /// acknowledged all earlier elements.
    elements_before_drop: u64,
    /// Position up to which bytes were written when the last mark was set.
    pub(super) mark: u64,
}

impl Drops {
    pub(super) fn new(is_enabled: bool) -> Self {
        Self {
            is_enabled,
            ..Self::default()
        }
    }
}

impl Writer {
    /// Returns the number of elements before a position that is no longer in the ring.
    pub(super) fn elements_before(&self, position: u64) -> u64 {
        match self.form {
            ElementForm::Fixed(size) => position.checked_div(u64::from(size)).unwrap_or(0),
            ElementForm::Variable => self.drops.elements_before_drop.min(self.kept.elements()),
        }
    }

    /// Reports new losses to the reader. This must happen before any later bytes are sent.
    pub(super) fn report_losses(&mut self, out: &mut Vec<u8>) {
        if self.drops.lost > self.drops.reported {
            let (position, lost) = (self.handed, self.drops.lost);
            Lost { position, lost }.encode(out);
            self.drops.reported = lost;
        }
    }

    /// Determines the position of a returning reader from the number of elements that the reader has
    /// and the number of losses reported to it.
    pub(super) fn locate_reader(&mut self, reader: &ReaderState, at: &Ack) -> Result<(), String> {
        self.check_bounds(at, self.reached)?;
        self.check_monotonic(at)?;
        let (from, kept) = (self.kept.boundary(), self.kept.elements());
        if reader.lost == self.drops.lost && at.arrived >= from {
            self.drops.reported = reader.lost;
            return Ok(());
        }
        let reader_elements = reader.arrived_elements.saturating_add(reader.lost);
        let kept_elements = kept.saturating_add(self.drops.lost);
        let is_whole = match self.form {
            ElementForm::Fixed(size) => {
                at.arrived == reader.arrived_elements.saturating_mul(u64::from(size))
            }
            ElementForm::Variable => true,
        };
        if reader.lost > self.drops.lost
            || at.arrived > from
            || reader_elements >= kept_elements
            || !is_whole
        {
            return Err(format!(
                "the reader reports {} bytes, {} elements and {} lost elements, but the writer has \
                 lost {}",
                at.arrived, reader.arrived_elements, reader.lost, self.drops.lost
            ));
        }
        // The bytes dropped while in flight did not arrive.
        self.remove_range(at.arrived, from);
        self.drops.lost = kept_elements.saturating_sub(reader.arrived_elements);
        self.written_elements = self
            .written_elements
            .saturating_sub(kept.saturating_sub(reader.arrived_elements));
        self.drops.reported = reader.lost;
        let elements = reader.arrived_elements;
        self.kept = ElementWalk::new(self.form, u64::MAX, at.arrived, elements);
        Ok(())
    }

    /// Removes the range between two positions from the reader's stream.
    fn remove_range(&mut self, from: u64, to: u64) {
        let removed_bytes = to.saturating_sub(from);
        let shifted = |position: u64| match position <= from {
            true => position,
            false => position.saturating_sub(removed_bytes).max(from),
        };
        self.written = shifted(self.written);
        self.end = self.end.map(shifted);
        self.ack_requests = self.ack_requests.map(shifted);
        self.sent_ack_requests = [0; 3];
        self.drops.mark = shifted(self.drops.mark);
        self.drops.shift = self.drops.shift.saturating_add(removed_bytes);
        self.handed_walk = None;
    }

    /// Returns the end of the last whole element that was handed to the driver, and the number of
    /// elements before that position.
    pub(super) fn handed_boundary(&mut self, ring: &dyn RingBytes) -> (u64, u64) {
        if let Some(handed_walk) = self
            .handed_walk
            .as_ref()
            .filter(|walk| walk.position() == self.handed)
        {
            return (handed_walk.boundary(), handed_walk.elements());
        }
        let (from, elements) = (self.kept.boundary(), self.kept.elements());
        let mut steps = ElementWalk::new(self.form, u64::MAX, from, elements);
        let bytes = self.handed.saturating_sub(from);
        walk(&mut steps, ring, bytes, u64::MAX);
        (steps.boundary(), steps.elements())
    }

    /// Drops everything before `target`, which is between two elements.
    pub(super) fn drop_to(&mut self, target: u64, target_elements: u64, ring: &dyn RingBytes) {
        self.free(ring);
        if target <= self.kept.boundary() || self.end.is_some() || self.is_aborted {
            return;
        }
        if self.arrived >= self.kept.boundary() {
            self.drops.elements_before_drop = self.kept.elements();
        }
        let (from, elements) = self.handed_boundary(ring);
        if target <= from {
            // All dropped bytes are in flight. Only the reader's next report shows whether they have
            // arrived.
            self.kept = ElementWalk::new(self.form, u64::MAX, target, target_elements);
            return;
        }
        let lost = target_elements.saturating_sub(elements);
        self.drops.lost = self.drops.lost.saturating_add(lost);
        self.written_elements = self.written_elements.saturating_sub(lost);
        self.remove_range(from, target);
        self.kept = ElementWalk::new(self.form, u64::MAX, from, elements);
        self.handed = from;
        self.sent = self.sent.min(from);
        self.reached = from;
    }
}
