//! SNAPSHOT_ANSWER: the readings of several variables, at one instant if possible (B-23).
//!
//! ```text
//! SNAPSHOT         as READ
//! SNAPSHOT_ANSWER  first_index varint | flags u8 | commit varint | instant ns i64
//!                  count x item as in READINGS
//!                  flags  1 CONSISTENT
//! ```
//!
//! Used only if both ends have the feature GROUPS. A SNAPSHOT of at most 4,096 handles in one frame
//! is answered with the values of all of them at one instant by the engine's clock, after the group
//! with the number `commit`. The answer may take several frames. With more handles, or several
//! request frames, only each individual reading is consistent, and the flag is not set.

use trunkline_types::Timestamp;
use trunkline_types::wire::{put_i64, put_u8, put_varint};

use super::read::{Readings, ReadingsBuilder};
use super::record::RunState;
use crate::decode::Payload;
use crate::{DecodeError, Frame, FrameKind, FrameWriter};

const CONSISTENT: u8 = 1;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SnapshotHead {
    pub is_consistent: bool,
    /// Number of the last group committed before the instant; 0 if there was none.
    pub commit: u64,
    /// The instant, by the engine's clock.
    pub instant: Timestamp,
}

/// Begins a SNAPSHOT_ANSWER frame at the end of `out`; its first item has the index `first_index`
/// in the request.
pub fn begin_snapshot(
    out: &mut Vec<u8>,
    request: u32,
    first_index: u32,
    head: SnapshotHead,
) -> ReadingsBuilder<'_> {
    let mut frame = FrameWriter::begin(out, FrameKind::SnapshotAnswer, request);
    let out = frame.payload();
    put_varint(out, u64::from(first_index));
    put_u8(out, if head.is_consistent { CONSISTENT } else { 0 });
    put_varint(out, head.commit);
    put_i64(out, head.instant.as_nanos());
    ReadingsBuilder::of(frame)
}

pub fn decode_snapshot<'a>(frame: &Frame<'a>) -> Result<(SnapshotHead, Readings<'a>), DecodeError> {
    let mut payload = Payload::of(frame, FrameKind::SnapshotAnswer)?;
    let first_index = payload.varint_u32("an index")?;
    let head = SnapshotHead {
        is_consistent: payload.u8()? & CONSISTENT != 0,
        commit: payload.varint()?,
        instant: Timestamp::from_nanos(payload.i64()?),
    };
    let readings = Readings::of(first_index, payload, frame.count(), RunState::START)?;
    Ok((head, readings))
}
