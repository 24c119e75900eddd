//! An engine with a history, whose clock the test advances, and helpers to compare rows.

#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test program uses its own part, and fails at an unexpected result"
)]

use std::cell::Cell;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tempfile::TempDir;
use trunkline_engine::history::{History, HistoryError};
use trunkline_engine::{
    Attempt, Caller, Engine, EngineOptions, Variable, Wake, Wakes, Write, WriteOutcome, WriteValue,
};
use trunkline_history::{FileHistory, FolderError, HistoryFolder};
use trunkline_types::history::{
    HistoryEvent, HistoryPage, HistoryQuery, HistoryRule, HistorySettings, RowKey, SeriesData,
};
use trunkline_types::{
    ClockSync, DataType, LibraryDefinition, Moment, Pattern, Quality, Tick, Timestamp, Value,
    VariableDefinition, wire,
};

/// An instant in September 2026, in nanoseconds since 1970.
pub const START: i64 = 1_790_000_000_000_000_000;
pub const SECOND: i64 = 1_000_000_000;
pub const LIBRARY: &str = "rig";

struct Unheard;

impl Wake for Unheard {
    fn wake(&self) {}
}

/// A row with all data that a history stores for an update.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Line {
    pub variable: String,
    pub key: RowKey,
    pub delay: i64,
    pub quality: u32,
    /// The value in wire form.
    pub value: Vec<u8>,
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RowKey {
            time,
            epoch,
            sequence,
        } = self.key;
        let start = self.value.get(..16).unwrap_or(&self.value);
        write!(
            f,
            "{} at {time}, epoch {epoch}, sequence {sequence}, delay {}, quality {:#x}, {} bytes \
             {start:02x?}",
            self.variable,
            self.delay,
            self.quality,
            self.value.len(),
        )
    }
}

#[derive(Clone, PartialEq, Debug)]
pub struct Event {
    pub variable: String,
    pub key: RowKey,
    pub event: HistoryEvent,
}

/// The content of all pages of a query.
#[derive(Debug, Default)]
pub struct Answer {
    pub lines: Vec<Line>,
    pub events: Vec<Event>,
    pub states: Vec<String>,
}

pub struct Plant {
    pub engine: Engine,
    pub history: Arc<FileHistory>,
    pub caller: Caller,
    /// The time of the wall clock.
    pub time: i64,
    ticks: Cell<u64>,
}

impl fmt::Debug for Plant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plant").finish_non_exhaustive()
    }
}

/// Creates a folder, in memory if possible: the tests sync thousands of files.
pub fn folder() -> TempDir {
    let in_memory = tempfile::tempdir_in("/dev/shm");
    in_memory.or_else(|_| tempfile::tempdir()).unwrap()
}

pub fn rules() -> Vec<HistoryRule> {
    vec![HistoryRule {
        pattern: Pattern::parse("**").unwrap(),
        settings: Some(HistorySettings::default()),
    }]
}

pub fn library(variables: &[(&str, DataType)]) -> LibraryDefinition {
    let variables = variables.iter();
    LibraryDefinition {
        name: LIBRARY.to_owned(),
        description: String::new(),
        variables: variables
            .map(|(name, data_type)| VariableDefinition::new(*name, data_type.clone()))
            .collect(),
    }
}

impl Plant {
    /// Starts an engine and opens its history, after an orderly or abrupt end of an earlier engine.
    pub fn open(
        folder: &Path,
        epoch: u64,
        time: i64,
        variables: &[(&str, DataType)],
    ) -> Result<Self, HistoryError> {
        Self::open_with_spool(folder, None, epoch, time, variables)
    }

    /// Does the same as [`open`](Self::open), with a spool.
    pub fn open_with_spool(
        folder: &Path,
        spool: Option<&Path>,
        epoch: u64,
        time: i64,
        variables: &[(&str, DataType)],
    ) -> Result<Self, HistoryError> {
        Self::open_with_rules(folder, spool, rules(), epoch, time, variables)
    }

    pub fn open_with_rules(
        folder: &Path,
        spool: Option<&Path>,
        rules: Vec<HistoryRule>,
        epoch: u64,
        time: i64,
        variables: &[(&str, DataType)],
    ) -> Result<Self, HistoryError> {
        let engine = Engine::new(EngineOptions::new("test", epoch));
        let wall = Timestamp::from_nanos(time);
        let wake = Box::new(Unheard);
        let history = FileHistory::open_with_spool(folder, spool, rules, &engine, wake, wall)?;
        let plant = Self {
            engine,
            history: Arc::new(history),
            caller: Caller::local(1, 0),
            time,
            ticks: Cell::new(0),
        };
        plant.deploy(variables)?;
        Ok(plant)
    }

    pub fn start(folder: &Path, epoch: u64, time: i64, variables: &[(&str, DataType)]) -> Self {
        Self::open(folder, epoch, time, variables).unwrap()
    }

