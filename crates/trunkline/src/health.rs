//! Publishes the engine's health as variables of the library `_engine`. They are read-only and
//! never stored. Only patterns that begin with `_` list them.
//!
//! In each period, the housekeeping thread examines a slice of all variables, and writes the health
//! values that have changed.

use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use trunkline_engine::fields::FIELDS_MAX;
use trunkline_engine::health::{Totals, TotalsCounter};
use trunkline_engine::{Caller, Engine as Core, Origin, Wakes, Write};
use trunkline_types::alarm::{AlarmDefinition, AlarmKind, AlarmState};
use trunkline_types::{
    Access, DataType, LibraryDefinition, Properties, Quality, Reason, Tick, Timestamp, Value,
    VariableDefinition,
};

use crate::deployments::{Deployments, LibraryError, lock};
use crate::logins::Logins;
use crate::sessions::Facts;

/// Maximum number of alarms in ten minutes; more of them are an alarm flood (ISA-18.2).
const FLOOD_THRESHOLD: u64 = 10;

/// The alarm of the certificate is raised this many days before its end. The engine renews its
/// certificate 30 days before, so the alarm of that certificate means that renewal fails.
const EXPIRING_DAYS: f64 = 29.9;
const NANOS_PER_DAY: f64 = 86_400e9;

pub(crate) const LIBRARY: &str = "_engine";
/// Variables examined per period.
const CENSUS_SLICE: usize = 50_000;
/// Number of periods between counts after a count that found no writes.
const IDLE_PERIODS: u32 = 4;

/// A variable of the library: its definition and its current value. The value is `None` if this
/// system does not provide it.
struct Row {
    path: &'static str,
    data_type: DataType,
    units: &'static str,
    description: &'static str,
    value: Option<Value>,
}

/// Rows of type, path, unit, description and value, which may be an `Option`.
macro_rules! rows {
    ($($type:ident $path:literal $units:literal $description:literal = $value:expr;)*) => {
        vec![$(Row {
            path: $path,
            data_type: DataType::$type,
            units: $units,
            description: $description,
            value: Into::<Option<_>>::into($value).map(Value::$type),
        }),*]
    };
}

pub(crate) struct Health {
    core: Core,
    facts: Arc<Facts>,
    deployments: Weak<Deployments>,
    logins: Arc<Logins>,
    period: Duration,
    started: Tick,
    /// Handles in the order of the rows, once the library is deployed.
    handles: OnceLock<Vec<u32>>,
    state: Mutex<State>,
}

/// State carried over from earlier periods.
#[derive(Default)]
struct State {
    due: Option<Tick>,
    census: TotalsCounter,
    totals: Totals,
    /// Time of the last census, and the number of updates counted by then.
    last_count: Option<(Tick, u64)>,
    /// Periods to skip until the next count, after a count that found no writes.
    periods_to_skip: u32,
    /// Updates of all variables per second.
    rate: f64,
    /// Time of the last measurement, and the processor time used by then.
    cpu: Option<(Tick, Duration)>,
    /// The values that were written last, in the order of the rows.
    written: Vec<Option<Value>>,
}

impl Health {
    pub(crate) fn new(
        core: &Core,
        facts: &Arc<Facts>,
        deployments: &Arc<Deployments>,
        logins: &Arc<Logins>,
        period: Duration,
        started: Tick,
    ) -> Self {
        Self {
            core: core.clone(),
            facts: Arc::clone(facts),
            deployments: Arc::downgrade(deployments),
            logins: Arc::clone(logins),
            period,
            started,
            handles: OnceLock::new(),
            state: Mutex::default(),
        }
    }

