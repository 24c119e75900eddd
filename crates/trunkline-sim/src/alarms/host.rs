//! Simulates the engine's process with the production engine, keeper of alarm states and SQLite store.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use trunkline_engine::alarms::{AlarmSaver, AlarmStorage};
use trunkline_engine::store::{
    LogBound, RetainedValue, Store, StoreError, StoreErrorKind, StoredLibrary,
};
use trunkline_engine::{
    Caller, Consumer, Delivery, Engine, EngineOptions, LibraryState, LogPage, Order, Origin,
    Report, Retained, Sink, Subscribe, Wake, Wakes, Write,
};
use trunkline_proto::{Fault, FaultCode};
use trunkline_store::SqliteStore;
use trunkline_types::alarm::{AlarmEntry, SavedAlarm};
use trunkline_types::ledger::EndedItem;
use trunkline_types::{
    Contract, DataType, LibraryDefinition, Moment, Name, Properties, Quality, Value,
    VariableDefinition,
};

use super::checker::AlarmChecker;
use super::followers::NoWake;
use super::model::Measured;
use super::plan::{LIBRARY, VariablePlan, library};
use crate::remote::Service;
use crate::rng::Rng;

/// The variable with the number of the newest entry of the journal.
pub const JOURNAL: &str = "_engine/alarms/journal";
/// Size of a disk sector in bytes.
const SECTOR: usize = 512;

/// The behaviour of the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoreMode {
    Working,
    /// The disk is full, so every step fails.
    Full,
    /// The store reports a failure after it has stored the step.
    UnknownOutcome,
    /// The engine's process ends during a step.
    Interrupted {
        loses_power: bool,
    },
}

/// The files of the store, by name.
pub type Image = BTreeMap<String, Vec<u8>>;

/// Reads the files of a folder.
pub fn read_image(folder: &Path) -> Image {
    let mut files = Image::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if let Ok(bytes) = std::fs::read(entry.path()) {
            files.insert(entry.file_name().to_string_lossy().into_owned(), bytes);
        }
    }
    files
}

/// Returns the files that remain if the process ends during a step, as a mixture of the files before and
/// after the step. SQLite writes a step to its write-ahead log and syncs the log.
fn interrupted_image(before: &Image, after: &Image, loses_power: bool, rng: &mut Rng) -> Image {
    let is_log = |name: &str| name.ends_with("-wal");
    let mut others = after.iter().filter(|(name, _)| !is_log(name));
    if others.any(|(name, bytes)| before.get(name) != Some(bytes)) {
        // After the step, SQLite has also copied the log to the database file.
        return match rng.chance(0.5) {
            true => before.clone(),
            false => after.clone(),
        };
    }
    let mut image = after.clone();
    for (name, new) in image.iter_mut().filter(|(name, _)| is_log(name)) {
        let none = Vec::new();
        let old = before.get(name).unwrap_or(&none);
        let written = match loses_power {
            // After a kill, the first part of the log has the new content.
            false => {
                let cut = rng.index(new.len() + 1);
                let mut bytes = new[..cut].to_vec();
                bytes.extend_from_slice(old.get(cut..).unwrap_or_default());
                bytes
            }
            // After a power loss, each sector of the log has the old or the new content.
            true => {
                let length = match rng.chance(0.5) {
                    true => old.len(),
                    false => new.len(),
                };
                let mut bytes = Vec::with_capacity(length);
                while bytes.len() < length {
                    let range = bytes.len()..(bytes.len() + SECTOR).min(length);
                    let from = if rng.chance(0.5) { old } else { &*new };
                    let existing = range.start.min(from.len())..range.end.min(from.len());
                    bytes.extend_from_slice(&from[existing]);
                    bytes.resize(range.end, 0);
                }
                bytes
            }
        };
        *new = written;
    }
    image
}

