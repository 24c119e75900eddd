//! Interface, schedule and health of I/O servers, and an I/O server for the machine itself.
//!
//! An I/O server connects a device to the engine. It offers variables, publishes the values that it
//! reads in scans, reads a single value when a client requests it, and passes a client's value to
//! the device. This crate starts no thread and reads no clock: its caller passes the time as `now`
//! and `wall`.
//!
//! ```text
//!                 libraries, item          what there is, before anything is opened
//!   engine  <---  scan    -> Scan          values read, in raw units
//!           <---  request -> Scan          one fresh value
//!           --->  send    -> read-back     or a refusal that names the rule
//!           <---  health                   state, last error, counters
//! ```
//!
//! # Layout
//! - [`server`]: the [`IoServer`] trait and its errors.
//! - [`scan`]: the reusable buffer for the readings of a scan.
//! - [`schedule`]: the times at which scans are due, with overruns and jitter.
//! - [`health`]: state, last error and counters.
//! - [`driver`], [`settings`]: create an I/O server by the name of its driver.
//! - [`host`]: CPU, memory, disks, network and temperatures of this machine.

#![forbid(unsafe_code)]

pub mod driver;
pub mod health;
pub mod host;
pub mod scan;
pub mod schedule;
pub mod server;
pub mod settings;

pub use driver::{Driver, DriverError, Drivers};
pub use health::{Health, HealthState};
pub use scan::{Published, Scan};
pub use schedule::{Jitter, ScanSchedule};
pub use server::{IoError, IoServer, ItemId, SendRefusal};
pub use settings::{SettingError, Settings};
pub use trunkline_types::Setting;
