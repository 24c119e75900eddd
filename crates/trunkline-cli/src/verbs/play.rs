//! `play`: plays recordings into live variables or into a stream. `elements` plays recorded variables
//! and streams element by element; `from_history` reads a history instead of a file.

mod elements;
mod from_history;

use std::borrow::Cow;
use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};

use trunkline::record::regions::{PagesWanted, RegionMemory};
use trunkline::record::{
    GapMode, MissingPart, Pace, PacedDrain, Pacer, PlayOptions, PlayVariablesOptions,
    PlaybackError, RecordedVariables, Recording, RecordingError, Selection, Stopper, StreamPlayed,
    TdmsPlayback, UpdateSource, VariablesPlayed, play_into_stream, play_into_variables, stopper,
};
use trunkline::stream::{Options, ValueWriter};
use trunkline_tdms::ObjectPath;
use trunkline_types::{DataType, Tick};

use self::from_history::RecordedHistory;
use super::record::{problem, wait_for_peer};
use super::stream::{self, units::rate_text};
use super::tdms::columns::{name_of, names_of};
use super::tdms::sums::{report_checksums, sums_of};
use crate::arguments;
use crate::connection::Connection;
use crate::output::record::{JsonSchema, Notice, Serialize};
use crate::output::values::Amount;
use crate::terminal::{escaped, width};
use crate::verbs::progress::Meter;
use crate::{CliError, Context, Exit, Problem, counted};

/// Play a recording into variables, or into a stream
///
/// Each update is written to the variable that has the recorded name. --as 'rig/=test/' replaces
/// the beginning of the names. A variable must have the recorded type. With --stream, the rows of a
/// group become the elements of a stream. Recorded variables, and recorded streams of text, bytes,
/// arrays, waveforms or structs of these, are played element by element with their recorded type.
/// If FILE is the first of a series, the whole series is played; otherwise FILE alone.
///
/// If `x.tdms` has a checksum file `x.tdms.sums` next to it, the checksums of the first file are
/// verified before playing begins. Playing takes as long as recording did; --speed changes the
/// pace, and --full-speed plays without waiting. Ctrl-C stops playing. Exit code 1 means that some
/// updates could not be played, or that a stream was played whose recording has gaps or values of a
/// quality other than good. --exclude leaves out variables or, with --stream, channels.
///
/// With --history, the history of an engine or of a folder is played instead of a FILE. With --history
/// and --stream, only one variable can be played. Exit code 7 means that a part of the history could not
/// be read, or was removed while the history was played; with --stream also that elements were not
/// delivered.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The recording, or the first file of a series
    #[arg(
        value_name = "FILE",
        required_unless_present = "history",
        conflicts_with = "history"
    )]
    file: Option<PathBuf>,

    /// Play the history of this variable, a name or a pattern such as 'boiler/**', instead of a file;
    /// may be given several times
    #[arg(long, value_name = "NAME")]
    history: Vec<String>,

    /// With --history, only readings since this time, such as 2026-11-21T08:00, 14:30, today,
    /// yesterday, 10m or "2 hours ago"
    #[arg(
        long,
        value_name = "TIME",
        default_value = "1h",
        conflicts_with = "file",
        allow_hyphen_values = true
    )]
    since: String,

    /// With --history, only readings before this time
    #[arg(
        long,
        value_name = "TIME",
        conflicts_with = "file",
        allow_hyphen_values = true
    )]
    until: Option<String>,

    /// With --history, read this history folder, such as plant.history, instead of asking an
    /// engine
    #[arg(long, value_name = "FOLDER", conflicts_with = "file")]
    folder: Option<PathBuf>,

    /// Replace OLD at the beginning of recorded names with NEW; other recorded variables are not
    /// played
    #[arg(long = "as", value_name = "OLD=NEW", value_parser = renaming)]
    renaming: Option<(String, String)>,

    /// Play at this multiple of the recorded speed, such as 2 or 0.5
    #[arg(
        long,
        value_name = "FACTOR",
        value_parser = arguments::positive,
        conflicts_with = "full_speed",
        allow_negative_numbers = true
    )]
    speed: Option<f64>,

    /// Play as fast as possible
    #[arg(long)]
    full_speed: bool,

    /// Keep the recorded times of the updates, instead of the times at which they are played
    #[arg(long)]
    keep_times: bool,

    /// Play without checking the checksums, even if the recording is damaged
    #[arg(long)]
    unchecked: bool,

    /// Do not wait where rows are missing from the recording
    #[arg(long, requires = "stream")]
    skip_gaps: bool,

    /// Play into a stream; URL is the name or URL of the endpoint to create
    #[arg(long, value_name = "URL", conflicts_with = "renaming")]
    stream: Option<String>,

    /// With --stream, the reader to write to (default: any reader that connects to this
    /// endpoint)
    #[arg(long, value_name = "PEER", requires = "stream")]
    to: Option<String>,

    /// With --stream, allow connections with other machines that are neither encrypted nor authenticated
    #[arg(long, requires = "stream")]
    insecure: bool,

    /// With --stream, the type of the elements; default: f64 for rows, otherwise the recorded type
    #[arg(
        long = "type",
        value_name = "TYPE",
        value_parser = arguments::data_type,
        requires = "stream"
    )]
    data_type: Option<DataType>,

    /// With --stream, the group or the variable to play if there are several
    #[arg(long, value_name = "GROUP", requires = "stream")]
    group: Option<String>,

    /// With --stream, the channel of the group that contains the time of each row; its values are
    /// not played
    #[arg(
        long,
        value_name = "CHANNEL",
        requires = "stream",
        conflicts_with = "history"
    )]
    times: Option<String>,
}

