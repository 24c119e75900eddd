//! Performs the operations of the traced process on its history, and returns the rows that it writes.

use std::path::{Path, PathBuf};

use nix::sys::signal::{SigSet, Signal};
use trunkline_engine::history::History;
use trunkline_types::{DataType, Value};

use crate::rig::{Line, Plant, SECOND, START, length_of_log, limited};

/// Number of starts of the engine in the traced process.
const STARTS: u64 = 3;
/// Number of steps per start.
const STEPS_EACH: usize = 8;
/// Total number of steps. Each ends with an acknowledgement.
pub const STEPS: usize = STARTS as usize * STEPS_EACH;
/// Epoch of the first start after those of the traced process.
pub const NEXT: u64 = STARTS + 1;

pub fn variables() -> [(&'static str, DataType); 4] {
    [
        ("x", DataType::F64),
        ("n", DataType::I64),
        ("text", DataType::String),
        ("flag", DataType::Bool),
    ]
}

/// Performs the steps of the traced process, and calls `done` after each step. Returns the rows of each step.
pub fn work(folder: &Path, mut done: impl FnMut()) -> Vec<Vec<Line>> {
    let mut all = Vec::new();
    let mut time = START;
    for start in 1..=STARTS {
        let mut plant = Plant::start(folder, start, time, &variables());
        for step in 0..STEPS_EACH {
            let lines = write(&mut plant, step as i64);
            match step {
                // This step only commits.
                0 | 3 | 7 => plant.record(),
                // This step closes a segment, which is moved later.
                1 | 5 => plant.close_segment(),
                // This step commits rows, closes the segment, and moves it to files.
                _ => {
                    plant.record();
                    plant.close_segment();
                    plant.maintain();
                }
            }
            assert!(plant.history.is_idle(), "it was recorded");
            all.push(lines);
            done();
        }
        if start == 2 {
            plant
                .history
                .close(plant.moment().wall)
                .expect("there is room");
        }
        time = plant.time + 3600 * SECOND;
    }
    all
}

/// Returns the paths of the history's folder and of the spool below `root`.
pub fn places(root: &Path) -> (PathBuf, PathBuf) {
    (root.join("main"), root.join("spool"))
}

/// Starts an engine whose history has a spool.
pub fn start_with_spool(root: &Path, epoch: u64, time: i64) -> Plant {
    let (main, spool) = places(root);
    Plant::open_with_spool(&main, Some(&spool), epoch, time, &variables()).expect("it can start")
}

/// Does the same as [`work`], with a spool to which the log moves during each start.
pub fn work_with_spool(root: &Path, mut done: impl FnMut()) -> Vec<Vec<Line>> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGXFSZ);
    signals.thread_block().expect("it can be blocked");
    let mut all = Vec::new();
    let mut time = START;
    for start in 1..=STARTS {
        let mut plant = start_with_spool(root, start, time);
        for step in 0..STEPS_EACH {
            let mut lines = write(&mut plant, step as i64);
            match step {
                // Make the log longer than other files, so that only the log reaches the limit.
                0 => {
                    lines.push(write_long(&mut plant));
                    plant.record();
                }
                1 => record_in_spool(root, &plant),
                // This step begins the next log of the spool.
                3 => plant.close_segment(),
                // This step moves all closed segments to files, and the next step moves the log back. The
                // second start ends before this step.
                4 | 6 if start != 2 => {
                    plant.record();
                    plant.maintain();
                }
                _ => plant.record(),
            }
            assert!(plant.history.is_idle(), "it was recorded");
            all.push(lines);
            done();
        }
        time = plant.time + 3600 * SECOND;
    }
    all
}

/// Writes a value that makes the log longer than other files.
pub fn write_long(plant: &mut Plant) -> Line {
    let long = Value::String("long ".repeat(20_000).into());
    plant.write("text", &long)
}

/// Records while the log in the history's folder has no room, so that the log moves to the spool.
pub fn record_in_spool(root: &Path, plant: &Plant) {
    let length = length_of_log(&places(root).0);
    limited(length + 20, || plant.record());
    let state = plant.history.spool().expect("there is one");
    assert!(state.cause.is_some(), "it has moved");
}

/// Writes rows of two dates, some of them older than earlier rows.
fn write(plant: &mut Plant, step: i64) -> Vec<Line> {
    let mut lines = Vec::new();
    for n in 0..4 {
        let number = step * 10 + n;
        lines.push(plant.write("x", &Value::F64(number as f64 / 3.0)));
        let yesterday = START - 86_400 * SECOND + number * SECOND;
        lines.push(plant.write_at("n", &Value::I64(number), yesterday));
        let text = Value::String(format!("text {number}").into());
        lines.push(plant.write("text", &text));
    }
    lines.push(plant.write("flag", &Value::Bool(step % 2 == 0)));
    if step == 3 {
        // The value is longer than a page.
        let long = Value::String("long ".repeat(3000).into());
        lines.push(plant.write("text", &long));
    }
    lines
}
