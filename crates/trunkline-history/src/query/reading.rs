//! Reads the rows of one series in key order from all sources, which are files and chunks in memory.
//!
//! Rows are read in windows. The work for a window is bounded. A window ends at a key up to which all rows
//! were read, so that the next window can begin there, in the same page or in the next one.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use trunkline_types::Position;
use trunkline_types::history::{HistoryEvent, HistoryEventRow, RowKey, Rows};

use super::selection::Selection;
use crate::catalogue::{ENGINE_SERIES, Series};
use crate::error::Error;
use crate::files::part::{self, BATCH_BYTES_MAX, Part, PartStream};
use crate::files::row_order::{first_key, last_key, next_key, previous_key};
use crate::files::schema::Projection;
use crate::log::tail::Segment;

/// Work limit of a page, measured in decoded rows.
pub(crate) const PAGE_WORK: usize = 512 << 10;
/// Work for reading the index of a file.
pub(crate) const INDEX_WORK: usize = 16 << 10;
/// Work for opening a file to read rows.
const OPEN_WORK: usize = 1 << 10;
/// Work for finding a series in an index in memory.
const FIND_WORK: usize = 1;
/// Number of rows that the first attempt to find the last row reads.
const LAST_ROWS: u64 = 512;
/// Number of rows up to which a sequential read of a file also includes the next series.
const PREFETCH_ROWS: u64 = 64 << 10;
/// Work limit for finding the series to include. It is divided among the files of a view.
pub(crate) const PREFETCH_WORK: usize = 64 << 10;

/// The sources of the rows of a series at one moment.
pub(crate) struct View {
    /// All files, sorted by their first time.
    pub(crate) parts: Arc<Vec<Arc<Part>>>,
    /// The chunks of the series in memory, each sorted.
    pub(crate) memory: Vec<Arc<Rows>>,
    /// The chunks in memory with events that concern all variables. They must come from the same moment as
    /// `parts`, because these events move to a file with their segment.
    pub(crate) engine_events: Vec<Arc<Rows>>,
    /// The earliest time of any row or event in memory, of all series, in nanoseconds.
    pub(crate) first_time: Option<i64>,
}

impl View {
    /// Returns the sources of a series within these files and segments.
    pub(crate) fn of<'s>(
        parts: &Arc<Vec<Arc<Part>>>,
        segments: impl Iterator<Item = &'s Segment>,
        series: u32,
    ) -> Self {
        let (mut memory, mut engine_events) = (Vec::new(), Vec::new());
        let mut first_time: Option<i64> = None;
        for segment in segments {
            let chunks = |series: u32, all: &mut Vec<Arc<Rows>>| {
                if let Some(rows) = segment.rows.get(&series) {
                    rows.chunks(all);
                }
            };
            chunks(series, &mut memory);
            chunks(ENGINE_SERIES, &mut engine_events);
            first_time = first_time.into_iter().chain(segment.first_time).min();
        }
        Self {
            parts: Arc::clone(parts),
            memory,
            engine_events,
            first_time,
        }
    }
}

/// An inclusive range of times, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TimeSpan {
    pub(crate) since: i64,
    pub(crate) last: i64,
}

impl TimeSpan {
    pub(crate) fn contains(self, time: i64) -> bool {
        time >= self.since && time <= self.last
    }

    pub(crate) fn overlaps(self, first: i64, last: i64) -> bool {
        last >= self.since && first <= self.last
    }
}

/// State shared by the series of a page.
#[derive(Default)]
pub(crate) struct PageState {
    /// Sentences about files that could not be read.
    pub(crate) damage: RefCell<BTreeSet<String>>,
    /// Sequential reads in progress, by path of the file. A file contains one series after another, so one
    /// sequential read can return several series.
    streams: RefCell<HashMap<PathBuf, PartStream>>,
    /// Parts whose index cannot be read.
    unreadable: RefCell<BTreeSet<PathBuf>>,
    work: Cell<usize>,
}

impl PageState {
    pub(crate) fn spend(&self, work: usize) {
        self.work.set(self.work.get().saturating_add(work));
    }

    pub(crate) fn work(&self) -> usize {
        self.work.get()
    }

    /// Returns true if the work has reached the limit of a page.
    pub(crate) fn is_spent(&self) -> bool {
        self.work.get() >= PAGE_WORK
    }

    fn note_damage(&self, part: &Part, error: &Error) {
        let sentence = format!("{} cannot be read: {}", part.row.path, error.sentence());
        self.damage.borrow_mut().insert(sentence);
    }

