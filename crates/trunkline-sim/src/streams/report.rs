//! What runs of streams came to, as the Markdown tables of `docs/reference/simulation.md`.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::fault::{FAULTS, Fault};
#[cfg(feature = "planted")]
use super::plan::Plan;
use super::run::Outcome;
use crate::report::grouped;

/// The sum of many runs.
#[derive(Clone, Debug, Default)]
pub struct Sum {
    runs: u64,
    violations: u64,
    nanos: u128,
    faults: BTreeMap<Fault, u64>,
    counts: BTreeMap<&'static str, u64>,
}

impl Sum {
    /// Adds a run.
    pub fn add(&mut self, outcome: &Outcome) {
        self.runs += 1;
        self.violations += u64::from(outcome.violation.is_some());
        self.nanos += u128::from(outcome.nanos);
        for (fault, count) in &outcome.faults {
            *self.faults.entry(*fault).or_default() += count;
        }
        let totals = &outcome.totals;
        let counts = [
            ("events of the simulation", outcome.events),
            ("connections", outcome.connections),
            ("elements written", totals.written),
            ("elements read and compared", totals.delivered),
            ("calls that were not done in time", totals.late),
            ("flushes checked", totals.flushed),
            ("ends created", totals.ends),
            ("of those, from a journal", totals.resumed),
            ("readers told that their stream is over", totals.over),
            ("counts of what was left behind checked", totals.lefts),
            ("streams compared after the heal", totals.compared),
        ];
        for (what, count) in counts {
            *self.counts.entry(what).or_default() += count;
        }
    }

    /// Simulated hours.
    pub fn hours(&self) -> f64 {
        self.nanos as f64 / 3.6e12
    }

    /// Runs in which something was that must not be.
    pub fn violations(&self) -> u64 {
        self.violations
    }

    /// One line for people, of a run that took so many seconds.
    pub fn line(&self, seconds: f64) -> String {
        format!(
            "{} seeds of streams, {:.2} h simulated in {seconds:.1} s ({:.0} x), {} with a violation",
            self.runs,
            self.hours(),
            self.hours() * 3600.0 / seconds,
            self.violations
        )
    }

    /// The tables.
    pub fn tables(&self) -> String {
        let mut out = String::from("| Figure | Count |\n|---|---:|\n");
        let mut row = |what: &str, count: String| {
            let _infallible = writeln!(out, "| {what} | {count} |");
        };
        row("seeds", grouped(self.runs));
        row("simulated hours", format!("{:.1}", self.hours()));
        for (what, count) in &self.counts {
            row(what, grouped(*count));
        }
        row("violations", grouped(self.violations));
        out.push_str("\n| Fault | Times |\n|---|---:|\n");
        for fault in FAULTS {
            let count = self.faults.get(fault).copied().unwrap_or(0);
            let _infallible = writeln!(out, "| {} | {} |", fault.sentence(), grouped(count));
        }
        out
    }
}

/// Every planted bug with the seeds it took to find it.
#[cfg(feature = "planted")]
pub fn planted(seeds: u64) -> String {
    use trunkline_types::planted::Bug;

    let mut out = String::from("| Bug | What is wrong | Seeds | Found as |\n|---|---|---:|---|\n");
    for bug in Bug::STREAMS {
        let (needed, found) = match find(*bug, seeds) {
            Some((needed, violation)) => (needed.to_string(), violation),
            None => ("-".to_owned(), "not found".to_owned()),
        };
        let found: String = found.chars().take_while(|c| *c != ':').collect();
        let (name, sentence) = (bug.name(), bug.sentence());
        let _infallible = writeln!(out, "| `{name}` | {sentence} | {needed} | {found} |");
    }
    out
}

/// In how many seeds a planted bug is found, and as what.
#[cfg(feature = "planted")]
pub fn find(bug: trunkline_types::planted::Bug, seeds: u64) -> Option<(u64, String)> {
    use trunkline_types::planted::plant;

    plant(Some(bug));
    let found = (0..seeds).find_map(|seed| {
        Some((
            seed + 1,
            super::run::run(Plan::drawn(seed), false).violation?,
        ))
    });
    plant(None);
    found
}
