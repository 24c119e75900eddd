//! Records updates of variables, and answers queries about them.
//!
//! Updates are durable in an append log first, and are moved to Parquet files in the background.
//! Both are in one folder, which other programs may read at any time:
//!
//! ```text
//! catalogue.sqlite                          series and files
//! log-0000000012.tlh                        rows that are not in files yet
//! samples/date=2026-11-28/0000000011.parquet    rows by UTC date and segment of the log
//! summaries/date=..                         buckets of the rows, for plots
//! unfinished/                               files that are being written
//! footers/date=..                           second copies of the metadata of the files
//! set-apart/                                files that the catalogue does not have
//! lock                                      held by the engine that records
//! ```
//!
//! A row is in the log or in a file, never in both: the catalogue decides, in one transaction. After
//! a crash the log is read again, and what it has of a finished file is dropped.
//!
//! # Layout
//! - [`FileHistory`]: the parts together, as the engine's [`History`].
//! - `recorder`: takes updates from the engine; `log`: the append log.
//! - `tail`: rows that are only in the log, in memory; `seal`: moves them to files; `compact`: joins
//!   small files.
//! - `part`: a Parquet file; `schema`: its columns; `catalogue`: which files there are.
//! - `footer`: the metadata of a Parquet file, and their second copy.
//! - [`HistoryFolder`]: reads a folder without recording; `snapshot`: its catalogue, `unsealed`: its
//!   logs, `held`: its lock; `database`: copies a database that is in use.
//! - [`verify`], [`rebuild`], [`compact`](compact()): what commands do with a folder; `leftovers`:
//!   files that the catalogue does not have.
//! - [`arrow_batch`]: rows for other programs.
//! - `query`: reading; `summary`: buckets that were filled when a file was written; `steps`: rows and
//!   events in their order, for both.
//! - [`copied`]: the files of a folder, for those who copy it.

#![forbid(unsafe_code)]

mod catalogue;
mod checked;
mod compact;
pub mod copied;
mod database;
mod error;
mod export;
mod folder;
mod footer;
mod held;
mod leftovers;
mod log;
mod part;
mod query;
mod rebuild;
mod recorder;
mod schema;
mod seal;
mod snapshot;
mod steps;
mod summary;
mod sync;
mod tail;
mod tidy;
mod unsealed;
mod verify;

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use trunkline_engine::history::{History, HistoryError, HistoryFigures};
use trunkline_engine::{Consumer, Engine, Wake};
use trunkline_types::history::{
    HistoryEvent, HistoryMark, HistoryPage, HistoryQuery, HistoryRule, HistorySettings, RowKey,
    Rows,
};
use trunkline_types::{Moment, Tick, Timestamp};

use crate::catalogue::{Catalogue, PartRow, Series};
use crate::error::Error;
pub use crate::export::{arrow_batch, arrow_schema};
use crate::folder::absence;
pub use crate::folder::{FolderError, FolderInfo, FolderSeries, HistoryFolder};
use crate::log::Log;
use crate::part::Part;
use crate::query::View;
pub use crate::rebuild::{Rebuilt, rebuild};
use crate::recorder::Recorder;
use crate::sync::lock;
use crate::tail::{FROZEN_MAX, Segment, Tail};
pub use crate::tidy::{Compacted, compact};
use crate::unsealed::{DamagedLog, Unsealed};
pub use crate::verify::{Finding, Verified, verify};

/// Time after which the recorder looks again whether a closed segment has become files.
const NO_ROOM: Duration = Duration::from_millis(100);

/// Memory for the indices and summaries of files, which queries need again and again.
const LOADED_BYTES_MAX: usize = 256 << 20;

/// Entries for the fuzz targets.
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing {
    /// Reads the content of a log, and returns the number of its rows.
    pub fn log_rows(bytes: &[u8]) -> Option<usize> {
        let recovered = crate::log::parse(bytes, 1).ok()?;
        Some(recovered.rows.iter().map(|(_, rows)| rows.len()).sum())
    }
}

/// Opens the history in a folder: [`FileHistory::open`] for hosts of an engine.
///
/// # Errors
/// As [`FileHistory::open`].
pub fn open(
    folder: &Path,
    rules: Vec<HistoryRule>,
    engine: &Engine,
    wake: Box<dyn Wake>,
    wall: Timestamp,
) -> Result<Box<dyn History>, HistoryError> {
    Ok(Box::new(FileHistory::open(
        folder, rules, engine, wake, wall,
    )?))
}

