//! Reads external bytes with a checked cursor, and encodes and decodes varints.
//!
//! A varint is LEB128: seven bits per byte, least significant first; the top bit is set if more
//! bytes follow.

use crate::data_type::TypeError;

/// Maximum number of bytes of one varint, because 64 bits need ten groups of seven bits.
const VARINT_BYTES_MAX: usize = 10;

/// Reads from the front of a slice; every read is checked. After a failed read, the position is at
/// the start of the invalid item or within it, so the rest of the slice must not be read.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    unread: &'a [u8],
    /// Offset of the end of `unread` in the bytes of the outermost reader.
    end: usize,
}

/// The bytes are not in the expected wire form. The sender is at fault, or sender and receiver assume
/// different types.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DecodeError {
    /// The bytes end too early.
    #[error("at byte {offset}: {needed} more bytes are needed, but only {present} remain")]
    Truncated {
        /// Offset of the item.
        offset: usize,
        /// Minimum number of bytes that the item needs.
        needed: u64,
        present: usize,
    },
    #[error("at byte {offset}: {what} of {length} exceeds the limit of {max}")]
    TooLong {
        /// Offset of the length or count.
        offset: usize,
        /// The quantity that is too large.
        what: &'static str,
        /// The declared length or count.
        length: u64,
        max: u64,
    },
    #[error("at byte {offset}: expected {expected}, found {found}")]
    Unexpected {
        /// Offset of the number.
        offset: usize,
        expected: &'static str,
        found: u64,
    },
    /// A varint has more than ten bytes or 64 bits.
    #[error("at byte {offset}: a variable-length number does not end within 64 bits")]
    OverlongVarint {
        /// Offset of the varint.
        offset: usize,
    },
    #[error("at byte {offset}: the text is not valid UTF-8")]
    InvalidUtf8 {
        /// Offset of the first invalid byte.
        offset: usize,
    },
    #[error("at byte {offset}: number {index} is outside the enum's {labels} labels")]
    EnumRange {
        /// Offset of the number.
        offset: usize,
        index: u32,
        /// Number of labels of the enum.
        labels: usize,
    },
    /// The length of an array's dimension differs from the length that its type fixes.
    #[error(
        "at byte {offset}: the array has {found} elements in a dimension that is fixed to {fixed}"
    )]
    FixedLength {
        /// Offset of the length.
        offset: usize,
        /// The length fixed by the type.
        fixed: u32,
        found: u64,
    },
    #[error("at byte {offset}: {extra} bytes follow where the end was expected")]
    Trailing {
        /// Offset at which the end was expected.
        offset: usize,
        /// Number of bytes that follow.
        extra: usize,
    },
    #[error("at byte {offset}: {source}")]
    Type {
        /// Offset of the type.
        offset: usize,
        source: Box<TypeError>,
    },
}

impl DecodeError {
    /// Returns the offset of the invalid item, counted from the start of the outermost [`Reader`].
    #[inline]
    pub fn offset(&self) -> usize {
        match self {
            DecodeError::Truncated { offset, .. }
            | DecodeError::TooLong { offset, .. }
            | DecodeError::Unexpected { offset, .. }
            | DecodeError::OverlongVarint { offset }
            | DecodeError::InvalidUtf8 { offset }
            | DecodeError::EnumRange { offset, .. }
            | DecodeError::FixedLength { offset, .. }
            | DecodeError::Trailing { offset, .. }
            | DecodeError::Type { offset, .. } => *offset,
        }
    }
}

