//! The interface to the part of a link that differs between the two ends of a stream.

use trunkline_types::Tick;

use super::meeting::{Meeting, Mismatch};
use super::output::{Place, RingBytes};
use crate::message::stream::{DataHead, EndState, StreamEnd};
use crate::{Disconnect, Frame};

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    Continued,
    /// The stream has reached its end, and both ends know it.
    Finished,
    PeerDestroyed(String),
}

/// The part of a link that differs between the two ends of a stream.
pub trait Half {
    const WRITES: bool;
    /// Returns the progress of this endpoint, to be sent to the peer.
    fn state(&mut self) -> EndState;
    /// Called when a connection to this peer is up: determines where to continue.
    fn resume(&mut self, peer: &StreamEnd, meeting: Meeting) -> Result<(), Mismatch>;
    fn handle_frame(&mut self, frame: &Frame<'_>) -> Result<Outcome, Disconnect>;
    fn handle_data(&mut self, head: &DataHead) -> Result<(), Disconnect>;
    /// Returns the place in the ring for the next bytes.
    fn next_payload_range(&self) -> Option<Place>;
    /// Called when some of these bytes have arrived.
    fn handle_payload(&mut self, bytes: &[u8]) -> Result<(), Disconnect>;
    /// Appends frames and returns the range of the ring to send after them.
    fn poll_output(&mut self, now: Tick, ring: &dyn RingBytes, out: &mut Vec<u8>) -> Option<Place>;
    /// Called when all output was passed to the transport.
    fn handle_sent(&mut self);
    /// Called when the connection is gone.
    fn handle_down(&mut self);
    /// Called when the two ends no longer share a ring.
    fn leave_shared(&mut self) {}
    /// Turns checksums on or off for bytes sent from now on.
    fn set_checked(&mut self, _: bool) {}
    /// Returns the time at which to poll for output again.
    fn poll_timeout(&self) -> Option<Tick>;
    /// Returns the number of bytes that only this endpoint has.
    fn left_bytes(&self) -> u64;
    /// Returns true if a goodbye of the peer ends the stream in an orderly way.
    fn is_ending(&self) -> bool;
}
