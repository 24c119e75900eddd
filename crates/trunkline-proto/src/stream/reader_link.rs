//! The interface of the reader to its program and its driver.

use trunkline_types::Tick;

use super::half::Half;
use super::link::Link;
use super::options::LinkOptions;
use super::output::Place;
use super::reader::{Reader, StreamClose};
use super::walk::ElementWalk;
use crate::message::stream::ReaderState;

impl Link<Reader> {
    /// Creates a reader without a peer.
    pub fn reader(options: LinkOptions, now: Tick) -> Self {
        let half = Reader::new(&options);
        Link::with(options, half, now)
    }

    /// Creates a reader that continues from its journal. `at` contains the positions up to which
    /// the stream has arrived in the journal and was read; `read_elements` is the number of
    /// elements read. The credit in `at` is ignored and computed again.
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

    /// Returns the place for the next received bytes, and their number; `None` if they are for
    /// [`handle_control`](Link::handle_control).
    pub fn next_payload_range(&self) -> Option<Place> {
        self.half.next_payload_range()
    }

    /// Called when these bytes have arrived over this connection and were stored at the start of
    /// the place returned by [`next_payload_range`](Self::next_payload_range).
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

    /// Returns the position up to which the ring contains whole elements for the program, and their
    /// total number.
    pub fn ready(&self) -> (u64, u64) {
        (self.half.arrived.boundary(), self.half.arrived.elements())
    }

    /// Returns the position up to which everything has arrived, in bytes; the last element may be
    /// incomplete.
    pub fn arrived(&self) -> u64 {
        self.half.arrived.position()
    }

    /// Returns the number of elements that count as read, as far as this endpoint knows: those read
    /// by the program or by the reader that this endpoint has replaced.
    pub fn read_elements(&self) -> u64 {
        self.half.read_elements
    }

    /// Called when the program has read up to `position`, a total of `elements` elements.
    pub fn handle_read(&mut self, position: u64, elements: u64) {
        let (ready, ready_elements) = self.ready();
        self.half.read = self.half.read.max(position.min(ready));
        self.half.read_elements = self.half.read_elements.max(elements.min(ready_elements));
    }

    /// Called if the two ends share a ring, with the positions up to which it is written and read,
    /// each with the number of elements before it. Bytes in the ring count as arrived.
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

    /// Sets whether the end of the stream may be acknowledged to the writer. With a journal, this
    /// requires that everything is on disk.
    pub fn set_end_acknowledgeable(&mut self, is_safe: bool) {
        self.half.is_end_safe = is_safe;
    }

    pub fn restore_end(&mut self, end: StreamClose) {
        self.half.close = Some(end);
    }

    /// Called when everything before `position` is on disk.
    pub fn handle_durable(&mut self, position: u64) {
        let position = position.min(self.arrived());
        self.half.durable = self.half.durable.max(position);
    }

    /// Returns the position at which the writer will need credit. Once the program has read up to
    /// this position, call [`handle_read`](Self::handle_read) at once; before that, occasional
    /// calls are sufficient.
    pub fn credit_due_position(&self) -> u64 {
        let step = self.half.credit_step();
        let told = self.half.told.credit_bytes;
        told.saturating_sub(self.half.bytes_max)
            .saturating_add(step)
            .min(self.half.arrived.boundary())
    }

    /// Returns the end of the stream, once it is known.
    pub fn end(&self) -> Option<StreamClose> {
        self.half.close
    }

    /// Returns the reason why the writer was aborted before the end of the stream.
    pub fn abort_reason(&self) -> Option<&str> {
        self.half.abort_reason.as_deref()
    }

    /// Called when the program stops reading; notifies the writer of the position reached. If the
    /// two ends are connected, send all output before closing the transport.
    pub fn abort(&mut self) {
        self.half.is_aborted = true;
        if !self.is_connected() {
            self.session.is_finished = true;
        }
    }

    /// Returns the number of elements that the writer is known to have dropped and that this
    /// endpoint will never get.
    pub fn lost(&self) -> u64 {
        self.half.losses.total
    }

    /// Returns the next unreported loss: the number of elements before it, and the number of
    /// missing elements.
    pub fn next_lost(&self) -> Option<(u64, u64)> {
        self.half.losses.open.front().copied()
    }

    /// Removes the loss returned by [`next_lost`](Self::next_lost), once it is reported to the
    /// program.
    pub fn take_lost(&mut self) -> Option<(u64, u64)> {
        self.half.losses.open.pop_front()
    }
}
