//! Status codes, and the message of the last error of each thread.

use std::cell::RefCell;
use std::ffi::c_char;
use std::panic::catch_unwind;

use libc::size_t;
use trunkline::proto::{Disconnect, Fault};
use trunkline::types::FaultCode;
use trunkline::{
    CallError, ConnectError, LibraryError, OnChangeError, QueuedProviderError, RequestError,
    StartError, SubscribeError, WriteError,
};

use crate::arguments::put_text;
use crate::entry;

/// The result of a function: `TL_OK`, or the reason why it did not do its work. Positive numbers are
/// faults that an engine or a peer reports; their numbers are those of the network protocol. Negative
/// numbers are errors of this library and of its caller. `tl_last_error_message` has the sentence.
#[allow(non_camel_case_types, reason = "C names")]
pub type tl_status = i32;

/// The function did its work.
pub const TL_OK: tl_status = 0;
/// A pointer that is needed is NULL, or a handle is 0. The caller is at fault.
pub const TL_ERROR_NULL: tl_status = -1;
/// The handle was closed, or never existed. The caller is at fault.
pub const TL_ERROR_HANDLE: tl_status = -2;
/// The handle is one of another kind of object, such as a client instead of a subscription.
pub const TL_ERROR_HANDLE_KIND: tl_status = -3;
/// The caller's buffer is too short. The function has stored the length that it needs.
pub const TL_ERROR_SHORT_BUFFER: tl_status = -4;
/// Nothing arrived within the timeout. The program may call again.
pub const TL_ERROR_TIMEOUT: tl_status = -5;
/// There is no connection to the engine; the message has the cause. The client keeps trying.
pub const TL_ERROR_NOT_CONNECTED: tl_status = -6;
/// The object, or the client to which it belongs, was closed, also during the call.
pub const TL_ERROR_CLOSED: tl_status = -7;
/// A text is not valid UTF-8. The caller is at fault.
pub const TL_ERROR_TEXT: tl_status = -8;
/// An argument is outside its range; the message names it. The caller is at fault.
pub const TL_ERROR_ARGUMENT: tl_status = -9;
/// A text that describes something has an error: a URL, a configuration, a type, a contract, a
/// pattern. The message names the place.
pub const TL_ERROR_SYNTAX: tl_status = -10;
/// It is unknown whether the write was carried out. Read the variable before writing again.
pub const TL_ERROR_UNKNOWN_OUTCOME: tl_status = -11;
/// The write was not sent, and never will be.
pub const TL_ERROR_NOT_SENT: tl_status = -12;
/// A newer write of the same variable replaced this one before it was sent.
pub const TL_ERROR_SUPERSEDED: tl_status = -13;
/// Another thread uses the object, and only one at a time can.
pub const TL_ERROR_BUSY: tl_status = -14;
/// The operating system refused a file, socket, thread or memory; the message has its reason.
pub const TL_ERROR_SYSTEM: tl_status = -15;
/// A limit of this client is reached; the message names it.
pub const TL_ERROR_LIMIT: tl_status = -16;
/// The stream has ended in order, and everything was read.
pub const TL_ERROR_STREAM_ENDED: tl_status = -17;
/// Elements of a stream are missing here. The next call continues after the gap.
pub const TL_ERROR_STREAM_LOST: tl_status = -18;
/// The writer of the stream stopped before the end of the stream.
pub const TL_ERROR_STREAM_ABORTED: tl_status = -19;
/// The stream is over for another reason; the message has it.
pub const TL_ERROR_STREAM_OVER: tl_status = -20;
/// The process was forked after its first handle was created. Use Trunkline in the parent, or start
/// a new program with exec.
pub const TL_ERROR_FORKED: tl_status = -21;
/// A defect of this library; report it with the message.
pub const TL_ERROR_DEFECT: tl_status = -99;

