//! The outcome of a write (B-20).

use crate::FaultRef;

/// The outcome of a write in its form on the wire: positions are sequences within the connection's
/// epoch.
pub type WriteAnswer<'a> =
    trunkline_types::WriteOutcome<u64, FaultRef<'a>, FaultRef<'a>, WouldBlock>;

/// A subscriber's buffer is full, and the write was not allowed to wait. The write got no sequence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WouldBlock;

pub(crate) const APPLIED: u8 = 0;
pub(crate) const UNCHANGED: u8 = 1;
pub(crate) const SUPERSEDED: u8 = 2;
pub(crate) const REFUSED: u8 = 3;
pub(crate) const WOULD_BLOCK: u8 = 4;
pub(crate) const UNKNOWN: u8 = 5;
