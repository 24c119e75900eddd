//! Implements [`Scenario`] for the simulation of history.

#[cfg(feature = "planted")]
use trunkline_types::planted::Bug;

use super::checker::Totals;
use super::fault::{FAULTS, Fault};
use super::plan::Plan;
use super::world::HistoryWorld;
use crate::run::{Outcome, Scenario, catch_panic};
use crate::trace::Trace;

impl Scenario for Plan {
    type Fault = Fault;
    type Totals = Totals;
    const RUNS: &'static str = "seeds of history";
    const FAULTS: &'static [Fault] = FAULTS;
    #[cfg(feature = "planted")]
    const BUGS: &'static [Bug] = Bug::HISTORY;

    fn run(self, trace: Trace) -> Outcome<Self> {
        let mut world = HistoryWorld::new(self, trace);
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
            ("updates of recorded variables", totals.updates),
            ("rows known to be durable", totals.durable),
            ("rows read and compared", totals.rows),
            ("queries", totals.queries),
            ("of those, while rows moved between two pages", totals.moved),
            ("commits", totals.commits),
            ("commits that failed on a full disk", totals.failed),
            ("segments closed", totals.closed),
            (
                "maintenance steps: rows moved to files, files joined or removed",
                totals.maintained,
            ),
            ("starts compared with the durable rows", totals.starts),
            (
                "rows that survived an end although they were not durable",
                totals.survived,
            ),
            ("files damaged", totals.damaged),
            ("late samples recorded", totals.late),
            ("events of series compared", totals.events),
            ("connections of the subscriber", totals.connections),
            ("readings that it received and compared", totals.followed),
            ("pages of history that filled its gaps", totals.filled),
            (
                "times that it started again after its last update",
                totals.continued,
            ),
        ]
    }

    fn sentence(fault: Fault) -> &'static str {
        fault.sentence()
    }
}
