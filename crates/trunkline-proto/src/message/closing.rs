//! REFUSED and GOODBYE: the reason why a connection is refused, or closed in an orderly way.
//!
//! ```text
//! REFUSED  code u16 | version_min u8 | version_max u8 | retry_after_ms u32 | sentence text
//! GOODBYE  code u16 | retry_after_ms u32 | sentence text
//! ```
//!
//! The form of both is the same in every version. A `retry_after_ms` of 0 requests nothing.

use std::time::Duration;

use trunkline_types::wire::{put_u8, put_u16, put_u32};

use super::fault::put_sentence;
use super::hello::to_millis;
use crate::decode::Payload;
use crate::limits::SENTENCE_BYTES_MAX;
use crate::{DecodeError, FaultCode, Frame, FrameKind, FrameWriter, VersionMismatch, VersionRange};

/// The engine refuses the hello and then closes the connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refused {
    /// The reason, for programs.
    pub code: FaultCode,
    /// The versions that the engine speaks.
    pub versions: VersionRange,
    /// The time after which the engine asks to be dialled again, in whole milliseconds.
    pub retry_after: Option<Duration>,
    /// The reason, for people.
    pub sentence: String,
}

/// The sender closes the connection in an orderly way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Goodbye {
    /// The reason, for programs.
    pub code: FaultCode,
    /// The time after which the sender asks to be dialled again, in whole milliseconds.
    pub retry_after: Option<Duration>,
    /// The reason, for people.
    pub sentence: String,
}

impl Refused {
    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.encode_as(FrameKind::Refused, out);
    }

    /// Appends a frame of another kind that has the same form.
    pub(crate) fn encode_as(&self, kind: FrameKind, out: &mut Vec<u8>) {
        let mut frame = FrameWriter::begin(out, kind, 0);
        let out = frame.payload();
        put_u16(out, self.code.number());
        put_u8(out, self.versions.min);
        put_u8(out, self.versions.max);
        put_u32(out, retry_millis(self.retry_after));
        put_sentence(out, &self.sentence);
        frame.finish(false);
    }

    /// Reads the frame.
    ///
    /// # Errors
    /// [`DecodeError`] if the payload does not have the form drawn in the [module](self).
    pub fn decode(frame: &Frame<'_>) -> Result<Self, DecodeError> {
        Self::decode_as(frame, FrameKind::Refused)
    }

    pub(crate) fn decode_as(frame: &Frame<'_>, kind: FrameKind) -> Result<Self, DecodeError> {
        let mut payload = Payload::of(frame, kind)?;
        let refused = Self {
            code: FaultCode::from_number(payload.u16()?),
            versions: VersionRange {
                min: payload.u8()?,
                max: payload.u8()?,
            },
            retry_after: retry_after(&mut payload)?,
            sentence: payload.text(SENTENCE_BYTES_MAX)?.to_owned(),
        };
        payload.finish()?;
        Ok(refused)
    }
}

impl From<VersionMismatch> for Refused {
    fn from(mismatch: VersionMismatch) -> Self {
        Self {
            code: FaultCode::VersionMismatch,
            versions: mismatch.engine,
            retry_after: None,
            sentence: mismatch.to_string(),
        }
    }
}

impl Goodbye {
    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.encode_as(FrameKind::Goodbye, out);
    }

    /// Appends a frame of another kind that has the same form.
    pub(crate) fn encode_as(&self, kind: FrameKind, out: &mut Vec<u8>) {
        let mut frame = FrameWriter::begin(out, kind, 0);
        let out = frame.payload();
        put_u16(out, self.code.number());
        put_u32(out, retry_millis(self.retry_after));
        put_sentence(out, &self.sentence);
        frame.finish(false);
    }

    /// Reads the frame.
    ///
    /// # Errors
    /// [`DecodeError`] if the payload does not have the form drawn in the [module](self).
    pub fn decode(frame: &Frame<'_>) -> Result<Self, DecodeError> {
        Self::decode_as(frame, FrameKind::Goodbye)
    }

    pub(crate) fn decode_as(frame: &Frame<'_>, kind: FrameKind) -> Result<Self, DecodeError> {
        let mut payload = Payload::of(frame, kind)?;
        let goodbye = Self {
            code: FaultCode::from_number(payload.u16()?),
            retry_after: retry_after(&mut payload)?,
            sentence: payload.text(SENTENCE_BYTES_MAX)?.to_owned(),
        };
        payload.finish()?;
        Ok(goodbye)
    }
}

fn retry_millis(retry_after: Option<Duration>) -> u32 {
    retry_after.map_or(0, |after| to_millis(after).max(1))
}

fn retry_after(payload: &mut Payload<'_>) -> Result<Option<Duration>, DecodeError> {
    let millis = payload.u32()?;
    Ok((millis != 0).then(|| Duration::from_millis(u64::from(millis))))
}
