//! The frames between the two endpoints of a stream, and between an endpoint and the directory.
//!
//! Positions are bytes since the beginning of the stream. The bytes of a stream are its elements
//! one behind the other: those of one size as they are in memory, those that vary as a `u32` with
//! their length and then their wire form. A frame may begin and end within an element.
//!
//! Frames between two endpoints carry checksums: see [`seal`].

pub mod control;
pub mod data;
pub mod directory;
pub mod hello;
pub mod listing;
pub mod seal;

pub use control::{Abort, Ack, Ask, Lost, Until, decode_end, encode_end};
pub use data::{Data, DataHead};
pub use hello::{
    EndState, Incarnation, ReaderState, StreamEnd, StreamHello, StreamWelcome, WriterState,
};

/// The largest position: what is beyond it is nonsense.
pub const POSITION_MAX: u64 = 1 << 62;
