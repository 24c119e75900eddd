//! Decides where the log is: in the folder of the history, or in the spool while that folder cannot
//! be written.
//!
//! The log moves to the spool when a commit in the folder fails, or when closed segments cannot be
//! written to files. It moves back when all closed segments are in files, which shows that the folder
//! can be written again, or when the spool fails. Each move begins a segment, so a segment has one log.

use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use trunkline_engine::history::{HistoryError, SpoolState};
use trunkline_types::history::Rows;
use trunkline_types::{Moment, Tick, Timestamp};

use crate::catalogue::snapshot::Snapshot;
use crate::catalogue::{Catalogue, ENGINE_SERIES, Series, SpoolEnd, SpoolLog};
use crate::engine::recorder::Recorder;
use crate::engine::{FileHistory, NO_ROOM};
use crate::error::Error;
use crate::files::{seal, unsealed};
use crate::log::spool::{self, Spool};
use crate::log::tail::{FROZEN_MAX, Segment};
use crate::log::{self, Log, LogEnd, Recovered};
use crate::paths::{check_identity, remove_if_there};
use crate::rules;
use crate::sync::lock;

/// Delay before the next attempt to use the folder.
const RETRY: Duration = Duration::from_secs(1);
/// First and longest delay before a log of the spool is read again, in nanoseconds.
const UNREAD_DELAY_MIN: i64 = 1_000_000_000;
const UNREAD_DELAY_MAX: i64 = 600_000_000_000;

/// The spool of a history, and the reason for using it.
#[derive(Debug)]
pub(crate) struct Spooling {
    /// The folder given in the configuration, if any.
    folder: Option<PathBuf>,
    /// The present start of the engine.
    epoch: u64,
    /// `None` while it cannot be opened.
    spool: Option<Spool>,
    /// Content of the file `identity` of the history; `None` until the spool was opened.
    identity: Option<String>,
    /// Why the spool cannot be used.
    fault: Option<HistoryError>,
    /// Why the log is in the spool; `None` if it is in the folder of the history.
    cause: Option<HistoryError>,
    /// Why closed segments cannot be written to files.
    sealing: Option<HistoryError>,
    /// The end of the log in the folder, after which the spool continues.
    left: LogEnd,
    /// Earliest time of the next attempt to use the folder.
    retry: Tick,
    pending: Pending,
    /// The ends of logs of the spool that the folder continues. A failed commit may have left rows
    /// beyond them, which are in the folder.
    ends: Vec<SpoolEnd>,
    unread: Unread,
    /// Removed logs that the catalogue still lists.
    removed: Vec<SpoolLog>,
}

/// What could not be entered in the catalogue yet, because it cannot be written.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// Logs define these series, too.
    series: Vec<Series>,
    /// Logs in the folder have these ends, too.
    ends: Vec<SpoolEnd>,
}

impl Pending {
    fn enter(&mut self, catalogue: &mut Catalogue) -> Result<(), Error> {
        catalogue.add_spool_ends(&self.ends)?;
        self.ends.clear();
        if !self.series.is_empty() {
            catalogue.add_series(&self.series)?;
            self.series.clear();
        }
        Ok(())
    }
}

/// The locked state of the log. When it is unlocked, its visible part is copied, so that reading that does
/// not wait for disks.
pub(crate) struct SpoolingGuard<'a> {
    spooling: MutexGuard<'a, Spooling>,
    state: &'a Mutex<Option<SpoolState>>,
}

impl Deref for SpoolingGuard<'_> {
    type Target = Spooling;

    fn deref(&self) -> &Spooling {
        &self.spooling
    }
}

impl DerefMut for SpoolingGuard<'_> {
    fn deref_mut(&mut self) -> &mut Spooling {
        &mut self.spooling
    }
}

impl Drop for SpoolingGuard<'_> {
    fn drop(&mut self) {
        *lock(self.state) = self.spooling.state();
    }
}

/// Logs of the spool that could not be read. The next attempt is made after a delay.
#[derive(Debug)]
struct Unread {
    logs: Vec<SpoolLog>,
    /// Why; `None` if there are none.
    fault: Option<HistoryError>,
    /// Time of the next attempt.
    retry: Timestamp,
    delay: i64,
}

