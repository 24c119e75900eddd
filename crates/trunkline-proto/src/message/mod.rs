//! What each frame holds: one module per group, the payload drawn above its codec.
//!
//! Two shapes recur:
//!
//! - A message that is one thing ([`hello::Hello`], [`keepalive::Keepalive`],
//!   [`fault::FaultMessage`]) is a struct with `encode(.., out)` and `decode(&frame)`.
//! - A message that is a list has a builder, `begin(out, ..)`, `push(..)` per item, `finish(more)`,
//!   and a decoder that checks the head at once and borrows its items from the frame: an iterator
//!   of `Result<item, DecodeError>` that allocates nothing per item. An error ends the iteration
//!   and is to end the connection; what came before it was valid.
//!
//! A request or answer of many items is a run of frames with the same request number, all but the
//! last with the flag MORE. Every frame of a run can be read by itself; answers say with
//! `first_index` where their items stand in the whole request. Builders do not cut by themselves:
//! their caller looks at `len_bytes()` and begins the next frame at about
//! [`PAGE_BYTES`](crate::limits::PAGE_BYTES).

pub mod audit;
pub mod closing;
pub mod contract;
pub mod convergence;
pub mod ended;
pub mod engine;
pub mod fault;
pub mod find;
pub mod flush;
pub mod forcing;
pub mod group;
pub mod handles;
pub mod hello;
pub mod info;
pub mod keepalive;
pub mod lease;
pub mod library;
pub mod lost;
pub mod open;
pub mod outcome;
pub mod provider;
pub mod read;
pub mod record;
mod record_head;
pub mod results;
pub mod snapshot;
pub mod stream;
pub mod subscribe;
pub mod typed;
pub mod updates;
pub mod watch;
pub mod why;
pub mod write;
pub mod write_answers;