impl Args {
    /// Returns the recording. The path is empty with `--history`, which needs no file.
    fn file(&self) -> &Path {
        self.file.as_deref().unwrap_or(Path::new(""))
    }
}

/// Capacity of the ring between the file and the stream, in rows.
const RING_ROWS: usize = 1 << 16;

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, CliError> {
    let context = &context.for_file_output();
    context.interrupted.handle_presses(1);
    context.after_interruption(play(args, context))
}

fn play(args: &Args, context: &Context) -> Result<Exit, CliError> {
    let pace = match (args.full_speed, args.speed) {
        (true, _) => Pace::Full,
        (false, Some(speed)) => Pace::Scaled(speed),
        (false, None) => Pace::Original,
    };
    match (&args.stream, args.history.is_empty()) {
        (Some(url), true) => into_stream(args, url, pace, context),
        (None, true) => {
            let recorded = RecordedVariables::open_series(args.file());
            let mut recorded = recorded.map_err(|error| problem(&error.into()))?;
            let has_all_parts = report_missing(recorded.missing(), context)?;
            check_sums(args, context)?;
            into_variables(args, &mut recorded, has_all_parts, pace, context)
        }
        (stream, false) => {
            let Some(mut recorded) = RecordedHistory::open(args, context)? else {
                return Ok(Exit::Interrupted);
            };
            let played = match stream {
                Some(url) => {
                    let index = recorded.select(args.group.as_deref())?;
                    recorded.begin()?;
                    elements::play(args, url, (&mut recorded, index), true, pace, context)
                }
                None => {
                    recorded.begin()?;
                    into_variables(args, &mut recorded, true, pace, context)
                }
            };
            recorded.exit(played?)
        }
    }
}

/// Plays into variables. `has_all_parts` is false if parts of the recording are missing; the caller has
/// reported them.
fn into_variables(
    args: &Args,
    recorded: &mut impl UpdateSource,
    has_all_parts: bool,
    pace: Pace,
    context: &Context,
) -> Result<Exit, CliError> {
    let target = |name: &str| {
        let name = match &args.renaming {
            Some((old, new)) => format!("{new}{}", name.strip_prefix(old.as_str())?),
            None => name.to_owned(),
        };
        (!context.settings.is_excluded(&name)).then_some(name)
    };
    let names = || {
        let variables = recorded.variables().iter();
        variables.map(|variable| variable.name.as_str())
    };
    if names().next().is_some() && names().all(|name| target(name).is_none()) {
        return Err(all_left_out(args, names()).into());
    }
    let connection = Connection::to_engine(context)?;
    let options = PlayVariablesOptions {
        pace,
        keep_timestamps: args.keep_times,
        timeout: connection.timeout(),
    };
    let variables = recorded.variables().iter();
    let total: u64 = variables.map(|variable| variable.updates).sum();
    let started = context.clock.now();
    let (stopper, stopped) = stopper();
    let mut watch = Watch::new(stopper, context);
    let client = &connection.client;
    let mut played_before_error = 0;
    let done = play_into_variables(client, recorded, target, options, &stopped, |done| {
        let played = done.updates + done.omitted;
        played_before_error = played;
        watch.poll(played, |rate| {
            let total = counted(total, "update");
            format!("{played} of {total} · {rate:.0}/s · {} late", done.late)
        });
    });
    let done = done.map_err(|error| {
        let mut problem = problem(&error);
        if played_before_error > 0 {
            let total = counted(total, "update");
            let played = format!("; {played_before_error} of {total} were played before the error");
            problem.message.push_str(&played);
        }
        problem
    })?;
    PlayedInto::variables(&done).notify(started, context)?;
    for failure in &done.failures {
        let sentence = escaped(&failure.sentence);
        let sentence = format!("{}: {sentence}", counted(failure.updates, "update"));
        report(&failure.name, failure.code.clone(), &sentence, context)?;
    }
    for variable in recorded.variables() {
        let Some(name) = target(&variable.name).filter(|_| variable.unreadable > 0) else {
            continue;
        };
        let unreadable = unreadable(variable.unreadable, "update");
        let sentence = format!(
            "{unreadable}; use --exclude '{}' to leave the variable out",
            escaped(&name)
        );
        report(&name, "unreadable", &sentence, context)?;
    }
    for (name, reason) in &done.refused {
        report(name, "not-played", &escaped(reason), context)?;
    }
    Ok(match done.is_complete {
        false => Exit::Interrupted,
        true if done.failed > 0 || done.unreadable > 0 => Exit::Failed,
        true if !done.refused.is_empty() || !has_all_parts => Exit::Failed,
        true => Exit::Success,
    })
}

