//! Kills the process of a history, or simulates a power loss, at every write. Afterwards, the history must
//! have every acknowledged row exactly once, and no other rows except those of the step in progress.
//!
//! `trunkline-crashpoints` runs the steps in a process that it stops at every write. Copies of its
//! folder are then read without an engine, with their catalogue and with a rebuilt one; they are also
//! opened, read, written again, and moved to files.
//!
//! With `HISTORY_EVERY_WRITE=1`, the test checks all copies; otherwise, it checks an evenly spaced selection.

#![allow(clippy::expect_used, reason = "tests may panic")]

#[path = "../rig/mod.rs"]
mod rig;
mod steps;

use std::collections::BTreeSet;
use std::env;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::path::Path;

use rusqlite::Connection;
use trunkline_crashpoints::{Case, Image, Point};
use trunkline_types::Value;

use crate::rig::{Line, Plant, SECOND, START, assert_same};
use crate::steps::{NEXT, STEPS};

/// Number of random power losses per point, in addition to the kill and the loss of all unsynced data.
const DRAWS: usize = 2;
/// Approximate number of copies in the selection.
const CHECKED: usize = 350;

fn main() {
    trunkline_crashpoints::test(&[
        Case {
            name: "history_cut_off_at_any_write_has_each_acknowledged_row_once",
            work: |folder| _ = steps::work(folder, trunkline_crashpoints::report_step),
            check: |points, folder| check_points(points, folder, steps::work, &check),
        },
        Case {
            name: "spool_cut_off_at_any_write_has_each_acknowledged_row_once",
            work: |folder| _ = steps::work_with_spool(folder, trunkline_crashpoints::report_step),
            check: |points, folder| {
                check_points(
                    points,
                    folder,
                    steps::work_with_spool,
                    &|image, copy, expected, done| {
                        check_spool(image, copy, expected, done);
                        check_late_spool(image, copy, expected, done);
                        check_rebuilt_spool(image, copy, expected, done);
                    },
                )
            },
        },
    ]);
}

/// Performs all steps in a folder, calls the closure after each step, and returns the rows of each step.
type Work = fn(&Path, fn()) -> Vec<Vec<Line>>;

/// Expects that a copy has the rows of the completed steps.
type Check<'a> = &'a dyn Fn(&Image, &Path, &[Vec<Line>], usize);

/// Returns true if all copies are checked.
fn is_everything() -> bool {
    env::var_os("HISTORY_EVERY_WRITE").is_some()
}

/// Returns the number of kinds of copies that are checked. The first kind is the kill.
fn kinds() -> usize {
    2 + DRAWS
}

/// Checks points, and reports the number of points and checks.
///
/// Behaviour: SV-09, H-14, H-16.
fn check_points(points: &[Point], folder: &Path, work: Work, check: Check<'_>) -> String {
    assert!(points.len() > 5 * STEPS, "{} points", points.len());
    let expected = folder.join("expected");
    std::fs::create_dir(&expected).expect("there is room");
    let expected = work(&expected, || {});
    assert_eq!(expected.len(), STEPS);
    let last = points.last().expect("there are some");
    assert_eq!(last.steps_done, STEPS, "every step was reported");

    let kinds = kinds();
    let total = points.len() * kinds;
    let every = match is_everything() {
        true => 1,
        // Alternate between the kinds.
        false => total.div_ceil(CHECKED).next_multiple_of(kinds) + usize::from(kinds > 1),
    };
    let copy = folder.join("copy");
    let mut failures = Vec::new();
    let mut checked = 0;
    // Collect failures, and report the first ones at the end.
    panic::set_hook(Box::new(|_| {}));
    for number in (0..total).step_by(every) {
        let (at, kind) = (number / kinds, number % kinds);
        let Some(point) = points.get(at) else { break };
        let image = match kind {
            0 => point.disk.after_kill(),
            1 => point.disk.only_synced(),
            draw => point.disk.after_power_cut((at * 31 + draw) as u64),
        };
        checked += 1;
        let work = AssertUnwindSafe(|| check(&image, &copy, &expected, point.steps_done));
        if let Err(panic) = catch_unwind(work) {
            let panic = panic.downcast_ref::<String>().map_or("", String::as_str);
            let kind = ["killed", "without what was not synced", "with a part of it"]
                .get(kind.min(2))
                .copied()
                .unwrap_or_default();
            failures.push(format!(
                "point {at} of {}, {kind}, {} steps done: {panic}; files {}",
                points.len(),
                point.steps_done,
                image.names().join(", "),
            ));
        }
    }
    let _silent = panic::take_hook();
    let first: Vec<_> = failures.iter().take(5).collect();
    assert!(
        failures.is_empty(),
        "{} of {checked} checks failed, such as {first:#?}",
        failures.len(),
    );
    format!("{} points, {checked} openings", points.len())
}

