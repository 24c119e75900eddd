//! FIND and NAMES: which variables there are.
//!
//! ```text
//! FIND   cursor u64 | limit u32 | pattern text
//! NAMES  next_cursor u64
//!        count x ( name text | type | access u8 )
//! ```
//!
//! The first FIND has cursor 0; a `next_cursor` other than 0 is the cursor of the FIND for the next
//! page. Cursors mean something to the engine only.

use trunkline_types::wire::{put_str, put_u32, put_u64};
use trunkline_types::{Access, DataType};

use super::typed::{TypeRun, put_access, read_access};
use crate::decode::{Items, Payload};
use crate::{DecodeError, Frame, FrameKind, FrameWriter};

/// Asks for the names that match a pattern.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Find<'a> {
    /// Where the page begins; 0 at first.
    pub cursor: u64,
    /// Most names wanted in the answer; 0 leaves it to the engine.
    pub limit: u32,
    /// The pattern. Whether it is legal is for the engine to answer.
    pub pattern: &'a str,
}

/// A variable that was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundVariable<'a> {
    /// Its full name.
    pub name: &'a str,
    /// The type of its values.
    pub data_type: DataType,
    /// What can be done with it at all.
    pub access: Access,
}

impl<'a> Find<'a> {
    /// Appends the frame.
    pub fn encode(&self, request: u32, out: &mut Vec<u8>) {
        let mut frame = FrameWriter::begin(out, FrameKind::Find, request);
        let out = frame.payload();
        put_u64(out, self.cursor);
        put_u32(out, self.limit);
        put_str(out, self.pattern);
        frame.finish(false);
    }

    /// Reads the frame.
    ///
    /// # Errors
    /// [`DecodeError`] when the payload is not as drawn in the [module](self).
    pub fn decode(frame: &Frame<'a>) -> Result<Self, DecodeError> {
        let mut payload = Payload::of(frame, FrameKind::Find)?;
        let find = Self {
            cursor: payload.u64()?,
            limit: payload.u32()?,
            pattern: payload.text(usize::MAX)?,
        };
        payload.finish()?;
        Ok(find)
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

    /// Names so far.
    pub fn count(&self) -> u32 {
        self.frame.count()
    }

    /// Bytes of the frame so far, header included.
    pub fn len_bytes(&self) -> usize {
        self.frame.len_bytes()
    }

    /// Completes the frame; `next_cursor`: where the next page begins, 0 when this was the last.
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
    /// [`DecodeError`] when the frame cannot hold `count` names; the rest shows in the iteration.
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

    /// Where the next page begins; `None` when this is the last.
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
