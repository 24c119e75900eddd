//! The cost of the check of rights in a plain local write (bar: at most 10 ns).
//!
//! Three callers write the same variables in turn: one with every right, one with the rights of a
//! role, and one whose rights rules decide for each name. The rules are evaluated before the
//! measurement, as they are at the first request for a variable.

#![allow(clippy::print_stdout)]

use std::time::{Duration, Instant};

use trunkline::types::{DataType, Value};
use trunkline_access::Role;
use trunkline_engine::{Caller, Engine, EngineOptions, Rights, Variable, Wakes};
use trunkline_net::Clock;

use crate::Outcome;
use trunkline_counted::plant::{library, name, rights_by_name};

/// Writes of one caller before the next one has its turn.
const BATCH: usize = 100_000;
const ROUNDS: usize = 41;

/// Measures, and prints a table.
pub fn run(mut arguments: impl Iterator<Item = String>) -> Outcome<()> {
    let rounds: usize = arguments.next().map_or(Ok(ROUNDS), |text| text.parse())?;
    println!("| variables | rights | ns per write: median | quartiles | above all rights |");
    println!("|---:|---|---:|---:|---:|");
    for variables in [1, 100_000] {
        measure(variables, rounds)?;
    }
    Ok(())
}

fn measure(count: usize, rounds: usize) -> Outcome<()> {
    let clock = Clock::new();
    let engine = Engine::new(EngineOptions::new("bench", 1));
    let library = library(count, DataType::F64, Duration::ZERO);
    engine
        .libraries()
        .deploy(&library, clock.now(), clock.wall())?;
    let owner = Caller::engine();
    let variables = (0..count).map(|index| engine.resolve(&owner, &name(index)));
    let variables = variables.collect::<Result<Vec<_>, _>>()?;
    let callers = [
        ("all", Rights::ALL),
        ("a role", Rights::Uniform(Role::Operator.actions())),
        ("rules for names", rights_by_name()?),
    ];
    let callers = callers.map(|(what, rights)| {
        let caller = Caller {
            rights,
            ..Caller::local(1, 0)
        };
        (what, caller, Vec::with_capacity(rounds))
    });
    let mut callers = callers;
    for round in 0..=rounds {
        for (_, caller, times) in &mut callers {
            let wall = clock.wall();
            let mut wakes = Wakes::new();
            let begun = Instant::now();
            let written = write(
                variables.iter().cycle().take(BATCH),
                caller,
                wall,
                &mut wakes,
            );
            let took = begun.elapsed();
            if written != BATCH {
                return Err(format!("{written} of {BATCH} writes were applied").into());
            }
            // The first round fills the caches and evaluates the rules.
            if round > 0 {
                times.push(took.as_nanos() as f64 / BATCH as f64);
            }
        }
    }
    let mut base = None;
    for (what, _, mut times) in callers {
        times.sort_by(f64::total_cmp);
        let at = |part: usize| times.get(times.len() * part / 4).copied().unwrap_or(0.0);
        let median = at(2);
        let above = median - *base.get_or_insert(median);
        let (low, high) = (at(1), at(3));
        println!("| {count} | {what} | {median:.1} | {low:.1} to {high:.1} | {above:+.1} |");
    }
    Ok(())
}

/// Returns the number of writes that were applied.
#[inline(never)]
fn write<'v>(
    variables: impl Iterator<Item = &'v std::sync::Arc<Variable>>,
    caller: &Caller,
    wall: trunkline::types::Timestamp,
    wakes: &mut Wakes,
) -> usize {
    let mut written = 0;
    for (number, variable) in variables.enumerate() {
        let value = Value::F64(number as f64);
        let sequence = variable.write_plain(caller, wall, &value, wakes);
        written += usize::from(sequence.is_some());
    }
    written
}
