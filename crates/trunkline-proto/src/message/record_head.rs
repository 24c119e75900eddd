//! Writes what stands before the value of a record, in place and without a check per byte of
//! growth.
//!
//! Update and write records are the hot path of both ends: with room for the longest head made
//! once, a record costs a third of what byte-wise appending does.

/// The head of a record that is being written: a byte that is known last, then fields.
#[derive(Debug)]
pub(super) struct RecordHead<'a, const MAX: usize> {
    out: &'a mut Vec<u8>,
    /// Where the next byte goes.
    at: usize,
    flags_at: usize,
}

impl<'a, const MAX: usize> RecordHead<'a, MAX> {
    /// Makes room for a head of at most `MAX` bytes, its flags included, and a value of this
    /// length.
    #[inline]
    pub(super) fn begin(out: &'a mut Vec<u8>, value_bytes: usize) -> Self {
        let at = out.len();
        out.reserve(MAX.saturating_add(value_bytes));
        // What of it is not used is cut off at the end.
        out.extend_from_slice(&[0; MAX]);
        Self {
            out,
            at,
            flags_at: at,
        }
    }

    /// The flags stand here, to be filled in by `finish`.
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

    /// Fills in the flags and appends the value.
    #[inline]
    pub(super) fn finish(self, flags: u8, value: &[u8]) {
        self.finish_head(flags).extend_from_slice(value);
    }

    /// Fills in the flags and gives the buffer back, for the value to be appended.
    #[inline]
    pub(super) fn finish_head(self, flags: u8) -> &'a mut Vec<u8> {
        if let Some(slot) = self.out.get_mut(self.flags_at) {
            *slot = flags;
        }
        self.out.truncate(self.at);
        self.out
    }

    #[inline]
    fn push(&mut self, byte: u8) {
        if let Some(slot) = self.out.get_mut(self.at) {
            *slot = byte;
            self.at = self.at.wrapping_add(1);
        }
    }
}
