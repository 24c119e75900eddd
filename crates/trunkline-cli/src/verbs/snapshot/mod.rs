//! `snapshot`: saves the values of variables at one instant to a file, compares them and writes
//! them back.

mod compare;
mod file;
mod restore;

use std::path::PathBuf;

use serde_json::Value as Json;
use trunkline::{OpenOptions, Opened};
use trunkline_types::Pattern;
use trunkline_types::json::to_json;

use self::compare::{Difference, Kind};
use self::file::{Head, Saved, Variable, is_standard};
use super::{Context, Verb};
use crate::connection::{Connection, Entries, Entry, facts, readable, reading_fault};
use crate::exit::{Exit, Tally};
use crate::output::counted;
use crate::output::json::Object;
use crate::output::records::{Records, Row};
use crate::problem::{Problem, Stop};
use crate::targets::{self, Targets, Wanted};
use crate::terminal::Mood;

/// Save the values of variables at one instant, compare them, and write them back
#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum Subcommand {
    Save(SaveArgs),
    Diff(DiffArgs),
    Restore(restore::Args),
}

/// Save the values of variables in a file
///
/// The file has one line for each variable, with its type, value, quality and time. Up to 4096
/// variables are read at one instant.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct SaveArgs {
    /// The file; `-` is standard output
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Variables, as names or patterns such as 'oven/**'
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,

    /// Replace FILE if it exists
    #[arg(long)]
    force: bool,
}

/// Show the differences between a file and the engine, or between two files
///
/// If there are differences, the exit code is 8.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DiffArgs {
    #[command(flatten)]
    saved: SavedArgs,

    /// Compare with this file instead of the engine
    #[arg(long, value_name = "FILE")]
    with: Option<PathBuf>,
}

