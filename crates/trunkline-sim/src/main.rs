//! The program `trunkline-sim` runs seeds, replays a seed, or prints the tables of the report.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "the program prints its results")]

use std::num::NonZero;
use std::ops::Range;
use std::process::ExitCode;
use std::time::Instant;

use clap::{Parser, ValueEnum};
use trunkline_sim::plan::{Plan, Repairs};
use trunkline_sim::report::{self, Tally};
use trunkline_sim::run::{Outcome, Scenario, run};
use trunkline_sim::workers::{Share, Workers};
use trunkline_sim::{alarms, history, streams};

/// Runs the production engine and clients in simulated time, seed by seed, and checks them.
#[derive(Parser, Debug)]
#[command(name = "trunkline-sim")]
struct Arguments {
    /// Runs only this seed.
    #[arg(long)]
    seed: Option<u64>,
    /// Runs the seeds of this range.
    #[arg(long, value_parser = seeds, value_name = "A..B")]
    seeds: Option<Range<u64>>,
    /// Runs seeds until this many hours have been simulated.
    #[arg(long)]
    hours: Option<f64>,
    /// Runs the chaos run with this number of cycles of faults, healing and comparison, 50 per seed.
    #[arg(long)]
    chaos: Option<u64>,
    /// Accepts repairs: `records` that were lost in transit, or lost `marks` of pending updates.
    #[arg(long, value_enum, value_name = "WHAT")]
    tolerate: Option<Tolerate>,
    /// Simulates streams between two programs instead of variables.
    #[arg(long, conflicts_with_all = ["chaos", "tolerate"])]
    streams: bool,
    /// Simulates alarms, with the store of the alarm states and the alarm journal.
    #[arg(long, conflicts_with_all = ["chaos", "tolerate", "streams"])]
    alarms: bool,
    /// Simulates the history: recording, files and queries.
    #[arg(long, conflicts_with_all = ["chaos", "tolerate", "streams", "alarms"])]
    history: bool,
    /// Number of processes that share the seeds. The default is one process per core.
    #[arg(long)]
    jobs: Option<NonZero<usize>>,
    /// Runs only one worker's share of the seeds, and writes the figures of each.
    #[arg(long, hide = true)]
    share: Option<Share>,
    /// Prints the tables of the report. A build with planted bugs prints the number of seeds that find
    /// each bug.
    #[arg(long)]
    report: bool,
    /// Prints each event.
    #[arg(long)]
    trace: bool,
    /// Plants this bug. `list` prints all bugs.
    #[cfg(feature = "planted")]
    #[arg(long, value_name = "BUG")]
    planted: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Debug, ValueEnum)]
enum Tolerate {
    Records,
    Marks,
}

fn seeds(text: &str) -> Result<Range<u64>, String> {
    let parts = text
        .split_once("..")
        .and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
    parts
        .map(|(from, to)| from..to)
        .ok_or_else(|| "expected a range of seeds, such as 0..100".to_owned())
}

/// Plants a bug by name. Returns false if there is no such bug.
#[cfg(feature = "planted")]
fn plant(name: Option<&str>) -> bool {
    use trunkline_types::planted::{Bug, plant};
    let Some(name) = name else {
        return true;
    };
    let all = || {
        Bug::ALL
            .iter()
            .chain(Bug::STREAMS)
            .chain(Bug::ALARMS)
            .chain(Bug::HISTORY)
    };
    let bug = all().find(|bug| bug.name() == name);
    plant(bug.copied());
    if bug.is_none() {
        for bug in all() {
            println!("{:<22} {}", bug.name(), bug.sentence());
        }
    }
    bug.is_some()
}

