//! CHECK, COMPARE and REPAIRED: find and repair differences between the two ends (B-10).
//!
//! A chunk of CHECK has 1 to 64 items of one subscription. A run is a sequence of consecutive handles.
//! The first handle of a run is encoded as the difference from the last handle of
//! the previous run; for the first run of a chunk, from 0. The digest is the sum of the items'
//! digests ([`digest::of_record`](crate::digest::of_record)).

use trunkline_types::wire::{put_u64, put_varint, put_zigzag};

use super::form::{Fixed, Handle, Varint};
use super::layout::{Field, FieldSink, FieldValue, FrameContext, Record, record};
use super::list::list_frame;
#[cfg(test)]
use super::round_trip::Source;
use crate::DecodeError;
use crate::decode::Payload;

/// Maximum number of items of one chunk: a difference is narrowed down to 64 items.
pub const CHUNK_ITEMS_MAX: usize = 64;

/// Up to 64 items of one subscription, with the sum of the digests of the last updates that the engine
/// has sent for these items.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Chunk {
    pub subscription: u32,
    /// The items' variables, 1 to [`CHUNK_ITEMS_MAX`].
    pub handles: Vec<u32>,
    /// Sum modulo 2^64 of the digests of the items.
    pub digest: u64,
}

impl<'a> Record<'a> for Chunk {
    const FIELDS: &'static [Field] = &[
        Field::literal("subscription varint"),
        Field::literal("runs varint"),
        Field::literal("runs x ( first handle zigzag | further varint )"),
        Field::literal("digest u64"),
    ];

    fn bytes_min(_: &FrameContext) -> usize {
        12
    }

    fn put(&self, _: &mut FrameContext, out: &mut Vec<u8>) {
        let runs = self.handles.chunk_by(|a, b| a.checked_add(1) == Some(*b));
        put_varint(out, u64::from(self.subscription));
        put_varint(out, runs.clone().count() as u64);
        let mut previous = 0;
        for run in runs {
            let (Some(first), Some(last)) = (run.first(), run.last()) else {
                continue;
            };
            put_zigzag(out, i64::from(*first).wrapping_sub(i64::from(previous)));
            put_varint(out, u64::from(last.wrapping_sub(*first)));
            previous = *last;
        }
        put_u64(out, self.digest);
    }

    fn read(_: &mut FrameContext, payload: &mut Payload<'a>) -> Result<Self, DecodeError> {
        let subscription = payload.varint_u32("a subscription")?;
        let runs = payload.varint()?;
        if runs == 0 || runs > CHUNK_ITEMS_MAX as u64 {
            return Err(payload.unexpected("1 to 64 runs of handles", runs));
        }
        let mut handles: Vec<u32> = Vec::new();
        for _ in 0..runs {
            let first = payload.handle(handles.last().copied().unwrap_or(0))?;
            let further = payload.varint_u32("a run of handles")?;
            let run = u64::from(further).saturating_add(1);
            let count = run.saturating_add(handles.len() as u64);
            if count > CHUNK_ITEMS_MAX as u64 {
                return Err(payload.unexpected("at most 64 handles", count));
            }
            let Some(last) = first.checked_add(further) else {
                let last = u64::from(first).saturating_add(u64::from(further));
                return Err(payload.unexpected("a handle within 32 bits", last));
            };
            handles.extend(first..=last);
        }
        let digest = payload.u64()?;
        Ok(Self {
            subscription,
            handles,
            digest,
        })
    }

    fn show(&self, to: &mut dyn FieldSink) {
        to.field("subscription", FieldValue::Number(self.subscription.into()));
        to.list("handles", &|to| {
            self.handles.iter().for_each(|handle| handle.show(to));
        });
        to.field("digest", FieldValue::NumberAsText(self.digest));
    }

    #[cfg(test)]
    fn sample(source: &mut Source<'a>, context: &mut FrameContext) -> Self {
        let count = 1 + source.number() % CHUNK_ITEMS_MAX as u64;
        Self {
            subscription: source.number() as u32,
            handles: (0..count).map(|_| u32::sample(source, context)).collect(),
            digest: source.number(),
        }
    }
}

list_frame! {
    CheckFrame: Check, Check, CheckBuilder,
    head (), item Chunk, empty_frame removed
}

record! {
    #[derive(Copy, Eq)]
    pub struct CompareHead {
        /// Number of update records received on this connection.
        pub records_received: u64 = Fixed,
    }
}

record! {
    #[derive(Copy, Eq, Default)]
    pub struct CompareItem {
        pub subscription: u32 = Varint,
        pub handle: u32 = Handle,
        /// Sequence of the last update that the client has; 0 if the client has none.
        pub sequence: u64 = Varint,
        /// Digest of that update; 0 if there is none.
        pub digest: u64 = Fixed,
    }
}

// A frame without items requests a check of all items.
list_frame! {
    CompareFrame: Compare, Compare, CompareBuilder,
    head CompareHead, item CompareItem, empty_frame kept
}
