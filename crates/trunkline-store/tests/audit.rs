//! Tests that a store returns the entries of its audit in order and within its bound, and that they cannot
//! be modified.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

mod rig;

use std::time::Duration;

use rig::{bound, entries, library, linked, open, store_path};
use rusqlite::Connection;
use trunkline_engine::store::{LogBound, Store, StoreError, StoreErrorKind};
use trunkline_store::SqliteStore;
use trunkline_types::audit::{AUDIT_PAGE_MAX, AUDIT_SCAN_MAX, AuditHead};
use trunkline_types::{AuditAction, AuditEntry, AuditQuery, Pattern, Timestamp};

/// Returns all pages of an answer, and their number.
fn all_entries(store: &mut SqliteStore, query: &AuditQuery) -> (Vec<AuditEntry>, usize) {
    let (mut found, mut pages, mut query) = (Vec::new(), 0, query.clone());
    loop {
        let page = store.audit(&query).expect("the audit is readable");
        assert!(page.entries.len() <= AUDIT_PAGE_MAX);
        found.extend(page.entries);
        pages += 1;
        query.from = page.next;
        if page.next.is_none() {
            return (found, pages);
        }
    }
}

/// Returns the number of the last entry.
fn end(head: Result<AuditHead, StoreError>) -> u64 {
    head.expect("the store is accessible").number
}

fn numbers(entries: &[AuditEntry]) -> Vec<u64> {
    entries.iter().map(|entry| entry.number).collect()
}

/// Behaviour: B-24.
#[test]
fn entries_survive_a_restart_and_numbers_continue() {
    let (_folder, path) = store_path();
    let written = linked(entries(1..=1200));
    let mut store = open(&path);
    assert_eq!(end(store.audit_end()), 0);
    store.append_audit(&written[..700], bound(10_000)).unwrap();
    drop(store);
    let mut store = open(&path);
    assert_eq!(end(store.audit_end()), 700);
    store.append_audit(&written[700..], bound(10_000)).unwrap();
    drop(store);
    let mut store = open(&path);
    let query = AuditQuery::default();
    assert!(all_entries(&mut store, &query) == (written.clone(), 3));
    let newest_first = AuditQuery {
        newest_first: true,
        ..AuditQuery::default()
    };
    let (mut found, _) = all_entries(&mut store, &newest_first);
    found.reverse();
    assert!(found == written);
    // Saving and removing libraries does not affect the audit.
    store.save_library(&library("plant", 3)).unwrap();
    store.remove_library("plant").unwrap();
    assert_eq!(end(store.audit_end()), 1200);
}

/// A step with an unknown outcome can be repeated without duplicate entries.
#[test]
fn entries_appended_twice_are_stored_once() {
    let (_folder, path) = store_path();
    let mut store = open(&path);
    let written = linked(entries(1..=30));
    store.append_audit(&written[..20], bound(100)).unwrap();
    store.append_audit(&written[10..], bound(100)).unwrap();
    store.append_audit(&written, bound(100)).unwrap();
    store.append_audit(&[], bound(100)).unwrap();
    assert_eq!(all_entries(&mut store, &AuditQuery::default()).0, written);
}

/// Behaviour: B-24.
#[test]
fn oldest_entries_beyond_the_bound_are_removed_and_counted() {
    let (_folder, path) = store_path();
    let mut store = open(&path);
    let mut next = 1;
    while next < 1_000 {
        next = end(store.append_audit(&entries(next..=next + 9), bound(100))) + 1;
    }
    let page = store.audit(&AuditQuery::default()).unwrap();
    let (first, last) = (page.removed + 1, page.entries.len() as u64 + page.removed);
    assert!(
        (91..=100).contains(&page.entries.len()),
        "{}",
        page.entries.len()
    );
    assert!(
        numbers(&page.entries).into_iter().eq(first..=last),
        "without a gap"
    );
    // Removed entries were reported when they were removed, and the last of these reports still
    // exists.
    let removal = page
        .entries
        .iter()
        .rfind(|entry| entry.action == AuditAction::Removed);
    let removal = removal.expect("the removal is reported");
    let expected = format!(" to {}, from ", page.removed);
    assert!(
        removal.new.contains(&expected),
        "{expected}: {}",
        removal.new
    );
    assert!(removal.new.contains("from 2023-11-14T"), "{}", removal.new);
    // A smaller bound applies from the next entry on. One entry always stays, so numbers continue.
    let next = last + 1;
    assert_eq!(
        end(store.append_audit(&entries(next..=next), bound(0))),
        next + 1
    );
    drop(store);
    let page = open(&path).audit(&AuditQuery::default()).unwrap();
    let (mut entry, removal) = (entries(next..=next).remove(0), &page.entries[1]);
    // It is linked to the last removed entry, whose hash the removal states.
    entry.link = page.entries[0].link;
    let previous = entry.link.unwrap().previous.to_string();
    assert_eq!((page.removed, &page.entries[0]), (last, &entry));
    assert_eq!(removal.old, previous);
    assert_eq!(
        (removal.number, removal.action),
        (next + 1, AuditAction::Removed)
    );
    assert_eq!(end(open(&path).audit_end()), next + 1);
}

