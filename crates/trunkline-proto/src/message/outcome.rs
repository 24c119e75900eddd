//! The outcome of a write (B-20).

use crate::FaultRef;

/// The outcome of a write. Positions are sequences within the connection's epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteOutcome<'a> {
    /// The write became an update.
    Applied {
        /// Sequence of the update.
        sequence: u64,
    },
    /// The value was within the deadband, so nothing changed.
    Unchanged {
        /// Sequence of the update that it equals.
        sequence: u64,
    },
    /// A later write replaced it before it was carried out (write mode `newest`).
    Superseded,
    /// A rule refused the write; the fault names the rule.
    Refused(FaultRef<'a>),
    /// A subscriber's buffer is full. The write was not numbered and may be retried.
    WouldBlock,
    /// It is not known whether the write was carried out.
    Unknown(FaultRef<'a>),
}

pub(crate) const APPLIED: u8 = 0;
pub(crate) const UNCHANGED: u8 = 1;
pub(crate) const SUPERSEDED: u8 = 2;
pub(crate) const REFUSED: u8 = 3;
pub(crate) const WOULD_BLOCK: u8 = 4;
pub(crate) const UNKNOWN: u8 = 5;
