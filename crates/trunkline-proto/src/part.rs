//! Messages longer than a frame: a 16 MiB value crosses a connection whose frames are 1 MiB.
//!
//! ```text
//! +------------------+------------------+ ... +---------------------------------+
//! | PART  first MiB  | PART  second MiB |     | UPDATES, WRITE, ...  the rest   |
//! +------------------+------------------+ ... +---------------------------------+
//! ```
//!
//! The payloads of the PART frames are prepended to the payload of the next frame that is no PART;
//! the receiver's [`FrameBuffer`](crate::FrameBuffer) joins them, so no decoder knows of it.
//! Nothing may come between the parts of one message. Every `frame_max` bytes of it have the
//! deadline of a frame, in however many parts they come.

use crate::FrameKind;
use crate::frame::{FrameHeader, HEADER_BYTES};

/// Cuts the frames in `out` from `start` on that are longer than `frame_max` into parts.
///
/// `out[start..]` must hold whole frames, as encoders write them. Costs one look per frame; only
/// when there is something to cut is anything copied.
pub fn split_oversized(out: &mut Vec<u8>, start: usize, frame_max: u32) {
    let mut rest = out.get(start..).unwrap_or_default();
    let mut offset = start;
    while let Some((header, frame, after)) = take_frame(rest) {
        if header.length > frame_max {
            let cut = cut_all(rest, frame_max.max(1) as usize);
            out.truncate(offset);
            out.extend_from_slice(&cut);
            return;
        }
        offset = offset.saturating_add(frame.len());
        rest = after;
    }
}

/// The frames of `rest`, the oversized ones cut.
fn cut_all(mut rest: &[u8], frame_max: usize) -> Vec<u8> {
    let mut cut = Vec::with_capacity(rest.len().saturating_add(HEADER_BYTES.saturating_mul(32)));
    while let Some((header, frame, after)) = take_frame(rest) {
        rest = after;
        let mut payload = frame.get(HEADER_BYTES..).unwrap_or_default();
        while let Some((part, last)) = payload
            .split_at_checked(frame_max)
            .filter(|(_, last)| !last.is_empty())
        {
            let part_header = FrameHeader {
                length: part.len() as u32,
                kind: FrameKind::Part.number(),
                request: header.request,
                ..FrameHeader::default()
            };
            cut.extend_from_slice(&part_header.to_bytes());
            cut.extend_from_slice(part);
            payload = last;
        }
        let header = FrameHeader {
            length: payload.len() as u32,
            ..header
        };
        cut.extend_from_slice(&header.to_bytes());
        cut.extend_from_slice(payload);
    }
    cut
}

fn take_frame(bytes: &[u8]) -> Option<(FrameHeader, &[u8], &[u8])> {
    let header = FrameHeader::from_bytes(bytes.first_chunk::<HEADER_BYTES>()?);
    let whole = HEADER_BYTES.saturating_add(header.length as usize);
    let (frame, after) = bytes.split_at_checked(whole)?;
    Some((header, frame, after))
}
