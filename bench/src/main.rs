//! The program of `bench/run`: measures, and is the processes of a cell. The library says what is
//! where.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use trunkline_bench::plan::Extent;
use trunkline_bench::settings::Settings;
use trunkline_bench::{Outcome, cells, run, stages};

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
        /// Other systems too, in turn with ours: those that `bench/peers/install` has installed.
        #[arg(long)]
        peers: bool,
        /// Folder of the result files.
        #[arg(long, default_value = "bench/results")]
        results: PathBuf,
        /// Scenarios, such as round_trip_grid or same_host; all when none is named.
        scenarios: Vec<String>,
    },
    /// Measures one cell with one system and prints its rows.
    Cell {
        /// The scenario, such as round_trip_grid.
        scenario: String,
        /// The system, such as raw-tcp or trunkline; all for in_process.
        system: String,
        /// Settings as key=value.
        settings: Vec<String>,
    },
    /// Goes a path of `stages` again and again, for a profiler to count.
    Pass {
        /// The path: put, get, round-trip, update, update-events.
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
