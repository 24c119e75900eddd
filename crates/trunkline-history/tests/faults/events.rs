//! Tests the events for interruptions and retirements (B-64).

use trunkline_engine::history::History;
use trunkline_engine::{Wakes, Write};
use trunkline_types::history::HistoryEvent::{Added, Interrupted, Retired, Started, Stopped};
use trunkline_types::{DataType, Moment, Timestamp, Value};

use crate::rig::{
    Event, Plant, SECOND, START, all, assert_same, copy, files_of, folder, read_folder,
};

const VARIABLES: [(&str, DataType); 1] = [("x", DataType::F64)];

/// B-64: the engine is killed after all rows were moved to files.
#[test]
fn kill_after_everything_was_moved_to_files_is_an_interruption() {
    let folder = folder();
    let mut plant = Plant::start(folder.path(), 1, START, &VARIABLES);
    plant.write("x", &Value::F64(1.0));
    plant.seal();
    let time = plant.time + SECOND;
    drop(plant);
    let plant = Plant::start(folder.path(), 2, time, &VARIABLES);
    plant.record();
    let found = plant.everything();
    let events = found.events_of("x");
    assert_eq!(events, [Started, Added, Interrupted, Started]);
    let ends = found.events.iter();
    let ends = ends.filter(|event| event.event == Interrupted);
    let epochs: Vec<u64> = ends.map(|event| event.key.epoch).collect();
    assert_eq!(epochs, [1], "the start that was interrupted");
}

/// B-64: a start that is killed before its first record does not hide the earlier interruption.
#[test]
fn interruption_is_recorded_even_if_the_next_start_is_killed() {
    let folder = folder();
    let mut plant = Plant::start(folder.path(), 1, START, &VARIABLES);
    plant.write("x", &Value::F64(1.0));
    plant.record();
    let time = plant.time + SECOND;
    drop(plant);
    let plant = Plant::start(folder.path(), 2, time, &VARIABLES);
    // One thread records, and another thread moves rows to files.
    plant.maintain();
    drop(plant);
    let plant = Plant::start(folder.path(), 3, time + SECOND, &VARIABLES);
    plant.record();
    let events = plant.everything().events_of("x");
    // Both runs ended without stopping.
    assert_eq!(events.iter().filter(|one| **one == Interrupted).count(), 2);
    assert_eq!(events.last(), Some(&Started));
}

/// B-64: a backup copied the log first, and copied the catalogue and the files after the engine had moved
/// more rows to files.
#[test]
fn interruption_follows_the_last_row_even_if_the_log_is_older() {
    // There may be no log at all, if its rows moved to a file before it was copied.
    for has_log in [true, false] {
        let (origin, copied) = (folder(), folder());
        let place = copied.path().join("copied");
        let mut plant = Plant::start(origin.path(), 1, START, &VARIABLES);
        let mut written = vec![plant.write("x", &Value::F64(1.0))];
        plant.record();
        let log = files_of(origin.path(), "tlh").remove(0);
        let old = std::fs::read(origin.path().join(&log)).unwrap();
        written.push(plant.write("x", &Value::F64(2.0)));
        plant.seal();
        written.push(plant.write("x", &Value::F64(3.0)));
        plant.seal();
        copy(origin.path(), &place);
        for newer in files_of(&place, "tlh") {
            std::fs::remove_file(place.join(newer)).unwrap();
        }
        if has_log {
            std::fs::write(place.join(log), old).unwrap();
        }
        let time = plant.time + SECOND;
        let plant = Plant::start(&place, 2, time, &VARIABLES);
        plant.record();
        let found = plant.everything();
        assert_same(&found.lines, &written, "restored");
        let is_end = |event: &&Event| event.event == Interrupted && event.variable == "rig/x";
        let ends: Vec<&Event> = found.events.iter().filter(is_end).collect();
        let times: Vec<i64> = ends.iter().map(|event| event.key.time).collect();
        let last = written.iter().map(|line| line.key.time).max().unwrap();
        assert_eq!(times, [last], "with a log: {has_log}");
    }
}

/// B-64: the command is killed after it has moved the end of the last run to a file, and before it has
/// removed the logs.
#[test]
fn interruption_is_recorded_once_even_if_compaction_is_killed() {
    let (origin, killed) = (folder(), folder());
    let mut plant = Plant::start(origin.path(), 1, START, &VARIABLES);
    let written = vec![plant.write("x", &Value::F64(1.0))];
    plant.record();
    let place = killed.path().join("killed");
    let wall = Timestamp::from_nanos(plant.time + SECOND);
    let mut steps = 0;
    for kill in 1.. {
        copy(origin.path(), &place);
        steps = 0;
        trunkline_history::compact(&place, &[], wall, &mut |_| {
            steps += 1;
            steps < kill
        })
        .unwrap();
        if steps < kill {
            break;
        }
        let of_folder = read_folder(&place, &all()).unwrap().events_of("x");
        assert_eq!(of_folder, [Started, Added, Interrupted], "step {kill}");
        let plant = Plant::start(&place, 2, wall.as_nanos(), &VARIABLES);
        plant.record();
        let found = plant.everything();
        assert_same(&found.lines, &written, "after a kill");
        let events = found.events_of("x");
        assert_eq!(
            events,
            [Started, Added, Interrupted, Started],
            "step {kill}"
        );
    }
    assert!(steps > 2, "{steps} steps");
}

