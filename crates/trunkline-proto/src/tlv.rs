//! Fields that an older version can skip, in the form `varint id, varint length, bytes` (B-51).
//!
//! A field with a known id has exactly the form that its message defines; newer versions use new
//! ids for additions. An absent field has its default value. If a field occurs twice, the last
//! occurrence takes effect, unless the message defines the field as repeated.

use trunkline_types::wire::{put_bytes, put_str, put_varint, varint_len};

use crate::DecodeError;
use crate::decode::Payload;

/// Appends a field with these bytes.
pub fn put_field(out: &mut Vec<u8>, id: u64, bytes: &[u8]) {
    put_varint(out, id);
    put_bytes(out, bytes);
}

pub fn put_number(out: &mut Vec<u8>, id: u64, number: u64) {
    put_varint(out, id);
    put_varint(out, varint_len(number) as u64);
    put_varint(out, number);
}

/// Appends a field with text, unless the text is empty.
pub fn put_text(out: &mut Vec<u8>, id: u64, text: &str) {
    if !text.is_empty() {
        put_varint(out, id);
        put_str(out, text);
    }
}

/// Appends the output of `put`, preceded by its size in bytes.
pub(crate) fn put_sized(out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    put(out);
    let size = out.len().saturating_sub(start);
    put_varint(out, size as u64);
    // The encoded length of the size is known only now. The size is therefore appended after the
    // content and then rotated to the front.
    let content = out.get_mut(start..).unwrap_or_default();
    content.rotate_left(size);
}

/// Calls `read` with the id and content of every field up to the end of `payload`. `read` returns
/// true for a known id, and must then consume the whole field.
pub(crate) fn read_fields<'a>(
    payload: &mut Payload<'a>,
    mut read: impl FnMut(u64, &mut Payload<'a>) -> Result<bool, DecodeError>,
) -> Result<(), DecodeError> {
    while !payload.is_empty() {
        let id = payload.varint()?;
        let mut field = payload.sized()?;
        if read(id, &mut field)? {
            field.finish()?;
        }
    }
    Ok(())
}

impl<'a> Payload<'a> {
    /// Takes all remaining bytes as text.
    pub(crate) fn rest_text(&mut self) -> Result<&'a str, DecodeError> {
        self.read(|reader| reader.rest_str())
    }

    /// Reads a size in bytes, and splits off the bytes that follow it as a payload.
    pub(crate) fn sized(&mut self) -> Result<Payload<'a>, DecodeError> {
        let size = self.varint_u32("a size in bytes")?;
        self.sub(size as usize)
    }
}
