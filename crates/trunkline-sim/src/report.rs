//! What runs came to, as the Markdown tables of `docs/reference/simulation.md`.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::fault::{FAULTS, Fault};
use crate::run::Outcome;

/// The sum of many runs.
#[derive(Clone, Debug, Default)]
pub struct Sum {
    runs: u64,
    violations: u64,
    nanos: u128,
    cycles: u64,
    faults: BTreeMap<Fault, u64>,
    counts: BTreeMap<&'static str, u64>,
}

impl Sum {
    /// Adds a run, of so many cycles of the chaos run.
    pub fn add(&mut self, outcome: &Outcome, cycles: u64) {
        self.runs += 1;
        self.cycles += cycles;
        self.violations += u64::from(outcome.violation.is_some());
        self.nanos += u128::from(outcome.nanos);
        for (fault, count) in &outcome.faults {
            *self.faults.entry(*fault).or_default() += count;
        }
        let totals = &outcome.totals;
        let counts = [
            ("events of the simulation", outcome.events),
            ("connections", outcome.connections),
            ("updates", totals.updates),
            ("updates known from answers only", totals.hidden),
            ("readings checked", totals.readings),
            ("updates told as missed", totals.lost),
            ("of those, while away", totals.lost_while_away),
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
        ];
        for (what, count) in counts {
            *self.counts.entry(what).or_default() += count;
        }
    }

    /// Simulated hours.
    pub fn hours(&self) -> f64 {
        self.nanos as f64 / 3.6e12
    }

    /// Cycles of the chaos run.
    pub fn cycles(&self) -> u64 {
        self.cycles
    }

    /// Runs in which something was that must not be.
    pub fn violations(&self) -> u64 {
        self.violations
    }

    /// One line for people, of a run that took so many seconds.
    pub fn line(&self, seconds: f64) -> String {
        format!(
            "{} seeds, {:.2} h simulated in {seconds:.1} s ({:.0} x), {} with a violation",
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
        if self.cycles > 0 {
            row("cycles of fault, heal and comparison", grouped(self.cycles));
        }
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

/// 1234567 as `1,234,567`.
pub(crate) fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Every planted bug with the seeds it took to find it.
#[cfg(feature = "planted")]
pub fn planted(seeds: u64) -> String {
    use trunkline_types::planted::{Bug, plant};

    let mut out = String::from("| Bug | What is wrong | Seeds | Found as |\n|---|---|---:|---|\n");
    for bug in Bug::ALL {
        plant(Some(*bug));
        let found = (0..seeds).find_map(|seed| {
            let plan = crate::plan::Plan::drawn(seed);
            Some((seed + 1, crate::run::run(plan, false).violation?))
        });
        let (needed, found) = match found {
            Some((needed, violation)) => (needed.to_string(), kind(&violation)),
            None => ("-".to_owned(), "not found".to_owned()),
        };
        let (name, sentence) = (bug.name(), bug.sentence());
        let _infallible = writeln!(out, "| `{name}` | {sentence} | {needed} | {found} |");
    }
    plant(None);
    out
}

/// The behaviour that a violation is of, or its first words.
#[cfg(feature = "planted")]
fn kind(violation: &str) -> String {
    match violation.split_once(':') {
        Some((id, _)) if id.starts_with("B-") => id.to_owned(),
        _ => violation.split(' ').take(3).collect::<Vec<_>>().join(" "),
    }
}
