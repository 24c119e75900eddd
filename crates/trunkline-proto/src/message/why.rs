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

/// One stage on the path from a variable's source to its consumer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum WhyStage {
    /// The name resolves to a variable.
    Resolution,
    /// The connection is up.
    Connection,
    /// The connection is secured.
    Tls,
    /// Both ends speak a common version.
    Version,
    /// The caller has the necessary rights.
    Rights,
    /// The library is running.
    Library,
    /// The source delivers.
    Source,
    /// No filter withholds the updates.
    Filter,
    /// No buffer is full.
    Buffer,
    /// The consumer takes the updates.
    Consumer,
    /// A stage of a newer version.
    Unknown(u8),
}

/// The finding at a stage.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum WhyVerdict {
    /// The stage works.
    Ok,
    /// The stage is the cause.
    Fault,
    /// Additional information.
    Note,
    /// A verdict of a newer version.
    Unknown(u8),
}

/// A stage with its verdict.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WhyStep<'a> {
    /// The stage.
    pub stage: WhyStage,
    /// The verdict.
    pub verdict: WhyVerdict,
    /// The finding, in a sentence.
    pub sentence: &'a str,
    /// The next step to take; empty if there is none.
    pub next: &'a str,
}

const STAGES: [(WhyStage, &str); 10] = [
    (WhyStage::Resolution, "resolution"),
    (WhyStage::Connection, "connection"),
    (WhyStage::Tls, "tls"),
    (WhyStage::Version, "version"),
    (WhyStage::Rights, "rights"),
    (WhyStage::Library, "library"),
    (WhyStage::Source, "source"),
    (WhyStage::Filter, "filter"),
    (WhyStage::Buffer, "buffer"),
    (WhyStage::Consumer, "consumer"),
];

impl WhyStage {
    /// The number on the wire.
    pub fn number(self) -> u8 {
        let index = STAGES.iter().position(|(stage, _)| *stage == self);
        match (self, index) {
            (WhyStage::Unknown(number), _) => number,
            (_, Some(index)) => (index as u8).saturating_add(1),
            (_, None) => 0,
        }
    }

    /// Reads the number on the wire.
    pub fn from_number(number: u8) -> Self {
        let index = usize::from(number).checked_sub(1);
        index
            .and_then(|index| STAGES.get(index))
            .map_or(WhyStage::Unknown(number), |(stage, _)| *stage)
    }

    /// The word shown to people and used by scripts.
    pub fn name(self) -> &'static str {
        STAGES
            .iter()
            .find(|(stage, _)| *stage == self)
            .map_or("unknown", |(_, name)| *name)
    }
}

impl WhyVerdict {
    /// The number on the wire.
    pub const fn number(self) -> u8 {
        match self {
            WhyVerdict::Ok => 0,
            WhyVerdict::Fault => 1,
            WhyVerdict::Note => 2,
            WhyVerdict::Unknown(number) => number,
        }
    }

    /// Reads the number on the wire.
    pub const fn from_number(number: u8) -> Self {
        match number {
            0 => WhyVerdict::Ok,
            1 => WhyVerdict::Fault,
            2 => WhyVerdict::Note,
            other => WhyVerdict::Unknown(other),
        }
    }
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
    pub fn push(&mut self, step: &WhyStep<'_>) {
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
    type Item = Result<WhyStep<'a>, DecodeError>;

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
