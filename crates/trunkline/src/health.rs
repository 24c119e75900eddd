//! Measures the engine, and publishes the measurements: as variables of the library `_engine`, and
//! to monitors ([`HealthMonitor`]).
//!
//! The variables are read-only and never stored. Only patterns that begin with `_` list them. In each
//! period, the housekeeping thread examines a slice of all variables, and writes the health values
//! that have changed.

mod process;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use trunkline_engine::fields::FIELDS_MAX;
use trunkline_engine::figures::{
    AlarmFigures, AuditFigures, ClockFigures, ConfigurationFigures, ConnectionFigures,
    DeliveryFigures, EngineFigures, ForcingFigures, HistoryState, MachineFigures, MemoryFigures,
    ProcessFigures, SecurityFigures, Space, StoreCondition, StoreFigures, VariableFigures,
};
use trunkline_engine::health::{Totals, TotalsCounter};
use trunkline_engine::{Caller, Engine as Core, Origin, Wakes, Write};
use trunkline_net::Clock;
use trunkline_types::alarm::{AlarmDefinition, AlarmKind, AlarmState};
use trunkline_types::{
    Access, DataType, LibraryDefinition, Properties, Quality, Reason, Tick, Timestamp, Value,
    VariableDefinition,
};

use crate::deployments::{Deployments, LibraryError, lock};
use crate::logins::Logins;
use crate::machine;
use crate::sessions::Facts;

/// Maximum number of alarms in ten minutes; more of them are an alarm flood (ISA-18.2).
const FLOOD_THRESHOLD: u64 = 10;

/// The alarm of the certificate is raised this many days before its end. The engine renews its
/// certificate 30 days before, so the alarm of that certificate means that renewal fails.
const EXPIRING_DAYS: f64 = 29.9;
const NANOS_PER_DAY: f64 = 86_400e9;

/// The alarm of a space is raised when less than this share is free, in percent, and less than this
/// number of bytes.
const LOW_PERCENT: u64 = 5;
const LOW_BYTES: u64 = 1 << 30;
/// The alarm of a limited memory of the engine is raised when less than this share is free, in percent.
const NEARLY_FULL_PERCENT: u64 = 10;
/// Free disk space is published in steps of this size, so that it does not change with each write.
const DISK_STEP: u64 = 64 << 20;
/// The alarm of a late engine is raised when the housekeeping thread ran later than this, and stays for
/// this time.
const LATE_MIN: Duration = Duration::from_secs(1);
const LATE_HELD: Duration = Duration::from_secs(60);

pub(crate) const LIBRARY: &str = "_engine";
/// Variables examined per period.
const CENSUS_SLICE: usize = 50_000;
/// Number of periods between counts after a count that found no writes.
const IDLE_PERIODS: u32 = 4;
/// Interval of the measurements for a [`HealthMonitor`].
const MONITORED_PERIOD: Duration = Duration::from_secs(1);
/// Shortest period over which the use of the processor is computed.
const CPU_PERIOD_MIN: Duration = Duration::from_millis(200);

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
    /// Interval of the updates of `_engine`; zero if there are none.
    period: Duration,
    started: Tick,
    /// Handles in the order of the rows, once the library is deployed.
    handles: OnceLock<Vec<u32>>,
    state: Mutex<State>,
    /// The newest measurement; `None` before the first one. Locked only to exchange the reference.
    newest: Mutex<Option<Arc<EngineFigures>>>,
    /// True if a [`HealthMonitor`] reads the measurements.
    is_monitored: AtomicBool,
    /// Tick at which the housekeeping thread ran last, in nanoseconds.
    last_run: AtomicU64,
    /// Longest delay of the housekeeping thread since the last measurement, in nanoseconds.
    delay: AtomicU64,
}

/// State carried over from earlier periods.
#[derive(Default)]
struct State {
    /// Time of the next measurement, and of the next update of `_engine`.
    measurement_due: Option<Tick>,
    update_due: Option<Tick>,
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
    /// Percent of one processor in the last period.
    cpu_percent: Option<f64>,
    /// Time until which the engine counts as late.
    late_until: Option<Tick>,
    /// Space of the store's file system, when it was known last.
    disk: Option<Space>,
    /// The values that were written last, in the order of the rows.
    written: Vec<Option<Value>>,
}

/// Reads the measurements of an engine. It never waits for the engine, so it also works when the
/// engine does not.
#[derive(Clone)]
pub struct HealthMonitor {
    health: Arc<Health>,
    clock: Clock,
}