/// Number of cycles of a chaos run per seed.
const CYCLES: u64 = 50;
/// Number of runs with a violation after which the program stops.
const VIOLATIONS: u64 = 10;
/// Maximum number of seeds to find a planted bug.
#[cfg(feature = "planted")]
const PLANTED_SEEDS: u64 = 1000;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    #[cfg(feature = "planted")]
    if !plant(arguments.planted.as_deref()) {
        return ExitCode::from(2);
    }
    if arguments.streams {
        simulate(&arguments, streams::plan::Plan::drawn)
    } else if arguments.alarms {
        simulate(&arguments, alarms::plan::Plan::drawn)
    } else if arguments.history {
        simulate(&arguments, history::plan::Plan::drawn)
    } else {
        simulate(&arguments, |seed| arguments.plan_of_variables(seed))
    }
}

/// Runs the seeds of one kind of simulation, or prints the table of its planted bugs.
fn simulate<P: Scenario>(arguments: &Arguments, draw: impl Fn(u64) -> P) -> ExitCode {
    #[cfg(feature = "planted")]
    if arguments.report && arguments.planted.is_none() {
        println!("{}", report::planted(PLANTED_SEEDS, draw));
        return ExitCode::SUCCESS;
    }
    let run = |seed| {
        // Plant the bug again, because the previous run may have removed it.
        #[cfg(feature = "planted")]
        plant(arguments.planted.as_deref());
        run(draw(seed), arguments.trace)
    };
    let seeds = arguments.seeds();
    if let Some(share) = arguments.share {
        share.work(seeds, |seed| report::figures(&run(seed)));
        return ExitCode::SUCCESS;
    }
    #[expect(
        clippy::disallowed_methods,
        reason = "the summary shows the real time of the runs"
    )]
    let started = Instant::now();
    let mut tally = Tally::<P>::default();
    if let Err(error) = arguments.add_up(seeds, run, &mut tally) {
        println!("{error}");
        return ExitCode::from(1);
    }
    if arguments.report {
        println!("{}", tally.tables(arguments.chaos.map(|_| CYCLES)));
    }
    println!("{}", tally.line(started.elapsed().as_secs_f64()));
    ExitCode::from(u8::from(tally.violations() > 0))
}

impl Arguments {
    /// Returns the seeds to run. With `hours`, the run may stop before the last seed.
    fn seeds(&self) -> Range<u64> {
        let mut seeds = match (self.seed, &self.seeds) {
            (Some(seed), _) => return seed..seed + 1,
            (None, Some(seeds)) => seeds.clone(),
            (None, None) => 0..u64::MAX,
        };
        if let Some(cycles) = self.chaos {
            let end_max = seeds.start.saturating_add(cycles.div_ceil(CYCLES));
            seeds.end = seeds.end.min(end_max);
        }
        seeds
    }

    /// Returns the number of simulated hours after which no further seed is run.
    fn hours_max(&self) -> f64 {
        let is_bounded = self.seed.is_some() || self.seeds.is_some() || self.chaos.is_some();
        let default = if is_bounded { f64::INFINITY } else { 1.0 };
        self.hours.unwrap_or(default)
    }

