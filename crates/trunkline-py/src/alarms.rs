//! Alarms: their states, the actions of operators, and the journal.

use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use trunkline::types::alarm::{
    AlarmAction, AlarmJournalPage, AlarmJournalQuery, AlarmState, AlarmStatus,
};
use trunkline::types::{Pattern, Timestamp};
use trunkline::{AlarmName, AlarmQuery};

use crate::call::duration;
use crate::errors;

/// Builds a query.
pub(crate) fn query(
    pattern: Option<&str>,
    area: &str,
    priority_min: u16,
    states: &[String],
) -> PyResult<AlarmQuery> {
    let pattern = pattern.map(Pattern::parse).transpose();
    let states = states.iter().map(|name| {
        AlarmState::from_name(name).ok_or_else(|| {
            let names: Vec<&str> = AlarmState::ALL.iter().map(|state| state.name()).collect();
            PyValueError::new_err(format!(
                "{name:?} is no state; the states are {}",
                names.join(", ")
            ))
        })
    });
    Ok(AlarmQuery {
        pattern: pattern.map_err(|error| PyValueError::new_err(error.to_string()))?,
        area: area.to_owned(),
        priority_min,
        states: states.collect::<PyResult<_>>()?,
    })
}

/// Converts alarms to dictionaries.
pub(crate) fn statuses(py: Python<'_>, alarms: &[AlarmStatus]) -> PyResult<Py<PyAny>> {
    let all = PyList::empty(py);
    for alarm in alarms {
        let one = PyDict::new(py);
        let (definition, record) = (&alarm.definition, &alarm.record);
        let nanos = |time: Option<trunkline::types::Timestamp>| time.map(|time| time.as_nanos());
        one.set_item("variable", &alarm.variable)?;
        one.set_item("alarm", &definition.name)?;
        one.set_item("state", record.state.name())?;
        one.set_item("is_active", record.is_active)?;
        one.set_item("priority", definition.priority)?;
        one.set_item("area", &definition.area)?;
        one.set_item("value", record.value)?;
        one.set_item("limit", alarm.operand)?;
        one.set_item("raised_ns", nanos(record.raised))?;
        one.set_item("cleared_ns", nanos(record.cleared))?;
        one.set_item("acknowledged_ns", nanos(record.acknowledged))?;
        one.set_item("acknowledged_by", &record.acknowledged_by)?;
        one.set_item("comment", &record.comment)?;
        one.set_item("shelved_until_ns", nanos(record.shelved_until))?;
        one.set_item("description", &definition.description)?;
        one.set_item("help", &definition.help)?;
        all.append(one)?;
    }
    Ok(all.into_any().unbind())
}

/// Builds the query of a page of the journal, which begins with the entry `from`.
#[expect(
    clippy::too_many_arguments,
    reason = "they are the arguments of Python"
)]
pub(crate) fn journal_query(
    pattern: Option<&str>,
    area: &str,
    priority_min: u16,
    states: &[String],
    since_ns: Option<i64>,
    until_ns: Option<i64>,
    newest_first: bool,
    limit: u32,
    from: Option<u64>,
) -> PyResult<AlarmJournalQuery> {
    let of = query(pattern, area, priority_min, states)?;
    Ok(AlarmJournalQuery {
        from,
        since: since_ns.map(Timestamp::from_nanos),
        until: until_ns.map(Timestamp::from_nanos),
        pattern: of.pattern,
        area: of.area,
        priority_min: of.priority_min,
        states: of.states,
        newest_first,
        limit,
        ..AlarmJournalQuery::default()
    })
}

/// Converts a page of the journal to `(entries, next)`: a dictionary for each entry, and the first entry of the
/// next page.
pub(crate) fn journal_page(py: Python<'_>, page: &AlarmJournalPage) -> PyResult<Py<PyAny>> {
    let all = PyList::empty(py);
    for entry in &page.entries {
        let one = PyDict::new(py);
        let (_, missing) = entry.event.parts();
        one.set_item("number", entry.number)?;
        one.set_item("ts_ns", entry.when.as_nanos())?;
        one.set_item("event", entry.event.name())?;
        one.set_item("variable", &entry.variable)?;
        one.set_item("alarm", &entry.alarm)?;
        one.set_item("before", entry.from.name())?;
        one.set_item("state", entry.record.state.name())?;
        one.set_item("is_active", entry.record.is_active)?;
        one.set_item("priority", entry.priority)?;
        one.set_item("area", &entry.area)?;
        one.set_item("who", &entry.who)?;
        one.set_item("comment", &entry.comment)?;
        one.set_item("value", entry.record.value)?;
        one.set_item("limit", entry.record.operand)?;
        one.set_item("description", &entry.description)?;
        one.set_item("missing", missing)?;
        all.append(one)?;
    }
    Ok((all, page.next).into_pyobject(py)?.into_any().unbind())
}

/// Returns the action with this name.
pub(crate) fn action(name: &str, seconds: f64) -> PyResult<AlarmAction> {
    let shelved = duration(seconds);
    Ok(match name {
        "acknowledge" => AlarmAction::Acknowledge,
        "reset" => AlarmAction::Reset,
        "shelve" if shelved > Duration::ZERO => AlarmAction::Shelve(shelved),
        "unshelve" => AlarmAction::Unshelve,
        "take-out-of-service" => AlarmAction::TakeOutOfService,
        "return-to-service" => AlarmAction::ReturnToService,
        other => {
            return Err(PyValueError::new_err(format!(
                "there is no action {other:?}"
            )));
        }
    })
}

/// Returns the names of alarms.
pub(crate) fn names(alarms: Vec<(String, String)>) -> Vec<AlarmName> {
    let named = alarms.into_iter();
    named
        .map(|(variable, alarm)| AlarmName { variable, alarm })
        .collect()
}

/// Converts the result of an action for each alarm: the name of its new state, or an exception.
pub(crate) fn results(
    py: Python<'_>,
    alarms: &[(String, String)],
    results: Vec<Result<AlarmState, trunkline::proto::Fault>>,
) -> PyResult<Py<PyAny>> {
    let all = PyList::empty(py);
    for ((variable, alarm), result) in alarms.iter().zip(results) {
        match result {
            Ok(state) => all.append(state.name())?,
            Err(fault) => {
                all.append(errors::of_fault(
                    py,
                    &fault,
                    Some(&format!("{variable}#{alarm}")),
                ))?;
            }
        }
    }
    Ok(all.into_any().unbind())
}
