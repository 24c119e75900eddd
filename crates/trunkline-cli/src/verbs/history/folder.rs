//! `history ls`, `info`, `verify`, `compact` and `rebuild`: read and maintain a history folder without
//! an engine.

use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;

use trunkline::config;
use trunkline_history::{Compacted, Finding, FolderSeries, HistoryFolder, Spooled};
use trunkline_types::Timestamp;
use trunkline_types::history::HistoryRule;

use super::source::problem;
use crate::output::record::{JsonSchema, Notice, Record, Serialize};
use crate::output::values::WideInt;
use crate::terminal::{Style, escaped};
use crate::verbs::progress::Meter;
use crate::verbs::serve::show_errors;
use crate::verbs::stream::units::{bytes_text, rate_text};
use crate::{CliError, Context, Exit, Problem, counted};

/// List the variables that are recorded in a folder
///
/// The rows of a variable are its updates and events. A variable whose type changed has a line for
/// each type. The folder may be in use by an engine.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct LsArgs {
    /// The history folder, such as plant.history
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// Show the number of series and rows in a history folder, and the size of the folder
///
/// A series contains the rows of a variable with one type, so a variable whose type changed has
/// several. The folder may be in use by an engine.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct InfoArgs {
    /// The history folder, such as plant.history
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// Check every checksum and every row of a folder
///
/// The command prints a line for each finding, with the file, the variable and the time of the rows
/// that cannot be read. If there are findings, the exit code is 8. The folder may be in use by an engine.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct VerifyArgs {
    /// The history folder, such as plant.history
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// Move rows from the log to files, join small files, and repair the footers of files
///
/// While the command runs, no engine may record into the folder. With --config, rows that are older
/// than the `keep` of their variable are removed; without it, nothing is removed.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CompactArgs {
    /// The history folder, such as plant.history
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,

    /// Configuration file of the engine, for `keep` of its [[history]] sections; may be given several
    /// times
    #[arg(long, value_name = "FILE")]
    config: Vec<PathBuf>,
}

/// Write a new catalogue from the files and logs of a folder
///
/// Use this command if the catalogue of a folder is missing or damaged. While the command runs, no engine may
/// record into the folder. The former catalogue is moved to the subfolder set-apart. Files that cannot be
/// read are left out and listed, and the exit code is then 8.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RebuildArgs {
    /// The history folder, such as plant.history
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// A line of `history ls`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "A variable of a history, version 1")]
pub(crate) struct Listed {
    /// Name of the variable.
    name: String,
    /// Type of its values.
    #[serde(rename = "type")]
    data_type: String,
    /// Units of its values; empty if there are none.
    units: String,
    /// Number of updates and events. A string with --int-strings.
    rows: WideInt,
    /// Time of the first update or event, UTC, nanoseconds. Left out if there are none.
    #[schemars(extend("format" = "date-time"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    first: Option<String>,
    /// Time of the last update or event, UTC, nanoseconds. Left out if there are none.
    #[schemars(extend("format" = "date-time"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<String>,
    /// Cells for people: both times, and the type without its parts.
    #[serde(skip)]
    texts: Vec<(&'static str, String)>,
}

impl Record for Listed {
    const COLUMNS: &'static [&'static str] = &["name", "type", "units", "rows", "first", "last"];

