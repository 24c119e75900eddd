//! A test that stops a process at every write to a folder.
//!
//! The test program starts itself again as a child, which works in a folder and reports each of its
//! steps as [`done`]. The child is traced: before every system call that changes or syncs a file, the
//! folder is copied as a [`Disk`], which has the files that a kill would leave, and those that losses
//! of power might: without any unsynced data, or with some of it, sector by sector. The test then
//! opens these copies and compares them with the work that was done.
//!
//! A process that traces another needs one thread, so such a test has no harness.
#![forbid(unsafe_code)]
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a part of tests, which may panic and print what they have done"
)]

mod disk;
mod trace;

use std::env;
use std::path::Path;

pub use disk::{Disk, Image};
pub use trace::{Point, done};

/// Names the folder of the work to the child.
const FOLDER: &str = "CRASHPOINTS_FOLDER";

/// The main function of a test program with one test. The child calls `work` with its folder; then
/// the parent calls `check` with every point of the work and with a folder for its copies, and prints
/// the line that `check` returns. Nothing is tested where processes cannot be traced.
pub fn test(name: &str, work: impl FnOnce(&Path), check: impl FnOnce(&[Point], &Path) -> String) {
    if let Some(folder) = env::var_os(FOLDER) {
        return trace::be_traced(|| work(Path::new(&folder)));
    }
    println!("\nrunning 1 test");
    let in_memory = tempfile::tempdir_in("/dev/shm");
    let folder = in_memory.or_else(|_| tempfile::tempdir());
    let folder = folder.expect("a test has a folder for temporary files");
    match trace::points(&folder.path().join("work")) {
        Some(points) => println!("{}", check(&points, folder.path())),
        None => println!("this system does not permit tracing: not tested"),
    }
    println!("test {name} ... ok\n\ntest result: ok. 1 passed; 0 failed; 0 ignored\n");
}
