//! The content of each frame: one module per group, with the declaration of each payload, or its
//! drawing above a codec that is written by hand.
//!
//! Two shapes recur:
//!
//! - A message with one subject ([`hello::Hello`], [`keepalive::Keepalive`],
//!   [`fault::FaultMessage`]) is a struct with `encode(.., out)` and `decode(&frame)`.
//! - A message that is a list has a builder, with `begin(out, ..)`, `push(..)` per item and
//!   `finish(more)`, and a decoder. The decoder checks the head at once and borrows its items from
//!   the frame: it is an iterator of `Result<item, DecodeError>` that allocates nothing per item.
//!   An error ends the iteration, and the caller must end the connection; the items before it were
//!   valid.
//!
//! A frame is declared once: [`layout`] has the records, [`fields`] those whose fields have ids,
//! [`mod@form`] the forms of the fields, [`list`] the frames that are lists, [`single`] those that are
//! one record, and [`kinds`] the one match that knows the message of each kind, and which codecs are
//! written by hand.
//!
//! A request or answer with many items is a run of frames with the same request number; all but the
//! last have the flag MORE. Every frame of a run can be decoded by itself. The `first_index` of an
//! answer is the index of its first item within the whole request. Builders do not split by
//! themselves: their caller checks `len_bytes()` and begins the next frame at about
//! [`PAGE_BYTES`](crate::limits::PAGE_BYTES).

pub mod alarm;
pub mod alarm_journal;
pub mod answers;
pub mod audit;
pub mod closing;
pub mod contract;
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
pub mod lost;
pub mod open;
pub mod outcome;
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
