//! Pages of the recorded history, as NumPy arrays.

use std::num::NonZeroU64;

use numpy::PyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use trunkline::types::history::{
    Bucket, Grid, HistoryCursor, HistoryForm, HistoryPage, HistoryQuery, Rows, SeriesData,
};
use trunkline::types::text::parse_rfc3339;
use trunkline::types::wire::decode_exact;
use trunkline::types::{DataType, Pattern, Timestamp, Value, contract};

use crate::errors;
use crate::reading::value_column;

/// The place at which a page ends.
#[pyclass(frozen)]
pub(crate) struct Cursor(HistoryCursor);

/// Builds the query of a page.
pub(crate) fn query(
    patterns: &[String],
    since_ns: Option<i64>,
    until_ns: Option<i64>,
    form: &str,
    width: u64,
    from: Option<&Bound<'_, Cursor>>,
) -> PyResult<HistoryQuery> {
    let invalid = |error: &dyn std::fmt::Display| PyValueError::new_err(error.to_string());
    let width_ns = NonZeroU64::new(width);
    let points = u32::try_from(width).map_err(|error| invalid(&error))?;
    Ok(HistoryQuery {
        patterns: patterns
            .iter()
            .map(|pattern| Pattern::parse(pattern).map_err(|error| invalid(&error)))
            .collect::<PyResult<_>>()?,
        since: since_ns.map(Timestamp::from_nanos),
        until: until_ns.map(Timestamp::from_nanos),
        form: match (form, width_ns) {
            ("rows", _) => HistoryForm::Rows,
            ("last", _) => HistoryForm::Last,
            ("total", _) => HistoryForm::Total,
            ("points", Some(_)) => HistoryForm::Points(points),
            ("buckets", Some(width)) => HistoryForm::Buckets(width),
            ("interpolated", width) => HistoryForm::Interpolated(Grid(width)),
            ("stepped", width) => HistoryForm::Stepped(Grid(width)),
            _ => {
                return Err(PyValueError::new_err(
                    "the width of the buckets must not be 0",
                ));
            }
        },
        durations: matches!(form, "points" | "buckets" | "total"),
        from: from.map(|cursor| cursor.get().0.clone()),
        ..HistoryQuery::default()
    })
}

/// Converts a page: `(series, next)`. Each series is a dictionary of its variable and its columns.
pub(crate) fn page(py: Python<'_>, page: &HistoryPage) -> PyResult<Py<PyAny>> {
    let all = PyList::empty(py);
    for one in &page.series {
        let series = PyDict::new(py);
        series.set_item("name", &one.variable)?;
        series.set_item("data_type", one.data_type.to_string())?;
        series.set_item("units", &one.units)?;
        match &one.data {
            SeriesData::Rows(rows) => add_rows(py, &series, rows, &one.data_type)?,
            SeriesData::Buckets { buckets, .. } => add_buckets(py, &series, buckets)?,
        }
        all.append(series)?;
    }
    let next = page.next.clone().map(Cursor);
    Ok((all, next).into_pyobject(py)?.into_any().unbind())
}

fn add_rows(
    py: Python<'_>,
    series: &Bound<'_, PyDict>,
    rows: &Rows,
    data_type: &DataType,
) -> PyResult<()> {
    let count = rows.len();
    let mut values: Vec<Value> = Vec::with_capacity(count);
    let (mut times, mut epochs, mut sequences, mut qualities) = (
        Vec::with_capacity(count),
        Vec::new(),
        Vec::new(),
        Vec::new(),
    );
    let mut broken = None;
    rows.visit(0..count, |row| {
        times.push(row.key.time);
        epochs.push(row.key.epoch);
        sequences.push(row.key.sequence);
        qualities.push(row.quality.to_bits());
        match decode_exact(data_type, row.value) {
            Ok(value) => values.push(value),
            // An array whose value was not recorded.
            Err(_) if row.value.is_empty() => values.push(Value::Bool(false)),
            Err(error) => broken = Some(error.to_string()),
        }
    });
    if let Some(error) = broken {
        return Err(errors::new(py, "Error", "malformed", &error, None));
    }
    let references: Vec<&Value> = values.iter().collect();
    series.set_item("ts_ns", PyArray1::from_vec(py, times))?;
    series.set_item("value", value_column(py, &references, |_| data_type)?)?;
    series.set_item("quality_bits", PyArray1::from_vec(py, qualities))?;
    series.set_item("epoch", PyArray1::from_vec(py, epochs))?;
    series.set_item("seq", PyArray1::from_vec(py, sequences))?;
    let events = PyList::empty(py);
    for one in rows.events() {
        let (_, lost) = one.event.parts();
        events.append((one.key.time, one.event.name(), lost))?;
    }
    series.set_item("events", events)
}

fn add_buckets(py: Python<'_>, series: &Bound<'_, PyDict>, buckets: &[Bucket]) -> PyResult<()> {
    let numbers = |of: fn(&Bucket) -> f64| {
        let column: Vec<f64> = buckets.iter().map(of).collect();
        PyArray1::from_vec(py, column)
    };
    let counts = |of: fn(&Bucket) -> u64| {
        let column: Vec<u64> = buckets.iter().map(of).collect();
        PyArray1::from_vec(py, column)
    };
    let starts: Vec<i64> = buckets.iter().map(|bucket| bucket.start).collect();
    series.set_item("ts_ns", PyArray1::from_vec(py, starts))?;
    series.set_item("count", counts(|bucket| bucket.count))?;
    series.set_item("bad", counts(|bucket| bucket.bad))?;
    series.set_item("lost", counts(|bucket| bucket.lost))?;
    series.set_item("first", numbers(|bucket| bucket.first))?;
    series.set_item("last", numbers(|bucket| bucket.last))?;
    series.set_item("min", numbers(|bucket| bucket.min))?;
    series.set_item("max", numbers(|bucket| bucket.max))?;
    series.set_item("mean", numbers(|bucket| bucket.sum / bucket.count as f64))?;
    series.set_item("time_mean", numbers(|bucket| bucket.time_mean))
}

/// Reads a time as users write it: RFC 3339, or a duration such as `-1h` before `now_ns`. Returns
/// nanoseconds since 1970 UTC.
#[pyfunction]
pub(crate) fn parse_time(text: &str, now_ns: i64) -> PyResult<i64> {
    if text == "now" {
        return Ok(now_ns);
    }
    if let Some(duration) = text.strip_prefix('-').and_then(contract::parse_duration) {
        let nanos = i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
        return Ok(now_ns.saturating_sub(nanos));
    }
    match parse_rfc3339(text) {
        Ok(time) => Ok(time.as_nanos()),
        Err(error) => Err(PyValueError::new_err(format!(
            "{error}; a time is RFC 3339, such as 2026-11-20T12:00:00Z, or a duration before now, such \
             as -1h"
        ))),
    }
}
