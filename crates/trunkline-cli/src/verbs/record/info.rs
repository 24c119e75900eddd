//! `record info`: shows the contents of a recording.

use std::path::{Path, PathBuf};

use trunkline::record::RecordedVariables;
use trunkline::tdms::{Channel, Limits, ObjectPath, TdmsFile};

use crate::exit::Exit;
use crate::output::json::Object;
use crate::output::records::{Records, Row};
use crate::problem::{Problem, Stop};
use crate::terminal::{Mood, plain, shown};
use crate::verbs::tdms::opened::regular_file;
use crate::verbs::{Context, Verb};

/// Show the contents of a recording: variables or channels, updates, gaps
///
/// If the recording was cut off, it shows the readable part.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The file
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(super) const VERB: Verb = Verb::reading(
    "info",
    &[Exit::Done, Exit::SomeFailed, Exit::Usage, Exit::Interrupted],
);

pub(super) fn info(args: &Args, context: &Context) -> Result<Exit, Stop> {
    crate::interrupt::end_process_on_interrupt(&context.terminal)?;
    let path = args.file.as_path();
    let file = open(path)?;
    if let Some(finding) = file.report().incomplete {
        let line = format!(
            "{} was cut off: {}",
            shown(path),
            plain(&finding.to_string())
        );
        context.terminal.note(&line)?;
    }
    let variables = RecordedVariables::open(path)
        .map_err(|error| Problem::new(Exit::SomeFailed, "recording", &plain(&error.to_string())))?;
    let columns = &["name", "type", "values", "gaps", "lost", "cut off"];
    let mut records = Records::new(&context.settings, &context.terminal, columns)?.headed();
    for variable in variables.variables() {
        let group = ObjectPath::group(variable.name.as_str());
        let gaps = gaps(&file, &group);
        records.push(row(
            &variable.name,
            &variable.data_type.to_string(),
            variable.updates,
            gaps,
            variable.cut_off,
        ))?;
    }
    for path in variables.skipped() {
        let Some(channel) = file.channel(path) else {
            continue;
        };
        let group = path.parent().unwrap_or(ObjectPath::File);
        records.push(row(
            &name_of(&channel),
            &channel.data_type().to_string(),
            channel.len(),
            gaps(&file, &group),
            0,
        ))?;
    }
    records.finish()?;
    Ok(Exit::Done)
}

/// `cut_off` is the number of updates after the last value that are only partly in the file.
fn row(name: &str, data_type: &str, values: u64, gaps: Gaps, cut_off: u64) -> Row {
    let mut object = Object::new();
    object.put("name", name);
    object.put("type", data_type);
    object.put("values", values);
    object.put("gaps", gaps.count);
    object.put("lost", gaps.lost);
    object.put("unknown_gaps", gaps.unknown);
    object.put("cut_off", cut_off);
    let lost = match gaps.unknown {
        0 => gaps.lost.to_string(),
        _ => format!("{} at least", gaps.lost),
    };
    Row {
        cells: vec![
            name.to_owned(),
            data_type.to_owned(),
            values.to_string(),
            gaps.count.to_string(),
            lost,
            cut_off.to_string(),
        ],
        object,
        mood: match (gaps.count, cut_off) {
            (0, 0) => Mood::Plain,
            _ => Mood::Bad,
        },
    }
}

/// The losses in a group.
#[derive(Clone, Copy, Debug, Default)]
struct Gaps {
    count: u64,
    lost: u64,
    /// Gaps of unknown length.
    unknown: u64,
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

/// Opens a file as far as it can be read.
pub(in crate::verbs) fn open(path: &Path) -> Result<TdmsFile<std::fs::File>, Problem> {
    let failed = |sentence: String| Problem::new(Exit::SomeFailed, "file", &sentence);
    let file = regular_file(path).map_err(|error| {
        failed(format!(
            "{} cannot be opened: {}",
            shown(path),
            plain(&error.to_string())
        ))
    })?;
    let limits = Limits {
        is_salvaging: true,
        ..Limits::default()
    };
    TdmsFile::open_with(file, limits)
        .map_err(|error| failed(format!("{}: {}", shown(path), plain(&error.to_string()))))
}