    /// Returns the result of reading a part. After an error, records the damage and returns `None`.
    pub(crate) fn or_damage<T>(&self, part: &Part, read: Result<T, Error>) -> Option<T> {
        read.map_err(|error| self.note_damage(part, &error)).ok()
    }

    /// Returns the row range of a series in a part. Returns `None` if the part has no rows of the series or
    /// cannot be read.
    pub(crate) fn find(&self, part: &Part, series: u32) -> Option<part::SeriesSpan> {
        if self.is_unreadable(part) {
            return None;
        }
        self.spend(match part.is_indexed() {
            true => FIND_WORK,
            false => INDEX_WORK,
        });
        let found = self.or_damage(part, part.span(series));
        if found.is_none() {
            self.unreadable.borrow_mut().insert(part.path.clone());
        }
        found.flatten()
    }

    /// Returns the next row of a sequential read of a series. Returns `None` if there is no such read, or if
    /// it has returned rows after key `after`.
    fn row_after(&self, part: &Part, series: u32, after: RowKey) -> Option<u64> {
        let streams = self.streams.borrow();
        let (next, last) = streams.get(&part.path)?.position(series)?;
        (last <= after).then_some(next)
    }

    fn is_unreadable(&self, part: &Part) -> bool {
        let unreadable = self.unreadable.borrow();
        !unreadable.is_empty() && unreadable.contains(&part.path)
    }
}

/// Reads the rows of one series.
pub(crate) struct SeriesReader<'a> {
    pub(crate) page: &'a PageState,
    pub(crate) series: &'a Series,
    pub(crate) view: View,
    /// The columns to read from files.
    pub(crate) projection: Projection,
    /// If set, only updates and events after this position are returned.
    pub(crate) position: Option<Position>,
    /// The selected series, and the number of the series after this one. `None` if reading ahead is of no
    /// use.
    pub(crate) following: Option<(&'a Selection<'a>, usize)>,
}

/// Limits of a window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Maximum number of rows and events.
    pub(crate) rows: usize,
    /// Approximate maximum size in bytes.
    pub(crate) bytes: usize,
    /// False if a window may exceed `rows` by the rows of one read, so that these are not read twice.
    pub(crate) is_exact: bool,
}

/// Consecutive rows and events of a series.
pub(crate) struct Window {
    /// The rows and events, sorted, including the events that concern all variables.
    pub(crate) rows: Rows,
    /// The key up to which all rows were read; `None` if the whole span was read.
    pub(crate) end: Option<RowKey>,
}

/// The result of a search for the last row of a span.
pub(crate) enum Last {
    Found(RowKey, Box<Rows>),
    Nothing,
    /// The search reached the work limit of the page.
    Interrupted(SearchedUntil),
}

/// The state of an interrupted search for the last row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SearchedUntil {
    /// No row within the span is later than this time, where the search continues.
    pub(crate) time: i64,
    /// The latest possible time of damaged rows that were found.
    pub(crate) latest_damage: Option<i64>,
}

