//! `history export`: writes recorded updates to a file for other programs.

#[cfg(target_os = "linux")]
mod tdms;

use std::collections::BTreeSet;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use arrow_ipc::writer::FileWriter;
use arrow_schema::ArrowError;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use trunkline_history::{arrow_batch, arrow_schema};
use trunkline_types::history::{HistoryItem, HistoryQuery, HistorySeries, SeriesData};

use super::folder::FolderEvent;
use super::source::{FAULT, Pages, Source, loss_problem};
use super::{Event, patterns_of, range};
use crate::output::values::ValueStyle;
use crate::output::{Metadata, ReadingView, csv};
use crate::targets;
use crate::verbs::tdms::output_file::{OutputFile, is_terminal_output, shown_out};
use crate::{CliError, Context, Exit, Problem};

/// Approximate size of a Parquet row group in bytes; it is kept in memory until it is complete.
const ROW_GROUP_BYTES: usize = 64 << 20;

/// Write recorded updates to a file
///
/// The file is written completely or not at all. The memory that the command uses is bounded. CSV
/// has the same lines as `history -o csv`, and events go to standard error. Parquet and Arrow files
/// have the columns of the history's own files, plus the type and the units; each event is a
/// separate row. A TDMS file has one group per variable, like the files of `record`, so `play` and
/// `tdms` can read it; missing updates become gaps, and other events become properties.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The file to write; `-` is standard output
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Names, URLs, or patterns such as 'boiler/**'. Variables that no longer exist are found too
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,

    /// Only readings since this time, such as 2026-11-21T08:00, 14:30, today, yesterday, 10m or
    /// "2 hours ago"
    #[arg(
        long,
        value_name = "TIME",
        default_value = "1h",
        allow_hyphen_values = true
    )]
    since: String,

    /// Only readings before this time
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    until: Option<String>,

    /// Read this history folder, such as plant.history, instead of asking an engine
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,

    /// The format of FILE (default: chosen by its file extension)
    #[arg(long = "as", value_name = "FORMAT")]
    out_form: Option<ExportFormat>,

    /// Replace FILE if it exists
    #[arg(long)]
    force: bool,
}

/// Formats of an exported file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum ExportFormat {
    /// Comma-separated values with a header
    Csv,
    /// Parquet, compressed with ZSTD
    Parquet,
    /// Arrow IPC file format
    Arrow,
    /// TDMS 2.0, a group for each variable
    Tdms,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<Exit, CliError> {
    context.after_interruption(export(args, context))
}

fn export(args: &Args, context: &Context) -> Result<Exit, CliError> {
    let path = args.file.as_path();
    let form = form(args)?;
    if form != ExportFormat::Csv && is_terminal_output(path, context) {
        let sentence = "a binary format cannot be written to a terminal; specify a file";
        return Err(Problem::usage(sentence).into());
    }
    let Some(written) = write(args, form, context)? else {
        return Ok(Exit::Interrupted);
    };
    context.notify(&FolderEvent::Exported {
        file: path.display().to_string(),
        rows: written.rows,
        variables: written.names.len() as u64,
        bytes: written.bytes,
    })?;
    written.exit(context)
}

