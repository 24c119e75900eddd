//! One numbered update with its value in wire form, and the cell that stores the newest one.

use std::sync::Arc;

use trunkline_ring::LastValue;
use trunkline_types::{DataType, Quality, Reason, Timestamp, Value, wire};

/// Maximum length of a value that is stored in place. Longer values are stored in reference-counted
/// buffers.
pub const INLINE_BYTES: usize = 24;
const INLINE_WORDS: usize = INLINE_BYTES / 8;

/// A value in wire form, as stored in cells and queues and as copied to the network.
#[derive(Clone, Debug)]
pub struct Encoded(Form);

#[derive(Clone, Debug)]
enum Form {
    /// The bytes from `len` on are zero.
    Inline {
        len: u8,
        bytes: Words,
    },
    Shared(Arc<[u8]>),
}

/// Length from which copying a value fails if the system lacks memory. If a smaller allocation
/// fails, the process aborts.
pub const LARGE_BYTES: usize = 64 << 10;

/// Maximum margin of memory that must remain free after allocating a large value, for allocations
/// that cannot fail gracefully.
const MARGIN_BYTES: usize = 8 << 20;

/// The bytes of a value stored in place. Aligned to 8 bytes, so that they are copied word by word.
#[derive(Clone, Copy, Debug)]
#[repr(align(8))]
struct Words([u8; INLINE_BYTES]);

impl Encoded {
    /// The empty value of a variable that was never written.
    pub const EMPTY: Encoded = Encoded(Form::Inline {
        len: 0,
        bytes: Words([0; INLINE_BYTES]),
    });

    /// Returns a number as `f64`; NaN for a value of another type, without decoding it.
    #[inline]
    pub(crate) fn to_f64(&self, data_type: &DataType) -> f64 {
        let bytes = self.as_slice();
        let word = match (<[u8; 8]>::try_from(bytes), <[u8; 4]>::try_from(bytes)) {
            (Ok(bytes), _) => u64::from_le_bytes(bytes),
            (_, Ok(bytes)) => u64::from(u32::from_le_bytes(bytes)),
            _ => return self.small_to_f64(data_type),
        };
        f64_of_word(word, data_type)
    }

    /// [`to_f64`](Self::to_f64) for values whose length is neither 4 nor 8 bytes.
    #[cold]
    fn small_to_f64(&self, data_type: &DataType) -> f64 {
        match data_type.fixed_size() {
            Some(_) => self.decode(data_type).as_f64().unwrap_or(f64::NAN),
            None => f64::NAN,
        }
    }

