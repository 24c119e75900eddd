//! The variable's newest update in a last-value cell that is read without a lock.
//!
//! ```text
//! word 0  source timestamp, ns
//! word 1  engine timestamp, ns
//! word 2  quality (low 32 bits), writer's session (high)
//! word 3  fixed-size types: the value's wire form; others: its length in bytes
//! word 4..6  the value, or nothing when it is longer than 24 bytes: then it is a counted buffer
//!            under the variable's lock
//! ```
//!
//! The cell's count of publications *is* the variable's sequence: both rise by one per commit.

use trunkline_ring::LastValue;
use trunkline_types::{DataType, Quality, Timestamp};

use crate::update::{Encoded, INLINE_BYTES, INLINE_WORDS, Update};
use crate::variable::fast_path::PlainUpdate;

const HEADER_WORDS: usize = 3;
const LENGTH_WORDS: usize = 1;
const WORDS_MAX: usize = HEADER_WORDS + LENGTH_WORDS + INLINE_WORDS;

pub(crate) enum CellRead {
    Complete(Update),
    /// The value is a counted buffer. Read again under the variable's lock.
    Shared,
    /// The writer lapped this reader on every attempt, so there is no complete update.
    Lapped,
}

#[derive(Debug)]
pub(crate) struct Cell {
    last: LastValue,
}

impl Cell {
    pub(crate) fn new(data_type: &DataType) -> Self {
        Self {
            last: LastValue::new(words(data_type)),
        }
    }

    pub(crate) fn sequence(&self) -> u64 {
        self.last.count()
    }

    /// Publishes the next update and returns its sequence. The caller holds the variable's lock.
    #[inline]
    pub(crate) fn publish(&self, data_type: &DataType, update: &Update) -> u64 {
        let mut buffer = [0u64; WORDS_MAX];
        buffer[0] = update.source_timestamp.as_nanos() as u64;
        buffer[1] = update.engine_timestamp.as_nanos() as u64;
        buffer[2] = u64::from(update.quality.to_bits()) | (u64::from(update.writer) << 32);
        let words = update.value.words();
        let count = if data_type.fixed_size().is_some() {
            // A value of fixed size takes one word.
            buffer[HEADER_WORDS] = words[0];
            HEADER_WORDS + 1
        } else {
            buffer[HEADER_WORDS] = update.value.as_slice().len() as u64;
            buffer[HEADER_WORDS + LENGTH_WORDS..].copy_from_slice(&words);
            WORDS_MAX
        };
        self.last.publish(&buffer[..count])
    }

    /// Like [`publish`](Self::publish), for a number with `stamp` as both timestamps.
    #[inline]
    pub(crate) fn publish_word(
        &self,
        stamp: Timestamp,
        quality: Quality,
        writer: u32,
        word: u64,
    ) -> u64 {
        let stamp = stamp.as_nanos() as u64;
        let about = u64::from(quality.to_bits()) | (u64::from(writer) << 32);
        self.last.publish(&[stamp, stamp, about, word])
    }

    /// Returns the newest update of a number, or `None` if there is none yet or writers overtook
    /// this reader on every attempt.
    #[inline]
    pub(crate) fn read_word(&self) -> Option<PlainUpdate> {
        let (sequence, words) = self.last.read_words::<{ HEADER_WORDS + 1 }>()?;
        let [source, engine, about, word] = words;
        (sequence > 0).then(|| PlainUpdate {
            sequence,
            source_timestamp: Timestamp::from_nanos(source as i64),
            engine_timestamp: Timestamp::from_nanos(engine as i64),
            quality: Quality::from_bits(about as u32),
            writer: (about >> 32) as u32,
            word,
        })
    }

    pub(crate) fn read(&self, data_type: &DataType) -> CellRead {
        let mut buffer = [0u64; WORDS_MAX];
        let fixed = data_type.fixed_size();
        let count = if fixed.is_some() {
            HEADER_WORDS + 1
        } else {
            WORDS_MAX
        };
        let snapshot = self.last.read(&mut buffer[..count]);
        if !snapshot.complete {
            return CellRead::Lapped;
        }
        if snapshot.count == 0 {
            return CellRead::Complete(Update {
                sequence: 0,
                source_timestamp: Timestamp::UNIX_EPOCH,
                engine_timestamp: Timestamp::UNIX_EPOCH,
                quality: Quality::bad(trunkline_types::Reason::NoValue),
                writer: 0,
                value: Encoded::EMPTY,
            });
        }
        let mut words = [0; INLINE_WORDS];
        let len = match fixed {
            Some(size) => {
                words[0] = buffer[HEADER_WORDS];
                size
            }
            None => {
                let len = buffer[HEADER_WORDS] as usize;
                if len > INLINE_BYTES {
                    return CellRead::Shared;
                }
                words.copy_from_slice(&buffer[HEADER_WORDS + LENGTH_WORDS..]);
                len
            }
        };
        let value = Encoded::from_words(&words, len);
        CellRead::Complete(header(&buffer, snapshot.count, value))
    }

    /// Returns the header of the newest update with a value supplied by the caller. The caller
    /// holds the variable's lock, so no writer overtakes the read.
    pub(crate) fn read_with(&self, value: Encoded) -> Update {
        let mut buffer = [0u64; WORDS_MAX];
        let width = self.last.words().min(WORDS_MAX);
        let snapshot = self.last.read(&mut buffer[..width]);
        header(&buffer, snapshot.count, value)
    }
}

fn header(buffer: &[u64; WORDS_MAX], sequence: u64, value: Encoded) -> Update {
    Update {
        sequence,
        source_timestamp: Timestamp::from_nanos(buffer[0] as i64),
        engine_timestamp: Timestamp::from_nanos(buffer[1] as i64),
        quality: Quality::from_bits(buffer[2] as u32),
        writer: (buffer[2] >> 32) as u32,
        value,
    }
}

fn words(data_type: &DataType) -> usize {
    if data_type.fixed_size().is_some() {
        HEADER_WORDS + 1
    } else {
        WORDS_MAX
    }
}
