//! `alarm journal`: shows the recorded alarm changes.

use serde_json::Value as Json;
use trunkline_types::Timestamp;
use trunkline_types::alarm::{
    AlarmChange, AlarmEntry, AlarmEvent, AlarmJournalQuery, AlarmState, AlarmStatus, JournalEvent,
};
use trunkline_types::permitted::PermittedNames;

use super::parse_state;
use crate::arguments::number;
use crate::connection::Connection;
use crate::output::record::{JsonSchema, Record, Serialize};
use crate::output::times::TimeColumn;
use crate::output::values::{ValueStyle, WideInt};
use crate::terminal::Style;
use crate::verbs::audit::{parse_time, pattern_of};
use crate::{CliError, Context, Exit};

/// Show which alarms changed, when, and who changed them
///
/// The engine records when an alarm is raised, cleared, acknowledged or reset, and when shelving,
/// suppression or time out of service begins or ends. The oldest entries come first.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Only alarms of this variable, of the variables of this library, or of variables that match a
    /// pattern such as 'boiler/*'
    #[arg(value_name = "PATTERN")]
    pattern: Option<String>,

    /// Only entries since this time, such as 2026-11-21T08:00, 14:30, today, yesterday, 10m or
    /// "2 hours ago"
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    since: Option<String>,

    /// Only entries before this time
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    until: Option<String>,

    /// Only alarms in this area
    #[arg(long, value_name = "AREA")]
    area: Option<String>,

    /// Only alarms of this priority or higher, 1 to 1000
    #[arg(long, value_name = "N", value_parser = number::<u16>(1..=1000))]
    priority: Option<u16>,

    /// Only changes to this state, such as unacknowledged or shelved; may be given several times
    #[arg(long, value_name = "STATE", value_parser = parse_state)]
    state: Vec<AlarmState>,

    /// Only the last N entries
    #[arg(
        long,
        value_name = "N",
        value_parser = number::<u32>(1..=4_294_967_295),
        allow_negative_numbers = true
    )]
    last: Option<u32>,
}

