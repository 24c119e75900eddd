//! `alarm report`: summarises the alarm load.

use std::fmt::Write as _;
use std::time::Duration;

use trunkline::AlarmQuery;
use trunkline_alarm::report::{FLOOD_ABOVE, Report as Figures};
use trunkline_types::Timestamp;
use trunkline_types::alarm::{AlarmEvent, AlarmJournalQuery, AlarmStatus, JournalEvent};

use crate::connection::Connection;
use crate::output::record::{JsonSchema, Record, Serialize};
use crate::terminal::Style;
use crate::verbs::audit::{parse_time, pattern_of};
use crate::{CliError, Context, Exit};

/// An alarm that is active for longer than this time is a standing alarm.
const STANDING: Duration = Duration::from_secs(24 * 3600);

/// Summarise the alarm load, and list nuisance alarms
///
/// The command counts the alarms raised since the given time, as recorded in the alarm journal, and
/// the alarms that are now active, unacknowledged or hidden. An operator can handle about one alarm in ten minutes; more than ten in ten
/// minutes are an alarm flood.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Only alarms of this variable, of the variables of this library, or of variables that match a
    /// pattern such as 'boiler/*'
    #[arg(value_name = "PATTERN")]
    pattern: Option<String>,

    /// Count alarms since this time, such as 2026-11-21T08:00, today or 8h
    #[arg(
        long,
        value_name = "TIME",
        default_value = "24h",
        allow_hyphen_values = true
    )]
    since: String,

    /// Only alarms in this area
    #[arg(long, value_name = "AREA")]
    area: Option<String>,
}

/// The output of `alarm report`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "Trunkline alarm report, version 1")]
pub(crate) struct Report {
    /// Start of the reported period.
    #[schemars(extend("format" = "date-time"))]
    since: String,
    /// End of the reported period: the current time.
    #[schemars(extend("format" = "date-time"))]
    until: String,
    /// Number of alarms raised in this period.
    raised: u64,
    /// Alarms raised in ten minutes, on average.
    per_10_minutes: f64,
    /// Alarms raised in the busiest ten minutes.
    peak_10_minutes: u64,
    /// Periods in which too many alarms were raised.
    floods: Vec<Flood>,
    /// Alarms that are active now.
    active: u64,
    /// Alarms that are unacknowledged now.
    unacknowledged: u64,
    /// Alarms that are shelved, suppressed by design or out of service now.
    hidden: u64,
    /// Alarms that have been active for more than 24 hours.
    standing: Vec<String>,
    /// Alarms that were raised three times or more within a minute, the worst first.
    chattering: Vec<Count>,
    /// The alarms raised most often, at most ten.
    worst: Vec<Count>,
    /// Number of changes that are missing from the journal.
    lost: u64,
}

/// A period in which too many alarms were raised.
#[derive(Debug, Serialize, JsonSchema)]
struct Flood {
    /// Start of the flood.
    #[schemars(extend("format" = "date-time"))]
    from: String,
    /// End of the flood.
    #[schemars(extend("format" = "date-time"))]
    until: String,
    /// Number of alarms raised.
    raised: u64,
}

/// How often an alarm was raised.
#[derive(Debug, Serialize, JsonSchema)]
struct Count {
    /// The alarm: NAME#ALARM.
    alarm: String,
    /// How often the alarm was raised, within a minute or in the whole period.
    raised: u64,
}

impl Record for Report {
    const COLUMNS: &'static [&'static str] = &["property", "value"];
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, CliError> {
    let (targets, pattern) = pattern_of(args.pattern.as_ref(), context)?;
    let since = parse_time("--since", Some(&args.since), context)?.unwrap_or(context.started);
    let until = context.started;
    let area = args.area.clone().unwrap_or_default();
    let connection = Connection::new(&targets.engine, context)?;
    let mut query = AlarmJournalQuery {
        since: Some(since),
        pattern: pattern.clone(),
        area: area.clone(),
        ..AlarmJournalQuery::default()
    };
    let (mut raises, mut lost) = (Vec::new(), 0);
    loop {
        let page = connection.call(|client, wait| client.alarm_journal(query.clone(), wait))?;
        for entry in page.entries {
            match entry.event {
                // No operator sees an alarm that is hidden when it is raised.
                JournalEvent::Alarm(AlarmEvent::Raise) if !entry.record.state.is_hidden() => {
                    raises.push((entry.when, format!("{}#{}", entry.variable, entry.alarm)));
                }
                JournalEvent::Lost(count) => lost += count,
                JournalEvent::Alarm(_) | JournalEvent::Removed(_) | JournalEvent::Other(_) => {}
            }
        }
        query.from = page.next;
        if page.next.is_none() {
            break;
        }
    }
    let query = AlarmQuery {
        pattern,
        area,
        states: super::not_normal(),
        ..AlarmQuery::default()
    };
    let alarms = connection.call(|client, wait| client.alarms(query.clone(), wait))?;
    let report = Report::new(
        Figures::compute(raises, since, until),
        &alarms,
        (since, until),
        lost,
    );
    context.print_details(&report, report.properties(context))?;
    Ok(Exit::Success)
}

