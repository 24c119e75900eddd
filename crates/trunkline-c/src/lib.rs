//! The Trunkline library for C: the functions of `include/trunkline.h` over the crate `trunkline`.
//!
//! ```text
//!  C, C++, C#, LabVIEW --handles, numbers, texts--> entry --> handles --> object --> crate trunkline
//!                      <------- status ------------   |                      |
//!                                                  errors: message      arguments, values, readings
//! ```
//!
//! Every function of the header is an `extern "C"` function whose body is one call of `entry`, which
//! keeps panics inside and stores the message of an error. Handles are numbers that a table checks, so
//! no use of a handle can touch foreign memory. Objects have their own locks; no lock is held while a
//! call waits, except that of the object's own data, which other threads then find busy.
//!
//! # Layout
//! A module uses only the modules above it in this list, and `entry`.
//! - `errors`, `faults`: status codes, and the message of a thread's last error.
//! - `arguments`: pointers of the caller, timeouts, lists of names.
//! - `handles`: the table of handles.
//! - `values`: conversion between values and the types of C.
//! - `readings`: the readings of a read, a subscription or a query of history.
//! - `client`: connections, and the variables opened with them.
//! - `reads`, `writes`: reads; writes, batches and groups.
//! - `subscription`: subscriptions with a queue or a callback.
//! - `stream`, `record`, `history`, `provider`: streams, recordings, history, I/O servers.
//! - `alarms`, `audit`, `control`: alarms, the audit trail, control of folders.
//! - `engine`: an engine in this process, and its variables.
//!
//! `examples/write_header.rs` writes the header from the comments here.

#![allow(
    clippy::missing_safety_doc,
    clippy::too_many_arguments,
    reason = "the functions are for C: the header's first comment has the rules for all pointers, and \
              parameters are plain"
)]

pub mod alarms;
pub mod arguments;
pub mod audit;
pub mod client;
pub mod control;
pub mod engine;
pub mod errors;
pub mod faults;
mod handles;
pub mod history;
pub mod provider;
pub mod readings;
pub mod reads;
pub mod record;
pub mod stream;
pub mod subscription;
pub mod values;
pub mod writes;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use errors::{Failure, TL_ERROR_DEFECT, TL_ERROR_FORKED, TL_OK, tl_status};

/// Runs the body of a function of the header: turns an error into a status and the thread's message,
/// and a panic into `TL_ERROR_DEFECT`.
pub(crate) fn entry(body: impl FnOnce() -> Result<(), Failure>) -> tl_status {
    let result = catch_unwind(AssertUnwindSafe(|| {
        check_not_forked()?;
        body()
    }));
    match result {
        Ok(Ok(())) => TL_OK,
        Ok(Err(failure)) => errors::store(failure),
        Err(panic) => {
            let text = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied());
            let text = text.unwrap_or("unknown").to_owned();
            // Dropping what was thrown could panic again.
            std::mem::forget(panic);
            errors::store(Failure::new(
                TL_ERROR_DEFECT,
                format!("a defect of the library, please report it: {text}"),
            ))
        }
    }
}

static IS_FORKED: AtomicBool = AtomicBool::new(false);

extern "C" fn note_fork() {
    IS_FORKED.store(true, Ordering::Relaxed);
}

/// A forked process has the memory of its parent but none of its threads, so every connection in it
/// would hang.
fn check_not_forked() -> Result<(), Failure> {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        // SAFETY: the function only stores an atomic, which is allowed in a forked process.
        // Without memory for the registration, a forked process is not detected.
        let _ = unsafe { libc::pthread_atfork(None, None, Some(note_fork)) };
    });
    match IS_FORKED.load(Ordering::Relaxed) {
        false => Ok(()),
        true => Err(Failure::new(
            TL_ERROR_FORKED,
            "this process was forked after it had used Trunkline; use Trunkline in the parent \
             process only, or start a new program with exec",
        )),
    }
}
