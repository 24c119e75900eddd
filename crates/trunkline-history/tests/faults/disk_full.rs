//! A full disk, simulated by a limit on the file size. The limit applies to a whole process, so
//! each test runs in a process of its own.

use std::any::type_name;
use std::env;
use std::process::Command;

use nix::sys::signal::{SigSet, Signal};
use rusqlite::Connection;
use trunkline_engine::history::History;
use trunkline_engine::{Wakes, Write};
use trunkline_types::history::HistoryEvent::{Interrupted, Stopped};
use trunkline_types::{DataType, Value};

use crate::rig::{
    LIBRARY, Line, Plant, SECOND, START, assert_same, files_of, folder, length_of_log, limit,
    limited,
};

/// Environment variable with the name of the test that the process runs.
const CHILD: &str = "HISTORY_DISK_FULL";
pub(crate) const VARIABLES: [(&str, DataType); 2] =
    [("x", DataType::F64), ("text", DataType::String)];

/// Runs `work`, a closure of a test, in a process of its own, in which writing beyond the limit is an
/// error.
pub(crate) fn in_own_process<W: FnOnce()>(work: W) {
    // `faults::disk_full::name_of_the_test::{{closure}}`
    let closure = type_name::<W>();
    let name = closure.split_once("::").map_or(closure, |(_, path)| path);
    let name = name.strip_suffix("::{{closure}}").unwrap_or(name);
    if env::var(CHILD).is_ok_and(|child| child == name) {
        let mut signals = SigSet::empty();
        signals.add(Signal::SIGXFSZ);
        signals.thread_block().unwrap();
        return work();
    }
    let program = env::current_exe().unwrap();
    let output = Command::new(program)
        .args(["--exact", name, "--nocapture", "--include-ignored"])
        .env(CHILD, name)
        .output()
        .unwrap();
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{out}\n{err}");
    assert!(out.contains("1 passed"), "{out}");
}

pub(crate) fn some_writes(plant: &mut Plant, count: usize) -> Vec<Line> {
    let mut lines = Vec::new();
    for n in 0..count {
        lines.push(plant.write("x", &Value::F64(n as f64)));
        let text = Value::String(format!("text {n}").into());
        lines.push(plant.write("text", &text));
    }
    lines
}

/// H-14: the disk is full at every byte of a commit.
#[test]
fn failed_commit_is_recorded_when_space_is_free() {
    in_own_process(|| {
        let folder = folder();
        let mut plant = Plant::start(folder.path(), 1, START, &VARIABLES);
        // Longer than other files, so that only the log reaches the limit.
        let long = Value::String("x".repeat(150_000).into());
        let mut written = vec![plant.write("text", &long)];
        plant.record();
        let mut failures = 0;
        for room in (0..400).step_by(3) {
            let before = plant.everything().lines;
            written.extend(some_writes(&mut plant, 3));
            let length = length_of_log(folder.path());
            let result = limited(length + room, || {
                let first = plant.try_record();
                if first.is_err() {
                    // More rows are added to those that wait.
                    written.extend(some_writes(&mut plant, 1));
                    assert!(plant.try_record().is_err(), "{room} bytes were enough");
                }
                first
            });
            if let Err(error) = result {
                failures += 1;
                let name = folder.path().display().to_string();
                assert!(error.to_string().contains(&name), "{error}");
                assert_same(&plant.everything().lines, &before, "before there is room");
                assert!(!plant.history.is_idle());
                plant.record();
            }
            assert_same(&plant.everything().lines, &written, &format!("room {room}"));
        }
        assert!(failures > 20, "{failures} failures");
        assert_eq!(plant.history.figures().lost, 0);
        let time = plant.time;
        drop(plant);
        let plant = Plant::start(folder.path(), 2, time, &VARIABLES);
        assert_same(&plant.everything().lines, &written, "after a restart");
        plant.seal();
        assert_same(&plant.everything().lines, &written, "from files");
    });
}

