//! Tests reading, compacting and rebuilding folders without an engine.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use trunkline_engine::history::History;
use trunkline_history::{FolderError, HistoryFolder, compact, rebuild, verify};
use trunkline_types::history::{HistoryEvent, HistoryQuery, HistoryRule, HistorySettings};
use trunkline_types::{DataType, Pattern, Timestamp, Value};

use crate::rig::{
    Answer, Line, Plant, SECOND, START, all, assert_same, copy, files, files_of, flip, folder,
    read_folder,
};

const VARIABLES: [(&str, DataType); 2] = [("n", DataType::I64), ("x", DataType::F64)];

fn write(plant: &mut Plant, count: i64) -> Vec<Line> {
    let of = |n: i64, plant: &mut Plant| match n % 2 {
        0 => plant.write("x", &Value::F64(n as f64 / 3.0)),
        _ => plant.write("n", &Value::I64(n)),
    };
    (0..count).map(|n| of(n, plant)).collect()
}

/// Returns the names and contents of all files.
fn contents(folder: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let read = |path: std::path::PathBuf| {
        let bytes = fs::read(folder.join(&path)).unwrap();
        (path, bytes)
    };
    files(folder).into_iter().map(read).collect()
}

fn assert_sound(folder: &Path) {
    let wall = Timestamp::from_nanos(START);
    let checked = verify(folder, wall, &mut |_, _| true).unwrap();
    assert_eq!(checked.findings, []);
}

/// The engine is killed after it has removed a file from the catalogue, and before it has deleted the file.
#[test]
fn unlisted_file_of_expired_rows_is_removed_at_the_start() {
    let (folder, aside) = (folder(), folder());
    let rules = || {
        let mut rules = crate::rig::rules();
        let hour = Some(Duration::from_secs(3600));
        rules.first_mut().unwrap().settings.as_mut().unwrap().keep = hour;
        rules
    };
    let variables = [("x", DataType::F64)];
    let start = |epoch, time| {
        Plant::open_with_rules(folder.path(), None, rules(), epoch, time, &variables).unwrap()
    };
    let mut plant = start(1, START);
    plant.write("x", &Value::F64(1.0));
    plant.seal();
    drop(plant);
    let copied = aside.path().join("copied");
    copy(folder.path(), &copied);
    let mut plant = start(2, START + 7200 * SECOND);
    plant.maintain();
    let samples = || files_of(&folder.path().join("samples"), "parquet");
    assert_eq!(samples().len(), 0);
    let kept = plant.write("x", &Value::F64(2.0));
    plant.record();
    let time = plant.time;
    drop(plant);
    for file in files(&copied) {
        if file.starts_with("samples") || file.starts_with("footers") {
            fs::create_dir_all(folder.path().join(&file).parent().unwrap()).unwrap();
            fs::copy(copied.join(&file), folder.path().join(&file)).unwrap();
        }
    }
    assert_eq!(samples().len(), 1);
    let plant = start(3, time);
    assert_eq!(samples().len(), 0);
    assert!(!folder.path().join("set-apart").exists());
    let answer = plant.everything();
    assert_eq!(answer.states, Vec::<String>::new());
    assert_same(&answer.lines, &[kept], "what is kept");
}

/// H-14: a reader changes nothing, and does not prevent an engine from recording.
#[test]
fn reader_beside_an_engine_returns_the_same_rows_and_changes_nothing() {
    let folder = folder();
    let mut plant = Plant::start(folder.path(), 1, START, &VARIABLES);
    let mut written = write(&mut plant, 100);
    plant.seal();
    written.extend(write(&mut plant, 50));
    plant.record();
    let before = contents(folder.path());
    let found = read_folder(folder.path(), &all()).unwrap();
    let right = plant.everything();
    assert_same(&found.lines, &written, "beside the engine");
    assert_eq!(found.events, right.events);
    let mut opened = HistoryFolder::open(folder.path(), Timestamp::from_nanos(START)).unwrap();
    let info = opened.info().unwrap();
    assert!(info.is_in_use);
    assert_eq!((info.files, info.logs, info.series), (1, 1, 2));
    let (series, damage) = opened.series(Timestamp::from_nanos(START)).unwrap();
    assert_eq!(damage, "");
    let rows: Vec<(&str, u64)> = series
        .iter()
        .map(|one| (one.name.as_str(), one.rows))
        .collect();
    // The numbers include the event of the deployment.
    assert_eq!(rows, [("rig/n", 76), ("rig/x", 76)]);
    assert_sound(folder.path());
    assert_eq!(contents(folder.path()), before, "nothing was changed");
    written.extend(write(&mut plant, 10));
    plant.seal();
    assert_same(&plant.everything().lines, &written, "the engine goes on");
}

