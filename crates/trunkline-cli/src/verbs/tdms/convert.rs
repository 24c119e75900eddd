//! `tdms convert` and `tdms defrag`: write a file in another format, or rewrite it.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use arrow_ipc::writer::{FileWriter, StreamWriter};
use arrow_schema::ArrowError;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use trunkline_tdms::{ReadAt, RewriteError, TdmsFile, Version};

use super::arrow::Batches;
use super::blocks::{Block, Blocks, report_unreadable};
use super::columns::{ChannelSelection, columns, name_of};
use super::events::TdmsEvent;
use super::opened::{
    escaped, escaped_path, findings, index_of, not_readable, open, report_defects,
};
use super::output_file::{OutputFile, is_terminal_output, shown_out};
use super::rows::{Axis, range, report_no_rows};
use super::sums::report_checksums;
use super::text::Lines;
use super::{OutArgs, RowArgs};
use crate::arguments::OutputFormat;
use crate::terminal::is_stdio;
use crate::{CliError, Context, Exit, Problem, counted};

/// Approximate size of a Parquet row group in bytes; it is kept in memory until it is complete.
const ROW_GROUP_BYTES: usize = 64 * 1024 * 1024;

/// Maximum number of columns for which a Parquet file has dictionaries. With more columns, no column
/// has a dictionary.
const DICTIONARIES_MAX: usize = 1_000;

enum Sink {
    Text(Box<Lines>, Box<BufWriter<OutputFile>>),
    ArrowFile(Batches, Box<FileWriter<BufWriter<OutputFile>>>),
    ArrowStream(Batches, Box<StreamWriter<BufWriter<OutputFile>>>),
    Parquet(Batches, Box<ArrowWriter<BufWriter<OutputFile>>>),
}

impl Sink {
    fn out(&mut self) -> &mut OutputFile {
        match self {
            Self::Text(_, out) => out.get_mut(),
            Self::ArrowFile(_, writer) => writer.get_mut().get_mut(),
            Self::ArrowStream(_, writer) => writer.get_mut().get_mut(),
            Self::Parquet(_, writer) => writer.inner_mut().get_mut(),
        }
    }

    fn write(&mut self, block: &Block) -> io::Result<()> {
        match self {
            Self::Text(lines, out) => lines.write(block, |line| {
                out.write_all(line.as_bytes())?;
                out.write_all(b"\n")
            }),
            Self::ArrowFile(batches, writer) => batches
                .batch(block)
                .and_then(|batch| writer.write(&batch))
                .map_err(from_arrow),
            Self::ArrowStream(batches, writer) => batches
                .batch(block)
                .and_then(|batch| writer.write(&batch))
                .map_err(from_arrow),
            Self::Parquet(batches, writer) => {
                let batch = batches.batch(block).map_err(from_arrow)?;
                writer.write(&batch).map_err(from_parquet)?;
                match writer.in_progress_size() > ROW_GROUP_BYTES {
                    true => writer.flush().map_err(from_parquet),
                    false => Ok(()),
                }
            }
        }
    }

    fn finish(self) -> io::Result<OutputFile> {
        let buffered = match self {
            Self::Text(_, out) => *out,
            Self::ArrowFile(_, mut writer) => {
                writer.finish().map_err(from_arrow)?;
                writer.into_inner().map_err(from_arrow)?
            }
            Self::ArrowStream(_, mut writer) => {
                writer.finish().map_err(from_arrow)?;
                writer.into_inner().map_err(from_arrow)?
            }
            Self::Parquet(_, writer) => writer.into_inner().map_err(from_parquet)?,
        };
        buffered
            .into_inner()
            .map_err(io::IntoInnerError::into_error)
    }
}

fn from_arrow(error: ArrowError) -> io::Error {
    match error {
        ArrowError::IoError(_, error) => error,
        other => io::Error::other(other),
    }
}

fn from_parquet(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(error) => match error.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    }
}

/// Convert a TDMS file to another format
///
/// OUT is written completely or not at all. If FILE is damaged, OUT contains the readable values,
/// and the exit code is 8.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The TDMS file to read
    #[arg(value_name = "FILE")]
    file: PathBuf,

    #[command(flatten)]
    out: OutArgs,

    /// The format of OUT (default: chosen by its file extension)
    #[arg(long = "as", value_name = "FORMAT")]
    out_form: Option<OutForm>,

    #[command(flatten)]
    rows: RowArgs,
}

/// Rewrite a file so that the values of each channel are stored together
///
/// OUT is written completely or not at all. If FILE is damaged, OUT contains the readable values,
/// and the exit code is 8.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DefragArgs {
    /// The TDMS file to read
    #[arg(value_name = "FILE")]
    file: PathBuf,

    #[command(flatten)]
    out: OutArgs,
}

