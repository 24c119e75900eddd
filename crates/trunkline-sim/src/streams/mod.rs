//! The simulator of network streams: the production ends, journals and directories under a seeded
//! clock, network and disk, with a checker that is independent of them.
//!
//! ```text
//!   faults --> World: the time, two machines, the connections between -- Trace
//!                |                        |
//!    writing    slot: End<WriterEnd>  ~ Conn ~  slot: End<ReaderEnd>    reading
//!       |         turns as in a link                                      |
//!       +----------------------------> Checker <-------------------------+
//! ```
//!
//! A run has a phase with faults and one without; then the stream is brought to its end.

mod checker;
pub mod content;
mod ctx;
pub mod fault;
mod inject;
mod net;
pub mod plan;
mod reading;
mod scenario;
mod turn;
mod world;
mod writing;
