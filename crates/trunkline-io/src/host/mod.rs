//! Provides variables of this machine: CPU, load, memory, disks, network, temperatures and
//! identity.
//!
//! A value that cannot be read is bad with a reason, never 0. On a virtual machine,
//! `temperature/cpu` is `bad: not-supported`. The usage of a processor is `bad: no-value` until
//! there are two samples. A disk or interface that disappears becomes `bad: variable-missing`. The
//! parts of the machine (processors, disks, interfaces, sensors) are listed when the server is
//! created. Parts that are added later need a restart.
//!
//! Every scan reads values that are cheap to read. Other values are read every [`SLOW_PERIOD`].

mod machine;
mod probe;
mod variables;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use trunkline_types::{LibraryDefinition, Quality, Reason, Tick, Timestamp, Value};

pub use machine::SysinfoProbe;
pub use probe::{Disk, FastReadings, Found, HostProbe, Inventory, Memory, SlowReadings, Traffic};

use self::variables::{Reading, Variable};
use crate::{Health, IoError, IoServer, ItemId, Scan, SendRefusal, SettingError, Settings};

/// Default scan period of the driver `host`.
pub const PERIOD: Duration = Duration::from_secs(1);
/// Period at which disks, temperatures, frequencies and the number of processes are read.
pub const SLOW_PERIOD: Duration = Duration::from_secs(5);

/// The parts of the machine that have variables; all by default.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// The setting `disks`.
    pub disks: bool,
    /// The setting `network`.
    pub network: bool,
    /// The setting `temperatures`. Some sensors answer slowly.
    pub temperatures: bool,
}

/// The I/O server of this machine.
pub struct HostServer {
    probe: Box<dyn HostProbe>,
    variables: Vec<Variable>,
    by_path: BTreeMap<String, u32>,
    /// State of each variable, by index.
    states: Vec<State>,
    slow_read_at: Option<Tick>,
    is_open: bool,
    health: Health,
}

/// State of one variable between scans.
#[derive(Default)]
struct State {
    /// The value or reason that was published last.
    published: Option<Found<Value>>,
    /// Time and value of a counter when it was last read.
    counter: Option<(Tick, u64)>,
}

/// The readings of one scan. Only requested readings are present.
#[derive(Default)]
struct ScanReadings {
    fast: Option<FastReadings>,
    slow: Option<SlowReadings>,
}

impl Options {
    /// Returns the options that the settings define.
    ///
    /// # Errors
    /// [`SettingError`] for settings that the driver does not have.
    pub fn from_settings(settings: &Settings) -> Result<Self, SettingError> {
        settings.check_keys(&["disks", "network", "temperatures"])?;
        Ok(Self {
            disks: settings.bool("disks")?.unwrap_or(true),
            network: settings.bool("network")?.unwrap_or(true),
            temperatures: settings.bool("temperatures")?.unwrap_or(true),
        })
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            disks: true,
            network: true,
            temperatures: true,
        }
    }
}

impl HostServer {
    /// Creates the I/O server of the machine that `probe` reads, and takes its inventory.
    pub fn new(mut probe: Box<dyn HostProbe>, options: Options) -> Self {
        let variables = variables::variables(&probe.inventory(), options);
        let paths = variables.iter().map(|variable| variable.path.clone());
        let by_path = paths.zip(0..).collect();
        let states = variables.iter().map(|_| State::default()).collect();
        Self {
            probe,
            variables,
            by_path,
            states,
            slow_read_at: None,
            is_open: false,
            health: Health::default(),
        }
    }

    fn take_readings(&mut self, now: Tick, with_slow: bool) -> ScanReadings {
        ScanReadings {
            fast: Some(self.probe.read_fast(now)),
            slow: if with_slow {
                Some(self.probe.read_slow())
            } else {
                None
            },
        }
    }

    fn publish(
        &mut self,
        index: usize,
        now: Tick,
        readings: &ScanReadings,
        is_requested: bool,
        scan: &mut Scan,
    ) {
        let (Some(variable), Some(state)) = (self.variables.get(index), self.states.get_mut(index))
        else {
            return;
        };
        let Some(found) = read(&variable.reading, state, now, readings) else {
            return;
        };
        let published = state.published.as_ref();
        let numeric = found.as_ref().is_ok_and(|value| value.as_f64().is_some());
        // Numbers are published each time they are read, text and reasons only when they change.
        if is_requested || numeric || published != Some(&found) {
            let item = ItemId(u32::try_from(index).unwrap_or(u32::MAX));
            match &found {
                Ok(value) => scan.publish(item, value.clone(), Quality::GOOD),
                Err(reason) => scan.fail(item, *reason),
            }
            state.published = Some(found);
        }
    }
}

impl IoServer for HostServer {
    fn libraries(&self, name: &str) -> Vec<LibraryDefinition> {
        vec![variables::library(name, &self.variables)]
    }

    fn item(&self, item: &str) -> Option<ItemId> {
        self.by_path.get(item).copied().map(ItemId)
    }

