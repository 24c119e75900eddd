//! `snapshot restore`: shows the writes that would restore a snapshot, or carries them out.

use serde_json::Value as Json;
use trunkline::proto::{Fault, FaultCode};
use trunkline::{GROUP_MAX, Write, WriteOutcome};

use super::compare::{Difference, Kind, RestoreWrite};
use super::file::Saved;
use super::{SavedArgs, compare_with_engine, select};
use crate::arguments::OutputFormat;
use crate::connection::{Connection, SUPERSEDED, outcome_unknown, outcome_word};
use crate::output::record::{JsonSchema, Record, Serialize};
use crate::terminal::{Style, escaped, width};
use crate::{CliError, Context, Exit, Problem, Tally, counted};

/// Write the values in a file back to the variables
///
/// Without --yes, the command only shows the values that it would write.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    saved: SavedArgs,

    /// Write the values back
    #[arg(long)]
    yes: bool,

    /// Write all values at one instant, or none; at most 4096 values
    #[arg(long)]
    atomic: bool,

    /// Write a value back only if the variable has not been written since this command read it
    #[arg(long)]
    if_unchanged: bool,
}

/// A line of the preview: a difference, with other columns than `snapshot diff` has.
#[derive(Serialize, JsonSchema)]
struct Preview<'d> {
    #[serde(flatten)]
    difference: &'d Difference,
    /// Cells for people: the action, the current value, the saved value, and a remark.
    #[serde(skip)]
    texts: [(&'static str, String); 4],
    #[serde(skip)]
    style: Style,
}

impl Record for Preview<'_> {
    const COLUMNS: &'static [&'static str] = &["name", "action", "now", "saved", "remark"];

    fn texts(&self) -> &[(&'static str, String)] {
        &self.texts
    }

    fn style(&self) -> Style {
        self.style
    }
}