/// Returns the problem of a recording whose variables are all excluded by the options.
fn all_left_out<'a>(args: &Args, mut names: impl Iterator<Item = &'a str>) -> Problem {
    let hint = match &args.renaming {
        Some((old, _)) if !names.any(|name| name.starts_with(old)) => {
            format!(
                "no recorded name begins with {}, as --as requires",
                escaped(old)
            )
        }
        _ => "--exclude leaves all of them out".to_owned(),
    };
    let message = "the options select no variable of the recording";
    Problem::from_message("nothing-to-play", message).with_hint(hint)
}

/// Reports a part of the recording that was not played as it was recorded.
fn report(
    name: &str,
    code: impl Into<Cow<'static, str>>,
    sentence: &str,
    context: &Context,
) -> Result<(), CliError> {
    let problem = Problem::failed(code, sentence).with_name(name);
    context.terminal.problem(&problem, width(name))
}

/// Describes values that cannot be played. `noun` is `update` or `element`.
fn unreadable(count: u64, noun: &str) -> String {
    format!(
        "{} could not be played: the recorded string offsets do not match the string data",
        counted(count, noun)
    )
}

/// Refuses a recording if its checksums show damage, because it would write wrong values to live
/// variables.
fn check_sums(args: &Args, context: &Context) -> Result<(), CliError> {
    if args.unchecked || sums_of(args.file()).is_none() {
        return Ok(());
    }
    let file = super::record::open(args.file())?;
    match report_checksums(&file, args.file(), context)? {
        false => Ok(()),
        true => {
            let sentence =
                "the recording is damaged and was not played; use --unchecked to play it anyway";
            Err(Problem::failed("damaged", sentence).into())
        }
    }
}

/// Reports the missing parts of the recording. Returns true if there are none.
fn report_missing(missing: &[MissingPart], context: &Context) -> Result<bool, CliError> {
    for part in missing {
        let problem = Problem::failed("missing", escaped(&part.to_string()));
        context.terminal.problem(&problem, 0)?;
    }
    Ok(missing.is_empty())
}

/// The last line of `play`, on standard error.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "A recording that was played, version 1")]
pub(crate) struct Played {
    /// `played`.
    #[schemars(extend("const" = "played"))]
    event: &'static str,
    #[serde(flatten)]
    what: PlayedInto,
    /// Duration in seconds.
    seconds: Amount,
}

/// What was played.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
enum PlayedInto {
    Variables(PlayedVariables),
    Stream(PlayedStream),
}

#[derive(Debug, Serialize, JsonSchema)]
struct PlayedVariables {
    /// Into variables: updates that were played.
    updates: u64,
    /// Into variables: updates of variables that are not played.
    left_out: u64,
    /// Into variables: updates that were applied.
    applied: u64,
    /// Into variables: updates within a deadband.
    unchanged: u64,
    /// Into variables: updates that were refused, or whose outcome is unknown.
    failed: u64,
    /// Into variables: updates that were left out because their text is damaged.
    unreadable: u64,
    /// Into variables: updates that were written later than planned.
    late: u64,
    /// Into variables: largest delay of an update, in seconds.
    lateness_max_seconds: Amount,
}

