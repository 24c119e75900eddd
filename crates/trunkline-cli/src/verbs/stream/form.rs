//! Selects the format of the elements on standard input and output.

use trunkline::stream::element_bytes;
use trunkline_types::DataType;

use super::EndpointArgs;
use super::text::WRITER;
use crate::arguments::OutputFormat;
use crate::{Context, Problem};

/// Format of elements outside a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(super) enum ElementForm {
    /// As in memory, little-endian, without separators; for types of fixed size
    Raw,
    /// Comma-separated values; the first line names the columns: the fields of a struct, otherwise
    /// `value`. On standard input, this line can be missing
    Csv,
    /// A JSON value per line
    Jsonl,
    /// Arrow IPC streaming format: batches of columns
    Arrow,
}

impl EndpointArgs {
    pub(super) fn form(&self, context: &Context) -> Result<ElementForm, Problem> {
        let form = self
            .element_form
            .unwrap_or(match context.settings.output_format {
                OutputFormat::Csv => ElementForm::Csv,
                _ => ElementForm::Jsonl,
            });
        if form == ElementForm::Raw && element_bytes(&self.buffer.data_type).is_none() {
            let sentence = format!(
                "elements of type {} vary in size, so they have no raw form; use --as jsonl or csv",
                self.buffer.data_type
            );
            return Err(Problem::usage(sentence));
        }
        Ok(form)
    }

    /// Checks that the format can name the writer of an element, for an endpoint with several writers.
    pub(super) fn check_writer_column(&self, form: ElementForm) -> Result<(), Problem> {
        let has_writer_field = match &self.buffer.data_type {
            DataType::Struct(struct_type) => {
                struct_type.fields.iter().any(|(name, _)| **name == *WRITER)
            }
            _ => false,
        };
        match form {
            ElementForm::Raw => Err(raw_of_several()),
            ElementForm::Csv | ElementForm::Arrow if has_writer_field => Err(Problem::usage(
                "the column writer names the writer of an element, but the type has a field of \
                 that name; use --as jsonl, or rename the field",
            )),
            _ => Ok(()),
        }
    }
}

/// Returns the error for raw output of several writers, whose elements could not be distinguished.
pub(super) fn raw_of_several() -> Problem {
    Problem::usage(
        "the raw form cannot name the writer of an element, but with --writers there may be \
         several; use --as jsonl, csv or arrow, or read from one writer without --writers",
    )
}
