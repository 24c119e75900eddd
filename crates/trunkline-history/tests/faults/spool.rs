//! The spool: rows that find no room in the folder of a history are stored in a second folder, and
//! are moved back, each once.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rusqlite::Connection;
use trunkline_engine::history::{History, HistoryError};
use trunkline_history::{FolderError, HistoryFolder, PossibleDuplicates, Rebuilt, verify};
use trunkline_types::history::HistoryEvent::{Interrupted, Started, Stopped};
use trunkline_types::{DataType, Value};

use crate::disk_full::{VARIABLES, in_own_process};
use crate::disks::{Away, Disks, Replacement, record, state};
use crate::rig::{
    Plant, SECOND, START, assert_same, copy, difference, files, files_of, flip, length_of_log,
    limited,
};

/// The first log of a folder.
const LOG: &str = "log-0000000001.tlh";

/// Starts an engine whose folder has no room for a commit. Also returns the content of its log if the
/// commit has left all its rows there: that of an equal engine that had room.
fn after_failed_commit() -> (Disks, Plant, Vec<u8>) {
    let mut equal = Disks::new();
    let mut plant = equal.start();
    equal.write(&mut plant);
    plant.record();
    let left = fs::read(equal.history().join(LOG)).unwrap();
    let (disks, plant) = Disks::spooling();
    (disks, plant, left)
}

/// Behaviour: H-14.
#[test]
fn rows_that_find_no_room_are_in_the_spool_until_there_is_room() {
    in_own_process(|| {
        let mut disks = Disks::new();
        let mut plant = disks.start();
        assert_eq!(state(&plant).cause, None);
        assert_eq!(state(&plant).fault, None);
        disks.write(&mut plant);
        disks.record_with_room(&plant, 10);
        let cause = state(&plant).cause.unwrap().to_string();
        let name = disks.history().display().to_string();
        assert!(cause.contains(&name), "{cause}");
        assert_eq!(plant.history.figures().spooled, 6);
        assert_eq!(disks.logs(), 1);
        disks.assert_all(&plant, "while there is no room");
        // The closed segments are moved to files first, which shows that there is room.
        disks.write(&mut plant);
        plant.record();
        assert_eq!(plant.history.figures().spooled, 12);
        disks.assert_all(&plant, "while they are not files");
        disks.assert_back(&plant, "with room");
        disks.write(&mut plant);
        plant.record();
        assert_eq!(plant.history.figures().lost, 0);
        let (closed, time) = (plant.moment().wall, plant.time + SECOND);
        plant.history.close(closed).unwrap();
        drop(plant);
        disks.time = time;
        let plant = disks.start();
        disks.assert_back(&plant, "after a restart");
        let events = plant.everything().events_of("x");
        assert!(!events.contains(&Interrupted), "{events:?}");
    });
}

/// Behaviour: H-14.
#[test]
fn kill_while_rows_are_in_the_spool_costs_and_doubles_none() {
    in_own_process(|| {
        let mut disks = Disks::new();
        for room in (0..420).step_by(7) {
            let what = format!("room {room}");
            let mut plant = disks.start();
            disks.write(&mut plant);
            disks.record_with_room(&plant, room);
            disks.write(&mut plant);
            plant.record();
            disks.assert_all(&plant, &what);
            disks.kill(plant);
            let mut plant = disks.start();
            disks.assert_all(&plant, &what);
            disks.assert_back(&plant, &what);
            disks.write(&mut plant);
            plant.record();
            disks.kill(plant);
        }
        let plant = disks.start();
        disks.assert_back(&plant, "in the end");
        plant.seal();
        disks.assert_all(&plant, "from files");
    });
}

/// A failed commit may have left all its rows in a log whose disk can no longer be changed.
///
/// Behaviour: H-14.
#[test]
fn rows_that_a_failed_commit_has_left_are_not_recorded_twice() {
    in_own_process(|| {
        let (mut disks, mut plant, left) = after_failed_commit();
        disks.write(&mut plant);
        plant.record();
        disks.kill(plant);
        let log = disks.history().join(LOG);
        let before = fs::metadata(&log).unwrap().len();
        assert!(left.len() as u64 > before, "the rows are in the log");
        fs::write(&log, left).unwrap();
        let plant = disks.start();
        disks.assert_all(&plant, "after the kill");
        disks.assert_back(&plant, "with room");
    });
}

/// A failed commit may have left all its rows in the spool, whose disk can no longer be changed.
///
/// Behaviour: H-14.
#[test]
fn rows_that_a_failed_commit_has_left_in_the_spool_are_not_read() {
    in_own_process(|| {
        for case in ["killed", "not in memory", "missing at a start"] {
            let mut disks = Disks::new();
            let mut plant = disks.start();
            // An equal engine that has room.
            let mut equal = Disks::new();
            let mut other = equal.start();
            for (disks, plant) in [(&mut disks, &mut plant), (&mut equal, &mut other)] {
                disks.write(plant);
                disks.record_with_room(plant, 10);
                disks.lengthen(plant);
                disks.write(plant);
            }
            let length = length_of_log(&disks.spool());
            limited(length + 10, || plant.record());
            assert_eq!(state(&plant).cause, None, "the spool has no room");
            other.record();
            fs::copy(equal.spool().join(LOG), disks.spool().join(LOG)).unwrap();
            assert!(length_of_log(&disks.spool()) > length, "the rows are there");
            match case {
                "killed" => disks.kill(plant),
                "not in memory" => {
                    for _ in 0..2 {
                        disks.write(&mut plant);
                        plant.record();
                        plant.close_segment();
                    }
                    assert!(!plant.everything().states.is_empty());
                    disks.assert_back(&plant, case);
                    continue;
                }
                _ => {
                    disks.kill(plant);
                    let spool = Away::new(disks.spool(), Replacement::File);
                    let plant = disks.try_start().unwrap();
                    plant.seal();
                    disks.kill(plant);
                    spool.restore();
                }
            }
            let plant = disks.start();
            disks.assert_back(&plant, case);
        }
    });
}