/// If a flood of actions displaces the entries of writes, entries of the audit report the removed entries.
///
/// Behaviour: B-24.
#[test]
fn every_removed_entry_is_covered_by_a_later_entry() {
    let (_folder, path) = store_path();
    let mut store = open(&path);
    let (mut next, mut removals) = (1, Vec::new());
    while next < 2_000 {
        let mut written = entries(next..=next + 6);
        for order in &mut written {
            order.action = AuditAction::Deploy;
        }
        let last = end(store.append_audit(&written, bound(100)));
        if last > next + 6 {
            let query = AuditQuery {
                from: Some(last),
                ..AuditQuery::default()
            };
            removals.extend(store.audit(&query).unwrap().entries);
        }
        next = last + 1;
    }
    let mut removed = 0;
    for entry in &removals {
        assert_eq!(entry.action, AuditAction::Removed);
        let (_, range) = entry.new.split_once("numbers ").unwrap();
        let (first, rest) = range.split_once(" to ").unwrap();
        let (last, _) = rest.split_once(',').unwrap();
        assert_eq!(first.parse(), Ok(removed + 1), "{}", entry.new);
        removed = last.parse().unwrap();
    }
    let page = store.audit(&AuditQuery::default()).unwrap();
    assert_eq!(page.removed, removed);
    assert!(removals.len() < 250, "{} in {next} entries", removals.len());
}

/// Behaviour: B-24.
#[test]
fn entries_beyond_their_age_are_removed_once_the_oldest_is_a_tenth_older() {
    let (_folder, path) = store_path();
    let mut store = open(&path);
    let written = entries(1..=200);
    let bound_after = |seconds: i64| LogBound {
        entries: 10_000,
        age: Some(Duration::from_secs(100)),
        now: written[0]
            .when
            .saturating_add_nanos(seconds * 1_000_000_000),
    };
    // The first entry is a tenth older than allowed, and not more.
    let mut append =
        |entries: &[AuditEntry], seconds| end(store.append_audit(entries, bound_after(seconds)));
    assert_eq!(append(&written[..110], 110), 110);
    assert_eq!(append(&written[110..111], 111), 112);
    let page = store.audit(&AuditQuery::default()).unwrap();
    assert_eq!((page.removed, page.entries.len()), (11, 101));
    let removal = &page.entries[100];
    assert!(
        removal.new.starts_with("11 entries, numbers 1 to 11, "),
        "{}",
        removal.new
    );
    // The last entry stays even if all entries are too old, so numbers continue.
    let head = store.append_audit(&[], bound_after(10_000));
    assert_eq!(end(head), 113);
    let page = store.audit(&AuditQuery::default()).unwrap();
    assert_eq!((page.removed, page.entries.len()), (111, 2));
}

#[test]
fn queries_select_by_name_principal_time_and_number() {
    let (_folder, path) = store_path();
    let mut store = open(&path);
    let written = linked(entries(1..=2000));
    store.append_audit(&written, bound(10_000)).unwrap();
    let mut found = |query: AuditQuery| {
        let (found, _) = all_entries(&mut store, &query);
        let expected: Vec<u64> = written
            .iter()
            .filter(|entry| query.matches(entry))
            .filter(|entry| query.from.is_none_or(|from| entry.number >= from))
            .map(|entry| entry.number)
            .collect();
        assert!(numbers(&found) == expected, "{query:?}");
        expected.len()
    };
    let pattern = |text: &str| Some(Pattern::parse(text).expect("the pattern is valid"));
    let everything = AuditQuery::default();
    let of_name = AuditQuery {
        pattern: pattern("plant/v3"),
        ..everything.clone()
    };
    assert_eq!(found(of_name.clone()), 200);
    let of_ann = AuditQuery {
        who: Some("ann".to_owned()),
        ..of_name.clone()
    };
    assert_eq!(found(of_ann), 67);
    let of_nobody = AuditQuery {
        pattern: pattern("rig/**"),
        ..everything.clone()
    };
    assert_eq!(found(of_nobody), 0);
    let since = Timestamp::from_nanos(1_700_000_000_000_000_000 + 1_990 * 1_000_000_000);
    let since = AuditQuery {
        since: Some(since),
        ..everything.clone()
    };
    assert_eq!(found(since), 11);
    let from = AuditQuery {
        from: Some(1901),
        ..everything.clone()
    };
    assert_eq!(found(from), 100);

    let last = AuditQuery {
        newest_first: true,
        limit: 3,
        ..of_name
    };
    let page = store.audit(&last).unwrap();
    assert_eq!(numbers(&page.entries), [1993, 1983, 1973]);
    assert_eq!(page.next, Some(1972));
    let before_the_first = AuditQuery {
        from: Some(0),
        newest_first: true,
        ..everything.clone()
    };
    assert_eq!(store.audit(&before_the_first).unwrap().entries, []);
    let behind_the_last = AuditQuery {
        from: Some(u64::MAX),
        ..everything
    };
    assert_eq!(store.audit(&behind_the_last).unwrap().entries, []);
}

