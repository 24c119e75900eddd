//! The update record: the wire form of a reading in UPDATES, OPENED and READINGS.
//!
//! ```text
//! flags u8
//!    1 HANDLE_NEXT   handle = handle of the previous record + 1
//!    2 SEQUENCE      a sequence delta follows; otherwise as in the previous record
//!    4 ENGINE_TIME   an engine time delta follows; otherwise as in the previous record
//!    8 SOURCE_TIME   source time - engine time follows; otherwise they are equal
//!   16 QUALITY       a quality follows; otherwise as in the previous record
//!   32 OWN           written by this session
//!   64 NO_VALUE      the variable was not written yet: no value follows
//!  128 EXT           an extension follows, which decoders skip
//!
//! | flags | handle   | sequence | engine ns | source ns | quality | ext    | value     |
//! |  u8   | zigzag   | zigzag   | zigzag    | zigzag    |   u32   | length,| length,   |
//! |       |          |          |           |           |         | bytes  | bytes     |
//!           unless 1   if 2       if 4        if 8        if 16     if 128   unless 64
//! ```
//!
//! The records of a frame are one run. It starts at handle 0, sequence 0, engine time 0 and good
//! quality, and each record is encoded as the difference from the previous one. A run therefore
//! does not depend on earlier frames, and can be encoded once and sent to many clients. Sequences
//! and times wrap modulo 2^64.

use trunkline_types::{Quality, Reason, Timestamp};

use super::record_head::RecordHead;
use crate::DecodeError;
use crate::decode::Payload;

const HANDLE_NEXT: u8 = 1;
const SEQUENCE: u8 = 2;
const ENGINE_TIME: u8 = 4;
const SOURCE_TIME: u8 = 8;
const QUALITY: u8 = 16;
const OWN: u8 = 32;
const NO_VALUE: u8 = 64;
const EXT: u8 = 128;

/// Maximum number of bytes of a record without its value: flags, handle, sequence, two times,
/// quality and value length.
pub const RECORD_HEAD_BYTES_MAX: usize = 50;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UpdateRecord<'a> {
    pub handle: u32,
    /// Sequence of the update within the epoch; 0 if the variable has not been written yet.
    pub sequence: u64,
    /// Time at which the engine accepted the value.
    pub engine_timestamp: Timestamp,
    pub source_timestamp: Timestamp,
    pub quality: Quality,
    /// True if this session wrote the update. The flag is never set in runs that are shared by several
    /// sessions. There, the client recognises its own updates by the answers to its writes, which
    /// precede the updates.
    pub own: bool,
    /// The value in wire form; `None` if the variable has not been written yet.
    pub value: Option<&'a [u8]>,
}

/// The previous record of a run, relative to which the next record is encoded or decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunState {
    handle: u32,
    sequence: u64,
    engine_ns: i64,
    quality: Quality,
}

impl UpdateRecord<'_> {
    /// Returns true if the record is the reading of a variable that has not been written since it
    /// was deployed. Its sequence is then the one that precedes the first update.
    pub fn has_no_value_yet(&self) -> bool {
        self.value.is_none() && self.quality == Quality::bad(Reason::NoValue)
    }

    /// Creates the reading of a variable that was never written.
    pub fn nothing_yet(handle: u32) -> Self {
        Self {
            handle,
            sequence: 0,
            engine_timestamp: Timestamp::UNIX_EPOCH,
            source_timestamp: Timestamp::UNIX_EPOCH,
            quality: Quality::bad(Reason::NoValue),
            own: false,
            value: None,
        }
    }
}

impl Default for RunState {
    fn default() -> Self {
        Self::START
    }
}

impl RunState {
    pub const START: RunState = RunState {
        handle: 0,
        sequence: 0,
        engine_ns: 0,
        quality: Quality::GOOD,
    };

    /// Sets the expected handle of the next record, so that encoding this handle takes no bytes.
    pub(crate) fn expect_handle(&mut self, handle: u32) {
        self.handle = handle.wrapping_sub(1);
    }

    /// Appends a record.
    ///
    /// # Real-time
    /// Allocates only if `out` has to grow, at most once per record.
    #[inline]
    pub fn put(&mut self, out: &mut Vec<u8>, record: &UpdateRecord<'_>) {
        self.put_behind::<0>(out, [], record);
    }

    /// Like [`put`](Self::put), but writes `before` ahead of the record.
    #[inline(always)]
    pub(crate) fn put_behind<const N: usize>(
        &mut self,
        out: &mut Vec<u8>,
        before: [u8; N],
        record: &UpdateRecord<'_>,
    ) {
        let value = record.value.unwrap_or_default();
        let mut head = RecordHead::<{ RECORD_HEAD_BYTES_MAX + 1 }>::begin(out, value.len());
        const { assert!(N <= 1) };
        head.fixed(before);
        head.flags_here();
        let mut flags = 0;
        if record.handle == self.handle.wrapping_add(1) {
            flags |= HANDLE_NEXT;
        } else {
            head.zigzag(i64::from(record.handle).wrapping_sub(i64::from(self.handle)));
        }
        if record.sequence != self.sequence {
            flags |= SEQUENCE;
            head.zigzag(record.sequence.wrapping_sub(self.sequence) as i64);
        }
        let engine_ns = record.engine_timestamp.as_nanos();
        if engine_ns != self.engine_ns {
            flags |= ENGINE_TIME;
            head.zigzag(engine_ns.wrapping_sub(self.engine_ns));
        }
        if record.source_timestamp != record.engine_timestamp {
            flags |= SOURCE_TIME;
            head.zigzag(record.source_timestamp.as_nanos().wrapping_sub(engine_ns));
        }
        if record.quality != self.quality {
            flags |= QUALITY;
            head.fixed(record.quality.to_bits().to_le_bytes());
        }
        if record.own {
            flags |= OWN;
        }
        match record.value {
            Some(value) => head.varint(value.len() as u64),
            None => flags |= NO_VALUE,
        }
        head.finish(flags, value);
        *self = Self {
            handle: record.handle,
            sequence: record.sequence,
            engine_ns,
            quality: record.quality,
        };
    }

    #[inline(always)]
    pub(crate) fn read<'a>(
        &mut self,
        payload: &mut Payload<'a>,
    ) -> Result<UpdateRecord<'a>, DecodeError> {
        let flags = payload.u8()?;
        if flags & HANDLE_NEXT != 0 {
            self.handle = self.handle.wrapping_add(1);
        } else {
            self.handle = payload.handle(self.handle)?;
        }
        if flags & SEQUENCE != 0 {
            self.sequence = self.sequence.wrapping_add_signed(payload.zigzag()?);
        }
        if flags & ENGINE_TIME != 0 {
            self.engine_ns = self.engine_ns.wrapping_add(payload.zigzag()?);
        }
        let mut source_ns = self.engine_ns;
        if flags & SOURCE_TIME != 0 {
            source_ns = source_ns.wrapping_add(payload.zigzag()?);
        }
        if flags & QUALITY != 0 {
            self.quality = Quality::from_bits(payload.u32()?);
        }
        if flags & EXT != 0 {
            payload.prefixed("a record extension")?;
        }
        let value = match flags & NO_VALUE {
            0 => Some(payload.prefixed("a value")?),
            _ => None,
        };
        Ok(UpdateRecord {
            handle: self.handle,
            sequence: self.sequence,
            engine_timestamp: Timestamp::from_nanos(self.engine_ns),
            source_timestamp: Timestamp::from_nanos(source_ns),
            quality: self.quality,
            own: flags & OWN != 0,
            value,
        })
    }
}
