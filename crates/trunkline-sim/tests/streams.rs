//! Runs a few seeds of the simulation of streams. `make test` also runs 50 simulated hours.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

use trunkline_sim::run::{self, run};
use trunkline_sim::streams::plan::Plan;

type Outcome = run::Outcome<Plan>;

fn passed(plan: Plan) -> Outcome {
    let seed = plan.seed;
    let outcome = run(plan, false);
    assert_eq!(outcome.violation, None, "seed {seed}");
    outcome
}

/// The simplest plan: written elements are read, and the end is reported.
///
/// Behaviour: NS-12, NS-30, NS-44, NS-68.
#[test]
fn reader_receives_all_written_elements() {
    let outcome = passed(Plan::minimal(1));
    let totals = outcome.totals;
    assert!(totals.written > 1000, "{totals:?}");
    assert_eq!(totals.written, totals.delivered);
    assert_eq!((totals.undelivered, totals.compared), (1, 1));
    assert_eq!(totals.connections, 2, "one at each end");
}

#[test]
fn a_seed_replays_bit_for_bit() {
    for seed in [3, 11, 29] {
        let (first, again) = (run(Plan::drawn(seed), false), run(Plan::drawn(seed), false));
        assert!(first.trace.events > 100);
        assert_eq!(
            (first.trace.hash(), first.trace.events),
            (again.trace.hash(), again.trace.events),
            "seed {seed}"
        );
    }
    let (one, other) = (run(Plan::drawn(8), false), run(Plan::drawn(9), false));
    assert_ne!(one.trace.hash(), other.trace.hash());
}

/// Each seed draws its own faults. The invariants are listed in `docs/reference/simulation.md`.
///
/// Behaviour: NS-31, NS-45, NS-47, NS-60, NS-61, NS-62, NS-66, NS-67, NS-68, B-60, B-61.
#[test]
fn invariants_hold_under_faults() {
    let outcomes: Vec<_> = (0..60).map(|seed| passed(Plan::drawn(seed))).collect();
    let sum = |of: fn(&Outcome) -> u64| outcomes.iter().map(of).sum::<u64>();
    // The checker had something to check.
    assert!(sum(|o| o.totals.delivered) > 5_000);
    assert!(sum(|o| o.totals.late) > 1_000);
    assert!(sum(|o| o.totals.flushed) > 100);
    assert!(sum(|o| o.totals.resumed) > 20);
    assert!(sum(|o| o.totals.undelivered) > 20);
    assert!(sum(|o| o.totals.compared) == 60);
    assert!(sum(|o| o.faults.values().sum::<u64>()) > 300);
}
