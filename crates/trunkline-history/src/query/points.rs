//! Computes the values of a series at points in time from the rows before and after each point.
//!
//! Rows are read sequentially, beginning with the row before a point. If there are many rows between two
//! points, the row before the next point is found by a search instead.

use trunkline_types::history::{HistoryEventRow, Row, RowKey, Rows};
use trunkline_types::{DataType, Quality, Reason};

use super::intervals::Next;
use super::progress::SeriesProgress;
use super::reading::{Last, Limits, SeriesReader, TimeSpan};
use crate::error::Error;
use crate::files::row_order::{RowValue, Step, content_of, last_key, previous_key, steps};
use crate::files::schema::number_of;

/// Limits of one window of rows.
const READ_LIMITS: Limits = Limits {
    rows: 8 << 10,
    bytes: 2 << 20,
    is_exact: false,
};
/// Number of points per window below which the row before the next point is found by a search.
const POINTS_PER_WINDOW_MIN: usize = 16;

/// The parameters of a query for points.
pub(super) struct Points<'r, 'a> {
    pub(super) reader: &'r SeriesReader<'a>,
    /// The span of the points, inclusive.
    pub(super) span: TimeSpan,
    /// Distance between points in nanoseconds; `None` if there is only one point, at the start of the span.
    pub(super) step: Option<i64>,
    /// True if numbers are interpolated linearly.
    pub(super) is_linear: bool,
    /// The current time in nanoseconds, up to which the last value holds.
    pub(super) now: i64,
}

/// Returns true if values of this type can be interpolated.
fn is_interpolable(data_type: &DataType) -> bool {
    match data_type {
        DataType::I8
        | DataType::I16
        | DataType::I32
        | DataType::I64
        | DataType::U8
        | DataType::U16
        | DataType::U32
        | DataType::U64
        | DataType::F32
        | DataType::F64 => true,
        DataType::Bool
        | DataType::Timestamp
        | DataType::Enum(_)
        | DataType::String
        | DataType::Bytes
        | DataType::Array(_)
        | DataType::Struct(_)
        | DataType::Waveform(_) => false,
    }
}

fn first_point(span: TimeSpan, step: Option<i64>) -> i64 {
    match step.map(|step| (step, span.since.rem_euclid(step))) {
        None | Some((_, 0)) => span.since,
        Some((step, remainder)) => span.since.saturating_add(step - remainder),
    }
}

/// Returns the position at which a series begins.
pub(super) fn begin(span: TimeSpan, step: Option<i64>) -> SeriesProgress {
    let first = first_point(span, step);
    SeriesProgress::begin(first, Some(first))
}

impl Points<'_, '_> {
    /// Returns the data type of the values at the points. Interpolated integers are returned as f64.
    pub(super) fn data_type(&self) -> DataType {
        match &self.reader.series.data_type {
            DataType::F32 => DataType::F32,
            data_type if self.interpolates() && is_interpolable(data_type) => DataType::F64,
            data_type => data_type.clone(),
        }
    }

    fn interpolates(&self) -> bool {
        self.is_linear && is_interpolable(&self.reader.series.data_type)
    }

