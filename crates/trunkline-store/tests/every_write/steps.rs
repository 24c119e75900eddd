//! Defines the operations of the traced process on its store, and reads the content of a store.

use std::path::Path;

use trunkline_engine::LibraryState;
use trunkline_engine::store::{RetainedValue, Store, StoredLibrary};
use trunkline_store::SqliteStore;
use trunkline_types::alarm::{AlarmJournalPage, AlarmJournalQuery, SavedAlarm};
use trunkline_types::{AuditPage, AuditQuery, Value};

#[path = "../rig/mod.rs"]
mod rig;

use self::rig::{alarm_entries, bound, entries, kept_alarms, library, library_with_alarms, value};

/// Number of steps.
pub const STEPS: usize = 20;
const LIBRARIES: [&str; 2] = ["plant", "rig"];

/// The complete content of a store.
#[derive(PartialEq, Debug, Default)]
pub struct Contents {
    starts: u64,
    libraries: Vec<StoredLibrary>,
    retained: Vec<RetainedValue>,
    audit: AuditPage,
    alarms: Vec<SavedAlarm>,
    journal: AlarmJournalPage,
}

impl Contents {
    /// Reads the store of a folder. This counts as a start, which is not included in `starts`.
    pub fn of(folder: &Path) -> Self {
        let mut store = open(folder);
        let starts = store.record_start().expect("the store is writable").count - 1;
        let retained = LIBRARIES.map(|name| store.retained(name).expect("the store is readable"));
        Self {
            starts,
            libraries: store.libraries().expect("the store is readable"),
            retained: retained.into_iter().flatten().collect(),
            audit: store
                .audit(&AuditQuery::default())
                .expect("the audit is readable"),
            alarms: store.alarms("plant").expect("the store is readable"),
            journal: store
                .alarm_journal(&AlarmJournalQuery::default())
                .expect("the journal is readable"),
        }
    }

    pub fn summary(&self) -> String {
        let libraries = self.libraries.iter();
        let libraries = libraries.map(|library| &library.definition.description);
        format!(
            "{} starts, libraries of {:?}, {} values, {} entries, {} removed; {} alarms, {} entries, \
             {} removed",
            self.starts,
            libraries.collect::<Vec<_>>(),
            self.retained.len(),
            self.audit.entries.len(),
            self.audit.removed,
            self.alarms.len(),
            self.journal.entries.len(),
            self.journal.removed,
        )
    }
}

fn open(folder: &Path) -> SqliteStore {
    SqliteStore::open(folder.join("store.db")).expect("the store can be opened")
}

/// Runs in the child: opens the store once, and reports each step as done.
pub fn work(folder: &Path) {
    let mut store = open(folder);
    for step in 0..STEPS {
        do_step(&mut store, step);
        trunkline_crashpoints::report_step();
    }
}

/// Runs one step in a store that is opened for it.
pub fn carry_out(folder: &Path, step: usize) {
    do_step(&mut open(folder), step);
}

fn do_step(store: &mut SqliteStore, step: usize) {
    let values = |count: usize, base: f64| -> Vec<RetainedValue> {
        let of = |number: usize| {
            value(
                &format!("plant/v{number}"),
                Value::F64(base + number as f64),
            )
        };
        (0..count).map(of).collect()
    };
    let done = match step {
        0 | 7 => store.record_start().map(|_| ()),
        1 => store.save_library(&library("plant", 1000)),
        2 => store.retain(&values(1000, 0.0)),
        3 => store.save_library(&library("rig", 5)),
        4 => store.retain(&values(1, 1e6)),
        5 => store.set_state("rig", LibraryState::Stopped),
        6 => store.retain(&values(1000, 5e6)),
        8 => store.save_library(&library("plant", 20)),
        9 => store.remove_library("rig"),
        10 => store.retain(&values(20, -1.0)),
        11 => store.remove_library("plant"),
        12 => store
            .append_audit(&entries(1..=300), bound(400))
            .map(|_| ()),
        13 => store
            .append_audit(&entries(301..=301), bound(400))
            .map(|_| ()),
        // The same step removes the oldest entries.
        14 => store
            .append_audit(&entries(302..=700), bound(400))
            .map(|_| ()),
        15 => store.save_library(&library_with_alarms(30, 20)),
        16 => store
            .keep_alarms(&kept_alarms(20, 0), &alarm_entries(1..=300), bound(400))
            .map(|_| ()),
        17 => store
            .keep_alarms(&kept_alarms(1, 5), &alarm_entries(301..=301), bound(400))
            .map(|_| ()),
        18 => store
            .keep_alarms(&kept_alarms(20, 9), &alarm_entries(302..=700), bound(400))
            .map(|_| ()),
        // This step deletes the states of alarms that no longer exist.
        _ => store.save_library(&library_with_alarms(30, 7)),
    };
    done.expect("the disk has room");
}
