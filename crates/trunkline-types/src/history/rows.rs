//! Stores consecutive rows of one variable in columns. A history has this form in memory, in its log
//! and on the wire.

use std::ops::Range;

use crate::{Quality, Timestamp};

/// Late samples, which never were the value of their variable, have sequences above this number.
/// Within an epoch, the late samples of all variables are numbered together, starting with
/// `LATE_SEQUENCES + 1` (B-41). Sequences of updates never reach this number. An `f64` can represent
/// the sequences of updates and of late samples exactly.
pub const LATE_SEQUENCES: u64 = 1 << 52;

/// Returns true if the sequence is that of a late sample.
pub fn is_late_sequence(sequence: u64) -> bool {
    // Sequences from `2 * LATE_SEQUENCES` on belong to events.
    sequence > LATE_SEQUENCES && sequence < 2 * LATE_SEQUENCES
}

/// A run-length encoded column. Each step consists of a value and the index of the first row with
/// this value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Steps<T>(Vec<(u32, T)>);

impl<T> Default for Steps<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Copy + PartialEq> Steps<T> {
    /// Builds a column from the first row and the value of each step. Returns `None` unless the rows
    /// are in ascending order and begin at 0.
    pub fn from_parts(steps: Vec<(u32, T)>) -> Option<Self> {
        let starts_at_zero = steps.first().is_none_or(|(row, _)| *row == 0);
        let ascends = steps.is_sorted_by(|a, b| a.0 < b.0);
        (starts_at_zero && ascends).then_some(Self(steps))
    }

    pub fn parts(&self) -> &[(u32, T)] {
        &self.0
    }

    /// Returns the first row and the value of the step that contains `row`.
    #[inline]
    pub fn at(&self, row: usize) -> Option<(usize, T)> {
        let step = self.step_of(row)?;
        self.0
            .get(step)
            .map(|(first, value)| (*first as usize, *value))
    }

    fn step_of(&self, row: usize) -> Option<usize> {
        // Most reads are of rows in the last step, so it is checked first.
        match self.0.last() {
            Some((first, _)) if *first as usize <= row => self.0.len().checked_sub(1),
            _ => self
                .0
                .partition_point(|(first, _)| *first as usize <= row)
                .checked_sub(1),
        }
    }

    /// Calls `visit` for each step that overlaps a range of rows. Passes the value of the step, the
    /// number of its rows before the range, and the number of its rows in the range.
    pub fn visit(&self, rows: Range<usize>, mut visit: impl FnMut(T, usize, usize)) {
        let Some(step) = self.step_of(rows.start).filter(|_| !rows.is_empty()) else {
            return;
        };
        let mut steps = self.0.iter().skip(step).peekable();
        while let Some((first, value)) = steps.next() {
            let first = *first as usize;
            if first >= rows.end {
                return;
            }
            let end = steps
                .peek()
                .map_or(rows.end, |(next, _)| rows.end.min(*next as usize));
            let start = first.max(rows.start);
            visit(*value, start - first, end.saturating_sub(start));
        }
    }

    #[inline]
    fn push(&mut self, row: usize, value: T) {
        self.0.push((row as u32, value));
    }

    #[inline]
    fn last(&self) -> Option<(usize, T)> {
        self.0
            .last()
            .map(|(first, value)| (*first as usize, *value))
    }
}

/// The key by which the rows of a variable are sorted: by time, then by epoch, then by sequence.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct RowKey {
    /// Source timestamp, in nanoseconds since 1970-01-01 UTC.
    pub time: i64,
    pub epoch: u64,
    pub sequence: u64,
}

impl RowKey {
    /// Returns true if the row is a late sample, which never was the value of its variable.
    pub fn is_late(&self) -> bool {
        is_late_sequence(self.sequence)
    }
}

/// An update of a variable, or a late sample.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Row<'a> {
    pub key: RowKey,
    /// Time from the source timestamp to the engine timestamp, in nanoseconds.
    pub delay: i64,
    pub quality: Quality,
    /// The value in wire form; empty for an array or a waveform whose value was not recorded.
    pub value: &'a [u8],
}

/// Columns of updates, all of the same length. Signed integers contain the bits of unsigned numbers.
#[derive(Clone, Copy, Debug)]
pub struct RowColumns<'a> {
    /// Source timestamps, in nanoseconds since 1970-01-01 UTC.
    pub times: &'a [i64],
    /// Delays as in [`Row::delay`]; empty if all are 0.
    pub delays: &'a [i64],
    pub epochs: &'a [i64],
    pub sequences: &'a [i64],
    pub qualities: &'a [i32],
}

