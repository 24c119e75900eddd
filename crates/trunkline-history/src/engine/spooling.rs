//! Decides which folder holds the log: the history's folder or, while that cannot be written, the spool.
//!
//! The log moves to the spool when a commit in the history's folder fails, or when closed segments cannot
//! be written to files. It moves back when the spool fails, or when all closed segments are in files, which
//! shows that the folder can be written again. Each move begins a new segment, so a segment has only one
//! log.

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
use crate::engine::{BACKLOG_RETRY, FileHistory};
use crate::error::Error;
use crate::files::{seal, unsealed};
use crate::log::spool::{self, Spool};
use crate::log::tail::{CLOSED_MAX, Segment};
use crate::log::{self, Log, LogEnd, Recovered};
use crate::paths::{check_identity, remove_if_there};
use crate::rules;
use crate::sync::lock;

/// Delay before the next attempt to return to the history's folder.
const RETRY: Duration = Duration::from_secs(1);
/// First delay before an unreadable log of the spool is read again, in nanoseconds. It doubles with each
/// attempt.
const UNREAD_DELAY_MIN: i64 = 1_000_000_000;
/// Maximum delay before an unreadable log of the spool is read again, in nanoseconds.
const UNREAD_DELAY_MAX: i64 = 600_000_000_000;

/// The state of the spool: whether it can be used, and whether the log is in it.
#[derive(Debug)]
pub(crate) struct Spooling {
    /// The spool's folder; `None` if no spool is configured.
    folder: Option<PathBuf>,
    /// The present start of the engine.
    epoch: u64,
    /// The open spool; `None` while it cannot be opened.
    spool: Option<Spool>,
    /// Content of the file `identity` in the history's folder; `None` until the spool has been opened once.
    identity: Option<String>,
    /// The reason why the spool cannot be used; `None` if it can.
    fault: Option<HistoryError>,
    /// The reason why the log is in the spool; `None` while the log is in the history's folder.
    cause: Option<HistoryError>,
    /// The reason why closed segments cannot be written to files; `None` if they can.
    sealing_fault: Option<HistoryError>,
    /// The end of the log in the history's folder that the spool continues.
    folder_end: LogEnd,
    /// Earliest time of the next attempt to return to the history's folder.
    retry: Tick,
    /// Series and ends that are not in the catalogue yet.
    pending: Pending,
    /// The acknowledged ends of logs of the spool that the history's folder continues. Rows beyond an end
    /// are left from a failed commit, and were recorded again in the history's folder.
    ends: Vec<SpoolEnd>,
    /// Logs of the spool that could not be read.
    unread: Unread,
    /// True if logs of the spool were not found yet, or rows of its logs were dropped, because it cannot be
    /// opened.
    is_incomplete: bool,
    /// Logs of the spool whose rows are in files, and which are not removed yet.
    unneeded: Vec<SpoolLog>,
    /// Removed logs of the spool that the catalogue still lists, in the order of their removal.
    removed: Vec<SpoolLog>,
}

/// Entries that wait until the catalogue can be written.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// New series. Until they are entered, only the logs define them.
    series: Vec<Series>,
    /// Ends of logs of the spool. Until they are entered, only logs in the history's folder contain them.
    ends: Vec<SpoolEnd>,
}

impl Pending {
    fn enter(&mut self, catalogue: &mut Catalogue) -> Result<(), Error> {
        catalogue.add_spool_entries(&[], &self.ends)?;
        self.ends.clear();
        if !self.series.is_empty() {
            catalogue.add_series(&self.series)?;
            self.series.clear();
        }
        Ok(())
    }
}

/// A lock guard of [`Spooling`]. When it is dropped, it publishes a copy of the visible state, so that
/// readers of the state do not wait for a disk.
pub(crate) struct SpoolingGuard<'a> {
    spooling: MutexGuard<'a, Spooling>,
    visible: &'a Mutex<VisibleSpool>,
}

/// The state of the spool that readers see.
#[derive(Debug, Default)]
pub(crate) struct VisibleSpool {
    /// `None` if no spool is configured.
    pub(crate) state: Option<SpoolState>,
    /// The reason why answers may lack rows of the spool; `None` if they lack none.
    pub(crate) unread_fault: Option<HistoryError>,
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
        *lock(self.visible) = self.spooling.visible();
    }
}

