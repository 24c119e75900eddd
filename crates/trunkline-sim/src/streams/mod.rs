//! Simulates network streams: runs the production endpoints, journals and directories with a seeded clock,
//! network and disk, and checks them independently.
//!
//! ```text
//!   faults --> World: the time, two machines, the connections between -- Trace
//!                |                        |
//!    writing    slot: End<WriterEnd>  ~ Conn ~  slot: End<ReaderEnd>    reading
//!       |         turns as in a link                                      |
//!       +----------------------------> Checker <-------------------------+
//! ```
//!
//! A run has three phases: with faults, without faults, and a last phase in which both programs end the
//! stream.

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
