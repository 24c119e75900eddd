//! What the table of the plant's variables is made of.

use std::sync::Arc;

use trunkline_types::{Access, DataType, EnumType, Properties, Value};

use super::commands::{Target, limits};
use super::instruments::Instrument;
use super::plant::Plant;
use super::rack::Channel;

/// One variable of the plant.
#[derive(Debug)]
pub struct Variable {
    /// Its library, without the configured prefix.
    pub library: &'static str,
    /// Its path in it.
    pub path: String,
    /// Everything but its source.
    pub properties: Properties,
    /// Where its value comes from.
    pub source: Source,
    /// What writing it sets.
    pub target: Option<Target>,
}

/// Where a variable's value comes from.
#[derive(Debug)]
pub enum Source {
    /// A sensor: the true value and noise of this standard deviation, in every scan.
    Measured(fn(&Plant) -> f64, f64),
    /// The controller knows it: without noise, when it changes.
    Known(fn(&Plant) -> Value),
    /// A signal of the valve at this place in the list of valves.
    Valve(usize, fn(&super::valve::Valve) -> Value),
    /// A channel of the input rack, in every scan.
    Channel(Channel),
    /// Something with a memory of its own.
    Instrument(Instrument),
}

impl Variable {
    /// A variable that is read only.
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

    /// The same with a unit and digits after the point.
    #[must_use]
    pub fn units(mut self, units: &str, precision: u8) -> Self {
        self.properties.units = units.into();
        self.properties.precision = Some(precision);
        self
    }

    /// The same with a range.
    #[must_use]
    pub fn range(mut self, low: f64, high: f64) -> Self {
        self.properties.range = Some((low, high));
        self
    }

    /// The same with a description.
    #[must_use]
    pub fn about(mut self, description: impl Into<String>) -> Self {
        self.properties.description = description.into();
        self
    }

    /// The same, settable. Its range is widened to what the target takes.
    #[must_use]
    pub fn sets(mut self, target: Target) -> Self {
        self.target = Some(target);
        self.properties.access = Access::ReadWrite;
        if let Some((low, high)) = limits(target) {
            let (widest_low, widest_high) = self.properties.range.unwrap_or((low, high));
            self.properties.range = Some((low.min(widest_low), high.max(widest_high)));
        }
        self
    }

    /// Full name without the configured prefix; also the name of its item.
    pub fn item(&self) -> String {
        format!("{}/{}", self.library, self.path)
    }
}

/// An enum type with these labels.
pub fn labels(labels: &[&str]) -> DataType {
    DataType::Enum(Arc::new(EnumType {
        labels: labels.iter().map(|&label| label.into()).collect(),
    }))
}

/// A sensor with noise of this standard deviation, in the library `boiler`.
pub fn measured(path: &str, read: fn(&Plant) -> f64, noise: f64) -> Variable {
    Variable::new("boiler", path, DataType::F64, Source::Measured(read, noise))
}

/// A number that is known without noise and grows all the time.
pub fn total(path: &str, read: fn(&Plant) -> f64) -> Variable {
    Variable::new("boiler", path, DataType::F64, Source::Measured(read, 0.0))
}

/// What the controller of the boiler knows.
pub fn known(path: &str, ty: DataType, read: fn(&Plant) -> Value) -> Variable {
    Variable::new("boiler", path, ty, Source::Known(read))
}

/// What an instrument of the boiler shows.
pub fn instrument(path: &str, ty: DataType, instrument: Instrument) -> Variable {
    Variable::new("boiler", path, ty, Source::Instrument(instrument))
}

/// The modes of pump and burner.
pub fn modes() -> DataType {
    labels(&["OFF", "MANUAL", "AUTO"])
}

/// Text as a value.
pub fn text(text: &str) -> Value {
    Value::String(text.into())
}
