//! The audit of a store: what was appended comes back, in order, within its bound, and nobody
//! changes it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test stops at what it did not expect"
)]

mod rig;

use rig::{entries, library, open, place};
use rusqlite::Connection;
use trunkline_engine::store::{Store, StoreTrouble};
use trunkline_store::SqliteStore;
use trunkline_types::audit::{AUDIT_PAGE_MAX, AUDIT_SCAN_MAX};
use trunkline_types::{AuditEntry, AuditQuery, Pattern, Timestamp};

/// Every page of an answer, and how many there were.
fn all(store: &mut SqliteStore, query: &AuditQuery) -> (Vec<AuditEntry>, usize) {
    let (mut found, mut pages, mut query) = (Vec::new(), 0, query.clone());
    loop {
        let page = store.audit(&query).expect("it can be read");
        assert!(page.entries.len() <= AUDIT_PAGE_MAX);
        found.extend(page.entries);
        pages += 1;
        query.from = page.next;
        if page.next.is_none() {
            return (found, pages);
        }
    }
}

fn numbers(entries: &[AuditEntry]) -> Vec<u64> {
    entries.iter().map(|entry| entry.number).collect()
}

/// Behaviour: B-24.
#[test]
fn entries_come_back_after_a_restart_and_numbers_go_on() {
    let (_folder, path) = place();
    let written = entries(1..=1200);
    let mut store = open(&path);
    assert_eq!(store.audit_end(), Ok(0));
    store.append_audit(&written[..700], 10_000).unwrap();
    drop(store);
    let mut store = open(&path);
    assert_eq!(store.audit_end(), Ok(700));
    store.append_audit(&written[700..], 10_000).unwrap();
    drop(store);
    let mut store = open(&path);
    let query = AuditQuery::default();
    assert!(all(&mut store, &query) == (written.clone(), 3));
    let newest_first = AuditQuery {
        newest_first: true,
        ..AuditQuery::default()
    };
    let (mut found, _) = all(&mut store, &newest_first);
    found.reverse();
    assert!(found == written);
    // Libraries come and go without it.
    store.save_library(&library("plant", 3)).unwrap();
    store.remove_library("plant").unwrap();
    assert_eq!(store.audit_end(), Ok(1200));
}

/// A step of which nobody knows whether it was done is done again.
#[test]
fn entries_that_are_appended_again_are_there_once() {
    let (_folder, path) = place();
    let mut store = open(&path);
    let written = entries(1..=30);
    store.append_audit(&written[..20], 100).unwrap();
    store.append_audit(&written[10..], 100).unwrap();
    store.append_audit(&written, 100).unwrap();
    store.append_audit(&[], 100).unwrap();
    assert_eq!(all(&mut store, &AuditQuery::default()).0, written);
}

/// Behaviour: B-24.
#[test]
fn beyond_the_bound_the_oldest_are_removed_and_counted() {
    let (_folder, path) = place();
    let mut store = open(&path);
    for first in (1..=991).step_by(10) {
        store
            .append_audit(&entries(first..=first + 9), 100)
            .unwrap();
    }
    let page = store.audit(&AuditQuery::default()).unwrap();
    assert_eq!((page.removed, page.entries.len()), (900, 100));
    assert_eq!(page.entries, entries(901..=1000));
    // A smaller bound holds from the next entry on; one is always left, so numbers go on.
    store.append_audit(&entries(1001..=1001), 0).unwrap();
    drop(store);
    let page = open(&path).audit(&AuditQuery::default()).unwrap();
    assert_eq!((page.removed, page.entries), (1000, entries(1001..=1001)));
    assert_eq!(open(&path).audit_end(), Ok(1001));
}

#[test]
fn queries_find_by_name_person_time_and_number() {
    let (_folder, path) = place();
    let mut store = open(&path);
    let written = entries(1..=2000);
    store.append_audit(&written, 10_000).unwrap();
    let mut found = |query: AuditQuery| {
        let (found, _) = all(&mut store, &query);
        let expected: Vec<u64> = written
            .iter()
            .filter(|entry| query.matches(entry))
            .filter(|entry| query.from.is_none_or(|from| entry.number >= from))
            .map(|entry| entry.number)
            .collect();
        assert!(numbers(&found) == expected, "{query:?}");
        expected.len()
    };
    let pattern = |text: &str| Some(Pattern::parse(text).expect("it is one"));
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
fn page_ends_after_so_many_entries_whether_they_match_or_not() {
    let (_folder, path) = place();
    let mut store = open(&path);
    let count = AUDIT_SCAN_MAX as u64 + 100;
    store.append_audit(&entries(1..=count), 100_000).unwrap();
    let query = AuditQuery {
        who: Some("nobody".to_owned()),
        ..AuditQuery::default()
    };
    let page = store.audit(&query).unwrap();
    assert_eq!((page.entries.len(), page.next), (0, Some(5_001)));
    assert_eq!(all(&mut store, &query), (Vec::new(), 2));
}

/// Also not another program that opens the file.
///
/// Behaviour: B-24.
#[test]
fn nobody_changes_an_entry_or_takes_one_out_of_the_middle() {
    let (_folder, path) = place();
    let written = entries(1..=9);
    open(&path).append_audit(&written, 100).unwrap();
    let file = Connection::open(&path).unwrap();
    for refused in [
        "UPDATE audit SET who = 'somebody else' WHERE number = 4",
        "UPDATE audit SET number = 100 WHERE number = 9",
        "DELETE FROM audit WHERE number = 4",
        "DELETE FROM audit WHERE number = 9",
        "DELETE FROM audit",
        "INSERT INTO audit SELECT 11, at, who, origin, action, name, type, old, new, outcome, \
         epoch, count, sentence, sum FROM audit WHERE number = 1",
        "INSERT OR REPLACE INTO audit SELECT 4, at, 'x', origin, action, name, type, old, new, \
         outcome, epoch, count, sentence, sum FROM audit WHERE number = 1",
    ] {
        file.execute_batch(refused).expect_err(refused);
    }
    drop(file);
    let mut store = open(&path);
    assert_eq!(all(&mut store, &AuditQuery::default()).0, written);
    let gap = store.append_audit(&entries(11..=12), 100).unwrap_err();
    assert!(matches!(gap.trouble, StoreTrouble::Damaged(_)), "{gap}");
    assert_eq!(all(&mut store, &AuditQuery::default()).0, written);
}

/// A store of the version before this one gets its audit, and keeps what it has.
#[test]
fn store_of_an_older_form_gets_an_audit() {
    let (_folder, path) = place();
    let saved = library("plant", 20);
    let mut store = open(&path);
    store.begin_start().unwrap();
    store.save_library(&saved).unwrap();
    drop(store);
    let older = Connection::open(&path).unwrap();
    let as_it_was = "DROP TABLE audit; DROP TABLE damaged; ALTER TABLE start DROP COLUMN sum; \
                     ALTER TABLE start DROP COLUMN engine_id; \
                     ALTER TABLE library DROP COLUMN sum; ALTER TABLE retained DROP COLUMN sum; \
                     PRAGMA user_version = 1;";
    older.execute_batch(as_it_was).unwrap();
    drop(older);
    let mut store = open(&path);
    let start = store.begin_start().unwrap();
    assert_eq!(start.count, 2);
    assert_ne!(start.engine_id, [0; 16]);
    assert_eq!(store.libraries(), Ok(vec![saved]));
    store.append_audit(&entries(1..=3), 10).unwrap();
    drop(store);
    assert_eq!(open(&path).audit_end(), Ok(3));
}
