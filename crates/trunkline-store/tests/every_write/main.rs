//! Tests that a store opens in the state before or after the current step if the process is killed or power
//! is lost at any write.
//!
//! `trunkline-crashpoints` runs the steps in a process that it stops at every write. Every copy of the
//! process's folder is opened and compared with the expected content.

#![allow(clippy::expect_used, reason = "tests may panic")]

mod steps;

use std::fs;
use std::path::Path;

use trunkline_crashpoints::{Case, Image, Point};

use crate::steps::{Contents, STEPS};

/// Number of random losses of power for each point, in addition to the two extremes.
const RANDOM_POWER_LOSSES: u64 = 4;

fn main() {
    trunkline_crashpoints::test(&[Case {
        name: "store_cut_off_at_any_write_is_as_before_the_step_or_after_it",
        work: steps::work,
        check: check_points,
    }]);
}

/// Checks every point, and returns a line with their number.
///
/// Behaviour: DP-06.
fn check_points(points: &[Point], folder: &Path) -> String {
    let expected = expected(folder);
    assert!(points.len() > 10 * STEPS, "{} points", points.len());
    let copy = folder.join("copy");
    for (number, point) in points.iter().enumerate() {
        let draws = (0..RANDOM_POWER_LOSSES)
            .map(|draw| point.disk.after_power_cut(number as u64 * 31 + draw));
        let images = [point.disk.after_kill(), point.disk.only_synced()];
        for (kind, image) in images.into_iter().chain(draws).enumerate() {
            check(&image, &copy, &expected, point.steps_done, (number, kind));
        }
    }
    format!(
        "{} points, {} openings each",
        points.len(),
        RANDOM_POWER_LOSSES + 2
    )
}

/// Returns the content of the store after 0, 1, 2, .. steps.
fn expected(folder: &Path) -> Vec<Contents> {
    let (store, copy) = (folder.join("expected"), folder.join("copy"));
    fs::create_dir(&store).expect("the disk has room");
    let mut after = vec![Contents::default()];
    for step in 0..STEPS {
        steps::carry_out(&store, step);
        // Reading the store counts as a start, so a copy is read.
        Image::read(&store).write_to(&copy);
        after.push(Contents::of(&copy));
    }
    after
}

fn check(image: &Image, copy: &Path, expected: &[Contents], done: usize, at: (usize, usize)) {
    image.write_to(copy);
    let found = Contents::of(copy);
    let before = expected.get(done).expect("there is one more than steps");
    let after = expected.get(done + 1);
    assert!(
        found == *before || Some(&found) == after,
        "point {at:?}, {done} steps done: found {}, not {} nor {}",
        found.summary(),
        before.summary(),
        after.map(Contents::summary).unwrap_or_default(),
    );
}
