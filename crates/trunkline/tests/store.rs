//! The state that an engine keeps: libraries, their states and values, across stops and starts,
//! with a working store and with a failing one.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use trunkline::store::{
    LibraryState, LogBound, RetainedValue, Start, Store, StoreError, StoreErrorKind, StoredLibrary,
};
use trunkline::types::alarm::{AlarmEntry, AlarmJournalPage, AlarmJournalQuery, SavedAlarm};
use trunkline::types::audit::AuditHead;
use trunkline::types::{
    AuditEntry, AuditPage, AuditQuery, DataType, LibraryDefinition, Properties, Reason, Value,
    VariableDefinition,
};
use trunkline::{Engine, EngineOptions, LibraryError, StartError};

/// Limit that only a hanging test reaches.
const TIMEOUT: Duration = Duration::from_secs(60);

fn options(store: &Path) -> EngineOptions {
    EngineOptions {
        store: Some(store.to_owned()),
        ..EngineOptions::default()
    }
}

fn place() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("there is room");
    let path = folder.path().join("store.db");
    (folder, path)
}

fn retained(path: &str) -> VariableDefinition {
    let mut properties = Properties::new(DataType::F64);
    properties.retain = true;
    properties.initial = Some(Value::F64(-1.0));
    VariableDefinition {
        path: path.to_owned(),
        properties: properties.into(),
    }
}

fn rig() -> LibraryDefinition {
    let mut forgotten = retained("forgotten");
    Arc::make_mut(&mut forgotten.properties).retain = false;
    LibraryDefinition {
        name: "rig".to_owned(),
        description: "a test rig".to_owned(),
        variables: vec![retained("kept"), retained("untouched"), forgotten],
    }
}

fn write(engine: &Engine, name: &str, value: f64) {
    let variable = engine.variable::<f64>(name).expect("the variable exists");
    variable.write(value).expect("the write is accepted");
}

fn read(engine: &Engine, name: &str) -> (f64, Reason) {
    let held = engine
        .variable::<f64>(name)
        .expect("the variable exists")
        .read();
    let held = held.expect("it can be read");
    (held.value, held.quality.reason())
}

/// A written value survives the next start, with the time at which it was measured; it takes
/// precedence over the initial one.
///
/// Behaviour: DP-06, H-17.
#[test]
fn libraries_and_retained_values_survive_a_restart() {
    let (_folder, path) = place();
    let engine = Engine::start(options(&path)).expect("the engine starts");
    engine.deploy(&rig()).expect("there is room");
    write(&engine, "rig/kept", 41.0);
    write(&engine, "rig/kept", 42.0);
    write(&engine, "rig/forgotten", 7.0);
    let measured = engine.variable::<f64>("rig/kept").unwrap().read().unwrap();
    drop(engine);

    let engine = Engine::start(options(&path)).expect("the engine starts");
    assert_eq!(engine.libraries(), [("rig".to_owned(), 3)]);
    assert_eq!(read(&engine, "rig/kept"), (42.0, Reason::Retained));
    assert_eq!(read(&engine, "rig/untouched"), (-1.0, Reason::Initial));
    assert_eq!(read(&engine, "rig/forgotten"), (-1.0, Reason::Initial));
    let held = engine.variable::<f64>("rig/kept").unwrap().read().unwrap();
    assert_eq!(held.source_timestamp, measured.source_timestamp);
    assert_eq!(held.position.sequence, 1);
    assert!(held.position.epoch > measured.position.epoch);
    // Nothing new was written, and the value is still there after another start.
    drop(engine);
    let engine = Engine::start(options(&path)).expect("the engine starts");
    assert_eq!(read(&engine, "rig/kept"), (42.0, Reason::Retained));
}

