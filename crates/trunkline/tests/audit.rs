//! The audit of an engine across restarts: with a working store, with a failing store, and without
//! a store.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use trunkline::local::{Refusal, WriteError};
use trunkline::store::{
    LibraryState, LogBound, RetainedValue, SqliteStore, Start, Store, StoreError, StoreErrorKind,
    StoredLibrary,
};
use trunkline::types::alarm::{AlarmEntry, AlarmJournalPage, AlarmJournalQuery, SavedAlarm};
use trunkline::types::audit::{AuditHead, ChainCheck};
use trunkline::types::{
    AuditAction, AuditEntry, AuditMode, AuditOutcome, AuditPage, AuditQuery, DataType,
    LibraryDefinition, Properties, Timestamp, VariableDefinition,
};
use trunkline::{Engine, EngineOptions, LibraryError};

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

fn rig() -> LibraryDefinition {
    rig_with(AuditMode::Complete)
}

fn rig_with(audit: AuditMode) -> LibraryDefinition {
    let mut properties = Properties::new(DataType::F64);
    properties.audit = audit;
    LibraryDefinition {
        name: "rig".to_owned(),
        description: "a test rig".to_owned(),
        variables: vec![VariableDefinition {
            path: "x".to_owned(),
            properties: properties.into(),
        }],
    }
}

fn write(engine: &Engine, value: f64) {
    let variable = engine
        .variable::<f64>("rig/x")
        .expect("the variable exists");
    variable.write(value).expect("the write is accepted");
}

fn everything(engine: &Engine) -> AuditPage {
    let page = engine
        .audit(&AuditQuery::default())
        .expect("the audit is readable");
    let numbers = page.entries.iter().map(|entry| entry.number);
    assert!(
        numbers.eq(page.removed + 1..=page.removed + page.entries.len() as u64),
        "without a gap"
    );
    page
}

/// Checks that the entries, which are all that are kept, are an intact chain.
fn assert_chained(entries: &[AuditEntry]) {
    let mut check = ChainCheck::new(None);
    entries.iter().for_each(|entry| check.push(entry));
    let report = check.finish();
    assert!(report.is_intact(), "{:?}", report.faults);
}

fn told(entries: &[AuditEntry]) -> Vec<String> {
    let told = |entry: &AuditEntry| {
        let (action, name, outcome) = (entry.action, &entry.name, entry.outcome.name());
        let old = &entry.old;
        let new = match entry.new.strip_prefix("epoch ") {
            Some(_) => "epoch N",
            None => &entry.new,
        };
        format!("{action} {name} {old} -> {new}: {outcome}")
    };
    entries.iter().map(told).collect()
}

/// Behaviour: B-24.
#[test]
fn audit_continues_across_restarts_and_shows_orderly_stops() {
    let (_folder, path) = place();
    let engine = Engine::start(options(&path)).expect("the engine starts");
    engine.deploy(&rig()).expect("there is room");
    write(&engine, 1.0);
    engine.stop_library("rig").expect("the library is deployed");
    engine.stop_library("rig").expect("the library is deployed");
    engine
        .start_library("rig")
        .expect("the library is deployed");
    engine.undeploy("other").expect_err("there is none");
    drop(engine);
    let engine = Engine::start(options(&path)).expect("the engine starts");
    write(&engine, 2.0);
    engine.replace(&rig()).expect("there is room");
    engine.undeploy("rig").expect("the library is deployed");
    let page = everything(&engine);
    assert_eq!(
        told(&page.entries),
        [
            "engine start   -> epoch N: done",
            "deploy rig  -> 1 added: done",
            "put rig/x  -> 1.0: applied",
            "stop rig  -> : done",
            "stop rig  -> nothing changed: done",
            "start rig  -> : done",
            "undeploy other  -> : refused",
            "engine stop   -> : done",
            "engine start   -> epoch N: done",
            "put rig/x  -> 2.0: applied",
            "deploy rig  -> nothing changed: done",
            "undeploy rig  -> 1 removed: done",
        ]
    );
    let who = &page.entries[1].who;
    assert!(who.starts_with("local:"), "{who}");
    assert_eq!(page.entries[1].from, "this process");
    assert!(page.state.contains("store.db"), "{}", page.state);
    let times = page.entries.iter().map(|entry| entry.when);
    assert!(times.is_sorted());
    assert_chained(&page.entries);
    let ticks = |entries: &[AuditEntry]| entries.iter().map(|entry| entry.monotonic).is_sorted();
    assert!(ticks(&page.entries[..8]) && ticks(&page.entries[8..]));
}

