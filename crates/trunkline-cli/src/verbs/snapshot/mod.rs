//! `snapshot`: saves the values of variables at one instant to a file, compares them with the
//! current values, and writes them back.

pub(crate) mod compare;
mod file;
pub(crate) mod restore;

use std::path::PathBuf;

use serde_json::Value as Json;
use trunkline_types::Pattern;
use trunkline_types::json::to_json;

use self::compare::Difference;
use self::file::{Head, Saved, Variable};
use crate::connection::{
    Connection, Entries, metadata, no_match, open_options, readable, reading_fault,
};
use crate::output::record::{JsonSchema, Record, Serialize};
use crate::output::values::WideInt;
use crate::targets::{self, Target, Targets};
use crate::terminal::is_stdio;
use crate::{CliError, Context, Exit, Problem, Tally, counted};

/// Save the values of variables at one instant, compare them, and write them back
#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum Subcommand {
    Save(SaveArgs),
    Diff(DiffArgs),
    Restore(restore::Args),
}

/// Save the values of variables in a file
///
/// The file is JSON Lines: a header, then one line for each variable, with its type, value, quality
/// and time. Up to 4096 variables are read at one instant; a larger number is read in several
/// steps, which the header records. Variables that cannot be read are reported and left out; the
/// exit code is then 1, or 5 if the only reason is that reading is not permitted.
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

/// The file to compare or restore, and a selection of its variables.
#[derive(Clone, Debug, clap::Args)]
struct SavedArgs {
    /// The file; `-` is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Only these variables of the file, as names or patterns
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

/// The output line of `snapshot save`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "Trunkline saved snapshot, version 1")]
pub(crate) struct SavedLine {
    /// The file that was written.
    file: String,
    /// Number of variables in the file.
    variables: u64,
    /// Whether all variables were read at one instant, which is possible for at most 4096 variables.
    instant: bool,
    /// Time at which the variables were read, by the engine's clock.
    #[schemars(extend("format" = "date-time"))]
    taken: String,
    /// Number of the last group that was written before the snapshot; 0 when there was none. A
    /// string with `--int-strings`.
    commit: WideInt,
}

impl Record for SavedLine {
    const COLUMNS: &'static [&'static str] = &["file", "variables", "instant"];
    const IS_HEADED: bool = false;

    fn cell(&self, column: &str) -> Option<String> {
        match column {
            "variables" => Some(counted(self.variables, "variable")),
            "instant" if self.instant => Some("at one instant".to_owned()),
            "instant" => Some("not at one instant, because there are more than 4096".to_owned()),
            _ => None,
        }
    }
}

pub(crate) fn run(command: &Subcommand, context: &Context) -> Result<Exit, CliError> {
    match command {
        Subcommand::Save(args) => save(args, context),
        Subcommand::Diff(args) => diff(args, context),
        Subcommand::Restore(args) => restore::run(args, context),
    }
}

fn save(args: &SaveArgs, context: &Context) -> Result<Exit, CliError> {
    if !args.force && !is_stdio(&args.file) {
        // Pipes and devices are written to, and never replaced.
        let is_replaced = !args.file.starts_with("/dev") && !args.file.starts_with("/proc");
        if is_replaced
            && args
                .file
                .metadata()
                .is_ok_and(|metadata| metadata.is_file())
        {
            return Err(crate::replace::exists(&args.file).into());
        }
    }
    let targets = targets::resolve(&args.names, &context.settings)?;
    let connection = Connection::new(&targets.engine, context)?;
    let entries = connection.expand(targets, context)?;
    let mut tally = Tally::default();
    let mut opened = Vec::new();
    let (include_readings, describe) = (true, true);
    let options = open_options(include_readings, describe);
    for (name, result) in connection.open_all(&entries, options)? {
        match result.and_then(|opened| readable(&name, opened)) {
            Ok(variable) => opened.push((name, variable)),
            Err(problem) => tally.item_failed(context.show(&problem, entries.width())?),
        }
    }
    let variables: Vec<_> = opened.iter().map(|(_, opened)| opened.variable).collect();
    let snapshot = connection.call(|client, wait| client.snapshot(&variables, wait))?;
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
                let problem = reading_fault(&fault).with_name(name);
                tally.item_failed(context.show(&problem, entries.width())?);
                continue;
            }
        };
        let sample = reading.sample;
        let has_value = reading.position.sequence > 0;
        saved.variables.push(Variable {
            name: name.clone(),
            data_type: opened.data_type.to_string(),
            value: match has_value {
                true => to_json(&sample.value, &opened.data_type).into_plain(),
                false => Json::Null,
            },
            units: metadata(opened).units,
            quality: sample.quality.to_string(),
            timestamp: match has_value {
                true => sample.source_timestamp.to_string(),
                false => String::new(),
            },
            line: 0,
        });
    }
    saved.variables.sort_by(|a, b| a.name.cmp(&b.name));
    if saved.variables.is_empty() {
        context.remark("nothing could be read, so no file was written")?;
        return Ok(tally.exit());
    }
    saved.write(&args.file, &context.terminal)?;
    // If the file is standard output, it is the only output.
    if !is_stdio(&args.file) {
        context.list([SavedLine {
            file: args.file.display().to_string(),
            variables: saved.variables.len() as u64,
            instant: saved.head.is_instant,
            taken: saved.head.taken.clone(),
            commit: context.settings.values.int_or_text(snapshot.commit),
        }])?;
    }
    Ok(tally.exit())
}

