//! FLUSH and FLUSHED: sends gathered data now.
//!
//! ```text
//! FLUSH    nothing
//! FLUSHED  nothing
//! ```
//!
//! The engine answers once every earlier request and write is carried out. It then sends what its
//! connections in throughput mode have gathered, on this connection and all others.

use crate::decode::Payload;
use crate::{DecodeError, Frame, FrameKind, FrameWriter};

/// Appends a FLUSH frame.
pub fn encode_flush(request: u32, out: &mut Vec<u8>) {
    FrameWriter::begin(out, FrameKind::Flush, request).finish(false);
}

/// Reads a FLUSH frame.
///
/// # Errors
/// [`DecodeError`] if the payload is not empty.
pub fn decode_flush(frame: &Frame<'_>) -> Result<(), DecodeError> {
    Payload::of(frame, FrameKind::Flush)?.finish()
}

/// Appends a FLUSHED frame.
pub fn encode_flushed(request: u32, out: &mut Vec<u8>) {
    FrameWriter::begin(out, FrameKind::Flushed, request).finish(false);
}

/// Reads a FLUSHED frame.
///
/// # Errors
/// [`DecodeError`] if the payload is not empty.
pub fn decode_flushed(frame: &Frame<'_>) -> Result<(), DecodeError> {
    Payload::of(frame, FrameKind::Flushed)?.finish()
}
