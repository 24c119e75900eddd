//! What an I/O server is, when it scans, how it is doing; and two that are built in.
//!
//! An I/O server stands between the engine and a device. It offers variables, publishes what it
//! reads in scans, fetches one value when a client asks for it, and passes a client's value to the
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
//! - [`schedule`]: when the next scan is due; overruns and jitter.
//! - [`health`]: state, last error, counters.
//! - [`mod@driver`], [`settings`]: making an I/O server by its driver's name.
//! - [`host`]: this machine's CPU, memory, disks, network, temperatures.
//! - [`sim`]: a boiler house that conserves mass and energy.

#![forbid(unsafe_code)]

pub mod driver;
pub mod health;
pub mod host;
pub mod scan;
pub mod schedule;
pub mod server;
pub mod settings;
pub mod sim;

pub use driver::{DriverError, driver, drivers};
pub use health::{Health, HealthState};
pub use scan::{Published, Scan};
pub use schedule::{Jitter, ScanSchedule};
pub use server::{IoError, IoServer, ItemId, SendRefusal};
pub use settings::{Setting, SettingError, Settings};
