//! Queries of recorded history.

use std::ffi::c_char;
use std::num::NonZeroU64;
use std::sync::{Mutex, PoisonError};

use libc::size_t;
use trunkline::Client;
use trunkline::types::history::{Grid, HistoryForm, HistoryItem, HistoryQuery};
use trunkline::types::{DataType, Timestamp};

use crate::arguments::{put, put_text, text, timeout};
use crate::client::{tl_client, with_client};
use crate::errors::{Failure, tl_status};
use crate::readings::{ReadingsObject, Rows, Types, tl_readings};
use crate::record::parse_patterns;
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
/// As the start of a period: from the first row. As its end: to the last row.
pub const TL_TIME_OPEN: i64 = i64::MIN;

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
}

/// Starts a query of the history of variables. Nothing is sent yet.
///
/// `patterns`, `patterns_length`: names or patterns of variables, one per line.
///
/// `since_ns`, `until_ns`: the period by source timestamps, UTC nanoseconds since 1970, the start
/// included and the end excluded; `TL_TIME_OPEN` for an open end.
///
/// `form`: one of `TL_HISTORY_...`. `interval_ns`: interval of the interpolated and stepped forms, from
/// 1; 0 for the others.
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
        let patterns = parse_patterns(unsafe { text("patterns", patterns, patterns_length)? })?;
        let grid = NonZeroU64::new(interval_ns);
        let form = match (form, grid) {
            (TL_HISTORY_ROWS, None) => HistoryForm::Rows,
            (TL_HISTORY_LAST, None) => HistoryForm::Last,
            (TL_HISTORY_INTERPOLATED, Some(_)) => HistoryForm::Interpolated(Grid(grid)),
            (TL_HISTORY_STEPPED, Some(_)) => HistoryForm::Stepped(Grid(grid)),
            _ => {
                return Err(Failure::argument(format!(
                    "the form {form} does not exist, or does not fit the interval {interval_ns}; pass an \
                     interval for the interpolated and stepped forms only"
                )));
            }
        };
        let time = |ns: i64| (ns != TL_TIME_OPEN).then(|| Timestamp::from_nanos(ns));
        let query = HistoryQuery {
            patterns,
            since: time(since_ns),
            until: time(until_ns),
            form,
            ..HistoryQuery::default()
        };
        let created = HistoryObject {
            client: object.client.clone(),
            state: Mutex::new(State {
                query: Some(query),
                series: Vec::new(),
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
        let mut rows = Vec::new();
        // A page may contain events only.
        while rows.is_empty() {
            let Some(query) = &state.query else {
                break;
            };
            let mut query = query.clone();
            query.limit = rows_max;
            let page = object.client.history(query.clone(), limit)?;
            for series in &page.series {
                let known = (series.variable.as_str(), &series.data_type);
                let is_known =
                    |(name, data_type): &(String, DataType)| (name.as_str(), data_type) == known;
                let item = state.series.iter().position(is_known).unwrap_or_else(|| {
                    state
                        .series
                        .push((series.variable.clone(), series.data_type.clone()));
                    state.series.len() - 1
                });
                rows.extend(series.items().filter_map(|row| match row {
                    HistoryItem::Reading(reading) => Some((item as u32, Ok(reading))),
                    HistoryItem::Event { .. } => None,
                }));
            }
            state.query = page.next.map(|next| HistoryQuery {
                from: Some(next),
                ..query
            });
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

/// Copies the name of a variable of a query's rows.
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
