//! Tests that a store with any single flipped bit returns the saved content or reports the damage. The store
//! never returns a value that was not stored, and never omits stored content without a report.

#![allow(
    clippy::expect_used,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "tests may panic and print what they skip"
)]

mod rig;

use std::fs;
use std::path::{Path, PathBuf};

use rig::{
    alarm_entries, bound, entries, kept_alarms, library_with_alarms, open, store_path, value,
};
use trunkline_engine::store::{
    Damage, RetainedValue, Start, Store, StoreError, StoreErrorKind, StoredLibrary,
};
use trunkline_store::{SqliteStore, verify_audit};
use trunkline_types::alarm::{AlarmEntry, AlarmJournalQuery, JournalEvent, SavedAlarm};
use trunkline_types::audit::AuditHash;
use trunkline_types::{AuditAction, AuditEntry, AuditQuery, Value};

/// The complete content of a store.
#[derive(Debug)]
struct Contents {
    start: Start,
    libraries: Vec<StoredLibrary>,
    retained: Vec<RetainedValue>,
    audit: Vec<AuditEntry>,
    alarms: Vec<SavedAlarm>,
    journal: Vec<AlarmEntry>,
    damage: Vec<Damage>,
}

fn read(path: &Path) -> Result<Contents, StoreError> {
    let mut store = SqliteStore::open(path)?;
    Ok(Contents {
        damage: store.damage(),
        start: store.record_start()?,
        libraries: store.libraries()?,
        retained: store.retained("plant")?,
        audit: store.audit(&AuditQuery::default())?.entries,
        alarms: store.alarms("plant")?,
        journal: store.alarm_journal(&AlarmJournalQuery::default())?.entries,
    })
}

fn saved_store() -> (tempfile::TempDir, PathBuf) {
    let (folder, path) = store_path();
    let mut store = open(&path);
    store.record_start().expect("the disk has room");
    let values: Vec<_> = (0..20)
        .map(|number| {
            value(
                &format!("plant/v{number}"),
                Value::F64(0x11 as f64 + number as f64),
            )
        })
        .collect();
    store
        .save_library(&library_with_alarms(20, 5))
        .expect("the disk has room");
    store.retain(&values).expect("the disk has room");
    store
        .append_audit(&entries(1..=5), bound(100))
        .expect("the disk has room");
    store
        .keep_alarms(&kept_alarms(5, 0), &alarm_entries(1..=5), bound(100))
        .expect("the disk has room");
    drop(store);
    (folder, path)
}

fn open_flipped(intact_bytes: &[u8], bit: usize, copy: &Path) -> Result<Contents, StoreError> {
    let mut altered = intact_bytes.to_vec();
    altered[bit / 8] ^= 1 << (bit % 8);
    fs::write(copy, altered).expect("the disk has room");
    let found = read(copy);
    for log in ["copy.db-wal", "copy.db-journal"] {
        let _ = fs::remove_file(copy.with_file_name(log));
    }
    found
}

