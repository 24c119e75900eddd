//! Stops running recordings (`record stop`), and queries their state.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value as Json;

use super::running::{Entry, Figures, STATUS, STOP};
use crate::terminal::escaped_path;
use crate::{CliError, Context, Exit, Problem, counted};

/// Maximum time for a recorder to accept a request, and to report its state.
const STATUS_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum length of an answer in bytes.
const ANSWER_BYTES: u64 = 64 << 10;

/// A running recorder of this user.
#[derive(Debug)]
pub(super) struct Recorder {
    entry: Entry,
    pub(super) file: PathBuf,
    pub(super) pid: Option<u64>,
    pub(super) started: String,
}

impl Recorder {
    pub(super) fn all() -> Result<Vec<Self>, Problem> {
        let all = Entry::all().map_err(|error| not_found(&error))?;
        let mut all: Vec<Self> = all.into_iter().filter_map(Self::of).collect();
        all.sort_by(|a, b| a.file.cmp(&b.file));
        Ok(all)
    }

    /// Returns `None` if the recording is no longer running.
    fn of(entry: Entry) -> Option<Self> {
        if !entry.is_answering() && entry.remove_if_stale() {
            return None;
        }
        let description = entry.description()?;
        Some(Self {
            entry,
            file: description.get("file")?.as_str()?.into(),
            pid: description["pid"].as_u64(),
            started: description["started"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
        })
    }

    /// Returns the state of the recording; `None` if its recorder does not answer.
    pub(super) fn figures(&self) -> Option<Figures> {
        let stream = self.request(STATUS).ok()?;
        let answer = read(stream, Some(STATUS_TIMEOUT)).ok()??;
        serde_json::from_value(answer).ok()
    }

    fn request(&self, request: &[u8]) -> io::Result<UnixStream> {
        let mut stream = UnixStream::connect(&self.entry.socket)?;
        stream.set_write_timeout(Some(STATUS_TIMEOUT))?;
        stream.write_all(request)?;
        Ok(stream)
    }
}

/// Reads an answer. Returns `None` if the recorder has ended without sending one.
fn read(stream: UnixStream, wait: Option<Duration>) -> io::Result<Option<Json>> {
    // A read timeout of zero would be an error.
    let wait = wait.map(|wait| wait.max(Duration::from_millis(1)));
    stream.set_read_timeout(wait)?;
    let mut line = String::new();
    BufReader::new(stream.take(ANSWER_BYTES)).read_line(&mut line)?;
    Ok(serde_json::from_str(&line).ok())
}

/// Stop a recording that the same user started, and wait until its file is closed
///
/// The command waits, at most for --timeout, until the file is complete, flushed to disk and
/// closed, and prints the summary of the recording.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The file
    #[arg(
        value_name = "FILE",
        required_unless_present = "all",
        conflicts_with = "all"
    )]
    file: Option<PathBuf>,

    /// Stop all running recordings of this user
    #[arg(long)]
    all: bool,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<Exit, CliError> {
    let recorders = match &args.file {
        Some(path) => vec![of_file(path)?],
        // Without a file, clap requires --all.
        None => Recorder::all()?,
    };
    if recorders.is_empty() {
        context.terminal.note("no recording is running")?;
    }
    let deadline = context
        .settings
        .explicit_timeout()
        .map(|wait| context.clock.now().saturating_add(wait));
    // Ask all recorders to stop before waiting for any of them.
    let requests: Vec<_> = recorders
        .iter()
        .map(|recorder| (recorder, recorder.request(STOP)))
        .collect();
    let mut exit = Exit::Success;
    for (recorder, stream) in requests {
        let wait = deadline.map(|deadline| deadline.since(context.clock.now()));
        let answer = stream.and_then(|stream| read(stream, wait));
        let ended = match answer {
            Ok(Some(answer)) => report(&answer, context)?,
            Ok(None) => context.show(&no_result(recorder), 0)?,
            Err(error) => context.show(&not_stopped(recorder, &error), 0)?,
        };
        exit = match (exit, ended) {
            (Exit::Success, ended) => ended,
            (exit, Exit::Success) => exit,
            (exit, ended) if exit == ended => exit,
            _ => Exit::Failed,
        };
    }
    if recorders.len() > 1 && !context.settings.is_json() {
        let all = counted(recorders.len() as u64, "recording");
        context
            .terminal
            .note(&format!("{all} were asked to stop"))?;
    }
    Ok(exit)
}

fn of_file(path: &Path) -> Result<Recorder, Problem> {
    let entry = Entry::of(path).map_err(|error| not_found(&error))?;
    // Check that the lock file exists, because `Recorder::of` would create it.
    let recorder = entry.lock.exists().then(|| Recorder::of(entry)).flatten();
    recorder.ok_or_else(|| {
        Problem::from_message(
            "not-recorded",
            format!("{} is not being recorded", escaped_path(path)),
        )
        .with_hint("`trunkline record ls` lists the running recordings")
    })
}

fn report(answer: &Json, context: &Context) -> Result<Exit, CliError> {
    let exit = match answer["exit"].as_u64() {
        Some(0) => Exit::Success,
        Some(7) => Exit::Lost,
        _ => Exit::Failed,
    };
    if let Some(failed) = answer.get("problem") {
        let text = |key: &str| failed[key].as_str().map(str::to_owned);
        let (code, message) = (text("code").unwrap_or_default(), text("message"));
        let mut problem = Problem::from_message(code, message.unwrap_or_default());
        (problem.hint, problem.exit) = (text("hint"), exit);
        return context.show(&problem, 0);
    }
    let line = match context.settings.is_json() {
        true => answer["object"].to_string(),
        false => answer["text"]
            .as_str()
            .unwrap_or("the recording has ended")
            .to_owned(),
    };
    context.terminal.line(&line)?;
    Ok(exit)
}

fn no_result(recorder: &Recorder) -> Problem {
    let file = escaped_path(&recorder.file);
    Problem::from_message(
        "failed",
        format!("the recorder of {file} has ended without a result"),
    )
    .with_hint(format!(
        "the output of the recorder gives the reason; `trunkline record info {file}` shows what the \
         file contains"
    ))
}

fn not_stopped(recorder: &Recorder, error: &io::Error) -> Problem {
    let file = escaped_path(&recorder.file);
    let process = recorder.pid.map(|pid| format!(" (process {pid})"));
    let process = process.unwrap_or_default();
    if let io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut = error.kind() {
        let message =
            format!("the recorder of {file}{process} was asked to stop but has not ended yet");
        let hint = "`trunkline record ls` shows whether it is still running; --timeout sets how \
                    long to wait";
        let problem = Problem::from_message("timeout", message).with_hint(hint);
        return Problem {
            exit: Exit::TimedOut,
            ..problem
        };
    }
    Problem::from_message(
        "failed",
        format!("the recorder of {file}{process} does not accept the stop request: {error}"),
    )
    .with_hint("`kill PID` also ends it cleanly")
}

fn not_found(error: &io::Error) -> Problem {
    Problem::from_message(
        "failed",
        format!("running recordings cannot be listed: {error}"),
    )
}