    /// Copies `bytes`, which must be a value's wire form.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let mut inline = [0; INLINE_BYTES];
        match inline.get_mut(..bytes.len()) {
            Some(place) => {
                place.copy_from_slice(bytes);
                Self(Form::Inline {
                    len: bytes.len() as u8,
                    bytes: Words(inline),
                })
            }
            None => Self(Form::Shared(Arc::from(bytes))),
        }
    }

    /// Like [`from_bytes`](Self::from_bytes), but fails if the system lacks memory.
    pub fn try_from_bytes(bytes: &[u8]) -> Result<Self, NoMemory> {
        // A separate form for large values could be allocated fallibly, but would cost every small
        // update 3 % more instructions.
        check_room(bytes.len())?;
        Ok(Self::from_bytes(bytes))
    }

    /// Returns the first `len` bytes of these words in little-endian order; `len` is at most
    /// [`INLINE_BYTES`].
    #[inline]
    pub(crate) fn from_words(words: &[u64; INLINE_WORDS], len: usize) -> Self {
        let mut bytes = [0; INLINE_BYTES];
        for (chunk, word) in bytes.chunks_exact_mut(8).zip(words) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        Self(Form::Inline {
            len: len.min(INLINE_BYTES) as u8,
            bytes: Words(bytes),
        })
    }

    /// Returns the bytes as words in little-endian order, padded with zeros; all zero if the value
    /// is in a reference-counted buffer.
    #[inline]
    pub(crate) fn words(&self) -> [u64; INLINE_WORDS] {
        let mut words = [0; INLINE_WORDS];
        if let Form::Inline { bytes, .. } = &self.0 {
            let (chunks, _) = bytes.0.as_chunks::<8>();
            for (word, chunk) in words.iter_mut().zip(chunks) {
                *word = u64::from_le_bytes(*chunk);
            }
        }
        words
    }

    #[inline]
    pub fn from_value(value: &Value) -> Self {
        match word_of(value) {
            Some((word, len)) => Self::from_words(&[word, 0, 0], len),
            None => Self::from_other(value),
        }
    }

    /// Encodes the default value of a type, or fails if the system lacks memory.
    pub(crate) fn try_default_of(data_type: &DataType) -> Result<Self, NoMemory> {
        // The value and its wire form exist in memory at the same time.
        let bytes = default_bytes(data_type);
        check_room(bytes.saturating_mul(2)).map_err(|_| NoMemory { bytes })?;
        let mut encoded = Self::EMPTY;
        encoded.try_set(&Value::default_of(data_type))?;
        Ok(encoded)
    }

    /// Encodes `value` into `self`. A number is written in place, because building it elsewhere and
    /// moving it here would take longer than everything else.
    #[inline]
    pub(crate) fn set(&mut self, value: &Value) {
        match (word_of(value), &mut self.0) {
            (Some((word, new_len)), Form::Inline { len, bytes }) => {
                *len = new_len as u8;
                bytes.0 = [0; INLINE_BYTES];
                bytes.0[..8].copy_from_slice(&word.to_le_bytes());
            }
            _ => *self = Self::from_value(value),
        }
    }

    /// Like [`set`](Self::set), but fails if the system lacks memory.
    #[inline]
    pub(crate) fn try_set(&mut self, value: &Value) -> Result<(), NoMemory> {
        match word_of(value) {
            Some(_) => self.set(value),
            None => *self = Self::try_from_other(value)?,
        }
        Ok(())
    }

    /// Not inlined, so that only the encoding of common types is inlined into callers.
    #[inline(never)]
    fn from_other(value: &Value) -> Self {
        let mut bytes = Vec::new();
        wire::encode_value(value, &mut bytes);
        Self::from_bytes(&bytes)
    }

    #[inline(never)]
    fn try_from_other(value: &Value) -> Result<Self, NoMemory> {
        let len = wire::encoded_len(value);
        if len < LARGE_BYTES {
            return Ok(Self::from_other(value));
        }
        let mut bytes = Vec::new();
        let reserved = bytes.try_reserve_exact(len);
        reserved.map_err(|_| NoMemory { bytes: len })?;
        wire::encode_value(value, &mut bytes);
        Self::try_from_bytes(&bytes)
    }

    pub fn as_slice(&self) -> &[u8] {
        match &self.0 {
            Form::Inline { len, bytes } => bytes.0.get(..usize::from(*len)).unwrap_or(&bytes.0),
            Form::Shared(bytes) => bytes,
        }
    }

    /// Returns the reference-counted buffer, if the value is too long to be stored in place.
    pub(crate) fn shared(&self) -> Option<&Arc<[u8]>> {
        match &self.0 {
            Form::Inline { .. } => None,
            Form::Shared(bytes) => Some(bytes),
        }
    }

    pub(crate) fn shared_bytes(&self) -> usize {
        self.shared().map_or(0, |bytes| bytes.len())
    }

    pub(crate) fn from_shared(bytes: Arc<[u8]>) -> Self {
        Self(Form::Shared(bytes))
    }

    /// Like [`decode`](Self::decode), but fails if the system lacks memory.
    pub fn try_decode(&self, data_type: &DataType) -> Result<Value, NoMemory> {
        check_room_to_decode(data_type, self.as_slice())?;
        Ok(self.decode(data_type))
    }

    /// Decodes the value. Returns the type's default if the bytes are not a value of `data_type`.
    /// That cannot happen, because the write path checks every value before committing it.
    pub fn decode(&self, data_type: &DataType) -> Value {
        wire::decode_exact(data_type, self.as_slice())
            .unwrap_or_else(|_| Value::default_of(data_type))
    }
}