/// Expects the rows of the completed steps, and any of the rows of the next step. Returns all of them.
fn assert_done(found: &[Line], expected: &[Vec<Line>], done: usize, what: &str) -> Vec<Line> {
    let in_progress = expected.get(done).map_or(&[][..], Vec::as_slice);
    let present: BTreeSet<&Line> = found.iter().collect();
    let more = in_progress.iter().filter(|line| present.contains(line));
    let mut rows = expected.get(..done).unwrap_or_default().concat();
    rows.extend(more.cloned());
    assert_same(found, &rows, what);
    rows
}

/// Expects that both footers of each file are intact.
fn assert_footers(copy: &Path, done: usize) {
    let wall = trunkline_types::Timestamp::from_nanos(START);
    match trunkline_history::verify(copy, wall, &mut |_, _| true) {
        Ok(found) => {
            let mut findings = found.findings.iter();
            let missing = findings.find(|one| one.file.starts_with("footers"));
            assert_eq!(missing, None);
        }
        Err(error) => assert_eq!(done, 0, "checked: {error}"),
    }
}

/// Reads the folder without an engine. Before the first step, it may not have a history.
fn assert_read(copy: &Path, expected: &[Vec<Line>], done: usize, what: &str) {
    match rig::read_folder(copy, &rig::all()) {
        Ok(found) => {
            assert_done(&found.lines, expected, done, what);
        }
        Err(error) => assert_eq!(done, 0, "{what}: {error}"),
    }
}

fn check(image: &Image, copy: &Path, expected: &[Vec<Line>], done: usize) {
    image.write_to(copy);
    for file in rig::files(copy) {
        if file.to_string_lossy().starts_with("catalogue.sqlite") {
            std::fs::remove_file(copy.join(file)).expect("it is there");
        }
    }
    let rebuilt = trunkline_history::rebuild(copy, trunkline_types::Timestamp::from_nanos(START));
    assert!(rebuilt.is_ok() || done == 0, "rebuilt: {rebuilt:?}");
    assert_read(copy, expected, done, "with a new catalogue");

    image.write_to(copy);
    assert_read(copy, expected, done, "without an engine");
    assert_footers(copy, done);

    let time = START + 1000 * 3600 * SECOND;
    let mut plant = Plant::start(copy, NEXT, time, &steps::variables());
    let found = plant.everything().lines;
    let mut rows = assert_done(&found, expected, done, "after the end of the process");

    // The engine can continue to record in the folder.
    rows.push(plant.write("x", &Value::F64(-1.0)));
    rows.push(plant.write("text", &Value::String("after".into())));
    // Segments of earlier starts may have to be moved to files first.
    plant.record_everything();
    assert_same(&plant.everything().lines, &rows, "after another commit");
    plant.seal();
    assert_same(&plant.everything().lines, &rows, "from files");
    let time = plant.time + SECOND;
    drop(plant);
    let plant = Plant::start(copy, NEXT + 1, time, &steps::variables());
    assert_same(&plant.everything().lines, &rows, "after another start");
}

/// Starts the engine with the history's folder and the spool.
fn check_spool(image: &Image, copy: &Path, expected: &[Vec<Line>], done: usize) {
    image.write_to(copy);
    assert_numbers(copy);
    image.write_to(copy);
    let time = START + 1000 * 3600 * SECOND;
    let mut plant = steps::start_with_spool(copy, NEXT, time);
    let mut found = plant.everything();
    if !found.states.is_empty() {
        // Rows of the spool that are not in memory are missing until they are moved to files.
        plant.maintain();
        found = plant.everything();
    }
    assert_eq!(found.states, Vec::<String>::new(), "nothing is damaged");
    let mut rows = assert_done(&found.lines, expected, done, "after the end of the process");
    rows.push(plant.write("x", &Value::F64(-1.0)));
    plant.record_everything();
    assert_same(&plant.everything().lines, &rows, "after another commit");
    plant.seal();
    assert_same(&plant.everything().lines, &rows, "from files");
    assert_no_log(copy);

    // The next log of the spool is not taken for a former one.
    rows.push(steps::write_long(&mut plant));
    plant.record();
    rows.push(plant.write("x", &Value::F64(-2.0)));
    steps::record_in_spool(copy, &plant);
    let time = plant.time + SECOND;
    drop(plant);
    let plant = steps::start_with_spool(copy, NEXT + 1, time);
    assert_same(&plant.everything().lines, &rows, "after another start");
}

