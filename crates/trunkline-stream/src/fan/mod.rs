//! One writer and many readers, or one reader and many writers.
//!
//! ```text
//!   FanOutWriter<T> --- lane --- Reader<T>        Writer<T> --- lane --- FanInReader<T>
//!       one ring   \--- lane --- Reader<T>        Writer<T> --- lane ---/  a ring each
//! ```
//!
//! The endpoint with several peers is the one that is dialled; at the other ends are ordinary
//! readers and writers. Each has a lane: a state machine and a connection of its own, over TCP or a
//! Unix socket, never over a ring that both processes have mapped.
//!
//! # Layout
//! - [`FanOutWriter`] in `writer` over `out` and `readers`, [`FanInReader`] in `reader` over
//!   `gather`; the same of values of any type in `values`.
//! - `hub`: who comes, and to which lane; `admission`: who is not let in.
//! - `end::lane`: the way to one of several readers. `end::bell`: what their program sleeps on.

mod admission;
mod gather;
mod hub;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod in_place_tests;
mod member;
mod options;
mod out;
mod reader;
mod readers;
mod values;
mod writer;

pub(crate) use self::gather::{GatherCore, Writers};
pub(crate) use self::hub::{Hub, Lanes, Terms};
pub use self::member::{Acquired, Lacking, Member, Present, Run, RunEnd};
pub use self::options::{FanInOptions, FanOutOptions, Policy};
pub(crate) use self::out::OutCore;
pub use self::reader::FanInReader;
pub(crate) use self::readers::{Departed, Readers};
pub use self::values::{FanInValueReader, FanOutValueWriter};
pub use self::writer::FanOutWriter;
