//! `alarm`: lists alarms, carries out the actions of operators, and shows the journal and a report.

mod journal;
mod report;

use std::time::Duration;

use serde_json::Value as Json;
use trunkline::{AlarmName, AlarmQuery};
use trunkline_types::Pattern;
use trunkline_types::alarm::{AlarmAction, AlarmState, AlarmStatus};

use crate::arguments::{number, positive_duration};
use crate::connection::{Connection, writing_fault};
use crate::output::record::{JsonSchema, Record, Serialize, Table};
use crate::output::times::TimeColumn;
use crate::targets::{self, Target};
use crate::terminal::Style;
use crate::{CliError, Context, Exit, Problem, Tally};

pub(crate) use self::journal::Entry;
pub(crate) use self::report::Report;

/// List, acknowledge, reset and shelve alarms, and show their journal
#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum Subcommand {
    Ls(ListArgs),
    /// Acknowledge alarms
    ///
    /// Alarms that need no acknowledgement are not changed. If the engine refuses any of the others,
    /// the exit code is 6.
    Ack(ActArgs),
    /// Reset latched alarms
    ///
    /// The process must be normal again, and the alarm acknowledged.
    Reset(ActArgs),
    Shelve(ShelveArgs),
    /// Show shelved alarms again
    ///
    /// An alarm whose condition is met is then unacknowledged.
    Unshelve(ActArgs),
    /// Take alarms out of service until they are enabled again
    ///
    /// The engine still evaluates them, but does not show them.
    Disable(ActArgs),
    /// Return alarms to service
    ///
    /// An alarm whose condition is met is then unacknowledged.
    Enable(ActArgs),
    Journal(journal::Args),
    Report(report::Args),
}

/// List alarms that are not normal
///
/// Active alarms come first. Within each group, the most urgent come first. `get` and `monitor` show
/// one property of an alarm as a field, such as boiler/level#alarm.hi.state.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    selection: Selection,

    /// Also list alarms that are normal
    #[arg(long, conflicts_with = "state")]
    all: bool,

    /// Only alarms in this state, such as unacknowledged or shelved; may be given several times
    #[arg(long, value_name = "STATE", value_parser = parse_state)]
    state: Vec<AlarmState>,
}

/// The alarms that a subcommand applies to.
#[derive(Clone, Debug, clap::Args)]
struct Selection {
    /// Variables, as names or patterns such as 'boiler/**'; NAME#ALARM is one alarm of a variable.
    /// Without NAME, the alarms of all variables
    #[arg(value_name = "NAME")]
    names: Vec<String>,

    /// Only alarms in this area
    #[arg(long, value_name = "AREA")]
    area: Option<String>,

    /// Only alarms of this priority or higher, 1 to 1000
    #[arg(long, value_name = "N", value_parser = number::<u16>(1..=1000))]
    priority: Option<u16>,
}

/// Help for NAME of the actions, which require a selection so that no action applies to all alarms by
/// mistake.
const NAMES_TO_ACT_ON: &str = "Variables, as names or patterns such as 'boiler/**'; NAME#ALARM is one \
                               alarm of a variable. Can be left out with --area or --priority";

// The alarms that an action applies to.
#[derive(Clone, Debug, clap::Args)]
#[command(mut_args(|arg| match arg.get_id().as_str() {
    "names" => arg.help(NAMES_TO_ACT_ON),
    _ => arg,
}))]
pub(crate) struct ActArgs {
    #[command(flatten)]
    selection: Selection,

    /// Comment to show with the alarm
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,
}

/// Hide alarms for a limited time
///
/// A shelved alarm is shown again when the time is up, or with `unshelve`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ShelveArgs {
    #[command(flatten)]
    act: ActArgs,

    /// Time for which the alarms are hidden, such as 30m or 8h, up to 30 days (a bare number is
    /// seconds)
    #[arg(
        long = "for",
        value_name = "TIME",
        value_parser = positive_duration,
        allow_hyphen_values = true
    )]
    duration: Duration,
}

