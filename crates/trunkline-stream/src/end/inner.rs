//! What the ends of a ring do differently.

use std::sync::Arc;

use trunkline_net::StreamMemory;
use trunkline_proto::stream::{Half, Link, Place, RingBytes};
use trunkline_ring::{Corrupt, RingStart};
use trunkline_types::Tick;

use super::one_ring::SharedRing;

/// The inner end of a ring, and what it has to do with the state machine.
pub(crate) trait Inner: RingBytes + Send {
    /// Which end.
    type Half: Half + Send;

    /// Tells the link how far the program is, and where both ends use one ring, the other one.
    ///
    /// # Errors
    /// [`Corrupt`]: the other end's program has written what cannot be true.
    fn look(&mut self, link: &mut Link<Self::Half>) -> Result<(), Corrupt>;

    /// The ring that both ends use.
    fn shared(&self) -> Option<&SharedRing>;

    /// The same, to be changed.
    fn shared_mut(&mut self) -> &mut Option<SharedRing>;

    /// Where a stream begins whose two ends have just met.
    fn start(link: &Link<Self::Half>) -> RingStart;

    /// From now on this is the inner end of that ring, of which so much is written and read.
    fn take_over(&mut self, memory: &Arc<StreamMemory>, written: RingStart, read: RingStart);

    /// Does in the ring what the link has found out.
    fn settle(&mut self, link: &mut Link<Self::Half>);

    /// Where received bytes belong.
    fn wanted(link: &Link<Self::Half>) -> Option<Place>;

    /// The ring's memory at a place that [`wanted`](Self::wanted) named.
    fn space(&mut self, place: Place) -> &mut [u8];

    /// So many bytes of that place are there.
    fn handle_payload(
        &mut self,
        link: &mut Link<Self::Half>,
        now: Tick,
        transport: u64,
        place: Place,
        count: u64,
    );

    /// Bytes that the program has written and the link was not told of, or as many as there can be
    /// where it is to be told at once of anything.
    fn unseen(&mut self, link: &Link<Self::Half>) -> u64;

    /// The link has asked for that place to be sent next, or for nothing more for now.
    fn begin_sending(&mut self, link: &Link<Self::Half>, place: Option<Place>) {
        let _ = (link, place);
    }

    /// What was to be sent is, or never will be.
    fn end_sending(&mut self) {}

    /// Bytes of the place that is being sent.
    fn sending_bytes(&self, position: u64, len: u64) -> &[u8] {
        let [piece, _] = self.bytes(position, len);
        piece
    }

    /// The stream is over.
    fn handle_over(&mut self, link: &mut Link<Self::Half>) {
        let _ = link;
    }

    /// Nobody will look at the ring any more: the program is to say when it writes again.
    fn rest(&mut self, link: &Link<Self::Half>) -> Rest;

    /// Whether memory of the ring that nobody needs is given back.
    fn gives_back(&self) -> bool;

    /// Gives it back, where nothing was moved since the last time this was called.
    fn give_back(&mut self, link: &Link<Self::Half>);
}

/// Whether an end may stop looking at its ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rest {
    /// There is something by now.
    Found,
    /// The program was told just now. It may have written at this very moment without seeing that,
    /// so a last look is due a while later.
    Told,
    /// Yes.
    Yes,
}
