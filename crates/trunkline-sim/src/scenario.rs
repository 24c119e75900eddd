//! Implements [`Scenario`] for the simulation of variables.

#[cfg(feature = "planted")]
use trunkline_types::planted::Bug;

use crate::checker::Totals;
use crate::fault::{FAULTS, Fault};
use crate::plan::Plan;
use crate::run::{Outcome, Scenario, catch_panic};
use crate::trace::Trace;
use crate::world::World;

impl Scenario for Plan {
    type Fault = Fault;
    type Totals = Totals;
    const RUNS: &'static str = "seeds";
    const FAULTS: &'static [Fault] = FAULTS;
    #[cfg(feature = "planted")]
    const BUGS: &'static [Bug] = Bug::ALL;

    fn run(self, trace: Trace) -> Outcome<Self> {
        let mut world = World::new(self, trace);
        let panic = catch_panic(|| world.run());
        world.checker.totals.connections = world.connections;
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
            ("connections", totals.connections),
            ("updates", totals.updates),
            ("updates known from answers only", totals.unwitnessed),
            ("readings checked", totals.readings),
            ("updates reported as missed", totals.lost),
            ("of those, while disconnected", totals.lost_while_away),
            ("writes", totals.writes),
            ("writes that ended as unknown", totals.unknown),
            ("compare-and-set writes applied", totals.conditional),
            ("groups applied", totals.groups),
            ("snapshots of one instant", totals.snapshots),
            ("views compared with the engine's", totals.compared),
            ("ledgers balanced", totals.ledgers),
            ("digests that differed", totals.diverged),
            ("items repaired", totals.repaired),
            ("marks set again", totals.marked),
            ("libraries deployed and removed", totals.deployed),
            ("connections of a hostile peer", totals.hostile),
        ]
    }

    fn sentence(fault: Fault) -> &'static str {
        fault.sentence()
    }
}
