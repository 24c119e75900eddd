//! WHY and WHY_ANSWER: diagnosis of a variable that does not deliver (B-14).
//!
//! ```text
//! WHY         name text
//! WHY_ANSWER  count x ( stage u8 | verdict u8 | sentence text | next text )
//!             stage    1 resolution  2 connection  3 tls  4 version  5 rights  6 library
//!                      7 source  8 filter  9 buffer  10 consumer
//!             verdict  0 ok  1 fault  2 note
//! ```

use trunkline_types::wire::{put_str, put_u8};
pub use trunkline_types::{WhyStage, WhyStep, WhyVerdict};

use super::fault::put_sentence;
use crate::decode::{Items, Payload};
use crate::limits::SENTENCE_BYTES_MAX;
use crate::{DecodeError, Frame, FrameKind, FrameWriter};

/// Asks why a variable does not deliver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Why<'a> {
    /// Its full name.
    pub name: &'a str,
}

impl<'a> Why<'a> {
    /// Appends the frame.
    pub fn encode(&self, request: u32, out: &mut Vec<u8>) {
        let mut frame = FrameWriter::begin(out, FrameKind::Why, request);
        put_str(frame.payload(), self.name);
        frame.finish(false);
    }

    /// Reads the frame.
    ///
    /// # Errors
    /// [`DecodeError`] if the payload does not have the form drawn in the [module](self).
    pub fn decode(frame: &Frame<'a>) -> Result<Self, DecodeError> {
        let mut payload = Payload::of(frame, FrameKind::Why)?;
        let why = Self {
            name: payload.text(usize::MAX)?,
        };
        payload.finish()?;
        Ok(why)
    }
}

/// Writes a WHY_ANSWER frame.
#[derive(Debug)]
#[must_use = "a frame is complete only when it is finished"]
pub struct WhyAnswerBuilder<'a> {
    frame: FrameWriter<'a>,
}

impl<'a> WhyAnswerBuilder<'a> {
    /// Begins a frame at the end of `out`.
    pub fn begin(out: &'a mut Vec<u8>, request: u32) -> Self {
        Self {
            frame: FrameWriter::begin(out, FrameKind::WhyAnswer, request),
        }
    }

    /// Appends a step, in the order of the path.
    pub fn push(&mut self, step: WhyStep<&str>) {
        let out = self.frame.payload();
        put_u8(out, step.stage.number());
        put_u8(out, step.verdict.number());
        put_sentence(out, step.sentence);
        put_sentence(out, step.next);
        self.frame.count_item();
    }

    /// Completes the frame.
    pub fn finish(self) {
        self.frame.finish(false);
    }
}

/// A WHY_ANSWER frame; iterates over the steps.
#[derive(Clone, Debug)]
pub struct WhyAnswer<'a> {
    items: Items<'a>,
}

impl<'a> WhyAnswer<'a> {
    /// Reads the frame.
    ///
    /// # Errors
    /// [`DecodeError`] if the frame cannot hold `count` steps; errors in the steps appear during
    /// iteration.
    pub fn decode(frame: &Frame<'a>) -> Result<Self, DecodeError> {
        let payload = Payload::of(frame, FrameKind::WhyAnswer)?;
        Ok(Self {
            items: Items::new(payload, frame.count(), 4)?,
        })
    }
}

impl<'a> Iterator for WhyAnswer<'a> {
    type Item = Result<WhyStep<&'a str>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.items.next_with(|payload| {
            Ok(WhyStep {
                stage: WhyStage::from_number(payload.u8()?),
                verdict: WhyVerdict::from_number(payload.u8()?),
                sentence: payload.text(SENTENCE_BYTES_MAX)?,
                next: payload.text(SENTENCE_BYTES_MAX)?,
            })
        })
    }
}
