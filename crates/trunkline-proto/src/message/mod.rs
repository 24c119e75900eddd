//! The content of each frame, in one module per group of frames. A module contains the declaration of
//! each payload or, for a hand-written codec, a diagram of the payload.
//!
//! There are two forms of messages:
//!
//! - A message that is a single record ([`hello::Hello`], [`keepalive::Keepalive`],
//!   [`fault::FaultMessage`]) is a struct with `encode(.., out)` and `decode(&frame)`.
//! - A message that is a list has a builder, with `begin(out, ..)`, `push(..)` per item and
//!   `finish(more)`, and a decoder. The decoder checks the head at once and borrows its items from
//!   the frame: it is an iterator of `Result<item, DecodeError>` that allocates nothing per item.
//!   An error ends the iteration, and the caller must close the connection; the items before the
//!   error are valid.
//!
//! Each frame is declared once. These modules contain the parts of declarations:
//! - [`layout`] for records
//! - [`fields`] for records whose fields have ids
//! - [`mod@form`] for the encodings ("forms") of fields
//! - [`list`] for frames that are lists
//! - [`single`] for frames that are one record
//! - [`kinds`] for the match that maps each kind of frame to its message or to a hand-written codec
//!
//! A request or answer with many items is a run of frames with the same request number; all but the
//! last have the flag MORE. Every frame of a run can be decoded independently. The `first_index` of
//! an answer frame is the index of the frame's first item within the whole request. Builders do not
//! split automatically: the caller checks `len_bytes()` and begins the next frame at about
//! [`PAGE_BYTES`](crate::limits::PAGE_BYTES) bytes.

pub mod alarm;
pub mod alarm_journal;
pub mod answers;
pub mod audit;
pub mod closing;
pub mod contract;
pub mod control;
pub mod convergence;
pub mod ended;
pub mod engine;
pub mod fault;
pub mod fields;
pub mod find;
pub mod forcing;
pub mod form;
pub mod group;
pub mod handles;
pub mod hello;
pub mod history;
pub mod info;
pub mod keepalive;
pub mod kinds;
pub mod layout;
pub mod lease;
pub mod library;
pub mod list;
pub mod login;
pub mod lost;
pub mod open;
pub mod outcome;
pub mod pair;
pub mod provider;
pub mod read;
pub mod record;
mod record_head;
pub mod results;
#[cfg(test)]
mod round_trip;
pub mod single;
pub mod snapshot;
pub mod stream;
pub mod subscribe;
pub mod updates;
pub mod watch;
pub mod why;
pub mod write;