    /// Deploys the library with its first values.
    pub(crate) fn begin(&self, now: Tick, wall: Timestamp) -> Result<(), LibraryError> {
        let rows = self.rows(&mut State::default(), now, wall).into_iter();
        let variables = rows.map(|row| {
            let alarms = match row.path {
                "store/failing" => vec![failing("the store cannot be written")],
                "history/failing" => vec![failing("the history cannot be written")],
                "audit/full" => vec![failing("the audit has no room for further entries")],
                "insecure" => vec![failing(
                    "clients on other machines need neither encryption nor an identity",
                )],
                "security/failing" => vec![failing(
                    "the changed accounts cannot be used, or the certificate cannot be renewed",
                )],
                "security/expiring" => {
                    vec![failing(
                        "the certificate of the engine or its authority expires soon",
                    )]
                }
                _ => Vec::new(),
            };
            let properties = Properties {
                alarms,
                units: row.units.to_owned(),
                description: row.description.to_owned(),
                access: Access::ReadOnly,
                ..Properties::new(row.data_type)
            };
            VariableDefinition {
                path: row.path.to_owned(),
                properties: Arc::new(properties),
            }
        });
        let library = LibraryDefinition {
            name: LIBRARY.to_owned(),
            description: "The engine itself".to_owned(),
            variables: variables.collect(),
        };
        let handles = self.core.libraries().deploy(&library, now, wall)?;
        let _first = self.handles.set(handles);
        self.poll(now, wall);
        Ok(())
    }

    /// Measures if a measurement is due. Returns the time of the next measurement; `None` while the
    /// library is not deployed.
    pub(crate) fn poll(&self, now: Tick, wall: Timestamp) -> Option<Tick> {
        let handles = self.handles.get()?;
        let mut state = lock(&self.state);
        if let Some(due) = state.due.filter(|due| now < *due) {
            return Some(due);
        }
        let due = now.saturating_add(self.period);
        state.due = Some(due);
        state.count(&self.core, now);
        let rows = self.rows(&mut state, now, wall).into_iter();
        let values: Vec<_> = rows.map(|row| row.value).collect();
        let mut wakes = Wakes::new();
        for (index, (value, handle)) in values.iter().zip(handles).enumerate() {
            if state.written.get(index) != Some(value) {
                self.write(*handle, value.as_ref(), now, wall, &mut wakes);
            }
        }
        state.written = values;
        Some(due)
    }

    fn write(
        &self,
        handle: u32,
        value: Option<&Value>,
        now: Tick,
        wall: Timestamp,
        wakes: &mut Wakes,
    ) {
        let Some(variable) = self.core.variable(handle) else {
            return;
        };
        match value {
            Some(value) => {
                let mut write = Write::value(value);
                write.origin = Origin::Source;
                let caller = Caller::engine();
                // `try_write` cannot be stalled by a subscription. A forced variable stays forced.
                let _attempt = self
                    .core
                    .try_write(&caller, now, wall, &variable, &write, wakes);
            }
            None => {
                let quality = Quality::bad(Reason::NotSupported);
                self.core
                    .providers()
                    .set_quality(handle, quality, now, wall, wakes);
            }
        }
    }

