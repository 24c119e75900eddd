//! Implements [`Scenario`] for the simulation of alarms.

#[cfg(feature = "planted")]
use trunkline_types::planted::Bug;

use super::checker::Totals;
use super::fault::{FAULTS, Fault};
use super::plan::Plan;
use super::world::AlarmWorld;
use crate::run::{Outcome, Scenario, catch_panic};
use crate::trace::Trace;

impl Scenario for Plan {
    type Fault = Fault;
    type Totals = Totals;
    const RUNS: &'static str = "seeds of alarms";
    const FAULTS: &'static [Fault] = FAULTS;
    #[cfg(feature = "planted")]
    const BUGS: &'static [Bug] = Bug::ALARMS;

    fn run(self, trace: Trace) -> Outcome<Self> {
        let mut world = AlarmWorld::new(self, trace);
        let panic = catch_panic(|| world.run());
        Outcome {
            violation: world.checker.violation.take().or(panic),
            now: world.now,
            trace: world.trace,
            faults: world.faults,
            totals: world.checker.totals,
        }
    }

    fn counts(totals: &Totals) -> Vec<(&'static str, u64)> {
        vec![
            ("values written", totals.values),
            ("of those, marked as stale", totals.stale),
            ("changes of alarms compared", totals.changes),
            ("of those, by an operator", totals.acts),
            ("actions of operators refused", totals.refused),
            ("steps stored", totals.steps),
            ("steps that failed", totals.failed),
            ("starts compared with the stored states", totals.starts),
            ("states of alarms compared after a start", totals.continued),
            ("entries of the journal read and compared", totals.read),
            (
                "states that subscribers received and compared",
                totals.followed,
            ),
            (
                "subscriptions that ended because they did not keep up",
                totals.overrun,
            ),
            ("states reported to subscribers as missed", totals.missed),
            ("libraries replaced", totals.redeployed),
            ("connections of clients", totals.connections),
            ("states in lists that clients compared", totals.listed),
        ]
    }

    fn sentence(fault: Fault) -> &'static str {
        fault.sentence()
    }
}
