//! Splits incoming bytes into frames. The driver receives the payload of S_DATA directly.

use crate::frame::{EXT, FrameHeader, HEADER_BYTES};
use crate::message::stream::DataHead;
use crate::message::stream::seal::{is_intact, is_payload_intact};
use crate::{Disconnect, Frame, FrameKind};

/// Longest payload of a frame other than S_DATA, in bytes. S_HELLO may contain a long data type.
const CONTROL_BYTES_MAX: u32 = 64 << 10;

/// Collects the bytes of an incomplete frame.
#[derive(Clone, Debug, Default)]
pub(super) struct Input {
    partial: Vec<u8>,
    /// True if `partial` contains the frame that was returned last, so that the next call discards
    /// the bytes.
    is_consumed: bool,
}

/// The result of [`Input::next`].
#[derive(Debug)]
pub(super) enum Step<'a> {
    Frame(Frame<'a>),
    /// The head of S_DATA; the payload bytes remain in the input.
    Data(DataHead),
    Nothing,
}

impl Input {
    /// Removes the next frame, or the next head of S_DATA, from `bytes`.
    pub(super) fn next<'a, 'i: 'a>(
        &'a mut self,
        bytes: &mut &'i [u8],
    ) -> Result<Step<'a>, Disconnect> {
        if std::mem::take(&mut self.is_consumed) {
            self.partial.clear();
        }
        if self.partial.is_empty()
            && let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>()
        {
            let header = FrameHeader::from_bytes(header);
            if let Some((head, rest)) = rest.split_at_checked(head_bytes(&header)?) {
                *bytes = rest;
                return step(&header, head);
            }
        }
        if !self.take(bytes, HEADER_BYTES) {
            return Ok(Step::Nothing);
        }
        let header = match self.partial.first_chunk::<HEADER_BYTES>() {
            Some(header) => FrameHeader::from_bytes(header),
            None => return Ok(Step::Nothing),
        };
        let whole = HEADER_BYTES.saturating_add(head_bytes(&header)?);
        if !self.take(bytes, whole) {
            return Ok(Step::Nothing);
        }
        self.is_consumed = true;
        step(
            &header,
            self.partial.get(HEADER_BYTES..).unwrap_or_default(),
        )
    }

    /// Moves bytes into `partial` until it contains `whole` bytes. Returns true if it does.
    fn take(&mut self, bytes: &mut &[u8], whole: usize) -> bool {
        let missing = whole.saturating_sub(self.partial.len()).min(bytes.len());
        let (taken, rest) = bytes.split_at(missing);
        self.partial.extend_from_slice(taken);
        *bytes = rest;
        self.partial.len() >= whole
    }
}

/// Returns the number of bytes after the header that [`Input`] consumes. The number is checked before
/// any bytes are buffered.
fn head_bytes(header: &FrameHeader) -> Result<usize, Disconnect> {
    if !is_intact(header) {
        return Err(altered(header));
    }
    let max = if header.kind == FrameKind::StreamData.number() {
        let head = DataHead::len_bytes(header);
        if header.flags & EXT == 0 && header.length as usize >= head {
            return Ok(head);
        }
        0
    } else {
        CONTROL_BYTES_MAX
    };
    if header.length <= max {
        return Ok(header.length as usize);
    }
    Err(malformed(format!(
        "a frame of kind {} has {} bytes and flags {}, which is not valid",
        header.kind, header.length, header.flags
    )))
}

fn step<'a>(header: &FrameHeader, head: &'a [u8]) -> Result<Step<'a>, Disconnect> {
    if !is_payload_intact(header, head) {
        return Err(altered(header));
    }
    if header.kind == FrameKind::StreamData.number() {
        return Ok(Step::Data(DataHead::decode(header, head)?));
    }
    Ok(Step::Frame(Frame::new(*header, head)?))
}

#[cold]
fn altered(header: &FrameHeader) -> Disconnect {
    malformed(format!(
        "a frame of kind {} was altered in transit",
        header.kind
    ))
}

/// Creates the error for a protocol violation by the peer.
#[cold]
pub(super) fn malformed(sentence: impl Into<String>) -> Disconnect {
    Disconnect::Malformed {
        sentence: sentence.into(),
    }
}
