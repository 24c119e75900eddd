//! Tests that the states of alarms and their journal survive restarts and stay consistent.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "tests may panic")]

mod rig;

use std::path::PathBuf;

use rig::{alarm_entries, bound, kept_alarms, library_with_alarms, open, store_path};
use trunkline_engine::store::Store;
use trunkline_store::SqliteStore;
use trunkline_types::alarm::{
    AlarmEntry, AlarmEvent, AlarmJournalQuery, AlarmState, JournalEvent, SavedAlarm,
};
use trunkline_types::{Pattern, Timestamp};

fn at(second: i64) -> Timestamp {
    Timestamp::from_nanos(1_700_000_000_000_000_000 + second * 1_000_000_000)
}

/// Returns every entry that the query selects, from all pages.
fn all_entries(store: &mut SqliteStore, query: &AlarmJournalQuery) -> Vec<AlarmEntry> {
    let (mut query, mut found) = (query.clone(), Vec::new());
    loop {
        let page = store.alarm_journal(&query).unwrap();
        found.extend(page.entries);
        match page.next {
            Some(next) => query.from = Some(next),
            None => return found,
        }
    }
}

fn numbers(entries: &[AlarmEntry]) -> Vec<u64> {
    entries.iter().map(|entry| entry.number).collect()
}

fn states(path: &PathBuf) -> Vec<SavedAlarm> {
    open(path).alarms("plant").unwrap()
}

/// Behaviour: H-11.
#[test]
fn states_and_journal_survive_a_restart() {
    let (_folder, path) = store_path();
    let mut store = open(&path);
    let entries = alarm_entries(1..=30);
    let end = store.keep_alarms(&kept_alarms(12, 3), &entries, bound(100));
    assert_eq!(end, Ok(30));
    drop(store);
    let mut expected = kept_alarms(12, 3);
    expected.sort_by(|a, b| a.variable.cmp(&b.variable));
    assert_eq!(states(&path), expected);
    let mut store = open(&path);
    assert_eq!(store.alarm_journal_end(), Ok(30));
    assert_eq!(
        all_entries(&mut store, &AlarmJournalQuery::default()),
        entries
    );
    // A step with an unknown outcome can be repeated without duplicates.
    let end = store.keep_alarms(&kept_alarms(1, 8), &alarm_entries(21..=31), bound(100));
    assert_eq!(end, Ok(31));
    let every = AlarmJournalQuery::default();
    assert_eq!(all_entries(&mut store, &every), alarm_entries(1..=31));
}

/// SQLite cannot store -0.0.
#[test]
fn negative_zero_damages_no_row() {
    let (_folder, path) = store_path();
    let (mut kept, mut entries) = (kept_alarms(1, 0), alarm_entries(1..=1));
    kept[0].record.value = Some(-0.0);
    entries[0].record.operand = Some(-0.0);
    let mut store = open(&path);
    store.keep_alarms(&kept, &entries, bound(100)).unwrap();
    drop(store);
    let mut store = open(&path);
    assert_eq!(store.damage(), []);
    assert_eq!(store.alarms("plant").unwrap(), kept);
    assert_eq!(
        all_entries(&mut store, &AlarmJournalQuery::default()),
        entries
    );
}

#[test]
fn states_belong_to_the_alarms_of_their_library() {
    let (_folder, path) = store_path();
    let mut store = open(&path);
    store
        .keep_alarms(&kept_alarms(5, 0), &[], bound(100))
        .unwrap();
    assert!(store.alarms("plan").unwrap().is_empty());
    store.save_library(&library_with_alarms(20, 3)).unwrap();
    assert_eq!(store.alarms("plant").unwrap(), kept_alarms(3, 0));
    let fewer = library_with_alarms(20, 2).definition;
    store.keep_only_alarms(&fewer).unwrap();
    assert_eq!(store.alarms("plant").unwrap(), kept_alarms(2, 0));
    store.remove_library("plant").unwrap();
    assert!(store.alarms("plant").unwrap().is_empty());
}

#[test]
fn state_of_a_removed_alarm_is_deleted() {
    let (_folder, path) = store_path();
    let mut store = open(&path);
    store
        .keep_alarms(&kept_alarms(3, 0), &[], bound(100))
        .unwrap();
    let gone = SavedAlarm::gone("plant/v1", "stale");
    store.keep_alarms(&[gone], &[], bound(100)).unwrap();
    let mut expected = kept_alarms(3, 0);
    expected.remove(1);
    assert_eq!(store.alarms("plant").unwrap(), expected);
}

