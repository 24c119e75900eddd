//! Entries of the audit trail.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use trunkline::types::audit::{AuditEntry, AuditOutcome, AuditPage, AuditQuery};
use trunkline::types::{Pattern, Timestamp};

/// Builds the query of a page, which begins with the entry `from`.
pub(crate) fn query(
    pattern: Option<&str>,
    since_ns: Option<i64>,
    who: Option<String>,
    newest_first: bool,
    limit: u32,
    from: Option<u64>,
) -> PyResult<AuditQuery> {
    let pattern = pattern.map(Pattern::parse).transpose();
    Ok(AuditQuery {
        from,
        since: since_ns.map(Timestamp::from_nanos),
        pattern: pattern.map_err(|error| PyValueError::new_err(error.to_string()))?,
        who,
        newest_first,
        limit,
        ..AuditQuery::default()
    })
}

/// Converts a page to `(entries, next)`: a dictionary for each entry, and the first entry of the next page.
pub(crate) fn page(py: Python<'_>, page: &AuditPage) -> PyResult<Py<PyAny>> {
    let all = PyList::empty(py);
    for entry in &page.entries {
        all.append(dictionary(py, entry)?)?;
    }
    Ok((all, page.next).into_pyobject(py)?.into_any().unbind())
}

fn dictionary<'py>(py: Python<'py>, entry: &AuditEntry) -> PyResult<Bound<'py, PyDict>> {
    let one = PyDict::new(py);
    one.set_item("number", entry.number)?;
    one.set_item("ts_ns", entry.when.as_nanos())?;
    one.set_item("who", &entry.who)?;
    one.set_item("origin", &entry.from)?;
    one.set_item("action", entry.action.to_string())?;
    one.set_item("name", &entry.name)?;
    one.set_item("data_type", &entry.data_type)?;
    one.set_item("old", &entry.old)?;
    one.set_item("new", &entry.new)?;
    one.set_item("outcome", entry.outcome.name())?;
    let (message, position) = match &entry.outcome {
        AuditOutcome::Done => (String::new(), None),
        AuditOutcome::Applied(at) | AuditOutcome::Unchanged(at) => (String::new(), Some(at)),
        AuditOutcome::Refused(rule) => (rule.clone(), None),
        AuditOutcome::Unknown(cause) => (cause.clone(), None),
        AuditOutcome::Lost(count) => (format!("{count} entries are missing here"), None),
    };
    one.set_item("message", message)?;
    one.set_item("epoch", position.map(|at| at.epoch))?;
    one.set_item("seq", position.map(|at| at.sequence))?;
    let hash = |of: trunkline::types::audit::AuditHash| of.to_string();
    one.set_item("previous", entry.link.map(|link| hash(link.previous)))?;
    one.set_item("hash", entry.link.map(|link| hash(link.hash)))?;
    Ok(one)
}
