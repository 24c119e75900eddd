//! The simulator finds every bug that is planted in the history. In a program of its own, because a
//! disk without room is a limit of the whole process.
//!
//! `make test` runs it in the tree of `cargo xtask mutants`, with the feature `planted`.

#![cfg(feature = "planted")]

use trunkline_sim::history::plan::Plan;
use trunkline_sim::report::find;
use trunkline_types::planted::Bug;

/// Seeds within which every bug has to be found.
const SEEDS: u64 = 300;

#[test]
fn every_planted_bug_in_history_is_found() {
    for bug in Bug::HISTORY {
        let found = find(*bug, SEEDS, Plan::drawn);
        assert!(found.is_some(), "{} is not found", bug.name());
    }
}