    fn rows(&self, state: &mut State, now: Tick, wall: Timestamp) -> Vec<Row> {
        use trunkline_serve::EngineFacts as _;
        let (core, totals) = (&self.core, state.totals);
        let (lost, overruns) = core.health().lost_and_overruns();
        let clock = core.clock_steps();
        let (repaired, marked) = core.health().repaired_and_marked();
        let forced = core.forcing().page(&Caller::engine(), 0, 0);
        let deployments = self.deployments.upgrade();
        let alarms = core.alarms().figures(now);
        let (journal, journal_lost) = deployments
            .as_ref()
            .map_or((0, 0), |d| d.alarms().end_and_lost());
        let history = deployments.as_ref().and_then(|d| d.history());
        let recorded = history.map(|history| history.figures()).unwrap_or_default();
        let history_error = history.and_then(|history| history.error());
        let spooling = history.and_then(|history| history.spool_in_use());
        let history_state = match (history, &history_error) {
            (None, _) => "none",
            (Some(_), None) => "good",
            (Some(_), Some(_)) if spooling.is_some() => "spooling",
            (Some(_), Some(_)) => "failing",
        };
        let is_history_failing = history_error.is_some();
        let spool_fault = history.and_then(|history| history.spool()?.fault);
        let spool_error = spool_fault.map_or_else(String::new, |error| error.to_string());
        let history_error = history_error.map_or_else(String::new, |error| error.to_string());
        let (store, store_error) = deployments
            .as_ref()
            .map_or(("none", String::new()), |d| d.store_health());
        let audit = core.audit().figures();
        let audit_head = deployments.as_ref().map(|d| d.audit().head());
        let audit_head = audit_head.unwrap_or_default();
        let queue = core.health().queue_memory();
        let queued = queue.map_or(totals.queued_bytes, |queue| queue.used);
        let (slots, requests) = (core.slots(), &self.facts.requests);
        let security_error = self.logins.error();
        let valid_days = self.logins.valid_until().map(|until| {
            let nanos = until.as_nanos().saturating_sub(wall.as_nanos());
            (nanos as f64 / NANOS_PER_DAY * 10.0).round() / 10.0
        });
        rows! {
            F64 "uptime" "s" "Time since the engine started"
                = now.since(self.started).as_secs() as f64;
            U64 "epoch" "" "Identifies this start of the engine; compare for equality only" = core.epoch();
            U64 "sessions" "" "Open connections" = self.facts.sessions();
            U64 "sessions_max" "" "Maximum number of open connections" = self.facts.sessions_max();
            U64 "handshakes" "" "Connections whose client has not logged in yet" = self.facts.handshakes();
            U64 "handshakes_max" "" "Maximum number of such connections"
                = self.facts.handshakes_max as u64;
            U64 "connections_per_address" "1/s"
                "Maximum number of new connections per second from one address of another machine"
                = u64::from(self.facts.connections_per_address);
            U64 "variables" "" "Deployed variables, without those of `_engine`" = core.libraries().variable_count() as u64;
            U64 "slots" "" "Slots in use by variables, including those of `_engine`, and by open fields"
                = slots.used;
            U64 "slots_max" "" "Maximum number of slots, without those whose handles are used up"
                = slots.max - slots.retired;
            U64 "fields" "" "Open fields" = core.fields().count();
            U64 "fields_max" "" "Maximum number of open fields" = u64::from(FIELDS_MAX);
            U64 "subscriptions" "" "Subscriptions to variables" = core.health().subscription_count();
            U64 "updates" "" "Updates of all variables so far" = totals.written;
            F64 "updates_rate" "1/s" "Updates of all variables per second" = state.rate;
            U64 "writes/offered" "" "Completed writes, accepted or refused, so far" = totals.offered;
            U64 "writes/refused" "" "Refused writes so far" = totals.refused;
            U64 "queued" "B" "Memory used by updates that wait for slow subscribers" = queued;
            U64 "queued_max" "B" "Limit of `queued`, for all subscribers together"
                = queue.map_or(u64::MAX, |queue| queue.max);
            U64 "queue_refusals" "" "Number of times that queued_max was reached"
                = queue.map_or(0, |queue| queue.refusals);
            U64 "requested" "B" "Memory used by requests and items of clients" = requests.used() as u64;
            U64 "requested_max" "B" "Limit of `requested`, for all clients together"
                = requests.max() as u64;
            U64 "request_refusals" "" "Requests and items refused because requested_max was reached"
                = requests.refusals() as u64;
            U64 "sessions_absent" ""
                "Lost connections whose `all` subscriptions wait for the client to reconnect"
                = core.health().detached_sessions();
            U64 "lost" "" "Updates that `last`, `first` and `all` subscriptions lost because their buffer was full" = lost;
            U64 "overruns" "" "`all` subscriptions that ended because their buffer was full" = overruns;
            U64 "repaired" ""
                "Items with a wrong value at a client, which the engine sent again; above 0 indicates a defect"
                = repaired + marked;
            U64 "clock/steps" "" "Number of times the system clock was set by 100 ms or more"
                = clock.count;
            F64 "clock/last_step" "s" "Size of the last step of the system clock; negative: backward"
                = clock.last_nanos as f64 / 1e9;
            Bool "forcing/on" "" "True if forced values take effect" = forced.is_on;
            U64 "forcing/variables" "" "Variables in the list of forced variables" = forced.total as u64;
            U64 "alarms/active" "" "Alarms whose condition is met" = alarms.active;
            U64 "alarms/unacknowledged" "" "Alarms that wait for an acknowledgement"
                = alarms.in_states(AlarmState::is_unacknowledged);
            U64 "alarms/hidden" "" "Alarms that are shelved, suppressed by design or out of service"
                = alarms.in_states(AlarmState::is_hidden);
            U64 "alarms/rate" "" "Alarms raised within the last 10 minutes" = alarms.raised_recently;
            Bool "alarms/flood" "" "True if more than 10 alarms were raised within the last 10 minutes"
                = alarms.raised_recently > FLOOD_THRESHOLD;
            U64 "alarms/journal" "" "Number of the newest entry of the alarm journal" = journal;
            U64 "alarms/lost" "" "Changes of alarms that are missing from the journal" = journal_lost;
            U64 "audit/newest" "" "Number of the newest stored entry of the audit" = audit_head.number;
            String "audit/head" "" "Hash of this entry, which covers all earlier entries"
                = Arc::<str>::from(audit_head.hash.to_string());
            U64 "audit/waiting" "" "Entries of the audit that are not stored yet" = audit.waiting as u64;
            U64 "audit/lost" "" "Entries that are missing from the audit, because it had no room" = audit.lost;
            Bool "audit/full" ""
                "True if the audit has no room for the entries of actions that do not wait for it"
                = audit.is_full;
            Bool "insecure" ""
                "True if clients on other machines need neither encryption nor an identity"
                = self.logins.is_insecure();
            Bool "security/failing" ""
                "True if the changed accounts cannot be used, or the certificate cannot be renewed"
                = security_error.is_some();
            String "security/error" "" "The reason; empty if there is none"
                = Arc::<str>::from(security_error.unwrap_or_default());
            F64 "security/valid_days" "d"
                "Time until the certificate of the engine or its authority expires"
                = valid_days;
            Bool "security/expiring" ""
                "True if this time is less than 30 days; the engine renews its own certificate before"
                = valid_days.is_some_and(|days| days < EXPIRING_DAYS);
            String "store/state" "" "none, good, damaged or failing" = Arc::<str>::from(store);
            String "store/error" "" "Current failure of the store; empty if there is none" = Arc::<str>::from(store_error);
            Bool "store/failing" "" "True if nothing can be stored now" = store == "failing";
            String "history/state" "" "none, good, spooling or failing"
                = Arc::<str>::from(history_state);
            String "history/error" "" "Current failure of the history; empty if there is none" = Arc::<str>::from(history_error);
            Bool "history/failing" "" "True if the history cannot be written now"
                = is_history_failing;
            U64 "history/recorded" "" "Rows recorded since the engine started" = recorded.recorded;
            U64 "history/lost" "" "Updates that are missing from the history" = recorded.lost;
            U64 "history/unsealed" "" "Rows that are still in the log, not yet in files"
                = recorded.unsealed;
            U64 "history/spooled" "" "Rows that are in the log of the spool; included in history/unsealed" = recorded.spooled;
            String "history/spool_error" "" "Current failure of the spool; empty if there is none"
                = Arc::<str>::from(spool_error);
            U64 "history/bytes" "B" "Size of the history on disk" = recorded.bytes;
            F64 "process/cpu" "%" "Processor time of the process over the last period, in percent of one processor" = state.cpu(now);
            U64 "process/memory" "B" "Resident memory of the process" = process::resident_bytes();
        }
    }
}

