//! WATCH, APPEARED, VANISHED and UNWATCH: following a pattern (B-32).
//!
//! ```text
//! WATCH     watch u32 | pattern text
//! APPEARED  watch u32 | revision u64 | listed u8
//!           count x ( handle zigzag | name text | type | access u8 )
//! VANISHED  watch u32 | revision u64
//!           count x ( handle zigzag )
//! UNWATCH   watch u32
//! ```
//!
//! The client numbers its watches. The engine answers with pages of the existing names, under the
//! request number of the WATCH; the last page has `listed` = 1. Names that appear and vanish
//! afterwards are reported in order under request 0. A frame with `listed` = 2 starts the listing
//! again. `revision` is the number of names that had appeared or vanished at the engine when the
//! frame was made. Handles are encoded as the difference from the previous one.

use trunkline_types::wire::{put_str, put_u32, put_u64, put_zigzag};
use trunkline_types::{Access, DataType};

use super::form::{Fixed, Name};
use super::handles::{Handles, HandlesBuilder};
use super::layout::record;
use super::single::single_frame;
use super::typed::{TypeRun, put_access, read_access};
use crate::decode::{Items, Payload};
use crate::{DecodeError, Frame, FrameKind, FrameWriter};

record! {
    /// Follows the names that match a pattern.
    #[derive(Copy, Eq)]
    pub struct Watch<'a> {
        /// The client's number for the watch, unique on the connection.
        pub watch: u32 = Fixed,
        /// The pattern; the engine checks it.
        pub pattern: &'a str = Name,
    }
}

single_frame! { Watch, Watch<'a> }

record! {
    /// Ends a watch.
    #[derive(Copy, Eq)]
    pub struct Unwatch {
        /// The client's number for the watch.
        pub watch: u32 = Fixed,
    }
}

single_frame! { Unwatch, Unwatch }

/// A name that matches a watched pattern.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AppearedVariable<'a> {
    /// The variable's handle, which VANISHED refers to.
    pub handle: u32,
    /// Its full name.
    pub name: &'a str,
    /// The type of its values.
    pub data_type: DataType,
    /// The variable's access type.
    pub access: Access,
}

/// The value of `listed` in a frame with which the listing starts again.
const ANEW: u8 = 2;

/// Writes an APPEARED frame.
#[derive(Debug)]
#[must_use = "a frame is complete only when it is finished"]
pub struct AppearedBuilder<'a> {
    frame: FrameWriter<'a>,
    types: TypeRun,
    previous: u32,
    listed_at: usize,
}

impl<'a> AppearedBuilder<'a> {
    /// Begins a frame at the end of `out`; `request` is 0 for names that appear after the listing.
    pub fn begin(out: &'a mut Vec<u8>, request: u32, watch: u32, revision: u64) -> Self {
        let mut frame = FrameWriter::begin(out, FrameKind::Appeared, request);
        let payload = frame.payload();
        put_u32(payload, watch);
        put_u64(payload, revision);
        let listed_at = payload.len();
        payload.push(0);
        Self {
            frame,
            types: TypeRun::default(),
            previous: 0,
            listed_at,
        }
    }

    /// Appends a variable.
    pub fn push(&mut self, handle: u32, name: &str, data_type: &DataType, access: Access) {
        let out = self.frame.payload();
        put_zigzag(
            out,
            i64::from(handle).wrapping_sub(i64::from(self.previous)),
        );
        put_str(out, name);
        self.types.put(out, data_type);
        put_access(out, access);
        self.previous = handle;
        self.frame.count_item();
    }

    /// Number of names so far.
    pub fn count(&self) -> u32 {
        self.frame.count()
    }

    /// Bytes of the frame so far, header included.
    pub fn len_bytes(&self) -> usize {
        self.frame.len_bytes()
    }

    /// Completes the frame; set `listed` if all names that existed have now been listed.
    pub fn finish(mut self, listed: bool) {
        self.say(u8::from(listed));
        self.frame.finish(false);
    }

    /// Completes the first frame of a listing that starts again: names not listed from here on are
    /// gone.
    pub fn finish_anew(mut self) {
        self.say(ANEW);
        self.frame.finish(false);
    }

    fn say(&mut self, listed: u8) {
        let at = self.listed_at;
        if let Some(place) = self.frame.payload().get_mut(at) {
            *place = listed;
        }
    }
}

/// An APPEARED frame; iterates over the names.
#[derive(Clone, Debug)]
pub struct Appeared<'a> {
    watch: u32,
    revision: u64,
    listed: u8,
    items: Items<'a>,
    types: TypeRun,
    previous: u32,
}

impl<'a> Appeared<'a> {
    /// Reads the frame.
    ///
    /// # Errors
    /// [`DecodeError`] if the frame cannot hold `count` names; errors in the names appear during
    /// iteration.
    pub fn decode(frame: &Frame<'a>) -> Result<Self, DecodeError> {
        let mut payload = Payload::of(frame, FrameKind::Appeared)?;
        let (watch, revision) = (payload.u32()?, payload.u64()?);
        let listed = payload.u8()?;
        if listed > ANEW {
            return Err(payload.unexpected("0, 1 or 2", u64::from(listed)));
        }
        let items = Items::new(payload, frame.count(), 4)?;
        Ok(Self {
            watch,
            revision,
            listed,
            items,
            types: TypeRun::default(),
            previous: 0,
        })
    }

    /// The client's number for the watch.
    pub fn watch(&self) -> u32 {
        self.watch
    }

    /// Number of names that had appeared or vanished.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns true if this frame completes the listing of the existing names.
    pub fn is_listed(&self) -> bool {
        self.listed == 1
    }

    /// Returns true if the listing starts again with this frame, because the watch fell behind the
    /// engine's history of names that appeared and vanished.
    pub fn begins_anew(&self) -> bool {
        self.listed == ANEW
    }
}

impl<'a> Iterator for Appeared<'a> {
    type Item = Result<AppearedVariable<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let (types, previous) = (&mut self.types, &mut self.previous);
        self.items.next_with(|payload| {
            *previous = payload.handle(*previous)?;
            Ok(AppearedVariable {
                handle: *previous,
                name: payload.text(usize::MAX)?,
                data_type: types.read(payload)?,
                access: read_access(payload)?,
            })
        })
    }
}

/// Begins a VANISHED frame at the end of `out`.
pub fn begin_vanished(out: &mut Vec<u8>, watch: u32, revision: u64) -> HandlesBuilder<'_> {
    let mut builder = HandlesBuilder::begin(out, FrameKind::Vanished, 0);
    put_u32(builder.head(), watch);
    put_u64(builder.head(), revision);
    builder
}

/// A VANISHED frame.
#[derive(Clone, Debug)]
pub struct Vanished<'a> {
    /// The client's number for the watch.
    pub watch: u32,
    /// Number of names that had appeared or vanished.
    pub revision: u64,
    /// The variables that no longer exist; handles that were never reported as appeared are
    /// ignored.
    pub handles: Handles<'a>,
}

impl<'a> Vanished<'a> {
    /// Reads the frame.
    ///
    /// # Errors
    /// [`DecodeError`] if the frame cannot hold `count` handles; errors in the handles appear
    /// during iteration.
    pub fn decode(frame: &Frame<'a>) -> Result<Self, DecodeError> {
        let mut payload = Payload::of(frame, FrameKind::Vanished)?;
        let (watch, revision) = (payload.u32()?, payload.u64()?);
        Ok(Self {
            watch,
            revision,
            handles: Handles::of(payload, frame.count())?,
        })
    }
}