/// An event of a recording, other than an update (B-64).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HistoryEvent {
    /// The engine started.
    Started,
    /// The engine shut down cleanly.
    Stopped,
    /// The engine ended without a clean shutdown. The event has the time of the last commit before
    /// the interruption.
    Interrupted,
    /// Updates could not be recorded and are missing; contains their number, if known.
    Lost(Option<u64>),
    /// The variable was undeployed.
    Retired,
    /// The variable was deployed for the first time, or again after it was undeployed.
    Added,
    /// An event defined by a newer version; contains its number.
    Other(u8),
}

impl HistoryEvent {
    /// Returns the number of the event in files and frames, and the associated count.
    pub fn parts(self) -> (u8, u64) {
        match self {
            Self::Started => (1, 0),
            Self::Stopped => (2, 0),
            Self::Interrupted => (3, 0),
            Self::Lost(count) => (4, count.unwrap_or(0)),
            Self::Retired => (5, 0),
            Self::Added => (6, 0),
            Self::Other(number) => (number, 0),
        }
    }

    pub fn from_parts(number: u8, count: u64) -> Self {
        match number {
            1 => Self::Started,
            2 => Self::Stopped,
            3 => Self::Interrupted,
            4 => Self::Lost((count > 0).then_some(count)),
            5 => Self::Retired,
            6 => Self::Added,
            number => Self::Other(number),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Stopped => "stopped",
            Self::Interrupted => "interrupted",
            Self::Lost(_) => "lost",
            Self::Retired => "retired",
            Self::Added => "added",
            Self::Other(_) => "other",
        }
    }
}

/// An event in the rows of a variable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HistoryEventRow {
    pub key: RowKey,
    pub event: HistoryEvent,
}

/// Updates and events of one variable, in the order in which they were recorded or, where stated,
/// in the order of their [`RowKey`]s.
///
/// The fields that [`Rows::push`] always uses come first and share as few cache lines as possible,
/// because a recorder appends to the rows of thousands of variables in turn.
#[derive(Clone, PartialEq, Debug, Default)]
#[repr(C)]
pub struct Rows {
    times: Vec<i64>,
    /// Values of at most 8 bytes as words, padded with zeros; empty if the values are in `bytes`.
    words: Vec<u64>,
    /// A row with these numbers needs no new step in any column.
    expected: Expected,
    /// Length of each value in `words`, 1 to 8 bytes; 0 if the values are in `bytes`.
    word_bytes: u8,
    /// Delays as in [`Row::delay`]; empty if all are 0.
    delays: Vec<i64>,
    epochs: Steps<u64>,
    /// The sequence of the first row of each step; the sequences of the following rows are
    /// consecutive.
    sequences: Steps<u64>,
    qualities: Steps<u32>,
    /// Offset of the end of each value in `bytes`.
    ends: Vec<u32>,
    bytes: Vec<u8>,
    events: Vec<HistoryEventRow>,
}

/// The numbers of a next row that continues the last step of each column; zeros if there are no rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Expected {
    epoch: u64,
    sequence: u64,
    quality: u32,
}

impl Rows {
    /// Creates an empty table. If `fixed_bytes` is 1 to 8, all values must have this length in bytes;
    /// otherwise, values may have any length.
    pub fn new(fixed_bytes: Option<usize>) -> Self {
        Self {
            word_bytes: fixed_bytes
                .filter(|bytes| (1..=8).contains(bytes))
                .map_or(0, |bytes| bytes as u8),
            ..Self::default()
        }
    }

    /// Returns the number of updates.
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// Returns true if there is no update and no event.
    pub fn is_empty(&self) -> bool {
        self.times.is_empty() && self.events.is_empty()
    }

    /// Removes all rows and events, but does not release the memory.
    pub fn clear(&mut self) {
        self.times.clear();
        self.delays.clear();
        self.epochs.0.clear();
        self.sequences.0.clear();
        self.qualities.0.clear();
        self.expected = Expected::default();
        self.words.clear();
        self.ends.clear();
        self.bytes.clear();
        self.events.clear();
    }