#[test]
fn reader_reports_that_a_killed_engine_was_interrupted() {
    let (origin, killed) = (folder(), folder());
    let mut plant = Plant::start(origin.path(), 1, START, &VARIABLES);
    let written = write(&mut plant, 20);
    plant.record();
    let place = killed.path().join("killed");
    copy(origin.path(), &place);
    let before = contents(&place);
    let found = read_folder(&place, &all()).unwrap();
    assert_same(&found.lines, &written, "after a kill");
    assert_eq!(
        found.events_of("x").last(),
        Some(&HistoryEvent::Interrupted)
    );
    assert_eq!(contents(&place), before, "nothing was changed");
    // The engine also reports the interruption at its next start.
    let plant = Plant::start(&place, 2, plant.time, &VARIABLES);
    let events = plant.everything().events_of("x");
    assert!(events.contains(&HistoryEvent::Interrupted), "{events:?}");
}

/// The engine moves rows to files and joins the files after the folder was opened.
#[test]
fn reader_continues_after_its_files_are_replaced() {
    let folder = folder();
    let mut plant = Plant::start(folder.path(), 1, START, &VARIABLES);
    let mut written = Vec::new();
    for _ in 0..6 {
        written.extend(write(&mut plant, 20));
        plant.seal();
    }
    written.extend(write(&mut plant, 20));
    plant.record();
    let wall = Timestamp::from_nanos(START);
    let mut opened = HistoryFolder::open(folder.path(), wall).unwrap();
    for _ in 0..3 {
        written.extend(write(&mut plant, 20));
        plant.seal();
    }
    // The files that the reader opened are removed.
    plant.maintain();
    assert_eq!(files_of(folder.path(), "parquet").len(), 2, "joined");
    let mut answer = Answer::default();
    answer.add(opened.read(&all(), wall).unwrap());
    assert_eq!(answer.states, Vec::<String>::new());
    assert_same(&answer.lines, &written, "after the files were replaced");
}

/// The answer contains each row once that was acknowledged before the folder was opened, while another thread
/// records, moves rows to files and joins files.
#[test]
fn readers_return_every_row_once_while_an_engine_moves_rows() {
    let folder = folder();
    let mut plant = Plant::start(folder.path(), 1, START, &VARIABLES);
    let acknowledged = Mutex::new(Vec::new());
    let is_over = Mutex::new(false);
    std::thread::scope(|scope| {
        let (acknowledged, is_over) = (&acknowledged, &is_over);
        let place = folder.path();
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(move || {
                    let mut answers = 0;
                    while answers == 0 || !*is_over.lock().unwrap() {
                        let before: Vec<Line> = acknowledged.lock().unwrap().clone();
                        let found = match read_folder(place, &all()) {
                            Ok(found) => found,
                            // On a busy machine, this reader may be much slower than the engine.
                            Err(error) if error.to_string().contains("during every attempt") => {
                                continue;
                            }
                            Err(error) => panic!("{error}"),
                        };
                        assert_eq!(found.states, Vec::<String>::new());
                        let present: BTreeSet<&Line> = found.lines.iter().collect();
                        assert_eq!(present.len(), found.lines.len(), "no row comes twice");
                        assert!(before.iter().all(|line| present.contains(line)));
                        answers += 1;
                    }
                    answers
                })
            })
            .collect();
        for _ in 0..150 {
            let lines = write(&mut plant, 6);
            plant.record_everything();
            acknowledged.lock().unwrap().extend(lines);
            plant.close_segment();
            plant.maintain();
        }
        *is_over.lock().unwrap() = true;
        for reader in readers {
            assert!(reader.join().unwrap() > 0);
        }
    });
}

