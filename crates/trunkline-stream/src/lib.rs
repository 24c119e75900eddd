//! Lossless streams: a one-way flow of elements of one type between two programs, in order.
//! Elements are kept until they are read, across any number of lost connections.
//!
//! ```text
//!   program        writer's buffer                     reader's buffer        program
//!      | write  [ kept | to send ]  ===== network =====> [ arrived ]  read ^
//!      v                                                                   |
//!   Writer<T>   End<WriterEnd> in a Link         End<ReaderEnd> in a Link   Reader<T>
//! ```
//!
//! Creation is a rendezvous: it returns once both ends exist. Elements stay in the writer's buffer
//! until they have arrived in the reader's, and in the reader's buffer until they are read. A full
//! reader stops the writer. A lost connection is re-established automatically, and nothing is lost
//! or duplicated. [`trunkline_proto::stream`] describes the protocol between the two ends.
//!
//! # Layout
//! - [`Writer`], [`Reader`]: the two ends; [`Element`]: the types they carry; [`Options`].
//! - [`ValueWriter`], [`ValueReader`]: the same for any Trunkline type, known at run time.
//! - [`FanOutWriter`], [`FanInReader`]: one writer with many readers, many writers with one reader.
//! - `rendezvous`: brings two ends together; `registry`, `listener`: register the name of an end.
//! - [`directory`]: the names of a machine's endpoints, kept by its engine.
//! - `report`: the status that an endpoint reports to the directory.
//! - `end`: an end as its link drives it; `wait`: waiting as a thread or as a task.
//! - `forwarding`: methods that ends forward to their cores. `held`: a program's handle on its end;
//!   `machine`: the source of time and randomness.
//! - [`Properties`], [`StreamError`].

#![forbid(unsafe_code)]

pub mod directory;
mod element;
mod end;
mod error;
mod fan;
mod forwarding;
mod held;
pub mod journal;
mod linger;
mod listener;
mod machine;
mod options;
mod properties;
mod reader;
mod registry;
mod rendezvous;
mod report;
#[cfg(feature = "sim")]
#[doc(hidden)]
pub mod sim;
mod sync;
mod wait;
mod wait_shared;
mod writer;

pub use element::{Element, Plain};
pub use error::StreamError;
pub use fan::{
    Acquired, FanInOptions, FanInReader, FanInValueReader, FanOutOptions, FanOutValueWriter,
    FanOutWriter, Lacking, Member, Policy, Present, Run, RunEnd,
};
pub use journal::{Commit, Durability, JournalError, JournalOptions};
pub use options::{BYTES_MAX_DEFAULT, CAPACITY_DEFAULT, DIRECTORY_PORT, Options};
pub use properties::{Monitor, Properties};
pub use reader::{ByteRegion, Reader, Region, ValueReader, element_bytes};
pub use trunkline_proto::stream::{Left, StreamFault};
pub use writer::{Closed, Until, ValueWriter, Writer};
