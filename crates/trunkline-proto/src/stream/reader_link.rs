//! The methods of a reader's link for its program and its driver.

use trunkline_types::Tick;

use super::link::Link;
use super::link_role::LinkRole;
use super::options::LinkOptions;
use super::output::ByteRange;
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

    /// Returns the range of the ring for the next received bytes; `None` if these bytes must be passed
    /// to [`handle_control`](Link::handle_control).
    pub fn next_payload_range(&self) -> Option<ByteRange> {
        self.half.next_payload_range()
    }

    /// Called when `bytes` have arrived over this connection and were stored at the start of the range
    /// returned by [`next_payload_range`](Self::next_payload_range).
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

    /// Returns the number of elements read by the program, including the elements read by a previous
    /// reader that this endpoint has replaced.
    pub fn read_elements(&self) -> u64 {
        self.half.read_elements
    }

    /// Called when the program has read up to `position`, a total of `elements` elements.
    pub fn handle_read(&mut self, position: u64, elements: u64) {
        let (ready, ready_elements) = self.ready();
        self.half.read = self.half.read.max(position.min(ready));
        self.half.read_elements = self.half.read_elements.max(elements.min(ready_elements));
    }

    /// Called if the two ends share a ring. `written` and `read` are the positions up to which the ring
    /// is written and read, each with the number of elements before it. Bytes in the ring count as
    /// arrived.
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

    /// Sets the end of the stream that was recorded in the journal.
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
        let credit = self.half.last_ack.credit_bytes;
        credit
            .saturating_sub(self.half.bytes_max)
            .saturating_add(step)
            .min(self.half.arrived.boundary())
    }

    /// Returns the end of the stream; `None` until the writer has announced it.
    pub fn end(&self) -> Option<StreamClose> {
        self.half.close
    }

    /// Returns the reason why the writer was aborted before the end of the stream.
    pub fn abort_reason(&self) -> Option<&str> {
        self.half.abort_reason.as_deref()
    }

    /// Called when the program stops reading; notifies the writer of the read position. If the two ends
    /// are connected, send all output before closing the transport.
    pub fn abort(&mut self) {
        self.half.is_aborted = true;
        if !self.is_connected() {
            self.session.is_finished = true;
        }
    }

    /// Returns the number of elements that the writer has reported as lost.
    pub fn lost(&self) -> u64 {
        self.half.losses.total
    }

    /// Returns the next unreported loss: the number of elements before it, and the number of
    /// missing elements.
    pub fn next_loss(&self) -> Option<(u64, u64)> {
        self.half.losses.unreported.front().copied()
    }

    /// Removes and returns the loss that [`next_loss`](Self::next_loss) returns, once the program has
    /// received it.
    pub fn take_loss(&mut self) -> Option<(u64, u64)> {
        self.half.losses.unreported.pop_front()
    }
}
