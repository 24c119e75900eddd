//! READINGS: the answer to READ, with the current readings.
//!
//! ```text
//! READINGS  first_index varint
//!           count x ( 0 varint | update record )            the records are one run
//!                   ( code varint | sentence text )         (refused)
//! ```

use trunkline_types::wire::put_varint;

use super::answers::{Answers, AnswersBuilder};
use super::record::{RunState, UpdateRecord};
use crate::decode::Payload;
use crate::{DecodeError, FaultRef, Frame, FrameKind, FrameWriter};

pub type ReadingsBuilder<'a> = AnswersBuilder<'a, RunState>;

impl<'a> ReadingsBuilder<'a> {
    pub fn begin(out: &'a mut Vec<u8>, request: u32, first_index: u32) -> Self {
        let mut frame = FrameWriter::begin(out, FrameKind::Readings, request);
        put_varint(frame.payload(), u64::from(first_index));
        Self::of(frame)
    }

    pub(crate) fn of(frame: FrameWriter<'a>) -> Self {
        let state = RunState::START;
        Self { frame, state }
    }

    #[inline]
    pub fn push(&mut self, record: &UpdateRecord<'_>) {
        self.state.put_behind(self.frame.payload(), [0], record);
        self.frame.count_item();
    }
}

/// A READINGS frame; iterates over the items, each a reading or the fault that prevented it.
pub type Readings<'a> = Answers<'a, RunState>;

impl<'a> Readings<'a> {
    pub fn decode(frame: &Frame<'a>) -> Result<Self, DecodeError> {
        let mut payload = Payload::of(frame, FrameKind::Readings)?;
        let first_index = payload.varint_u32("an index")?;
        Self::of(first_index, payload, frame.count(), RunState::START)
    }
}

impl<'a> Iterator for Readings<'a> {
    type Item = Result<Result<UpdateRecord<'a>, FaultRef<'a>>, DecodeError>;

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        let run = &mut self.state;
        self.items.next_with(|payload| match payload.status()? {
            None => Ok(Ok(run.read(payload)?)),
            Some(code) => Ok(Err(payload.fault_sentence(code)?)),
        })
    }
}
