//! The frames between the two endpoints of a stream, and between an endpoint and the directory.
//!
//! Positions count the bytes since the beginning of the stream. The bytes of a stream are its
//! elements in sequence. Elements of fixed size are stored as they are in memory; elements of
//! variable size as a `u32` length followed by their wire form. A frame may begin and end within an
//! element.
//!
//! Frames between two endpoints carry checksums, see [`seal`].

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

/// The largest legal position.
pub const POSITION_MAX: u64 = 1 << 62;