/// Behaviour: B-24.
#[test]
fn oldest_entries_beyond_the_bound_are_removed_and_counted() {
    let (_folder, path) = place();
    let bounded = EngineOptions {
        audit_entries: 50,
        ..options(&path)
    };
    let engine = Engine::start(bounded).expect("the engine starts");
    engine.deploy(&rig()).expect("there is room");
    for number in 1..=298 {
        write(&engine, f64::from(number));
    }
    let page = everything(&engine);
    assert!(
        (46..=50).contains(&page.entries.len()),
        "{}",
        page.entries.len()
    );
    let mut puts = page
        .entries
        .iter()
        .filter(|entry| entry.action == AuditAction::Put);
    assert_eq!(puts.next_back().unwrap().new, "298.0");
    let is_removal = |entry: &&AuditEntry| entry.action == AuditAction::Removed;
    let removal = page.entries.iter().rfind(is_removal).expect("it says so");
    let range = format!(" to {}, from ", page.removed);
    assert!(removal.new.contains(&range), "{}", removal.new);
    assert_chained(&page.entries);
}

#[test]
fn without_a_store_entries_are_kept_in_memory_and_marked_so() {
    let engine = Engine::start(EngineOptions::default()).expect("the engine starts");
    engine.deploy(&rig()).expect("there is room");
    for number in 1..=10_100 {
        write(&engine, f64::from(number));
        if number % 1000 == 0 {
            // The pauses keep the engine's queue from becoming full.
            everything_once(&engine);
        }
    }
    let newest = AuditQuery {
        newest_first: true,
        limit: 2,
        ..AuditQuery::default()
    };
    let page = engine.audit(&newest).expect("memory");
    // A tenth at a time, of the entries that had arrived by then: it depends on when the entries
    // were taken.
    let removed = page.removed;
    assert!((1_001..=1_102).contains(&removed), "{removed}");
    assert_eq!(page.entries[0].new, "10100.0");
    assert_eq!(page.entries[0].number, 10_103);
    assert_eq!(page.next, Some(10_101));
    let kept = all_from(&engine, 1);
    let numbers = kept.iter().map(|entry| entry.number);
    assert!(numbers.eq(removed + 1..=10_103), "without a gap");
    assert_chained(&kept);
    let is_removal = |entry: &&AuditEntry| entry.action == AuditAction::Removed;
    let removals: Vec<&AuditEntry> = kept.iter().filter(is_removal).collect();
    let [removal] = removals[..] else {
        panic!("{removals:?}");
    };
    let range = format!("1 to {removed}, from ");
    assert!(removal.new.contains(&range), "{}", removal.new);
    assert!(page.state.contains("no store"), "{}", page.state);
    let gone = AuditQuery {
        newest_first: true,
        from: Some(removed),
        ..AuditQuery::default()
    };
    assert_eq!(engine.audit(&gone).expect("memory").entries, []);
    let oldest = AuditQuery {
        from: Some(1),
        limit: 1,
        ..AuditQuery::default()
    };
    assert_eq!(
        engine.audit(&oldest).expect("memory").entries[0].number,
        removed + 1
    );
    let end = AuditQuery {
        from: Some(20_000),
        ..AuditQuery::default()
    };
    assert_eq!(engine.audit(&end).expect("memory").entries, []);
}

/// Returns all entries from this number on.
fn all_from(engine: &Engine, number: u64) -> Vec<AuditEntry> {
    let mut entries = Vec::new();
    let mut from = Some(number);
    while from.is_some() {
        let query = AuditQuery {
            from,
            ..AuditQuery::default()
        };
        let page = engine.audit(&query).expect("memory");
        entries.extend(page.entries);
        from = page.next;
    }
    entries
}

fn everything_once(engine: &Engine) {
    engine.audit(&AuditQuery::default()).expect("memory");
}

/// A store that fails on command.
struct Switch {
    fails: Arc<AtomicBool>,
    inner: SqliteStore,
}

impl Switch {
    fn check(&self) -> Result<(), StoreError> {
        match self.fails.load(Ordering::Acquire) {
            false => Ok(()),
            true => Err(StoreError {
                location: self.inner.location(),
                kind: StoreErrorKind::Full,
            }),
        }
    }
}