/// Creates a folder after eight starts, the last of which was killed.
fn killed() -> (tempfile::TempDir, Vec<Line>, i64) {
    let (origin, killed) = (folder(), folder());
    let mut written = Vec::new();
    let mut time = START;
    for start in 1..=6 {
        let mut plant = Plant::start(origin.path(), start, time, &VARIABLES);
        plant.maintain();
        written.extend(write(&mut plant, 30));
        plant.record();
        time = plant.time + SECOND;
        if start < 6 {
            plant.history.close(plant.moment().wall).unwrap();
        }
    }
    copy(origin.path(), &killed.path().join("killed"));
    (killed, written, time)
}

#[test]
fn compacted_folder_has_the_same_rows_and_events_in_one_file() {
    let (killed, written, time) = killed();
    let place = killed.path().join("killed");
    let before = read_folder(&place, &all()).unwrap();
    let done = compact(&place, &[], Timestamp::from_nanos(time), &mut |_| true).unwrap();
    assert_eq!((done.removed_rows, done.files), (0, 1), "{done:?}");
    assert_eq!(done.damage, Vec::<String>::new());
    assert_eq!(files_of(&place, "tlh"), Vec::<std::path::PathBuf>::new());
    assert_sound(&place);
    let after = read_folder(&place, &all()).unwrap();
    assert_same(&after.lines, &written, "after it was compacted");
    assert_eq!(after.events, before.events);
    assert_eq!(
        after.events_of("x").last(),
        Some(&HistoryEvent::Interrupted)
    );
    let plant = Plant::start(&place, 9, time, &VARIABLES);
    assert_same(&plant.everything().lines, &written, "after another start");
}

#[test]
fn compaction_removes_only_expired_rows() {
    let (killed, written, _) = killed();
    let place = killed.path().join("killed");
    let rules = [HistoryRule {
        pattern: Pattern::parse("rig/x").unwrap(),
        settings: Some(HistorySettings {
            keep: Some(Duration::from_secs(60)),
            ..HistorySettings::default()
        }),
    }];
    let now = START + 100 * SECOND;
    let done = compact(&place, &rules, Timestamp::from_nanos(now), &mut |_| true).unwrap();
    assert!(done.removed_rows > 0, "{done:?}");
    let is_kept = |line: &&Line| line.variable == "rig/n" || line.key.time >= now - 60 * SECOND;
    let kept: Vec<Line> = written.iter().filter(is_kept).cloned().collect();
    assert!(kept.len() < written.len());
    assert_same(&read_folder(&place, &all()).unwrap().lines, &kept, "kept");
    assert_sound(&place);
}

/// One of the two footers is damaged before the compaction. Both are intact afterwards.
#[test]
fn compaction_repairs_footers() {
    let folder = folder();
    let mut plant = Plant::start(folder.path(), 1, START, &VARIABLES);
    let written = write(&mut plant, 500);
    plant.seal();
    plant.history.close(plant.moment().wall).unwrap();
    drop(plant);
    let wall = Timestamp::from_nanos(START);
    // This leaves a single file, which later compactions do not join.
    compact(folder.path(), &[], wall, &mut |_| true).unwrap();
    let mut parts = files(folder.path()).into_iter();
    let part = parts.find(|path| path.starts_with("samples")).unwrap();
    let footer = files_of(folder.path(), "footer").remove(0);
    let bits = fs::metadata(folder.path().join(&part)).unwrap().len() * 8;
    for (file, bit) in [(part, bits - 100), (footer, 800)] {
        flip(&folder.path().join(file), bit);
        let found = verify(folder.path(), wall, &mut |_, _| true)
            .unwrap()
            .findings;
        assert_eq!(found.len(), 1, "{found:?}");
        let done = compact(folder.path(), &[], wall, &mut |_| true).unwrap();
        assert_eq!(done.repaired, 1);
        assert_sound(folder.path());
    }
    assert_same(
        &read_folder(folder.path(), &all()).unwrap().lines,
        &written,
        "repaired",
    );
}

