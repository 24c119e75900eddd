//! The totals of many runs of alarms, as the Markdown tables of `docs/reference/simulation.md`.

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
            ("values written", totals.values),
            ("of those, marked as stale", totals.stale),
            ("changes of alarms compared", totals.changes),
            ("of those, by an operator", totals.acts),
            ("actions of operators refused", totals.refused),
            ("steps stored", totals.steps),
            ("steps that failed", totals.failed),
            ("starts compared with what was stored", totals.starts),
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
            (
                "states that subscribers learned to have missed",
                totals.missed,
            ),
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
        self.0.line("seeds of alarms", seconds)
    }

    /// Returns the tables.
    pub fn tables(&self) -> String {
        self.0.tables(None, FAULTS, Fault::sentence)
    }
}

/// Returns a table of all planted bugs, with the number of seeds needed to find each.
#[cfg(feature = "planted")]
pub fn planted(seeds: u64) -> String {
    report::found(Bug::ALARMS, |bug| {
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
