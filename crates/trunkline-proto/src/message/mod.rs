//! The content of each frame. There is one module per group of frames. It contains the declaration
//! of each payload or, for a codec written by hand, a diagram of the payload.
//!
//! There are two forms of messages:
//!
//! - A message that is a single record ([`hello::Hello`], [`keepalive::Keepalive`],
//!   [`fault::FaultMessage`]) is a struct with `encode(.., out)` and `decode(&frame)`.
//! - A message that is a list has a builder, with `begin(out, ..)`, `push(..)` per item and
//!   `finish(more)`, and a decoder. The decoder checks the head at once and borrows its items from
//!   the frame: it is an iterator of `Result<item, DecodeError>` that allocates nothing per item.
//!   An error ends the iteration, and the caller must end the connection; the items before it were
//!   valid.
//!
//! Each frame is declared once. [`layout`] contains the records, [`fields`] the records whose
//! fields have ids, [`mod@form`] the forms of the fields, [`list`] the frames that are lists,
//! [`single`] the frames that are one record, and [`kinds`] the match that maps each kind of frame
//! to its message or to a codec written by hand.
//!
//! A request or answer with many items is a run of frames with the same request number; all but the
//! last have the flag MORE. Every frame of a run can be decoded by itself. The `first_index` of an
//! answer is the index of its first item within the whole request. Builders do not split
//! automatically: the caller checks `len_bytes()` and begins the next frame at about
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