impl Unread {
    fn new() -> Self {
        Self {
            logs: Vec::new(),
            fault: None,
            retry: Timestamp::from_nanos(0),
            delay: UNREAD_DELAY_MIN,
        }
    }

    fn add(&mut self, logs: &[SpoolLog], fault: HistoryError, wall: Timestamp) {
        self.logs.extend_from_slice(logs);
        self.fault = Some(fault);
        self.retry = Timestamp::from_nanos(wall.as_nanos().saturating_add(self.delay));
    }

    /// Returns the logs for the next attempt if it is due. The clock may have been set back.
    fn take_due(&mut self, wall: Timestamp) -> Vec<SpoolLog> {
        let wait = self.retry.nanos_since(wall);
        if self.logs.is_empty() || (1..=self.delay).contains(&wait) {
            return Vec::new();
        }
        self.delay = (self.delay * 2).min(UNREAD_DELAY_MAX);
        std::mem::take(&mut self.logs)
    }

    /// Ends an attempt. The fault remains until all logs are read.
    fn end_attempt(&mut self) {
        if self.logs.is_empty() {
            *self = Self::new();
        }
    }
}

impl Spooling {
    pub(crate) fn new(folder: Option<&Path>, epoch: u64) -> Self {
        Self {
            folder: folder.map(Path::to_owned),
            epoch,
            spool: None,
            identity: None,
            fault: None,
            cause: None,
            sealing: None,
            left: LogEnd {
                segment: 0,
                bytes: 0,
            },
            retry: Tick::from_nanos(0),
            pending: Pending::default(),
            ends: Vec::new(),
            unread: Unread::new(),
            removed: Vec::new(),
        }
    }

    /// Opens the spool, removes its logs whose rows are in files of the history, and returns the
    /// others. Returns none if the spool cannot be used now.
    ///
    /// # Errors
    /// The spool belongs to another history.
    pub(crate) fn open(
        &mut self,
        history: &Path,
        in_files: &[SpoolLog],
        catalogue: &mut Catalogue,
    ) -> Result<Vec<SpoolLog>, Error> {
        let Some(folder) = self.folder.clone() else {
            return Ok(Vec::new());
        };
        match self.try_open(&folder, history, in_files, catalogue) {
            Ok(waiting) => {
                self.fault = None;
                self.unread = Unread::new();
                Ok(waiting)
            }
            Err(error) => {
                self.spool = None;
                let error = error.of_spool(&folder);
                self.fault = Some(error.clone());
                match error {
                    HistoryError::ForeignSpool { .. } => Err(Error::Placed(error)),
                    _ => Ok(Vec::new()),
                }
            }
        }
    }

    fn try_open(
        &mut self,
        folder: &Path,
        history: &Path,
        in_files: &[SpoolLog],
        catalogue: &mut Catalogue,
    ) -> Result<Vec<SpoolLog>, Error> {
        let spool = Spool::open(folder, history, in_files)?;
        let mut waiting = Vec::new();
        for number in spool.logs()? {
            let log = spool.log(number);
            match in_files.contains(&log) {
                true => spool.remove(&log)?,
                false => waiting.push(log),
            }
        }
        spool.sync_removals()?;
        let is_of_it = |log: &&SpoolLog| **log == spool.log(log.log);
        let removed = in_files.iter().filter(is_of_it).cloned().collect();
        self.removed = forget(removed, catalogue);
        catalogue.set_identity(spool.history());
        self.identity = Some(spool.history().to_owned());
        self.spool = Some(spool);
        Ok(waiting)
    }

    /// Removes a log whose rows are in files.
    fn remove(&mut self, log: &SpoolLog) {
        self.ends.retain(|end| end.log != *log);
        let Some(spool) = &self.spool else {
            return;
        };
        match spool.remove(log).and_then(|()| spool.sync_removals()) {
            Ok(()) => self.removed.push(log.clone()),
            Err(error) => {
                // The log is removed when the spool is opened again.
                self.fail(error);
                self.spool = None;
            }
        }
    }

    /// Returns the ends of the logs in the history's folder after which these logs continue.
    pub(crate) fn ends_before(&mut self, logs: &[SpoolLog]) -> Vec<LogEnd> {
        let Some(spool) = &self.spool else {
            return Vec::new();
        };
        // An unreadable log is reported when its rows are read.
        let ends = logs.iter().map(|log| spool.end_before(log.log));
        ends.filter_map(|end| end.ok().flatten()).collect()
    }

