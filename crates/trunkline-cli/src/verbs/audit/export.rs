//! `audit export`: writes the entries of the audit trail for other programs, and continues with new entries.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::net::{ToSocketAddrs, UdpSocket};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

use trunkline_types::{AuditEntry, AuditPage, AuditQuery, Timestamp};

use super::{Entry, parse_time, syslog};
use crate::arguments::number;
use crate::connection::Connection;
use crate::output::record::json;
use crate::output::values::ValueStyle;
use crate::problem::file_reason;
use crate::targets;
use crate::verbs::serve::host_name;
use crate::{CliError, Context, Exit, Problem};

/// Write the entries of the audit trail as JSON Lines or syslog messages
///
/// The entries are complete and in order, oldest first, each with its own hash and the hash of the previous
/// entry. JSON Lines have the keys of `audit --json`. Syslog messages have the format of RFC 5424, with every
/// field as structured data. With --follow, the command runs until Ctrl-C and writes new entries within a
/// second. With --cursor or --after, it continues where an earlier export ended, and ends with exit code 8 if
/// the audit trail is no longer the one that was exported.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Only entries since this time, such as 2026-11-21T08:00, 14:30, today, yesterday, 10m or
    /// "2 hours ago"
    #[arg(
        long,
        value_name = "TIME",
        allow_hyphen_values = true,
        conflicts_with_all = ["after", "cursor"]
    )]
    since: Option<String>,

    /// Only entries after this number
    #[arg(long, value_name = "N", value_parser = number::<u64>(0..=u64::MAX >> 1))]
    after: Option<u64>,

    /// Continue after the entry whose number and hash are in FILE, and keep FILE up to date. If FILE does not
    /// exist, begin with the first entry, or after --after
    #[arg(long, value_name = "FILE")]
    cursor: Option<PathBuf>,

    /// The format of the entries
    #[arg(long = "as", value_name = "FORMAT", default_value = "jsonl")]
    form: Form,

    /// Continue with new entries, until Ctrl-C
    #[arg(long)]
    follow: bool,

    /// Destination: a file, to which entries are appended; with --as syslog, also unix:/dev/log or
    /// udp://HOST:PORT. Default: standard output
    #[arg(long, value_name = "TARGET")]
    to: Option<String>,
}

/// Formats of exported entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Form {
    /// JSON Lines: an object for each entry
    Jsonl,
    /// Messages of RFC 5424
    Syslog,
}

/// Number of entries that one query requests.
const QUERY_ENTRIES: u32 = 1_000;
/// Time between two queries for new entries.
const FOLLOW_PERIOD: Duration = Duration::from_secs(1);

/// The last exported entry.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Position {
    number: u64,
    /// Its hash, if it is known.
    hash: Option<String>,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<Exit, CliError> {
    let since = parse_time("--since", args.since.as_ref(), context)?;
    let mut target = Target::open(args)?;
    let mut position = start(args)?;
    let engine = targets::engine(&context.settings)?;
    let report_wait =
        |problem: &Problem| context.note_with_code("not-connected", &problem.sentence());
    let connection = match args.follow {
        true => Connection::wait(&engine, context, None, report_wait)?,
        false => Connection::new(&engine, context)?,
    };
    if args.follow {
        context.interrupted.handle_presses(1);
    }
    let host = host_name().unwrap_or_default();
    let mut wait_reported = false;
    loop {
        let page = match page_after(&connection, position.as_ref(), since) {
            Ok(page) => page,
            // The client reconnects automatically.
            Err(problem) if args.follow && is_temporary(&problem) => {
                if !std::mem::replace(&mut wait_reported, true) {
                    context.note_with_code("not-connected", &problem.sentence())?;
                }
                context.interrupted.wait(FOLLOW_PERIOD);
                if context.interrupted.is_pressed() {
                    return Ok(Exit::Success);
                }
                continue;
            }
            Err(problem) => return Err(problem.into()),
        };
        wait_reported = false;
        let has_more = page.next.is_some();
        let entries = new_entries(page, position.as_ref(), context)?;
        for entry in &entries {
            target.write(&text(entry, args.form, &host, context.settings.values))?;
        }
        if let Some(last) = entries.last() {
            target.flush(context)?;
            let reached = Position::of(last);
            if let Some(cursor) = &args.cursor {
                reached.save(cursor)?;
            }
            position = Some(reached);
        }
        if has_more {
            continue;
        }
        if !args.follow {
            return Ok(Exit::Success);
        }
        context.interrupted.wait(FOLLOW_PERIOD);
        if context.interrupted.is_pressed() {
            return Ok(Exit::Success);
        }
    }
}