impl Store for Switch {
    fn location(&self) -> String {
        self.inner.location()
    }

    fn record_start(&mut self) -> Result<Start, StoreError> {
        self.inner.record_start()
    }

    fn libraries(&mut self) -> Result<Vec<StoredLibrary>, StoreError> {
        self.inner.libraries()
    }

    fn save_library(&mut self, library: &StoredLibrary) -> Result<(), StoreError> {
        self.check()?;
        self.inner.save_library(library)
    }

    fn set_state(&mut self, name: &str, state: LibraryState) -> Result<(), StoreError> {
        self.check()?;
        self.inner.set_state(name, state)
    }

    fn remove_library(&mut self, name: &str) -> Result<(), StoreError> {
        self.check()?;
        self.inner.remove_library(name)
    }

    fn retained(&mut self, library: &str) -> Result<Vec<RetainedValue>, StoreError> {
        self.inner.retained(library)
    }

    fn retain(&mut self, values: &[RetainedValue]) -> Result<(), StoreError> {
        self.check()?;
        self.inner.retain(values)
    }

    fn audit_end(&mut self) -> Result<AuditHead, StoreError> {
        self.inner.audit_end()
    }

    fn append_audit(
        &mut self,
        entries: &[AuditEntry],
        bound: LogBound,
    ) -> Result<AuditHead, StoreError> {
        self.check()?;
        self.inner.append_audit(entries, bound)
    }

    fn audit(&mut self, query: &AuditQuery) -> Result<AuditPage, StoreError> {
        self.inner.audit(query)
    }

    fn alarms(&mut self, library: &str) -> Result<Vec<SavedAlarm>, StoreError> {
        self.inner.alarms(library)
    }

    fn keep_only_alarms(&mut self, library: &LibraryDefinition) -> Result<(), StoreError> {
        self.inner.keep_only_alarms(library)
    }

    fn alarm_journal_end(&mut self) -> Result<u64, StoreError> {
        self.inner.alarm_journal_end()
    }

    fn keep_alarms(
        &mut self,
        states: &[SavedAlarm],
        entries: &[AlarmEntry],
        bound: LogBound,
    ) -> Result<u64, StoreError> {
        self.check()?;
        self.inner.keep_alarms(states, entries, bound)
    }

    fn alarm_journal(&mut self, query: &AlarmJournalQuery) -> Result<AlarmJournalPage, StoreError> {
        self.inner.alarm_journal(query)
    }
}

/// An engine with a store that fails on demand and has room for everything that may wait: the
/// notes of the engine, and those that its audit log has taken and could not store.
fn switched(path: &Path) -> (Engine, Arc<AtomicBool>) {
    let fails = Arc::new(AtomicBool::new(false));
    let store = Switch {
        fails: Arc::clone(&fails),
        inner: SqliteStore::open(path).expect("there is room"),
    };
    let options = EngineOptions {
        audit_entries: 1_000_000,
        ..EngineOptions::default()
    };
    let engine =
        Engine::start_with_store(options, Some(Box::new(store))).expect("the engine starts");
    (engine, fails)
}

/// Returns the whole audit, from which nothing was removed.
fn all_entries(engine: &Engine) -> Vec<AuditEntry> {
    let mut entries = Vec::new();
    let mut query = AuditQuery::default();
    loop {
        let page = engine.audit(&query).expect("the audit is readable");
        assert_eq!(page.removed, 0);
        entries.extend(page.entries);
        query.from = page.next;
        if page.next.is_none() {
            assert!(!page.state.contains("free some space"), "{}", page.state);
            return entries;
        }
    }
}

