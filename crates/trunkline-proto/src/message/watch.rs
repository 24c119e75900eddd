//! WATCH, APPEARED, VANISHED and UNWATCH: report names that match a pattern as they appear and vanish
//! (B-32).
//!
//! The client numbers its watches. The engine answers with pages of the existing names, under the
//! request number of the WATCH; the last page has `listed` = 1. Names that appear and vanish
//! afterwards are reported in order under request 0. A frame with `listed` = 2 starts the listing
//! again. `revision` is the number of names that had appeared or vanished at the engine when the
//! frame was created. Each handle is encoded as the difference from the previous handle.

use trunkline_types::{Access, DataType};

use super::form::{Fixed, Handle, Name, Number, Numbered, Type};
use super::layout::{FieldSink, FieldValue, record};
use super::list::list_frame;
use super::single::single_frame;

record! {
    /// Starts reporting the names that match a pattern.
    #[derive(Copy, Eq)]
    pub struct Watch<'a> {
        /// The client's number for the watch, unique on the connection.
        pub watch: u32 = Fixed,
        pub pattern: &'a str = Name,
    }
}

single_frame! { Watch, Watch<'a> }

record! {
    #[derive(Copy, Eq)]
    pub struct Unwatch {
        pub watch: u32 = Fixed,
    }
}

single_frame! { Unwatch, Unwatch }

/// The state of the listing of existing names, as reported by an APPEARED frame.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Listing {
    /// The frame neither completes nor restarts the listing: the listing continues, or an earlier
    /// frame has completed it.
    Unchanged,
    /// All existing names have now been listed.
    Complete,
    /// The listing starts again with this frame, because the engine no longer has a record of all
    /// changes since the last report. Names that are not listed from here on no longer exist.
    Restarted,
}

impl Numbered for Listing {
    const EXPECTED: &'static str = "0, 1 or 2";

    fn number(self) -> u8 {
        self as u8
    }

    fn from_number(number: u8) -> Option<Self> {
        let mut all = [Self::Unchanged, Self::Complete, Self::Restarted].into_iter();
        all.find(|listing| listing.number() == number)
    }

    fn show(self, _: &str, to: &mut dyn FieldSink) {
        to.field("listed", FieldValue::Flag(self == Self::Complete));
        to.field("anew", FieldValue::Flag(self == Self::Restarted));
    }
}

record! {
    #[derive(Copy, Eq)]
    pub struct AppearedHead {
        pub watch: u32 = Fixed,
        /// Number of names that had appeared or vanished at the engine when the frame was created.
        pub revision: u64 = Fixed,
        pub listing: Listing = Number as "listed",
    }
}

record! {
    /// A name that matches a watched pattern.
    #[derive(Eq)]
    pub struct AppearedVariable<'a> {
        /// The variable's handle, which VANISHED refers to.
        pub handle: u32 = Handle,
        pub name: &'a str = Name,
        pub data_type: DataType = Type as "type",
        pub access: Access = Number,
    }
}

// The request of the frame is 0 for names that appear after the listing.
list_frame! {
    AppearedFrame: Appeared, Appeared, AppearedBuilder,
    head AppearedHead, item AppearedVariable<'a>, empty_frame kept
}

record! {
    #[derive(Copy, Eq)]
    pub struct VanishedHead {
        pub watch: u32 = Fixed,
        /// Number of names that had appeared or vanished at the engine when the frame was created.
        pub revision: u64 = Fixed,
    }
}

// The client ignores handles that were never reported as appeared.
list_frame! {
    VanishedFrame: Vanished, Vanished, VanishedBuilder,
    head VanishedHead, item u32, empty_frame kept, items "handles"
}
