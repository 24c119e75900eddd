//! Messages longer than a frame: a 16 MiB value over a connection whose frames have at most 1 MiB.
//!
//! ```text
//! +------------------+------------------+ ... +---------------------------------+
//! | PART  first MiB  | PART  second MiB |     | UPDATES, WRITE, ...  the rest   |
//! +------------------+------------------+ ... +---------------------------------+
//! ```
//!
//! The payloads of the PART frames are prepended to the payload of the next frame of another kind.
//! The receiver's [`FrameBuffer`](crate::FrameBuffer) joins them, so decoders are not aware of
//! parts. No other frame may come between the parts of one message. The deadline of a frame
//! applies to every `frame_max` bytes of the message, regardless of the number of parts.

use crate::FrameKind;
use crate::frame::{FrameHeader, HEADER_BYTES};

/// Cuts into parts the frames in `out`, from `start` on, that are longer than `frame_max`.
///
/// `out[start..]` must hold whole frames, as encoders write them. Each frame is only inspected;
/// bytes are moved only if there is something to cut. The cut is done in place: if the caller has
/// reserved [`part_bytes`] beforehand, `out` does not grow its allocation here.
#[inline]
pub fn split_oversized(out: &mut Vec<u8>, start: usize, frame_max: u32) {
    // Nothing to inspect if all frames together are no longer than one frame may be.
    if out.len().saturating_sub(start) > frame_max as usize {
        split(out, start, frame_max.max(1) as usize);
    }
}

fn split(out: &mut Vec<u8>, start: usize, frame_max: usize) {
    let whole = out.get(start..).unwrap_or_default();
    let more: usize = Pieces::of(whole, frame_max)
        .filter(|piece| piece.is_new)
        .count()
        .saturating_mul(HEADER_BYTES);
    if more == 0 {
        return;
    }
    let pieces: Vec<Piece> = Pieces::of(whole, frame_max).collect();
    let end = out.len();
    out.reserve_exact(more);
    out.resize(end.saturating_add(more), 0);
    // From the last piece to the first, each moves past the headers that will be inserted before
    // it.
    let mut shift = more;
    for piece in pieces.iter().rev() {
        let from = start.saturating_add(piece.at);
        let to = from.saturating_add(shift);
        out.copy_within(from..from.saturating_add(piece.bytes), to);
        let header = to.saturating_sub(HEADER_BYTES);
        if let Some(place) = out.get_mut(header..to) {
            place.copy_from_slice(&piece.header.to_bytes());
        }
        if piece.is_new {
            shift = shift.saturating_sub(HEADER_BYTES);
        }
    }
}

/// Maximum number of bytes by which a message with a value of `value_bytes` grows when it is
/// [cut](split_oversized).
pub fn part_bytes(value_bytes: usize, frame_max: u32) -> usize {
    let parts = value_bytes
        .checked_div(frame_max.max(1) as usize)
        .unwrap_or(value_bytes);
    parts.saturating_add(2).saturating_mul(HEADER_BYTES)
}

struct Piece {
    at: usize,
    bytes: usize,
    header: FrameHeader,
    /// True if the header is inserted, false if it replaces the frame's own header.
    is_new: bool,
}

/// Iterates over the payloads of frames, in pieces no longer than a frame may be.
struct Pieces<'a> {
    rest: &'a [u8],
    frame_max: usize,
    /// Offset of the next piece.
    at: usize,
    /// The header of the frame being cut, and the number of payload bytes left.
    open: Option<(FrameHeader, usize)>,
}

impl<'a> Pieces<'a> {
    fn of(rest: &'a [u8], frame_max: usize) -> Self {
        Self {
            rest,
            frame_max,
            at: 0,
            open: None,
        }
    }
}

impl Iterator for Pieces<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        let is_new = self.open.is_some();
        let (frame, left) = match self.open.take() {
            Some(open) => open,
            None => {
                let (header, frame, after) = take_frame(self.rest)?;
                self.rest = after;
                self.at = self.at.saturating_add(HEADER_BYTES);
                (header, frame.len().saturating_sub(HEADER_BYTES))
            }
        };
        let bytes = left.min(self.frame_max);
        let header = match left > bytes {
            true => {
                self.open = Some((frame, left.saturating_sub(bytes)));
                FrameHeader {
                    length: bytes as u32,
                    kind: FrameKind::Part.number(),
                    request: frame.request,
                    ..FrameHeader::default()
                }
            }
            false => FrameHeader {
                length: bytes as u32,
                ..frame
            },
        };
        let at = self.at;
        self.at = self.at.saturating_add(bytes);
        Some(Piece {
            at,
            bytes,
            header,
            is_new,
        })
    }
}

fn take_frame(bytes: &[u8]) -> Option<(FrameHeader, &[u8], &[u8])> {
    let header = FrameHeader::from_bytes(bytes.first_chunk::<HEADER_BYTES>()?);
    let whole = HEADER_BYTES.saturating_add(header.length as usize);
    let (frame, after) = bytes.split_at_checked(whole)?;
    Some((header, frame, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: FrameKind, request: u32, payload: &[u8]) -> Vec<u8> {
        let header = FrameHeader {
            length: payload.len() as u32,
            kind: kind.number(),
            request,
            ..FrameHeader::default()
        };
        [&header.to_bytes()[..], payload].concat()
    }

    #[test]
    fn frames_are_split_in_place_and_other_bytes_are_kept() {
        let max = 10;
        let lengths = [0, 5, 10, 11, 3, 20, 21, 40, 0, 7, 95];
        let (mut whole, mut expected) = (vec![99; 3], vec![99; 3]);
        for (request, length) in (1..).zip(lengths) {
            let payload: Vec<u8> = (0..length).collect();
            whole.extend(frame(FrameKind::Updates, request, &payload));
            let mut parts = payload.chunks(max).peekable();
            if payload.is_empty() {
                expected.extend(frame(FrameKind::Updates, request, &[]));
            }
            while let Some(part) = parts.next() {
                let kind = match parts.peek() {
                    Some(_) => FrameKind::Part,
                    None => FrameKind::Updates,
                };
                expected.extend(frame(kind, request, part));
            }
        }
        let before = whole.len();
        split_oversized(&mut whole, 3, max as u32);
        assert_eq!(whole, expected);
        assert!(whole.len() - before <= lengths.len() * part_bytes(95, max as u32));
        // Nothing is left to cut.
        split_oversized(&mut whole, 3, max as u32);
        assert_eq!(whole, expected);
    }
}
