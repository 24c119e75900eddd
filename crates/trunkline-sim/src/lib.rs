//! Simulates the product: runs the production engine, sessions and clients in one thread, with a seeded
//! clock, network and scheduler, and checks them independently.
//!
//! ```text
//!              Plan: drawn from a seed
//!                |
//!                v
//!  faults --> World: time and the order of events -- Trace: a hash that proves a replay
//!                |                       |
//!    Session + Engine   <-- Link -->   ClientCore           production code, driven by `driver`
//!                |                       |
//!             witness                 program
//!                +------> Checker <------+
//! ```
//!
//! A run has two phases. In the first phase, faults are injected. In the second phase, all faults end,
//! and the checker verifies the guarantees for the time after faults. `trunkline-sim --seed N` replays a
//! failing seed bit for bit.

#![forbid(unsafe_code)]

pub mod alarms;
pub mod checker;
mod driver;
mod engine_host;
pub mod fault;
pub mod history;
pub mod hostile;
pub mod link;
mod phases;
pub mod plan;
mod program;
mod remote;
pub mod report;
pub mod rng;
pub mod run;
mod scenario;
pub mod streams;
pub mod trace;
pub mod transient;
pub mod workers;
pub mod world;
