//! Measurements of Trunkline: published tables and charts as scenarios, each beside its physical
//! limit.
//!
//! A run measures every cell with every system in turn, several times over, and writes one line of
//! JSON per cell, system and repeat. What is compared is the median of the repeats of one run,
//! never figures of different runs. `bench/run` builds this program and calls it;
//! `docs/how-to/measure.md` says how to read what it finds.
//!
//! # Layout
//! - `w1`, `w2`, `w5`, `w8`: the scenarios; each has one loop, and an end per system that it
//!   drives.
//! - `w7`: what happens within one process.
//! - `raw`, `hosting`, `trunkline_calls`: what the ends of a system have in common.
//! - `cells`, `role`, `settings`, `placement`: a cell is a process of its own, and so is its far
//!   end.
//! - `usage`, `statistics`, `record`, `machine`: what is measured, and how it is kept.
//! - `stages`: the same path without a network, stage by stage.
//! - `run`, `report`: the order of a run; tables and plots of its results.

#![forbid(unsafe_code)]
// The terminal is how it talks to people, and standard output how its processes talk to each other.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod cells;
mod hosting;
mod machine;
mod placement;
mod raw;
mod record;
mod report;
mod role;
mod run;
mod settings;
mod stages;
mod statistics;
mod trunkline_calls;
mod usage;
mod w1;
mod w2;
mod w5;
mod w7;
mod w8;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use run::Extent;
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
    /// Measures everything, cell by cell, and writes a result file.
    Measure {
        /// All ticks as published: hours.
        #[arg(long, conflicts_with = "quick")]
        full: bool,
        /// A few cells only: whether it works.
        #[arg(long)]
        quick: bool,
        /// Folder of the result files.
        #[arg(long, default_value = "bench/results")]
        results: PathBuf,
        /// Scenarios: w1, w2, w5, w7, w8, stages; all when none is named.
        scenarios: Vec<String>,
    },
    /// Writes tables and plots of the results.
    Report {
        /// One result file alone; otherwise each scenario is of the newest file that has it.
        file: Option<PathBuf>,
        /// Folder of `results`, of the page and of the plots.
        #[arg(long, default_value = "bench")]
        folder: PathBuf,
    },
    /// Measures one cell with one system and prints its rows.
    Cell {
        /// The scenario: w1, w2, w5, w7, w8.
        scenario: String,
        /// The system: raw-tcp, trunkline, trunkline-batched, hash-map; all for w7.
        system: String,
        /// Settings as key=value.
        settings: Vec<String>,
    },
    /// Goes a path of `stages` again and again, for a profiler to count.
    Pass {
        /// The path: put, get, round-trip, update.
        path: String,
        /// Items of each pass.
        items: usize,
        /// How many passes.
        passes: u32,
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
        Command::Measure {
            full,
            quick,
            results,
            scenarios,
        } => {
            let extent = match (full, quick) {
                (true, _) => Extent::Full,
                (_, true) => Extent::Quick,
                _ => Extent::Default,
            };
            println!("{}", run::measure(extent, &scenarios, &results)?.display());
            Ok(())
        }
        Command::Report { file, folder } => report::write(file.as_deref(), &folder),
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
        Command::Pass {
            path,
            items,
            passes,
        } => stages::repeat(&path, items, passes),
        Command::Role { name, settings } => cells::run_role(&name, &Settings::parse(&settings)?),
    }
}