/// Writes the file. Returns a summary of its contents, or `None` after Ctrl-C.
fn write(args: &Args, form: ExportFormat, context: &Context) -> Result<Option<Written>, CliError> {
    let path = args.file.as_path();
    let targets = targets::resolve(&args.names, &context.settings)?;
    let (since, until) = range(Some(&args.since), args.until.as_ref(), context)?;
    let query = HistoryQuery {
        patterns: patterns_of(&targets.list)?,
        since,
        until: Some(until),
        ..HistoryQuery::default()
    };
    let source = Source::open(&targets.engine, args.folder.as_deref(), context)?;
    let mut pages = Pages::new(source, query, context);
    let out = OutputFile::new(path, None, args.force, context)?;
    let watch = out.watch();
    let failed = |failed: ExportError| match failed {
        // Only Ctrl-C ends the command without an error.
        ExportError::Io(error) => watch.failed(path, &error).map(|_| None),
        ExportError::Other(error) => Err(error),
    };
    let mut sink = match Sink::new(form, out, context) {
        Ok(sink) => sink,
        Err(error) => return failed(error),
    };
    let mut written = Written::default();
    while let Some(page) = pages.next()? {
        if !page.state.is_empty() {
            written.state = page.state;
        }
        for series in page.series.iter().filter(|series| !series.data.is_empty()) {
            if context.settings.is_excluded(&series.variable) {
                written.is_excluded = true;
                continue;
            }
            match sink.add(series, context) {
                Ok(()) => written.add(series),
                Err(error) => return failed(error),
            }
        }
        if context.interrupted.is_pressed() {
            return Ok(None);
        }
    }
    if written.names.is_empty() && !written.state.is_empty() {
        let sentence = format!("{} is not written: {}", shown_out(path), written.state);
        return Err(loss_problem(FAULT, &sentence).into());
    }
    if written.names.is_empty() && written.is_excluded {
        let sentence = "--exclude leaves out every variable that was recorded in this time range";
        return Err(Problem::failed("nothing-recorded", sentence).into());
    }
    if written.names.is_empty() {
        let sentence = format!(
            "no updates of these variables were recorded in this time range, so {} is not written; use \
             an earlier --since",
            shown_out(path)
        );
        return Err(Problem::failed("nothing-recorded", sentence).into());
    }
    let out = match sink.finish() {
        Ok(out) => out,
        Err(error) => return failed(error),
    };
    written.bytes = out.bytes;
    out.finish(path)?;
    Ok(Some(written))
}

/// Summary of the rows written so far.
#[derive(Default)]
struct Written {
    names: BTreeSet<String>,
    rows: u64,
    bytes: u64,
    /// Description of recorded data that could not be read; empty if there is none.
    state: String,
    /// True if `--exclude` has left out a variable.
    is_excluded: bool,
}

impl Written {
    /// Reports recorded data that could not be read, and returns the exit code.
    fn exit(&self, context: &Context) -> Result<Exit, CliError> {
        if self.state.is_empty() {
            return Ok(Exit::Success);
        }
        context.note_with_code(FAULT, &self.state)?;
        Ok(Exit::Lost)
    }

    fn add(&mut self, series: &HistorySeries) {
        if !self.names.contains(&series.variable) {
            self.names.insert(series.variable.clone());
        }
        if let SeriesData::Rows(rows) = &series.data {
            self.rows += rows.len() as u64;
        }
    }
}

fn form(args: &Args) -> Result<ExportFormat, Problem> {
    if let Some(form) = args.out_form {
        return Ok(form);
    }
    let path = args.file.as_path();
    let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
    Ok(match extension.to_str() {
        Some("csv") => ExportFormat::Csv,
        Some("parquet") => ExportFormat::Parquet,
        Some("arrow" | "feather" | "ipc") => ExportFormat::Arrow,
        Some("tdms") => ExportFormat::Tdms,
        _ => {
            let sentence = format!(
                "cannot determine the format of {}; choose one with --as csv, parquet, arrow or tdms",
                shown_out(path)
            );
            return Err(Problem::usage(sentence));
        }
    })
}

/// The reason why rows could not be written.
enum ExportError {
    /// The file cannot be written.
    Io(io::Error),
    Other(CliError),
}

impl From<io::Error> for ExportError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<CliError> for ExportError {
    fn from(error: CliError) -> Self {
        Self::Other(error)
    }
}

impl From<ArrowError> for ExportError {
    fn from(error: ArrowError) -> Self {
        Self::Io(match error {
            ArrowError::IoError(_, error) => error,
            other => io::Error::other(other),
        })
    }
}

impl From<ParquetError> for ExportError {
    fn from(error: ParquetError) -> Self {
        Self::Io(match error {
            ParquetError::External(error) => match error.downcast::<io::Error>() {
                Ok(error) => *error,
                Err(other) => io::Error::other(other),
            },
            other => io::Error::other(other),
        })
    }
}

enum Sink {
    Csv(Box<BufWriter<OutputFile>>, ValueStyle),
    Parquet(Box<ArrowWriter<BufWriter<OutputFile>>>),
    Arrow(Box<FileWriter<BufWriter<OutputFile>>>),
    #[cfg(target_os = "linux")]
    Tdms(Box<tdms::Recording>),
}

