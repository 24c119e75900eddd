//! I/O servers: their interface, schedule and health, and one that is built in.
//!
//! An I/O server connects a device to the engine. It offers variables, publishes the values it
//! reads in scans, fetches one value when a client requests it, and passes a client's value to the
//! device. This crate starts no thread and reads no clock: the composition root calls it with `now`
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
//! - [`scan`]: the reusable buffer that a scan publishes into.
//! - [`schedule`]: the times at which scans are due; overruns and jitter.
//! - [`health`]: state, last error, counters.
//! - [`driver`], [`settings`]: creating an I/O server by the name of its driver.
//! - [`host`]: this machine's CPU, memory, disks, network, temperatures.

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