    fn texts(&self) -> &[(&'static str, String)] {
        &self.texts
    }
}

pub(super) fn list(args: &LsArgs, context: &Context) -> Result<Exit, CliError> {
    let mut folder = open(&args.folder, context)?;
    let listed = folder.series(context.clock.wall());
    let (series, damage) = listed.map_err(|error| problem(&error))?;
    context.list(series.iter().map(|series| Listed::new(series, context)))?;
    if series.is_empty() {
        context.terminal.note("nothing was recorded")?;
    }
    match damage.is_empty() {
        true => Ok(Exit::Success),
        false => {
            context.note_with_code("history-fault", &damage)?;
            Ok(Exit::Lost)
        }
    }
}

impl Listed {
    fn new(series: &FolderSeries, context: &Context) -> Self {
        let (first, last) = series.times.unzip();
        let texts = [("first", first), ("last", last)];
        let texts = texts.map(|(name, time)| (name, time.map(|time| format_time(time, context))));
        let texts = texts.map(|(name, text)| (name, text.unwrap_or_default()));
        let data_type = series.data_type.to_string();
        // The labels of an enum, or the fields of a struct, would fill the whole line.
        let kind = match data_type.split_once('(') {
            Some((kind, _)) => format!("{kind}(...)"),
            None => data_type.clone(),
        };
        Self {
            name: series.name.clone(),
            data_type,
            units: series.units.clone(),
            rows: context.settings.values.int_or_text(series.rows),
            first: first.map(|time| time.to_string()),
            last: last.map(|time| time.to_string()),
            texts: texts.into_iter().chain([("type", kind)]).collect(),
        }
    }
}

/// Formats a time for people, in UTC with --utc.
fn format_time(time: Timestamp, context: &Context) -> String {
    let column = context.settings.times.column(true, context.started);
    column.map_or_else(|| time.to_string(), |column| column.absolute(time))
}

/// What `history info` prints.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "A folder of a history, version 1")]
pub(crate) struct Totals {
    /// Path of the folder.
    folder: String,
    /// True if an engine records into the folder, or a command changes it.
    in_use: bool,
    /// Number of series. A variable whose type changed has a series for each type.
    variables: WideInt,
    /// Number of updates and events.
    rows: WideInt,
    /// Time of the first update or event, UTC, nanoseconds. Left out if there are none.
    #[schemars(extend("format" = "date-time"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    first: Option<String>,
    /// Time of the last update or event, UTC, nanoseconds. Left out if there are none.
    #[schemars(extend("format" = "date-time"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<String>,
    /// Number of files that contain rows.
    files: WideInt,
    /// Total size of these files in bytes.
    file_bytes: WideInt,
    /// Number of logs whose rows are not in files yet.
    logs: WideInt,
    /// Number of updates and events in these logs.
    log_rows: WideInt,
    /// Total size of these logs in bytes.
    log_bytes: WideInt,
    /// The folder of the spool. Left out if the history has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    spool: Option<String>,
    /// Number of logs in the spool whose rows are not in files yet. The other numbers do not include them.
    spool_logs: WideInt,
    /// Number of updates and events in these logs.
    spool_rows: WideInt,
    /// Total size of these logs in bytes.
    spool_bytes: WideInt,
    /// Reason why the spool, or one of its logs, cannot be read. Left out if all of them can be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    spool_error: Option<String>,
    /// Total size of all files in the folder, in bytes.
    bytes: WideInt,
    /// Number of files that were missing from the catalogue; they are in the subfolder set-apart.
    set_apart: WideInt,
}

impl Record for Totals {
    const COLUMNS: &'static [&'static str] = &["folder"];
}

