//! WRITE_ANSWERS: the packed outcomes of a run of writes (B-20).
//!
//! ```text
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

use trunkline_types::wire::{put_varint, put_zigzag};

use super::fault::put_fault;
use super::form::Fixed;
use super::layout::{Field, Record, Run, Show, Shown, record};
use super::list::list_frame;
use super::outcome::{
    APPLIED, REFUSED, SUPERSEDED, UNCHANGED, UNKNOWN, WOULD_BLOCK, WouldBlock, WriteAnswer,
};
#[cfg(test)]
use super::round_trip::Source;
use crate::DecodeError;
#[cfg(test)]
use crate::FaultRef;
use crate::decode::Payload;

record! {
    #[derive(Copy, Eq)]
    pub struct WriteAnswersHead {
        /// The id of the first write answered; those of the others follow it.
        pub first_write: u64 = Fixed,
    }
}

list_frame! {
    WriteAnswersFrame: WriteAnswers, WriteAnswers, WriteAnswersBuilder,
    head WriteAnswersHead, item WriteAnswer<'a>, empty removed
}

impl<'a> Record<'a> for WriteAnswer<'a> {
    const FIELDS: &'static [Field] = &[Field::drawn("answer")];

    fn bytes_min(_: &Run) -> usize {
        1
    }

    #[inline]
    fn put(&self, run: &mut Run, out: &mut Vec<u8>) {
        put_answer(out, &mut run.ticket, self);
    }

    #[inline]
    fn read(run: &mut Run, payload: &mut Payload<'a>) -> Result<Self, DecodeError> {
        read_outcome(payload, &mut run.ticket)
    }

    fn show(&self, to: &mut dyn Show) {
        if let Self::Refused(fault) | Self::Unknown(fault) = self {
            fault.show(to);
        }
        let outcome = match self {
            Self::Applied(_) => "applied",
            Self::Unchanged(_) => "unchanged",
            Self::Superseded => "superseded",
            Self::Refused(_) => "refused",
            Self::NotTried(WouldBlock) => "would-block",
            Self::Unknown(_) => "unknown",
        };
        to.field("outcome", Shown::Text(outcome));
        if let Self::Applied(sequence) | Self::Unchanged(sequence) = self {
            to.field("sequence", Shown::Digits(*sequence));
        }
    }

    #[cfg(test)]
    fn sample(source: &mut Source<'a>, run: &mut Run) -> Self {
        match source.number() % 6 {
            0 => Self::Applied(source.number()),
            1 => Self::Unchanged(source.number()),
            2 => Self::Superseded,
            3 => Self::Refused(FaultRef::sample(source, run)),
            4 => Self::NotTried(WouldBlock),
            _ => Self::Unknown(FaultRef::sample(source, run)),
        }
    }
}

/// Appends an outcome; `previous` is the sequence of the previous answer.
#[inline]
fn put_answer(out: &mut Vec<u8>, previous: &mut u64, outcome: &WriteAnswer<'_>) {
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

/// Reads an outcome; `previous` is the sequence of the previous answer.
#[inline]
fn read_outcome<'a>(
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