impl<'a> Reader<'a> {
    /// Creates a reader at the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self {
            unread: bytes,
            end: bytes.len(),
        }
    }

    /// Returns the number of bytes read so far, counted from the start of the outermost reader.
    pub fn offset(&self) -> usize {
        self.end.saturating_sub(self.unread.len())
    }

    /// Returns the number of unread bytes.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.unread.len()
    }

    /// Returns true if all bytes were read.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.unread.is_empty()
    }

    /// Takes all remaining bytes.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.unread)
    }

    /// Returns a reader for only the next `count` bytes; this reader continues after them.
    pub fn sub(&mut self, count: usize) -> Result<Reader<'a>, DecodeError> {
        let unread = self.bytes(count)?;
        Ok(Reader {
            unread,
            end: self.offset(),
        })
    }

    /// Checks that all bytes were read.
    pub fn finish(&self) -> Result<(), DecodeError> {
        if self.unread.is_empty() {
            return Ok(());
        }
        Err(DecodeError::Trailing {
            offset: self.offset(),
            extra: self.unread.len(),
        })
    }

    /// Reads the next `count` bytes.
    #[inline]
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        match self.unread.split_at_checked(count) {
            Some((head, tail)) => {
                self.unread = tail;
                Ok(head)
            }
            None => Err(self.truncated(count as u64)),
        }
    }

    /// Reads the next `N` bytes.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        match self.unread.split_first_chunk::<N>() {
            Some((head, tail)) => {
                self.unread = tail;
                Ok(*head)
            }
            None => Err(self.truncated(N as u64)),
        }
    }

    /// Reads a `u8`.
    #[inline]
    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        self.array::<1>().map(u8::from_le_bytes)
    }

    /// Reads one byte as a `bool`.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`]; [`DecodeError::Unexpected`] if the byte is neither 0 nor 1.
    #[inline]
    pub fn bool(&mut self) -> Result<bool, DecodeError> {
        let offset = self.offset();
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            found => Err(not_bool(offset, found)),
        }
    }

    /// Reads a `u16` from 2 bytes.
    #[inline]
    pub fn u16(&mut self) -> Result<u16, DecodeError> {
        self.array().map(u16::from_le_bytes)
    }

    /// Reads a `u32` from 4 bytes.
    #[inline]
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        self.array().map(u32::from_le_bytes)
    }

    /// Reads a `u64` from 8 bytes.
    #[inline]
    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads an `i64` from 8 bytes in two's complement.
    #[inline]
    pub fn i64(&mut self) -> Result<i64, DecodeError> {
        self.array().map(i64::from_le_bytes)
    }

    /// Reads an `f64` from 8 bytes of IEEE 754; every bit is preserved.
    #[inline]
    pub fn f64(&mut self) -> Result<f64, DecodeError> {
        self.array().map(f64::from_le_bytes)
    }

    /// Reads a varint. Accepts an encoding that is longer than necessary.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`]; [`DecodeError::OverlongVarint`] beyond ten bytes or 64 bits.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, DecodeError> {
        match self.unread.split_first() {
            Some((byte, tail)) if byte & 0x80 == 0 => {
                self.unread = tail;
                Ok(u64::from(*byte))
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0_u64;
        for (index, byte) in self.unread.iter().take(VARINT_BYTES_MAX).enumerate() {
            let shift = (index as u32).wrapping_mul(7);
            if shift == 63 && *byte > 1 {
                return Err(DecodeError::OverlongVarint {
                    offset: self.offset(),
                });
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                let (_, tail) = self.unread.split_at(index.wrapping_add(1));
                self.unread = tail;
                return Ok(value);
            }
        }
        Err(self.truncated((self.unread.len() as u64).saturating_add(1)))
    }

    /// Reads a signed varint, see [`put_zigzag`].
    #[inline]
    pub fn zigzag(&mut self) -> Result<i64, DecodeError> {
        self.varint().map(from_zigzag)
    }

    /// Reads a varint that is the number of items that follow, each of at least `item_bytes` bytes.
    /// Only a number that was checked in this way may determine the size of an allocation.
    ///
    /// # Errors
    /// Same as [`Reader::varint`]; [`DecodeError::TooLong`] if the number exceeds `max`;
    /// [`DecodeError::Truncated`] if the items do not fit into the remaining bytes.
    pub fn count(
        &mut self,
        what: &'static str,
        max: usize,
        item_bytes: usize,
    ) -> Result<usize, DecodeError> {
        let offset = self.offset();
        let length = self.varint()?;
        if length > max as u64 {
            return Err(DecodeError::TooLong {
                offset,
                what,
                length,
                max: max as u64,
            });
        }
        let needed = length.saturating_mul(item_bytes as u64);
        if needed > self.unread.len() as u64 {
            return Err(DecodeError::Truncated {
                offset,
                needed,
                present: self.unread.len(),
            });
        }
        Ok(length as usize)
    }

    /// Reads a varint length of at most `max`, and the bytes that follow it.
    pub fn prefixed(&mut self, what: &'static str, max: usize) -> Result<&'a [u8], DecodeError> {
        let length = self.count(what, max, 1)?;
        self.bytes(length)
    }

    /// Reads a varint length of at most `max`, and the UTF-8 text that follows it.
    ///
    /// # Errors
    /// Same as [`Reader::count`]; [`DecodeError::InvalidUtf8`].
    pub fn str(&mut self, max: usize) -> Result<&'a str, DecodeError> {
        let bytes = self.prefixed("a text length in bytes", max)?;
        self.utf8(bytes)
    }

    /// Reads all remaining bytes as UTF-8.
    ///
    /// # Errors
    /// [`DecodeError::InvalidUtf8`].
    pub fn rest_str(&mut self) -> Result<&'a str, DecodeError> {
        let bytes = self.rest();
        self.utf8(bytes)
    }

    /// Converts the bytes that were read last to text.
    fn utf8(&self, bytes: &'a [u8]) -> Result<&'a str, DecodeError> {
        std::str::from_utf8(bytes).map_err(|error| {
            let start = self.offset().saturating_sub(bytes.len());
            DecodeError::InvalidUtf8 {
                offset: start.saturating_add(error.valid_up_to()),
            }
        })
    }

    #[cold]
    fn truncated(&self, needed: u64) -> DecodeError {
        DecodeError::Truncated {
            offset: self.offset(),
            needed,
            present: self.unread.len(),
        }
    }
}

pub(super) fn not_bool(offset: usize, found: u8) -> DecodeError {
    DecodeError::Unexpected {
        offset,
        expected: "0 or 1",
        found: u64::from(found),
    }
}

/// Appends `value` in one to ten bytes.
#[inline]
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value as u8) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a signed number in zigzag form, which keeps small magnitudes short.
#[inline]
pub fn put_zigzag(out: &mut Vec<u8>, value: i64) {
    put_varint(out, ((value as u64) << 1) ^ ((value >> 63) as u64));
}

/// Returns the number of bytes that [`put_varint`] appends.
#[inline]
pub fn varint_len(value: u64) -> usize {
    let bits = 64_u32.saturating_sub(value.leading_zeros()).max(1);
    bits.div_ceil(7) as usize
}

/// Decodes the zigzag form of [`put_zigzag`].
fn from_zigzag(raw: u64) -> i64 {
    ((raw >> 1) as i64) ^ ((raw & 1) as i64).wrapping_neg()
}
