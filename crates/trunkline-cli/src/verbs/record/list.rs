//! `record ls`: lists the running recordings, and the recordings in a folder.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::disk::{format_free_space, free_bytes};
use super::info::open;
use super::running::canonical;
use super::stop::Recorder;
use crate::output::record::{JsonSchema, Record, Serialize};
use crate::output::values::Amount;
use crate::problem::folder_reason;
use crate::terminal::{Style, escaped_path};
use crate::verbs::stream::units::{bytes_text, rate_text};
use crate::{CliError, Context, Exit, Problem};

/// List the running recordings, and the recordings in a folder
///
/// For each running recording, the list shows the rate, the data waiting to be written, and the
/// time until the disk is full.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The folder to list
    #[arg(value_name = "FOLDER", default_value = ".")]
    folder: PathBuf,
}

pub(super) fn ls(args: &Args, context: &Context) -> Result<Exit, CliError> {
    let folder = args.folder.as_path();
    let paths = recordings(folder)?;
    let mut table = context.table::<Listed>()?;
    let listed_folder = canonical(folder).ok();
    let mut running = HashSet::new();
    for recorder in Recorder::all()? {
        let is_in_folder = recorder.file.parent() == listed_folder.as_deref();
        let name = match recorder.file.file_name() {
            Some(name) if is_in_folder => name.to_string_lossy().into_owned(),
            _ => recorder.file.display().to_string(),
        };
        table.push(&of_recorder(&recorder, name))?;
        running.insert(recorder.file);
    }
    let mut exit = Exit::Success;
    for path in paths {
        if canonical(&path).is_ok_and(|path| running.contains(&path)) {
            continue;
        }
        let listed = of_file(&path);
        if listed.problem.is_some() {
            exit = Exit::Failed;
        }
        table.push(&listed)?;
    }
    table.finish()?;
    Ok(exit)
}

fn recordings(folder: &Path) -> Result<Vec<PathBuf>, Problem> {
    let failed = |error: std::io::Error| {
        let reason = match error.kind() {
            ErrorKind::NotADirectory => "it is not a folder".to_owned(),
            _ => folder_reason(&error),
        };
        let sentence = format!("{} cannot be read: {reason}", escaped_path(folder));
        Problem::failed("file", sentence)
    };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "tdms")
        {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// A line of `record ls`.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[schemars(title = "A recording in a folder, or a running recording, version 1")]
pub(crate) struct Listed {
    /// Name of the file; for a running recording outside the folder, its path.
    file: String,
    /// True if the recording is running. Left out otherwise.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_recorded: bool,
    /// Process ID of the recorder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u64>,
    /// Time at which the recording began. RFC 3339.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(extend("format" = "date-time"))]
    since: String,
    /// For a running recording: bytes that are available to this user on the disk of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    disk_left: Option<u64>,
    /// Length of the file in bytes; for a running recording, the bytes written so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    /// Number of groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    groups: Option<usize>,
    /// Number of channels.
    #[serde(skip_serializing_if = "Option::is_none")]
    channels: Option<u64>,
    /// Number of values in all channels; for a running recording, number of updates or elements.
    #[serde(skip_serializing_if = "Option::is_none")]
    values: Option<u64>,
    /// Whether the file was closed normally. Left out for a running recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    is_whole: Option<bool>,
    /// For a running recording: bytes written per second, averaged over about two seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_per_second: Option<Amount>,
    /// For a running recording: bytes waiting to be written.
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_bytes: Option<u64>,
    /// For a running recording: number of updates or rows lost so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    lost: Option<u64>,
    /// Seconds until the disk is full at this rate. Left out if nothing is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    full_in_seconds: Option<Amount>,
    /// Why the file cannot be read, or a sentence that its recorder does not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

impl Record for Listed {
    const COLUMNS: &'static [&'static str] = &[
        "file", "size", "groups", "channels", "values", "state", "rate", "queue", "disk",
    ];
    const IS_HEADED: bool = false;

    fn cell(&self, column: &str) -> Option<String> {
        let none = || "-".to_owned();
        match column {
            "size" => Some(
                self.bytes
                    .map_or_else(none, |bytes| bytes_text(bytes as f64)),
            ),
            "groups" if self.groups.is_none() => Some(none()),
            "channels" if self.channels.is_none() => Some(none()),
            "values" if self.values.is_none() => Some(none()),
            "state" => Some(self.state()),
            "rate" => self.bytes_per_second.map(|Amount(rate)| rate_text(rate)),
            "queue" => {
                let queue = self.queue_bytes?;
                Some(format!("queue {}", bytes_text(queue as f64)))
            }
            "disk" if self.bytes_per_second.is_some() => {
                let full_in = self.full_in_seconds.map(|Amount(seconds)| seconds);
                Some(format_free_space(self.disk_left, full_in))
            }
            _ => None,
        }
    }

    fn style(&self) -> Style {
        match (&self.problem, self.lost) {
            (Some(_), _) | (None, Some(1..)) => Style::Bad,
            (None, Some(0)) => Style::Good,
            (None, None) => Style::Plain,
        }
    }
}

impl Listed {
    fn state(&self) -> String {
        let process = self
            .pid
            .map_or_else(String::new, |pid| format!(", process {pid}"));
        match (self.is_recorded, &self.problem, self.lost) {
            (true, Some(_), _) => format!("recording{process}, which does not answer"),
            (true, None, Some(lost @ 1..)) => format!("recording{process}, {lost} lost"),
            (true, None, _) => format!("recording{process}"),
            (false, Some(problem), _) => problem.clone(),
            (false, None, _) if self.is_whole == Some(true) => "complete".to_owned(),
            (false, None, _) => "cut off".to_owned(),
        }
    }
}

fn of_recorder(recorder: &Recorder, file: String) -> Listed {
    let listed = Listed {
        file,
        is_recorded: true,
        pid: recorder.pid,
        since: recorder.started.clone(),
        disk_left: free_bytes(&recorder.file),
        ..Listed::default()
    };
    let Some(figures) = recorder.figures() else {
        return Listed {
            problem: Some("the recorder does not answer".to_owned()),
            ..listed
        };
    };
    let full_in = listed
        .disk_left
        .map(|free| free as f64 / figures.bytes_per_second);
    Listed {
        bytes: Some(figures.bytes),
        values: Some(figures.rows),
        bytes_per_second: Some(Amount(figures.bytes_per_second)),
        queue_bytes: Some(figures.queue_bytes),
        lost: Some(figures.lost),
        full_in_seconds: full_in.filter(|seconds| seconds.is_finite()).map(Amount),
        ..listed
    }
}

fn of_file(path: &Path) -> Listed {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let listed = Listed {
        file: name.into_owned(),
        bytes: Some(path.metadata().map_or(0, |metadata| metadata.len())),
        ..Listed::default()
    };
    match open(path) {
        Ok(file) => Listed {
            groups: Some(file.groups().count()),
            channels: Some(file.channels().count() as u64),
            values: Some(file.channels().map(|channel| channel.len()).sum()),
            is_whole: Some(file.report().incomplete.is_none()),
            ..listed
        },
        Err(problem) => Listed {
            problem: Some(problem.message),
            ..listed
        },
    }
}
