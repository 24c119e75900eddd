//! Tests that a store returns the saved content, and refuses files that are not an intact store.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

mod rig;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use rig::{library, open, store_path, value};
use trunkline_engine::LibraryState;
use trunkline_engine::store::{Start, Store, StoreErrorKind, StoredLibrary};
use trunkline_store::SqliteStore;
use trunkline_types::{DataType, Value};

/// Opens the store at this path, and returns the error.
fn error_kind(path: &PathBuf) -> StoreErrorKind {
    SqliteStore::open(path)
        .expect_err("the store cannot be opened")
        .kind
}

#[test]
fn every_start_has_a_higher_number_and_the_identity_of_the_store() {
    let (_folder, path) = store_path();
    let first = open(&path).record_start().expect("the disk has room");
    assert_eq!(first.count, 1);
    for count in 2..=5 {
        let expected = Start { count, ..first };
        assert_eq!(open(&path).record_start(), Ok(expected));
    }
    let (_other_folder, other_path) = store_path();
    let other = open(&other_path).record_start().expect("the disk has room");
    assert_eq!(other.count, 1);
    assert_ne!(other.engine_id, first.engine_id);
}

/// After a backup was restored or a store was recreated, two starts can have the same count. Their epochs
/// differ nevertheless, and every JSON parser reads the epochs exactly.
#[test]
fn epochs_of_equal_counts_differ_and_are_exact_in_json() {
    let start = |count| Start {
        engine_id: [1; 16],
        count,
    };
    for count in [0, 1, 2, u64::from(u32::MAX), u64::MAX] {
        let epochs = [0, 1, u64::MAX].map(|random| start(count).epoch(random));
        assert!(epochs.iter().all(|epoch| (1..1 << 53).contains(epoch)));
        assert_ne!(epochs[1], epochs[2]);
    }
    assert_ne!(start(1).epoch(7), start(2).epoch(7));
}

/// Behaviour: DP-06.
#[test]
fn libraries_are_restored_in_order_with_their_states() {
    let (_folder, path) = store_path();
    let libraries = [library("b", 3), library("a", 0), library("c", 1000)];
    let mut store = open(&path);
    for library in &libraries {
        store.save_library(library).expect("the disk has room");
    }
    store
        .set_state("a", LibraryState::Stopped)
        .expect("the disk has room");
    store
        .set_state("unknown", LibraryState::Stopped)
        .expect("the disk has room");
    drop(store);
    let mut expected = libraries.to_vec();
    expected[1].state = LibraryState::Stopped;
    assert_eq!(open(&path).libraries(), Ok(expected.clone()));

    // A library that is saved again keeps its place.
    expected[0] = library("b", 7);
    let mut store = open(&path);
    store.save_library(&expected[0]).expect("the disk has room");
    assert_eq!(store.libraries(), Ok(expected.clone()));
    store.remove_library("a").expect("the disk has room");
    store.remove_library("unknown").expect("the disk has room");
    drop(store);
    expected.remove(1);
    assert_eq!(open(&path).libraries(), Ok(expected));
}

#[test]
fn retained_values_belong_to_the_variables_of_their_library() {
    let (_folder, path) = store_path();
    let mut store = open(&path);
    store
        .save_library(&library("plant", 3))
        .expect("the disk has room");
    let values = [
        value("plant/v0", Value::F64(0.5)),
        value("plant/v1", Value::F64(1.5)),
        value("plant/v2", Value::F64(2.5)),
    ];
    // These names begin with the same letters as the names of the library, and sort before and after them.
    let others = [
        value("plan/v0", Value::Bool(true)),
        value("plant two/v0", Value::Bool(true)),
        value("plants/v0", Value::Bool(true)),
    ];
    store.retain(&values).expect("the disk has room");
    store.retain(&others).expect("the disk has room");
    assert_eq!(store.retained("plant"), Ok(values.to_vec()));
    let newer = value("plant/v1", Value::F64(-1.0));
    store
        .retain(std::slice::from_ref(&newer))
        .expect("the disk has room");
    drop(store);

    let mut store = open(&path);
    let expected = [values[0].clone(), newer, values[2].clone()];
    assert_eq!(store.retained("plant"), Ok(expected.to_vec()));
    // The library loses a variable, and another variable changes its type.
    let mut smaller = library("plant", 2);
    smaller.definition.variables[1] =
        trunkline_types::VariableDefinition::new("v1", DataType::Bool);
    store.save_library(&smaller).expect("the disk has room");
    assert_eq!(store.retained("plant"), Ok(expected[..1].to_vec()));
    store.remove_library("plant").expect("the disk has room");
    assert_eq!(store.retained("plant"), Ok(Vec::new()));
    assert_eq!(store.retained("plan").map(|values| values.len()), Ok(1));
    assert_eq!(
        store.retained("plant two").map(|values| values.len()),
        Ok(1)
    );
}