#[derive(Debug, Serialize, JsonSchema)]
struct PlayedStream {
    /// Into a stream: rows that were played.
    rows: u64,
    /// Into a stream: rows that were not delivered, because the reader did not accept them.
    left: u64,
    /// Into a stream: number of times that a row was not available in time.
    underruns: u64,
    /// Into a stream: delay of the last row, in seconds.
    late_seconds: Amount,
    /// Into a stream: values whose quality was not good when they were recorded.
    not_good: u64,
    /// Into a stream: gaps of the recording.
    gaps: u64,
    /// Into a stream: number of values missing in those gaps, if known.
    lost: u64,
    /// Into a stream: gaps with an unknown number of missing values.
    unknown_gaps: u64,
    /// `row` or `element`; `None` if there was no reader.
    #[serde(skip)]
    noun: Option<&'static str>,
}

impl PlayedInto {
    fn variables(done: &VariablesPlayed) -> Self {
        Self::Variables(PlayedVariables {
            updates: done.updates,
            left_out: done.omitted,
            applied: done.applied,
            unchanged: done.unchanged,
            failed: done.failed,
            unreadable: done.unreadable,
            late: done.late,
            lateness_max_seconds: done.lateness_max.into(),
        })
    }

    fn stream(done: &StreamPlayed, left: u64, noun: Option<&'static str>) -> Self {
        Self::Stream(PlayedStream {
            rows: done.rows,
            left,
            underruns: done.underruns,
            late_seconds: done.lateness.into(),
            not_good: done.not_good,
            gaps: done.gaps,
            lost: done.lost,
            unknown_gaps: done.unknown_gaps,
            noun,
        })
    }

    fn notify(self, started: Tick, context: &Context) -> Result<(), CliError> {
        context.notify(&Played {
            event: "played",
            what: self,
            seconds: context.clock.now().since(started).into(),
        })
    }
}

impl Notice for Played {}

impl Display for Played {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Amount(seconds) = self.seconds;
        match &self.what {
            PlayedInto::Variables(all) => write!(
                f,
                "{} played in {seconds:.1} s: {} applied, {} unchanged, {} failed, {} late",
                counted(all.updates, "update"),
                all.applied,
                all.unchanged,
                all.failed,
                all.late
            ),
            PlayedInto::Stream(all) => match all.noun {
                None => f.write_str("no reader connected to the stream: nothing was played"),
                Some(noun) => write!(
                    f,
                    "{} played in {seconds:.1} s; {} not delivered, {}, {:.3} s late",
                    counted(all.rows, noun),
                    all.left,
                    counted(all.underruns, "underrun"),
                    all.late_seconds.0
                ),
            },
        }
    }
}

fn into_stream(args: &Args, url: &str, pace: Pace, context: &Context) -> Result<Exit, CliError> {
    if let Some(name) = elements::recorded_variable(args, context)? {
        return elements::into_stream(args, (url, &name), pace, context);
    }
    let selection = Selection {
        group: args.group.as_deref().map(Into::into),
        times: args.times.as_deref().map(Into::into),
        excluded: excluded(args, context)?,
        ..Selection::default()
    };
    let gaps = match args.skip_gaps {
        true => GapMode::Skipped,
        false => GapMode::AsTime,
    };
    let playback_problem = |error: PlaybackError| not_played(&error.into());
    let recording = Recording::open(args.file(), &selection).map_err(playback_problem)?;
    let has_all_parts = report_missing(recording.missing(), context)?;
    check_sums(args, context)?;
    let pacer = Pacer::new(&recording, pace, gaps).map_err(|error| {
        let has_no_rate = matches!(error, PlaybackError::NoTimes { .. });
        let mut problem = problem(&error.into());
        if has_no_rate {
            let hint = "use --full-speed to play it as fast as possible, or --times to specify the channel \
                        that contains the times";
            problem.hint = Some(hint.to_owned());
        }
        problem
    })?;
    let created = RegionMemory::for_playback(
        recording.row_bytes(),
        RING_ROWS,
        PagesWanted::LargestAvailable,
        16,
    );
    let (memory, ring, drain) = created.map_err(|error| problem(&error.into()))?;
    let (total, row_bytes) = (recording.rows(), recording.row_bytes() as f64);
    let playback = TdmsPlayback::new(recording, memory, ring, PlayOptions::default());
    let mut playback = playback.map_err(playback_problem)?;
    let mut drain = PacedDrain::new(drain, pacer);
    let started = context.clock.now();
    let data_type = args.data_type.clone().unwrap_or(DataType::F64);
    let Some(mut stream) = create(args, url, data_type, context)? else {
        return no_reader(started, context);
    };
    let started = context.clock.now();
    let (stopper, stopped) = stopper();
    let mut watch = Watch::new(stopper, context);
    let done = play_into_stream(&mut playback, &mut drain, &mut stream, &stopped, |done| {
        watch.poll(done.rows, |rate| {
            format!(
                "{} of {} · {rate:.0}/s · {} · {}",
                done.rows,
                counted(total, "row"),
                rate_text(rate * row_bytes),
                counted(done.underruns, "underrun")
            )
        });
    });
    let done = done.map_err(|error| not_played(&error))?;
    close(stream, &done, "row", started, context).map(|exit| match exit {
        Exit::Success if !has_all_parts => Exit::Failed,
        exit => exit,
    })
}

