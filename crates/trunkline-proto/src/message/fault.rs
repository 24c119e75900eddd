//! FAULT: the whole request of this number was refused.
//!
//! ```text
//! FAULT  code varint | sentence text
//! ```

use trunkline_types::wire::{put_str, put_varint};

use crate::decode::Payload;
use crate::limits::SENTENCE_BYTES_MAX;
use crate::{DecodeError, FaultCode, FaultRef, Frame, FrameKind, FrameWriter};

/// A request that was refused as a whole. Faults of single items are part of the answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FaultMessage<'a> {
    /// The number of the refused request.
    pub request: u32,
    /// The reason.
    pub fault: FaultRef<'a>,
}

impl<'a> FaultMessage<'a> {
    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut frame = FrameWriter::begin(out, FrameKind::Fault, self.request);
        put_fault(frame.payload(), self.fault);
        frame.finish(false);
    }

    /// Reads the frame.
    ///
    /// # Errors
    /// [`DecodeError`] if the payload does not have the form drawn in the [module](self).
    pub fn decode(frame: &Frame<'a>) -> Result<Self, DecodeError> {
        let mut payload = Payload::of(frame, FrameKind::Fault)?;
        let fault = payload.fault()?;
        payload.finish()?;
        Ok(Self {
            request: frame.request(),
            fault,
        })
    }
}

/// Appends a fault's code and sentence.
pub(crate) fn put_fault(out: &mut Vec<u8>, fault: FaultRef<'_>) {
    // 0 means success on the wire; a code with the number 0 can only come from a faulty peer.
    let number = match fault.code.number() {
        0 => FaultCode::Internal.number(),
        number => number,
    };
    put_varint(out, u64::from(number));
    put_sentence(out, fault.sentence);
}

/// Appends a sentence, truncated to its limit.
pub(crate) fn put_sentence(out: &mut Vec<u8>, sentence: &str) {
    put_str(out, cut_text(sentence, SENTENCE_BYTES_MAX));
}

/// Returns the longest prefix of `text` of at most `max` bytes that does not split a character.
pub(crate) fn cut_text(text: &str, max: usize) -> &str {
    text.get(..text.floor_char_boundary(max)).unwrap_or(text)
}
