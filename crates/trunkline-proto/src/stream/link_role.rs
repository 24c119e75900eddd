//! The interface of the parts of a link that differ between writer and reader.

use trunkline_types::Tick;

use super::meeting::{Meeting, Mismatch};
use super::output::{ByteRange, RingBytes};
use crate::message::stream::{DataHead, EndState, StreamEnd};
use crate::{Disconnect, Frame};

/// The effect of a frame on the stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    Continued,
    /// Both ends know that the stream has ended.
    Finished,
    /// The peer destroyed its endpoint; contains the peer's reason.
    PeerDestroyed(String),
}

/// The parts of a link that differ between writer and reader.
pub trait LinkRole {
    /// True for a writer, false for a reader.
    const WRITES: bool;
    /// Returns the progress of this endpoint, which is sent to the peer.
    fn state(&mut self) -> EndState;
    /// Called when a connection to this peer is established; determines the position from which the
    /// stream continues.
    fn resume(&mut self, peer: &StreamEnd, meeting: Meeting) -> Result<(), Mismatch>;
    fn handle_frame(&mut self, frame: &Frame<'_>) -> Result<Outcome, Disconnect>;
    fn handle_data(&mut self, head: &DataHead) -> Result<(), Disconnect>;
    /// Returns the range of the ring for the next received bytes.
    fn next_payload_range(&self) -> Option<ByteRange>;
    /// Called when bytes for that range have arrived.
    fn handle_payload(&mut self, bytes: &[u8]) -> Result<(), Disconnect>;
    /// Appends frames and returns the range of the ring to send after them.
    fn poll_output(
        &mut self,
        now: Tick,
        ring: &dyn RingBytes,
        out: &mut Vec<u8>,
    ) -> Option<ByteRange>;
    /// Called when the transport has accepted all output.
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
    fn remaining_bytes(&self) -> u64;
    /// Returns true if this endpoint has finished the stream, so that a goodbye from the peer is an
    /// orderly end.
    fn is_ending(&self) -> bool;
}