/// A complete audit refuses actions that it cannot record: no write is carried out without its
/// entry.
///
/// Behaviour: B-24.
#[test]
fn complete_audit_refuses_writes_and_orders_on_a_full_disk() {
    let (_folder, path) = place();
    let (engine, fails) = switched(&path);
    engine.deploy(&rig()).expect("there is room");
    fails.store(true, Ordering::Release);
    let variable = engine
        .variable::<f64>("rig/x")
        .expect("the variable exists");
    let mut written = 0_u64;
    let refused = loop {
        match variable.write(written as f64) {
            Ok(_) => written += 1,
            Err(error) => break error,
        }
        // The audit log contains as many entries as the engine.
        assert!(written <= 100_000, "nothing is refused");
    };
    assert_eq!(refused, WriteError::Refused(Refusal::AuditFull));
    assert!(refused.to_string().contains("cannot store"), "{refused}");
    let order = engine.stop_library("rig").expect_err("it cannot be noted");
    assert!(matches!(order, LibraryError::Store(_)), "{order}");
    let last = variable.read().expect("it has a value").value;
    fails.store(false, Ordering::Release);
    let entries = all_entries(&engine);
    let is_put = |entry: &&AuditEntry| entry.action == AuditAction::Put;
    let puts: Vec<&AuditEntry> = entries.iter().filter(is_put).collect();
    assert_eq!(
        puts.len() as u64,
        written,
        "each write that was carried out"
    );
    assert_eq!(puts.last().unwrap().new, format!("{last:?}"));
    let is_lost = |entry: &AuditEntry| matches!(entry.outcome, AuditOutcome::Lost(_));
    assert!(!entries.iter().any(is_lost));
    variable.write(-1.0).expect("there is room again");
    assert!(engine.stop_library("rig").expect("there is room again"));
}

/// A best-effort audit delays nothing and hides nothing. Entries wait while there is space. An
/// entry in place of the others reports their number.
///
/// Behaviour: B-24.
#[test]
fn best_effort_audit_on_a_full_disk_counts_its_losses() {
    let (_folder, path) = place();
    let (engine, fails) = switched(&path);
    engine
        .deploy(&rig_with(AuditMode::BestEffort))
        .expect("there is room");
    write(&engine, -1.0);
    assert_eq!(everything(&engine).entries.len(), 3);
    fails.store(true, Ordering::Release);
    write(&engine, 0.0);
    while engine.store_error().is_none() {
        thread::yield_now();
    }
    let waiting = everything(&engine);
    assert_eq!(waiting.entries.len(), 3, "what was stored is there");
    assert!(
        waiting.state.contains("free some space"),
        "{}",
        waiting.state
    );
    engine.undeploy("rig").expect_err("it cannot be stored");
    // Two entries are in the audit log, and the engine has space for forty thousand.
    for number in 1..=50_005 {
        write(&engine, f64::from(number));
    }
    fails.store(false, Ordering::Release);
    let entries = all_entries(&engine);
    let numbers = entries.iter().map(|entry| entry.number);
    assert!(numbers.eq(1..=entries.len() as u64));
    let lost: u64 = entries
        .iter()
        .filter_map(|entry| match entry.outcome {
            AuditOutcome::Lost(count) => Some(count),
            _ => None,
        })
        .sum();
    let is_put = |entry: &&AuditEntry| entry.action == AuditAction::Put;
    let puts = entries.iter().filter(is_put).count() as u64;
    assert!(lost > 0, "the queue was full");
    assert_eq!(puts + lost, 50_007, "each is there or counted");
    // The alarm of the failing store is stored with the next attempt.
    while engine.store_error().is_some() {
        thread::yield_now();
    }
    write(&engine, 5.0);
    drop(engine);
    let engine = Engine::start(self::options(&path)).expect("the engine starts");
    let last = AuditQuery {
        newest_first: true,
        limit: 3,
        ..AuditQuery::default()
    };
    let last = engine.audit(&last).expect("the audit is readable").entries;
    let actions: Vec<_> = last.iter().map(|entry| entry.action).collect();
    assert_eq!(
        actions,
        [
            AuditAction::EngineStart,
            AuditAction::EngineStop,
            AuditAction::Put
        ]
    );
}

/// Behaviour: B-24.
#[test]
fn a_write_to_a_variable_without_timestamps_is_noted_at_its_moment() {
    let engine = Engine::start(EngineOptions::default()).expect("the engine starts");
    let mut library = rig();
    let mut properties = Properties::new(DataType::F64);
    (properties.audit, properties.timestamps) = (AuditMode::Complete, false);
    library.variables[0].properties = properties.into();
    engine.deploy(&library).expect("there is room");
    write(&engine, 1.0);
    let variable = engine
        .variable::<f64>("rig/x")
        .expect("the variable exists");
    variable.try_write(2.0);
    let entries = everything(&engine).entries;
    let writes: Vec<_> = entries
        .iter()
        .filter(|entry| entry.name == "rig/x")
        .collect();
    assert_eq!(writes.len(), 2, "{entries:?}");
    let year = Timestamp::UNIX_EPOCH.saturating_add_nanos(365 * 24 * 3600 * 1_000_000_000);
    assert!(writes.iter().all(|entry| entry.when > year), "{writes:?}");
}
