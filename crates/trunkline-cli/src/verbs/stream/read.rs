//! `stream read`: copies a stream to standard output.

use std::fs::File;
use std::io::Write;

use trunkline::stream::StreamError;
use trunkline_types::wire::encoded_len;

use super::arrow::Batches;
use super::form::{ElementForm, raw_of_several};
use super::pace::{Halt, Pace};
use super::peers::Endpoint;
use super::reading_end::{Elements, ReadingEnd};
use super::{EndArgs, peers, problem, text};
use crate::exit::Exit;
use crate::interrupt::Interrupted;
use crate::output::counted;
use crate::problem::Stop;
use crate::verbs::Context;

/// Print the elements of a stream
///
/// With --writers, this end reads from any number of writers, which name it with --to, and shows
/// the writer of each element.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) end: EndArgs,

    /// The writing end to read from (default: any that names this end)
    #[arg(long, value_name = "PEER")]
    pub(super) from: Option<String>,

    /// Read from any number of writers: begin when this many are connected, and end when this many
    /// have ended and none is left; with 0, do not end
    #[arg(long, value_name = "N", value_parser = peers, conflicts_with_all = ["from", "journal"])]
    pub(super) writers: Option<usize>,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<Exit, Stop> {
    let interrupted = Interrupted::new(&context.terminal)?;
    let form = args.end.form(context)?;
    if args.writers.is_some() {
        args.end.check_writer_place(form)?;
    }
    let chunk = args.end.chunk()?;
    let mut reader = ReadingEnd::create(args, context)?;
    let pace = Pace::new(context, interrupted);
    pace.met(&mut reader, args.end.journal.is_some())?;
    let mut sut = Read {
        args: &args.end,
        context,
        pace,
        reader,
        chunk,
    };
    let moved = match form {
        ElementForm::Raw => sut.copy_raw(),
        ElementForm::Arrow => sut.copy_arrow(),
        _ => sut.copy_text(form),
    };
    sut.end(moved)
}

struct Read<'a> {
    args: &'a EndArgs,
    context: &'a Context,
    pace: Pace,
    reader: ReadingEnd,
    chunk: usize,
}

