//! `monitor --since` and `--after`: print recorded updates, and then new updates.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use serde_json::Value as Json;
use trunkline::{Bookmark, RecordedStart, RecordedSubscription};
use trunkline_types::Position;
use trunkline_types::history::is_late_sequence;
use trunkline_types::text::parse_rfc3339;

use super::Monitor;
use crate::problem::file_reason;
use crate::{CliError, Exit, Problem};

/// The last readings in a file that `monitor --json` wrote.
pub(super) struct Bookmarks {
    /// By name: the epoch of the last reading, and the reading with the highest sequence of each
    /// epoch.
    last: HashMap<String, (u64, HashMap<u64, Bookmark>)>,
    /// True if the file is standard output and its last line is incomplete.
    has_incomplete_line: bool,
}

impl Bookmarks {
    /// Reads a file. Skips lines that are not readings, such as a line whose end is missing because
    /// the command was killed.
    pub(super) fn read(path: &Path) -> Result<Self, Problem> {
        let problem = |error| {
            let sentence = format!("--after {}: {}", path.display(), file_reason(&error));
            Problem::usage(sentence)
        };
        let file = File::open(path).map_err(problem)?;
        let is_output = is_standard_output(&file).map_err(problem)?;
        let mut lines = BufReader::new(file);
        let mut bookmarks = Self {
            last: HashMap::new(),
            has_incomplete_line: false,
        };
        let mut line = Vec::new();
        loop {
            line.clear();
            if lines.read_until(b'\n', &mut line).map_err(problem)? == 0 {
                return Ok(bookmarks);
            }
            bookmarks.has_incomplete_line = is_output && !line.ends_with(b"\n");
            if let Some((name, bookmark)) = bookmark(&line) {
                bookmarks.add(name, bookmark);
            }
        }
    }

    fn add(&mut self, name: String, bookmark: Bookmark) {
        let Position { epoch, sequence } = bookmark.position;
        let (last, epochs) = self.last.entry(name).or_default();
        *last = epoch;
        let highest = epochs.entry(epoch).or_insert(bookmark);
        if sequence > highest.position.sequence {
            *highest = bookmark;
        }
    }

    /// Returns the last reading of a variable. If several readings have its epoch, returns the one with
    /// the highest sequence.
    pub(super) fn of(&self, name: &str) -> Option<Bookmark> {
        let (last, epochs) = self.last.get(name)?;
        epochs.get(last).copied()
    }

    /// Returns true if the output must begin with a new line.
    pub(super) fn needs_new_line(&self) -> bool {
        self.has_incomplete_line
    }
}

/// Returns true if standard output is this file.
fn is_standard_output(file: &File) -> io::Result<bool> {
    let file = file.metadata()?;
    let output = std::fs::metadata("/dev/stdout");
    Ok(output.is_ok_and(|output| (file.dev(), file.ino()) == (output.dev(), output.ino())))
}

/// Returns the bookmark of a reading that is printed as JSON.
fn bookmark(line: &[u8]) -> Option<(String, Bookmark)> {
    let reading: Json = serde_json::from_slice(line).ok()?;
    // With `--int-strings`, the numbers are text.
    let number = |key: &str| match reading.get(key)? {
        Json::String(text) => text.parse().ok(),
        number => number.as_u64(),
    };
    let time = |key: &str| parse_rfc3339(reading.get(key)?.as_str()?).ok();
    let position = Position {
        epoch: number("epoch")?,
        sequence: number("seq")?,
    };
    let source_timestamp = time("ts")?;
    let bookmark = Bookmark {
        position,
        source_timestamp,
        engine_timestamp: time("engine_ts").unwrap_or(source_timestamp),
    };
    let name = reading.get("name")?.as_str()?.to_owned();
    (position.sequence > 0 && !is_late_sequence(position.sequence)).then_some((name, bookmark))
}

impl Monitor<'_> {
    /// Prints the recorded updates of these variables, and follows the variables.
    pub(super) fn follow_recorded(
        mut self,
        items: &[(&str, RecordedStart)],
    ) -> Result<Exit, CliError> {
        let (context, clock) = (self.context, self.context.clock);
        let end = self.args.duration;
        let end = end.map(|duration| clock.now().saturating_add(duration));
        let timeout = context.settings.timeout;
        let mut subscription = self
            .connection
            .call(|client, _| RecordedSubscription::starting_at(client, items, timeout))?;
        loop {
            let next = match subscription.next(Some(Duration::ZERO)) {
                Ok(None) => {
                    // No event is waiting, so flush the output for its reader.
                    context.terminal.flush()?;
                    subscription.next(end.map(|end| end.since(clock.now())))
                }
                next => next,
            };
            let is_done = match next {
                Ok(Some(event)) => self.handle(event)?,
                Ok(None) => end.is_none(),
                Err(error) => {
                    let problem = self.connection.failed(&error);
                    return Err(problem.into());
                }
            };
            if is_done {
                return Ok(self.tally.exit());
            }
            if end.is_some_and(|end| clock.now() >= end) {
                return self.timed_out();
            }
        }
    }
}
