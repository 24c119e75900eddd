//! Defines the operations that differ between writers and readers.

use std::sync::Arc;

use trunkline_net::StreamMemory;
use trunkline_proto::stream::{ByteRange, Link, LinkRole, RingBytes};
use trunkline_ring::{Corrupt, RingStart};
use trunkline_types::Tick;

use super::one_ring::SharedRing;

/// The inner end of a ring, connected to the state machine.
pub(crate) trait EndpointRole: RingBytes + Send {
    type LinkRole: LinkRole + Send;

    /// Updates the link with the program's position in the ring, and with the peer's position if both
    /// share one ring.
    ///
    /// # Errors
    /// [`Corrupt`]: the other program has written impossible positions.
    fn poll_ring(&mut self, link: &mut Link<Self::LinkRole>) -> Result<(), Corrupt>;

    /// Returns the ring shared by both ends, if any.
    fn shared(&self) -> Option<&SharedRing>;

    fn shared_mut(&mut self) -> &mut Option<SharedRing>;

    /// Returns the start of a stream whose two ends have just connected for the first time.
    fn start(link: &Link<Self::LinkRole>) -> RingStart;

    /// Switches to the inner end of the ring in `memory`, with these positions written and read.
    fn take_over(&mut self, memory: &Arc<StreamMemory>, written: RingStart, read: RingStart);

    /// Applies the link's progress to the ring.
    fn apply_progress(&mut self, link: &mut Link<Self::LinkRole>);

    /// Returns the place in the ring for the payload that is arriving; `None` if no payload is
    /// arriving.
    fn payload_place(link: &Link<Self::LinkRole>) -> Option<ByteRange> {
        let _ = link;
        None
    }

    /// Returns the ring's memory at a place returned by [`payload_place`](Self::payload_place).
    fn space(&mut self, place: ByteRange) -> &mut [u8] {
        let _ = place;
        &mut []
    }

    /// Called when `count` bytes have arrived at that place.
    fn handle_payload(
        &mut self,
        link: &mut Link<Self::LinkRole>,
        now: Tick,
        transport: u64,
        place: ByteRange,
        count: u64,
    ) {
        let _ = (link, now, transport, place, count);
    }

    /// Returns the number of bytes that the program has written since the last poll of the ring;
    /// `u64::MAX` if the ring must be polled at every opportunity.
    fn unpolled_bytes(&mut self, link: &Link<Self::LinkRole>) -> u64;

    /// Called when the link will send this place next, or has nothing to send at present.
    fn begin_sending(&mut self, link: &Link<Self::LinkRole>, place: Option<ByteRange>) {
        let _ = (link, place);
    }

    /// Called when the place has been sent, or will never be sent.
    fn end_sending(&mut self) {}

    /// Returns bytes of the place that is being sent.
    fn sending_bytes(&self, position: u64, len: u64) -> &[u8] {
        let [piece, _] = self.bytes(position, len);
        piece
    }

    /// Called once the stream is over.
    fn handle_over(&mut self, link: &mut Link<Self::LinkRole>) {
        let _ = link;
    }

    /// Stops polling the ring, and asks the program to announce its next write.
    fn stop_polling(&mut self, link: &Link<Self::LinkRole>) -> StopPolling;

    /// Returns true if unused memory of the ring can be released.
    fn releases_idle_memory(&self) -> bool;

    /// Releases unused memory if no data was written or read since the last call.
    fn release_idle_memory(&mut self, link: &Link<Self::LinkRole>);
}

/// The result of [`EndpointRole::stop_polling`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StopPolling {
    /// The endpoint must keep polling, because the ring already has more data.
    Found,
    /// The endpoint may stop, but the request to the program is new. The program may have written
    /// at the same moment without seeing it, so the ring must be polled once more later.
    Requested,
    /// The endpoint may stop polling.
    Yes,
}