/// The store to which the keeper writes in one turn. It simulates failures.
struct KeeperStore<'a> {
    running: &'a mut SqliteStore,
    folder: &'a Path,
    checker: &'a mut AlarmChecker,
    rng: &'a mut Rng,
    entries_max: u64,
    mode: StoreMode,
    /// The files that remain after an interrupted step.
    image: Option<Image>,
}

fn error(kind: StoreErrorKind) -> StoreError {
    StoreError {
        location: "simulated".to_owned(),
        kind,
    }
}

impl AlarmStorage for KeeperStore<'_> {
    fn last_entry(&mut self) -> Result<u64, StoreError> {
        match self.mode {
            StoreMode::Full => Err(error(StoreErrorKind::Full)),
            StoreMode::Working | StoreMode::UnknownOutcome | StoreMode::Interrupted { .. } => {
                self.running.alarm_journal_end()
            }
        }
    }

    fn keep(
        &mut self,
        states: &[SavedAlarm],
        entries: &[AlarmEntry],
        moment: Moment,
    ) -> Result<u64, StoreError> {
        let expected = self.checker.step_began(states, entries);
        if self.mode == StoreMode::Full {
            self.checker.step_failed(states, entries, expected);
            return Err(error(StoreErrorKind::Full));
        }
        let before = match self.mode {
            StoreMode::Interrupted { .. } => read_image(self.folder),
            StoreMode::Working | StoreMode::Full | StoreMode::UnknownOutcome => Image::new(),
        };
        let bound = LogBound {
            entries: self.entries_max,
            age: None,
            now: moment.wall,
        };
        let last = self.running.keep_alarms(states, entries, bound)?;
        let failed = || Err(error(StoreErrorKind::Failed("simulated".to_owned())));
        match self.mode {
            StoreMode::Working | StoreMode::Full => {
                self.checker.stored(entries, expected, last);
                Ok(last)
            }
            StoreMode::UnknownOutcome => {
                self.checker.stored(entries, expected.clone(), last);
                self.checker.step_failed(states, entries, expected);
                failed()
            }
            StoreMode::Interrupted { loses_power } => {
                self.checker.step_interrupted(entries, expected, last);
                let after = read_image(self.folder);
                self.image = Some(interrupted_image(&before, &after, loses_power, self.rng));
                failed()
            }
        }
    }
}

/// The state that is lost with the process.
#[derive(Debug)]
pub struct Running {
    pub engine: Engine,
    pub keeper: AlarmSaver,
    pub store: SqliteStore,
    pub service: Service,
    witness: Consumer,
    woken: Arc<Mutex<bool>>,
}

struct Bell(Arc<Mutex<bool>>);

impl Wake for Bell {
    fn wake(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
    }
}

/// The machine on which the engine runs, with the folder of the store.
#[derive(Debug)]
pub struct Host {
    folder: tempfile::TempDir,
    /// Number of the current folder. Each abrupt end of the engine creates a new folder.
    folders: u32,
    epoch: u64,
    pub entries_max: u64,
    pub running: Option<Running>,
}

impl Host {
    pub fn new(entries_max: u64) -> std::io::Result<Self> {
        // Use a folder in memory if possible, because every step syncs.
        let in_memory = tempfile::tempdir_in("/dev/shm");
        let host = Self {
            folder: in_memory.or_else(|_| tempfile::tempdir())?,
            folders: 0,
            epoch: 0,
            entries_max,
            running: None,
        };
        std::fs::create_dir(host.store_folder())?;
        Ok(host)
    }

    fn store_folder(&self) -> PathBuf {
        self.folder.path().join(self.folders.to_string())
    }

    /// Ends the process abruptly. The next start finds the files of `image`, or the current files if
    /// `image` is `None`.
    pub fn end(&mut self, image: Option<Image>) -> std::io::Result<()> {
        let image = image.unwrap_or_else(|| read_image(&self.store_folder()));
        self.running = None;
        std::fs::remove_dir_all(self.store_folder())?;
        self.folders += 1;
        std::fs::create_dir(self.store_folder())?;
        for (name, bytes) in image {
            std::fs::write(self.store_folder().join(name), bytes)?;
        }
        Ok(())
    }

