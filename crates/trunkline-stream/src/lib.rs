//! Lossless streams: a one-way flow of elements of one type between two programs, in order.
//! Elements are kept until they are read, across any number of lost connections.
//!
//! ```text
//!   program        writer's buffer                     reader's buffer        program
//!      | write  [ kept | to send ]  ===== network =====> [ arrived ]  read ^
//!      v                                                                   |
//!   Writer<T>   StreamEndpoint<WriterEnd> in a Link         StreamEndpoint<ReaderEnd> in a Link   Reader<T>
//! ```
//!
//! Creation is a rendezvous: it returns once both ends exist. Elements stay in the writer's buffer
//! until they have arrived in the reader's, and in the reader's buffer until they are read. A full
//! reader stops the writer. A lost connection is re-established automatically, and nothing is lost
//! or duplicated. [`trunkline_proto::stream`] describes the protocol between the two ends.
//!
//! # Layout
//! From the top; a module uses only those below it.
//! - `typed`: [`Writer`], [`Reader`], [`ValueWriter`], [`ValueReader`], and one writer with many
//!   readers or many writers with one reader, [`FanOutWriter`] and [`FanInReader`].
//! - `rendezvous`: brings two ends together.
//! - `fan_bytes`, `bytes`: the untyped cores of these ends.
//! - [`directory`]: the names of a machine's endpoints, kept by its engine.
//! - `properties`: the state of an endpoint, and the status that it reports to the directory.
//! - `handle`: a program's handle on its end; the source of time and randomness.
//! - `end`: one end of a stream, driven by its link.
//! - [`Element`]: the types that streams carry; [`Options`]; [`StreamError`].
//! - [`journal`]: keeps a stream after its programs have ended.
//! - `wait`: waiting as a thread or as a task.

#![forbid(unsafe_code)]

mod bytes;
pub mod directory;
mod element;
mod end;
mod error;
mod fan_bytes;
mod handle;
pub mod journal;
mod options;
mod properties;
mod rendezvous;
#[cfg(feature = "sim")]
#[doc(hidden)]
pub mod sim;
mod sync;
mod typed;
mod wait;

pub use bytes::{ByteRegion, Closed, Region};
pub use element::{Element, Plain, element_bytes};
pub use error::StreamError;
pub use fan_bytes::{
    Acquired, FanInOptions, FanOutOptions, Member, PeerStatus, Policy, Run, RunEnd, Undelivered,
};
pub use journal::{Commit, Durability, JournalError, JournalOptions};
pub use options::{BYTES_MAX_DEFAULT, CAPACITY_DEFAULT, DIRECTORY_PORT, Options};
pub use properties::{Monitor, Properties};
pub use trunkline_proto::message::stream::Until;
pub use trunkline_proto::stream::{Left, StreamFault};
pub use typed::{
    FanInReader, FanInValueReader, FanOutValueWriter, FanOutWriter, Reader, ValueReader,
    ValueWriter, Writer,
};
