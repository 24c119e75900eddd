//! Holds in memory the rows that are in the log but not in Parquet files yet.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use trunkline_types::Timestamp;
use trunkline_types::history::Rows;

use crate::catalogue::SpoolLog;

/// Number of rows and events at which a segment is closed.
pub(crate) const SEGMENT_ROWS: usize = 4 << 20;
/// Bytes in memory at which a segment is closed.
pub(crate) const SEGMENT_BYTES: usize = 96 << 20;
/// Age at which a segment is closed, in nanoseconds.
pub(crate) const SEGMENT_AGE: i64 = 3_600_000_000_000;
/// Maximum number of closed segments with a log in the history's folder. At this number, nothing more is
/// recorded in that folder until maintenance has moved a segment to files. This is also the number of
/// closed segments in memory above which the rows of segments in the spool are unloaded.
pub(crate) const CLOSED_MAX: usize = 3;

/// Number of rows and events at which a chunk is full. Per series and segment, a query copies at most one
/// chunk.
pub(crate) const CHUNK_ROWS: usize = 8 << 10;
/// Bytes in memory at which a chunk is full.
const CHUNK_BYTES: usize = 1 << 20;

/// The rows of a series in a segment.
#[derive(Debug)]
pub(crate) struct SeriesRows {
    /// Full chunks, which no longer change, each in key order.
    full: Vec<Arc<Rows>>,
    /// The chunk that is being filled.
    newest: Rows,
}

/// A segment: the rows of one log.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) number: u64,
    /// The log of the segment if that is in the spool; `None` if it is in the history's folder.
    pub(crate) spool_log: Option<SpoolLog>,
    /// False if the rows were dropped from memory and are only in the log.
    pub(crate) is_loaded: bool,
    /// The loaded rows, by id of the series.
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

    /// Returns a copy of the segment without rows. The log must be in the spool.
    fn unloaded(&self) -> Self {
        Self {
            is_loaded: false,
            count: self.count,
            spool_log: self.spool_log.clone(),
            ..Self::new(self.number)
        }
    }

    /// Adds committed rows, recorded after the rows of the series that the segment already has. `time` is the
    /// time of the commit.
    pub(crate) fn add(&mut self, series: u32, rows: &Rows, time: Timestamp) {
        self.first_commit.get_or_insert(time);
        self.count += rows.len() + rows.events().len();
        self.bytes += rows.memory();
        let first_row = rows.times().iter().copied().min();
        let mark_times = rows.events().iter().map(|mark| mark.key.time);
        let times = self.first_time.into_iter().chain(first_row);
        self.first_time = times.chain(mark_times).min();
        let known = self.rows.entry(series).or_insert_with(|| SeriesRows {
            full: Vec::new(),
            newest: Rows::new(rows.word_bytes()),
        });
        known.add(rows);
    }

    pub(crate) fn is_full(&self, now: Timestamp) -> bool {
        let age = self.first_commit.map_or(0, |first| now.nanos_since(first));
        // Rows in the spool cannot be moved to files yet, so their age does not matter.
        let is_old = age >= SEGMENT_AGE && self.spool_log.is_none();
        self.count >= SEGMENT_ROWS || self.bytes >= SEGMENT_BYTES || is_old
    }
}

impl SeriesRows {
    fn add(&mut self, rows: &Rows) {
        let mut at = 0;
        while at < rows.len() {
            let free = CHUNK_ROWS.saturating_sub(self.newest.len()).max(1);
            let end = rows.len().min(at + free);
            // Rows of variable length may fill a chunk early, so check the size after every 64 rows.
            let end = match rows.word_bytes() {
                Some(_) => end,
                None => end.min(at + 64),
            };
            self.newest.append(rows, at..end);
            at = end;
            self.close_if_full();
        }
        for mark in rows.events() {
            self.newest.push_event(*mark);
        }
        self.close_if_full();
    }

    fn close_if_full(&mut self) {
        let count = self.newest.len() + self.newest.events().len();
        if count >= CHUNK_ROWS || self.newest.memory() >= CHUNK_BYTES {
            let empty = Rows::new(self.newest.word_bytes());
            let full = std::mem::replace(&mut self.newest, empty);
            self.full.push(Arc::new(full.sorted()));
        }
    }

