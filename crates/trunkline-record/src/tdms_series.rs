//! One recording in several files.

use std::io;
use std::time::Duration;

use trunkline_ring::ReadRegion;
use trunkline_tdms::{ObjectPath, Waveform};

use crate::ended::EndedFiles;
use crate::error::{FailedStep, QueueError, Refused};
use crate::queue::{Closed, Durability, FullDisk, WriteQueue};
use crate::tdms_recording::{DiskFullLosses, RecordError, TdmsLayout, TdmsRecording};

/// The limits at which a recording continues in another file. It also does so after a file has
/// failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rotation {
    /// The file length in bytes from which a file accepts no further region. No limit by default.
    pub bytes_max: u64,
    /// The age from which a file accepts no further region. No limit by default.
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
    /// The number of the file in the series, counted from 1.
    pub number: u32,
    pub closed: Closed,
    pub rows: u64,
    /// Rows accepted for this file that are not in it because it failed. The next file records them
    /// as a gap.
    pub rows_lost: u64,
}

/// The totals of the files that ended and whose results were omitted, because more than
/// [`ENDED_FILES_MAX`](crate::ENDED_FILES_MAX) were not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OmittedFiles {
    pub files: u32,
    /// Sum of the lengths of these files.
    pub bytes: u64,
    /// Sum of [`EndedFile::rows_lost`].
    pub rows_lost: u64,
    /// Number of these files that failed.
    pub failed: u32,
    /// Number of these files that may not survive a power loss.
    pub not_on_disk: u32,
    /// The first system error number of a failed sync.
    pub sync_failure: Option<i32>,
    /// The first [`Closed::untrimmed`].
    pub untrimmed: Option<i32>,
}

impl OmittedFiles {
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
        self.untrimmed = self.untrimmed.or(closed.untrimmed);
    }
}

/// A recording that continues in another file when one is large, old, or has failed.
///
/// The next file is opened before the previous one is closed. The previous one then finishes while
/// the next is written, so at most two are open. Every file has all channels, and its group has the
/// property `series_row`: the number of rows in the files before it.
#[derive(Debug)]
pub struct TdmsSeries<O> {
    open: O,
    layout: TdmsLayout,
    rotation: Rotation,
    wait: Duration,
    number: u32,
    current: TdmsRecording,
    /// The start time of the current file, on the backend's clock.
    started_at: Duration,
    /// The previous file, until it is closed.
    previous: Option<ClosingFile>,
    ended: EndedFiles<EndedFile>,
    omitted: OmittedFiles,
    /// Rows in the files before the current one. A file that is still closing counts with the rows
    /// it accepted.
    rows_before: u64,
    /// Rows that the device has delivered so far, including lost ones.
    rows_delivered: u64,
    /// Rows that were accepted for files that failed.
    rows_lost: u64,
    bytes_before: u64,
}

/// A file that accepts no more data and is not closed yet.
#[derive(Debug)]
struct ClosingFile {
    number: u32,
    recording: TdmsRecording,
    /// The rows of this file that `rows_before` includes.
    rows: u64,
}

