//! Simulates a boiler house, for trying Trunkline without a plant.
//!
//! The simulation has about 200 variables in three libraries: `boiler` (the plant and its controls),
//! `rack1` (analog input channels that deliver raw signals) and `valves`. The model records every
//! flow of mass and energy in double-entry books, and conserves both exactly. It responds to
//! setpoints like a real boiler. The same seed and call times give the same values, bit for bit.
//! `docs/explanation/boiler-model.md` gives its equations and parameters, with their sources.
//!
//! ```text
//!  make-up ---LV103--+                      +--PSV109--> roof          burner
//!  condensate -------+-> feed tank -pump-FV101-> drum -FV102-> users     |
//!  drum steam -TV104-+                      +--FV105---> blow-down     metal -> flue
//! ```
//!
//! The caller provides the time. Each scan or request runs the plant in fixed steps of 0.1 s for
//! the time since the previous call, at most [`CATCH_UP_MAX`]. Any remaining time is skipped and
//! counted in `boiler/sim/skipped`. Only sensors have noise. Every value is marked as simulated.

#![forbid(unsafe_code)]

mod boiler;
mod books;
mod commands;
mod controls;
mod fire_side;
mod flows;
mod instruments;
mod parameters;
mod plant;
mod rack;
mod steam;
mod valve;
mod valves;
mod variable;
mod water_side;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use trunkline_types::time::duration_nanos;
use trunkline_types::{
    LibraryDefinition, Name, Quality, Reason, Tick, Timestamp, Value, VariableDefinition,
};

use self::instruments::{Instrument, Instruments};
use self::parameters::STEP_NANOS;
use self::plant::Plant;
use self::variable::{Source, Variable};
use trunkline_io::{
    Driver, DriverError, Health, IoError, IoServer, ItemId, Scan, SendRefusal, SettingError,
    Settings,
};

/// The driver `sim`, for [`Drivers::with`](trunkline_io::Drivers::with).
pub const DRIVER: Driver = Driver {
    name: "sim",
    description: "a simulated boiler house that conserves mass and energy",
    make: |settings| match Options::from_settings(settings) {
        Ok(options) => Ok(Box::new(BoilerServer::new(options))),
        Err(cause) => Err(DriverError::Setting {
            driver: "sim".into(),
            cause,
        }),
    },
};

/// Default scan period of the driver `sim`.
pub const PERIOD: Duration = Duration::from_millis(100);
/// Period at which arrays, waveforms and the telegram are read.
pub const SLOW_PERIOD: Duration = Duration::from_millis(500);
/// Maximum plant time that one call simulates.
pub const CATCH_UP_MAX: Duration = Duration::from_secs(5);

/// Settings of the driver `sim`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Seed of the noise and of the steam demand; setting `seed`, 1 by default.
    pub seed: u64,
    /// Prefix of the library names, so that one engine can host two boiler houses; setting `prefix`,
    /// empty by default.
    pub prefix: String,
}

/// The I/O server of the boiler house.
pub struct BoilerServer {
    options: Options,
    plant: Plant,
    instruments: Instruments,
    variables: Vec<Variable>,
    /// Index of each variable in `variables`, by item name.
    by_item: BTreeMap<String, u32>,
    /// Last published reading of each variable; `None` if it was not published since `open`.
    published: Vec<Option<(Value, Quality)>>,
    /// Time up to which the plant was simulated; `None` before `open`.
    simulated_until: Option<Tick>,
    /// Elapsed time that is shorter than a step and not yet simulated, in nanoseconds.
    remainder_nanos: u64,
    /// Time at which the slow readings were last published.
    slow_period_start: Option<Tick>,
    health: Health,
}

impl Options {
    /// Converts the settings of an I/O server to options.
    ///
    /// # Errors
    /// [`SettingError`] for an unknown setting, and for a prefix that is invalid in a name.
    pub fn from_settings(settings: &Settings) -> Result<Self, SettingError> {
        settings.check_keys(&["prefix", "seed"])?;
        let prefix = settings.text("prefix")?.unwrap_or("").to_owned();
        let library = format!("{prefix}boiler");
        let name = Name::join(&library, "level");
        // A prefix with a slash would name another library, so compare the library too.
        if !name.is_ok_and(|name| name.library() == library) {
            return Err(SettingError::BadValue {
                key: "prefix".into(),
                given: format!("{prefix:?}"),
                rule: "it must be a valid beginning of a name, without /, # or *".into(),
            });
        }
        Ok(Self {
            seed: settings.unsigned("seed")?.unwrap_or(1),
            prefix,
        })
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 1,
            prefix: String::new(),
        }
    }
}

