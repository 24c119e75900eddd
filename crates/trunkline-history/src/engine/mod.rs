//! The history of a running engine: recording, maintenance and queries.

mod recorder;
mod spooling;

use std::collections::HashMap;
use std::fmt;
use std::fs::{DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use trunkline_engine::history::{History, HistoryError, HistoryFigures, SpoolState};
use trunkline_engine::{Consumer, Engine, Wake};
use trunkline_types::history::{
    HistoryEvent, HistoryMark, HistoryPage, HistoryQuery, HistoryRule, HistorySettings, RowKey,
    Rows,
};
use trunkline_types::{Moment, Tick, Timestamp};

use self::recorder::Recorder;
use self::spooling::Spooling;
use crate::catalogue::snapshot::Snapshot;
use crate::catalogue::{Catalogue, PartRow, Series, SpoolLog};
use crate::error::Error;
use crate::files::part::{Part, SeriesSpan};
use crate::files::unsealed::{self, DamagedLog, Unsealed};
use crate::files::{files_in, join, orphans};
use crate::folder::absence;
use crate::log::tail::{Segment, Tail};
use crate::log::{self, Log, LogEnd, spool};
use crate::paths::{CATALOGUE, remove_if_there, sync_name};
use crate::query::{self, View};
use crate::sync::lock;
use crate::{lock_file, rules};

/// Delay before the recorder checks again whether a closed segment has become files.
const NO_ROOM: Duration = Duration::from_millis(100);

/// Nanoseconds until the next attempt to determine the age of the rows of an unreadable file.
const EXPIRY_RETRY: i64 = 600_000_000_000;

/// Memory for the indices and summaries of files, which queries use repeatedly.
const LOADED_BYTES_MAX: usize = 256 << 20;

/// Opens the history in a folder: [`FileHistory::open_with_spool`] for hosts of an engine.
///
/// # Errors
/// As [`FileHistory::open_with_spool`].
pub fn open(
    folder: &Path,
    spool: Option<&Path>,
    rules: Vec<HistoryRule>,
    engine: &Engine,
    wake: Box<dyn Wake>,
    wall: Timestamp,
) -> Result<Box<dyn History>, HistoryError> {
    Ok(Box::new(FileHistory::open_with_spool(
        folder, spool, rules, engine, wake, wall,
    )?))
}

/// A history in a folder.
pub struct FileHistory {
    /// Damage found at the start, as a sentence.
    damage: String,
    folder: PathBuf,
    rules: Vec<HistoryRule>,
    recorder: Mutex<Recorder>,
    /// The recorder's counters after its last step. Locked only briefly.
    recorder_figures: Mutex<RecorderFigures>,
    /// Where the log is. Locked after the recorder.
    spooling: Mutex<Spooling>,
    /// The state of the spool after the last change. Locked only briefly.
    spool_state: Mutex<Option<SpoolState>>,
    /// Locked after `spooling`.
    catalogue: Mutex<Catalogue>,
    /// All series, in the order of their names and ids. Locked after the catalogue.
    series: Mutex<Arc<Vec<Series>>>,
    /// Locked last, and only briefly.
    stored: Mutex<Stored>,
    /// Replaced parts, whose files queries may still read.
    unused: Mutex<Vec<Arc<Part>>>,
    /// Files that could not be joined.
    skipped: Mutex<join::Skipped>,
    /// Paths of files that may have expired but could not be read, each with the time of the next
    /// attempt.
    unknown_expiry: Mutex<HashMap<String, i64>>,
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
    /// Opens the history in a folder, and creates the folder if it does not exist. `wake` is called when
    /// the engine has something to record.
    ///
    /// # Errors
    /// The folder is in use by another engine, is damaged, was written by a newer version, or cannot
    /// be used.
    pub fn open(
        folder: impl Into<PathBuf>,
        rules: Vec<HistoryRule>,
        engine: &Engine,
        wake: Box<dyn Wake>,
        wall: Timestamp,
    ) -> Result<Self, HistoryError> {
        Self::open_with_spool(folder, None, rules, engine, wake, wall)
    }

    /// As [`open`](Self::open), with a folder on another disk, the spool, which takes rows while the
    /// history's folder cannot be written. The spool is created if it does not exist, but its parent
    /// folder must exist. The history opens even if the spool cannot be used now.
    ///
    /// # Errors
    /// As [`open`](Self::open); also if the spool belongs to another history.
    pub fn open_with_spool(
        folder: impl Into<PathBuf>,
        spool: Option<&Path>,
        rules: Vec<HistoryRule>,
        engine: &Engine,
        wake: Box<dyn Wake>,
        wall: Timestamp,
    ) -> Result<Self, HistoryError> {
        let folder = folder.into();
        Self::try_open(&folder, spool, rules, engine, wake, wall).map_err(|error| error.of(&folder))
    }

    fn try_open(
        folder: &Path,
        spool: Option<&Path>,
        rules: Vec<HistoryRule>,
        engine: &Engine,
        wake: Box<dyn Wake>,
        wall: Timestamp,
    ) -> Result<Self, Error> {
        create(folder)?;
        let held = lock_file::hold(folder)?;
        let segments = log::segments(folder)?;
        let path = folder.join(CATALOGUE);
        let has_files = !segments.is_empty() || !files_in(folder)?.is_empty();
        if has_files && !path.exists() {
            return Err(absence(folder)?);
        }
        let opened = Catalogue::open(&path, !has_files).and_then(|mut catalogue| {
            let content = Snapshot::of(&mut catalogue)?;
            Ok((catalogue, content))
        });
        let (mut catalogue, content) = match opened {
            // The spool can record, so the catalogue can be opened for writing later.
            Err(error) if spool.is_some() && error.is_of_disk() => {
                let content = Snapshot::read(folder).map_err(|_| error)?;
                (Catalogue::unopened(&path), content)
            }
            opened => opened?,
        };
        let Snapshot {
            mut series,
            parts: rows,
            spool_logs,
            spool_ends,
        } = content;
        let mut spooling = Spooling::new(spool);
        let spooled = spooling.open(folder, &spool_logs, &mut catalogue)?;
        let mut damage = Vec::new();
        let keep_of = |series: &Series| rules::keep_of(&rules, series);
        let is_expired = |spans: &[(Series, SeriesSpan)]| {
            let times = spans.iter().map(|(series, span)| (series, span.last_time));
            join::expiry_of(times, &keep_of) < wall.as_nanos()
        };
        let apart = match orphans::remove(folder, &rows, &segments, &is_expired) {
            // The next start removes them.
            Err(error) if spool.is_some() && error.is_of_disk() => 0,
            removed => removed?,
        };
        if apart > 0 {
            damage.push(orphans::sentence(apart));
        }
        let sealed = rows.iter().map(|part| part.segment).max().unwrap_or(0);
        let parts = rows.into_iter().map(|row| Arc::new(Part::new(folder, row)));
        let parts: Vec<Arc<Part>> = parts.collect();
        let ends = spooling.ends_before(&spooled);
        let mut unsealed = Unsealed::beside(folder, &parts, &ends, wall)?;
        let of_logs = std::mem::take(&mut unsealed.spool_ends);
        spooling.add_ends(spool_ends, of_logs, &spooled);
        let new = unsealed::unknown(&unsealed.series, &series)?;
        if !new.is_empty() {
            spooling.enter_at_start(&new, &mut catalogue)?;
            series.extend(new);
        }
        damage.extend(unsealed.damaged.iter().map(DamagedLog::sentence));
        let newest = unsealed.newest.max(sealed);
        let frozen = std::mem::take(&mut unsealed.segments);
        let mut tail = Tail {
            open: Segment::new(newest),
            frozen: frozen.into_iter().map(Arc::new).collect(),
        };
        for log in spooled {
            let Some(mut recovered) = spooling.read(&log, wall) else {
                continue;
            };
            let mut new = Vec::new();
            spool::translate(&mut recovered, &series, &mut new);
            spooling.enter_at_start(&new, &mut catalogue)?;
            series.extend(new);
            tail.open.number += 1;
            let is_continued = spooling.end_of(&log).is_some();
            let mut segment = Segment::in_spool(tail.open.number, log);
            let damaged = unsealed::fill(&mut segment, &recovered, wall);
            damage.extend(damaged.map(|damaged| format!("in the spool, {}", damaged.sentence())));
            let follows = recovered.follows.map_or(0, |end| end.segment);
            let is_newest = follows >= unsealed.newest_commit && !is_continued;
            // Without rows, creating the log may have failed, and then the other log may have continued.
            if is_newest && !recovered.rows.is_empty() {
                unsealed.interrupted = unsealed::interruption(&recovered);
            }
            tail.insert(segment);
        }
        let number = tail.open.number + 1;
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
        let log = match Log::create(folder, number) {
            Ok(log) => {
                tail.open = Segment::new(number);
                log
            }
            Err(error) => {
                // As far as this run knows, everything in the logs of earlier runs was acknowledged.
                let left = LogEnd {
                    segment: unsealed.newest,
                    bytes: u64::MAX,
                };
                let begun = spooling.begin(error.of(folder), left, number, wall);
                let (log, open) = begun.map_err(Error::Placed)?;
                tail.open = open;
                log
            }
        };
        let consumer = Consumer::service(engine.clone(), wake);
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
            spool_state: Mutex::new(spooling.state()),
            spooling: Mutex::new(spooling),
            catalogue: Mutex::new(catalogue),
            series: Mutex::default(),
            stored: Mutex::new(Stored {
                tail,
                parts: Arc::new(parts),
            }),
            unused: Mutex::default(),
            skipped: Mutex::default(),
            unknown_expiry: Mutex::default(),
            _lock: held,
        };
        history.set_series(series);
        // Committed before the logs that show how the last run ended are removed.
        let mut recorder = lock(&history.recorder);
        let begun = history.commit_somewhere(&mut recorder, wall, false, &mut |recorder| {
            recorder.commit_start(wall, &mut |id, rows| {
                lock(&history.stored).tail.open.add(id, rows, wall);
            })
        });
        if let Err(error) = begun {
            // The next attempt creates a new log.
            let _ = std::fs::remove_file(log::path(folder, number));
            let open = lock(&history.stored).tail.open.spool_log.clone();
            history.spooling().abandon(open.as_ref());
            return Err(error);
        }
        history.note_figures(&recorder);
        drop(recorder);
        for number in unsealed.sealed {
            match remove_if_there(&log::path(folder, number)) {
                // The next start removes it.
                Err(error) if spool.is_some() && error.is_of_disk() => {}
                removed => removed?,
            }
        }
        Ok(history)
    }

    fn set_series(&self, mut series: Vec<Series>) {
        series.sort_by(|a, b| (&a.name, a.id).cmp(&(&b.name, b.id)));
        *lock(&self.series) = Arc::new(series);
    }

    fn try_follow(&self, handles: &[u32], wall: Timestamp) -> Result<(), Error> {
        let mut recorder = lock(&self.recorder);
        let mut spooling = self.spooling();
        let mut catalogue = lock(&self.catalogue);
        let mut series = lock(&self.series).to_vec();
        let before = series.len();
        let enter = &mut |new: &[Series]| spooling.enter(new, &mut catalogue);
        let followed = recorder.follow(handles, wall, enter, &mut series);
        if series.len() > before {
            self.set_series(series);
        }
        followed
    }

    fn try_record(&self, moment: Moment) -> Result<Option<Tick>, Error> {
        let mut recorder = lock(&self.recorder);
        if let Some(wait) = self.choose_place(&mut recorder, moment) {
            return Ok(Some(wait));
        }
        let recorded = self.commit_somewhere(&mut recorder, moment.wall, true, &mut |recorder| {
            recorder.record(moment, &mut |series, rows| {
                lock(&self.stored).tail.open.add(series, rows, moment.wall);
            })
        });
        self.note_figures(&recorder);
        let next = recorded?;
        if lock(&self.stored).tail.open.is_full(moment.wall) {
            self.begin_segment(&mut recorder, moment.wall)?;
            self.note_figures(&recorder);
        }
        Ok(self.with_retry(next, moment.now))
    }

    /// Records everything up to now, and closes the segment, so that maintenance moves it to files.
    /// Otherwise a segment is closed when it is full or an hour old.
    ///
    /// # Errors
    /// [`HistoryError`]; the updates recorded so far stay in the open segment.
    pub fn close_segment(&self, moment: Moment) -> Result<(), HistoryError> {
        self.record(moment)?;
        let begun = self.begin_segment(&mut lock(&self.recorder), moment.wall);
        begun.map_err(|error| error.of(&self.folder))
    }

    /// Performs one step of maintenance: moves the oldest closed segment to files, removes expired
    /// rows, or joins small files. Returns false if there is nothing to do.
    fn try_maintain(&self, wall: Timestamp) -> Result<bool, Error> {
        self.find_spool(wall)?;
        self.spooling().check_folder(&self.folder)?;
        self.remove_unused()?;
        let oldest = lock(&self.stored).tail.frozen.first().cloned();
        let series = Arc::clone(&lock(&self.series));
        let keep_of = |series: &Series| rules::keep_of(&self.rules, series);
        if let Some(segment) = oldest {
            match &segment.spool_log {
                Some(spool_log) => self.seal_spooled(&segment, spool_log, wall)?,
                None => {
                    self.seal_segment(&segment, None)?;
                    remove_if_there(&log::path(&self.folder, segment.number))?;
                }
            }
            return Ok(true);
        }
        let parts = Arc::clone(&lock(&self.stored).parts);
        let now = wall.as_nanos();
        let is_due = |part: &&Arc<Part>| {
            let unknown = lock(&self.unknown_expiry);
            let next = unknown.get(&part.row.path);
            part.row.expires < now && next.is_none_or(|next| *next <= now)
        };
        if let Some(part) = parts.iter().find(is_due) {
            // The rules may keep rows for longer now than when the file was written.
            let expires = match join::expiry(part, &series, &keep_of) {
                Ok(expires) => expires,
                Err(_) => {
                    // The age of the rows is unknown; the file may be readable again later.
                    let next = now.saturating_add(EXPIRY_RETRY);
                    lock(&self.unknown_expiry).insert(part.row.path.clone(), next);
                    return Ok(true);
                }
            };
            lock(&self.unknown_expiry).remove(&part.row.path);
            let added = match expires < now {
                true => Vec::new(),
                false => vec![PartRow {
                    expires,
                    ..part.row.clone()
                }],
            };
            let is_kept = !added.is_empty();
            self.replace(std::slice::from_ref(part), added, None, None)?;
            if is_kept {
                // The new entry is for the same file.
                lock(&self.unused).retain(|one| one.row.path != part.row.path);
            }
            return Ok(true);
        }
        let skipped = lock(&self.skipped).now(now);
        let chosen = join::choose(&parts, &skipped, join::FILES_MIN);
        if chosen.is_empty() {
            return Ok(false);
        }
        match join::join(&self.folder, &chosen, &series, &keep_of, now) {
            Ok(joined) => {
                self.replace(&chosen, joined.into_iter().collect(), None, None)?;
                Ok(true)
            }
            Err(error @ (Error::Damaged(_) | Error::Io(_))) => {
                // The files stay as they are; queries return their readable rows.
                let is_damage = matches!(error, Error::Damaged(_));
                lock(&self.skipped).add(&chosen, is_damage, &parts, now);
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }

    /// Replaces parts by others, and drops the segment whose rows are in the new parts, with its log
    /// in the spool.
    fn replace(
        &self,
        removed: &[Arc<Part>],
        added: Vec<PartRow>,
        segment: Option<u64>,
        spool_log: Option<&SpoolLog>,
    ) -> Result<(), Error> {
        let paths: Vec<String> = removed.iter().map(|part| part.row.path.clone()).collect();
        self.enter_and(|catalogue| catalogue.replace_parts(&paths, &added, spool_log))?;
        // Do not remove a replaced file whose name a new file has.
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

    /// Removes the files of replaced parts that no query reads any more.
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

    /// Returns what is stored of a series now.
    fn view_of(&self, series: u32) -> View {
        let Stored { tail, parts } = &*lock(&self.stored);
        let segments = tail.frozen.iter().map(Arc::as_ref).chain([&tail.open]);
        View::of(parts, segments, series)
    }

    /// Answers a query as [`History::read`] does, and also returns the work for the page: roughly the
    /// number of decoded rows, with an equivalent for each file that was opened.
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
        let unloaded = match lock(&self.stored).tail.unloaded_rows() {
            0 => String::new(),
            rows => format!(
                "{rows} rows are only in the spool, and are missing here until they are back"
            ),
        };
        let sentences = [&self.damage, &unloaded, &page.state].into_iter();
        let sentences: Vec<&str> = sentences
            .map(String::as_str)
            .filter(|sentence| !sentence.is_empty())
            .collect();
        page.state = sentences.join("; ");
        Ok((page, work))
    }

    /// Unloads the indices and summaries of all files if they take too much memory.
    fn unload_parts(&self) {
        let parts = Arc::clone(&lock(&self.stored).parts);
        let bytes: usize = parts.iter().map(|part| part.loaded_bytes()).sum();
        if bytes > LOADED_BYTES_MAX {
            parts.iter().for_each(|part| part.unload());
        }
    }

    /// Copies the recorder's figures, so that reading them does not wait while it writes.
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
        let done = done.map_err(|error| error.of(&self.folder));
        self.spooling().note_maintenance(done.as_ref().err());
        done
    }

    fn is_maintenance_due(&self) -> bool {
        !lock(&self.stored).tail.frozen.is_empty()
    }

    fn read(&self, query: &HistoryQuery, wall: Timestamp) -> Result<HistoryPage, HistoryError> {
        self.read_with_work(query, wall).map(|(page, _)| page)
    }

    fn settings(&self, variable: &str) -> Option<HistorySettings> {
        rules::settings_of(&self.rules, variable)
    }

    fn close(&self, wall: Timestamp) -> Result<(), HistoryError> {
        let mut recorder = lock(&self.recorder);
        // This run has no other chance to record what waits.
        let closed = self.commit_somewhere(&mut recorder, wall, false, &mut |recorder| {
            recorder.close(wall, &mut |series, rows| {
                lock(&self.stored).tail.open.add(series, rows, wall);
            })
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
            spooled: stored.tail.spooled_rows() as u64,
            bytes: of_parts + log_bytes,
        }
    }

    fn spool(&self) -> Option<SpoolState> {
        lock(&self.spool_state).clone()
    }
}

impl fmt::Debug for FileHistory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileHistory")
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}

/// Creates the folder, accessible only to its user. The new folder survives a power loss.
fn create(folder: &Path) -> Result<(), Error> {
    let missing = folder.ancestors().take_while(|above| !above.exists());
    let missing: Vec<&Path> = missing.filter(|above| *above != Path::new("")).collect();
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700).create(folder)?;
    missing.into_iter().try_for_each(sync_name)
}
