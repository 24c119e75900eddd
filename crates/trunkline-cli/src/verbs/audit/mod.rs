//! `audit`: shows the audit trail, checks its hash chain, and exports it.

mod export;
mod syslog;
mod verify;

use trunkline_types::{AuditEntry, AuditOutcome, AuditQuery, Pattern, Tick, Timestamp};

use crate::connection::{Connection, open_options};
use crate::instant::FORMS;
use crate::output::record::{JsonSchema, Record, Serialize};
use crate::output::times::TimeColumn;
use crate::output::values::{ValueStyle, WideInt};
use crate::targets::{self, Target};
use crate::terminal::Style;
use crate::{CliError, Context, Exit, Problem};

/// Show who changed what, when, from where, and with what result
///
/// The engine records every write by a client to a variable whose configuration sets `audit`, with
/// its outcome, and every lease of such a variable; every force and unforce; every deploy, undeploy, start and stop of a library;
/// logins, refused requests and changes to access rights; acknowledgements of alarms; and engine starts and
/// stops. The oldest entries come first.
///
/// The subcommands check and export the complete audit trail. To show the entries of a library that is named
/// verify or export, use a pattern such as 'verify/**'.
#[derive(Clone, Debug, clap::Args)]
#[command(disable_help_subcommand = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Subcommand>,

    /// Only entries about this variable, about this library and its variables, or about names that
    /// match a pattern such as 'boiler/*'
    #[arg(value_name = "PATTERN")]
    pattern: Option<String>,

    /// Only entries since this time, such as 2026-11-21T08:00, 14:30, today, yesterday, 10m or
    /// "2 hours ago"
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    since: Option<String>,

    /// Only entries by this principal, as shown in the column `who`, such as local:1000 or engine
    #[arg(long, value_name = "PRINCIPAL")]
    who: Option<String>,

    /// Only the last N entries
    #[arg(
        long,
        value_name = "N",
        value_parser = crate::arguments::number::<u32>(1..=4_294_967_295),
        allow_negative_numbers = true
    )]
    last: Option<u32>,
}

/// The subcommands for the complete audit trail.
#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum Subcommand {
    Verify(verify::Args),
    Export(export::Args),
}

