//! Records updates of variables to several files.

use std::io;
use std::time::Duration;

use trunkline_types::{DataType, Lost, Sample};

use super::error::{VariableProgress, VariableRecordError};
use super::file::Segments;
use super::recording::{VariableId, VariableRecording};
use crate::ended::EndedFiles;
use crate::queue::{FreeSpace, FreeSpaceAlarm, FreeSpaceMonitor};
use crate::tdms_series::Rotation;
use crate::watched_path::MovedFile;

/// A file of a series that accepts no more data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EndedVariables {
    /// Number of the file in the series, counted from 1.
    pub number: u32,
    /// Number of updates in the file that no earlier file contains.
    pub updates: u64,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// True if the file survives a power loss. Otherwise updates may be missing, so the next file
    /// records a gap.
    pub is_on_disk: bool,
}

/// The totals of ended files whose results were discarded, because the caller left more than
/// [`ENDED_FILES_MAX`](crate::ENDED_FILES_MAX) results untaken. Their updates are part of
/// [`VariableSeries::progress`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DiscardedVariableResults {
    pub files: u32,
    /// Number of these files that may not survive a power loss.
    pub not_on_disk: u32,
}

/// Records updates of variables to several files. The series continues in a new file when the
/// current file becomes large or old, or fails.
///
/// Each file can be read on its own: it contains the types, and it begins with a copy of the last
/// update of each variable in the previous file, with the time of that update. The group's property
/// `carried_rows` marks this copy, and `series_row` is the number of the variable's updates in
/// earlier files. Updates that a failed file did not accept are in the next file. Updates that a
/// failed file accepted but did not make durable may be missing, so the next file records a gap of
/// unknown size.
///
/// A series has no clock; callers pass the time of any monotonic clock. A series may use twice the
/// memory of a [`VariableRecording`], because it keeps updates until they are in a file, and it
/// also keeps the last update of each variable.
#[derive(Debug)]
pub struct VariableSeries<S, O> {
    recording: VariableRecording<S>,
    open: O,
    rotation: Option<Rotation>,
    number: u32,
    /// Time at which the first update was written to the current file.
    started_at: Duration,
    /// True if the current file accepts no more data and the next file does not exist yet.
    needs_next_file: bool,
    ended: EndedFiles<EndedVariables>,
    omitted: DiscardedVariableResults,
    monitor: FreeSpaceMonitor,
}

impl<S: Segments, O: FnMut(u32) -> io::Result<S>> VariableSeries<S, O> {
    /// Begins the first file. `open` creates the file with a given number, counted from 1. The
    /// other arguments are the same as for [`VariableRecording::new`]. Without a rotation, this
    /// file is the only one, even if it fails.
    ///
    /// # Errors
    /// The error of `open`.
    pub fn start(
        mut open: O,
        rotation: Option<Rotation>,
        waiting_bytes_max: usize,
        now: Duration,
    ) -> io::Result<Self> {
        let out = open(1)?;
        let recording = match rotation {
            Some(_) => VariableRecording::for_series(out, waiting_bytes_max),
            None => VariableRecording::new(out, waiting_bytes_max),
        };
        Ok(Self {
            recording,
            open,
            rotation,
            number: 1,
            started_at: now,
            needs_next_file: false,
            ended: EndedFiles::default(),
            omitted: DiscardedVariableResults::default(),
            monitor: FreeSpaceMonitor::new(FreeSpaceAlarm::default()),
        })
    }

    pub(super) fn start_elements(
        open: O,
        rotation: Option<Rotation>,
        waiting_bytes_max: usize,
        now: Duration,
    ) -> io::Result<Self> {
        let series = Self::start(open, rotation, waiting_bytes_max, now)?;
        Ok(Self {
            recording: series.recording.for_elements(),
            ..series
        })
    }

    /// Adds a variable to this file and all later files, like [`VariableRecording::add`].
    pub fn add(
        &mut self,
        name: &str,
        data_type: &DataType,
    ) -> Result<VariableId, VariableRecordError> {
        self.recording.add(name, data_type)
    }

    pub fn describe(
        &mut self,
        variable: VariableId,
        unit: &str,
        description: &str,
    ) -> Result<(), VariableRecordError> {
        self.recording.describe(variable, unit, description)
    }

    pub fn take(
        &mut self,
        variable: VariableId,
        sample: &Sample,
        lost: &Lost,
        now: Duration,
    ) -> Result<(), VariableRecordError> {
        self.write_if_full_for(sample, now);
        self.recording.take(variable, sample, lost)
    }

    /// Accepts a variable's initial value at time `now`, like [`VariableRecording::take_initial`].
    pub fn take_initial(
        &mut self,
        variable: VariableId,
        sample: &Sample,
        lost: &Lost,
        now: Duration,
    ) -> Result<(), VariableRecordError> {
        self.write_if_full_for(sample, now);
        self.recording.take_initial(variable, sample, lost)
    }

    fn write_if_full_for(&mut self, sample: &Sample, now: Duration) {
        if self.rotation.is_some() && self.recording.is_full_for(sample) {
            // If this fails, the recording reports the error once it cannot keep another update.
            let _ = self.write_out(now);
        }
    }

    pub(super) fn accept_beyond_limit(
        &mut self,
        variable: VariableId,
        sample: &Sample,
    ) -> Result<(), VariableRecordError> {
        self.recording.accept_beyond_limit(variable, sample)
    }

    pub(super) fn is_at_limit(&self) -> bool {
        self.recording.is_at_limit()
    }

    pub fn record_loss(
        &mut self,
        variable: VariableId,
        lost: Option<u64>,
    ) -> Result<(), VariableRecordError> {
        self.recording.record_loss(variable, lost)
    }

