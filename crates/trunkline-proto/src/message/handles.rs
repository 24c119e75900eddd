//! Frames that are lists of handles: READ, SNAPSHOT, CLOSE, INFO, REQUEST_VALUE, GONE, UNSUBSCRIBE.

use super::form::{Fixed, Form, Handle};
use super::layout::{Field, FieldSink, FrameContext, Record, record};
use super::list::list_frame;
#[cfg(test)]
use super::round_trip::Source;
use crate::decode::Payload;
use crate::{DecodeError, FrameKind};

impl<'a> Record<'a> for u32 {
    const FIELDS: &'static [Field] = &[Field::literal("handle")];

    fn bytes_min(context: &FrameContext) -> usize {
        <Handle as Form<'a, u32>>::bytes_min(context)
    }

    #[inline]
    fn put(&self, context: &mut FrameContext, out: &mut Vec<u8>) {
        Handle::put(self, context, out);
    }

    #[inline]
    fn read(context: &mut FrameContext, payload: &mut Payload<'a>) -> Result<Self, DecodeError> {
        Handle::read(context, payload)
    }

    fn show(&self, to: &mut dyn FieldSink) {
        Handle::show(self, "", to);
    }

    #[cfg(test)]
    fn sample(source: &mut Source<'a>, context: &mut FrameContext) -> Self {
        Handle::sample(source, context)
    }
}

list_frame! {
    HandlesFrame: Read, Handles, HandlesBuilder,
    head (), item u32, empty_frame kept,
    also Snapshot Close Info RequestValue Gone
}

impl<'o> HandlesBuilder<'o> {
    /// Begins a READ frame, which requests the current readings.
    pub fn read(out: &'o mut Vec<u8>, request: u32) -> Self {
        Self::begin(out, request, &())
    }

    /// Begins a SNAPSHOT frame, which requests readings at one instant.
    pub fn snapshot(out: &'o mut Vec<u8>, request: u32) -> Self {
        Self::begin_as(FrameKind::Snapshot, out, request, &())
    }

    /// Begins a CLOSE frame, which ends every subscription of the handles and closes them.
    pub fn close(out: &'o mut Vec<u8>, request: u32) -> Self {
        Self::begin_as(FrameKind::Close, out, request, &())
    }

    /// Begins an INFO frame, which requests all information about the variables.
    pub fn info(out: &'o mut Vec<u8>, request: u32) -> Self {
        Self::begin_as(FrameKind::Info, out, request, &())
    }

    /// Begins a REQUEST_VALUE frame, which asks the sources for fresh values.
    pub fn request_value(out: &'o mut Vec<u8>, request: u32) -> Self {
        Self::begin_as(FrameKind::RequestValue, out, request, &())
    }

    /// Begins a GONE frame: the variables no longer exist.
    pub fn gone(out: &'o mut Vec<u8>) -> Self {
        Self::begin_as(FrameKind::Gone, out, 0, &())
    }
}

record! {
    /// The head of an UNSUBSCRIBE frame, which ends these items of a subscription; without items,
    /// it ends the whole subscription.
    #[derive(Copy, Eq)]
    pub struct UnsubscribeHead {
        pub subscription: u32 = Fixed,
    }
}

list_frame! {
    UnsubscribeFrame: Unsubscribe, Unsubscribe, UnsubscribeBuilder,
    head UnsubscribeHead, item u32, empty_frame kept
}
