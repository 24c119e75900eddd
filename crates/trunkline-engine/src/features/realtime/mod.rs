//! The real-time access to a variable: cells and FIFOs that time-critical threads use without
//! locks, allocations or system calls.
//!
//! A single-process variable has exactly one FIFO, shared by all its writers and readers (SP-11). A
//! hosted variable has one FIFO per writer and one per reader (NV-03, NV-04):
//! [`pump`](Realtime::pump) moves elements from writers' FIFOs into the write path, and commits
//! fill readers' FIFOs. All memory is allocated when the endpoint is created, before the program's
//! loop runs (SP-20).
//!
//! # Layout
//! - [`RtWriter`], [`RtReader`] in `endpoint`: the ends used by time-critical threads.
//! - `pump`: moves elements from writers' FIFOs into the write path, on an ordinary thread.

mod endpoint;
mod pump;

pub use self::endpoint::{RtError, RtRead, RtReader, RtReading, RtWriter};
pub use self::pump::{Pump, Pumped};
pub use crate::fifo::RtWrite;
use crate::write::View;

pub type Realtime<'e> = View<'e, Pump>;
