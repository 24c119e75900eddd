//! The simulator finds every bug that is planted, and none where none is.
//!
//! `make test` runs it with the feature `planted`, in a target folder of its own.

#![cfg(feature = "planted")]

use trunkline_sim::plan::Plan;
use trunkline_sim::run::run;
use trunkline_types::planted::{Bug, plant};

/// Seeds within which every bug has to be found.
const SEEDS: u64 = 1000;

fn seeds_until_found() -> Option<u64> {
    (0..SEEDS).find(|seed| run(Plan::drawn(*seed), false).violation.is_some())
}

#[test]
fn every_planted_bug_is_found() {
    let mut missed = Vec::new();
    for bug in Bug::ALL {
        plant(Some(*bug));
        if seeds_until_found().is_none() {
            missed.push(bug.name());
        }
    }
    plant(None);
    assert!(
        missed.is_empty(),
        "not found within {SEEDS} seeds: {missed:?}"
    );
}

#[test]
fn nothing_is_found_where_nothing_is_planted() {
    plant(None);
    for seed in 0..200 {
        let outcome = run(Plan::drawn(seed), false);
        assert_eq!(outcome.violation, None, "seed {seed}");
    }
}
