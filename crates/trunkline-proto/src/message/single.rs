//! Frames that are one record, without a list.

use super::layout::{Record, Run};
use crate::decode::Payload;
use crate::{DecodeError, Frame, FrameKind, FrameWriter};

/// A frame that is one record.
pub trait SingleFrame<'a>: Record<'a> {
    /// The kind of the frame.
    const KIND: FrameKind;

    /// Appends the frame; `request` is 0 if it belongs to no request.
    fn encode(&self, request: u32, out: &mut Vec<u8>) {
        let mut frame = FrameWriter::begin(out, Self::KIND, request);
        self.put(&mut Run::default(), frame.payload());
        frame.finish(false);
    }

    /// Reads the frame.
    ///
    /// # Errors
    /// [`DecodeError`] if the frame is of another kind, or its payload does not have the form of the
    /// kind.
    fn decode(frame: &Frame<'a>) -> Result<Self, DecodeError> {
        let mut payload = Payload::of(frame, Self::KIND)?;
        let message = Self::read(&mut Run::default(), &mut payload)?;
        payload.finish()?;
        Ok(message)
    }
}

/// Declares the kind of a record that is a frame. Its methods need no import of [`SingleFrame`].
macro_rules! single_frame {
    ($kind:ident, $message:ident $(<$life:lifetime>)?) => {
        impl<'a> $crate::message::single::SingleFrame<'a> for $message $(<$life>)? {
            const KIND: $crate::FrameKind = $crate::FrameKind::$kind;
        }

        impl $(<$life>)? $message $(<$life>)? {
            /// Appends the frame; `request` is 0 if it belongs to no request.
            pub fn encode(&self, request: u32, out: &mut Vec<u8>) {
                $crate::message::single::SingleFrame::encode(self, request, out);
            }

            /// Reads the frame.
            ///
            /// # Errors
            /// [`DecodeError`]($crate::DecodeError) if the frame is of another kind, or its payload
            /// does not have the form of the kind.
            pub fn decode<'f>(frame: &$crate::Frame<'f>) -> Result<Self, $crate::DecodeError>
            where
                Self: $crate::message::single::SingleFrame<'f>,
            {
                $crate::message::single::SingleFrame::decode(frame)
            }
        }
    };
}
pub(crate) use single_frame;