/// The reason why a function did not do its work.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: tl_status,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(status: tl_status, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
        }
    }

    pub(crate) fn argument(message: impl Into<String>) -> Self {
        Self::new(TL_ERROR_ARGUMENT, message)
    }

    pub(crate) fn syntax(error: impl ToString) -> Self {
        Self::new(TL_ERROR_SYNTAX, error.to_string())
    }

    pub(crate) fn system(error: impl ToString) -> Self {
        Self::new(TL_ERROR_SYSTEM, error.to_string())
    }

    pub(crate) fn fault(code: FaultCode, message: impl Into<String>) -> Self {
        Self::new(i32::from(code.number()), message)
    }

    pub(crate) fn timeout(message: impl Into<String>) -> Self {
        Self::new(TL_ERROR_TIMEOUT, message)
    }

    pub(crate) fn closed(what: &str) -> Self {
        Self::new(TL_ERROR_CLOSED, format!("{what} was closed"))
    }

    /// Adds the name of the item that failed.
    pub(crate) fn of_item(mut self, name: &str) -> Self {
        self.message = format!("{name}: {}", self.message);
        self
    }
}

impl From<&Fault> for Failure {
    fn from(fault: &Fault) -> Self {
        Self::new(i32::from(fault.code.number()), fault.to_string())
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self::from(&fault)
    }
}

impl From<&Disconnect> for Failure {
    fn from(cause: &Disconnect) -> Self {
        match cause {
            Disconnect::ClosedLocally => Self::closed("the client"),
            cause => Self::new(TL_ERROR_NOT_CONNECTED, format!("not connected: {cause}")),
        }
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        let status = match &error {
            CallError::NotConnected { cause } => return Self::from(&**cause),
            CallError::Fault(fault) => return Self::from(fault),
            CallError::TimedOut { .. } => TL_ERROR_TIMEOUT,
            CallError::Request(RequestError::Closed { cause })
            | CallError::Subscribe(SubscribeError::Closed { cause })
            | CallError::Write(WriteError::Closed { cause }) => return Self::from(&**cause),
            CallError::Subscribe(SubscribeError::Contract { .. }) => TL_ERROR_ARGUMENT,
            CallError::Write(WriteError::Group { .. }) => TL_ERROR_ARGUMENT,
            CallError::Request(_) | CallError::Subscribe(_) | CallError::Write(_) => TL_ERROR_LIMIT,
            _ => TL_ERROR_DEFECT,
        };
        Self::new(status, error.to_string())
    }
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        let status = match &error {
            ConnectError::Url(_) => TL_ERROR_SYNTAX,
            _ => TL_ERROR_SYSTEM,
        };
        Self::new(status, error.to_string())
    }
}

impl From<OnChangeError> for Failure {
    fn from(error: OnChangeError) -> Self {
        match error {
            OnChangeError::Call(error) => error.into(),
            OnChangeError::Start(error) => error.into(),
            error => Self::new(TL_ERROR_DEFECT, error.to_string()),
        }
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        let status = match &error {
            StartError::Deploy(error) => return Self::from_library(error),
            StartError::NameTaken(_) => i32::from(FaultCode::NameTaken.number()),
            StartError::NoHistory | StartError::Driver { .. } | StartError::UnknownItem { .. } => {
                TL_ERROR_SYNTAX
            }
            _ => TL_ERROR_SYSTEM,
        };
        Self::new(status, error.to_string())
    }
}

impl From<QueuedProviderError> for Failure {
    fn from(error: QueuedProviderError) -> Self {
        let status = match &error {
            QueuedProviderError::Closed => TL_ERROR_CLOSED,
            QueuedProviderError::LateAnswer(_) => TL_ERROR_TIMEOUT,
            QueuedProviderError::UnknownItem { .. } => TL_ERROR_ARGUMENT,
        };
        Self::new(status, error.to_string())
    }
}

impl Failure {
    pub(crate) fn from_library(error: &LibraryError) -> Self {
        Self::fault(FaultCode::BadLibrary, error.to_string())
    }
}

thread_local! {
    static LAST: RefCell<(tl_status, String)> = const { RefCell::new((TL_OK, String::new())) };
}

