//! LOST: the numbers of updates that a subscription did not receive, by cause.
//!
//! The counts are increments: the client adds them to the item's losses before the item's *next*
//! update, which follows this frame. Coalesced updates are not included: their number is the
//! remainder of the gap between two sequences. A cause unknown to this version is read as UNKNOWN.

use trunkline_types::wire::{put_u8, put_varint};

use super::form::{Form, Handle};
use super::layout::{Field, FieldSink, FieldValue, FrameContext, Record};
use super::list::list_frame;
#[cfg(test)]
use super::round_trip::Source;
use crate::DecodeError;
use crate::decode::Payload;

const UNKNOWN: u8 = 16;

/// The numbers of updates that one item has lost since the last report.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LostRecord {
    pub handle: u32,
    /// Number of updates withheld by the subscription's filters (only changes, own updates
    /// suppressed).
    pub filtered: u64,
    /// Number of updates dropped because a bounded buffer was full.
    pub queue: u64,
    /// Number of updates dropped because an `all` subscription exceeded its bound.
    pub overrun: u64,
    /// Number of updates lost because they were written while the connection was down.
    pub disconnect: u64,
    /// True if an unknown number of updates was lost, for example during an engine restart.
    pub unknown: bool,
}

impl LostRecord {
    /// Returns true if nothing was lost or filtered.
    pub fn is_nothing(&self) -> bool {
        *self
            == Self {
                handle: self.handle,
                ..Self::default()
            }
    }
}

impl<'a> Record<'a> for LostRecord {
    const FIELDS: &'static [Field] = &[Field::literal("handle | flags u8 | a varint per flag")];

    fn bytes_min(_: &FrameContext) -> usize {
        2
    }

    fn put(&self, context: &mut FrameContext, out: &mut Vec<u8>) {
        let counts = [self.filtered, self.queue, self.overrun, self.disconnect];
        let mut flags = if self.unknown { UNKNOWN } else { 0 };
        for (bit, count) in counts.iter().enumerate() {
            flags |= u8::from(*count != 0) << bit;
        }
        Handle::put(&self.handle, context, out);
        put_u8(out, flags);
        counts
            .iter()
            .filter(|count| **count != 0)
            .for_each(|count| put_varint(out, *count));
    }

    fn read(context: &mut FrameContext, payload: &mut Payload<'a>) -> Result<Self, DecodeError> {
        let handle = Handle::read(context, payload)?;
        let flags = payload.u8()?;
        let mut record = Self {
            handle,
            unknown: flags & UNKNOWN != 0,
            ..Self::default()
        };
        for bit in (0..8)
            .map(|shift| 1 << shift)
            .filter(|bit| flags & bit != 0)
        {
            match bit {
                1 => record.filtered = payload.varint()?,
                2 => record.queue = payload.varint()?,
                4 => record.overrun = payload.varint()?,
                8 => record.disconnect = payload.varint()?,
                UNKNOWN => {}
                _ => {
                    payload.varint()?;
                    record.unknown = true;
                }
            }
        }
        Ok(record)
    }

    fn show(&self, to: &mut dyn FieldSink) {
        to.field("handle", FieldValue::Number(self.handle.into()));
        to.field("filtered", FieldValue::NumberAsText(self.filtered));
        to.field("queue", FieldValue::NumberAsText(self.queue));
        to.field("overrun", FieldValue::NumberAsText(self.overrun));
        to.field("disconnect", FieldValue::NumberAsText(self.disconnect));
        to.field("unknown", FieldValue::Flag(self.unknown));
    }

    #[cfg(test)]
    fn sample(source: &mut Source<'a>, context: &mut FrameContext) -> Self {
        Self {
            handle: u32::sample(source, context),
            filtered: source.number(),
            queue: source.number(),
            overrun: source.number(),
            disconnect: source.number() % 3,
            unknown: source.bool(),
        }
    }
}

// The request of the frame is the subscription.
list_frame! {
    LostFrame: Lost, LostRecords, LostBuilder,
    head (), item LostRecord, empty_frame removed
}