impl SeriesReader<'_> {
    /// Returns rows and events after a key and within a span, up to `limits` and the work limit of the page.
    /// Each window except the last returns rows or advances `end`.
    pub(crate) fn window(
        &self,
        after: Option<RowKey>,
        span: TimeSpan,
        limits: Limits,
    ) -> Result<Window, Error> {
        let from = after.map_or(span.since, |after| after.time.max(span.since));
        let indexed_span = TimeSpan {
            since: span.since,
            last: self.indexed_until(from, span.last),
        };
        // The source to open next is the last element.
        let mut waiting = self.sources(after, indexed_span);
        waiting.sort_by_key(|source| std::cmp::Reverse(source.floor));
        let mut active: Vec<Source> = Vec::new();
        let mut out = self.series.rows();
        let mut marks: Vec<HistoryEventRow> = Vec::new();
        let mut end = (indexed_span.last < span.last).then_some(last_key(indexed_span.last));
        loop {
            let mut first: Option<(RowKey, usize)> = None;
            let mut second: Option<RowKey> = None;
            for (index, source) in active.iter().enumerate() {
                let Some(key) = source.next_key_bound() else {
                    continue;
                };
                match first {
                    Some((lowest, _)) if lowest <= key => {
                        second = Some(second.map_or(key, |second| second.min(key)));
                    }
                    _ => {
                        second = first.map(|(key, _)| key);
                        first = Some((key, index));
                    }
                }
            }
            let next_waiting = waiting.last().map(|source| source.floor);
            if let Some(floor) = next_waiting
                && first.is_none_or(|(key, _)| floor <= key)
                && let Some(mut source) = waiting.pop()
            {
                source.begin(self, &mut marks);
                active.push(source);
                continue;
            }
            let Some((key, index)) = first else {
                break;
            };
            let Some(source) = active.get_mut(index) else {
                break;
            };
            if source.needs_read() {
                let before = previous_key(key);
                if self.page.is_spent() && after.is_none_or(|after| before > after) {
                    end = Some(before);
                    break;
                }
                source.read(self, indexed_span, &mut marks);
                continue;
            }
            let next = [second, next_waiting].into_iter().flatten().min();
            let stop = match next {
                Some(next) => source.rows.seek(next).max(source.at + 1),
                None => source.end,
            };
            let count_max = match limits.is_exact {
                true => limits.rows.saturating_sub(out.len()),
                false => usize::MAX,
            };
            let stop = stop
                .min(source.end)
                .min(source.at.saturating_add(count_max));
            out.append(&source.rows, source.at..stop);
            self.page.spend((stop - source.at) / 4);
            source.at = stop;
            if out.len() >= limits.rows || out.memory() >= limits.bytes {
                end = out.len().checked_sub(1).and_then(|last| out.key(last));
                break;
            }
        }
        // Events that concern all variables precede events of the variable with the same key.
        let until = end.map_or(span.last, |end| end.time);
        marks.splice(
            0..0,
            self.engine_marks(TimeSpan {
                since: from,
                last: until,
            }),
        );
        marks.retain(|mark| {
            span.contains(mark.key.time)
                && self.is_mark_after_position(mark)
                && after.is_none_or(|after| mark.key > after)
                && end.is_none_or(|end| mark.key <= end)
        });
        marks.sort_by_key(|mark| mark.key);
        if limits.is_exact
            && out.len() + marks.len() > limits.rows
            && let Some(last) = key_at(&out, &marks, limits.rows)
        {
            let mut truncated = Rows::new(out.word_bytes());
            truncated.append(&out, 0..out.seek(next_key(last)));
            out = truncated;
            marks.retain(|mark| mark.key <= last);
            end = Some(last);
        }
        for mark in marks {
            out.push_event(mark);
        }
        Ok(Window { rows: out, end })
    }

    /// Reads the indices of files until the page reaches its work limit. Returns the time up to which all
    /// indices have been read; it is not before `from`.
    pub(crate) fn indexed_until(&self, from: i64, last: i64) -> i64 {
        for part in self.view.parts.iter() {
            if part.row.first_time > last {
                break;
            }
            if part.row.last_time < from || part.is_indexed() || self.page.is_unreadable(part) {
                continue;
            }
            if self.page.is_spent() && part.row.first_time > from {
                return part.row.first_time - 1;
            }
            self.page.find(part, self.series.id);
        }
        last
    }

    /// Returns the events within a span that concern all variables, in key order.
    pub(crate) fn engine_marks(&self, span: TimeSpan) -> Vec<HistoryEventRow> {
        let mut marks = Vec::new();
        for part in self.view.parts.iter() {
            if span.overlaps(part.row.first_time, part.row.last_time)
                && !self.page.is_unreadable(part)
                && let Some(part_marks) = self.page.or_damage(part, part.engine_marks())
            {
                marks.extend(part_marks.iter().copied());
            }
        }
        let in_memory = self
            .view
            .engine_events
            .iter()
            .flat_map(|rows| rows.events());
        marks.extend(in_memory.copied());
        marks.retain(|mark| span.contains(mark.key.time));
        marks.sort_by_key(|mark| mark.key);
        marks
    }

    /// Searches for the last row of a span. `latest_damage` is the latest possible time of damaged
    /// rows that the search found in earlier pages.
    pub(crate) fn last(&self, span: TimeSpan, mut latest_damage: Option<i64>) -> Last {
        let mut best: Option<(RowKey, Rows)> = None;
        let update_best = |rows: &Rows, row: usize, best: &mut Option<(RowKey, Rows)>| {
            let Some(key) = rows.key(row) else { return };
            if best.as_ref().is_none_or(|(best_key, _)| *best_key < key) {
                let mut single = Rows::new(rows.word_bytes());
                single.append(rows, row..row + 1);
                *best = Some((key, single));
            }
        };
        for rows in &self.view.memory {
            let end = rows.times().partition_point(|time| *time <= span.last);
            if let Some(row) = end.checked_sub(1)
                && rows
                    .times()
                    .get(row)
                    .is_some_and(|time| span.contains(*time))
            {
                update_best(rows, row, &mut best);
            }
        }
        let parts = self.view.parts.iter();
        let mut parts: Vec<_> = parts
            .filter(|part| span.overlaps(part.row.first_time, part.row.last_time))
            .collect();
        parts.sort_by_key(|part| std::cmp::Reverse(part.row.last_time));
        for part in parts {
            if best
                .as_ref()
                .is_some_and(|(key, _)| part.row.last_time < key.time)
            {
                break;
            }
            // The remaining files have no rows after this time.
            let not_after = part.row.last_time;
            if best.is_none() && self.page.is_spent() && not_after < span.last {
                return Last::Interrupted(SearchedUntil {
                    time: not_after,
                    latest_damage,
                });
            }
            let Some(found) = self.page.find(part, self.series.id) else {
                continue;
            };
            let range = part.narrow(found, span.since, span.last);
            let Some((first, end)) = self.page.or_damage(part, range) else {
                continue;
            };
            let (mut to, mut count) = (end, LAST_ROWS);
            while to > first {
                let mut from = to.saturating_sub(count).max(first);
                count = (count * 2).min(PREFETCH_ROWS);
                let mut rows = self.series.rows();
                if self.read(part, (from, to), &mut rows).is_err() {
                    // Read page by page, so that the pages before a damaged page are still read.
                    let page = part.page_at(self.series, to - 1, self.projection);
                    from = page.map_or(first, |(start, _)| start.max(first));
                    count = LAST_ROWS;
                    rows = self.series.rows();
                    if let Err(error) = self.read(part, (from, to), &mut rows) {
                        self.page.note_damage(part, &error);
                        let times = part.times_of_rows(found, from, to);
                        let last = times.map_or(found.last_time, |(_, last)| last);
                        latest_damage = latest_damage.max(Some(last.min(span.last)));
                        rows = self.series.rows();
                    }
                }
                let is_inside = |row: &usize| {
                    let time = rows.times().get(*row);
                    time.is_some_and(|time| span.contains(*time))
                };
                if let Some(row) = (0..rows.len()).rev().find(is_inside) {
                    update_best(&rows, row, &mut best);
                    break;
                }
                to = from;
            }
        }
        match best {
            Some((key, mut rows)) => {
                if latest_damage.is_some_and(|time| time >= key.time) {
                    rows.push_event(HistoryEventRow {
                        key: last_key(key.time),
                        event: HistoryEvent::Lost(None),
                    });
                }
                Last::Found(key, Box::new(rows))
            }
            None => Last::Nothing,
        }
    }

    /// Reads a range of rows of a file.
    fn read(&self, part: &Part, (from, to): (u64, u64), rows: &mut Rows) -> Result<(), Error> {
        self.page.spend(OPEN_WORK + (to - from) as usize);
        part.read(self.series, from, to, self.projection, rows)
    }

    /// Returns true if a key is after the query's position. Keys of other epochs always are, because the time
    /// selects them. Late samples of the same epoch never are, because they never became the value.
    fn is_after_position(&self, key: &RowKey) -> bool {
        let position = self.position;
        position.is_none_or(|at| {
            key.epoch != at.epoch || (key.sequence > at.sequence && !key.is_late())
        })
    }

    /// Returns true if an event, or a part of a loss, is after the query's position.
    fn is_mark_after_position(&self, mark: &HistoryEventRow) -> bool {
        let last = match mark.event {
            HistoryEvent::Lost(Some(count)) => count.saturating_sub(1),
            _ => 0,
        };
        self.is_after_position(&RowKey {
            sequence: mark.key.sequence.saturating_add(last),
            ..mark.key
        })
    }

    /// Returns the updates after the query's position. Returns `None` if the query has no position.
    fn after_position(&self, rows: &Rows) -> Option<Rows> {
        self.position?;
        let mut remaining = Rows::new(rows.word_bytes());
        for row in 0..rows.len() {
            let key = rows.key(row);
            if key.is_some_and(|key| self.is_after_position(&key)) {
                remaining.append(rows, row..row + 1);
            }
        }
        Some(remaining)
    }

    /// Returns all sources that may have rows after a key and within the span.
    fn sources(&self, after: Option<RowKey>, span: TimeSpan) -> Vec<Source> {
        let from = after.map_or(span.since, |after| after.time.max(span.since));
        let unread_span = TimeSpan {
            since: from,
            last: span.last,
        };
        let lowest = |time: i64| {
            let floor = first_key(time.max(from));
            after.map_or(floor, |after| floor.max(next_key(after)))
        };
        let mut sources = Vec::new();
        for part in self.view.parts.iter() {
            if !unread_span.overlaps(part.row.first_time, part.row.last_time) {
                continue;
            }
            let found = self.page.find(part, self.series.id);
            let Some(found) =
                found.filter(|found| unread_span.overlaps(found.first_time, found.last_time))
            else {
                continue;
            };
            let range = part.narrow(found, from, span.last);
            let Some((first, end)) = self.page.or_damage(part, range) else {
                continue;
            };
            // Usually, a window begins where the previous window ended.
            let next = after.and_then(|after| self.page.row_after(part, self.series.id, after));
            let first = next.map_or(first, |next| next.clamp(first, end));
            sources.push(Source {
                rows: Arc::new(Rows::new(None)),
                at: 0,
                end: 0,
                floor: lowest(found.first_time),
                after,
                file: Some(FileSource {
                    part: Arc::clone(part),
                    next: first,
                    end,
                    last_time: found.first_time.max(from),
                }),
            });
        }
        for rows in &self.view.memory {
            let start = rows.times().partition_point(|time| *time < span.since);
            let start = match after {
                Some(after) => start.max(rows.seek(next_key(after))),
                None => start,
            };
            let end = rows.times().partition_point(|time| *time <= span.last);
            let first_mark = rows.events().first().map(|mark| mark.key);
            let first_row = rows.key(start).filter(|_| start < end);
            let Some(first) = first_row.into_iter().chain(first_mark).min() else {
                continue;
            };
            sources.push(Source {
                rows: Arc::clone(rows),
                at: start,
                end: end.max(start),
                floor: first.max(lowest(from)),
                after,
                file: None,
            });
        }
        sources
    }

    /// Reads the next rows of a file, and returns their number. A damaged page is skipped and reported as an
    /// event.
    fn take(&self, file: &FileSource, span: TimeSpan, rows: &mut Rows) -> u64 {
        if let Ok(taken) = self.try_take(file, span, rows) {
            self.page.spend(taken as usize);
            return taken;
        }
        // Read page by page, so that the pages next to a damaged page are still read.
        let page = file.part.page_at(self.series, file.next, self.projection);
        let end = page.map_or(file.end, |(_, end)| end.min(file.end));
        let mut page = self.series.rows();
        if let Err(error) = self.read(&file.part, (file.next, end), &mut page) {
            self.page.note_damage(&file.part, &error);
            rows.push_event(HistoryEventRow {
                key: last_key(file.last_time),
                event: HistoryEvent::Lost(None),
            });
        } else {
            *rows = page;
        }
        end - file.next
    }

    fn try_take(&self, file: &FileSource, span: TimeSpan, rows: &mut Rows) -> Result<u64, Error> {
        let count_max = file.end - file.next;
        let mut streams = self.page.streams.borrow_mut();
        let current = streams.remove(&file.part.path);
        let current = current.filter(|stream| stream.is_at(self.series.id, file.next));
        let mut stream = match current {
            Some(stream) => stream,
            None => self.stream(file, span)?,
        };
        let taken = stream.take(self.series, file.next, count_max as usize, rows)?;
        if !stream.is_at_end() {
            streams.insert(file.part.path.clone(), stream);
        }
        Ok(taken)
    }

    /// Begins a sequential read of a file at the next row. The read includes this series, and the selected
    /// series after it that may fit in the page.
    fn stream(&self, file: &FileSource, span: TimeSpan) -> Result<PartStream, Error> {
        self.page.spend(OPEN_WORK);
        let mut ranges = vec![(self.series, file.next, file.end)];
        let mut rows = file.end - file.next;
        let files = self.view.parts.iter();
        let files = files.filter(|part| span.overlaps(part.row.first_time, part.row.last_time));
        let work_limit = PREFETCH_WORK / files.count().max(1);
        let work_limit = self.page.work().saturating_add(work_limit).min(PAGE_WORK);
        let following = self.following.into_iter();
        let following = following.flat_map(|(selection, first)| {
            (first..).map_while(move |number| selection.get_within(number, self.page, work_limit))
        });
        for series in following {
            if rows >= PREFETCH_ROWS || self.page.work() >= work_limit {
                break;
            }
            self.page.spend(FIND_WORK);
            let found = file.part.span(series.id)?;
            let found = found.filter(|found| span.overlaps(found.first_time, found.last_time));
            if let Some(found) = found {
                let (from, to) = file.part.narrow(found, span.since, span.last)?;
                if from < to {
                    rows += to - from;
                    ranges.push((series, from, to));
                }
            }
        }
        let projection = self.projection;
        file.part.stream(&ranges, projection, BATCH_BYTES_MAX)
    }
}