impl HealthMonitor {
    pub(crate) fn new(health: &Arc<Health>, clock: Clock) -> Self {
        let (now, wall) = clock.moment();
        let monitor = Self {
            health: Arc::clone(health),
            clock,
        };
        health.is_monitored.store(true, Ordering::Release);
        let state = &mut lock(&health.state);
        if lock(&health.newest).is_none() {
            health.measure(state, now, wall);
        }
        monitor
    }

    /// Returns the newest measurement. While the engine runs, it is at most about a second old.
    pub fn figures(&self) -> Arc<EngineFigures> {
        lock(&self.health.newest).clone().unwrap_or_default()
    }

    /// Returns why the last reload of the configuration was refused; `None` if it was not.
    pub fn configuration_fault(&self) -> Option<String> {
        let deployments = self.health.deployments.upgrade()?;
        deployments.reloads().state().fault
    }

    /// Returns true once the engine has begun to stop.
    pub fn is_stopping(&self) -> bool {
        self.health.facts.stopping.load(Ordering::Acquire)
    }

    /// Returns the time since the housekeeping thread last ran: below 300 ms in a healthy process,
    /// whose processors are not overloaded. That thread detects stale values and time-outs, and
    /// delays alarms.
    pub fn housekeeping_age(&self) -> Duration {
        let last = self.health.last_run.load(Ordering::Relaxed);
        self.clock.now().since(Tick::from_nanos(last))
    }
}