pub(super) fn info(args: &InfoArgs, context: &Context) -> Result<Exit, CliError> {
    let folder = open(&args.folder, context)?;
    let info = folder.info().map_err(|error| problem(&error))?;
    let int = |number| context.settings.values.int_or_text(number);
    let (first, last) = info.times.unzip();
    let in_spool = info.spooled.clone().unwrap_or_default();
    let totals = Totals {
        folder: args.folder.display().to_string(),
        in_use: info.is_in_use,
        variables: int(info.series),
        rows: int(info.rows),
        first: first.map(|time| time.to_string()),
        last: last.map(|time| time.to_string()),
        files: int(info.files),
        file_bytes: int(info.file_bytes),
        logs: int(info.logs),
        log_rows: int(info.log_rows),
        log_bytes: int(info.log_bytes),
        spool: spool_of(info.spooled.as_ref()),
        spool_logs: int(in_spool.logs),
        spool_rows: int(in_spool.rows),
        spool_bytes: int(in_spool.bytes),
        spool_error: Some(in_spool.fault.clone()).filter(|fault| !fault.is_empty()),
        bytes: int(info.bytes),
        set_apart: int(info.set_apart),
    };
    let time =
        |time: Option<Timestamp>| time.map_or_else(String::new, |time| format_time(time, context));
    let bytes = |bytes: u64| bytes_text(bytes as f64);
    let logs_text = |logs, rows, size| match logs {
        0 => "none".to_owned(),
        logs => format!("{logs}, {rows} rows, {}", bytes(size)),
    };
    let logs = logs_text(info.logs, info.log_rows, info.log_bytes);
    let (spool_logs, spool_style) = match (&info.spooled, in_spool.fault.as_str()) {
        (None, _) => (String::new(), Style::Plain),
        (Some(spool), "") => (logs_text(spool.logs, spool.rows, spool.bytes), Style::Plain),
        (Some(_), fault) => (fault.to_owned(), Style::Bad),
    };
    let in_use = match info.is_in_use {
        true => "by an engine, or by a command",
        false => "no",
    };
    let set_apart = match info.set_apart {
        0 => String::new(),
        count => counted(count, "file"),
    };
    let files = format!("{}, {}", info.files, bytes(info.file_bytes));
    context.print_details(
        &totals,
        vec![
            ("folder", totals.folder.clone(), Style::Plain),
            ("in use", in_use.to_owned(), Style::Plain),
            ("series", info.series.to_string(), Style::Plain),
            ("rows", info.rows.to_string(), Style::Plain),
            ("first", time(first), Style::Plain),
            ("last", time(last), Style::Plain),
            ("files", files, Style::Plain),
            ("logs", logs, Style::Plain),
            ("in the spool", spool_logs, spool_style),
            ("size", bytes(info.bytes), Style::Plain),
            ("set apart", set_apart, Style::Bad),
        ],
    )?;
    Ok(Exit::Success)
}

fn spool_of(spooled: Option<&Spooled>) -> Option<String> {
    spooled.map(|spooled| spooled.folder.display().to_string())
}

/// A finding of `history verify` or `history rebuild`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "A finding of `history verify`, version 1")]
pub(crate) struct Found {
    /// Path of the file, relative to the folder; for a file in the spool, the whole path.
    file: String,
    /// Offset in the file at which the damage begins. Left out if it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    byte: Option<u64>,
    /// The variable whose rows cannot be read. Left out if all rows can be read, or if the rows of all
    /// variables are affected.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// The time of the first row that cannot be read, UTC, nanoseconds. Left out if all rows can be
    /// read.
    #[schemars(extend("format" = "date-time"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    first: Option<String>,
    /// The time of the last row that cannot be read, UTC, nanoseconds. Left out if all rows can be
    /// read.
    #[schemars(extend("format" = "date-time"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<String>,
    /// Description of the problem.
    what: String,
    /// Recommended action.
    #[serde(rename = "do")]
    advice: &'static str,
    /// Cells for people: both times.
    #[serde(skip)]
    texts: Vec<(&'static str, String)>,
}

impl Record for Found {
    const COLUMNS: &'static [&'static str] = &["file", "name", "first", "last", "what", "do"];

