//! A sans-IO end of a connection.

use trunkline_types::{Tick, Timestamp};

use crate::Disconnect;

/// One end of a connection, as its transport sees it. `trunkline-net` drives any of these.
///
/// The driver calls, in any order the transport dictates:
///
/// ```text
/// handle_connected -> ( handle_input | poll_output | handle_timeout )* -> handle_disconnected
///        ^                                                                      |
///        +---------------------- client only, at poll_dial ---------------------+
/// ```
///
/// After every `handle_*` call the driver asks `poll_output` until nothing is ready or the
/// transport is full, then `wants_close`, then `poll_timeout`. `now` never goes backwards. No call
/// blocks, sleeps or reads a clock.
pub trait Endpoint: Send {
    /// A transport is up (client: dialled; server: accepted). Output may be produced at once.
    fn handle_connected(&mut self, now: Tick, wall: Timestamp);

    /// Bytes arrived, in order. Never called while [`wants_input`](Self::wants_input) is false.
    fn handle_input(&mut self, now: Tick, wall: Timestamp, bytes: &[u8]);

    /// False while this end cannot take more input: the driver leaves the bytes in the transport,
    /// so that the peer is slowed by its own send buffer. Asked again after every other call.
    fn wants_input(&self) -> bool {
        true
    }

    /// Appends to `out` what is to be sent now, at most about `budget` bytes (one frame may exceed
    /// it); true when more is ready at once.
    fn poll_output(&mut self, now: Tick, wall: Timestamp, budget: usize, out: &mut Vec<u8>)
    -> bool;

    /// Server only: whether a thread that has just changed something may ask for the output itself
    /// and send it, because there is nothing to send but such changes. False leaves it to whoever
    /// drives.
    fn lets_writers_send(&self) -> bool {
        false
    }

    /// When [`handle_timeout`](Self::handle_timeout) wants to be called next (keep-alive, sampled,
    /// deadlines); `None` for never.
    fn poll_timeout(&self) -> Option<Tick>;

    /// The time that [`poll_timeout`](Self::poll_timeout) named has passed. Called too early, it
    /// does nothing.
    fn handle_timeout(&mut self, now: Tick, wall: Timestamp);

    /// The transport is gone: the peer closed it, it failed, or this end wanted it closed. A client
    /// plans its next dial, a server session ends.
    fn handle_disconnected(&mut self, now: Tick, cause: Disconnect);

    /// Why the transport is to be closed once all output is sent; `None` while it is to stay.
    fn wants_close(&self) -> Option<Disconnect>;

    /// Server only: whether the peer has yet to introduce itself. Few connections may be in this
    /// state at a time, so it must end by itself.
    fn is_in_handshake(&self) -> bool {
        false
    }

    /// Client only: when to dial next (a tick that has passed means now); `None`: do not dial.
    fn poll_dial(&self) -> Option<Tick> {
        None
    }

    /// Server only: the transport is somebody else's, by a number that means something to whoever
    /// made this endpoint. Asked when all output is sent; this endpoint ends with it.
    fn wants_handover(&self) -> Option<u64> {
        None
    }

    /// Client only: the bytes that this endpoint has in a place of its own, and wants sent from
    /// there and received there. Always there, or never.
    fn direct(&mut self) -> Option<&mut dyn DirectBytes> {
        None
    }
}

/// Bytes that a driver sends from where they lie and receives where they belong, beside those that
/// an [`Endpoint`] appends and is handed.
pub trait DirectBytes {
    /// What follows the output that was appended last, as far as it is not sent yet. The endpoint
    /// is asked for more output only when this is empty.
    fn region(&mut self) -> &[u8];

    /// So many bytes of the region, from its beginning on, are with the transport.
    fn handle_sent(&mut self, now: Tick, count: usize);

    /// Where the next received bytes belong; empty when they go to
    /// [`handle_input`](Endpoint::handle_input).
    fn space(&mut self) -> &mut [u8];

    /// So many bytes were received into the space, from its beginning on.
    fn handle_received(&mut self, now: Tick, count: usize);
}