/// Creating a log in the spool may fail after its first frame, and removing it, too. The log in the
/// folder then continues.
///
/// Behaviour: H-14.
#[test]
fn log_of_the_spool_without_rows_does_not_end_the_log_in_the_folder() {
    in_own_process(|| {
        let mut other = Disks::new();
        let mut plant = other.start();
        other.write(&mut plant);
        let mut room = 0..200;
        let created = room.find(|room| {
            limited(*room, || plant.try_record()).unwrap_err();
            other.logs() == 1
        });
        created.unwrap();
        let log = files_of(&other.spool(), "tlh").remove(0);
        // Creating the log has failed, so nothing follows its first frame.
        let mut first = fs::read(other.spool().join(&log)).unwrap();
        let payload = first.get(28..32).unwrap().try_into().unwrap();
        first.truncate(40 + u32::from_le_bytes(payload) as usize);

        // An equal engine that has room.
        let mut disks = Disks::new();
        let mut plant = disks.start();
        disks.write(&mut plant);
        plant.record();
        disks.kill(plant);
        fs::write(disks.spool().join(&log), first).unwrap();
        let plant = disks.start();
        disks.assert_all(&plant, "after the kill");
        disks.assert_back(&plant, "from files");
    });
}

/// Without rows in the spool, nothing says later where the log ends.
///
/// Behaviour: H-14.
#[test]
fn log_that_a_failed_commit_has_lengthened_is_cut_before_the_return() {
    in_own_process(|| {
        let (mut disks, mut plant, left) = after_failed_commit();
        let log = disks.history().join(LOG);
        let before = fs::metadata(&log).unwrap().len();
        fs::write(&log, left).unwrap();
        disks.lengthen(&mut plant);
        disks.write(&mut plant);
        let length = length_of_log(&disks.spool());
        limited(length + 10, || plant.record());
        assert_eq!(state(&plant).cause, None, "the spool has no room");
        assert_eq!(fs::metadata(&log).unwrap().len(), before);
        disks.kill(plant);
        let plant = disks.start();
        disks.assert_back(&plant, "after the kill");
    });
}

/// Behaviour: H-14, B-64.
#[test]
fn spool_that_is_missing_at_a_start_comes_back_later() {
    in_own_process(|| {
        let (mut disks, plant) = Disks::spooling();
        disks.kill(plant);
        let spooled = disks.written.split_off(1);
        let spool = Away::new(disks.spool(), Replacement::File);

        for _ in 0..2 {
            let mut plant = disks.start();
            let fault = state(&plant).fault.unwrap().to_string();
            assert!(fault.starts_with("the spool "), "{fault}");
            disks.write(&mut plant);
            plant.seal();
            disks.assert_all(&plant, "without the spool");
            disks.kill(plant);
        }
        let mut plant = disks.start();
        disks.write(&mut plant);
        plant.record();
        spool.restore();
        disks.written.extend(spooled);
        disks.assert_back(&plant, "with the spool");
        assert_eq!(state(&plant).fault, None);
        let events = plant.everything().events_of("x");
        let ends = events.iter().filter(|event| **event == Interrupted).count();
        let starts = events.iter().filter(|event| **event == Started).count();
        // The run whose rows are in the spool has an end in the folder and another in the spool.
        assert_eq!((starts, ends), (4, 4), "{events:?}");
        disks.kill(plant);
        let plant = disks.start();
        disks.assert_back(&plant, "after a restart");
    });
}

/// Behaviour: H-14.
#[test]
fn log_that_comes_back_after_its_rows_are_in_files_is_recognised() {
    in_own_process(|| {
        let (mut disks, plant) = Disks::spooling();
        let copied = disks.root.path().join("copied");
        copy(&disks.spool(), &copied);
        disks.assert_back(&plant, "with room");
        disks.kill(plant);
        // As if the deletion had not become durable.
        copy(&copied, &disks.spool());
        let mut plant = disks.start();
        disks.assert_back(&plant, "after a restart");
        disks.write(&mut plant);
        disks.record_with_room(&plant, 10);
        copy(&disks.spool(), &copied);
        disks.assert_back(&plant, "with room");
        disks.kill(plant);
        copy(&copied, &disks.spool());
        // A rebuilt catalogue recognises it, too.
        trunkline_history::rebuild(
            &disks.history(),
            trunkline_types::Timestamp::from_nanos(START),
        )
        .unwrap();
        let plant = disks.start();
        disks.assert_back(&plant, "with a new catalogue");
    });
}

