//! Writes a new file completely or not at all, and replaces an existing file only with `--force`.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::opened::escaped_path;
use crate::replace::{self, NewFile, exists};
use crate::terminal::is_stdio;
use crate::verbs::progress::Meter;
use crate::verbs::stream::units::{bytes_text, rate_text};
use crate::{CliError, Context, Exit, Problem};

/// A file that is being written. A write counts the bytes, shows the progress, and fails after Ctrl-C.
#[derive(Debug)]
pub(crate) struct OutputFile {
    file: NewFile,
    is_forced: bool,
    context: Context,
    meter: Meter,
    pub(crate) bytes: u64,
    /// Completed fraction of the work, from 0 to 1, if known.
    pub(crate) progress: Option<f64>,
    /// Expected size of the file in bytes, if known.
    pub(crate) expected: Option<u64>,
}

impl OutputFile {
    /// Creates a file that appears at `path` when it is finished; `-` is standard output. `path` must
    /// not be the file `source`, which the command reads.
    pub(crate) fn new(
        path: &Path,
        source: Option<&Path>,
        is_forced: bool,
        context: &Context,
    ) -> Result<Self, CliError> {
        let context = context.for_file_output();
        context.interrupted.handle_presses(1);
        Ok(Self {
            file: new_file(path, source, is_forced, &context)?,
            is_forced,
            meter: Meter::new(context.clock.now()),
            context,
            bytes: 0,
            progress: None,
            expected: None,
        })
    }

    pub(crate) fn finish(self, path: &Path) -> Result<(), Problem> {
        self.context.terminal.end_progress();
        let finished = self.file.finish(self.is_forced);
        finished.map_err(|error| write_problem(path, &error))
    }

    /// Returns a handle that can explain a failed write after the `OutputFile` has been consumed.
    pub(crate) fn watch(&self) -> Watch {
        Watch {
            context: self.context.clone(),
            is_in_place: self.is_in_place(),
        }
    }

    /// Returns true if another process may read the file while it is being written.
    pub(crate) fn is_in_place(&self) -> bool {
        matches!(self.file, NewFile::InPlace(_))
    }

    fn show(&mut self) {
        let (now, terminal) = (self.context.clock.now(), &self.context.terminal);
        let Some(rate) = self.meter.rate(now, self.bytes, terminal) else {
            return;
        };
        let expected = self.expected.filter(|expected| *expected > 0);
        let of_expected = expected.map(|expected| self.bytes as f64 / expected as f64);
        let progress = self.progress.or(of_expected);
        let percent = progress.map(|progress| progress.min(1.0) * 100.0);
        let percent = percent.map_or_else(String::new, |percent| format!("{percent:3.0} %   "));
        let (bytes, rate) = (bytes_text(self.bytes as f64), rate_text(rate));
        terminal.progress(&format!("{percent}{bytes} written   {rate}"));
    }
}

/// Explains why a write has failed.
#[derive(Debug)]
pub(crate) struct Watch {
    context: Context,
    is_in_place: bool,
}

impl Watch {
    /// Converts the error of a failed write. After Ctrl-C, the result is an exit code instead of an
    /// error.
    pub(crate) fn failed(&self, path: &Path, error: &io::Error) -> Result<Exit, CliError> {
        self.context.terminal.end_progress();
        if self.context.interrupted.is_pressed() {
            return Ok(Exit::Interrupted);
        }
        match error.kind() {
            io::ErrorKind::BrokenPipe if self.is_in_place => Err(CliError::PipeClosed),
            _ => Err(write_problem(path, error).into()),
        }
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.context.interrupted.is_pressed() {
            // Not `ErrorKind::Interrupted`, after which the caller would retry the write.
            return Err(io::Error::other("Ctrl-C"));
        }
        let written = self.file.file_mut().write(bytes)?;
        self.bytes += written as u64;
        self.show();
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.file_mut().flush()
    }
}

fn new_file(
    path: &Path,
    source: Option<&Path>,
    is_forced: bool,
    context: &Context,
) -> Result<NewFile, CliError> {
    if is_stdio(path) {
        return Ok(NewFile::InPlace(context.terminal.binary_output()?));
    }
    if let Some(source) = source
        && let (Ok(destination), Ok(source)) = (fs::metadata(path), fs::metadata(source))
        && (destination.dev(), destination.ino()) == (source.dev(), source.ino())
    {
        let sentence = format!(
            "{} is both FILE and OUT; choose another OUT",
            escaped_path(path)
        );
        return Err(Problem::usage(sentence).into());
    }
    match NewFile::create(path).map_err(|error| write_problem(path, &error))? {
        NewFile::Temporary {
            permissions: Some(_),
            ..
        } if !is_forced => Err(exists(path).into()),
        file => Ok(file),
    }
}

pub(crate) fn shown_out(path: &Path) -> String {
    match is_stdio(path) {
        true => "standard output".to_owned(),
        false => escaped_path(path),
    }
}

/// Returns true if the path is standard output, and standard output is a terminal.
pub(crate) fn is_terminal_output(path: &Path, context: &Context) -> bool {
    is_stdio(path) && context.terminal.out_is_tty
}

fn write_problem(path: &Path, error: &io::Error) -> Problem {
    if !is_stdio(path) {
        return replace::write_problem(path, error);
    }
    let message = format!("{} cannot be written: {error}", shown_out(path));
    Problem::from_message("not-written", message)
}
