//! The totals of many runs, as the Markdown tables of `docs/reference/simulation.md`.

use std::collections::BTreeMap;
use std::fmt::Write;

#[cfg(feature = "planted")]
use trunkline_types::planted::{Bug, plant};

use crate::fault::{FAULTS, Fault};
use crate::run::Outcome;

/// The totals of many runs of either kind of simulation.
#[derive(Clone, Debug)]
pub struct Tally<F> {
    runs: u64,
    violations: u64,
    nanos: u128,
    faults: BTreeMap<F, u64>,
    counts: BTreeMap<&'static str, u64>,
}

impl<F> Default for Tally<F> {
    fn default() -> Self {
        Self {
            runs: 0,
            violations: 0,
            nanos: 0,
            faults: BTreeMap::new(),
            counts: BTreeMap::new(),
        }
    }
}

impl<F: Copy + Ord> Tally<F> {
    /// Adds a run: with or without a violation, and its length in ns.
    pub(crate) fn add(
        &mut self,
        is_violated: bool,
        nanos: u64,
        faults: &BTreeMap<F, u64>,
        counts: &[(&'static str, u64)],
    ) {
        self.runs += 1;
        self.violations += u64::from(is_violated);
        self.nanos += u128::from(nanos);
        for (fault, count) in faults {
            *self.faults.entry(*fault).or_default() += count;
        }
        for (what, count) in counts {
            *self.counts.entry(what).or_default() += count;
        }
    }

    /// Returns the simulated hours.
    pub fn hours(&self) -> f64 {
        self.nanos as f64 / 3.6e12
    }

    /// Returns the number of runs with a violation.
    pub fn violations(&self) -> u64 {
        self.violations
    }

    /// Returns a summary line for runs of `what` that took `seconds`.
    pub(crate) fn line(&self, what: &str, seconds: f64) -> String {
        format!(
            "{} {what}, {:.2} h simulated in {seconds:.1} s ({:.0} x), {} with a violation",
            self.runs,
            self.hours(),
            self.hours() * 3600.0 / seconds,
            self.violations
        )
    }

    /// Returns the tables: the counts, preceded by `more`, and all kinds of faults.
    pub(crate) fn tables(
        &self,
        more: Option<(&str, u64)>,
        faults: &[F],
        sentence: impl Fn(F) -> &'static str,
    ) -> String {
        let mut out = String::from("| Figure | Count |\n|---|---:|\n");
        let mut row = |what: &str, count: String| {
            let _infallible = writeln!(out, "| {what} | {count} |");
        };
        row("seeds", grouped(self.runs));
        row("simulated hours", format!("{:.1}", self.hours()));
        let counts = self.counts.iter().map(|(what, count)| (*what, *count));
        for (what, count) in more.into_iter().chain(counts) {
            row(what, grouped(count));
        }
        row("violations", grouped(self.violations));
        out.push_str("\n| Fault | Times |\n|---|---:|\n");
        for fault in faults {
            let count = self.faults.get(fault).copied().unwrap_or(0);
            let _infallible = writeln!(out, "| {} | {} |", sentence(*fault), grouped(count));
        }
        out
    }
}

/// The totals of many runs.
#[derive(Clone, Debug, Default)]
pub struct Sum {
    tally: Tally<Fault>,
    cycles: u64,
}

impl Sum {
    /// Adds a run with this many cycles of the chaos run.
    pub fn add(&mut self, outcome: &Outcome, cycles: u64) {
        self.cycles += cycles;
        let totals = &outcome.totals;
        let counts = [
            ("events of the simulation", outcome.events),
            ("connections", outcome.connections),
            ("updates", totals.updates),
            ("updates known from answers only", totals.hidden),
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
        ];
        let is_violated = outcome.violation.is_some();
        self.tally
            .add(is_violated, outcome.nanos, &outcome.faults, &counts);
    }

    /// Returns the totals common to both kinds of simulation.
    pub fn tally(&self) -> &Tally<Fault> {
        &self.tally
    }

    /// Returns the number of cycles of the chaos run.
    pub fn cycles(&self) -> u64 {
        self.cycles
    }

    /// Returns a summary line for a run that took `seconds`.
    pub fn line(&self, seconds: f64) -> String {
        self.tally.line("seeds", seconds)
    }

    /// Returns the tables.
    pub fn tables(&self) -> String {
        let cycles = ("cycles of fault, heal and comparison", self.cycles);
        let cycles = Some(cycles).filter(|(_, cycles)| *cycles > 0);
        self.tally.tables(cycles, FAULTS, Fault::sentence)
    }
}

/// Formats 1234567 as `1,234,567`.
fn grouped(count: u64) -> String {
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

/// Returns a table of all planted bugs, with the number of seeds needed to find each.
#[cfg(feature = "planted")]
pub fn planted(seeds: u64) -> String {
    let violation = |seed| crate::run::run(crate::plan::Plan::drawn(seed), false).violation;
    found(Bug::ALL, |bug| {
        let (needed, violation) = find(bug, seeds, violation)?;
        Some((needed, kind(&violation)))
    })
}

/// Returns a table of bugs, with the number of seeds that `find` needed and the violation it found.
#[cfg(feature = "planted")]
pub(crate) fn found(bugs: &[Bug], find: impl Fn(Bug) -> Option<(u64, String)>) -> String {
    let mut out = String::from("| Bug | What is wrong | Seeds | Found as |\n|---|---|---:|---|\n");
    for bug in bugs {
        let (needed, found) = match find(*bug) {
            Some((needed, found)) => (needed.to_string(), found),
            None => ("-".to_owned(), "not found".to_owned()),
        };
        let (name, sentence) = (bug.name(), bug.sentence());
        let _infallible = writeln!(out, "| `{name}` | {sentence} | {needed} | {found} |");
    }
    out
}

/// Returns the number of seeds needed to find a planted bug, and the violation.
#[cfg(feature = "planted")]
pub(crate) fn find(
    bug: Bug,
    seeds: u64,
    violation: impl Fn(u64) -> Option<String>,
) -> Option<(u64, String)> {
    plant(Some(bug));
    let found = (0..seeds).find_map(|seed| Some((seed + 1, violation(seed)?)));
    plant(None);
    found
}

/// The id of the violated behaviour, or the first words of the violation.
#[cfg(feature = "planted")]
fn kind(violation: &str) -> String {
    match violation.split_once(':') {
        Some((id, _)) if id.starts_with("B-") => id.to_owned(),
        _ => violation.split(' ').take(3).collect::<Vec<_>>().join(" "),
    }
}