/// A line of `alarm ls`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "Trunkline alarm, version 1")]
pub(crate) struct Alarm {
    /// Name of the variable.
    name: String,
    /// The alarm, unique within the variable.
    alarm: String,
    /// Kind of the alarm: hi_hi, hi, lo, lo_lo, deviation, rate, discrete, bits, bad_quality or stale.
    kind: &'static str,
    /// State of the alarm.
    #[schemars(extend("enum" = [
        "normal", "unacknowledged", "acknowledged", "returned-unacknowledged",
        "latched-unacknowledged", "latched-acknowledged", "shelved", "suppressed-by-design",
        "out-of-service"
    ]))]
    state: &'static str,
    /// Whether the condition of the alarm is met.
    active: bool,
    /// 1 to 1000; 1000 is the most urgent.
    #[schemars(range(min = 1, max = 1000))]
    priority: u16,
    /// Area of the alarm. Left out if it has none.
    #[serde(skip_serializing_if = "String::is_empty")]
    area: String,
    /// The value when the alarm was last raised. Left out if it was never raised, or if the value is not
    /// a number.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Json>,
    /// Current limit or setpoint of the alarm. Left out if it has none, or if it is not known yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<Json>,
    /// Time at which the alarm was last raised. Left out if it was never raised.
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
    /// The operator's last comment.
    #[serde(skip_serializing_if = "String::is_empty")]
    comment: String,
    /// Time at which the shelving ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    shelved_until: Option<String>,
    /// Description of the alarm.
    #[serde(skip_serializing_if = "String::is_empty")]
    description: String,
    /// Recommended action of the operator.
    #[serde(skip_serializing_if = "String::is_empty")]
    help: String,
    /// Cells for people: when the alarm was raised, and the value with the limit.
    #[serde(skip)]
    texts: [(&'static str, String); 2],
}

impl Record for Alarm {
    const COLUMNS: &'static [&'static str] = &[
        "name", "alarm", "state", "priority", "since", "value", "area", "help",
    ];

    fn texts(&self) -> &[(&'static str, String)] {
        &self.texts
    }

    fn style(&self) -> Style {
        match (self.active, self.state) {
            (true, "unacknowledged") => Style::Bad,
            (true, "acknowledged") => Style::Warning,
            _ => Style::Plain,
        }
    }
}

/// A line of `alarm ack`, `reset`, `shelve`, `unshelve`, `disable` and `enable`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "Trunkline action on an alarm, version 1")]
pub(crate) struct Acted {
    /// Name of the variable.
    name: String,
    /// Name of the alarm.
    alarm: String,
    /// State of the alarm after the action.
    state: &'static str,
}

impl Record for Acted {
    const COLUMNS: &'static [&'static str] = &["name", "alarm", "state"];
    const IS_HEADED: bool = false;
}

/// Selects alarms by the name of their variable, and optionally by their own name.
#[derive(Debug)]
struct AlarmSelector {
    pattern: Option<Pattern>,
    alarm: Option<String>,
    /// The operand as the user wrote it.
    operand: String,
}

pub(crate) fn run(command: &Subcommand, context: &Context) -> Result<Exit, CliError> {
    match command {
        Subcommand::Ls(args) => list(args, context),
        Subcommand::Ack(args) => act(args, AlarmAction::Acknowledge, context),
        Subcommand::Reset(args) => act(args, AlarmAction::Reset, context),
        Subcommand::Shelve(args) => act(&args.act, AlarmAction::Shelve(args.duration), context),
        Subcommand::Unshelve(args) => act(args, AlarmAction::Unshelve, context),
        Subcommand::Disable(args) => act(args, AlarmAction::TakeOutOfService, context),
        Subcommand::Enable(args) => act(args, AlarmAction::ReturnToService, context),
        Subcommand::Journal(args) => journal::run(args, context),
        Subcommand::Report(args) => report::run(args, context),
    }
}

fn list(args: &ListArgs, context: &Context) -> Result<Exit, CliError> {
    let states = match (args.all, args.state.is_empty()) {
        (true, _) => Vec::new(),
        (false, false) => args.state.clone(),
        (false, true) => not_normal(),
    };
    let (_, mut alarms, missing) = selected(&args.selection, states, context)?;
    table_of(&mut alarms, context)?.finish()?;
    if alarms.is_empty() && missing.is_empty() {
        let sentence = match args.all {
            true => "no alarms; set `alarm` in the configuration of a variable to add one",
            false => "all alarms are normal; use --all to list them",
        };
        context.terminal.note(sentence)?;
    }
    Ok(Exit::Success)
}

