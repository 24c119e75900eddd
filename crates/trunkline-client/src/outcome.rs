//! Outcomes of writes.

use trunkline_proto::Fault;
use trunkline_proto::message::outcome::{WouldBlock, WriteAnswer};
use trunkline_types::Position;

/// The outcome of a write. The faults give the reasons.
pub type WriteOutcome = trunkline_types::WriteOutcome<Position, Fault, Fault, NotTried>;

/// The outcome of a group of writes.
pub type GroupOutcome = trunkline_types::GroupOutcome<WriteOutcome>;

/// The reason why a write was not tried.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NotTried {
    /// The write would have had to wait, but was made without waiting.
    WouldBlock,
    /// The call or the lifetime of the write ended before it was sent, and it never will be.
    Cancelled(Fault),
}

pub(crate) fn of_answer(answer: WriteAnswer<'_>, epoch: u64) -> WriteOutcome {
    let position = |sequence| Position { epoch, sequence };
    match answer {
        WriteAnswer::Applied(sequence) => WriteOutcome::Applied(position(sequence)),
        WriteAnswer::Unchanged(sequence) => WriteOutcome::Unchanged(position(sequence)),
        WriteAnswer::Superseded => WriteOutcome::Superseded,
        WriteAnswer::Refused(fault) => WriteOutcome::Refused(fault.to_fault()),
        WriteAnswer::Unknown(fault) => WriteOutcome::Unknown(fault.to_fault()),
        WriteAnswer::NotTried(WouldBlock) => WriteOutcome::NotTried(NotTried::WouldBlock),
    }
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