    /// Starts the process as the product does: restores the alarm states, and then deploys the stored
    /// library.
    pub fn start(
        &mut self,
        saved: &[VariablePlan],
        at: Moment,
        checker: &mut AlarmChecker,
    ) -> Result<(), String> {
        let text = |error: StoreError| error.to_string();
        let mut store = SqliteStore::open(self.store_folder().join("store")).map_err(text)?;
        let count = store.record_start().map_err(text)?.count;
        self.epoch = count;
        let engine = Engine::new(EngineOptions::new("simulated", self.epoch));
        let definition = library(saved);
        let stored = store.libraries().map_err(text)?;
        match stored.first() {
            None => store
                .save_library(&StoredLibrary {
                    definition: definition.clone(),
                    state: LibraryState::Running,
                })
                .map_err(text)?,
            Some(stored) if stored.definition == definition => {}
            Some(stored) => return Err(format!("DP-06: another library is stored: {stored:?}")),
        }
        let journal = LibraryDefinition {
            name: "_engine".to_owned(),
            description: String::new(),
            variables: vec![VariableDefinition {
                path: "alarms/journal".to_owned(),
                properties: Arc::new(Properties::new(DataType::U64)),
            }],
        };
        let libraries = engine.libraries();
        let deployed = libraries.deploy(&journal, at.now, at.wall);
        deployed.map_err(|error| error.to_string())?;
        let woken = Arc::new(Mutex::new(false));
        let journal = engine.resolve(&Caller::engine(), JOURNAL);
        let journal = journal.map_err(|error| error.to_string())?;
        let keeper = AlarmSaver::new(&engine, Box::new(Bell(Arc::clone(&woken))), true);
        let values = store.retained(LIBRARY).map_err(text)?;
        store.keep_only_alarms(&definition).map_err(text)?;
        let kept = store.alarms(LIBRARY).map_err(text)?;
        let end = store.alarm_journal_end().map_err(text)?;
        checker.started(saved, &kept, end, at);
        // The product publishes this number once a second with the other health variables.
        let value = Value::U64(end);
        let mut write = Write::value(&value);
        write.origin = Origin::Source;
        let (caller, mut wakes) = (Caller::engine(), Wakes::new());
        let _attempt = engine.try_write(&caller, at.now, at.wall, &journal, &write, &mut wakes);
        engine.alarms().restore(kept);
        let retained = |name: &Name, properties: &Properties| {
            let mut values = values.iter();
            let value = values.find(|value| value.name == name.as_str())?;
            properties.retain.then(|| Retained {
                value: value.value.clone(),
                source_timestamp: value.source_timestamp,
            })
        };
        let deployed = libraries.deploy_retained(
            &definition,
            false,
            &retained,
            at.now,
            at.wall,
            &mut Wakes::new(),
        );
        let deployed = deployed.map_err(|error| error.to_string())?;
        engine.alarms().restore(Vec::new());
        let mut witness = Consumer::service(engine.clone(), Box::new(NoWake));
        let everything = Contract::All {
            elements: 1_000_000,
            bytes: u32::MAX,
        };
        for variable in deployed
            .handles
            .iter()
            .filter_map(|one| engine.variable(*one))
        {
            let request = Subscribe::new(1, everything);
            let followed = witness.subscribe(&Caller::engine(), &variable, request);
            followed.map_err(|error| format!("the witness is refused: {error}"))?;
        }
        self.running = Some(Running {
            service: Service::new(&engine),
            engine,
            keeper,
            store,
            witness,
            woken,
        });
        Ok(())
    }

