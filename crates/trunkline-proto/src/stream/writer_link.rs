//! The methods of a writer's link for its program and its driver.

use trunkline_types::Tick;

use super::Until;
use super::drops::Drops;
use super::link::Link;
use super::options::LinkOptions;
use super::output::RingBytes;
use super::walk::ElementWalk;
use super::writer::{Left, Writer, with_request};
use crate::limits::SENTENCE_BYTES_MAX;
use crate::message::fault::cut_text;
use crate::message::stream::{POSITION_MAX, WriterState};

impl Link<Writer> {
    /// Creates a writer without a peer.
    pub fn writer(options: LinkOptions, now: Tick) -> Self {
        let half = Writer::new(&options);
        Link::with(options, half, now)
    }

    /// Creates a writer that continues from its journal, which contains the bytes from `at.kept` to
    /// `at.written`.
    pub fn restored_writer(options: LinkOptions, at: WriterState, now: Tick) -> Self {
        let mut half = Writer::new(&options);
        half.kept = ElementWalk::new(options.form, u64::MAX, at.kept, at.kept_elements);
        half.arrived = at.kept;
        half.read = at.kept;
        half.durable = at.kept;
        half.handed = at.kept;
        half.sent = at.kept;
        half.written = at.written;
        // The previous incarnation may have sent all of these bytes.
        half.reached = at.written;
        Link::with(options, half, now)
    }

    /// Called when the program has written up to `position`, a total of `elements` elements.
    pub fn handle_written(&mut self, position: u64, elements: u64) {
        if self.half.end.is_none() && !self.half.is_aborted {
            self.half.written = self.half.written.max(position.min(POSITION_MAX));
            self.half.written_elements = self.half.written_elements.max(elements);
        }
    }

    /// Called if the two ends share a ring. `written` and `read` are the positions up to which the ring
    /// is written and read, each with the number of elements before it. Bytes in the ring count as
    /// arrived at the reader.
    pub fn handle_shared(&mut self, written: (u64, u64), read: (u64, u64)) {
        let half = &mut self.half;
        self.session.is_shared = true;
        half.is_shared = true;
        let (position, elements) = written;
        if half.end.is_none() && !half.is_aborted {
            half.written = half.written.max(position.min(POSITION_MAX));
            half.written_elements = half.written_elements.max(elements);
        }
        half.handed = half.written;
        half.sent = half.written;
        half.reached = half.written;
        half.arrived = half.written;
        let (position, elements) = read;
        if position > half.read {
            half.read = position.min(half.written);
            half.kept = ElementWalk::new(half.form, u64::MAX, half.read, elements);
        }
    }

    /// Updates the freed position, for drivers that send the bytes of the ring in several pieces.
    pub fn free(&mut self, ring: &dyn RingBytes) {
        self.half.free(ring);
    }

    /// Declares that the ring contains only bytes before `position`; a journal contains later bytes.
    /// Bytes beyond `position` are not sent.
    pub fn set_sendable_end(&mut self, position: u64) {
        self.half.at_hand = position;
    }

    /// Sets whether the program is waiting for space in the buffer. If so, the reader does not delay
    /// acknowledgements.
    pub fn set_short_of_room(&mut self, is_short: bool) {
        let half = &mut self.half;
        if is_short && !half.is_short_of_room && half.handed > half.arrived {
            half.ack_requests = with_request(half.ack_requests, Until::Available, half.handed);
        }
        half.is_short_of_room = is_short;
    }

    /// Requests an acknowledgement as soon as everything written so far has reached `until`. Returns
    /// the position to pass to [`is_reached`](Self::is_reached).
    pub fn flush(&mut self, until: Until) -> u64 {
        let position = self.half.written;
        self.half.ack_requests = with_request(self.half.ack_requests, until, position);
        position
    }

    pub fn is_reached(&self, until: Until, position: u64) -> bool {
        self.half.position_of(until) >= position
    }

    /// Returns the position up to which everything has reached `until`.
    pub fn position(&self, until: Until) -> u64 {
        self.half.position_of(until)
    }

    /// Returns the first position that must remain in the ring, which is between two elements. Earlier
    /// bytes may be overwritten.
    pub fn freed(&self) -> u64 {
        self.half.kept.boundary()
    }

    pub fn freed_elements(&self) -> u64 {
        self.half.kept.elements()
    }

    /// Returns the position up to which the program has written, as last reported.
    pub fn written(&self) -> u64 {
        self.half.written
    }

    /// Returns the position up to which bytes were handed to the driver.
    pub fn handed(&self) -> u64 {
        self.half.handed
    }