/// A source of rows of one series in key order: a chunk in memory, or a file.
struct Source {
    /// The chunk, or the rows that were read from the file last.
    rows: Arc<Rows>,
    /// Index of the next row in `rows`.
    at: usize,
    /// Index in `rows` at which the rows within the span end.
    end: usize,
    /// A lower bound of the keys of rows and events that were not read yet.
    floor: RowKey,
    /// Rows up to this key are left out.
    after: Option<RowKey>,
    /// The file; `None` if the source is in memory.
    file: Option<FileSource>,
}

/// The rows of a series in a file that were not read yet.
struct FileSource {
    part: Arc<Part>,
    next: u64,
    end: u64,
    /// Time of the last row that was read, in nanoseconds.
    last_time: i64,
}

impl Source {
    /// Adds the events of a source in memory to `marks`, and leaves out rows up to the query's position.
    fn begin(&mut self, reader: &SeriesReader<'_>, marks: &mut Vec<HistoryEventRow>) {
        if self.file.is_some() {
            return;
        }
        marks.extend_from_slice(self.rows.events());
        let mut in_span = Rows::new(self.rows.word_bytes());
        if reader.position.is_some() {
            in_span.append(&self.rows, self.at..self.end);
            if let Some(remaining) = reader.after_position(&in_span) {
                (self.at, self.end) = (0, remaining.len());
                self.rows = Arc::new(remaining);
            }
        }
    }

