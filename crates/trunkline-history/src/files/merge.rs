//! Merges the rows of a series from several files in key order, with bounded memory.
//!
//! A file is opened only when the merge reaches its first time. So files that do not overlap are never open
//! at the same time.

use std::sync::Arc;

use trunkline_types::history::{RowKey, Rows};

use crate::catalogue::Series;
use crate::error::Error;
use crate::files::part::{Part, PartStream};
use crate::files::row_order::{first_key, next_key, previous_key};
use crate::files::schema::Projection;

/// Approximate maximum number of bytes of values in memory, over all open files.
pub(crate) const MERGE_BYTES: usize = 32 << 20;

/// A merge of the rows of a series.
pub(crate) struct Merge<'s> {
    series: &'s Series,
    /// Files that are not open yet. The file to open next is the last element.
    waiting: Vec<Source>,
    open: Vec<Source>,
    /// Approximate maximum number of bytes of values in a batch from one file.
    batch_bytes: usize,
}

/// A file with rows of the series.
struct Source {
    part: Arc<Part>,
    stream: Option<PartStream>,
    /// Number of the next row to read.
    next: u64,
    /// Number of the row after the last row of the series.
    end: u64,
    first_time: i64,
    /// The rows and events that were read last.
    rows: Rows,
    /// Number of elements of `rows` that the merge has returned.
    rows_taken: usize,
    /// Number of events in `rows` that the merge has returned.
    marks_taken: usize,
}

impl<'s> Merge<'s> {
    pub(crate) fn new(parts: &[Arc<Part>], series: &'s Series) -> Result<Self, Error> {
        let mut waiting = Vec::new();
        for part in parts {
            if let Some(span) = part.span(series.id)? {
                waiting.push(Source {
                    part: Arc::clone(part),
                    stream: None,
                    next: span.first_row,
                    end: span.first_row + span.rows,
                    first_time: span.first_time,
                    rows: series.rows(),
                    rows_taken: 0,
                    marks_taken: 0,
                });
            }
        }
        waiting.sort_by_key(|source| std::cmp::Reverse(source.first_time));
        Ok(Self {
            series,
            batch_bytes: MERGE_BYTES / waiting.len().max(1),
            waiting,
            open: Vec::new(),
        })
    }

    /// Returns the next rows and events, or `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Rows>, Error> {
        loop {
            for source in &mut self.open {
                if source.is_used_up() {
                    source.read(self.series, self.batch_bytes)?;
                }
            }
            self.open.retain(|source| !source.is_used_up());
            // A row after this limit may have to follow a row that was not read yet.
            let open_limit = self.open.iter().filter(|source| source.has_more());
            let open_limit = open_limit.filter_map(Source::last_key).min();
            let waiting_limit = self.waiting.last();
            let waiting_limit =
                waiting_limit.map(|source| previous_key(first_key(source.first_time)));
            let limit = open_limit.into_iter().chain(waiting_limit).min();
            let mut taken = self.series.rows();
            for source in &mut self.open {
                source.take(limit, &mut taken);
            }
            if !taken.is_empty() {
                return Ok(Some(taken.sorted()));
            }
            match self.waiting.pop() {
                Some(source) => self.open.push(source),
                None => return Ok(None),
            }
        }
    }

    /// Returns the memory that the rows of all open files use, in bytes.
    #[cfg(test)]
    fn memory(&self) -> usize {
        self.open.iter().map(|source| source.rows.memory()).sum()
    }
}

impl Source {
    fn is_used_up(&self) -> bool {
        self.rows_taken >= self.rows.len() && self.marks_taken >= self.rows.events().len()
    }

    fn has_more(&self) -> bool {
        self.next < self.end
    }

    /// Replaces the rows in memory with the next rows of the file, if there are any.
    fn read(&mut self, series: &Series, batch_bytes: usize) -> Result<(), Error> {
        self.rows.clear();
        (self.rows_taken, self.marks_taken) = (0, 0);
        if !self.has_more() {
            return Ok(());
        }
        let stream = match &mut self.stream {
            Some(stream) => stream,
            None => {
                let range = (series, self.next, self.end);
                let stream = self.part.stream(&[range], Projection::Whole, batch_bytes)?;
                self.stream.insert(stream)
            }
        };
        let count_max = (self.end - self.next) as usize;
        self.next += stream.take(series, self.next, count_max, &mut self.rows)?;
        Ok(())
    }

    fn last_key(&self) -> Option<RowKey> {
        let last_row = self.rows.len().checked_sub(1);
        let last_row = last_row.and_then(|last| self.rows.key(last));
        last_row.max(self.rows.events().last().map(|mark| mark.key))
    }