    /// Returns the position up to which the reader's credit allows sending, in bytes.
    pub fn credit(&self) -> u64 {
        self.half.credit()
    }

    /// Returns the size of the longest element that fits into both buffers, in bytes and including the
    /// length prefix.
    pub fn element_bytes_max(&self) -> u64 {
        self.session
            .options
            .bytes_max
            .min(self.half.peer_buffer_bytes)
    }

    /// Closes the writer: nothing more can be written, but everything written is still sent.
    pub fn close(&mut self) {
        let written = self.half.written;
        self.half.end.get_or_insert(written);
    }

    /// Aborts the writer: nothing more is sent, and the reader receives the first 1024 bytes of
    /// `reason`. If the two ends are connected, wait until [`is_closed`] returns true or the
    /// connection is gone; only then is [`left`](Self::left) exact.
    ///
    /// [`is_closed`]: Self::is_closed
    pub fn abort(&mut self, reason: &str) {
        if !self.half.is_aborted {
            self.half.abort_reason = cut_text(reason, SENTENCE_BYTES_MAX).to_owned();
        }
        self.half.is_aborted = true;
        if !self.is_connected() {
            self.session.is_finished = true;
        }
    }

    /// Returns true if the reader has acknowledged everything up to the end, or up to the position
    /// at which the writer was aborted.
    pub fn has_end(&self) -> bool {
        self.half.is_end_acknowledged
    }

    /// Returns true if [`has_end`](Self::has_end) returns true, or if the stream has ended for another
    /// reason.
    pub fn is_closed(&self) -> bool {
        self.half.is_end_acknowledged || self.is_over()
    }

    /// Returns the number of elements that were not delivered.
    pub fn left(&self, ring: &dyn RingBytes) -> Left {
        self.half.left(ring)
    }
}

/// For a writer with several readers: each link serves one reader, and positions refer to the common
/// ring.
impl Link<Writer> {
    /// Called when the program has written up to `position` of the ring. `elements` is counted from
    /// the position at which this reader began.
    pub fn handle_ring_written(&mut self, position: u64, elements: u64) {
        let Drops { shift, lost, .. } = self.half.drops;
        self.handle_written(
            position.saturating_sub(shift),
            elements.saturating_sub(lost),
        );
    }

    /// Like [`freed`](Self::freed), but returns the position in the ring and the number of elements
    /// before it.
    pub fn ring_freed(&self) -> (u64, u64) {
        let Drops { shift, lost, .. } = self.half.drops;
        let (position, elements) = (self.freed(), self.freed_elements());
        (
            position.saturating_add(shift),
            elements.saturating_add(lost),
        )
    }

    /// Returns the number of elements that the program has written, as last reported to
    /// [`handle_ring_written`](Self::handle_ring_written).
    pub fn ring_written_elements(&self) -> u64 {
        let elements = self.half.written_elements;
        elements.saturating_add(self.half.drops.lost)
    }

    /// Returns the number of bytes by which the ring's positions are ahead of the reader's
    /// positions, from [`freed`](Self::freed) on.
    pub fn ring_shift(&self) -> u64 {
        self.half.drops.shift
    }

    /// Called when the ring drops everything before `position`, which is between two elements. Dropped
    /// elements that were not sent are reported to the reader as lost. A closed writer drops nothing.
    pub fn drop_before(&mut self, position: u64, elements: u64, ring: &dyn RingBytes) {
        let Drops {
            shift,
            lost,
            is_enabled,
            ..
        } = self.half.drops;
        if is_enabled {
            let (target, elements) = (
                position.saturating_sub(shift),
                elements.saturating_sub(lost),
            );
            self.half.drop_to(target, elements, ring);
        }
    }

    /// Returns the end of the last whole element that was handed to the driver, as a position in the
    /// ring, and the number of elements before it.
    pub fn ring_handed(&mut self, ring: &dyn RingBytes) -> (u64, u64) {
        let (position, elements) = self.half.handed_boundary(ring);
        let Drops { shift, lost, .. } = self.half.drops;
        (
            position.saturating_add(shift),
            elements.saturating_add(lost),
        )
    }

    /// Returns the number of dropped elements that the reader will never receive.
    pub fn lost(&self) -> u64 {
        self.half.drops.lost
    }

    /// Like [`flush`](Self::flush), but records the position for
    /// [`is_mark_reached`](Self::is_mark_reached).
    pub fn mark(&mut self, until: Until) {
        self.half.drops.mark = self.flush(until);
    }

    /// Returns true if everything written before the last [`mark`](Self::mark) has reached `until`
    /// or is lost.
    pub fn is_mark_reached(&self, until: Until) -> bool {
        self.is_reached(until, self.half.drops.mark)
    }
}