    /// Returns the approximate number of bytes that the rows take in memory.
    pub fn memory(&self) -> usize {
        let rows = self.times.len() * 8 + self.delays.len() * 8 + self.words.len() * 8;
        let steps = self.epochs.0.len() + self.sequences.0.len() + self.qualities.0.len();
        rows + steps * 16 + self.ends.len() * 4 + self.bytes.len() + self.events.len() * 48
    }

    /// Returns the total number of bytes of values of variable length.
    pub fn value_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the length of each value, if all values have the same length of at most 8 bytes.
    pub fn word_bytes(&self) -> Option<usize> {
        (self.word_bytes > 0).then_some(usize::from(self.word_bytes))
    }

    pub fn times(&self) -> &[i64] {
        &self.times
    }

    /// Returns the delays of the rows as in [`Row::delay`]; empty if all are 0.
    pub fn delays(&self) -> &[i64] {
        &self.delays
    }

    pub fn epochs(&self) -> &Steps<u64> {
        &self.epochs
    }

    /// Returns the sequence of the first row of each step; the sequences of the following rows are
    /// consecutive.
    pub fn sequences(&self) -> &Steps<u64> {
        &self.sequences
    }

    pub fn qualities(&self) -> &Steps<u32> {
        &self.qualities
    }

    /// Returns the values as words, if all have the same length of at most 8 bytes; otherwise
    /// empty.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    pub fn events(&self) -> &[HistoryEventRow] {
        &self.events
    }

    pub fn push_event(&mut self, event: HistoryEventRow) {
        self.events.push(event);
    }

    /// Removes and returns all events.
    pub fn take_events(&mut self) -> Vec<HistoryEventRow> {
        std::mem::take(&mut self.events)
    }

    /// Appends an update. The value must have the length given to [`Rows::new`], if any; with a fixed
    /// length, a value of more than 8 bytes is stored as zero.
    #[inline]
    pub fn push(&mut self, row: &Row<'_>) {
        let new_row = self.times.len();
        self.times.push(row.key.time);
        if row.delay != 0 || !self.delays.is_empty() {
            self.delays.resize(new_row, 0);
            self.delays.push(row.delay);
        }
        let (key, quality) = (row.key, row.quality.to_bits());
        let expected = self.expected;
        let is_first = new_row == 0;
        if is_first || key.epoch != expected.epoch {
            self.epochs.push(new_row, key.epoch);
        }
        if is_first || key.sequence != expected.sequence {
            self.sequences.push(new_row, key.sequence);
        }
        if is_first || quality != expected.quality {
            self.qualities.push(new_row, quality);
        }
        self.expected = Expected {
            epoch: key.epoch,
            sequence: key.sequence.wrapping_add(1),
            quality,
        };
        match self.word_bytes {
            0 => {
                self.bytes.extend_from_slice(row.value);
                self.ends.push(self.bytes.len() as u32);
            }
            8 if let Ok(word) = <[u8; 8]>::try_from(row.value) => {
                self.words.push(u64::from_le_bytes(word));
            }
            _ => {
                let mut word = [0; 8];
                if let Some(prefix) = word.get_mut(..row.value.len()) {
                    prefix.copy_from_slice(row.value);
                }
                self.words.push(u64::from_le_bytes(word));
            }
        }
    }

    /// Appends updates whose values have the length given to [`Rows::new`], at most 8 bytes.
    pub fn extend_words(&mut self, columns: &RowColumns<'_>, words: impl Iterator<Item = u64>) {
        self.extend_keys(columns);
        self.words.extend(words);
        self.words.resize(self.times.len(), 0);
    }

    /// Appends updates with values of any length. Calls `put` with the index of each row and the
    /// buffer to which `put` must append the value of the row.
    pub fn extend_bytes(
        &mut self,
        columns: &RowColumns<'_>,
        mut put: impl FnMut(usize, &mut Vec<u8>),
    ) {
        self.extend_keys(columns);
        for row in 0..columns.times.len() {
            put(row, &mut self.bytes);
            self.ends.push(self.bytes.len() as u32);
        }
    }

    fn extend_keys(&mut self, columns: &RowColumns<'_>) {
        let first_row = self.times.len();
        self.times.extend_from_slice(columns.times);
        let end = self.times.len();
        if !self.delays.is_empty() || columns.delays.iter().any(|delay| *delay != 0) {
            self.delays.resize(first_row, 0);
            self.delays.extend_from_slice(columns.delays);
            self.delays.resize(end, 0);
        }
        let mut epoch = self.epochs.last().map(|(_, epoch)| epoch);
        for (row, next) in columns.epochs.iter().enumerate() {
            if epoch != Some(*next as u64) {
                epoch = Some(*next as u64);
                self.epochs.push(first_row + row, *next as u64);
            }
        }
        let last = self.sequences.last();
        let mut expected =
            last.map(|(first, sequence)| sequence.wrapping_add((first_row - first) as u64));
        for (row, next) in columns.sequences.iter().enumerate() {
            let next = *next as u64;
            if expected != Some(next) {
                self.sequences.push(first_row + row, next);
            }
            expected = Some(next.wrapping_add(1));
        }
        let mut quality = self.qualities.last().map(|(_, quality)| quality);
        for (row, next) in columns.qualities.iter().enumerate() {
            if quality != Some(*next as u32) {
                quality = Some(*next as u32);
                self.qualities.push(first_row + row, *next as u32);
            }
        }
        self.expected = self.expected_from_steps();
    }

    fn expected_from_steps(&self) -> Expected {
        let len = self.len();
        let value = |(_, value)| value;
        let next = |(first, sequence): (usize, u64)| sequence.wrapping_add((len - first) as u64);
        Expected {
            epoch: self.epochs.last().map_or(0, value),
            sequence: self.sequences.last().map_or(0, next),
            quality: self.qualities.last().map_or(0, |(_, quality)| quality),
        }
    }

    pub fn key(&self, row: usize) -> Option<RowKey> {
        let time = *self.times.get(row)?;
        let (_, epoch) = self.epochs.at(row)?;
        let (first, sequence) = self.sequences.at(row)?;
        Some(RowKey {
            time,
            epoch,
            sequence: sequence.wrapping_add((row - first) as u64),
        })
    }

    pub fn quality(&self, row: usize) -> Quality {
        let quality = self.qualities.at(row).map_or(0, |(_, quality)| quality);
        Quality::from_bits(quality)
    }

    /// Calls `with` with a row. Returns `None` if there is no such row.
    pub fn with_row<T>(&self, row: usize, with: impl FnOnce(&Row<'_>) -> T) -> Option<T> {
        let key = self.key(row)?;
        let delay = self.delays.get(row).copied().unwrap_or(0);
        let quality = self.quality(row);
        let word;
        let value = match self.word_bytes {
            0 => {
                let start = match row.checked_sub(1) {
                    Some(previous) => *self.ends.get(previous)?,
                    None => 0,
                };
                self.bytes
                    .get(start as usize..*self.ends.get(row)? as usize)?
            }
            bytes => {
                word = self.words.get(row)?.to_le_bytes();
                word.get(..usize::from(bytes))?
            }
        };
        Some(with(&Row {
            key,
            delay,
            quality,
            value,
        }))
    }

    /// Calls `visit` with each row of a range.
    pub fn visit(&self, rows: Range<usize>, mut visit: impl FnMut(&Row<'_>)) {
        for row in rows.start..rows.end.min(self.len()) {
            self.with_row(row, &mut visit);
        }
    }

    /// Appends a range of rows of `other`, without its events.
    pub fn append(&mut self, other: &Rows, rows: Range<usize>) {
        let rows = rows.start..rows.end.min(other.len());
        if self.word_bytes != other.word_bytes || self.word_bytes == 0 {
            return other.visit(rows, |row| self.push(row));
        }
        let first_row = self.times.len();
        let (Some(times), Some(words)) =
            (other.times.get(rows.clone()), other.words.get(rows.clone()))
        else {
            return;
        };
        self.times.extend_from_slice(times);
        self.words.extend_from_slice(words);
        if !self.delays.is_empty() || !other.delays.is_empty() {
            self.delays.resize(first_row, 0);
            self.delays
                .extend_from_slice(other.delays.get(rows.clone()).unwrap_or_default());
            self.delays.resize(self.times.len(), 0);
        }
        extend(
            &mut self.epochs,
            first_row,
            &other.epochs,
            &rows,
            |epoch, _| epoch,
        );
        extend(
            &mut self.sequences,
            first_row,
            &other.sequences,
            &rows,
            |first, skipped| first.wrapping_add(skipped as u64),
        );
        extend(
            &mut self.qualities,
            first_row,
            &other.qualities,
            &rows,
            |quality, _| quality,
        );
        self.expected = self.expected_from_steps();
    }

    /// Returns true if the rows are sorted by their keys; equal keys are allowed.
    pub fn is_sorted(&self) -> bool {
        // Sequences increase within a step of `sequences`, so only the first rows of steps are compared.
        self.times.is_sorted() && {
            let keys = |(row, epoch): &(u32, u64)| (self.times.get(*row as usize).copied(), *epoch);
            self.epochs.0.is_sorted_by_key(keys) && self.sequences_ascend()
        }
    }

    fn sequences_ascend(&self) -> bool {
        let starts = self.sequences.0.iter().map(|(row, _)| *row as usize);
        starts
            .filter(|row| *row > 0)
            .all(|row| self.key(row - 1) <= self.key(row))
    }

    /// Returns the rows and the events, each sorted by their keys.
    #[must_use]
    pub fn sorted(mut self) -> Self {
        self.events.sort_by_key(|mark| mark.key);
        if self.is_sorted() {
            return self;
        }
        let mut order: Vec<usize> = (0..self.len()).collect();
        order.sort_by_key(|row| self.key(*row));
        let mut sorted = Self {
            word_bytes: self.word_bytes,
            events: std::mem::take(&mut self.events),
            ..Self::default()
        };
        for row in order {
            self.with_row(row, |row| sorted.push(row));
        }
        sorted
    }

    /// Returns the index of the first row whose key is at least `key`. The rows must be sorted.
    pub fn seek(&self, key: RowKey) -> usize {
        let mut row = self.times.partition_point(|time| *time < key.time);
        while self.key(row).is_some_and(|found| found < key) {
            row += 1;
        }
        row
    }
}

/// Appends the steps of a range of rows of `from` to `to`, in which they begin at row `first_row`.
/// `value_at` returns the value of the row that follows the first row of a step by a given number of rows.
fn extend<T: Copy + PartialEq>(
    to: &mut Steps<T>,
    first_row: usize,
    from: &Steps<T>,
    rows: &Range<usize>,
    value_at: impl Fn(T, usize) -> T,
) {
    let mut row = first_row;
    from.visit(rows.clone(), |value, skipped, count| {
        let value = value_at(value, skipped);
        let continues = |(first, last): (usize, T)| value_at(last, row - first) == value;
        if !to.last().is_some_and(continues) {
            to.push(row, value);
        }
        row += count;
    });
}

/// The columns of [`Rows`], as decoded from the binary form.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    pub(crate) times: Vec<i64>,
    pub(crate) delays: Vec<i64>,
    pub(crate) epochs: Vec<(u32, u64)>,
    pub(crate) sequences: Vec<(u32, u64)>,
    pub(crate) qualities: Vec<(u32, u32)>,
    pub(crate) words: Vec<u64>,
    pub(crate) word_bytes: u8,
    pub(crate) ends: Vec<u32>,
    pub(crate) bytes: Vec<u8>,
    pub(crate) events: Vec<HistoryEventRow>,
}

