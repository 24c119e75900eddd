//! WRITE_ANSWERS: the packed outcomes of a run of writes (B-20).
//!
//! ```text
//! WRITE_ANSWERS  first_write u64
//!                count x answer, the write at `index` being first_write + index
//! answer         varint, bit 0 clear: applied; sequence delta = zigzag(varint >> 1)
//!                varint, bit 0 set:   outcome = varint >> 1, then
//!                    0 applied      sequence zigzag delta     (deltas beyond 62 bits)
//!                    1 unchanged    sequence zigzag delta
//!                    2 superseded
//!                    3 refused      code varint | sentence text
//!                    4 would-block
//!                    5 unknown      code varint | sentence text
//! ```
//!
//! A sequence is encoded as the difference from the previous one in the frame, the first as the
//! difference from 0, modulo 2^64. The most common answer, applied at the next sequence, takes one
//! byte.

use trunkline_types::wire::{put_u64, put_varint, put_zigzag};

use super::fault::put_fault;
use super::outcome::{
    APPLIED, REFUSED, SUPERSEDED, UNCHANGED, UNKNOWN, WOULD_BLOCK, WouldBlock, WriteAnswer,
};
use crate::decode::{Items, Payload};
use crate::{DecodeError, Frame, FrameKind, FrameWriter};

/// Writes a WRITE_ANSWERS frame.
#[derive(Debug)]
#[must_use = "a frame is complete only when it is finished"]
pub struct WriteAnswersBuilder<'a> {
    frame: FrameWriter<'a>,
    previous: u64,
}

impl<'a> WriteAnswersBuilder<'a> {
    /// Begins a frame at the end of `out`; its first answer is for the write `first_write`.
    pub fn begin(out: &'a mut Vec<u8>, first_write: u64) -> Self {
        let mut frame = FrameWriter::begin(out, FrameKind::WriteAnswers, 0);
        put_u64(frame.payload(), first_write);
        Self { frame, previous: 0 }
    }

    /// Appends the answer to the next write.
    ///
    /// # Real-time
    /// Allocates only if the buffer has to grow.
    #[inline]
    pub fn push(&mut self, outcome: &WriteAnswer<'_>) {
        put_answer(self.frame.payload(), &mut self.previous, outcome);
        self.frame.count_item();
    }

    /// Number of answers so far.
    pub fn count(&self) -> u32 {
        self.frame.count()
    }

    /// Bytes of the frame so far, header included.
    pub fn len_bytes(&self) -> usize {
        self.frame.len_bytes()
    }

    /// Completes the frame; a frame without answers is removed from the buffer.
    pub fn finish(self) {
        if self.frame.count() == 0 {
            self.frame.abandon();
        } else {
            self.frame.finish(false);
        }
    }
}

/// Appends an outcome; `previous` is the sequence of the previous answer.
#[inline]
pub(crate) fn put_answer(out: &mut Vec<u8>, previous: &mut u64, outcome: &WriteAnswer<'_>) {
    match *outcome {
        WriteAnswer::Applied(sequence) => {
            let delta = sequence.wrapping_sub(*previous) as i64;
            *previous = sequence;
            let zigzag = ((delta as u64) << 1) ^ ((delta >> 63) as u64);
            if zigzag >> 63 == 0 {
                put_varint(out, zigzag << 1);
            } else {
                put_outcome(out, APPLIED);
                put_zigzag(out, delta);
            }
        }
        WriteAnswer::Unchanged(sequence) => {
            put_outcome(out, UNCHANGED);
            put_zigzag(out, sequence.wrapping_sub(*previous) as i64);
            *previous = sequence;
        }
        WriteAnswer::Superseded => put_outcome(out, SUPERSEDED),
        WriteAnswer::Refused(fault) => {
            put_outcome(out, REFUSED);
            put_fault(out, fault);
        }
        WriteAnswer::NotTried(WouldBlock) => put_outcome(out, WOULD_BLOCK),
        WriteAnswer::Unknown(fault) => {
            put_outcome(out, UNKNOWN);
            put_fault(out, fault);
        }
    }
}

fn put_outcome(out: &mut Vec<u8>, outcome: u8) {
    put_varint(out, (u64::from(outcome) << 1) | 1);
}

/// A WRITE_ANSWERS frame; iterates over the ids of the writes and their outcomes.
#[derive(Clone, Debug)]
pub struct WriteAnswers<'a> {
    items: Items<'a>,
    first_write: u64,
    next_write: u64,
    previous: u64,
}

impl<'a> WriteAnswers<'a> {
    /// Reads the frame.
    ///
    /// # Errors
    /// [`DecodeError`] if the frame cannot hold `count` answers; errors in the answers appear
    /// during iteration.
    pub fn decode(frame: &Frame<'a>) -> Result<Self, DecodeError> {
        let mut payload = Payload::of(frame, FrameKind::WriteAnswers)?;
        let first_write = payload.u64()?;
        let items = Items::new(payload, frame.count(), 1)?;
        Ok(Self {
            items,
            first_write,
            next_write: first_write,
            previous: 0,
        })
    }

    /// The id of the first write answered.
    pub fn first_write(&self) -> u64 {
        self.first_write
    }

    /// Number of answers not yet read.
    pub fn left(&self) -> u32 {
        self.items.left()
    }
}

impl<'a> Iterator for WriteAnswers<'a> {
    type Item = Result<(u64, WriteAnswer<'a>), DecodeError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let Self {
            next_write,
            previous,
            ..
        } = self;
        self.items.next_with(|payload| {
            let outcome = read_outcome(payload, previous)?;
            let write = *next_write;
            *next_write = write.wrapping_add(1);
            Ok((write, outcome))
        })
    }
}

/// Reads an outcome; `previous` is the sequence of the previous answer.
#[inline]
pub(crate) fn read_outcome<'a>(
    payload: &mut Payload<'a>,
    previous: &mut u64,
) -> Result<WriteAnswer<'a>, DecodeError> {
    let head = payload.varint()?;
    let rest = head >> 1;
    if head & 1 == 0 {
        let delta = ((rest >> 1) as i64) ^ ((rest & 1) as i64).wrapping_neg();
        *previous = previous.wrapping_add_signed(delta);
        return Ok(WriteAnswer::Applied(*previous));
    }
    let mut sequence = |payload: &mut Payload<'a>| -> Result<u64, DecodeError> {
        *previous = previous.wrapping_add_signed(payload.zigzag()?);
        Ok(*previous)
    };
    match u8::try_from(rest) {
        Ok(APPLIED) => Ok(WriteAnswer::Applied(sequence(payload)?)),
        Ok(UNCHANGED) => Ok(WriteAnswer::Unchanged(sequence(payload)?)),
        Ok(SUPERSEDED) => Ok(WriteAnswer::Superseded),
        Ok(REFUSED) => Ok(WriteAnswer::Refused(payload.fault()?)),
        Ok(WOULD_BLOCK) => Ok(WriteAnswer::NotTried(WouldBlock)),
        Ok(UNKNOWN) => Ok(WriteAnswer::Unknown(payload.fault()?)),
        _ => Err(payload.unexpected("the outcome of a write, 0 to 5", rest)),
    }
}
