//! `play --stream`: plays the values of one recorded variable. `record` also writes streams of text,
//! bytes, arrays, waveforms or structs in the form of a variable.

use trunkline::record::{
    Pace, RecordedVariables, RecordingError, StreamPlayed, UpdateSource, play_elements_into_stream,
    stopper,
};
use trunkline_tdms::ObjectPath;

use super::{Args, Watch, check_sums, close, create, no_reader, problem, report, report_missing};
use crate::terminal::escaped;
use crate::verbs::record::open;
use crate::{CliError, Context, Exit, Problem, counted};

/// The property of a group that contains the type of its values. A value may span several channels.
const TYPE: &[u8] = b"variable_type";

/// Returns the group to play as the values of a variable, or `None` if its channels are played as
/// rows.
pub(super) fn recorded_variable(
    args: &Args,
    context: &Context,
) -> Result<Option<String>, CliError> {
    if args.times.is_some() || !context.settings.exclude.is_empty() {
        return Ok(None);
    }
    let file = open(args.file())?;
    let group = match &args.group {
        Some(group) => ObjectPath::group(group.as_str()),
        None => {
            let mut groups = file.groups();
            match (groups.next(), groups.next()) {
                (Some(group), None) => ObjectPath::group(group.clone()),
                _ => return Ok(None),
            }
        }
    };
    let has_type = file
        .properties(&group)
        .is_some_and(|all| all.get(TYPE).is_some());
    Ok(has_type.then(|| group.name().to_string()))
}

pub(super) fn into_stream(
    args: &Args,
    (url, name): (&str, &str),
    pace: Pace,
    context: &Context,
) -> Result<Exit, CliError> {
    let opened = RecordedVariables::open_series(args.file());
    let mut recorded = opened.map_err(|error| problem(&error.into()))?;
    let mut variables = recorded.variables().iter();
    let Some(index) = variables.position(|variable| variable.name == name) else {
        let sentence = format!(
            "{} cannot be played: one of its channels is missing, or does not match its recorded type",
            escaped(name)
        );
        return Err(Problem::failed("recording", sentence).into());
    };
    let has_all_parts = report_missing(recorded.missing(), context)?;
    check_sums(args, context)?;
    play(
        args,
        url,
        (&mut recorded, index),
        has_all_parts,
        pace,
        context,
    )
}

/// Plays the recorded variable with this index. `has_all_parts` is false if parts of the recording are
/// missing; the caller has reported them.
pub(super) fn play(
    args: &Args,
    url: &str,
    (recorded, index): (&mut impl UpdateSource, usize),
    has_all_parts: bool,
    pace: Pace,
    context: &Context,
) -> Result<Exit, CliError> {
    if args.skip_gaps {
        let sentence = "--skip-gaps requires rows at regular intervals, but each of these values has \
                        its own time; use --speed or --full-speed instead";
        return Err(Problem::usage(sentence).into());
    }
    let Some(variable) = recorded.variables().get(index) else {
        // Unreachable: the callers pass the index of an existing variable.
        return Ok(Exit::Failed);
    };
    let (name, data_type) = (variable.name.clone(), variable.data_type.clone());
    let requested = args.data_type.clone();
    if let Some(requested) = requested.filter(|requested| *requested != data_type) {
        let error = RecordingError::OtherElements {
            recorded: data_type,
            stream: requested,
        };
        let data_type = escaped(&variable.data_type.to_string());
        let hint = format!("use --type '{data_type}', or leave out --type");
        return Err(problem(&error).with_hint(hint).into());
    }
    let total = counted(variable.updates, "element");
    let started = context.clock.now();
    let Some(mut stream) = create(args, url, data_type, context)? else {
        return no_reader(started, context);
    };
    let started = context.clock.now();
    let (stopper, stopped) = stopper();
    let mut watch = Watch::new(stopper, context);
    let progress = |done: &StreamPlayed| {
        watch.poll(done.rows, |rate| {
            let late = done.lateness.as_secs_f64();
            format!("{} of {total} · {rate:.0}/s · {late:.3} s late", done.rows)
        });
    };
    let done = play_elements_into_stream(recorded, index, pace, &mut stream, &stopped, progress);
    let done = done.map_err(|error| problem(&error))?;
    let exit = close(stream, &done, "element", started, context)?;
    let unreadable = recorded
        .variables()
        .get(index)
        .map_or(0, |variable| variable.unreadable);
    if unreadable > 0 {
        report(
            &name,
            "unreadable",
            &super::unreadable(unreadable, "element"),
            context,
        )?;
    }
    let is_faithful = report_information_loss(&done, &name, context)?;
    Ok(match exit {
        Exit::Success if !has_all_parts || unreadable > 0 || !is_faithful => Exit::Failed,
        exit => exit,
    })
}

/// Reports recorded information that a stream cannot carry. Returns true if there is none.
fn report_information_loss(
    done: &StreamPlayed,
    name: &str,
    context: &Context,
) -> Result<bool, CliError> {
    if done.not_good > 0 {
        let were = match done.not_good {
            1 => "1 element was".to_owned(),
            count => format!("{count} elements were"),
        };
        let sentence = format!(
            "{were} not of good quality when recorded: a stream carries no quality, so its reader \
             receives only the values"
        );
        report(name, "not-good", &sentence, context)?;
    }
    if done.gaps > 0 {
        let unknown = match done.unknown_gaps {
            0 => String::new(),
            count => format!(", and an unknown number in {count} of them"),
        };
        let (lost, gaps) = (counted(done.lost, "element"), counted(done.gaps, "gap"));
        let sentence = format!(
            "the recorder lost {lost}, in {gaps}{unknown}: the reader of the stream cannot detect the \
             gaps"
        );
        report(name, "missing", &sentence, context)?;
    }
    Ok(done.not_good == 0 && done.gaps == 0)
}
