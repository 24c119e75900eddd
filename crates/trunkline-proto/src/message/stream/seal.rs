//! The header and payload checksums of frames between two endpoints ("seals").
//!
//! A stream outlives its connections, so altered data must never be accepted. An altered
//! acknowledgement could free data that has not arrived, and an altered length or kind could hide
//! the frames that follow. In these frames `count` is therefore the CRC-32C of the payload (in
//! S_DATA: of the head, because the bytes have a separate checksum). `request` is the CRC-32C of the
//! header, computed with `request` set to 0, so that the receiver detects a corrupt header before
//! waiting for the payload.

use crate::frame::{EXT, FrameHeader, HEADER_BYTES};
use crate::{Frame, FrameKind};

pub const fn is_sealed(kind: FrameKind) -> bool {
    use FrameKind::*;
    matches!(
        kind,
        StreamLookup
            | StreamTicket
            | StreamRefused
            | StreamRegister
            | StreamHello
            | StreamWelcome
            | StreamData
            | StreamAck
            | StreamAsk
            | StreamEnd
            | StreamAbort
            | StreamKeepalive
            | StreamGoodbye
            | StreamList
            | StreamBell
            | StreamLost
            | StreamLogin
            | StreamPeer
    )
}

/// Fills in the checksums of the last frame in `out`, which begins at `start`.
pub fn seal(out: &mut [u8], start: usize) {
    let frame = out.get_mut(start..).unwrap_or_default();
    if let Some((bytes, payload)) = frame.split_first_chunk_mut::<HEADER_BYTES>() {
        let mut header = FrameHeader::from_bytes(bytes);
        header.count = crc32c::crc32c(payload);
        header.request = header_checksum(&header);
        *bytes = header.to_bytes();
    }
}

pub fn is_intact(header: &FrameHeader) -> bool {
    header.request == header_checksum(header)
}

/// Returns true if the payload is unaltered. The header must have been checked before.
pub fn is_payload_intact(header: &FrameHeader, payload: &[u8]) -> bool {
    header.count == crc32c::crc32c(payload)
}

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

fn header_checksum(header: &FrameHeader) -> u32 {
    let header = FrameHeader {
        request: 0,
        ..*header
    };
    crc32c::crc32c(&header.to_bytes())
}