/// Waits for a reader and returns the writer, or `None` if the command is interrupted first.
fn create(
    args: &Args,
    url: &str,
    data_type: DataType,
    context: &Context,
) -> Result<Option<ValueWriter>, CliError> {
    let options = Options {
        insecure: args.insecure,
        ..stream::options(args.to.as_deref(), context)?
    };
    let at = url.to_owned();
    let create = move || ValueWriter::create(&at, &data_type, options);
    wait_for_peer(url, create, || context.interrupted.is_pressed(), context)
}

/// Waits until the reader has received everything, and prints the summary. `noun` is `row` or
/// `element`.
fn close(
    stream: ValueWriter,
    done: &StreamPlayed,
    noun: &'static str,
    started: Tick,
    context: &Context,
) -> Result<Exit, CliError> {
    let undelivered = stream.close(context.settings.explicit_timeout()).elements;
    PlayedInto::stream(done, undelivered, Some(noun)).notify(started, context)?;
    Ok(match (undelivered, done.is_complete) {
        (1.., _) => Exit::Lost,
        (0, false) => Exit::Interrupted,
        (0, true) => Exit::Success,
    })
}

/// Returns the channels that `--exclude` leaves out.
fn excluded(args: &Args, context: &Context) -> Result<Vec<ObjectPath>, CliError> {
    if context.settings.exclude.is_empty() {
        return Ok(Vec::new());
    }
    let file = super::record::open(args.file())?;
    let channels = file.paths().filter(|path| path.is_channel());
    let is_excluded = |path: &&ObjectPath| {
        let names = names_of(path);
        names.iter().any(|name| context.settings.is_excluded(name))
    };
    Ok(channels.filter(is_excluded).cloned().collect())
}

fn not_played(error: &RecordingError) -> Problem {
    let mut problem = problem(error);
    if let RecordingError::Playback(error) = error
        && let Some(channel) = error.channel()
    {
        let name = escaped(&name_of(channel));
        problem.hint = Some(format!("use --exclude '{name}' to play the other channels"));
    }
    problem
}

fn no_reader(started: Tick, context: &Context) -> Result<Exit, CliError> {
    PlayedInto::stream(&StreamPlayed::default(), 0, None).notify(started, context)?;
    Ok(Exit::Interrupted)
}

/// Stops playing after Ctrl-C, and shows the progress.
struct Watch<'a> {
    stopper: Option<Stopper>,
    context: &'a Context,
    meter: Meter,
}

impl<'a> Watch<'a> {
    fn new(stopper: Stopper, context: &'a Context) -> Self {
        Self {
            stopper: Some(stopper),
            context,
            meter: Meter::new(context.clock.now()),
        }
    }

    /// Must be called regularly. `played` is the number of updates or rows played so far; `text`
    /// formats the progress line, with the rate per second.
    fn poll(&mut self, played: u64, text: impl FnOnce(f64) -> String) {
        if self.context.interrupted.is_pressed() {
            self.stopper = None;
        }
        let (now, terminal) = (self.context.clock.now(), &self.context.terminal);
        if let Some(rate) = self.meter.rate(now, played, terminal) {
            terminal.progress(&text(rate));
        }
    }
}

fn renaming(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((old, new)) => Ok((old.to_owned(), new.to_owned())),
        None => Err("it must have the form OLD=NEW, such as rig/=test/".to_owned()),
    }
}