/// A page takes a bounded time even when it finds nothing.
#[test]
fn page_examines_a_bounded_number_of_entries() {
    let (_folder, path) = store_path();
    let mut store = open(&path);
    let count = AUDIT_SCAN_MAX as u64 + 100;
    store
        .append_audit(&entries(1..=count), bound(100_000))
        .unwrap();
    let query = AuditQuery {
        who: Some("nobody".to_owned()),
        ..AuditQuery::default()
    };
    let page = store.audit(&query).unwrap();
    assert_eq!((page.entries.len(), page.next), (0, Some(5_001)));
    assert_eq!(all_entries(&mut store, &query), (Vec::new(), 2));
}

/// The file itself enforces this rule for every program that opens it.
///
/// Behaviour: B-24.
#[test]
fn entries_cannot_be_modified_or_removed() {
    let (_folder, path) = store_path();
    let written = linked(entries(1..=9));
    open(&path).append_audit(&written, bound(100)).unwrap();
    let file = Connection::open(&path).unwrap();
    for refused in [
        "UPDATE audit SET who = 'somebody else' WHERE number = 4",
        "UPDATE audit SET number = 100 WHERE number = 9",
        "DELETE FROM audit WHERE number = 4",
        "DELETE FROM audit WHERE number = 9",
        "DELETE FROM audit",
        "INSERT INTO audit SELECT 11, at, who, origin, action, name, type, old, new, outcome, \
         epoch, count, sentence, sum, monotonic, hash FROM audit WHERE number = 1",
        "INSERT OR REPLACE INTO audit SELECT 4, at, 'x', origin, action, name, type, old, new, \
         outcome, epoch, count, sentence, sum, monotonic, hash FROM audit WHERE number = 1",
    ] {
        file.execute_batch(refused).expect_err(refused);
    }
    drop(file);
    let mut store = open(&path);
    assert_eq!(all_entries(&mut store, &AuditQuery::default()).0, written);
    let gap = store
        .append_audit(&entries(11..=12), bound(100))
        .unwrap_err();
    assert!(matches!(gap.kind, StoreErrorKind::Damaged(_)), "{gap}");
    assert_eq!(all_entries(&mut store, &AuditQuery::default()).0, written);
}

/// A store of the previous version gets an audit, and keeps its content.
#[test]
fn store_of_an_older_version_gets_an_audit() {
    let (_folder, path) = store_path();
    let saved = library("plant", 20);
    let mut store = open(&path);
    store.record_start().unwrap();
    store.save_library(&saved).unwrap();
    drop(store);
    let older = Connection::open(&path).unwrap();
    let downgrade = "DROP TABLE audit; DROP TABLE audit_anchor; DROP TABLE damaged; DROP TABLE alarm_state; \
                     DROP TABLE alarm_journal; ALTER TABLE start DROP COLUMN sum; \
                     ALTER TABLE start DROP COLUMN engine_id; \
                     ALTER TABLE library DROP COLUMN sum; ALTER TABLE retained DROP COLUMN sum; \
                     PRAGMA user_version = 1;";
    older.execute_batch(downgrade).unwrap();
    drop(older);
    let mut store = open(&path);
    let start = store.record_start().unwrap();
    assert_eq!(start.count, 2);
    assert_ne!(start.engine_id, [0; 16]);
    assert_eq!(store.libraries(), Ok(vec![saved]));
    store.append_audit(&entries(1..=3), bound(10)).unwrap();
    drop(store);
    assert_eq!(end(open(&path).audit_end()), 3);
}