/// Returns a table of the alarms: active ones first, then by priority and time.
pub(crate) fn table_of(alarms: &mut [AlarmStatus], context: &Context) -> Result<Table, CliError> {
    alarms.sort_by_key(|alarm| {
        let priority = std::cmp::Reverse(alarm.definition.priority);
        (!alarm.record.is_active, priority, alarm.record.raised)
    });
    let mut table = context.table::<Alarm>()?;
    let mut times = context.settings.times.column(true, context.started);
    for alarm in alarms {
        table.push(&line(alarm, &mut times))?;
    }
    Ok(table)
}

fn not_normal() -> Vec<AlarmState> {
    let states = AlarmState::ALL.into_iter();
    states
        .filter(|state| *state != AlarmState::Normal)
        .collect()
}

/// Returns the connection, the alarms that the operands select, and the operands that select none.
fn selected(
    selection: &Selection,
    states: Vec<AlarmState>,
    context: &Context,
) -> Result<(Connection, Vec<AlarmStatus>, Vec<String>), CliError> {
    let names = selection.names.iter();
    let parts = names.map(|name| name.split_once('#').unwrap_or((name, "")));
    let (names, alarms): (Vec<&str>, Vec<&str>) = parts.unzip();
    let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
    let targets = targets::resolve(&names, &context.settings)?;
    let mut selectors = Vec::new();
    for ((target, alarm), operand) in targets.list.into_iter().zip(alarms).zip(&selection.names) {
        let pattern = match target {
            Target::Pattern(pattern) => pattern,
            Target::Name(name) => Pattern::parse(&name)
                .map_err(|error| Problem::failed("bad-pattern", error.to_string()))?,
            Target::Invalid(problem) => return Err(problem.without_name().into()),
        };
        let alarm = alarm.strip_prefix("alarm.").unwrap_or(alarm);
        selectors.push(AlarmSelector {
            pattern: Some(pattern),
            alarm: (!alarm.is_empty()).then(|| alarm.to_owned()),
            operand: operand.clone(),
        });
    }
    if selectors.is_empty() {
        selectors.push(AlarmSelector {
            pattern: None,
            alarm: None,
            operand: String::new(),
        });
    }
    let connection = Connection::new(&targets.engine, context)?;
    let (mut found, mut missing): (Vec<AlarmStatus>, _) = (Vec::new(), Vec::new());
    for selector in selectors {
        let query = AlarmQuery {
            pattern: selector.pattern,
            area: selection.area.clone().unwrap_or_default(),
            priority_min: selection.priority.unwrap_or(0),
            states: states.clone(),
        };
        let alarms = connection.call(|client, wait| client.alarms(query.clone(), wait))?;
        let count_before = found.len();
        for alarm in alarms {
            let selected = selector.alarm.as_ref();
            let is_selected = selected.is_none_or(|name| *name == alarm.definition.name);
            if is_selected && !found.iter().any(|listed| is_same(listed, &alarm)) {
                found.push(alarm);
            }
        }
        if found.len() == count_before && !selector.operand.is_empty() {
            missing.push(selector.operand);
        }
    }
    Ok((connection, found, missing))
}

fn is_same(left: &AlarmStatus, right: &AlarmStatus) -> bool {
    left.handle == right.handle && left.definition.name == right.definition.name
}

/// Returns the states in which an action applies to an alarm.
fn states_for(action: AlarmAction) -> Vec<AlarmState> {
    let applies = |state: &AlarmState| match action {
        AlarmAction::Acknowledge => state.is_unacknowledged(),
        AlarmAction::Reset => *state == AlarmState::LatchedAcknowledged,
        AlarmAction::Shelve(_) => !state.is_hidden(),
        AlarmAction::Unshelve => *state == AlarmState::Shelved,
        AlarmAction::TakeOutOfService => *state != AlarmState::OutOfService,
        AlarmAction::ReturnToService => *state == AlarmState::OutOfService,
    };
    AlarmState::ALL.into_iter().filter(applies).collect()
}