/// A line of `snapshot restore --yes`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "Trunkline restored value, version 1")]
pub(crate) struct Restored {
    /// Full name of the variable.
    name: String,
    /// `applied`; `unchanged`: within the deadband; `left`: not written, because the variable is
    /// read-only, had no value when it was saved, or is not in the file.
    #[schemars(extend("enum" = ["applied", "unchanged", "superseded", "left"]))]
    outcome: &'static str,
    /// The previous value; null when there was none.
    old: Json,
    /// The value after the command; null when there is none.
    now: Json,
    /// Cells for people: both values, and why the variable was not written.
    #[serde(skip)]
    texts: [(&'static str, String); 3],
    #[serde(skip)]
    style: Style,
}

impl Record for Restored {
    const COLUMNS: &'static [&'static str] = &["name", "outcome", "before", "after", "remark"];

    fn texts(&self) -> &[(&'static str, String)] {
        &self.texts
    }

    fn style(&self) -> Style {
        self.style
    }
}

struct Planned<'d> {
    difference: &'d Difference,
    step: Step<'d>,
}

enum Step<'d> {
    Write(&'d RestoreWrite),
    Leave(&'static str),
    Fail(Problem),
}

pub(super) fn run(args: &Args, context: &Context) -> Result<Exit, CliError> {
    let [saved] = select(&args.saved, [Saved::read(&args.saved.file)?])?;
    let connection = Connection::to_engine(context)?;
    let differences = compare_with_engine(&args.saved, &saved, &connection, context)?;
    let planned: Vec<Planned<'_>> = differences.iter().map(plan).collect();
    if !args.yes {
        preview(&planned, context)?;
        let writes = planned
            .iter()
            .filter(|planned| matches!(planned.step, Step::Write(_)));
        let count = writes.count();
        let text = match count {
            0 => "nothing to write back".to_owned(),
            count => {
                let values = counted(count as u64, "value");
                format!("nothing was written; use --yes to write {values} back")
            }
        };
        context.terminal.note(&text)?;
        return Ok(Exit::Success);
    }
    write(args, &planned, &connection, context)
}

fn preview(planned: &[Planned<'_>], context: &Context) -> Result<(), CliError> {
    context.list(planned.iter().map(|Planned { difference, step }| {
        let (word, style, remark) = match step {
            Step::Write(_) => ("write", Style::Plain, String::new()),
            Step::Leave(remark) => ("leave", Style::Dim, (*remark).to_owned()),
            Step::Fail(problem) => ("fail", Style::Bad, problem.sentence()),
        };
        let saved = with_arrow(&difference.texts[0], context);
        Preview {
            difference,
            texts: [
                ("action", word.to_owned()),
                ("now", difference.texts[1].clone()),
                ("saved", saved),
                ("remark", remark),
            ],
            style,
        }
    }))
}

/// Formats the value to be written, preceded by an arrow in a table.
fn with_arrow(value: &str, context: &Context) -> String {
    match context.settings.output_format == OutputFormat::Table && !value.is_empty() {
        true => format!("→ {value}"),
        false => value.to_owned(),
    }
}

fn plan(difference: &Difference) -> Planned<'_> {
    let failed = |exit, code: &'static str, sentence: &str| {
        Step::Fail(Problem::new(exit, code, sentence).with_name(&difference.name))
    };
    let step = match &difference.kind {
        Kind::Value(Some(write)) if write.is_read_only => Step::Leave("it is read-only"),
        Kind::Value(Some(write)) => Step::Write(write),
        Kind::Value(None) => Step::Leave("it had no value when it was saved"),
        Kind::Added => Step::Leave("it is not in the file"),
        Kind::Gone => failed(
            Exit::Failed,
            "unknown-name",
            "the variable no longer exists; deploy its library, or remove the line from the file",
        ),
        Kind::Type => failed(
            Exit::Refused,
            "wrong-type",
            "the type of the variable has changed; correct the line in the file, or remove it",
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
) -> Result<Exit, CliError> {
    let writes: Vec<Write> = planned
        .iter()
        .filter_map(|planned| to_write(args, planned))
        .collect();
    if args.atomic && writes.len() > GROUP_MAX {
        let sentence = format!(
            "--atomic can write at most {GROUP_MAX} values, not {}; select fewer variables, or leave out \
             --atomic",
            writes.len()
        );
        return Err(Problem::usage(sentence).into());
    }
    let first_problem = planned.iter().find_map(|planned| match &planned.step {
        Step::Fail(problem) if args.atomic => Some(problem),
        _ => None,
    });
    for entry in planned {
        if let Step::Leave(remark) = &entry.step {
            let name = escaped(&entry.difference.name);
            context.remark(&format!("{name} is not written: {remark}"))?;
        }
    }
    let (client, timeout) = (&connection.client, connection.timeout());
    let outcomes = match first_problem {
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
    let mut table = context.table::<Restored>()?;
    let mut tally = Tally::default();
    let widths = planned.iter().map(|entry| width(&entry.difference.name));
    let width = widths.max().unwrap_or(0);
    for entry in planned {
        let (word, remark) = match &entry.step {
            Step::Leave(remark) => ("left", *remark),
            Step::Fail(problem) => {
                tally.item_failed(context.show(problem, width)?);
                continue;
            }
            Step::Write(_) => {
                let outcome = outcomes.next();
                match outcome
                    .as_ref()
                    .map_or_else(|| Err(outcome_unknown()), outcome_word)
                {
                    Ok((word, Some(_))) => (word, ""),
                    Ok((word, None)) => (word, SUPERSEDED),
                    Err(problem) => {
                        let problem = problem.with_name(&entry.difference.name);
                        tally.item_failed(context.show(&problem, width)?);
                        continue;
                    }
                }
            }
        };
        table.push(&restored(entry.difference, word, remark, context))?;
    }
    table.finish()?;
    Ok(tally.exit())
}

fn to_write(args: &Args, planned: &Planned<'_>) -> Option<Write> {
    let Step::Write(restore) = &planned.step else {
        return None;
    };
    let write = Write::new(restore.variable, restore.value.clone());
    Some(match args.if_unchanged {
        true => write.expecting(restore.position),
        false => write,
    })
}

fn restored(
    difference: &Difference,
    outcome: &'static str,
    remark: &str,
    context: &Context,
) -> Restored {
    let [saved, before] = &difference.texts;
    let (after, now, style) = match remark.is_empty() {
        true => (saved, &difference.file, Style::Plain),
        false => (before, &difference.now, Style::Dim),
    };
    Restored {
        name: difference.name.clone(),
        outcome,
        old: difference.now.clone(),
        now: now.clone(),
        texts: [
            ("before", before.clone()),
            ("after", with_arrow(after, context)),
            ("remark", remark.to_owned()),
        ],
        style,
    }
}

/// Converts the error of a failed call. A call fails as a whole only if it sent none of its writes.
fn not_written(cause: Problem) -> Problem {
    let sentence = format!("nothing was written: {}", cause.message);
    Problem::new(cause.exit, cause.code, sentence)
}