/// A line of `alarm journal`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "Trunkline alarm journal entry, version 1")]
pub(crate) struct Entry {
    /// Number of the entry: one more than that of the previous entry, even after a restart of an
    /// engine with a store. Left out with present. A string with --int-strings.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    number: Option<WideInt>,
    /// Time of the change, by the engine's clock, UTC, nanoseconds.
    #[schemars(extend("format" = "date-time"))]
    ts: String,
    /// raise, clear, acknowledge, reset, shelve, unshelve, suppress, unsuppress,
    /// take-out-of-service, return-to-service; lost: changes that are missing here; removed: the
    /// oldest entries were removed. With `monitor --alarms` also present: the state of the alarm when
    /// the command began.
    event: String,
    /// Name of the variable. Left out with lost and removed.
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
    /// Name of the alarm. Left out with lost and removed.
    #[serde(skip_serializing_if = "String::is_empty")]
    alarm: String,
    /// State of the alarm before the change. Left out with lost and removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<&'static str>,
    /// State of the alarm after the change. Left out with lost and removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'static str>,
    /// Whether the condition of the alarm was met after the change. Left out with lost and removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    active: Option<bool>,
    /// Priority of the alarm, 1 to 1000. Left out with lost and removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    priority: Option<u16>,
    /// Area of the alarm. Left out if it has none.
    #[serde(skip_serializing_if = "String::is_empty")]
    area: String,
    /// Description of the alarm.
    #[serde(skip_serializing_if = "String::is_empty")]
    description: String,
    /// The principal of the operator. Left out if the engine changed the state.
    #[serde(skip_serializing_if = "String::is_empty")]
    who: String,
    /// The operator's comment; with removed, a description of the removed entries.
    #[serde(skip_serializing_if = "String::is_empty")]
    comment: String,
    /// The value when the alarm was last raised. Left out if it is not a number.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Json>,
    /// The limit or the setpoint at that time.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<Json>,
    /// Time at which the alarm was last raised.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    raised: Option<String>,
    /// Time at which the process returned to normal.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    cleared: Option<String>,
    /// Time at which the alarm was acknowledged.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    acknowledged: Option<String>,
    /// Principal that acknowledged the alarm.
    #[serde(skip_serializing_if = "String::is_empty")]
    by: String,
    /// Time at which the shelving ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    shelved_until: Option<String>,
    /// With lost: number of changes that are missing here. With removed: number of entries. A string
    /// with --int-strings.
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<WideInt>,
    /// Cells for people: the time, and the value with its limit.
    #[serde(skip)]
    texts: [(&'static str, String); 2],
}

impl Record for Entry {
    const COLUMNS: &'static [&'static str] = &[
        "time", "name", "alarm", "event", "state", "priority", "value", "who", "comment",
    ];

    fn texts(&self) -> &[(&'static str, String)] {
        &self.texts
    }

    fn style(&self) -> Style {
        match &*self.event {
            "raise" | "lost" => Style::Bad,
            _ => Style::Plain,
        }
    }
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, CliError> {
    let (targets, pattern) = pattern_of(args.pattern.as_ref(), context)?;
    let mut query = AlarmJournalQuery {
        since: parse_time("--since", args.since.as_ref(), context)?,
        until: parse_time("--until", args.until.as_ref(), context)?,
        pattern,
        area: args.area.clone().unwrap_or_default(),
        priority_min: args.priority.unwrap_or(0),
        states: args.state.clone(),
        newest_first: args.last.is_some(),
        limit: args.last.unwrap_or(0),
        from: None,
        permitted: PermittedNames::default(),
    };
    let connection = Connection::new(&targets.engine, context)?;
    let mut table = context.table::<Entry>()?;
    let mut times = context.settings.times.column(true, context.started);
    let mut has_entries = false;
    loop {
        let mut page = connection.call(|client, wait| client.alarm_journal(query.clone(), wait))?;
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
            // Programs detect removed entries by their numbers. Removal is not reported for a query of the
            // last entries, or with a start time.
            let is_unlimited = query.since.is_none() && !query.newest_first;
            let state = &page.state;
            if !has_entries {
                let note = format!("no matching entries; {state}");
                context.terminal.note(&note)?;
            } else if page.removed > 0 && is_unlimited {
                let removed = page.removed;
                let note = format!("the oldest {removed} entries have been removed; {state}");
                context.terminal.note(&note)?;
            }
            return Ok(Exit::Success);
        }
    }
}

impl Entry {
    /// Returns an entry for the current state of an alarm, without a change.
    pub(crate) fn present(
        alarm: &AlarmStatus,
        now: Timestamp,
        times: &mut Option<TimeColumn>,
        values: ValueStyle,
    ) -> Self {
        let change = AlarmChange {
            when: alarm.record.raised.unwrap_or(now),
            event: AlarmEvent::Raise,
            from: alarm.record.state,
            who: String::new(),
            comment: alarm.record.comment.clone(),
            status: alarm.clone(),
        };
        Self {
            number: None,
            event: "present".to_owned(),
            from: None,
            ..Self::new(&AlarmEntry::of_change(0, &change), times, values)
        }
    }

    pub(crate) fn new(
        entry: &AlarmEntry,
        times: &mut Option<TimeColumn>,
        values: ValueStyle,
    ) -> Self {
        let record = &entry.record;
        let time = times
            .as_mut()
            .map(|times| times.text(&entry.variable, entry.when.into()));
        let is_of_alarm = matches!(entry.event, JournalEvent::Alarm(_) | JournalEvent::Other(_));
        let text = |time: Option<Timestamp>| time.map(|time| time.to_string());
        let value = match (record.value, record.operand) {
            (Some(value), Some(operand)) => format!("{value} ({operand})"),
            (Some(value), None) => value.to_string(),
            (None, _) => String::new(),
        };
        Self {
            number: Some(values.int_or_text(entry.number)),
            ts: entry.when.to_string(),
            event: match entry.event {
                JournalEvent::Other(number) => format!("event {number}"),
                event => event.name().to_owned(),
            },
            name: entry.variable.clone(),
            alarm: entry.alarm.clone(),
            from: is_of_alarm.then(|| entry.from.name()),
            state: is_of_alarm.then(|| record.state.name()),
            active: is_of_alarm.then_some(record.is_active),
            priority: is_of_alarm.then_some(entry.priority),
            area: entry.area.clone(),
            description: entry.description.clone(),
            who: entry.who.clone(),
            comment: entry.comment.clone(),
            value: record.value.map(Json::from),
            limit: record.operand.map(Json::from),
            raised: text(record.raised),
            cleared: text(record.cleared),
            acknowledged: text(record.acknowledged),
            by: record.acknowledged_by.clone(),
            shelved_until: text(record.shelved_until),
            count: match entry.event {
                JournalEvent::Lost(count) | JournalEvent::Removed(count) => {
                    Some(values.int_or_text(count))
                }
                JournalEvent::Alarm(_) | JournalEvent::Other(_) => None,
            },
            texts: [("time", time.unwrap_or_default()), ("value", value)],
        }
    }
}