impl Sink {
    fn new(form: ExportFormat, out: OutputFile, context: &Context) -> Result<Self, ExportError> {
        let buffered = |out| BufWriter::with_capacity(1 << 20, out);
        Ok(match form {
            ExportFormat::Csv => {
                let mut out = buffered(out);
                writeln!(out, "{}", csv::line(&csv::HEADER))?;
                Self::Csv(Box::new(out), context.settings.values.for_programs())
            }
            ExportFormat::Parquet => {
                let properties = WriterProperties::builder()
                    .set_compression(Compression::ZSTD(ZstdLevel::default()))
                    .build();
                let out = buffered(out);
                let writer = ArrowWriter::try_new(out, arrow_schema(), Some(properties))?;
                Self::Parquet(Box::new(writer))
            }
            ExportFormat::Arrow => {
                let writer = FileWriter::try_new(buffered(out), &arrow_schema())?;
                Self::Arrow(Box::new(writer))
            }
            #[cfg(target_os = "linux")]
            ExportFormat::Tdms => Self::Tdms(Box::new(tdms::Recording::new(out))),
            #[cfg(not(target_os = "linux"))]
            ExportFormat::Tdms => {
                let sentence = "TDMS files can be written only on Linux; choose another format";
                return Err(ExportError::Other(Problem::usage(sentence).into()));
            }
        })
    }

    fn add(&mut self, series: &HistorySeries, context: &Context) -> Result<(), ExportError> {
        let batch = || {
            let batch = arrow_batch(series);
            batch.map_err(|error| {
                ExportError::Other(Problem::failed("history", error.to_string()).into())
            })
        };
        match self {
            Self::Csv(out, style) => add_lines(out, *style, series, context)?,
            Self::Parquet(writer) => {
                if let Some(batch) = batch()? {
                    writer.write(&batch)?;
                }
                if writer.in_progress_size() > ROW_GROUP_BYTES {
                    writer.flush()?;
                }
            }
            Self::Arrow(writer) => {
                if let Some(batch) = batch()? {
                    writer.write(&batch)?;
                }
            }
            #[cfg(target_os = "linux")]
            Self::Tdms(recording) => recording.add(series)?,
        }
        Ok(())
    }

    fn finish(self) -> Result<OutputFile, ExportError> {
        let buffered = match self {
            Self::Csv(out, _) => *out,
            Self::Parquet(writer) => writer.into_inner()?,
            Self::Arrow(mut writer) => {
                writer.finish()?;
                writer.into_inner()?
            }
            #[cfg(target_os = "linux")]
            Self::Tdms(recording) => return recording.finish(),
        };
        let out = buffered.into_inner();
        Ok(out.map_err(io::IntoInnerError::into_error)?)
    }
}

/// Writes a line for each reading; events go to standard error.
fn add_lines(
    out: &mut BufWriter<OutputFile>,
    style: ValueStyle,
    series: &HistorySeries,
    context: &Context,
) -> Result<(), ExportError> {
    let metadata = Metadata {
        data_type: series.data_type.clone(),
        units: series.units.clone(),
        precision: None,
    };
    let received = context.clock.wall();
    for item in series.items() {
        match item {
            HistoryItem::Reading(reading) => {
                let view = ReadingView::new(&series.variable, &metadata, &reading, received);
                writeln!(out, "{}", csv::reading(&view, style))?;
            }
            HistoryItem::Event { when, event } => {
                context.notify(&Event::new(&series.variable, when, event))?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    fn form_of(file: &str) -> Result<ExportFormat, Problem> {
        form(&Args {
            file: file.into(),
            names: Vec::new(),
            since: String::new(),
            until: None,
            folder: None,
            out_form: None,
            force: false,
        })
    }

    #[test]
    fn extension_determines_the_format_in_any_case() {
        assert_eq!(form_of("a/b.PARQUET").unwrap(), ExportFormat::Parquet);
        assert_eq!(form_of("x.arrow").unwrap(), ExportFormat::Arrow);
        assert_eq!(form_of("x.tdms").unwrap(), ExportFormat::Tdms);
        for file in ["-", "x", "x.xlsx"] {
            let problem = form_of(file).unwrap_err();
            assert!(problem.sentence().contains("--as"), "{file}");
        }
    }
}
