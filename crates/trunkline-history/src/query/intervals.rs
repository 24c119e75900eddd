//! Computes buckets of a series, which aggregate the rows of an interval of time.
//!
//! Rows are added in key order. If only one file has rows of an interval, the buckets of the file's summary
//! are added instead of the rows. For durations, a value holds from its row to the next row or event.

use std::ops::Range;
use std::sync::Arc;

use trunkline_types::history::{Bucket, HistoryEventRow, RowKey};

use super::progress::SeriesProgress;
use super::reading::{INDEX_WORK, Last, Limits, SeriesReader, TimeSpan};
use crate::error::Error;
use crate::files::row_order::{
    RowValue, Step, content_of, has_numbers, last_key, previous_key, steps,
};
use crate::files::summary::{Summary, SummaryBucket};

/// Limits of one window of rows.
const READ_LIMITS: Limits = Limits {
    rows: 32 << 10,
    bytes: 2 << 20,
    is_exact: false,
};

/// The parameters of a query for buckets.
pub(super) struct Intervals<'r, 'a> {
    pub(super) reader: &'r SeriesReader<'a>,
    pub(super) span: TimeSpan,
    /// Width of each bucket; `None` for one bucket over the whole time.
    pub(super) width: Option<u64>,
    /// True if the query requests the covered time and the time-weighted mean.
    pub(super) durations: bool,
    /// The current time in nanoseconds, up to which the last value holds.
    pub(super) now: i64,
}

/// The last key read and the state with which the next page continues; `None` at the end of the series.
pub(super) type Next = Option<(Option<RowKey>, SeriesProgress)>;

/// Returns the position at which a series begins.
pub(super) fn begin(span: TimeSpan, durations: bool) -> SeriesProgress {
    let search_until = span.since.checked_sub(1).filter(|_| durations);
    SeriesProgress::begin(span.since, search_until)
}

impl Intervals<'_, '_> {
    /// Returns at most `count_max` buckets, and the position at which the next page continues.
    pub(super) fn read(
        &self,
        mut after: Option<RowKey>,
        mut progress: SeriesProgress,
        count_max: usize,
    ) -> Result<(Vec<Bucket>, Next), Error> {
        // First, find the value that holds at the start of the span.
        if let Some(last) = progress.search_until {
            let before = TimeSpan {
                since: i64::MIN,
                last,
            };
            // Ignore damage here: the window that begins with this row reports it.
            match self.reader.last(before, None) {
                Last::Found(key, _) => after = Some(previous_key(key)),
                Last::Nothing => {}
                Last::Interrupted(searched) => {
                    progress.search_until = Some(searched.time);
                    return Ok((Vec::new(), Some((after, progress))));
                }
            }
            progress.search_until = None;
        }
        let mut builder = BucketBuilder {
            intervals: self,
            progress,
            count_max,
            current: 0..0,
            completed: Vec::new(),
        };
        loop {
            if builder.is_full() || self.reader.page.is_spent() {
                return Ok((builder.completed, Some((after, builder.progress))));
            }
            let run = self.next_run(after);
            let first = run.as_ref().and_then(|run| run.start());
            let last = first.map_or(self.span.last, |start| start.saturating_sub(1));
            if let Some(run) = run.filter(|_| after == Some(last_key(last))) {
                after = builder.add_run(&run).or(after);
                continue;
            }
            let since = match after {
                Some(_) => i64::MIN,
                None => self.span.since,
            };
            let window = self
                .reader
                .window(after, TimeSpan { since, last }, READ_LIMITS)?;
            let rows = &window.rows;
            let mut added = None;
            for step in steps(rows) {
                let is_added = match step {
                    Step::Row(row) => {
                        let time = rows.times().get(row).copied().unwrap_or(0);
                        let data_type = &self.reader.series.data_type;
                        builder.add_row(time, content_of(rows, row, data_type))
                    }
                    Step::Event(mark) => builder.add_event(&mark),
                };
                if !is_added {
                    after = added.and_then(|step: Step| step.key(rows)).or(after);
                    return Ok((builder.completed, Some((after, builder.progress))));
                }
                added = Some(step);
            }
            if window.end.is_none() && first.is_none() {
                break;
            }
            after = Some(window.end.unwrap_or(last_key(last)));
        }
        let is_complete = builder.finish();
        let BucketBuilder {
            progress,
            completed,
            ..
        } = builder;
        let next = (!is_complete).then_some((Some(last_key(self.span.last)), progress));
        Ok((completed, next))
    }