/// Returns the message for a selection without an alarm in one of the states of [`states_for`].
fn no_match(action: AlarmAction) -> &'static str {
    match action {
        AlarmAction::Acknowledge => "no unacknowledged alarm matches",
        AlarmAction::Reset => "no acknowledged latched alarm matches",
        AlarmAction::Shelve(_) => "no alarm that can be shelved matches",
        AlarmAction::Unshelve => "no shelved alarm matches",
        AlarmAction::TakeOutOfService => "no alarm in service matches",
        AlarmAction::ReturnToService => "no alarm out of service matches",
    }
}

fn act(args: &ActArgs, action: AlarmAction, context: &Context) -> Result<Exit, CliError> {
    let selection = &args.selection;
    if selection.names.is_empty() && selection.area.is_none() && selection.priority.is_none() {
        let sentence =
            "no alarms selected; specify NAME, NAME#ALARM, a pattern, --area or --priority";
        return Err(Problem::usage(sentence).into());
    }
    let (connection, alarms, missing) = selected(selection, states_for(action), context)?;
    let names: Vec<AlarmName> = alarms.iter().map(AlarmName::from).collect();
    let comment = args.comment.as_deref().unwrap_or_default();
    let results = connection
        .call(|client, wait| client.act_on_alarms(names.clone(), action, comment, wait))?;
    let mut table = context.table::<Acted>()?;
    let mut tally = Tally::default();
    let mut problems = Vec::new();
    for (name, result) in names.into_iter().zip(results) {
        match result {
            Ok(state) => table.push(&Acted {
                name: name.variable,
                alarm: name.alarm,
                state: state.name(),
            })?,
            Err(fault) => problems.push((name, fault)),
        }
    }
    table.finish()?;
    for (name, fault) in problems {
        let name = format!("{}#{}", name.variable, name.alarm);
        let problem = writing_fault(&fault).with_name(&name);
        tally.item_failed(problem.exit);
        context.terminal.problem(&problem, 0)?;
    }
    let no_match = no_match(action);
    for operand in missing {
        let hint = "`trunkline alarm ls --all` lists all alarms and their states";
        tally.item_failed(Exit::Failed);
        let problem = Problem::failed("no-match", format!("{no_match}; {hint}"));
        context.terminal.problem(&problem.with_name(&operand), 0)?;
    }
    if alarms.is_empty() && selection.names.is_empty() {
        context.terminal.note(no_match)?;
    }
    Ok(tally.exit())
}

fn line(status: &AlarmStatus, times: &mut Option<TimeColumn>) -> Alarm {
    let AlarmStatus {
        definition, record, ..
    } = status;
    let since = record.raised.and_then(|raised| {
        let times = times.as_mut()?;
        Some(times.text(&status.variable, raised.into()))
    });
    let value = match (record.value, record.operand) {
        (Some(value), Some(operand)) => format!("{value} ({operand})"),
        (Some(value), None) => value.to_string(),
        (None, _) => String::new(),
    };
    let text = |time: Option<trunkline_types::Timestamp>| time.map(|time| time.to_string());
    Alarm {
        name: status.variable.clone(),
        alarm: definition.name.clone(),
        kind: definition.kind.name(),
        state: record.state.name(),
        active: record.is_active,
        priority: definition.priority,
        area: definition.area.clone(),
        value: record.value.map(Json::from),
        limit: status.operand.map(Json::from),
        raised: text(record.raised),
        cleared: text(record.cleared),
        acknowledged: text(record.acknowledged),
        by: record.acknowledged_by.clone(),
        comment: record.comment.clone(),
        shelved_until: text(record.shelved_until),
        description: definition.description.clone(),
        help: definition.help.clone(),
        texts: [("since", since.unwrap_or_default()), ("value", value)],
    }
}

fn parse_state(text: &str) -> Result<AlarmState, String> {
    AlarmState::from_name(text).ok_or_else(|| {
        let names = AlarmState::ALL.map(AlarmState::name).join(", ");
        format!("it must be one of {names}")
    })
}
