//! Records which rows are missing because the device lost them or the disk was full.

use trunkline_ring::ReadRegion;
use trunkline_tdms::Arrangement;

use super::{RecordError, TdmsRecording};
use crate::error::QueueError;
use crate::queue::FullDisk;

/// Rows lost while the disk was full.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DiskFullLosses {
    /// True while rows are being lost.
    pub is_stopped: bool,
    /// Number of times that recording stopped because the disk was full.
    pub stops: u64,
    /// Total number of rows lost while recording was stopped.
    pub rows_lost: u64,
}

impl TdmsRecording {
    /// Returns the rows lost while the disk was full; none unless [`FullDisk::Discard`] is set.
    pub fn disk_full_losses(&self) -> DiskFullLosses {
        self.disk_full_losses
    }

    /// Returns true if this error makes the recording count rows as lost instead of refusing them.
    pub(super) fn counts_as_loss(&self, error: &QueueError) -> bool {
        matches!(error, QueueError::DiskFull { .. })
            && self.queue().options().full_disk == FullDisk::Discard
    }

    /// Counts the rows of a region as lost because the disk is full.
    pub(crate) fn count_lost(&mut self, region: &ReadRegion) {
        self.disk_full_losses.stops += u64::from(!self.disk_full_losses.is_stopped);
        self.disk_full_losses.is_stopped = true;
        self.disk_full_losses.rows_lost += region.elements();
        self.unrecorded_rows += region.elements() + region.lost_before();
    }

    /// Records in the file the rows that are missing before an accepted region.
    pub(super) fn note_lost_before(&mut self, region: &ReadRegion) -> Result<(), RecordError> {
        let lost = self.take_rows_lost() + region.lost_before();
        match lost {
            0 => Ok(()),
            lost => self.note_gap(lost),
        }
    }

    /// Returns the number of rows missing since the disk became full, and resets the number. The
    /// caller must record the missing rows.
    pub(crate) fn take_rows_lost(&mut self) -> u64 {
        self.disk_full_losses.is_stopped = false;
        std::mem::take(&mut self.unrecorded_rows)
    }

    /// Continues the loss counters of the previous recording.
    pub(crate) fn continue_from(&mut self, losses: DiskFullLosses) {
        self.disk_full_losses = losses;
    }

    /// Records in the file that `lost` rows are missing before the next row.
    fn note_gap(&mut self, lost: u64) -> Result<(), RecordError> {
        self.note_gap_at(self.rows, lost)
    }

    /// Records with the file's next header that `lost` rows are missing before row `row`.
    pub(crate) fn note_gap_at(&mut self, row: u64, lost: u64) -> Result<(), RecordError> {
        let number = self.gaps + 1;
        let group = self.group.clone();
        self.writer.set(&group, format!("gap_{number}_row"), row)?;
        self.writer
            .set(&group, format!("gap_{number}_lost"), lost)?;
        self.gaps = number;
        self.lost += lost;
        Ok(())
    }

    /// Writes a segment without rows that contains the properties set since the last segment.
    pub(super) fn append_properties(&mut self) -> Result<(), RecordError> {
        self.header.clear();
        self.writer
            .header(&[], Arrangement::Contiguous, &mut self.header)?;
        self.writer.pad(&mut self.header)?;
        self.lost_in_headers = self.lost;
        Ok(self.queue.append_header(&self.header)?)
    }

    /// Writes the gaps that no header contains yet, if the file still accepts data.
    pub(crate) fn write_gaps(&mut self) -> Result<(), RecordError> {
        let is_possible = !self.has_header_overflow && self.progress().failure.is_none();
        if !is_possible || self.lost == self.lost_in_headers {
            return Ok(());
        }
        self.write_collected()?;
        if self.lost == self.lost_in_headers {
            return Ok(());
        }
        // These calls must succeed before the writer counts the segment as written.
        self.queue.wait_for_slot()?;
        self.queue.reserve_for(0)?;
        self.has_header_overflow = true;
        self.append_properties()?;
        self.has_header_overflow = false;
        self.note_end();
        Ok(())
    }

    /// Returns the number of rows missing after the rows in the file: accepted rows that the file
    /// does not contain, and lost rows that it does not record.
    pub(crate) fn rows_missing(&self) -> u64 {
        self.rows - self.rows_in_file + self.lost - self.lost_in_file
    }
}
