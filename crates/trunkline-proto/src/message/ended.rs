//! ENDED: the engine has ended items of a subscription.
//!
//! ```text
//! ENDED  header.request = subscription
//!        reason u8 | epoch u64 | sentence text
//!        count x ( handle zigzag delta | last_sequence varint | lost varint )
//!        reason  1 overrun  2 gone  3 denied
//! ```
//!
//! `last_sequence` is the last update delivered, and `lost` the exact number not delivered. A
//! client that subscribes again from that position gets the updates that the engine still has.

pub use trunkline_types::ledger::EndedItem;
use trunkline_types::wire::{put_u8, put_u64, put_varint, put_zigzag};

use super::fault::put_sentence;
use crate::decode::{Items, Payload};
use crate::limits::SENTENCE_BYTES_MAX;
use crate::{DecodeError, FaultCode, Frame, FrameKind, FrameWriter};

/// The reason why items of a subscription were ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum EndReason {
    /// The bound of an `all` subscription was reached.
    Overrun,
    /// The variable was removed.
    Gone,
    /// The client lost the right to read it.
    Denied,
    /// A reason of a newer version.
    Unknown(u8),
}

/// The part common to all ended items of the frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EndedHead<'a> {
    /// The number of the subscription.
    pub subscription: u32,
    /// The reason, for programs.
    pub reason: EndReason,
    /// The epoch of the positions.
    pub epoch: u64,
    /// The reason, for people.
    pub sentence: &'a str,
}

/// Writes an ENDED frame.
#[derive(Debug)]
#[must_use = "a frame is complete only when it is finished"]
pub struct EndedBuilder<'a> {
    frame: FrameWriter<'a>,
    previous: u32,
}

/// An ENDED frame; iterates over its items.
#[derive(Clone, Debug)]
pub struct Ended<'a> {
    head: EndedHead<'a>,
    items: Items<'a>,
    previous: u32,
}

impl EndReason {
    /// The number on the wire.
    pub const fn number(self) -> u8 {
        match self {
            EndReason::Overrun => 1,
            EndReason::Gone => 2,
            EndReason::Denied => 3,
            EndReason::Unknown(number) => number,
        }
    }

    /// Reads the number on the wire.
    pub const fn from_number(number: u8) -> Self {
        match number {
            1 => EndReason::Overrun,
            2 => EndReason::Gone,
            3 => EndReason::Denied,
            other => EndReason::Unknown(other),
        }
    }

    /// The equivalent fault code.
    pub const fn fault_code(self) -> FaultCode {
        match self {
            EndReason::Overrun => FaultCode::Overrun,
            EndReason::Gone => FaultCode::Gone,
            EndReason::Denied => FaultCode::Denied,
            EndReason::Unknown(_) => FaultCode::Internal,
        }
    }
}

impl<'a> EndedBuilder<'a> {
    /// Begins a frame at the end of `out`.
    pub fn begin(out: &'a mut Vec<u8>, head: &EndedHead<'_>) -> Self {
        let mut frame = FrameWriter::begin(out, FrameKind::Ended, head.subscription);
        let out = frame.payload();
        put_u8(out, head.reason.number());
        put_u64(out, head.epoch);
        put_sentence(out, head.sentence);
        Self { frame, previous: 0 }
    }

    /// Appends an item.
    pub fn push(&mut self, item: &EndedItem) {
        let out = self.frame.payload();
        put_zigzag(
            out,
            i64::from(item.handle).wrapping_sub(i64::from(self.previous)),
        );
        put_varint(out, item.last_sequence);
        put_varint(out, item.lost);
        self.previous = item.handle;
        self.frame.count_item();
    }

    /// Bytes of the frame so far, header included.
    pub fn len_bytes(&self) -> usize {
        self.frame.len_bytes()
    }

    /// Completes the frame; a frame without items is removed from the buffer.
    pub fn finish(self) {
        if self.frame.count() == 0 {
            self.frame.abandon();
        } else {
            self.frame.finish(false);
        }
    }
}

impl<'a> Ended<'a> {
    /// Reads the frame.
    ///
    /// # Errors
    /// [`DecodeError`] if the head does not have the form drawn in the [module](self) or the frame
    /// cannot hold `count` items; errors in the items appear during iteration.
    pub fn decode(frame: &Frame<'a>) -> Result<Self, DecodeError> {
        let mut payload = Payload::of(frame, FrameKind::Ended)?;
        let head = EndedHead {
            subscription: frame.request(),
            reason: EndReason::from_number(payload.u8()?),
            epoch: payload.u64()?,
            sentence: payload.text(SENTENCE_BYTES_MAX)?,
        };
        Ok(Self {
            head,
            items: Items::new(payload, frame.count(), 3)?,
            previous: 0,
        })
    }

    /// The part common to all items.
    pub fn head(&self) -> EndedHead<'a> {
        self.head
    }
}

impl Iterator for Ended<'_> {
    type Item = Result<EndedItem, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let previous = &mut self.previous;
        self.items.next_with(|payload| {
            let handle = payload.handle(*previous)?;
            *previous = handle;
            Ok(EndedItem {
                handle,
                last_sequence: payload.varint()?,
                lost: payload.varint()?,
            })
        })
    }
}