/// Format of the output file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum OutForm {
    /// Comma-separated values with a header
    Csv,
    /// A JSON object per row
    Jsonl,
    /// Arrow IPC file format; on standard output, the streaming format
    Arrow,
    /// Parquet, compressed with Snappy
    Parquet,
    /// TDMS 2.0, all values of a channel together
    Tdms,
    /// TDMS 1.0, all values of a channel together
    Tdms1,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<Exit, CliError> {
    let path = args.out.path.as_path();
    let form = form(args)?;
    let is_binary = !matches!(form, OutForm::Csv | OutForm::Jsonl);
    if is_binary && is_terminal_output(path, context) {
        let sentence = "this format is binary, and standard output is a terminal; specify a file";
        return Err(Problem::usage(sentence).into());
    }
    let version = match form {
        OutForm::Tdms => Version::V2,
        OutForm::Tdms1 => Version::V1,
        _ => return rows(args, form, context),
    };
    let rows = &args.rows;
    let is_selection = rows.from.is_some() || rows.to.is_some() || rows.count.is_some() || rows.raw;
    if is_selection || !rows.channel.is_empty() {
        let sentence = "a TDMS file is always written completely; leave out --channel, --from, \
                        --to, --count and --raw, or convert to another format";
        return Err(Problem::usage(sentence).into());
    }
    rewrite(&args.file, &args.out, Some(version), context)
}

pub(super) fn defrag(args: &DefragArgs, context: &Context) -> Result<Exit, CliError> {
    if is_terminal_output(&args.out.path, context) {
        let sentence = "standard output is a terminal; specify a file";
        return Err(Problem::usage(sentence).into());
    }
    rewrite(&args.file, &args.out, None, context)
}

fn form(args: &Args) -> Result<OutForm, Problem> {
    if let Some(form) = args.out_form {
        return Ok(form);
    }
    let path = args.out.path.as_path();
    let ending = path.extension().unwrap_or_default().to_ascii_lowercase();
    Ok(match ending.to_str() {
        Some("csv") => OutForm::Csv,
        Some("jsonl" | "ndjson") => OutForm::Jsonl,
        Some("arrow" | "feather" | "ipc") => OutForm::Arrow,
        Some("parquet") => OutForm::Parquet,
        Some("tdms") => OutForm::Tdms,
        _ => {
            let sentence = format!(
                "cannot determine the format of {}; choose one with --as csv, jsonl, arrow, parquet, tdms or \
                 tdms1",
                shown_out(path)
            );
            return Err(Problem::usage(sentence));
        }
    })
}

fn rows(args: &Args, form: OutForm, context: &Context) -> Result<Exit, CliError> {
    let file = open(&args.file)?;
    let is_damaged =
        report_defects(&file, &args.file, context)? | report_checksums(&file, &args.file, context)?;
    match file.is_row_by_row() {
        true => rows_of(&file.windowed(), is_damaged, args, form, context),
        false => rows_of(&file, is_damaged, args, form, context),
    }
}

fn rows_of<R: ReadAt>(
    file: &TdmsFile<R>,
    is_damaged: bool,
    args: &Args,
    form: OutForm,
    context: &Context,
) -> Result<Exit, CliError> {
    let (path, count) = (args.out.path.as_path(), args.rows.count);
    let columns = columns(file, &args.rows, context)?;
    let axis = Axis::of(&columns);
    let now = context.now();
    let range = range(file, &args.rows, count, &columns, axis.as_ref(), &now)?;
    report_no_rows(&args.rows, &columns, range, context)?;
    // `--time none` omits the column of times.
    let times = context.settings.times.column(true, context.started);
    let axis = axis.filter(|_| times.is_some());
    let out = OutputFile::new(path, Some(&args.file), args.out.force, context)?;
    let watch = out.watch();
    let text_form = match form {
        OutForm::Csv => OutputFormat::Csv,
        _ => OutputFormat::Jsonl,
    };
    let style = context.settings.values.for_programs();
    let lines =
        Lines::new(text_form, &columns, axis, None, style).guarded_if(args.rows.spreadsheet);
    let batches = Batches::new(file, &columns, axis);
    let mut sink = match sink(form, lines, batches, out) {
        Ok(sink) => sink,
        Err(error) => return watch.failed(path, &error),
    };
    let mut blocks = Blocks::new(&columns, range);
    let row_count = (range.1 - range.0).max(1) as f64;
    while let Some(block) = blocks.next()? {
        sink.out().progress = Some((block.first - range.0) as f64 / row_count);
        if let Err(error) = sink.write(&block) {
            return watch.failed(path, &error);
        }
    }
    let out = match sink.finish() {
        Ok(out) => out,
        Err(error) => return watch.failed(path, &error),
    };
    let bytes = out.bytes;
    out.finish(path)?;
    context.notify(&TdmsEvent::TdmsConverted {
        file: path.display().to_string(),
        rows: range.1 - range.0,
        channels: columns.len(),
        bytes,
    })?;
    let is_unreadable = report_unreadable(blocks.unreadable(), context)?;
    Ok(Exit::ProblemsFound.when(is_damaged || is_unreadable))
}