impl Read<'_> {
    /// Returns the number of elements still wanted, at most one chunk.
    fn wanted(&self) -> usize {
        match self.args.count {
            Some(count) => usize::try_from(count.saturating_sub(self.pace.moved.elements))
                .map_or(self.chunk, |left| left.min(self.chunk)),
            None => self.chunk,
        }
    }

    /// Writes elements to standard output directly from where they arrived, without a copy.
    fn copy_raw(&mut self) -> Result<(), Halt> {
        let mut out: File = self.context.terminal.data()?;
        while self.wanted() > 0 {
            let wanted = self.wanted();
            let (elements, bytes) = self.pace.patiently(&mut self.reader, |reader, slice| {
                let ReadingEnd::One(reader) = reader else {
                    return Err(Stop::from(raw_of_several()).into());
                };
                let region = reader.acquire_bytes(wanted, Some(slice))?;
                out.write_all(&region).map_err(Stop::from)?;
                Ok((region.elements(), region.len()))
            })?;
            self.count(elements, bytes)?;
        }
        Ok(())
    }

    /// Writes one batch per read.
    fn copy_arrow(&mut self) -> Result<(), Halt> {
        let out: File = self.context.terminal.data()?;
        let mut batches = Batches::new(out, &self.args.buffer.data_type, self.reader.is_many())?;
        let moved = self.copy_batches(&mut batches);
        match moved {
            // The reader has closed the output.
            Err(Halt::Stop(stop)) => Err(Halt::Stop(stop)),
            moved => {
                batches.finish()?;
                moved
            }
        }
    }

    fn copy_batches(&mut self, batches: &mut Batches) -> Result<(), Halt> {
        while self.wanted() > 0 {
            let wanted = self.wanted();
            let Elements { writer, values } =
                self.pace.patiently(&mut self.reader, |reader, slice| {
                    Ok(reader.read_up_to(wanted, slice)?)
                })?;
            let writer = writer.as_ref().map(|writer| writer.url.as_str());
            batches.write(&values, writer)?;
            self.count(values.len(), values.iter().map(encoded_len).sum())?;
        }
        Ok(())
    }

    fn copy_text(&mut self, form: ElementForm) -> Result<(), Halt> {
        let (terminal, data_type) = (&self.context.terminal, &self.args.buffer.data_type);
        let style = self.context.settings.values.for_programs();
        if let Some(header) = text::header(form, data_type, self.reader.is_many()) {
            terminal.line(&header)?;
        }
        while self.wanted() > 0 {
            // Nothing is waiting, so the reader of the output gets all of it now. With a journal,
            // the next read confirms that the elements read before have reached their destination.
            if self.reader.available() == 0 || self.args.journal.is_some() {
                terminal.flush()?;
            }
            let wanted = self.wanted();
            let Elements { writer, values } =
                self.pace.patiently(&mut self.reader, |reader, slice| {
                    Ok(reader.read_up_to(wanted, slice)?)
                })?;
            let writer = writer.as_ref().map(|writer| writer.url.as_str());
            for value in &values {
                terminal.line(&text::line(form, writer, value, data_type, style))?;
            }
            self.count(values.len(), values.iter().map(encoded_len).sum())?;
        }
        Ok(())
    }

    fn count(&mut self, elements: usize, bytes: usize) -> Result<(), Stop> {
        self.pace.moved.elements += elements as u64;
        self.pace.moved.bytes += bytes as u64;
        self.pace.look(&mut self.reader)
    }

    /// With a journal, the stream is left to its next user unless it has ended. Otherwise the
    /// writer is told how far the reader came.
    fn go(
        mut reader: ReadingEnd,
        args: &EndArgs,
        context: &Context,
        moved: &Result<(), Halt>,
    ) -> Result<(), Stop> {
        let is_at_end = matches!(
            moved,
            Err(Halt::Stream(
                StreamError::Ended | StreamError::Aborted { .. }
            ))
        );
        // Elements that could not be printed are delivered again to that user.
        let is_printed = !matches!(moved, Err(Halt::Stop(_)));
        if args.journal.is_none() || is_at_end {
            reader.close().map_err(|error| problem(&error))?;
        } else if is_printed {
            context.terminal.flush()?;
            reader.commit().map_err(|error| problem(&error))?;
        }
        Ok(())
    }

    /// Closes the end, and prints the summary.
    fn end(mut self, moved: Result<(), Halt>) -> Result<Exit, Stop> {
        self.pace.tell(&mut self.reader)?;
        let (failed, ended) = (self.reader.failed(), self.reader.ended());
        let properties = self.reader.properties();
        self.pace.report_lost(&properties.url)?;
        Self::go(self.reader, self.args, self.context, &moved)?;
        let mut rest = match properties.in_buffer {
            0 => String::new(),
            unread => format!("; {unread} that had arrived were not read"),
        };
        let lost = self.pace.lost;
        if lost > 0 {
            rest.push_str(&format!("; {lost} were lost on the way"));
        }
        let mut numbers = vec![("unread", properties.in_buffer), ("lost", lost)];
        if let Some(ended) = ended {
            rest.push_str(&format!("; {} ended", counted(ended, "writer")));
            numbers.push(("ended", ended));
        }
        if !matches!(&moved, Err(Halt::Stop(Stop::PipeClosed))) {
            self.pace.sum_up("read", &properties, (rest, numbers))?;
        }
        match moved {
            Ok(()) | Err(Halt::Stream(StreamError::Ended)) if lost == 0 => {
                Ok(failed.unwrap_or(Exit::Done))
            }
            Err(Halt::Interrupted) if lost == 0 => Ok(Exit::Interrupted),
            Ok(()) | Err(Halt::Stream(StreamError::Ended) | Halt::Interrupted) => Ok(Exit::Lost),
            Err(Halt::Stream(error)) => Err(problem(&error).into()),
            Err(Halt::Stop(stop)) => Err(stop),
        }
    }
}