/// The rows of a log of the spool are in files of two dates, which are joined with others.
///
/// Behaviour: H-14.
#[test]
fn catalogue_rebuilt_from_files_recognises_a_log_whose_rows_are_in_all_of_its_files() {
    in_own_process(|| {
        let mut disks = Disks::new();
        let mut plant = disks.start();
        let copied = disks.root.path().join("copied");
        for n in 0..2 {
            disks.lengthen(&mut plant);
            disks.write(&mut plant);
            let yesterday = START - 86_400 * SECOND + n * SECOND;
            let line = plant.write_at("x", &Value::F64(1.0), yesterday);
            disks.written.push(line);
            disks.record_with_room(&plant, 10);
            copy(&disks.spool(), &copied);
            disks.assert_back(&plant, "with room");
        }
        disks.kill(plant);
        let samples = disks.history().join("samples");
        for is_joined in [false, true] {
            if is_joined {
                compact(&disks.history()).unwrap();
                assert_eq!(files_of(&samples, "parquet").len(), 2, "one for each date");
            }
            copy(&copied, &disks.spool());
            rebuild_from_files(&disks.history());
            let plant = disks.start();
            disks.assert_back(&plant, "with a new catalogue");
            plant.seal();
            disks.kill(plant);
        }

        // Without one of the files, the log has the only copy of some rows.
        copy(&copied, &disks.spool());
        let of_yesterday = files_of(&samples, "parquet").remove(0);
        fs::remove_file(samples.join(&of_yesterday)).unwrap();
        rebuild_from_files(&disks.history());
        let plant = disks.start();
        plant.maintain();
        let found = plant.everything().lines;
        let line = disks.written.iter().rfind(|line| line.key.time < START);
        assert!(found.contains(line.unwrap()), "{found:?}");
    });
}

/// The catalogue is rebuilt without a file of a former log of the spool. The file is restored, and the catalogue
/// rebuilt again, while a new log waits.
///
/// Behaviour: H-14.
#[test]
fn new_log_of_the_spool_is_not_taken_for_a_former_one() {
    in_own_process(|| {
        let mut disks = Disks::new();
        let mut plant = disks.start();
        let yesterday = START - 86_400 * SECOND;
        let line = plant.write_at("x", &Value::F64(1.0), yesterday);
        disks.written.push(line);
        disks.record_with_room(&plant, 10);
        disks.assert_back(&plant, "with room");
        disks.kill(plant);
        let samples = disks.history().join("samples");
        let of_yesterday = samples.join(files_of(&samples, "parquet").remove(0));
        let file = Away::new(of_yesterday, Replacement::Nothing);
        rebuild_from_files(&disks.history());

        let mut plant = disks.try_start().unwrap();
        disks.lengthen(&mut plant);
        disks.write(&mut plant);
        disks.record_with_room(&plant, 10);
        assert!(state(&plant).cause.is_some(), "the log is in the spool");
        disks.kill(plant);
        file.restore();
        rebuild_from_files(&disks.history());
        let plant = disks.start();
        disks.assert_back(&plant, "with the file");
    });
}

/// Returns a history in whose catalogue alone a log of the spool is listed: one of the files with its rows is
/// gone, and the log was not deleted.
fn with_listed_log() -> Disks {
    let mut disks = Disks::new();
    let mut plant = disks.start();
    disks.write(&mut plant);
    plant.write_at("x", &Value::F64(1.0), START - 86_400 * SECOND);
    disks.record_with_room(&plant, 10);
    let copied = disks.root.path().join("copied");
    copy(&disks.spool(), &copied);
    plant.maintain();
    plant.record();
    plant.maintain();
    disks.kill(plant);
    let samples = disks.history().join("samples");
    fs::remove_file(samples.join(files_of(&samples, "parquet").remove(0))).unwrap();
    copy(&copied, &disks.spool());
    disks
}

/// Behaviour: H-14.
#[test]
fn catalogue_that_cannot_be_copied_is_not_rebuilt_without_its_entries() {
    in_own_process(|| {
        let mut disks = with_listed_log();
        let catalogue = disks.history().join("catalogue.sqlite");
        let filled = Connection::open(&catalogue).unwrap();
        let fill = "CREATE TABLE filler AS SELECT randomblob(2000000); DROP TABLE filler;";
        filled.execute_batch(fill).unwrap();
        filled.close().unwrap();
        let before = fs::read(&catalogue).unwrap();
        let wall = trunkline_types::Timestamp::from_nanos(START);
        let rebuilt = limited(1_000_000, || {
            trunkline_history::rebuild(&disks.history(), wall)
        });
        rebuilt.unwrap_err();
        assert!(fs::read(&catalogue).unwrap() == before, "it is unchanged");
        trunkline_history::rebuild(&disks.history(), wall).unwrap();
        let plant = disks.start();
        disks.assert_back(&plant, "with a new catalogue");
    });
}

/// The command is killed after it has moved the old catalogue.
///
/// Behaviour: H-14.
#[test]
fn catalogue_whose_rebuilding_was_killed_is_rebuilt_with_its_entries() {
    in_own_process(|| {
        let mut disks = with_listed_log();
        let wall = trunkline_types::Timestamp::from_nanos(START);
        // The command ends where it would move the old catalogue.
        let set_apart = disks.history().join("set-apart");
        fs::write(&set_apart, "").unwrap();
        trunkline_history::rebuild(&disks.history(), wall).unwrap_err();
        fs::remove_file(&set_apart).unwrap();
        let catalogue = disks.history().join("catalogue.sqlite");
        fs::rename(&catalogue, disks.root.path().join("moved")).unwrap();
        disks.try_start().unwrap_err();
        trunkline_history::rebuild(&disks.history(), wall).unwrap();
        let plant = disks.start();
        disks.assert_back(&plant, "with a new catalogue");
    });
}

