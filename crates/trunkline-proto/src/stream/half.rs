//! What the two ends of a stream do differently.

use trunkline_types::Tick;

use super::meeting::{Meeting, Mismatch};
use super::output::{Place, RingBytes};
use crate::message::stream::{DataHead, EndState, StreamEnd};
use crate::{Disconnect, Frame};

/// What a frame has led to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It goes on.
    Continued,
    /// The stream is at its end, and both know it.
    Finished,
    /// The peer is destroyed.
    PeerDestroyed(String),
}

/// What the two ends do differently.
pub trait Half {
    /// Whether it writes.
    const WRITES: bool;
    /// How far it is, for the peer.
    fn state(&mut self) -> EndState;
    /// A connection is up with this peer: from where to go on.
    fn resume(&mut self, peer: &StreamEnd, meeting: Meeting) -> Result<(), Mismatch>;
    /// A frame that is for this kind of end.
    fn handle_frame(&mut self, frame: &Frame<'_>) -> Result<Outcome, Disconnect>;
    /// The head of bytes of the stream.
    fn handle_data(&mut self, head: &DataHead) -> Result<(), Disconnect>;
    /// Where those bytes belong.
    fn wants_payload(&self) -> Option<Place>;
    /// Some of them are there.
    fn handle_payload(&mut self, bytes: &[u8]) -> Result<(), Disconnect>;
    /// Appends frames, and says which bytes follow them.
    fn poll_output(&mut self, now: Tick, ring: &dyn RingBytes, out: &mut Vec<u8>) -> Option<Place>;
    /// All output is with the transport.
    fn handle_sent(&mut self);
    /// The connection is gone.
    fn handle_down(&mut self);
    /// The two ends do not use one ring any more.
    fn leave_shared(&mut self) {}
    /// Whether the bytes that are sent from now on carry checksums.
    fn set_checked(&mut self, _: bool) {}
    /// When to ask for output again.
    fn poll_timeout(&self) -> Option<Tick>;
    /// Bytes that are here and not elsewhere.
    fn left_bytes(&self) -> u64;
    /// Whether a goodbye of the peer ends the stream in order.
    fn is_ending(&self) -> bool;
}
