//! Encodes the part of a record before its value, without a capacity check per byte.
//!
//! Update and write records are the hot path of both ends. Writing a record after reserving room
//! for the longest head takes a third of the time of appending it byte by byte.

/// The head of a record under construction: fields, and one flag byte whose value is known last. The
/// head is assembled in an array, where bytes need no capacity check.
#[derive(Debug)]
pub(super) struct RecordHead<'a, const MAX: usize> {
    out: &'a mut Vec<u8>,
    head: [u8; HEAD_BYTES],
    /// Index of the next byte.
    at: usize,
    flags_at: usize,
}

/// Size of the longest head, rounded up to a power of two.
const HEAD_BYTES: usize = 64;

impl<'a, const MAX: usize> RecordHead<'a, MAX> {
    /// Reserves room for a head of at most `MAX` bytes, including its flags, and a value of
    /// `value_bytes` bytes.
    #[inline]
    pub(super) fn begin(out: &'a mut Vec<u8>, value_bytes: usize) -> Self {
        const { assert!(MAX <= HEAD_BYTES) };
        out.reserve(HEAD_BYTES.saturating_add(value_bytes));
        Self {
            out,
            head: [0; HEAD_BYTES],
            at: 0,
            flags_at: 0,
        }
    }

    /// Reserves the place of the flags, which `finish` fills in.
    #[inline]
    pub(super) fn flags_here(&mut self) {
        self.flags_at = self.at;
        self.at = self.at.wrapping_add(1);
    }

    #[inline]
    pub(super) fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.push(value as u8);
    }

    #[inline]
    pub(super) fn zigzag(&mut self, value: i64) {
        self.varint(((value as u64) << 1) ^ ((value >> 63) as u64));
    }

    #[inline]
    pub(super) fn fixed<const N: usize>(&mut self, bytes: [u8; N]) {
        bytes.into_iter().for_each(|byte| self.push(byte));
    }

    #[inline]
    pub(super) fn finish(mut self, flags: u8, value: &[u8]) {
        // The most common values have 8 bytes and fit into the array after the head.
        let rest = self.head.get_mut(self.at..).unwrap_or_default();
        if let (Some(place), Ok(word)) = (rest.first_chunk_mut(), <[u8; 8]>::try_from(value)) {
            *place = word;
            self.at = self.at.wrapping_add(word.len());
            self.finish_head(flags);
        } else {
            self.finish_head(flags).extend_from_slice(value);
        }
    }

    /// Fills in the flags and returns the buffer, to which the caller appends the value.
    #[inline]
    pub(super) fn finish_head(mut self, flags: u8) -> &'a mut Vec<u8> {
        if let Some(slot) = self.head.get_mut(self.flags_at % HEAD_BYTES) {
            *slot = flags;
        }
        let end = self.out.len().wrapping_add(self.at);
        // Appending a constant number of bytes is faster; the unused bytes are truncated below.
        self.out.extend_from_slice(&self.head);
        self.out.truncate(end);
        self.out
    }

    #[inline]
    fn push(&mut self, byte: u8) {
        // A head never exceeds the array; the remainder operation makes this visible to the
        // compiler.
        if let Some(slot) = self.head.get_mut(self.at % HEAD_BYTES) {
            *slot = byte;
        }
        self.at = self.at.wrapping_add(1);
    }
}
