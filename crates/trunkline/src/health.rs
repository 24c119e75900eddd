//! The engine's health as variables of the library `_engine`. They are read-only, never stored, and
//! listed only for patterns that begin with `_`.
//!
//! Once per period, the housekeeping thread goes through all variables in slices and writes the
//! values that have changed.

use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use trunkline_engine::field::FIELDS_MAX;
use trunkline_engine::health::{Census, Totals};
use trunkline_engine::{Caller, Engine as Core, Origin, Wakes, Write};
use trunkline_types::{
    Access, DataType, LibraryDefinition, Properties, Quality, Reason, Tick, Timestamp, Value,
    VariableDefinition,
};

use crate::deployments::{Deployments, LibraryError, lock};
use crate::sessions::Facts;

pub(crate) const LIBRARY: &str = "_engine";
/// Variables examined per period.
const CENSUS_SLICE: usize = 50_000;
/// Periods from one count to the next while the last two counts found no writes.
const STILL_PERIODS: u32 = 4;

/// The variables: path, type, unit, description.
const VARIABLES: &[(&str, DataType, &str, &str)] = &[
    ("uptime", DataType::F64, "s", "Since the engine started"),
    (
        "epoch",
        DataType::U64,
        "",
        "Identifies this start; compared for equality only",
    ),
    ("sessions", DataType::U64, "", "Connections"),
    (
        "sessions_max",
        DataType::U64,
        "",
        "As many connections may be open",
    ),
    ("variables", DataType::U64, "", "Variables, without these"),
    (
        "slots",
        DataType::U64,
        "",
        "Slots in use: by variables, these included, and open fields",
    ),
    (
        "slots_max",
        DataType::U64,
        "",
        "Slots there are, without those whose handles are used up",
    ),
    ("fields", DataType::U64, "", "Fields that are open"),
    ("fields_max", DataType::U64, "", "Fields that can be open"),
    (
        "subscriptions",
        DataType::U64,
        "",
        "Subscriptions of variables",
    ),
    (
        "updates",
        DataType::U64,
        "",
        "Updates of all variables so far",
    ),
    (
        "updates_rate",
        DataType::F64,
        "1/s",
        "Updates of all variables",
    ),
    (
        "writes/offered",
        DataType::U64,
        "",
        "Writes that have ended so far",
    ),
    (
        "writes/refused",
        DataType::U64,
        "",
        "Writes that were refused so far",
    ),
    ("queued", DataType::U64, "B", "Waiting for slow subscribers"),
    (
        "queued_max",
        DataType::U64,
        "B",
        "As much may wait for all subscribers together",
    ),
    (
        "queue_refusals",
        DataType::U64,
        "",
        "Times that somebody needed more of it than there was",
    ),
    (
        "requested",
        DataType::U64,
        "B",
        "Taken by the requests and items of clients",
    ),
    (
        "requested_max",
        DataType::U64,
        "B",
        "As much may the requests and items of all clients take",
    ),
    (
        "request_refusals",
        DataType::U64,
        "",
        "Requests and items that were refused for want of it",
    ),
    (
        "sessions_absent",
        DataType::U64,
        "",
        "Broken connections whose `all` subscriptions are kept for the next one",
    ),
    (
        "lost",
        DataType::U64,
        "",
        "Updates that bounded subscriptions did not get",
    ),
    (
        "overruns",
        DataType::U64,
        "",
        "`all` subscriptions that ended at their bound",
    ),
    (
        "repaired",
        DataType::U64,
        "",
        "Items that a client had got wrong and was sent again; not 0: something is broken",
    ),
    (
        "clock/steps",
        DataType::U64,
        "",
        "How often the system clock was set, by 100 ms or more",
    ),
    (
        "clock/last_step",
        DataType::F64,
        "s",
        "By how much it was set last; below 0: back",
    ),
    (
        "forcing/on",
        DataType::Bool,
        "",
        "Whether forced values hold",
    ),
    (
        "forcing/variables",
        DataType::U64,
        "",
        "Variables on the forced list",
    ),
    (
        "store/state",
        DataType::String,
        "",
        "none, good, damaged or failing",
    ),
    (
        "store/trouble",
        DataType::String,
        "",
        "What is wrong with the store",
    ),
    (
        "process/cpu",
        DataType::F64,
        "%",
        "Of one processor, over the last period",
    ),
    (
        "process/memory",
        DataType::U64,
        "B",
        "Resident memory of the process",
    ),
];

