//! `play`: plays recordings into live variables, or into a stream; `elements` plays those that vary
//! in size or have parts.

mod elements;

use std::path::PathBuf;
use std::time::Duration;

use trunkline::record::regions::{PagesWanted, RegionMemory};
use trunkline::record::{
    Gaps, MissingPart, Pace, PacedDrain, Pacer, PlayOptions, PlayVariablesOptions, PlaybackError,
    RecordedVariables, Recording, RecordingError, Selection, Stopper, StreamPlayed, TdmsPlayback,
    VariablesPlayed, play_into_stream, play_into_variables, stopper,
};
use trunkline::stream::{Options, ValueWriter};
use trunkline_tdms::ObjectPath;
use trunkline_types::text::parse_type;
use trunkline_types::{DataType, Tick};

use super::record::{meet, problem};
use super::stream::units::{per_second, rate_text};
use super::tdms::columns::{name_of, names_of};
use super::tdms::sums::{say_sums, sums_of};
use super::{Context, Verb};
use crate::connection::Connection;
use crate::exit::Exit;
use crate::interrupt::Interrupted;
use crate::output::counted;
use crate::output::json::Object;
use crate::problem::{Problem, Stop};
use crate::targets;
use crate::terminal::plain;

/// Play a recording into variables, or into a stream
///
/// Each update is written to the variable that has the recorded name. --as 'rig/=test/' replaces
/// the beginning of the names. A variable must have the recorded type. With --stream, the rows of a
/// group become the elements of a stream. A recorded stream of text, bytes, arrays, waveforms or
/// structs of them is played element by element, and so is a recorded variable, with the recorded
/// type. If FILE is the first of a series, the whole series is played; otherwise FILE alone.
///
/// If there is an `x.tdms.sums` beside `x.tdms`, the first file is checked against it before
/// playing begins. Playing takes as long as recording did; --speed changes the pace, and --full
/// plays without waiting. Ctrl-C ends playing. Exit code 1 means that some updates could not be
/// played, or that a recorded stream or variable has gaps or values that were not good, which a
/// stream cannot carry; --exclude leaves out variables, or with --stream channels.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The recording, or the first file of a series
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Replace OLD at the beginning of recorded names with NEW; other recorded variables are not
    /// played
    #[arg(long = "as", value_name = "OLD=NEW", value_parser = renaming)]
    renaming: Option<(String, String)>,

    /// Play at this multiple of the recorded speed
    #[arg(long, value_name = "FACTOR", conflicts_with = "full")]
    speed: Option<f64>,

    /// Play as fast as possible
    #[arg(long)]
    full: bool,

    /// Keep the recorded times of the updates
    #[arg(long)]
    keep_times: bool,

    /// Play without checking the checksums, even if the recording is damaged
    #[arg(long)]
    unchecked: bool,

    /// Do not wait where rows are missing from the recording
    #[arg(long, requires = "stream")]
    skip_gaps: bool,

    /// Play into a stream: the name of this end
    #[arg(long, value_name = "URL", conflicts_with = "renaming")]
    stream: Option<String>,

    /// --stream: the reading end to write to; without it, any reading end that names this one
    #[arg(long, value_name = "PEER", requires = "stream")]
    to: Option<String>,

    /// --stream: the type of the elements; default: f64 for rows, otherwise the recorded type
    #[arg(long = "type", value_name = "TYPE", value_parser = data_type)]
    data_type: Option<DataType>,

    /// --stream: the group to play, if the recording has several
    #[arg(long, value_name = "GROUP", requires = "stream")]
    group: Option<String>,

    /// --stream: the channel of the group with the time of each row; its values are not played
    #[arg(long, value_name = "CHANNEL", requires = "stream")]
    times: Option<String>,
}

pub(crate) const VERB: Verb = Verb::writing(
    "play",
    &[
        Exit::Done,
        Exit::SomeFailed,
        Exit::Usage,
        Exit::Unreachable,
        Exit::TimedOut,
        Exit::Lost,
        Exit::Interrupted,
    ],
);

/// Interval at which the progress is updated.
const SHOWN_EVERY: Duration = Duration::from_millis(500);

