//! Tests that stop a process at every write to a folder.
//!
//! The test program starts itself again as a child, which works in a folder and calls [`report_step`] after
//! each of its steps. The child is traced: before every system call that changes or syncs a file, the folder
//! is copied as a [`Disk`]. The copy has the files that a kill would leave, and those that a loss of power
//! might leave: without any unsynced data, or with some of it, sector by sector. The test then opens these
//! copies and compares them with the work that was done.
//!
//! A process that traces another must have one thread, so such a test has no harness.
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
pub use trace::{Point, report_step};

/// Environment variable that tells the child the folder of the work.
const FOLDER: &str = "CRASHPOINTS_FOLDER";
/// Environment variable that tells the child the case.
const CASE: &str = "CRASHPOINTS_CASE";

/// One test: work that is stopped at every write, and a check of the state at each of them.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Name of the test.
    pub name: &'static str,
    /// Runs in the child, in an empty folder.
    pub work: fn(&Path),
    /// Runs in the parent, with every point of the work and with a folder for copies. Returns a line to
    /// print.
    pub check: fn(&[Point], &Path) -> String,
}

/// The main function of a test program with these cases. It tests nothing where processes cannot be traced.
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