/// A history in a folder.
pub struct FileHistory {
    /// What was found damaged at the start, in a sentence.
    damage: String,
    folder: PathBuf,
    rules: Vec<HistoryRule>,
    recorder: Mutex<Recorder>,
    /// What the recorder counted, as of its last step. Locked only for moments.
    recorder_figures: Mutex<RecorderFigures>,
    catalogue: Mutex<Catalogue>,
    /// All series, in the order of their names and ids. Locked after the catalogue.
    series: Mutex<Arc<Vec<Series>>>,
    /// Locked last, and only for moments.
    stored: Mutex<Stored>,
    /// Parts that were replaced, whose files may still be read.
    unused: Mutex<Vec<Arc<Part>>>,
    /// Paths of files that cannot be joined, because they are damaged.
    skipped: Mutex<BTreeSet<String>>,
    _lock: File,
}

#[derive(Clone, Copy, Default)]
struct RecorderFigures {
    recorded: u64,
    lost: u64,
    log_bytes: u64,
}

/// Where the committed rows are.
struct Stored {
    tail: Tail,
    parts: Arc<Vec<Arc<Part>>>,
}

impl FileHistory {
    /// Opens the history in a folder, which is created if there is none. `wake` is called when the
    /// engine has something to record.
    ///
    /// # Errors
    /// The folder is in use by another engine, is damaged or of a newer version, or cannot be used.
    pub fn open(
        folder: impl Into<PathBuf>,
        rules: Vec<HistoryRule>,
        engine: &Engine,
        wake: Box<dyn Wake>,
        wall: Timestamp,
    ) -> Result<Self, HistoryError> {
        let folder = folder.into();
        Self::try_open(&folder, rules, engine, wake, wall).map_err(|error| error.of(&folder))
    }

    fn try_open(
        folder: &Path,
        rules: Vec<HistoryRule>,
        engine: &Engine,
        wake: Box<dyn Wake>,
        wall: Timestamp,
    ) -> Result<Self, Error> {
        create(folder)?;
        let held = held::hold(folder)?;
        let segments = log::segments(folder)?;
        let path = folder.join(copied::CATALOGUE);
        let has_files = !segments.is_empty() || !files_in(folder)?.is_empty();
        if has_files && !path.exists() {
            return Err(absence(folder)?);
        }
        let mut catalogue = Catalogue::open(&path, !has_files)?;
        let mut series = catalogue.series()?;
        let rows = catalogue.parts()?;
        let mut damage = Vec::new();
        let apart = leftovers::remove(folder, &rows, &segments)?;
        if apart > 0 {
            damage.push(leftovers::sentence(apart));
        }
        let sealed = rows.iter().map(|part| part.segment).max().unwrap_or(0);
        let parts = rows.into_iter().map(|row| Arc::new(Part::new(folder, row)));
        let parts: Vec<Arc<Part>> = parts.collect();
        let unsealed = Unsealed::beside(folder, &parts, wall)?;
        let new = unsealed::unknown(&unsealed.series, &series)?;
        if !new.is_empty() {
            catalogue.add_series(&new)?;
            series.extend(new);
        }
        damage.extend(unsealed.damaged.iter().map(DamagedLog::sentence));
        let newest = unsealed.newest.max(sealed);
        let (frozen, old) = (unsealed.segments, unsealed.sealed);
        let frozen = frozen.into_iter().map(Arc::new).collect();
        let mut of_engine = Rows::new(None);
        unsealed
            .interrupted
            .into_iter()
            .for_each(|mark| of_engine.push_mark(mark));
        of_engine.push_mark(HistoryMark {
            key: RowKey {
                time: wall.as_nanos(),
                epoch: engine.epoch(),
                sequence: 0,
            },
            event: HistoryEvent::Started,
        });
        let log = Log::create(folder, newest + 1)?;
        let consumer = Consumer::service(engine.clone(), wake);
        let open = Segment::new(log.segment);
        let recorder = Recorder::new(engine.clone(), consumer, rules.clone(), log, of_engine);
        let state = match damage.as_slice() {
            [] => String::new(),
            damage => damage.join("; "),
        };
        let history = Self {
            damage: state,
            folder: folder.to_owned(),
            rules,
            recorder: Mutex::new(recorder),
            recorder_figures: Mutex::default(),
            catalogue: Mutex::new(catalogue),
            series: Mutex::default(),
            stored: Mutex::new(Stored {
                tail: Tail { open, frozen },
                parts: Arc::new(parts),
            }),
            unused: Mutex::default(),
            skipped: Mutex::default(),
            _lock: held,
        };
        history.set_series(series);
        // Before anything is removed that shows how the last run ended.
        let mut recorder = lock(&history.recorder);
        let begun = recorder.commit_start(wall, &mut |id, rows| {
            lock(&history.stored).tail.open.add(id, rows, wall);
        });
        if let Err(error) = begun {
            // The next attempt creates another one.
            let _ = std::fs::remove_file(log::path(folder, newest + 1));
            return Err(error);
        }
        history.note_figures(&recorder);
        drop(recorder);
        for number in old {
            remove_if_there(&log::path(folder, number))?;
        }
        Ok(history)
    }

