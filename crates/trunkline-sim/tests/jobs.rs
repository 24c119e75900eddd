//! Tests the worker processes that share the seeds of a run.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

use std::process::Command;

fn report(jobs: &str, kind: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_trunkline-sim"))
        .args(["--report", "--jobs", jobs])
        .args(kind)
        .output()
        .unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{printed}");
    // The last line has the time that the runs took.
    let (tables, _line) = printed.trim_end().rsplit_once('\n').unwrap();
    assert!(tables.contains("| violations | 0 |"), "{tables}");
    tables.to_owned()
}

#[test]
fn several_processes_give_the_same_report_as_one_process() {
    for kind in [
        &["--streams", "--hours", "0.1"][..],
        &["--alarms", "--seeds", "3..10"],
        &["--history", "--seeds", "0..3"],
    ] {
        let one = report("1", kind);
        assert_eq!(report("3", kind), one, "{kind:?}");
    }
}