/// Behaviour: H-14.
#[test]
fn rebuild_that_cannot_read_the_former_catalogue_names_the_spool_if_it_has_rows() {
    in_own_process(|| {
        let (mut disks, plant) = Disks::spooling();
        let copied = disks.root.path().join("copied");
        copy(&disks.spool(), &copied);
        disks.kill(plant);
        let wall = trunkline_types::Timestamp::from_nanos(START);
        let rebuilt = trunkline_history::rebuild(&disks.history(), wall).unwrap();
        let found = (rebuilt.former_fault, rebuilt.possible_duplicates);
        assert_eq!(found, (None, None), "the former catalogue can be read");

        let missing = Some("catalogue.sqlite is missing".to_owned());
        let rebuilt = rebuild_from_files(&disks.history());
        assert_eq!((rebuilt.former, &rebuilt.former_fault), (None, &missing));
        let in_spool = Some(PossibleDuplicates {
            spool: disks.spool(),
            fault: None,
        });
        assert_eq!(rebuilt.possible_duplicates, in_spool);

        let catalogue = disks.history().join("catalogue.sqlite");
        fs::write(&catalogue, "no catalogue").unwrap();
        let rebuilt = trunkline_history::rebuild(&disks.history(), wall).unwrap();
        let fault = rebuilt.former_fault.unwrap();
        assert!(fault.contains("not a database"), "{fault}");
        assert!(rebuilt.former.is_some());
        assert_eq!(rebuilt.possible_duplicates, in_spool);

        let spool = Away::new(disks.spool(), Replacement::Nothing);
        let duplicates = rebuild_from_files(&disks.history()).possible_duplicates;
        let duplicates = duplicates.unwrap();
        assert_eq!(duplicates.spool, disks.spool());
        assert!(duplicates.fault.is_some(), "it is missing");
        spool.restore();

        // The file that names the spool cannot be read.
        let name = disks.history().join("spool");
        let named = Away::new(name.clone(), Replacement::Folder);
        let duplicates = rebuild_from_files(&disks.history()).possible_duplicates;
        let duplicates = duplicates.unwrap();
        assert!(duplicates.spool == name && duplicates.fault.is_some());
        named.restore();

        let plant = disks.start();
        disks.assert_back(&plant, "with a new catalogue");
        disks.kill(plant);
        for has_log in [false, true] {
            if has_log {
                copy(&copied, &disks.spool());
            }
            let rebuilt = rebuild_from_files(&disks.history());
            let found = (rebuilt.former_fault, rebuilt.possible_duplicates);
            assert_eq!(found, (missing.clone(), None), "all rows are in files");
        }
        let plant = disks.start();
        disks.assert_back(&plant, "after a restart");
    });
}

/// Rebuilds the catalogue, and cannot read the former one.
fn rebuild_from_files(history: &Path) -> Rebuilt {
    fs::remove_file(history.join("catalogue.sqlite")).unwrap();
    let wall = trunkline_types::Timestamp::from_nanos(START);
    trunkline_history::rebuild(history, wall).unwrap()
}

/// Behaviour: H-14.
#[test]
fn rows_wait_in_memory_while_neither_folder_has_room() {
    in_own_process(|| {
        let mut disks = Disks::new();
        for room in (0..120).step_by(5) {
            let what = format!("room {room}");
            let mut plant = disks.start();
            let before = disks.written.clone();
            disks.write(&mut plant);
            // There is room at most for a log without rows.
            let error = limited(room, || plant.try_record())
                .unwrap_err()
                .to_string();
            // If a log can be created in the spool, its first commit fails.
            let is_named = ["the history ", "the spool "].map(|name| error.starts_with(name));
            assert!(is_named.contains(&true), "{error}");
            assert_same(&plant.everything().lines, &before, &what);
            assert!(state(&plant).fault.is_some(), "{what}");
            plant.record();
            disks.assert_all(&plant, &what);
            disks.kill(plant);
            let plant = disks.start();
            disks.assert_back(&plant, &what);
            disks.kill(plant);
        }
    });
}

/// Behaviour: H-14.
#[test]
fn fault_of_the_spool_names_the_folder_that_fails() {
    in_own_process(|| {
        let name = |path: PathBuf| path.display().to_string();
        let (disks, plant) = Disks::spooling();
        let moment = plant.moment();
        let error = limited(5, || plant.history.close_segment(moment)).unwrap_err();
        let is_of_history = error.to_string().contains(&name(disks.history()));
        assert!(is_of_history, "{error}");
        let fault = state(&plant).fault.unwrap().to_string();
        assert!(fault.contains(&name(disks.spool())), "{fault}");
        disks.assert_back(&plant, "with room");

        // The history gets its identity when a spool is used for the first time.
        let mut disks = Disks::new();
        fs::create_dir_all(disks.history().join("identity.new")).unwrap();
        let mut plant = disks.start();
        let fault = state(&plant).fault.unwrap().to_string();
        assert!(fault.contains(&name(disks.history())), "{fault}");
        fs::remove_dir(disks.history().join("identity.new")).unwrap();
        plant.maintain();
        fs::write(disks.history().join("identity"), "damaged").unwrap();
        disks.write(&mut plant);
        plant.record();
        disks.kill(plant);
        let plant = disks.try_start().unwrap();
        let fault = state(&plant).fault.unwrap().to_string();
        assert!(
            fault.contains("its file `identity` has an unknown format"),
            "{fault}"
        );
        assert!(fault.ends_with("; restore this file"), "{fault}");
    });
}

