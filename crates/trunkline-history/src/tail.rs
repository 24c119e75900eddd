//! The rows that are in the log and not in Parquet files yet, in memory.

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

/// The rows of one log.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) number: u64,
    pub(crate) rows: HashMap<u32, Rows>,
    /// Number of rows and events.
    pub(crate) count: usize,
    bytes: usize,
    first_commit: Option<Timestamp>,
}

impl Segment {
    pub(crate) fn new(number: u64) -> Self {
        Self {
            number,
            rows: HashMap::new(),
            count: 0,
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
        let known = self
            .rows
            .entry(series)
            .or_insert_with(|| Rows::new(rows.word_bytes()));
        known.append(rows, 0..rows.len());
        for mark in rows.marks() {
            known.push_mark(*mark);
        }
    }

    pub(crate) fn is_full(&self, now: Timestamp) -> bool {
        let age = self.first_commit.map_or(0, |first| now.nanos_since(first));
        self.count >= SEGMENT_ROWS || self.bytes >= SEGMENT_BYTES || age >= SEGMENT_AGE
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