    fn set_series(&self, mut series: Vec<Series>) {
        series.sort_by(|a, b| (&a.name, a.id).cmp(&(&b.name, b.id)));
        *lock(&self.series) = Arc::new(series);
    }

    fn try_follow(&self, handles: &[u32], wall: Timestamp) -> Result<(), Error> {
        let mut recorder = lock(&self.recorder);
        let mut catalogue = lock(&self.catalogue);
        let mut series = lock(&self.series).to_vec();
        let before = series.len();
        let followed = recorder.follow(handles, wall, &mut catalogue, &mut series);
        if series.len() > before {
            self.set_series(series);
        }
        followed
    }

    fn try_record(&self, moment: Moment) -> Result<Option<Tick>, Error> {
        let mut recorder = lock(&self.recorder);
        if lock(&self.stored).tail.frozen.len() >= FROZEN_MAX {
            return Ok(Some(moment.now.saturating_add(NO_ROOM)));
        }
        let recorded = recorder.record(moment, &mut |series, rows| {
            lock(&self.stored).tail.open.add(series, rows, moment.wall);
        });
        self.note_figures(&recorder);
        let next = recorded?;
        if lock(&self.stored).tail.open.is_full(moment.wall) {
            self.begin_segment(&mut recorder, moment.wall)?;
        }
        Ok(next)
    }

    fn begin_segment(&self, recorder: &mut Recorder, wall: Timestamp) -> Result<(), Error> {
        let number = recorder.segment() + 1;
        recorder.begin_segment(Log::create(&self.folder, number)?, wall)?;
        self.note_figures(recorder);
        lock(&self.stored).tail.freeze(number);
        Ok(())
    }

    /// Records what happened until now, and closes the segment, so that maintenance moves it to
    /// files. Otherwise this happens when the segment is full, or an hour old.
    ///
    /// # Errors
    /// [`HistoryError`]; what could be recorded stays in the open segment.
    pub fn close_segment(&self, moment: Moment) -> Result<(), HistoryError> {
        self.record(moment)?;
        let begun = self.begin_segment(&mut lock(&self.recorder), moment.wall);
        begun.map_err(|error| error.of(&self.folder))
    }