/// Stores the last error of this thread, and returns its status.
pub(crate) fn store(failure: Failure) -> tl_status {
    let status = failure.status;
    // A thread that is ending may have dropped its storage already.
    let _ = LAST.try_with(|last| *last.borrow_mut() = (status, failure.message));
    status
}

/// Returns the status of the last function of this library that failed on this thread; `TL_OK` if
/// none has failed. Functions that succeed do not change it.
#[unsafe(no_mangle)]
pub extern "C" fn tl_last_error() -> tl_status {
    LAST.try_with(|last| last.borrow().0).unwrap_or(TL_OK)
}

/// Copies the message of the last function of this library that failed on this thread: what is wrong,
/// who is at fault, and what to do. The message is replaced by the next failure on the same thread;
/// this function itself never replaces it.
///
/// `buffer`, `capacity`, `length`: see "Texts that the library returns".
///
/// Errors: `TL_ERROR_SHORT_BUFFER`; `buffer` then contains the beginning of the message.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_last_error_message(
    buffer: *mut c_char,
    capacity: size_t,
    length: *mut size_t,
) -> tl_status {
    let message = LAST.try_with(|last| last.borrow().1.clone());
    let copied = catch_unwind(|| {
        // SAFETY: the caller passes a buffer of `capacity` bytes and a length, as documented.
        unsafe { put_text(&message.unwrap_or_default(), buffer, capacity, length) }
    });
    match copied {
        Ok(Ok(())) => TL_OK,
        Ok(Err(failure)) => failure.status,
        Err(_) => TL_ERROR_DEFECT,
    }
}

/// Copies the name of a status, such as `timed-out` or `short-buffer`, for logs. Names do not change.
///
/// `buffer`, `capacity`, `length`: see "Texts that the library returns".
///
/// Errors: `TL_ERROR_SHORT_BUFFER`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tl_status_name(
    status: tl_status,
    buffer: *mut c_char,
    capacity: size_t,
    length: *mut size_t,
) -> tl_status {
    entry(|| {
        // SAFETY: the caller passes a buffer of `capacity` bytes and a length, as documented.
        unsafe { put_text(name_of(status), buffer, capacity, length) }
    })
}

fn name_of(status: tl_status) -> &'static str {
    match status {
        TL_OK => "ok",
        TL_ERROR_NULL => "null",
        TL_ERROR_HANDLE => "handle",
        TL_ERROR_HANDLE_KIND => "handle-kind",
        TL_ERROR_SHORT_BUFFER => "short-buffer",
        TL_ERROR_TIMEOUT => "timeout",
        TL_ERROR_NOT_CONNECTED => "not-connected",
        TL_ERROR_CLOSED => "closed",
        TL_ERROR_TEXT => "text",
        TL_ERROR_ARGUMENT => "argument",
        TL_ERROR_SYNTAX => "syntax",
        TL_ERROR_UNKNOWN_OUTCOME => "unknown-outcome",
        TL_ERROR_NOT_SENT => "not-sent",
        TL_ERROR_SUPERSEDED => "superseded",
        TL_ERROR_BUSY => "busy",
        TL_ERROR_SYSTEM => "system",
        TL_ERROR_LIMIT => "limit",
        TL_ERROR_STREAM_ENDED => "stream-ended",
        TL_ERROR_STREAM_LOST => "stream-lost",
        TL_ERROR_STREAM_ABORTED => "stream-aborted",
        TL_ERROR_STREAM_OVER => "stream-over",
        TL_ERROR_FORKED => "forked",
        TL_ERROR_DEFECT => "defect",
        fault => u16::try_from(fault).map_or("unknown-status", |number| {
            FaultCode::from_number(number).name()
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_has_a_constant_in_the_header() {
        let source = include_str!("faults.rs");
        for code in FaultCode::ALL {
            let name = code.name().to_uppercase().replace('-', "_");
            let line = format!("pub const TL_FAULT_{name}: tl_status = {};", code.number());
            assert!(source.contains(&line), "missing in faults.rs: {line}");
        }
    }
}
