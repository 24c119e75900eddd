//! `stream read`: copies a stream to standard output.

use std::fs::File;
use std::io::Write;

use trunkline::stream::StreamError;
use trunkline_types::Value;
use trunkline_types::wire::encoded_len;

use super::arrow::Batches;
use super::events::StreamEvent;
use super::form::{ElementForm, raw_of_several};
use super::peers::Endpoint;
use super::reader_endpoint::{Elements, ReaderEndpoint};
use super::transfer::{Halt, Transfer};
use super::{EndpointArgs, peer_count, problem, text};
use crate::{CliError, Context, Exit};

const FORM: &str =
    "Format of the elements on standard output (default: csv with `-o csv`, otherwise jsonl)";

/// Print the elements of a stream
///
/// With --writers, any number of writers can connect, each with `stream write --to`. The output shows
/// the writer of each element.
///
/// The command waits indefinitely unless --timeout is given. Names such as daq/raw need an engine on
/// this machine: see `trunkline help stream`.
#[derive(Clone, Debug, clap::Args)]
#[command(mut_args(|arg| match arg.get_id().as_str() {
    "element_form" => arg.help(FORM),
    _ => arg,
}))]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) end: EndpointArgs,

    /// The writer to read from (default: any writer that connects to this endpoint)
    #[arg(long, value_name = "PEER")]
    pub(super) from: Option<String>,

    /// Read from any number of writers: start when N are connected, and stop when N have ended and
    /// no others are connected; with 0, never stop
    #[arg(
        long,
        value_name = "N",
        value_parser = peer_count,
        conflicts_with_all = ["from", "journal"],
        allow_negative_numbers = true
    )]
    pub(super) writers: Option<usize>,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<Exit, CliError> {
    let form = args.end.form(context)?;
    if args.writers.is_some() {
        args.end.check_writer_column(form)?;
    }
    let chunk = args.end.chunk()?;
    let mut reader = ReaderEndpoint::create(args, context)?;
    let transfer = Transfer::new(context);
    transfer.report_start(&mut reader, args.end.journal.is_some())?;
    let mut read = Read {
        args: &args.end,
        context,
        transfer,
        reader,
        chunk,
    };
    let outcome = match form {
        ElementForm::Raw => read.copy_raw(),
        ElementForm::Arrow => read.copy_arrow(),
        _ => read.copy_text(form),
    };
    read.end(outcome)
}

struct Read<'a> {
    args: &'a EndpointArgs,
    context: &'a Context,
    transfer: Transfer<'a>,
    reader: ReaderEndpoint,
    chunk: usize,
}