    fn open(&mut self, now: Tick, _wall: Timestamp) -> Result<(), IoError> {
        if let Err(error) = self.probe.open(now) {
            self.health.record_caller_error(&error);
            self.health.state = crate::HealthState::Failed;
            return Err(error);
        }
        self.states.fill_with(State::default);
        self.slow_read_at = None;
        self.is_open = true;
        self.health.record_open();
        Ok(())
    }

    fn scan(&mut self, now: Tick, _wall: Timestamp, scan: &mut Scan) -> Result<(), IoError> {
        if !self.is_open {
            self.health.record_caller_error(&IoError::NotOpen);
            return Err(IoError::NotOpen);
        }
        let due = self
            .slow_read_at
            .is_none_or(|last| now.since(last) >= SLOW_PERIOD);
        if due {
            self.slow_read_at = Some(now);
        }
        let readings = self.take_readings(now, due);
        for index in 0..self.variables.len() {
            self.publish(index, now, &readings, false, scan);
        }
        let vanished = self.states.iter().zip(&self.variables).find(|(state, _)| {
            matches!(
                state.published,
                Some(Err(Reason::VariableMissing | Reason::SensorFailure))
            )
        });
        self.health.record_scan(vanished.map(|(_, variable)| {
            format!(
                "{} can no longer be read: the device was removed or is failing",
                variable.path
            )
        }));
        Ok(())
    }

    fn request(
        &mut self,
        item: ItemId,
        now: Tick,
        _wall: Timestamp,
        scan: &mut Scan,
    ) -> Result<(), IoError> {
        let reading = self
            .variables
            .get(item.index())
            .map(|variable| &variable.reading);
        let with_slow = match reading {
            _ if !self.is_open => {
                self.health.record_caller_error(&IoError::NotOpen);
                return Err(IoError::NotOpen);
            }
            None => {
                let error = IoError::UnknownItem {
                    item: item.0,
                    count: self.count(),
                };
                self.health.record_caller_error(&error);
                return Err(error);
            }
            Some(reading) => matches!(reading, Reading::Slow(_) | Reading::SlowRate(_)),
        };
        let readings = self.take_readings(now, with_slow);
        self.publish(item.index(), now, &readings, true, scan);
        Ok(())
    }

    fn send(
        &mut self,
        item: ItemId,
        _value: &Value,
        _now: Tick,
        _wall: Timestamp,
    ) -> Result<Value, SendRefusal> {
        let refusal = match self.variables.get(item.index()) {
            None => SendRefusal::UnknownItem {
                item: item.0,
                count: self.count(),
            },
            Some(variable) => SendRefusal::ReadOnly {
                item: variable.path.clone(),
            },
        };
        let outcome = Err(refusal);
        self.health.record_send(&outcome);
        outcome
    }

    fn health(&self) -> Health {
        self.health.clone()
    }

    fn period(&self) -> Duration {
        PERIOD
    }
}

impl HostServer {
    fn count(&self) -> u32 {
        u32::try_from(self.variables.len()).unwrap_or(u32::MAX)
    }
}

impl fmt::Debug for HostServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostServer")
            .field("variables", &self.variables.len())
            .finish()
    }
}

/// Returns the value of a reading; `None` if its data was not read.
fn read(
    reading: &Reading,
    state: &mut State,
    now: Tick,
    readings: &ScanReadings,
) -> Option<Found<Value>> {
    match reading {
        Reading::Fast(read) => readings.fast.as_ref().map(read),
        Reading::Slow(read) => readings.slow.as_ref().map(read),
        Reading::FastRate(read) => readings
            .fast
            .as_ref()
            .map(|fast| rate(state, now, read(fast))),
        Reading::SlowRate(read) => readings
            .slow
            .as_ref()
            .map(|slow| rate(state, now, read(slow))),
    }
}

/// Returns the growth of a counter per second since it was last read. The rate is `no-value` until
/// there are two readings. A counter that has decreased belongs to a replaced device, and the rate
/// starts again.
fn rate(state: &mut State, now: Tick, counter: Found<u64>) -> Found<Value> {
    let total = match counter {
        Ok(total) => total,
        Err(reason) => {
            state.counter = None;
            return Err(reason);
        }
    };
    let Some((last_read, last_total)) = state.counter else {
        state.counter = Some((now, total));
        return Err(Reason::NoValue);
    };
    let seconds = now.since(last_read).as_secs_f64();
    if seconds < RATE_SECONDS_MIN {
        return state.published.clone().unwrap_or(Err(Reason::NoValue));
    }
    state.counter = Some((now, total));
    match total.checked_sub(last_total) {
        Some(grown) => Ok(Value::F64(grown as f64 / seconds)),
        None => Err(Reason::NoValue),
    }
}

/// Shortest time between two readings for computing a rate. After a shorter time, the last rate is
/// returned.
const RATE_SECONDS_MIN: f64 = 0.1;

#[cfg(test)]
mod tests;
