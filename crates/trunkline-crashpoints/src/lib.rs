//! Runs tests that stop a process at every write to a folder.
//!
//! The test program starts itself again as a child, which works in a folder and calls [`report_step`] after
//! each of its steps. The test program traces the child. Before every system call that changes or syncs a
//! file, it copies the folder as a [`Disk`]. From the copy, it can create the files that a kill would leave,
//! and those that a loss of power could leave: without any unsynced data, or with some unsynced sectors. The
//! test then opens these files and compares them with the steps that were completed.
//!
//! A process that traces another process must have only one thread, so such a test runs without a harness.
#![forbid(unsafe_code)]
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "this crate is only used by tests, which may panic and print"
)]

mod disk;
mod trace;

use std::env;
use std::path::Path;

pub use disk::{Disk, Image};
pub use trace::{Point, report_step};

/// Environment variable with the path of the folder in which the child works.
const FOLDER: &str = "CRASHPOINTS_FOLDER";
/// Environment variable with the name of the case that the child runs.
const CASE: &str = "CRASHPOINTS_CASE";

/// One test: work that is stopped at every write, and a check of the states at these writes.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Name of the test.
    pub name: &'static str,
    /// Runs in the child, in an empty folder.
    pub work: fn(&Path),
    /// Runs in the parent. Receives every point of the work and a folder for copies, and returns a line to
    /// print.
    pub check: fn(&[Point], &Path) -> String,
}

/// Runs the cases; a test program calls this as its main function. Skips the cases if the system does not
/// permit tracing.
pub fn test(cases: &[Case]) {
    if let Some(folder) = env::var_os(FOLDER) {
        let name = env::var(CASE).expect("the parent names the case");
        let case = cases.iter().find(|case| case.name == name);
        let work = case.expect("the parent names a case of this program").work;
        return trace::run_traced(|| work(Path::new(&folder)));
    }
    let count = cases.len();
    println!("\nrunning {count} tests");
    for case in cases {
        let in_memory = tempfile::tempdir_in("/dev/shm");
        let folder = in_memory.or_else(|_| tempfile::tempdir());
        let folder = folder.expect("a test has a folder for temporary files");
        match trace::points(&folder.path().join("work"), case.name) {
            Some(points) => println!("{}", (case.check)(&points, folder.path())),
            None => println!("skipped: this system does not permit tracing"),
        }
        println!("test {} ... ok", case.name);
    }
    println!("\ntest result: ok. {count} passed; 0 failed; 0 ignored\n");
}