/// Expects that the spool knows the number of each log that it has, and of each log that the catalogue lists.
fn assert_numbers(copy: &Path) {
    let (main, spool) = steps::places(copy);
    if !spool.exists() {
        return;
    }
    let identity = std::fs::read_to_string(spool.join("identity")).unwrap_or_default();
    let highest = identity.trim_end().rsplit_once("logs ");
    let highest = highest.map_or(0, |(_, number)| number.parse().expect("it is a number"));
    let numbers = rig::files_of(&spool, "tlh").into_iter().map(|log| {
        let name = log.display().to_string();
        let digits = name.trim_start_matches("log-").trim_end_matches(".tlh");
        digits.parse().expect("it is a number")
    });
    let mut numbers: Vec<u64> = numbers.collect();
    // Without a catalogue, or without its table, nothing is listed.
    let select = "SELECT log FROM spool UNION SELECT log FROM spool_end";
    if let Ok(catalogue) = Connection::open(main.join("catalogue.sqlite"))
        && let Ok(mut listed) = catalogue.prepare(select)
    {
        let listed = listed.query_map([], |row| row.get::<_, i64>(0));
        let listed = listed.expect("it can be read");
        numbers.extend(listed.map(|log| log.expect("it can be read") as u64));
    }
    let newest = numbers.into_iter().max().unwrap_or(0);
    assert!(
        newest <= highest,
        "log {newest}, but the highest is {highest}"
    );
}

/// Starts the engine without the spool. The disk of the spool is connected later.
fn check_late_spool(image: &Image, copy: &Path, expected: &[Vec<Line>], done: usize) {
    image.write_to(copy);
    let (_, spool) = steps::places(copy);
    let away = copy.join("away");
    if !spool.exists() {
        return;
    }
    std::fs::rename(&spool, &away).expect("it is there");
    std::fs::write(&spool, "").expect("there is room");
    let time = START + 1000 * 3600 * SECOND;
    let mut plant = steps::start_with_spool(copy, NEXT, time);
    let mut rows = vec![plant.write("x", &Value::F64(-1.0))];
    plant.seal();
    std::fs::remove_file(&spool).expect("it is there");
    std::fs::rename(&away, &spool).expect("it is there");
    plant.maintain();
    let own = rows.clone();
    let mut found = plant.everything().lines;
    found.retain(|line| !own.contains(line));
    rows.extend(assert_done(&found, expected, done, "with the spool"));
    assert_no_log(copy);
    let time = plant.time + SECOND;
    drop(plant);
    let plant = steps::start_with_spool(copy, NEXT + 1, time);
    assert_same(&plant.everything().lines, &rows, "after another start");
}

/// Rebuilds the catalogue, then starts the engine with the history's folder and the spool.
fn check_rebuilt_spool(image: &Image, copy: &Path, expected: &[Vec<Line>], done: usize) {
    image.write_to(copy);
    let (main, _) = steps::places(copy);
    let wall = trunkline_types::Timestamp::from_nanos(START);
    let rebuilt = trunkline_history::rebuild(&main, wall);
    assert!(rebuilt.is_ok() || done == 0, "rebuilt: {rebuilt:?}");
    let plant = steps::start_with_spool(copy, NEXT, START + 1000 * 3600 * SECOND);
    plant.maintain();
    assert_done(
        &plant.everything().lines,
        expected,
        done,
        "with a new catalogue",
    );
    assert_no_log(copy);
}

/// Expects that all rows of the spool are in files.
fn assert_no_log(copy: &Path) {
    let (_, spool) = steps::places(copy);
    assert_eq!(rig::files_of(&spool, "tlh").len(), 0, "logs in the spool");
}