    /// Returns the number of processes that run these seeds.
    fn jobs(&self, seeds: &Range<u64>) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        let jobs = self.jobs.map_or(cores, NonZero::get);
        let seeds = seeds.end.saturating_sub(seeds.start);
        match self.trace {
            true => 1,
            false => usize::try_from(seeds).map_or(jobs, |seeds| jobs.min(seeds)),
        }
    }

    /// Runs seeds, adds up their figures, and prints each run with a violation.
    fn add_up<P: Scenario>(
        &self,
        seeds: Range<u64>,
        run: impl Fn(u64) -> Outcome<P>,
        tally: &mut Tally<P>,
    ) -> Result<(), String> {
        let jobs = self.jobs(&seeds);
        let workers = (jobs > 1).then(|| Workers::start(jobs)).transpose();
        let mut workers = workers.map_err(|error| format!("cannot start a process: {error}"))?;
        for seed in seeds {
            if tally.hours() >= self.hours_max() || tally.violations() >= VIOLATIONS {
                break;
            }
            let Some(workers) = &mut workers else {
                let outcome = run(seed);
                tally.add(&report::figures(&outcome));
                if outcome.violation.is_some() || self.seed.is_some() {
                    self.show(seed, &outcome);
                }
                continue;
            };
            let before = tally.violations();
            let failed = |error| format!("seed {seed}: {error}\nreplay: {}", self.replay(seed));
            let figures = workers.next_figures().map_err(failed)?;
            if !tally.add(&figures) {
                return Err(failed(
                    "the worker process runs another version of the program".to_owned(),
                ));
            }
            if tally.violations() > before {
                let outcome = run(seed);
                if outcome.violation.is_none() {
                    println!(
                        "seed {seed}: only another process found the violation: two runs differ"
                    );
                }
                self.show(seed, &outcome);
            }
        }
        Ok(())
    }

    fn show<P: Scenario>(&self, seed: u64, outcome: &Outcome<P>) {
        if let Some(violation) = &outcome.violation {
            let lines = outcome.trace.last_lines();
            lines.iter().for_each(|line| println!("{line}"));
            println!("seed {seed}: {violation}");
            println!("replay: {}", self.replay(seed));
        }
        let (hash, events) = (outcome.trace.hash(), outcome.trace.events);
        let totals = &outcome.totals;
        println!("seed {seed}: trace {hash:016x}, {events} events, {totals:?}");
    }

    fn plan_of_variables(&self, seed: u64) -> Plan {
        let mut plan = match self.chaos {
            Some(_) => Plan::chaos(seed, CYCLES),
            None => Plan::drawn(seed),
        };
        plan.repairs = match self.tolerate {
            None => Repairs::Never,
            Some(Tolerate::Records) => Repairs::Records,
            Some(Tolerate::Marks) => Repairs::Marks,
        };
        plan
    }

    /// Returns the command that replays this seed bit for bit.
    fn replay(&self, seed: u64) -> String {
        let command = match cfg!(feature = "planted") {
            true => "cargo run --profile sim -p trunkline-sim --features planted",
            false => "cargo run --profile sim -p trunkline-sim",
        };
        let mut options = format!(" -- --seed {seed}");
        if self.streams {
            options.push_str(" --streams");
        }
        if self.alarms {
            options.push_str(" --alarms");
        }
        if self.history {
            options.push_str(" --history");
        }
        if self.chaos.is_some() {
            options.push_str(" --chaos 1");
        }
        if let Some(tolerated) = self
            .tolerate
            .as_ref()
            .and_then(ValueEnum::to_possible_value)
        {
            options.push_str(" --tolerate ");
            options.push_str(tolerated.get_name());
        }
        #[cfg(feature = "planted")]
        if let Some(bug) = &self.planted {
            options.push_str(" --planted ");
            options.push_str(bug);
        }
        format!("{command}{options} --trace")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replay_command_repeats_the_options_of_the_run() {
        for options in [
            &["--seeds", "0..9"][..],
            &["--chaos", "10000", "--tolerate", "marks"],
            &["--streams", "--hours", "50"],
            &["--alarms", "--hours", "50"],
            &["--history", "--hours", "50"],
            #[cfg(feature = "planted")]
            &["--tolerate", "records", "--planted", "silent-drop"],
        ] {
            let sut = Arguments::parse_from([&["trunkline-sim"], options].concat());
            let replay = sut.replay(7);
            let (_, after) = replay.split_once(" -- ").unwrap();
            let again = ["trunkline-sim"].into_iter().chain(after.split(' '));
            let again = Arguments::parse_from(again);
            assert_eq!(again.seed, Some(7));
            assert!(again.trace);
            assert_eq!(again.streams, sut.streams);
            assert_eq!(again.alarms, sut.alarms);
            assert_eq!(again.history, sut.history);
            assert_eq!(again.chaos.is_some(), sut.chaos.is_some());
            assert_eq!(again.tolerate, sut.tolerate);
            #[cfg(feature = "planted")]
            assert_eq!(again.planted, sut.planted);
        }
    }
}