/// A line of `audit`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "Trunkline audit entry, version 1")]
pub(crate) struct Entry {
    /// Number of the entry: one more than that of the previous entry, even after a restart of an engine with
    /// a store. A string with --int-strings.
    #[schemars(range(min = 1))]
    number: WideInt,
    /// Time at which the action ended, by the engine's clock, UTC, nanoseconds.
    #[schemars(extend("format" = "date-time"))]
    ts: String,
    /// Principal of the action.
    who: String,
    /// Origin: the address, then the program, user and process that the client reported.
    from: String,
    /// put, set, send, force, unforce, forcing on, forcing off, forcing clear, deploy, undeploy,
    /// start, stop, provide, engine start, engine stop, stop order, reload order, lost, removed, login,
    /// logout, revoke, request, access change, configure, alarm ack, alarm reset, alarm shelve, alarm
    /// unshelve, alarm disable, alarm enable, control take, control request, control release, control
    /// give, control end, lease take, lease end, stream register, stream connect.
    action: String,
    /// The variable or library. Left out for the whole engine.
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
    /// The type of the values. Left out without values.
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    data_type: String,
    /// The previous value, as text of at most 256 bytes. Left out when there was none. With removed:
    /// the hash of the last removed entry.
    #[serde(skip_serializing_if = "String::is_empty")]
    old: String,
    /// The written value, as text of at most 256 bytes; for an action without a value, its effect.
    #[serde(skip_serializing_if = "String::is_empty")]
    new: String,
    /// Outcome of the action.
    #[schemars(extend("enum" = ["done", "applied", "unchanged", "refused", "unknown", "lost"]))]
    outcome: &'static str,
    /// With applied and unchanged: the epoch of seq. A string with --int-strings.
    #[serde(skip_serializing_if = "Option::is_none")]
    epoch: Option<WideInt>,
    /// With applied and unchanged: the sequence of the update that the variable has as a result. A
    /// string with --int-strings.
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<WideInt>,
    /// With refused: the rule. With unknown: the cause.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// With lost: number of entries that are missing here, because there was no space for them. A
    /// string with --int-strings.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    lost: Option<WideInt>,
    /// Time of the engine's monotonic clock, in nanoseconds. It is not affected by changes to the system
    /// clock, and is comparable between the entries of one start. Left out if it is not known. A string with
    /// --int-strings.
    #[serde(skip_serializing_if = "Option::is_none")]
    monotonic: Option<WideInt>,
    /// Hash of the previous entry, as 64 hexadecimal digits. Left out by engines of earlier versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    previous: Option<String>,
    /// Hash of this entry, which covers all entries before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    hash: Option<String>,
    /// Cells for people: the time, and the complete outcome.
    #[serde(skip)]
    texts: [(&'static str, String); 2],
}

impl Record for Entry {
    const COLUMNS: &'static [&'static str] = &[
        "time", "who", "from", "action", "name", "old", "new", "outcome",
    ];

    fn texts(&self) -> &[(&'static str, String)] {
        &self.texts
    }

    fn style(&self) -> Style {
        match self.outcome {
            "refused" | "lost" => Style::Bad,
            "unknown" => Style::Warning,
            _ => Style::Plain,
        }
    }
}

pub(crate) use self::verify::Verified;

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, CliError> {
    let Some(command) = &args.command else {
        return show(args, context);
    };
    let has_filter = args.since.is_some() || args.who.is_some() || args.last.is_some();
    if has_filter || args.pattern.is_some() {
        let sentence = "the subcommands of audit use the complete audit trail; put their own \
                        options after the subcommand";
        return Err(Problem::usage(sentence).into());
    }
    match command {
        Subcommand::Verify(args) => verify::run(args, context),
        Subcommand::Export(args) => export::run(args, context),
    }
}

fn show(args: &Args, context: &Context) -> Result<Exit, CliError> {
    let (targets, pattern) = pattern_of(args.pattern.as_ref(), context)?;
    let names = targets.names(&context.settings);
    let mut query = AuditQuery {
        since: parse_time("--since", args.since.as_ref(), context)?,
        pattern,
        who: args.who.clone(),
        newest_first: args.last.is_some(),
        limit: args.last.unwrap_or(0),
        ..AuditQuery::default()
    };
    let connection = Connection::new(&targets.engine, context)?;
    let mut table = context.table::<Entry>()?;
    let mut times = context.settings.times.column(true, context.started);
    let mut has_entries = false;
    loop {
        let mut page = connection.call(|client, wait| client.audit(query.clone(), wait))?;
        if query.newest_first {
            page.entries.reverse();
        }
        for entry in &page.entries {
            table.push(&Entry::new(entry, &mut times, context.settings.values))?;
            has_entries = true;
        }
        query.from = page.next;
        if page.next.is_none() || query.newest_first {
            table.finish()?;
            // A request for the newest entries does not report that the oldest entries are missing.
            let state = &page.state;
            if !has_entries {
                let unaudited = unaudited(&connection, &names).unwrap_or_default();
                let note = format!("no matching entries; {state}{unaudited}");
                context.terminal.note(&note)?;
            } else if page.removed > 0 && !query.newest_first {
                let removed = page.removed;
                let note = format!("the oldest {removed} entries have been removed; {state}");
                context.terminal.note(&note)?;
            }
            return Ok(Exit::Success);
        }
    }
}

/// Returns a hint if the engine does not audit writes to the first of these variables.
fn unaudited(connection: &Connection, names: &[String]) -> Option<String> {
    let name = names.first()?;
    let opened = connection.open(&[name], open_options(false, false)).ok()?;
    let variable = opened.into_iter().next()?.ok()?.variable;
    let info = connection.call(|client, wait| client.info(&[variable], wait));
    let info = info.ok()?.into_iter().next()?.ok()?;
    info.audit.is_empty().then(|| {
        format!("; writes to {name} are not audited: set audit = \"complete\" in its configuration")
    })
}

impl Entry {
    fn new(entry: &AuditEntry, times: &mut Option<TimeColumn>, values: ValueStyle) -> Self {
        let outcome = &entry.outcome;
        let time = times
            .as_mut()
            .map(|times| times.text(&entry.name, entry.when.into()));
        let position = match outcome {
            AuditOutcome::Applied(position) | AuditOutcome::Unchanged(position) => Some(position),
            _ => None,
        };
        Self {
            number: values.int_or_text(entry.number),
            ts: entry.when.to_string(),
            who: entry.who.clone(),
            from: entry.from.clone(),
            action: entry.action.to_string(),
            name: entry.name.clone(),
            data_type: entry.data_type.clone(),
            old: entry.old.clone(),
            new: entry.new.clone(),
            outcome: outcome.name(),
            epoch: position.map(|position| values.int_or_text(position.epoch)),
            seq: position.map(|position| values.int_or_text(position.sequence)),
            message: match outcome {
                AuditOutcome::Refused(text) | AuditOutcome::Unknown(text) => Some(text.clone()),
                _ => None,
            },
            lost: match outcome {
                AuditOutcome::Lost(count) => Some(values.int_or_text(*count)),
                _ => None,
            },
            monotonic: (entry.monotonic != Tick::ZERO)
                .then(|| values.int_or_text(entry.monotonic.as_nanos())),
            previous: entry.link.map(|link| link.previous.to_string()),
            hash: entry.link.map(|link| link.hash.to_string()),
            texts: [
                ("time", time.unwrap_or_default()),
                ("outcome", outcome.to_string()),
            ],
        }
    }
}

/// Turns the name of a library into a pattern that matches the library and everything in it.
pub(crate) fn whole_library(text: &str) -> String {
    match text.contains(['/', '*']) || text.is_empty() {
        true => text.to_owned(),
        false => format!("{text}/**"),
    }
}

/// Parses the time of an option, such as `--since`.
pub(crate) fn parse_time(
    option: &str,
    text: Option<&String>,
    context: &Context,
) -> Result<Option<Timestamp>, Problem> {
    let Some(text) = text else { return Ok(None) };
    let time = context.now().parse(text);
    let not_a_time = || Problem::usage(format!("{option} \"{text}\" is not a time; {FORMS}"));
    time.ok_or_else(not_a_time).map(Some)
}

/// Resolves the operand of `audit`, `alarm journal` or `alarm report` to an engine and a pattern.
pub(crate) fn pattern_of(
    operand: Option<&String>,
    context: &Context,
) -> Result<(targets::Targets, Option<Pattern>), CliError> {
    let operands: Vec<String> = operand.iter().map(|text| whole_library(text)).collect();
    let targets = targets::resolve(&operands, &context.settings)?;
    let pattern = match targets.list.first() {
        None => None,
        Some(Target::Pattern(pattern)) => Some(pattern.clone()),
        Some(Target::Name(name)) => Some(Pattern::parse(name).map_err(bad_pattern)?),
        Some(Target::Invalid(problem)) => return Err(problem.clone().without_name().into()),
    };
    Ok((targets, pattern))
}

pub(crate) fn bad_pattern(error: trunkline_types::pattern::PatternError) -> Problem {
    Problem::failed("bad-pattern", error.to_string())
}
