//! Connects protocol sessions to engine variables: pending updates, contracts on the wire, and the
//! check of rights.
//!
//! A [`Session`] is the engine's end of one connection, as a state machine: its input is bytes and
//! the time, and its output is bytes and the time of the next call. It opens no socket, never waits
//! and starts no thread. `trunkline-net` drives it over any transport; the simulator drives it
//! without one.
//!
//! ```text
//!  bytes in --> FrameBuffer --> dispatch --> Queue (requests in order, in slices) --> Engine
//!                                 |  writes, acknowledgements, keep-alives: at once     |
//!                                 v                                                     v marks
//!  bytes out <-- Answers, then updates <--------------- UpdateSink <------------ Consumer::drain
//! ```
//!
//! A session guarantees two orders: requests are carried out in the order in which they arrived,
//! and the answer to a write is sent before the update that it made.
//!
//! The memory that a client can make a session hold is bounded: answers it does not read (1 MiB and
//! a page), requests not yet carried out (8 MiB and a frame), unanswered writes (the credit),
//! unconfirmed records (its window, at most 2^20), and the buffers of its subscriptions (their
//! contracts). At the first two of these bounds, the session stops reading its input. The
//! [`RequestBudget`] limits the total, over all sessions, of incomplete frames, requests, libraries
//! being transferred to the host, and items; requests beyond it are refused with the fault
//! `memory-full`.
//!
//! # Layout
//! - [`Session`]: the life of the connection, input and output.
//! - `requests`: the requests, each in a file of the same name; `provider`: clients as sources;
//!   `watch`: watched patterns; `convergence`: the sweep, and repairs.
//! - `context`: the state that requests share, and the queue in which they wait; `unfinished`:
//!   requests in several frames.
//! - `write_run`: unanswered writes, and their outcomes in packed runs.
//! - `request_budget`: the memory of requests and items.
//! - `answers`, `updates`, `window`: output; deliveries as UPDATES, LOST, ENDED and GONE frames,
//!   within the client's window.
//! - `gathering`: throughput mode, and the effect of a flush on every session.
//! - `fault`: faults that this crate itself reports.
//! - [`ServeOptions`]: settings shared by all sessions of an engine.

#![forbid(unsafe_code)]

mod answers;
mod context;
mod fault;
mod gathering;
mod options;
mod request_budget;
mod requests;
mod session;
mod sync;
mod unfinished;
mod updates;
mod window;
mod write_run;

pub use gathering::Flushes;
pub use options::{EngineFacts, RESUME_FOR, ServeOptions};
pub use request_budget::RequestBudget;
pub use session::Session;