pub(crate) struct Health {
    core: Core,
    facts: Arc<Facts>,
    deployments: Weak<Deployments>,
    period: Duration,
    started: Tick,
    /// Handles in the order of [`VARIABLES`], once the library is deployed.
    handles: OnceLock<Vec<u32>>,
    state: Mutex<State>,
}

/// State carried over from earlier periods.
#[derive(Default)]
struct State {
    due: Option<Tick>,
    census: Census,
    totals: Totals,
    /// Time of the last census, and the updates counted by then.
    counted: Option<(Tick, u64)>,
    /// Remaining periods without a count, because nothing was written.
    rests: u32,
    rate: f64,
    /// Time of the last measurement, and the processor time used by then.
    cpu: Option<(Tick, Duration)>,
    written: Vec<Option<Value>>,
}

impl Health {
    pub(crate) fn new(
        core: &Core,
        facts: &Arc<Facts>,
        deployments: &Arc<Deployments>,
        period: Duration,
        started: Tick,
    ) -> Self {
        Self {
            core: core.clone(),
            facts: Arc::clone(facts),
            deployments: Arc::downgrade(deployments),
            period,
            started,
            handles: OnceLock::new(),
            state: Mutex::default(),
        }
    }

    /// Deploys the library with its first values.
    pub(crate) fn begin(&self, now: Tick, wall: Timestamp) -> Result<(), LibraryError> {
        let variables = VARIABLES.iter().map(|(path, ty, units, description)| {
            let properties = Properties {
                units: (*units).to_owned(),
                description: (*description).to_owned(),
                access: Access::ReadOnly,
                ..Properties::new(ty.clone())
            };
            VariableDefinition {
                path: (*path).to_owned(),
                properties: Arc::new(properties),
            }
        });
        let library = LibraryDefinition {
            name: LIBRARY.to_owned(),
            description: "The engine itself".to_owned(),
            variables: variables.collect(),
        };
        let handles = self.core.deploy(&library, now, wall)?;
        let _first = self.handles.set(handles);
        self.poll(now, wall);
        Ok(())
    }

    /// Measures if it is time. Returns the time of the next measurement; `None` while there is no
    /// library.
    pub(crate) fn poll(&self, now: Tick, wall: Timestamp) -> Option<Tick> {
        let handles = self.handles.get()?;
        let mut state = lock(&self.state);
        if let Some(due) = state.due.filter(|due| now < *due) {
            return Some(due);
        }
        let due = now.saturating_add(self.period);
        state.due = Some(due);
        state.count(&self.core, now);
        let values = self.values(&mut state, now);
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
                // No subscription can stall it, and a person may force it.
                let _attempt = self
                    .core
                    .try_write(&caller, now, wall, &variable, &write, wakes);
            }
            None => {
                let quality = Quality::bad(Reason::NotSupported);
                self.core.set_quality(handle, quality, now, wall, wakes);
            }
        }
    }

    /// Returns the values in the order of [`VARIABLES`]; `None` for a value that this system does
    /// not provide.
    fn values(&self, state: &mut State, now: Tick) -> Vec<Option<Value>> {
        use trunkline_serve::EngineFacts as _;
        let totals = state.totals;
        let uptime = now.since(self.started);
        let (lost, overruns) = self.core.lost_and_overruns();
        let clock = self.core.clock_steps();
        let (repaired, marked) = self.core.repaired_and_marked();
        let forced = self.core.forced_page(&Caller::engine(), 0, 0);
        let deployments = self.deployments.upgrade();
        let (store, trouble) = deployments.map_or(("none", String::new()), |deployments| {
            deployments.store_health()
        });
        let memory = self.core.queue_memory();
        let slots = self.core.slots();
        let text = |text: &str| Value::String(text.into());
        let values = [
            Some(Value::F64(uptime.as_secs() as f64)),
            Some(Value::U64(self.core.epoch())),
            Some(Value::U64(self.facts.sessions())),
            Some(Value::U64(self.facts.sessions_max())),
            Some(Value::U64(self.core.variable_count() as u64)),
            Some(Value::U64(slots.used)),
            Some(Value::U64(slots.max - slots.retired)),
            Some(Value::U64(self.core.open_fields())),
            Some(Value::U64(u64::from(FIELDS_MAX))),
            Some(Value::U64(self.core.subscription_count())),
            Some(Value::U64(totals.written)),
            Some(Value::F64(state.rate)),
            Some(Value::U64(totals.offered)),
            Some(Value::U64(totals.refused)),
            Some(Value::U64(
                memory.map_or(totals.queued_bytes, |memory| memory.used),
            )),
            Some(Value::U64(memory.map_or(u64::MAX, |memory| memory.max))),
            Some(Value::U64(memory.map_or(0, |memory| memory.refusals))),
            Some(Value::U64(self.facts.requests.used() as u64)),
            Some(Value::U64(self.facts.requests.max() as u64)),
            Some(Value::U64(self.facts.requests.refusals() as u64)),
            Some(Value::U64(self.core.absent_sessions())),
            Some(Value::U64(lost)),
            Some(Value::U64(overruns)),
            Some(Value::U64(repaired + marked)),
            Some(Value::U64(clock.count)),
            Some(Value::F64(clock.last_nanos as f64 / 1e9)),
            Some(Value::Bool(forced.is_on)),
            Some(Value::U64(forced.total as u64)),
            Some(text(store)),
            Some(text(&trouble)),
            state.cpu(now).map(Value::F64),
            process::resident_bytes().map(Value::U64),
        ];
        debug_assert_eq!(values.len(), VARIABLES.len());
        values.into()
    }
}

