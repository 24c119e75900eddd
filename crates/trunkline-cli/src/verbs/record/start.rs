//! `record start`: records variables.

use std::path::{Path, PathBuf};
use std::time::Duration;

use trunkline::record::{
    MovedFile, Rotation, VariableRecorder, VariableRecorderOptions, VariableRecorderStatus,
};
use trunkline_types::{Contract, DataType, Pattern};

use super::disk::free_space_text;
use super::notices::{self, Notices, RecorderState};
use super::recorded::{Amounts, FileWritten, Recorded, RecordingEvent, system_error};
use super::running::{Figures, Running};
use super::unmatched::{self, Unmatched};
use super::{files_text, start_problem};
use crate::arguments;
use crate::connection::Connection;
use crate::settings::Settings;
use crate::targets::{self, Target};
use crate::terminal::{escaped, escaped_path, width};
use crate::verbs::progress::Meter;
use crate::verbs::stream::units::{self, bytes_text, rate_text};
use crate::{CliError, Context, Exit, Problem, counted};

/// Name of the write method for variables, which assembles whole segments in memory.
const BACKEND: &str = "plain writes";

/// Interval at which the recorder is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Interval at which the recorder is polled at the start, until it follows all variables.
const START_POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Record variables, or a stream, until Ctrl-C, `record stop` or --for
///
/// `record start FILE PATTERN...` records every update of the matching variables, with its time and
/// quality. Variables that appear later are recorded too. Lost updates are marked in the file and
/// reported at the end, with exit code 7. While the disk is full, the recorder waits for space;
/// --contract limits the number of buffered updates. Names and patterns without a match are
/// reported at the beginning and at the end. If a name never matched, the exit code is 1.
///
/// `record start FILE --stream URL --type TYPE` records a stream, whose elements can be of any
/// type, until it ends. While the disk is slow or full, the writer of the stream waits, so that
/// nothing is lost. If the recording ends while the disk is full, the command reports the number of
/// elements that are not in the file, with exit code 7.
///
/// With --rotate-size or --rotate-time, a recording to run.tdms continues in run_0002.tdms,
/// run_0003.tdms and so on. Each file can be read on its own. The recording also continues in the
/// next file if writing fails; updates that may be missing are marked there as a gap.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The TDMS file to create
    #[arg(value_name = "FILE")]
    pub(super) file: PathBuf,

    /// Variables, as names or patterns such as 'boiler/**'
    #[arg(value_name = "NAME", required_unless_present = "stream")]
    names: Vec<String>,

    /// Record a stream instead of variables; URL is the name or URL of the endpoint to create
    #[arg(long, value_name = "URL", conflicts_with = "names")]
    pub(super) stream: Option<String>,

    /// The writer to read from (default: any writer that connects to this endpoint)
    #[arg(long, value_name = "PEER")]
    pub(super) from: Option<String>,

    /// With --stream, allow connections with other machines that are neither encrypted nor authenticated
    #[arg(long, requires = "stream")]
    pub(super) insecure: bool,

    /// The type of the elements of the stream (default: f64)
    #[arg(long = "type", value_name = "TYPE", value_parser = arguments::data_type)]
    data_type: Option<DataType>,

    /// End after this time, such as 90s or 10m (a bare number is seconds)
    #[arg(
        long = "for",
        value_name = "TIME",
        value_parser = arguments::positive_duration,
        allow_hyphen_values = true
    )]
    pub(super) span: Option<Duration>,

    /// Start the next file at this size, such as 1GB
    #[arg(long, value_name = "SIZE", value_parser = units::size, allow_hyphen_values = true)]
    rotate_size: Option<u64>,

    /// Start the next file after this time, such as 1h
    #[arg(
        long,
        value_name = "TIME",
        value_parser = arguments::positive_duration,
        allow_hyphen_values = true
    )]
    rotate_time: Option<Duration>,

    /// Elements of the stream per second, such as 48000; `play` keeps this rate
    #[arg(
        long,
        value_name = "HZ",
        value_parser = arguments::positive,
        allow_negative_numbers = true
    )]
    pub(super) sample_rate: Option<f64>,

    /// Write checksums to FILE.sums, for `tdms verify`
    #[arg(long)]
    pub(super) sums: bool,

    /// The updates of each variable to record: all, all:N, all:N:BYTES, latest, last:N, first:N,
    /// sampled:PERIOD (default: all); `trunkline help monitor` explains them
    #[arg(long, value_name = "CONTRACT")]
    contract: Option<Contract>,
}

