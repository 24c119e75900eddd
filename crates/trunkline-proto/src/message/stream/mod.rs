//! The frames between the two endpoints of a stream, and between an endpoint and the directory.
//!
//! Positions count the bytes from the beginning of the stream. The bytes of a stream are the encoded
//! elements, one after another. Elements of fixed size have the same form as in memory; elements of
//! variable size are a `u32` length followed by their wire form. A frame may begin and end within
//! an element.
//!
//! Frames between two endpoints have checksums; see [`seal`].

pub mod control;
pub mod data;
pub mod directory;
pub mod hello;
pub mod listing;
pub mod seal;

pub use control::{Abort, Ack, Ask, End, Lost, Until, encode_end};
pub use data::{Data, DataHead};
pub use hello::{
    EndState, Incarnation, ReaderState, StreamEnd, StreamHello, StreamWelcome, WriterState,
};

use super::form::integers;
use crate::DecodeError;
use crate::decode::Payload;
use trunkline_types::wire::{put_u64, put_varint};

/// Largest position, so that additions cannot overflow.
pub const POSITION_MAX: u64 = 1 << 62;

/// A position in bytes, or a number of bytes or elements, at most [`POSITION_MAX`]; little-endian.
#[derive(Debug)]
pub enum Position {}
/// A position in bytes, or a number of bytes or elements, at most [`POSITION_MAX`]; a varint.
#[derive(Debug)]
pub enum VarintPosition {}

integers! {
    Position: u64, 8, position, NumberAsText,
        |out, value, _| put_u64(out, value),
        |payload, _| payload.u64().and_then(|position| checked(position, payload));
    VarintPosition: u64, 1, position, NumberAsText,
        |out, value, _| put_varint(out, value),
        |payload, _| payload.varint().and_then(|position| checked(position, payload));
}

fn checked(position: u64, payload: &Payload<'_>) -> Result<u64, DecodeError> {
    match position {
        0..=POSITION_MAX => Ok(position),
        invalid => Err(payload.unexpected("a position of at most 2^62", invalid)),
    }
}