impl State {
    /// Continues the census. The rate is the one between the last two completed counts.
    fn count(&mut self, core: &Core, now: Tick) {
        if self.rests > 0 {
            self.rests -= 1;
            return;
        }
        let Some(totals) = self.census.advance(core, CENSUS_SLICE) else {
            return;
        };
        let is_still = self.counted.is_some() && totals == self.totals;
        self.rests = if is_still { STILL_PERIODS - 1 } else { 0 };
        if let Some((before, updates)) = self.counted {
            let seconds = now.since(before).as_secs_f64();
            let more = totals.written.saturating_sub(updates);
            self.rate = if seconds > 0.0 {
                (more as f64 / seconds * 10.0).round() / 10.0
            } else {
                0.0
            };
        }
        self.counted = Some((now, totals.written));
        self.totals = totals;
    }

    /// Returns the processor time since the last measurement, in percent of the elapsed time.
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

/// Resource use of this process, from `/proc` on Linux; other systems provide nothing.
mod process {
    use std::time::Duration;

    /// Ticks per second of the times in `/proc`. Part of the kernel's interface, not a setting.
    const USER_HZ: u64 = 100;

    pub(super) fn cpu_time() -> Option<Duration> {
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        parse_cpu_time(&stat)
    }

    pub(super) fn resident_bytes() -> Option<u64> {
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        parse_resident(&status)
    }

    /// Parses user and system time: the 12th and 13th fields after the program name. The name is in
    /// parentheses and may contain anything.
    fn parse_cpu_time(stat: &str) -> Option<Duration> {
        let (_, fields) = stat.rsplit_once(')')?;
        let mut times = fields.split_whitespace().skip(11);
        let user: u64 = times.next()?.parse().ok()?;
        let system: u64 = times.next()?.parse().ok()?;
        let ticks = user.checked_add(system)?;
        Some(Duration::from_millis(ticks.checked_mul(1000 / USER_HZ)?))
    }

    fn parse_resident(status: &str) -> Option<u64> {
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
        kib.checked_mul(1024)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn times_are_found_behind_any_name() {
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
    fn what_was_written_is_counted_within_four_periods_of_silence_and_then_in_each() {
        let core = Core::new(EngineOptions::new("sut", 1));
        let library = LibraryDefinition {
            name: "rig".to_owned(),
            description: String::new(),
            variables: vec![VariableDefinition::new("x", DataType::F64)],
        };
        let at = |second: u64| Tick::from_nanos(second * 1_000_000_000);
        let wall = Timestamp::from_nanos(1);
        let handle = core.deploy(&library, at(0), wall).unwrap()[0];
        let variable = core.variable(handle).unwrap();
        let write = |second| {
            let (value, caller) = (Value::F64(second as f64), Caller::engine());
            let write = Write::value(&value);
            let wakes = &mut Wakes::new();
            core.try_write(&caller, at(second), wall, &variable, &write, wakes);
        };
        let mut sut = State::default();
        let mut seen = Vec::new();
        for second in 1..=16 {
            // One write while counting rests, then one in each period.
            if second == 4 || second > 10 {
                write(second);
            }
            sut.count(&core, at(second));
            seen.push(sut.totals.written);
        }
        assert_eq!(seen, [0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 3, 4, 5, 6, 7]);
    }
}