impl PartialEq for Encoded {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

/// Returns the size of a type's default value in bytes. Only arrays of a fixed shape have a long
/// one.
#[expect(clippy::wildcard_enum_match_arm, reason = "only these types matter")]
fn default_bytes(data_type: &DataType) -> usize {
    match data_type {
        DataType::Array(ty) => {
            let lengths = ty.shape.iter().map(|length| length.unwrap_or(0) as usize);
            let count = lengths.fold(1, usize::saturating_mul);
            count.saturating_mul(ty.element.fixed_size().unwrap_or(size_of::<Arc<str>>()))
        }
        DataType::Struct(ty) => {
            let fields = ty.fields.iter().map(|(_, ty)| default_bytes(ty));
            fields.fold(0, usize::saturating_add)
        }
        _ => 0,
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "the engine's machine does not have {bytes} bytes of memory left for the value; try again \
     later, or give the engine more memory"
)]
pub struct NoMemory {
    pub bytes: usize,
}

/// Checks that the system has memory for a large value plus a margin.
///
/// A reference-counted buffer cannot be allocated fallibly. The memory is therefore allocated as a
/// vector, freed untouched, and then allocated again by the caller.
pub(crate) fn check_room(bytes: usize) -> Result<(), NoMemory> {
    if bytes < LARGE_BYTES {
        return Ok(());
    }
    let mut room: Vec<u8> = Vec::new();
    let with_margin = bytes.saturating_add(bytes.min(MARGIN_BYTES));
    let reserved = room.try_reserve_exact(with_margin);
    reserved.map_err(|_| NoMemory { bytes })?;
    // Prevents the compiler from removing an allocation whose memory is never used.
    std::hint::black_box(&mut room);
    Ok(())
}

/// Checks that the system has memory for the decoded form of a large value in wire form.
pub fn check_room_to_decode(data_type: &DataType, bytes: &[u8]) -> Result<(), NoMemory> {
    if bytes.len() < LARGE_BYTES {
        return Ok(());
    }
    check_room(wire::decoded_bytes_max(data_type, bytes))
        .map_err(|_| NoMemory { bytes: bytes.len() })
}

/// Returns the wire form of the most common types as a word, with its length in bytes.
#[expect(clippy::wildcard_enum_match_arm, reason = "only these values matter")]
#[inline]
fn word_of(value: &Value) -> Option<(u64, usize)> {
    Some(match value {
        Value::F64(v) => (v.to_bits(), 8),
        Value::F32(v) => (u64::from(v.to_bits()), 4),
        Value::I64(v) => (*v as u64, 8),
        Value::I32(v) => (u64::from(*v as u32), 4),
        Value::Bool(v) => (u64::from(*v), 1),
        _ => return None,
    })
}

/// One update of a variable, numbered at its commit.
#[derive(Clone, Debug)]
pub struct Update {
    /// Its number within the epoch; 0 if the variable has not been written since it was deployed.
    pub sequence: u64,
    pub source_timestamp: Timestamp,
    pub engine_timestamp: Timestamp,
    pub quality: Quality,
    /// Session that wrote it; 0 for the engine and its I/O servers.
    pub writer: u32,
    /// The value; empty if `sequence` is 0.
    pub value: Encoded,
}

impl Update {
    /// Creates an update that has no sequence yet.
    pub(crate) fn new(stamp: Timestamp, quality: Quality, writer: u32, value: Encoded) -> Self {
        Self {
            sequence: 0,
            source_timestamp: stamp,
            engine_timestamp: stamp,
            quality,
            writer,
            value,
        }
    }
}

/// Converts a number of 4 or 8 bytes, given as a word in wire form, to `f64`; NaN for a value of
/// another type.
#[inline]
#[expect(clippy::wildcard_enum_match_arm, reason = "only these types matter")]
pub(crate) fn f64_of_word(word: u64, data_type: &DataType) -> f64 {
    match data_type {
        DataType::F64 => f64::from_bits(word),
        DataType::F32 => f64::from(f32::from_bits(word as u32)),
        DataType::I64 => word as i64 as f64,
        DataType::I32 => f64::from(word as u32 as i32),
        DataType::U64 => word as f64,
        DataType::U32 => f64::from(word as u32),
        _ => f64::NAN,
    }
}

/// An update of a number, with its value as a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlainUpdate {
    /// Its sequence within the epoch.
    pub sequence: u64,
    /// Time at which the value was measured; the Unix epoch if the variable has no timestamps.
    pub source_timestamp: Timestamp,
    pub engine_timestamp: Timestamp,
    pub quality: Quality,
    pub writer: u32,
    /// The value in wire form, little-endian, padded with zeros.
    pub word: u64,
}

const HEADER_WORDS: usize = 3;
const LENGTH_WORDS: usize = 1;
const WORDS_MAX: usize = HEADER_WORDS + LENGTH_WORDS + INLINE_WORDS;

/// The variable's newest update in a last-value cell that is read without a lock.
///
/// ```text
/// word 0  source timestamp, ns
/// word 1  engine timestamp, ns
/// word 2  quality (low 32 bits), writer's session (high)
/// word 3  fixed-size types: the value's wire form; others: its length in bytes
/// word 4..6  the value; unused if it is longer than 24 bytes: then it is in a reference-counted
///            buffer under the variable's lock
/// ```
///
/// The sequence of the newest update is `base` plus the cell's count of publications: both increase by
/// one per commit.
#[derive(Debug)]
pub(crate) struct Cell {
    /// Its tag is the sequence before the first update.
    last: LastValue,
}