    /// Writes all waiting updates as one segment, to this file or the next one.
    ///
    /// # Errors
    /// The errors of [`VariableRecording::write_out`]; also if the next file cannot be created. The
    /// next call tries again.
    pub fn write_out(&mut self, now: Duration) -> Result<(), VariableRecordError> {
        self.write(now, VariableRecording::write_out)
    }

    /// Writes all waiting updates like [`write_out`](Self::write_out), and makes them durable.
    ///
    /// # Errors
    /// The errors of [`write_out`](Self::write_out). If a sync fails, the series continues in the
    /// next file; this call returns an error only if the sync of that file fails too.
    pub fn sync(&mut self, now: Duration) -> Result<(), VariableRecordError> {
        self.write(now, VariableRecording::sync)
    }

    pub fn finish(&mut self, now: Duration) -> Result<(), VariableRecordError> {
        self.write(now, VariableRecording::finish)
    }

    fn write(
        &mut self,
        now: Duration,
        write: fn(&mut VariableRecording<S>) -> Result<(), VariableRecordError>,
    ) -> Result<(), VariableRecordError> {
        let written = self.write_to_current_or_next(now, write);
        if self.monitor.is_due(now) {
            let bytes = self.recording.progress().bytes;
            self.monitor.record(now, self.recording.free_bytes(), bytes);
        }
        self.monitor.set_full(
            written
                .as_ref()
                .is_err_and(VariableRecordError::is_disk_full),
        );
        written
    }

    fn write_to_current_or_next(
        &mut self,
        now: Duration,
        write: fn(&mut VariableRecording<S>) -> Result<(), VariableRecordError>,
    ) -> Result<(), VariableRecordError> {
        if self.recording.file_updates() == 0 {
            // The age of a file counts from its first update.
            self.started_at = now;
        }
        if self.needs_next_file || self.must_rotate(now) {
            return self.write_to_next(now, write);
        }
        match write(&mut self.recording) {
            Err(error) if self.rotation.is_some() && has_failed(&error) => {
                self.write_to_next(now, write)
            }
            result => result,
        }
    }

    /// Creates the next file and writes to it. If the file cannot be created, writes to the current
    /// one.
    fn write_to_next(
        &mut self,
        now: Duration,
        write: fn(&mut VariableRecording<S>) -> Result<(), VariableRecordError>,
    ) -> Result<(), VariableRecordError> {
        self.needs_next_file = true;
        // Sync the content of this file. If that fails, the next file records a gap.
        let _ = self.recording.sync_file();
        let opened = self.open_next(now);
        let written = write(&mut self.recording);
        opened.and(written)
    }

    /// Returns true if the current file has reached a limit and updates are waiting for the next
    /// file.
    fn must_rotate(&self, now: Duration) -> bool {
        self.rotation.is_some_and(|rotation| {
            let age = now.saturating_sub(self.started_at);
            let is_at_limit =
                self.recording.file_bytes() >= rotation.bytes_max || age >= rotation.age_max;
            let has_updates = self.recording.file_updates() > 0;
            is_at_limit && has_updates && self.recording.has_something_waiting()
        })
    }

    fn open_next(&mut self, now: Duration) -> Result<(), VariableRecordError> {
        let out = (self.open)(self.number + 1)?;
        let updates = self.recording.file_updates();
        let bytes = self.recording.file_bytes();
        let is_on_disk = self.recording.is_on_disk();
        self.recording.continue_in(out)?;
        let omitted = self.ended.push(EndedVariables {
            number: self.number,
            updates,
            bytes,
            is_on_disk,
        });
        if let Some(omitted) = omitted {
            self.omitted.files += 1;
            self.omitted.not_on_disk += u32::from(!omitted.is_on_disk);
        }
        self.number += 1;
        self.started_at = now;
        self.needs_next_file = false;
        Ok(())
    }

    /// Returns the number of the current file, counted from 1.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns the result of the next ended file. The newest
    /// [`ENDED_FILES_MAX`](crate::ENDED_FILES_MAX) results are kept until this method returns them;
    /// older results are discarded and counted ([`discarded_results`](Self::discarded_results)).
    pub fn take_ended(&mut self) -> Option<EndedVariables> {
        self.ended.take()
    }

    /// Returns the totals of the ended files whose results were discarded.
    pub fn discarded_results(&self) -> DiscardedVariableResults {
        self.omitted
    }

    /// Returns the location of the current file, like [`VariableRecording::moved_file`].
    pub fn moved_file(&self) -> Option<&MovedFile> {
        self.recording.moved_file()
    }

    /// Returns the location of the current checksum file, like
    /// [`VariableRecording::moved_sums_file`].
    pub fn moved_sums_file(&self) -> Option<&MovedFile> {
        self.recording.moved_sums_file()
    }

    /// Returns the free space on the disk, as measured by a recent write.
    pub fn free_space(&self) -> FreeSpace {
        self.monitor.free_space()
    }

    pub fn discard_waiting(&mut self) -> u64 {
        self.recording.discard_waiting()
    }

    /// Returns the progress over all files.
    pub fn progress(&self) -> VariableProgress {
        self.recording.progress()
    }
}

/// Returns true if the error means that the file accepts no more data. A full disk is different:
/// the file accepts data again once there is space.
fn has_failed(error: &VariableRecordError) -> bool {
    match error {
        VariableRecordError::File(_) => !error.is_disk_full(),
        VariableRecordError::Sync { .. }
        | VariableRecordError::Removed { .. }
        | VariableRecordError::Format { .. } => true,
        _ => false,
    }
}