    /// Does one step of maintenance: moves the oldest closed segment to files, removes what is no
    /// longer kept, or joins small files. Returns false if there is nothing to do.
    fn try_maintain(&self, wall: Timestamp) -> Result<bool, Error> {
        self.remove_unused()?;
        let oldest = lock(&self.stored).tail.frozen.first().cloned();
        let series = Arc::clone(&lock(&self.series));
        let keep_of = |series: &Series| compact::keep_of(&self.rules, series);
        if let Some(segment) = oldest {
            let added = seal::seal(&self.folder, &segment, &series, &keep_of)?;
            self.replace(&[], added, Some(segment.number))?;
            remove_if_there(&log::path(&self.folder, segment.number))?;
            return Ok(true);
        }
        let parts = Arc::clone(&lock(&self.stored).parts);
        let now = wall.as_nanos();
        let expired: Vec<_> = parts
            .iter()
            .filter(|part| part.row.expires < now)
            .cloned()
            .collect();
        if let Some(part) = expired.first() {
            // The rules may keep rows for longer now than when the file was written.
            let expires = compact::expiry(part, &series, &keep_of);
            let added = match expires < now {
                true => Vec::new(),
                false => vec![PartRow {
                    expires,
                    ..part.row.clone()
                }],
            };
            let is_kept = !added.is_empty();
            self.replace(std::slice::from_ref(part), added, None)?;
            if is_kept {
                // It is the same file.
                lock(&self.unused).retain(|one| one.row.path != part.row.path);
            }
            return Ok(true);
        }
        let chosen = compact::choose(&parts, &lock(&self.skipped), compact::FILES_MIN);
        drop(parts);
        if chosen.is_empty() {
            return Ok(false);
        }
        match compact::join(&self.folder, &chosen, &series, &keep_of, now) {
            Ok(joined) => {
                self.replace(&chosen, joined.into_iter().collect(), None)?;
                Ok(true)
            }
            Err(Error::Damaged(_) | Error::Io(_)) => {
                // They stay as they are; what can be read of them is read.
                let mut skipped = lock(&self.skipped);
                skipped.extend(chosen.iter().map(|part| part.row.path.clone()));
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }

    /// Replaces parts by others, and forgets a segment whose rows these have.
    fn replace(
        &self,
        removed: &[Arc<Part>],
        added: Vec<PartRow>,
        segment: Option<u64>,
    ) -> Result<(), Error> {
        let paths: Vec<String> = removed.iter().map(|part| part.row.path.clone()).collect();
        lock(&self.catalogue).replace_parts(&paths, &added)?;
        // A file with the name of one that it replaces is not removed.
        let kept: Vec<String> = added.iter().map(|row| row.path.clone()).collect();
        let mut stored = lock(&self.stored);
        let mut parts = stored.parts.to_vec();
        parts.retain(|part| !paths.contains(&part.row.path));
        parts.extend(
            added
                .into_iter()
                .map(|row| Arc::new(Part::new(&self.folder, row))),
        );
        parts.sort_by_key(|part| part.row.first_time);
        stored.parts = Arc::new(parts);
        stored.tail.frozen.retain(|one| Some(one.number) != segment);
        drop(stored);
        let is_replaced = |part: &&Arc<Part>| !kept.contains(&part.row.path);
        lock(&self.unused).extend(removed.iter().filter(is_replaced).cloned());
        Ok(())
    }

    /// Removes the files of parts that no query reads any more.
    fn remove_unused(&self) -> Result<(), Error> {
        let mut unused = lock(&self.unused);
        let mut kept = Vec::new();
        let mut result = Ok(());
        for part in unused.drain(..) {
            if Arc::strong_count(&part) > 1 || result.is_err() {
                kept.push(part);
                continue;
            }
            result = part.remove();
            if result.is_err() {
                kept.push(part);
            }
        }
        *unused = kept;
        result
    }

    /// Returns what is stored of a series at this moment.
    fn view_of(&self, series: u32) -> View {
        let Stored { tail, parts } = &*lock(&self.stored);
        let segments = tail.frozen.iter().map(Arc::as_ref).chain([&tail.open]);
        View::of(parts, segments, series)
    }

    /// Answers a query as [`History::read`] does, and returns the work that the page took: about the
    /// number of rows that were decoded, with an equivalent for files that were opened.
    ///
    /// # Errors
    /// As [`History::read`].
    pub fn read_with_work(
        &self,
        query: &HistoryQuery,
        wall: Timestamp,
    ) -> Result<(HistoryPage, usize), HistoryError> {
        let series = Arc::clone(&lock(&self.series));
        let read = query::read(query, &series, &|id| self.view_of(id), wall.as_nanos());
        let (mut page, work) = read.map_err(|error| error.of(&self.folder))?;
        self.unload_parts();
        page.state = match (&*self.damage, &*page.state) {
            (damage, "") => damage.to_owned(),
            ("", state) => state.to_owned(),
            (damage, state) => format!("{damage}; {state}"),
        };
        Ok((page, work))
    }

    /// Forgets the indices and summaries of files if they take too much memory.
    fn unload_parts(&self) {
        let parts = Arc::clone(&lock(&self.stored).parts);
        let bytes: usize = parts.iter().map(|part| part.loaded_bytes()).sum();
        if bytes > LOADED_BYTES_MAX {
            parts.iter().for_each(|part| part.unload());
        }
    }

    /// Keeps the figures of the recorder, so that reading them does not wait while it writes.
    fn note_figures(&self, recorder: &Recorder) {
        *lock(&self.recorder_figures) = RecorderFigures {
            recorded: recorder.recorded,
            lost: recorder.lost,
            log_bytes: recorder.log_bytes(),
        };
    }
}

impl History for FileHistory {
    fn location(&self) -> String {
        self.folder.display().to_string()
    }

    fn follow(&self, handles: &[u32], wall: Timestamp) -> Result<(), HistoryError> {
        let followed = self.try_follow(handles, wall);
        followed.map_err(|error| error.of(&self.folder))
    }

    fn is_idle(&self) -> bool {
        lock(&self.recorder).is_idle()
    }

    fn record(&self, moment: Moment) -> Result<Option<Tick>, HistoryError> {
        let recorded = self.try_record(moment);
        recorded.map_err(|error| error.of(&self.folder))
    }

    fn maintain(&self, wall: Timestamp) -> Result<bool, HistoryError> {
        let done = self.try_maintain(wall);
        done.map_err(|error| error.of(&self.folder))
    }

    fn is_maintenance_due(&self) -> bool {
        !lock(&self.stored).tail.frozen.is_empty()
    }

    fn read(&self, query: &HistoryQuery, wall: Timestamp) -> Result<HistoryPage, HistoryError> {
        self.read_with_work(query, wall).map(|(page, _)| page)
    }

    fn settings(&self, variable: &str) -> Option<HistorySettings> {
        recorder::settings_of(&self.rules, variable)
    }

    fn close(&self, wall: Timestamp) -> Result<(), HistoryError> {
        let mut recorder = lock(&self.recorder);
        let closed = recorder.close(wall, &mut |series, rows| {
            lock(&self.stored).tail.open.add(series, rows, wall);
        });
        self.note_figures(&recorder);
        drop(recorder);
        closed.map_err(|error| error.of(&self.folder))
    }

    fn figures(&self) -> HistoryFigures {
        let RecorderFigures {
            recorded,
            lost,
            log_bytes,
        } = *lock(&self.recorder_figures);
        let stored = lock(&self.stored);
        let of_parts: u64 = stored.parts.iter().map(|part| part.row.bytes).sum();
        HistoryFigures {
            recorded,
            lost,
            unsealed: stored.tail.rows() as u64,
            bytes: of_parts + log_bytes,
        }
    }
}

impl fmt::Debug for FileHistory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileHistory")
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}

fn remove_if_there(path: &Path) -> Result<(), Error> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// Creates the folder, for its user alone.
fn create(folder: &Path) -> Result<(), Error> {
    let mut builder = DirBuilder::new();
    Ok(builder.recursive(true).mode(0o700).create(folder)?)
}

/// Returns the paths of all files of rows within the folder.
fn files_in(folder: &Path) -> Result<Vec<String>, Error> {
    let all = files_below(&folder.join("samples"))?.into_iter();
    let inside = all.filter_map(|path| {
        let inside = path.strip_prefix(folder).ok()?.to_str()?;
        part::segments_of(inside).map(|_| inside.to_owned())
    });
    Ok(inside.collect())
}

/// Returns the files in the folders of dates below a folder.
fn files_below(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    let dates = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(found),
        dates => dates?,
    };
    for date in dates {
        let date = date?;
        if !date.file_type()?.is_dir() {
            continue;
        }
        for file in std::fs::read_dir(date.path())? {
            found.push(file?.path());
        }
    }
    Ok(found)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test stops at what it did not expect")]
mod tests {
    use trunkline_engine::EngineOptions;

    use super::*;

    struct Unheard;

    impl Wake for Unheard {
        fn wake(&self) {}
    }

    /// The recorder holds its lock while it waits for the disk.
    #[test]
    fn figures_do_not_wait_for_the_recorder() {
        let folder = tempfile::tempdir().unwrap();
        let engine = Engine::new(EngineOptions::new("test", 1));
        let wall = Timestamp::from_nanos(1_790_000_000_000_000_000);
        let wake = Box::new(Unheard);
        let history = FileHistory::open(folder.path(), Vec::new(), &engine, wake, wall).unwrap();
        let recorder = history.recorder.lock().unwrap();
        let figures = history.figures();
        assert_eq!(figures.recorded, recorder.recorded);
        assert_eq!(figures.recorded, 1, "the start of the engine");
        assert_eq!(figures.unsealed, 1);
    }
}
