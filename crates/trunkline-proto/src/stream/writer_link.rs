//! What a writing program and its driver tell and ask the writing end.

use trunkline_types::Tick;

use super::Until;
use super::link::Link;
use super::options::LinkOptions;
use super::output::RingBytes;
use super::walk::ElementWalk;
use super::writer::{Left, Writer, raised};
use crate::limits::SENTENCE_BYTES_MAX;
use crate::message::fault::cut_text;
use crate::message::stream::{POSITION_MAX, WriterState};

impl Link<Writer> {
    /// A writer without a peer.
    pub fn writer(options: LinkOptions, now: Tick) -> Self {
        let half = Writer::new(&options);
        Link::with(options, half, now)
    }

    /// A writer that goes on from its journal.
    pub fn restored_writer(options: LinkOptions, at: WriterState, now: Tick) -> Self {
        let mut half = Writer::new(&options);
        half.kept = ElementWalk::new(options.form, u64::MAX, at.kept, at.kept_elements);
        half.arrived = at.kept;
        half.read = at.kept;
        half.durable = at.kept;
        half.handed = at.kept;
        half.sent = at.kept;
        half.written = at.written;
        // The life before may have sent all of it.
        half.reached = at.written;
        Link::with(options, half, now)
    }

    /// Up to here the program has written, so many elements in all.
    pub fn handle_written(&mut self, position: u64, elements: u64) {
        if self.half.end.is_none() && !self.half.is_aborted {
            self.half.written = self.half.written.max(position.min(POSITION_MAX));
            self.half.written_elements = self.half.written_elements.max(elements);
        }
    }

    /// Where the two ends use one ring: how far it is written and read, each with the elements
    /// before. What is in the ring is with the reader.
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

    /// Looks what is free by now: for who gives the ring bytes piece by piece.
    pub fn free(&mut self, ring: &dyn RingBytes) {
        self.half.free(ring);
    }

    /// The ring has what was written only up to here, with a journal that has the rest; further
    /// bytes are not handed out.
    pub fn set_at_hand(&mut self, position: u64) {
        self.half.at_hand = position;
    }

    /// Whether the program waits for room in its buffer: then acknowledgements are not to wait.
    pub fn set_short_of_room(&mut self, is_short: bool) {
        let half = &mut self.half;
        if is_short && !half.is_short_of_room && half.handed > half.arrived {
            half.asks = raised(half.asks, Until::Available, half.handed);
        }
        half.is_short_of_room = is_short;
    }

    /// Asks to be told as soon as everything written so far has come so far; returns the position
    /// for [`is_reached`](Self::is_reached).
    pub fn flush(&mut self, until: Until) -> u64 {
        let position = self.half.written;
        self.half.asks = raised(self.half.asks, until, position);
        position
    }

    /// Whether everything before `position` has come so far.
    pub fn is_reached(&self, until: Until, position: u64) -> bool {
        self.half.place(until) >= position
    }

    /// How far everything has come.
    pub fn position(&self, until: Until) -> u64 {
        self.half.place(until)
    }

    /// From here on the ring keeps bytes: what lies before may be written over. Between two
    /// elements.
    pub fn freed(&self) -> u64 {
        self.half.kept.boundary()
    }

    /// Elements before [`freed`](Self::freed).
    pub fn freed_elements(&self) -> u64 {
        self.half.kept.elements()
    }

    /// How far the program has written, as far as it was told.
    pub fn written(&self) -> u64 {
        self.half.written
    }

    /// Bytes that were handed out to be sent.
    pub fn handed(&self) -> u64 {
        self.half.handed
    }

    /// Up to where the reader's credit goes, in bytes.
    pub fn credit(&self) -> u64 {
        self.half.credit()
    }

    /// The longest element, with its length, that both buffers hold, in bytes.
    pub fn element_bytes_max(&self) -> u64 {
        self.session.options.bytes_max.min(self.half.peer_bytes)
    }

    /// Nothing more is written; what is there is still sent.
    pub fn close(&mut self) {
        let written = self.half.written;
        self.half.end.get_or_insert(written);
    }

    /// Nothing more is sent, and the reader is told `reason`, of which the first 1024 bytes count.
    /// Where the two ends are connected, wait until [`is_closed`] or the connection is gone, so
    /// that [`left`](Self::left) is exact.
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

    /// Whether the reader has said that it has everything up to the end, or up to where the writer
    /// was aborted.
    pub fn has_end(&self) -> bool {
        self.half.has_end
    }

    /// Whether the reader has everything up to the end, or up to where the writer was aborted.
    pub fn is_closed(&self) -> bool {
        self.half.has_end || self.is_over()
    }

    /// What the reader lacks.
    pub fn left(&self, ring: &dyn RingBytes) -> Left {
        self.half.left(ring)
    }
}
