//! GROUP_WRITE and GROUP_ANSWER: several variables written together, all or none (B-23).
//!
//! ```text
//! GROUP_WRITE   flags u8 | count x record as in WRITE
//!               flags  1 TRY
//! GROUP_ANSWER  commit varint | culprit varint | count x answer as in WRITE_ANSWERS
//!               commit   0: nothing was written
//!               culprit  0: none; else the place of the first refused member, plus one
//! ```
//!
//! Agreed as the feature GROUPS. A group is one frame, sent in parts if it is longer than a frame
//! may be. Either all members are put or set, with one engine timestamp and one commit number, or
//! none is. The answer for the culprit contains the rule that refused it. The other members have
//! the fault `group-refused` without a sentence, because it would be the same for all of them. With
//! TRY the engine answers with would-block if a subscriber's buffer is full, instead of waiting.

use trunkline_types::Value;
use trunkline_types::wire::put_varint;

use super::outcome::WriteAnswer;
use super::write::{WriteBuilder, WriteOptions, WriteRecord, Writes};
use super::write_answers::{put_answer, read_outcome};
use crate::decode::{Items, Payload};
use crate::{DecodeError, Frame, FrameKind, FrameWriter};

const TRY: u8 = 1;

/// Most members of a group, and most handles of a consistent snapshot.
pub const GROUP_MAX: usize = 4096;

/// Writes a GROUP_WRITE frame.
#[derive(Debug)]
#[must_use = "a frame is complete only when it is finished"]
pub struct GroupWriteBuilder<'a>(WriteBuilder<'a>);

impl<'a> GroupWriteBuilder<'a> {
    /// Begins a frame at the end of `out`. With `try_only` a group that would have to wait is not
    /// written.
    pub fn begin(out: &'a mut Vec<u8>, request: u32, try_only: bool) -> Self {
        let flags = if try_only { TRY } else { 0 };
        Self(WriteBuilder::begin_group(out, request, flags))
    }

    /// Appends a member with its value in wire form.
    pub fn push(&mut self, handle: u32, options: &WriteOptions, value: &[u8]) {
        self.0.push(handle, options, value);
    }

    /// Appends a member.
    pub fn push_value(&mut self, handle: u32, options: &WriteOptions, value: &Value) {
        self.0.push_value(handle, options, value);
    }

    /// Completes the frame; a frame without members is removed from the buffer.
    pub fn finish(self) {
        self.0.finish();
    }
}

/// A GROUP_WRITE frame; iterates over the members, whose ids are their indices.
#[derive(Clone, Debug)]
pub struct GroupWrite<'a> {
    try_only: bool,
    writes: Writes<'a>,
}

impl<'a> GroupWrite<'a> {
    /// Reads the frame.
    ///
    /// # Errors
    /// [`DecodeError`] if the frame cannot hold `count` members; errors in the members appear
    /// during iteration.
    pub fn decode(frame: &Frame<'a>) -> Result<Self, DecodeError> {
        let mut payload = Payload::of(frame, FrameKind::GroupWrite)?;
        let flags = payload.u8()?;
        Ok(Self {
            try_only: flags & TRY != 0,
            writes: Writes::of(0, payload, frame.count())?,
        })
    }

    /// Returns true if the group is answered with would-block instead of waiting.
    pub fn try_only(&self) -> bool {
        self.try_only
    }
}

impl<'a> Iterator for GroupWrite<'a> {
    type Item = Result<WriteRecord<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.writes.next()
    }
}

/// The outcome of a group as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GroupHead {
    /// The number of its commit; `None` if nothing was written.
    pub commit: Option<u64>,
    /// Index of the first member that was refused.
    pub culprit: Option<u32>,
}

/// Writes a GROUP_ANSWER frame.
#[derive(Debug)]
#[must_use = "a frame is complete only when it is finished"]
pub struct GroupAnswerBuilder<'a> {
    frame: FrameWriter<'a>,
    previous: u64,
}

impl<'a> GroupAnswerBuilder<'a> {
    /// Begins a frame at the end of `out`.
    pub fn begin(out: &'a mut Vec<u8>, request: u32, head: GroupHead) -> Self {
        let mut frame = FrameWriter::begin(out, FrameKind::GroupAnswer, request);
        let culprit = head.culprit.map_or(0, |at| u64::from(at) + 1);
        put_varint(frame.payload(), head.commit.unwrap_or(0));
        put_varint(frame.payload(), culprit);
        Self { frame, previous: 0 }
    }

    /// Appends the outcome of the next member.
    pub fn push(&mut self, outcome: &WriteAnswer<'_>) {
        put_answer(self.frame.payload(), &mut self.previous, outcome);
        self.frame.count_item();
    }

    /// Completes the frame.
    pub fn finish(self) {
        self.frame.finish(false);
    }
}

/// A GROUP_ANSWER frame; iterates over the outcomes.
#[derive(Clone, Debug)]
pub struct GroupAnswer<'a> {
    head: GroupHead,
    items: Items<'a>,
    previous: u64,
}

impl<'a> GroupAnswer<'a> {
    /// Reads the frame.
    ///
    /// # Errors
    /// [`DecodeError`] if the frame cannot hold `count` outcomes; errors in the outcomes appear
    /// during iteration.
    pub fn decode(frame: &Frame<'a>) -> Result<Self, DecodeError> {
        let mut payload = Payload::of(frame, FrameKind::GroupAnswer)?;
        let commit = payload.varint()?;
        let culprit = payload.varint_u32("the place of a member")?;
        Ok(Self {
            head: GroupHead {
                commit: (commit != 0).then_some(commit),
                culprit: culprit.checked_sub(1),
            },
            items: Items::new(payload, frame.count(), 1)?,
            previous: 0,
        })
    }

    /// The outcome of the group as a whole.
    pub fn head(&self) -> GroupHead {
        self.head
    }

    /// Number of outcomes not yet read.
    pub fn left(&self) -> u32 {
        self.items.left()
    }
}

impl<'a> Iterator for GroupAnswer<'a> {
    type Item = Result<WriteAnswer<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let previous = &mut self.previous;
        self.items
            .next_with(|payload| read_outcome(payload, previous))
    }
}
