//! `trunkline-sim`: runs seeds, replays one of them, or prints the tables of the report.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "what it finds is its output")]

use std::ops::Range;
use std::process::ExitCode;
use std::time::Instant;

use clap::{Parser, ValueEnum};
use trunkline_sim::plan::{Plan, Repairs};
use trunkline_sim::report::Sum;
use trunkline_sim::run::{Outcome, run};
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
    /// Chaos run: runs this many cycles of fault, heal and comparison, 50 per seed.
    #[arg(long)]
    chaos: Option<u64>,
    /// Accepts repairs: of `records` lost in transit, 2 s after the heal, or of `marks`, after a
    /// whole sweep.
    #[arg(long, value_enum, value_name = "WHAT")]
    tolerate: Option<Tolerate>,
    /// Simulates streams between two programs instead of variables.
    #[arg(long, conflicts_with_all = ["chaos", "tolerate"])]
    streams: bool,
    /// Simulates alarms, with the store of their states and their journal.
    #[arg(long, conflicts_with_all = ["chaos", "tolerate", "streams"])]
    alarms: bool,
    /// Simulates the recorder of history, with its files, and queries.
    #[arg(long, conflicts_with_all = ["chaos", "tolerate", "streams", "alarms"])]
    history: bool,
    /// Prints the tables of the report; with planted bugs, the number of seeds that each needs.
    #[arg(long)]
    report: bool,
    /// Prints each event.
    #[arg(long)]
    trace: bool,
    /// Plants this bug, or `list`s all of them.
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
        .ok_or_else(|| "give a range of seeds, as in 0..100".to_owned())
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

/// Cycles of the chaos run per seed.
const CYCLES: u64 = 50;
/// Number of runs with a violation after which the program stops.
const VIOLATIONS: u64 = 10;
/// Number of seeds in which a planted bug is searched for.
#[cfg(feature = "planted")]
const PLANTED_SEEDS: u64 = 1000;

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
    #[cfg(feature = "planted")]
    if arguments.report && arguments.planted.is_none() {
        let table = match (arguments.streams, arguments.alarms, arguments.history) {
            (true, ..) => streams::report::planted(PLANTED_SEEDS),
            (_, true, _) => alarms::report::planted(PLANTED_SEEDS),
            (.., true) => history::report::planted(PLANTED_SEEDS),
            _ => trunkline_sim::report::planted(PLANTED_SEEDS),
        };
        println!("{table}");
        return ExitCode::SUCCESS;
    }
    #[expect(
        clippy::disallowed_methods,
        reason = "how long the runs themselves took"
    )]
    let started = Instant::now();
    let seconds = || started.elapsed().as_secs_f64();
    if arguments.streams {
        let mut sum = streams::report::Sum::default();
        let is_clean = arguments.run_seeds(range, hours, |seed| {
            let outcome = streams::run::run(streams::plan::Plan::drawn(seed), arguments.trace);
            sum.add(&outcome);
            Ran {
                hours: sum.tally().hours(),
                summary: format!(
                    "trace {:016x}, {} events, {} connections, {:?}",
                    outcome.hash, outcome.events, outcome.connections, outcome.totals
                ),
                violation: outcome.violation,
                last_lines: outcome.last_lines,
            }
        });
        return arguments.finish(is_clean, &sum.tables(), &sum.line(seconds()));
    }
    if arguments.alarms {
        let mut sum = alarms::report::Sum::default();
        let is_clean = arguments.run_seeds(range, hours, |seed| {
            let outcome = alarms::run::run(alarms::plan::Plan::drawn(seed), arguments.trace);
            sum.add(&outcome);
            Ran {
                hours: sum.tally().hours(),
                summary: format!(
                    "trace {:016x}, {} events, {:?}",
                    outcome.hash, outcome.events, outcome.totals
                ),
                violation: outcome.violation,
                last_lines: outcome.last_lines,
            }
        });
        return arguments.finish(is_clean, &sum.tables(), &sum.line(seconds()));
    }
    if arguments.history {
        let mut sum = history::report::Sum::default();
        let is_clean = arguments.run_seeds(range, hours, |seed| {
            let outcome = history::run::run(history::plan::Plan::drawn(seed), arguments.trace);
            sum.add(&outcome);
            Ran {
                hours: sum.tally().hours(),
                summary: format!(
                    "trace {:016x}, {} events, {:?}",
                    outcome.hash, outcome.events, outcome.totals
                ),
                violation: outcome.violation,
                last_lines: outcome.last_lines,
            }
        });
        return arguments.finish(is_clean, &sum.tables(), &sum.line(seconds()));
    }
    let mut sum = Sum::default();
    for seed in range {
        if hours.is_some_and(|hours| sum.tally().hours() >= hours) {
            break;
        }
        if arguments
            .chaos
            .is_some_and(|wanted| sum.cycles() >= wanted && arguments.seed.is_none())
        {
            break;
        }
        // The heal of the previous run may have removed the planted bug.
        #[cfg(feature = "planted")]
        plant(arguments.planted.as_deref());
        let mut plan = match arguments.chaos {
            Some(_) => Plan::chaos(seed, CYCLES),
            None => Plan::drawn(seed),
        };
        plan.repairs = match arguments.tolerate {
            None => Repairs::Never,
            Some(Tolerate::Records) => Repairs::Records,
            Some(Tolerate::Marks) => Repairs::Marks,
        };
        let cycles = plan.cycles;
        let outcome = run(plan, arguments.trace);
        sum.add(&outcome, cycles);
        if outcome.violation.is_some() || arguments.seed.is_some() {
            show(&outcome, &arguments);
        }
        if sum.tally().violations() >= VIOLATIONS {
            break;
        }
    }
    if arguments.report {
        println!("{}", sum.tables());
    }
    println!("{}", sum.line(started.elapsed().as_secs_f64()));
    ExitCode::from(u8::from(sum.tally().violations() > 0))
}