/// Every bit of SQLite's header, and bits of other non-zero bytes, drawn with `SEED`.
#[test]
fn flipped_bit_is_reported_or_harmless() {
    let (folder, path) = saved_store();
    let intact_bytes = fs::read(&path).expect("the file is accessible");
    let copy = folder.path().join("copy.db");
    fs::write(&copy, &intact_bytes).expect("the disk has room");
    let expected = read(&copy).expect("the copy is intact");
    assert_eq!((expected.damage.len(), expected.retained.len()), (0, 20));
    let seed = std::env::var("SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or(1);
    let mut random = fastrand::Rng::with_seed(seed);
    let mut bits: Vec<usize> = (0..100 * 8).collect();
    // The first page has the definitions of the tables; the others have the content.
    for (from, end, count) in [(100, 4096, 200), (4096, intact_bytes.len(), 1000)] {
        let used: Vec<usize> = (from..end).filter(|at| intact_bytes[*at] != 0).collect();
        let mut draw = || used[random.usize(..used.len())] * 8 + random.usize(..8);
        bits.extend((0..count).map(|_| draw()));
    }
    let (mut refused, mut confined) = (0, 0);
    for bit in bits {
        let at = format!("seed {seed}, bit {bit}");
        let found = match open_flipped(&intact_bytes, bit, &copy) {
            Err(error) => {
                let is_reported = matches!(
                    error.kind,
                    StoreErrorKind::Damaged(_) | StoreErrorKind::Newer { .. }
                );
                assert!(is_reported, "{at}: {error}");
                refused += 1;
                continue;
            }
            Ok(found) => found,
        };
        let has_damage = !found.damage.is_empty();
        confined += u32::from(has_damage);
        let is_damaged = |kind: &str| {
            found
                .damage
                .iter()
                .any(|damage| damage.kind.starts_with(kind))
        };
        assert!(
            found.start == expected.start || is_damaged("count"),
            "{at}: {:?}",
            found.start
        );
        assert!(
            found.libraries == expected.libraries || is_damaged("library"),
            "{at}"
        );
        for value in &found.retained {
            assert!(
                expected.retained.contains(value),
                "{at}: {value:?} was never stored"
            );
        }
        let lost = expected.retained.len() - found.retained.len();
        assert!(
            lost == 0 || (lost == 1 && is_damaged("retained")),
            "{at}: {lost} values are missing"
        );
        assert_eq!(found.audit.len(), expected.audit.len(), "{at}");
        // The flipped bit may also be in the entry's number, or in its hash, which is also the hash
        // before the next entry.
        let own_hash = |mut entry: AuditEntry| {
            if let Some(link) = &mut entry.link {
                link.previous = AuditHash::ZERO;
            }
            entry
        };
        let [audit, intact] =
            [found.audit, expected.audit.clone()].map(|all| all.into_iter().map(own_hash));
        let (audit, intact): (Vec<_>, Vec<_>) = (audit.collect(), intact.collect());
        let entries = audit.iter().zip(&intact);
        let changed: Vec<_> = entries
            .filter(|(entry, expected)| entry != expected)
            .collect();
        let are_reported = changed
            .iter()
            .all(|(entry, _)| entry.action == AuditAction::Lost);
        assert!(changed.len() <= 1 && are_reported, "{at}: {changed:?}");
        for kept in &found.alarms {
            assert!(
                expected.alarms.contains(kept),
                "{at}: {kept:?} was never stored"
            );
        }
        let lost = expected.alarms.len() - found.alarms.len();
        assert!(
            lost == 0 || (lost == 1 && is_damaged("state of an alarm")),
            "{at}: {lost} states are missing"
        );
        assert_eq!(found.journal.len(), expected.journal.len(), "{at}");
        let entries = found.journal.iter().zip(&expected.journal);
        let changed: Vec<_> = entries
            .filter(|(entry, expected)| entry != expected)
            .collect();
        let are_reported = changed
            .iter()
            .all(|(entry, _)| entry.event == JournalEvent::Lost(1));
        assert!(changed.len() <= 1 && are_reported, "{at}: {changed:?}");
    }
    eprintln!("{refused} refused, {confined} confined to a row");
    assert!(confined > 100, "{confined} confined to a row");
}

/// The rest of the store stays in use, and every later start reports the damage again.
#[test]
fn damaged_value_is_quarantined_and_reported() {
    let (folder, path) = saved_store();
    let intact_bytes = fs::read(&path).expect("the file is accessible");
    let bytes = [&b"plant/v7"[..]].concat();
    let name = intact_bytes
        .windows(bytes.len())
        .rposition(|some| some == bytes)
        .expect("the file exists");
    let copy = folder.path().join("copy.db");
    // The last byte of the number after the name, the type and its length.
    let altered = (name + bytes.len()..name + bytes.len() + 20)
        .find_map(|at| {
            let found = open_flipped(&intact_bytes, at * 8, &copy).ok()?;
            (found.damage.len() == 1).then_some(found)
        })
        .expect("the file contains the value");
    let expected = Damage {
        kind: "retained value".to_owned(),
        name: "plant/v7".to_owned(),
    };
    assert_eq!(altered.damage, vec![expected.clone()]);
    assert_eq!(altered.retained.len(), 19);
    let again = read(&copy).expect("the rest is intact");
    assert_eq!((again.damage, again.retained.len()), (vec![expected], 19));
}

/// Every byte of the pages that contain the entries, in the file of SQLite itself.
///
/// Behaviour: B-24.
#[test]
fn every_altered_byte_of_the_entries_in_the_file_is_found() {
    let (folder, path) = store_path();
    let mut store = open(&path);
    // The second step removes the oldest entries, so that there is an anchor.
    for numbers in [1..=6, 7..=14] {
        store
            .append_audit(&entries(numbers), bound(12))
            .expect("the disk has room");
    }
    drop(store);
    let copy = folder.path().join("copy.db");
    let pages: Vec<(usize, bool)> = {
        let file = rusqlite::Connection::open(&path).expect("the file is a database");
        let mut select = file
            .prepare(
                "SELECT pageno, name = 'audit' FROM dbstat WHERE name IN ('audit', 'audit_anchor')",
            )
            .expect("SQLite was built with dbstat");
        let pages = select
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
            .expect("it is readable");
        let pages: Vec<(i64, bool)> = pages.collect::<Result<_, _>>().expect("it is readable");
        let pages = pages.into_iter();
        pages
            .map(|(page, is_audit)| (page as usize, is_audit))
            .collect()
    };
    let intact = fs::read(&path).expect("the file is accessible");
    let page_size = usize::from(u16::from_be_bytes([intact[16], intact[17]]));
    let number = |at: usize| usize::from(u16::from_be_bytes([intact[at], intact[at + 1]]));
    let verify = |bytes: &[u8]| {
        fs::write(&copy, bytes).expect("the disk has room");
        verify_audit(&copy, None)
    };
    let report = verify(&intact)
        .expect("the copy is intact")
        .expect("it has a chain");
    assert!(report.is_intact() && report.entries > 9, "{report:?}");
    let (mut found, mut damaged) = (0, 0);
    for (page, is_audit) in pages {
        let page = (page - 1) * page_size;
        if intact[page] != 13 {
            // An interior page has no rows.
            continue;
        }
        // Cells are found by their pointers. Space between them was freed by removed entries.
        let cells: Vec<usize> = (0..number(page + 3))
            .map(|cell| page + number(page + 8 + 2 * cell))
            .collect();
        for cell in cells {
            let (length, used) = varint(&intact[cell..]);
            let (_, key) = varint(&intact[cell + used..]);
            let end = cell + used + key + length as usize;
            assert!(end <= page + page_size, "the rows need no overflow pages");
            // The number of an entry is the key of its row. The key of the anchor has no meaning.
            let is_content =
                |at: &usize| is_audit || !(cell + used..cell + used + key).contains(at);
            for at in (cell..end).filter(is_content) {
                let mut altered = intact.clone();
                altered[at] ^= 0x01;
                match verify(&altered) {
                    Ok(Some(report)) => {
                        assert!(!report.is_intact(), "byte {at} is not found");
                        found += 1;
                    }
                    Ok(None) => panic!("byte {at}: no chain"),
                    Err(error) => {
                        let is_damage = matches!(error.kind, StoreErrorKind::Damaged(_));
                        assert!(is_damage, "byte {at}: {error}");
                        damaged += 1;
                    }
                }
            }
        }
    }
    assert!(found > 1_000, "{found} found, {damaged} reported by SQLite");
}

/// Reads SQLite's variable-length number. Returns the number and its length in bytes.
fn varint(bytes: &[u8]) -> (u64, usize) {
    let mut number = 0;
    for (index, byte) in bytes.iter().take(8).enumerate() {
        number = number << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return (number, index + 1);
        }
    }
    (number << 8 | u64::from(bytes[8]), 9)
}

