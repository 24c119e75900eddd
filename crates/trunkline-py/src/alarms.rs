//! Alarms: their states, and the actions of operators.

use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use trunkline::types::Pattern;
use trunkline::types::alarm::{AlarmAction, AlarmState, AlarmStatus};
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
