//! The simulator finds every planted bug, and reports no bug without one.
//!
//! `make test` runs it in the tree of `cargo xtask mutants`, with the feature `planted`.

#![cfg(feature = "planted")]

use trunkline_sim::checker::Totals;
use trunkline_sim::plan::{Plan, Repairs};
use trunkline_sim::report::find;
use trunkline_sim::run::run;
use trunkline_sim::{alarms, streams};
use trunkline_types::planted::{Bug, plant};

/// Maximum number of seeds to find a bug.
const SEEDS: u64 = 1000;
/// Number of seeds to run with a bug whose effects the product repairs.
const REPAIR_SEEDS: u64 = 100;

#[test]
fn every_planted_bug_is_found() {
    let mut missed = Vec::new();
    for bug in Bug::ALL {
        if find(*bug, SEEDS, Plan::drawn).is_none() {
            missed.push(bug.name());
        }
    }
    assert!(
        missed.is_empty(),
        "not found within {SEEDS} seeds: {missed:?}"
    );
}

/// Every planted bug in streams violates one of the numbered invariants, or causes a panic.
#[test]
fn every_planted_bug_in_streams_is_found() {
    for bug in Bug::STREAMS {
        let Some((seeds, violation)) = find(*bug, SEEDS, streams::plan::Plan::drawn) else {
            panic!("{} is not found within {SEEDS} seeds", bug.name());
        };
        let has_id = violation
            .split_once(':')
            // An assertion of the product may also find the bug.
            .is_some_and(|(id, _)| id.len() == 2 || id == "a panic");
        assert!(has_id, "{} in seed {}: {violation}", bug.name(), seeds - 1);
    }
}

#[test]
fn every_planted_bug_in_alarms_is_found() {
    for bug in Bug::ALARMS {
        let found = find(*bug, SEEDS, alarms::plan::Plan::drawn);
        assert!(found.is_some(), "{} is not found", bug.name());
    }
}

#[test]
fn no_bug_is_found_in_streams_without_planted_bugs() {
    plant(None);
    for seed in 0..200 {
        let outcome = run(streams::plan::Plan::drawn(seed), false);
        assert_eq!(outcome.violation, None, "seed {seed}");
    }
}

#[test]
fn no_bug_is_found_without_planted_bugs() {
    plant(None);
    for seed in 0..200 {
        let outcome = run(Plan::drawn(seed), false);
        assert_eq!(outcome.violation, None, "seed {seed}");
    }
}

/// Runs seeds with a bug whose effects the product repairs. Checks that there is no violation, and returns
/// the numbers of repairs.
fn run_with_repairs(bug: Bug, repairs: Repairs) -> Totals {
    let mut sum = Totals::default();
    for seed in 0..REPAIR_SEEDS {
        plant(Some(bug));
        let mut plan = Plan::drawn(seed);
        plan.repairs = repairs;
        let outcome = run(plan, false);
        assert_eq!(outcome.violation, None, "seed {seed}");
        sum.diverged += outcome.totals.diverged;
        sum.repaired += outcome.totals.repaired;
        sum.marked += outcome.totals.marked;
    }
    plant(None);
    sum
}

/// The running digest detects updates that are dropped silently. All values match the engine's 2 s after the
/// faults have ended.
///
/// Behaviour: B-10.
#[test]
fn silently_dropped_updates_are_detected_and_repaired() {
    let sum = run_with_repairs(Bug::SilentDrop, Repairs::Records);
    assert!(sum.diverged > 0 && sum.repaired > 0, "{sum:?}");
}

/// The sweep sets a lost mark again within 64 keep-alives, and counts it.
///
/// Behaviour: B-10.
#[test]
fn lost_mark_is_detected_and_set_again() {
    let sum = run_with_repairs(Bug::LostMark, Repairs::Marks);
    assert!(sum.marked > 0, "{sum:?}");
}
