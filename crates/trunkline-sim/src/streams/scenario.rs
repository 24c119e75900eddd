//! Implements [`Scenario`] for the simulation of streams.

#[cfg(feature = "planted")]
use trunkline_types::planted::Bug;

use super::checker::Totals;
use super::fault::{FAULTS, Fault};
use super::plan::Plan;
use super::world::World;
use crate::run::{Outcome, Scenario, catch_panic};
use crate::trace::Trace;

impl Scenario for Plan {
    type Fault = Fault;
    type Totals = Totals;
    const RUNS: &'static str = "seeds of streams";
    const FAULTS: &'static [Fault] = FAULTS;
    #[cfg(feature = "planted")]
    const BUGS: &'static [Bug] = Bug::STREAMS;

    fn run(self, trace: Trace) -> Outcome<Self> {
        let mut world = World::new(self, trace);
        let panic = catch_panic(|| world.run());
        let mut outcome = Outcome::<Self> {
            violation: panic,
            now: world.now,
            trace: std::mem::take(&mut world.trace),
            faults: std::mem::take(&mut world.faults),
            totals: Totals::default(),
        };
        if let Ok(mut checker) = world.shared.checker.try_borrow_mut() {
            outcome.violation = checker.violation.take().or(outcome.violation);
            outcome.totals = checker.totals;
            outcome.totals.connections = world.connections;
        }
        if outcome.violation.is_some() {
            // Do not drop endpoints that are in use: they would wait, but the simulated time has stopped.
            std::mem::forget(world);
        }
        outcome
    }

    fn counts(totals: &Totals) -> Vec<(&'static str, u64)> {
        vec![
            ("connections", totals.connections),
            ("elements written", totals.written),
            ("elements read and compared", totals.delivered),
            ("calls that timed out", totals.late),
            ("flushes checked", totals.flushed),
            ("ends created", totals.ends),
            ("of those, from a journal", totals.resumed),
            ("readers that saw the end of their stream", totals.over),
            ("counts of undelivered elements checked", totals.undelivered),
            ("streams compared after the heal", totals.compared),
        ]
    }

    fn sentence(fault: Fault) -> &'static str {
        fault.sentence()
    }
}
