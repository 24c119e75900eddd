//! Prints notices during a recording, such as a full disk, losses or a missing file, while there is still
//! time to act.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use trunkline::record::{FreeSpace, FreeSpaceState, MovedFile};
use trunkline_types::Tick;

use super::disk::format_free_space;
use crate::output::record::{self, JsonSchema, Serialize};
use crate::terminal::{Style, escaped};
use crate::{CliError, Context};

/// Minimum interval between two lines about continuing losses or errors.
const REPORT_INTERVAL_MIN: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug)]
pub(super) struct RecorderState<'a> {
    pub(super) moved_file: Option<&'a MovedFile>,
    pub(super) moved_sums_file: Option<&'a MovedFile>,
    pub(super) free_space: FreeSpace,
    pub(super) error: Option<&'a str>,
    /// `None` if the recording needs no engine.
    pub(super) is_connected: Option<bool>,
    pub(super) lost: u64,
}

/// The state at the last report, and the times of the last reports.
#[derive(Debug)]
pub(super) struct Notices {
    moved_file: Option<MovedFile>,
    moved_sums_file: Option<MovedFile>,
    free_space: FreeSpaceState,
    error: Option<String>,
    /// Time of the last line about an error.
    error_at: Option<Tick>,
    is_connected: Option<bool>,
    lost: u64,
    /// Time of the last line about losses.
    lost_at: Option<Tick>,
    /// Description of what happens to new data while the disk is full.
    when_full: &'static str,
}

/// A line of `record start` on standard error. Each change is reported once, and continuing losses at
/// most once per second.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "A change during a recording, version 1")]
pub(crate) struct Notice {
    /// What has changed.
    #[schemars(extend("enum" = [
        "disk-low", "disk-full", "disk-ok", "losing", "removed", "renamed", "found",
        "sums-displaced", "error", "error-over", "disconnected", "connected"
    ]))]
    event: &'static str,
    /// The file to which data is recorded.
    file: String,
    /// The change, as a sentence.
    message: String,
    /// Number of updates or rows lost so far, if known.
    lost: u64,
    #[serde(skip)]
    style: Style,
}

impl record::Notice for Notice {
    fn style(&self) -> Style {
        self.style
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "*** {}: {}", escaped(&self.file), escaped(&self.message))
    }
}

impl Notices {
    pub(super) fn new(when_full: &'static str) -> Self {
        Self {
            moved_file: None,
            moved_sums_file: None,
            free_space: FreeSpaceState::Enough,
            error: None,
            error_at: None,
            is_connected: None,
            lost: 0,
            lost_at: None,
            when_full,
        }
    }

    /// Reports each change once, and continuing losses and errors at most once per second.
    pub(super) fn report(
        &mut self,
        state: &RecorderState<'_>,
        path: &Path,
        now: Tick,
        context: &Context,
    ) -> Result<(), CliError> {
        for notice in self.changes(state, path, now) {
            context.notify(&notice)?;
        }
        Ok(())
    }

