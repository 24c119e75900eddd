//! A writer that waits for no slow reader: what it drops, and where.
//!
//! ```text
//!   ring       | kept .......... written |          positions of the ring, which only grow
//!   to reader  | kept - shift ..         |          those of the reader, without what is lost
//! ```
//!
//! A reader's positions go on without a hole: what is lost is no part of them. Where the stream
//! goes on behind a loss, S_LOST says how many elements are missing there. With the elements that a
//! reader has and those it knows to be lost it is always known where it is, so that a loss is told
//! once, whatever becomes of the connections.

use super::link::Link;
use super::options::ElementForm;
use super::output::RingBytes;
use super::walk::{ElementWalk, walk};
use super::writer::Writer;
use crate::message::stream::{Ack, Lost, ReaderState};

/// What a writer has dropped for its reader.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Drops {
    /// It may.
    pub(super) may: bool,
    /// What the ring's positions are ahead of the reader's.
    shift: u64,
    /// Elements that the reader will never have.
    lost: u64,
    /// Of those, the ones it was told of on this connection or before.
    said: u64,
    /// Elements before the last acknowledgement that came before something was dropped.
    behind: u64,
    /// Where everything was written that somebody waits for.
    mark: u64,
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
    /// Elements before a position that is before everything that is kept.
    pub(super) fn elements_behind(&self, position: u64) -> u64 {
        match self.form {
            ElementForm::Fixed(size) => position.checked_div(u64::from(size)).unwrap_or(0),
            ElementForm::Variable => self.drops.behind.min(self.kept.elements()),
        }
    }

    /// Tells the reader what it does not know yet: before anything that comes behind it.
    pub(super) fn say_lost(&mut self, out: &mut Vec<u8>) {
        if self.drops.lost > self.drops.said {
            let (position, lost) = (self.handed, self.drops.lost);
            Lost { position, lost }.encode(out);
            self.drops.said = lost;
        }
    }

    /// A reader is back: what it has, and what it knows to be lost, says from where it goes on.
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
        // Something on its way to it was dropped, and has not come.
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

    /// What lies between two positions is no part of the reader's stream.
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

    /// Where the last whole element that was handed out ends, and elements up to there.
    fn handed_place(&mut self, ring: &dyn RingBytes) -> (u64, u64) {
        if let Some(ahead) = self.ahead.as_ref().filter(|a| a.position() == self.handed) {
            return (ahead.boundary(), ahead.elements());
        }
        let (from, elements) = (self.kept.boundary(), self.kept.elements());
        let mut place = ElementWalk::new(self.form, u64::MAX, from, elements);
        let bytes = self.handed.saturating_sub(from);
        walk(&mut place, ring, bytes, u64::MAX);
        (place.boundary(), place.elements())
    }

    fn drop_to(&mut self, target: u64, target_elements: u64, ring: &dyn RingBytes) {
        self.free(ring);
        if target <= self.kept.boundary() || self.end.is_some() || self.is_aborted {
            return;
        }
        if self.arrived >= self.kept.boundary() {
            self.drops.behind = self.kept.elements();
        }
        let (from, elements) = self.handed_place(ring);
        if target <= from {
            // All of it is on its way: whether it comes shows when the reader is back.
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

/// A writer one of whose readers this is, with positions of the ring of all.
impl Link<Writer> {
    /// Up to here the program has written: a position of the ring, and elements, from where the
    /// reader has begun.
    pub fn handle_ring_written(&mut self, position: u64, elements: u64) {
        let Drops { shift, lost, .. } = self.half.drops;
        self.handle_written(
            position.saturating_sub(shift),
            elements.saturating_sub(lost),
        );
    }

    /// From here on the ring keeps bytes for the reader: as [`freed`](Self::freed), and the
    /// elements before it, as positions of the ring.
    pub fn ring_freed(&self) -> (u64, u64) {
        let Drops { shift, lost, .. } = self.half.drops;
        let (position, elements) = (self.freed(), self.freed_elements());
        (
            position.saturating_add(shift),
            elements.saturating_add(lost),
        )
    }

    /// Elements up to where the program has written, as far as the link was told: those of
    /// [`handle_ring_written`](Self::handle_ring_written).
    pub fn ring_written_elements(&self) -> u64 {
        let elements = self.half.written_elements;
        elements.saturating_add(self.half.drops.lost)
    }

    /// What the ring's positions are ahead of the reader's, from [`freed`](Self::freed) on.
    pub fn ring_shift(&self) -> u64 {
        self.half.drops.shift
    }

    /// The ring is not to keep anything before this place between two elements: what of it was not
    /// sent is lost to the reader, which is told. Nothing is dropped once the writer is closed.
    pub fn drop_before(&mut self, position: u64, elements: u64, ring: &dyn RingBytes) {
        let Drops {
            shift, lost, may, ..
        } = self.half.drops;
        if may {
            let (target, elements) = (
                position.saturating_sub(shift),
                elements.saturating_sub(lost),
            );
            self.half.drop_to(target, elements, ring);
        }
    }

    /// Where the last whole element that was handed out ends, and elements up to there: a place in
    /// the ring.
    pub fn ring_handed(&mut self, ring: &dyn RingBytes) -> (u64, u64) {
        let (position, elements) = self.half.handed_place(ring);
        let Drops { shift, lost, .. } = self.half.drops;
        (
            position.saturating_add(shift),
            elements.saturating_add(lost),
        )
    }

    /// Elements that were dropped and that the reader does not have.
    pub fn lost(&self) -> u64 {
        self.half.drops.lost
    }

    /// As [`flush`](Self::flush), for [`is_mark_reached`](Self::is_mark_reached).
    pub fn mark(&mut self, until: super::Until) {
        self.half.drops.mark = self.flush(until);
    }

    /// Whether what was written before the last [`mark`](Self::mark) has come so far, or is lost.
    pub fn is_mark_reached(&self, until: super::Until) -> bool {
        self.is_reached(until, self.half.drops.mark)
    }
}
