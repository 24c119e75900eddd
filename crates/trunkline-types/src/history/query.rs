//! Defines the queries of a history and their answers.

use std::num::NonZeroU64;

use super::{HistoryEvent, HistoryEventRow, Row, RowKey, Rows};
pub use crate::permitted::{PermitName, PermittedNames};
use crate::{DataType, Lost, Pattern, Position, Reading, Sample, Timestamp, Value, wire};

/// Maximum number of buckets per variable of a query by [`HistoryForm::Points`].
pub const POINTS_MAX: u32 = 100_000;

/// Selects rows of a history.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct HistoryQuery {
    /// Selects variables, including those that are no longer deployed.
    pub patterns: Vec<Pattern>,
    /// Selects rows from this source timestamp on.
    pub since: Option<Timestamp>,
    /// Selects rows before this source timestamp.
    pub until: Option<Timestamp>,
    /// Selects updates and events after this position, by epoch and sequence, and losses that end
    /// after it. Only for queries of rows.
    pub after: Option<Position>,
    pub form: HistoryForm,
    /// True to compute the covered time and the time-weighted mean of each bucket. The answer then
    /// also has buckets without rows in which an earlier value still holds.
    pub durations: bool,
    /// Start of the page: [`next`](HistoryPage::next) of the previous page; `None` for the first page.
    pub from: Option<HistoryCursor>,
    /// Maximum number of rows, events and buckets of the page; 0 for the maximum of a page.
    pub limit: u32,
    /// The variables whose history the reader may query. For any other variable, the answer is the
    /// same as if nothing had been recorded.
    pub permitted: PermittedNames,
}

/// The data that a query returns for each variable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HistoryForm {
    /// All rows and events.
    #[default]
    Rows,
    /// The last row before `until`.
    Last,
    /// Buckets of this width in nanoseconds. They begin at multiples of the width since 1970.
    Buckets(NonZeroU64),
    /// At most this number of buckets over the period of the query. Their width in nanoseconds is the
    /// smallest power of two that suffices, so that an engine can reuse earlier results. Without
    /// `since`, the period begins at the first row of the variables.
    Points(u32),
    /// One bucket over the whole period of the query, starting at its beginning.
    Total,
    /// One row for each point of a grid. Between two rows with numbers, the value is interpolated
    /// linearly; otherwise, it is the value of the last row before the point, as with `Stepped`. A
    /// point without a value has a row with quality `bad` and reason `no-value`.
    Interpolated(Grid),
    /// One row for each point of a grid, with the value of the last row at or before the point.
    Stepped(Grid),
}

/// The points in time for which a query returns values. With an interval in nanoseconds, the points
/// are the multiples of the interval since 1970 that lie within the period of the query. With `None`,
/// the only point is `since`, or the current time if there is no `since`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grid(pub Option<NonZeroU64>);

/// The place at which a page ends. Only the engine interprets the fields.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HistoryCursor {
    pub variable: String,
    /// Number of the series among the series with this name.
    pub series: u32,
    /// The key up to which the rows were read; `None` if the page ends before the first row.
    pub after: Option<RowKey>,
    /// Data from previous pages that the next page needs, such as an incomplete bucket.
    pub state: Vec<u8>,
}

/// A page of a history, ordered by the names of the variables, and by time within a variable.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct HistoryPage {
    pub series: Vec<HistorySeries>,
    /// Start of the next page; `None` if this is the last page.
    pub next: Option<HistoryCursor>,
    /// The place where the history is stored and any problem of the store, in a sentence.
    pub state: String,
    /// Epoch of the engine that sent the page; 0 in the engine itself.
    pub epoch: u64,
}

/// The part of a page that belongs to one variable and type.
#[derive(Clone, PartialEq, Debug)]
pub struct HistorySeries {
    pub variable: String,
    /// The type of the values. A variable that was deployed with several types has one series for
    /// each type.
    pub data_type: DataType,
    pub units: String,
    pub data: SeriesData,
}