#[test]
fn second_engine_gets_the_error_that_the_store_is_in_use() {
    let (_folder, path) = store_path();
    let first = open(&path);
    assert_eq!(error_kind(&path), StoreErrorKind::InUse);
    drop(first);
    open(&path);
}

#[test]
fn foreign_file_is_refused_and_not_modified() {
    let (_folder, path) = store_path();
    fs::write(
        &path,
        "this is a letter, not a database, and long enough to be one".repeat(50),
    )
    .expect("the disk has room");
    let before = fs::read(&path).expect("the file is accessible");
    assert!(matches!(error_kind(&path), StoreErrorKind::Damaged(_)));
    assert_eq!(fs::read(&path).expect("the file is accessible"), before);

    let (_folder, path) = store_path();
    let other = rusqlite::Connection::open(&path).expect("the disk has room");
    other
        .execute_batch("CREATE TABLE recipe (name TEXT)")
        .expect("the disk has room");
    drop(other);
    let StoreErrorKind::Damaged(what) = error_kind(&path) else {
        panic!("the file is not a store");
    };
    assert!(what.contains("another program"), "{what}");
}

#[test]
fn store_of_a_newer_version_is_refused() {
    let (_folder, path) = store_path();
    drop(open(&path));
    let newer = rusqlite::Connection::open(&path).expect("the file exists");
    newer
        .pragma_update(None, "user_version", 99)
        .expect("the disk has room");
    drop(newer);
    assert_eq!(
        error_kind(&path),
        StoreErrorKind::Newer {
            found: 99,
            known: 6
        }
    );
}

#[test]
fn missing_folder_and_folder_instead_of_a_file_are_reported() {
    let (folder, _) = store_path();
    let missing = folder.path().join("missing/store.db");
    assert!(matches!(
        error_kind(&missing),
        StoreErrorKind::CannotOpen(_)
    ));
    let kind = error_kind(&folder.path().to_owned());
    assert_eq!(kind, StoreErrorKind::Folder);
    assert_eq!(kind.to_string(), "is a folder; specify a file");
}

#[test]
fn read_only_file_is_reported() {
    let (_folder, path) = store_path();
    drop(open(&path));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).expect("the file is accessible");
    if fs::OpenOptions::new().write(true).open(&path).is_ok() {
        eprintln!("this user may write every file: a read-only file cannot be made");
        return;
    }
    assert_eq!(error_kind(&path), StoreErrorKind::ReadOnly);
}

/// A truncated store is opened with all its libraries, or refused as damaged. Altered bytes cause no panic.
#[test]
fn truncated_or_altered_file_is_refused_or_complete() {
    let (folder, path) = store_path();
    let saved = library("plant", 200);
    let mut store = open(&path);
    store.save_library(&saved).expect("the disk has room");
    store
        .retain(&[value("plant/v0", Value::F64(1.0))])
        .expect("the disk has room");
    drop(store);
    let intact_bytes = fs::read(&path).expect("the file is accessible");
    let copy = folder.path().join("copy.db");
    let open_copy = |bytes: &[u8]| {
        fs::write(&copy, bytes).expect("the disk has room");
        let found = SqliteStore::open(&copy).and_then(|mut store| {
            store.record_start()?;
            store.retained("plant")?;
            store.libraries()
        });
        for log in ["copy.db-wal", "copy.db-journal"] {
            let _ = fs::remove_file(folder.path().join(log));
        }
        found
    };
    assert!(open_copy(&intact_bytes) == Ok(vec![saved.clone()]));
    for cut in (1..intact_bytes.len()).step_by(509) {
        match open_copy(&intact_bytes[..cut]) {
            Err(error) => assert!(matches!(error.kind, StoreErrorKind::Damaged(_)), "{error}"),
            Ok(libraries) => assert!(libraries == [saved.clone()], "cut at {cut}"),
        }
    }
    for at in (0..intact_bytes.len()).step_by(97) {
        let mut altered = intact_bytes.clone();
        altered[at] ^= 0x55;
        // The store may or may not report the altered bytes.
        let _: Result<Vec<StoredLibrary>, _> = open_copy(&altered);
    }
}
