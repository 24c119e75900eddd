//! Records the history of a running engine, maintains its files, and answers queries.

mod recorder;
mod spooling;

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use trunkline_engine::history::{History, HistoryError, HistoryFigures, SpoolState};
use trunkline_engine::{Consumer, Engine, Wake};
use trunkline_types::history::{
    HistoryEvent, HistoryEventRow, HistoryPage, HistoryQuery, HistoryRule, HistorySettings, RowKey,
    Rows,
};
use trunkline_types::{Moment, Tick, Timestamp};

use self::recorder::Recorder;
use self::spooling::{Spooling, VisibleSpool};
use crate::catalogue::snapshot::Snapshot;
use crate::catalogue::{Catalogue, PartRow, Series, SpoolLog};
use crate::error::Error;
use crate::files::part::{Part, SeriesSpan};
use crate::files::unsealed::{self, DamagedLog, Unsealed};
use crate::files::{files_in, join, orphans};
use crate::folder::absence;
use crate::log::tail::{Segment, Tail};
use crate::log::{self, Log, LogEnd, spool};
use crate::paths::{CATALOGUE, remove_if_there, sync_parent};
use crate::private;
use crate::query::{self, View};
use crate::sync::lock;
use crate::{lock_file, rules};

/// Delay before the recorder checks again whether maintenance has moved a closed segment to files.
const BACKLOG_RETRY: Duration = Duration::from_millis(100);

/// Delay before another attempt to determine when an unreadable file expires, in nanoseconds.
const EXPIRY_RETRY: i64 = 600_000_000_000;

/// Maximum memory for cached indices and summaries of files, in bytes.
const LOADED_BYTES_MAX: usize = 256 << 20;

