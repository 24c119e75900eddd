//! `record info`: shows the contents of a recording.

use std::path::{Path, PathBuf};

use trunkline::record::RecordedVariables;
use trunkline::tdms::{Channel, Limits, ObjectPath, TdmsFile};

use super::playback_problem;
use crate::output::record::{JsonSchema, Record, Serialize};
use crate::problem::file_reason;
use crate::terminal::{Style, escaped, escaped_path};
use crate::verbs::tdms::opened::regular_file;
use crate::{CliError, Context, Exit, Problem};

/// Show the variables or channels of a recording, their updates and their gaps
///
/// If the file is incomplete, the command shows the readable part.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The TDMS file of the recording
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(super) fn info(args: &Args, context: &Context) -> Result<Exit, CliError> {
    let path = args.file.as_path();
    let file = open(path)?;
    if let Some(finding) = file.report().incomplete {
        let finding = escaped(&finding.to_string());
        let line = format!("{} was cut off at {finding}", escaped_path(path));
        context.terminal.note(&line)?;
    }
    let variables = RecordedVariables::open(path).map_err(|error| playback_problem(&error))?;
    let mut table = context.table::<Content>()?;
    for variable in variables.variables() {
        let group = ObjectPath::group(variable.name.as_str());
        let gaps = gaps(&file, &group);
        table.push(&Content {
            name: variable.name.clone(),
            data_type: variable.data_type.to_string(),
            values: variable.updates,
            gaps,
            cut_off: variable.cut_off,
        })?;
    }
    for path in variables.skipped() {
        let Some(channel) = file.channel(path) else {
            continue;
        };
        let group = path.parent().unwrap_or(ObjectPath::File);
        table.push(&Content {
            name: name_of(&channel),
            data_type: channel.data_type().to_string(),
            values: channel.len(),
            gaps: gaps(&file, &group),
            cut_off: 0,
        })?;
    }
    table.finish()?;
    Ok(Exit::Success)
}

/// A line of `record info`: a variable, or a channel.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "Contents of a recording, version 1")]
pub(crate) struct Content {
    /// The variable, or `group/channel`.
    name: String,
    /// Its data type.
    #[serde(rename = "type")]
    data_type: String,
    /// Number of updates or values.
    values: u64,
    #[serde(flatten)]
    gaps: Gaps,
    /// Number of updates at the end that are incomplete because the file was cut off.
    cut_off: u64,
}

/// The losses in a group.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
struct Gaps {
    /// Number of gaps: places at which updates or values are missing.
    #[serde(rename = "gaps")]
    count: u64,
    /// Number of missing updates or values, if known.
    lost: u64,
    /// Number of gaps whose size is unknown.
    #[serde(rename = "unknown_gaps")]
    unknown: u64,
}

impl Record for Content {
    const COLUMNS: &'static [&'static str] = &["name", "type", "values", "gaps", "lost", "cut off"];

    fn cell(&self, column: &str) -> Option<String> {
        match column {
            "lost" if self.gaps.unknown > 0 => Some(format!("at least {}", self.gaps.lost)),
            "cut off" => Some(self.cut_off.to_string()),
            _ => None,
        }
    }

    fn style(&self) -> Style {
        match (self.gaps.count, self.cut_off) {
            (0, 0) => Style::Plain,
            _ => Style::Bad,
        }
    }
}

fn gaps<R>(file: &TdmsFile<R>, group: &ObjectPath) -> Gaps {
    let mut gaps = Gaps::default();
    let Some(properties) = file.properties(group) else {
        return gaps;
    };
    while let Some(lost) = properties.get(format!("gap_{}_lost", gaps.count + 1).as_bytes()) {
        gaps.count += 1;
        match lost.as_u64() {
            Some(lost) => gaps.lost = gaps.lost.saturating_add(lost),
            None => gaps.unknown += 1,
        }
    }
    gaps
}

fn name_of<R: trunkline::tdms::ReadAt>(channel: &Channel<'_, R>) -> String {
    let path = channel.path();
    let group = path.parent().unwrap_or(ObjectPath::File);
    format!("{}/{}", group.name(), path.name())
}

/// Opens a file, or the readable part of an incomplete file.
pub(in crate::verbs) fn open(path: &Path) -> Result<TdmsFile<std::fs::File>, Problem> {
    let failed = |sentence: String| Problem::failed("file", sentence);
    let file = regular_file(path).map_err(|error| {
        let reason = escaped(&file_reason(&error));
        failed(format!("{} cannot be opened: {reason}", escaped_path(path)))
    })?;
    let limits = Limits {
        is_salvaging: true,
        ..Limits::default()
    };
    TdmsFile::open_with(file, limits).map_err(|error| {
        failed(format!(
            "{}: {}",
            escaped_path(path),
            escaped(&error.to_string())
        ))
    })
}
