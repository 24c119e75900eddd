//! `snapshot restore`: shows the writes that restore a snapshot, and carries them out on request.

use trunkline::proto::{Fault, FaultCode};
use trunkline::{GROUP_MAX, Write, WriteOutcome};

use super::compare::{Back, Difference, Kind};
use super::file::Saved;
use super::{SavedArgs, wanted, with_engine};
use crate::arguments::Form;
use crate::connection::{Connection, SUPERSEDED, not_known, written};
use crate::exit::{Exit, Tally};
use crate::output::counted;
use crate::output::json::Object;
use crate::output::records::{Records, Row};
use crate::problem::{Problem, Stop};
use crate::targets;
use crate::terminal::{Mood, plain};
use crate::verbs::{Context, Verb};

/// Write the values of a file back to the variables
///
/// Without --yes, only show what would be written.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    saved: SavedArgs,

    /// Write the values back
    #[arg(long)]
    yes: bool,

    /// Write all values at one instant, or none; at most 4096
    #[arg(long)]
    atomic: bool,

    /// Write a value back only if nobody has written since the comparison
    #[arg(long)]
    if_unchanged: bool,
}

pub(super) const VERB: Verb = Verb::writing(
    "restore",
    &[
        Exit::Done,
        Exit::SomeFailed,
        Exit::Usage,
        Exit::Unreachable,
        Exit::TimedOut,
        Exit::NotPermitted,
        Exit::Refused,
        Exit::Unknown,
        Exit::Interrupted,
    ],
);

/// A difference and the step planned for it.
struct Planned<'d> {
    difference: &'d Difference,
    step: Step<'d>,
}

enum Step<'d> {
    Write(&'d Back),
    /// It stays as it is, for this reason.
    Leave(&'static str),
    /// It cannot be written back.
    Fail(Problem),
}

pub(super) fn run(args: &Args, context: &Context) -> Result<Exit, Stop> {
    let saved = wanted(&args.saved, Saved::read(&args.saved.file)?)?;
    let connection = Connection::new(&targets::engine(&context.settings)?, context)?;
    let differences = with_engine(&args.saved, &saved, &connection, context)?;
    let planned: Vec<Planned<'_>> = differences.iter().map(plan).collect();
    if !args.yes {
        preview(&planned, context)?;
        let count = planned
            .iter()
            .filter(|one| matches!(one.step, Step::Write(_)))
            .count();
        let text = match count {
            0 => "nothing to write back".to_owned(),
            count => {
                let values = counted(count as u64, "value");
                format!("nothing was written; --yes writes {values} back")
            }
        };
        context.terminal.note(&text)?;
        return Ok(Exit::Done);
    }
    write(args, &planned, &connection, context)
}

/// Shows the planned steps, in the columns in which [`write`] reports the outcomes.
fn preview(planned: &[Planned<'_>], context: &Context) -> Result<(), Stop> {
    let columns = &["name", "action", "now", "saved", "remark"];
    let mut records = Records::new(&context.settings, &context.terminal, columns)?.headed();
    for Planned { difference, step } in planned {
        let (word, mood, remark) = match step {
            Step::Write(_) => ("write", Mood::Plain, String::new()),
            Step::Leave(remark) => ("leave", Mood::Dim, (*remark).to_owned()),
            Step::Fail(problem) => ("fail", Mood::Bad, problem.sentence()),
        };
        let mut object = Object::new();
        object.put("name", difference.name.as_str());
        object.put("difference", difference.kind.word());
        object.put("file", difference.saved.1.clone());
        object.put("now", difference.now.1.clone());
        let saved = towards(&difference.saved.0, context);
        let now = difference.now.0.clone();
        records.push(Row {
            cells: vec![difference.name.clone(), word.to_owned(), now, saved, remark],
            object,
            mood,
        })?;
    }
    records.finish()
}

/// Formats the value to be written, with an arrow in front in a table.
fn towards(value: &str, context: &Context) -> String {
    match context.settings.form == Form::Table && !value.is_empty() {
        true => format!("→ {value}"),
        false => value.to_owned(),
    }
}

fn plan(difference: &Difference) -> Planned<'_> {
    let failed = |exit, code: &'static str, sentence: &str| {
        Step::Fail(Problem::new(exit, code, sentence).of(&difference.name))
    };
    let step = match &difference.kind {
        Kind::Value(Some(back)) if back.is_read_only => Step::Leave("only its source writes it"),
        Kind::Value(Some(back)) => Step::Write(back),
        Kind::Value(None) => Step::Leave("it had no value when it was saved"),
        Kind::Added => Step::Leave("it is not in the file"),
        Kind::Gone => failed(
            Exit::SomeFailed,
            "unknown-name",
            "the variable does not exist any more; deploy its library, or remove the line",
        ),
        Kind::Type => failed(
            Exit::Refused,
            "wrong-type",
            "the variable has another type now; correct the line, or remove it",
        ),
        Kind::Unknown(problem) => Step::Fail(problem.clone()),
    };
    Planned { difference, step }
}