/// Behaviour: H-14.
#[test]
fn start_that_finds_no_room_in_either_folder_leaves_no_log() {
    in_own_process(|| {
        let (mut disks, plant) = Disks::spooling();
        disks.kill(plant);
        // While this reader is open, the catalogue needs no more room.
        let reader = Connection::open(disks.history().join("catalogue.sqlite")).unwrap();
        let series = "SELECT count(*) FROM series";
        let count: i64 = reader.query_row(series, [], |row| row.get(0)).unwrap();
        assert_eq!(count, 2);
        let (sender, receiver) = mpsc::channel();
        // A start that waits for itself never ends.
        thread::spawn(move || {
            let mut failures = 0;
            for room in 0..400 {
                match limited(room, || disks.try_start().map(drop)) {
                    Err(_) => failures += 1,
                    Ok(()) => break,
                }
                let logs = files_of(&disks.history(), "tlh").len();
                assert_eq!((logs, disks.logs()), (1, 1), "room {room}");
            }
            sender.send((disks, failures)).unwrap();
        });
        let started = receiver.recv_timeout(Duration::from_secs(60));
        let (mut disks, failures) = started.expect("each start ends");
        // Some have room for a log in one folder or in both, but not for their first rows.
        assert!((60..400).contains(&failures), "{failures} failures");
        drop(reader);
        let plant = disks.start();
        disks.assert_back(&plant, "with room");
    });
}

/// Behaviour: H-14.
#[test]
fn rows_go_to_the_folder_again_when_the_spool_fails() {
    in_own_process(|| {
        let mut disks = Disks::new();
        for room in (0..200).step_by(9) {
            let what = format!("room {room}");
            let mut plant = disks.start();
            disks.write(&mut plant);
            disks.record_with_room(&plant, 10);
            let long = Value::String("y".repeat(2_000).into());
            disks.written.push(plant.write("text", &long));
            plant.record();
            let logs = files_of(&disks.spool(), "tlh");
            let newest = disks.spool().join(logs.last().unwrap());
            let length = fs::metadata(newest).unwrap().len();
            disks.write(&mut plant);
            limited(length + room, || plant.record());
            disks.assert_all(&plant, &what);
            if room < 100 {
                assert_eq!(state(&plant).cause, None, "{what}");
            }
            disks.kill(plant);
            let plant = disks.start();
            disks.assert_back(&plant, &what);
            disks.kill(plant);
        }
    });
}

/// Rows of closed segments of the folder are in memory until they are files.
///
/// Behaviour: H-14.
#[test]
fn rows_wait_while_the_spool_has_no_room_and_files_cannot_be_written() {
    in_own_process(|| {
        let mut disks = Disks::new();
        let mut plant = disks.start();
        let samples = disks.history().join("samples");
        fs::write(&samples, "").unwrap();
        for _ in 0..3 {
            disks.write(&mut plant);
            plant.record();
            plant.close_segment();
        }
        let wall = plant.moment().wall;
        plant.history.maintain(wall).unwrap_err();
        disks.lengthen(&mut plant);
        assert!(state(&plant).cause.is_some(), "the log is in the spool");
        let logs = files_of(&disks.history(), "tlh").len();
        disks.write(&mut plant);
        let length = length_of_log(&disks.spool());
        for _ in 0..5 {
            limited(length + 10, || plant.try_record()).unwrap_err();
        }
        assert_eq!(files_of(&disks.history(), "tlh").len(), logs);
        plant.record();
        disks.assert_all(&plant, "with room in the spool");
        disks.write(&mut plant);
        // What waits at the stop is recorded nevertheless.
        let wall = plant.moment().wall;
        limited(length_of_log(&disks.spool()) + 10, || {
            plant.history.close(wall)
        })
        .unwrap();
        fs::remove_file(&samples).unwrap();
        disks.kill(plant);
        let plant = disks.start();
        disks.assert_back(&plant, "after a restart");
    });
}

/// Behaviour: H-14.
#[test]
fn spool_holds_more_segments_than_memory() {
    in_own_process(|| {
        let (mut disks, mut plant) = Disks::spooling();
        for _ in 0..6 {
            plant.close_segment();
            disks.write(&mut plant);
            plant.record();
        }
        let answer = plant.everything();
        let missing = disks.written.len() - answer.lines.len();
        assert!(missing > 0, "all rows are in memory");
        let state = format!("{missing} rows are only in the spool");
        assert!(!answer.states.is_empty());
        assert!(
            answer.states.iter().all(|one| one.contains(&state)),
            "{answer:?}"
        );
        assert_eq!(plant.history.figures().spooled, 7 * 6);
        disks.assert_back(&plant, "with room");
        let catalogue = disks.history().join("catalogue.sqlite");
        disks.kill(plant);
        let kept = Connection::open(&catalogue).unwrap();
        let logs = "SELECT group_concat(log) FROM spool";
        let logs: String = kept.query_row(logs, [], |row| row.get(0)).unwrap();
        assert_eq!(logs, "7", "only the last log is still listed");
        drop(kept);
        let mut plant = disks.start();

        disks.lengthen(&mut plant);
        disks.write(&mut plant);
        disks.record_with_room(&plant, 10);
        for _ in 0..6 {
            plant.close_segment();
            disks.write(&mut plant);
            plant.record();
        }
        disks.kill(plant);
        let plant = disks.start();
        disks.assert_back(&plant, "after a restart");
    });
}

