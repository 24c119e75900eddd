//! What became of a write (B-20).

use crate::FaultRef;

/// How a write ended. Positions are sequences within the connection's epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteOutcome<'a> {
    /// It became the update of this sequence.
    Applied {
        /// Its number.
        sequence: u64,
    },
    /// It was within the deadband: nothing changed.
    Unchanged {
        /// The update it equals.
        sequence: u64,
    },
    /// A later write took its place before it was carried out (write mode `newest`).
    Superseded,
    /// It was refused, and by which rule.
    Refused(FaultRef<'a>),
    /// A subscriber's buffer is full; nothing was numbered, it may be tried again.
    WouldBlock,
    /// Whether it was carried out is not known.
    Unknown(FaultRef<'a>),
}

pub(crate) const APPLIED: u8 = 0;
pub(crate) const UNCHANGED: u8 = 1;
pub(crate) const SUPERSEDED: u8 = 2;
pub(crate) const REFUSED: u8 = 3;
pub(crate) const WOULD_BLOCK: u8 = 4;
pub(crate) const UNKNOWN: u8 = 5;
