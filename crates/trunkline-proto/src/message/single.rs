//! Frames that are one record, without a list.

use super::layout::{FrameContext, Record};
use super::stream::seal::{is_sealed, seal};
use crate::decode::Payload;
use crate::{DecodeError, Frame, FrameKind, FrameWriter};

/// A frame that is one record.
pub trait SingleFrame<'a>: Record<'a> {
    const KIND: FrameKind;
    /// Other kinds of frames with the same form.
    const ALSO: &'static [FrameKind];

    /// Appends a frame of a kind that has this form; `request` is 0 if the frame belongs to no request.
    fn encode_as(&self, kind: FrameKind, request: u32, out: &mut Vec<u8>) {
        let start = out.len();
        let mut frame = FrameWriter::begin(out, kind, request);
        let mut context = FrameContext::default();
        self.put(&mut context, frame.payload());
        frame.finish_with(context.header_flags);
        if is_sealed(kind) {
            seal(out, start);
        }
    }

    fn decode(frame: &Frame<'a>) -> Result<Self, DecodeError> {
        let mut payload = Payload::of_kinds(frame, Self::KIND, Self::ALSO)?;
        let mut context = FrameContext {
            header_flags: frame.header().flags,
            ..FrameContext::default()
        };
        let message = Self::read(&mut context, &mut payload)?;
        payload.finish()?;
        Ok(message)
    }
}

/// A frame without content.
impl SingleFrame<'_> for () {
    const KIND: FrameKind = FrameKind::Flush;
    const ALSO: &'static [FrameKind] =
        &[FrameKind::Flushed, FrameKind::Engine, FrameKind::StreamBell];
}

/// Appends a frame without content: FLUSH, FLUSHED, ENGINE or S_BELL.
pub fn encode_empty(kind: FrameKind, request: u32, out: &mut Vec<u8>) {
    ().encode_as(kind, request, out);
}

/// Reads a frame without content: FLUSH, FLUSHED, ENGINE or S_BELL.
pub fn decode_empty(frame: &Frame<'_>) -> Result<(), DecodeError> {
    <()>::decode(frame)
}

/// Declares a frame that is one record: its kind, and other kinds with the same form. Calling the
/// generated methods does not require [`SingleFrame`] to be imported. `encode` of an unnumbered
/// frame has no request number as a parameter.
macro_rules! single_frame {
    ($kind:ident, $message:ident $(<$life:lifetime>)? $(, also $($also:ident)+)?) => {
        $crate::message::single::single_frame!(
            @both $kind, $message $(<$life>)?, [$($($also)+)?]
            pub fn encode(&self, request: u32, out: &mut Vec<u8>) {
                use $crate::message::single::SingleFrame;
                self.encode_as(Self::KIND, request, out);
            }
        );
    };
    ($kind:ident, $message:ident $(<$life:lifetime>)?, unnumbered $(, also $($also:ident)+)?) => {
        $crate::message::single::single_frame!(
            @both $kind, $message $(<$life>)?, [$($($also)+)?]
            pub fn encode(&self, out: &mut Vec<u8>) {
                use $crate::message::single::SingleFrame;
                self.encode_as(Self::KIND, 0, out);
            }
        );
    };
    (@both $kind:ident, $message:ident $(<$life:lifetime>)?, [$($also:ident)*] $($encode:tt)+) => {
        impl<'a> $crate::message::single::SingleFrame<'a> for $message $(<$life>)? {
            const KIND: $crate::FrameKind = $crate::FrameKind::$kind;
            const ALSO: &'static [$crate::FrameKind] = &[$($crate::FrameKind::$also),*];
        }

        impl $(<$life>)? $message $(<$life>)? {
            $($encode)+

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
