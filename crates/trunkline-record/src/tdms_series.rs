//! Writes one recording to several TDMS files.

use std::io;
use std::time::Duration;

use trunkline_ring::ReadRegion;
use trunkline_tdms::{ObjectPath, Waveform};

use crate::ended::EndedFiles;
use crate::error::{FailedStep, QueueError, Refused};
use crate::queue::{Closed, Durability, FullDisk, WriteQueue};
use crate::tdms_recording::{DiskFullLosses, RecordError, TdmsLayout, TdmsRecording};

/// The limits at which a recording continues in a new file. A recording also continues in a new
/// file after a failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rotation {
    /// Length in bytes at which a file accepts no more regions. Default: no limit.
    pub bytes_max: u64,
    /// Age at which a file accepts no more regions. Default: no limit.
    pub age_max: Duration,
}

impl Default for Rotation {
    fn default() -> Self {
        Self {
            bytes_max: u64::MAX,
            age_max: Duration::MAX,
        }
    }
}

/// A file of a series that accepts no more data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EndedFile {
    /// Number of the file in the series, counted from 1.
    pub number: u32,
    pub closed: Closed,
    /// Number of rows in the file.
    pub rows: u64,
    /// Number of rows that were accepted for this file and are missing because the file failed. The
    /// next file records them as a gap.
    pub rows_lost: u64,
}

/// The totals of ended files whose results were discarded, because the caller left more than
/// [`ENDED_FILES_MAX`](crate::ENDED_FILES_MAX) results untaken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DiscardedResults {
    pub files: u32,
    /// Total length of these files in bytes.
    pub bytes: u64,
    /// Total of [`EndedFile::rows_lost`] for these files.
    pub rows_lost: u64,
    /// Number of these files that failed.
    pub failed: u32,
    /// Number of these files that may not survive a power loss.
    pub not_on_disk: u32,
    /// System error number of the first failed sync.
    pub sync_failure: Option<i32>,
    /// System error number of the first file that could not be truncated ([`Closed::truncate_error`]).
    pub truncate_error: Option<i32>,
}

impl DiscardedResults {
    fn add(&mut self, ended: &EndedFile) {
        let closed = &ended.closed;
        self.files += 1;
        self.bytes += closed.length;
        self.rows_lost += ended.rows_lost;
        self.failed += u32::from(closed.failure.is_some());
        self.not_on_disk += u32::from(closed.durability != Durability::OnDisk);
        let sync_failure = closed
            .failure
            .filter(|failure| failure.step == FailedStep::Sync);
        self.sync_failure = self
            .sync_failure
            .or(sync_failure.map(|failure| failure.os_error));
        self.truncate_error = self.truncate_error.or(closed.truncate_error);
    }
}

/// A recording that continues in a new file when the current file becomes large or old, or fails.
///
/// The next file is opened before the previous one is closed. The previous file then finishes while
/// the next file is written, so at most two files are open. Every file has all channels. The
/// property `series_row` of the group is the number of rows in earlier files.
#[derive(Debug)]
pub struct TdmsSeries<O> {
    open: O,
    layout: TdmsLayout,
    rotation: Rotation,
    wait: Duration,
    number: u32,
    current: TdmsRecording,
    /// Time at which the current file started, on the backend's clock.
    started_at: Duration,
    /// The previous file, while it is closing.
    previous: Option<ClosingFile>,
    ended: EndedFiles<EndedFile>,
    omitted: DiscardedResults,
    /// Number of rows in the files before the current one. For a file that is still closing, the
    /// rows that it accepted are counted.
    rows_before: u64,
    /// Number of rows that the device has delivered so far, including lost rows.
    rows_delivered: u64,
    /// Number of accepted rows that are missing because their files failed.
    rows_lost: u64,
    /// Number of bytes accepted for the files before the current one.
    bytes_before: u64,
}

/// A file that accepts no more data but is not closed yet.
#[derive(Debug)]
struct ClosingFile {
    number: u32,
    recording: TdmsRecording,
    /// Number of rows of this file that `rows_before` includes.
    rows: u64,
}

impl<O: FnMut(u32) -> io::Result<WriteQueue>> TdmsSeries<O> {
    /// Begins the first file. `open` creates the queue for the file with a given number, counted
    /// from 1. `wait` is the timeout for opening and for closing a file.
    pub fn start(
        mut open: O,
        layout: TdmsLayout,
        rotation: Rotation,
        wait: Duration,
    ) -> Result<Self, RecordError> {
        let queue = open(1).map_err(QueueError::Backend)?;
        let current = TdmsRecording::start(queue, &layout, wait)?;
        Ok(Self {
            open,
            layout,
            rotation,
            wait,
            number: 1,
            started_at: current.queue().backend().now(),
            current,
            previous: None,
            ended: EndedFiles::default(),
            omitted: DiscardedResults::default(),
            rows_before: 0,
            rows_delivered: 0,
            rows_lost: 0,
            bytes_before: 0,
        })
    }

