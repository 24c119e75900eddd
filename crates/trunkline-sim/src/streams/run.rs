//! Runs one seed and returns its outcome.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub use super::checker::Totals;
use super::fault::Fault;
use super::plan::Plan;
use super::world::World;

/// The outcome of one run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// The violation, if there was one.
    pub violation: Option<String>,
    /// Hash of the trace; equal for equal runs.
    pub hash: u64,
    /// Simulated time, in ns.
    pub nanos: u64,
    /// Number of simulated events.
    pub events: u64,
    /// Number of connections made.
    pub connections: u64,
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
    let mut world = World::new(plan);
    world.trace.prints = prints;
    let drawn = format!("{:?}", world.shared.plan);
    world.trace.detail(world.now, || drawn);
    let ran = catch_unwind(AssertUnwindSafe(|| world.run()));
    let mut violation = None;
    if let Err(panic) = ran {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        violation = Some(format!("a panic: {}", text.unwrap_or_default()));
    }
    let mut totals = Totals::default();
    if let Ok(mut checker) = world.shared.checker.try_borrow_mut() {
        violation = checker.violation.take().or(violation);
        totals = checker.totals;
    }
    let outcome = Outcome {
        seed,
        violation,
        hash: world.trace.hash(),
        nanos: world.now.as_nanos() - 1_000_000_000,
        events: world.trace.events,
        connections: world.connections,
        faults: world.faults.clone(),
        totals,
        last_lines: world.trace.last_lines(),
    };
    if outcome.violation.is_some() {
        // Ends still in use would wait when dropped, but simulated time no longer passes.
        std::mem::forget(world);
    }
    outcome
}
