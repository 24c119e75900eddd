//! The simulator finds every bug planted in the history. This is a separate program, because a process-wide
//! limit simulates a full disk.
//!
//! `make test` runs it in the tree of `cargo xtask mutants`, with the feature `planted`.

#![cfg(feature = "planted")]

use trunkline_sim::history::plan::Plan;
use trunkline_sim::report::find;
use trunkline_types::planted::Bug;

/// Maximum number of seeds to find a bug.
const SEEDS: u64 = 300;

#[test]
fn every_planted_bug_in_history_is_found() {
    for bug in Bug::HISTORY {
        let found = find(*bug, SEEDS, Plan::drawn);
        assert!(found.is_some(), "{} is not found", bug.name());
    }
}
