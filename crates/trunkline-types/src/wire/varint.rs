//! LEB128: seven bits per byte, least significant first; the top bit is set if more bytes follow.

/// Maximum number of bytes of one varint: ten groups of seven bits hold 64 bits.
pub(super) const VARINT_BYTES_MAX: usize = 10;

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

/// Number of bytes that [`put_varint`] appends.
#[inline]
pub fn varint_len(value: u64) -> usize {
    let bits = 64_u32.saturating_sub(value.leading_zeros()).max(1);
    bits.div_ceil(7) as usize
}

/// Decodes the zigzag form of [`put_zigzag`].
pub(super) fn from_zigzag(raw: u64) -> i64 {
    ((raw >> 1) as i64) ^ ((raw & 1) as i64).wrapping_neg()
}
