//! The rows that are in the log and not in Parquet files yet, in memory.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use trunkline_types::Timestamp;
use trunkline_types::history::Rows;

/// Rows, and bytes in memory, from which a segment is closed and sealed.
pub(crate) const SEGMENT_ROWS: usize = 4 << 20;
pub(crate) const SEGMENT_BYTES: usize = 96 << 20;
/// Age from which a segment is closed, in nanoseconds.
pub(crate) const SEGMENT_AGE: i64 = 3_600_000_000_000;
/// Segments that may wait to be sealed. With more, nothing is recorded until one is sealed.
pub(crate) const FROZEN_MAX: usize = 3;

/// Rows and events, and bytes in memory, of a chunk. A query copies at most one chunk of a segment.
pub(crate) const CHUNK_ROWS: usize = 8 << 10;
const CHUNK_BYTES: usize = 1 << 20;

/// The rows of a series in a segment.
#[derive(Debug)]
pub(crate) struct SeriesRows {
    /// Chunks that do not change any more, each in the order of its keys.
    full: Vec<Arc<Rows>>,
    newest: Rows,
}

/// The rows of one log.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) number: u64,
    pub(crate) rows: HashMap<u32, SeriesRows>,
    /// Number of rows and events.
    pub(crate) count: usize,
    /// The time of the first of them; `None` if there are none.
    pub(crate) first_time: Option<i64>,
    bytes: usize,
    first_commit: Option<Timestamp>,
}

impl Segment {
    pub(crate) fn new(number: u64) -> Self {
        Self {
            number,
            rows: HashMap::new(),
            count: 0,
            first_time: None,
            bytes: 0,
            first_commit: None,
        }
    }

    /// Adds rows that were committed. They must not be older than those of the same series here, by
    /// the order of recording.
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
        self.count >= SEGMENT_ROWS || self.bytes >= SEGMENT_BYTES || age >= SEGMENT_AGE
    }
}

impl SeriesRows {
    fn add(&mut self, rows: &Rows) {
        let mut at = 0;
        while at < rows.len() {
            let room = CHUNK_ROWS.saturating_sub(self.newest.len()).max(1);
            let end = rows.len().min(at + room);
            // Long values fill a chunk with fewer rows.
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

    /// Adds the chunks to `all`, each in the order of its keys. Only the newest one is copied.
    pub(crate) fn chunks(&self, all: &mut Vec<Arc<Rows>>) {
        all.extend(self.full.iter().cloned());
        if !self.newest.is_empty() {
            all.push(Arc::new(self.newest.clone().sorted()));
        }
    }

    /// All rows and events, in several pieces.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = &Rows> {
        self.full.iter().map(Arc::as_ref).chain([&self.newest])
    }

    /// Number of rows and events.
    pub(crate) fn count(&self) -> usize {
        let pieces = self.pieces();
        pieces.map(|rows| rows.len() + rows.marks().len()).sum()
    }

    /// The first and the last time of the rows and events.
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

    /// All rows and events, in the order of their keys.
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

/// The open segment, and those that wait to be sealed, oldest first.
#[derive(Debug)]
pub(crate) struct Tail {
    pub(crate) open: Segment,
    pub(crate) frozen: Vec<Arc<Segment>>,
}

impl Tail {
    /// Closes the open segment and begins another one.
    pub(crate) fn freeze(&mut self, number: u64) {
        let full = std::mem::replace(&mut self.open, Segment::new(number));
        self.frozen.push(Arc::new(full));
    }

    pub(crate) fn rows(&self) -> usize {
        let frozen = self.frozen.iter().map(|segment| segment.count);
        self.open.count + frozen.sum::<usize>()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test stops at what it did not expect")]
mod tests {
    use trunkline_types::Quality;
    use trunkline_types::history::{Row, RowKey};

    use super::*;

    /// Of a large segment, a query copies one chunk: all others are shared.
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
                    // Some are late.
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
