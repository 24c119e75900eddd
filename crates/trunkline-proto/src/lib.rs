//! Trunkline's network protocol as state machines: no socket, clock, thread or environment.
//!
//! Bytes and the time come in, bytes and the time of the next call go out. `trunkline-net` drives
//! any [`Endpoint`]; `trunkline-serve` and `trunkline-client` are the two ends that exist. What
//! both need is here: how bytes become frames, what each frame holds, how two versions agree, when
//! a peer counts as dead and when to dial again.
//!
//! ```text
//!        bytes in                                             bytes out
//!           |                                                     ^
//!      FrameBuffer   limits before buffering, parts joined   FrameWriter, builders
//!           |                                                     |
//!      Frame { kind, flags, request, count, payload, extension }  |
//!           |                                                     |
//!      message::*    decode(&frame): borrowed, checked       message::*  encode, begin/push/finish
//!           |                                                     |
//!           +---------------> an Endpoint (serve, client) --------+
//! ```
//!
//! `docs/reference/protocol.md` draws every frame; `vectors/frames.json` holds golden ones.
//!
//! # Layout
//! - [`frame`], [`kind`]: the header, a received frame, writing one; the table of frame kinds.
//! - [`frame_buffer`], [`part`]: bytes to frames under limits; messages longer than a frame.
//! - [`message`]: one module per group of frames, the payload drawn above each codec.
//! - [`endpoint`], [`disconnect`]: what drives a connection, and why one ended.
//! - [`fault`]: why a request or one item of it was refused.
//! - [`negotiation`]: versions, features and limits of a connection.
//! - [`liveness`], [`backoff`]: keep-alive, dead peers, the time of the next dial.
//! - [`digest`]: by which two ends find out whether they hold the same.
//! - [`stream`]: the two ends of a stream, and the directory of a machine's endpoints.
//! - [`decode`], [`tlv`]: what every decoder is made of.

#![forbid(unsafe_code)]
// A decoder that can panic on a length or an index is a way to stop an engine from outside.
#![cfg_attr(
    not(test),
    deny(clippy::arithmetic_side_effects, clippy::indexing_slicing)
)]

pub mod backoff;
pub mod decode;
pub mod digest;
pub mod disconnect;
pub mod endpoint;
pub mod fault;
pub mod frame;
pub mod frame_buffer;
pub mod gather;
pub mod kind;
pub mod limits;
pub mod liveness;
pub mod message;
pub mod negotiation;
pub mod part;
pub mod stream;
pub mod tlv;

pub use backoff::Backoff;
pub use decode::DecodeError;
pub use disconnect::Disconnect;
pub use endpoint::{DirectBytes, Endpoint};
pub use fault::{Fault, FaultCode, FaultRef};
pub use frame::{Frame, FrameHeader, FrameWriter};
pub use frame_buffer::{FrameBuffer, FrameError, FrameLimits};
pub use gather::{Gather, Throughput};
pub use kind::FrameKind;
pub use liveness::{Liveness, LivenessAction};
pub use negotiation::{
    Agreement, Features, Negotiation, PROTOCOL_VERSION, VersionMismatch, VersionRange,
};