#[derive(Clone, PartialEq, Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "a page has one per series, and the rows are much larger"
)]
pub enum SeriesData {
    Rows(Rows),
    Buckets {
        /// Width of each bucket in nanoseconds.
        width: u64,
        buckets: Vec<Bucket>,
    },
}

impl SeriesData {
    /// Returns the number of rows, events and buckets.
    pub fn len(&self) -> usize {
        match self {
            Self::Rows(rows) => rows.len() + rows.events().len(),
            Self::Buckets { buckets, .. } => buckets.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Statistics of the rows in one interval of time. The numbers are those of good and uncertain
/// values. An answer omits buckets that [are empty](Self::is_empty).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bucket {
    /// The start of the bucket, in nanoseconds since 1970-01-01 UTC.
    pub start: i64,
    /// Number of rows that are not bad.
    pub count: u64,
    /// Number of rows whose quality is bad or whose number is NaN.
    pub bad: u64,
    /// Number of updates that are known to be missing.
    pub lost: u64,
    /// The first and the last number; NaN if there is none.
    pub first: f64,
    pub last: f64,
    pub min: f64,
    pub max: f64,
    /// The sum of the numbers; divided by `count`, it is their mean.
    pub sum: f64,
    /// Time in nanoseconds for which the value was known and not bad: from each such row to the next
    /// row or event. 0 unless the query asks for durations.
    pub covered: u64,
    /// Mean of the values over the covered time, each weighted with the time for which it held. 0 if
    /// no time is covered; NaN if the values are not numbers.
    pub time_mean: f64,
}

impl Bucket {
    pub fn new(start: i64) -> Self {
        Self {
            start,
            count: 0,
            bad: 0,
            lost: 0,
            first: f64::NAN,
            last: f64::NAN,
            min: f64::NAN,
            max: f64::NAN,
            sum: 0.0,
            covered: 0,
            time_mean: 0.0,
        }
    }

    /// Returns true if the bucket has no rows, no missing updates and no covered time.
    pub fn is_empty(&self) -> bool {
        self.count == 0 && self.bad == 0 && self.lost == 0 && self.covered == 0
    }

    /// Adds a value that held for `time` nanoseconds, or the mean of several such values. `value` is
    /// NaN if it is not a number.
    pub fn hold(&mut self, value: f64, time: u64) {
        if time == 0 {
            return;
        }
        if self.covered == 0 {
            self.time_mean = value;
        } else {
            // A running mean cannot overflow for large values, unlike a sum of products.
            let share = time as f64 / (self.covered as f64 + time as f64);
            let difference = value - self.time_mean;
            self.time_mean = match difference.is_finite() {
                true => self.time_mean + difference * share,
                false => self.time_mean * (1.0 - share) + value * share,
            };
        }
        self.covered = self.covered.saturating_add(time);
    }

    /// Counts a value that is neither bad nor a number.
    pub fn add_other(&mut self) {
        self.count += 1;
        self.sum = f64::NAN;
    }

    /// Adds a number that is not bad; NaN counts as bad. Numbers must be added in the order of time.
    #[inline]
    pub fn add(&mut self, number: f64) {
        if number.is_nan() {
            self.bad += 1;
            return;
        }
        if self.count == 0 {
            self.first = number;
            self.min = number;
            self.max = number;
        }
        self.min = self.min.min(number);
        self.max = self.max.max(number);
        self.last = number;
        self.sum += number;
        self.count += 1;
    }

    /// Adds a later part of the same bucket.
    pub fn join(&mut self, later: &Bucket) {
        self.bad += later.bad;
        self.lost += later.lost;
        self.hold(later.time_mean, later.covered);
        if later.count == 0 {
            return;
        }
        if self.count == 0 {
            self.first = later.first;
            self.min = later.min;
            self.max = later.max;
        }
        self.min = self.min.min(later.min);
        self.max = self.max.max(later.max);
        self.last = later.last;
        self.sum += later.sum;
        self.count += later.count;
    }

    /// Returns the mean of the numbers; NaN if there are none.
    pub fn mean(&self) -> f64 {
        self.sum / self.count as f64
    }
}

impl HistoryForm {
    /// Returns the width of the buckets over this period, if the query requests buckets.
    pub fn width(self, since: i64, until: i64) -> Option<u64> {
        match self {
            Self::Rows | Self::Last | Self::Total | Self::Interpolated(_) | Self::Stepped(_) => {
                None
            }
            Self::Buckets(width) => Some(width.get()),
            Self::Points(points) => {
                // The first bucket may begin before the period.
                let buckets_max = u64::from(points.clamp(2, POINTS_MAX)) - 1;
                let span = until.saturating_sub(since).max(1) as u64;
                Some(span.div_ceil(buckets_max).next_power_of_two())
            }
        }
    }
}

/// Either a row of a series, in the form in which a live subscriber would have received it, or an
/// event.
#[derive(Clone, PartialEq, Debug)]
pub enum HistoryItem {
    Reading(Reading),
    Event {
        when: Timestamp,
        event: HistoryEvent,
    },
}

impl HistorySeries {
    /// Returns the rows and events in their order; returns nothing if the series has buckets. Missing
    /// updates are also counted in `lost` of the next reading.
    pub fn items(&self) -> impl Iterator<Item = HistoryItem> + '_ {
        let none = || (0..0, [].iter());
        let (range, marks) = match &self.data {
            SeriesData::Rows(rows) => (0..rows.len(), rows.events().iter()),
            SeriesData::Buckets { .. } => none(),
        };
        let (mut range, mut marks) = (range.peekable(), marks.peekable());
        let mut lost = Lost::NONE;
        std::iter::from_fn(move || {
            let SeriesData::Rows(rows) = &self.data else {
                return None;
            };
            let key = range.peek().and_then(|row| rows.key(*row));
            let precedes_row = |mark: &&HistoryEventRow| key.is_none_or(|key| mark.key < key);
            if let Some(mark) = marks.next_if(precedes_row) {
                lost.note(mark.event);
                return Some(HistoryItem::Event {
                    when: Timestamp::from_nanos(mark.key.time),
                    event: mark.event,
                });
            }
            let row = range.next()?;
            let lost = std::mem::replace(&mut lost, Lost::NONE);
            rows.with_row(row, |row| {
                HistoryItem::Reading(row.reading(&self.data_type, lost))
            })
        })
    }
}

impl HistorySeries {
    /// Returns the updates lost after the last row; `None` if the series has buckets.
    pub fn lost_after_last(&self) -> Option<Lost> {
        let SeriesData::Rows(rows) = &self.data else {
            return None;
        };
        let last = rows.len().checked_sub(1).and_then(|row| rows.key(row));
        let mut lost = Lost::NONE;
        for mark in rows.events() {
            if last.is_none_or(|last| mark.key > last) {
                lost.note(mark.event);
            }
        }
        Some(lost)
    }
}

impl Lost {
    /// Adds the missing updates that an event of a recording reports.
    fn note(&mut self, event: HistoryEvent) {
        match event {
            HistoryEvent::Lost(Some(count)) => self.overrun = self.overrun.saturating_add(count),
            HistoryEvent::Lost(None) | HistoryEvent::Interrupted => self.unknown = true,
            HistoryEvent::Started
            | HistoryEvent::Added
            | HistoryEvent::Stopped
            | HistoryEvent::Retired
            | HistoryEvent::Other(_) => {}
        }
    }
}

impl Row<'_> {
    /// Converts the row to a reading. The reading has no value if the value was not recorded.
    fn reading(&self, data_type: &DataType, lost: Lost) -> Reading {
        let value = wire::decode_exact(data_type, self.value).ok();
        let quality = match value {
            Some(_) => self.quality,
            None => self.quality.without_value(),
        };
        Reading {
            sample: Sample {
                value: value.unwrap_or_else(|| Value::default_of(data_type)),
                source_timestamp: Timestamp::from_nanos(self.key.time),
                engine_timestamp: Timestamp::from_nanos(self.key.time.saturating_add(self.delay)),
                quality,
            },
            position: Position {
                epoch: self.key.epoch,
                sequence: self.key.sequence,
            },
            lost,
            stale: None,
            own: false,
        }
    }
}
