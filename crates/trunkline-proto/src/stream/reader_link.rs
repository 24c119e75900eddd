//! What a reading program and its driver tell and ask the reading end.

use trunkline_types::Tick;

use super::half::Half;
use super::link::Link;
use super::options::LinkOptions;
use super::output::Place;
use super::reader::{Reader, StreamClose};
use super::walk::ElementWalk;
use crate::message::stream::ReaderState;

impl Link<Reader> {
    /// A reader without a peer.
    pub fn reader(options: LinkOptions, now: Tick) -> Self {
        let half = Reader::new(&options);
        Link::with(options, half, now)
    }

    /// A reader that goes on from its journal: what has arrived there, and how much of it was read,
    /// with the number of elements of that. Credit is computed, not taken.
    pub fn restored_reader(
        options: LinkOptions,
        at: ReaderState,
        read_elements: u64,
        now: Tick,
    ) -> Self {
        let mut half = Reader::new(&options);
        let (from, elements) = (at.arrived, at.arrived_elements);
        half.arrived = ElementWalk::new(options.form, options.bytes_max, from, elements);
        half.read = at.read.min(from);
        half.read_elements = read_elements.min(elements);
        half.durable = at.durable.min(from);
        Link::with(options, half, now)
    }

    /// Where the next received bytes belong, and how many of them. `None`: they go to
    /// [`handle_control`](Link::handle_control).
    pub fn wants_payload(&self) -> Option<Place> {
        self.half.wants_payload()
    }

    /// These bytes came over this connection and are where
    /// [`wants_payload`](Self::wants_payload) said, from its beginning on, and no more of them.
    pub fn handle_payload(&mut self, now: Tick, id: u64, bytes: &[u8]) {
        let Some(connection) = self.session.current(id).filter(|c| c.is_up) else {
            return;
        };
        connection.liveness.handle_received(now);
        if let Err(cause) = self.half.handle_payload(bytes) {
            self.session.close(cause);
            self.half.handle_down();
        }
    }

    /// Up to here the ring may be given to the program: whole elements, and how many in all.
    pub fn ready(&self) -> (u64, u64) {
        (self.half.arrived.boundary(), self.half.arrived.elements())
    }

    /// Up to here everything has arrived, in bytes; the last element may be incomplete.
    pub fn arrived(&self) -> u64 {
        self.half.arrived.position()
    }

    /// Elements that count as read, as far as is known here: by the program, or by whoever it has
    /// taken the place of.
    pub fn read_elements(&self) -> u64 {
        self.half.read_elements
    }

    /// Up to here the program has read, so many elements in all.
    pub fn handle_read(&mut self, position: u64, elements: u64) {
        let (ready, ready_elements) = self.ready();
        self.half.read = self.half.read.max(position.min(ready));
        self.half.read_elements = self.half.read_elements.max(elements.min(ready_elements));
    }

    /// Where the two ends use one ring: how far it is written and read, each with the elements
    /// before. What is in the ring has arrived.
    pub fn handle_shared(&mut self, written: (u64, u64), read: (u64, u64)) {
        let half = &mut self.half;
        self.session.is_shared = true;
        let (position, elements) = written;
        if position > half.arrived.position() {
            half.arrived = ElementWalk::new(half.form, half.bytes_max, position, elements);
        }
        half.read = half.read.max(read.0.min(position));
        half.read_elements = half.read_elements.max(read.1.min(elements));
        half.is_shared = true;
    }

    /// Whether the writer may be told that its end is known: with a journal, not before everything
    /// is on disk.
    pub fn set_end_safe(&mut self, is_safe: bool) {
        self.half.is_end_safe = is_safe;
    }

    /// The journal knows where the stream ends.
    pub fn restore_end(&mut self, end: StreamClose) {
        self.half.close = Some(end);
    }

    /// Up to here everything is on disk.
    pub fn handle_durable(&mut self, position: u64) {
        let position = position.min(self.arrived());
        self.half.durable = self.half.durable.max(position);
    }

    /// When the program has read up to here, the writer waits for credit: call
    /// [`handle_read`](Self::handle_read) then, and not only from time to time.
    pub fn wants_read_at(&self) -> u64 {
        let step = self.half.credit_step();
        let told = self.half.told.credit_bytes;
        told.saturating_sub(self.half.bytes_max)
            .saturating_add(step)
            .min(self.half.arrived.boundary())
    }

    /// Where the stream ends, once that is known.
    pub fn end(&self) -> Option<StreamClose> {
        self.half.close
    }

    /// Why the writer was destroyed before its end, in its words.
    pub fn abort_reason(&self) -> Option<&str> {
        self.half.abort_reason.as_deref()
    }

    /// The program does not read any more: the writer is told, with how far it came. Where the two
    /// ends are connected, send what there is before the transport is closed.
    pub fn abort(&mut self) {
        self.half.is_aborted = true;
        if !self.is_connected() {
            self.session.is_finished = true;
        }
    }
}