    /// Writes the rows of a region to the current file or the next one, like
    /// [`TdmsRecording::write`].
    ///
    /// # Errors
    /// [`RecordError`], as for [`TdmsRecording::write`]. If the next file cannot be opened,
    /// [`RecordError::Refused`] returns the region.
    pub fn write(&mut self, region: ReadRegion) -> Result<(), RecordError> {
        let rows = region.lost_before() + region.elements();
        let written = self.write_or_count_lost(region);
        if written.is_ok() {
            self.rows_delivered += rows;
        }
        written
    }

    fn write_or_count_lost(&mut self, region: ReadRegion) -> Result<(), RecordError> {
        match self.poll() {
            Ok(()) => {}
            Err(RecordError::Queue(error)) => {
                return Err(Box::new(Refused { region, error }).into());
            }
            Err(error) => return Err(error),
        }
        match self.write_to_current_or_next(region) {
            // The disk has no space for another file.
            Err(RecordError::Refused(refused)) if self.counts_as_loss(&refused.error) => {
                self.current.count_lost(&refused.region);
                Ok(())
            }
            result => result,
        }
    }

    fn write_to_current_or_next(&mut self, region: ReadRegion) -> Result<(), RecordError> {
        let region = match self.needs_rotation() {
            true => self.rotate_before(region)?,
            false => region,
        };
        match self.write_to_current(region) {
            // The file has failed since the check above, so the region goes to the next file.
            Err(RecordError::Refused(refused))
                if matches!(refused.error, QueueError::Failed(_)) =>
            {
                let region = self.rotate_before(refused.region)?;
                self.write_to_current(region)
            }
            result => result,
        }
    }

    /// Returns true if this error makes the series count rows as lost instead of refusing them.
    fn counts_as_loss(&self, error: &QueueError) -> bool {
        let kind = match error {
            QueueError::DiskFull { .. } => io::ErrorKind::StorageFull,
            QueueError::Backend(error) => error.kind(),
            QueueError::Failed(failure) => io::Error::from_raw_os_error(failure.os_error).kind(),
            _ => return false,
        };
        let is_full = matches!(
            kind,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
        );
        is_full && self.current.queue().options().full_disk == FullDisk::Discard
    }

    /// Returns the rows lost while the disk was full, over all files; none unless
    /// [`FullDisk::Discard`] is set.
    pub fn disk_full_losses(&self) -> DiskFullLosses {
        self.current.disk_full_losses()
    }

    fn rotate_before(&mut self, region: ReadRegion) -> Result<ReadRegion, RecordError> {
        match self.rotate() {
            Ok(()) => Ok(region),
            Err(RecordError::Queue(error)) => Err(Box::new(Refused { region, error }).into()),
            Err(error) => Err(error),
        }
    }

    /// Continues the recording in a new file.
    ///
    /// # Errors
    /// [`RecordError`]: the previous file does not close in time, or the new file cannot be opened.
    /// The current file then stays the same.
    pub fn rotate(&mut self) -> Result<(), RecordError> {
        self.finish_previous(self.wait)?;
        // This file gets no more rows, so no later header would record the last gap.
        match self.current.write_gaps() {
            // If this file has failed, the next file records the gap.
            Ok(()) | Err(RecordError::Queue(QueueError::Failed(_))) => {}
            Err(error) => return Err(error),
        }
        let number = self.number + 1;
        let queue = (self.open)(number).map_err(QueueError::Backend)?;
        let next = TdmsRecording::start(queue, &self.layout_from(self.rows_delivered), self.wait)?;
        let mut finished = std::mem::replace(&mut self.current, next);
        let rows_lost = finished.take_rows_lost();
        self.current.continue_from(finished.disk_full_losses());
        let is_incomplete = finished.progress().failure.is_some() || finished.has_header_overflow();
        let rows = finished.rows();
        self.bytes_before += finished.progress().accepted;
        self.previous = Some(ClosingFile {
            number: self.number,
            recording: finished,
            rows,
        });
        self.rows_before += rows;
        self.number = number;
        self.started_at = self.current.queue().backend().now();
        self.set_series_row()?;
        if rows_lost > 0 {
            self.current.note_gap_at(0, rows_lost)?;
        }
        if is_incomplete {
            // The exact number of lost rows is known once no write of the previous file is running.
            // The first header of the next file records it.
            self.finish_previous(self.wait)?;
        }
        Ok(())
    }

    fn set_series_row(&mut self) -> Result<(), RecordError> {
        let group = ObjectPath::Group(self.layout.group.clone());
        self.current.set(&group, "series_row", self.rows_before)
    }

    /// Returns the layout of a file whose first row has this number. Lost rows are counted too.
    fn layout_from(&self, row: u64) -> TdmsLayout {
        let waveform = self.layout.waveform.map(|waveform| Waveform {
            offset: waveform.offset + waveform.increment * row as f64,
            ..waveform
        });
        TdmsLayout {
            waveform,
            ..self.layout.clone()
        }
    }

