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

/// The plan of a run, with everything in which its kind of simulation differs from the others.
pub trait Scenario: fmt::Debug + Sized {
    type World;
    type Fault: Copy + Ord + fmt::Debug + 'static;
    /// Counts of what was checked.
    type Totals: Copy + Default + fmt::Debug;
    /// The noun for runs of this kind in a summary.
    const RUNS: &'static str;
    const FAULTS: &'static [Self::Fault];
    /// The bugs that runs of this kind must find.
    #[cfg(feature = "planted")]
    const BUGS: &'static [Bug];

    /// Creates the world of this plan, at its beginning.
    fn world(self, trace: Trace) -> Self::World;

    /// Runs the world to its end, or to the first violation.
    fn run(world: &mut Self::World);

    /// Ends the world. `panic` is the violation if the run panicked.
    fn outcome(world: Self::World, panic: Option<String>) -> Outcome<Self>;

    /// The counts with their names, in the order of the report.
    fn counts(totals: &Self::Totals) -> Vec<(&'static str, u64)>;

    /// Describes a fault in a sentence.
    fn sentence(fault: Self::Fault) -> &'static str;
}

/// The outcome of one run.
#[derive(Debug)]
pub struct Outcome<P: Scenario> {
    /// The violation, if there was one.
    pub violation: Option<String>,
    /// The time at the end.
    pub now: Tick,
    /// Equal runs have traces with equal hashes.
    pub trace: Trace,
    /// Number of faults, by kind.
    pub faults: BTreeMap<P::Fault, u64>,
    pub totals: P::Totals,
}

impl<P: Scenario> Outcome<P> {
    /// Simulated time, in ns.
    pub fn nanos(&self) -> u64 {
        self.now.as_nanos() - BEGIN.as_nanos()
    }
}

/// Runs a plan. A panic in the product counts as a violation.
pub fn run<P: Scenario>(plan: P, prints: bool) -> Outcome<P> {
    let mut trace = Trace {
        prints,
        ..Trace::default()
    };
    trace.detail(BEGIN, || format!("{plan:#?}"));
    let mut world = plan.world(trace);
    let ran = catch_unwind(AssertUnwindSafe(|| P::run(&mut world)));
    let panic = ran.err().map(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        format!("a panic: {}", text.unwrap_or_default())
    });
    P::outcome(world, panic)
}
