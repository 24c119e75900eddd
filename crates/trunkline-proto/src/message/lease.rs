//! LEASE and LEASED: the exclusive right of a session to write a variable, for a limited time
//! (B-22).
//!
//! ```text
//! LEASE   verb u8 | flags u8 | duration ms varint | [epoch u64]
//!         count x ( handle zigzag delta | [sequence varint] )
//!         verb   1 ACQUIRE  2 RENEW  3 RELEASE         flags  1 EXPECTED: epoch and sequences
//! LEASED  first_index varint
//!         count x ( 0 varint | granted ms varint | sequence varint )
//!                 ( code varint | sentence text )                  (refused)
//! ```
//!
//! Agreed as the feature GROUPS. ACQUIRE by the session that holds the lease renews it. RENEW of an
//! expired lease is refused, because another session may have written since. With EXPECTED a lease
//! is granted only if the variable is still at that position. The answer contains the sequence of
//! the newest update, from which the holder continues. A lease ends when its time is over, with
//! RELEASE, or with the session.

use std::time::Duration;

use trunkline_types::wire::{put_u8, put_u64, put_varint, put_zigzag};
pub use trunkline_types::{Granted, LeaseVerb};

use super::fault::put_fault;
use crate::decode::{Items, Payload};
use crate::{DecodeError, FaultRef, Frame, FrameKind, FrameWriter};

const EXPECTED: u8 = 1;

/// The part common to all items of a LEASE frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeaseHead {
    /// The action.
    pub verb: LeaseVerb,
    /// Duration of the lease, sent in ms; ignored for a release.
    pub duration: Duration,
    /// The epoch of the expected positions; `None` if no positions are expected.
    pub expected_epoch: Option<u64>,
}

/// Writes a LEASE frame.
#[derive(Debug)]
#[must_use = "a frame is complete only when it is finished"]
pub struct LeaseBuilder<'a> {
    frame: FrameWriter<'a>,
    has_positions: bool,
    previous: u32,
}

impl<'a> LeaseBuilder<'a> {
    /// Begins a frame at the end of `out`.
    pub fn begin(out: &'a mut Vec<u8>, request: u32, head: &LeaseHead) -> Self {
        let mut frame = FrameWriter::begin(out, FrameKind::Lease, request);
        let out = frame.payload();
        let verb = match head.verb {
            LeaseVerb::Acquire => 1,
            LeaseVerb::Renew => 2,
            LeaseVerb::Release => 3,
        };
        put_u8(out, verb);
        put_u8(out, head.expected_epoch.map_or(0, |_| EXPECTED));
        put_varint(out, millis(head.duration));
        if let Some(epoch) = head.expected_epoch {
            put_u64(out, epoch);
        }
        Self {
            frame,
            has_positions: head.expected_epoch.is_some(),
            previous: 0,
        }
    }

    /// Appends a variable; `sequence` is its expected position, ignored if none is expected.
    pub fn push(&mut self, handle: u32, sequence: u64) {
        let out = self.frame.payload();
        put_zigzag(
            out,
            i64::from(handle).wrapping_sub(i64::from(self.previous)),
        );
        self.previous = handle;
        if self.has_positions {
            put_varint(out, sequence);
        }
        self.frame.count_item();
    }

    /// Bytes of the frame so far, header included.
    pub fn len_bytes(&self) -> usize {
        self.frame.len_bytes()
    }

    /// Completes the frame; set `more` if further frames of this request follow.
    pub fn finish(self, more: bool) {
        self.frame.finish(more);
    }
}

/// A LEASE frame; iterates over handles and expected sequences, which are 0 if none is expected.
#[derive(Clone, Debug)]
pub struct Lease<'a> {
    head: LeaseHead,
    items: Items<'a>,
    previous: u32,
}