/// Returns the last entry that was exported earlier.
fn start(args: &Args) -> Result<Option<Position>, Problem> {
    let saved = args.cursor.as_deref().map(Position::load).transpose()?;
    let after = args.after.filter(|number| *number > 0);
    Ok(saved
        .flatten()
        .or(after.map(|number| Position { number, hash: None })))
}

/// Queries the entries from the last exported one on. This entry is included, so that the answer shows
/// whether the audit trail is still the same.
fn page_after(
    connection: &Connection,
    position: Option<&Position>,
    since: Option<Timestamp>,
) -> Result<AuditPage, Problem> {
    let query = AuditQuery {
        from: position.map(|position| position.number),
        since: since.filter(|_| position.is_none()),
        limit: QUERY_ENTRIES,
        ..AuditQuery::default()
    };
    connection.call(|client, wait| client.audit(query, wait))
}

fn is_temporary(problem: &Problem) -> bool {
    matches!(problem.exit, Exit::Unreachable | Exit::TimedOut)
}

/// Returns the entries after the last exported one.
fn new_entries(
    page: AuditPage,
    position: Option<&Position>,
    context: &Context,
) -> Result<Vec<AuditEntry>, CliError> {
    let mut entries = page.entries;
    let Some(position) = position else {
        return Ok(entries);
    };
    let number = position.number;
    if page.removed >= number {
        // The last exported entry has been removed meanwhile, so it cannot be compared.
        let missing = page.removed - number;
        if missing > 0 {
            let sentence = format!(
                "{missing} entries after number {number} were removed from the audit trail before \
                 they were exported"
            );
            context.note_with_code("removed", &sentence)?;
        }
        return Ok(entries);
    }
    let is_known = entries.first().is_some_and(|first| {
        let hash = first.link.map(|link| link.hash.to_string());
        first.number == number && (position.hash.is_none() || position.hash == hash)
    });
    if !is_known {
        let sentence = format!(
            "the audit trail does not contain the last exported entry, number {number}: the engine \
             has another store, or its audit trail was rewritten; check it with `trunkline audit \
             verify`, and export it again from the beginning"
        );
        return Err(Problem::new(Exit::ProblemsFound, "other-audit", sentence).into());
    }
    entries.remove(0);
    Ok(entries)
}

fn text(entry: &AuditEntry, form: Form, host: &str, values: ValueStyle) -> String {
    match form {
        Form::Jsonl => json(&Entry::new(entry, &mut None, values)),
        Form::Syslog => syslog::message(entry, host),
    }
}

impl Position {
    fn of(entry: &AuditEntry) -> Self {
        Self {
            number: entry.number,
            hash: entry.link.map(|link| link.hash.to_string()),
        }
    }

    /// Reads the position from a file of the form `NUMBER HASH`. Returns `None` if there is no file.
    fn load(file: &Path) -> Result<Option<Self>, Problem> {
        let text = match fs::read_to_string(file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text.map_err(|error| file_problem("read", file, &error))?,
        };
        let mut words = text.split_whitespace();
        let number = words.next().and_then(|number| number.parse().ok());
        match (number, words.next(), words.next()) {
            (Some(number), hash, None) if number > 0 => Ok(Some(Self {
                number,
                hash: hash.map(str::to_owned),
            })),
            _ => {
                let sentence = format!(
                    "{} does not contain the number and the hash of an entry; remove it to export \
                     the audit trail from the beginning",
                    file.display()
                );
                Err(Problem::failed("cursor", sentence))
            }
        }
    }