impl<O: FnMut(u32) -> io::Result<WriteQueue>> TdmsSeries<O> {
    /// Begins the first file. `open` creates the queue for a file, given its number counted from 1.
    /// `wait` is the timeout for opening and for closing a file.
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
            omitted: OmittedFiles::default(),
            rows_before: 0,
            rows_delivered: 0,
            rows_lost: 0,
            bytes_before: 0,
        })
    }

    /// Writes the rows of a region as [`TdmsRecording::write`] does, into the current file or the
    /// next.
    ///
    /// # Errors
    /// [`RecordError`], as for [`TdmsRecording::write`]. [`RecordError::Refused`], with the region,
    /// is also returned if the next file cannot be opened.
    pub fn write(&mut self, region: ReadRegion) -> Result<(), RecordError> {
        let rows = region.lost_before() + region.elements();
        let written = self.write_or_lose(region);
        if written.is_ok() {
            self.rows_delivered += rows;
        }
        written
    }

    fn write_or_lose(&mut self, region: ReadRegion) -> Result<(), RecordError> {
        match self.poll() {
            Ok(()) => {}
            Err(RecordError::Queue(error)) => {
                return Err(Box::new(Refused { region, error }).into());
            }
            Err(error) => return Err(error),
        }
        match self.write_here_or_next(region) {
            // There is no room for another file.
            Err(RecordError::Refused(refused)) if self.counts_as_loss(&refused.error) => {
                self.current.count_lost(&refused.region);
                Ok(())
            }
            result => result,
        }
    }

    fn write_here_or_next(&mut self, region: ReadRegion) -> Result<(), RecordError> {
        let region = match self.is_over() {
            true => self.rotate_before(region)?,
            false => region,
        };
        match self.write_here(region) {
            // The file has failed since the check; write into the next one.
            Err(RecordError::Refused(refused))
                if matches!(refused.error, QueueError::Failed(_)) =>
            {
                let region = self.rotate_before(refused.region)?;
                self.write_here(region)
            }
            result => result,
        }
    }

    /// Returns true if, after this error, rows are counted as lost instead of being refused.
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

    /// Returns the losses in all files while the disk was full; zero unless [`FullDisk::Discard`] is
    /// set.
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

    /// Continues in the next file.
    ///
    /// # Errors
    /// [`RecordError`]: the previous file does not close in time, or the next cannot be opened. The
    /// current file is then unchanged.
    pub fn rotate(&mut self) -> Result<(), RecordError> {
        self.finish_previous(self.wait)?;
        // No further rows go into this file, so no later header would record the last gap.
        match self.current.write_gaps() {
            // The next file records the gap.
            Ok(()) | Err(RecordError::Queue(QueueError::Failed(_))) => {}
            Err(error) => return Err(error),
        }
        let number = self.number + 1;
        let queue = (self.open)(number).map_err(QueueError::Backend)?;
        let next = TdmsRecording::start(queue, &self.layout_from(self.rows_delivered), self.wait)?;
        let mut last = std::mem::replace(&mut self.current, next);
        let rows_lost = last.take_rows_lost();
        self.current.continue_from(last.disk_full_losses());
        let is_cut_short = last.progress().failure.is_some() || last.has_header_overflow();
        let rows = last.rows();
        self.bytes_before += last.progress().accepted;
        self.previous = Some(ClosingFile {
            number: self.number,
            recording: last,
            rows,
        });
        self.rows_before += rows;
        self.number = number;
        self.started_at = self.current.queue().backend().now();
        self.set_series_row()?;
        if rows_lost > 0 {
            self.current.note_gap_at(0, rows_lost)?;
        }
        if is_cut_short {
            // The exact loss is known once no write of the previous file is running. The first
            // header of the next file records it.
            self.finish_previous(self.wait)?;
        }
        Ok(())
    }

    fn set_series_row(&mut self) -> Result<(), RecordError> {
        let group = ObjectPath::Group(self.layout.group.clone());
        self.current.set(&group, "series_row", self.rows_before)
    }

    /// Returns the layout of a file whose first row has this number, where lost rows count too.
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

    /// Writes a region into the current file, after setting the time of the file's first row.
    fn write_here(&mut self, region: ReadRegion) -> Result<(), RecordError> {
        if self.current.rows() == 0 && self.layout.waveform.is_some() {
            let layout = self.layout_from(self.rows_delivered + region.lost_before());
            self.current.set_waveform(&layout)?;
        }
        self.current.write(region)
    }

    fn is_over(&self) -> bool {
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
        let counted = previous.rows;
        self.rows_lost += counted - ended.rows;
        self.previous = None;
        if let Some(omitted) = self.ended.push(ended) {
            self.omitted.add(&omitted);
        }
        if missing > 0 {
            self.current.note_gap_at(0, missing)?;
        }
        if counted != ended.rows {
            // The file cannot hold more rows than it accepted.
            self.rows_before -= counted - ended.rows;
            self.set_series_row()?;
        }
        Ok(())
    }

    /// Processes completions that have arrived, without waiting.
    pub fn poll(&mut self) -> Result<(), RecordError> {
        match self.current.poll() {
            // The next region goes into another file.
            Ok(()) | Err(RecordError::Queue(QueueError::Failed(_))) => {}
            Err(error) => return Err(error),
        }
        match self.finish_previous(Duration::ZERO) {
            Err(RecordError::Queue(QueueError::NotDone { .. })) => Ok(()),
            result => result,
        }
    }

    /// Waits until all accepted data has the given durability, in the current file and the previous
    /// ones. If the current file fails, the recording continues in the next, which records the
    /// loss.
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

    /// Returns the number of accepted rows that are in no file because their file failed. The
    /// losses of a file are included once it has closed.
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

    /// Returns the next closed file. The newest [`ENDED_FILES_MAX`](crate::ENDED_FILES_MAX) are kept
    /// until this method returns them; older ones are omitted and counted
    /// ([`omitted_files`](Self::omitted_files)).
    pub fn take_ended(&mut self) -> Option<EndedFile> {
        self.ended.take()
    }

    /// Returns the totals of the closed files that [`take_ended`](Self::take_ended) does not return.
    pub fn omitted_files(&self) -> OmittedFiles {
        self.omitted
    }

    /// Ends the recording. [`take_ended`](Self::take_ended) returns the final states of the earlier
    /// files.
    ///
    /// # Errors
    /// [`RecordError::Queue`]; the call may then be repeated.
    pub fn close(&mut self) -> Result<EndedFile, RecordError> {
        self.finish_previous(self.wait)?;
        match self.current.write_gaps() {
            // The final state of each file also reports its loss.
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
