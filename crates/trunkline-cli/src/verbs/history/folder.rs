//! `history ls`, `info`, `verify`, `compact` and `rebuild`, which work on the folder without an
//! engine.

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

/// List the variables that a folder has
///
/// The rows of a variable are its updates and events. A variable whose type changed has a line for
/// each type. The folder may be in use by an engine.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct LsArgs {
    /// The folder of a history, such as plant.history
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// Show how many series, rows and bytes the folder of a history has
///
/// A series is the rows of a variable with one type, so a variable whose type changed has several. The
/// folder may be in use by an engine.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct InfoArgs {
    /// The folder of a history, such as plant.history
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// Check every checksum and every row of a folder
///
/// A line for each finding names the file, the variable and the time of the rows that cannot be read.
/// If there are findings, the exit code is 8. The folder may be in use by an engine.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct VerifyArgs {
    /// The folder of a history, such as plant.history
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// Move rows from the log to files, join small files, and repair footers
///
/// No engine may record into the folder. With --config, rows that are older than the `keep` of their
/// variable are removed; without it, nothing is removed.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CompactArgs {
    /// The folder of a history, such as plant.history
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,

    /// Configuration file of the engine, for `keep` of its [[history]] sections; may be given several
    /// times
    #[arg(long, value_name = "FILE")]
    config: Vec<PathBuf>,
}

/// Write a new catalogue from the files and logs of a folder
///
/// For a folder whose catalogue is missing or damaged. No engine may record into it. The former
/// catalogue is moved to the folder set-apart. Files that cannot be read are left out and named; the
/// exit code is 8 then.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RebuildArgs {
    /// The folder of a history, such as plant.history
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// A line of `history ls`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "A variable of a history, version 1")]
pub(crate) struct Listed {
    /// The variable.
    name: String,
    /// Its type.
    #[serde(rename = "type")]
    data_type: String,
    /// Its units; empty if it has none.
    units: String,
    /// Number of updates and events. A string with --int-strings.
    rows: WideInt,
    /// Time of the first of them, UTC, nanoseconds. Left out if there are none.
    #[schemars(extend("format" = "date-time"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    first: Option<String>,
    /// Time of the last of them, UTC, nanoseconds. Left out if there are none.
    #[schemars(extend("format" = "date-time"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<String>,
    /// For people.
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
    context.list(series.iter().map(|one| Listed::new(one, context)))?;
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
    fn new(one: &FolderSeries, context: &Context) -> Self {
        let (first, last) = one.times.unzip();
        let texts = [("first", first), ("last", last)];
        let texts = texts.map(|(name, time)| (name, time.map(|time| shown(time, context))));
        let texts = texts.map(|(name, text)| (name, text.unwrap_or_default()));
        let data_type = one.data_type.to_string();
        // The parts of an enum or a struct would fill a line by themselves.
        let kind = match data_type.split_once('(') {
            Some((kind, _)) => format!("{kind}(...)"),
            None => data_type.clone(),
        };
        Self {
            name: one.name.clone(),
            data_type,
            units: one.units.clone(),
            rows: context.settings.values.int_or_text(one.rows),
            first: first.map(|time| time.to_string()),
            last: last.map(|time| time.to_string()),
            texts: texts.into_iter().chain([("type", kind)]).collect(),
        }
    }
}

/// Formats a time for people, in UTC with --utc.
fn shown(time: Timestamp, context: &Context) -> String {
    let column = context.settings.times.column(true, context.started);
    column.map_or_else(|| time.to_string(), |column| column.absolute(time))
}