impl<'a> Lease<'a> {
    /// Reads the frame.
    ///
    /// # Errors
    /// [`DecodeError`] if the head does not have the form drawn in the [module](self) or the frame
    /// cannot hold `count` items; errors in the items appear during iteration.
    pub fn decode(frame: &Frame<'a>) -> Result<Self, DecodeError> {
        let mut payload = Payload::of(frame, FrameKind::Lease)?;
        let verb = match payload.u8()? {
            1 => LeaseVerb::Acquire,
            2 => LeaseVerb::Renew,
            3 => LeaseVerb::Release,
            other => return Err(payload.unexpected("the verb 1, 2 or 3", u64::from(other))),
        };
        let has_positions = payload.u8()? & EXPECTED != 0;
        let duration = Duration::from_millis(payload.varint()?);
        let expected_epoch = match has_positions {
            true => Some(payload.u64()?),
            false => None,
        };
        let item_bytes = if has_positions { 2 } else { 1 };
        Ok(Self {
            head: LeaseHead {
                verb,
                duration,
                expected_epoch,
            },
            items: Items::new(payload, frame.count(), item_bytes)?,
            previous: 0,
        })
    }

    /// The part common to all items.
    pub fn head(&self) -> LeaseHead {
        self.head
    }
}

impl Iterator for Lease<'_> {
    type Item = Result<(u32, u64), DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let has_positions = self.head.expected_epoch.is_some();
        let previous = &mut self.previous;
        self.items.next_with(|payload| {
            *previous = payload.handle(*previous)?;
            let sequence = match has_positions {
                true => payload.varint()?,
                false => 0,
            };
            Ok((*previous, sequence))
        })
    }
}

/// Writes a LEASED frame.
#[derive(Debug)]
#[must_use = "a frame is complete only when it is finished"]
pub struct LeasedBuilder<'a> {
    frame: FrameWriter<'a>,
}

impl<'a> LeasedBuilder<'a> {
    /// Begins a frame at the end of `out`; its first item is item `first_index` of the request.
    pub fn begin(out: &'a mut Vec<u8>, request: u32, first_index: u32) -> Self {
        let mut frame = FrameWriter::begin(out, FrameKind::Leased, request);
        put_varint(frame.payload(), u64::from(first_index));
        Self { frame }
    }

    /// Appends the grant for the next item.
    pub fn push(&mut self, granted: &Granted) {
        let out = self.frame.payload();
        put_u8(out, 0);
        put_varint(out, millis(granted.duration));
        put_varint(out, granted.sequence);
        self.frame.count_item();
    }

    /// Appends the refusal of the next item.
    pub fn push_fault(&mut self, fault: FaultRef<'_>) {
        put_fault(self.frame.payload(), fault);
        self.frame.count_item();
    }

    /// Bytes of the frame so far, header included.
    pub fn len_bytes(&self) -> usize {
        self.frame.len_bytes()
    }

    /// Completes the frame; set `more` if further frames of this answer follow.
    pub fn finish(self, more: bool) {
        self.frame.finish(more);
    }
}

/// A LEASED frame; iterates over the items.
#[derive(Clone, Debug)]
pub struct Leased<'a> {
    first_index: u32,
    items: Items<'a>,
}

impl<'a> Leased<'a> {
    /// Reads the frame.
    ///
    /// # Errors
    /// [`DecodeError`] if the frame cannot hold `count` items; errors in the items appear during
    /// iteration.
    pub fn decode(frame: &Frame<'a>) -> Result<Self, DecodeError> {
        let mut payload = Payload::of(frame, FrameKind::Leased)?;
        let first_index = payload.varint_u32("an index")?;
        Ok(Self {
            first_index,
            items: Items::new(payload, frame.count(), 2)?,
        })
    }

    /// Index of the frame's first item within the whole request.
    pub fn first_index(&self) -> u32 {
        self.first_index
    }
}

impl<'a> Iterator for Leased<'a> {
    type Item = Result<Result<Granted, FaultRef<'a>>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.items.next_with(|payload| match payload.status()? {
            Some(code) => Ok(Err(payload.fault_sentence(code)?)),
            None => Ok(Ok(Granted {
                duration: Duration::from_millis(payload.varint()?),
                sequence: payload.varint()?,
            })),
        })
    }
}

/// Converts to whole milliseconds, rounded up so that a short time does not become zero.
fn millis(duration: Duration) -> u64 {
    let nanos = duration.as_nanos().div_ceil(1_000_000);
    u64::try_from(nanos).unwrap_or(u64::MAX)
}
