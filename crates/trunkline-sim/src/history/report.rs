//! The totals of many runs of history, as the Markdown tables of `docs/reference/simulation.md`.

#[cfg(feature = "planted")]
use trunkline_types::planted::Bug;

use super::fault::{FAULTS, Fault};
#[cfg(feature = "planted")]
use super::plan::Plan;
use super::run::Outcome;
#[cfg(feature = "planted")]
use crate::report;
use crate::report::Tally;

/// The totals of many runs.
#[derive(Clone, Debug, Default)]
pub struct Sum(Tally<Fault>);

impl Sum {
    /// Adds a run.
    pub fn add(&mut self, outcome: &Outcome) {
        let totals = &outcome.totals;
        let counts = [
            ("events of the simulation", outcome.events),
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
        ];
        let is_violated = outcome.violation.is_some();
        self.0
            .add(is_violated, outcome.nanos, &outcome.faults, &counts);
    }

    /// Returns the totals common to all kinds of simulation.
    pub fn tally(&self) -> &Tally<Fault> {
        &self.0
    }

    /// Returns a summary line for a run that took `seconds`.
    pub fn line(&self, seconds: f64) -> String {
        self.0.line("seeds of history", seconds)
    }

    /// Returns the tables.
    pub fn tables(&self) -> String {
        self.0.tables(None, FAULTS, Fault::sentence)
    }
}

/// Returns a table of all planted bugs, with the number of seeds needed to find each.
#[cfg(feature = "planted")]
pub fn planted(seeds: u64) -> String {
    report::found(Bug::HISTORY, |bug| {
        let (needed, violation) = find(bug, seeds)?;
        Some((
            needed,
            violation.chars().take_while(|c| *c != ':').collect(),
        ))
    })
}

/// Returns the number of seeds needed to find a planted bug, and the violation.
#[cfg(feature = "planted")]
pub fn find(bug: Bug, seeds: u64) -> Option<(u64, String)> {
    let violation = |seed| super::run::run(Plan::drawn(seed), false).violation;
    report::find(bug, seeds, violation)
}