/// These files may be the only copies of rows, and their footers are needed to read them.
#[test]
fn set_apart_files_keep_their_footers_and_replace_no_file() {
    let own = folder();
    let mut plant = Plant::start(own.path(), 1, START, &VARIABLES);
    let mut written = write(&mut plant, 50);
    plant.seal();
    plant.history.close(plant.moment().wall).unwrap();
    let time = plant.time;
    drop(plant);
    let strange = "date=2020-01-01/0000000001";
    let mut expected = Vec::new();
    for (round, place) in [(1, "set-apart"), (2, "set-apart/2")] {
        let other = folder();
        let before = START - round * 1000 * SECOND;
        let mut plant = Plant::start(other.path(), 1, before, &VARIABLES);
        written.extend(write(&mut plant, 10));
        plant.seal();
        for (kind, below) in [("parquet", "samples"), ("footer", "footers")] {
            let mut files = files_of(other.path(), kind).into_iter();
            let file = files.find(|file| file.starts_with(below)).unwrap();
            let bytes = fs::read(other.path().join(file)).unwrap();
            let to = own.path().join(format!("{below}/{strange}.{kind}"));
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::write(to, &bytes).unwrap();
            expected.push((format!("{place}/{below}/{strange}.{kind}").into(), bytes));
        }
        let plant = Plant::start(own.path(), 1 + round as u64, time, &VARIABLES);
        plant.history.close(plant.moment().wall).unwrap();
    }
    expected.sort();
    let mut found = contents(own.path());
    found.retain(|(path, _)| path.starts_with("set-apart"));
    assert!(found == expected, "{:?}", files(own.path()));
    let wall = Timestamp::from_nanos(time);
    let opened = HistoryFolder::open(own.path(), wall).unwrap();
    assert_eq!(opened.info().unwrap().set_apart, 2);
    // After they are moved back, a rebuilt catalogue lists them.
    for (round, (path, bytes)) in expected.iter().enumerate() {
        let back = path.strip_prefix("set-apart").unwrap();
        let back = back.strip_prefix("2").unwrap_or(back);
        let mut name = back.display().to_string();
        if round < 2 {
            name = name.replace("01-01", "01-02");
        }
        let to = own.path().join(name);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::write(to, bytes).unwrap();
    }
    fs::remove_dir_all(own.path().join("set-apart")).unwrap();
    let rebuilt = rebuild(own.path(), wall).unwrap();
    assert_eq!((rebuilt.files, rebuilt.left_out), (3, Vec::new()));
    let found = read_folder(own.path(), &all()).unwrap().lines;
    assert_same(&found, &written, "with the files that were set apart");
}

/// The command is killed after it has moved the old catalogue, and before it has moved the log of the
/// catalogue.
#[test]
fn log_of_an_old_catalogue_is_not_used_for_the_new_one() {
    let (origin, killed) = (folder(), folder());
    let mut plant = Plant::start(origin.path(), 1, START, &VARIABLES);
    let mut written = write(&mut plant, 30);
    plant.seal();
    written.extend(write(&mut plant, 30));
    plant.record();
    let (place, time) = (killed.path().join("killed"), plant.time);
    copy(origin.path(), &place);
    assert!(place.join("catalogue.sqlite-wal").exists());
    fs::remove_file(place.join("catalogue.sqlite")).unwrap();
    let wall = Timestamp::from_nanos(time);
    let rebuilt = rebuild(&place, wall).unwrap();
    assert!(rebuilt.former.is_some(), "{rebuilt:?}");
    assert!(!place.join("catalogue.sqlite-wal").exists());
    assert_sound(&place);
    let found = read_folder(&place, &all()).unwrap().lines;
    assert_same(&found, &written, "with a new catalogue");
}

