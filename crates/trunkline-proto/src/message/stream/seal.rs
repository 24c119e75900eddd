//! The checksums of the frames between two endpoints.
//!
//! A stream outlives its connections, so one altered byte must never count: an acknowledgement of
//! what has not come would free it, another length or kind would hide what follows. In these frames
//! `count` is therefore the CRC-32C of the payload (of S_DATA: of what stands before the bytes,
//! which have one of their own), and `request` that of the header, taken as 0 itself. A header
//! that is wrong is known before anything is waited for.

use crate::Frame;
use crate::frame::{EXT, FrameHeader, HEADER_BYTES};

/// Puts the checksums into the frame that begins at `start` and is the last of `out`.
pub fn seal(out: &mut [u8], start: usize) {
    let frame = out.get_mut(start..).unwrap_or_default();
    if let Some((bytes, payload)) = frame.split_first_chunk_mut::<HEADER_BYTES>() {
        let mut header = FrameHeader::from_bytes(bytes);
        header.count = crc32c::crc32c(payload);
        header.request = sum(&header);
        *bytes = header.to_bytes();
    }
}

/// Whether the header is as it was sent.
pub fn is_intact(header: &FrameHeader) -> bool {
    header.request == sum(header)
}

/// Whether the payload is as it was sent with this header, which is.
pub fn is_payload_intact(header: &FrameHeader, payload: &[u8]) -> bool {
    header.count == crc32c::crc32c(payload)
}

/// Whether a whole frame is as it was sent.
pub fn is_frame_intact(frame: &Frame<'_>) -> bool {
    let header = frame.header();
    let mut count = crc32c::crc32c(frame.payload());
    if header.flags & EXT != 0 {
        let extension = frame.extension();
        let length = u32::try_from(extension.len()).unwrap_or(u32::MAX);
        count = crc32c::crc32c_append(count, extension);
        count = crc32c::crc32c_append(count, &length.to_le_bytes());
    }
    is_intact(&header) && header.count == count
}

fn sum(header: &FrameHeader) -> u32 {
    let header = FrameHeader {
        request: 0,
        ..*header
    };
    crc32c::crc32c(&header.to_bytes())
}
