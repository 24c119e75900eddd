//! Tests backups of a store and a history that are in use, damage in backups, and restores.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

#[path = "../../trunkline-history/tests/rig/mod.rs"]
mod rig;

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{TryRecvError, channel};

use tempfile::TempDir;
use trunkline_backup::{
    EnginePaths, Error, Finding, Progress, create, restore, unfinished_restore, verify,
};
use trunkline_engine::Encoded;
use trunkline_engine::store::{RetainedValue, Store};
use trunkline_store::SqliteStore;
use trunkline_types::history::HistoryEvent;
use trunkline_types::{DataType, Quality, Timestamp, Value};

use rig::{Line, Plant, START, flip};

const VARIABLES: [(&str, DataType); 2] = [("x", DataType::F64), ("text", DataType::String)];
const NOW: Timestamp = Timestamp::from_nanos(START);

/// The files of an engine, and the path of a backup.
struct Site {
    folder: TempDir,
}

impl Site {
    fn new() -> Self {
        Self {
            folder: rig::folder(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn places(&self, name: &str) -> EnginePaths {
        EnginePaths {
            store: Some(self.path(name).join("plant.db")),
            history: Some(self.path(name).join("plant.history")),
        }
    }

    fn backup(&self) -> PathBuf {
        self.path("backup")
    }

    /// Creates a backup. Returns the number and the total bytes of the copied files.
    fn create(&self, watch: &mut dyn FnMut(Progress) -> bool) -> Result<(u64, u64), Error> {
        let created = create(
            &self.backup(),
            "plant",
            &self.places("plant"),
            true,
            NOW,
            watch,
        )?;
        assert_eq!(created.manifest.damage, []);
        Ok(created.copied)
    }

    fn findings(&self) -> Vec<Finding> {
        verify(&self.backup(), &mut always).unwrap().findings
    }
}

fn always(_: Progress) -> bool {
    true
}

fn retained(value: u64) -> RetainedValue {
    RetainedValue {
        name: "rig/x".to_owned(),
        data_type: DataType::U64,
        value: Encoded::from_value(&Value::U64(value)),
        source_timestamp: NOW,
        quality: Quality::GOOD,
    }
}

/// Returns the retained value in a store.
fn value_in(store: &Path) -> u64 {
    let mut store = SqliteStore::open(store).unwrap();
    let all = store.retained("rig").unwrap();
    let bytes = all.first().unwrap().value.as_slice();
    u64::from_le_bytes(bytes.try_into().unwrap())
}

/// Creates a store, and a history with two files and a log.
fn filled(site: &Site) -> (Plant, Vec<Line>) {
    fs::create_dir(site.path("plant")).unwrap();
    let places = site.places("plant");
    let mut store = SqliteStore::open(places.store.unwrap()).unwrap();
    store.retain(&[retained(7)]).unwrap();
    let mut plant = Plant::start(&places.history.unwrap(), 1, START, &VARIABLES);
    let mut lines = Vec::new();
    for segment in 0..3 {
        for n in 0..600 {
            lines.push(plant.write("x", &Value::F64(f64::from(segment * 1000 + n))));
        }
        plant.record();
        if segment < 2 {
            plant.seal();
        }
    }
    (plant, lines)
}

/// Restores a backup, and returns the rows that an engine reads from the history.
fn restored_lines(site: &Site, name: &str) -> Vec<Line> {
    let _ = fs::remove_dir_all(site.path(name));
    fs::create_dir(site.path(name)).unwrap();
    let places = site.places(name);
    restore(&site.backup(), &places, false, NOW, &mut always).unwrap();
    let plant = Plant::start(&places.history.unwrap(), 9, START + 1, &VARIABLES);
    let found = plant.everything();
    assert_eq!(found.states, Vec::<String>::new());
    assert_eq!(found.lost(), 0);
    found.lines
}

/// The engine records, moves rows to files and joins files between any two pieces of the copy. The backup
/// contains all rows that were recorded before it began, and possibly the first rows that were recorded
/// later.
///
/// Behaviour: H-16.
#[test]
fn backup_is_consistent_while_the_engine_changes_files() {
    for step in 0..40_u32 {
        let site = Site::new();
        let (mut plant, mut lines) = filled(&site);
        let before = lines.len();
        let mut calls = 0;
        let mut act = |_| {
            calls += 1;
            // Each round does something else at the same piece.
            match (calls + step) % 7 {
                0 | 3 => {
                    lines.push(plant.write("x", &Value::F64(f64::from(calls))));
                    plant.record();
                }
                5 => plant.close_segment(),
                6 => plant.maintain(),
                // Stop at some point: a backup fails if files are always joined before they are copied.
                1 if step % 3 == 0 && calls < 100 => {
                    // Create enough small files to be joined.
                    for n in 0..8 {
                        lines.push(plant.write("x", &Value::F64(f64::from(n))));
                        plant.seal();
                    }
                }
                _ => {}
            }
            calls < 5000
        };
        site.create(&mut act).unwrap();
        assert!(calls > 5, "{calls} calls");
        assert_eq!(site.findings(), []);
        let found = restored_lines(&site, "elsewhere");
        assert!(found.len() >= before, "{step}: {} of {before}", found.len());
        lines.truncate(found.len());
        rig::assert_same(&found, &lines, &format!("round {step}"));
    }
}

/// An engine has locked the store, and writes to it continuously.
#[test]
fn store_in_use_is_copied_as_of_one_moment() {
    let site = Site::new();
    fs::create_dir(site.path("plant")).unwrap();
    let path = site.places("plant").store.unwrap();
    let mut store = SqliteStore::open(&path).unwrap();
    let (acknowledged, acks) = channel();
    let (stop, stopped) = channel::<()>();
    let writer = std::thread::spawn(move || {
        let mut value = 0;
        while stopped.try_recv() == Err(TryRecvError::Empty) {
            value += 1;
            store.retain(&[retained(value)]).unwrap();
            acknowledged.send(value).unwrap();
        }
        value
    });
    let mut newest = acks.recv().unwrap();
    let mut last = 0;
    for round in 0..30 {
        newest = acks.try_iter().last().unwrap_or(newest);
        site.create(&mut always).unwrap();
        assert_eq!(site.findings(), []);
        let name = format!("restored-{round}");
        fs::create_dir(site.path(&name)).unwrap();
        let places = site.places(&name);
        restore(&site.backup(), &places, false, NOW, &mut always).unwrap();
        let found = value_in(&places.store.unwrap());
        assert!(found >= newest, "{found} after {newest}");
        assert!(found >= last, "{found} after {last}");
        last = found;
    }
    drop(stop);
    assert!(writer.join().unwrap() >= last);
}

/// Behaviour: H-16.
#[test]
fn updated_backup_copies_only_missing_files() {
    let site = Site::new();
    let (mut plant, mut lines) = filled(&site);
    let first = site.create(&mut always).unwrap();
    // The files are the store, the catalogue, a log, two files of rows, their summaries and copies of
    // footers.
    assert_eq!(first.0, 9);
    let again = site.create(&mut always).unwrap();
    assert_eq!(again.0, 3, "the store, the catalogue and the log");
    lines.push(plant.write("x", &Value::F64(1.0)));
    plant.seal();
    let third = site.create(&mut always).unwrap();
    assert_eq!(
        third.0, 6,
        "also a new file with its summary and the copy of its footer"
    );
    rig::assert_same(&restored_lines(&site, "elsewhere"), &lines, "restored");
    // Files that are no longer part of the backup are removed.
    let places = rig::files(&site.backup());
    assert_eq!(places.len(), 12 + 2, "{places:?}");
}

/// The disk of the history is not mounted, or the store is not named. The older backup stays unchanged.
#[test]
fn run_without_a_part_of_the_backup_is_refused() {
    let site = Site::new();
    let (plant, lines) = filled(&site);
    site.create(&mut always).unwrap();
    drop(plant);
    let places = site.places("plant");
    for path in [places.history.unwrap(), places.store.unwrap()] {
        let away = site.path("away");
        fs::rename(&path, &away).unwrap();
        let refused = site.create(&mut always);
        assert!(matches!(refused, Err(Error::PartMissing(_))), "{refused:?}");
        assert_eq!(site.findings(), []);
        fs::rename(&away, &path).unwrap();
    }
    rig::assert_same(&restored_lines(&site, "elsewhere"), &lines, "restored");
}

/// A file of another history has the same name as a file in the backup.
#[test]
fn file_with_the_same_name_and_different_content_is_copied() {
    let site = Site::new();
    let (plant, _) = filled(&site);
    site.create(&mut always).unwrap();
    drop(plant);
    let history = site.places("plant").history.unwrap();
    fs::remove_dir_all(&history).unwrap();
    let mut plant = Plant::start(&history, 2, START, &VARIABLES);
    let line = plant.write("text", &Value::String("another".into()));
    plant.seal();
    site.create(&mut always).unwrap();
    assert_eq!(site.findings(), []);
    rig::assert_same(&restored_lines(&site, "elsewhere"), &[line], "restored");
}

#[test]
fn interrupted_backup_leaves_the_older_one_complete() {
    let site = Site::new();
    let (mut plant, mut lines) = filled(&site);
    let stopped_at = |site: &Site, at: u32| {
        let calls = Cell::new(0);
        site.create(&mut |_| {
            calls.set(calls.get() + 1);
            calls.get() <= at
        })
    };
    // Without an older backup, there is no backup after the interruption.
    for at in 0..8 {
        assert!(matches!(stopped_at(&site, at), Err(Error::Interrupted)));
        let verified = verify(&site.backup(), &mut always);
        assert!(matches!(verified, Err(Error::NoBackup(_))), "{verified:?}");
    }
    site.create(&mut always).unwrap();
    let old = lines.clone();
    lines.push(plant.write("x", &Value::F64(-1.0)));
    plant.seal();
    let mut at = 0;
    while let Err(error) = stopped_at(&site, at) {
        assert!(matches!(error, Error::Interrupted), "{error}");
        assert_eq!(site.findings(), []);
        if at % 3 == 0 {
            rig::assert_same(&restored_lines(&site, "elsewhere"), &old, "the older one");
        }
        at += 1;
    }
    assert!(at > 5, "{at} places");
    rig::assert_same(&restored_lines(&site, "elsewhere"), &lines, "the new one");
}

/// A run is unfinished if the command was killed.
#[test]
fn files_of_an_unfinished_run_are_removed_by_the_next_one() {
    let site = Site::new();
    let (_plant, lines) = filled(&site);
    for round in 0..2 {
        let unfinished = site.backup().join("7/history/samples");
        fs::create_dir_all(&unfinished).unwrap();
        fs::write(unfinished.join("half"), "half").unwrap();
        fs::write(site.backup().join("backup.lock"), "").unwrap();
        fs::write(site.backup().join("manifest.json.new"), "{").unwrap();
        site.create(&mut always).unwrap();
        assert_eq!(site.findings(), []);
        assert!(!unfinished.exists());
        let names = fs::read_dir(site.backup()).unwrap();
        assert_eq!(names.count(), 3 + round, "lock, manifest, and runs");
    }
    rig::assert_same(&restored_lines(&site, "elsewhere"), &lines, "restored");
}

#[test]
fn interrupted_restore_changes_nothing() {
    let site = Site::new();
    let (plant, _) = filled(&site);
    site.create(&mut always).unwrap();
    drop(plant);
    let places = site.places("plant");
    let before = rig::files(&site.path("plant"));
    for at in 0.. {
        let calls = Cell::new(0);
        let mut watch = |_| {
            calls.set(calls.get() + 1);
            calls.get() <= at
        };
        match restore(&site.backup(), &places, true, NOW, &mut watch) {
            Err(error) => assert!(matches!(error, Error::Interrupted), "{error}"),
            Ok(_) => {
                assert!(at > 10, "{at} pieces");
                break;
            }
        }
        // The lock file is empty.
        assert_eq!(rig::files(&site.path("plant")), before, "{at}");
    }
}

/// R7: this applies to every kind of file and to the manifest. A restore leaves out redundant files.
#[test]
fn damage_in_a_backup_is_reported_and_prevents_a_restore() {
    let site = Site::new();
    let (plant, lines) = filled(&site);
    site.create(&mut always).unwrap();
    drop(plant);
    let manifest = verify(&site.backup(), &mut always).unwrap().manifest;
    assert_eq!(manifest.files.len(), 9);
    for entry in &manifest.files {
        let path = site.backup().join(entry.run.to_string()).join(&entry.path);
        let whole = fs::read(&path).unwrap();
        let bits = 8 * whole.len() as u64;
        for bit in [0, bits / 3, bits - 1] {
            flip(&path, bit);
            let findings = site.findings();
            let named: Vec<&str> = findings.iter().map(|one| one.path.as_str()).collect();
            assert_eq!(named, [entry.path.as_str()], "bit {bit}");
            flip(&path, bit);
        }
        fs::write(&path, whole.get(1..).unwrap()).unwrap();
        assert_eq!(site.findings().len(), 1);
        fs::remove_file(&path).unwrap();
        let what = "it is missing".to_owned();
        let path_of = entry.path.clone();
        let missing = Finding {
            path: path_of,
            what,
        };
        assert_eq!(site.findings(), [missing]);
        let places = site.places("elsewhere");
        let restored = restore(&site.backup(), &places, true, NOW, &mut always);
        match entry.path.contains("/summaries/") || entry.path.contains("/footers/") {
            true => {
                let omitted = restored.unwrap().omitted;
                let named: Vec<&str> = omitted.iter().map(|one| one.path.as_str()).collect();
                assert_eq!(named, [entry.path.as_str()]);
                let plant = Plant::start(&places.history.unwrap(), 9, START + 1, &VARIABLES);
                rig::assert_same(&plant.everything().lines, &lines, &entry.path);
                drop(plant);
                fs::remove_dir_all(site.path("elsewhere")).unwrap();
            }
            false => {
                let refused = restored.unwrap_err();
                assert!(matches!(refused, Error::Damaged { .. }), "{refused:?}");
                let sentence = refused.to_string();
                assert!(sentence.contains("trunkline backup create"), "{sentence}");
                assert!(!site.path("elsewhere").exists());
            }
        }
        fs::write(&path, whole).unwrap();
    }
    let path = site.backup().join("manifest.json");
    let whole = fs::read_to_string(&path).unwrap();
    for (old, new) in [
        ("\"plant\"", "\"plans\""),
        ("history/log-", "history/lok-"),
        ("\"run\": 1", "\"run\": 2"),
        ("{", ""),
        ("store.db", "../../store.db"),
    ] {
        assert!(whole.contains(old), "{old}");
        fs::write(&path, whole.replacen(old, new, 1)).unwrap();
        let refused = verify(&site.backup(), &mut always);
        assert!(
            matches!(refused, Err(Error::Manifest { .. })),
            "{refused:?}"
        );
    }
    fs::write(&path, whole).unwrap();
    assert_eq!(site.findings(), []);
}

/// The file in the backup is missing, or has the same length but different content.
///
/// Behaviour: H-16.
#[test]
fn file_that_is_damaged_in_a_backup_is_copied_again() {
    let site = Site::new();
    let (_plant, lines) = filled(&site);
    let count = site.create(&mut always).unwrap().0;
    let manifest = verify(&site.backup(), &mut always).unwrap().manifest;
    let parts = manifest.files.iter().filter(|one| one.identity.is_some());
    let parts: Vec<_> = parts.map(|one| one.path.clone()).collect();
    assert_eq!(
        parts.len(),
        6,
        "two files, their summaries and second footers"
    );
    for path in &parts {
        for is_missing in [false, true] {
            let manifest = verify(&site.backup(), &mut always).unwrap().manifest;
            let entry = manifest.files.iter().find(|one| one.path == *path).unwrap();
            let place = site.backup().join(entry.run.to_string()).join(path);
            match is_missing {
                true => fs::remove_file(&place).unwrap(),
                false => flip(&place, 8 * entry.bytes / 3),
            }
            assert_eq!(site.findings().len(), 1);
            let places = site.places("plant");
            let created = create(&site.backup(), "plant", &places, true, NOW, &mut always);
            let created = created.unwrap();
            let named: Vec<&str> = created
                .damaged_in_older
                .iter()
                .map(|one| &*one.path)
                .collect();
            assert_eq!(named, [path.as_str()]);
            // Each run copies the store, the catalogue and the log.
            assert_eq!(
                (created.copied.0, created.manifest.files.len() as u64),
                (4, count)
            );
            assert_eq!(site.findings(), []);
        }
    }
    rig::assert_same(&restored_lines(&site, "elsewhere"), &lines, "restored");
}

/// Without the check, a file with the correct length is reused.
#[test]
fn unchecked_backup_does_not_read_older_files() {
    let site = Site::new();
    let (_plant, _) = filled(&site);
    site.create(&mut always).unwrap();
    let places = site.places("plant");
    let of_run = |checks: bool| {
        let mut bytes = 0;
        create(
            &site.backup(),
            "plant",
            &places,
            checks,
            NOW,
            &mut |progress| {
                bytes = progress.bytes;
                true
            },
        )
        .unwrap();
        bytes
    };
    let (checked, unchecked) = (of_run(true), of_run(false));
    let manifest = verify(&site.backup(), &mut always).unwrap().manifest;
    let kept = manifest.files.iter().filter(|one| one.identity.is_some());
    let kept: u64 = kept.map(|one| one.bytes).sum();
    assert_eq!(checked, unchecked + kept);
}

/// A summary or a copy of a footer can be derived again, so the backup omits it until it is intact.
#[test]
fn damaged_redundant_file_is_not_copied() {
    let site = Site::new();
    let (plant, lines) = filled(&site);
    let history = site.places("plant").history.unwrap();
    let all = rig::files(&history);
    for below in ["summaries", "footers"] {
        let file = all.iter().find(|path| path.starts_with(below)).unwrap();
        let place = history.join(file);
        flip(&place, 800);
        site.create(&mut always).unwrap();
        assert_eq!(site.findings(), []);
        let manifest = verify(&site.backup(), &mut always).unwrap().manifest;
        let path = format!("history/{}", file.display());
        assert!(!manifest.files.iter().any(|one| one.path == path), "{path}");
        flip(&place, 800);
        site.create(&mut always).unwrap();
        let manifest = verify(&site.backup(), &mut always).unwrap().manifest;
        assert!(manifest.files.iter().any(|one| one.path == path), "{path}");
        fs::remove_dir_all(site.backup()).unwrap();
    }
    site.create(&mut always).unwrap();
    drop(plant);
    rig::assert_same(&restored_lines(&site, "elsewhere"), &lines, "restored");
}

/// A backup that is made while the engine runs ends with an interruption after the last row, even if rows
/// were moved to files after the log was copied.
///
/// Behaviour: B-64, H-16.
#[test]
fn restored_history_is_interrupted_after_its_last_row() {
    let site = Site::new();
    let (mut plant, mut lines) = filled(&site);
    let mut calls = 0;
    let mut seal_once = |_| {
        calls += 1;
        if calls == 1 {
            plant.time += 60 * rig::SECOND;
            lines.push(plant.write("x", &Value::F64(-1.0)));
            plant.seal();
        }
        true
    };
    site.create(&mut seal_once).unwrap();
    let places = site.places("elsewhere");
    fs::create_dir(site.path("elsewhere")).unwrap();
    restore(&site.backup(), &places, false, NOW, &mut always).unwrap();
    let last = lines.last().unwrap().key.time;
    let plant = Plant::start(
        &places.history.unwrap(),
        9,
        last + 60 * rig::SECOND,
        &VARIABLES,
    );
    plant.record();
    let found = plant.everything();
    rig::assert_same(&found.lines, &lines, "restored");
    let is_end =
        |one: &&rig::Event| one.event == HistoryEvent::Interrupted && one.variable == "rig/x";
    let ends = found.events.iter().filter(is_end);
    let times: Vec<i64> = ends.map(|one| one.key.time).collect();
    assert_eq!(times, [last]);
}

#[test]
fn restore_that_cannot_move_files_changes_nothing() {
    let site = Site::new();
    let (plant, _) = filled(&site);
    site.create(&mut always).unwrap();
    drop(plant);
    let places = site.places("plant");
    let before = rig::files(&site.path("plant"));
    // The path to which the old store would be moved already exists.
    let taken = site
        .path("plant")
        .join("plant.db.replaced-20260921T141320Z");
    fs::create_dir(&taken).unwrap();
    let refused = restore(&site.backup(), &places, true, NOW, &mut always).unwrap_err();
    assert!(matches!(refused, Error::NotMoved { .. }), "{refused:?}");
    let sentence = refused.to_string();
    assert!(sentence.contains("nothing was changed"), "{sentence}");
    assert_eq!(unfinished_restore(&places), None);
    assert_eq!(rig::files(&site.path("plant")), before);
    // The destination is a mount point.
    let mounted = EnginePaths {
        store: places.store.clone(),
        history: Some(PathBuf::from("/proc")),
    };
    let refused = restore(&site.backup(), &mounted, true, NOW, &mut always).unwrap_err();
    assert!(matches!(refused, Error::MountPoint(_)), "{refused:?}");
    assert!(refused.to_string().contains("/proc is a mount point"));
    assert_eq!(rig::files(&site.path("plant")), before);
    fs::remove_dir(&taken).unwrap();
    restore(&site.backup(), &places, true, NOW, &mut always).unwrap();
}

/// Damage of the engine's files does not prevent a backup of the other files, and does not replace an intact
/// copy.
#[test]
fn damage_of_the_original_files_is_reported() {
    let site = Site::new();
    let (plant, _) = filled(&site);
    site.create(&mut always).unwrap();
    let history = site.places("plant").history.unwrap();
    let files = rig::files_of(&history, "parquet");
    let file = files.iter().find(|path| path.starts_with("samples"));
    let file = file.unwrap();
    flip(&history.join(file), 1000);
    // The backup already has an intact copy.
    site.create(&mut always).unwrap();
    assert_eq!(site.findings(), []);
    fs::remove_dir_all(site.backup()).unwrap();
    let places = site.places("plant");
    let created = create(&site.backup(), "plant", &places, true, NOW, &mut always).unwrap();
    let path = format!("history/{}", file.display());
    let damage = created.manifest.damage;
    let named: Vec<&str> = damage.iter().map(|one| one.path.as_str()).collect();
    assert_eq!(named, [path.as_str()]);
    assert_eq!(site.findings(), damage);
    drop(plant);
}

#[test]
fn restore_refuses_files_in_use_and_files_that_exist() {
    let site = Site::new();
    let (plant, lines) = filled(&site);
    site.create(&mut always).unwrap();
    let places = site.places("plant");
    let sut = |may_replace| restore(&site.backup(), &places, may_replace, NOW, &mut always);
    let in_use = sut(true).unwrap_err().to_string();
    assert!(in_use.contains("in use by another engine"), "{in_use}");
    drop(plant);
    let exists = sut(false).unwrap_err();
    assert!(matches!(exists, Error::Exists(_)), "{exists}");
    let names = || -> Vec<String> {
        let entries = fs::read_dir(site.path("plant")).unwrap();
        let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name();
        let mut names: Vec<String> = entries
            .map(|entry| name(entry).into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names(), ["plant.db", "plant.history"]);
    let done = sut(true).unwrap();
    assert_eq!(done.aside.len(), 2, "{:?}", done.aside);
    assert_eq!(names().len(), 4);
    for history in [places.history.as_ref().unwrap(), &done.aside[1]] {
        let plant = Plant::start(history, 3, START + 1, &VARIABLES);
        rig::assert_same(&plant.everything().lines, &lines, "both are usable");
    }
    assert_eq!(value_in(places.store.as_ref().unwrap()), 7);
    assert_eq!(value_in(&done.aside[0]), 7);
}

#[test]
fn destinations_that_are_not_backups_are_unchanged() {
    let site = Site::new();
    let (plant, _) = filled(&site);
    let places = site.places("plant");
    let sut = |place: &Path, engine| create(place, engine, &places, true, NOW, &mut always);
    let history = places.history.clone().unwrap();
    for inside in [history.clone(), history.join("b"), site.path("plant")] {
        let refused = sut(&inside, "plant");
        assert!(
            matches!(refused, Err(Error::OverlapsHistory(_))),
            "{refused:?}"
        );
    }
    fs::create_dir(site.path("full")).unwrap();
    fs::write(site.path("full").join("mine"), "x").unwrap();
    let refused = sut(&site.path("full"), "plant");
    assert!(matches!(refused, Err(Error::NotEmpty(_))), "{refused:?}");
    assert_eq!(fs::read_dir(site.path("full")).unwrap().count(), 1);
    site.create(&mut always).unwrap();
    let refused = sut(&site.backup(), "another");
    assert!(
        matches!(refused, Err(Error::OtherEngine { .. })),
        "{refused:?}"
    );
    assert_eq!(site.findings(), []);
    drop(plant);
    let none = create(
        &site.path("b"),
        "plant",
        &site.places("none"),
        true,
        NOW,
        &mut always,
    );
    assert!(matches!(none, Err(Error::NoEngineFiles(_))), "{none:?}");
    assert!(!site.path("b").exists());
}