    /// Finds the next summary buckets that can be used instead of rows after this key.
    fn next_run(&self, after: Option<RowKey>) -> Option<BucketRun> {
        let reader = self.reader;
        if !has_numbers(&reader.series.data_type) {
            return None;
        }
        let since = self.span.since;
        let from = after.map_or(since, |after| after.time.saturating_add(1).max(since));
        let remaining = TimeSpan {
            since: from,
            last: reader.indexed_until(from, self.span.last),
        };
        let mut source_times: Vec<(i64, i64)> = Vec::new();
        let mut summaries = Vec::new();
        for part in reader.view.parts.iter() {
            if !remaining.overlaps(part.row.first_time, part.row.last_time) {
                continue;
            }
            let found = reader.page.find(part, reader.series.id);
            let Some(found) =
                found.filter(|found| remaining.overlaps(found.first_time, found.last_time))
            else {
                continue;
            };
            if !part.is_summarized() {
                reader.page.spend(INDEX_WORK);
            }
            // If the summary cannot be read, the rows are read instead.
            let summary = part.summary(reader.series.id, self.width);
            if let Some(summary) = summary.unwrap_or_default() {
                summaries.push((source_times.len(), summary));
            }
            source_times.push((found.first_time, found.last_time));
        }
        if summaries.is_empty() {
            return None;
        }
        for rows in &reader.view.memory {
            let row_times = [rows.times().first(), rows.times().last()];
            let mark_times = [rows.events().first(), rows.events().last()];
            let mark_times = mark_times.into_iter().flatten().map(|mark| mark.key.time);
            let times = row_times.into_iter().flatten().copied().chain(mark_times);
            if let Some((first, last)) = times.clone().min().zip(times.max()) {
                source_times.push((first, last));
            }
        }
        let marks = match self.durations {
            true => reader.engine_marks(remaining),
            false => Vec::new(),
        };
        let runs = summaries.into_iter().filter_map(|(own_index, summary)| {
            let others = source_times.iter().enumerate();
            let others = others.filter(|(index, times)| {
                *index != own_index && remaining.overlaps(times.0, times.1)
            });
            let mut run = BucketRun {
                next: summary
                    .buckets
                    .partition_point(|one| one.bucket.start < from),
                others: others.map(|(_, times)| *times).collect(),
                marks: marks.iter().map(|mark| mark.key.time).collect(),
                last: remaining.last,
                clean_until: self.durations.then_some(self.now),
                summary,
            };
            while let Some(one) = run.summary.buckets.get(run.next) {
                let start = one.bucket.start;
                reader.page.spend(1);
                if run.end_of(one) > remaining.last {
                    return None;
                }
                if run.accepts(one, start) {
                    return Some(run);
                }
                run.next += 1;
            }
            None
        });
        runs.min_by_key(BucketRun::start)
    }
}

/// Consecutive buckets of a summary that may be used instead of rows.
struct BucketRun {
    summary: Arc<Summary>,
    /// Index of the next bucket in the summary.
    next: usize,
    /// Times of the first and the last row of each other source of the series.
    others: Vec<(i64, i64)>,
    /// Times of the events that concern all variables.
    marks: Vec<i64>,
    /// Buckets that end after this time are not used.
    last: i64,
    /// If set, buckets are accepted only up to this time, and only with good values and without events. Other
    /// buckets have no durations.
    clean_until: Option<i64>,
}

impl BucketRun {
    fn start(&self) -> Option<i64> {
        let one = self.summary.buckets.get(self.next)?;
        Some(one.bucket.start)
    }

    /// Returns the last nanosecond of a bucket.
    fn end_of(&self, one: &SummaryBucket) -> i64 {
        let width = i64::try_from(self.summary.width).unwrap_or(i64::MAX);
        one.bucket.start.saturating_add(width - 1)
    }

    /// Returns true if a bucket can be used instead of the rows between `from` and the end of the bucket.
    fn accepts(&self, one: &SummaryBucket, from: i64) -> bool {
        let end = self.end_of(one);
        let span = TimeSpan {
            since: from,
            last: end,
        };
        let has_no_other_source = !self
            .others
            .iter()
            .any(|other| span.overlaps(other.0, other.1));
        let has_no_event = || {
            let first = self.marks.partition_point(|time| *time < from);
            self.marks.get(first).is_none_or(|time| *time > end)
        };
        let is_clean = |until| one.is_clean() && one.last_time <= until && has_no_event();
        has_no_other_source && self.clean_until.is_none_or(is_clean)
    }
}

/// Collects the buckets of a page.
struct BucketBuilder<'i, 'r, 'a> {
    intervals: &'i Intervals<'r, 'a>,
    progress: SeriesProgress,
    /// Maximum number of buckets.
    count_max: usize,
    /// The interval of the last bucket used. It saves a division for each further row in the same bucket.
    current: Range<i64>,
    completed: Vec<Bucket>,
}

