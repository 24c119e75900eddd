//! One numbered update, with its value in wire form.

use std::sync::Arc;

use trunkline_types::{DataType, Quality, Timestamp, Value, wire};

/// Bytes of a value that are kept in place; longer values are counted buffers.
pub const INLINE_BYTES: usize = 24;
/// The same in words.
pub(crate) const INLINE_WORDS: usize = INLINE_BYTES / 8;

/// A value in wire form: what cells and queues hold and what is copied to the network.
#[derive(Clone, Debug)]
pub struct Encoded(Form);

#[derive(Clone, Debug)]
enum Form {
    /// Behind `len` bytes there are zeros.
    Inline {
        len: u8,
        bytes: Words,
    },
    Shared(Arc<[u8]>),
}

/// From this length on a copy of a value is refused where the system has no memory for it; for
/// less it has some, or nothing goes on.
pub const LARGE_BYTES: usize = 64 << 10;

/// The last of the memory is for what cannot be refused: a value takes none of it.
const MARGIN_BYTES: usize = 8 << 20;

/// Aligned, so that it is copied word by word.
#[derive(Clone, Copy, Debug)]
#[repr(align(8))]
struct Words([u8; INLINE_BYTES]);

impl Encoded {
    /// No value: nothing was written yet.
    pub const EMPTY: Encoded = Encoded(Form::Inline {
        len: 0,
        bytes: Words([0; INLINE_BYTES]),
    });

    /// A copy of `bytes`, which are a value's wire form.
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

    /// [`from_bytes`](Self::from_bytes), where the system has the memory.
    ///
    /// # Errors
    /// [`NoMemory`], for a value of [`LARGE_BYTES`] or more.
    pub fn try_from_bytes(bytes: &[u8]) -> Result<Self, NoMemory> {
        // A form of its own for large values would be asked for directly, but costs every small
        // update 3 % more instructions.
        check_room(bytes.len())?;
        Ok(Self::from_bytes(bytes))
    }

    /// The `len` bytes that these words hold in little-endian order; at most [`INLINE_BYTES`].
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

    /// The bytes as words in little-endian order, filled up with zeros; all zero when they are kept
    /// in a counted buffer.
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

    /// The wire form of `value`.
    #[inline]
    pub fn from_value(value: &Value) -> Self {
        match word_of(value) {
            Some((word, len)) => Self::from_words(&[word, 0, 0], len),
            None => Self::from_other(value),
        }
    }

    /// The wire form of the default of a type, where the system has the memory.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub(crate) fn try_default_of(data_type: &DataType) -> Result<Self, NoMemory> {
        // The value beside its wire form.
        let bytes = default_bytes(data_type);
        check_room(bytes.saturating_mul(2)).map_err(|_| NoMemory { bytes })?;
        let mut encoded = Self::EMPTY;
        encoded.try_set(&Value::default_of(data_type))?;
        Ok(encoded)
    }

    /// Becomes the wire form of `value`, a number in place: to make it elsewhere and move it here
    /// takes longer than all the rest.
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

    /// [`set`](Self::set), where the system has the memory.
    #[inline]
    pub(crate) fn try_set(&mut self, value: &Value) -> Result<(), NoMemory> {
        match word_of(value) {
            Some(_) => self.set(value),
            None => *self = Self::try_from_other(value)?,
        }
        Ok(())
    }

    /// Apart, so that the common types are encoded where they are needed.
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

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        match &self.0 {
            Form::Inline { len, bytes } => bytes.0.get(..usize::from(*len)).unwrap_or(&bytes.0),
            Form::Shared(bytes) => bytes,
        }
    }

    /// The counted buffer, when the value is too long to be kept in place.
    pub(crate) fn shared(&self) -> Option<&Arc<[u8]>> {
        match &self.0 {
            Form::Inline { .. } => None,
            Form::Shared(bytes) => Some(bytes),
        }
    }

    /// Bytes that it holds beside itself.
    pub(crate) fn shared_bytes(&self) -> usize {
        self.shared().map_or(0, |bytes| bytes.len())
    }

    pub(crate) fn from_shared(bytes: Arc<[u8]>) -> Self {
        Self(Form::Shared(bytes))
    }

    /// [`decode`](Self::decode), where the system has the memory.
    ///
    /// # Errors
    /// [`NoMemory`], for a value of [`LARGE_BYTES`] or more.
    pub fn try_decode(&self, data_type: &DataType) -> Result<Value, NoMemory> {
        check_room_to_decode(data_type, self.as_slice())?;
        Ok(self.decode(data_type))
    }

    /// The value; the type's default when the bytes are not one of `data_type`, which the write
    /// path excludes by checking every value before it commits it.
    pub fn decode(&self, data_type: &DataType) -> Value {
        let mut reader = wire::Reader::new(self.as_slice());
        wire::decode_value(data_type, &mut reader).unwrap_or_else(|_| Value::default_of(data_type))
    }
}

impl PartialEq for Encoded {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

/// Bytes of the default of a type: only arrays of a fixed shape have a long one.
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

/// The system has no memory for a large value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "the engine's machine has no {bytes} bytes of memory left for the value; try again later, or \
     give the engine more memory"
)]
pub struct NoMemory {
    /// Bytes of the value.
    pub bytes: usize,
}

/// Whether the system has memory for a large value, and some beside it.
///
/// No counted buffer can be asked for fallibly. So the memory is asked for and given back
/// untouched, and the caller then takes it.
pub(crate) fn check_room(bytes: usize) -> Result<(), NoMemory> {
    if bytes < LARGE_BYTES {
        return Ok(());
    }
    let mut room: Vec<u8> = Vec::new();
    let with_margin = bytes.saturating_add(bytes.min(MARGIN_BYTES));
    let reserved = room.try_reserve_exact(with_margin);
    reserved.map_err(|_| NoMemory { bytes })?;
    // Not left out by the compiler, which may drop memory that nobody uses.
    std::hint::black_box(&mut room);
    Ok(())
}

/// Whether the system has memory for the decoded form of a large value in wire form.
///
/// # Errors
/// [`NoMemory`], for a value of [`LARGE_BYTES`] or more.
pub fn check_room_to_decode(data_type: &DataType, bytes: &[u8]) -> Result<(), NoMemory> {
    if bytes.len() < LARGE_BYTES {
        return Ok(());
    }
    check_room(wire::decoded_bytes_max(data_type, bytes))
        .map_err(|_| NoMemory { bytes: bytes.len() })
}

/// The wire form of the most common types, as a word, and its length.
#[inline]
pub(crate) fn word_of(value: &Value) -> Option<(u64, usize)> {
    Some(match value {
        Value::F64(v) => (v.to_bits(), 8),
        Value::F32(v) => (u64::from(v.to_bits()), 4),
        Value::I64(v) => (*v as u64, 8),
        Value::I32(v) => (u64::from(*v as u32), 4),
        Value::Bool(v) => (u64::from(*v), 1),
        _ => return None,
    })
}

/// One update of a variable, as commit numbered it.
#[derive(Clone, Debug)]
pub struct Update {
    /// Its number within the epoch; 0 when nothing was written yet.
    pub sequence: u64,
    /// When the value was measured.
    pub source_timestamp: Timestamp,
    /// When the engine accepted it.
    pub engine_timestamp: Timestamp,
    /// How far it can be trusted.
    pub quality: Quality,
    /// The session that wrote it; 0 for the engine and its I/O servers.
    pub writer: u32,
    /// The value; empty when `sequence` is 0.
    pub value: Encoded,
}
