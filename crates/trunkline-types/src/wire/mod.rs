//! The binary form of values, types and definitions, shared by cells, frames and golden vectors.
//!
//! All numbers are little-endian. Values are untagged if both ends know the type:
//!
//! ```text
//! bool                 1 byte, 0 or 1
//! i8..i64 u8..u64      1, 2, 4 or 8 bytes
//! f32 f64              4 or 8 bytes, every bit pattern preserved
//! timestamp            i64, nanoseconds since 1970-01-01T00:00:00Z
//! enum                 u32, the index of the label
//! string bytes         varint length, bytes
//! array                rank x varint length, then the elements, row-major, contiguous
//! struct               its fields in order
//! waveform             t0 i64, dt f64, varint count, samples,
//!                      varint attribute count, (varint length, name, type tag, scalar)*, sorted by name
//! ```
//!
//! A varint is LEB128 with at most ten bytes; a zigzag is a varint of `(v << 1) ^ (v >> 63)`.
//!
//! Decoders do not trust their input: every count is compared with the number of bytes present
//! before memory is allocated, the type limits the nesting, and no input makes them panic. Encoders
//! cannot fail.
//!
//! # Layout
//! - [`Reader`], [`DecodeError`]: a checked cursor; `put_*`: its counterpart.
//! - [`encode_value`], [`decode_value`], [`decode_exact`], [`check_value`], [`encoded_len`]: values
//!   of a known type.
//! - [`encode_type`], [`encode_tagged`]: types, and values that carry their type.
//! - [`encode_properties`]: the properties of a variable, as fields that can be skipped.
//! - [`VariablesEncoder`], [`VariablesDecoder`]: the variables of a library.
//! - [`encode_rows`], [`decode_rows`]: the rows of a history.
//! - [`encode_buckets`], [`decode_buckets`]: statistics computed from such rows.

#![deny(clippy::arithmetic_side_effects, clippy::indexing_slicing)]

mod alarm;
mod buckets;
mod check;
mod data_type;
mod definition;
mod elements;
mod library;
mod reader;
mod rows;
mod value;

#[cfg(test)]
#[allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]
mod tests;

pub use alarm::{decode_alarm, encode_alarm};
pub use buckets::{decode_buckets, encode_buckets};
pub use check::{check_value, decoded_bytes_max, skip_value};
pub use data_type::{decode_tagged, decode_type, encode_tagged, encode_type};
pub use definition::{decode_properties, encode_properties};
pub use library::{VariablesDecoder, VariablesEncoder};
pub use reader::{DecodeError, Reader, put_varint, put_zigzag, varint_len};
pub use rows::{ROWS_MAX, decode_rows, encode_rows};
pub use value::{decode_exact, decode_value, encode_value, encoded_len};

/// Maximum number of bytes of one value in wire form: 16 MiB. Larger data belongs in a stream.
pub const VALUE_BYTES_MAX: usize = 16 << 20;

/// Appends one byte.
#[inline]
pub fn put_u8(out: &mut Vec<u8>, value: u8) {
    out.push(value);
}

/// Appends 2 bytes.
#[inline]
pub fn put_u16(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends 4 bytes.
#[inline]
pub fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends 8 bytes.
#[inline]
pub fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends 8 bytes in two's complement.
#[inline]
pub fn put_i64(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends an IEEE 754 double (8 bytes); every bit is preserved.
#[inline]
pub fn put_f64(out: &mut Vec<u8>, value: f64) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a varint length and the bytes.
#[inline]
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a varint length in bytes and the text as UTF-8.
#[inline]
pub fn put_str(out: &mut Vec<u8>, text: &str) {
    put_bytes(out, text.as_bytes());
}
