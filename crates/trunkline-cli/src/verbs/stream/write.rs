//! `stream write`: copies standard input to a stream.

use std::time::Duration;

use trunkline::stream::{StreamError, element_bytes};
use trunkline_types::Value;
use trunkline_types::wire::encoded_len;

use super::events::StreamEvent;
use super::form::ElementForm;
use super::input::Input;
use super::peers::Endpoint;
use super::text::Lines;
use super::transfer::{Halt, POLL_INTERVAL, Transfer};
use super::writer_endpoint::WriterEndpoint;
use super::{EndpointArgs, arrow, peer_count, problem};
use crate::{CliError, Context, Exit, Problem, arguments};

/// Maximum time for which an interrupted command delivers the elements already written.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of bytes per read from standard input.
const PIECE_BYTES: usize = 64 << 10;

const FORM: &str =
    "Format of the elements on standard input (default: csv with `-o csv`, otherwise jsonl)";

/// Write elements from standard input to a stream
///
/// With --readers, any number of readers can connect, each with `stream read --from`. Every reader
/// gets all elements. The writer waits for the slowest reader, unless --quota limits the number of
/// elements that may wait for a reader.
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

    /// The reader to write to (default: any reader that connects to this endpoint)
    #[arg(long, value_name = "PEER")]
    pub(super) to: Option<String>,

    /// Write to any number of readers, and start when N are connected
    #[arg(
        long,
        value_name = "N",
        value_parser = peer_count,
        conflicts_with_all = ["to", "journal"],
        allow_negative_numbers = true
    )]
    pub(super) readers: Option<usize>,

    /// Do not wait for slow readers: if more than N elements wait for a reader, discard the oldest
    /// and report their number to that reader
    #[arg(
        long,
        value_name = "N",
        value_parser = arguments::number::<u64>(0..=u64::MAX),
        requires = "readers",
        allow_negative_numbers = true
    )]
    pub(super) quota: Option<u64>,

    /// Also send checksums between programs on one machine; between machines, they are always sent
    #[arg(long)]
    pub(super) checksums: bool,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<Exit, CliError> {
    let form = args.end.form(context)?;
    let chunk = args.end.chunk()?;
    let input = Input::new()?;
    let mut writer = WriterEndpoint::create(args, context)?;
    let transfer = Transfer::new(context);
    transfer.report_start(&mut writer, args.end.journal.is_some())?;
    let mut write = Write {
        args: &args.end,
        transfer,
        writer,
        input,
        chunk,
    };
    let outcome = match form {
        ElementForm::Raw => write.copy_raw(),
        _ => write.copy_parsed(form),
    };
    write.end(outcome)
}

enum Parser<'a> {
    Lines(Lines<'a>),
    Arrow(arrow::Parser<'a>),
}

impl Parser<'_> {
    fn parse(&mut self, piece: &[u8], out: &mut Vec<Value>) -> Result<(), Problem> {
        match self {
            Parser::Lines(lines) => lines.parse(piece, out),
            Parser::Arrow(batches) => batches.parse(piece, out),
        }
    }

    fn finish(&mut self, out: &mut Vec<Value>) -> Result<(), Problem> {
        match self {
            Parser::Lines(lines) => lines.finish(out),
            Parser::Arrow(batches) => batches.finish(),
        }
    }
}

struct Write<'a> {
    args: &'a EndpointArgs,
    transfer: Transfer<'a>,
    writer: WriterEndpoint,
    input: Input,
    chunk: usize,
}

