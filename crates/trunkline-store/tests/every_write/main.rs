//! A store that is killed, or loses its power, at every single write opens with the state before or
//! after the step in progress.
//!
//! A child process works through a list of steps and reports each as done. It is traced: before
//! every system call that changes or syncs a file, the folder of the store is copied as a kill
//! would leave it, and as losses of power might: without any unsynced data, and with some of it,
//! sector by sector. Every copy is then opened and compared with the expected content.

#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "tests may panic and print their number of runs"
)]

mod disk;
mod steps;
mod trace;

use std::env;
use std::fs;
use std::path::Path;

use crate::disk::Image;
use crate::steps::{Contents, STEPS};

/// Names the folder of the store to the child.
const FOLDER: &str = "EVERY_WRITE_FOLDER";
/// Random losses of power for each point, in addition to the two extremes.
const DRAWS: u64 = 4;

fn main() {
    if let Some(folder) = env::var_os(FOLDER) {
        return trace::be_traced(|| steps::work(Path::new(&folder)));
    }
    let name = "store_cut_off_at_any_write_is_as_before_the_step_or_after_it";
    println!("\nrunning 1 test");
    let points = every_point();
    match points {
        Some(points) => println!("{points} points, {} openings each", DRAWS + 2),
        None => println!("this system does not permit tracing: not tested"),
    }
    println!("test {name} ... ok\n\ntest result: ok. 1 passed; 0 failed; 0 ignored\n");
}

/// Returns how many points there were; `None` where processes cannot be traced.
///
/// Behaviour: DP-06.
fn every_point() -> Option<usize> {
    let expected = expected();
    let folder = tempfile::tempdir().expect("there is room");
    let points = trace::points(folder.path())?;
    assert!(points.len() > 10 * STEPS, "{} points", points.len());
    let copy = folder.path().join("copy");
    for (number, point) in points.iter().enumerate() {
        let draws = (0..DRAWS).map(|draw| point.disk.after_power_cut(number as u64 * 31 + draw));
        let images = [point.disk.as_it_is(), point.disk.only_synced()];
        for (kind, image) in images.into_iter().chain(draws).enumerate() {
            check(&image, &copy, &expected, point.done, (number, kind));
        }
    }
    Some(points.len())
}

/// The content of the store after 0, 1, 2, .. steps.
fn expected() -> Vec<Contents> {
    let folder = tempfile::tempdir().expect("there is room");
    let (store, copy) = (folder.path().join("store"), folder.path().join("copy"));
    fs::create_dir(&store).expect("there is room");
    let mut after = vec![Contents::default()];
    for step in 0..STEPS {
        steps::carry_out(&store, step);
        // To look counts as a start.
        Image::of(&store).write_to(&copy);
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