/// The timestamps of a source may be on any date, but not every date gets its own file.
#[test]
fn rows_of_many_dates_move_to_a_bounded_number_of_files() {
    const DAY: i64 = 86_400 * SECOND;
    let folder = folder();
    let mut plant = Plant::start(folder.path(), 1, START, &VARIABLES);
    let mut written = Vec::new();
    for round in 0..9 {
        for day in 0..300 {
            let time = START + (day - 150) * DAY + round * SECOND;
            // Some dates have more rows.
            for more in 0..=i64::from(day % 7 == 0) {
                let value = Value::I64(day * 10 + more);
                written.push(plant.write_at("n", &value, time + more));
            }
            written.push(plant.write_at("x", &Value::F64(day as f64), time));
        }
        plant.record_everything();
        plant.close_segment();
        plant.history.maintain(plant.moment().wall).unwrap();
        let parts = || {
            files(folder.path())
                .into_iter()
                .filter(|file| file.starts_with("samples"))
        };
        let count = parts().count();
        assert!(count <= 32 * (round as usize + 1), "{count} files");
        let without_date =
            parts().filter(|file| file.to_string_lossy().contains("=__HIVE_DEFAULT"));
        assert!(without_date.count() > 0);
    }
    assert_same(&plant.everything().lines, &written, "from files");
    // The files of each date are joined, and so are the files without a date.
    plant.maintain();
    let parts = files_of(&folder.path().join("samples"), "parquet").len();
    assert!(parts <= 2 * 32, "{parts} files");
    assert_same(&plant.everything().lines, &written, "from joined files");
    for day in [0, 7, 100, 149, 150, 299] {
        let since = START + (day - 150) * DAY;
        let query = HistoryQuery {
            since: Some(Timestamp::from_nanos(since)),
            until: Some(Timestamp::from_nanos(since + DAY)),
            ..all()
        };
        let of_day = |line: &&Line| (since..since + DAY).contains(&line.key.time);
        let expected: Vec<Line> = written.iter().filter(of_day).cloned().collect();
        assert_same(&plant.read(&query).unwrap().lines, &expected, "of a day");
    }
    plant.history.close(plant.moment().wall).unwrap();
    let time = Timestamp::from_nanos(plant.time);
    drop(plant);
    assert_sound(folder.path());
    rebuild(folder.path(), time).unwrap();
    assert_sound(folder.path());
    let found = read_folder(folder.path(), &all()).unwrap().lines;
    assert_same(&found, &written, "with a new catalogue");
}

#[test]
fn folder_of_an_engine_is_neither_compacted_nor_rebuilt() {
    let folder = folder();
    let mut plant = Plant::start(folder.path(), 1, START, &VARIABLES);
    let written = write(&mut plant, 20);
    plant.record();
    let wall = Timestamp::from_nanos(START);
    let refused = compact(folder.path(), &[], wall, &mut |_| true).unwrap_err();
    assert!(matches!(refused, FolderError::InUse { .. }), "{refused}");
    let refused = rebuild(folder.path(), wall).unwrap_err();
    assert!(matches!(refused, FolderError::InUse { .. }), "{refused}");
    assert_same(&plant.everything().lines, &written, "unchanged");
}

#[test]
fn folder_without_a_history_is_reported() {
    let folder = folder();
    let wall = Timestamp::from_nanos(START);
    for place in [folder.path().to_owned(), folder.path().join("none")] {
        let refused = [
            HistoryFolder::open(&place, wall).map(|_| ()).unwrap_err(),
            verify(&place, wall, &mut |_, _| true)
                .map(|_| ())
                .unwrap_err(),
            compact(&place, &[], wall, &mut |_| true)
                .map(|_| ())
                .unwrap_err(),
            rebuild(&place, wall).map(|_| ()).unwrap_err(),
        ];
        for error in refused {
            assert!(matches!(error, FolderError::NoHistory { .. }), "{error}");
        }
    }
    assert_eq!(files(folder.path()), Vec::<std::path::PathBuf>::new());
}
