//! Exceptions for the faults of an engine and the errors of a client. The classes are defined in
//! `trunkline._errors`.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyModule};
use trunkline::proto::{Fault, FaultCode};
use trunkline::stream::{JournalError, StreamError, StreamFault};
use trunkline::{CallError, ConnectError};

static CLASSES: PyOnceLock<Py<PyModule>> = PyOnceLock::new();

/// Creates an exception of the class `class`. A remedy after `; ` in the sentence becomes its hint.
pub(crate) fn new(
    py: Python<'_>,
    class: &str,
    code: &str,
    sentence: &str,
    name: Option<&str>,
) -> PyErr {
    match instance(py, class, code, sentence, name) {
        Ok(error) => PyErr::from_value(error),
        Err(error) => error,
    }
}

fn instance<'py>(
    py: Python<'py>,
    class: &str,
    code: &str,
    sentence: &str,
    name: Option<&str>,
) -> PyResult<Bound<'py, PyAny>> {
    let module = CLASSES.get_or_try_init(py, || {
        Ok::<_, PyErr>(PyModule::import(py, "trunkline._errors")?.unbind())
    })?;
    let (message, hint) = match sentence.split_once("; ") {
        Some((message, hint)) => (message, Some(hint)),
        None => (sentence, None),
    };
    let named = PyDict::new(py);
    named.set_item("code", code)?;
    named.set_item("hint", hint)?;
    named.set_item("name", name)?;
    module
        .bind(py)
        .getattr(class)?
        .call((message,), Some(&named))
}

/// Returns the exception for a fault, about the variable `name` if there is one.
pub(crate) fn of_fault(py: Python<'_>, fault: &Fault, name: Option<&str>) -> PyErr {
    new(
        py,
        class_of(fault.code),
        fault.code.name(),
        &fault.sentence,
        name,
    )
}

/// Returns the exception for a write whose outcome is not known.
pub(crate) fn of_unknown_outcome(py: Python<'_>, fault: &Fault, name: &str) -> PyErr {
    new(
        py,
        "OutcomeUnknown",
        fault.code.name(),
        &fault.sentence,
        Some(name),
    )
}

/// Returns the exception for a call without an answer.
pub(crate) fn of_call(py: Python<'_>, error: &CallError) -> PyErr {
    let class = match error {
        CallError::Fault(fault) => return of_fault(py, fault, None),
        CallError::NotConnected { .. } => ("Disconnected", "not-connected"),
        CallError::TimedOut { .. } => ("TimedOut", "timed-out"),
        CallError::Request(_) | CallError::Subscribe(_) | CallError::Write(_) => {
            ("Error", "bad-request")
        }
        _ => ("Error", "internal"),
    };
    new(py, class.0, class.1, &error.to_string(), None)
}

/// Returns the exception for a connection that cannot be started.
pub(crate) fn of_connect(py: Python<'_>, error: &ConnectError) -> PyErr {
    new(
        py,
        "Disconnected",
        "not-connected",
        &error.to_string(),
        None,
    )
}

/// Returns the exception for an endpoint of a stream, `name`.
pub(crate) fn of_stream(py: Python<'_>, error: &StreamError, name: &str) -> PyErr {
    use StreamError as E;
    let (class, code) = match error {
        E::Url(_) => ("Error", "bad-name"),
        E::RemoteHost { .. } => ("Error", "not-here"),
        E::Capacity { .. } | E::TooMany { .. } => ("Error", "capacity"),
        E::TooLong { .. } => ("Error", "too-long"),
        E::NoDirectory { .. } => ("Disconnected", "no-directory"),
        E::NoPeer { .. } => ("TimedOut", "no-peer"),
        E::Timeout { .. } => ("TimedOut", "timed-out"),
        E::NotEncrypted { .. } => ("Denied", "not-encrypted"),
        E::SharedPort { .. } => ("Error", "shared-port"),
        E::Refused { code, .. } | E::Fault(StreamFault::Refused { code, .. }) => {
            (class_of(*code), code.name())
        }
        E::Lost { .. } => ("Gap", "lost"),
        E::Ended => ("Ended", "ended"),
        E::Aborted { .. } => ("Gap", "aborted"),
        E::Fault(StreamFault::PeerDestroyed { .. }) => ("Closed", "peer-destroyed"),
        E::Fault(StreamFault::DataLost { .. }) => ("Gap", "data-lost"),
        E::Fault(StreamFault::PeerRestarted) => ("Gap", "peer-restarted"),
        E::Fault(StreamFault::PeerGone { .. }) => ("Gap", "peer-gone"),
        E::Fault(StreamFault::PeerExcluded) => ("Gap", "peer-excluded"),
        E::Fault(StreamFault::VersionMismatch(_)) => ("Error", "version-mismatch"),
        E::Journal(JournalError::Damaged { .. }) => ("Gap", "journal-damaged"),
        E::Journal(_) | E::NoJournal => ("Error", "journal"),
        E::Type { .. } | E::Element(_) => ("Error", "type"),
        E::Closed => ("Closed", "closed"),
        _ => ("Error", "failed"),
    };
    let mut sentence = error.to_string();
    if let E::NoPeer { last: None, .. } = error {
        sentence.push_str(
            "; create the other end of the stream: one of the two ends must name the other one",
        );
    }
    new(py, class, code, &sentence, Some(name))
}

/// Returns the name of the class for a fault.
fn class_of(code: FaultCode) -> &'static str {
    use FaultCode as F;
    match code {
        F::UnknownName | F::Gone | F::UnknownLibrary | F::UnknownField | F::UnknownEndpoint => {
            "NotFound"
        }
        F::Denied | F::NotAuthenticated | F::RightsChanged | F::BadTicket => "Denied",
        F::NotReadable
        | F::NotWritable
        | F::WrongType
        | F::OutOfRange
        | F::InvalidValue
        | F::LibraryStopped
        | F::Late
        | F::ProviderGone
        | F::ProviderRefused
        | F::WouldBlock
        | F::Conflict
        | F::Leased
        | F::Forced
        | F::NotForced
        | F::NotItsProvider
        | F::NotGroupable
        | F::GroupRefused
        | F::SingleWriter
        | F::NotLeased
        | F::TwiceInGroup
        | F::Controlled
        | F::NotControlled
        | F::AliasUnbound => "Rejected",
        F::TimedOut => "TimedOut",
        F::ProviderUnsure => "OutcomeUnknown",
        F::Overrun => "Overrun",
        F::EpochChanged | F::StreamDataLost => "Gap",
        F::NoValue => "NoValue",
        F::ShuttingDown | F::PeerSilent | F::Overloaded | F::StreamRestarted => "Disconnected",
        F::StreamDestroyed => "Closed",
        F::BadName
        | F::BadPattern
        | F::TooLarge
        | F::LimitReached
        | F::UnknownHandle
        | F::UnknownSubscription
        | F::BadRequest
        | F::NotSupported
        | F::VersionMismatch
        | F::Malformed
        | F::Internal
        | F::LibraryExists
        | F::BadLibrary
        | F::InUse
        | F::StoreFailed
        | F::NameTaken
        | F::BadConfiguration
        | F::MemoryFull
        | F::LateRecorded
        | F::EndpointTaken
        | F::EndpointNested
        | F::StreamType
        | F::StreamDirection
        | F::StreamPeer
        | F::StreamConnected
        | F::StreamOutdated
        | F::ContextBusy
        | F::Unknown(_) => "Error",
    }
}