    /// Writes a region to the current file. The first region also sets the time of the first row.
    fn write_to_current(&mut self, region: ReadRegion) -> Result<(), RecordError> {
        if self.current.rows() == 0 && self.layout.waveform.is_some() {
            let layout = self.layout_from(self.rows_delivered + region.lost_before());
            self.current.set_waveform(&layout)?;
        }
        self.current.write(region)
    }

    fn needs_rotation(&self) -> bool {
        let progress = self.current.progress();
        let age = self
            .current
            .queue()
            .backend()
            .now()
            .saturating_sub(self.started_at);
        let bytes = progress.accepted + progress.bytes_collected as u64;
        progress.failure.is_some()
            || self.current.has_header_overflow()
            || bytes >= self.rotation.bytes_max
            || age >= self.rotation.age_max
    }

    /// Closes the previous file, if there is one.
    fn finish_previous(&mut self, wait: Duration) -> Result<(), RecordError> {
        let Some(previous) = &mut self.previous else {
            return Ok(());
        };
        let ended = end(previous.number, &mut previous.recording, wait)?;
        let missing = previous.recording.rows_missing();
        let accepted = previous.rows;
        self.rows_lost += accepted - ended.rows;
        self.previous = None;
        if let Some(omitted) = self.ended.push(ended) {
            self.omitted.add(&omitted);
        }
        if missing > 0 {
            self.current.note_gap_at(0, missing)?;
        }
        if accepted != ended.rows {
            // The difference is not negative, because a file has at most the rows that it accepted.
            self.rows_before -= accepted - ended.rows;
            self.set_series_row()?;
        }
        Ok(())
    }

    /// Processes the completions that have arrived, without waiting.
    pub fn poll(&mut self) -> Result<(), RecordError> {
        match self.current.poll() {
            // If the file has failed, the next region goes to a new file.
            Ok(()) | Err(RecordError::Queue(QueueError::Failed(_))) => {}
            Err(error) => return Err(error),
        }
        match self.finish_previous(Duration::ZERO) {
            Err(RecordError::Queue(QueueError::TimedOut { .. })) => Ok(()),
            result => result,
        }
    }

    /// Waits until all accepted data has the given durability, in the current file and in the
    /// previous ones. If the current file fails, the recording continues in a new file, which
    /// records the loss.
    pub fn flush(&mut self, durability: Durability, wait: Duration) -> Result<(), RecordError> {
        self.finish_previous(wait)?;
        match self.current.flush(durability, wait) {
            Err(RecordError::Queue(QueueError::Failed(_))) => {
                self.rotate()?;
                self.current.flush(durability, wait)
            }
            result => result,
        }
    }

    /// Returns the number of rows accepted, over all files.
    pub fn rows(&self) -> u64 {
        self.rows_before + self.rows_lost + self.current.rows()
    }

    /// Returns the number of accepted rows that are missing because their file failed. The rows of
    /// a file are included once the file has closed.
    pub fn rows_lost(&self) -> u64 {
        self.rows_lost
    }

    /// Returns the number of bytes in the files before the current one.
    pub fn bytes_before(&self) -> u64 {
        self.bytes_before
    }

    pub fn file(&self) -> &TdmsRecording {
        &self.current
    }

    /// Returns the current file, mutably.
    pub fn current(&mut self) -> &mut TdmsRecording {
        &mut self.current
    }

    /// Returns the number of the current file, counted from 1.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns the result of the next closed file. The newest
    /// [`ENDED_FILES_MAX`](crate::ENDED_FILES_MAX) results are kept until this method returns them;
    /// older results are discarded and counted ([`discarded_results`](Self::discarded_results)).
    pub fn take_ended(&mut self) -> Option<EndedFile> {
        self.ended.take()
    }

    /// Returns the totals of the closed files whose results were discarded.
    pub fn discarded_results(&self) -> DiscardedResults {
        self.omitted
    }

    /// Ends the recording and returns the result of the last file. [`take_ended`](Self::take_ended)
    /// returns the results of earlier files.
    ///
    /// # Errors
    /// [`RecordError::Queue`], after which the caller may call this again.
    pub fn close(&mut self) -> Result<EndedFile, RecordError> {
        self.finish_previous(self.wait)?;
        match self.current.write_gaps() {
            // After these errors, the result of the file reports the lost rows.
            Ok(())
            | Err(RecordError::Queue(
                QueueError::Failed(_) | QueueError::Closed | QueueError::DiskFull { .. },
            )) => {}
            Err(error) => return Err(error),
        }
        end(self.number, &mut self.current, self.wait)
    }
}

fn end(
    number: u32,
    recording: &mut TdmsRecording,
    wait: Duration,
) -> Result<EndedFile, RecordError> {
    let closed = recording.end(wait)?;
    let rows = recording.rows_in_file();
    Ok(EndedFile {
        number,
        closed,
        rows,
        rows_lost: recording.rows() - rows,
    })
}