    pub fn deploy(&self, variables: &[(&str, DataType)]) -> Result<(), HistoryError> {
        let Moment { now, wall } = self.moment();
        let libraries = self.engine.libraries();
        let handles = libraries.deploy(&library(variables), now, wall).unwrap();
        self.history.follow(&handles, wall)
    }

    pub fn undeploy(&self) {
        let Moment { now, wall } = self.moment();
        let libraries = self.engine.libraries();
        libraries
            .undeploy(LIBRARY, now, wall, &mut Wakes::new())
            .unwrap();
    }

    /// Returns the next moment, which is later than any retry delay.
    pub fn moment(&self) -> Moment {
        self.ticks.set(self.ticks.get() + 10 * SECOND as u64);
        Moment {
            now: Tick::from_nanos(self.ticks.get()),
            wall: Timestamp::from_nanos(self.time),
        }
    }

    /// Writes a value with the engine's timestamp, advances the clock by a second, and returns the
    /// expected row.
    pub fn write(&mut self, name: &str, value: &Value) -> Line {
        let line = self.put(name, &Write::value(value));
        self.time += SECOND;
        line
    }

    /// Writes a value with another source timestamp. Sets the engine's clock back first, so that the
    /// engine does not treat the value as late, and accepts it.
    pub fn write_at(&mut self, name: &str, value: &Value, source: i64) -> Line {
        let update = self.variable(name).update();
        if update.sequence > 0 {
            self.time = self.time.min(update.engine_timestamp.as_nanos() - 1);
        }
        let write = Write {
            source_timestamp: Some(Timestamp::from_nanos(source)),
            ..Write::value(value)
        };
        self.put(name, &write)
    }

    pub fn variable(&self, name: &str) -> Arc<Variable> {
        let name = format!("{LIBRARY}/{name}");
        self.engine.resolve(&self.caller, &name).unwrap()
    }

    /// Performs a write, and returns the expected row.
    pub fn put(&mut self, name: &str, write: &Write<'_>) -> Line {
        let variable = self.variable(name);
        let name = variable.name().to_owned();
        let Moment { now, wall } = self.moment();
        let mut wakes = Wakes::new();
        let attempt = self
            .engine
            .try_write(&self.caller, now, wall, &variable, write, &mut wakes);
        assert!(
            matches!(attempt, Attempt::Done(WriteOutcome::Applied(_))),
            "{name}: {attempt:?}"
        );
        let update = variable.update();
        let is_set = update.quality.clock_sync() != ClockSync::Unset
            && update.source_timestamp.is_plausible();
        let engine = update.engine_timestamp.as_nanos();
        let time = match is_set {
            true => update.source_timestamp.as_nanos(),
            // B-41: a row of an unset clock is not dated 1970.
            false => engine,
        };
        let value = match variable.data_type() {
            DataType::Array(_) | DataType::Waveform(_)
                if update.value.as_slice().len() > HistorySettings::ARRAY_BYTES_MAX =>
            {
                Vec::new()
            }
            _ => bytes_of(&write.value),
        };
        Line {
            variable: name,
            key: RowKey {
                time,
                epoch: self.engine.epoch(),
                sequence: update.sequence,
            },
            delay: engine - time,
            quality: update.quality.to_bits(),
            value,
        }
    }

    pub fn record(&self) {
        self.try_record().unwrap();
    }

    pub fn try_record(&self) -> Result<(), HistoryError> {
        self.history.record(self.moment()).map(|_| ())
    }

    /// Records until no updates are waiting. Moves segments to files if that is necessary.
    pub fn record_everything(&self) {
        self.record();
        while !self.history.is_idle() {
            self.maintain();
            self.record();
        }
    }

    pub fn close_segment(&self) {
        self.history.close_segment(self.moment()).unwrap();
    }

    pub fn maintain(&self) {
        while self.history.maintain(self.moment().wall).unwrap() {}
    }

    /// Moves every row to files.
    pub fn seal(&self) {
        self.record_everything();
        self.close_segment();
        self.maintain();
        assert_eq!(self.history.figures().unsealed, 0);
    }

    /// Reads all pages of a query.
    pub fn read(&self, query: &HistoryQuery) -> Result<Answer, HistoryError> {
        let mut query = query.clone();
        let mut answer = Answer::default();
        loop {
            let page = self.history.read(&query, self.moment().wall)?;
            let before = query.from.clone();
            query.from = page.next.clone();
            answer.add(page);
            if query.from.is_none() {
                return Ok(answer);
            }
            assert_ne!(query.from, before, "a page ends where it began");
        }
    }

    /// Returns all rows and events, in the order of variables and keys.
    pub fn everything(&self) -> Answer {
        self.read(&all()).unwrap()
    }
}