/// Rows of the ring between file and stream.
const RING_ROWS: usize = 1 << 16;

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Stop> {
    let context = &context.beside_files();
    let interrupted = Interrupted::new(&context.terminal)?;
    interrupted.end_in_order();
    let pace = match (args.full, args.speed) {
        (true, _) => Pace::Full,
        (false, Some(speed)) => Pace::Scaled(speed),
        (false, None) => Pace::Original,
    };
    match &args.stream {
        Some(url) => into_stream(args, url, pace, &interrupted, context),
        None => into_variables(args, pace, &interrupted, context),
    }
}

fn into_variables(
    args: &Args,
    pace: Pace,
    interrupted: &Interrupted,
    context: &Context,
) -> Result<Exit, Stop> {
    let recorded = RecordedVariables::open_series(&args.file);
    let mut recorded = recorded.map_err(|error| problem(&error.into()))?;
    let is_whole = say_missing(recorded.missing(), context)?;
    check_sums(args, context)?;
    let engine = targets::engine(&context.settings)?;
    let connection = Connection::new(&engine, context)?;
    let options = PlayVariablesOptions {
        pace,
        keeps_times: args.keep_times,
        timeout: connection.timeout(),
    };
    let target = |name: &str| {
        let name = match &args.renaming {
            Some((old, new)) => format!("{new}{}", name.strip_prefix(old.as_str())?),
            None => name.to_owned(),
        };
        (!context.settings.is_excluded(&name)).then_some(name)
    };
    let total: u64 = recorded.variables().iter().map(|one| one.updates).sum();
    let started = context.clock.now();
    let (stopper, stopped) = stopper();
    let mut watch = Watch::new(stopper, interrupted, context);
    let client = &connection.client;
    let mut played_before = 0;
    let done = play_into_variables(client, &mut recorded, target, options, &stopped, |done| {
        let played = done.updates + done.left_out;
        played_before = played;
        watch.look(played, |rate| {
            let total = counted(total, "update");
            format!("{played} of {total} · {rate:.0}/s · {} late", done.late)
        });
    });
    let done = done.map_err(|error| {
        let mut found = problem(&error);
        let total = counted(total, "update");
        found.message = format!(
            "{}; {played_before} of {total} were played before the error",
            found.message
        );
        found
    })?;
    sum_up_variables(&done, started, context)?;
    for failure in &done.failures {
        let sentence = format!(
            "{}: {}",
            counted(failure.updates, "update"),
            plain(&failure.sentence)
        );
        let failed =
            Problem::new(Exit::SomeFailed, failure.code.clone(), &sentence).of(&failure.name);
        context.terminal.problem(&failed, failure.name.len())?;
    }
    for one in recorded.variables().iter().filter(|one| one.unreadable > 0) {
        let Some(name) = target(&one.name) else {
            continue;
        };
        let sentence = format!(
            "{} of it cannot be read and are not played: the ends of strings do not fit the text \
             they are in; --exclude '{}' leaves the variable out",
            counted(one.unreadable, "update"),
            plain(&name)
        );
        let unreadable = Problem::new(Exit::SomeFailed, "unreadable", &sentence).of(&name);
        context.terminal.problem(&unreadable, name.len())?;
    }
    for (name, why) in &done.refused {
        let refused = Problem::new(Exit::SomeFailed, "not-played", &plain(why)).of(name);
        context.terminal.problem(&refused, name.len())?;
    }
    Ok(match done.is_complete {
        false => Exit::Interrupted,
        true if done.failed > 0 || done.unreadable > 0 => Exit::SomeFailed,
        true if !done.refused.is_empty() || !is_whole => Exit::SomeFailed,
        true => Exit::Done,
    })
}

/// Refuses a recording whose checksums show damage: wrong values would reach live variables.
fn check_sums(args: &Args, context: &Context) -> Result<(), Stop> {
    if args.unchecked || sums_of(&args.file).is_none() {
        return Ok(());
    }
    let file = super::record::open(&args.file)?;
    match say_sums(&file, &args.file, context)? {
        false => Ok(()),
        true => {
            let sentence = "the recording is damaged and is not played; --unchecked plays it";
            Err(Problem::new(Exit::SomeFailed, "damaged", sentence).into())
        }
    }
}

/// Names the missing parts of the recording. Returns true if there are none.
fn say_missing(missing: &[MissingPart], context: &Context) -> Result<bool, Stop> {
    for part in missing {
        let problem = Problem::new(Exit::SomeFailed, "missing", &plain(&part.to_string()));
        context.terminal.problem(&problem, 0)?;
    }
    Ok(missing.is_empty())
}

