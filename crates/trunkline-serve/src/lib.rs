//! Joins protocol sessions to engine variables: outboxes, contracts on the wire, the rights gate.
//!
//! A [`Session`] is the engine's end of one connection, as a state machine: bytes and the time go
//! in, bytes and the time of the next call come out. It opens nothing, waits for nothing and starts
//! nothing; `trunkline-net` drives it over any transport, the simulator over none.
//!
//! ```text
//!  bytes in --> FrameBuffer --> dispatch --> Queue (requests in order, in slices) --> Engine
//!                                 |  writes, acknowledgements, keep-alives: at once     |
//!                                 v                                                     v marks
//!  bytes out <-- Answers, then updates <--------------- UpdateSink <------------ Consumer::drain
//! ```
//!
//! Two orders are kept: requests of a session are carried out in the order they came, and the
//! answer to a write leaves before the update it made.
//!
//! What a client can make a session hold is bounded: answers it does not read (1 MiB and a page),
//! requests not yet carried out (8 MiB and a frame), writes without an answer (the credit), records
//! it has not confirmed (its window, at most 2^20), and what its subscriptions buffer (their
//! contracts). All sessions together take at most what the [`RequestBudget`] has for incomplete
//! frames, requests, libraries on their way to the host and items; what does not fit is refused
//! with the fault `memory-full`. Beyond the first two of a session its input is left unread.
//!
//! # Layout
//! - [`Session`]: the connection's life, input and output.
//! - `requests`, `work`: frames to requests; requests on their way, in slices of 1,000 items.
//! - `open`, `read`, `write`, `group`, `lease`, `browse`, `orders`: the requests; `provider`:
//!   clients as sources; `watch`: patterns that are followed.
//! - `write_run`: how writes end, in packed runs.
//! - `request_budget`: the memory that requests and items take.
//! - `answers`, `updates`, `window`: what is sent; deliveries to UPDATES, LOST, ENDED and GONE
//!   frames, within what the client lets be on its way.
//! - `gathering`: throughput mode, and how a flush reaches every session.
//! - `explain`: why a variable does not reach the client; `fault`: the engine's errors in the
//!   protocol's words.
//! - [`ServeOptions`]: what all sessions of an engine share.

#![forbid(unsafe_code)]

mod answers;
mod browse;
mod convergence;
mod explain;
mod fault;
mod forcing;
mod gathering;
mod group;
mod lease;
mod open;
mod options;
mod orders;
mod provider;
mod read;
mod request_budget;
mod requests;
mod session;
mod sync;
mod updates;
mod watch;
mod window;
mod work;
mod write;
mod write_run;

pub use gathering::Flushes;
pub use options::{EngineFacts, RESUME_FOR, ServeOptions};
pub use request_budget::RequestBudget;
pub use session::Session;
