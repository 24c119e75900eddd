//! Measurements of Trunkline: scenarios after published tables and charts, each with its physical
//! limit.
//!
//! A run measures every cell with every system in turn, several times, and writes one line of JSON
//! per cell, system and repeat. Comparisons use the medians of the repeats of one run, never
//! results of different runs. `bench/run` builds this program and calls it;
//! `docs/how-to/measure.md` explains the results.
//!
//! # Layout
//! - `round_trip_grid`, `call_cost`, `updates_to_one`, `footprint`: scenarios; each has one loop,
//!   and an end per system that it drives.
//! - `blocks`, `same_host`, `clients`, `alarms`, `history`: further scenarios.
//! - `streams`: elements from one process to another: as fast as they go, one at a time, with
//!   journals, by size of buffer, at a rate.
//! - `tdms`: files of measured values, read and written.
//! - `lone_update`: one update from the engine's program, with and without the connection thread.
//! - `in_process`: what happens within one process.
//! - `raw`, `hosting`, `trunkline_calls`: what the ends of a system have in common.
//! - `cells`, `role`, `settings`, `placement`: a cell is a process of its own, and so is its far
//!   end.
//! - `peers`: other systems, which take part when they are installed.
//! - `usage`, `statistics`, `record`, `machine`: what is measured, and how it is kept.
//! - `stages`: the same path without a network, stage by stage.
//! - `plan`, `run`: the order of a run; the run. `bench/report.py` makes tables and plots of its
//!   results.
//! - `trunkline-counted`, a package of its own: paths whose instructions are counted.
//!
//! It is a library so that `bench/peers`, a separate workspace, measures other systems with the
//! same loops, clocks and checks.

#![forbid(unsafe_code)]
// The program prints to the terminal, and its processes exchange messages on standard output.
#![allow(clippy::print_stdout, clippy::print_stderr)]

pub mod alarms;
pub mod beside_others;
pub mod blocks;
pub mod call_cost;
pub mod cells;
pub mod clients;
pub mod footprint;
pub mod gate_cost;
pub mod history;
pub mod hosting;
pub mod in_process;
pub mod lone_update;
pub mod machine;
pub mod peers;
pub mod placement;
pub mod plan;
pub mod raw;
pub mod record;
pub mod recorder;
pub mod role;
pub mod round_trip_grid;
pub mod run;
pub mod same_host;
pub mod settings;
pub mod stages;
pub mod statistics;
pub mod streams;
pub mod tdms;
pub mod trunkline_calls;
pub mod updates_to_one;
pub mod usage;

pub use trunkline_counted::Outcome;