impl Args {
    /// Checks that options for streams are not combined with variables, and vice versa.
    pub(super) fn check(&self) -> Result<(), Problem> {
        let is_for_stream =
            self.data_type.is_some() || self.from.is_some() || self.sample_rate.is_some();
        let sentence = match &self.stream {
            None if is_for_stream => {
                "--type, --from and --sample-rate are for --stream; leave them out"
            }
            Some(_) if self.contract.is_some() => {
                "--contract is for variables; leave it out with --stream"
            }
            _ => return Ok(()),
        };
        Err(Problem::usage(sentence))
    }

    /// Returns the type of the elements of a stream.
    pub(super) fn data_type(&self) -> DataType {
        self.data_type.clone().unwrap_or(DataType::F64)
    }

    /// Returns the condition for continuing in another file; `None` for a single file.
    pub(super) fn rotation(&self) -> Option<Rotation> {
        let is_rotating = self.rotate_size.is_some() || self.rotate_time.is_some();
        let none = Rotation::default();
        is_rotating.then(|| Rotation {
            bytes_max: self.rotate_size.unwrap_or(none.bytes_max),
            age_max: self.rotate_time.unwrap_or(none.age_max),
        })
    }
}

pub(super) fn run(args: &Args, context: &Context) -> Result<Exit, CliError> {
    let path = args.file.as_path();
    let mut running = Running::begin(path, context)?;
    let (status, elapsed) = match recorded(args, path, &mut running, context) {
        Ok(recorded) => recorded,
        Err(error) => return running.end(Err(error), context),
    };
    let is_moved = status.moved_file.is_some() || status.moved_sums_file.is_some();
    let exit = match &status {
        status if has_lost(status) || is_moved => Exit::Lost,
        status if status.error.is_some() => Exit::Failed,
        status if status.progress.sync_failure.is_some() => Exit::Failed,
        status if status.refused_count > 0 || has_no_match(status) => Exit::Failed,
        status if unmatched::has_names(status) => Exit::Failed,
        _ => Exit::Success,
    };
    let is_empty = status.progress.variables == 0 || status.progress.bytes == 0;
    let recorded = match is_empty {
        true => nothing_recorded(&status, path),
        false => sum_up(&status, path, args.rotation().is_some(), elapsed),
    };
    running.end(Ok((recorded, exit)), context)?;
    for (name, why) in &status.refused {
        // The problem already begins with the name.
        let why = why.strip_prefix(name.as_str()).unwrap_or(why).trim_start();
        let refused = Problem::failed("not-recorded", escaped(why)).with_name(name);
        context.terminal.problem(&refused, width(name))?;
    }
    if has_no_match(&status) {
        let sentence =
            "no variable matched; `trunkline find` and `trunkline ls` list the variables";
        return Err(Problem::failed("no-match", sentence).into());
    }
    if let Some(error) = &status.error {
        return Err(Problem::new(exit, "file", escaped(error)).into());
    }
    Ok(exit)
}

