//! Queries of recorded history.

use std::collections::VecDeque;
use std::ffi::c_char;
use std::num::NonZeroU64;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use libc::size_t;
use trunkline::Client;
use trunkline::types::history::{
    Bucket, Grid, HistoryForm, HistoryItem, HistoryPage, HistoryQuery, HistorySeries, SeriesData,
};
use trunkline::types::{DataType, Timestamp};

use crate::arguments::{patterns, put, put_text, room, text, timeout};
use crate::client::{tl_client, with_client};
use crate::errors::{Failure, tl_status};
use crate::readings::{ReadingsObject, Rows, Types, tl_readings};
use crate::{entry, handles};

/// A query of history that delivers its rows page by page.
#[allow(non_camel_case_types, reason = "C names")]
pub type tl_history = u64;

/// All recorded rows.
pub const TL_HISTORY_ROWS: i32 = 0;
/// The last row before the end of the period.
pub const TL_HISTORY_LAST: i32 = 1;
/// One row for each multiple of the interval, interpolated linearly between numbers.
pub const TL_HISTORY_INTERPOLATED: i32 = 2;
/// One row for each multiple of the interval, with the last value before it.
pub const TL_HISTORY_STEPPED: i32 = 3;
/// Buckets of the interval's width, from multiples of it since 1970: `tl_history_next_buckets`.
pub const TL_HISTORY_BUCKETS: i32 = 4;
/// At most as many buckets as the interval says, over the whole period.
pub const TL_HISTORY_POINTS: i32 = 5;
/// One bucket over the whole period.
pub const TL_HISTORY_TOTAL: i32 = 6;
/// As the start of a period: from the first row. As its end: to the last row.
pub const TL_TIME_OPEN: i64 = i64::MIN;

/// Returns a time; `None` for `TL_TIME_OPEN`.
pub(crate) fn time_of(ns: i64) -> Option<Timestamp> {
    (ns != TL_TIME_OPEN).then(|| Timestamp::from_nanos(ns))
}

/// A summary of the rows of a variable in a part of the period. Buckets without rows are left out.
#[allow(non_camel_case_types, reason = "C names")]
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct tl_bucket {
    /// Start of the bucket, UTC nanoseconds since 1970.
    pub start_ns: i64,
    /// Width of the bucket in nanoseconds.
    pub width_ns: u64,
    /// Number of rows that are not bad.
    pub count: u64,
    /// Number of rows whose quality is bad or whose number is NaN.
    pub bad: u64,
    /// Number of updates that are known to be missing.
    pub lost: u64,
    /// The first number; NaN if there is none.
    pub first: f64,
    /// The last number; NaN if there is none.
    pub last: f64,
    /// The least number; NaN if there is none.
    pub min: f64,
    /// The greatest number; NaN if there is none.
    pub max: f64,
    /// The mean of the numbers; NaN if there is none.
    pub mean: f64,
    /// Number of the variable in this query: `tl_history_item_name`.
    pub item: u32,
    /// Always 0.
    pub reserved: u32,
}

fn bucket_of(item: u32, width: u64, bucket: &Bucket) -> tl_bucket {
    tl_bucket {
        start_ns: bucket.start,
        width_ns: width,
        count: bucket.count,
        bad: bucket.bad,
        lost: bucket.lost,
        first: bucket.first,
        last: bucket.last,
        min: bucket.min,
        max: bucket.max,
        mean: match bucket.count {
            0 => f64::NAN,
            count => bucket.sum / count as f64,
        },
        item,
        reserved: 0,
    }
}

/// A query, and how far its rows were delivered.
pub(crate) struct HistoryObject {
    client: Client,
    state: Mutex<State>,
}

struct State {
    /// The next page; `None` after the last.
    query: Option<HistoryQuery>,
    /// Names and types of the series so far, by item.
    series: Vec<(String, DataType)>,
    /// Buckets that have arrived and did not fit into the caller's array.
    buckets: VecDeque<tl_bucket>,
}

impl State {
    /// Returns the number of a series in this query.
    fn item(&mut self, series: &HistorySeries) -> u32 {
        let known = (series.variable.as_str(), &series.data_type);
        let is_known = |(name, data_type): &(String, DataType)| (name.as_str(), data_type) == known;
        let item = self.series.iter().position(is_known).unwrap_or_else(|| {
            let new = (series.variable.clone(), series.data_type.clone());
            self.series.push(new);
            self.series.len() - 1
        });
        item as u32
    }