/// The engine is killed while its disk is full.
#[test]
fn kill_while_the_disk_is_full_keeps_acknowledged_rows() {
    in_own_process(|| {
        let folder = folder();
        let mut written = Vec::new();
        let mut time = START;
        for epoch in 1..60 {
            let mut plant = Plant::start(folder.path(), epoch, time, &VARIABLES);
            let long = Value::String("x".repeat(150_000).into());
            written.push(plant.write("text", &long));
            plant.record();
            let unrecorded = some_writes(&mut plant, 3);
            let length = length_of_log(folder.path());
            let result = limited(length + epoch * 5, || plant.try_record());
            if result.is_ok() {
                written.extend(unrecorded);
            }
            time = plant.time + SECOND;
            drop(plant);
            let plant = Plant::start(folder.path(), 1000 + epoch, time, &VARIABLES);
            assert_same(
                &plant.everything().lines,
                &written,
                &format!("epoch {epoch}"),
            );
            plant.maintain();
        }
    });
}

/// Rows stay in the log until there is room for their file.
#[test]
fn failed_move_to_files_is_completed_when_space_is_free() {
    in_own_process(|| {
        let folder = folder();
        let mut plant = Plant::start(folder.path(), 1, START, &VARIABLES);
        let mut written = Vec::new();
        let mut failures = 0;
        for room in (0..20_000).step_by(500).chain([40_000, 60_000]) {
            written.extend(some_writes(&mut plant, 700));
            plant.record_everything();
            plant.close_segment();
            let wall = plant.moment().wall;
            let result = limited(room, || plant.history.maintain(wall));
            let what = format!("room {room}");
            if result.is_err() {
                failures += 1;
                assert!(plant.history.is_maintenance_due(), "{what}");
                assert_same(&plant.everything().lines, &written, &what);
                if room % 1000 == 0 {
                    let (epoch, time) = (plant.engine.epoch() + 1, plant.time + SECOND);
                    drop(plant);
                    plant = Plant::start(folder.path(), epoch, time, &VARIABLES);
                    assert_same(&plant.everything().lines, &written, &what);
                }
            }
            plant.maintain();
            // The events of a start are in the log immediately.
            assert!(plant.history.figures().unsealed <= 2, "{what}");
            assert_same(&plant.everything().lines, &written, &what);
        }
        assert!(failures > 5, "{failures} failures");
    });
}

/// There is no room for the log of the next segment.
#[test]
fn failed_new_segment_leaves_the_open_segment_in_use() {
    in_own_process(|| {
        let folder = folder();
        let mut plant = Plant::start(folder.path(), 1, START, &VARIABLES);
        let mut written = Vec::new();
        for room in 0..30 {
            written.extend(some_writes(&mut plant, 2));
            plant.record();
            let moment = plant.moment();
            let closed = limited(room, || plant.history.close_segment(moment));
            let what = format!("room {room}");
            assert_same(&plant.everything().lines, &written, &what);
            written.extend(some_writes(&mut plant, 2));
            plant.record();
            assert_same(&plant.everything().lines, &written, &what);
            if closed.is_err() && room % 2 == 0 {
                let (epoch, time) = (plant.engine.epoch() + 1, plant.time + SECOND);
                drop(plant);
                plant = Plant::start(folder.path(), epoch, time, &VARIABLES);
            }
            plant.seal();
            assert_same(&plant.everything().lines, &written, &what);
        }
    });
}

