//! FIND and NAMES: searching for variables.
//!
//! ```text
//! FIND   cursor u64 | limit u32 | pattern text
//!        count x ( field text | comparison u8 | value text )
//! NAMES  next_cursor u64
//!        count x ( name text | type | access u8 )
//! ```
//!
//! The first FIND has cursor 0; a `next_cursor` other than 0 is the cursor of the FIND for the next
//! page. Only the engine interprets cursors. A variable is found only if all conditions hold;
//! conditions are agreed as the feature CONDITIONS.

pub use trunkline_types::Comparison;
use trunkline_types::wire::{put_str, put_u8, put_u32, put_u64};
use trunkline_types::{Access, Condition, DataType};

use super::form::{Name, Number, OrZero, Type};
use super::layout::record;
use super::list::list_frame;
use crate::decode::{Items, Payload};
use crate::{DecodeError, Frame, FrameKind, FrameWriter};

/// Asks for the names that match a pattern.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Find<'a> {
    /// Cursor of the page; 0 for the first page.
    pub cursor: u64,
    /// Most names wanted in the answer; 0 lets the engine choose.
    pub limit: u32,
    /// The pattern; the engine checks it.
    pub pattern: &'a str,
}

/// A condition that found variables satisfy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FindCondition<'a> {
    /// Name of a field, such as `units`; `*` for any field with text.
    pub field: &'a str,
    /// The number of a [`Comparison`], or one of a newer version.
    pub comparison: u8,
    /// The text to compare with.
    pub value: &'a str,
}

/// The conditions of a FIND frame.
#[derive(Clone, Debug)]
pub struct FindConditions<'a> {
    items: Items<'a>,
}

impl<'a> From<&'a Condition> for FindCondition<'a> {
    fn from(condition: &'a Condition) -> Self {
        Self {
            field: &condition.field,
            comparison: condition.comparison.number(),
            value: &condition.value,
        }
    }
}

impl<'a> Iterator for FindConditions<'a> {
    type Item = Result<FindCondition<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.items.next_with(|payload| {
            Ok(FindCondition {
                field: payload.text(usize::MAX)?,
                comparison: payload.u8()?,
                value: payload.text(usize::MAX)?,
            })
        })
    }
}

impl<'a> Find<'a> {
    /// Appends the frame, without conditions.
    pub fn encode(&self, request: u32, out: &mut Vec<u8>) {
        self.encode_with([], request, out);
    }

    /// Appends the frame with conditions.
    pub fn encode_with<'c>(
        &self,
        conditions: impl IntoIterator<Item = FindCondition<'c>>,
        request: u32,
        out: &mut Vec<u8>,
    ) {
        let mut frame = FrameWriter::begin(out, FrameKind::Find, request);
        let out = frame.payload();
        put_u64(out, self.cursor);
        put_u32(out, self.limit);
        put_str(out, self.pattern);
        for condition in conditions {
            let out = frame.payload();
            put_str(out, condition.field);
            put_u8(out, condition.comparison);
            put_str(out, condition.value);
            frame.count_item();
        }
        frame.finish(false);
    }

    /// Reads the frame.
    ///
    /// # Errors
    /// [`DecodeError`] if the payload does not have the form drawn in the [module](self); errors in
    /// the conditions appear during their iteration.
    pub fn decode(frame: &Frame<'a>) -> Result<(Self, FindConditions<'a>), DecodeError> {
        let mut payload = Payload::of(frame, FrameKind::Find)?;
        let find = Self {
            cursor: payload.u64()?,
            limit: payload.u32()?,
            pattern: payload.text(usize::MAX)?,
        };
        let items = Items::new(payload, frame.count(), 3)?;
        Ok((find, FindConditions { items }))
    }
}

record! {
    /// The part common to all names of a page.
    #[derive(Copy, Eq, Default)]
    pub struct NamesHead {
        /// Cursor of the next page; `None` if this is the last.
        pub next_cursor: Option<u64> = OrZero,
    }
}

record! {
    /// A found variable.
    #[derive(Eq)]
    pub struct FoundVariable<'a> {
        /// Its full name.
        pub name: &'a str = Name,
        /// The type of its values.
        pub data_type: DataType = Type as "type",
        /// The variable's access type.
        pub access: Access = Number,
    }
}

list_frame! {
    NamesFrame: Names, Names, NamesBuilder,
    head NamesHead, item FoundVariable<'a>, empty kept
}

impl NamesBuilder<'_> {
    /// Completes the frame, now that the cursor of the next page is known.
    pub fn finish_page(mut self, next_cursor: Option<u64>) {
        self.set_head(&NamesHead { next_cursor });
        self.finish(false);
    }
}
