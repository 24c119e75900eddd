//! One writer with many readers, or one reader with many writers, at the level of bytes.
//!
//! ```text
//!   FanOutWriter<T> --- lane --- Reader<T>        Writer<T> --- lane --- FanInReader<T>
//!       one ring   \--- lane --- Reader<T>        Writer<T> --- lane ---/  a ring each
//! ```
//!
//! The peers of such an endpoint dial it, and are ordinary readers and writers. Each peer has a
//! lane: a state machine and a connection of its own, over TCP or a Unix socket, never over a ring
//! that both processes have mapped.
//!
//! # Layout
//! - `out` and `readers`: one writer with many readers. `gather`: one reader with many writers.
//! - `hub`: assigns arriving peers to lanes; `admission`: refuses peers.
//! - `end::lane`: the lane to one of several readers. `end::bell`: wakes their program.

mod admission;
mod gather;
mod hub;
mod member;
mod options;
mod out;
mod readers;

pub(crate) use self::gather::{FanInCore, Writers};
pub(crate) use self::hub::{Hub, Lanes, Terms};
pub use self::member::{Acquired, Member, PeerStatus, Run, RunEnd, Undelivered};
pub use self::options::{FanInOptions, FanOutOptions, Policy};
pub(crate) use self::out::FanOutCore;
pub(crate) use self::readers::{Departed, Readers};