    /// Returns the key of the next row, or a lower bound of the key if the row was not read yet. Returns
    /// `None` at the end.
    fn next_key_bound(&self) -> Option<RowKey> {
        match self.needs_read() {
            true => Some(self.floor),
            false if self.at < self.end => self.rows.key(self.at),
            false => None,
        }
    }

    fn needs_read(&self) -> bool {
        let has_more = self.file.as_ref().is_some_and(|file| file.next < file.end);
        self.at >= self.end && has_more
    }

    /// Reads the next rows from the file, and adds the events among them to `marks`.
    fn read(
        &mut self,
        reader: &SeriesReader<'_>,
        span: TimeSpan,
        marks: &mut Vec<HistoryEventRow>,
    ) {
        let Some(file) = &mut self.file else {
            return;
        };
        let mut rows = reader.series.rows();
        file.next += reader.take(file, span, &mut rows);
        marks.append(&mut rows.take_events());
        if let Some(last) = rows.len().checked_sub(1).and_then(|last| rows.key(last)) {
            file.last_time = last.time;
            self.floor = self.floor.max(next_key(last));
        }
        let rows = reader.after_position(&rows).unwrap_or(rows);
        let start = rows.times().partition_point(|time| *time < span.since);
        self.at = match self.after {
            Some(after) => start.max(rows.seek(next_key(after))),
            None => start,
        };
        let end = rows.times().partition_point(|time| *time <= span.last);
        self.end = end.max(self.at);
        self.rows = Arc::new(rows);
    }
}

/// Returns the key of the last of the first `count` rows and events.
fn key_at(rows: &Rows, marks: &[HistoryEventRow], count: usize) -> Option<RowKey> {
    let (mut row, mut mark) = (0, 0);
    let mut last = None;
    for _ in 0..count {
        let (of_row, of_mark) = (rows.key(row), marks.get(mark).map(|mark| mark.key));
        last = match (of_row, of_mark) {
            (Some(of_row), Some(of_mark)) if of_mark < of_row => {
                mark += 1;
                Some(of_mark)
            }
            (Some(of_row), _) => {
                row += 1;
                Some(of_row)
            }
            (None, Some(of_mark)) => {
                mark += 1;
                Some(of_mark)
            }
            (None, None) => return last,
        };
    }
    last
}
