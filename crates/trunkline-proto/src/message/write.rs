//! WRITE and WRITE_ANSWERS: writes and their outcomes (B-20).
//!
//! PUBLISH, PROVIDER_WRITE and the records of GROUP_WRITE have the same form as WRITE.
//!
//! ```text
//! WRITE PUBLISH PROVIDER_WRITE
//!     first_write u64
//!     count x ( handle zigzag | flags u8 | source ns i64 | quality u32 | ext    | value )
//!                                          if 1            if 2          if 128
//!     flags  1 SOURCE_TIME  2 QUALITY  4 RAW  8 CELL_ONLY  16 TRY  128 EXT
//!     ext    varint length | fields
//!            1 verb u8: 1 SEND  2 REQUEST  3 FORCE  4 UNFORCE
//!            2 expected position: epoch u64 | sequence varint
//!            3 superseded varint
//! ```
//!
//! The write at `index` of the frame has the id `first_write + index`. Ids ascend within a session,
//! and WRITE_ANSWERS refers to them. In PROVIDER_WRITE, the id is the ticket that PROVIDER_ANSWER
//! refers to. Without SOURCE_TIME, the engine sets the source timestamp. Unknown flags may be
//! ignored: a flag that must not be ignored is used only if both ends have its feature. EXT is used
//! only if both ends have the feature REGISTERS. SEND, REQUEST and UNFORCE have no value: its
//! length is 0.
//!
//! An answer in WRITE_ANSWERS:
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
//! A sequence is encoded as the difference from the sequence of the previous answer in the frame,
//! and the first as the difference from 0, modulo 2^64. The most common answer, "applied at the next
//! sequence", takes one byte.

pub use trunkline_types::WriteVerb;
use trunkline_types::wire::{
    encode_value, encoded_len, put_bytes, put_i64, put_u8, put_u32, put_u64, put_varint, put_zigzag,
};
use trunkline_types::{Position, Quality, Timestamp, Value};

use super::fault::put_fault;
use super::form::Fixed;
use super::layout::{Field, FieldSink, FieldValue, FrameContext, Record, record};
use super::list::list_frame;
use super::outcome::{
    APPLIED, REFUSED, SUPERSEDED, UNCHANGED, UNKNOWN, WOULD_BLOCK, WouldBlock, WriteAnswer,
};
use super::record_head::RecordHead;
#[cfg(test)]
use super::round_trip::Source;
#[cfg(test)]
use crate::FaultRef;
use crate::decode::{Items, Payload};
use crate::tlv::{put_field, put_number, put_sized, read_fields};
use crate::{DecodeError, Frame, FrameKind, FrameWriter};

const SOURCE_TIME: u8 = 1;
const QUALITY: u8 = 2;
const RAW: u8 = 4;
const CELL_ONLY: u8 = 8;
const TRY: u8 = 16;
const EXT: u8 = 128;

/// Maximum number of bytes of a record without its value: handle, flags, time, quality and value
/// length.
const HEAD_BYTES_MAX: usize = 28;

/// Minimum number of bytes of a record: handle, flags and value length.
const RECORD_BYTES_MIN: usize = 3;

const FIELD_VERB: u64 = 1;
const FIELD_EXPECTED: u64 = 2;
const FIELD_SUPERSEDED: u64 = 3;

/// Returns the number of a verb in the extension; 0 if the verb needs no extension.
const fn number_of(verb: Result<WriteVerb, u8>) -> u8 {
    match verb {
        Ok(WriteVerb::Put | WriteVerb::Set) => 0,
        Ok(WriteVerb::Send) => 1,
        Ok(WriteVerb::Request) => 2,
        Ok(WriteVerb::Force) => 3,
        Ok(WriteVerb::Unforce) => 4,
        Err(number) => number,
    }
}