/// What is printed of a run.
struct Ran {
    /// Simulated hours of all runs so far.
    hours: f64,
    summary: String,
    violation: Option<String>,
    last_lines: Vec<String>,
}

impl Arguments {
    /// Runs seeds, and prints those with a violation. Returns true if there was none.
    fn run_seeds(
        &self,
        range: Range<u64>,
        hours: Option<f64>,
        mut run: impl FnMut(u64) -> Ran,
    ) -> bool {
        let (mut simulated, mut violations) = (0.0, 0);
        for seed in range {
            if hours.is_some_and(|hours| simulated >= hours) || violations >= VIOLATIONS {
                break;
            }
            let ran = run(seed);
            simulated = ran.hours;
            if let Some(violation) = &ran.violation {
                violations += 1;
                ran.last_lines.iter().for_each(|line| println!("{line}"));
                println!("seed {seed}: {violation}");
                println!("replay: {}", self.replay(seed));
            }
            if ran.violation.is_some() || self.seed.is_some() {
                println!("seed {seed}: {}", ran.summary);
            }
        }
        violations == 0
    }

    fn finish(&self, is_clean: bool, tables: &str, line: &str) -> ExitCode {
        if self.report {
            println!("{tables}");
        }
        println!("{line}");
        ExitCode::from(u8::from(!is_clean))
    }

    /// Returns the command that replays this seed, identical in every byte.
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

fn show(outcome: &Outcome, arguments: &Arguments) {
    let seed = outcome.seed;
    if let Some(violation) = &outcome.violation {
        for line in &outcome.last_lines {
            println!("{line}");
        }
        println!("seed {seed}: {violation}");
        println!("replay: {}", arguments.replay(seed));
    }
    println!(
        "seed {seed}: trace {:016x}, {} events, {} connections, {:?}",
        outcome.hash, outcome.events, outcome.connections, outcome.totals
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replay_is_the_run_itself() {
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