    /// Adds the ends of logs according to the catalogue and the logs in the folder. `logs` are the logs
    /// in the spool if it can be used.
    pub(crate) fn add_ends(
        &mut self,
        of_catalogue: Vec<SpoolEnd>,
        of_logs: Vec<SpoolEnd>,
        logs: &[SpoolLog],
    ) {
        let is_there = |end: &SpoolEnd| self.spool.is_none() || logs.contains(&end.log);
        let of_logs = of_logs.into_iter();
        let of_logs = of_logs.filter(|end| is_there(end) && !of_catalogue.contains(end));
        self.pending.ends = of_logs.collect();
        self.ends = of_catalogue;
        self.ends.extend_from_slice(&self.pending.ends);
    }

    /// Returns the number of acknowledged bytes of a log, if the folder continues it.
    pub(crate) fn end_of(&self, log: &SpoolLog) -> Option<u64> {
        let end = self.ends.iter().find(|end| end.log == *log)?;
        Some(end.bytes)
    }

    /// Reads a log of the spool at the start. Returns `None` if it cannot be read now.
    pub(crate) fn read(&mut self, log: &SpoolLog, wall: Timestamp) -> Option<Recovered> {
        let read = self.spool.as_ref()?.place().read(log, self.end_of(log));
        self.note_read(log, read, wall)
    }

    /// Takes the result of reading a log. If it cannot be read, this is tried again later.
    fn note_read(
        &mut self,
        log: &SpoolLog,
        read: Result<Recovered, Error>,
        wall: Timestamp,
    ) -> Option<Recovered> {
        match read {
            Ok(recovered) => Some(recovered),
            Err(error) => {
                let fault = self.fault_of(error);
                match self.spool.as_ref().map(Spool::logs) {
                    // The fault concerns this log alone, unless somebody has removed it.
                    Some(Ok(logs)) => {
                        if logs.contains(&log.log) {
                            self.unread.add(std::slice::from_ref(log), fault, wall);
                        }
                    }
                    // All logs are read when the spool is opened again.
                    Some(Err(_)) | None => {
                        self.fault = Some(fault);
                        self.spool = None;
                    }
                }
                None
            }
        }
    }

    fn fault_of(&self, error: Error) -> HistoryError {
        error.of_spool(self.folder.as_deref().unwrap_or(Path::new("")))
    }

    /// Begins a log in the spool, and returns it with its segment.
    pub(crate) fn begin(
        &mut self,
        cause: HistoryError,
        left: LogEnd,
        number: u64,
        wall: Timestamp,
    ) -> Result<(Log, Segment), HistoryError> {
        let created = match &mut self.spool {
            Some(spool) => {
                let created = spool.create_log(left, self.epoch, wall);
                created.map(|log| (spool.log(log.segment), log))
            }
            // The reason was reported when opening the spool failed.
            None => return Err(cause),
        };
        match created {
            Ok((place, log)) => {
                self.fault = None;
                self.cause = Some(cause);
                self.left = left;
                Ok((log, Segment::in_spool(number, place)))
            }
            Err(error) => {
                // Both errors keep the rows in memory; `cause` is the one to report.
                self.fail(error);
                Err(cause)
            }
        }
    }

    /// Stores why the spool cannot be used, and returns it.
    fn fail(&mut self, error: Error) -> HistoryError {
        let is_foreign = matches!(error, Error::Foreign { .. });
        let error = self.fault_of(error);
        if is_foreign {
            self.spool = None;
        }
        self.fault = Some(error.clone());
        error
    }

    /// Enters series in the catalogue. While the log is in the spool, this may be postponed, because
    /// the log there defines the series as well.
    pub(crate) fn enter(&mut self, new: &[Series], catalogue: &mut Catalogue) -> Result<(), Error> {
        let before = self.pending.series.len();
        self.pending.series.extend_from_slice(new);
        match self.pending.enter(catalogue) {
            Err(error) if self.cause.is_none() => {
                self.pending.series.truncate(before);
                Err(error)
            }
            _ => Ok(()),
        }
    }