/// Logs of the spool that could not be read, with the time of the next attempt.
#[derive(Debug)]
struct Unread {
    logs: Vec<SpoolLog>,
    /// The most recent reason; `None` if there are no such logs. While a spool that could not be opened before is
    /// read, the reason for that.
    fault: Option<HistoryError>,
    /// Time of the next attempt.
    retry: Timestamp,
    /// Delay before the next attempt, in nanoseconds.
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

    /// Removes and returns the logs if the next attempt is due.
    fn take_due(&mut self, wall: Timestamp) -> Vec<SpoolLog> {
        let wait = self.retry.nanos_since(wall);
        // A wait longer than the delay means that the clock was set back.
        if self.logs.is_empty() || (1..=self.delay).contains(&wait) {
            return Vec::new();
        }
        self.delay = (self.delay * 2).min(UNREAD_DELAY_MAX);
        std::mem::take(&mut self.logs)
    }

    /// Ends an attempt. The fault remains until all logs have been read.
    fn end_attempt(&mut self) {
        if self.logs.is_empty() {
            *self = Self::new();
        }
    }
}

impl Spooling {
    /// `ends` are the ends of logs of the spool in the catalogue.
    pub(crate) fn new(folder: Option<&Path>, epoch: u64, ends: Vec<SpoolEnd>) -> Self {
        Self {
            folder: folder.map(Path::to_owned),
            epoch,
            spool: None,
            identity: None,
            fault: None,
            cause: None,
            sealing_fault: None,
            folder_end: LogEnd {
                segment: 0,
                bytes: 0,
            },
            retry: Tick::from_nanos(0),
            pending: Pending::default(),
            ends,
            unread: Unread::new(),
            is_incomplete: true,
            unneeded: Vec::new(),
            removed: Vec::new(),
        }
    }

