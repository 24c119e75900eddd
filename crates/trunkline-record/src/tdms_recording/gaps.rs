//! Rows that are missing: lost by the device, or while the disk was full.

use trunkline_ring::ReadRegion;
use trunkline_tdms::Arrangement;

use super::{RecordError, TdmsRecording};
use crate::backend::Backend;
use crate::error::QueueError;
use crate::queue::FullDisk;

/// What was lost while the disk was full.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct DiskStop {
    /// Rows are being lost now.
    pub is_stopped: bool,
    /// How often it has stopped.
    pub stops: u64,
    /// Rows that were lost, of all stops.
    pub rows_lost: u64,
}

impl<B: Backend> TdmsRecording<B> {
    /// What was lost while the disk was full. Only with [`FullDisk::Lose`].
    pub fn disk_stop(&self) -> DiskStop {
        self.stop
    }

    /// Whether rows are lost because of this error, instead of refused.
    pub(super) fn loses(&self, error: &QueueError) -> bool {
        matches!(error, QueueError::DiskFull { .. })
            && self.queue().options().full_disk == FullDisk::Lose
    }

    /// Loses a region: there is no room for it.
    pub(crate) fn lose(&mut self, region: &ReadRegion) {
        self.stop.stops += u64::from(!self.stop.is_stopped);
        self.stop.is_stopped = true;
        self.stop.rows_lost += region.elements();
        self.stopped_rows += region.elements() + region.lost_before();
    }

    /// Notes what is missing before a region that is taken.
    pub(super) fn note_lost_before(&mut self, region: &ReadRegion) -> Result<(), RecordError> {
        let lost = self.take_stopped() + region.lost_before();
        match lost {
            0 => Ok(()),
            lost => self.note_gap(lost),
        }
    }

    /// Rows that are missing since the disk was full: whoever asks notes them.
    pub(crate) fn take_stopped(&mut self) -> u64 {
        self.stop.is_stopped = false;
        std::mem::take(&mut self.stopped_rows)
    }

    /// Goes on counting stops where another recording has left off.
    pub(crate) fn go_on_with(&mut self, stop: DiskStop) {
        self.stop = stop;
    }

    /// Says in the file that rows are missing before those that come next.
    fn note_gap(&mut self, lost: u64) -> Result<(), RecordError> {
        self.note_gap_at(self.rows, lost)
    }

    /// Says in the file, with its next header, that rows are missing before one of its rows.
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

    /// Writes what was set since the last segment, as one without rows.
    pub(super) fn append_properties(&mut self) -> Result<(), RecordError> {
        self.header.clear();
        self.writer
            .header(&[], Arrangement::Contiguous, &mut self.header)?;
        self.writer.pad(&mut self.header)?;
        self.lost_described = self.lost;
        Ok(self.queue.append_header(&self.header)?)
    }

    /// Writes gaps that were noted and are in no header yet, as far as the file takes anything.
    pub(crate) fn write_gaps(&mut self) -> Result<(), RecordError> {
        let is_possible = !self.is_over && self.progress().failure.is_none();
        if !is_possible || self.lost == self.lost_described {
            return Ok(());
        }
        self.write_collected()?;
        if self.lost == self.lost_described {
            return Ok(());
        }
        // Before the writer takes it for written.
        self.queue.make_room()?;
        self.queue.reserve_for(0)?;
        self.is_over = true;
        self.append_properties()?;
        self.is_over = false;
        self.note_end();
        Ok(())
    }

    /// Rows that are missing behind what is in the file: taken and not in it, and lost before those
    /// without the file saying so.
    pub(crate) fn rows_missing(&self) -> u64 {
        self.rows - self.rows_in_file + self.lost - self.lost_in_file
    }
}