fn write(
    args: &Args,
    planned: &[Planned<'_>],
    connection: &Connection,
    context: &Context,
) -> Result<Exit, Stop> {
    let writes: Vec<Write> = planned.iter().filter_map(|one| make(args, one)).collect();
    if args.atomic && writes.len() > GROUP_MAX {
        let sentence = format!(
            "{} values are too many: at most {GROUP_MAX} can be written at one instant; name fewer \
             variables, or leave --atomic out",
            writes.len()
        );
        return Err(Problem::usage(&sentence).into());
    }
    let culprit = planned.iter().find_map(|one| match &one.step {
        Step::Fail(problem) if args.atomic => Some(problem),
        _ => None,
    });
    for one in planned {
        if let Step::Leave(remark) = &one.step {
            let name = plain(&one.difference.name);
            context.remark(&format!("{name} is not written: {remark}"))?;
        }
    }
    let (client, timeout) = (&connection.client, connection.timeout());
    let outcomes = match culprit {
        Some(problem) => {
            let name = problem.name.as_deref().unwrap_or_default();
            let sentence = format!("not written: the whole group was refused because of {name}");
            let fault = Fault::new(FaultCode::GroupRefused, sentence);
            Ok(vec![WriteOutcome::Refused(fault); writes.len()])
        }
        None if writes.is_empty() => Ok(Vec::new()),
        None if args.atomic => client
            .write_group(writes, timeout)
            .map(|ended| ended.outcomes),
        None => client.write(writes, timeout),
    };
    let mut outcomes = outcomes
        .map_err(|error| not_written(connection.failed(&error)))?
        .into_iter();
    let columns = &["name", "outcome", "before", "after", "remark"];
    let mut records = Records::new(&context.settings, &context.terminal, columns)?.headed();
    let mut tally = Tally::default();
    let width = planned
        .iter()
        .map(|one| crate::terminal::width(&one.difference.name));
    let width = width.max().unwrap_or(0);
    for one in planned {
        let (word, remark) = match &one.step {
            Step::Leave(remark) => ("left", *remark),
            Step::Fail(problem) => {
                tally.item_failed(context.show(problem, width)?);
                continue;
            }
            Step::Write(_) => {
                let outcome = outcomes.next();
                match outcome.as_ref().map_or_else(|| Err(not_known()), written) {
                    Ok((word, Some(_))) => (word, ""),
                    Ok((word, None)) => (word, SUPERSEDED),
                    Err(problem) => {
                        let problem = problem.of(&one.difference.name);
                        tally.item_failed(context.show(&problem, width)?);
                        continue;
                    }
                }
            }
        };
        push(&mut records, one.difference, word, remark, context)?;
    }
    records.finish()?;
    Ok(tally.exit())
}

fn make(args: &Args, one: &Planned<'_>) -> Option<Write> {
    let Step::Write(back) = &one.step else {
        return None;
    };
    let write = Write::new(back.variable, back.value.clone());
    Some(match args.if_unchanged {
        true => write.expecting(back.position),
        false => write,
    })
}

fn push(
    records: &mut Records,
    difference: &Difference,
    word: &str,
    remark: &str,
    context: &Context,
) -> Result<(), Stop> {
    let is_left = !remark.is_empty();
    let (after_text, now) = match is_left {
        true => &difference.now,
        false => &difference.saved,
    };
    let mut object = Object::new();
    object.put("name", difference.name.as_str());
    object.put("outcome", word);
    object.put("old", difference.now.1.clone());
    object.put("now", now.clone());
    let cells = vec![
        difference.name.clone(),
        word.to_owned(),
        difference.now.0.clone(),
        towards(after_text, context),
        remark.to_owned(),
    ];
    let mood = match is_left {
        true => Mood::Dim,
        false => Mood::Plain,
    };
    records.push(Row {
        cells,
        object,
        mood,
    })
}

/// Returns the problem of a failed call, which fails as a whole only if none of its writes was
/// sent.
fn not_written(why: Problem) -> Problem {
    let sentence = format!("nothing was written: {}", why.message);
    Problem::new(why.exit, why.code, &sentence)
}
