//! `audit verify`: checks the hash chain of the audit trail of an engine or of a store file.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use trunkline::store::{StoreError, StoreErrorKind};
use trunkline_history::backup_files::{self, CopyError};
use trunkline_types::AuditQuery;
use trunkline_types::audit::{ChainAnchor, ChainCheck, ChainFault, ChainReport};

use crate::connection::Connection;
use crate::output::record::{JsonSchema, Record, Serialize};
use crate::output::values::{ValueStyle, WideInt};
use crate::problem::file_reason;
use crate::terminal::Style;
use crate::{CliError, Context, Exit, Problem};

/// Check that no entry of the audit trail was altered, removed, inserted or moved
///
/// Each entry contains a hash of its own content and of the previous entry. The command recomputes
/// all hashes, and reports the first entry that does not match; the exit code is then 8. It prints
/// the hash of the newest entry. Save this hash elsewhere: with --head, a later check also finds a
/// chain that was rewritten as a whole.
///
/// With FILE, the command checks the store of an engine directly, whether or not the engine is
/// running. It copies the file to the folder for temporary files and does not change it.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The store file of an engine, such as plant.db, instead of asking an engine
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,

    /// Check that the audit trail contains the entry with this hash, which was saved earlier
    #[arg(long, value_name = "[NUMBER:]HASH", value_parser = parse_anchor)]
    head: Option<ChainAnchor>,
}

fn parse_anchor(text: &str) -> Result<ChainAnchor, String> {
    text.parse()
        .map_err(|error: trunkline_types::audit::AuditHashError| error.to_string())
}

/// Number of entries that one query requests.
const QUERY_ENTRIES: u32 = 5_000;
/// Number of attempts to copy a store, and to read the audit trail of an engine that removes
/// entries meanwhile.
const ATTEMPTS: u32 = 5;

/// The result of `audit verify`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "Trunkline audit check, version 1")]
pub(crate) struct Verified {
    /// The store file, or the address of the engine.
    source: String,
    /// Number of entries. A string with --int-strings.
    entries: WideInt,
    /// Number of the oldest entry. Left out if there is none. A string with --int-strings.
    #[serde(skip_serializing_if = "Option::is_none")]
    first: Option<WideInt>,
    /// Time of the oldest entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    first_ts: Option<String>,
    /// Number of the newest entry. A string with --int-strings.
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<WideInt>,
    /// Time of the newest entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    last_ts: Option<String>,
    /// Hash of the newest entry; zeros if there is none.
    head: String,
    /// With --head: number of the entry with this hash. Left out if there is none. A string with
    /// --int-strings.
    #[serde(skip_serializing_if = "Option::is_none")]
    anchored: Option<WideInt>,
    /// Number of faults; 0 if the audit trail is intact. A string with --int-strings.
    fault_count: WideInt,
    /// The first faults, at most 100, in the order of the entries.
    faults: Vec<Fault>,
}

/// A fault of the chain.
#[derive(Debug, Serialize, JsonSchema)]
struct Fault {
    /// Number of the entry. A string with --int-strings.
    number: WideInt,
    /// Kind of fault.
    #[schemars(extend("enum" = [
        "altered", "unlinked", "missing", "order", "no-hash", "start", "unreadable", "other-past",
        "anchor-removed"
    ]))]
    fault: &'static str,
    /// Description of the fault for people.
    message: String,
}

impl Record for Verified {
    const COLUMNS: &'static [&'static str] = &["source", "entries", "first", "last", "head"];

    fn style(&self) -> Style {
        match self.faults.is_empty() {
            true => Style::Plain,
            false => Style::Bad,
        }
    }
}

pub(super) fn run(args: &Args, context: &Context) -> Result<Exit, CliError> {
    let (source, report) = match &args.file {
        Some(file) => (file.display().to_string(), report_of_file(file, args.head)?),
        None => report_of_engine(args.head, context)?,
    };
    let verified = Verified::new(source, &report, context.settings.values);
    let mut rows = vec![
        ("source", verified.source.clone(), Style::Plain),
        ("entries", verified.entries.to_string(), Style::Plain),
    ];
    for (name, end) in [("first", report.first), ("last", report.last)] {
        let text = end.map(|end| format!("{}, {}", end.number, end.when));
        rows.push((name, text.unwrap_or_default(), Style::Plain));
    }
    rows.push(("head", verified.head.clone(), Style::Plain));
    if let Some(number) = &verified.anchored {
        rows.push(("noted", format!("entry {number}"), Style::Plain));
    }
    for fault in &verified.faults {
        let text = format!("entry {}: {}", fault.number, fault.message);
        rows.push(("fault", text, Style::Bad));
    }
    let result = match report.is_intact() {
        true => ("intact".to_owned(), Style::Plain),
        false => (counted_faults(report.fault_count), Style::Bad),
    };
    rows.push(("result", result.0, result.1));
    context.print_details(&verified, rows)?;
    Ok(Exit::ProblemsFound.when(!report.is_intact()))
}

