//! Implements the byte-level cores of one writer with many readers, and of one reader with many
//! writers.
//!
//! ```text
//!   FanOutWriter<T> --- lane --- Reader<T>        Writer<T> --- lane --- FanInReader<T>
//!       one ring   \--- lane --- Reader<T>        Writer<T> --- lane ---/  a ring each
//! ```
//!
//! The peers of such an endpoint are ordinary readers and writers, which dial the endpoint. Each peer
//! has a lane, which consists of a state machine and a connection over TCP or a Unix socket. A lane
//! never uses a ring shared by both processes.
//!
//! # Layout
//! - `out` and `readers`: one writer with many readers. `gather`: one reader with many writers.
//! - `hub`: assigns arriving peers to lanes; `admission`: refuses peers.
//! - `end::lane`: the lane to one of several readers. `end::bell`: wakes the program that waits for
//!   any of its peers.

mod admission;
mod gather;
mod hub;
mod member;
mod options;
mod out;
mod readers;

pub(crate) use self::gather::{FanInCore, Writers};
pub(crate) use self::hub::{Hub, LaneSettings, Lanes};
pub use self::member::{Acquired, Member, PeerStatus, Run, RunEnd, Undelivered};
pub use self::options::{FanInOptions, FanOutOptions, Policy};
pub(crate) use self::out::FanOutCore;
pub(crate) use self::readers::{Departed, Readers};