#[test]
fn emptied_store_is_not_treated_as_new() {
    let (_folder, path) = saved_store();
    fs::write(&path, "").expect("the file is accessible");
    for log in ["store.db-wal", "store.db-shm"] {
        let _ = fs::remove_file(path.with_file_name(log));
    }
    let error = SqliteStore::open(&path).expect_err("the file was a store");
    assert!(matches!(error.kind, StoreErrorKind::Damaged(_)), "{error}");
}

#[test]
fn store_removed_or_replaced_while_in_use_is_reported() {
    let (folder, path) = saved_store();
    let aside = folder.path().join("aside.db");
    let mut store = open(&path);
    assert_eq!(store.check_place(), Ok(()));
    fs::rename(&path, &aside).expect("the file is accessible");
    let is_replaced = |result: Result<(), StoreError>| {
        result.map_err(|error| error.kind) == Err(StoreErrorKind::Replaced)
    };
    assert!(is_replaced(store.check_place()));
    assert!(is_replaced(
        store.retain(&[value("plant/v1", Value::F64(1.0))])
    ));
    fs::copy(&aside, &path).expect("the disk has room");
    assert!(is_replaced(
        store.retain(&[value("plant/v1", Value::F64(1.0))])
    ));
    fs::rename(&aside, &path).expect("the file is accessible");
    assert_eq!(store.check_place(), Ok(()));
    assert_eq!(store.retain(&[value("plant/v1", Value::F64(1.0))]), Ok(()));
}

#[test]
fn store_is_readable_only_by_its_user() {
    use std::os::unix::fs::PermissionsExt;
    let (_folder, path) = saved_store();
    let mode = |path: &Path| {
        fs::metadata(path)
            .expect("the file is accessible")
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!(mode(&path), 0o600);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("the file is accessible");
    let mut store = open(&path);
    store.record_start().expect("the disk has room");
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(&path.with_file_name("store.db-wal")), 0o600, "its log");
}