    /// Returns rows at the points, up to `limits`, and the position at which the next page continues. A
    /// series without a row before the end of the span has no points.
    pub(super) fn read(
        &self,
        mut after: Option<RowKey>,
        progress: SeriesProgress,
        limits: Limits,
    ) -> Result<(Rows, Next), Error> {
        let data_type = self.data_type();
        let mut builder = PointBuilder {
            points: self,
            limits,
            out: Rows::new(match self.reader.series.rows().word_bytes() {
                Some(_) => data_type.fixed_size(),
                None => None,
            }),
            is_f32: data_type == DataType::F32,
            before: None,
            progress,
        };
        // Read the row before the point, which the previous page used as well.
        if let Some(key) = builder.progress.before {
            let span = TimeSpan {
                since: i64::MIN,
                last: key.time,
            };
            let one = Limits {
                rows: 1,
                is_exact: true,
                ..READ_LIMITS
            };
            let window = self.reader.window(Some(previous_key(key)), span, one)?;
            if window.rows.key(0) == Some(key) {
                builder.before = Some(self.sample(&window.rows, 0, key));
            }
        }
        loop {
            if builder.is_done() {
                return Ok((builder.out, None));
            }
            if builder.is_full() || self.reader.page.is_spent() {
                return Ok((builder.out, Some((after, builder.progress))));
            }
            if let Some(last) = builder.progress.search_until {
                let before = TimeSpan {
                    since: i64::MIN,
                    last,
                };
                // Ignore damage here: the window that begins with this row reports it.
                match self.reader.last(before, None) {
                    Last::Found(key, _) => after = Some(previous_key(key)),
                    Last::Nothing => {}
                    Last::Interrupted(searched) => {
                        builder.progress.search_until = Some(searched.time);
                        return Ok((builder.out, Some((after, builder.progress))));
                    }
                }
                builder.progress.search_until = None;
            }
            // Interpolation at the last point needs the next row, which may be after the span.
            let last = match self.interpolates() {
                true => i64::MAX,
                false => self.span.last,
            };
            let since = match after {
                Some(_) => i64::MIN,
                None => builder.progress.next_time.saturating_add(1),
            };
            let window = self
                .reader
                .window(after, TimeSpan { since, last }, READ_LIMITS)?;
            let at = builder.progress.next_time;
            let first = window.rows.times().first();
            let is_at_start = builder.before.is_none() && at == first_point(self.span, self.step);
            if is_at_start && first.map_or(window.end.is_none(), |first| *first > self.span.last) {
                // The series has no row before the end of the span.
                return Ok((builder.out, None));
            }
            for step in steps(&window.rows) {
                let key = step.key(&window.rows);
                let is_added = match (step, key) {
                    (Step::Row(row), Some(key)) => {
                        builder.add_row(self.sample(&window.rows, row, key))
                    }
                    (Step::Event(mark), _) => builder.add_event(&mark),
                    (Step::Row(_), None) => true,
                };
                if !is_added {
                    return Ok((builder.out, Some((after, builder.progress))));
                }
                after = key.or(after);
                if builder.is_done() {
                    return Ok((builder.out, None));
                }
            }
            let Some(end) = window.end else {
                // There are no more rows.
                let is_complete = builder.add_points_until(i64::MAX);
                let next = (!is_complete).then_some((Some(last_key(last)), builder.progress));
                return Ok((builder.out, next));
            };
            after = Some(end);
            if !self.interpolates() || builder.progress.gap_start.is_some() {
                // All rows before `end.time` have been read, but more rows may have exactly this time.
                builder.add_points_until(end.time.saturating_sub(1));
            }
            let rows = &window.rows;
            let is_long =
                rows.len() >= READ_LIMITS.rows / 2 || rows.memory() >= READ_LIMITS.bytes / 2;
            let points = builder.points_since(at);
            if is_long && points < POINTS_PER_WINDOW_MIN && builder.progress.next_time > end.time {
                builder.progress.search_until = Some(builder.progress.next_time);
                // The search finds the row before the next point.
                builder.clear_before();
            }
        }
    }

    fn sample(&self, rows: &Rows, row: usize, key: RowKey) -> Sample {
        let data_type = &self.reader.series.data_type;
        let word = rows.words().get(row).copied();
        let value = rows.with_row(row, |row| row.value.to_vec());
        Sample {
            key,
            quality: rows.quality(row),
            content: content_of(rows, row, data_type),
            number: word.map_or(f64::NAN, |word| number_of(word, data_type)),
            value: value.unwrap_or_default(),
        }
    }
}

/// A row before or after a point.
struct Sample {
    key: RowKey,
    quality: Quality,
    content: RowValue,
    number: f64,
    /// The value in wire form.
    value: Vec<u8>,
}

/// Collects the points of a page.
struct PointBuilder<'p, 'r, 'a> {
    points: &'p Points<'r, 'a>,
    limits: Limits,
    out: Rows,
    is_f32: bool,
    /// The last row before the next point.
    before: Option<Sample>,
    progress: SeriesProgress,
}

