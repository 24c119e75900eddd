//! CHECK, COMPARE and REPAIRED: finding and repairing differences between the two ends (B-10).
//!
//! ```text
//! CHECK     count x ( subscription varint | runs varint, 1 to 64
//!                     runs x ( first handle zigzag delta | further handles varint )
//!                     digest u64 )
//! COMPARE   records_received u64
//!           count x ( subscription varint | handle zigzag delta | sequence varint | digest u64 )
//!           count 0: everything is to be checked
//! REPAIRED  header.request = subscription
//!           count x update record: one run, as in UPDATES
//! ```
//!
//! A chunk of CHECK has 1 to 64 items of one subscription. A run is a handle and the consecutive
//! handles after it. The first handle of a run is encoded as the difference from the last handle of
//! the previous run, and that of a chunk's first run from 0. The digest is the sum of the items'
//! digests ([`digest::of_record`](crate::digest::of_record)).

use trunkline_types::wire::{put_u64, put_varint, put_zigzag};

use crate::decode::{Items, Payload};
use crate::{DecodeError, Frame, FrameKind, FrameWriter};

/// Most items of one chunk: a difference is narrowed down to 64 items.
pub const CHUNK_ITEMS_MAX: usize = 64;

/// Some items of one subscription, with the sum of the digests of what the engine last sent for
/// each.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Chunk {
    /// The subscription.
    pub subscription: u32,
    /// The items' variables, 1 to [`CHUNK_ITEMS_MAX`].
    pub handles: Vec<u32>,
    /// Sum modulo 2^64 of the digests of the items.
    pub digest: u64,
}

/// Writes a CHECK frame.
#[derive(Debug)]
#[must_use = "a frame is complete only when it is finished"]
pub struct CheckBuilder<'a> {
    frame: FrameWriter<'a>,
}

impl<'a> CheckBuilder<'a> {
    /// Begins a frame at the end of `out`.
    pub fn begin(out: &'a mut Vec<u8>) -> Self {
        let frame = FrameWriter::begin(out, FrameKind::Check, 0);
        Self { frame }
    }

    /// Appends a chunk; an empty chunk is skipped.
    pub fn push(&mut self, chunk: &Chunk) {
        let runs = chunk.handles.chunk_by(|a, b| a.checked_add(1) == Some(*b));
        let out = self.frame.payload();
        let count = runs.clone().count();
        if count == 0 {
            return;
        }
        put_varint(out, u64::from(chunk.subscription));
        put_varint(out, count as u64);
        let mut previous = 0;
        for run in runs {
            let (Some(first), Some(last)) = (run.first(), run.last()) else {
                continue;
            };
            put_zigzag(out, i64::from(*first).wrapping_sub(i64::from(previous)));
            put_varint(out, u64::from(last.wrapping_sub(*first)));
            previous = *last;
        }
        put_u64(out, chunk.digest);
        self.frame.count_item();
    }

    /// Bytes of the frame so far, header included.
    pub fn len_bytes(&self) -> usize {
        self.frame.len_bytes()
    }

    /// Completes the frame; a frame without chunks is removed from the buffer.
    pub fn finish(self) {
        match self.frame.count() {
            0 => self.frame.abandon(),
            _ => self.frame.finish(false),
        }
    }
}

/// A CHECK frame; iterates over the chunks.
#[derive(Clone, Debug)]
pub struct Check<'a> {
    items: Items<'a>,
}

impl<'a> Check<'a> {
    /// Reads the frame.
    ///
    /// # Errors
    /// [`DecodeError`] if the frame cannot hold `count` chunks; errors in the chunks appear during
    /// iteration.
    pub fn decode(frame: &Frame<'a>) -> Result<Self, DecodeError> {
        let payload = Payload::of(frame, FrameKind::Check)?;
        let items = Items::new(payload, frame.count(), 12)?;
        Ok(Self { items })
    }
}

