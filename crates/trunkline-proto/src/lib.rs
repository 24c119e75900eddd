//! Trunkline's network protocol as state machines: no socket, clock, thread or environment.
//!
//! The input consists of bytes and the current time. The output consists of bytes and the time of
//! the next call. `trunkline-net` drives any [`Endpoint`]; `trunkline-serve` and `trunkline-client`
//! implement the two ends. This crate contains the parts that both ends need: framing, the content
//! of each frame, version negotiation, detection of dead peers, and back-off.
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
//! `docs/reference/protocol.md` draws every frame; `vectors/frames.json` holds golden frames.
//!
//! # Layout
//! - [`frame`], [`kind`]: the header, the frame writer, the buffer that splits bytes into frames
//!   under limits, messages longer than a frame; the table of frame kinds.
//! - [`message`]: one module per group of frames, with the declaration or the codec of each.
//! - [`endpoint`], [`channel`], [`disconnect`]: the interface to the driver; the security of a
//!   connection; the reasons why connections end. [`credentials`]: the proof of a client's identity.
//! - [`mod@fault`]: the reasons why a request or one of its items is refused.
//! - [`negotiation`]: versions, features and limits of a connection.
//! - [`liveness`], [`backoff`]: keep-alive, dead peers, and the time of the next dial.
//! - [`digest`]: digests by which two ends determine whether they have the same data.
//! - [`stream`]: the two ends of a stream, and the directory of a machine's endpoints.
//! - [`decode`], [`tlv`]: the parts that all decoders share.

#![forbid(unsafe_code)]
// If a decoder could panic on a length or an index, a peer could stop the engine.
#![cfg_attr(
    not(test),
    deny(clippy::arithmetic_side_effects, clippy::indexing_slicing)
)]

pub mod backoff;
pub mod channel;
pub mod credentials;
pub mod decode;
pub mod digest;
pub mod disconnect;
pub mod endpoint;
pub mod frame;
pub mod gather;
pub mod kind;
pub mod limits;
pub mod liveness;
pub mod message;
pub mod negotiation;
pub mod stream;
pub mod tlv;

pub use backoff::Backoff;
pub use channel::{Channel, EndKeys, EndSeed};
pub use credentials::{Credentials, LoginKey};
pub use decode::DecodeError;
pub use disconnect::Disconnect;
pub use endpoint::{DirectBytes, Endpoint};
pub use frame::{Frame, FrameBuffer, FrameError, FrameHeader, FrameLimits, FrameWriter};
pub use gather::{Gather, ThroughputMode};
pub use kind::FrameKind;
pub use liveness::{Liveness, LivenessAction};
pub use negotiation::{
    Agreement, Features, Negotiation, PROTOCOL_VERSION, VersionMismatch, VersionRange,
};
pub use trunkline_types::{Fault, FaultCode, FaultRef, fault};