impl BoilerServer {
    /// Returns a boiler house in normal operation.
    pub fn new(options: Options) -> Self {
        let parts = [
            boiler::variables(),
            rack::variables(options.seed),
            valves::variables(),
        ];
        let variables: Vec<Variable> = parts.into_iter().flatten().collect();
        let by_item = variables.iter().map(Variable::item).zip(0..).collect();
        Self {
            plant: Plant::new(options.seed),
            instruments: Instruments::new(options.seed),
            published: vec![None; variables.len()],
            options,
            variables,
            by_item,
            simulated_until: None,
            remainder_nanos: 0,
            slow_period_start: None,
            health: Health::default(),
        }
    }

    /// Runs the plant until `now`. Returns the plant time that was skipped, if any.
    fn run(&mut self, now: Tick) -> Option<Duration> {
        let simulated_until = self.simulated_until?;
        let elapsed = duration_nanos(now.since(simulated_until));
        self.simulated_until = Some(now.max(simulated_until));
        self.remainder_nanos = self.remainder_nanos.saturating_add(elapsed);
        let due_steps = self.remainder_nanos / STEP_NANOS;
        self.remainder_nanos %= STEP_NANOS;
        let steps = due_steps.min(duration_nanos(CATCH_UP_MAX) / STEP_NANOS);
        for _ in 0..steps {
            self.plant.step();
        }
        let skipped = (due_steps - steps).saturating_mul(STEP_NANOS);
        if skipped == 0 {
            return None;
        }
        let total = self.instruments.skipped_nanos.saturating_add(skipped);
        self.instruments.skipped_nanos = total;
        Some(Duration::from_nanos(skipped))
    }

    /// Returns true if the slow readings are due. If so, starts the next period.
    fn slow_is_due(&mut self, now: Tick) -> bool {
        let due = self
            .slow_period_start
            .is_none_or(|start| now.since(start) >= SLOW_PERIOD);
        if due {
            self.slow_period_start = Some(now);
        }
        due
    }

    /// Returns the reading of a variable.
    fn read(&mut self, index: usize, wall: Timestamp) -> Option<(Value, Quality)> {
        let variable = self.variables.get(index)?;
        let (value, quality) = match &variable.source {
            Source::Measured(read, noise) => {
                let value = read(&self.plant);
                let noise = if *noise > 0.0 {
                    noise * self.instruments.noise()
                } else {
                    0.0
                };
                measured(value + noise, variable.properties.range)
            }
            Source::Exact(read) => (read(&self.plant), Quality::GOOD),
            Source::Valve(tag, read) => (read(self.plant.valves.get(*tag)?), Quality::GOOD),
            Source::Channel(channel) => channel.read(&self.plant, &mut self.instruments),
            Source::Instrument(instrument) => (
                self.instruments.read(*instrument, &self.plant, wall),
                Quality::GOOD,
            ),
        };
        Some((value, quality.with_simulated(true)))
    }

    fn publish(&mut self, index: usize, wall: Timestamp, always: bool, scan: &mut Scan) {
        let Some((value, quality)) = self.read(index, wall) else {
            return;
        };
        let Some(published) = self.published.get_mut(index) else {
            return;
        };
        let reading = Some((value, quality));
        if always || *published != reading {
            *published = reading.clone();
            if let Some((value, quality)) = reading {
                scan.publish(
                    ItemId(u32::try_from(index).unwrap_or(u32::MAX)),
                    value,
                    quality,
                );
            }
        }
    }

    fn count(&self) -> u32 {
        u32::try_from(self.variables.len()).unwrap_or(u32::MAX)
    }

    fn record_not_open(&mut self) -> Result<(), IoError> {
        self.health.record_caller_error(&IoError::NotOpen);
        Err(IoError::NotOpen)
    }
}