impl Answer {
    pub fn add(&mut self, page: HistoryPage) {
        for series in page.series {
            let SeriesData::Rows(rows) = series.data else {
                panic!("buckets were not asked for");
            };
            rows.visit(0..rows.len(), |row| {
                self.lines.push(Line {
                    variable: series.variable.clone(),
                    key: row.key,
                    delay: row.delay,
                    quality: row.quality.to_bits(),
                    value: row.value.to_vec(),
                });
            });
            self.events.extend(rows.events().iter().map(|mark| Event {
                variable: series.variable.clone(),
                key: mark.key,
                event: mark.event,
            }));
        }
        if !page.state.is_empty() {
            self.states.push(page.state);
        }
    }

    /// Returns the events of a variable, in order.
    pub fn events_of(&self, name: &str) -> Vec<HistoryEvent> {
        let name = format!("{LIBRARY}/{name}");
        let of_it = self.events.iter().filter(|event| event.variable == name);
        of_it.map(|event| event.event).collect()
    }

    /// Returns the number of lost updates according to the events of all variables.
    pub fn lost(&self) -> u64 {
        let counts = self.events.iter().map(|event| match event.event {
            HistoryEvent::Lost(count) => count.unwrap(),
            _ => 0,
        });
        counts.sum()
    }
}

/// Reads all pages of a query from a folder without an engine.
pub fn read_folder(folder: &Path, query: &HistoryQuery) -> Result<Answer, FolderError> {
    let wall = Timestamp::from_nanos(START);
    let mut opened = HistoryFolder::open(folder, wall)?;
    let mut query = query.clone();
    let mut answer = Answer::default();
    loop {
        let page = opened.read(&query, wall)?;
        query.from = page.next.clone();
        answer.add(page);
        if query.from.is_none() {
            return Ok(answer);
        }
    }
}

pub fn all() -> HistoryQuery {
    HistoryQuery {
        patterns: vec![Pattern::parse("**").unwrap()],
        ..HistoryQuery::default()
    }
}

pub fn wire_of(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    wire::encode_value(value, &mut bytes);
    bytes
}

fn bytes_of(value: &WriteValue<'_>) -> Vec<u8> {
    match value {
        WriteValue::Value(value) => wire_of(value),
        WriteValue::Wire(bytes) => bytes.to_vec(),
        WriteValue::Encoded(_) => panic!("tests write values and their bytes"),
    }
}

/// Expects exactly these rows, each once, sorted by variable and key. `expected` may be in any order.
pub fn assert_same(found: &[Line], expected: &[Line], what: &str) {
    if let Some(difference) = difference(found, expected) {
        panic!("{what}: {difference}");
    }
}

/// Describes the first difference between the rows found and the rows expected.
pub fn difference(found: &[Line], expected: &[Line]) -> Option<String> {
    let mut expected: Vec<&Line> = expected.iter().collect();
    expected.sort();
    let at = (0..found.len().max(expected.len()))
        .find(|at| found.get(*at) != expected.get(*at).copied())?;
    Some(format!(
        "{} rows instead of {}; row {at} is {:?} instead of {:?}",
        found.len(),
        expected.len(),
        found.get(at),
        expected.get(at),
    ))
}

/// Returns the files below a folder, as relative paths, sorted.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => found.push(path.strip_prefix(folder).unwrap().to_owned()),
            }
        }
    }
    found.sort();
    found
}

/// Returns the files with this extension below a folder.
pub fn files_of(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let all = files(folder).into_iter();
    all.filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect()
}

/// Makes `to` a copy of `from`.
pub fn copy(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    std::fs::create_dir(to).unwrap();
    for path in files(from) {
        let target = to.join(&path);
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        std::fs::copy(from.join(&path), target).unwrap();
    }
}

/// Inverts one bit of a file.
pub fn flip(path: &Path, bit: u64) {
    let mut bytes = std::fs::read(path).unwrap();
    *bytes.get_mut((bit / 8) as usize).unwrap() ^= 1 << (bit % 8);
    std::fs::write(path, bytes).unwrap();
}

/// Returns a bad quality as a source may report it.
pub fn bad() -> Quality {
    Quality::bad(trunkline_types::Reason::SensorFailure)
}

/// Sets the maximum file size of the process.
pub fn limit(bytes: Option<u64>) {
    let maximum = getrlimit(Resource::Fsize).maximum;
    let limit = Rlimit {
        current: bytes.or(maximum),
        maximum,
    };
    setrlimit(Resource::Fsize, limit).unwrap();
}

/// Calls `work` while the maximum file size is limited.
pub fn limited<T>(bytes: u64, work: impl FnOnce() -> T) -> T {
    limit(Some(bytes));
    let done = work();
    limit(None);
    done
}

/// Returns the length of the newest log in a folder.
pub fn length_of_log(folder: &Path) -> u64 {
    let logs = files_of(folder, "tlh");
    let newest: PathBuf = folder.join(logs.last().unwrap());
    std::fs::metadata(newest).unwrap().len()
}
