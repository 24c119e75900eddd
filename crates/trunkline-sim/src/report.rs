//! Adds up the results of many runs, and prints the Markdown tables of `docs/reference/simulation.md`.

use std::fmt::Write;
use std::marker::PhantomData;

#[cfg(feature = "planted")]
use trunkline_types::planted::{Bug, plant};

#[cfg(feature = "planted")]
use crate::run::run;
use crate::run::{Outcome, Scenario};

/// Number of figures before the counts and faults of a run: 1 if the run has a violation and 0 otherwise,
/// the length of the run in ns, and the number of events.
const FIXED_FIGURES: usize = 3;

/// Returns the figures of one run: the fixed figures, the counts in the order of [`Scenario::counts`], and
/// the numbers of faults in the order of [`Scenario::FAULTS`].
pub fn figures<P: Scenario>(outcome: &Outcome<P>) -> Vec<u64> {
    let is_violated = u64::from(outcome.violation.is_some());
    let mut figures = vec![is_violated, outcome.nanos(), outcome.trace.events];
    let counts = P::counts(&outcome.totals).into_iter();
    figures.extend(counts.map(|(_, count)| count));
    let faults = P::FAULTS.iter();
    figures.extend(faults.map(|fault| outcome.faults.get(fault).copied().unwrap_or(0)));
    figures
}

/// The totals of many runs of one kind.
#[derive(Debug)]
pub struct Tally<P> {
    runs: u64,
    /// The sum of each figure.
    sums: Vec<u64>,
    kind: PhantomData<P>,
}

impl<P: Scenario> Default for Tally<P> {
    fn default() -> Self {
        let counts = P::counts(&P::Totals::default()).len();
        Self {
            runs: 0,
            sums: vec![0; FIXED_FIGURES + counts + P::FAULTS.len()],
            kind: PhantomData,
        }
    }
}

impl<P: Scenario> Tally<P> {
    /// Adds the [`figures`] of a run. Returns false if their number is wrong for this kind of simulation.
    pub fn add(&mut self, figures: &[u64]) -> bool {
        if figures.len() != self.sums.len() {
            return false;
        }
        self.runs += 1;
        for (sum, figure) in self.sums.iter_mut().zip(figures) {
            *sum += figure;
        }
        true
    }

    fn sum(&self, index: usize) -> u64 {
        self.sums.get(index).copied().unwrap_or(0)
    }

    /// Returns the total simulated time in hours.
    pub fn hours(&self) -> f64 {
        self.sum(1) as f64 / 3.6e12
    }

    /// Returns the number of runs with a violation.
    pub fn violations(&self) -> u64 {
        self.sum(0)
    }

    /// Returns a summary line. `seconds` is the time that the runs took.
    pub fn line(&self, seconds: f64) -> String {
        format!(
            "{} {}, {:.2} h simulated in {seconds:.1} s ({:.0} x), {} with a violation",
            self.runs,
            P::RUNS,
            self.hours(),
            self.hours() * 3600.0 / seconds,
            self.violations()
        )
    }

    /// Returns the tables of all counts and of all kinds of faults. `cycles` is the number of cycles
    /// of each run of the chaos run.
    pub fn tables(&self, cycles: Option<u64>) -> String {
        let mut out = String::from("| Figure | Count |\n|---|---:|\n");
        let mut row = |what: &str, count: String| {
            let _infallible = writeln!(out, "| {what} | {count} |");
        };
        row("seeds", with_separators(self.runs));
        row("simulated hours", format!("{:.1}", self.hours()));
        if let Some(cycles) = cycles {
            let what = "cycles of fault, heal and comparison";
            row(what, with_separators(self.runs * cycles));
        }
        row("events of the simulation", with_separators(self.sum(2)));
        let mut sums = self.sums.iter().skip(FIXED_FIGURES);
        let counts = P::counts(&P::Totals::default());
        for ((what, _), sum) in counts.into_iter().zip(&mut sums) {
            row(what, with_separators(*sum));
        }
        row("violations", with_separators(self.violations()));
        out.push_str("\n| Fault | Times |\n|---|---:|\n");
        for (fault, sum) in P::FAULTS.iter().zip(sums) {
            let _infallible = writeln!(
                out,
                "| {} | {} |",
                P::sentence(*fault),
                with_separators(*sum)
            );
        }
        out
    }
}

/// Formats 1234567 as `1,234,567`.
fn with_separators(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Returns a table of all planted bugs of a kind, with the number of seeds needed to find each.
#[cfg(feature = "planted")]
pub fn planted<P: Scenario>(seeds: u64, draw: impl Fn(u64) -> P) -> String {
    let mut out = String::from("| Bug | What is wrong | Seeds | Found as |\n|---|---|---:|---|\n");
    for bug in P::BUGS {
        let (needed, found) = match find(*bug, seeds, &draw) {
            Some((needed, violation)) => (needed.to_string(), kind(&violation)),
            None => ("-".to_owned(), "not found".to_owned()),
        };
        let (name, sentence) = (bug.name(), bug.sentence());
        let _infallible = writeln!(out, "| `{name}` | {sentence} | {needed} | {found} |");
    }
    out
}

/// Returns the number of seeds needed to find a planted bug, and the violation.
#[cfg(feature = "planted")]
pub fn find<P: Scenario>(bug: Bug, seeds: u64, draw: impl Fn(u64) -> P) -> Option<(u64, String)> {
    let violation = |seed| {
        // Plant the bug again, because the previous run may have removed it.
        plant(Some(bug));
        run(draw(seed), false).violation
    };
    let found = (0..seeds).find_map(|seed| Some((seed + 1, violation(seed)?)));
    plant(None);
    found
}

/// Returns the id of the violated behaviour, or the first words of the violation if it has no id.
#[cfg(feature = "planted")]
fn kind(violation: &str) -> String {
    match violation.split_once(':') {
        Some((id, _)) if !id.contains(' ') => id.to_owned(),
        _ => violation.split(' ').take(3).collect::<Vec<_>>().join(" "),
    }
}