fn sum_up_variables(done: &VariablesPlayed, started: Tick, context: &Context) -> Result<(), Stop> {
    let seconds = context.clock.now().since(started).as_secs_f64();
    if context.settings.is_json() {
        let mut object = Object::new();
        object.put("event", "played");
        object.put("updates", done.updates);
        object.put("left_out", done.left_out);
        object.put("applied", done.applied);
        object.put("unchanged", done.unchanged);
        object.put("failed", done.failed);
        object.put("unreadable", done.unreadable);
        object.put("late", done.late);
        object.put("lateness_max_seconds", done.lateness_max.as_secs_f64());
        object.put("seconds", seconds);
        return context.terminal.note(&object.into_json().to_string());
    }
    context.terminal.note(&format!(
        "{} played in {seconds:.1} s: {} applied, {} unchanged, {} failed, {} late",
        counted(done.updates, "update"),
        done.applied,
        done.unchanged,
        done.failed,
        done.late,
    ))
}

fn into_stream(
    args: &Args,
    url: &str,
    pace: Pace,
    interrupted: &Interrupted,
    context: &Context,
) -> Result<Exit, Stop> {
    if let Some(name) = elements::recorded(args, context)? {
        return elements::into_stream(args, (url, &name), pace, interrupted, context);
    }
    let selection = Selection {
        group: args.group.as_deref().map(Into::into),
        times: args.times.as_deref().map(Into::into),
        left_out: left_out(args, context)?,
        ..Selection::default()
    };
    let gaps = match args.skip_gaps {
        true => Gaps::Skipped,
        false => Gaps::AsTime,
    };
    let in_recording = |error: PlaybackError| not_played(&error.into());
    let recording = Recording::open(&args.file, &selection).map_err(in_recording)?;
    let is_whole = say_missing(recording.missing(), context)?;
    check_sums(args, context)?;
    let pacer = Pacer::new(&recording, pace, gaps).map_err(|error| {
        let is_unknown = matches!(error, PlaybackError::NoRate { .. });
        let mut found = problem(&error.into());
        if is_unknown {
            let hint = "--full plays it as fast as possible, --times names a channel of times";
            found.hint = Some(hint.to_owned());
        }
        found
    })?;
    let made = RegionMemory::to_play(
        recording.row_bytes(),
        RING_ROWS,
        PagesWanted::LargestThereAre,
        16,
    );
    let (memory, ring, drain) = made.map_err(|error| problem(&error.into()))?;
    let (total, row_bytes) = (recording.rows(), recording.row_bytes() as f64);
    let playback = TdmsPlayback::new(recording, memory, ring, PlayOptions::default());
    let mut playback = playback.map_err(in_recording)?;
    let mut drain = PacedDrain::new(drain, pacer);
    let started = context.clock.now();
    let data_type = args.data_type.clone().unwrap_or(DataType::F64);
    let Some(mut stream) = create(args, url, data_type, interrupted, context)? else {
        return nobody_came(started, context);
    };
    let started = context.clock.now();
    let (stopper, stopped) = stopper();
    let mut watch = Watch::new(stopper, interrupted, context);
    let done = play_into_stream(&mut playback, &mut drain, &mut stream, &stopped, |done| {
        watch.look(done.rows, |rate| {
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
        Exit::Done if !is_whole => Exit::SomeFailed,
        exit => exit,
    })
}

/// Returns the writing end once it has a reader; `None` if the command was interrupted before.
fn create(
    args: &Args,
    url: &str,
    data_type: DataType,
    interrupted: &Interrupted,
    context: &Context,
) -> Result<Option<ValueWriter>, Stop> {
    let engine = targets::engine(&context.settings)?;
    let options = Options {
        peer: args.to.clone(),
        timeout: context.settings.patience(),
        directory_port: engine.port_or_default(),
        program: concat!("trunkline ", env!("CARGO_PKG_VERSION")).to_owned(),
        ..Options::default()
    };
    let at = url.to_owned();
    let create = move || ValueWriter::create(&at, &data_type, options);
    meet(url, create, || interrupted.is_so(), context)
}

/// Waits until the reader has everything, and prints the summary. `of_what` is rows or elements.
fn close(
    stream: ValueWriter,
    done: &StreamPlayed,
    of_what: &str,
    started: Tick,
    context: &Context,
) -> Result<Exit, Stop> {
    let left = stream.close(context.settings.patience()).elements;
    sum_up_stream(done, left, of_what, started, context)?;
    Ok(match (left, done.is_complete) {
        (1.., _) => Exit::Lost,
        (0, false) => Exit::Interrupted,
        (0, true) => Exit::Done,
    })
}

/// Returns the channels that --exclude leaves out of the rows.
fn left_out(args: &Args, context: &Context) -> Result<Vec<ObjectPath>, Stop> {
    if context.settings.exclude.is_empty() {
        return Ok(Vec::new());
    }
    let file = super::record::open(&args.file)?;
    let channels = file.paths().filter(|path| path.is_channel());
    let is_excluded = |path: &&ObjectPath| {
        let names = names_of(path);
        names.iter().any(|name| context.settings.is_excluded(name))
    };
    Ok(channels.filter(is_excluded).cloned().collect())
}

/// Returns the problem of rows that cannot be played, with a hint to play the others.
fn not_played(error: &RecordingError) -> Problem {
    let mut found = problem(error);
    if let RecordingError::Playback(error) = error
        && let Some(channel) = error.channel()
    {
        let name = plain(&name_of(channel));
        found.hint = Some(format!("--exclude '{name}' plays the others"));
    }
    found
}

fn sum_up_stream(
    done: &StreamPlayed,
    left: u64,
    of_what: &str,
    started: Tick,
    context: &Context,
) -> Result<(), Stop> {
    let seconds = context.clock.now().since(started).as_secs_f64();
    if context.settings.is_json() {
        let mut object = Object::new();
        object.put("event", "played");
        object.put("rows", done.rows);
        object.put("left", left);
        object.put("underruns", done.underruns);
        object.put("late_seconds", done.lateness.as_secs_f64());
        object.put("not_good", done.not_good);
        object.put("gaps", done.gaps);
        object.put("lost", done.lost);
        object.put("unknown_gaps", done.unknown_gaps);
        object.put("seconds", seconds);
        return context.terminal.note(&object.into_json().to_string());
    }
    context.terminal.note(&format!(
        "{} played in {seconds:.1} s; {left} not delivered, {}, {:.3} s late",
        counted(done.rows, of_what),
        counted(done.underruns, "underrun"),
        done.lateness.as_secs_f64(),
    ))
}

/// Reports that the command was interrupted before there was a reader.
fn nobody_came(started: Tick, context: &Context) -> Result<Exit, Stop> {
    match context.settings.is_json() {
        true => sum_up_stream(&StreamPlayed::default(), 0, "row", started, context)?,
        false => context
            .terminal
            .note("no reader has connected to the stream: nothing played")?,
    }
    Ok(Exit::Interrupted)
}

/// Checks for Ctrl-C, and shows the progress.
struct Watch<'a> {
    stopper: Option<Stopper>,
    interrupted: &'a Interrupted,
    context: &'a Context,
    /// Time of the last display, and the count played then.
    shown: (Tick, u64),
}

impl<'a> Watch<'a> {
    fn new(stopper: Stopper, interrupted: &'a Interrupted, context: &'a Context) -> Self {
        Self {
            stopper: Some(stopper),
            interrupted,
            context,
            shown: (context.clock.now(), 0),
        }
    }

    /// `played` counts updates or rows; `text` formats the progress with the rate per second.
    fn look(&mut self, played: u64, text: impl FnOnce(f64) -> String) {
        if self.interrupted.is_so() {
            self.stopper = None;
        }
        let now = self.context.clock.now();
        let (at, before) = self.shown;
        let elapsed = now.since(at);
        if elapsed >= SHOWN_EVERY && self.context.terminal.shows_progress() {
            self.shown = (now, played);
            let rate = per_second(played.saturating_sub(before), elapsed);
            self.context.terminal.progress(&text(rate));
        }
    }
}

fn renaming(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((old, new)) => Ok((old.to_owned(), new.to_owned())),
        None => Err("write it as OLD=NEW, such as rig/=test/".to_owned()),
    }
}

fn data_type(text: &str) -> Result<DataType, String> {
    parse_type(text).map_err(|error| error.to_string())
}