impl fmt::Debug for HealthMonitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HealthMonitor").finish_non_exhaustive()
    }
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
            newest: Mutex::default(),
            is_monitored: AtomicBool::new(false),
            last_run: AtomicU64::new(started.as_nanos()),
            delay: AtomicU64::new(0),
        }
    }

    /// Deploys the library with its first values.
    pub(crate) fn begin(&self, now: Tick, wall: Timestamp) -> Result<(), LibraryError> {
        let figures = self.measure(&mut lock(&self.state), now, wall);
        let variables = rows(&figures).into_iter().map(|row| {
            let properties = Properties {
                alarms: alarm_of(row.path).into_iter().collect(),
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

    /// Records that the housekeeping thread runs, although it was `due` earlier.
    pub(crate) fn note_run(&self, now: Tick, due: Option<Tick>) {
        self.last_run.store(now.as_nanos(), Ordering::Relaxed);
        let delay = due.map_or(Duration::ZERO, |due| now.since(due));
        let nanos = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
        self.delay.fetch_max(nanos, Ordering::Relaxed);
    }

    /// Measures if a measurement is due, and updates the variables of `_engine` if their update is
    /// due.
    pub(crate) fn poll(&self, now: Tick, wall: Timestamp) {
        let handles = self.handles.get();
        let mut state = lock(&self.state);
        let is_due = |due: Option<Tick>| due.is_none_or(|due| due <= now);
        let is_update_due = handles.is_some() && is_due(state.update_due);
        let is_measurement_due =
            self.is_monitored.load(Ordering::Acquire) && is_due(state.measurement_due);
        if !is_update_due && !is_measurement_due {
            return;
        }
        let figures = self.measure(&mut state, now, wall);
        let Some(handles) = handles.filter(|_| is_update_due) else {
            return;
        };
        state.update_due = Some(now.saturating_add(self.period));
        let values: Vec<_> = rows(&figures).into_iter().map(|row| row.value).collect();
        let mut wakes = Wakes::new();
        for (index, (value, handle)) in values.iter().zip(handles).enumerate() {
            if state.written.get(index) != Some(value) {
                self.write(*handle, value.as_ref(), now, wall, &mut wakes);
            }
        }
        state.written = values;
    }

    /// Measures, and publishes the measurement for monitors.
    fn measure(&self, state: &mut State, now: Tick, wall: Timestamp) -> Arc<EngineFigures> {
        state.measurement_due = Some(now.saturating_add(MONITORED_PERIOD));
        state.count(&self.core, now);
        let figures = Arc::new(self.figures(state, now, wall));
        *lock(&self.newest) = Some(Arc::clone(&figures));
        figures
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

    fn figures(&self, state: &mut State, now: Tick, wall: Timestamp) -> EngineFigures {
        use trunkline_serve::EngineFacts as _;
        let (core, totals) = (&self.core, state.totals);
        let health = core.health();
        let (lost, overruns) = health.lost_and_overruns();
        let (repaired, marked) = health.repaired_and_marked();
        let clock = core.clock_steps();
        let forced = core.forcing().page(&Caller::engine(), 0, 0);
        let (slots, requests) = (core.slots(), &self.facts.requests);
        let deployments = self.deployments.upgrade();
        let deployments = deployments.as_ref();
        let (journal, journal_lost) = deployments.map_or((0, 0), |d| d.alarms().end_and_lost());
        let history = deployments.and_then(|d| d.history());
        let mut store = deployments.map_or_else(StoreFigures::default, |d| d.store_figures());
        // Unknown while the store is in use.
        store.disk = store.disk.or(state.disk);
        state.disk = store.disk;
        let delay = Duration::from_nanos(self.delay.swap(0, Ordering::Relaxed));
        if delay > LATE_MIN {
            state.late_until = Some(now.saturating_add(LATE_HELD));
        }
        let server = self.facts.counters();
        let queue = health.queue_memory().map_or(
            MemoryFigures {
                bytes: totals.queued_bytes,
                ..MemoryFigures::default()
            },
            |queue| MemoryFigures {
                bytes: queue.used,
                bytes_max: Some(queue.max),
                refusals: queue.refusals,
            },
        );
        EngineFigures {
            name: core.name().to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            epoch: core.epoch(),
            uptime: now.since(self.started),
            connections: ConnectionFigures {
                sessions: self.facts.sessions(),
                sessions_max: Some(self.facts.sessions_max()).filter(|max| *max < u64::MAX),
                handshakes: server.handshakes as u64,
                handshakes_max: self.facts.handshakes_max.load(Ordering::Relaxed) as u64,
                per_address_max: u64::from(
                    self.facts.connections_per_address.load(Ordering::Relaxed),
                ),
                accepted: server.accepted,
                refused: server.refused,
                accept_failures: server.accept_failures,
                detached: health.detached_sessions(),
            },
            security: SecurityFigures {
                is_insecure: self.logins.is_insecure(),
                error: self.logins.error().unwrap_or_default(),
                valid_days: self.logins.valid_until().map(|until| {
                    let nanos = until.as_nanos().saturating_sub(wall.as_nanos());
                    (nanos as f64 / NANOS_PER_DAY * 10.0).round() / 10.0
                }),
            },
            configuration: deployments.map_or_else(ConfigurationFigures::default, |deployments| {
                let state = deployments.reloads().state();
                ConfigurationFigures {
                    error: state.fault.unwrap_or_default(),
                    restart: state.restart.join(", "),
                }
            }),
            variables: VariableFigures {
                deployed: core.libraries().variable_count() as u64,
                slots: slots.used,
                slots_max: slots.max - slots.retired,
                fields: core.fields().count(),
                fields_max: u64::from(FIELDS_MAX),
                subscriptions: health.subscription_count(),
            },
            delivery: DeliveryFigures {
                offered: totals.offered,
                written: totals.written,
                refused: totals.refused,
                rate: state.rate,
                lost,
                overruns,
                repaired: repaired + marked,
            },
            queue,
            requests: MemoryFigures {
                bytes: requests.used() as u64,
                bytes_max: Some(requests.max() as u64),
                refusals: requests.refusals() as u64,
            },
            clock: ClockFigures {
                steps: clock.count,
                last_step_nanos: clock.last_nanos,
                is_stepped: !core.is_clock_settled(),
            },
            forcing: ForcingFigures {
                is_on: forced.is_on,
                variables: forced.total as u64,
            },
            alarms: AlarmFigures {
                counts: core.alarms().figures(now),
                journal,
                lost: journal_lost,
            },
            audit: deployments.map_or_else(AuditFigures::default, |d| d.audit().figures()),
            store,
            history: history.map_or_else(HistoryState::default, |history| history.state()),
            sources: core.providers().sources(),
            process: state.process(now, wall),
            machine: MachineFigures {
                memory: machine::memory(),
            },
            housekeeping_delay: delay,
            is_late: state.late_until.is_some_and(|until| now < until),
        }
    }
}

/// Returns the rows of the library, with the values of a measurement.
fn rows(figures: &EngineFigures) -> Vec<Row> {
    let EngineFigures {
        connections,
        security,
        configuration,
        variables,
        delivery,
        queue,
        requests,
        clock,
        forcing,
        alarms,
        audit,
        store,
        history,
        process,
        machine,
        ..
    } = figures;
    let bounded = |memory: &MemoryFigures| {
        let total_bytes = memory.bytes_max?;
        let free_bytes = total_bytes.saturating_sub(memory.bytes);
        Some(Space {
            total_bytes,
            free_bytes,
        })
    };
    let is_nearly_full = |memory: &MemoryFigures| {
        bounded(memory).is_some_and(|space| space.is_below(NEARLY_FULL_PERCENT, u64::MAX))
    };
    let is_low =
        |space: Option<Space>| space.is_some_and(|space| space.is_below(LOW_PERCENT, LOW_BYTES));
    let counts = &alarms.counts;
    let text = |text: &str| Arc::<str>::from(text);
    rows! {
        F64 "uptime" "s" "Time since the engine started"
            = figures.uptime.as_secs() as f64;
        U64 "epoch" "" "Identifies this start of the engine; compare for equality only" = figures.epoch;
        U64 "sessions" "" "Open connections" = connections.sessions;
        U64 "sessions_max" "" "Maximum number of open connections"
            = connections.sessions_max.unwrap_or(u64::MAX);
        U64 "handshakes" "" "Connections whose client has not logged in yet" = connections.handshakes;
        U64 "handshakes_max" "" "Maximum number of such connections" = connections.handshakes_max;
        U64 "connections_per_address" "1/s"
            "Maximum number of new connections per second from one address of another machine"
            = connections.per_address_max;
        U64 "variables" "" "Deployed variables, excluding those of `_engine`" = variables.deployed;
        U64 "slots" "" "Slots in use by variables, including those of `_engine`, and by open fields"
            = variables.slots;
        U64 "slots_max" "" "Maximum number of slots, excluding those whose handles are used up"
            = variables.slots_max;
        U64 "fields" "" "Open fields" = variables.fields;
        U64 "fields_max" "" "Maximum number of open fields" = variables.fields_max;
        U64 "subscriptions" "" "Subscriptions to variables" = variables.subscriptions;
        U64 "updates" "" "Updates of all variables so far" = delivery.written;
        F64 "updates_rate" "1/s" "Updates of all variables per second" = delivery.rate;
        U64 "writes/offered" "" "Completed writes, accepted or refused, so far" = delivery.offered;
        U64 "writes/refused" "" "Refused writes so far" = delivery.refused;
        U64 "queued" "B" "Memory used by updates that wait for slow subscribers" = queue.bytes;
        U64 "queued_max" "B" "Limit of `queued`, for all subscribers together"
            = queue.bytes_max.unwrap_or(u64::MAX);
        U64 "queue_refusals" "" "Number of times that queued_max was reached"
            = queue.refusals;
        U64 "requested" "B" "Memory used by requests and items of clients" = requests.bytes;
        U64 "requested_max" "B" "Limit of `requested`, for all clients together"
            = requests.bytes_max.unwrap_or(u64::MAX);
        U64 "request_refusals" "" "Requests and items refused because requested_max was reached"
            = requests.refusals;
        U64 "sessions_absent" ""
            "Lost connections whose `all` subscriptions wait for the client to reconnect"
            = connections.detached;
        U64 "lost" "" "Updates that `last`, `first` and `all` subscriptions lost because their buffer was full"
            = delivery.lost;
        U64 "overruns" "" "`all` subscriptions that ended because their buffer was full"
            = delivery.overruns;
        U64 "repaired" ""
            "Items with a wrong value at a client, which the engine sent again; above 0 indicates a defect"
            = delivery.repaired;
        U64 "clock/steps" "" "Number of times the system clock was set by 100 ms or more"
            = clock.steps;
        F64 "clock/last_step" "s" "Size of the last step of the system clock; negative: backward"
            = clock.last_step_nanos as f64 / 1e9;
        Bool "clock/stepped" "" "True for a minute after such a step" = clock.is_stepped;
        Bool "late" ""
            "True for a minute after timers of the engine ran more than 1 s late, for example because the processors are overloaded"
            = figures.is_late;
        Bool "forcing/on" "" "True if forced values take effect" = forcing.is_on;
        U64 "forcing/variables" "" "Variables in the list of forced variables" = forcing.variables;
        U64 "alarms/active" "" "Alarms whose condition is met" = counts.active;
        U64 "alarms/unacknowledged" "" "Alarms that wait for an acknowledgement"
            = counts.in_states(AlarmState::is_unacknowledged);
        U64 "alarms/hidden" "" "Alarms that are shelved, suppressed by design or out of service"
            = counts.in_states(AlarmState::is_hidden);
        U64 "alarms/rate" "" "Alarms raised within the last 10 minutes" = counts.raised_recently;
        Bool "alarms/flood" "" "True if more than 10 alarms were raised within the last 10 minutes"
            = counts.raised_recently > FLOOD_THRESHOLD;
        U64 "alarms/journal" "" "Number of the newest entry of the alarm journal" = alarms.journal;
        U64 "alarms/lost" "" "Changes of alarms that are missing from the journal" = alarms.lost;
        U64 "audit/newest" "" "Number of the newest stored entry of the audit trail" = audit.newest;
        String "audit/head" "" "Hash of this entry, which covers all earlier entries" = text(&audit.head);
        U64 "audit/waiting" "" "Audit entries that are not stored yet" = audit.waiting;
        U64 "audit/lost" "" "Entries that are missing from the audit trail, because it had no room" = audit.lost;
        Bool "audit/full" ""
            "True if the audit trail has no room for the entries of actions that do not wait for it"
            = audit.is_full;
        Bool "insecure" ""
            "True if clients on other machines need neither encryption nor an identity"
            = security.is_insecure;
        Bool "security/failing" ""
            "True if the changed accounts cannot be used, or the certificate cannot be renewed"
            = !security.error.is_empty();
        String "security/error" "" "The reason; empty if there is none" = text(&security.error);
        F64 "security/valid_days" "d"
            "Time until the certificate of the engine or its authority expires; infinite without certificates"
            = Some(security.valid_days.unwrap_or(f64::INFINITY));
        Bool "security/expiring" ""
            "True if this time is less than 30 days; the engine renews its own certificate before"
            = security.valid_days.is_some_and(|days| days < EXPIRING_DAYS);
        Bool "configuration/failing" ""
            "True if the changed configuration files have an error, and were not applied"
            = !configuration.error.is_empty();
        String "configuration/error" "" "The reason; empty if there is none"
            = text(&configuration.error);
        String "configuration/restart" ""
            "Changed keys of the configuration that need a restart; empty if there are none"
            = text(&configuration.restart);
        String "store/state" "" "none, good, damaged or failing" = text(store.condition.name());
        String "store/error" "" "Current failure of the store; empty if there is none" = text(&store.error);
        Bool "store/failing" "" "True if nothing can be stored now"
            = store.condition == StoreCondition::Failing;
        F64 "disk/free" "B" "Free space of the store's file system, in steps of 64 MiB; infinite without a store"
            = store.disk.map_or(f64::INFINITY, |disk| (disk.free_bytes / DISK_STEP * DISK_STEP) as f64);
        Bool "disk/low" "" "True if less than 5 % and less than 1 GiB of this file system are free"
            = is_low(store.disk);
        String "history/state" "" "none, good, spooling or failing"
            = text(history.condition.name());
        String "history/error" "" "Current failure of the history; empty if there is none" = text(&history.error);
        Bool "history/failing" "" "True if the history cannot be written now"
            = !history.error.is_empty();
        U64 "history/recorded" "" "Rows recorded since the engine started" = history.figures.recorded;
        U64 "history/lost" "" "Updates that are missing from the history" = history.figures.lost;
        U64 "history/unsealed" "" "Rows that are still in the log, not yet in files"
            = history.figures.unsealed;
        U64 "history/spooled" "" "Rows that are in the log of the spool; included in history/unsealed"
            = history.figures.spooled;
        String "history/spool_error" "" "Current failure of the spool; empty if there is none"
            = text(&history.spool_error);
        U64 "history/bytes" "B" "Size of the history on disk" = history.figures.bytes;
        F64 "process/cpu" "%" "Processor time of the process over the last period, in percent of one processor"
            = process.cpu_percent;
        U64 "process/memory" "B" "Resident memory of the process" = process.resident_bytes;
        Bool "memory/low" ""
            "True if less than 5 % and less than 1 GiB of the machine's memory are available, or if `queued` or `requested` is above 90 % of its limit"
            = is_low(machine.memory) || is_nearly_full(queue) || is_nearly_full(requests);
    }
}

/// Returns the alarm of a variable of the library, if it has one.
fn alarm_of(path: &str) -> Option<AlarmDefinition> {
    Some(match path {
        "store/failing" => failing("the store cannot be written"),
        "history/failing" => failing("the history cannot be written"),
        "audit/full" => failing("the audit trail has no room for further entries"),
        "insecure" => failing("clients on other machines need neither encryption nor an identity"),
        "security/failing" => {
            failing("the changed accounts cannot be used, or the certificate cannot be renewed")
        }
        "configuration/failing" => {
            failing("the changed configuration files have an error, and were not applied")
        }
        "disk/low" => short("the disk of the store is nearly full"),
        "memory/low" => {
            short("the memory of the machine, of queued updates or of requests is nearly used up")
        }
        "clock/stepped" => short("the system clock was set by 100 ms or more"),
        "late" => short("time-outs, stale values and delayed alarms came more than a second late"),
        "security/expiring" => {
            failing("the certificate of the engine or its authority expires soon")
        }
        _ => return None,
    })
}

/// Defines the alarm of a variable that is true while a failure lasts (H-14).
fn failing(description: &str) -> AlarmDefinition {
    alarm("failing", 900, description)
}

/// Defines the alarm of a variable that is true before something fails.
fn short(description: &str) -> AlarmDefinition {
    alarm("warning", 600, description)
}

fn alarm(name: &str, priority: u16, description: &str) -> AlarmDefinition {
    AlarmDefinition {
        name: name.to_owned(),
        priority,
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

    /// Measures the process. The processor time in percent covers the time since the last
    /// measurement; it is 0 at the first one.
    fn process(&mut self, now: Tick, wall: Timestamp) -> ProcessFigures {
        let figures = process::figures(wall);
        let Some(used) = figures.cpu_time else {
            return figures;
        };
        // A period that is too short would be dominated by the resolution of the processor time.
        let is_too_short = |(then, _): (Tick, _)| now.since(then) < CPU_PERIOD_MIN;
        if !self.cpu.is_some_and(is_too_short) {
            let before = self.cpu.replace((now, used));
            let share = before.map_or(0.0, |(then, used_before)| {
                let period = now.since(then).as_secs_f64();
                used.saturating_sub(used_before).as_secs_f64() / period
            });
            self.cpu_percent = Some((share * 1000.0).round() / 10.0);
        }
        ProcessFigures {
            cpu_percent: self.cpu_percent,
            ..figures
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

    fn value(figures: &EngineFigures, path: &str) -> Option<Value> {
        let row = rows(figures).into_iter().find(|row| row.path == path);
        row.unwrap().value
    }

    #[test]
    fn each_alarm_belongs_to_a_variable_that_is_true_or_false() {
        let rows = rows(&EngineFigures::default());
        let with_alarm = rows.iter().filter(|row| alarm_of(row.path).is_some());
        let paths: Vec<&str> = with_alarm
            .map(|row| {
                assert_eq!(row.data_type, DataType::Bool, "{}", row.path);
                row.path
            })
            .collect();
        assert_eq!(
            paths,
            [
                "clock/stepped",
                "late",
                "audit/full",
                "insecure",
                "security/failing",
                "security/expiring",
                "configuration/failing",
                "store/failing",
                "disk/low",
                "history/failing",
                "memory/low",
            ]
        );
    }

    #[test]
    fn warnings_come_before_space_is_used_up() {
        const GIB: u64 = 1 << 30;
        let space = |total_bytes, free_bytes| {
            Some(Space {
                total_bytes,
                free_bytes,
            })
        };
        let mut figures = EngineFigures::default();
        let low = Some(Value::Bool(true));
        let enough = Some(Value::Bool(false));
        let without_store = Some(Value::F64(f64::INFINITY));
        assert_eq!(value(&figures, "disk/free"), without_store);
        assert_eq!(value(&figures, "disk/low"), enough);
        // 5 % of a small disk, and at most 1 GiB of a large one.
        for (total, free, expected) in [
            (10 * GIB, GIB / 2, &enough),
            (10 * GIB, GIB / 2 - (10 << 20), &low),
            (1000 * GIB, GIB, &enough),
            (1000 * GIB, GIB - 1, &low),
        ] {
            figures.store.disk = space(total, free);
            assert_eq!(value(&figures, "disk/low"), *expected, "{free} of {total}");
        }
        figures.store.disk = space(1000 * GIB, GIB + (100 << 20));
        let stepped = Some(Value::F64((GIB + (64 << 20)) as f64));
        assert_eq!(value(&figures, "disk/free"), stepped);

        assert_eq!(value(&figures, "memory/low"), enough);
        figures.machine.memory = space(16 * GIB, GIB / 2);
        assert_eq!(value(&figures, "memory/low"), low);
        figures.machine.memory = space(16 * GIB, 8 * GIB);
        for bytes in [900, 901] {
            figures.queue = MemoryFigures {
                bytes,
                bytes_max: Some(1000),
                refusals: 0,
            };
            let expected = Some(Value::Bool(bytes > 900));
            assert_eq!(value(&figures, "memory/low"), expected, "{bytes} queued");
        }
    }
}