impl Read<'_> {
    /// Returns the maximum number of elements to read next.
    fn next_count(&self) -> usize {
        self.args
            .next_count(self.transfer.moved.elements, self.chunk)
    }

    /// Writes elements to standard output directly from the buffer of the stream, without a copy.
    fn copy_raw(&mut self) -> Result<(), Halt> {
        let mut out: File = self.context.terminal.binary_output()?;
        while self.next_count() > 0 {
            let elements_max = self.next_count();
            let (elements, bytes) =
                self.transfer
                    .retry_until_done(&mut self.reader, |reader, timeout| {
                        let ReaderEndpoint::One(reader) = reader else {
                            return Err(CliError::from(raw_of_several()).into());
                        };
                        let region = reader.acquire_bytes(elements_max, Some(timeout))?;
                        out.write_all(&region).map_err(CliError::from)?;
                        Ok((region.elements(), region.len()))
                    })?;
            self.count(elements, bytes)?;
        }
        Ok(())
    }

    fn copy_arrow(&mut self) -> Result<(), Halt> {
        let out: File = self.context.terminal.binary_output()?;
        let mut batches = Batches::new(
            out,
            &self.args.buffer.data_type,
            self.reader.allows_many_peers(),
        )?;
        let outcome = self.copy(|values, writer| batches.write(values, writer));
        match outcome {
            // The output failed, so do not write the end of the Arrow stream.
            Err(Halt::Command(error)) => Err(Halt::Command(error)),
            outcome => {
                batches.finish()?;
                outcome
            }
        }
    }

    fn copy_text(&mut self, form: ElementForm) -> Result<(), Halt> {
        let (terminal, data_type) = (&self.context.terminal, &self.args.buffer.data_type);
        let style = self.context.settings.values.for_programs();
        if let Some(header) = text::header(form, data_type, self.reader.allows_many_peers()) {
            terminal.line(&header)?;
        }
        self.copy(|values, writer| {
            let line = |value| text::line(form, writer, value, data_type, style);
            values
                .iter()
                .try_for_each(|value| terminal.line(&line(value)))
        })
    }

    /// Passes elements to `write`, with the URL of their writer if there can be several writers.
    fn copy(
        &mut self,
        mut write: impl FnMut(&[Value], Option<&str>) -> Result<(), CliError>,
    ) -> Result<(), Halt> {
        while self.next_count() > 0 {
            // Flush the output before waiting for elements. With a journal, flush it before every read,
            // because a read confirms that the earlier elements have reached their destination.
            if self.reader.available() == 0 || self.args.journal.is_some() {
                self.context.terminal.flush()?;
            }
            let elements_max = self.next_count();
            let Elements { writer, values } = self
                .transfer
                .retry_until_done(&mut self.reader, |reader, timeout| {
                    Ok(reader.read_up_to(elements_max, timeout)?)
                })?;
            write(&values, writer.as_ref().map(|writer| writer.url.as_str()))?;
            self.count(values.len(), values.iter().map(encoded_len).sum())?;
        }
        Ok(())
    }

    fn count(&mut self, elements: usize, bytes: usize) -> Result<(), CliError> {
        self.transfer.moved.elements += elements as u64;
        self.transfer.moved.bytes += bytes as u64;
        self.transfer.poll(&mut self.reader)
    }

    /// Releases the reader. With a journal, a stream that has not ended is left to the next program that
    /// uses the journal. Otherwise, closing the reader reports to the writer how much was read.
    fn release(
        mut reader: ReaderEndpoint,
        args: &EndpointArgs,
        context: &Context,
        outcome: &Result<(), Halt>,
    ) -> Result<(), CliError> {
        let is_at_end = matches!(
            outcome,
            Err(Halt::Stream(
                StreamError::Ended | StreamError::Aborted { .. }
            ))
        );
        // Elements that could not be printed are not committed, so the next program reads them again.
        let is_printed = !matches!(outcome, Err(Halt::Command(_)));
        if args.journal.is_none() || is_at_end {
            reader.close().map_err(|error| problem(&error))?;
        } else if is_printed {
            context.terminal.flush()?;
            reader.commit().map_err(|error| problem(&error))?;
        }
        Ok(())
    }

    fn end(mut self, outcome: Result<(), Halt>) -> Result<Exit, CliError> {
        self.transfer.report_peers(&mut self.reader)?;
        let (failed, ended) = (self.reader.failed(), self.reader.ended());
        let properties = self.reader.properties();
        self.transfer.report_lost(&properties.url)?;
        Self::release(self.reader, self.args, self.context, &outcome)?;
        let lost = self.transfer.lost;
        if !matches!(&outcome, Err(Halt::Command(CliError::PipeClosed))) {
            self.transfer.context.notify(&StreamEvent::Read {
                moved: self.transfer.transferred(&properties),
                unread: properties.in_buffer,
                lost,
                ended,
            })?;
        }
        match outcome {
            Ok(()) | Err(Halt::Stream(StreamError::Ended)) if lost == 0 => {
                Ok(failed.unwrap_or(Exit::Success))
            }
            Err(Halt::Interrupted) if lost == 0 => Ok(Exit::Interrupted),
            Ok(()) | Err(Halt::Stream(StreamError::Ended) | Halt::Interrupted) => Ok(Exit::Lost),
            Err(Halt::Stream(error)) => Err(problem(&error).into()),
            Err(Halt::Command(error)) => Err(error),
        }
    }
}
