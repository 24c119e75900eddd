//! FIND and NAMES: searching for variables.
//!
//! The first FIND has cursor 0. If `next_cursor` of a page is not 0, set `cursor` of the FIND for
//! the next page to it. Only the engine interprets cursors. A variable is found only if it meets
//! all conditions. Conditions are used only if both ends have the feature CONDITIONS.

pub use trunkline_types::Comparison;
use trunkline_types::{Access, Condition, DataType};

use super::form::{Fixed, Name, Number, OrZero, Type};
use super::layout::record;
use super::list::list_frame;

record! {
    /// Asks for the names that match a pattern.
    #[derive(Copy, Eq)]
    pub struct Find<'a> {
        /// Cursor of the page; 0 for the first page.
        pub cursor: u64 = Fixed,
        /// Maximum number of names in the answer; 0 lets the engine choose.
        pub limit: u32 = Fixed,
        pub pattern: &'a str = Name,
    }
}

record! {
    /// A condition that a variable must meet to be found.
    #[derive(Copy, Eq)]
    pub struct FindCondition<'a> {
        /// Name of a field, such as `units`; `*` for any field with text.
        pub field: &'a str = Name,
        /// The number of a [`Comparison`], or a number defined by a newer version.
        pub comparison: u8 = Fixed,
        pub value: &'a str = Name,
    }
}

impl Find<'_> {
    /// Appends the frame, without conditions.
    pub fn encode(&self, request: u32, out: &mut Vec<u8>) {
        FindBuilder::begin(out, request, self).finish(false);
    }
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

list_frame! {
    FindFrame: Find, FindConditions, FindBuilder,
    head Find<'a>, item FindCondition<'a>, empty_frame kept, items "conditions"
}

record! {
    #[derive(Copy, Eq, Default)]
    pub struct NamesHead {
        /// Cursor of the next page; `None` if this is the last page.
        pub next_cursor: Option<u64> = OrZero,
    }
}

record! {
    #[derive(Eq)]
    pub struct FoundVariable<'a> {
        pub name: &'a str = Name,
        pub data_type: DataType = Type as "type",
        pub access: Access = Number,
    }
}

list_frame! {
    NamesFrame: Names, Names, NamesBuilder,
    head NamesHead, item FoundVariable<'a>, empty_frame kept
}

impl NamesBuilder<'_> {
    /// Completes the frame with the cursor of the next page.
    pub fn finish_page(mut self, next_cursor: Option<u64>) {
        self.set_head(&NamesHead { next_cursor });
        self.finish(false);
    }
}
