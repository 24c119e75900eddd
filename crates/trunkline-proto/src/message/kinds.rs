//! One match that knows the message of each kind of frame.

use super::lease::{LeaseFrame, LeasedFrame};
use super::list::ListFrame;
use crate::FrameKind;

/// Something to do with the message of a frame, whichever it is.
pub trait MessageVisitor {
    /// The result.
    type Output;
    /// Visits a frame that is a list.
    fn list<F: ListFrame>(self) -> Self::Output;
    /// Visits a kind whose codec is written by hand.
    fn by_hand(self, kind: FrameKind) -> Self::Output;
}

/// Calls the method of `visitor` for the message of this kind.
pub fn with_message<V: MessageVisitor>(kind: FrameKind, visitor: V) -> V::Output {
    match kind {
        FrameKind::Lease => visitor.list::<LeaseFrame>(),
        FrameKind::Leased => visitor.list::<LeasedFrame>(),
        _ => visitor.by_hand(kind),
    }
}