fn recorded(
    args: &Args,
    path: &Path,
    running: &mut Running,
    context: &Context,
) -> Result<(VariableRecorderStatus, Duration), CliError> {
    let targets = targets::resolve(&args.names, &context.settings)?;
    let patterns = patterns(targets.list, &context.settings)?;
    let connection = Connection::new(&targets.engine, context)?;
    let defaults = VariableRecorderOptions::default();
    let options = VariableRecorderOptions {
        contract: args.contract.unwrap_or(defaults.contract),
        has_sums: args.sums,
        rotation: args.rotation(),
        ..defaults
    };
    let excluded = &context.settings.exclude;
    let recorder = VariableRecorder::start(&connection.client, &patterns, excluded, path, options);
    let recorder = recorder.map_err(|error| start_problem(&error, path))?;
    context.interrupted.handle_presses(1);
    let (_stopper, stopped) = trunkline::record::stopper();
    // The line `recording to ...` means that every later update is recorded. It is printed when the
    // recorder follows all variables, or after the timeout.
    let deadline = context.clock.now().saturating_add(context.settings.timeout);
    while !recorder.status().is_following
        && !context.interrupted.is_pressed()
        && !running.is_stop_requested()
        && context.clock.now() < deadline
    {
        let _ = stopped.wait_for(START_POLL_INTERVAL);
    }
    context.notify(&RecordingEvent::Recording {
        file: Some(path.display().to_string()),
        path: None,
    })?;
    let started = context.clock.now();
    let end = args.span.map(|span| started.saturating_add(span));
    let (mut bytes, mut updates) = (Meter::new(started), Meter::new(started));
    let mut unmatched = Unmatched::default();
    let mut notices = Notices::new("updates wait in memory, and are lost when the memory is full");
    let mut must_end = false;
    while !must_end {
        let now = context.clock.now();
        let wait = end.map_or(POLL_INTERVAL, |end| end.since(now).min(POLL_INTERVAL));
        if wait.is_zero() {
            break;
        }
        let _ = stopped.wait_for(wait);
        must_end = context.interrupted.is_pressed() || running.is_stop_requested();
        let status = recorder.status();
        running.update(now, figures(&status));
        let progress = status.progress;
        let rate = bytes.rate(now, progress.bytes, &context.terminal);
        let updates = updates.rate(now, progress.updates, &context.terminal);
        if let (Some(rate), Some(updates)) = (rate, updates) {
            show(&status, path, rate, updates, context);
        }
        notices.report(&recorder_state(&status), path, now, context)?;
        unmatched.report(&status, &connection, context)?;
    }
    let status = recorder.stop();
    unmatched.report(&status, &connection, context)?;
    Ok((status, context.clock.now().since(started)))
}

fn has_lost(status: &VariableRecorderStatus) -> bool {
    status.progress.lost > 0 || status.progress.unknown_gaps > 0
}

fn has_no_match(status: &VariableRecorderStatus) -> bool {
    status.progress.variables == 0 && status.refused_count == 0 && status.error.is_none()
}

fn recorder_state(status: &VariableRecorderStatus) -> RecorderState<'_> {
    RecorderState {
        moved_file: status.moved_file.as_ref(),
        moved_sums_file: status.moved_sums_file.as_ref(),
        free_space: status.free_space,
        error: status.error.as_deref(),
        is_connected: Some(status.is_connected),
        lost: status.progress.lost,
    }
}

fn figures(status: &VariableRecorderStatus) -> Figures {
    Figures {
        rows: status.progress.updates,
        bytes: status.progress.bytes,
        queue_bytes: status.progress.waiting_bytes as u64,
        lost: status.progress.lost,
        ..Figures::default()
    }
}

/// Converts the arguments to patterns; a name becomes a pattern without wildcards. Excluded names are
/// omitted.
fn patterns(wanted: Vec<Target>, settings: &Settings) -> Result<Vec<Pattern>, CliError> {
    let mut patterns = Vec::new();
    for target in wanted {
        patterns.push(match target {
            Target::Pattern(pattern) => pattern,
            Target::Name(name) if settings.is_excluded(&name) => continue,
            Target::Name(name) => Pattern::parse(&name)
                .map_err(|error| Problem::usage(error.to_string()).with_name(&name))?,
            Target::Invalid(problem) => return Err(problem.into()),
        });
    }
    Ok(patterns)
}

fn show(status: &VariableRecorderStatus, path: &Path, rate: f64, updates: f64, context: &Context) {
    let progress = status.progress;
    let lost = match progress.lost {
        0 => String::new(),
        lost => format!(" · {lost} lost"),
    };
    let error = match (&status.error, status.is_connected) {
        (Some(error), _) => format!(" · {error}"),
        (None, false) => " · not connected".to_owned(),
        _ => String::new(),
    };
    context.terminal.progress(&format!(
        "{} of {} · {updates:.0}/s · {} · {} · queue {} · {}{lost}{error}",
        counted(progress.updates, "update"),
        counted(progress.variables, "variable"),
        bytes_text(progress.bytes as f64),
        rate_text(rate),
        bytes_text(progress.waiting_bytes as f64),
        free_space_text(path, rate),
    ));
}

