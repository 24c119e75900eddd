//! The interface to the part in which the two ends of a stream differ.

use trunkline_types::Tick;

use super::meeting::{Meeting, Mismatch};
use super::output::{Place, RingBytes};
use crate::message::stream::{DataHead, EndState, StreamEnd};
use crate::{Disconnect, Frame};

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    Continued,
    /// The stream is at its end, and both ends know it.
    Finished,
    PeerDestroyed(String),
}

/// The part in which the two ends of a stream differ.
pub trait Half {
    const WRITES: bool;
    /// The progress of this end, to be sent to the peer.
    fn state(&mut self) -> EndState;
    /// Called when a connection to this peer is up: determines where to continue.
    fn resume(&mut self, peer: &StreamEnd, meeting: Meeting) -> Result<(), Mismatch>;
    fn handle_frame(&mut self, frame: &Frame<'_>) -> Result<Outcome, Disconnect>;
    fn handle_data(&mut self, head: &DataHead) -> Result<(), Disconnect>;
    /// The place in the ring for the bytes that follow.
    fn next_payload_range(&self) -> Option<Place>;
    /// Called when some of these bytes have arrived.
    fn handle_payload(&mut self, bytes: &[u8]) -> Result<(), Disconnect>;
    /// Appends frames and returns the range of the ring to send after them.
    fn poll_output(&mut self, now: Tick, ring: &dyn RingBytes, out: &mut Vec<u8>) -> Option<Place>;
    /// Called when all output was handed to the transport.
    fn handle_sent(&mut self);
    /// Called when the connection is gone.
    fn handle_down(&mut self);
    /// Called when the two ends no longer share a ring.
    fn leave_shared(&mut self) {}
    /// Selects whether bytes sent from now on carry checksums.
    fn set_checked(&mut self, _: bool) {}
    /// The time at which to poll for output again.
    fn poll_timeout(&self) -> Option<Tick>;
    /// Bytes that are at this end only.
    fn left_bytes(&self) -> u64;
    /// Returns true if a goodbye of the peer ends the stream in an orderly way.
    fn is_ending(&self) -> bool;
}