impl BucketBuilder<'_, '_, '_> {
    fn is_full(&self) -> bool {
        self.completed.len() >= self.count_max
    }

    /// Returns the start of the bucket that contains a time.
    fn start_of(&self, time: i64) -> i64 {
        match self.intervals.width {
            Some(width) => {
                let width = i64::try_from(width).unwrap_or(i64::MAX).max(1);
                time.div_euclid(width).saturating_mul(width)
            }
            None => self.intervals.span.since,
        }
    }

    /// Returns the end of the bucket that contains a time.
    fn end_of(&self, time: i64) -> i64 {
        match self.intervals.width {
            Some(width) => self
                .start_of(time)
                .saturating_add(i64::try_from(width).unwrap_or(i64::MAX).max(1)),
            None => i64::MAX,
        }
    }

    /// Returns false if the page is full and this time is not in its last bucket.
    fn can_add_at(&self, time: i64) -> bool {
        let is_current = |bucket: Bucket| bucket.is_empty() || bucket.start == self.start_of(time);
        !self.is_full() || self.progress.bucket.is_none_or(is_current)
    }

    fn bucket_at(&mut self, time: i64) -> &mut Bucket {
        if !self.current.contains(&time) {
            self.current = self.start_of(time)..self.end_of(time);
        }
        let start = self.current.start;
        if self
            .progress
            .bucket
            .is_some_and(|bucket| bucket.start != start)
        {
            self.end_bucket();
        }
        self.progress
            .bucket
            .get_or_insert_with(|| Bucket::new(start))
    }

    fn end_bucket(&mut self) {
        let bucket = self.progress.bucket.take();
        self.completed
            .extend(bucket.filter(|bucket| !bucket.is_empty()));
    }

    /// Adds the duration for which the current value holds, up to time `to`. Returns false if the page
    /// becomes full first.
    fn advance_to(&mut self, to: i64) -> bool {
        let to = to.min(self.intervals.now);
        while let Some(held) = self.progress.held.filter(|_| self.progress.next_time < to) {
            let at = self.progress.next_time;
            if !self.can_add_at(at) {
                return false;
            }
            let end = self.end_of(at).min(to);
            let time = end.wrapping_sub(at) as u64;
            self.bucket_at(at).hold(held, time);
            self.progress.next_time = end;
        }
        self.progress.next_time = self.progress.next_time.max(to);
        true
    }

    fn add_row(&mut self, time: i64, content: RowValue) -> bool {
        let is_inside = self.intervals.span.contains(time);
        if !self.advance_to(time) || (is_inside && !self.can_add_at(time)) {
            return false;
        }
        if is_inside {
            let bucket = self.bucket_at(time);
            match content {
                RowValue::Bad => bucket.bad += 1,
                RowValue::Number(number) => bucket.add(number),
                RowValue::Other => bucket.add_other(),
            }
        }
        self.hold(content.value());
        true
    }

    fn add_event(&mut self, mark: &HistoryEventRow) -> bool {
        let time = mark.key.time;
        let (_, lost) = mark.event.parts();
        let counts = lost > 0 && self.intervals.span.contains(time);
        if !self.advance_to(time) || (counts && !self.can_add_at(time)) {
            return false;
        }
        if counts {
            self.bucket_at(time).lost += lost;
        }
        self.hold(None);
        true
    }

    fn hold(&mut self, value: Option<f64>) {
        self.progress.held = value.filter(|_| self.intervals.durations);
    }

    /// Adds summary buckets. Returns the key up to which they were added; `None` if none were added.
    fn add_run(&mut self, run: &BucketRun) -> Option<RowKey> {
        let mut after = None;
        let mut from = run.start()?;
        for one in run.summary.buckets.get(run.next..).unwrap_or_default() {
            let end = run.end_of(one);
            let page = self.intervals.reader.page;
            if end > run.last || !run.accepts(one, from) || page.is_spent() {
                break;
            }
            page.spend(1);
            let SummaryBucket {
                mut bucket,
                first_time,
                last_time,
                ..
            } = *one;
            if self.intervals.durations {
                if !self.advance_to(first_time) {
                    break;
                }
            } else {
                (bucket.covered, bucket.time_mean) = (0, 0.0);
            }
            if !self.can_add_at(bucket.start) {
                break;
            }
            self.bucket_at(bucket.start).join(&bucket);
            if self.intervals.durations {
                self.progress.next_time = last_time;
                self.progress.held = Some(bucket.last);
            }
            after = Some(last_key(end));
            from = end.saturating_add(1);
        }
        after
    }

    /// Completes the last bucket. Returns false if the page becomes full first.
    fn finish(&mut self) -> bool {
        let end = self.intervals.span.last.saturating_add(1);
        if !self.advance_to(end) || self.is_full() {
            return false;
        }
        self.end_bucket();
        true
    }
}