/// Defines the alarm of a variable that is true while a failure lasts (H-14).
fn failing(description: &str) -> AlarmDefinition {
    AlarmDefinition {
        name: "failing".to_owned(),
        priority: 900,
        area: LIBRARY.to_owned(),
        description: description.to_owned(),
        ..AlarmDefinition::new(AlarmKind::Discrete { values: vec![1] })
    }
}

impl State {
    /// Continues the census. Each completed count updates the rate.
    fn count(&mut self, core: &Core, now: Tick) {
        if self.periods_to_skip > 0 {
            self.periods_to_skip -= 1;
            return;
        }
        let Some(totals) = self.census.advance(core, CENSUS_SLICE) else {
            return;
        };
        let is_idle = self.last_count.is_some() && totals == self.totals;
        self.periods_to_skip = if is_idle { IDLE_PERIODS - 1 } else { 0 };
        if let Some((counted_at, updates)) = self.last_count {
            let seconds = now.since(counted_at).as_secs_f64();
            let new_updates = totals.written.saturating_sub(updates);
            self.rate = if seconds > 0.0 {
                (new_updates as f64 / seconds * 10.0).round() / 10.0
            } else {
                0.0
            };
        }
        self.last_count = Some((now, totals.written));
        self.totals = totals;
    }

    /// Returns the processor time since the last measurement, in percent of the elapsed time; 0 at
    /// the first measurement.
    fn cpu(&mut self, now: Tick) -> Option<f64> {
        let used = process::cpu_time()?;
        let before = self.cpu.replace((now, used));
        let Some((then, used_before)) = before.filter(|(then, _)| *then < now) else {
            return Some(0.0);
        };
        let share = used.saturating_sub(used_before).as_secs_f64() / now.since(then).as_secs_f64();
        Some((share * 1000.0).round() / 10.0)
    }
}