impl Iterator for Check<'_> {
    type Item = Result<Chunk, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.items.next_with(|payload| {
            let subscription = payload.varint_u32("a subscription")?;
            let runs = payload.varint()?;
            if runs == 0 || runs > CHUNK_ITEMS_MAX as u64 {
                return Err(payload.unexpected("1 to 64 runs of handles", runs));
            }
            let mut handles: Vec<u32> = Vec::new();
            for _ in 0..runs {
                let first = payload.handle(handles.last().copied().unwrap_or(0))?;
                let further = payload.varint_u32("a run of handles")?;
                let room = CHUNK_ITEMS_MAX.saturating_sub(handles.len());
                let last = first.checked_add(further);
                let Some(last) = last.filter(|_| (further as usize) < room) else {
                    return Err(payload.unexpected("at most 64 handles", u64::from(further)));
                };
                handles.extend(first..=last);
            }
            let digest = payload.u64()?;
            Ok(Chunk {
                subscription,
                handles,
                digest,
            })
        })
    }
}

/// The state of one item at the client.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CompareItem {
    /// The subscription.
    pub subscription: u32,
    /// The variable.
    pub handle: u32,
    /// Sequence of the last update that the client has; 0 if it has none.
    pub sequence: u64,
    /// Digest of that update; 0 if there is none.
    pub digest: u64,
}

/// Writes a COMPARE frame.
#[derive(Debug)]
#[must_use = "a frame is complete only when it is finished"]
pub struct CompareBuilder<'a> {
    frame: FrameWriter<'a>,
    previous: u32,
}

impl<'a> CompareBuilder<'a> {
    /// Begins a frame at the end of `out`; `records_received` counts the update records received on
    /// this connection. A frame without items asks the engine to check everything.
    pub fn begin(out: &'a mut Vec<u8>, records_received: u64) -> Self {
        let mut frame = FrameWriter::begin(out, FrameKind::Compare, 0);
        put_u64(frame.payload(), records_received);
        Self { frame, previous: 0 }
    }

    /// Appends an item.
    pub fn push(&mut self, item: &CompareItem) {
        let out = self.frame.payload();
        put_varint(out, u64::from(item.subscription));
        let delta = i64::from(item.handle).wrapping_sub(i64::from(self.previous));
        put_zigzag(out, delta);
        put_varint(out, item.sequence);
        put_u64(out, item.digest);
        self.previous = item.handle;
        self.frame.count_item();
    }

    /// Bytes of the frame so far, header included.
    pub fn len_bytes(&self) -> usize {
        self.frame.len_bytes()
    }

    /// Completes the frame.
    pub fn finish(self) {
        self.frame.finish(false);
    }
}

/// A COMPARE frame; iterates over the items.
#[derive(Clone, Debug)]
pub struct Compare<'a> {
    records_received: u64,
    items: Items<'a>,
    previous: u32,
}

impl<'a> Compare<'a> {
    /// Reads the frame.
    ///
    /// # Errors
    /// [`DecodeError`] if the frame cannot hold `count` items; errors in the items appear during
    /// iteration.
    pub fn decode(frame: &Frame<'a>) -> Result<Self, DecodeError> {
        let mut payload = Payload::of(frame, FrameKind::Compare)?;
        let records_received = payload.u64()?;
        Ok(Self {
            records_received,
            items: Items::new(payload, frame.count(), 11)?,
            previous: 0,
        })
    }

    /// Number of update records received on this connection.
    pub fn records_received(&self) -> u64 {
        self.records_received
    }

    /// Returns true if everything is to be checked. Valid only before the iteration begins.
    pub fn is_everything(&self) -> bool {
        self.items.left() == 0
    }
}

impl Iterator for Compare<'_> {
    type Item = Result<CompareItem, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let previous = &mut self.previous;
        self.items.next_with(|payload| {
            let subscription = payload.varint_u32("a subscription")?;
            let handle = payload.handle(*previous)?;
            *previous = handle;
            Ok(CompareItem {
                subscription,
                handle,
                sequence: payload.varint()?,
                digest: payload.u64()?,
            })
        })
    }
}
