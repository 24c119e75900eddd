//! `record ls`: lists the running recordings, and those of a folder.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::disk::{free_bytes, span_text};
use super::info::open;
use super::running::full;
use super::stop::Recorder;
use crate::exit::Exit;
use crate::output::json::Object;
use crate::output::records::{Records, Row};
use crate::problem::{Problem, Stop};
use crate::terminal::{Mood, shown};
use crate::verbs::stream::units::{bytes_text, rate_text};
use crate::verbs::{Context, Verb};

const COLUMNS: &[&str] = &[
    "file", "size", "groups", "channels", "values", "state", "rate", "queue", "disk",
];

/// List the running recordings, and the recordings in a folder
///
/// Of a running recording it shows the rate, the queue, and the time until the disk is full.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The folder
    #[arg(value_name = "DIR", default_value = ".")]
    folder: PathBuf,
}

pub(super) const VERB: Verb = Verb::reading(
    "ls",
    &[Exit::Done, Exit::SomeFailed, Exit::Usage, Exit::Interrupted],
);

pub(super) fn ls(args: &Args, context: &Context) -> Result<Exit, Stop> {
    crate::interrupt::end_process_on_interrupt(&context.terminal)?;
    let folder = args.folder.as_path();
    let paths = recordings(folder)?;
    let mut records = Records::new(&context.settings, &context.terminal, COLUMNS)?;
    let here = full(folder).ok();
    let mut that_run = HashSet::new();
    for recorder in Recorder::all()? {
        let is_here = recorder.file.parent() == here.as_deref();
        let name = match recorder.file.file_name() {
            Some(name) if is_here => name.to_string_lossy().into_owned(),
            _ => recorder.file.display().to_string(),
        };
        records.push(of_recorder(&recorder, &name))?;
        that_run.insert(recorder.file);
    }
    let mut exit = Exit::Done;
    for path in paths {
        if full(&path).is_ok_and(|path| that_run.contains(&path)) {
            continue;
        }
        let (row, ended) = of_file(&path);
        if ended != Exit::Done {
            exit = ended;
        }
        records.push(row)?;
    }
    records.finish()?;
    Ok(exit)
}

/// Returns the TDMS files of a folder, sorted by name.
fn recordings(folder: &Path) -> Result<Vec<PathBuf>, Problem> {
    let failed = |error: std::io::Error| {
        let sentence = format!("{} cannot be read: {error}", shown(folder));
        Problem::new(Exit::SomeFailed, "file", &sentence)
    };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|end| end == "tdms") {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// Returns the row of a running recording, from its recorder's answer.
fn of_recorder(recorder: &Recorder, name: &str) -> Row {
    let mut object = Object::new();
    object.put("file", name);
    object.put("is_recorded", true);
    if let Some(pid) = recorder.pid {
        object.put("pid", pid);
    }
    object.put_text("since", &recorder.started);
    let left = free_bytes(&recorder.file);
    if let Some(left) = left {
        object.put("disk_left", left);
    }
    let who = recorder
        .pid
        .map_or_else(String::new, |pid| format!(" by process {pid}"));
    let Some(figures) = recorder.figures() else {
        object.put("problem", "the recorder does not answer");
        let cells = [name, "-", "-", "-", "-"].map(str::to_owned).to_vec();
        let state = format!("recorded{who}, which does not answer");
        return Row {
            cells: [cells, vec![state]].concat(),
            object,
            mood: Mood::Bad,
        };
    };
    object.put("bytes", figures.bytes);
    object.put("values", figures.rows);
    object.put("bytes_per_second", figures.bytes_per_second);
    object.put("queue_bytes", figures.queue_bytes);
    object.put("lost", figures.lost);
    let lasts = left.map(|left| left as f64 / figures.bytes_per_second);
    let lasts = lasts.filter(|seconds| seconds.is_finite());
    if let Some(seconds) = lasts {
        object.put("full_in_seconds", seconds);
    }
    let disk = match (left, lasts) {
        (None, _) => "disk left unknown".to_owned(),
        (Some(left), None) => format!("{} left", bytes_text(left as f64)),
        (Some(left), Some(seconds)) => format!(
            "{} left, full in {}",
            bytes_text(left as f64),
            span_text(seconds)
        ),
    };
    let lost = match figures.lost {
        0 => String::new(),
        lost => format!(", {lost} lost"),
    };
    Row {
        cells: vec![
            name.to_owned(),
            bytes_text(figures.bytes as f64),
            "-".to_owned(),
            "-".to_owned(),
            figures.rows.to_string(),
            format!("recorded{who}{lost}"),
            rate_text(figures.bytes_per_second),
            format!("queue {}", bytes_text(figures.queue_bytes as f64)),
            disk,
        ],
        object,
        mood: match figures.lost {
            0 => Mood::Fine,
            _ => Mood::Bad,
        },
    }
}

/// Returns the row of a file in the folder, and the exit code that it leads to.
fn of_file(path: &Path) -> (Row, Exit) {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let bytes = path.metadata().map_or(0, |known| known.len());
    let mut object = Object::new();
    object.put("file", name.as_ref());
    object.put("bytes", bytes);
    let mut exit = Exit::Done;
    let (cells, mood) = match open(path) {
        Ok(file) => {
            let groups = file.groups().count();
            let (mut channels, mut values) = (0_u64, 0_u64);
            for channel in file.channels() {
                channels += 1;
                values += channel.len();
            }
            let is_whole = file.report().incomplete.is_none();
            object.put("groups", groups);
            object.put("channels", channels);
            object.put("values", values);
            object.put("is_whole", is_whole);
            let state = ["cut off", "whole"][usize::from(is_whole)].to_owned();
            let counts = [groups as u64, channels, values].map(|count| count.to_string());
            let cells: Vec<String> = counts.into_iter().chain([state]).collect();
            (cells, Mood::Plain)
        }
        Err(problem) => {
            exit = problem.exit;
            object.put("problem", problem.message.as_str());
            let nothing = std::iter::repeat_n("-".to_owned(), 3);
            (nothing.chain([problem.message]).collect(), Mood::Bad)
        }
    };
    let first = vec![name.into_owned(), bytes_text(bytes as f64)];
    let row = Row {
        cells: [first, cells].concat(),
        object,
        mood,
    };
    (row, exit)
}
