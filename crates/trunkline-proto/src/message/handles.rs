//! Frames that are lists of handles: READ, SNAPSHOT, CLOSE, INFO, REQUEST_VALUE, GONE, UNSUBSCRIBE.
//!
//! ```text
//! READ SNAPSHOT CLOSE       count x handle zigzag delta
//! INFO REQUEST_VALUE GONE
//! UNSUBSCRIBE               subscription u32 | count x handle zigzag delta
//!                           (count 0: the whole subscription)
//! ```

use trunkline_types::wire::{put_u32, put_zigzag};

use crate::decode::{Items, Payload};
use crate::{DecodeError, Frame, FrameKind, FrameWriter};

/// Writes a frame that is a list of handles.
#[derive(Debug)]
#[must_use = "a frame is complete only when it is finished"]
pub struct HandlesBuilder<'a> {
    frame: FrameWriter<'a>,
    previous: u32,
}

impl<'a> HandlesBuilder<'a> {
    /// Begins a READ frame, which asks for the current readings.
    pub fn read(out: &'a mut Vec<u8>, request: u32) -> Self {
        Self::begin(out, FrameKind::Read, request)
    }

    /// Begins a SNAPSHOT frame, which asks for readings of one instant.
    pub fn snapshot(out: &'a mut Vec<u8>, request: u32) -> Self {
        Self::begin(out, FrameKind::Snapshot, request)
    }

    /// Begins a CLOSE frame, which ends every subscription of the handles and closes them.
    pub fn close(out: &'a mut Vec<u8>, request: u32) -> Self {
        Self::begin(out, FrameKind::Close, request)
    }

    /// Begins an INFO frame, which asks for everything known about the variables.
    pub fn info(out: &'a mut Vec<u8>, request: u32) -> Self {
        Self::begin(out, FrameKind::Info, request)
    }

    /// Begins a REQUEST_VALUE frame, which asks the sources for fresh values.
    pub fn request_value(out: &'a mut Vec<u8>, request: u32) -> Self {
        Self::begin(out, FrameKind::RequestValue, request)
    }

    /// Begins a GONE frame: the variables no longer exist.
    pub fn gone(out: &'a mut Vec<u8>) -> Self {
        Self::begin(out, FrameKind::Gone, 0)
    }

    /// Begins an UNSUBSCRIBE frame, which ends these items of a subscription; without items, all of
    /// it.
    pub fn unsubscribe(out: &'a mut Vec<u8>, request: u32, subscription: u32) -> Self {
        let mut builder = Self::begin(out, FrameKind::Unsubscribe, request);
        put_u32(builder.frame.payload(), subscription);
        builder
    }

    pub(crate) fn begin(out: &'a mut Vec<u8>, kind: FrameKind, request: u32) -> Self {
        Self {
            frame: FrameWriter::begin(out, kind, request),
            previous: 0,
        }
    }

    pub(crate) fn head(&mut self) -> &mut Vec<u8> {
        self.frame.payload()
    }

    /// Appends a handle.
    pub fn push(&mut self, handle: u32) {
        let delta = i64::from(handle).wrapping_sub(i64::from(self.previous));
        put_zigzag(self.frame.payload(), delta);
        self.previous = handle;
        self.frame.count_item();
    }

    /// Number of handles so far.
    pub fn count(&self) -> u32 {
        self.frame.count()
    }

    /// Bytes of the frame so far, header included.
    pub fn len_bytes(&self) -> usize {
        self.frame.len_bytes()
    }

    /// Completes the frame; set `more` if further frames of this request follow.
    pub fn finish(self, more: bool) {
        self.frame.finish(more);
    }
}

/// The handles of a frame.
#[derive(Clone, Debug)]
pub struct Handles<'a> {
    items: Items<'a>,
    previous: u32,
}

impl<'a> Handles<'a> {
    /// Reads a READ, SNAPSHOT, CLOSE, INFO, REQUEST_VALUE or GONE frame, whose kind the caller has
    /// checked.
    ///
    /// # Errors
    /// [`DecodeError`] if it is of another kind or cannot hold `count` handles; errors in the
    /// handles appear during iteration.
    pub fn decode(frame: &Frame<'a>) -> Result<Self, DecodeError> {
        use FrameKind::{Close, Gone, Info, Read, RequestValue, Snapshot};
        let kind = match frame.kind() {
            Some(kind @ (Read | Snapshot | Close | Info | RequestValue | Gone)) => kind,
            _ => Read,
        };
        Self::of(Payload::of(frame, kind)?, frame.count())
    }

    pub(crate) fn of(payload: Payload<'a>, count: u32) -> Result<Self, DecodeError> {
        Ok(Self {
            items: Items::new(payload, count, 1)?,
            previous: 0,
        })
    }

    /// Number of handles not yet read.
    pub fn left(&self) -> u32 {
        self.items.left()
    }
}

impl Iterator for Handles<'_> {
    type Item = Result<u32, DecodeError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let previous = &mut self.previous;
        self.items.next_with(|payload| {
            *previous = payload.handle(*previous)?;
            Ok(*previous)
        })
    }
}

/// An UNSUBSCRIBE frame.
#[derive(Clone, Debug)]
pub struct Unsubscribe<'a> {
    /// The number of the subscription.
    pub subscription: u32,
    /// The items to end; none for the whole subscription.
    pub handles: Handles<'a>,
}

impl<'a> Unsubscribe<'a> {
    /// Reads the frame.
    ///
    /// # Errors
    /// [`DecodeError`] if the payload does not have the form drawn in the [module](self).
    pub fn decode(frame: &Frame<'a>) -> Result<Self, DecodeError> {
        let mut payload = Payload::of(frame, FrameKind::Unsubscribe)?;
        let subscription = payload.u32()?;
        Ok(Self {
            subscription,
            handles: Handles::of(payload, frame.count())?,
        })
    }

    /// Returns true if the whole subscription is meant. Valid only before the iteration begins.
    pub fn is_whole(&self) -> bool {
        self.handles.left() == 0
    }
}
