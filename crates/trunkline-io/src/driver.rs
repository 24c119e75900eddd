//! Drivers, which create I/O servers by the names that configurations use.

use trunkline_types::name::suggest;

use crate::settings::suggested_or_known;
use crate::{IoError, IoServer, SettingError, Settings, host};

/// The reason why an I/O server could not be created. The configuration or this machine is at
/// fault.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum DriverError {
    #[error(
        "there is no driver \"{name}\"; {}",
        suggested_or_known(suggestion, "the drivers are", known)
    )]
    Unknown {
        name: String,
        /// The most similar driver name.
        suggestion: Option<String>,
        /// Names of all drivers, separated by commas.
        known: String,
    },
    #[error("driver \"{driver}\": {cause}")]
    Setting {
        /// Name of the driver.
        driver: String,
        cause: SettingError,
    },
    #[error("driver \"{driver}\": {cause}")]
    NotUsable {
        /// Name of the driver.
        driver: String,
        cause: IoError,
    },
}

/// A driver, which creates I/O servers.
#[derive(Clone, Copy, Debug)]
pub struct Driver {
    /// The name of the driver in configurations and on the command line.
    pub name: &'static str,
    /// Description in one line of what the driver's I/O servers read.
    pub description: &'static str,
    /// Creates an I/O server with these settings.
    ///
    /// # Errors
    /// [`DriverError`] for an unknown or wrong setting, or if this machine does not have something
    /// that the driver needs.
    pub make: fn(&Settings) -> Result<Box<dyn IoServer>, DriverError>,
}

/// The drivers that a program has, by name.
#[derive(Clone, Debug)]
pub struct Drivers(Vec<Driver>);

impl Drivers {
    /// Returns the drivers of this crate.
    pub fn built_in() -> Self {
        Self(vec![Driver {
            name: "host",
            description: "this machine: CPU, memory, disks, network, temperatures",
            make: make_host,
        }])
    }

    /// Adds a driver. It replaces a driver with the same name.
    #[must_use]
    pub fn with(mut self, driver: Driver) -> Self {
        self.0.retain(|known| known.name != driver.name);
        self.0.push(driver);
        self
    }

    /// Returns all drivers in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = &Driver> {
        self.0.iter()
    }

    /// Creates an I/O server.
    ///
    /// # Errors
    /// [`DriverError`] for an unknown driver or setting, with a suggestion, or if this machine does
    /// not have something that the driver needs.
    pub fn create(
        &self,
        name: &str,
        settings: &Settings,
    ) -> Result<Box<dyn IoServer>, DriverError> {
        let names = || self.iter().map(|driver| driver.name);
        match self.iter().find(|driver| driver.name == name) {
            Some(driver) => (driver.make)(settings),
            None => Err(DriverError::Unknown {
                name: name.into(),
                suggestion: suggest(name, names()),
                known: names().collect::<Vec<_>>().join(", "),
            }),
        }
    }
}

fn make_host(settings: &Settings) -> Result<Box<dyn IoServer>, DriverError> {
    let options = host::Options::from_settings(settings).map_err(|cause| DriverError::Setting {
        driver: "host".into(),
        cause,
    })?;
    match host::SysinfoProbe::new() {
        Ok(probe) => Ok(Box::new(host::HostServer::new(Box::new(probe), options))),
        Err(cause) => Err(DriverError::NotUsable {
            driver: "host".into(),
            cause,
        }),
    }
}