    fn texts(&self) -> &[(&'static str, String)] {
        &self.texts
    }

    fn style(&self) -> Style {
        Style::Bad
    }
}

impl Found {
    fn new(finding: &Finding, context: &Context) -> Self {
        let (first, last) = finding.times.unzip();
        let text = |time: Option<Timestamp>| time.map(|time| format_time(time, context));
        Self {
            file: finding.file.clone(),
            byte: finding.byte,
            name: finding.variable.clone(),
            first: first.map(|time| time.to_string()),
            last: last.map(|time| time.to_string()),
            what: finding.what.clone(),
            advice: finding.advice,
            texts: vec![
                ("first", text(first).unwrap_or_default()),
                ("last", text(last).unwrap_or_default()),
            ],
        }
    }
}

/// The result of a command for a folder, on standard error.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "event")]
#[schemars(title = "Result of a command for a history folder, version 1")]
pub(crate) enum FolderEvent {
    /// `history verify`: the folder was checked.
    #[serde(rename = "history-verified")]
    Verified {
        /// Path of the folder.
        folder: String,
        /// Number of files that contain rows.
        files: u64,
        /// Number of logs whose rows are not in files yet.
        logs: u64,
        /// Number of updates and events that can be read.
        rows: u64,
        /// Number of bytes that were checked.
        bytes: u64,
        /// Number of findings.
        findings: u64,
        /// The folder of the spool. Left out if the history has none.
        #[serde(skip_serializing_if = "Option::is_none")]
        spool: Option<String>,
        /// Number of logs in the spool whose rows are not in files yet. `logs` does not include them.
        spool_logs: u64,
        /// Number of updates and events in these logs. `rows` does not include them.
        spool_rows: u64,
        /// Reason why the spool, or one of its logs, cannot be read. Left out if all of them can be read.
        #[serde(skip_serializing_if = "Option::is_none")]
        spool_error: Option<String>,
    },
    /// `history compact`: the folder was compacted.
    #[serde(rename = "history-compacted")]
    Compacted {
        /// Path of the folder.
        folder: String,
        /// Number of logs whose rows were moved to files.
        logs: u64,
        /// Number of small files that were joined.
        joined: u64,
        /// Number of files that resulted from joining.
        joined_to: u64,
        /// Number of updates and events that were removed, because they were older than `keep`.
        removed: u64,
        /// Number of files whose footer was repaired.
        repaired: u64,
        /// Number of files that contain rows after the command.
        files: u64,
    },
    /// `history rebuild`: the folder has a new catalogue.
    #[serde(rename = "history-rebuilt")]
    Rebuilt {
        /// Path of the folder.
        folder: String,
        /// Number of series. A variable whose type changed has a series for each type.
        variables: u64,
        /// Number of files that contain rows.
        files: u64,
        /// Number of updates and events in these files.
        rows: u64,
        /// New path of the former catalogue. Left out if there was none.
        #[serde(skip_serializing_if = "Option::is_none")]
        former: Option<String>,
        /// Reason why the former catalogue could not be read. Left out if it could be read.
        #[serde(skip_serializing_if = "Option::is_none")]
        former_error: Option<String>,
        /// The folder of the spool if its rows may be recorded a second time when the engine starts, because the
        /// former catalogue could not be read. Left out if there are no such rows.
        #[serde(skip_serializing_if = "Option::is_none")]
        possible_duplicates_in: Option<String>,
        /// Reason why the spool, or one of its logs, cannot be read. Left out if all of them can be read.
        #[serde(skip_serializing_if = "Option::is_none")]
        spool_error: Option<String>,
        /// Number of files and parts of logs that were left out.
        left_out: u64,
    },
    /// `history export`: the file is complete.
    #[serde(rename = "history-exported")]
    Exported {
        /// Path of the file.
        file: String,
        /// Number of updates.
        rows: u64,
        /// Number of variables.
        variables: u64,
        /// Size of the file in bytes.
        bytes: u64,
    },
}

impl Notice for FolderEvent {}

impl Display for FolderEvent {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Verified {
                folder,
                files,
                logs,
                rows,
                bytes,
                findings,
                spool,
                spool_logs,
                spool_rows,
                spool_error,
            } => {
                write!(
                    f,
                    "{}: {}, {}, {} and {} checked; {}",
                    escaped(folder),
                    counted(*files, "file"),
                    counted(*logs, "log"),
                    counted(*rows, "row"),
                    bytes_text(*bytes as f64),
                    match findings {
                        0 => "no damage".to_owned(),
                        count => counted(*count, "finding"),
                    }
                )?;
                if let Some(spool) = spool
                    && *spool_logs > 0
                {
                    write!(
                        f,
                        "; {} with {} in the spool {}",
                        counted(*spool_logs, "log"),
                        counted(*spool_rows, "row"),
                        escaped(spool),
                    )?;
                }
                match spool_error {
                    Some(error) => write!(f, "; {}", escaped(error)),
                    None => Ok(()),
                }
            }
            Self::Compacted {
                folder,
                logs,
                joined,
                joined_to,
                removed,
                repaired,
                files,
            } => write!(
                f,
                "{}: {} moved to files, {} joined into {joined_to}, {} removed, {} repaired; {} now",
                escaped(folder),
                counted(*logs, "log"),
                counted(*joined, "file"),
                counted(*removed, "row"),
                counted(*repaired, "footer"),
                counted(*files, "file"),
            ),
            Self::Rebuilt {
                folder,
                variables,
                files,
                rows,
                former,
                former_error,
                possible_duplicates_in,
                spool_error,
                left_out,
            } => {
                write!(
                    f,
                    "{}: a new catalogue of {variables} series, {} and {}",
                    escaped(folder),
                    counted(*files, "file"),
                    counted(*rows, "row"),
                )?;
                match left_out {
                    0 => {}
                    1 => f.write_str("; 1 file or part of a file left out")?,
                    count => write!(f, "; {count} files or parts of files left out")?,
                }
                if let Some(former) = former {
                    write!(f, "; the former catalogue is {}", escaped(former))?;
                }
                if let Some(error) = former_error {
                    let former = match former {
                        Some(_) => "it",
                        None => "the former catalogue",
                    };
                    write!(f, "; {former} could not be read ({})", escaped(error))?;
                }
                let Some(spool) = possible_duplicates_in else {
                    return Ok(());
                };
                let spool = escaped(spool);
                write!(
                    f,
                    "; when the engine starts, it may record rows in the spool {spool} a second time"
                )?;
                match spool_error {
                    Some(error) => write!(f, "; the spool cannot be read ({})", escaped(error)),
                    None => Ok(()),
                }
            }
            Self::Exported {
                file,
                rows,
                variables,
                bytes,
            } => write!(
                f,
                "{}: {} of {}, {}",
                escaped(file),
                counted(*rows, "reading"),
                counted(*variables, "variable"),
                bytes_text(*bytes as f64)
            ),
        }
    }
}