fn sink(form: OutForm, lines: Lines, batches: Batches, out: OutputFile) -> io::Result<Sink> {
    let is_stream = out.is_in_place();
    let mut out = BufWriter::new(out);
    let schema = batches.schema();
    Ok(match form {
        // The Arrow file format ends with a footer, so a pipe needs the streaming format.
        OutForm::Arrow if is_stream => {
            let writer = StreamWriter::try_new(out, schema).map_err(from_arrow)?;
            Sink::ArrowStream(batches, Box::new(writer))
        }
        OutForm::Arrow => {
            let writer = FileWriter::try_new(out, schema).map_err(from_arrow)?;
            Sink::ArrowFile(batches, Box::new(writer))
        }
        OutForm::Parquet => {
            let properties = WriterProperties::builder()
                .set_compression(Compression::SNAPPY)
                // A dictionary takes tens of kilobytes per column, regardless of its content.
                .set_dictionary_enabled(schema.fields().len() <= DICTIONARIES_MAX)
                .set_created_by(concat!("trunkline ", env!("CARGO_PKG_VERSION")).to_owned());
            let schema = schema.clone();
            let writer = ArrowWriter::try_new(out, schema, Some(properties.build()));
            Sink::Parquet(batches, Box::new(writer.map_err(from_parquet)?))
        }
        _ => {
            if let Some(header) = lines.header() {
                writeln!(out, "{header}")?;
            }
            Sink::Text(Box::new(lines), Box::new(out))
        }
    })
}

/// Rewrites the whole file, in the format version of the source unless another version is requested.
fn rewrite(
    source: &Path,
    args: &OutArgs,
    version: Option<Version>,
    context: &Context,
) -> Result<Exit, CliError> {
    let path = args.path.as_path();
    let file = open(source)?;
    let is_damaged =
        report_defects(&file, source, context)? | report_checksums(&file, source, context)?;
    let selection = ChannelSelection::new(&[], context)?;
    let version = version.unwrap_or(match file.report().version {
        Some(4712) => Version::V1,
        _ => Version::V2,
    });
    let mut out = OutputFile::new(path, Some(source), args.force, context)?;
    out.expected = fs::metadata(source).ok().map(|file| file.len());
    let watch = out.watch();
    let mut out = BufWriter::new(out);
    let written = file.rewrite_selected(version, &|path| selection.has(path), &mut out);
    let written = match written {
        Ok(written) => written,
        Err(RewriteError::Sink { source, .. }) => return watch.failed(path, &source),
        Err(error) => return Err(not_readable(source, &error).into()),
    };
    let out = match out.into_inner() {
        Ok(out) => out,
        Err(error) => return watch.failed(path, error.error()),
    };
    out.finish(path)?;
    if !is_stdio(path) {
        remove_index(path)?;
    }
    for (object, name) in &written.properties_left_out {
        let note = format!(
            "{}: the property {} was left out, because its type cannot be written",
            escaped(&name_of(object)),
            escaped(&name.to_string())
        );
        context.terminal.note(&note)?;
    }
    for (object, why) in &written.channels_left_out {
        let name = escaped(&name_of(object));
        let why = escaped(why);
        let problem = Problem::new(Exit::ProblemsFound, "left-out", why).with_name(&name);
        context.terminal.problem(&problem, 0)?;
    }
    if written.unreadable > 0 {
        let note = format!(
            "{} cannot be read; empty values replace them",
            counted(written.unreadable, "value")
        );
        context.terminal.note(&note)?;
    }
    context.notify(&TdmsEvent::TdmsRewritten {
        file: path.display().to_string(),
        segments_before: file.report().segments,
        values: written.values,
        bytes: written.bytes,
        findings: findings(&file).len(),
    })?;
    let is_incomplete = written.unreadable > 0 || !written.channels_left_out.is_empty();
    Ok(Exit::ProblemsFound.when(is_damaged || is_incomplete))
}

/// Removes the index file of an earlier file, because it does not belong to the new one.
fn remove_index(path: &Path) -> Result<(), Problem> {
    let Some(index) = index_of(path) else {
        return Ok(());
    };
    fs::remove_file(&index).map_err(|error| {
        let sentence = format!(
            "{} belongs to an earlier file and cannot be removed: {error}; remove it yourself",
            escaped_path(&index)
        );
        Problem::failed("index", sentence)
    })
}
