//! Tracks the segments that are not yet written, and counts the rows in the file.

use super::TdmsRecording;

/// The end of a segment, and the row counts of the file once the segment is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct SegmentEnd {
    /// Position in the file at which the segment ends.
    position: u64,
    /// Position at which the first region of the segment ends; more regions may follow.
    first_region_end: u64,
    /// Number of rows in the file up to this end.
    rows: u64,
    /// Number of lost rows that the file records up to this end.
    lost: u64,
}

impl TdmsRecording {
    /// Records that a segment was appended.
    pub(super) fn note_end(&mut self) {
        let position = self.queue.position();
        self.pending_ends.push_back(SegmentEnd {
            position,
            first_region_end: position,
            rows: self.rows,
            lost: self.lost_in_headers,
        });
    }

    /// Records that a region was added to the last segment, which is not yet written.
    pub(super) fn note_extension(&mut self) {
        if let Some(last) = self.pending_ends.back_mut() {
            (last.position, last.rows) = (self.queue.position(), self.rows);
        }
    }

    /// Updates the number of rows in the file.
    pub(super) fn count_rows(&mut self) {
        if self.queue.is_removed() {
            (self.rows_in_file, self.lost_in_file) = (0, 0);
            return;
        }
        let written = self.queue.progress().written;
        while let Some(end) = self
            .pending_ends
            .pop_front_if(|end| end.position <= written)
        {
            self.rows_in_file = end.rows;
            self.lost_in_file = end.lost;
        }
        // If a region of a segment fails, the file contains the earlier regions of that segment.
        if let Some(end) = self
            .pending_ends
            .front()
            .filter(|end| end.first_region_end <= written)
        {
            self.rows_in_file = end.rows - (end.position - written) / self.row_bytes;
            self.lost_in_file = end.lost;
        }
    }
}