/// B-64: this applies to stops with and without rows that must be moved to files.
#[test]
fn orderly_stop_is_not_an_interruption() {
    let folder = folder();
    let mut time = START;
    let mut expected = vec![Started, Added];
    for epoch in 1..6 {
        let mut plant = Plant::start(folder.path(), epoch, time, &VARIABLES);
        if epoch > 1 {
            expected.extend([Stopped, Started]);
        }
        if epoch % 2 == 0 {
            plant.write("x", &Value::F64(epoch as f64));
        }
        plant.record();
        if epoch % 3 == 0 {
            plant.seal();
        }
        assert_eq!(plant.everything().events_of("x"), expected, "start {epoch}");
        plant.history.close(plant.moment().wall).unwrap();
        time = plant.time + SECOND;
    }
}

/// B-64: a variable is undeployed and deployed again.
#[test]
fn retirement_and_redeployment_are_recorded_with_all_rows() {
    let folder = folder();
    let mut plant = Plant::start(folder.path(), 1, START, &VARIABLES);
    let mut written = vec![plant.write("x", &Value::F64(1.0))];
    plant.undeploy();
    plant.record();
    plant.time += SECOND;
    plant.deploy(&VARIABLES).unwrap();
    written.push(plant.write("x", &Value::F64(2.0)));
    plant.record();
    let events = [Started, Added, Retired, Added];
    let answer = plant.everything();
    assert_same(&answer.lines, &written, "from memory");
    assert_eq!(answer.events_of("x"), events);
    plant.seal();
    let answer = plant.everything();
    assert_same(&answer.lines, &written, "from files");
    assert_eq!(answer.events_of("x"), events);
}

/// B-64: a variable of another type replaced the variable before the recorder's next step.
#[test]
fn updates_before_a_quick_replacement_are_recorded() {
    let folder = folder();
    let mut plant = Plant::start(folder.path(), 1, START, &VARIABLES);
    plant.record();
    let mut written = Vec::new();
    for n in 0..5 {
        written.push(plant.write("x", &Value::F64(f64::from(n))));
    }
    plant.undeploy();
    plant.deploy(&[("x", DataType::I64)]).unwrap();
    written.push(plant.write("x", &Value::I64(5)));
    plant.record();
    let answer = plant.everything();
    assert_same(&answer.lines, &written, "both types");
    assert!(answer.events_of("x").contains(&Retired));
}

/// B-64: a variable of the same type replaced the variable, so the series continues.
#[test]
fn updates_before_a_quick_redeployment_are_recorded() {
    let folder = folder();
    let mut plant = Plant::start(folder.path(), 1, START, &VARIABLES);
    plant.record();
    let mut written = vec![plant.write("x", &Value::F64(1.0))];
    plant.undeploy();
    plant.time += SECOND;
    plant.deploy(&VARIABLES).unwrap();
    written.push(plant.write("x", &Value::F64(2.0)));
    plant.record();
    let answer = plant.everything();
    assert_same(&answer.lines, &written, "one series");
    assert_eq!(answer.events_of("x"), [Started, Added, Retired, Added]);
}

/// B-41: a late sample is recorded, and does not overwrite a newer live value.
#[test]
fn late_sample_is_recorded() {
    let folder = folder();
    let mut plant = Plant::start(folder.path(), 1, START, &VARIABLES);
    let newer = plant.write("x", &Value::F64(1.0));
    let variable = plant
        .engine
        .resolve(&plant.caller, &newer.variable)
        .unwrap();
    let Moment { now, wall } = plant.moment();
    let late = START - 60 * SECOND;
    let value = Value::F64(2.0);
    let write = Write {
        source_timestamp: Some(Timestamp::from_nanos(late)),
        ..Write::value(&value)
    };
    let mut wakes = Wakes::new();
    plant
        .engine
        .try_write(&plant.caller, now, wall, &variable, &write, &mut wakes);
    assert_eq!(variable.sample().value, Value::F64(1.0), "the live value");
    plant.record();
    let times: Vec<i64> = plant
        .everything()
        .lines
        .iter()
        .map(|line| line.key.time)
        .collect();
    assert_eq!(times, [late, newer.key.time]);
}
