//! What the runner and the report need to know of history.

#[cfg(feature = "planted")]
use trunkline_types::planted::Bug;

use super::checker::Totals;
use super::fault::{FAULTS, Fault};
use super::plan::Plan;
use super::world::HistoryWorld;
use crate::run::{Outcome, Scenario};
use crate::trace::Trace;

/// The simulation of history.
impl Scenario for Plan {
    type World = HistoryWorld;
    type Fault = Fault;
    type Totals = Totals;
    const RUNS: &'static str = "seeds of history";
    const FAULTS: &'static [Fault] = FAULTS;
    #[cfg(feature = "planted")]
    const BUGS: &'static [Bug] = Bug::HISTORY;

    fn world(self, trace: Trace) -> HistoryWorld {
        HistoryWorld::new(self, trace)
    }

    fn run(world: &mut HistoryWorld) {
        world.run();
    }

    fn outcome(mut world: HistoryWorld, panic: Option<String>) -> Outcome<Self> {
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
            ("updates of recorded variables", totals.updates),
            ("rows known to be durable", totals.durable),
            ("rows read and compared", totals.rows),
            ("queries", totals.queries),
            ("of those, while rows moved between two pages", totals.moved),
            ("commits", totals.commits),
            ("commits that found no room", totals.failed),
            ("segments closed", totals.closed),
            (
                "moves to files, and joined or removed files",
                totals.maintained,
            ),
            ("starts compared with what was durable", totals.starts),
            (
                "rows that were not durable and survived an end",
                totals.survived,
            ),
            ("files damaged", totals.damaged),
        ]
    }

    fn sentence(fault: Fault) -> &'static str {
        fault.sentence()
    }
}