const fn verb_of(number: u8) -> Result<WriteVerb, u8> {
    match number {
        1 => Ok(WriteVerb::Send),
        2 => Ok(WriteVerb::Request),
        3 => Ok(WriteVerb::Force),
        4 => Ok(WriteVerb::Unforce),
        other => Err(other),
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WriteOptions {
    /// Time of the measurement; `None` to let the engine set the timestamp.
    pub source_timestamp: Option<Timestamp>,
    /// Quality of the value; `None` for good.
    pub quality: Option<Quality>,
    /// True if the value is raw, so that the engine must scale it.
    pub raw: bool,
    /// The verb, or the number of a verb defined by a newer version.
    pub verb: Result<WriteVerb, u8>,
    /// The write is applied only if the variable is still at this position; `None` for an
    /// unconditional write.
    pub expected: Option<Position>,
    /// Number of earlier writes of this client that were never sent, because this write replaces
    /// them.
    pub superseded: u32,
    /// True to get the answer would-block if a subscriber's buffer is full, instead of waiting.
    pub try_only: bool,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self {
            source_timestamp: None,
            quality: None,
            raw: false,
            verb: Ok(WriteVerb::Put),
            expected: None,
            superseded: 0,
            try_only: false,
        }
    }
}

impl WriteOptions {
    pub fn has_value(&self) -> bool {
        self.verb.is_ok_and(WriteVerb::has_value)
    }

    /// Returns true if an option requires the extended form of a record.
    pub const fn needs_extension(&self) -> bool {
        number_of(self.verb) != 0 || self.expected.is_some() || self.superseded > 0
    }
}

fn read_extension(fields: &mut Payload<'_>, options: &mut WriteOptions) -> Result<(), DecodeError> {
    read_fields(fields, |id, field| {
        match id {
            FIELD_VERB => options.verb = verb_of(field.u8()?),
            FIELD_EXPECTED => {
                options.expected = Some(Position {
                    epoch: field.u64()?,
                    sequence: field.varint()?,
                });
            }
            FIELD_SUPERSEDED => options.superseded = field.varint_u32("a count of writes")?,
            _ => return Ok(false),
        }
        Ok(true)
    })
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WriteRecord<'a> {
    /// The id of the write; in PROVIDER_WRITE, the ticket.
    pub write: u64,
    pub handle: u32,
    /// Time, quality and mode.
    pub options: WriteOptions,
    /// The value in wire form, not validated.
    pub value: &'a [u8],
}

#[derive(Debug)]
#[must_use = "a frame is complete only when it is finished"]
pub struct WriteBuilder<'a> {
    frame: FrameWriter<'a>,
    first_write: u64,
    previous: u32,
}

impl<'a> WriteBuilder<'a> {
    pub fn begin(out: &'a mut Vec<u8>, first_write: u64) -> Self {
        Self::begin_kind(out, FrameKind::Write, first_write)
    }

    pub fn begin_publish(out: &'a mut Vec<u8>, first_write: u64) -> Self {
        Self::begin_kind(out, FrameKind::Publish, first_write)
    }

    pub fn begin_provider_write(out: &'a mut Vec<u8>, first_ticket: u64) -> Self {
        Self::begin_kind(out, FrameKind::ProviderWrite, first_ticket)
    }

    fn begin_kind(out: &'a mut Vec<u8>, kind: FrameKind, first_write: u64) -> Self {
        let mut frame = FrameWriter::begin(out, kind, 0);
        put_u64(frame.payload(), first_write);
        Self {
            frame,
            first_write,
            previous: 0,
        }
    }

    /// Begins a GROUP_WRITE frame; the ids of its writes are their indices.
    pub(crate) fn begin_group(out: &'a mut Vec<u8>, request: u32, flags: u8) -> Self {
        let mut frame = FrameWriter::begin(out, FrameKind::GroupWrite, request);
        put_u8(frame.payload(), flags);
        Self {
            frame,
            first_write: 0,
            previous: 0,
        }
    }

    /// Reserves memory for a write with a long value; returns false if there is not enough memory.
    #[must_use]
    pub fn make_room(&mut self, bytes: usize) -> bool {
        self.frame.payload().try_reserve_exact(bytes).is_ok()
    }

    /// Appends a write with its value in wire form; returns its id.
    ///
    /// # Real-time
    /// Allocates only if the buffer has to grow, at most once per record.
    #[inline]
    pub fn push(&mut self, handle: u32, options: &WriteOptions, value: &[u8]) -> u64 {
        self.push_with(handle, options, value.len(), |out| {
            out.extend_from_slice(value)
        })
    }