    /// Takes the next page of the query; `None` after the last.
    fn page(
        &mut self,
        client: &Client,
        limit: u32,
        timeout: Duration,
    ) -> Result<Option<HistoryPage>, Failure> {
        let Some(query) = &self.query else {
            return Ok(None);
        };
        let mut query = query.clone();
        query.limit = limit;
        let mut page = client.history(query.clone(), timeout)?;
        self.query = page.next.take().map(|next| HistoryQuery {
            from: Some(next),
            ..query
        });
        Ok(Some(page))
    }

    /// Fails if the query delivers buckets, or the other way round.
    fn check_form(&self, wants_buckets: bool) -> Result<(), Failure> {
        let form = self.query.as_ref().map(|query| query.form);
        let has_buckets = form.is_some_and(|form| {
            matches!(
                form,
                HistoryForm::Buckets(_) | HistoryForm::Points(_) | HistoryForm::Total
            )
        });
        match form.is_none() || has_buckets == wants_buckets {
            true => Ok(()),
            false if has_buckets => Err(Failure::argument(
                "this query delivers buckets; use tl_history_next_buckets",
            )),
            false => Err(Failure::argument(
                "this query delivers rows; use tl_history_next",
            )),
        }
    }
}

/// Starts a query of the history of variables. Nothing is sent yet.
///
/// `patterns`, `patterns_length`: names or patterns of variables, one per line.
///
/// `since_ns`, `until_ns`: the period by source timestamps, UTC nanoseconds since 1970, the start
/// included and the end excluded; `TL_TIME_OPEN` for an open end.
///
/// `form`: one of `TL_HISTORY_...`. `interval_ns`: interval of the interpolated and stepped forms, and
/// width of the buckets, in nanoseconds from 1; number of buckets for `TL_HISTORY_POINTS`; 0 for the
/// others.
///
/// `history`: where the handle is stored. Close it with `tl_history_close`.
///
/// Errors: `TL_FAULT_BAD_PATTERN`, `TL_ERROR_ARGUMENT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_history_open(
    client: tl_client,
    patterns: *const c_char,
    patterns_length: size_t,
    since_ns: i64,
    until_ns: i64,
    form: i32,
    interval_ns: u64,
    history: *mut tl_history,
) -> tl_status {
    with_client(client, |object| {
        // SAFETY: the caller passes a text, as documented.
        let patterns = self::patterns(unsafe { text("patterns", patterns, patterns_length)? })?;
        let grid = NonZeroU64::new(interval_ns);
        let form = match (form, grid) {
            (TL_HISTORY_ROWS, None) => HistoryForm::Rows,
            (TL_HISTORY_LAST, None) => HistoryForm::Last,
            (TL_HISTORY_INTERPOLATED, Some(_)) => HistoryForm::Interpolated(Grid(grid)),
            (TL_HISTORY_STEPPED, Some(_)) => HistoryForm::Stepped(Grid(grid)),
            (TL_HISTORY_BUCKETS, Some(width)) => HistoryForm::Buckets(width),
            (TL_HISTORY_POINTS, Some(count)) if u32::try_from(count.get()).is_ok() => {
                HistoryForm::Points(count.get() as u32)
            }
            (TL_HISTORY_TOTAL, None) => HistoryForm::Total,
            _ => {
                return Err(Failure::argument(format!(
                    "the form {form} does not exist, or does not fit the interval {interval_ns}; pass an \
                     interval for the interpolated and stepped forms and for buckets only"
                )));
            }
        };
        let query = HistoryQuery {
            patterns,
            since: time_of(since_ns),
            until: time_of(until_ns),
            form,
            ..HistoryQuery::default()
        };
        let created = HistoryObject {
            client: object.client.clone(),
            state: Mutex::new(State {
                query: Some(query),
                series: Vec::new(),
                buckets: VecDeque::new(),
            }),
        };
        // SAFETY: the caller passes a place for a handle or NULL.
        unsafe { put("history", history, handles::add(created)?) }
    })
}