/// Behaviour: H-11.
#[test]
fn queries_select_by_time_area_name_priority_and_state() {
    let (_folder, path) = store_path();
    let mut store = open(&path);
    let entries = alarm_entries(1..=3_000);
    store.keep_alarms(&[], &entries, bound(10_000)).unwrap();
    let query = AlarmJournalQuery {
        since: Some(at(100)),
        until: Some(at(200)),
        area: "odd".to_owned(),
        ..AlarmJournalQuery::default()
    };
    let found = numbers(&all_entries(&mut store, &query));
    // Entries about missing changes, every seventh, are found in every area.
    let is_wanted = |number: &u64| number % 2 == 1 || number.is_multiple_of(7);
    assert_eq!(found, (100..200).filter(is_wanted).collect::<Vec<_>>());
    let newest = AlarmJournalQuery {
        newest_first: true,
        limit: 3,
        ..query
    };
    let page = store.alarm_journal(&newest).unwrap();
    assert_eq!(numbers(&page.entries), [199, 197, 196]);
    let query = AlarmJournalQuery {
        pattern: Some(Pattern::parse("plant/v7").unwrap()),
        priority_min: 900,
        states: vec![AlarmState::Acknowledged],
        ..AlarmJournalQuery::default()
    };
    let is_wanted = |entry: &&AlarmEntry| {
        matches!(entry.event, JournalEvent::Lost(_))
            || entry.variable == "plant/v7"
                && entry.priority >= 900
                && entry.record.state == AlarmState::Acknowledged
    };
    let expected: Vec<_> = entries.iter().filter(is_wanted).cloned().collect();
    assert!(!expected.is_empty());
    assert_eq!(all_entries(&mut store, &query), expected);
    let none = AlarmJournalQuery {
        since: Some(at(5_000)),
        ..AlarmJournalQuery::default()
    };
    assert!(all_entries(&mut store, &none).is_empty());
}

#[test]
fn oldest_entries_beyond_the_bound_are_removed_and_counted() {
    let (_folder, path) = store_path();
    let mut store = open(&path);
    let end = store.keep_alarms(&[], &alarm_entries(1..=150), bound(100));
    assert_eq!(end, Ok(151));
    let page = store.alarm_journal(&AlarmJournalQuery::default()).unwrap();
    assert_eq!(page.removed, 60);
    assert_eq!(numbers(&page.entries), (61..=151).collect::<Vec<_>>());
    let last = page.entries.last().unwrap();
    assert_eq!(last.event, JournalEvent::Removed(60));
    assert!(
        last.comment.starts_with("60 entries, numbers 1 to 60"),
        "{last:?}"
    );
}

/// The file itself enforces this rule for every program that opens it.
#[test]
fn entries_cannot_be_modified_or_removed() {
    let (_folder, path) = store_path();
    let mut store = open(&path);
    store
        .keep_alarms(&[], &alarm_entries(1..=3), bound(100))
        .unwrap();
    drop(store);
    let other = rusqlite::Connection::open(&path).unwrap();
    for sql in [
        "UPDATE alarm_journal SET who = 'me'",
        "DELETE FROM alarm_journal WHERE number = 2",
        "DELETE FROM alarm_journal WHERE number = 3",
    ] {
        assert!(other.execute(sql, []).is_err(), "{sql}");
    }
}

/// A store of version 4 gets the tables of alarms, and keeps its content.
#[test]
fn store_of_version_4_gets_alarms() {
    let (_folder, path) = store_path();
    let mut store = open(&path);
    store.record_start().unwrap();
    drop(store);
    let other = rusqlite::Connection::open(&path).unwrap();
    other
        .execute_batch(
            "DROP TABLE alarm_state; DROP TABLE alarm_journal; DROP TABLE audit_anchor; \
             ALTER TABLE audit DROP COLUMN hash; ALTER TABLE audit DROP COLUMN monotonic; \
             PRAGMA user_version = 4;",
        )
        .unwrap();
    drop(other);
    let mut store = open(&path);
    assert_eq!(store.record_start().unwrap().count, 2);
    let entries = alarm_entries(1..=2);
    assert_eq!(
        store.keep_alarms(&kept_alarms(1, 0), &entries, bound(100)),
        Ok(2)
    );
    assert_eq!(store.alarms("plant").unwrap().len(), 1);
    let events: Vec<_> = entries.iter().map(|entry| entry.event).collect();
    let alarm = JournalEvent::Alarm;
    assert_eq!(
        events,
        [alarm(AlarmEvent::Clear), alarm(AlarmEvent::Acknowledge)]
    );
}
