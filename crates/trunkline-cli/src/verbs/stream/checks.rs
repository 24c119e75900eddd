//! Refuses invalid combinations of arguments.

use trunkline::stream::element_bytes;
use trunkline_types::DataType;

use super::text::WRITER;
use super::{Args, ElementForm, Order};
use crate::arguments::Form;
use crate::problem::Problem;
use crate::verbs::Context;

/// Refuses options of another verb, or that exclude each other.
pub(super) fn check(args: &Args) -> Result<(), Problem> {
    let foreign = [
        (
            args.to.is_some() && args.verb != Order::Write,
            "--to is for write; a reader says --from",
        ),
        (
            args.from.is_some() && args.verb != Order::Read,
            "--from is for read; a writer says --to",
        ),
        (
            args.journal.is_some() && !matches!(args.verb, Order::Write | Order::Read),
            "--journal is for write and read",
        ),
        (
            args.checksums && args.verb != Order::Write,
            "--checksums is for write; a reader checks what its writer sends",
        ),
        (
            args.readers.is_some() && args.verb != Order::Write,
            "--readers is for write; an end that reads from several says --writers",
        ),
        (
            args.writers.is_some() && args.verb != Order::Read,
            "--writers is for read; an end that writes to several says --readers",
        ),
        (
            args.readers.is_some() && args.to.is_some(),
            "--readers and --to do not go together; several readers name this end by --from",
        ),
        (
            args.writers.is_some() && args.from.is_some(),
            "--writers and --from do not go together; several writers name this end by --to",
        ),
        (
            (args.readers.is_some() || args.writers.is_some()) && args.journal.is_some(),
            "an end with several peers has no journal; leave out --journal, or have one peer",
        ),
    ];
    match foreign.iter().find(|(is_given, _)| *is_given) {
        Some((_, sentence)) => Err(Problem::usage(sentence)),
        None => Ok(()),
    }
}

impl Args {
    /// Returns the form of the elements outside the stream.
    pub(super) fn form(&self, context: &Context) -> Result<ElementForm, Problem> {
        let form = self.element_form.unwrap_or(match context.settings.form {
            Form::Csv => ElementForm::Csv,
            _ => ElementForm::Jsonl,
        });
        if form == ElementForm::Raw && element_bytes(&self.data_type).is_none() {
            let sentence = format!(
                "elements of {} vary in size and have no raw form; use --as jsonl or csv",
                self.data_type
            );
            return Err(Problem::usage(&sentence));
        }
        if self.writers.is_some() {
            self.check_writer_place(form)?;
        }
        Ok(form)
    }

    /// Checks that the form has room for the writer's name, if there are several writers.
    fn check_writer_place(&self, form: ElementForm) -> Result<(), Problem> {
        let is_taken = match &self.data_type {
            DataType::Struct(of) => of.fields.iter().any(|(name, _)| **name == *WRITER),
            _ => false,
        };
        match form {
            ElementForm::Raw => Err(raw_of_several()),
            ElementForm::Csv | ElementForm::Arrow if is_taken => Err(Problem::usage(
                "the column writer says whose an element is, and the type has a field of that \
                 name; use --as jsonl, or name the field otherwise",
            )),
            _ => Ok(()),
        }
    }
}

/// Raw elements of several writers could not be told apart.
pub(super) fn raw_of_several() -> Problem {
    Problem::usage(
        "the raw form has no place for the writer of an element, and with --writers there may be \
         several; use --as jsonl, csv or arrow, or read from one writer without --writers",
    )
}
