//! The client's end of the protocol: handles, cells, queues, batches, and its side of the ledger.
//!
//! [`ClientCore`] is a state machine: bytes and the time go in, bytes and the time of the next call
//! come out. It opens no socket, never waits and starts no thread. `trunkline-net` drives it over
//! any transport; the simulator drives it without one, and each run repeats bit for bit.
//!
//! ```text
//!  program: open  read  write  subscribe ...       take  take_outcomes  next_event  value
//!              |                                       ^
//!              v                                       |
//!  requests, writes: in order, bounded        answers, outcomes, queues, local copies: bounded
//!              |                                       ^
//!              v                                       |
//!  output: frames of 64 KiB within credit     dispatch: each frame checked, or the end of it
//!              |                                       ^
//!              v                                       |
//!          bytes out ~~~~~~~~~~~~ the driver ~~~~~~~~~~ bytes in
//! ```
//!
//! Everything the program holds survives reconnects. Variables are known by name and opened again,
//! subscriptions resume after their last update, and unanswered requests are sent again. Writes,
//! and other requests that change the engine, are never sent twice: if their answer was lost with
//! the connection, they end as unknown.
//!
//! # Layout
//! - [`ClientCore`] (`client`), `connection`, `receipt`, `output`, `gather`: the state machine, the
//!   life of the connection, acknowledgements, and sending.
//! - `provider`: this client as the source of variables.
//! - `verbs`: verbs with one answer; [`request`]: one type and one file for each request; `pending`
//!   and `settle`: what is unanswered, and its course; [`answer`], `page`: answers.
//! - `write`, `write_queue`, `outcome`: writes, credit, outcomes.
//! - `subscribe`, `taking`, `subscription`, `queue`, `lane`, `event`, `batch`: subscriptions as the
//!   program sees them.
//! - `wire`, `delivery`, `reading`, `account`: subscriptions as the engine sees them, arriving
//!   updates, and losses.
//! - `watch`, `follow`: watched patterns, and subscriptions by pattern.
//! - `restore`: reconnects, and retries of failed items.
//! - [`typed`], [`options`], [`error`], [`state`]: program types, options, errors, connection
//!   state.

#![forbid(unsafe_code)]

mod account;
pub mod answer;
mod batch;
mod client;
mod connection;
mod convergence;
mod delivery;
pub mod error;
mod event;
mod explain;
mod follow;
mod gather;
mod lane;
mod local;
pub mod options;
mod outcome;
mod output;
mod page;
mod pending;
mod provider;
mod queue;
mod reading;
mod receipt;
pub mod request;
mod restore;
mod settle;
pub mod state;
mod subscribe;
mod subscription;
mod table;
mod taking;
pub mod typed;
mod variable;
mod verbs;
mod watch;
mod wire;
mod write;
mod write_queue;

pub use answer::{ForcedList, Found, Lease, Opened, Snapshot, Step};
pub use batch::{Batch, BatchReading};
pub use client::ClientCore;
pub use error::{RequestError, SubscribeError, WriteError};
pub use event::Event;
pub use follow::{FollowEvent, FollowId};
pub use local::{LocalUpdate, LocalVariable};
pub use options::{
    BufferError, ClientOptions, Need, OpenOptions, SubscribeOptions, contract_of_buffer,
};
pub use outcome::{GroupOutcome, NotTried, WriteCounts, WriteOutcome};
pub use page::{PageReading, ReadingPage};
pub use provider::{ProviderEvent, ProviderReply, Publication};
pub use request::{AUDIT_ENTRIES_MAX, LeaseTerms, Request, RequestId};
pub use state::{ConnectionCounters, ConnectionState, Session};
pub use subscribe::Item;
pub use subscription::{SubscriptionAccount, SubscriptionId};
pub use trunkline_proto::message::group::GROUP_MAX;
pub use trunkline_proto::message::lease::LeaseVerb;
pub use trunkline_proto::message::write::WriteOptions;
pub use trunkline_types::{Comparison, Condition, ConditionError};
pub use typed::{EnumIndex, FromValue, IntoValue, TypeMismatch, Typed};
pub use variable::VariableRef;
pub use watch::{WatchEvent, WatchId};
pub use write::{Write, WriteBatchId, WriteMode};
