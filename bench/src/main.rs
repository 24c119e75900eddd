//! The program of `bench/run`. It measures, and it is also the processes of a cell. The library
//! documents the modules.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use trunkline_bench::plan::Extent;
use trunkline_bench::settings::Settings;
use trunkline_bench::{Outcome, cells, run, stages};

/// Measures Trunkline and its physical limits.
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
        /// With all ticks as published. Takes hours.
        #[arg(long, conflicts_with = "quick")]
        full: bool,
        /// Only a few cells, to check that everything works.
        #[arg(long)]
        quick: bool,
        /// Also measures the other systems that `bench/peers/install` has installed, in turn with
        /// Trunkline.
        #[arg(long)]
        peers: bool,
        /// Folder of the result files.
        #[arg(long, default_value = "bench/results")]
        results: PathBuf,
        /// Scenarios, such as round_trip_grid or same_host. Default: all.
        scenarios: Vec<String>,
    },
    /// Measures one cell with one system and prints its rows.
    Cell {
        /// Scenario, such as round_trip_grid.
        scenario: String,
        /// System, such as raw-tcp or trunkline; `all` for in_process.
        system: String,
        /// Settings as key=value.
        settings: Vec<String>,
    },
    /// Repeats a path of `stages`, for a profiler.
    Pass {
        /// Path: put, get, round-trip, update or update-events.
        path: String,
        /// Items per pass.
        items: usize,
        /// Number of passes.
        passes: u32,
    },
    /// Runs a role of a far end. Cells start it.
    #[command(hide = true)]
    Role {
        /// Name of the role.
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
            peers,
            results,
            scenarios,
        } => {
            let extent = match (full, quick) {
                (true, _) => Extent::Full,
                (_, true) => Extent::Quick,
                _ => Extent::Default,
            };
            println!(
                "{}",
                run::measure(extent, &scenarios, peers, &results)?.display()
            );
            Ok(())
        }
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