/// Resource use of this process, read from `/proc` on Linux; `None` on other systems.
mod process {
    use std::time::Duration;

    /// Ticks per second of the times in `/proc`: a constant of the kernel's interface.
    const USER_HZ: u64 = 100;

    pub(super) fn cpu_time() -> Option<Duration> {
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        parse_cpu_time(&stat)
    }

    pub(super) fn resident_bytes() -> Option<u64> {
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        parse_resident(&status)
    }

    /// Parses the user and the system time, which are the 12th and 13th fields after the program
    /// name. The name is in parentheses and may contain any character.
    fn parse_cpu_time(stat: &str) -> Option<Duration> {
        let (_, fields) = stat.rsplit_once(')')?;
        let mut times = fields.split_whitespace().skip(11);
        let user: u64 = times.next()?.parse().ok()?;
        let system: u64 = times.next()?.parse().ok()?;
        let ticks = user.checked_add(system)?;
        Some(Duration::from_millis(ticks.checked_mul(1000 / USER_HZ)?))
    }

    fn parse_resident(status: &str) -> Option<u64> {
        crate::machine::bytes_of(status, "VmRSS:")
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn cpu_times_are_found_after_any_process_name() {
            let stat = "42 (a ) b) S 1 2 3 4 5 6 7 8 9 10 123 45 0 0 20 0 1";
            assert_eq!(parse_cpu_time(stat), Some(Duration::from_millis(1680)));
            assert_eq!(parse_cpu_time("42 (a) S 1 2"), None);
            assert_eq!(parse_cpu_time(""), None);
        }

        #[test]
        fn resident_memory_is_found_in_its_line() {
            let status = "Name:\ta\nVmRSS:\t    1024 kB\nThreads:\t3\n";
            assert_eq!(parse_resident(status), Some(1 << 20));
            assert_eq!(parse_resident("Name:\ta\n"), None);
        }
    }
}

#[cfg(test)]
mod tests {
    use trunkline_engine::EngineOptions;
    use trunkline_types::Tick;

    use super::*;

    #[test]
    fn write_count_is_sampled_within_four_idle_periods() {
        let core = Core::new(EngineOptions::new("sut", 1));
        let library = LibraryDefinition {
            name: "rig".to_owned(),
            description: String::new(),
            variables: vec![VariableDefinition::new("x", DataType::F64)],
        };
        let at = |second: u64| Tick::from_nanos(second * 1_000_000_000);
        let wall = Timestamp::from_nanos(1);
        let handle = core.libraries().deploy(&library, at(0), wall).unwrap()[0];
        let variable = core.variable(handle).unwrap();
        let write = |second| {
            let (value, caller) = (Value::F64(second as f64), Caller::engine());
            let write = Write::value(&value);
            let wakes = &mut Wakes::new();
            core.try_write(&caller, at(second), wall, &variable, &write, wakes);
        };
        let mut sut = State::default();
        let mut counts = Vec::new();
        for second in 1..=16 {
            // The write at 4 s happens while counting is suspended. From 11 s on, there is one
            // write per period.
            if second == 4 || second > 10 {
                write(second);
            }
            sut.count(&core, at(second));
            counts.push(sut.totals.written);
        }
        assert_eq!(counts, [0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 3, 4, 5, 6, 7]);
    }
}