    /// Replaces the file as a whole, so that it is complete at any time.
    fn save(&self, file: &Path) -> Result<(), Problem> {
        let hash = self.hash.as_deref().unwrap_or_default();
        let text = format!("{} {hash}\n", self.number);
        let failed = |error: &io::Error| file_problem("write", file, error);
        let folder = file
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let mut new = tempfile::NamedTempFile::new_in(folder).map_err(|error| failed(&error))?;
        new.write_all(text.as_bytes())
            .and_then(|()| new.as_file().sync_data())
            .map_err(|error| failed(&error))?;
        new.persist(file).map_err(|error| failed(&error.error))?;
        Ok(())
    }
}

fn file_problem(action: &str, file: &Path, error: &io::Error) -> Problem {
    let reason = file_reason(error);
    Problem::failed(
        "file",
        format!("cannot {action} {}: {reason}", file.display()),
    )
}

/// Where entries are written.
enum Target {
    /// Standard output, with the lines that are not written yet, at most those of one query.
    Output(String),
    File(PathBuf, File),
    Unix(PathBuf, UnixDatagram),
    Udp(String, UdpSocket),
}

impl Target {
    fn open(args: &Args) -> Result<Self, CliError> {
        let Some(to) = args.to.as_deref() else {
            return Ok(Target::Output(String::new()));
        };
        let (is_unix, is_udp) = (to.strip_prefix("unix:"), to.strip_prefix("udp://"));
        if (is_unix.is_some() || is_udp.is_some()) && args.form != Form::Syslog {
            let sentence = format!("--to {to} receives syslog messages; add --as syslog");
            return Err(Problem::usage(sentence).into());
        }
        if let Some(path) = is_unix {
            let failed = |error: io::Error| file_problem("use the socket", Path::new(path), &error);
            let socket = UnixDatagram::unbound().map_err(failed)?;
            socket.connect(path).map_err(failed)?;
            return Ok(Target::Unix(PathBuf::from(path), socket));
        }
        if let Some(address) = is_udp {
            return Ok(Target::Udp(address.to_owned(), udp(address)?));
        }
        let path = PathBuf::from(to);
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(&path)
            .map_err(|error| file_problem("open", &path, &error))?;
        Ok(Target::File(path, file))
    }

    fn write(&mut self, text: &str) -> Result<(), CliError> {
        match self {
            Target::Output(lines) => {
                lines.push_str(text);
                lines.push('\n');
            }
            Target::File(path, file) => file
                .write_all(format!("{text}\n").as_bytes())
                .map_err(|error| file_problem("write", path, &error))?,
            Target::Unix(path, socket) => socket
                .send(text.as_bytes())
                .map(|_| ())
                .map_err(|error| file_problem("send to", path, &error))?,
            Target::Udp(address, socket) => {
                socket.send(text.as_bytes()).map_err(|error| {
                    let reason = file_reason(&error);
                    Problem::failed("network", format!("cannot send to {address}: {reason}"))
                })?;
            }
        }
        Ok(())
    }

    /// Makes sure that the written entries are not lost if this program ends.
    fn flush(&mut self, context: &Context) -> Result<(), CliError> {
        match self {
            Target::Output(lines) => {
                let lines = std::mem::take(lines);
                // Programs need the exact text. A terminal must not obey what an entry contains.
                match context.terminal.out_is_tty {
                    true => lines
                        .lines()
                        .try_for_each(|line| context.terminal.line(line)),
                    false => context.terminal.raw(lines.as_bytes()),
                }
            }
            Target::File(path, file) => {
                let synced = file.sync_data();
                Ok(synced.map_err(|error| file_problem("write", path, &error))?)
            }
            Target::Unix(..) | Target::Udp(..) => Ok(()),
        }
    }
}

fn udp(address: &str) -> Result<UdpSocket, Problem> {
    let failed = |error: io::Error| {
        let reason = file_reason(&error);
        let sentence = format!(
            "cannot send to udp://{address}: {reason}; give a host and a port, such as udp://logs:514"
        );
        Problem::failed("network", sentence)
    };
    let mut last = io::Error::from(io::ErrorKind::InvalidInput);
    for peer in address.to_socket_addrs().map_err(failed)? {
        let any = match peer.is_ipv4() {
            true => "0.0.0.0:0",
            false => "[::]:0",
        };
        match UdpSocket::bind(any).and_then(|socket| socket.connect(peer).map(|()| socket)) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(failed(last))
}
