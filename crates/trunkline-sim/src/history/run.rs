//! Runs one seed and returns its outcome.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub use super::checker::Totals;
use super::fault::Fault;
use super::plan::Plan;
use super::world::HistoryWorld;

/// The outcome of one run.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub seed: u64,
    /// The violation, if there was one.
    pub violation: Option<String>,
    /// Hash of the trace; equal for equal runs.
    pub hash: u64,
    /// Simulated time, in ns.
    pub nanos: u64,
    /// Number of simulated events.
    pub events: u64,
    /// Number of faults, by kind.
    pub faults: BTreeMap<Fault, u64>,
    /// Counts of what was checked.
    pub totals: Totals,
    /// The last lines of the trace.
    pub last_lines: Vec<String>,
}

/// Runs a plan. A panic in the product counts as a violation.
pub fn run(plan: Plan, prints: bool) -> Outcome {
    let seed = plan.seed;
    let mut world = HistoryWorld::new(plan);
    world.trace.prints = prints;
    let drawn = format!("{:#?}", world.plan);
    world.trace.detail(world.now, || drawn);
    let ran = catch_unwind(AssertUnwindSafe(|| world.run()));
    if let Err(panic) = ran {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        let text = text.unwrap_or_default();
        world.checker.fail(|| format!("a panic: {text}"));
    }
    Outcome {
        seed,
        violation: world.checker.violation.take(),
        hash: world.trace.hash(),
        nanos: world.elapsed(),
        events: world.trace.events,
        faults: world.faults.clone(),
        totals: world.checker.totals,
        last_lines: world.trace.last_lines(),
    }
}