impl Write<'_> {
    /// Returns true if Ctrl-C was pressed twice.
    fn is_given_up(&self) -> bool {
        self.transfer.context.interrupted.presses() > 1
    }

    /// Returns the maximum number of elements to write next.
    fn next_count(&self) -> usize {
        self.args
            .next_count(self.transfer.moved.elements, self.chunk)
    }

    fn wait_for_input(&mut self) -> Result<(), Halt> {
        loop {
            self.transfer.poll(&mut self.writer)?;
            if self.transfer.context.interrupted.is_pressed() {
                return Err(Halt::Interrupted);
            }
            if self.input.is_ready(POLL_INTERVAL) {
                return Ok(());
            }
        }
    }

    /// Reads standard input directly into the buffer of the stream, without a copy.
    fn copy_raw(&mut self) -> Result<(), Halt> {
        let size = element_bytes(&self.args.buffer.data_type).unwrap_or(1);
        // The bytes of an incomplete element.
        let mut partial: Vec<u8> = Vec::new();
        let mut is_end = false;
        while !is_end && self.next_count() > 0 {
            self.wait_for_input()?;
            let (elements_max, input) = (self.next_count(), &mut self.input);
            let count = self
                .transfer
                .retry_until_done(&mut self.writer, |writer, timeout| {
                    writer.write_bytes_with(elements_max, timeout, |space| {
                        let (head, rest) = space.split_at_mut(partial.len());
                        head.copy_from_slice(&partial);
                        let read = input.read(rest)?;
                        is_end = read == 0;
                        let filled = partial.len() + read;
                        let complete = filled / size * size;
                        partial.clear();
                        partial.extend_from_slice(&space[complete..filled]);
                        Ok::<usize, Halt>(complete)
                    })
                })?;
            self.transfer.moved.elements += count as u64;
            self.transfer.moved.bytes += (count * size) as u64;
        }
        if partial.is_empty() {
            return Ok(());
        }
        let sentence = format!(
            "standard input ends within an element, after {} of {size} bytes; the complete elements \
             were written",
            partial.len()
        );
        Err(Halt::Command(Problem::usage(sentence).into()))
    }

    fn copy_parsed(&mut self, form: ElementForm) -> Result<(), Halt> {
        let args = self.args;
        let mut parser = match form {
            ElementForm::Arrow => {
                Parser::Arrow(arrow::Parser::new(&args.buffer.data_type).map_err(CliError::from)?)
            }
            form => Parser::Lines(Lines::new(form, &args.buffer.data_type)),
        };
        let mut buffer = vec![0; PIECE_BYTES];
        let mut values = Vec::new();
        while self.next_count() > 0 {
            self.wait_for_input()?;
            let read = self.input.read(&mut buffer)?;
            let parsed = match read {
                0 => parser.finish(&mut values),
                read => parser.parse(&buffer[..read], &mut values),
            };
            // The elements before an invalid line are written.
            let mut rest = values.as_slice();
            while !rest.is_empty() && self.next_count() > 0 {
                let (chunk, remaining) = rest.split_at(self.next_count().min(rest.len()));
                self.write(chunk)?;
                rest = remaining;
            }
            values.clear();
            parsed.map_err(CliError::from)?;
            if read == 0 {
                return Ok(());
            }
        }
        Ok(())
    }

    fn write(&mut self, values: &[Value]) -> Result<(), Halt> {
        let written = self
            .transfer
            .retry_until_done(&mut self.writer, |writer, timeout| {
                Ok(writer.write_many(values, timeout)?)
            });
        match written {
            Ok(()) => {
                let bytes: usize = values.iter().map(encoded_len).sum();
                self.transfer.moved.elements += values.len() as u64;
                self.transfer.moved.bytes += bytes as u64;
                Ok(())
            }
            // The elements, or one of them, exceed the buffer: write the halves separately.
            Err(Halt::Stream(StreamError::TooMany { .. } | StreamError::TooLong { .. }))
                if values.len() > 1 =>
            {
                let (first, second) = values.split_at(values.len() / 2);
                self.write(first)?;
                self.write(second)
            }
            Err(halt) => Err(halt),
        }
    }

    /// Delivers the elements already written, unless the stream has ended, and reports the elements
    /// that were not delivered.
    fn end(mut self, outcome: Result<(), Halt>) -> Result<Exit, CliError> {
        if let (Err(halt), true) = (&outcome, self.args.journal.is_some()) {
            let is_interrupted = matches!(halt, Halt::Interrupted);
            return self.leave(outcome.err().filter(|_| !is_interrupted));
        }
        let failure = outcome.as_ref().err().and_then(reason);
        let is_over = matches!(&outcome, Err(Halt::Stream(error)) if !can_deliver(error));
        let halted = match (outcome, is_over) {
            (Err(halt), true) => Some(halt),
            (outcome, _) => {
                let delivered = self
                    .transfer
                    .retry_until_done(&mut self.writer, |writer, timeout| {
                        Ok(writer.flush(timeout)?)
                    });
                outcome.err().or(delivered.err())
            }
        };
        if matches!(halted, Some(Halt::Interrupted)) {
            self.deliver()?;
        }
        let properties = self.writer.properties();
        let report = match failure {
            Some(reason) => self.writer.abort(&reason),
            // The user has given up, so do not wait any longer.
            None if self.is_given_up() => self.writer.close(Duration::ZERO),
            // Everything was delivered, or the time for it has passed.
            None => self.writer.close(POLL_INTERVAL * 10),
        };
        self.transfer
            .report_peer_events(&properties, &report.events)?;
        let undelivered = report.left;
        let (readers, lost) = report.readers.unzip();
        self.transfer.context.notify(&StreamEvent::Written {
            moved: self.transfer.transferred(&properties),
            left: Some(undelivered.elements),
            in_doubt: Some(undelivered.in_doubt),
            readers,
            lost,
            kept: None,
        })?;
        let unfinished = report.journal_error.map(|error| Halt::Stream(error.into()));
        let halted = match halted.or(unfinished) {
            None => None,
            Some(Halt::Interrupted) => {
                return Ok(match undelivered.elements {
                    0 => Exit::Interrupted,
                    _ => Exit::Lost,
                });
            }
            Some(Halt::Command(error)) => Some(error),
            Some(Halt::Stream(error)) => Some(CliError::from(problem(&error))),
        };
        match (halted, undelivered.elements) {
            (Some(CliError::Problem(mut problem)), undelivered) => {
                if undelivered > 0 {
                    problem.exit = Exit::Lost;
                }
                Err(CliError::Problem(problem))
            }
            (Some(error), _) => Err(error),
            (None, 0) => Ok(Exit::Success),
            (None, _) => Ok(Exit::Lost),
        }
    }

    /// Leaves the stream to the next program that uses the journal, which contains every element that
    /// was written but not delivered.
    fn leave(self, halted: Option<Halt>) -> Result<Exit, CliError> {
        let properties = self.writer.properties();
        drop(self.writer);
        self.transfer.context.notify(&StreamEvent::Written {
            moved: self.transfer.transferred(&properties),
            left: None,
            in_doubt: None,
            readers: None,
            lost: None,
            kept: Some(properties.in_buffer),
        })?;
        match halted {
            None | Some(Halt::Interrupted) => Ok(Exit::Interrupted),
            Some(Halt::Command(error)) => Err(error),
            Some(Halt::Stream(error)) => Err(problem(&error).into()),
        }
    }

    /// Delivers the elements already written after Ctrl-C, until it is pressed again.
    fn deliver(&mut self) -> Result<(), CliError> {
        let started_at = self.transfer.context.clock.now();
        let mut is_reported = false;
        while !self.is_given_up()
            && self.transfer.context.clock.now().since(started_at) < DELIVERY_TIMEOUT
        {
            match self.writer.flush(POLL_INTERVAL) {
                Err(StreamError::Timeout { .. }) => {}
                // Everything is delivered, or the stream has ended. Closing the writer reports which.
                _ => return Ok(()),
            }
            if !is_reported {
                let properties = self.writer.properties();
                self.transfer
                    .report_delivering(&properties, DELIVERY_TIMEOUT)?;
                is_reported = true;
            }
            self.transfer.poll(&mut self.writer)?;
        }
        Ok(())
    }
}

/// Returns the reason that the reader receives if the command cannot write all of its input.
fn reason(halt: &Halt) -> Option<String> {
    match halt {
        // The user has ended the stream, so the reader gets no reason.
        Halt::Interrupted => None,
        Halt::Stream(error) => Some(error.to_string()),
        Halt::Command(CliError::Problem(problem)) => Some(problem.sentence()),
        Halt::Command(_) => Some("the writing program failed".to_owned()),
    }
}

/// Returns true if the elements already written can still be delivered.
fn can_deliver(error: &StreamError) -> bool {
    matches!(
        error,
        StreamError::Timeout { .. } | StreamError::TooLong { .. }
    )
}
