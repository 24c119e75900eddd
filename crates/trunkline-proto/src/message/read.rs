//! READINGS: the answer to READ, with the current readings.
//!
//! ```text
//! READINGS  first_index varint
//!           count x ( 0 varint | update record )            the records are one run
//!                   ( code varint | sentence text )         (refused)
//! ```

use trunkline_types::wire::put_varint;

use super::fault::put_fault;
use super::record::{RunState, UpdateRecord};
use crate::decode::{Items, Payload};
use crate::{DecodeError, FaultRef, Frame, FrameKind, FrameWriter};

#[derive(Debug)]
#[must_use = "a frame is complete only when it is finished"]
pub struct ReadingsBuilder<'a> {
    frame: FrameWriter<'a>,
    run: RunState,
}

impl<'a> ReadingsBuilder<'a> {
    pub fn begin(out: &'a mut Vec<u8>, request: u32, first_index: u32) -> Self {
        let mut frame = FrameWriter::begin(out, FrameKind::Readings, request);
        put_varint(frame.payload(), u64::from(first_index));
        Self::of(frame)
    }

    pub(crate) fn of(frame: FrameWriter<'a>) -> Self {
        Self {
            frame,
            run: RunState::START,
        }
    }

    /// Reserves memory for a record with a long value; returns false if there is none.
    #[must_use]
    pub fn make_room(&mut self, bytes: usize) -> bool {
        self.frame.payload().try_reserve_exact(bytes).is_ok()
    }

    #[inline]
    pub fn push(&mut self, record: &UpdateRecord<'_>) {
        self.run.put_behind(self.frame.payload(), [0], record);
        self.frame.count_item();
    }

    pub fn push_fault(&mut self, fault: FaultRef<'_>) {
        put_fault(self.frame.payload(), fault);
        self.frame.count_item();
    }

    pub fn count(&self) -> u32 {
        self.frame.count()
    }

    pub fn len_bytes(&self) -> usize {
        self.frame.len_bytes()
    }

    pub fn finish(self, more: bool) {
        self.frame.finish(more);
    }
}

/// A READINGS frame; iterates over the items, each a reading or the fault that prevented it.
#[derive(Clone, Debug)]
pub struct Readings<'a> {
    first_index: u32,
    items: Items<'a>,
    run: RunState,
}

impl<'a> Readings<'a> {
    pub fn decode(frame: &Frame<'a>) -> Result<Self, DecodeError> {
        let mut payload = Payload::of(frame, FrameKind::Readings)?;
        let first_index = payload.varint_u32("an index")?;
        Self::of(first_index, payload, frame.count())
    }

    pub(crate) fn of(
        first_index: u32,
        payload: Payload<'a>,
        count: u32,
    ) -> Result<Self, DecodeError> {
        Ok(Self {
            first_index,
            items: Items::new(payload, count, 2)?,
            run: RunState::START,
        })
    }

    pub fn first_index(&self) -> u32 {
        self.first_index
    }

    pub fn left(&self) -> u32 {
        self.items.left()
    }
}

impl<'a> Iterator for Readings<'a> {
    type Item = Result<Result<UpdateRecord<'a>, FaultRef<'a>>, DecodeError>;

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        let run = &mut self.run;
        self.items.next_with(|payload| match payload.status()? {
            None => Ok(Ok(run.read(payload)?)),
            Some(code) => Ok(Err(payload.fault_sentence(code)?)),
        })
    }
}