impl Rows {
    /// Builds rows from columns. Returns `None` unless the columns are consistent.
    pub(crate) fn from_columns(columns: Columns) -> Option<Self> {
        let count = columns.times.len();
        let in_range = |first: Option<u32>| first.is_none_or(|first| (first as usize) < count);
        let has_steps = |any: bool| any == (count > 0);
        let mut rows = Self {
            expected: Expected::default(),
            epochs: Steps::from_parts(columns.epochs)?,
            sequences: Steps::from_parts(columns.sequences)?,
            qualities: Steps::from_parts(columns.qualities)?,
            times: columns.times,
            delays: columns.delays,
            words: columns.words,
            word_bytes: columns.word_bytes,
            ends: columns.ends,
            bytes: columns.bytes,
            events: columns.events,
        };
        let last = |row: Option<(usize, u64)>| row.map(|(row, _)| row as u32);
        let is_consistent = in_range(last(rows.epochs.last()))
            && in_range(last(rows.sequences.last()))
            && in_range(rows.qualities.last().map(|(row, _)| row as u32))
            && has_steps(!rows.epochs.0.is_empty())
            && has_steps(!rows.sequences.0.is_empty())
            && has_steps(!rows.qualities.0.is_empty());
        if !is_consistent {
            return None;
        }
        rows.expected = rows.expected_from_steps();
        Some(rows)
    }

    pub(crate) fn values(&self) -> (&[u32], &[u8]) {
        (&self.ends, &self.bytes)
    }

    /// Returns the source timestamp of the first row.
    pub fn first_time(&self) -> Option<Timestamp> {
        self.times.first().map(|time| Timestamp::from_nanos(*time))
    }
}
