//! One match that knows the message of each kind of frame.

use super::ended::EndedFrame;
use super::find::NamesFrame;
use super::lease::{LeaseFrame, LeasedFrame};
use super::list::ListFrame;
use super::single::SingleFrame;
use super::watch::{Unwatch, Watch};
use super::why::{Why, WhyAnswerFrame};
use crate::FrameKind;

/// Something to do with the message of a frame, whichever it is.
pub trait MessageVisitor<'a> {
    /// The result.
    type Output;
    /// Visits a frame that is a list.
    fn list<F: ListFrame>(self) -> Self::Output;
    /// Visits a frame that is one record.
    fn single<M: SingleFrame<'a>>(self) -> Self::Output;
    /// Visits a kind whose codec is written by hand.
    fn by_hand(self, kind: FrameKind) -> Self::Output;
}

/// Calls the method of `visitor` for the message of this kind.
pub fn with_message<'a, V: MessageVisitor<'a>>(kind: FrameKind, visitor: V) -> V::Output {
    match kind {
        FrameKind::Ended => visitor.list::<EndedFrame>(),
        FrameKind::Names => visitor.list::<NamesFrame>(),
        FrameKind::Watch => visitor.single::<Watch<'a>>(),
        FrameKind::Unwatch => visitor.single::<Unwatch>(),
        FrameKind::Why => visitor.single::<Why<'a>>(),
        FrameKind::WhyAnswer => visitor.list::<WhyAnswerFrame>(),
        FrameKind::Lease => visitor.list::<LeaseFrame>(),
        FrameKind::Leased => visitor.list::<LeasedFrame>(),
        _ => visitor.by_hand(kind),
    }
}
