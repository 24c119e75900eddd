//! The rows that are in the log but not in Parquet files yet, held in memory.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use trunkline_types::Timestamp;
use trunkline_types::history::Rows;

use crate::catalogue::SpoolLog;

/// Number of rows, and bytes in memory, at which a segment is closed and sealed.
pub(crate) const SEGMENT_ROWS: usize = 4 << 20;
pub(crate) const SEGMENT_BYTES: usize = 96 << 20;
/// Age at which a segment is closed, in nanoseconds.
pub(crate) const SEGMENT_AGE: i64 = 3_600_000_000_000;
/// Maximum number of closed segments that wait to be sealed. At this number, nothing more is recorded
/// in the folder until one is sealed. Segments of the spool do not count, and are not kept in memory
/// beyond this number.
pub(crate) const FROZEN_MAX: usize = 3;

/// Maximum number of rows and events of a chunk, and of its bytes. A query copies at most one chunk of a
/// series in a segment.
pub(crate) const CHUNK_ROWS: usize = 8 << 10;
const CHUNK_BYTES: usize = 1 << 20;

/// The rows of a series in a segment.
#[derive(Debug)]
pub(crate) struct SeriesRows {
    /// Chunks that no longer change, each in key order.
    full: Vec<Arc<Rows>>,
    newest: Rows,
}

/// The rows of one log.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) number: u64,
    /// The segment's log in the spool; `None` if its log is in the folder of the history.
    pub(crate) spool_log: Option<SpoolLog>,
    /// False if the rows are only in the log, to save memory.
    pub(crate) is_loaded: bool,
    pub(crate) rows: HashMap<u32, SeriesRows>,
    /// Number of rows and events, including those that are not loaded.
    pub(crate) count: usize,
    /// The earliest time of the loaded rows and events; `None` if there are none.
    pub(crate) first_time: Option<i64>,
    bytes: usize,
    first_commit: Option<Timestamp>,
}

impl Segment {
    pub(crate) fn new(number: u64) -> Self {
        Self {
            number,
            spool_log: None,
            is_loaded: true,
            rows: HashMap::new(),
            count: 0,
            first_time: None,
            bytes: 0,
            first_commit: None,
        }
    }

    /// Creates a segment whose log is in the spool.
    pub(crate) fn in_spool(number: u64, spool_log: SpoolLog) -> Self {
        Self {
            spool_log: Some(spool_log),
            ..Self::new(number)
        }
    }

    /// Returns the segment without its rows, which must be in the spool.
    fn unloaded(&self) -> Self {
        Self {
            is_loaded: false,
            count: self.count,
            spool_log: self.spool_log.clone(),
            ..Self::new(self.number)
        }
    }

    /// Adds committed rows. They must have been recorded after the rows of the same series that are
    /// already here.
    pub(crate) fn add(&mut self, series: u32, rows: &Rows, time: Timestamp) {
        self.first_commit.get_or_insert(time);
        self.count += rows.len() + rows.marks().len();
        self.bytes += rows.memory();
        let of_rows = rows.times().iter().copied().min();
        let of_marks = rows.marks().iter().map(|mark| mark.key.time);
        let times = self.first_time.into_iter().chain(of_rows);
        self.first_time = times.chain(of_marks).min();
        let known = self.rows.entry(series).or_insert_with(|| SeriesRows {
            full: Vec::new(),
            newest: Rows::new(rows.word_bytes()),
        });
        known.add(rows);
    }

    pub(crate) fn is_full(&self, now: Timestamp) -> bool {
        let age = self.first_commit.map_or(0, |first| now.nanos_since(first));
        // Rows in the spool cannot be moved to files yet, whatever their age.
        let is_old = age >= SEGMENT_AGE && self.spool_log.is_none();
        self.count >= SEGMENT_ROWS || self.bytes >= SEGMENT_BYTES || is_old
    }
}

impl SeriesRows {
    fn add(&mut self, rows: &Rows) {
        let mut at = 0;
        while at < rows.len() {
            let room = CHUNK_ROWS.saturating_sub(self.newest.len()).max(1);
            let end = rows.len().min(at + room);
            // With long values, a chunk is full after fewer rows.
            let end = match rows.word_bytes() {
                Some(_) => end,
                None => end.min(at + 64),
            };
            self.newest.append(rows, at..end);
            at = end;
            self.close_if_full();
        }
        for mark in rows.marks() {
            self.newest.push_mark(*mark);
        }
        self.close_if_full();
    }

    fn close_if_full(&mut self) {
        let count = self.newest.len() + self.newest.marks().len();
        if count >= CHUNK_ROWS || self.newest.memory() >= CHUNK_BYTES {
            let empty = Rows::new(self.newest.word_bytes());
            let full = std::mem::replace(&mut self.newest, empty);
            self.full.push(Arc::new(full.sorted()));
        }
    }

    /// Adds the chunks to `all`, each in key order. Only the newest one is copied.
    pub(crate) fn chunks(&self, all: &mut Vec<Arc<Rows>>) {
        all.extend(self.full.iter().cloned());
        if !self.newest.is_empty() {
            all.push(Arc::new(self.newest.clone().sorted()));
        }
    }

