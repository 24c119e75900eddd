//! Serves protocol sessions from an engine: carries out requests, and sends answers and updates.
//!
//! A [`Session`] is the engine's end of one connection, as a state machine. Its input is bytes and
//! the time, and its output is bytes and the time of the next call. It opens no sockets, never waits
//! and starts no threads. `trunkline-net` drives it over any transport, and the simulator drives it
//! without a transport.
//!
//! ```text
//!  bytes in --> FrameBuffer --> dispatch --> Queue (requests in order, in slices) --> Engine
//!                                 |  writes, acknowledgements, keep-alives: at once     |
//!                                 v                                                     v marks
//!  bytes out <-- Answers, then updates <--------------- UpdateSink <------------ Consumer::drain
//! ```
//!
//! A session carries out requests in the order of their arrival. It sends the answer to a write
//! before the update that the write caused.
//!
//! The memory of a session is bounded:
//!
//! - Answers that the client does not read: 1 MiB and a page. At this limit, the session stops
//!   reading its input.
//! - Waiting requests: 8 MiB and a frame. At this limit, the session stops reading its input.
//! - Unanswered writes: the write credit.
//! - Unconfirmed records: the client's window, at most 2^20 records.
//! - Buffers of subscriptions: their contracts.
//!
//! The [`RequestBudget`] limits the total memory of all sessions for incomplete frames, requests,
//! items, and libraries on their way to the host. Requests that exceed it are refused with the fault
//! `memory-full`.
//!
//! # Layout
//! - [`Session`]: the life of the connection, input and output.
//! - `requests/`: the requests, each in the file that it is named after.
//! - `context`: the state that requests share, and the queue of waiting requests. `unfinished`:
//!   requests in several frames.
//! - `write_run`: unanswered writes, and runs of answers.
//! - `request_budget`: the memory of requests and items.
//! - `answers`, `updates`, `window`: the output. `updates` encodes UPDATES, LOST, ENDED and GONE
//!   frames within the client's window.
//! - `gathering`: throughput mode and flushes.
//! - `fault`: the faults that this crate reports itself.
//! - [`ServeOptions`]: settings shared by all sessions of an engine.

#![forbid(unsafe_code)]

mod answers;
mod context;
mod fault;
pub mod gate;
mod gathering;
mod login;
mod options;
mod request_budget;
mod requests;
mod session;
mod sync;
mod unfinished;
mod updates;
mod window;
mod write_run;

pub use gathering::FlushBroadcast;
pub use login::{
    Authenticator, AwaitedLogin, Identity, LoginAnswer, LoginRefusal, LoginRequest, OnEnd, Standing,
};
pub use options::{EngineFacts, RESUME_FOR, ServeOptions};
pub use request_budget::RequestBudget;
pub use session::Session;
