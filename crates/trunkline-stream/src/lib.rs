//! Provides lossless streams between two programs. A stream is a one-way flow of elements of one
//! type, in order. Elements are kept until they are read, across any number of lost connections.
//!
//! ```text
//!   program        writer's buffer                     reader's buffer        program
//!      | write  [ kept | to send ]  ===== network =====> [ arrived ]  read ^
//!      v                                                                   |
//!   Writer<T>   StreamEndpoint<WriterEnd> in a Link         StreamEndpoint<ReaderEnd> in a Link   Reader<T>
//! ```
//!
//! Creating an endpoint waits until both ends exist. Elements stay in the writer's buffer until they
//! have arrived in the reader's buffer, and stay there until they are read. When the reader's buffer
//! is full, the writer waits. A lost connection is re-established automatically, and nothing is lost
//! or duplicated. [`trunkline_proto::stream`] describes the protocol between the two ends.
//!
//! # Layout
//! A module uses only the modules below it in this list.
//! - `typed`: [`Writer`], [`Reader`], [`ValueWriter`], [`ValueReader`], and one writer with many
//!   readers or many writers with one reader, [`FanOutWriter`] and [`FanInReader`].
//! - `rendezvous`: creates endpoints, and connects the two ends of a stream.
//! - `fan_bytes`, `bytes`: the untyped cores of these ends.
//! - [`directory`]: the directory of the endpoints of a machine, which the engine provides.
//! - `properties`: the state of an endpoint, and the status that it reports to the directory.
//! - `handle`: a program's handle on its end of a stream; the source of time and random numbers.
//! - `end`: one end of a stream, which a network link drives.
//! - [`Element`]: the types that streams carry; [`Options`]; [`StreamError`].
//! - [`journal`]: keeps the data of a stream after the programs have ended.
//! - `wait`: waits in a thread or in a task.

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
pub use options::{BYTES_MAX_DEFAULT, CAPACITY_DEFAULT, DIRECTORY_PORT, EngineSecurity, Options};
pub use properties::{MemberProperties, Monitor, Properties};
pub use trunkline_proto::message::stream::Until;
pub use trunkline_proto::stream::{Left, StreamFault};
pub use typed::{
    FanInReader, FanInValueReader, FanOutValueWriter, FanOutWriter, Reader, ValueReader,
    ValueWriter, Writer,
};