pub(super) fn verify(args: &VerifyArgs, context: &Context) -> Result<Exit, CliError> {
    let context = &context.for_file_output();
    context.interrupted.handle_presses(1);
    let mut meter = Meter::new(context.clock.now());
    let mut progress = |done: u64, total: u64| {
        if let Some(rate) = meter.rate(context.clock.now(), done, &context.terminal) {
            let percent = 100.0 * done as f64 / total.max(1) as f64;
            let rate = rate_text(rate);
            context
                .terminal
                .progress(&format!("{percent:3.0} % checked   {rate}"));
        }
        !context.interrupted.is_pressed()
    };
    let verified = trunkline_history::verify(&args.folder, context.clock.wall(), &mut progress);
    context.terminal.end_progress();
    let verified = verified.map_err(|error| problem(&error))?;
    let findings = verified.findings.iter();
    context.list(findings.map(|finding| Found::new(finding, context)))?;
    if !verified.is_complete {
        return Ok(Exit::Interrupted);
    }
    let findings = verified.findings.len() as u64 + verified.findings_dropped;
    let in_spool = verified.spooled.clone().unwrap_or_default();
    context.notify(&FolderEvent::Verified {
        folder: args.folder.display().to_string(),
        files: verified.files,
        logs: verified.logs,
        rows: verified.rows,
        bytes: verified.bytes,
        findings,
        spool: spool_of(verified.spooled.as_ref()),
        spool_logs: in_spool.logs,
        spool_rows: in_spool.rows,
        spool_error: Some(in_spool.fault).filter(|fault| !fault.is_empty()),
    })?;
    Ok(Exit::ProblemsFound.when(findings > 0))
}