impl Cell {
    /// Creates a cell whose first update follows the sequence `base`.
    pub(crate) fn new(data_type: &DataType, base: u64) -> Self {
        Self {
            last: LastValue::with_tag(words(data_type), base),
        }
    }

    #[inline]
    pub(crate) fn base(&self) -> u64 {
        self.last.tag()
    }

    /// Returns the number of updates.
    pub(crate) fn count(&self) -> u64 {
        self.last.count()
    }

    /// Returns the sequence of the newest update; 0 if there is none.
    pub(crate) fn sequence(&self) -> u64 {
        match self.last.count() {
            0 => 0,
            count => count + self.base(),
        }
    }

    /// Publishes the next update and returns its sequence. The caller holds the variable's lock.
    ///
    /// Always inlined, because the choice of the compiler varies with unrelated changes.
    #[inline(always)]
    pub(crate) fn publish(&self, data_type: &DataType, update: &Update) -> u64 {
        let source = update.source_timestamp.as_nanos() as u64;
        let engine = update.engine_timestamp.as_nanos() as u64;
        let quality_and_writer =
            u64::from(update.quality.to_bits()) | (u64::from(update.writer) << 32);
        let [first, second, third] = update.value.words();
        if data_type.fixed_size().is_some() {
            // A value of fixed size takes one word.
            let words = [source, engine, quality_and_writer, first];
            return self.base() + self.last.publish(&words);
        }
        let length = update.value.as_slice().len() as u64;
        let words = [
            source,
            engine,
            quality_and_writer,
            length,
            first,
            second,
            third,
        ];
        self.base() + self.last.publish(&words)
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
        let quality_and_writer = u64::from(quality.to_bits()) | (u64::from(writer) << 32);
        let words = [stamp, stamp, quality_and_writer, word];
        self.base() + self.last.publish(&words)
    }

    /// Returns the newest update of a number, or `None` if there is none yet or if writers overtook
    /// this reader on every attempt.
    #[inline]
    pub(crate) fn read_word(&self) -> Option<PlainUpdate> {
        let (count, words) = self.last.read_words::<{ HEADER_WORDS + 1 }>()?;
        let [source, engine, quality_and_writer, word] = words;
        (count > 0).then(|| PlainUpdate {
            sequence: count + self.base(),
            source_timestamp: Timestamp::from_nanos(source as i64),
            engine_timestamp: Timestamp::from_nanos(engine as i64),
            quality: Quality::from_bits(quality_and_writer as u32),
            writer: (quality_and_writer >> 32) as u32,
            word,
        })
    }

    /// Returns the newest update, or `None` if its value is in a reference-counted buffer or if
    /// writers overtook this reader on every attempt. The caller then reads under the variable's
    /// lock.
    pub(crate) fn read(&self, data_type: &DataType) -> Option<Update> {
        let mut buffer = [0u64; WORDS_MAX];
        let fixed = data_type.fixed_size();
        let count = if fixed.is_some() {
            HEADER_WORDS + 1
        } else {
            WORDS_MAX
        };
        let snapshot = self.last.read(&mut buffer[..count]);
        if !snapshot.complete {
            return None;
        }
        if snapshot.count == 0 {
            return Some(Update {
                sequence: 0,
                source_timestamp: Timestamp::UNIX_EPOCH,
                engine_timestamp: Timestamp::UNIX_EPOCH,
                quality: Quality::bad(Reason::NoValue),
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
                    return None;
                }
                words.copy_from_slice(&buffer[HEADER_WORDS + LENGTH_WORDS..]);
                len
            }
        };
        let value = Encoded::from_words(&words, len);
        Some(header(&buffer, snapshot.count + self.base(), value))
    }

    /// Returns the header of the newest update with a value supplied by the caller. The caller
    /// holds the variable's lock, so no writer can overtake the read.
    pub(crate) fn read_with(&self, value: Encoded) -> Update {
        let mut buffer = [0u64; WORDS_MAX];
        let width = self.last.words().min(WORDS_MAX);
        let count = self.last.read(&mut buffer[..width]).count;
        let sequence = match count {
            0 => 0,
            count => count + self.base(),
        };
        header(&buffer, sequence, value)
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
