//! S_DATA: bytes of the stream.
//!
//! ```text
//! S_DATA  position u64 | [crc32c u32, with the flag CHECKED] | bytes to the end of the frame
//! ```
//!
//! The checksum is the CRC-32C of the bytes. With a checksum, the bytes count as arrived once all
//! of them have been received and the checksum is correct. Without one, each byte counts as soon as
//! it is received.

use trunkline_types::wire::{put_u32, put_u64};

use super::POSITION_MAX;
use super::seal::seal;
use crate::decode::Payload;
use crate::frame::{FrameHeader, HEADER_BYTES};
use crate::{DecodeError, Frame, FrameKind};

/// Flag of S_DATA: the frame carries a checksum.
pub const CHECKED: u8 = 4;
/// Flag of S_DATA: the writer's program is waiting for space, so the acknowledgement must not be
/// delayed.
pub const SHORT_OF_ROOM: u8 = 8;

/// The head of the frame, before the bytes of the stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DataHead {
    /// Position of the first byte.
    pub position: u64,
    /// Number of bytes of the stream in the frame.
    pub len: u32,
    pub crc32c: Option<u32>,
    /// True if the writer's program is waiting for space.
    pub is_short_of_room: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Data<'a> {
    pub head: DataHead,
    pub bytes: &'a [u8],
}

impl DataHead {
    /// Returns the number of payload bytes before the stream's bytes in a frame with this header.
    pub fn len_bytes(header: &FrameHeader) -> usize {
        if header.flags & CHECKED == 0 { 8 } else { 12 }
    }

    /// Appends the frame up to its bytes, which the caller sends next.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut header = FrameHeader {
            kind: FrameKind::StreamData.number(),
            ..FrameHeader::default()
        };
        if self.crc32c.is_some() {
            header.flags |= CHECKED;
        }
        if self.is_short_of_room {
            header.flags |= SHORT_OF_ROOM;
        }
        let head = u32::try_from(Self::len_bytes(&header)).unwrap_or(0);
        header.length = self.len.saturating_add(head);
        let start = out.len();
        out.reserve(HEADER_BYTES.saturating_add(12));
        out.extend_from_slice(&header.to_bytes());
        put_u64(out, self.position);
        if let Some(crc32c) = self.crc32c {
            put_u32(out, crc32c);
        }
        seal(out, start);
    }

    /// Reads the head of the frame. `head` contains the whole head, and possibly more bytes.
    pub fn decode(header: &FrameHeader, head: &[u8]) -> Result<Self, DecodeError> {
        let whole = FrameHeader {
            flags: 0,
            ..*header
        };
        let frame = Frame::new(whole, head).map_err(|_| DecodeError {
            kind: FrameKind::StreamData,
            cause: trunkline_types::wire::DecodeError::Truncated {
                offset: 0,
                needed: 8,
                present: 0,
            },
        })?;
        let mut payload = Payload::of(&frame, FrameKind::StreamData)?;
        let position = payload.u64()?;
        let crc32c = if header.flags & CHECKED == 0 {
            None
        } else {
            Some(payload.u32()?)
        };
        let head_bytes = Self::len_bytes(header) as u64;
        let len = u64::from(header.length).checked_sub(head_bytes);
        let end = len.and_then(|len| position.checked_add(len));
        match (len, end) {
            (Some(len), Some(end)) if end <= POSITION_MAX => Ok(Self {
                position,
                len: u32::try_from(len).unwrap_or(u32::MAX),
                crc32c,
                is_short_of_room: header.flags & SHORT_OF_ROOM != 0,
            }),
            _ => Err(payload.unexpected("a position of at most 2^62", position)),
        }
    }
}

impl<'a> Data<'a> {
    /// Appends the whole frame, for tests and tools. Connections send the bytes directly from the
    /// ring.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.head.encode(out);
        out.extend_from_slice(self.bytes);
    }

    pub fn decode(frame: &Frame<'a>) -> Result<Self, DecodeError> {
        let header = FrameHeader {
            length: u32::try_from(frame.payload().len()).unwrap_or(u32::MAX),
            ..frame.header()
        };
        let head = DataHead::decode(&header, frame.payload())?;
        let bytes = frame.payload().get(DataHead::len_bytes(&header)..);
        Ok(Self {
            head,
            bytes: bytes.unwrap_or_default(),
        })
    }
}