impl PointBuilder<'_, '_, '_> {
    fn is_done(&self) -> bool {
        self.progress.next_time > self.points.span.last
    }

    fn is_full(&self) -> bool {
        self.out.len() >= self.limits.rows || self.out.memory() >= self.limits.bytes
    }

    fn clear_before(&mut self) {
        self.before = None;
        (self.progress.before, self.progress.gap_start) = (None, None);
    }

    /// Returns the number of points between time `at` and the next point.
    fn points_since(&self, at: i64) -> usize {
        let passed = self.progress.next_time.saturating_sub(at);
        passed
            .checked_div(self.points.step.unwrap_or(0))
            .unwrap_or(0) as usize
    }

    /// Adds the points before a row. Returns false if the page becomes full first.
    fn add_row(&mut self, sample: Sample) -> bool {
        while !self.is_done() && self.progress.next_time < sample.key.time {
            if self.is_full() {
                return false;
            }
            self.add_point(Some(&sample));
        }
        self.progress.before = Some(sample.key);
        self.progress.gap_start = None;
        self.before = Some(sample);
        true
    }

    fn add_event(&mut self, mark: &HistoryEventRow) -> bool {
        if self.before.is_some() {
            self.progress.gap_start.get_or_insert(mark.key.time);
        }
        true
    }

    /// Adds the points up to and including time `last`. All rows before them must have been added. Returns
    /// false if the page becomes full first.
    fn add_points_until(&mut self, last: i64) -> bool {
        while !self.is_done() && self.progress.next_time <= last {
            if self.is_full() {
                return false;
            }
            self.add_point(None);
        }
        true
    }

    /// Adds the next point. `next` is the row after the point, if it is known.
    fn add_point(&mut self, next: Option<&Sample>) {
        let at = self.progress.next_time;
        let is_interpolated = self.points.interpolates();
        let before = self.before.as_ref();
        let before = before.filter(|before| before.content != RowValue::Bad);
        let found = before.and_then(|before| {
            let is_at_row = before.key.time == at;
            if is_at_row || !is_interpolated {
                let end = self.progress.gap_start.unwrap_or(i64::MAX);
                let holds = is_at_row || (at < end && at <= self.points.now);
                let value = match is_interpolated {
                    true => self.value_of(before.number),
                    false => before.value.clone(),
                };
                return holds.then_some((before.key, before.quality, value));
            }
            let next = next.filter(|_| self.progress.gap_start.is_none())?;
            let (from, to) = (before.content.value()?, next.content.value()?);
            let number = interpolate((before.key.time, from), (next.key.time, to), at)?;
            let quality = before.quality.worst(next.quality);
            Some((before.key, quality, self.value_of(number)))
        });
        let row = match &found {
            Some((key, quality, value)) => Row {
                key: RowKey { time: at, ..*key },
                delay: 0,
                quality: *quality,
                value,
            },
            None => Row {
                key: RowKey {
                    time: at,
                    ..RowKey::default()
                },
                delay: 0,
                quality: Quality::bad(Reason::NoValue),
                value: &[],
            },
        };
        self.out.push(&row);
        self.progress.next_time = match self.points.step {
            Some(step) => at.checked_add(step),
            None => None,
        }
        .unwrap_or(i64::MAX);
    }

    fn value_of(&self, number: f64) -> Vec<u8> {
        match self.is_f32 {
            true => (number as f32).to_le_bytes().to_vec(),
            false => number.to_le_bytes().to_vec(),
        }
    }
}

/// Interpolates linearly between two points; `None` if the result is not finite.
fn interpolate(from: (i64, f64), to: (i64, f64), at: i64) -> Option<f64> {
    let duration = i128::from(to.0) - i128::from(from.0);
    let fraction = (i128::from(at) - i128::from(from.0)) as f64 / duration as f64;
    let difference = to.1 - from.1;
    let number = match difference.is_finite() {
        true => from.1 + difference * fraction,
        // The difference of the numbers overflows, so weight each number instead.
        false => from.1 * (1.0 - fraction) + to.1 * fraction,
    };
    let (low, high) = (from.1.min(to.1), from.1.max(to.1));
    let is_finite = from.1.is_finite() && to.1.is_finite() && number.is_finite();
    is_finite.then(|| number.clamp(low, high))
}
