//! Outcomes of writes.

use trunkline_proto::Fault;
use trunkline_types::Position;

/// The outcome of a write. Every write has exactly one.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum WriteOutcome {
    /// The write became the update at this position.
    Applied(Position),
    /// The value was within the deadband of the update at this position. Nothing changed.
    Unchanged(Position),
    /// A later write replaced this one before it was carried out (write mode `newest`).
    Superseded,
    /// The write was refused; the fault names the rule. Nothing changed.
    Refused(Fault),
    /// The write would have had to wait, but was made without waiting. Nothing changed; it may be
    /// tried again.
    WouldBlock,
    /// It is not known whether the write was carried out; the fault gives the reason.
    Unknown(Fault),
    /// The call or the lifetime of the write ended before it was sent, and it never will be.
    /// Nothing changed.
    Cancelled(Fault),
}

/// Counts of a client's writes by outcome. `issued` is the sum of all others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WriteCounts {
    /// Writes accepted by `ClientCore::write` and `ClientCore::write_untracked`, and the writes of
    /// groups that have ended.
    pub issued: u64,
    /// Writes that ended as applied.
    pub applied: u64,
    /// Writes that ended as unchanged.
    pub unchanged: u64,
    /// Writes that ended as superseded.
    pub superseded: u64,
    /// Writes that ended as refused.
    pub refused: u64,
    /// Writes that ended as would-block.
    pub would_block: u64,
    /// Writes that ended as unknown.
    pub unknown: u64,
    /// Writes that ended as cancelled.
    pub cancelled: u64,
    /// Writes not sent yet.
    pub waiting: u64,
    /// Writes sent but not yet answered, including those whose calls have ended.
    pub in_flight: u64,
}