fn counted_faults(count: u64) -> String {
    crate::counted(count, "fault")
}

impl Verified {
    fn new(source: String, report: &ChainReport, values: ValueStyle) -> Self {
        let number = |number| values.int_or_text(number);
        let fault = |(at, fault): &(u64, ChainFault)| Fault {
            number: number(*at),
            fault: fault.name(),
            message: fault.to_string(),
        };
        Self {
            source,
            entries: number(report.entries),
            first: report.first.map(|first| number(first.number)),
            first_ts: report.first.map(|first| first.when.to_string()),
            last: report.last.map(|last| number(last.number)),
            last_ts: report.last.map(|last| last.when.to_string()),
            head: report.head.to_string(),
            anchored: report.anchored.map(number),
            fault_count: number(report.fault_count),
            faults: report.faults.iter().map(fault).collect(),
        }
    }
}

/// Checks the audit trail of an engine, page by page.
fn report_of_engine(
    anchor: Option<ChainAnchor>,
    context: &Context,
) -> Result<(String, ChainReport), CliError> {
    let connection = Connection::to_engine(context)?;
    for _ in 0..ATTEMPTS {
        if let Some(report) = check_pages(&connection, anchor)? {
            return Ok((connection.address.clone(), report));
        }
    }
    let sentence = "the engine removed entries during every attempt to read its audit trail; try \
                    again when fewer entries are added, or check its store file";
    Err(Problem::failed("changing", sentence).into())
}

/// Returns `None` if the engine removed entries before they were read.
fn check_pages(
    connection: &Connection,
    anchor: Option<ChainAnchor>,
) -> Result<Option<ChainReport>, CliError> {
    let mut check = ChainCheck::new(anchor);
    let mut query = AuditQuery {
        limit: QUERY_ENTRIES,
        ..AuditQuery::default()
    };
    loop {
        let page = connection.call(|client, wait| client.audit(query.clone(), wait))?;
        if query.from.is_some_and(|from| page.removed >= from) {
            return Ok(None);
        }
        if page.entries.iter().all(|entry| entry.link.is_none()) && !page.entries.is_empty() {
            let sentence = "the engine is of an earlier version, whose audit trail has no hash \
                            chain; update the engine";
            return Err(Problem::failed("no-chain", sentence).into());
        }
        page.entries.iter().for_each(|entry| check.push(entry));
        query.from = page.next;
        if query.from.is_none() {
            return Ok(Some(check.finish()));
        }
    }
}

/// Checks the audit trail in a store file. The engine keeps the file locked, so a copy is checked.
fn report_of_file(file: &Path, anchor: Option<ChainAnchor>) -> Result<ChainReport, CliError> {
    let folder = tempfile::tempdir().map_err(|error| copy_problem(file, &error))?;
    let copy = folder.path().join("store.db");
    let copied = backup_files::copy_database(
        file,
        &copy,
        ATTEMPTS,
        &mut |from, to| match fs::copy(from, to) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound && from != file => Ok(false),
            Err(error) => Err(error),
        },
    );
    copied.map_err(|error| match error {
        CopyError::Io { error, .. } | CopyError::Copy(error) => copy_problem(file, &error),
        CopyError::Changing => {
            let sentence = format!(
                "{} changed during every attempt to copy it; try again when fewer entries are added",
                file.display()
            );
            Problem::failed("changing", sentence)
        }
    })?;
    let report = trunkline_store::verify_audit(&copy, anchor).map_err(|error| {
        store_problem(StoreError {
            location: file.display().to_string(),
            ..error
        })
    })?;
    report.ok_or_else(|| {
        let sentence = format!(
            "{} was written by an earlier version, whose audit trail has no hash chain; an engine \
             of this version adds the hashes when it starts",
            file.display()
        );
        Problem::failed("no-chain", sentence).into()
    })
}

fn copy_problem(file: &Path, error: &io::Error) -> Problem {
    let reason = file_reason(error);
    let sentence = format!("cannot copy the store {}: {reason}", file.display());
    let exit = match error.kind() {
        ErrorKind::PermissionDenied => Exit::NotPermitted,
        _ => Exit::Failed,
    };
    Problem::new(exit, "file", sentence)
}

fn store_problem(error: StoreError) -> Problem {
    let exit = match &error.kind {
        StoreErrorKind::Damaged(_) => Exit::ProblemsFound,
        StoreErrorKind::Newer { .. }
        | StoreErrorKind::InUse
        | StoreErrorKind::Full
        | StoreErrorKind::NoMemory
        | StoreErrorKind::ReadOnly
        | StoreErrorKind::Folder
        | StoreErrorKind::CannotOpen(_)
        | StoreErrorKind::Failed(_)
        | StoreErrorKind::Replaced => Exit::Failed,
    };
    let code = match exit {
        Exit::ProblemsFound => "damaged",
        _ => "store",
    };
    Problem::new(exit, code, error.to_string())
}
