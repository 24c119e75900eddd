//! Reads the times of rows from a channel of times.

use std::collections::VecDeque;
use std::fs::File;
use std::path::PathBuf;

use trunkline_tdms::{ObjectPath, TdmsFile, TdmsTime};

use super::error::PlaybackError;
use super::pace::GapMode;
use super::recording::{Recording, find, open};

const READ_ROWS: usize = 4096;

/// Reads a channel of times alongside the rows.
#[derive(Debug)]
pub(super) struct RecordedTimes {
    channel: ObjectPath,
    /// Path and number of rows of each file that is not opened yet.
    files: VecDeque<(PathBuf, u64)>,
    open: Option<(PathBuf, TdmsFile<File>, u64)>,
    /// Number of rows of the open file whose times were read.
    read: u64,
    /// Rows before which the duration of the gap is left out.
    skipped: VecDeque<u64>,
    /// The row at the front of `offsets`.
    row: u64,
    /// The times of the next rows, in nanoseconds after the first row.
    offsets: VecDeque<i64>,
    last: Option<(TdmsTime, i64)>,
}

impl RecordedTimes {
    pub(super) fn new(recording: &Recording, channel: &ObjectPath, gap_mode: GapMode) -> Self {
        let files = recording.files.iter();
        Self {
            channel: channel.clone(),
            files: files.map(|file| (file.path.clone(), file.rows)).collect(),
            open: None,
            read: 0,
            skipped: match gap_mode {
                GapMode::AsTime => VecDeque::new(),
                GapMode::Skipped => recording.gaps().iter().map(|gap| gap.row).collect(),
            },
            row: 0,
            offsets: VecDeque::new(),
            last: None,
        }
    }

    /// Returns how long after the first row this row was acquired, in nanoseconds. Rows must be
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
                self.read = 0;
                continue;
            };
            let remaining = usize::try_from(rows - self.read).unwrap_or(usize::MAX);
            let wanted = times
                .get_mut(..remaining.min(READ_ROWS))
                .unwrap_or_default();
            let channel = find(file, path, &self.channel)?;
            let count = channel.read_into(self.read, wanted);
            let count = count.map_err(|source| PlaybackError::read(path.clone(), source))?;
            if count == 0 {
                self.open = None;
                continue;
            }
            self.read += count as u64;
            for (time, row) in times.iter().take(count).zip(self.row..) {
                while self.skipped.front().is_some_and(|gap| *gap < row) {
                    self.skipped.pop_front();
                }
                let is_skipped = self.skipped.front() == Some(&row);
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

/// Returns the nanoseconds between two times; 0 if the clock was set back.
fn nanoseconds_between(last: TdmsTime, next: TdmsTime) -> i64 {
    let step = next.unix_nanos() - last.unix_nanos();
    i64::try_from(step.max(0)).unwrap_or(i64::MAX)
}
