//! How writes end.

use trunkline_proto::Fault;
use trunkline_types::Position;

/// How a write ended. Every write ends in exactly one of these ways.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum WriteOutcome {
    /// It became the update at this position.
    Applied(Position),
    /// It was within the deadband of the update at this position: nothing changed.
    Unchanged(Position),
    /// A later write took its place before it was carried out (write mode `newest`).
    Superseded,
    /// It was refused, and by which rule. Nothing changed.
    Refused(Fault),
    /// It would have had to wait, and was asked not to. Nothing changed; it may be tried again.
    WouldBlock,
    /// Whether it was carried out is not known, and why.
    Unknown(Fault),
    /// Its call ended, or its life, before it was sent; it never will be. Nothing changed.
    Cancelled(Fault),
}

/// What became of all writes of a client: those issued are all others together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WriteCounts {
    /// Accepted by [`ClientCore::write`].
    pub issued: u64,
    /// Ended as applied.
    pub applied: u64,
    /// Ended as unchanged.
    pub unchanged: u64,
    /// Ended as superseded.
    pub superseded: u64,
    /// Ended as refused.
    pub refused: u64,
    /// Ended as would-block.
    pub would_block: u64,
    /// Ended as unknown.
    pub unknown: u64,
    /// Ended as cancelled.
    pub cancelled: u64,
    /// Not sent yet.
    pub waiting: u64,
    /// Sent, and not answered yet; those whose calls have ended are among them.
    pub in_flight: u64,
}