/// H-14.
#[test]
fn start_on_a_full_disk_fails_and_loses_nothing() {
    in_own_process(|| {
        let folder = folder();
        for room in [0, 1, 10, 100, 4096, 20_000] {
            let fresh = folder.path().join(format!("fresh-{room}"));
            let _opened = limited(room, || Plant::open(&fresh, 1, START, &VARIABLES).err());
            // What the failed start leaves behind does no harm.
            let mut plant = Plant::start(&fresh, 2, START, &VARIABLES);
            let mut written = some_writes(&mut plant, 3);
            plant.record();
            drop(plant);
            let error = limited(0, || Plant::open(&fresh, 3, START, &VARIABLES).err());
            let error = error.expect("a log cannot be made").to_string();
            assert!(error.contains(&fresh.display().to_string()), "{error}");
            let time = START + 3600 * SECOND;
            let mut plant = Plant::start(&fresh, 4, time, &VARIABLES);
            assert_same(&plant.everything().lines, &written, "after it");
            written.extend(some_writes(&mut plant, 3));
            plant.seal();
            assert_same(&plant.everything().lines, &written, "after it, sealed");
        }
    });
}

/// B-64: a stop that could not be recorded counts as an interruption.
#[test]
fn stop_on_a_full_disk_fails_and_is_an_interruption() {
    in_own_process(|| {
        let folder = folder();
        let mut plant = Plant::start(folder.path(), 1, START, &VARIABLES);
        let written = some_writes(&mut plant, 3);
        plant.record();
        some_writes(&mut plant, 3);
        let wall = plant.moment().wall;
        let length = length_of_log(folder.path());
        limited(length + 30, || {
            plant.history.close(wall).unwrap_err();
            plant.history.close(wall).unwrap_err();
        });
        let time = plant.time + SECOND;
        drop(plant);
        let plant = Plant::start(folder.path(), 2, time, &VARIABLES);
        plant.record();
        let answer = plant.everything();
        assert_same(&answer.lines, &written, "what was acknowledged");
        let events = answer.events_of("x");
        assert!(events.contains(&Interrupted), "{events:?}");
        assert!(!events.contains(&Stopped), "{events:?}");
    });
}

/// A stop that succeeds at its second attempt is entered once.
#[test]
fn stop_at_the_second_attempt_is_recorded_once() {
    in_own_process(|| {
        let folder = folder();
        let mut plant = Plant::start(folder.path(), 1, START, &VARIABLES);
        let mut written = some_writes(&mut plant, 3);
        plant.record();
        written.extend(some_writes(&mut plant, 3));
        let wall = plant.moment().wall;
        let length = length_of_log(folder.path());
        for room in [0, 10, 30] {
            limited(length + room, || plant.history.close(wall).unwrap_err());
        }
        plant.history.close(wall).unwrap();
        let time = plant.time + SECOND;
        drop(plant);
        let plant = Plant::start(folder.path(), 2, time, &VARIABLES);
        plant.record();
        let answer = plant.everything();
        assert_same(&answer.lines, &written, "everything before the stop");
        let events = answer.events_of("x");
        let stops = events.iter().filter(|event| **event == Stopped).count();
        assert_eq!(stops, 1, "{events:?}");
        assert!(!events.contains(&Interrupted), "{events:?}");
    });
}

/// B-64: the number of dropped updates is recorded exactly.
#[test]
fn dropped_updates_are_counted_exactly() {
    in_own_process(|| {
        let folder = folder();
        let mut plant = Plant::start(folder.path(), 1, START, &VARIABLES);
        plant.record();
        let name = format!("{LIBRARY}/x");
        let variable = plant.engine.resolve(&plant.caller, &name).unwrap();
        let total = 1_400_000_u64;
        let length = length_of_log(folder.path());
        limit(Some(length + 100));
        let moment = plant.moment();
        for n in 0..total {
            let value = Value::F64(n as f64);
            plant.engine.try_write(
                &plant.caller,
                moment.now,
                moment.wall,
                &variable,
                &Write::value(&value),
                &mut Wakes::new(),
            );
            if n % 100_000 == 99_999 {
                plant.try_record().unwrap_err();
            }
        }
        limit(None);
        plant.record_everything();
        // This update reveals what is missing before it.
        plant.write("x", &Value::F64(-1.0));
        plant.seal();
        let answer = plant.everything();
        let written = variable.sequence();
        assert_eq!(written, total + 1, "the engine took every write");
        let lost = answer.lost();
        assert!(lost > 0, "there was room for everything");
        assert_eq!(answer.lines.len() as u64 + lost, written);
        assert_eq!(plant.history.figures().lost, lost);
        // Each update either occurs once with its value, or is covered by a loss.
        let mut next = 1;
        let mut missing = 0;
        for line in &answer.lines {
            assert!(line.key.sequence >= next, "{line:?} comes after {next}");
            missing += line.key.sequence - next;
            next = line.key.sequence + 1;
            let number = f64::from_le_bytes(line.value.as_slice().try_into().unwrap());
            let is_it = number == line.key.sequence as f64 - 1.0 || next == written + 1;
            assert!(is_it, "{line:?} is {number}");
        }
        assert_eq!(missing, lost);
    });
}