/// Behaviour: H-14.
#[test]
fn spool_that_comes_back_while_the_folder_has_no_room_is_used() {
    in_own_process(|| {
        let (mut disks, plant) = Disks::spooling();
        disks.kill(plant);
        let spool = Away::new(disks.spool(), Replacement::File);
        let mut plant = disks.try_start().unwrap();
        disks.write(&mut plant);
        plant.record();
        // No other log can be created.
        let logs = (3..20).map(|number| disks.history().join(format!("log-{number:010}.tlh")));
        let logs: Vec<PathBuf> = logs.collect();
        logs.iter().for_each(|log| fs::create_dir(log).unwrap());
        spool.restore();
        let wall = plant.moment().wall;
        let _failed = plant.history.maintain(wall);
        assert!(state(&plant).cause.is_some(), "the log is in the spool");
        disks.write(&mut plant);
        plant.record();
        disks.assert_all(&plant, "while there is no room");
        logs.iter().for_each(|log| fs::remove_dir(log).unwrap());
        disks.assert_back(&plant, "with room");
    });
}

/// Behaviour: H-14.
#[test]
fn log_of_the_spool_that_cannot_be_read_is_read_later() {
    in_own_process(|| {
        for is_restarted in [true, false] {
            let (mut disks, mut plant) = Disks::spooling();
            for _ in 0..4 {
                plant.close_segment();
                disks.write(&mut plant);
                plant.record();
            }
            let log = Away::new(disks.spool().join(LOG), Replacement::Folder);
            let content = fs::read(&log.kept).unwrap();
            if is_restarted {
                disks.kill(plant);
                plant = disks.try_start().unwrap();
            }
            plant.maintain();
            plant.record();
            for _ in 0..3 {
                plant.time += 3600 * SECOND;
                plant.maintain();
                let fault = state(&plant).fault.unwrap().to_string();
                assert!(fault.starts_with("the spool "), "{fault}");
            }
            log.restore();
            plant.time += 3600 * SECOND;
            disks.assert_back(&plant, "with the log");
            assert_eq!(state(&plant).fault, None);
            for _ in 0..2 {
                disks.kill(plant);
                // As if the last deletion had not become durable.
                fs::write(disks.spool().join(LOG), &content).unwrap();
                plant = disks.try_start().unwrap();
                disks.assert_back(&plant, "with the log once more");
            }
            disks.kill(plant);
        }
    });
}

/// Behaviour: H-14.
#[test]
fn answer_says_that_the_spool_or_a_log_of_it_cannot_be_read() {
    in_own_process(|| {
        for is_spool in [true, false] {
            let (mut disks, plant) = Disks::spooling();
            assert_eq!(plant.everything().states, [""; 0], "all rows are in memory");
            disks.kill(plant);
            let away = match is_spool {
                true => Away::new(disks.spool(), Replacement::File),
                false => Away::new(disks.spool().join(LOG), Replacement::Folder),
            };
            let mut plant = disks.try_start().unwrap();
            let states = plant.everything().states;
            let name = match is_spool {
                true => disks.spool(),
                false => disks.spool().join(LOG),
            };
            let name = name.display().to_string();
            let is_named =
                |one: &String| one.contains("may lack rows of the spool") && one.contains(&name);
            assert!(
                !states.is_empty() && states.iter().all(is_named),
                "{states:?}"
            );
            away.restore();
            plant.time += 3600 * SECOND;
            disks.assert_back(&plant, "with the rows");
            assert_eq!(plant.everything().states, [""; 0]);
        }
    });
}

/// The disk of the spool can be read, but not written. A folder stands for a log that cannot be deleted.
///
/// Behaviour: H-14.
#[test]
fn log_of_the_spool_that_cannot_be_deleted_does_not_keep_the_others_from_being_read() {
    in_own_process(|| {
        for is_restarted in [true, false] {
            let (mut disks, mut plant) = Disks::spooling();
            for _ in 0..5 {
                plant.close_segment();
                disks.write(&mut plant);
                plant.record();
            }
            // Segments in memory become files without their logs. Of the others, the first become files now.
            let number = if is_restarted { 1 } else { 5 };
            let log = disks.spool().join(format!("log-{number:010}.tlh"));
            if is_restarted {
                while log.exists() {
                    plant.history.maintain(plant.moment().wall).unwrap();
                }
                disks.kill(plant);
                fs::create_dir(&log).unwrap();
                plant = disks.try_start().unwrap();
            } else {
                fs::remove_file(&log).unwrap();
                fs::create_dir(&log).unwrap();
            }
            plant.maintain();
            plant.record();
            plant.maintain();
            let answer = plant.everything();
            assert_same(&answer.lines, &disks.written, "with the log");
            assert_eq!(answer.states, [""; 0], "no row is missing");
            let fault = state(&plant).fault.unwrap().to_string();
            assert!(fault.starts_with("the spool "), "{fault}");
            assert_eq!(disks.logs(), 0, "the others are deleted");
            fs::remove_dir(&log).unwrap();
            plant.maintain();
            assert_eq!(state(&plant).fault, None);
            disks.assert_back(&plant, "without the log");
        }
    });
}

/// Behaviour: B-64.
#[test]
fn stop_and_interruption_in_the_spool_are_events() {
    in_own_process(|| {
        for is_stopped in [true, false] {
            let (mut disks, plant) = Disks::spooling();
            if is_stopped {
                let wall = plant.moment().wall;
                plant.history.close(wall).unwrap();
            }
            disks.kill(plant);
            let plant = disks.start();
            disks.assert_back(&plant, "after a restart");
            let events = plant.everything().events_of("x");
            assert_eq!(events.contains(&Stopped), is_stopped, "{events:?}");
            assert_eq!(events.contains(&Interrupted), !is_stopped, "{events:?}");
        }
    });
}