    /// Appends a write of `value`; returns its id.
    #[inline]
    pub fn push_value(&mut self, handle: u32, options: &WriteOptions, value: &Value) -> u64 {
        self.push_with(handle, options, encoded_len(value), |out| {
            encode_value(value, out)
        })
    }

    /// Appends a write; returns its id. `encode` must append the value in wire form, which takes
    /// `value_bytes` bytes.
    #[inline]
    pub fn push_with(
        &mut self,
        handle: u32,
        options: &WriteOptions,
        value_bytes: usize,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> u64 {
        let write = self.first_write.wrapping_add(u64::from(self.frame.count()));
        self.frame.count_item();
        encode(match options.needs_extension() {
            true => self.put_extended(handle, options, value_bytes),
            false => self.put_head(handle, options, value_bytes),
        });
        write
    }

    #[inline]
    fn put_head(
        &mut self,
        handle: u32,
        options: &WriteOptions,
        value_bytes: usize,
    ) -> &mut Vec<u8> {
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        let mut flags = flag(options.raw, RAW)
            | flag(options.verb == Ok(WriteVerb::Set), CELL_ONLY)
            | flag(options.try_only, TRY);
        let out = self.frame.payload();
        let mut head = RecordHead::<HEAD_BYTES_MAX>::begin(out, value_bytes);
        head.zigzag(i64::from(handle).wrapping_sub(i64::from(self.previous)));
        self.previous = handle;
        head.flags_here();
        if let Some(time) = options.source_timestamp {
            flags |= SOURCE_TIME;
            head.fixed(time.as_nanos().to_le_bytes());
        }
        if let Some(quality) = options.quality {
            flags |= QUALITY;
            head.fixed(quality.to_bits().to_le_bytes());
        }
        head.varint(value_bytes as u64);
        head.finish_head(flags)
    }

    /// Writes the extended form of a record, which is rare: the usual fields and an extension.
    #[cold]
    fn put_extended(
        &mut self,
        handle: u32,
        options: &WriteOptions,
        value_bytes: usize,
    ) -> &mut Vec<u8> {
        let mut fields = Vec::new();
        if number_of(options.verb) != 0 {
            put_field(&mut fields, FIELD_VERB, &[number_of(options.verb)]);
        }
        if let Some(expected) = options.expected {
            put_varint(&mut fields, FIELD_EXPECTED);
            put_sized(&mut fields, |out| {
                put_u64(out, expected.epoch);
                put_varint(out, expected.sequence);
            });
        }
        if options.superseded > 0 {
            put_number(&mut fields, FIELD_SUPERSEDED, u64::from(options.superseded));
        }
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        let flags = flag(options.raw, RAW)
            | flag(options.verb == Ok(WriteVerb::Set), CELL_ONLY)
            | flag(options.try_only, TRY)
            | flag(options.source_timestamp.is_some(), SOURCE_TIME)
            | flag(options.quality.is_some(), QUALITY)
            | EXT;
        let delta = i64::from(handle).wrapping_sub(i64::from(self.previous));
        self.previous = handle;
        let out = self.frame.payload();
        put_zigzag(out, delta);
        put_u8(out, flags);
        if let Some(time) = options.source_timestamp {
            put_i64(out, time.as_nanos());
        }
        if let Some(quality) = options.quality {
            put_u32(out, quality.to_bits());
        }
        put_bytes(out, &fields);
        put_varint(out, value_bytes as u64);
        out
    }

    pub fn count(&self) -> u32 {
        self.frame.count()
    }

    pub fn len_bytes(&self) -> usize {
        self.frame.len_bytes()
    }

    /// Completes the frame; a frame without writes is removed from the buffer.
    pub fn finish(self) {
        self.frame.finish_list(false, true);
    }
}

/// A WRITE, PUBLISH or PROVIDER_WRITE frame; iterates over the writes.
#[derive(Clone, Debug)]
pub struct Writes<'a> {
    items: Items<'a>,
    first_write: u64,
    next_write: u64,
    previous: u32,
}

