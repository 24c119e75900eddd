//! FAULT: a whole request was refused.

use trunkline_types::wire::{put_str, put_varint};

use super::form::Flat;
use super::layout::{Field, FieldSink, FieldValue, FrameContext, Record, record};
#[cfg(test)]
use super::round_trip::Source;
use super::single::single_frame;
use crate::decode::Payload;
use crate::limits::SENTENCE_BYTES_MAX;
use crate::{DecodeError, FaultCode, FaultRef};

record! {
    /// A request that was refused as a whole. Faults of single items are part of the answers.
    #[derive(Copy, Eq)]
    pub struct FaultMessage<'a> {
        pub fault: FaultRef<'a> = Flat,
    }
}

single_frame! { Fault, FaultMessage<'a> }

impl<'a> Record<'a> for FaultRef<'a> {
    const FIELDS: &'static [Field] = &[Field::literal("code varint | sentence text")];

    fn bytes_min(_: &FrameContext) -> usize {
        2
    }

    fn put(&self, _: &mut FrameContext, out: &mut Vec<u8>) {
        put_fault(out, *self);
    }

    fn read(_: &mut FrameContext, payload: &mut Payload<'a>) -> Result<Self, DecodeError> {
        payload.fault()
    }

    fn show(&self, to: &mut dyn FieldSink) {
        to.field("code", FieldValue::Text(self.code.name()));
        to.field("sentence", FieldValue::Text(self.sentence));
    }

    #[cfg(test)]
    fn sample(source: &mut Source<'a>, _: &mut FrameContext) -> Self {
        let code = FaultCode::from_number((source.number() as u16).max(1));
        let sentence = source.text();
        Self { code, sentence }
    }
}

/// Appends a fault's code and sentence.
pub(crate) fn put_fault(out: &mut Vec<u8>, fault: FaultRef<'_>) {
    // On the wire, 0 means success. A fault code with the number 0 can only come from a faulty peer.
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