    /// Appends the chunks to `all`, each in key order. Only the newest chunk is copied.
    pub(crate) fn chunks(&self, all: &mut Vec<Arc<Rows>>) {
        all.extend(self.full.iter().cloned());
        if !self.newest.is_empty() {
            all.push(Arc::new(self.newest.clone().sorted()));
        }
    }

    /// Iterates over the chunks. The newest one, which comes last, may not be in key order.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = &Rows> {
        self.full.iter().map(Arc::as_ref).chain([&self.newest])
    }

    /// Returns the number of rows and events.
    pub(crate) fn count(&self) -> usize {
        let pieces = self.pieces();
        pieces.map(|rows| rows.len() + rows.events().len()).sum()
    }

    /// Returns the earliest and the latest time of the rows and events; `None` if there are none.
    pub(crate) fn times(&self) -> Option<(i64, i64)> {
        let times = self.pieces().flat_map(|rows| {
            let mark_times = rows.events().iter().map(|mark| mark.key.time);
            rows.times().iter().copied().chain(mark_times)
        });
        times.fold(None, |found, time| {
            let (first, last) = found.unwrap_or((time, time));
            Some((first.min(time), last.max(time)))
        })
    }

    /// Returns all rows and events, in key order.
    pub(crate) fn sorted(&self) -> Cow<'_, Rows> {
        let newest = &self.newest;
        let is_sorted = newest.is_sorted() && newest.events().is_sorted_by_key(|mark| mark.key);
        if self.full.is_empty() && is_sorted {
            return Cow::Borrowed(newest);
        }
        let mut all = Rows::new(newest.word_bytes());
        for chunk in self.pieces() {
            all.append(chunk, 0..chunk.len());
            for mark in chunk.events() {
                all.push_event(*mark);
            }
        }
        Cow::Owned(all.sorted())
    }
}

/// The segments whose rows are not in files yet.
#[derive(Debug)]
pub(crate) struct Tail {
    /// The segment to which the recorder commits.
    pub(crate) open: Segment,
    /// Closed segments that maintenance will move to files, oldest first.
    pub(crate) closed: Vec<Arc<Segment>>,
}

impl Tail {
    /// Closes the open segment and replaces it with `open`.
    pub(crate) fn replace_open(&mut self, open: Segment) {
        let full = std::mem::replace(&mut self.open, open);
        self.closed.push(Arc::new(full));
        self.unload_excess();
    }

    /// Inserts a closed segment at the position of its number.
    pub(crate) fn insert(&mut self, segment: Segment) {
        let index = self
            .closed
            .partition_point(|one| one.number < segment.number);
        self.closed.insert(index, Arc::new(segment));
        self.unload_excess();
    }

    /// Returns the number of closed segments whose logs are in the history's folder.
    pub(crate) fn closed_in_folder(&self) -> usize {
        let closed = self.closed.iter();
        closed.filter(|segment| segment.spool_log.is_none()).count()
    }

    /// Returns the number of closed segments whose rows are in memory.
    fn loaded(&self) -> usize {
        let closed = self.closed.iter();
        closed.filter(|segment| segment.is_loaded).count()
    }

    /// While too many closed segments are loaded, drops the rows of the oldest segment whose log is in the
    /// spool.
    fn unload_excess(&mut self) {
        while self.loaded() > CLOSED_MAX {
            let mut closed = self.closed.iter_mut();
            match closed.find(|one| one.is_loaded && one.spool_log.is_some()) {
                Some(oldest) => *oldest = Arc::new(oldest.unloaded()),
                None => return,
            }
        }
    }

    pub(crate) fn segments(&self) -> impl Iterator<Item = &Segment> {
        self.closed.iter().map(Arc::as_ref).chain([&self.open])
    }

    /// Returns the number of rows and events of all segments.
    pub(crate) fn rows(&self) -> usize {
        self.segments().map(|segment| segment.count).sum()
    }

    /// Returns the number of rows and events of segments whose log is in the spool.
    pub(crate) fn spooled_rows(&self) -> usize {
        let spooled = self.segments().filter(|one| one.spool_log.is_some());
        spooled.map(|segment| segment.count).sum()
    }

    /// Returns the number of rows and events that are in the spool but not in memory.
    pub(crate) fn unloaded_rows(&self) -> usize {
        let unloaded = self.segments().filter(|one| !one.is_loaded);
        unloaded.map(|segment| segment.count).sum()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails at an unexpected result")]
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