impl IoServer for BoilerServer {
    fn libraries(&self, name: &str) -> Vec<LibraryDefinition> {
        let library = |library: &'static str, description: &str| {
            let members = self
                .variables
                .iter()
                .filter(|variable| variable.library == library);
            let variables = members.map(|variable| {
                let mut properties = variable.properties.clone();
                properties.source = format!("{name}:{}", variable.item());
                VariableDefinition {
                    path: variable.path.clone(),
                    properties: Arc::new(properties),
                }
            });
            LibraryDefinition {
                name: format!("{}{library}", self.options.prefix),
                description: description.into(),
                variables: variables.collect(),
            }
        };
        vec![
            library(
                "boiler",
                "Simulated boiler house: the plant and its controls",
            ),
            library("rack1", "Simulated boiler house: analog inputs"),
            library("valves", "Simulated boiler house: valves"),
        ]
    }

    fn item(&self, item: &str) -> Option<ItemId> {
        self.by_item.get(item).copied().map(ItemId)
    }

    fn open(&mut self, now: Tick, _wall: Timestamp) -> Result<(), IoError> {
        self.simulated_until = Some(now);
        self.remainder_nanos = 0;
        self.slow_period_start = None;
        self.published.fill(None);
        self.health.record_open();
        Ok(())
    }

    fn scan(&mut self, now: Tick, wall: Timestamp, scan: &mut Scan) -> Result<(), IoError> {
        if self.simulated_until.is_none() {
            return self.record_not_open();
        }
        let skipped = self.run(now);
        let slow = self.slow_is_due(now);
        for index in 0..self.variables.len() {
            let rule = self
                .variables
                .get(index)
                .map(|variable| publish_rule(&variable.source));
            match rule {
                Some(PublishRule::EveryScan) => self.publish(index, wall, true, scan),
                Some(PublishRule::Slow) if slow => self.publish(index, wall, true, scan),
                Some(PublishRule::OnChange) => self.publish(index, wall, false, scan),
                Some(PublishRule::Slow) | None => {}
            }
        }
        self.health.record_scan(skipped.map(|skipped| {
            format!(
                "{:.1} s of plant time were skipped because the scan was late",
                skipped.as_secs_f64()
            )
        }));
        Ok(())
    }

    fn request(
        &mut self,
        item: ItemId,
        now: Tick,
        wall: Timestamp,
        scan: &mut Scan,
    ) -> Result<(), IoError> {
        if self.simulated_until.is_none() {
            return self.record_not_open();
        }
        if item.index() >= self.variables.len() {
            let error = IoError::UnknownItem {
                item: item.0,
                count: self.count(),
            };
            self.health.record_caller_error(&error);
            return Err(error);
        }
        self.run(now);
        self.publish(item.index(), wall, true, scan);
        Ok(())
    }

    fn send(
        &mut self,
        item: ItemId,
        value: &Value,
        _now: Tick,
        _wall: Timestamp,
    ) -> Result<Value, SendRefusal> {
        let outcome = match self.variables.get(item.index()) {
            None => Err(SendRefusal::UnknownItem {
                item: item.0,
                count: self.count(),
            }),
            Some(variable) => match variable.target {
                None => Err(SendRefusal::ReadOnly {
                    item: variable.item(),
                }),
                Some(target) => {
                    let (name, units) = (variable.item(), &variable.properties.units);
                    commands::apply(&mut self.plant, target, &name, units, value)
                }
            },
        };
        self.health.record_send(&outcome);
        if let (Ok(new_value), Some(published)) = (&outcome, self.published.get_mut(item.index())) {
            // The caller receives the value as the result, so the next scan need not publish it.
            *published = Some((new_value.clone(), Quality::GOOD.with_simulated(true)));
        }
        outcome
    }

    fn health(&self) -> Health {
        self.health.clone()
    }

    fn period(&self) -> Duration {
        PERIOD
    }
}

impl fmt::Debug for BoilerServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (options, variables) = (&self.options, self.variables.len());
        f.debug_struct("BoilerServer")
            .field("options", options)
            .field("variables", &variables)
            .finish()
    }
}

/// Determines which scans publish a variable.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PublishRule {
    EveryScan,
    /// Once in each [`SLOW_PERIOD`].
    Slow,
    OnChange,
}

fn publish_rule(source: &Source) -> PublishRule {
    match source {
        Source::Measured(..) => PublishRule::EveryScan,
        Source::Channel(channel) if channel.is_wired() => PublishRule::EveryScan,
        Source::Channel(_) | Source::Exact(_) | Source::Valve(..) => PublishRule::OnChange,
        Source::Instrument(Instrument::LastStart | Instrument::Skipped) => PublishRule::OnChange,
        Source::Instrument(_) => PublishRule::Slow,
    }
}

/// Returns the reading of a sensor. A value outside the sensor's range is clamped, and its quality is
/// uncertain.
fn measured(value: f64, range: Option<(f64, f64)>) -> (Value, Quality) {
    match range {
        Some((low, high)) if !(low..=high).contains(&value) => (
            Value::F64(value.clamp(low, high)),
            Quality::uncertain(Reason::LimitsExceeded),
        ),
        _ => (Value::F64(value), Quality::GOOD),
    }
}

#[cfg(test)]
mod tests;
