//! Measurements of Trunkline: published tables and charts as scenarios, each beside its physical limit.
//!
//! A run measures every cell with every system in turn, several times over, and writes one line of JSON
//! per cell, system and repeat. What is compared is the median of the repeats of one run, never figures
//! of different runs. `bench/run` builds this program and calls it; `docs/how-to/measure.md` says how to
//! read what it finds.
//!
//! # Layout
//! - `w1`, `w2`, `w5`: the scenarios; each has one loop, and an end per system that it drives.
//! - `raw`, `hosting`, `trunkline_calls`: what the ends of a system have in common.
//! - `cells`, `role`, `settings`, `placement`: a cell is a process of its own, and so is its far end.
//! - `usage`, `statistics`, `record`, `machine`: what is measured, and how it is kept.
//! - `stages`: the same path without a network, stage by stage.
//! - `run`, `report`: the order of a run; tables and plots of its results.

#![forbid(unsafe_code)]

mod cells;
mod hosting;
mod machine;
mod placement;
mod raw;
mod record;
mod role;
mod settings;
mod statistics;
mod trunkline_calls;
mod usage;
mod w1;
mod w2;
mod w5;

use std::error::Error;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use settings::Settings;

/// What anything here comes to; an error is a sentence for the person at the terminal.
type Outcome<T> = Result<T, Box<dyn Error>>;

/// Measures Trunkline beside its physical limits.
#[derive(Debug, Parser)]
#[command(name = "trunkline-bench")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measures one cell with one system and prints its rows.
    Cell {
        /// The scenario: w1, w2, w5.
        scenario: String,
        /// The system: raw-tcp, trunkline, trunkline-batched.
        system: String,
        /// Settings as key=value.
        settings: Vec<String>,
    },
    /// Does the part of a far end; started by cells.
    #[command(hide = true)]
    Role {
        /// Which part.
        name: String,
        /// Settings as key=value.
        settings: Vec<String>,
    },
}

fn main() -> ExitCode {
    match carry_out(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn carry_out(command: Command) -> Outcome<()> {
    match command {
        Command::Cell {
            scenario,
            system,
            settings,
        } => {
            for row in cells::run_cell(&scenario, &system, &Settings::parse(&settings)?)? {
                println!("{}", serde_json::to_string(&row)?);
            }
            Ok(())
        }
        Command::Role { name, settings } => cells::run_role(&name, &Settings::parse(&settings)?),
    }
}
