//! Encodes and decodes contiguous sequences of scalars, which are copied in bulk.

use std::sync::Arc;

use crate::{ElementType, Elements, Timestamp};

use super::reader::not_bool;
use super::{DecodeError, Reader, VALUE_BYTES_MAX, put_str, varint_len};

/// Appends a sequence of fixed-size values.
macro_rules! put_run {
    ($out:expr, $values:expr) => {
        put_run($out, $values, |v| v.to_le_bytes())
    };
}

/// Appends the elements without their count.
pub(super) fn encode_elements(elements: &Elements, out: &mut Vec<u8>) {
    match elements {
        Elements::Bool(values) => put_run(out, values, |v| [u8::from(*v)]),
        Elements::I8(values) => put_run!(out, values),
        Elements::I16(values) => put_run!(out, values),
        Elements::I32(values) => put_run!(out, values),
        Elements::I64(values) => put_run!(out, values),
        Elements::U8(values) => out.extend_from_slice(values),
        Elements::U16(values) => put_run!(out, values),
        Elements::U32(values) => put_run!(out, values),
        Elements::U64(values) => put_run!(out, values),
        Elements::F32(values) => put_run!(out, values),
        Elements::F64(values) => put_run!(out, values),
        Elements::String(values) => values.iter().for_each(|text| put_str(out, text)),
        Elements::Timestamp(values) => put_run(out, values, |v| v.as_nanos().to_le_bytes()),
    }
}

/// Converts values in blocks that fit into the first-level cache, and appends each block to `out`. This
/// takes one pass over the memory of `out`. Growing `out` first would take two passes.
fn put_run<T, const N: usize>(out: &mut Vec<u8>, values: &[T], to_bytes: impl Fn(&T) -> [u8; N]) {
    out.reserve(values.len().saturating_mul(N));
    let mut block = [[0_u8; N]; BLOCK_VALUES];
    for run in values.chunks(BLOCK_VALUES) {
        for (bytes, value) in block.iter_mut().zip(run) {
            *bytes = to_bytes(value);
        }
        let (filled, _) = block.split_at(run.len());
        out.extend_from_slice(filled.as_flattened());
    }
}

/// Returns the number of bytes that [`encode_elements`] appends.
pub(super) fn elements_len(elements: &Elements) -> usize {
    match elements {
        Elements::String(values) => values.iter().fold(0_usize, |sum, text| {
            sum.saturating_add(varint_len(text.len() as u64))
                .saturating_add(text.len())
        }),
        fixed => fixed
            .len()
            .saturating_mul(fixed.element_type().fixed_size().unwrap_or(1)),
    }
}

/// Reads `count` elements; `count` may be an unchecked external number.
pub(super) fn decode_elements(
    element: ElementType,
    count: u64,
    reader: &mut Reader<'_>,
) -> Result<Elements, DecodeError> {
    if element == ElementType::String {
        return decode_strings(count, reader);
    }
    let offset = reader.offset();
    let bytes = take_fixed_size(element, count, reader)?;
    Ok(match element {
        ElementType::Bool => {
            check_bools(bytes, offset)?;
            Elements::Bool(bytes.iter().map(|byte| *byte == 1).collect())
        }
        ElementType::I8 => Elements::I8(decode_run(bytes, i8::from_le_bytes)),
        ElementType::I16 => Elements::I16(decode_run(bytes, i16::from_le_bytes)),
        ElementType::I32 => Elements::I32(decode_run(bytes, i32::from_le_bytes)),
        ElementType::I64 => Elements::I64(decode_run(bytes, i64::from_le_bytes)),
        // Strings were handled above.
        ElementType::U8 | ElementType::String => Elements::U8(bytes.to_vec()),
        ElementType::U16 => Elements::U16(decode_run(bytes, u16::from_le_bytes)),
        ElementType::U32 => Elements::U32(decode_run(bytes, u32::from_le_bytes)),
        ElementType::U64 => Elements::U64(decode_run(bytes, u64::from_le_bytes)),
        ElementType::F32 => Elements::F32(decode_run(bytes, f32::from_le_bytes)),
        ElementType::F64 => Elements::F64(decode_run(bytes, f64::from_le_bytes)),
        ElementType::Timestamp => Elements::Timestamp(decode_run(bytes, |chunk| {
            Timestamp::from_nanos(i64::from_le_bytes(chunk))
        })),
    })
}

fn decode_run<T, const N: usize>(bytes: &[u8], from_bytes: impl Fn([u8; N]) -> T) -> Vec<T> {
    let (chunks, _) = bytes.as_chunks::<N>();
    chunks.iter().map(|chunk| from_bytes(*chunk)).collect()
}

fn decode_strings(count: u64, reader: &mut Reader<'_>) -> Result<Elements, DecodeError> {
    let count = checked_count(count, 1, reader)?;
    // An empty string is only one byte on the wire, but an allocation in memory. All empty strings
    // therefore share one allocation.
    let empty: Arc<str> = Arc::from("");
    let mut texts = Vec::with_capacity(count);
    for _ in 0..count {
        let text = reader.str(VALUE_BYTES_MAX)?;
        texts.push(if text.is_empty() {
            Arc::clone(&empty)
        } else {
            Arc::from(text)
        });
    }
    Ok(Elements::String(texts))
}

/// Checks `count` elements and advances past them.
pub(super) fn skip_elements(
    element: ElementType,
    count: u64,
    reader: &mut Reader<'_>,
) -> Result<(), DecodeError> {
    if element == ElementType::String {
        for _ in 0..checked_count(count, 1, reader)? {
            reader.str(VALUE_BYTES_MAX)?;
        }
        return Ok(());
    }
    let offset = reader.offset();
    let bytes = take_fixed_size(element, count, reader)?;
    if element == ElementType::Bool {
        check_bools(bytes, offset)
    } else {
        Ok(())
    }
}

fn take_fixed_size<'a>(
    element: ElementType,
    count: u64,
    reader: &mut Reader<'a>,
) -> Result<&'a [u8], DecodeError> {
    let size = element.fixed_size().unwrap_or(1);
    let count = checked_count(count, size, reader)?;
    reader.bytes(count.saturating_mul(size))
}

/// Returns `count` if this number of elements of at least `size` bytes fits into the remaining
/// bytes and into one value.
fn checked_count(count: u64, size: usize, reader: &Reader<'_>) -> Result<usize, DecodeError> {
    let offset = reader.offset();
    let needed = count.saturating_mul(size as u64);
    if needed > VALUE_BYTES_MAX as u64 {
        let (what, max) = ("a value size in bytes", VALUE_BYTES_MAX as u64);
        return Err(DecodeError::TooLong {
            offset,
            what,
            length: needed,
            max,
        });
    }
    if needed > reader.remaining() as u64 {
        return Err(DecodeError::Truncated {
            offset,
            needed,
            present: reader.remaining(),
        });
    }
    Ok(count as usize)
}

fn check_bools(bytes: &[u8], offset: usize) -> Result<(), DecodeError> {
    // The first pass has no early exit, so that it is vectorised; the second pass finds the invalid
    // byte.
    if bytes.iter().fold(0, |all_bits, byte| all_bits | byte) <= 1 {
        return Ok(());
    }
    match bytes.iter().enumerate().find(|(_, byte)| **byte > 1) {
        Some((index, byte)) => Err(not_bool(offset.saturating_add(index), *byte)),
        None => Ok(()),
    }
}

/// Number of values converted at a time; they take at most 4 KiB.
const BLOCK_VALUES: usize = 512;
