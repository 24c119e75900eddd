//! Creates stores, and the libraries, values, entries and alarms to store in them.

#![allow(dead_code, reason = "each test program uses its own part")]

use std::path::PathBuf;
use std::sync::Arc;

use tempfile::TempDir;
use trunkline_engine::store::{LogBound, RetainedValue, StoredLibrary};
use trunkline_engine::{Encoded, LibraryState};
use trunkline_store::SqliteStore;
use trunkline_types::alarm::{
    AlarmDefinition, AlarmEntry, AlarmEvent, AlarmKind, AlarmRecord, AlarmState, JournalEvent,
    SavedAlarm,
};
use trunkline_types::audit::{AuditHash, AuditLink};
use trunkline_types::wire::encode_alarm;
use trunkline_types::{
    AuditAction, AuditEntry, AuditOutcome, DataType, LibraryDefinition, Position, Properties,
    Quality, Tick, Timestamp, Value, VariableDefinition,
};

/// Returns a path for a store, in a folder that is removed when it is dropped.
pub fn store_path() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("the disk has room");
    let path = folder.path().join("store.db");
    (folder, path)
}

/// Opens the store at this path.
pub fn open(path: &PathBuf) -> SqliteStore {
    SqliteStore::open(path).expect("the store can be opened")
}

/// Creates a library of `count` variables `v0`, `v1` and so on, of type f64; every tenth has a description.
pub fn library(name: &str, count: usize) -> StoredLibrary {
    let plain = Arc::new(Properties::new(DataType::F64));
    let variable = |number: usize| {
        let mut properties = Arc::clone(&plain);
        if number % 10 == 9 {
            Arc::make_mut(&mut properties).description = format!("number {number}");
        }
        VariableDefinition {
            path: format!("v{number}"),
            properties,
        }
    };
    StoredLibrary {
        definition: LibraryDefinition {
            name: name.to_owned(),
            description: format!("{count} variables"),
            variables: (0..count).map(variable).collect(),
        },
        state: LibraryState::Running,
    }
}

/// Creates a retained value.
pub fn value(name: &str, value: Value) -> RetainedValue {
    RetainedValue {
        name: name.to_owned(),
        data_type: match value {
            Value::Bool(_) => DataType::Bool,
            _ => DataType::F64,
        },
        value: Encoded::from_value(&value),
        source_timestamp: Timestamp::from_nanos(1_700_000_000_000_000_000),
        quality: Quality::GOOD,
    }
}

/// Returns a bound of this number of audit entries, of any age.
pub fn bound(entries: u64) -> LogBound {
    LogBound {
        entries,
        age: None,
        now: Timestamp::from_nanos(1_800_000_000_000_000_000),
    }
}

/// Creates audit entries with these numbers, one per second.
pub fn entries(numbers: std::ops::RangeInclusive<u64>) -> Vec<AuditEntry> {
    let second = |number: u64| 1_700_000_000_000_000_000 + number.cast_signed() * 1_000_000_000;
    let of = |number: u64| AuditEntry {
        number,
        when: Timestamp::from_nanos(second(number)),
        monotonic: Tick::from_nanos(number * 1_000_000_000),
        who: if number.is_multiple_of(3) {
            "ann"
        } else {
            "bob"
        }
        .to_owned(),
        from: "127.0.0.1:50000, put, pid 7".to_owned(),
        action: AuditAction::Put,
        name: format!("plant/v{}", number % 10),
        data_type: "f64".to_owned(),
        old: (number - 1).to_string(),
        new: number.to_string(),
        outcome: match number % 4 {
            0 => AuditOutcome::Refused("the variable is read-only".to_owned()),
            1 => AuditOutcome::Unknown("the device is gone".to_owned()),
            2 => AuditOutcome::Unchanged(Position {
                epoch: u64::MAX,
                sequence: number,
            }),
            _ => AuditOutcome::Applied(Position {
                epoch: 1,
                sequence: u64::MAX - number,
            }),
        },
        link: None,
    };
    numbers.map(of).collect()
}

/// Links entries that begin a chain, as a store does when they are appended.
pub fn linked(mut entries: Vec<AuditEntry>) -> Vec<AuditEntry> {
    let mut previous = AuditHash::ZERO;
    for entry in &mut entries {
        let link = AuditLink::new(previous, entry);
        previous = link.hash;
        entry.link = Some(link);
    }
    entries
}

fn record(number: u64, state: AlarmState) -> AlarmRecord {
    let at = Timestamp::from_nanos(1_700_000_000_000_000_000 + number.cast_signed());
    AlarmRecord {
        state,
        is_active: number.is_multiple_of(2),
        value: (!number.is_multiple_of(5)).then_some(number as f64 + 0.25),
        operand: Some(f64::NEG_INFINITY),
        raised: Some(at),
        cleared: None,
        acknowledged: number.is_multiple_of(3).then_some(at),
        acknowledged_by: "ann".to_owned(),
        comment: format!("number {number}"),
        shelved_until: None,
    }
}

/// Creates the alarm `stale` of the first `count` variables of `plant`, in a state that depends on `salt`.
pub fn kept_alarms(count: u64, salt: u64) -> Vec<SavedAlarm> {
    let mut definition = Vec::new();
    encode_alarm(&AlarmDefinition::new(AlarmKind::Stale), &mut definition);
    let of = |number: u64| SavedAlarm {
        variable: format!("plant/v{number}"),
        alarm: "stale".to_owned(),
        definition: definition.clone(),
        process: AlarmState::ReturnedUnacknowledged,
        hidden: [1, 2, 4].map(|bit| (number + salt) & bit != 0),
        delayed_since: number
            .is_multiple_of(2)
            .then_some(Timestamp::from_nanos(salt.cast_signed())),
        record: record(number + salt, AlarmState::Shelved),
    };
    (0..count).map(of).collect()
}

/// Creates entries of the alarm journal with these numbers, one per second, in the areas `even` and `odd`.
pub fn alarm_entries(numbers: std::ops::RangeInclusive<u64>) -> Vec<AlarmEntry> {
    let second = |number: u64| 1_700_000_000_000_000_000 + number.cast_signed() * 1_000_000_000;
    let of = |number: u64| AlarmEntry {
        number,
        when: Timestamp::from_nanos(second(number)),
        event: match number % 7 {
            0 => JournalEvent::Lost(number),
            _ => JournalEvent::Alarm(AlarmEvent::ALL[number as usize % AlarmEvent::ALL.len()]),
        },
        variable: format!("plant/v{}", number % 10),
        alarm: "stale".to_owned(),
        priority: number as u16 % 1000 + 1,
        area: ["even", "odd"][number as usize % 2].to_owned(),
        description: "the sensor is silent".to_owned(),
        from: AlarmState::Normal,
        who: String::new(),
        comment: format!("remark {number}"),
        record: record(
            number,
            AlarmState::ALL[number as usize % AlarmState::ALL.len()],
        ),
    };
    numbers.map(of).collect()
}

/// Creates a library `plant` like [`library`], whose first `alarms` variables have the alarm `stale`.
pub fn library_with_alarms(count: usize, alarms: usize) -> StoredLibrary {
    let mut library = library("plant", count);
    for variable in library.definition.variables.iter_mut().take(alarms) {
        let properties = Arc::make_mut(&mut variable.properties);
        properties.alarms = vec![AlarmDefinition::new(AlarmKind::Stale)];
    }
    library
}
