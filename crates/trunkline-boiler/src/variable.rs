//! Defines the variables of the simulation, and functions that create them.

use std::sync::Arc;

use trunkline_types::alarm::{AlarmDefinition, AlarmKind, LimitLevel, Operand};
use trunkline_types::{Access, DataType, EnumType, Properties, Value};

use super::commands::{Target, limits};
use super::instruments::Instrument;
use super::plant::Plant;
use super::rack::Channel;

/// One variable of the plant.
#[derive(Debug)]
pub struct Variable {
    /// Library, without the configured prefix.
    pub library: &'static str,
    /// Path within the library.
    pub path: String,
    /// All properties except the source.
    pub properties: Properties,
    pub source: Source,
    /// The item that a write sets; `None` if it is read-only.
    pub target: Option<Target>,
}

/// The origin of a variable's value.
#[derive(Debug)]
pub enum Source {
    /// A sensor that is published in every scan: the true value, plus noise with this standard
    /// deviation.
    Measured(fn(&Plant) -> f64, f64),
    /// A value of a controller, which has no noise and is published when it changes.
    Exact(fn(&Plant) -> Value),
    /// A signal of the valve at this index.
    Valve(usize, fn(&super::valve::Valve) -> Value),
    /// A channel of the input rack, published in every scan.
    Channel(Channel),
    /// An instrument with its own state.
    Instrument(Instrument),
}

impl Variable {
    /// Returns a read-only variable.
    pub fn new(
        library: &'static str,
        path: impl Into<String>,
        ty: DataType,
        source: Source,
    ) -> Self {
        let mut properties = Properties::new(ty);
        properties.access = Access::ReadOnly;
        Self {
            library,
            path: path.into(),
            properties,
            source,
            target: None,
        }
    }

    /// Sets the unit and the number of decimal places.
    #[must_use]
    pub fn units(mut self, units: &str, precision: u8) -> Self {
        self.properties.units = units.into();
        self.properties.precision = Some(precision);
        self
    }

    #[must_use]
    pub fn range(mut self, low: f64, high: f64) -> Self {
        self.properties.range = Some((low, high));
        self
    }

    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.properties.description = description.into();
        self
    }

    /// Adds a limit alarm. The alarm is cleared when the value is inside the limit by at least
    /// `deadband`. Both are in the unit of the value.
    #[must_use]
    pub fn limit_alarm(mut self, level: LimitLevel, limit: f64, deadband: f64, help: &str) -> Self {
        let (area, _) = self.path.split_once('/').unwrap_or(("boiler", ""));
        let kind = AlarmKind::Limit {
            level,
            limit: Operand::Constant(limit),
            deadband,
        };
        let is_outer = matches!(level, LimitLevel::HiHi | LimitLevel::LoLo);
        self.properties.alarms.push(AlarmDefinition {
            priority: if is_outer { 900 } else { 600 },
            area: area.to_owned(),
            help: help.to_owned(),
            ..AlarmDefinition::new(kind)
        });
        self
    }

    /// Makes the variable settable, and extends its range to the limits of the target.
    #[must_use]
    pub fn settable(mut self, target: Target) -> Self {
        self.target = Some(target);
        self.properties.access = Access::ReadWrite;
        if let Some((low, high)) = limits(target) {
            let (range_low, range_high) = self.properties.range.unwrap_or((low, high));
            self.properties.range = Some((low.min(range_low), high.max(range_high)));
        }
        self
    }

    /// Returns the name of the item, which is the full name of the variable without the prefix.
    pub fn item(&self) -> String {
        format!("{}/{}", self.library, self.path)
    }
}

/// Returns an enum type with these labels.
pub fn labels(labels: &[&str]) -> DataType {
    DataType::Enum(Arc::new(EnumType {
        labels: labels.iter().map(|&label| label.into()).collect(),
    }))
}

/// Returns a sensor of the boiler. `noise` is the standard deviation of its noise.
pub fn measured(path: &str, read: fn(&Plant) -> f64, noise: f64) -> Variable {
    Variable::new("boiler", path, DataType::F64, Source::Measured(read, noise))
}

/// Returns a total from the books: a number without noise, which is published in every scan.
pub fn total(path: &str, read: fn(&Plant) -> f64) -> Variable {
    Variable::new("boiler", path, DataType::F64, Source::Measured(read, 0.0))
}

/// Returns a variable with a value of the boiler's controller.
pub fn exact(path: &str, ty: DataType, read: fn(&Plant) -> Value) -> Variable {
    Variable::new("boiler", path, ty, Source::Exact(read))
}

/// Returns a variable with the reading of an instrument of the boiler.
pub fn instrument(path: &str, ty: DataType, instrument: Instrument) -> Variable {
    Variable::new("boiler", path, ty, Source::Instrument(instrument))
}

/// Returns the enum type of the modes of pump and burner.
pub fn modes() -> DataType {
    labels(&["OFF", "MANUAL", "AUTO"])
}

pub fn text(text: &str) -> Value {
    Value::String(text.into())
}