impl Report {
    fn new(
        figures: Figures<String>,
        alarms: &[AlarmStatus],
        (since, until): (Timestamp, Timestamp),
        lost: u64,
    ) -> Self {
        let counts = |list: Vec<(String, u64)>| {
            let counts = list.into_iter();
            counts
                .map(|(alarm, raised)| Count { alarm, raised })
                .collect()
        };
        let count = |is_counted: fn(&AlarmStatus) -> bool| {
            alarms.iter().filter(|alarm| is_counted(alarm)).count() as u64
        };
        let standing_nanos = STANDING.as_nanos() as i64;
        let is_standing = |alarm: &&AlarmStatus| {
            let raised = alarm.record.raised.filter(|_| alarm.record.is_active);
            raised.is_some_and(|raised| until.as_nanos() - raised.as_nanos() > standing_nanos)
        };
        let standing = alarms.iter().filter(is_standing);
        Self {
            since: since.to_string(),
            until: until.to_string(),
            raised: figures.raised,
            per_10_minutes: figures.average,
            peak_10_minutes: figures.peak,
            floods: figures
                .floods
                .iter()
                .map(|flood| Flood {
                    from: flood.from.to_string(),
                    until: flood.until.to_string(),
                    raised: flood.raised,
                })
                .collect(),
            active: count(|alarm| alarm.record.is_active),
            unacknowledged: count(|alarm| alarm.record.state.is_unacknowledged()),
            hidden: count(|alarm| alarm.record.state.is_hidden()),
            standing: standing
                .map(|alarm| format!("{}#{}", alarm.variable, alarm.definition.name))
                .collect(),
            chattering: counts(figures.chattering),
            worst: counts(figures.worst),
            lost,
        }
    }

    /// Returns the properties to show to people.
    fn properties(&self, context: &Context) -> Vec<(&'static str, String, Style)> {
        let times = context.settings.times.column(true, context.started);
        let time = |text: &str| match (&times, trunkline_types::text::parse_rfc3339(text)) {
            (Some(times), Ok(time)) => times.absolute(time),
            _ => text.to_owned(),
        };
        let list = |counts: &[Count]| {
            let mut text = String::new();
            for Count { alarm, raised } in counts {
                let separator = if text.is_empty() { "" } else { ", " };
                let _ = write!(text, "{separator}{alarm} {raised}");
            }
            text
        };
        let floods: Vec<String> = self
            .floods
            .iter()
            .map(|flood| {
                let (from, until) = (time(&flood.from), time(&flood.until));
                format!("{} from {from} to {until}", flood.raised)
            })
            .collect();
        let bad_if = |is_bad: bool| if is_bad { Style::Bad } else { Style::Plain };
        vec![
            ("since", time(&self.since), Style::Plain),
            ("raised", self.raised.to_string(), Style::Plain),
            (
                "per 10 min",
                format!("{:.2}", self.per_10_minutes),
                Style::Plain,
            ),
            (
                "peak in 10 min",
                self.peak_10_minutes.to_string(),
                bad_if(self.peak_10_minutes > FLOOD_ABOVE),
            ),
            ("floods", floods.join("; "), Style::Bad),
            ("active", self.active.to_string(), Style::Plain),
            (
                "unacknowledged",
                self.unacknowledged.to_string(),
                Style::Plain,
            ),
            ("hidden", self.hidden.to_string(), Style::Plain),
            ("standing", self.standing.join(", "), Style::Warning),
            ("chattering", list(&self.chattering), Style::Warning),
            ("worst", list(&self.worst), Style::Plain),
            (
                "lost",
                if self.lost > 0 {
                    self.lost.to_string()
                } else {
                    String::new()
                },
                Style::Bad,
            ),
        ]
    }
}
