//! WHY and WHY_ANSWER: diagnosis of a variable that does not deliver (B-14).

pub use trunkline_types::{WhyStage, WhyStep, WhyVerdict};

use super::form::{Name, Number, Numbered, Text, numbered};
use super::layout::{FieldSink, FieldValue, record};
use super::list::list_frame;
use super::single::single_frame;
use crate::limits::SENTENCE_BYTES_MAX;

numbered! {
    WhyVerdict, newer Unknown { Ok = 0; Fault = 1; Note = 2; }
}

impl Numbered for WhyStage {
    const EXPECTED: &'static str = "any number";

    fn number(self) -> u8 {
        WhyStage::number(self)
    }

    fn from_number(number: u8) -> Option<Self> {
        Some(WhyStage::from_number(number))
    }

    fn show(self, name: &str, to: &mut dyn FieldSink) {
        to.field(name, FieldValue::Text(self.name()));
    }
}

record! {
    /// Asks why a variable does not deliver.
    #[derive(Copy, Eq)]
    pub struct Why<'a> {
        pub name: &'a str = Name,
    }
}

single_frame! { Why, Why<'a> }

record! {
    impl WhyStep<&'a str> {
        stage: WhyStage = Number,
        verdict: WhyVerdict = Number,
        sentence: &'a str = Text<SENTENCE_BYTES_MAX>,
        next: &'a str = Text<SENTENCE_BYTES_MAX>,
    }
}

list_frame! {
    WhyAnswerFrame: WhyAnswer, WhyAnswer, WhyAnswerBuilder,
    head (), item WhyStep<&'a str>, empty_frame kept
}
