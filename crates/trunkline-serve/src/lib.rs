//! Joins protocol sessions to engine variables: outboxes, contracts on the wire, the rights gate.
//!
//! A [`Session`] is the engine's end of one connection, as a state machine: bytes and the time go in,
//! bytes and the time of the next call come out. It opens nothing, waits for nothing and starts nothing;
//! `trunkline-net` drives it over any transport, the simulator over none.
//!
//! ```text
//!  bytes in --> FrameBuffer --> Session::dispatch --> Work (in order, in slices) --> Engine
//!                                    |  ack, keep-alive: at once                       |
//!                                    v                                                 v marks
//!  bytes out <-- answers, then updates <---------------- UpdateSink <------------- Consumer::drain
//! ```
//!
//! Two orders are kept: requests of a session are carried out in the order they came, and the answer to
//! a write leaves before the update it made.
//!
//! # Layout
//! - [`Session`]: the connection's life, input and output.
//! - `work`: requests on their way, in slices of 1,000 items.
//! - `open`, `write`, `browse`: the requests.
//! - `updates`: deliveries to UPDATES, LOST, ENDED and GONE frames.
//! - `fault`: the engine's errors in the protocol's words.
//! - [`ServeOptions`]: what all sessions of an engine share.

#![forbid(unsafe_code)]

mod browse;
mod fault;
mod open;
mod options;
mod session;
mod updates;
mod work;
mod write;

pub use options::{EngineFacts, ServeOptions};
pub use session::Session;