/// Replaces the contents of `readings` with the next rows, ordered by variable and then by time. The
/// `item` of a reading is the number of its variable in this query: `tl_history_item_name`.
///
/// `rows_max`: maximum number of rows; 0 leaves it to the engine.
///
/// `count`: where the number of rows is stored; 0 at the end of the query.
///
/// Errors: the engine records no history, or cannot read it; `TL_ERROR_TIMEOUT`;
/// `TL_ERROR_NOT_CONNECTED`. After an error, the next call tries the same rows again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_history_next(
    history: tl_history,
    readings: tl_readings,
    rows_max: u32,
    timeout_ms: i32,
    count: *mut size_t,
) -> tl_status {
    entry(|| {
        let object = handles::find::<HistoryObject>(history)?;
        let readings = handles::find::<ReadingsObject>(readings)?;
        let limit = timeout(timeout_ms)?;
        // SAFETY: the caller passes a place for a count or NULL.
        unsafe { put("count", count, 0)? };
        let mut contents = readings.lock()?;
        let mut state = object.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.check_form(false)?;
        let mut rows = Vec::new();
        // A page may contain events only.
        while rows.is_empty()
            && let Some(page) = state.page(&object.client, rows_max, limit)?
        {
            for series in &page.series {
                let item = state.item(series);
                rows.extend(series.items().filter_map(|row| match row {
                    HistoryItem::Reading(reading) => Some((item, Ok(reading))),
                    HistoryItem::Event { .. } => None,
                }));
            }
        }
        contents.types = Types::Listed(
            state
                .series
                .iter()
                .map(|(_, ty)| Some(ty.clone()))
                .collect(),
        );
        let taken = rows.len();
        contents.rows = Rows::Listed(rows);
        // SAFETY: the same promise.
        unsafe { put("count", count, taken) }
    })
}

/// Copies the next buckets of a query with the form `TL_HISTORY_BUCKETS`, `TL_HISTORY_POINTS` or
/// `TL_HISTORY_TOTAL`, ordered by variable and then by time.
///
/// `buckets`: room for `capacity` buckets. `capacity`: from 1.
///
/// `count`: where the number of buckets is stored; 0 at the end of the query.
///
/// Errors: as `tl_history_next`; `TL_ERROR_ARGUMENT` for a query of rows.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_history_next_buckets(
    history: tl_history,
    buckets: *mut tl_bucket,
    capacity: size_t,
    timeout_ms: i32,
    count: *mut size_t,
) -> tl_status {
    entry(|| {
        let object = handles::find::<HistoryObject>(history)?;
        let limit = timeout(timeout_ms)?;
        if capacity == 0 {
            return Err(Failure::argument("capacity is 0; pass at least 1"));
        }
        // SAFETY: the caller passes an array of `capacity` buckets and a place for a count, as
        // documented, or NULL.
        let space = unsafe {
            put("count", count, 0)?;
            room("buckets", buckets, capacity)?
        };
        let mut state = object.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.check_form(true)?;
        while state.buckets.is_empty()
            && let Some(page) = state.page(&object.client, 0, limit)?
        {
            for series in &page.series {
                let item = state.item(series);
                if let SeriesData::Buckets { width, buckets } = &series.data {
                    let new = buckets.iter().map(|bucket| bucket_of(item, *width, bucket));
                    state.buckets.extend(new);
                }
            }
        }
        let taken = state.buckets.len().min(capacity);
        for (place, bucket) in space.iter_mut().zip(state.buckets.drain(..taken)) {
            place.write(bucket);
        }
        // SAFETY: the same promise.
        unsafe { put("count", count, taken) }
    })
}

/// Copies the name of a variable of a query's rows or buckets.
///
/// `buffer`, `capacity`, `length`: see "Texts that the library returns".
///
/// Errors: `TL_ERROR_ARGUMENT` if no row had this item yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_history_item_name(
    history: tl_history,
    item: u32,
    buffer: *mut c_char,
    capacity: size_t,
    length: *mut size_t,
) -> tl_status {
    entry(|| {
        let object = handles::find::<HistoryObject>(history)?;
        let state = object.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (name, _) = state.series.get(item as usize).ok_or_else(|| {
            Failure::argument(format!("no row of this query had the item {item} yet"))
        })?;
        // SAFETY: the caller passes a buffer of `capacity` bytes and a length, as documented.
        unsafe { put_text(name, buffer, capacity, length) }
    })
}

/// Closes a query.
#[unsafe(no_mangle)]
pub extern "C" fn tl_history_close(history: tl_history) -> tl_status {
    entry(|| handles::remove::<HistoryObject>(history).map(drop))
}
