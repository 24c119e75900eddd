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

use super::typed::{TypeRun, put_access, read_access};
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

/// A found variable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundVariable<'a> {
    /// Its full name.
    pub name: &'a str,
    /// The type of its values.
    pub data_type: DataType,
    /// The variable's access type.
    pub access: Access,
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

/// Writes a NAMES frame.
#[derive(Debug)]
#[must_use = "a frame is complete only when it is finished"]
pub struct NamesBuilder<'a> {
    frame: FrameWriter<'a>,
    types: TypeRun,
    cursor_at: usize,
}

impl<'a> NamesBuilder<'a> {
    /// Begins a frame at the end of `out`.
    pub fn begin(out: &'a mut Vec<u8>, request: u32) -> Self {
        let mut frame = FrameWriter::begin(out, FrameKind::Names, request);
        let cursor_at = frame.payload().len();
        put_u64(frame.payload(), 0);
        Self {
            frame,
            types: TypeRun::default(),
            cursor_at,
        }
    }

    /// Appends a variable.
    pub fn push(&mut self, name: &str, data_type: &DataType, access: Access) {
        let out = self.frame.payload();
        put_str(out, name);
        self.types.put(out, data_type);
        put_access(out, access);
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

    /// Completes the frame. `next_cursor` is the cursor of the next page; 0 if this was the last.
    pub fn finish(mut self, next_cursor: u64) {
        let end = self.cursor_at.saturating_add(8);
        if let Some(slot) = self.frame.payload().get_mut(self.cursor_at..end) {
            slot.copy_from_slice(&next_cursor.to_le_bytes());
        }
        self.frame.finish(false);
    }
}

/// A NAMES frame; iterates over the variables found.
#[derive(Clone, Debug)]
pub struct Names<'a> {
    next_cursor: u64,
    items: Items<'a>,
    types: TypeRun,
}

impl<'a> Names<'a> {
    /// Reads the frame.
    ///
    /// # Errors
    /// [`DecodeError`] if the frame cannot hold `count` names; errors in the names appear during
    /// iteration.
    pub fn decode(frame: &Frame<'a>) -> Result<Self, DecodeError> {
        let mut payload = Payload::of(frame, FrameKind::Names)?;
        let next_cursor = payload.u64()?;
        let items = Items::new(payload, frame.count(), 3)?;
        Ok(Self {
            next_cursor,
            items,
            types: TypeRun::default(),
        })
    }

    /// Cursor of the next page; `None` if this is the last.
    pub fn next_cursor(&self) -> Option<u64> {
        (self.next_cursor != 0).then_some(self.next_cursor)
    }
}

impl<'a> Iterator for Names<'a> {
    type Item = Result<FoundVariable<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let types = &mut self.types;
        self.items.next_with(|payload| {
            Ok(FoundVariable {
                name: payload.text(usize::MAX)?,
                data_type: types.read(payload)?,
                access: read_access(payload)?,
            })
        })
    }
}