pub(super) fn compact(args: &CompactArgs, context: &Context) -> Result<Exit, CliError> {
    let rules = match rules(&args.config, context)? {
        Ok(rules) => rules,
        Err(exit) => return Ok(exit),
    };
    context.interrupted.handle_presses(1);
    let context = &context.for_file_output();
    let mut meter = Meter::new(context.clock.now());
    let mut progress = |done: &Compacted| {
        let steps = done.logs + done.joined;
        if meter
            .rate(context.clock.now(), steps, &context.terminal)
            .is_some()
        {
            let (logs, files) = (counted(done.logs, "log"), counted(done.joined, "file"));
            context
                .terminal
                .progress(&format!("{logs} moved, {files} joined"));
        }
        !context.interrupted.is_pressed()
    };
    let wall = context.clock.wall();
    let done = trunkline_history::compact(&args.folder, &rules, wall, &mut progress);
    context.terminal.end_progress();
    let done = done.map_err(|error| problem(&error))?;
    for sentence in &done.damage {
        context.note_with_code("history-fault", sentence)?;
    }
    context.notify(&FolderEvent::Compacted {
        folder: args.folder.display().to_string(),
        logs: done.logs,
        joined: done.joined,
        joined_to: done.joined_to,
        removed: done.removed_rows,
        repaired: done.repaired,
        files: done.files,
    })?;
    Ok(match context.interrupted.is_pressed() {
        true => Exit::Interrupted,
        false => Exit::ProblemsFound.when(!done.damage.is_empty()),
    })
}

/// Returns the history rules of configuration files, or the exit code if the files have errors.
fn rules(files: &[PathBuf], context: &Context) -> Result<Result<Vec<HistoryRule>, Exit>, CliError> {
    if files.is_empty() {
        return Ok(Ok(Vec::new()));
    }
    match config::load(files) {
        Err(errors) => Ok(Err(show_errors(&errors, context)?)),
        Ok(plan) => match plan.history {
            Some(history) => Ok(Ok(history.rules)),
            None => {
                let sentence = "the configuration has no [[history]] section; to keep all rows, leave \
                                out --config";
                Err(Problem::usage(sentence).into())
            }
        },
    }
}

pub(super) fn rebuild(args: &RebuildArgs, context: &Context) -> Result<Exit, CliError> {
    let rebuilt = trunkline_history::rebuild(&args.folder, context.clock.wall());
    let rebuilt = rebuilt.map_err(|error| problem(&error))?;
    let left_out = rebuilt.left_out.len() as u64;
    let findings = rebuilt.left_out.iter();
    context.list(findings.map(|finding| Found::new(finding, context)))?;
    let duplicates = rebuilt.possible_duplicates;
    let duplicates = duplicates.map(|one| (one.spool.display().to_string(), one.fault));
    let (possible_duplicates_in, spool_fault) = duplicates.unzip();
    context.notify(&FolderEvent::Rebuilt {
        folder: args.folder.display().to_string(),
        variables: rebuilt.series,
        files: rebuilt.files,
        rows: rebuilt.rows,
        former: rebuilt.former,
        former_error: rebuilt.former_fault,
        possible_duplicates_in,
        spool_error: spool_fault.flatten(),
        left_out,
    })?;
    Ok(Exit::ProblemsFound.when(left_out > 0))
}

fn open(folder: &PathBuf, context: &Context) -> Result<HistoryFolder, CliError> {
    let opened = HistoryFolder::open(folder, context.clock.wall());
    Ok(opened.map_err(|error| problem(&error))?)
}