    /// As [`enter`](Self::enter), at the start, where the logs define all series that the catalogue may lack.
    pub(crate) fn enter_at_start(
        &mut self,
        new: &[Series],
        catalogue: &mut Catalogue,
    ) -> Result<(), Error> {
        self.pending.series.extend_from_slice(new);
        match self.pending.enter(catalogue) {
            Err(error) if self.folder.is_none() || !error.is_of_disk() => Err(error),
            _ => Ok(()),
        }
    }

    /// Fails if another folder is in the place of the history, whose disk may be away.
    pub(crate) fn check_folder(&self, history: &Path) -> Result<(), Error> {
        match &self.identity {
            Some(identity) => check_identity(history, identity),
            None => Ok(()),
        }
    }

    /// Stores why closed segments cannot be written to files; `None` if they can.
    pub(crate) fn note_maintenance(&mut self, error: Option<&HistoryError>) {
        self.sealing = error.cloned();
    }

    /// Removes the log of the open segment, which has no rows, if it is in the spool.
    pub(crate) fn abandon(&mut self, log: Option<&SpoolLog>) {
        if let (Some(spool), Some(log)) = (&self.spool, log) {
            let _ = spool.remove(log);
        }
    }

    /// Clears a fault that has passed.
    fn check_fault(&mut self) {
        if let Some(spool) = &self.spool
            && self.fault.is_some()
            && self.cause.is_none()
            && spool.logs().is_ok()
        {
            self.fault = None;
        }
    }

    pub(crate) fn state(&self) -> Option<SpoolState> {
        Some(SpoolState {
            location: self.folder.as_ref()?.display().to_string(),
            cause: self.cause.clone(),
            fault: self.fault.clone().or_else(|| self.unread.fault.clone()),
        })
    }
}

/// Deletes the entries of removed logs from the catalogue, and returns those that remain. The highest number
/// stays there, so that no number is used again: a restored backup may have an older list, by which logs
/// are removed.
fn forget(mut removed: Vec<SpoolLog>, catalogue: &mut Catalogue) -> Vec<SpoolLog> {
    removed.sort_by_key(|log| log.log);
    // If the catalogue cannot be written now, the entries are deleted later.
    if let Some((highest, others)) = removed.split_last()
        && !others.is_empty()
        && catalogue.forget_spool_logs(others).is_ok()
    {
        return vec![highest.clone()];
    }
    removed
}

