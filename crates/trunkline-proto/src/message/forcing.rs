//! FORCING and FORCED: list forced variables, and switch forcing on or off.
//!
//! Used only if both ends have the feature FORCING. OFF makes every forced variable show the value of
//! its source, but does not change the list of forced variables; ON applies the list; CLEAR empties
//! the list. These three verbs are answered without items, and `total` is the number of affected
//! variables. LIST is answered with one page; if `next_cursor` is not 0, set `cursor` of the FORCING
//! for the next page to it.

use trunkline_types::{DataType, Quality, Timestamp, Value};

use super::form::{
    Fixed, Flag, FlagsThen, Form, Inner, Name, Nanos, Number, Optional, QualityBits, Text, Type,
    Typed, numbered,
};
use super::layout::{Field, FieldSink, FrameContext, Record, record};
use super::list::list_frame;
#[cfg(test)]
use super::round_trip::Source;
use super::single::single_frame;
use crate::DecodeError;
use crate::decode::Payload;
use crate::limits::SENTENCE_BYTES_MAX;

const ON: u8 = 1;
const BEHIND: u8 = 1;

/// The action on the list of forced variables.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ForcingVerb {
    List,
    /// Apply the forced values.
    On,
    /// Show the source's value for every variable, without changing the list.
    Off,
    /// Unforce every variable.
    Clear,
}

numbered! {
    ForcingVerb, "a verb, 0 to 3" {
        List = 0, "list";
        On = 1, "on";
        Off = 2, "off";
        Clear = 3, "clear";
    }
}

record! {
    #[derive(Copy, Eq)]
    pub struct Forcing {
        pub verb: ForcingVerb = Number,
        /// Cursor of the page; 0 for the first page.
        pub cursor: u32 = Fixed,
        /// Maximum number of items in the answer; 0 lets the engine choose.
        pub limit: u32 = Fixed,
    }
}

single_frame! { Forcing, Forcing }

record! {
    #[derive(Copy, Eq, Default)]
    pub struct ForcedHead {
        /// True while forced values are applied.
        pub is_on: bool = FlagsThen<Flag<ON>>,
        /// Number of variables on the list, or number of variables that the action affected.
        pub total: u32 = Fixed,
        /// Cursor of the next page; 0 if this is the last page.
        pub next_cursor: u32 = Fixed,
    }
}

record! {
    /// A forced variable.
    pub struct ForcedEntry {
        /// Full name of the variable.
        pub name: String = Name,
        /// The type of the values.
        pub data_type: DataType = Type as "type",
        /// Time at which the variable was forced.
        pub since: Timestamp = FlagsThen<Nanos>,
        /// Principal that forced the variable, shown to users.
        pub by: String = Text<SENTENCE_BYTES_MAX>,
        /// The forced value.
        pub value: Value = Typed,
        /// The value and quality that the source currently delivers; `None` if there is no value yet.
        pub behind: Option<(Value, Quality)> = Optional<BEHIND, Inner>,
    }
}

/// A value of the preceding data type, and its quality.
impl<'a> Record<'a> for (Value, Quality) {
    const FIELDS: &'static [Field] = &[Field::literal("quality u32 | value")];

    fn bytes_min(_: &FrameContext) -> usize {
        4
    }

    fn put(&self, context: &mut FrameContext, out: &mut Vec<u8>) {
        QualityBits::put(&self.1, context, out);
        Typed::put(&self.0, context, out);
    }

    fn read(context: &mut FrameContext, payload: &mut Payload<'a>) -> Result<Self, DecodeError> {
        let quality = QualityBits::read(context, payload)?;
        Ok((Typed::read(context, payload)?, quality))
    }

    fn show(&self, to: &mut dyn FieldSink) {
        Typed::show(&self.0, "value", to);
        QualityBits::show(&self.1, "quality", to);
    }

    #[cfg(test)]
    fn sample(source: &mut Source<'a>, context: &mut FrameContext) -> Self {
        (
            Typed::sample(source, context),
            QualityBits::sample(source, context),
        )
    }
}

list_frame! {
    ForcedFrame: Forced, Forced, ForcedBuilder,
    head ForcedHead, item ForcedEntry, empty_frame kept
}

impl ForcedBuilder<'_> {
    /// Completes the frame with its final head.
    pub fn finish_page(mut self, head: &ForcedHead) {
        self.set_head(head);
        self.finish(false);
    }
}
