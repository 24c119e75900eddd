//! Runs one seed of any kind of simulation and returns its outcome.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use trunkline_types::Tick;
#[cfg(feature = "planted")]
use trunkline_types::planted::Bug;

use crate::trace::Trace;

/// The time at which every run begins.
pub const BEGIN: Tick = Tick::from_nanos(1_000_000_000);

/// A kind of simulation. The implementing type is the plan of a run.
pub trait Scenario: fmt::Debug + Sized {
    type Fault: Copy + Ord + fmt::Debug + 'static;
    /// Counts of what was checked.
    type Totals: Copy + Default + fmt::Debug;
    /// Name of the runs of this kind in a summary, in the plural.
    const RUNS: &'static str;
    const FAULTS: &'static [Self::Fault];
    /// Planted bugs that this kind of simulation must find.
    #[cfg(feature = "planted")]
    const BUGS: &'static [Bug];

    /// Runs the plan to its end, or to the first violation.
    fn run(self, trace: Trace) -> Outcome<Self>;

    /// Returns the counts with their names, in the order of the report.
    fn counts(totals: &Self::Totals) -> Vec<(&'static str, u64)>;

    /// Describes a fault in a sentence.
    fn sentence(fault: Self::Fault) -> &'static str;
}

/// The outcome of one run.
#[derive(Debug)]
pub struct Outcome<P: Scenario> {
    /// The first violation; `None` if there was none.
    pub violation: Option<String>,
    /// Simulated time at the end of the run.
    pub now: Tick,
    /// The trace, whose hash is the same for identical runs.
    pub trace: Trace,
    /// Number of faults, by kind.
    pub faults: BTreeMap<P::Fault, u64>,
    pub totals: P::Totals,
}

impl<P: Scenario> Outcome<P> {
    /// Returns the length of the run in simulated time, in ns.
    pub fn nanos(&self) -> u64 {
        self.now.as_nanos() - BEGIN.as_nanos()
    }
}

/// Runs a plan, and prints its events if `prints` is set.
pub fn run<P: Scenario>(plan: P, prints: bool) -> Outcome<P> {
    let mut trace = Trace::default();
    trace.prints = prints;
    trace.detail(BEGIN, || format!("{plan:#?}"));
    plan.run(trace)
}

/// Calls `run`, and returns the message of a panic, which counts as a violation.
pub(crate) fn catch_panic(run: impl FnOnce()) -> Option<String> {
    let panic = catch_unwind(AssertUnwindSafe(run)).err()?;
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    Some(format!("a panic: {}", text.unwrap_or_default()))
}
