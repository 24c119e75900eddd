//! The built-in drivers, by name.

use trunkline_types::name::suggest;

use crate::settings::did_you_mean;
use crate::{IoError, IoServer, SettingError, Settings, host, sim};

/// The reason why an I/O server could not be created: an error of the configuration or of this
/// machine.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DriverError {
    /// There is no such driver.
    #[error(
        "there is no driver \"{name}\"{}; built in are: {known}",
        did_you_mean(suggestion)
    )]
    Unknown {
        /// The name given.
        name: String,
        /// The most similar driver name.
        suggestion: Option<String>,
        /// Names of all drivers.
        known: String,
    },
    /// One of its settings is wrong.
    #[error("driver \"{driver}\": {cause}")]
    Setting {
        /// Name of the driver.
        driver: String,
        /// The error of the setting.
        cause: SettingError,
    },
    /// This machine lacks something that the driver needs.
    #[error("driver \"{driver}\": {cause}")]
    NotUsable {
        /// Name of the driver.
        driver: String,
        /// The missing part.
        cause: IoError,
    },
}

struct Driver {
    name: &'static str,
    description: &'static str,
    make: fn(&Settings) -> Result<Box<dyn IoServer>, DriverError>,
}

/// Creates a built-in I/O server.
///
/// # Errors
/// [`DriverError`] for an unknown driver or setting, with a suggestion, or if this machine lacks
/// something that the driver needs.
pub fn driver(name: &str, settings: &Settings) -> Result<Box<dyn IoServer>, DriverError> {
    match DRIVERS.iter().find(|driver| driver.name == name) {
        Some(driver) => (driver.make)(settings),
        None => Err(DriverError::Unknown {
            name: name.into(),
            suggestion: suggest(name, DRIVERS.iter().map(|driver| driver.name)),
            known: DRIVERS
                .iter()
                .map(|driver| driver.name)
                .collect::<Vec<_>>()
                .join(", "),
        }),
    }
}

/// Returns the name and description of every built-in driver.
pub fn drivers() -> impl Iterator<Item = (&'static str, &'static str)> {
    DRIVERS
        .iter()
        .map(|driver| (driver.name, driver.description))
}

fn make_host(settings: &Settings) -> Result<Box<dyn IoServer>, DriverError> {
    let options = host::Options::from_settings(settings).map_err(|cause| wrong("host", cause))?;
    match host::SysinfoProbe::new() {
        Ok(probe) => Ok(Box::new(host::HostServer::new(Box::new(probe), options))),
        Err(cause) => Err(DriverError::NotUsable {
            driver: "host".into(),
            cause,
        }),
    }
}

fn make_sim(settings: &Settings) -> Result<Box<dyn IoServer>, DriverError> {
    let options = sim::Options::from_settings(settings).map_err(|cause| wrong("sim", cause))?;
    Ok(Box::new(sim::SimServer::new(options)))
}

fn wrong(driver: &str, cause: SettingError) -> DriverError {
    DriverError::Setting {
        driver: driver.into(),
        cause,
    }
}

const DRIVERS: &[Driver] = &[
    Driver {
        name: "host",
        description: "this machine: CPU, memory, disks, network, temperatures",
        make: make_host,
    },
    Driver {
        name: "sim",
        description: "a simulated boiler house that conserves mass and energy",
        make: make_sim,
    },
];