    fn changes(&mut self, state: &RecorderState<'_>, path: &Path, now: Tick) -> Vec<Notice> {
        let mut notices = Vec::new();
        let mut report = |event, style, message| {
            notices.push(Notice {
                event,
                file: path.display().to_string(),
                message,
                lost: state.lost,
                style,
            });
        };
        if self.moved_file.as_ref() != state.moved_file {
            self.moved_file = state.moved_file.cloned();
            match state.moved_file {
                Some(found) if found.is_removed() => {
                    report("removed", Style::Bad, removed_text(found));
                }
                Some(found) => report("renamed", Style::Bad, found.to_string()),
                None => {
                    let text = "the file is at its original path again".to_owned();
                    report("found", Style::Plain, text);
                }
            }
        }
        if self.moved_sums_file.as_ref() != state.moved_sums_file {
            self.moved_sums_file = state.moved_sums_file.cloned();
            if let Some(found) = state.moved_sums_file {
                report("sums-displaced", Style::Bad, found.to_string());
            }
        }
        if self.free_space != state.free_space.state {
            self.free_space = state.free_space.state;
            let full_in = state.free_space.full_in.map(|time| time.as_secs_f64());
            let free = format_free_space(state.free_space.bytes, full_in);
            match state.free_space.state {
                FreeSpaceState::Full => {
                    let full = format!("the disk is full; {}", self.when_full);
                    report("disk-full", Style::Bad, full);
                }
                FreeSpaceState::Low => {
                    let low = format!("the disk is nearly full: {free}");
                    report("disk-low", Style::Warning, low);
                }
                _ => {
                    let ok = format!("the disk has free space again: {free}");
                    report("disk-ok", Style::Plain, ok);
                }
            }
        }
        let is_removed = state.moved_file.is_some_and(MovedFile::is_removed);
        let error = state.error.filter(|_| !is_removed);
        if self.error.as_deref() != error && restart_if_elapsed(&mut self.error_at, now) {
            match error {
                Some(error) => report("error", Style::Bad, error.to_owned()),
                None => {
                    let text = "writing to the file works again".to_owned();
                    report("error-over", Style::Plain, text);
                }
            }
            self.error = error.map(str::to_owned);
        }
        if self.is_connected != state.is_connected {
            match (self.is_connected, state.is_connected) {
                (Some(true), Some(false)) => {
                    let text = "not connected to the engine; reconnecting".to_owned();
                    report("disconnected", Style::Warning, text);
                }
                (Some(false), Some(true)) => {
                    let text = "connected to the engine".to_owned();
                    report("connected", Style::Plain, text);
                }
                _ => {}
            }
            // A connection that does not exist yet at the start is not reported as lost.
            if self.is_connected.is_some() || state.is_connected == Some(true) {
                self.is_connected = state.is_connected;
            }
        }
        if state.lost > self.lost && restart_if_elapsed(&mut self.lost_at, now) {
            let new_losses = state.lost - self.lost;
            let text = match self.lost {
                0 => format!("{new_losses} lost"),
                _ => format!(
                    "{} lost, {new_losses} of them since the last notice",
                    state.lost
                ),
            };
            report("losing", Style::Bad, text);
            self.lost = state.lost;
        }
        notices
    }
}

/// Returns true, and sets `last` to `now`, if the minimum interval between two lines has passed.
fn restart_if_elapsed(last: &mut Option<Tick>, now: Tick) -> bool {
    let has_elapsed = last.is_none_or(|last| now.since(last) >= REPORT_INTERVAL_MIN);
    if has_elapsed {
        *last = Some(now);
    }
    has_elapsed
}

pub(super) fn removed_text(found: &MovedFile) -> String {
    use trunkline::record::FileLocation;
    match &found.location {
        FileLocation::Removed {
            copy_from: Some(from),
        } => format!(
            "{found}, and its contents are lost when the recording ends; copy it from {} before \
             then",
            from.display()
        ),
        _ => format!("{found}, and its contents are lost"),
    }
}

pub(super) fn moved_texts(files: [Option<&MovedFile>; 2]) -> Vec<String> {
    files.iter().flatten().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state<'a>() -> RecorderState<'a> {
        RecorderState {
            moved_file: None,
            moved_sums_file: None,
            free_space: FreeSpace::default(),
            error: None,
            is_connected: Some(true),
            lost: 0,
        }
    }

    fn events(
        sut: &mut Notices,
        state: &RecorderState<'_>,
        milliseconds: u64,
    ) -> Vec<&'static str> {
        let now = Tick::from_nanos(milliseconds * 1_000_000);
        let changes = sut.changes(state, Path::new("run.tdms"), now);
        changes.into_iter().map(|notice| notice.event).collect()
    }

    /// Behaviour: B-70.
    #[test]
    fn each_change_is_reported_once_and_losses_at_most_once_a_second() {
        let mut sut = Notices::new("updates wait");
        assert!(events(&mut sut, &state(), 0).is_empty());
        let mut full = state();
        full.free_space.state = FreeSpaceState::Full;
        full.error = Some("no space");
        assert_eq!(events(&mut sut, &full, 10), ["disk-full", "error"]);
        assert!(events(&mut sut, &full, 20).is_empty());
        full.lost = 5;
        let now = Tick::from_nanos(30_000_000);
        let first = sut.changes(&full, Path::new("run.tdms"), now);
        assert_eq!(first[0].message, "5 lost", "there was no notice before");
        for milliseconds in (40..1_000).step_by(50) {
            full.lost += 1_000;
            assert!(events(&mut sut, &full, milliseconds).is_empty());
        }
        assert_eq!(events(&mut sut, &full, 1_040), ["losing"]);
        let mut over = state();
        over.lost = full.lost;
        over.is_connected = Some(false);
        assert_eq!(
            events(&mut sut, &over, 2_000),
            ["disk-ok", "error-over", "disconnected"]
        );
        over.is_connected = Some(true);
        assert_eq!(events(&mut sut, &over, 2_010), ["connected"]);
    }
}
