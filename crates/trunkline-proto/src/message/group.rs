//! GROUP_WRITE and GROUP_ANSWER: write several variables atomically (B-23).
//!
//! ```text
//! GROUP_WRITE   flags u8 | count x record as in WRITE
//!               flags  1 TRY
//! ```
//!
//! Used only if both ends have the feature GROUPS. A group is one message, sent in parts if it is
//! too long for one frame. Either all members are put or set, with one engine timestamp and one
//! commit number, or none of them is. The answer for the refused member (the culprit) contains the
//! rule that refused it. The other members have the fault `group-refused` without a sentence,
//! because the sentence would be the same for all of them. With TRY, the engine answers with
//! would-block instead of waiting if a subscriber's buffer is full.

use trunkline_types::Value;

use super::form::{Varint, mapped};
use super::layout::{FieldValue, record};
use super::list::list_frame;
use super::outcome::WriteAnswer;
use super::write::{WriteBuilder, WriteOptions, WriteRecord, Writes};
use crate::decode::Payload;
use crate::{DecodeError, Frame, FrameKind};

const TRY: u8 = 1;

/// Maximum number of members of a group, and of handles of a consistent snapshot.
pub const GROUP_MAX: usize = 4096;

#[derive(Debug)]
#[must_use = "a frame is complete only when it is finished"]
pub struct GroupWriteBuilder<'a>(WriteBuilder<'a>);

impl<'a> GroupWriteBuilder<'a> {
    /// Begins a frame at the end of `out`. If `try_only` is true, a group that would have to wait
    /// is not written.
    pub fn begin(out: &'a mut Vec<u8>, request: u32, try_only: bool) -> Self {
        let flags = if try_only { TRY } else { 0 };
        Self(WriteBuilder::begin_group(out, request, flags))
    }

    /// Appends a member with its value in wire form.
    pub fn push(&mut self, handle: u32, options: &WriteOptions, value: &[u8]) {
        self.0.push(handle, options, value);
    }

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
    pub fn decode(frame: &Frame<'a>) -> Result<Self, DecodeError> {
        let mut payload = Payload::of(frame, FrameKind::GroupWrite)?;
        let flags = payload.u8()?;
        Ok(Self {
            try_only: flags & TRY != 0,
            writes: Writes::of_group(payload, frame.count())?,
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

record! {
    #[derive(Copy, Eq, Default)]
    pub struct GroupHead {
        /// The commit number of the group; `None` if nothing was written.
        pub commit: Option<u64> = Commit,
        /// Index of the first member that was refused.
        pub culprit: Option<u32> = Culprit,
    }
}

list_frame! {
    GroupAnswerFrame: GroupAnswer, GroupAnswer, GroupAnswerBuilder,
    head GroupHead, item WriteAnswer<'a>, empty_frame kept
}

/// The number of a commit; 0 means none.
#[derive(Debug)]
pub enum Commit {}
/// The index of a member plus one; 0 means none.
#[derive(Debug)]
pub enum Culprit {}

mapped! {
    Commit: Option<u64> = Varint: u64, |commit| commit.unwrap_or(0), |number| {
        (number != 0).then_some(number)
    }, |commit| commit.map_or(FieldValue::Nothing, FieldValue::NumberAsText);
    Culprit: Option<u32> = Varint: u32, |at| at.map_or(0, |at| at.saturating_add(1)), |number| {
        number.checked_sub(1)
    }, |at| at.map_or(FieldValue::Nothing, |at| FieldValue::Number(at.into()));
}
