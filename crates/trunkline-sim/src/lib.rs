//! The simulator: the production engine, sessions and clients under a seeded clock, network and
//! scheduler, in one thread, with a checker that is independent of them.
//!
//! ```text
//!              Plan: what a seed draws
//!                |
//!                v
//!  faults --> World: the time, the order of everything -- Trace: a hash that proves a replay
//!                |                       |
//!    Session + Engine   <-- Link -->   ClientCore           the real ones, driven by `driver`
//!                |                       |
//!             witness                 program
//!                +------> Checker <------+
//! ```
//!
//! A run has two phases: in the first faults strike; then all of them are healed, and the
//! guarantees for the time afterwards are checked. A failing seed is replayed bit for bit by
//! `trunkline-sim --seed N`.

#![forbid(unsafe_code)]

pub mod alarms;
pub mod checker;
mod driver;
mod engine_host;
pub mod fault;
pub mod history;
pub mod hostile;
pub mod link;
pub mod plan;
mod program;
mod quiet;
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