fn diff(args: &DiffArgs, context: &Context) -> Result<Exit, CliError> {
    let saved = Saved::read(&args.saved.file)?;
    let differences = match &args.with {
        Some(other) => {
            let [before, after] = select(&args.saved, [saved, Saved::read(other)?])?;
            compare::files(&before, &after)
        }
        None => {
            let [saved] = select(&args.saved, [saved])?;
            let connection = Connection::to_engine(context)?;
            compare_with_engine(&args.saved, &saved, &connection, context)?
        }
    };
    let is_different = !differences.is_empty();
    context.list(differences)?;
    if !is_different {
        context.remark("no differences")?;
    }
    Ok(Exit::ProblemsFound.when(is_different))
}

/// Keeps only variables that match a NAME argument. Without such arguments, keeps all.
fn select<const N: usize>(args: &SavedArgs, mut files: [Saved; N]) -> Result<[Saved; N], CliError> {
    if args.names.is_empty() {
        return Ok(files);
    }
    let mut patterns = Vec::with_capacity(args.names.len());
    for name in &args.names {
        let pattern = Pattern::parse(name);
        let pattern = pattern.map_err(|error| Problem::usage(format!("{name}: {error}")))?;
        let mut saved = files.iter().flat_map(|file| &file.variables);
        // With one file, a pattern may also match variables of the engine.
        let may_match_engine = N == 1 && Pattern::has_wildcards(name);
        if !may_match_engine && !saved.any(|variable| pattern.matches(&variable.name)) {
            return Err(no_match(name, "no saved variable matches").into());
        }
        patterns.push(pattern);
    }
    for file in &mut files {
        let is_selected = |variable: &Variable| {
            patterns
                .iter()
                .any(|pattern| pattern.matches(&variable.name))
        };
        file.variables.retain(is_selected);
    }
    Ok(files)
}

/// Compares the saved variables with the engine. A variable of the engine that matches a pattern
/// but is not in the file counts as added.
fn compare_with_engine(
    args: &SavedArgs,
    saved: &Saved,
    connection: &Connection,
    context: &Context,
) -> Result<Vec<Difference>, CliError> {
    let names = saved
        .variables
        .iter()
        .map(|variable| Ok(variable.name.clone()));
    let entries = Entries(names.collect());
    let mut differences = Vec::new();
    let (include_readings, describe) = (true, true);
    let options = open_options(include_readings, describe);
    let opened = connection.open_all(&entries, options)?;
    for (saved, (_, opened)) in saved.variables.iter().zip(opened) {
        let style = context.settings.values;
        let difference = compare::with_engine(&args.file, saved, opened, style);
        differences.extend(difference?);
    }
    let mut matched = Vec::new();
    for text in args
        .names
        .iter()
        .filter(|name| Pattern::has_wildcards(name))
    {
        let pattern = Pattern::parse(text);
        let pattern = pattern.map_err(|error| Problem::usage(format!("{text}: {error}")))?;
        let mut variables = saved.variables.iter();
        let is_saved = variables.any(|variable| pattern.matches(&variable.name));
        let targets = Targets {
            engine: targets::engine(&context.settings)?,
            list: vec![Target::Pattern(pattern)],
        };
        let entries = connection.expand(targets, context)?;
        if !is_saved && entries.names().is_empty() {
            let sentence = "no saved variable matches, and no variable of the engine matches";
            return Err(no_match(text, sentence).into());
        }
        matched.push(entries);
    }
    let names: Vec<&str> = matched.iter().flat_map(Entries::names).collect();
    differences.extend(compare::added(saved, &names));
    differences.sort_by(|a, b| a.name.cmp(&b.name));
    // A variable that matches several patterns was added once for each of them.
    differences.dedup_by(|a, b| a.name == b.name);
    Ok(differences)
}
