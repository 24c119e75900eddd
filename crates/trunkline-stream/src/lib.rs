//! Lossless streams: a one-way flow of elements of one type between two programs, in order, kept
//! until it is read, whatever becomes of the connection between.
//!
//! ```text
//!   program        writer's buffer                     reader's buffer        program
//!      | write  [ kept | to send ]  ===== network =====> [ arrived ]  read ^
//!      v                                                                   |
//!   Writer<T>   End<WriterEnd> in a Link         End<ReaderEnd> in a Link   Reader<T>
//! ```
//!
//! Creation is a rendezvous: it returns when both ends are there. What is written stays in the
//! writer's buffer until it has reached the reader's, and in the reader's until it is read; a full
//! reader stops the writer. A connection that is cut comes back by itself, and nothing is lost or
//! doubled by it. What the two ends say to each other is in [`trunkline_proto::stream`].
//!
//! # Layout
//! - [`Writer`], [`Reader`]: the two ends; [`Element`]: what they carry; [`Options`].
//! - [`ValueWriter`], [`ValueReader`]: the same of any type of Trunkline, known at run time.
//! - [`FanOutWriter`], [`FanInReader`]: one writer and many readers, many writers and one reader.
//! - `rendezvous`: how two ends come together; `registry`, `listener`: how an end has a name.
//! - [`directory`]: the names of a machine's endpoints, kept by its engine.
//! - `report`: what an endpoint tells of itself there.
//! - `end`: an end as its link drives it; `wait`: waiting as a thread or as a task.
//! - `forwarding`: what ends have from their cores. `held`: how a program has its end; `machine`:
//!   where time and chance come from.
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
