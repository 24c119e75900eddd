//! Control of folders.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use trunkline::ControlList;
use trunkline::types::control::{ControlEntry, ControlHolder, ControlLevel, ControlTerms};

use crate::call::duration;

/// Builds terms from the name of a level. Without `seconds`, control ends with the connection.
pub(crate) fn terms(
    level: &str,
    only_this_program: bool,
    seconds: Option<f64>,
) -> PyResult<ControlTerms> {
    let known = ControlLevel::ALL.iter().find(|one| one.name() == level);
    Ok(ControlTerms {
        level: *known.ok_or_else(|| {
            PyValueError::new_err(format!(
                "{level:?} is no level of control; it is operator or supervisor"
            ))
        })?,
        holder: match only_this_program {
            true => ControlHolder::Session,
            false => ControlHolder::Identity,
        },
        duration: seconds.map(duration),
    })
}

/// Converts a token or a request to a dictionary.
pub(crate) fn entry(py: Python<'_>, entry: &ControlEntry) -> PyResult<Py<PyAny>> {
    let one = PyDict::new(py);
    one.set_item("number", entry.number)?;
    one.set_item("folder", entry.folder.as_str())?;
    one.set_item("is_waiting", entry.is_waiting)?;
    one.set_item("level", entry.level.name())?;
    let only_this_program = entry.holder == ControlHolder::Session;
    one.set_item("only_one_program", only_this_program)?;
    one.set_item("by", &entry.by)?;
    one.set_item("since_ns", entry.since.as_nanos())?;
    one.set_item("left", entry.left.map(|left| left.as_secs_f64()))?;
    one.set_item("is_own", entry.is_own)?;
    Ok(one.into_any().unbind())
}

/// Converts a list to `(revision, entries)`.
pub(crate) fn list(py: Python<'_>, list: &ControlList) -> PyResult<Py<PyAny>> {
    let all = PyList::empty(py);
    for one in &list.entries {
        all.append(entry(py, one)?)?;
    }
    Ok((list.revision, all).into_pyobject(py)?.into_any().unbind())
}
