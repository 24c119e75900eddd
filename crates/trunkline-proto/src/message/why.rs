//! WHY and WHY_ANSWER: diagnosis of a variable that does not deliver (B-14).
//!
//! ```text
//! WHY         name text
//! WHY_ANSWER  count x ( stage u8 | verdict u8 | sentence text | next text )
//!             stage    1 resolution  2 connection  3 tls  4 version  5 rights  6 library
//!                      7 source  8 filter  9 buffer  10 consumer
//!             verdict  0 ok  1 fault  2 note
//! ```

pub use trunkline_types::{WhyStage, WhyStep, WhyVerdict};

use super::form::{Name, Number, Numbered, Text, numbered};
use super::layout::{Shown, record};
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

    fn shown(self) -> Shown<'static> {
        Shown::Text(self.name())
    }
}

record! {
    /// Asks why a variable does not deliver.
    #[derive(Copy, Eq)]
    pub struct Why<'a> {
        /// Its full name.
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
    head (), item WhyStep<&'a str>, empty kept
}
