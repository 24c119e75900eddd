//! `audit`: shows who did what.

use trunkline_types::{AuditEntry, AuditOutcome, AuditPage, AuditQuery, Pattern, Timestamp};

use super::{Context, Verb};
use crate::connection::Connection;
use crate::exit::Exit;
use crate::instant::FORMS;
use crate::output::json::Object;
use crate::output::records::{Records, Row};
use crate::output::times::{TimeColumn, Times};
use crate::output::values::ValueStyle;
use crate::problem::{Problem, Stop};
use crate::targets::{self, Wanted};
use crate::terminal::Mood;

/// Show who changed what, when, from where, and with what result
///
/// The engine records every write of a client to a variable with `audit`, with its outcome; every
/// force and unforce; and every order: deploy, undeploy, start, stop. The oldest entries come
/// first.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Only entries about this variable, about this library and its variables, or about names that
    /// match a pattern such as 'boiler/*'
    #[arg(value_name = "PATTERN")]
    pattern: Option<String>,

    /// Only entries since this time, such as 2026-11-21T08:00, 14:30, today or yesterday, or of
    /// this age, such as 10m or "2 hours ago"
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    since: Option<String>,

    /// Only entries with this value in the column `who`
    #[arg(long, value_name = "WHO")]
    who: Option<String>,

    /// Only the last N entries
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    last: Option<u32>,
}

pub(crate) const VERB: Verb = Verb::reading(
    "audit",
    &[
        Exit::Done,
        Exit::SomeFailed,
        Exit::Usage,
        Exit::Unreachable,
        Exit::TimedOut,
        Exit::NotPermitted,
        Exit::Interrupted,
    ],
);

const COLUMNS: &[&str] = &[
    "time", "who", "from", "action", "name", "old", "new", "outcome",
];

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Stop> {
    crate::interrupt::end_process_on_interrupt(&context.terminal)?;
    let operands: Vec<String> = args
        .pattern
        .iter()
        .map(|text| whole_library(text))
        .collect();
    let targets = targets::resolve(&operands, &context.settings)?;
    let pattern = match targets.wanted.into_iter().next() {
        None => None,
        Some(Wanted::Pattern(pattern)) => Some(pattern),
        Some(Wanted::Name(name)) => Some(Pattern::parse(&name).map_err(bad_pattern)?),
        Some(Wanted::Wrong(problem)) => {
            return Err(Problem {
                name: None,
                ..problem
            }
            .into());
        }
    };
    let since = args.since.as_ref();
    let mut query = AuditQuery {
        since: since.map(|text| instant(text, context)).transpose()?,
        pattern,
        who: args.who.clone(),
        newest_first: args.last.is_some(),
        limit: args.last.unwrap_or(0),
        from: None,
    };
    let connection = Connection::new(&targets.engine, context)?;
    let mut records = Records::new(&context.settings, &context.terminal, COLUMNS)?.headed();
    let mut times = context.settings.times.column(true, context.started);
    let mut has_any = false;
    loop {
        let page = connection.client.audit(query.clone(), connection.timeout());
        let mut page = page.map_err(|error| connection.failed(&error))?;
        if query.newest_first {
            page.entries.reverse();
        }
        for entry in &page.entries {
            records.push(row(entry, &mut times, context.settings.values))?;
            has_any = true;
        }
        query.from = page.next;
        if page.next.is_none() || query.newest_first {
            records.finish()?;
            return notes(&page, has_any, query.newest_first, context);
        }
    }
}

/// Prints, for people, which entries are missing; programs see it from the numbers. A request for
/// the last entries does not report the oldest as missing.
fn notes(page: &AuditPage, has_any: bool, is_last: bool, context: &Context) -> Result<Exit, Stop> {
    if !has_any {
        let sentence = format!("no matching entries; {}", page.state);
        context.terminal.note(&sentence)?;
    } else if page.removed > 0 && !is_last {
        let sentence = format!(
            "the oldest {} entries have been removed; {}",
            page.removed, page.state
        );
        context.terminal.note(&sentence)?;
    }
    Ok(Exit::Done)
}

fn row(entry: &AuditEntry, times: &mut Option<TimeColumn>, values: ValueStyle) -> Row {
    let when = Times {
        source: entry.when,
        engine: entry.when,
        local: entry.when,
    };
    let time = times.as_mut().map(|times| times.text(&entry.name, when));
    let cells = vec![
        time.unwrap_or_default(),
        entry.who.clone(),
        entry.from.clone(),
        entry.action.to_string(),
        entry.name.clone(),
        entry.old.clone(),
        entry.new.clone(),
        entry.outcome.to_string(),
    ];
    Row {
        cells,
        object: object(entry, values),
        mood: match entry.outcome {
            AuditOutcome::Refused(_) | AuditOutcome::Lost(_) => Mood::Bad,
            AuditOutcome::Unknown(_) => Mood::Uncertain,
            _ => Mood::Plain,
        },
    }
}

fn object(entry: &AuditEntry, values: ValueStyle) -> Object {
    let mut object = Object::new();
    object.put("number", values.json_u64(entry.number));
    object.put("ts", entry.when.to_string());
    object.put("who", entry.who.as_str());
    object.put("from", entry.from.as_str());
    object.put("action", entry.action.to_string());
    object.put_text("name", &entry.name);
    object.put_text("type", &entry.data_type);
    object.put_text("old", &entry.old);
    object.put_text("new", &entry.new);
    object.put("outcome", entry.outcome.name());
    match &entry.outcome {
        AuditOutcome::Applied(position) | AuditOutcome::Unchanged(position) => {
            object.put("epoch", values.json_u64(position.epoch));
            object.put("seq", values.json_u64(position.sequence));
        }
        AuditOutcome::Refused(sentence) | AuditOutcome::Unknown(sentence) => {
            object.put("message", sentence.as_str());
        }
        AuditOutcome::Lost(count) => object.put("lost", values.json_u64(*count)),
        AuditOutcome::Done => {}
    }
    object
}

/// Returns the pattern of a library: everything in it, and the library itself.
fn whole_library(text: &str) -> String {
    match text.contains(['/', '*']) || text.is_empty() {
        true => text.to_owned(),
        false => format!("{text}/**"),
    }
}

fn instant(text: &str, context: &Context) -> Result<Timestamp, Problem> {
    let time = context.now().parse(text);
    time.ok_or_else(|| Problem::usage(&format!("--since \"{text}\" is not a time; {FORMS}")))
}

fn bad_pattern(error: trunkline_types::pattern::PatternError) -> Problem {
    Problem::new(Exit::SomeFailed, "bad-pattern", &error.to_string())
}
