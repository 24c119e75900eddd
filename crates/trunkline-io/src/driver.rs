//! The drivers that are built in, by name.

use trunkline_types::name::suggest;

use crate::settings::did_you_mean;
use crate::{IoError, IoServer, SettingError, Settings, host, sim};

/// Why an I/O server could not be made; the configuration or this machine is at fault.
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
        /// A driver that is nearly it.
        suggestion: Option<String>,
        /// All of them.
        known: String,
    },
    /// One of its settings is wrong.
    #[error("driver \"{driver}\": {cause}")]
    Setting {
        /// Its name.
        driver: String,
        /// What is wrong.
        cause: SettingError,
    },
    /// This machine does not have what it needs.
    #[error("driver \"{driver}\": {cause}")]
    NotUsable {
        /// Its name.
        driver: String,
        /// What is missing.
        cause: IoError,
    },
}

struct Driver {
    name: &'static str,
    description: &'static str,
    make: fn(&Settings) -> Result<Box<dyn IoServer>, DriverError>,
}

/// Makes an I/O server that is built in.
///
/// # Errors
/// [`DriverError`] for an unknown driver or setting, with a suggestion, or when this machine does
/// not have what the driver needs.
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

/// Name and description of every driver that is built in.
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