/// Behaviour: DP-07, DP-16.
#[test]
fn stopped_library_stays_stopped_and_undeployed_one_stays_removed() {
    let (_folder, path) = place();
    let engine = Engine::start(options(&path)).expect("the engine starts");
    engine.deploy(&rig()).expect("there is room");
    let mut other = rig();
    other.name = "other".to_owned();
    engine.deploy(&other).expect("there is room");
    write(&engine, "rig/kept", 5.0);
    write(&engine, "other/kept", 6.0);
    assert_eq!(engine.stop_library("rig"), Ok(true));
    assert_eq!(engine.undeploy("other"), Ok(3));
    engine.shutdown(TIMEOUT);
    drop(engine);

    let engine = Engine::start(options(&path)).expect("the engine starts");
    assert_eq!(engine.libraries(), [("rig".to_owned(), 3)]);
    assert_eq!(read(&engine, "rig/kept"), (5.0, Reason::ProcessMissing));
    assert_eq!(engine.start_library("rig"), Ok(true));
    assert_eq!(read(&engine, "rig/kept"), (5.0, Reason::Retained));
    // Values that were removed with a library are not found by a new one of the same name.
    engine.deploy(&other).expect("there is room");
    assert_eq!(read(&engine, "other/kept"), (-1.0, Reason::Initial));
}

#[test]
fn replaced_library_is_stored_in_its_new_form() {
    let (_folder, path) = place();
    let engine = Engine::start(options(&path)).expect("the engine starts");
    engine.deploy(&rig()).expect("there is room");
    write(&engine, "rig/kept", 5.0);
    let mut changed = rig();
    changed.variables.remove(1);
    Arc::make_mut(&mut changed.variables[0].properties).units = "V".to_owned();
    engine.replace(&changed).expect("there is room");
    drop(engine);
    let engine = Engine::start(options(&path)).expect("the engine starts");
    assert_eq!(engine.libraries(), [("rig".to_owned(), 2)]);
    assert_eq!(read(&engine, "rig/kept"), (5.0, Reason::Retained));
}

#[test]
fn configured_library_replaces_a_stored_one() {
    let (_folder, path) = place();
    let engine = Engine::start(options(&path)).expect("the engine starts");
    engine.deploy(&rig()).expect("there is room");
    drop(engine);
    let text = "[library]\nname = \"rig\"\n[[variable]]\nname = \"other\"\ntype = \"f64\"\n";
    let mut plan = trunkline::config::parse("rig.toml", text).expect("the configuration is valid");
    plan.engine.listen = vec!["127.0.0.1:0".parse().unwrap()];
    plan.engine.store = trunkline::config::StoreChoice::File(path.clone());
    let engine = Engine::from_plan(&plan).expect("it starts");
    assert_eq!(engine.libraries(), [("rig".to_owned(), 1)]);
    assert_eq!(engine.shadowed_libraries(), ["rig"]);
    drop(engine);
    let engine = Engine::start(options(&path)).expect("the engine starts");
    assert_eq!(engine.libraries(), [("rig".to_owned(), 3)]);
}

#[test]
fn engine_that_cannot_have_its_store_does_not_start() {
    let (folder, path) = place();
    let first = Engine::start(options(&path)).expect("the engine starts");
    let error_kind = |path: &Path| match Engine::start(options(path)) {
        Err(StartError::Store(error)) => error.kind,
        other => panic!("it has no store, and {other:?}"),
    };
    assert_eq!(error_kind(&path), StoreErrorKind::InUse);
    assert!(matches!(
        error_kind(&folder.path().join("missing/store.db")),
        StoreErrorKind::CannotOpen(_)
    ));
    std::fs::write(folder.path().join("letter"), "Dear store, ".repeat(100)).unwrap();
    assert!(matches!(
        error_kind(&folder.path().join("letter")),
        StoreErrorKind::Damaged(_)
    ));
    drop(first);
}

/// A store in memory that fails on command.
#[derive(Clone, Default)]
struct Faulty {
    fails: Arc<AtomicBool>,
    libraries: Arc<Mutex<Vec<StoredLibrary>>>,
    values: Arc<Mutex<Vec<RetainedValue>>>,
}