    /// Opens the spool, removes the logs whose rows are in files, and returns the other logs. Returns no logs
    /// if the spool cannot be used now.
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
        let fault_before = self.fault.take();
        match self.try_open(&folder, history, in_files, catalogue) {
            Ok(waiting) => {
                // The rows of these logs are missing from answers until the logs have been read.
                self.unread = Unread {
                    fault: fault_before,
                    ..Unread::new()
                };
                Ok(waiting)
            }
            Err(error) => {
                self.spool = None;
                let error = error.of_spool(&folder);
                self.fault = Some(error.clone());
                match error {
                    HistoryError::ForeignSpool { .. } => Err(Error::Located(error)),
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
        let of_ends = self.ends.iter().map(|end| &end.log);
        let spool = Spool::open(folder, history, in_files.iter().chain(of_ends))?;
        let logs = spool.logs()?.into_iter().map(|number| spool.log(number));
        let (unneeded, waiting): (Vec<_>, _) = logs.partition(|log| in_files.contains(log));
        // Without this, a log that an earlier run removed may come back.
        let is_durable = spool.sync_removals().is_ok();
        let is_removed =
            |log: &&SpoolLog| is_durable && **log == spool.log(log.log) && !unneeded.contains(log);
        self.removed = in_files.iter().filter(is_removed).cloned().collect();
        catalogue.set_identity(spool.history());
        self.identity = Some(spool.history().to_owned());
        self.spool = Some(spool);
        self.is_incomplete = false;
        self.unneeded = unneeded;
        self.remove_unneeded();
        self.removed = remove_entries(std::mem::take(&mut self.removed), catalogue);
        Ok(waiting)
    }

    /// Removes a log whose rows are in files.
    fn remove(&mut self, log: &SpoolLog) {
        self.ends.retain(|end| end.log != *log);
        self.unneeded.push(log.clone());
        self.remove_unneeded();
    }

    /// Removes the logs whose rows are in files. Logs that cannot be removed do not keep the others from being
    /// read; the next step of maintenance tries again.
    fn remove_unneeded(&mut self) {
        let Some(spool) = &self.spool else {
            // Opening the spool again finds these logs.
            return self.unneeded.clear();
        };
        let mut failed = None;
        let mut removed = Vec::new();
        for log in &self.unneeded {
            match spool.remove(log) {
                Ok(()) => removed.push(log.clone()),
                Err(error) => failed = Some(error),
            }
        }
        if !removed.is_empty() {
            match spool.sync_removals() {
                Ok(()) => {
                    self.unneeded.retain(|log| !removed.contains(log));
                    self.removed.append(&mut removed);
                }
                Err(error) => failed = Some(error),
            }
        }
        if let Some(error) = failed {
            self.fail(error);
        }
    }

    /// Returns the ends of the logs in the history's folder that these logs of the spool continue.
    pub(crate) fn ends_before(&mut self, logs: &[SpoolLog]) -> Vec<LogEnd> {
        let Some(spool) = &self.spool else {
            return Vec::new();
        };
        // Ignore unreadable logs here; they are reported when their rows are read.
        let ends = logs.iter().map(|log| spool.end_before(log.log));
        ends.filter_map(|end| end.ok().flatten()).collect()
    }

    /// Adds the ends of logs of the spool in the logs of the history's folder. `logs` are the logs in the
    /// spool, if the spool can be used.
    pub(crate) fn add_ends(&mut self, logged_ends: Vec<SpoolEnd>, logs: &[SpoolLog]) {
        let may_exist = |end: &SpoolEnd| self.spool.is_none() || logs.contains(&end.log);
        let new_ends = logged_ends.into_iter();
        let new_ends = new_ends.filter(|end| may_exist(end) && !self.ends.contains(end));
        self.pending.ends = new_ends.collect();
        self.ends.extend_from_slice(&self.pending.ends);
    }

    /// Returns the number of acknowledged bytes of a log of the spool; `None` unless the history's folder
    /// continues the log.
    pub(crate) fn end_of(&self, log: &SpoolLog) -> Option<u64> {
        let end = self.ends.iter().find(|end| end.log == *log)?;
        Some(end.bytes)
    }

    /// Reads a log of the spool when the history is opened. Returns `None` if the log cannot be read now.
    pub(crate) fn read(&mut self, log: &SpoolLog, wall: Timestamp) -> Option<Recovered> {
        let read = self
            .spool
            .as_ref()?
            .spool_folder()
            .read(log, self.end_of(log));
        self.handle_read(log, read, wall)
    }

    /// Returns the content of a log of the spool. After an error, schedules another attempt.
    fn handle_read(
        &mut self,
        log: &SpoolLog,
        read: Result<Recovered, Error>,
        wall: Timestamp,
    ) -> Option<Recovered> {
        match read {
            Ok(recovered) => Some(recovered),
            Err(error) => {
                match self.spool.as_ref().map(Spool::logs) {
                    // The spool is readable, so the fault concerns this log. Ignore a log that no longer
                    // exists.
                    Some(Ok(logs)) => {
                        if logs.contains(&log.log) {
                            let folder = self.folder.as_deref().unwrap_or(Path::new(""));
                            let fault = error.of_spool(&log::path(folder, log.log));
                            self.unread.add(std::slice::from_ref(log), fault, wall);
                        }
                    }
                    // Reopening the spool reads all of its logs again.
                    Some(Err(_)) | None => {
                        self.fault = Some(self.fault_of(error));
                        self.spool = None;
                        self.is_incomplete = true;
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
        folder_end: LogEnd,
        number: u64,
        wall: Timestamp,
    ) -> Result<(Log, Segment), HistoryError> {
        let created = match &mut self.spool {
            Some(spool) => {
                let created = spool.create_log(folder_end, self.epoch, wall);
                created.map(|log| (spool.log(log.segment), log))
            }
            // `fault` already has the reason why the spool is not open.
            None => return Err(cause),
        };
        match created {
            Ok((spool_log, log)) => {
                self.fault = None;
                self.cause = Some(cause);
                self.folder_end = folder_end;
                Ok((log, Segment::in_spool(number, spool_log)))
            }
            Err(error) => {
                // Neither folder can be written, and the rows stay in memory. Report the first error.
                self.fail(error);
                Err(cause)
            }
        }
    }

    /// Stores an error as the reason why the spool cannot be used, and returns it.
    fn fail(&mut self, error: Error) -> HistoryError {
        let is_foreign = matches!(error, Error::Foreign { .. });
        let error = self.fault_of(error);
        if is_foreign {
            self.spool = None;
        }
        self.fault = Some(error.clone());
        error
    }

    /// Enters series in the catalogue. If that fails while the log is in the spool, the series are entered
    /// later; until then, the log defines them.
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

    /// Does the same as [`enter`](Self::enter) when the history is opened. The logs define all series that
    /// the catalogue may lack, so this fails only if no spool is configured or the catalogue is damaged.
    pub(crate) fn enter_at_start(
        &mut self,
        new: &[Series],
        catalogue: &mut Catalogue,
    ) -> Result<(), Error> {
        self.pending.series.extend_from_slice(new);
        match self.pending.enter(catalogue) {
            Err(error) if self.folder.is_none() || !error.is_disk_failure() => Err(error),
            _ => Ok(()),
        }
    }

    /// Fails if another folder is mounted in place of the history's folder.
    pub(crate) fn check_folder(&self, history: &Path) -> Result<(), Error> {
        match &self.identity {
            Some(identity) => check_identity(history, identity),
            None => Ok(()),
        }
    }

    /// Stores the error of the last maintenance step; `None` if it succeeded.
    pub(crate) fn note_maintenance(&mut self, error: Option<&HistoryError>) {
        self.sealing_fault = error.cloned();
    }

    /// Removes the log of the open segment if that is in the spool. The log must have no rows.
    pub(crate) fn remove_open_log(&mut self, log: Option<&SpoolLog>) {
        if let (Some(spool), Some(log)) = (&self.spool, log) {
            let _ = spool.remove(log);
        }
    }

    /// Clears the fault if the spool can be used again.
    fn clear_past_fault(&mut self) {
        if let Some(spool) = &self.spool
            && self.fault.is_some()
            && self.cause.is_none()
            && spool.logs().is_ok()
        {
            self.fault = None;
        }
    }

    pub(crate) fn visible(&self) -> VisibleSpool {
        let unread_fault = self.unread.fault.clone();
        let state = self.folder.as_ref().map(|folder| SpoolState {
            location: folder.display().to_string(),
            cause: self.cause.clone(),
            fault: self.fault.clone().or_else(|| unread_fault.clone()),
        });
        // Without such logs, answers lack no rows, whether or not the spool can be used.
        let unopened_fault = self.fault.clone().filter(|_| self.is_incomplete);
        VisibleSpool {
            state,
            unread_fault: unopened_fault.or(unread_fault),
        }
    }
}

/// Deletes the entries of removed logs, in the order of their removal, from the catalogue. Returns the logs that
/// the catalogue still lists: the last one, because a disk that fails may have lost its deletion, and the one
/// with the highest number, which shows the next free number.
fn remove_entries(removed: Vec<SpoolLog>, catalogue: &mut Catalogue) -> Vec<SpoolLog> {
    let highest = removed.iter().map(|log| log.log).max();
    let (mut kept, mut others) = (Vec::new(), Vec::new());
    for (index, log) in removed.iter().enumerate() {
        let is_last = index + 1 == removed.len();
        match is_last || Some(log.log) == highest {
            true => kept.push(log.clone()),
            false => others.push(log.clone()),
        }
    }
    // If the catalogue cannot be written now, the entries are deleted later.
    match others.is_empty() || catalogue.forget_spool_logs(&others).is_err() {
        true => removed,
        false => kept,
    }
}

impl FileHistory {
    pub(crate) fn spooling(&self) -> SpoolingGuard<'_> {
        SpoolingGuard {
            spooling: lock(&self.spooling),
            visible: &self.visible_spool,
        }
    }

    /// Enters the pending entries in the catalogue, then performs a step with the catalogue. Meanwhile, the
    /// recorder is not blocked.
    pub(crate) fn enter_pending_and(
        &self,
        step: impl FnOnce(&mut Catalogue) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut pending = std::mem::take(&mut self.spooling().pending);
        let done = {
            let mut catalogue = lock(&self.catalogue);
            let entered = pending.enter(&mut catalogue);
            entered.and_then(|()| step(&mut catalogue))
        };
        let still_pending = &mut self.spooling().pending;
        still_pending.series.append(&mut pending.series);
        still_pending.ends.append(&mut pending.ends);
        done
    }

    /// Moves the log to the other folder if necessary. If nothing can be recorded now, returns the time of
    /// the next attempt.
    pub(crate) fn choose_log_folder(
        &self,
        recorder: &mut Recorder,
        moment: Moment,
    ) -> Option<Tick> {
        let mut spooling = self.spooling();
        let (closed, in_folder, number) = {
            let tail = &lock(&self.stored).tail;
            (
                tail.closed.len(),
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
        if in_folder < CLOSED_MAX {
            return None;
        }
        // Without a fault, maintenance is only slower than the updates, and the log stays in the folder.
        let cause = spooling.sealing_fault.clone();
        let moved = cause
            .map(|cause| self.leave_folder(recorder, &mut spooling, cause, number, moment.wall));
        match moved {
            Some(Ok(())) => None,
            _ => Some(moment.now.saturating_add(BACKLOG_RETRY)),
        }
    }

    /// Returns the time of the next call of [`record`](trunkline_engine::history::History::record). While the
    /// log is in the spool, this is no later than the next attempt to return to the history's folder.
    pub(crate) fn with_retry(&self, next: Option<Tick>, now: Tick) -> Option<Tick> {
        match self.spooling().cause {
            Some(_) => Tick::earliest([next, Some(now.saturating_add(RETRY))]),
            None => next,
        }
    }

    /// Performs a step that commits to the log. If the step fails, moves the log to the other folder and
    /// repeats the step. If `is_bounded` is true, the log does not return to a folder with too many closed
    /// segments that maintenance cannot write to files, because their rows are in memory.
    pub(crate) fn commit_with_fallback<T>(
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
        if is_bounded && spooling.cause.is_some() && spooling.sealing_fault.is_some() {
            let in_folder = lock(&self.stored).tail.closed_in_folder();
            if in_folder >= CLOSED_MAX {
                return Err(Error::Located(spooling.fail(error)));
            }
        }
        self.switch_folder(recorder, &mut spooling, error, wall)?;
        let repeated = step(recorder);
        repeated.map_err(|error| {
            Error::Located(match spooling.cause {
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
        if let Some(cause) = spooling.cause.clone() {
            let folder_end = spooling.folder_end;
            let begun =
                self.begin_in_spool(recorder, &mut spooling, cause, folder_end, number, wall);
            // `fault` has the reason why the spool failed; the error here is that of the folder.
            let begun = begun.or_else(|_| self.return_to_folder(recorder, &mut spooling, wall));
            return begun.map_err(Error::Located);
        }
        match self.begin_in_folder(recorder, &spooling, number, None, wall) {
            Err(error) => self.switch_folder(recorder, &mut spooling, error, wall),
            Ok(()) => Ok(()),
        }
    }

    /// Begins a segment whose log is in the other folder, after the current log has failed.
    fn switch_folder(
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
        moved.map_err(Error::Located)
    }

    /// Begins a segment whose log is in the history's folder. `after` is the end of the log of the spool that
    /// the new log continues.
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
        lock(&self.stored).tail.replace_open(Segment::new(number));
        Ok(())
    }

    fn begin_in_spool(
        &self,
        recorder: &mut Recorder,
        spooling: &mut Spooling,
        cause: HistoryError,
        folder_end: LogEnd,
        number: u64,
        wall: Timestamp,
    ) -> Result<(), HistoryError> {
        let (log, open) = spooling.begin(cause, folder_end, number, wall)?;
        recorder.replace_log(log);
        lock(&self.stored).tail.replace_open(open);
        Ok(())
    }

    /// Moves the log from the history's folder to the spool. Rows of a failed commit are removed from the old
    /// log, which then ends with its acknowledged part, and are recorded again in the spool.
    fn leave_folder(
        &self,
        recorder: &mut Recorder,
        spooling: &mut Spooling,
        cause: HistoryError,
        number: u64,
        wall: Timestamp,
    ) -> Result<(), HistoryError> {
        let folder_end = recorder.end_log();
        self.begin_in_spool(recorder, spooling, cause, folder_end, number, wall)
    }

    /// Moves the log from the spool to the history's folder.
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
            // A spool without rows does not record where the acknowledged part of the old log ends.
            log::cut(&self.folder, spooling.folder_end)?;
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

    /// Reads a log of the spool without holding a lock. Returns `None` if the log cannot be read now.
    fn read_spooled(&self, log: &SpoolLog, wall: Timestamp) -> Option<Recovered> {
        let (spool_folder, end) = {
            let mut spooling = self.spooling();
            // The caller drops the log.
            spooling.is_incomplete |= spooling.spool.is_none();
            (
                spooling.spool.as_ref()?.spool_folder().clone(),
                spooling.end_of(log),
            )
        };
        let read = spool_folder.read(log, end);
        self.spooling().handle_read(log, read, wall)
    }

    /// Moves the rows of a log of the spool to files, and removes the log. If the log cannot be read, drops
    /// the segment; the log is adopted again when it can be read.
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
                    .closed
                    .retain(|one| one.number != segment.number);
                return Ok(());
            };
            self.translate(&mut recovered)?;
            let mut filled = Segment::in_spool(segment.number, log.clone());
            unsealed::fill(&mut filled, &recovered, wall);
            read = filled;
            &read
        };
        // An empty log with this number marks files that a crash may leave behind as copies of rows that
        // still exist in the spool.
        let epoch = self.spooling().epoch;
        drop(Log::create(&self.folder, segment.number, epoch)?);
        self.seal_segment(loaded, Some(log))?;
        let removed = {
            let mut spooling = self.spooling();
            spooling.remove(log);
            std::mem::take(&mut spooling.removed)
        };
        let listed = remove_entries(removed, &mut lock(&self.catalogue));
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

    /// Replaces the series ids in a log of the spool with the ids in the catalogue.
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

    /// Opens the spool if an earlier attempt failed. Adds the logs of the spool that are not part of the
    /// history yet, including those that could not be read before.
    pub(crate) fn reopen_spool(&self, wall: Timestamp) -> Result<(), Error> {
        let mut spooling = self.spooling();
        spooling.clear_past_fault();
        let is_opening = spooling.spool.is_none();
        let mut waiting = match is_opening {
            true => self.open_spool(&mut spooling)?,
            false => {
                spooling.remove_unneeded();
                spooling.unread.take_due(wall)
            }
        };
        if waiting.is_empty() {
            spooling.unread.end_attempt();
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
        let adopted = self.adopt_logs(&waiting, is_opening, wall);
        self.spooling().unread.end_attempt();
        adopted
    }

    /// Tries to open the spool, and returns the logs whose rows are not in files.
    fn open_spool(&self, spooling: &mut Spooling) -> Result<Vec<SpoolLog>, Error> {
        if spooling.folder.is_none() {
            return Ok(Vec::new());
        }
        let mut catalogue = lock(&self.catalogue);
        let in_files = match catalogue.spool_logs() {
            // The connection is closed now, so the files of the catalogue can be copied and read.
            Err(error) if error.is_disk_failure() => {
                spooling.check_folder(&self.folder)?;
                Snapshot::read(&self.folder)?.spool_logs
            }
            in_files => in_files?,
        };
        // After an error, `spooling.fault` has the reason.
        let waiting = spooling.open(&self.folder, &in_files, &mut catalogue);
        Ok(waiting.unwrap_or_default())
    }

    /// Turns logs of the spool into closed segments, numbered before the open segment. Meanwhile, the
    /// recorder is not blocked. `are_complete` is true if these are all logs of earlier runs.
    fn adopt_logs(
        &self,
        waiting: &[SpoolLog],
        are_complete: bool,
        wall: Timestamp,
    ) -> Result<(), Error> {
        let newest = waiting.last().filter(|_| are_complete);
        let mut next = None;
        for (index, log) in waiting.iter().enumerate() {
            let remaining = waiting.get(index..).unwrap_or_default();
            let is_newest = newest == Some(log);
            let adopted = self.adopt_log(log, is_newest, remaining.len(), &mut next, wall);
            if let Err(error) = adopted {
                let fault = error.of(&self.folder);
                self.spooling().unread.add(remaining, fault.clone(), wall);
                return Err(Error::Located(fault));
            }
        }
        Ok(())
    }

    /// Turns one log of the spool into a closed segment. `count` is the number of logs that still need a
    /// segment number, and `next` is the next reserved number; `None` if none are reserved yet.
    fn adopt_log(
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
            rows.push_event(mark);
            segment.add(ENGINE_SERIES, &rows, wall);
        }
        lock(&self.stored).tail.insert(segment);
        Ok(())
    }

    /// Reserves `count` segment numbers before the open segment, and returns the first one.
    fn reserve(&self, count: u64, wall: Timestamp) -> Result<u64, Error> {
        let mut recorder = lock(&self.recorder);
        let mut spooling = self.spooling();
        let open = lock(&self.stored).tail.open.number;
        if spooling.cause.is_some() {
            lock(&self.stored).tail.open.number += count;
            return Ok(open);
        }
        // The name of the log contains the segment number, so the open segment cannot be renumbered. Begin a
        // new one instead.
        let number = open + 1 + count;
        let begun = self.begin_in_folder(&mut recorder, &spooling, number, None, wall);
        if let Err(error) = begun {
            let cause = error.of(&self.folder);
            let moved = self.leave_folder(&mut recorder, &mut spooling, cause, number, wall);
            moved.map_err(Error::Located)?;
        }
        Ok(open + 1)
    }
}