/// The saved variables that a verb is about.
#[derive(Clone, Debug, clap::Args)]
struct SavedArgs {
    /// The file; `-` is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Only these variables of the file, as names or patterns
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

pub(crate) const VERB: Verb = Verb::group(
    "snapshot",
    &[
        Verb::writing(
            "save",
            &[
                Exit::Done,
                Exit::SomeFailed,
                Exit::Usage,
                Exit::Unreachable,
                Exit::TimedOut,
                Exit::NotPermitted,
                Exit::Interrupted,
            ],
        ),
        Verb::reading(
            "diff",
            &[
                Exit::Done,
                Exit::SomeFailed,
                Exit::Usage,
                Exit::Unreachable,
                Exit::TimedOut,
                Exit::NotPermitted,
                Exit::Found,
                Exit::Interrupted,
            ],
        ),
        restore::VERB,
    ],
);

pub(crate) fn run(command: &Subcommand, context: &Context) -> Result<Exit, Stop> {
    crate::interrupt::end_process_on_interrupt(&context.terminal)?;
    match command {
        Subcommand::Save(args) => save(args, context),
        Subcommand::Diff(args) => diff(args, context),
        Subcommand::Restore(args) => restore::run(args, context),
    }
}

fn save(args: &SaveArgs, context: &Context) -> Result<Exit, Stop> {
    if !args.force && !is_standard(&args.file) {
        // Pipes and devices are written to, not replaced.
        let is_replaced = !args.file.starts_with("/dev") && !args.file.starts_with("/proc");
        if is_replaced && args.file.metadata().is_ok_and(|there| there.is_file()) {
            return Err(crate::replace::exists(&args.file).into());
        }
    }
    let targets = targets::resolve(&args.names, &context.settings)?;
    let connection = Connection::new(&targets.engine, context)?;
    let entries = connection.expand(targets, context)?;
    let mut tally = Tally::default();
    let mut opened = Vec::new();
    for Looked { name, result } in open(&connection, &entries)? {
        match result.and_then(|opened| readable(&name, opened)) {
            Ok(one) => opened.push((name, one)),
            Err(problem) => tally.item_failed(context.show(&problem, entries.width())?),
        }
    }
    let variables: Vec<_> = opened.iter().map(|(_, one)| one.variable).collect();
    let snapshot = connection.client.snapshot(&variables, connection.timeout());
    let snapshot = snapshot.map_err(|error| connection.failed(&error))?;
    let mut saved = Saved {
        head: Head {
            taken: snapshot.instant.to_string(),
            engine: connection.engine_name.clone(),
            is_instant: snapshot.is_consistent,
        },
        variables: Vec::with_capacity(opened.len()),
    };
    for ((name, opened), reading) in opened.iter().zip(snapshot.readings) {
        let reading = match reading {
            Ok(reading) => reading,
            Err(fault) => {
                let problem = reading_fault(&fault).of(name);
                tally.item_failed(context.show(&problem, entries.width())?);
                continue;
            }
        };
        let sample = reading.sample;
        let is_written = reading.position.sequence > 0;
        saved.variables.push(Variable {
            name: name.clone(),
            data_type: opened.data_type.to_string(),
            value: match is_written {
                true => to_json(&sample.value, &opened.data_type).into_plain(),
                false => Json::Null,
            },
            units: facts(opened).units,
            quality: sample.quality.to_string(),
            timestamp: match is_written {
                true => sample.source_timestamp.to_string(),
                false => String::new(),
            },
            line: 0,
        });
    }
    saved.variables.sort_by(|a, b| a.name.cmp(&b.name));
    if saved.variables.is_empty() {
        let sentence = "nothing could be read, so no file was written; see `trunkline ls`";
        return Err(Problem::new(Exit::SomeFailed, "no-match", sentence).into());
    }
    saved.write(&args.file, &context.terminal)?;
    told_saved(args, &saved, snapshot.commit, context)?;
    Ok(tally.exit())
}

/// Reports what was saved, unless the file itself is printed.
fn told_saved(args: &SaveArgs, saved: &Saved, commit: u64, context: &Context) -> Result<(), Stop> {
    if is_standard(&args.file) {
        return Ok(());
    }
    let columns = &["file", "variables", "instant"];
    let mut records = Records::new(&context.settings, &context.terminal, columns)?;
    let (count, file) = (saved.variables.len(), args.file.display().to_string());
    let mut object = Object::new();
    object.put("file", file.as_str());
    object.put("variables", count);
    object.put("instant", saved.head.is_instant);
    object.put("taken", saved.head.taken.as_str());
    object.put("commit", context.settings.values.json_u64(commit));
    let instant = match saved.head.is_instant {
        true => "at one instant",
        false => "not at one instant, which is possible for at most 4096",
    };
    records.push(Row {
        cells: vec![file, counted(count as u64, "variable"), instant.to_owned()],
        object,
        mood: Mood::Plain,
    })?;
    records.finish()
}

fn diff(args: &DiffArgs, context: &Context) -> Result<Exit, Stop> {
    let saved = wanted(&args.saved, Saved::read(&args.saved.file)?)?;
    let differences = match &args.with {
        Some(other) => compare::files(&saved, &wanted(&args.saved, Saved::read(other)?)?),
        None => {
            let connection = Connection::new(&targets::engine(&context.settings)?, context)?;
            with_engine(&args.saved, &saved, &connection, context)?
        }
    };
    show(&differences, context)?;
    Ok(match differences.is_empty() {
        true => {
            context.remark("nothing differs")?;
            Exit::Done
        }
        false => Exit::Found,
    })
}

/// Selects the variables of a file that the operands name; all if there are no operands.
fn wanted(args: &SavedArgs, mut saved: Saved) -> Result<Saved, Stop> {
    if args.names.is_empty() {
        return Ok(saved);
    }
    let mut patterns = Vec::with_capacity(args.names.len());
    for name in &args.names {
        let pattern = Pattern::parse(name);
        patterns.push(pattern.map_err(|error| Problem::usage(&format!("{name}: {error}")))?);
    }
    saved
        .variables
        .retain(|one| patterns.iter().any(|pattern| pattern.matches(&one.name)));
    Ok(saved)
}

/// Returns the differences between a file and the engine's current values.
fn with_engine(
    args: &SavedArgs,
    saved: &Saved,
    connection: &Connection,
    context: &Context,
) -> Result<Vec<Difference>, Stop> {
    let entry = |variable: &Variable| Entry::Name(variable.name.clone());
    let entries = Entries(saved.variables.iter().map(entry).collect());
    let mut differences = Vec::new();
    for (saved, looked) in saved.variables.iter().zip(open(connection, &entries)?) {
        let style = context.settings.values;
        let difference = compare::with_engine(&args.file, saved, looked.result, style);
        differences.extend(difference?);
    }
    let patterns = args
        .names
        .iter()
        .filter(|name| Pattern::has_wildcards(name));
    let mut there = Vec::new();
    for pattern in patterns {
        let wanted = Pattern::parse(pattern).map(Wanted::Pattern);
        let wanted = wanted.map_err(|error| Problem::usage(&format!("{pattern}: {error}")))?;
        let targets = Targets {
            engine: targets::engine(&context.settings)?,
            wanted: vec![wanted],
        };
        there.push(connection.expand(targets, context)?);
    }
    let names: Vec<&str> = there.iter().flat_map(Entries::names).collect();
    differences.extend(compare::added(saved, &names));
    differences.sort_by(|a, b| a.name.cmp(&b.name));
    differences.dedup_by(|a, b| a.name == b.name);
    Ok(differences)
}

/// A name, and its opened variable or its problem.
struct Looked {
    name: String,
    result: Result<Opened, Problem>,
}

/// Opens every name.
fn open(connection: &Connection, entries: &Entries) -> Result<Vec<Looked>, Stop> {
    let options = OpenOptions {
        read: true,
        describe: true,
        ..OpenOptions::default()
    };
    let mut opened = connection.open(&entries.names(), options)?.into_iter();
    let mut all = Vec::with_capacity(entries.0.len());
    for entry in &entries.0 {
        match entry {
            Entry::Problem(problem) => {
                let name = problem.name.clone().unwrap_or_default();
                let result = Err(problem.clone());
                all.push(Looked { name, result });
            }
            Entry::Name(name) => all.extend(opened.next().map(|result| Looked {
                name: name.clone(),
                result,
            })),
        }
    }
    Ok(all)
}

/// Shows the differences, one line each.
fn show(differences: &[Difference], context: &Context) -> Result<(), Stop> {
    let columns = &["name", "difference", "file", "now"];
    let mut records = Records::new(&context.settings, &context.terminal, columns)?.headed();
    for difference in differences {
        let mut object = Object::new();
        object.put("name", difference.name.as_str());
        object.put("difference", difference.kind.word());
        object.put("file", difference.saved.1.clone());
        object.put("now", difference.now.1.clone());
        let (mood, note) = match &difference.kind {
            Kind::Value(_) => (Mood::Plain, String::new()),
            Kind::Unknown(problem) => (Mood::Bad, problem.message.clone()),
            _ => (Mood::Uncertain, String::new()),
        };
        let now = match note.is_empty() {
            true => difference.now.0.clone(),
            false => note,
        };
        let word = difference.kind.word().to_owned();
        records.push(Row {
            cells: vec![
                difference.name.clone(),
                word,
                difference.saved.0.clone(),
                now,
            ],
            object,
            mood,
        })?;
    }
    records.finish()
}