impl Faulty {
    fn check(&self) -> Result<(), StoreError> {
        match self.fails.load(Ordering::Acquire) {
            false => Ok(()),
            true => Err(StoreError {
                location: "in memory".to_owned(),
                kind: StoreErrorKind::Full,
            }),
        }
    }
}

impl Store for Faulty {
    fn location(&self) -> String {
        "in memory".to_owned()
    }

    fn record_start(&mut self) -> Result<Start, StoreError> {
        let start = Start {
            engine_id: [1; 16],
            count: 1,
        };
        self.check().map(|()| start)
    }

    fn libraries(&mut self) -> Result<Vec<StoredLibrary>, StoreError> {
        self.check()?;
        Ok(self.libraries.lock().unwrap().clone())
    }

    fn save_library(&mut self, library: &StoredLibrary) -> Result<(), StoreError> {
        self.check()?;
        let mut libraries = self.libraries.lock().unwrap();
        libraries.retain(|known| known.definition.name != library.definition.name);
        libraries.push(library.clone());
        Ok(())
    }

    fn set_state(&mut self, _name: &str, _state: LibraryState) -> Result<(), StoreError> {
        self.check()
    }

    fn remove_library(&mut self, name: &str) -> Result<(), StoreError> {
        self.check()?;
        let mut libraries = self.libraries.lock().unwrap();
        libraries.retain(|known| known.definition.name != name);
        Ok(())
    }

    fn retained(&mut self, _library: &str) -> Result<Vec<RetainedValue>, StoreError> {
        self.check()?;
        Ok(Vec::new())
    }

    fn retain(&mut self, values: &[RetainedValue]) -> Result<(), StoreError> {
        self.check()?;
        self.values.lock().unwrap().extend_from_slice(values);
        Ok(())
    }

    fn audit_end(&mut self) -> Result<AuditHead, StoreError> {
        self.check().map(|()| AuditHead::default())
    }

    fn append_audit(
        &mut self,
        entries: &[AuditEntry],
        _bound: LogBound,
    ) -> Result<AuditHead, StoreError> {
        self.check().map(|()| AuditHead {
            number: entries.last().map_or(0, |last| last.number),
            ..AuditHead::default()
        })
    }

    fn audit(&mut self, _query: &AuditQuery) -> Result<AuditPage, StoreError> {
        self.check().map(|()| AuditPage::default())
    }

    fn alarms(&mut self, _library: &str) -> Result<Vec<SavedAlarm>, StoreError> {
        Ok(Vec::new())
    }

    fn keep_only_alarms(&mut self, _library: &LibraryDefinition) -> Result<(), StoreError> {
        self.check()
    }

    fn alarm_journal_end(&mut self) -> Result<u64, StoreError> {
        self.check().map(|()| 0)
    }

    fn keep_alarms(
        &mut self,
        _states: &[SavedAlarm],
        entries: &[AlarmEntry],
        _bound: LogBound,
    ) -> Result<u64, StoreError> {
        self.check()?;
        Ok(entries.last().map_or(0, |last| last.number))
    }

    fn alarm_journal(
        &mut self,
        _query: &AlarmJournalQuery,
    ) -> Result<AlarmJournalPage, StoreError> {
        self.check()?;
        Ok(AlarmJournalPage::default())
    }
}

fn fails_to_store(result: Result<impl std::fmt::Debug, LibraryError>) {
    match result {
        Err(LibraryError::Store(error)) => assert!(error.to_string().contains("free some space")),
        other => panic!("it cannot be stored, and {other:?}"),
    }
}