/// Behaviour: H-14.
#[test]
fn folder_says_how_many_rows_wait_in_its_spool() {
    in_own_process(|| {
        let wall = trunkline_types::Timestamp::from_nanos(START);
        let info = |disks: &Disks| {
            let folder = HistoryFolder::open(disks.history(), wall).unwrap();
            folder.info().unwrap().spooled.unwrap()
        };
        let checked = |disks: &Disks| verify(&disks.history(), wall, &mut |_, _| true).unwrap();
        let mut disks = Disks::new();
        let mut plant = disks.start();
        assert_eq!((info(&disks).logs, info(&disks).rows), (0, 0));
        disks.write(&mut plant);
        disks.record_with_room(&plant, 10);
        plant.close_segment();
        disks.write(&mut plant);
        plant.record();
        let found = info(&disks);
        assert_eq!((found.logs, found.rows), (2, 12));
        assert_eq!(found.fault, "");
        let lengths = files_of(&disks.spool(), "tlh").into_iter();
        let lengths = lengths.map(|log| fs::metadata(disks.spool().join(log)).unwrap().len());
        assert_eq!(found.bytes, lengths.sum::<u64>());
        let verified = checked(&disks);
        assert_eq!(verified.spooled, Some(found));
        assert_eq!(verified.findings, []);

        let log = disks.spool().join(LOG);
        let whole = fs::read(&log).unwrap();
        flip(&log, 8 * 40);
        let findings = checked(&disks).findings;
        assert_eq!(findings.len(), 1, "{findings:?}");
        let file = &findings.first().unwrap().file;
        assert_eq!(*file, log.display().to_string());
        fs::write(&log, whole).unwrap();

        let spool = Away::new(disks.spool(), Replacement::Nothing);
        let found = info(&disks);
        assert!(found.fault.starts_with("the spool "), "{found:?}");
        assert_eq!(checked(&disks).findings, [], "its disk may be elsewhere");
        spool.restore();
        disks.assert_back(&plant, "with room");
        assert_eq!((info(&disks).logs, info(&disks).rows), (0, 0));
    });
}

fn compact(folder: &Path) -> Result<(), FolderError> {
    let wall = trunkline_types::Timestamp::from_nanos(START);
    trunkline_history::compact(folder, &[], wall, &mut |_| true).map(drop)
}

/// Behaviour: B-64.
#[test]
fn stop_in_the_spool_is_no_interruption_after_compaction() {
    in_own_process(|| {
        for is_stopped in [true, false] {
            let (mut disks, plant) = Disks::spooling();
            if is_stopped {
                let wall = plant.moment().wall;
                plant.history.close(wall).unwrap();
            }
            disks.kill(plant);
            compact(&disks.history()).unwrap();
            let plant = disks.start();
            disks.assert_back(&plant, "after a restart");
            let events = plant.everything().events_of("x");
            assert_eq!(events.contains(&Stopped), is_stopped, "{events:?}");
            assert_eq!(events.contains(&Interrupted), !is_stopped, "{events:?}");
        }
    });
}

/// Without an identity, a history has no spool, and its logs alone say how the last run ended.
///
/// Behaviour: B-64, H-14.
#[test]
fn history_whose_identity_cannot_be_looked_up_is_not_compacted() {
    let mut disks = Disks::new();
    let mut plant = disks.start();
    disks.write(&mut plant);
    plant.record();
    disks.kill(plant);
    let identity = Away::new(disks.history().join("identity"), Replacement::Loop);
    compact(&disks.history()).unwrap_err();
    assert_eq!(files_of(&disks.history(), "tlh").len(), 1);
    identity.restore();
    compact(&disks.history()).unwrap();
    let plant = disks.start();
    disks.assert_back(&plant, "after compaction");
}

/// Behaviour: B-64.
#[test]
fn log_that_the_folder_continues_does_not_say_how_a_run_ended() {
    in_own_process(|| {
        let (mut disks, mut plant) = Disks::spooling();
        plant.maintain();
        plant.record();
        assert_eq!(state(&plant).cause, None, "the log has returned");
        disks.write(&mut plant);
        plant.record();
        disks.kill(plant);
        let spool = Away::new(disks.spool(), Replacement::File);
        let plant = disks.start();
        let wall = plant.moment().wall;
        plant.history.close(wall).unwrap();
        disks.kill(plant);
        compact(&disks.history()).unwrap();
        spool.restore();
        let plant = disks.start();
        disks.assert_back(&plant, "with the spool");
        let events = plant.everything().events_of("x");
        let ends = events.iter().filter(|event| **event == Interrupted).count();
        assert_eq!(ends, 1, "{events:?}");
    });
}

/// Behaviour: H-14.
#[test]
fn history_with_the_spool_of_another_is_not_opened() {
    let mut disks = Disks::new();
    drop(disks.start());
    let mut other = Disks::new();
    drop(other.start());
    let _own = Away::new(other.spool(), Replacement::CopyOf(&disks.spool()));
    let error = other.try_start().unwrap_err();
    assert!(
        matches!(error, HistoryError::ForeignSpool { .. }),
        "{error}"
    );
    let message = error.to_string();
    assert!(
        message.contains(&other.spool().display().to_string()),
        "{message}"
    );
    assert!(message.contains("`history_spool`"), "{message}");
}