    /// Moves the rows and events up to and including key `limit` to `taken`; all of them if `limit` is
    /// `None`.
    fn take(&mut self, limit: Option<RowKey>, taken: &mut Rows) {
        let (mut rows_end, mut marks_end) = (self.rows.len(), self.rows.events().len());
        if let Some(limit) = limit {
            rows_end = self.rows.seek(next_key(limit)).max(self.rows_taken);
            let marks = self.rows.events();
            marks_end = marks.partition_point(|mark| mark.key <= limit);
        }
        taken.append(&self.rows, self.rows_taken..rows_end);
        let marks = self.rows.events().get(self.marks_taken..marks_end);
        for mark in marks.unwrap_or_default() {
            taken.push_event(*mark);
        }
        self.rows_taken = rows_end;
        self.marks_taken = marks_end.max(self.marks_taken);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails at an unexpected result")]
mod tests {
    use std::path::Path;

    use trunkline_types::history::{HistoryEvent, HistoryEventRow, Row};
    use trunkline_types::{DataType, Quality, wire};

    use super::*;
    use crate::files::part::PartWriter;

    fn key(time: i64) -> RowKey {
        RowKey {
            time,
            epoch: 1,
            sequence: time as u64,
        }
    }

    fn texts() -> Series {
        Series {
            id: 7,
            name: "rig/text".to_owned(),
            data_type: DataType::String,
            units: String::new(),
        }
    }

    /// Creates a file with one text of this length at each of these times, and an event after every 100
    /// texts.
    fn part(folder: &Path, number: u64, times: impl Iterator<Item = i64>, length: usize) -> Part {
        let series = texts();
        let mut rows = series.rows();
        for (count, time) in times.enumerate() {
            let mut value = Vec::new();
            wire::put_varint(&mut value, length as u64);
            value.resize(value.len() + length, b'a' + (time % 26) as u8);
            rows.push(&Row {
                key: key(time),
                delay: 0,
                quality: Quality::GOOD,
                value: &value,
            });
            if count % 100 == 99 {
                rows.push_event(HistoryEventRow {
                    key: key(time),
                    event: HistoryEvent::Lost(Some(1)),
                });
            }
        }
        let path = format!("samples/date=2026-11-28/{number:010}.parquet");
        let mut writer = PartWriter::create(folder, &path).unwrap();
        writer.add_series(&series, &rows).unwrap();
        let row = writer
            .finish(folder, vec![(number, number)], Vec::new())
            .unwrap();
        Part::new(folder, row)
    }

    /// The values compress well, so they need much more space in memory than in the files.
    #[test]
    fn merging_long_values_takes_bounded_memory() {
        const FILES: i64 = 8;
        const ROWS: i64 = 400;
        const LENGTH: usize = 60_000;
        let folder = tempfile::tempdir().unwrap();
        // Each file has every eighth time, so all files overlap.
        let parts = (0..FILES).map(|number| {
            let times = (0..ROWS).map(|row| row * FILES + number);
            Arc::new(part(folder.path(), number as u64, times, LENGTH))
        });
        let parts: Vec<Arc<Part>> = parts.collect();
        let bytes: u64 = parts.iter().map(|part| part.row.bytes).sum();
        assert!(bytes < 16 << 20, "{bytes} bytes in files");
        let series = texts();
        let mut sut = Merge::new(&parts, &series).unwrap();
        let (mut next, mut marks, mut memory_max) = (0, 0, 0);
        while let Some(rows) = sut.next().unwrap() {
            for time in rows.times() {
                assert_eq!(*time, next);
                next += 1;
            }
            marks += rows.events().len();
            memory_max = memory_max.max(sut.memory() + rows.memory());
        }
        assert_eq!((next, marks as i64), (FILES * ROWS, FILES * ROWS / 100));
        let all = (FILES * ROWS) as usize * LENGTH;
        assert!(
            memory_max < 3 * MERGE_BYTES && memory_max < all / 2,
            "{memory_max} bytes"
        );
    }

    /// The time spans of the files do not overlap.
    #[test]
    fn merging_files_that_do_not_overlap_opens_one_file_at_a_time() {
        const ROWS: i64 = 20_000;
        let folder = tempfile::tempdir().unwrap();
        let parts = (0..4).map(|number| {
            let times = number * ROWS..(number + 1) * ROWS;
            Arc::new(part(folder.path(), number as u64, times, 3))
        });
        let parts: Vec<Arc<Part>> = parts.collect();
        let series = texts();
        let mut sut = Merge::new(&parts, &series).unwrap();
        let mut times: Vec<i64> = Vec::new();
        while let Some(rows) = sut.next().unwrap() {
            assert!(sut.open.len() <= 1, "{} files are open", sut.open.len());
            times.extend(rows.times());
        }
        assert_eq!(times, (0..4 * ROWS).collect::<Vec<_>>());
    }

    #[test]
    fn rows_with_the_same_key_are_all_kept() {
        let folder = tempfile::tempdir().unwrap();
        let parts = (0..3).map(|number| {
            let times = std::iter::repeat_n(5, 300).chain(number * 1000..number * 1000 + 700);
            let mut times: Vec<i64> = times.collect();
            times.sort_unstable();
            Arc::new(part(folder.path(), number as u64, times.into_iter(), 10))
        });
        let parts: Vec<Arc<Part>> = parts.collect();
        let series = texts();
        let mut sut = Merge::new(&parts, &series).unwrap();
        let mut times: Vec<i64> = Vec::new();
        while let Some(rows) = sut.next().unwrap() {
            assert!(rows.is_sorted());
            times.extend(rows.times());
        }
        assert!(times.is_sorted());
        assert_eq!(times.iter().filter(|time| **time == 5).count(), 901);
        assert_eq!(times.len(), 3000);
    }
}