impl FileHistory {
    pub(crate) fn spooling(&self) -> SpoolingGuard<'_> {
        SpoolingGuard {
            spooling: lock(&self.spooling),
            state: &self.spool_state,
        }
    }

    /// Enters in the catalogue what is pending, and performs a step with it. Updates are recorded meanwhile.
    pub(crate) fn enter_and(
        &self,
        step: impl FnOnce(&mut Catalogue) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut pending = std::mem::take(&mut self.spooling().pending);
        let done = {
            let mut catalogue = lock(&self.catalogue);
            let entered = pending.enter(&mut catalogue);
            entered.and_then(|()| step(&mut catalogue))
        };
        let now = &mut self.spooling().pending;
        now.series.append(&mut pending.series);
        now.ends.append(&mut pending.ends);
        done
    }

    /// Moves the log if a move is due. Returns the time of the next attempt if nothing can be recorded now.
    pub(crate) fn choose_place(&self, recorder: &mut Recorder, moment: Moment) -> Option<Tick> {
        let mut spooling = self.spooling();
        let (closed, in_folder, number) = {
            let tail = &lock(&self.stored).tail;
            (
                tail.frozen.len(),
                tail.closed_in_folder(),
                tail.open.number + 1,
            )
        };
        if spooling.cause.is_some() {
            let is_due = closed == 0 && moment.now >= spooling.retry;
            if is_due
                && self
                    .return_to_folder(recorder, &mut spooling, moment.wall)
                    .is_err()
            {
                spooling.retry = moment.now.saturating_add(RETRY);
            }
            return None;
        }
        if in_folder < FROZEN_MAX {
            return None;
        }
        // Either maintenance cannot keep up with the updates, or it fails.
        let cause = spooling.sealing.clone();
        let moved = cause
            .map(|cause| self.leave_folder(recorder, &mut spooling, cause, number, moment.wall));
        match moved {
            Some(Ok(())) => None,
            _ => Some(moment.now.saturating_add(NO_ROOM)),
        }
    }

    /// Returns the time of the next call of [`record`](trunkline_engine::history::History::record),
    /// no later than the next attempt to return to the folder.
    pub(crate) fn with_retry(&self, next: Option<Tick>, now: Tick) -> Option<Tick> {
        match self.spooling().cause {
            Some(_) => Tick::earliest([next, Some(now.saturating_add(RETRY))]),
            None => next,
        }
    }

    /// Performs a step that commits to the log. If the step fails, moves the log to the other place and
    /// repeats it. If `is_bounded`, the log does not move to a folder that has too many closed segments,
    /// because their rows are in memory.
    pub(crate) fn commit_somewhere<T>(
        &self,
        recorder: &mut Recorder,
        wall: Timestamp,
        is_bounded: bool,
        step: &mut dyn FnMut(&mut Recorder) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let error = match step(recorder) {
            Err(error) => error,
            done => return done,
        };
        let mut spooling = self.spooling();
        if is_bounded && spooling.cause.is_some() && spooling.sealing.is_some() {
            let in_folder = lock(&self.stored).tail.closed_in_folder();
            if in_folder >= FROZEN_MAX {
                return Err(Error::Placed(spooling.fail(error)));
            }
        }
        self.change_place(recorder, &mut spooling, error, wall)?;
        let again = step(recorder);
        again.map_err(|error| {
            Error::Placed(match spooling.cause {
                None => error.of(&self.folder),
                Some(_) => spooling.fail(error),
            })
        })
    }

    /// Closes the open segment and begins the next one.
    pub(crate) fn begin_segment(
        &self,
        recorder: &mut Recorder,
        wall: Timestamp,
    ) -> Result<(), Error> {
        let mut spooling = self.spooling();
        let number = lock(&self.stored).tail.open.number + 1;
        let begun = match &spooling.cause {
            None => self.begin_in_folder(recorder, &spooling, number, None, wall),
            Some(cause) => {
                let (cause, left) = (cause.clone(), spooling.left);
                let begun = self.begin_in_spool(recorder, &mut spooling, cause, left, number, wall);
                begun.map_err(Error::Placed)
            }
        };
        match begun {
            Err(error) => self.change_place(recorder, &mut spooling, error, wall),
            Ok(()) => Ok(()),
        }
    }

    /// Begins a segment with a log in the other place, after the current log has failed.
    fn change_place(
        &self,
        recorder: &mut Recorder,
        spooling: &mut Spooling,
        error: Error,
        wall: Timestamp,
    ) -> Result<(), Error> {
        if spooling.folder.is_none() {
            return Err(error);
        }
        let number = lock(&self.stored).tail.open.number + 1;
        let moved = match spooling.cause {
            None => self.leave_folder(recorder, spooling, error.of(&self.folder), number, wall),
            Some(_) => {
                spooling.fail(error);
                self.return_to_folder(recorder, spooling, wall)
            }
        };
        moved.map_err(Error::Placed)
    }

    /// Begins a segment with a log in the folder. `after` is the end of the log of the spool that it
    /// continues.
    fn begin_in_folder(
        &self,
        recorder: &mut Recorder,
        spooling: &Spooling,
        number: u64,
        after: Option<&SpoolEnd>,
        wall: Timestamp,
    ) -> Result<(), Error> {
        spooling.check_folder(&self.folder)?;
        let log = Log::create(&self.folder, number, spooling.epoch)?;
        recorder.begin_segment(log, after, wall)?;
        lock(&self.stored).tail.freeze(Segment::new(number));
        Ok(())
    }

    fn begin_in_spool(
        &self,
        recorder: &mut Recorder,
        spooling: &mut Spooling,
        cause: HistoryError,
        left: LogEnd,
        number: u64,
        wall: Timestamp,
    ) -> Result<(), HistoryError> {
        let (log, open) = spooling.begin(cause, left, number, wall)?;
        recorder.replace_log(log);
        lock(&self.stored).tail.freeze(open);
        Ok(())
    }

    /// Moves the log from the folder to the spool. Rows of a failed commit are removed from the folder
    /// and recorded again in the spool, so the log in the folder ends with what was acknowledged.
    fn leave_folder(
        &self,
        recorder: &mut Recorder,
        spooling: &mut Spooling,
        cause: HistoryError,
        number: u64,
        wall: Timestamp,
    ) -> Result<(), HistoryError> {
        let left = recorder.end_log();
        self.begin_in_spool(recorder, spooling, cause, left, number, wall)
    }

    /// Moves the log from the spool to the folder.
    fn return_to_folder(
        &self,
        recorder: &mut Recorder,
        spooling: &mut Spooling,
        wall: Timestamp,
    ) -> Result<(), HistoryError> {
        let bytes = recorder.end_log().bytes;
        let (number, open) = {
            let open = &lock(&self.stored).tail.open;
            (open.number + 1, open.spool_log.clone())
        };
        let after = open.map(|log| SpoolEnd { log, bytes });
        let returned = spooling.check_folder(&self.folder).and_then(|()| {
            // If the spool has no rows, nothing else says where the log in the folder ends.
            log::cut(&self.folder, spooling.left)?;
            self.begin_in_folder(recorder, spooling, number, after.as_ref(), wall)
        });
        match returned {
            Ok(()) => {
                spooling.ends.extend(after.clone());
                spooling.pending.ends.extend(after);
                spooling.cause = None;
                Ok(())
            }
            Err(error) => {
                let error = error.of(&self.folder);
                spooling.cause = Some(error.clone());
                Err(error)
            }
        }
    }

    /// Reads a log of the spool without a lock. Returns `None` if it cannot be read now.
    fn read_spooled(&self, log: &SpoolLog, wall: Timestamp) -> Option<Recovered> {
        let (place, end) = {
            let spooling = self.spooling();
            (
                spooling.spool.as_ref()?.place().clone(),
                spooling.end_of(log),
            )
        };
        let read = place.read(log, end);
        self.spooling().note_read(log, read, wall)
    }

    /// Moves the rows of a spool log to files, and removes the log. A log that cannot be read is taken
    /// over again later.
    pub(crate) fn seal_spooled(
        &self,
        segment: &Arc<Segment>,
        log: &SpoolLog,
        wall: Timestamp,
    ) -> Result<(), Error> {
        let read;
        let loaded: &Segment = if segment.is_loaded {
            segment
        } else {
            let Some(mut recovered) = self.read_spooled(log, wall) else {
                let mut stored = lock(&self.stored);
                stored
                    .tail
                    .frozen
                    .retain(|one| one.number != segment.number);
                return Ok(());
            };
            self.translate(&mut recovered)?;
            let mut filled = Segment::in_spool(segment.number, log.clone());
            unsealed::fill(&mut filled, &recovered, wall);
            read = filled;
            &read
        };
        // If the folder has a log of this number, files that a crash leaves behind are recognised as
        // copies of rows that still exist elsewhere.
        let epoch = self.spooling().epoch;
        drop(Log::create(&self.folder, segment.number, epoch)?);
        self.seal_segment(loaded, Some(log))?;
        let removed = {
            let mut spooling = self.spooling();
            spooling.remove(log);
            std::mem::take(&mut spooling.removed)
        };
        let listed = forget(removed, &mut lock(&self.catalogue));
        self.spooling().removed.extend(listed);
        remove_if_there(&log::path(&self.folder, segment.number))
    }

    /// Writes the rows of a segment to files, and enters the files in the catalogue.
    pub(crate) fn seal_segment(
        &self,
        segment: &Segment,
        spool_log: Option<&SpoolLog>,
    ) -> Result<(), Error> {
        let series = Arc::clone(&lock(&self.series));
        let keep_of = |series: &Series| rules::keep_of(&self.rules, series);
        let added = seal::seal(&self.folder, segment, &series, &keep_of)?;
        self.replace(&[], added, Some(segment.number), spool_log)
    }

    /// Replaces the series ids in a spool log by those of this catalogue.
    fn translate(&self, recovered: &mut Recovered) -> Result<(), Error> {
        let mut spooling = self.spooling();
        let mut catalogue = lock(&self.catalogue);
        let mut series = lock(&self.series).to_vec();
        let mut new = Vec::new();
        spool::translate(recovered, &series, &mut new);
        if !new.is_empty() {
            spooling.enter(&new, &mut catalogue)?;
            series.extend(new);
            self.set_series(series);
        }
        Ok(())
    }

    /// Opens the spool if earlier attempts failed, and adds its logs to the history, also those that could
    /// not be read before.
    pub(crate) fn find_spool(&self, wall: Timestamp) -> Result<(), Error> {
        let mut spooling = self.spooling();
        spooling.check_fault();
        let is_opening = spooling.spool.is_none();
        let mut waiting = match is_opening {
            true => self.open_spool(&mut spooling)?,
            false => spooling.unread.take_due(wall),
        };
        if waiting.is_empty() {
            return Ok(());
        }
        {
            let tail = &lock(&self.stored).tail;
            let known: Vec<&SpoolLog> = tail
                .segments()
                .filter_map(|segment| segment.spool_log.as_ref())
                .collect();
            waiting.retain(|log| !known.contains(&log));
        }
        drop(spooling);
        let taken = self.take_over(&waiting, is_opening, wall);
        self.spooling().unread.end_attempt();
        taken
    }

    /// Tries to open the spool, and returns the logs whose rows are not in files.
    fn open_spool(&self, spooling: &mut Spooling) -> Result<Vec<SpoolLog>, Error> {
        if spooling.folder.is_none() {
            return Ok(Vec::new());
        }
        let mut catalogue = lock(&self.catalogue);
        let in_files = match catalogue.spool_logs() {
            // The connection is closed now, which permits to read the files themselves.
            Err(error) if error.is_of_disk() => {
                spooling.check_folder(&self.folder)?;
                Snapshot::read(&self.folder)?.spool_logs
            }
            in_files => in_files?,
        };
        // The state of the spool keeps the fault.
        let waiting = spooling.open(&self.folder, &in_files, &mut catalogue);
        Ok(waiting.unwrap_or_default())
    }

    /// Turns logs of the spool into closed segments, with numbers before that of the open segment. Updates
    /// are recorded meanwhile. `are_all` is true if these are all logs of earlier runs.
    fn take_over(&self, waiting: &[SpoolLog], are_all: bool, wall: Timestamp) -> Result<(), Error> {
        let newest = waiting.last().filter(|_| are_all);
        let mut next = None;
        for (index, log) in waiting.iter().enumerate() {
            let rest = waiting.get(index..).unwrap_or_default();
            let taken = self.take_over_one(log, newest == Some(log), rest.len(), &mut next, wall);
            if let Err(error) = taken {
                let fault = error.of(&self.folder);
                self.spooling().unread.add(rest, fault.clone(), wall);
                return Err(Error::Placed(fault));
            }
        }
        Ok(())
    }

    /// `count` is the number of logs that may need a number from now on, and `next` the next of these
    /// numbers, if they are reserved.
    fn take_over_one(
        &self,
        log: &SpoolLog,
        is_newest: bool,
        count: usize,
        next: &mut Option<u64>,
        wall: Timestamp,
    ) -> Result<(), Error> {
        let Some(mut recovered) = self.read_spooled(log, wall) else {
            return Ok(());
        };
        let number = match *next {
            Some(number) => number,
            None => self.reserve(count as u64, wall)?,
        };
        *next = Some(number + 1);
        self.translate(&mut recovered)?;
        let mut segment = Segment::in_spool(number, log.clone());
        unsealed::fill(&mut segment, &recovered, wall);
        let is_continued = self.spooling().end_of(log).is_some();
        let end = unsealed::interruption(&recovered);
        let is_end = is_newest && !is_continued && !recovered.rows.is_empty();
        if let Some(mark) = end.filter(|_| is_end) {
            let mut rows = Rows::new(None);
            rows.push_mark(mark);
            segment.add(ENGINE_SERIES, &rows, wall);
        }
        lock(&self.stored).tail.insert(segment);
        Ok(())
    }

    /// Reserves this many numbers before that of the open segment, and returns the first one.
    fn reserve(&self, count: u64, wall: Timestamp) -> Result<u64, Error> {
        let mut recorder = lock(&self.recorder);
        let mut spooling = self.spooling();
        let open = lock(&self.stored).tail.open.number;
        if spooling.cause.is_some() {
            lock(&self.stored).tail.open.number += count;
            return Ok(open);
        }
        // The open segment shares its number with its log and cannot be renumbered: begin a new one.
        let number = open + 1 + count;
        let begun = self.begin_in_folder(&mut recorder, &spooling, number, None, wall);
        if let Err(error) = begun {
            let cause = error.of(&self.folder);
            let left = self.leave_folder(&mut recorder, &mut spooling, cause, number, wall);
            left.map_err(Error::Placed)?;
        }
        Ok(open + 1)
    }
}