/// Opens the history in a folder for the host of an engine. Does the same as
/// [`FileHistory::open_with_spool`].
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
    /// Description of the damage that was found when the history was opened; empty if there was none.
    damage: String,
    folder: PathBuf,
    rules: Vec<HistoryRule>,
    recorder: Mutex<Recorder>,
    /// A copy of the recorder's counters. Locked only briefly.
    recorder_figures: Mutex<RecorderFigures>,
    /// Determines which folder holds the log. Locked after `recorder`.
    spooling: Mutex<Spooling>,
    /// A copy of the state of the spool. Locked only briefly.
    visible_spool: Mutex<VisibleSpool>,
    /// Locked after `spooling`.
    catalogue: Mutex<Catalogue>,
    /// All series, sorted by name and id. Locked after `catalogue`.
    series: Mutex<Arc<Vec<Series>>>,
    /// The committed rows. Locked last, and only briefly.
    stored: Mutex<Stored>,
    /// Replaced parts whose files are not deleted yet, because queries may still read them.
    unused: Mutex<Vec<Arc<Part>>>,
    /// Files that could not be joined.
    skipped: Mutex<join::Skipped>,
    /// Files that may have expired but could not be read: from path to the time of the next attempt, in
    /// nanoseconds.
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
    /// Opens the history in a folder, and creates the folder if it does not exist. The engine calls `wake`
    /// when updates are waiting to be recorded.
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

    /// Does the same as [`open`](Self::open), with a spool: a folder on another disk that stores rows while
    /// the history's folder cannot be written. The spool is created if it does not exist, but its parent
    /// folder must exist. The history opens even if the spool cannot be used now.
    ///
    /// # Errors
    /// The errors of [`open`](Self::open), and an error if the spool belongs to another history.
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
        let folder_lock = lock_file::acquire(folder)?;
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
            // With a spool, recording can begin before the catalogue can be opened for writing.
            Err(error) if spool.is_some() && error.is_disk_failure() => {
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
        let mut spooling = Spooling::new(spool, engine.epoch(), spool_ends);
        let spooled = spooling.open(folder, &spool_logs, &mut catalogue)?;
        let mut damage = Vec::new();
        let keep_of = |series: &Series| rules::keep_of(&rules, series);
        let is_expired = |spans: &[(Series, SeriesSpan)]| {
            let times = spans.iter().map(|(series, span)| (series, span.last_time));
            join::expiry_of(times, &keep_of) < wall.as_nanos()
        };
        let set_apart_count = match orphans::remove(folder, &rows, &segments, &is_expired) {
            // The next start removes the files.
            Err(error) if spool.is_some() && error.is_disk_failure() => 0,
            removed => removed?,
        };
        if set_apart_count > 0 {
            damage.push(orphans::sentence(set_apart_count));
        }
        let sealed = rows.iter().map(|part| part.segment).max().unwrap_or(0);
        let parts = rows.into_iter().map(|row| Arc::new(Part::new(folder, row)));
        let parts: Vec<Arc<Part>> = parts.collect();
        let ends = spooling.ends_before(&spooled);
        let mut unsealed = Unsealed::beside(folder, &parts, &ends, wall)?;
        let logged_ends = std::mem::take(&mut unsealed.spool_ends);
        spooling.add_ends(logged_ends, &spooled);
        let new = unsealed::unknown(&unsealed.series, &series)?;
        if !new.is_empty() {
            spooling.enter_at_start(&new, &mut catalogue)?;
            series.extend(new);
        }
        damage.extend(unsealed.damaged.iter().map(DamagedLog::sentence));
        let newest = unsealed.newest.max(sealed);
        let closed = std::mem::take(&mut unsealed.segments);
        let mut tail = Tail {
            open: Segment::new(newest),
            closed: closed.into_iter().map(Arc::new).collect(),
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
            // If a log has no rows, its creation may have failed, and recording may have gone on in the old
            // log.
            if is_newest && !recovered.rows.is_empty() {
                unsealed.interrupted = unsealed::interruption(&recovered);
            }
            tail.insert(segment);
        }
        let number = tail.open.number + 1;
        let mut engine_events = Rows::new(None);
        unsealed
            .interrupted
            .into_iter()
            .for_each(|mark| engine_events.push_event(mark));
        engine_events.push_event(HistoryEventRow {
            key: RowKey {
                time: wall.as_nanos(),
                epoch: engine.epoch(),
                sequence: 0,
            },
            event: HistoryEvent::Started,
        });
        let log = match Log::create(folder, number, engine.epoch()) {
            Ok(log) => {
                tail.open = Segment::new(number);
                log
            }
            Err(error) => {
                // All rows in the logs of earlier runs count as acknowledged.
                let folder_end = LogEnd {
                    segment: unsealed.newest,
                    bytes: u64::MAX,
                };
                let begun = spooling.begin(error.of(folder), folder_end, number, wall);
                let (log, open) = begun.map_err(Error::Located)?;
                tail.open = open;
                log
            }
        };
        let consumer = Consumer::service(engine.clone(), wake);
        let recorder = Recorder::new(engine.clone(), consumer, rules.clone(), log, engine_events);
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
            visible_spool: Mutex::new(spooling.visible()),
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
            _lock: folder_lock,
        };
        history.set_series(series);
        // Commit the events of this start before removing the logs that show how the last run ended.
        let mut recorder = lock(&history.recorder);
        let begun = history.commit_with_fallback(&mut recorder, wall, false, &mut |recorder| {
            recorder.commit_start(wall, &mut |id, rows| {
                lock(&history.stored).tail.open.add(id, rows, wall);
            })
        });
        if let Err(error) = begun {
            // Remove the log; the next attempt to open the history creates a new one.
            let _ = std::fs::remove_file(log::path(folder, number));
            let open = lock(&history.stored).tail.open.spool_log.clone();
            history.spooling().remove_open_log(open.as_ref());
            return Err(error);
        }
        history.update_figures(&recorder);
        drop(recorder);
        for number in unsealed.sealed {
            match remove_if_there(&log::path(folder, number)) {
                // The next start removes the log.
                Err(error) if spool.is_some() && error.is_disk_failure() => {}
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
        if let Some(wait) = self.choose_log_folder(&mut recorder, moment) {
            return Ok(Some(wait));
        }
        let recorded =
            self.commit_with_fallback(&mut recorder, moment.wall, true, &mut |recorder| {
                recorder.record(moment, &mut |series, rows| {
                    lock(&self.stored).tail.open.add(series, rows, moment.wall);
                })
            });
        self.update_figures(&recorder);
        let next = recorded?;
        if lock(&self.stored).tail.open.is_full(moment.wall) {
            self.begin_segment(&mut recorder, moment.wall)?;
            self.update_figures(&recorder);
        }
        Ok(self.with_retry(next, moment.now))
    }

    /// Records all waiting updates and closes the open segment, so that maintenance moves its rows to files.
    /// Without this call, a segment is closed when it is full or an hour old.
    ///
    /// # Errors
    /// Returns a [`HistoryError`] if the log cannot be written. Updates that were committed before the error
    /// stay in the open segment.
    pub fn close_segment(&self, moment: Moment) -> Result<(), HistoryError> {
        self.record(moment)?;
        let begun = self.begin_segment(&mut lock(&self.recorder), moment.wall);
        begun.map_err(|error| error.of(&self.folder))
    }

    /// Performs one maintenance step: moves the oldest closed segment to files, removes expired rows, or
    /// joins small files. Returns false if there is nothing to do.
    fn try_maintain(&self, wall: Timestamp) -> Result<bool, Error> {
        self.reopen_spool(wall)?;
        self.spooling().check_folder(&self.folder)?;
        self.remove_unused()?;
        let oldest = lock(&self.stored).tail.closed.first().cloned();
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
            // The rules may have changed since the file was written, and may keep its rows for longer now.
            let expires = match join::expiry(part, &series, &keep_of) {
                Ok(expires) => expires,
                Err(_) => {
                    // The file may be readable again later.
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
                // The new entry refers to the same file, so the file must not be deleted.
                lock(&self.unused).retain(|one| one.row.path != part.row.path);
            }
            return Ok(true);
        }
        let skipped = lock(&self.skipped).paths_at(now);
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
                // Leave the files unchanged; queries return the rows that can be read.
                let is_damage = matches!(error, Error::Damaged(_));
                lock(&self.skipped).add(&chosen, is_damage, &parts, now);
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }

    /// Replaces parts with others. `segment` and `spool_log` are the closed segment whose rows are in the new
    /// parts, and its log if that is in the spool: the segment is dropped, and the log is entered in the
    /// catalogue.
    fn replace(
        &self,
        removed: &[Arc<Part>],
        added: Vec<PartRow>,
        segment: Option<u64>,
        spool_log: Option<&SpoolLog>,
    ) -> Result<(), Error> {
        let paths: Vec<String> = removed.iter().map(|part| part.row.path.clone()).collect();
        self.enter_pending_and(|catalogue| catalogue.replace_parts(&paths, &added, spool_log))?;
        // Keep a replaced file if a new file has the same path.
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
        stored.tail.closed.retain(|one| Some(one.number) != segment);
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

    /// Returns the current sources of the rows of a series.
    fn view_of(&self, series: u32) -> View {
        let Stored { tail, parts } = &*lock(&self.stored);
        let segments = tail.closed.iter().map(Arc::as_ref).chain([&tail.open]);
        View::of(parts, segments, series)
    }

    /// Answers a query as [`History::read`] does, and also returns the work for the page. Work is measured in
    /// decoded rows; opening a file counts as a number of rows.
    ///
    /// # Errors
    /// The errors of [`History::read`].
    pub fn read_with_work(
        &self,
        query: &HistoryQuery,
        wall: Timestamp,
    ) -> Result<(HistoryPage, usize), HistoryError> {
        let series = Arc::clone(&lock(&self.series));
        let before = self.spool_sentences();
        let read = query::read(query, &series, &|id| self.view_of(id), wall.as_nanos());
        let (mut page, work) = read.map_err(|error| error.of(&self.folder))?;
        // Maintenance may read a log, or drop its rows from memory, during the query.
        let after = self.spool_sentences();
        self.unload_parts();
        let choose = |before: String, after| if before.is_empty() { after } else { before };
        let [unloaded, unread] = [choose(before.0, after.0), choose(before.1, after.1)];
        let sentences = [&self.damage, &unloaded, &unread, &page.state].into_iter();
        let sentences: Vec<&str> = sentences
            .map(String::as_str)
            .filter(|sentence| !sentence.is_empty())
            .collect();
        page.state = sentences.join("; ");
        Ok((page, work))
    }

    /// Returns the sentences of answers that lack rows of the spool: one about rows that are not in memory, and
    /// one about rows that could not be read. Each is empty if there are no such rows.
    fn spool_sentences(&self) -> (String, String) {
        let unloaded = match lock(&self.stored).tail.unloaded_rows() {
            0 => String::new(),
            rows => format!(
                "{rows} rows are only in the spool, so this answer lacks them until the engine has moved \
                 them to files"
            ),
        };
        let unread = match &lock(&self.visible_spool).unread_fault {
            None => String::new(),
            Some(fault) => format!(
                "this answer may lack rows of the spool until the engine has read them: {fault}"
            ),
        };
        (unloaded, unread)
    }

    /// Drops the cached indices and summaries of all files if they use too much memory.
    fn unload_parts(&self) {
        let parts = Arc::clone(&lock(&self.stored).parts);
        let bytes: usize = parts.iter().map(|part| part.loaded_bytes()).sum();
        if bytes > LOADED_BYTES_MAX {
            parts.iter().for_each(|part| part.unload());
        }
    }

    /// Copies the recorder's counters, so that reading them does not wait for the disk.
    fn update_figures(&self, recorder: &Recorder) {
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
        !lock(&self.stored).tail.closed.is_empty()
    }

    fn read(&self, query: &HistoryQuery, wall: Timestamp) -> Result<HistoryPage, HistoryError> {
        self.read_with_work(query, wall).map(|(page, _)| page)
    }

    fn settings(&self, variable: &str) -> Option<HistorySettings> {
        rules::settings_of(&self.rules, variable)
    }

    fn close(&self, wall: Timestamp) -> Result<(), HistoryError> {
        let mut recorder = lock(&self.recorder);
        // No later commit can record the pending rows, so the backlog limit does not apply.
        let closed = self.commit_with_fallback(&mut recorder, wall, false, &mut |recorder| {
            recorder.close(wall, &mut |series, rows| {
                lock(&self.stored).tail.open.add(series, rows, wall);
            })
        });
        self.update_figures(&recorder);
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
        lock(&self.visible_spool).state.clone()
    }
}

impl fmt::Debug for FileHistory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileHistory")
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}

/// Creates a folder that only its owner may access. The new folder is durable.
fn create(folder: &Path) -> Result<(), Error> {
    let missing = folder.ancestors().take_while(|above| !above.exists());
    let missing: Vec<&Path> = missing.filter(|above| *above != Path::new("")).collect();
    private::create_folders(folder)?;
    missing.into_iter().try_for_each(sync_parent)
}