#[test]
fn orders_that_cannot_be_stored_fail_without_side_effects() {
    let store = Faulty::default();
    let boxed = Box::new(store.clone());
    let engine = Engine::start_with_store(EngineOptions::default(), Some(boxed)).unwrap();
    engine.deploy(&rig()).expect("there is room");
    write(&engine, "rig/kept", 1.0);

    store.fails.store(true, Ordering::Release);
    let mut other = rig();
    other.name = "other".to_owned();
    fails_to_store(engine.deploy(&other));
    fails_to_store(engine.replace(&rig()));
    fails_to_store(engine.undeploy("rig"));
    fails_to_store(engine.stop_library("rig"));
    assert_eq!(engine.libraries(), [("rig".to_owned(), 3)]);
    write(&engine, "rig/kept", 2.0);
    assert_eq!(read(&engine, "rig/kept"), (2.0, Reason::None));

    store.fails.store(false, Ordering::Release);
    engine.deploy(&other).expect("there is room again");
    assert_eq!(store.libraries.lock().unwrap().len(), 2);
}

/// Values that cannot be stored wait, the newest of each, until they can be.
#[test]
fn values_are_stored_as_soon_as_the_store_recovers() {
    let store = Faulty::default();
    let boxed = Box::new(store.clone());
    let engine = Engine::start_with_store(EngineOptions::default(), Some(boxed)).unwrap();
    engine.deploy(&rig()).expect("there is room");
    store.fails.store(true, Ordering::Release);
    write(&engine, "rig/kept", 1.0);
    while engine.store_error().is_none() {
        thread::yield_now();
    }
    write(&engine, "rig/kept", 2.0);
    store.fails.store(false, Ordering::Release);
    while store.values.lock().unwrap().is_empty() {
        thread::yield_now();
    }
    while engine.store_error().is_some() {
        thread::yield_now();
    }
    let newest = store.values.lock().unwrap().last().unwrap().clone();
    assert_eq!(newest.name, "rig/kept");
    assert_eq!(newest.value.as_slice(), 2.0_f64.to_le_bytes());
}

/// An engine starts on a full disk: it serves its configured files, reports that it stores nothing,
/// and stores everything as soon as there is room.
#[test]
fn engine_starts_on_a_full_disk() {
    let store = Faulty::default();
    store.fails.store(true, Ordering::Release);
    let boxed = Box::new(store.clone());
    let engine = Engine::start_with_store(EngineOptions::default(), Some(boxed)).unwrap();
    let error = engine.store_error().expect("it is known at once");
    assert_eq!(error.kind, StoreErrorKind::Full);
    fails_to_store(engine.deploy(&rig()));

    store.fails.store(false, Ordering::Release);
    engine.deploy(&rig()).expect("there is room again");
    write(&engine, "rig/kept", 2.0);
    while store.values.lock().unwrap().is_empty() || engine.store_error().is_some() {
        thread::yield_now();
    }
}

#[test]
fn damaged_row_or_missing_store_is_reported_and_the_rest_served() {
    let (folder, path) = place();
    let engine = Engine::start(options(&path)).expect("the engine starts");
    engine.deploy(&rig()).expect("there is room");
    write(&engine, "rig/kept", 5.0);
    drop(engine);
    let whole = std::fs::read(&path).unwrap();
    let value = 5.0_f64.to_le_bytes();
    let at = whole
        .windows(8)
        .rposition(|some| some == value)
        .expect("it is stored");
    let mut altered = whole;
    altered[at] ^= 1;
    std::fs::write(&path, altered).unwrap();

    let engine = Engine::start(options(&path)).expect("the rest is whole");
    assert_eq!(engine.libraries(), [("rig".to_owned(), 3)]);
    let (value, reason) = read(&engine, "rig/kept");
    assert_eq!(
        (value, reason),
        (-1.0, Reason::Initial),
        "not the altered value"
    );
    let damage = engine.store_damage().expect("it is told");
    assert!(damage.contains("retained value rig/kept"), "{damage}");

    let aside = folder.path().join("aside");
    std::fs::rename(&path, &aside).unwrap();
    let error = engine.store_error().expect("it is told");
    assert_eq!(error.kind, StoreErrorKind::Replaced);
    std::fs::rename(&aside, &path).unwrap();
    write(&engine, "rig/kept", 6.0);
    drop(engine);
    let engine = Engine::start(options(&path)).expect("the engine starts");
    assert_eq!(read(&engine, "rig/kept"), (6.0, Reason::Retained));
}