/// H-14: the disk is full at every byte that the start writes to the log.
#[test]
fn history_on_a_full_disk_is_opened_later_without_loss() {
    in_own_process(|| {
        let folder = folder();
        let mut plant = Plant::start(folder.path(), 1, START, &VARIABLES);
        let written = some_writes(&mut plant, 20);
        plant.record();
        let time = plant.time;
        drop(plant);
        // While this reader is open, the catalogue needs no more room.
        let reader = Connection::open(folder.path().join("catalogue.sqlite")).unwrap();
        let read = || {
            let sql = "SELECT count(*) FROM series";
            let count: rusqlite::Result<i64> = reader.query_row(sql, [], |row| row.get(0));
            count.unwrap()
        };
        assert_eq!(read(), 2);
        let mut failures = 0;
        for room in 0..400_u64 {
            let open = || Plant::open(folder.path(), 2 + room, time, &VARIABLES).map(drop);
            match limited(room, open) {
                Err(_) => failures += 1,
                Ok(()) => break,
            }
            assert_eq!(files_of(folder.path(), "tlh").len(), 1, "{room} bytes");
        }
        assert!((30..400).contains(&failures), "{failures} failures");
        assert_eq!(read(), 2);
        let plant = Plant::start(folder.path(), 1000, time, &VARIABLES);
        let found = plant.everything();
        assert_same(&found.lines, &written, "after all attempts");
        assert_eq!(found.states, Vec::<String>::new());
        plant.seal();
        assert_same(&plant.everything().lines, &written, "from files");
    });
}

/// If the disk is full during a join, the files are joined later, and nothing is left behind.
#[test]
fn failed_join_is_repeated_later() {
    in_own_process(|| {
        let folder = folder();
        let mut plant = Plant::start(folder.path(), 1, START, &VARIABLES);
        let mut written = Vec::new();
        for _ in 0..8 {
            written.extend(some_writes(&mut plant, 200));
            plant.record();
            plant.close_segment();
            let wall = plant.moment().wall;
            assert!(plant.history.maintain(wall).unwrap(), "it becomes a file");
        }
        let files = || files_of(&folder.path().join("samples"), "parquet").len();
        let maintain = |plant: &Plant| {
            let step = || plant.history.maintain(plant.moment().wall).unwrap();
            while limited(2_000, step) {}
        };
        assert_eq!(files(), 8);
        for delay in [0, 60, 120, 240] {
            plant.time += (delay - 1) * SECOND;
            if delay > 0 {
                plant.maintain();
                assert_eq!(files(), 8, "it is too early");
            }
            plant.time += SECOND;
            maintain(&plant);
            assert_eq!(files(), 8, "there is no room");
            assert_eq!(
                files_of(&folder.path().join("unfinished"), "parquet").len(),
                0
            );
        }
        plant.time += 480 * SECOND;
        plant.maintain();
        assert_eq!(files(), 1);
        assert_same(&plant.everything().lines, &written, "from the joined file");
    });
}
