//! Simulates alarms: runs the production engine, the production keeper of alarm states and the
//! production store under faults, and compares them with an independent model.
//!
//! ```text
//! Plan --> AlarmWorld: time, writes, operators, faults
//!            |
//!          Host: Engine + AlarmSaver --KeeperStore--> SqliteStore   production code
//!            |        |                    |
//!            |     fields, journal    entries, states
//!            |        v                    v
//!            |     Followers, Clients -> AlarmChecker <-- Model of each alarm
//!            +--- every value, action, poll of the timers ----^
//! ```

pub mod checker;
mod clients;
pub mod fault;
mod followers;
mod host;
pub mod model;
pub mod plan;
mod scenario;
mod world;