    /// Runs a turn of the keeper. Returns true if everything is stored. If the turn was interrupted, also
    /// returns the files that remain of the store.
    pub fn keep(
        &mut self,
        mode: StoreMode,
        at: Moment,
        checker: &mut AlarmChecker,
        rng: &mut Rng,
    ) -> (bool, Option<Image>) {
        let folder = self.store_folder();
        let Some(running) = &mut self.running else {
            return (true, None);
        };
        let mut store = KeeperStore {
            running: &mut running.store,
            folder: &folder,
            checker,
            rng,
            entries_max: self.entries_max,
            mode,
            image: None,
        };
        let is_kept = running.keeper.keep(&mut store, at).is_ok();
        (is_kept, store.image)
    }

    /// Stores the retained values.
    pub fn retain(&mut self) -> Result<(), String> {
        let Some(running) = &mut self.running else {
            return Ok(());
        };
        let library = running.engine.libraries().get(LIBRARY);
        let handles = library.map(|library| library.handles).unwrap_or_default();
        let variables = handles
            .iter()
            .filter_map(|one| running.engine.variable(*one));
        let values = variables.filter_map(|variable| {
            let update = variable.update();
            let is_retained = variable.properties().retain && update.sequence > 0;
            is_retained.then(|| RetainedValue {
                name: variable.name().to_owned(),
                data_type: variable.data_type().clone(),
                value: update.value,
                source_timestamp: update.source_timestamp,
                quality: Quality::GOOD,
            })
        });
        let values: Vec<RetainedValue> = values.collect();
        let retained = running.store.retain(&values);
        retained.map_err(|error| error.to_string())
    }
}

impl Running {
    /// Returns true if the keeper was woken since the last call.
    pub fn take_woken(&self) -> bool {
        std::mem::take(&mut *self.woken.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Answers the queries of clients.
    pub fn answer(&mut self) {
        while let Some((order, reply)) = self.service.take_order() {
            let result = match order {
                Order::AlarmJournal(query) => match self.store.alarm_journal(&query) {
                    Ok(page) => Ok(Report {
                        page: Some(Box::new(LogPage::Alarms(page))),
                        ..Report::default()
                    }),
                    Err(error) => Err(Fault::new(FaultCode::StoreFailed, error.to_string())),
                },
                order => Err(Fault::new(FaultCode::NotSupported, format!("{order:?}"))),
            };
            reply.send(result);
        }
    }

    /// Returns the updates of variables since the last call.
    pub fn updates(&mut self) -> Vec<(String, Measured)> {
        let mut sink = UpdateSink(Vec::new());
        self.witness.drain(&mut sink, &mut Wakes::new());
        sink.0
    }

    /// Returns true if the engine considers the condition of an alarm met.
    pub fn is_active(&self, name: &str, alarm: &str) -> Option<bool> {
        let caller = Caller::engine();
        let variable = self
            .engine
            .resolve(&caller, &format!("{LIBRARY}/{name}"))
            .ok()?;
        let statuses = self.engine.alarms().of_variable(&variable);
        let mut statuses = statuses.into_iter();
        let status = statuses.find(|status| status.definition.name == alarm)?;
        Some(status.record.is_active)
    }
}

struct UpdateSink(Vec<(String, Measured)>);

impl Sink for UpdateSink {
    fn wants(&self) -> bool {
        true
    }

    fn deliver(&mut self, delivery: &Delivery<'_>) {
        if delivery.update.sequence == 0 {
            return;
        }
        let sample = delivery.variable.sample_of(delivery.update);
        let name = delivery.variable.name();
        let name = name.strip_prefix(LIBRARY).unwrap_or(name);
        let measured = Measured::new(&sample.value, delivery.update.quality);
        self.0
            .push((name.trim_start_matches('/').to_owned(), measured));
    }

    fn overrun(&mut self, _subscription: u32, _items: &[EndedItem]) {}

    fn gone(&mut self, _subscription: u32, _handle: u32) {}
}
