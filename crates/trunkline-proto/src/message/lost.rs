//! LOST: updates that a subscription did not get, by cause.
//!
//! ```text
//! LOST  header.request = subscription
//!       count x ( handle zigzag delta | flags u8 | a varint per set bit but UNKNOWN )
//!       flags  1 filtered  2 queue  4 overrun  8 disconnect  16 UNKNOWN  32 64 128 causes to come
//! ```
//!
//! The counts are increments: the client adds them to the losses of the item before its *next*
//! update. The frame precedes that update. Coalesced updates are not included; they are the
//! remainder of the gap between two sequences. A cause unknown to this version is read as UNKNOWN.

use trunkline_types::wire::{put_u8, put_varint, put_zigzag};

use crate::decode::{Items, Payload};
use crate::{DecodeError, Frame, FrameKind, FrameWriter};

const UNKNOWN: u8 = 16;

/// Updates lost by one item since the last report.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LostRecord {
    /// The variable.
    pub handle: u32,
    /// Withheld by the subscription's filters (only changes, own updates suppressed).
    pub filtered: u64,
    /// Dropped because a bounded buffer was full.
    pub queue: u64,
    /// Dropped because an `all` subscription overran its bound.
    pub overrun: u64,
    /// Written while the connection was down.
    pub disconnect: u64,
    /// True if an unknown number was lost, such as across an engine restart.
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

/// Writes a LOST frame.
#[derive(Debug)]
#[must_use = "a frame is complete only when it is finished"]
pub struct LostBuilder<'a> {
    frame: FrameWriter<'a>,
    previous: u32,
}

impl<'a> LostBuilder<'a> {
    /// Begins a frame for this subscription at the end of `out`.
    pub fn begin(out: &'a mut Vec<u8>, subscription: u32) -> Self {
        Self {
            frame: FrameWriter::begin(out, FrameKind::Lost, subscription),
            previous: 0,
        }
    }

    /// Appends a record.
    ///
    /// # Real-time
    /// Allocates only if the buffer has to grow.
    pub fn push(&mut self, record: &LostRecord) {
        let LostRecord {
            handle,
            filtered,
            queue,
            overrun,
            disconnect,
            unknown,
        } = *record;
        let counts = [filtered, queue, overrun, disconnect];
        let mut flags = if unknown { UNKNOWN } else { 0 };
        for (bit, count) in counts.iter().enumerate() {
            flags |= u8::from(*count != 0) << bit;
        }
        let out = self.frame.payload();
        put_zigzag(
            out,
            i64::from(handle).wrapping_sub(i64::from(self.previous)),
        );
        put_u8(out, flags);
        counts
            .iter()
            .filter(|count| **count != 0)
            .for_each(|count| put_varint(out, *count));
        self.previous = handle;
        self.frame.count_item();
    }

    /// Number of records so far.
    pub fn count(&self) -> u32 {
        self.frame.count()
    }

    /// Bytes of the frame so far, header included.
    pub fn len_bytes(&self) -> usize {
        self.frame.len_bytes()
    }

    /// Completes the frame; a frame without records is removed from the buffer.
    pub fn finish(self) {
        if self.frame.count() == 0 {
            self.frame.abandon();
        } else {
            self.frame.finish(false);
        }
    }
}

/// The records of a LOST frame.
#[derive(Clone, Debug)]
pub struct LostRecords<'a> {
    subscription: u32,
    items: Items<'a>,
    previous: u32,
}

impl<'a> LostRecords<'a> {
    /// Reads the frame.
    ///
    /// # Errors
    /// [`DecodeError`] if the frame cannot hold `count` records; errors in the records appear
    /// during iteration.
    pub fn decode(frame: &Frame<'a>) -> Result<Self, DecodeError> {
        let payload = Payload::of(frame, FrameKind::Lost)?;
        let items = Items::new(payload, frame.count(), 2)?;
        Ok(Self {
            subscription: frame.request(),
            items,
            previous: 0,
        })
    }

    /// The subscription that the records belong to.
    pub fn subscription(&self) -> u32 {
        self.subscription
    }
}

impl Iterator for LostRecords<'_> {
    type Item = Result<LostRecord, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let previous = &mut self.previous;
        self.items.next_with(|payload| {
            let handle = payload.handle(*previous)?;
            *previous = handle;
            let flags = payload.u8()?;
            let mut record = LostRecord {
                handle,
                ..LostRecord::default()
            };
            record.unknown = flags & UNKNOWN != 0;
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
        })
    }
}
