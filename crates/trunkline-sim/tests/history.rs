//! Runs a few seeds of the simulation of history. `make test` also runs 50 simulated hours.
//!
//! All seeds share one test, because a process-wide limit simulates a full disk.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

use trunkline_sim::history::plan::Plan;
use trunkline_sim::run::{self, run};

type Outcome = run::Outcome<Plan>;

/// Each seed draws its own faults. The invariants are listed in `docs/reference/simulation.md`.
///
/// Behaviour: B-63, B-64, H-13.
#[test]
fn rows_are_read_back_as_they_were_accepted_under_faults() {
    let mut outcomes: Vec<Outcome> = Vec::new();
    for seed in 0..25 {
        let outcome = run(Plan::drawn(seed), false);
        assert_eq!(outcome.violation, None, "seed {seed}");
        outcomes.push(outcome);
    }
    let sum = |of: fn(&Outcome) -> u64| outcomes.iter().map(of).sum::<u64>();
    // The checker had something to check.
    assert!(sum(|o| o.totals.durable) > 5_000);
    assert!(sum(|o| o.totals.rows) > 50_000);
    assert!(sum(|o| o.totals.moved) > 30);
    assert!(sum(|o| o.totals.starts) > 50);
    assert!(sum(|o| o.faults.values().sum::<u64>()) > 200);

    for seed in [1, 5] {
        let (first, again) = (run(Plan::drawn(seed), false), run(Plan::drawn(seed), false));
        assert_eq!(
            (first.trace.hash(), first.trace.events),
            (again.trace.hash(), again.trace.events),
            "seed {seed}"
        );
        assert_eq!(first.totals, again.totals, "seed {seed}");
    }
}
