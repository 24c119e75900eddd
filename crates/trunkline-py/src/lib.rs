//! The native part of the Python package `trunkline`.
//!
//! Python programs import the package in `python/trunkline`, whose classes have the conventions of
//! Python: names as arguments, default timeouts, iterators, `async`. This library gives it the calls
//! of a [polled client](trunkline::polled), and converts values and errors. Its interface is
//! described in `_trunkline.pyi`.
//!
//! # Threads
//! No thread of this library calls Python. A waiting call releases the interpreter, and Python waits
//! in slices so that signals are noticed. An event loop is woken through a file descriptor
//! (`WakeQueue`), so nothing has to be attached to the interpreter when it shuts down.
//!
//! # Layout
//! - `call`: a call in progress.
//! - `wake`: wakes an event loop of Python.
//! - `errors`: exceptions for faults.
//! - `values`: values of variables as Python objects, and back.
//! - `reading`: readings, and blocks of readings as NumPy arrays.
//! - `alarms`, `history`, `audit`: alarms, recorded values, and who did what.
//! - `control`: control of folders.
//! - `connection`: the verbs of a client.
//! - `definitions`: definitions of libraries.
//! - `subscription`, `pattern_subscription`: subscriptions and their events.
//! - `local_engine`: an engine in the process of the Python program.
//! - `provider`: I/O servers.
//! - `stream`: lossless streams. `tdms`: TDMS files. `recorder`: records variables.

mod alarms;
mod audit;
mod call;
mod connection;
mod control;
mod definitions;
mod errors;
mod history;
mod local_engine;
mod pattern_subscription;
mod provider;
mod reading;
mod recorder;
mod stream;
mod subscription;
mod tdms;
mod values;
mod wake;

use pyo3::prelude::*;

#[pymodule]
mod _trunkline {
    #[pymodule_export]
    use crate::call::Call;
    #[pymodule_export]
    use crate::connection::{Connection, Handle, default_url};
    #[pymodule_export]
    use crate::history::{Cursor, parse_time};
    #[pymodule_export]
    use crate::local_engine::LocalEngine;
    #[pymodule_export]
    use crate::pattern_subscription::PatternSubscription;
    #[pymodule_export]
    use crate::provider::{Order, Provider};
    #[pymodule_export]
    use crate::reading::{Block, Reading};
    #[pymodule_export]
    use crate::recorder::Recorder;
    #[pymodule_export]
    use crate::stream::{
        FanInReader, FanOutWriter, ReadLease, StreamReader, StreamWriter, WriteLease,
        create_fan_in, create_fan_out, create_reader, create_writer, stream_dtype,
    };
    #[pymodule_export]
    use crate::subscription::{Event, Subscription};
    #[pymodule_export]
    use crate::tdms::{TdmsChannelInfo, TdmsFileWriter, TdmsReader};
    #[pymodule_export]
    use crate::wake::WakeQueue;
}