fn nothing_recorded(status: &VariableRecorderStatus, path: &Path) -> Recorded {
    let text = format!(
        "nothing was recorded, so there is no file {}",
        escaped_path(path)
    );
    let mut recorded = Recorded::without_file(path.display().to_string(), amounts(status, 0), text);
    recorded.sync_failure = status.progress.sync_failure.map(system_error);
    recorded.error.clone_from(&status.error);
    unmatched::sum_up(status, &mut recorded);
    recorded
}

fn amounts(status: &VariableRecorderStatus, on_disk: u64) -> Amounts {
    Amounts::Updates {
        variables: status.progress.variables,
        updates: status.progress.updates,
        on_disk,
        lost: status.progress.lost,
        unknown_gaps: status.progress.unknown_gaps,
    }
}

fn sum_up(
    status: &VariableRecorderStatus,
    path: &Path,
    is_series: bool,
    elapsed: Duration,
) -> Recorded {
    let progress = status.progress;
    let is_removed = status
        .moved_file
        .as_ref()
        .is_some_and(MovedFile::is_removed);
    let is_safe = status.error.is_none() && progress.on_disk == progress.updates;
    let unknown = match progress.unknown_gaps {
        0 => String::new(),
        gaps => format!(", and an unknown number in {}", counted(gaps, "gap")),
    };
    let durability = match is_safe {
        true => "flushed to disk",
        false if is_removed => "the last file was removed",
        false => "not all flushed to disk",
    };
    let updates = counted(progress.on_disk, "update");
    let sync_failure = progress.sync_failure.map(system_error);
    let sync_text = sync_failure.as_ref().map(|error| {
        format!("; a sync failed: {error}, and only {updates} would survive a loss of power")
    });
    let text = format!(
        "{updates} of {} recorded in {} ({}, {:.1} s), lost {}{unknown}; {durability}{}",
        counted(progress.variables, "variable"),
        files_text(path, status.files),
        bytes_text(progress.bytes as f64),
        elapsed.as_secs_f64(),
        progress.lost,
        sync_text.unwrap_or_default(),
    );
    let moved_files = [status.moved_file.as_ref(), status.moved_sums_file.as_ref()];
    let amounts = amounts(status, progress.on_disk);
    let mut recorded = Recorded {
        written: Some(FileWritten {
            bytes: progress.bytes,
            seconds: elapsed.into(),
            durability: ["in-file", "on-disk"][usize::from(is_safe)],
            backend: BACKEND.to_owned(),
            is_direct: false,
            bytes_copied: progress.bytes,
        }),
        files: is_series.then_some(status.files),
        sync_failure,
        error: status.error.clone(),
        displaced: notices::moved_texts(moved_files),
        ..Recorded::without_file(path.display().to_string(), amounts, text)
    };
    unmatched::sum_up(status, &mut recorded);
    recorded
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Behaviour: B-70.
    #[test]
    fn failed_sync_is_reported_as_text_and_json() {
        let mut status = VariableRecorderStatus::default();
        status.progress.updates = 7;
        status.progress.on_disk = 3;
        let path = Path::new("run.tdms");
        let summary = |status: &VariableRecorderStatus, is_series| {
            let recorded = sum_up(status, path, is_series, Duration::ZERO);
            (
                recorded.to_string(),
                crate::output::record::object(&recorded),
            )
        };
        let (text, object) = summary(&status, false);
        assert!(!text.contains("sync"), "{text}");
        assert_eq!(object.get("sync_failure"), None);
        status.progress.sync_failure = Some(5);
        status.files = 2;
        for is_series in [false, true] {
            let (text, object) = summary(&status, is_series);
            assert!(text.contains("a sync failed"), "{text}");
            assert!(
                text.contains("only 3 updates would survive a loss of power"),
                "{text}"
            );
            let summary = object["sync_failure"].as_str().unwrap();
            assert!(summary.contains("os error 5"), "{summary}");
            assert_eq!(object["durability"], "in-file");
            assert_eq!(object.get("files").is_some(), is_series);
        }
    }
}
