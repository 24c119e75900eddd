//! The interface between one end of a connection and its driver, without I/O.

use trunkline_types::{Tick, Timestamp};

use crate::{Channel, Disconnect, EndKeys};

/// The interface of one end of a connection to the driver of its transport. `trunkline-net` can
/// drive any endpoint.
///
/// The driver makes these calls, in the order in which events occur at the transport:
///
/// ```text
/// handle_connected -> ( handle_input | poll_output | handle_timeout )* -> handle_disconnected
///        ^                                                                      |
///        +---------------------- client only, at poll_dial ---------------------+
/// ```
///
/// After every `handle_*` call, the driver calls `poll_output` until no output is ready or the
/// transport is full, then `wants_close`, then `poll_timeout`. `now` never decreases. No call
/// blocks, sleeps or reads a clock.
pub trait Endpoint: Send {
    /// Called when a transport is up (client: dialled; server: accepted). Output may be ready
    /// immediately.
    fn handle_connected(&mut self, now: Tick, wall: Timestamp);

    /// Called once for each transport, before the first [`handle_input`](Self::handle_input), when the
    /// security of the connection is known. A client's driver calls it before
    /// [`handle_connected`](Self::handle_connected); on a server, the TLS handshake may follow that
    /// call.
    fn handle_channel(&mut self, channel: &Channel) {
        let _ = channel;
    }

    /// Called with received bytes, in order, but never while [`wants_input`](Self::wants_input) is
    /// false.
    fn handle_input(&mut self, now: Tick, wall: Timestamp, bytes: &[u8]);

    /// Returns false while this end cannot accept more input. The driver then leaves the bytes in
    /// the transport, so that the peer's send buffer fills and slows the peer down. The driver
    /// calls this method again after every other call.
    fn wants_input(&self) -> bool {
        true
    }

    /// Appends to `out` the bytes to send now, at most about `budget` bytes (one frame may exceed
    /// it). Returns true if more output is ready now.
    fn poll_output(&mut self, now: Tick, wall: Timestamp, budget: usize, out: &mut Vec<u8>)
    -> bool;

    /// Server only: returns true if a thread that has just written a value may call `poll_output`
    /// and send the output itself, because only writes produce output. If false, only the driver
    /// sends.
    fn lets_writers_send(&self) -> bool {
        false
    }

    /// Returns the time of the next [`handle_timeout`](Self::handle_timeout) call (keep-alive, sampled
    /// subscriptions, deadlines); `None` if none is needed.
    fn poll_timeout(&self) -> Option<Tick>;

    /// Called when the time returned by [`poll_timeout`](Self::poll_timeout) has passed. An early
    /// call has no effect.
    fn handle_timeout(&mut self, now: Tick, wall: Timestamp);

    /// Called when the transport is gone: the peer closed it, it failed, or this end requested its
    /// close. A client then plans its next dial; a server session ends.
    fn handle_disconnected(&mut self, now: Tick, cause: Disconnect);

    /// Returns the reason to close the transport once all output is sent; `None` while the
    /// transport stays open.
    fn wants_close(&self) -> Option<Disconnect>;

    /// Server only: returns true until the handshake is complete. The number of connections in this
    /// state is limited, so the endpoint must ensure that the state ends.
    fn is_in_handshake(&self) -> bool {
        false
    }

    /// Client only: returns the time of the next dial (a past tick means now); `None` if there is
    /// nothing to dial.
    fn poll_dial(&self) -> Option<Tick> {
        None
    }

    /// Server only: returns an identifier of the new owner if the transport must be handed over;
    /// the creator of this endpoint defines the identifiers. Called when all output is sent; this
    /// endpoint then ends.
    fn wants_handover(&self) -> Option<u64> {
        None
    }

    /// Client only: returns keys once if the server hands the connection over to another program.
    /// The driver calls this method before [`poll_output`](Self::poll_output). It then ends the
    /// encryption of this connection and begins a new one, with the program that has the peer's key.
    /// Output is polled again when that program has proved its key. Unsent earlier output is dropped.
    fn take_end_keys(&mut self) -> Option<EndKeys> {
        None
    }

    /// Client only: gives access to bytes that this endpoint sends from, and receives into, its own
    /// memory. The result is either always `Some` or always `None`.
    fn direct(&mut self) -> Option<&mut dyn DirectBytes> {
        None
    }
}

/// Bytes that a driver sends directly from, or receives directly into, the endpoint's own memory,
/// in addition to the bytes that pass through an [`Endpoint`]'s buffers.
pub trait DirectBytes {
    /// Returns the unsent bytes that follow the most recently appended output. The driver polls
    /// for more output only when this region is empty.
    fn region(&mut self) -> &[u8];

    /// Called when the first `count` bytes of the region were passed to the transport.
    fn handle_sent(&mut self, now: Tick, count: usize);

    /// Returns the memory for the next received bytes; empty if these bytes must be passed to
    /// [`handle_input`](Endpoint::handle_input).
    fn space(&mut self) -> &mut [u8];

    /// Called when `count` bytes were received into the start of the space.
    fn handle_received(&mut self, now: Tick, count: usize);
}