impl<'a> Writes<'a> {
    /// Reads the frame, whose kind the caller has checked.
    pub fn decode(frame: &Frame<'a>) -> Result<Self, DecodeError> {
        let kind = match frame.kind() {
            Some(kind @ (FrameKind::Write | FrameKind::Publish | FrameKind::ProviderWrite)) => kind,
            _ => FrameKind::Write,
        };
        let mut payload = Payload::of(frame, kind)?;
        let first_write = payload.u64()?;
        Ok(Self {
            items: Items::new(payload, frame.count(), RECORD_BYTES_MIN)?,
            first_write,
            next_write: first_write,
            previous: 0,
        })
    }

    /// Reads the members of a group, whose ids are their indices.
    pub(crate) fn of_group(payload: Payload<'a>, count: u32) -> Result<Self, DecodeError> {
        Ok(Self {
            items: Items::new(payload, count, RECORD_BYTES_MIN)?,
            first_write: 0,
            next_write: 0,
            previous: 0,
        })
    }

    pub fn first_write(&self) -> u64 {
        self.first_write
    }

    pub fn left(&self) -> u32 {
        self.items.left()
    }
}

impl<'a> Iterator for Writes<'a> {
    type Item = Result<WriteRecord<'a>, DecodeError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let Self {
            next_write,
            previous,
            ..
        } = self;
        self.items.next_with(|payload| {
            let handle = payload.handle(*previous)?;
            *previous = handle;
            let flags = payload.u8()?;
            let mut options = WriteOptions {
                raw: flags & RAW != 0,
                try_only: flags & TRY != 0,
                ..WriteOptions::default()
            };
            if flags & SOURCE_TIME != 0 {
                options.source_timestamp = Some(Timestamp::from_nanos(payload.i64()?));
            }
            if flags & QUALITY != 0 {
                options.quality = Some(Quality::from_bits(payload.u32()?));
            }
            if flags & CELL_ONLY != 0 {
                options.verb = Ok(WriteVerb::Set);
            }
            if flags & EXT != 0 {
                let length = payload.varint_u32("a record extension")?;
                let mut fields = payload.sub(length as usize)?;
                read_extension(&mut fields, &mut options)?;
            }
            let value = payload.prefixed("a value")?;
            let write = *next_write;
            *next_write = write.wrapping_add(1);
            Ok(WriteRecord {
                write,
                handle,
                options,
                value,
            })
        })
    }
}

record! {
    #[derive(Copy, Eq)]
    pub struct WriteAnswersHead {
        /// The id of the first answered write; the ids of the others follow it in order.
        pub first_write: u64 = Fixed,
    }
}

list_frame! {
    WriteAnswersFrame: WriteAnswers, WriteAnswers, WriteAnswersBuilder,
    head WriteAnswersHead, item WriteAnswer<'a>, empty_frame removed
}

impl<'a> Record<'a> for WriteAnswer<'a> {
    const FIELDS: &'static [Field] = &[Field::literal("answer")];

    fn bytes_min(_: &FrameContext) -> usize {
        1
    }

    #[inline]
    fn put(&self, context: &mut FrameContext, out: &mut Vec<u8>) {
        put_answer(out, &mut context.previous_number, self);
    }

    #[inline]
    fn read(context: &mut FrameContext, payload: &mut Payload<'a>) -> Result<Self, DecodeError> {
        read_outcome(payload, &mut context.previous_number)
    }

    fn show(&self, to: &mut dyn FieldSink) {
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
        to.field("outcome", FieldValue::Text(outcome));
        if let Self::Applied(sequence) | Self::Unchanged(sequence) = self {
            to.field("sequence", FieldValue::NumberAsText(*sequence));
        }
    }

    #[cfg(test)]
    fn sample(source: &mut Source<'a>, context: &mut FrameContext) -> Self {
        match source.number() % 6 {
            0 => Self::Applied(source.number()),
            1 => Self::Unchanged(source.number()),
            2 => Self::Superseded,
            3 => Self::Refused(FaultRef::sample(source, context)),
            4 => Self::NotTried(WouldBlock),
            _ => Self::Unknown(FaultRef::sample(source, context)),
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