/// What `history info` prints.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "A folder of a history, version 1")]
pub(crate) struct Totals {
    /// The folder.
    folder: String,
    /// True if an engine records into the folder, or a command changes it.
    in_use: bool,
    /// Number of series. A variable whose type changed has a series for each type.
    variables: WideInt,
    /// Number of updates and events.
    rows: WideInt,
    /// Time of the first of them, UTC, nanoseconds. Left out if there are none.
    #[schemars(extend("format" = "date-time"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    first: Option<String>,
    /// Time of the last of them, UTC, nanoseconds. Left out if there are none.
    #[schemars(extend("format" = "date-time"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<String>,
    /// Number of files of rows.
    files: WideInt,
    /// Bytes of these files.
    file_bytes: WideInt,
    /// Number of logs whose rows are not in files yet.
    logs: WideInt,
    /// Number of updates and events in these logs.
    log_rows: WideInt,
    /// Bytes of these logs.
    log_bytes: WideInt,
    /// The folder of the spool. Left out if the history had none.
    #[serde(skip_serializing_if = "Option::is_none")]
    spool: Option<String>,
    /// Number of logs in the spool whose rows are not in files yet. The other numbers do not include them.
    spool_logs: WideInt,
    /// Number of updates and events in these logs.
    spool_rows: WideInt,
    /// Bytes of these logs.
    spool_bytes: WideInt,
    /// Why the spool, or one of these logs, cannot be read. Left out if all can be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    spool_error: Option<String>,
    /// Bytes of all files of the folder.
    bytes: WideInt,
    /// Number of files that the catalogue did not have; they are in the folder set-apart.
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
    let time = |time: Option<Timestamp>| time.map_or_else(String::new, |time| shown(time, context));
    let bytes = |bytes: u64| bytes_text(bytes as f64);
    let logs_text = |logs, rows, size| match logs {
        0 => "none".to_owned(),
        logs => format!("{logs}, {rows} rows, {}", bytes(size)),
    };
    let of_logs = logs_text(info.logs, info.log_rows, info.log_bytes);
    let (of_spool, spool_style) = match (&info.spooled, in_spool.fault.as_str()) {
        (None, _) => (String::new(), Style::Plain),
        (Some(one), "") => (logs_text(one.logs, one.rows, one.bytes), Style::Plain),
        (Some(_), fault) => (fault.to_owned(), Style::Bad),
    };
    let in_use = match info.is_in_use {
        true => "by an engine, or by a command",
        false => "no",
    };
    let apart = match info.set_apart {
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
            ("logs", of_logs, Style::Plain),
            ("in the spool", of_spool, spool_style),
            ("size", bytes(info.bytes), Style::Plain),
            ("set apart", apart, Style::Bad),
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
    /// The file within the folder; the path of a file in the spool.
    file: String,
    /// Where the damage begins in the file. Left out if that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    byte: Option<u64>,
    /// The variable whose rows cannot be read. Left out if all can be read, or if those of all
    /// variables cannot.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// The time of the first row that cannot be read, UTC, nanoseconds. Left out if all can be read.
    #[schemars(extend("format" = "date-time"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    first: Option<String>,
    /// The time of the last row that cannot be read, UTC, nanoseconds. Left out if all can be read.
    #[schemars(extend("format" = "date-time"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<String>,
    /// What is wrong.
    what: String,
    /// What to do about it.
    #[serde(rename = "do")]
    advice: &'static str,
    /// For people.
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
        let text = |time: Option<Timestamp>| time.map(|time| shown(time, context));
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
        /// The folder.
        folder: String,
        /// Number of files of rows.
        files: u64,
        /// Number of logs whose rows are not in files yet.
        logs: u64,
        /// Number of updates and events that can be read.
        rows: u64,
        /// Bytes that were checked.
        bytes: u64,
        /// Number of findings.
        findings: u64,
        /// The folder of the spool. Left out if the history had none.
        #[serde(skip_serializing_if = "Option::is_none")]
        spool: Option<String>,
        /// Number of logs in the spool whose rows are not in files yet. `logs` does not include them.
        spool_logs: u64,
        /// Number of updates and events in these logs. `rows` does not include them.
        spool_rows: u64,
        /// Why the spool, or one of these logs, cannot be read. Left out if all can be read.
        #[serde(skip_serializing_if = "Option::is_none")]
        spool_error: Option<String>,
    },
    /// `history compact`: the folder is in order.
    #[serde(rename = "history-compacted")]
    Compacted {
        /// The folder.
        folder: String,
        /// Logs whose rows are in files now.
        logs: u64,
        /// Files that were joined.
        joined: u64,
        /// Files that they became.
        joined_to: u64,
        /// Updates and events that were removed, because they were older than `keep`.
        removed: u64,
        /// Files of which a footer was repaired.
        repaired: u64,
        /// Files of rows now.
        files: u64,
    },
    /// `history rebuild`: the folder has a new catalogue.
    #[serde(rename = "history-rebuilt")]
    Rebuilt {
        /// The folder.
        folder: String,
        /// Number of series. A variable whose type changed has a series for each type.
        variables: u64,
        /// Number of files of rows.
        files: u64,
        /// Number of updates and events in these files.
        rows: u64,
        /// Where the former catalogue is now. Left out if there was none.
        #[serde(skip_serializing_if = "Option::is_none")]
        former: Option<String>,
        /// Files and parts of logs that were left out.
        left_out: u64,
    },
    /// `history export`: the file is complete.
    #[serde(rename = "history-exported")]
    Exported {
        /// The file.
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
                "{}: {} moved to files, {} joined to {joined_to}, {} removed, {} repaired; {} now",
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
                left_out,
            } => {
                write!(
                    f,
                    "{}: a new catalogue of {variables} series, {} and {}",
                    escaped(folder),
                    counted(*files, "file"),
                    counted(*rows, "row"),
                )?;
                if *left_out > 0 {
                    write!(f, "; {left_out} left out")?;
                }
                match former {
                    Some(former) => write!(f, "; the former one is {}", escaped(former)),
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
    let mut progress = |done: u64, all: u64| {
        if let Some(rate) = meter.rate(context.clock.now(), done, &context.terminal) {
            let percent = 100.0 * done as f64 / all.max(1) as f64;
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
    let found = verified.findings.iter();
    context.list(found.map(|one| Found::new(one, context)))?;
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
    let mut go_on = |done: &Compacted| {
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
    let done = trunkline_history::compact(&args.folder, &rules, wall, &mut go_on);
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
                let sentence = "the configuration has no [[history]] section; leave out --config \
                                to keep all rows";
                Err(Problem::usage(sentence).into())
            }
        },
    }
}

pub(super) fn rebuild(args: &RebuildArgs, context: &Context) -> Result<Exit, CliError> {
    let rebuilt = trunkline_history::rebuild(&args.folder, context.clock.wall());
    let rebuilt = rebuilt.map_err(|error| problem(&error))?;
    let left_out = rebuilt.left_out.len() as u64;
    context.list(rebuilt.left_out.iter().map(|one| Found::new(one, context)))?;
    context.notify(&FolderEvent::Rebuilt {
        folder: args.folder.display().to_string(),
        variables: rebuilt.series,
        files: rebuilt.files,
        rows: rebuilt.rows,
        former: rebuilt.former,
        left_out,
    })?;
    Ok(Exit::ProblemsFound.when(left_out > 0))
}

fn open(folder: &PathBuf, context: &Context) -> Result<HistoryFolder, CliError> {
    let opened = HistoryFolder::open(folder, context.clock.wall());
    Ok(opened.map_err(|error| problem(&error))?)
}