/// The disk of the history is unmounted, and mounted again: its open files cannot be used any more.
///
/// Behaviour: H-14.
#[test]
fn history_whose_disk_was_away_is_used_again_without_a_restart() {
    let mut disks = Disks::new();
    let mut plant = disks.start();
    disks.write(&mut plant);
    plant.record();
    let away = Away::new(disks.history(), Replacement::Nothing);
    plant.close_segment();
    assert!(state(&plant).cause.is_some());
    disks.write(&mut plant);
    plant.record();
    let wall = plant.moment().wall;
    plant.history.maintain(wall).unwrap_err();
    // The same content in other files.
    copy(&away.kept, &disks.history());
    disks.assert_back(&plant, "with the disk");
    disks.write(&mut plant);
    plant.record();
    disks.kill(plant);
    let plant = disks.start();
    disks.assert_back(&plant, "after a restart");
}

/// Behaviour: H-14.
#[test]
fn folder_of_another_history_is_not_changed() {
    let mut disks = Disks::new();
    let mut other = Disks::new();
    drop(other.start());
    let mut plant = disks.start();
    disks.write(&mut plant);
    plant.record();
    let away = Away::new(disks.history(), Replacement::CopyOf(&other.history()));
    plant.close_segment();
    assert!(state(&plant).cause.is_some());
    disks.write(&mut plant);
    plant.record();
    let wall = plant.moment().wall;
    let error = plant.history.maintain(wall).unwrap_err().to_string();
    let reason = "(another folder has replaced it); mount the disk of the history again";
    assert!(error.ends_with(reason), "{error}");
    for path in files(&other.history()) {
        let (kept, now) = (other.history().join(&path), disks.history().join(&path));
        assert_eq!(fs::read(kept).unwrap(), fs::read(now).unwrap(), "{path:?}");
    }
    assert_eq!(files(&other.history()), files(&disks.history()));
    away.restore();
    disks.assert_back(&plant, "with the disk");
}

/// Variables deployed while the catalogue cannot be written are recorded.
///
/// Behaviour: H-14.
#[test]
fn ids_of_series_in_the_spool_are_those_of_its_log() {
    in_own_process(|| {
        let (mut disks, mut plant) = Disks::spooling();
        let with_new = [&VARIABLES[..], &[("new", DataType::I64)]].concat();
        plant.undeploy();
        limited(100, || plant.deploy(&with_new)).unwrap();
        disks.written.push(plant.write("new", &Value::I64(1)));
        plant.record();
        disks.kill(plant);
        // Without the spool, another variable gets the same series id.
        let spool = Away::new(disks.spool(), Replacement::File);
        let mut plant = disks.start();
        let others = [("other", DataType::I64), ("new", DataType::I64)];
        let with_other = [&VARIABLES[..], &others].concat();
        plant.undeploy();
        plant.deploy(&with_other).unwrap();
        disks.written.push(plant.write("other", &Value::I64(2)));
        plant.record();
        spool.restore();
        disks.assert_back(&plant, "in the history");
    });
}

/// Random sequences of all operations and failures.
///
/// Behaviour: H-14.
#[test]
fn every_row_is_there_once_after_random_failures_and_kills() {
    in_own_process(|| {
        for seed in 0..60 {
            if let Err(difference) = random_run(seed) {
                panic!("seed {seed}: {difference}");
            }
        }
    });
}

fn random_run(seed: u64) -> Result<(), String> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut disks = Disks::new();
    let mut plant = disks.start();
    let mut away = None;
    for step in 0..40 {
        match random.u32(0..12) {
            0..4 => {
                disks.write(&mut plant);
                record(&plant);
            }
            4 | 5 => {
                disks.write(&mut plant);
                // Beyond this limit, neither the folder nor the spool has room.
                let has_log = !files_of(&disks.history(), "tlh").is_empty();
                let bytes = match random.bool() && has_log {
                    true => length_of_log(&disks.history()),
                    false => 0,
                };
                let bytes = bytes + random.u64(0..400);
                let _failed = limited(bytes, || plant.try_record());
                record(&plant);
            }
            6 => plant.close_segment(),
            7 => {
                let wall = plant.moment().wall;
                // Fails at any file of the first closed segment.
                let _failed = limited(random.u64(0..8_000), || plant.history.maintain(wall));
            }
            8 => plant.maintain(),
            9 => move_spool(&disks, &mut away),
            _ => {
                disks.kill(plant);
                plant = disks.start();
            }
        }
        // Rows that are only in the spool are missing while it is away or has not been read.
        let found = plant.everything();
        if away.is_none()
            && found.states.is_empty()
            && state(&plant).fault.is_none()
            && let Some(difference) = difference(&found.lines, &disks.written)
        {
            return Err(format!("step {step}: {difference}"));
        }
    }
    if let Some(spool) = away {
        spool.restore();
    }
    disks.assert_back(&plant, &format!("seed {seed}"));
    disks.kill(plant);
    let plant = disks.start();
    disks.assert_back(&plant, &format!("seed {seed}, after a restart"));
    Ok(())
}

/// Unmounts or mounts the disk of the spool.
fn move_spool(disks: &Disks, away: &mut Option<Away>) {
    match away.take() {
        Some(spool) => spool.restore(),
        None => *away = Some(Away::new(disks.spool(), Replacement::File)),
    }
}
