//! Reads the times of rows from a channel that contains times.

use std::collections::VecDeque;
use std::fs::File;
use std::path::PathBuf;

use trunkline_tdms::{ObjectPath, TdmsFile, TdmsTime};

use super::error::PlaybackError;
use super::pace::GapMode;
use super::recording::{Recording, find, open};

/// Maximum number of times read at once.
const READ_ROWS: usize = 4096;

/// Reads the time of each row, in the order of the rows.
#[derive(Debug)]
pub(super) struct RecordedTimes {
    channel: ObjectPath,
    /// Path and number of rows of each file that has not been opened yet.
    files: VecDeque<(PathBuf, u64)>,
    /// Path, content and number of rows of the open file.
    open: Option<(PathBuf, TdmsFile<File>, u64)>,
    /// Number of rows of the open file whose times were read.
    rows_read: u64,
    /// Rows that follow a gap whose duration is ignored.
    ignored_gaps: VecDeque<u64>,
    /// Number of the row to which the front of `offsets` belongs.
    row: u64,
    /// Times of the next rows, in nanoseconds after the first row.
    offsets: VecDeque<i64>,
    /// Time of the last row read, and its offset from the first row in nanoseconds.
    last: Option<(TdmsTime, i64)>,
}

impl RecordedTimes {
    pub(super) fn new(recording: &Recording, channel: &ObjectPath, gap_mode: GapMode) -> Self {
        let files = recording.files.iter();
        Self {
            channel: channel.clone(),
            files: files.map(|file| (file.path.clone(), file.rows)).collect(),
            open: None,
            rows_read: 0,
            ignored_gaps: match gap_mode {
                GapMode::AsTime => VecDeque::new(),
                GapMode::Skipped => recording.gaps().iter().map(|gap| gap.row).collect(),
            },
            row: 0,
            offsets: VecDeque::new(),
            last: None,
        }
    }

    /// Returns the time in nanoseconds between the first row and this row. Rows must be
    /// requested in order.
    pub(super) fn offset_of(&mut self, row: u64) -> Result<f64, PlaybackError> {
        while self.row < row && self.offsets.pop_front().is_some() {
            self.row += 1;
        }
        if self.offsets.is_empty() {
            self.read_more()?;
        }
        let last = self.last.map_or(0, |(_, offset)| offset);
        Ok(self.offsets.front().copied().unwrap_or(last) as f64)
    }

    fn read_more(&mut self) -> Result<(), PlaybackError> {
        let mut times = [TdmsTime::default(); READ_ROWS];
        while self.offsets.is_empty() {
            let Some((path, file, rows)) = &self.open else {
                let Some((path, rows)) = self.files.pop_front() else {
                    return Ok(());
                };
                self.open = Some((path.clone(), open(&path)?, rows));
                self.rows_read = 0;
                continue;
            };
            let remaining = usize::try_from(rows - self.rows_read).unwrap_or(usize::MAX);
            let buffer = times
                .get_mut(..remaining.min(READ_ROWS))
                .unwrap_or_default();
            let channel = find(file, path, &self.channel)?;
            let count = channel.read_into(self.rows_read, buffer);
            let count = count.map_err(|source| PlaybackError::read(path.clone(), source))?;
            if count == 0 {
                self.open = None;
                continue;
            }
            self.rows_read += count as u64;
            for (time, row) in times.iter().take(count).zip(self.row..) {
                while self.ignored_gaps.front().is_some_and(|gap| *gap < row) {
                    self.ignored_gaps.pop_front();
                }
                let is_skipped = self.ignored_gaps.front() == Some(&row);
                let offset = match self.last {
                    None => 0,
                    Some((_, offset)) if is_skipped => offset,
                    Some((last, offset)) => offset.saturating_add(nanoseconds_between(last, *time)),
                };
                self.last = Some((*time, offset));
                self.offsets.push_back(offset);
            }
        }
        Ok(())
    }
}

/// Returns the number of nanoseconds between two times, or 0 if the clock was set back.
fn nanoseconds_between(last: TdmsTime, next: TdmsTime) -> i64 {
    let step = next.unix_nanos() - last.unix_nanos();
    i64::try_from(step.max(0)).unwrap_or(i64::MAX)
}
