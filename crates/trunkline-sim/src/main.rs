//! `trunkline-sim`: runs seeds, replays one, writes the tables of the report.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "what it finds is its output")]

use std::ops::Range;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use trunkline_sim::plan::Plan;
use trunkline_sim::run::{Outcome, run};

/// Runs the production engine and clients in simulated time, seed by seed, and checks them.
#[derive(Parser, Debug)]
#[command(name = "trunkline-sim")]
struct Arguments {
    /// Runs this seed only.
    #[arg(long)]
    seed: Option<u64>,
    /// Runs these seeds.
    #[arg(long, value_parser = seeds, value_name = "A..B")]
    seeds: Option<Range<u64>>,
    /// Runs seeds until so many hours were simulated.
    #[arg(long)]
    hours: Option<f64>,
    /// The chaos run: so many cycles of fault, heal and comparison, 50 to a seed.
    #[arg(long)]
    chaos: Option<u64>,
    /// Updates may be missing on the way, as long as the views are repaired 2 s after the heal.
    #[arg(long)]
    tolerate_repair: bool,
    /// Prints what happens.
    #[arg(long)]
    trace: bool,
    /// Plants this bug, or `list`s those there are.
    #[cfg(feature = "planted")]
    #[arg(long, value_name = "BUG")]
    planted: Option<String>,
}

fn seeds(text: &str) -> Result<Range<u64>, String> {
    let parts = text
        .split_once("..")
        .and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
    parts
        .map(|(from, to)| from..to)
        .ok_or_else(|| "give a range of seeds, as in 0..100".to_owned())
}

/// Plants a bug by its name. False when none has it.
#[cfg(feature = "planted")]
fn plant(name: Option<&str>) -> bool {
    use trunkline_types::planted::{Bug, plant};
    let Some(name) = name else {
        return true;
    };
    let bug = Bug::ALL.iter().find(|bug| bug.name() == name);
    plant(bug.copied());
    if bug.is_none() {
        for bug in Bug::ALL {
            println!("{:<22} {}", bug.name(), bug.sentence());
        }
    }
    bug.is_some()
}

/// Cycles of the chaos run in one seed.
const CYCLES: u64 = 50;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let range = match (arguments.seed, &arguments.seeds) {
        (Some(seed), _) => seed..seed + 1,
        (None, Some(seeds)) => seeds.clone(),
        (None, None) => 0..u64::MAX,
    };
    let default = (arguments.seed.is_none() && arguments.seeds.is_none()).then_some(1.0);
    let hours = arguments
        .hours
        .or(default.filter(|_| arguments.chaos.is_none()));
    #[cfg(feature = "planted")]
    if !plant(arguments.planted.as_deref()) {
        return ExitCode::from(2);
    }
    let started = Instant::now();
    let (mut nanos, mut runs, mut cycles, mut bad) = (0_u128, 0_u64, 0_u64, 0_u64);
    for seed in range {
        if hours.is_some_and(|hours| nanos as f64 >= hours * 3.6e12) {
            break;
        }
        if arguments
            .chaos
            .is_some_and(|wanted| cycles >= wanted && arguments.seed.is_none())
        {
            break;
        }
        let mut plan = match arguments.chaos {
            Some(_) => Plan::chaos(seed, CYCLES),
            None => Plan::drawn(seed),
        };
        plan.tolerates_repair = arguments.tolerate_repair;
        cycles += plan.cycles;
        let outcome = run(plan, arguments.trace);
        nanos += u128::from(outcome.nanos);
        runs += 1;
        if outcome.violation.is_some() || arguments.seed.is_some() {
            show(&outcome, arguments.chaos);
        }
        bad += u64::from(outcome.violation.is_some());
        if bad >= 10 {
            break;
        }
    }
    let wall = started.elapsed().as_secs_f64();
    let simulated = nanos as f64 / 1e9;
    println!(
        "{runs} seeds, {:.2} h simulated in {wall:.1} s ({:.0} x), {bad} with a violation",
        simulated / 3600.0,
        simulated / wall
    );
    ExitCode::from(u8::from(bad > 0))
}

fn show(outcome: &Outcome, chaos: Option<u64>) {
    let seed = outcome.seed;
    if let Some(violation) = &outcome.violation {
        for line in &outcome.last_lines {
            println!("{line}");
        }
        println!("seed {seed}: {violation}");
        let chaos = chaos.map_or(String::new(), |_| " --chaos 1".to_owned());
        println!(
            "replay: cargo run --profile sim -p trunkline-sim -- --seed {seed}{chaos} --trace"
        );
    }
    println!(
        "seed {seed}: trace {:016x}, {} events, {} connections, {:?}",
        outcome.hash, outcome.events, outcome.connections, outcome.totals
    );
}