    /// Returns all rows and events, in several pieces.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = &Rows> {
        self.full.iter().map(Arc::as_ref).chain([&self.newest])
    }

    /// Returns the number of rows and events.
    pub(crate) fn count(&self) -> usize {
        let pieces = self.pieces();
        pieces.map(|rows| rows.len() + rows.marks().len()).sum()
    }

    /// Returns the first and the last time of the rows and events.
    pub(crate) fn times(&self) -> Option<(i64, i64)> {
        let times = self.pieces().flat_map(|rows| {
            let of_marks = rows.marks().iter().map(|mark| mark.key.time);
            rows.times().iter().copied().chain(of_marks)
        });
        times.fold(None, |found, time| {
            let (first, last) = found.unwrap_or((time, time));
            Some((first.min(time), last.max(time)))
        })
    }

    /// Returns all rows and events, in key order.
    pub(crate) fn sorted(&self) -> Cow<'_, Rows> {
        let newest = &self.newest;
        let is_sorted = newest.is_sorted() && newest.marks().is_sorted_by_key(|mark| mark.key);
        if self.full.is_empty() && is_sorted {
            return Cow::Borrowed(newest);
        }
        let mut all = Rows::new(newest.word_bytes());
        for chunk in self.pieces() {
            all.append(chunk, 0..chunk.len());
            for mark in chunk.marks() {
                all.push_mark(*mark);
            }
        }
        Cow::Owned(all.sorted())
    }
}

/// The open segment and the closed segments that wait to be sealed, oldest first.
#[derive(Debug)]
pub(crate) struct Tail {
    pub(crate) open: Segment,
    pub(crate) frozen: Vec<Arc<Segment>>,
}

impl Tail {
    /// Closes the open segment and replaces it by `open`.
    pub(crate) fn freeze(&mut self, open: Segment) {
        let full = std::mem::replace(&mut self.open, open);
        self.frozen.push(Arc::new(full));
        self.unload_excess();
    }

    /// Adds a closed segment, ordered by number.
    pub(crate) fn insert(&mut self, segment: Segment) {
        let place = self
            .frozen
            .partition_point(|one| one.number < segment.number);
        self.frozen.insert(place, Arc::new(segment));
        self.unload_excess();
    }

    /// Returns the number of closed segments whose logs are in the folder of the history.
    pub(crate) fn closed_in_folder(&self) -> usize {
        let frozen = self.frozen.iter();
        frozen.filter(|segment| segment.spool_log.is_none()).count()
    }

    /// Returns the number of closed segments whose rows are in memory.
    fn loaded(&self) -> usize {
        let frozen = self.frozen.iter();
        frozen.filter(|segment| segment.is_loaded).count()
    }

    /// Drops from memory the rows of the oldest segments that are in the spool, if too many closed
    /// segments are loaded.
    fn unload_excess(&mut self) {
        while self.loaded() > FROZEN_MAX {
            let mut frozen = self.frozen.iter_mut();
            match frozen.find(|one| one.is_loaded && one.spool_log.is_some()) {
                Some(oldest) => *oldest = Arc::new(oldest.unloaded()),
                None => return,
            }
        }
    }

    pub(crate) fn segments(&self) -> impl Iterator<Item = &Segment> {
        self.frozen.iter().map(Arc::as_ref).chain([&self.open])
    }

    /// Returns the number of rows and events.
    pub(crate) fn rows(&self) -> usize {
        self.segments().map(|segment| segment.count).sum()
    }

    /// Returns the number of rows and events whose log is in the spool.
    pub(crate) fn spooled_rows(&self) -> usize {
        let spooled = self.segments().filter(|one| one.spool_log.is_some());
        spooled.map(|segment| segment.count).sum()
    }

    /// Returns the number of rows and events that are only in the spool, not in memory.
    pub(crate) fn unloaded_rows(&self) -> usize {
        let unloaded = self.segments().filter(|one| !one.is_loaded);
        unloaded.map(|segment| segment.count).sum()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test stops at what it did not expect")]
mod tests {
    use trunkline_types::Quality;
    use trunkline_types::history::{Row, RowKey};

    use super::*;

    /// A query copies one chunk of a large segment, and shares all others.
    #[test]
    fn queries_share_the_full_chunks_of_a_segment() {
        const COUNT: usize = 1_000_000;
        let mut segment = Segment::new(1);
        let mut sequence = 0;
        while sequence < COUNT as u64 {
            let mut rows = Rows::new(Some(8));
            for _ in 0..9_999 {
                sequence += 1;
                rows.push(&Row {
                    // Some rows are late.
                    key: RowKey {
                        time: (sequence ^ 3) as i64,
                        epoch: 1,
                        sequence,
                    },
                    delay: 0,
                    quality: Quality::GOOD,
                    value: &sequence.to_le_bytes(),
                });
            }
            segment.add(7, &rows, Timestamp::from_nanos(0));
        }
        let chunks = || {
            let mut chunks = Vec::new();
            segment.rows.get(&7).unwrap().chunks(&mut chunks);
            chunks
        };
        let (first, second) = (chunks(), chunks());
        let copied = first.iter().zip(&second);
        let copied = copied.filter(|(one, other)| !Arc::ptr_eq(one, other));
        let copied: usize = copied.map(|(one, _)| one.len()).sum();
        assert!(copied <= CHUNK_ROWS, "{copied} rows");
        assert!(
            first
                .iter()
                .all(|chunk| chunk.len() <= CHUNK_ROWS && chunk.is_sorted())
        );
        let total: usize = first.iter().map(|chunk| chunk.len()).sum();
        assert_eq!(total as u64, sequence);
        let all = segment.rows.get(&7).unwrap().sorted();
        assert!(all.is_sorted());
        assert_eq!(all.len() as u64, sequence);
    }
}
