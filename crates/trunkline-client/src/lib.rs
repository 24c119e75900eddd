//! The client's end of the protocol, without input or output.
//!
//! [`ClientCore`] is a state machine. Its input is bytes and the time, and its output is bytes and
//! the time of the next call. It opens no socket, never waits and starts no thread. `trunkline-net`
//! drives it over any transport. The simulator drives it without a transport, so every run is
//! exactly reproducible.
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
//! The program's variables, subscriptions and requests continue across reconnections. Variables are
//! identified by name and opened again, subscriptions resume from their last update on, and
//! unanswered requests are sent again. Writes, and other requests that change the engine, are never
//! sent twice: if the connection is lost before they are answered, their outcome is unknown.
//!
//! # Layout
//! From the bottom up: each part imports only the parts above it in this list.
//! - `table`, [`options`], [`error`], [`state`], `event`: tables, and types for the program.
//! - `variables`: variables by name and handle, arriving readings and pages of them, conversions.
//! - `connection`: the life cycle of the connection, and acknowledgements.
//! - [`answer`]: the answers to requests.
//! - `client_state`: the state that every part uses.
//! - `ask`: the requests that the client makes itself.
//! - `writes`: writes, from the call to the outcome.
//! - `typed`: references to variables with a checked type.
//! - `subscriptions`: `remote` has the subscriptions as the engine knows them, with losses. Above
//!   it are `subscription`, with those of the program, `delivery`, `restore` for reconnections and
//!   retries, and `convergence`.
//! - `recorded`: the events of a subscription, combined with recorded readings.
//! - `patterns`: watched patterns, and subscriptions by pattern.
//! - `provider`: this client as the source of variables.
//! - `parts`: all parts above together.
//! - `explain`: why a variable's updates do not reach the program.
//! - [`request`]: one type and one file for each request, and the progress of requests.
//! - `client`: [`ClientCore`] with its verbs, input and output.

#![forbid(unsafe_code)]

pub mod answer;
mod ask;
mod client;
mod client_state;
mod connection;
pub mod error;
mod event;
mod explain;
pub mod options;
mod parts;
mod patterns;
mod provider;
mod recorded;
pub mod request;
pub mod state;
mod subscriptions;
mod table;
mod typed;
mod variables;
mod writes;

pub use answer::{ControlList, ForcedList, Found, Lease, Opened, Snapshot, Step};
pub use client::ClientCore;
pub use error::{RequestError, SubscribeError, WriteError};
pub use event::Event;
pub use options::{
    BufferError, ClientOptions, Need, OpenOptions, SubscribeOptions, contract_of_buffer,
};
pub use patterns::follow::{FollowEvent, FollowId};
pub use patterns::watch::{WatchEvent, WatchId};
pub use provider::{ProviderEvent, ProviderReply, Publication};
pub use recorded::{Bookmark, RecordedEvents, RecordedStart};
pub use request::{
    ALARMS_MAX, AUDIT_ENTRIES_MAX, AlarmName, AlarmQuery, LeaseTerms, Request, RequestId,
};
pub use state::{ConnectionCounters, ConnectionState, Session};
pub use subscriptions::batch::{Batch, BatchReading};
pub use subscriptions::subscribe::Item;
pub use subscriptions::subscription::{SubscriptionAccount, SubscriptionId};
pub use trunkline_proto::message::group::GROUP_MAX;
pub use trunkline_proto::message::lease::LeaseVerb;
pub use trunkline_proto::message::write::WriteOptions;
pub use trunkline_proto::{Credentials, LoginKey};
pub use trunkline_types::{Comparison, Condition, ConditionError};
pub use typed::{TypeMismatch, Typed};
pub use variables::VariableRef;
pub use variables::convert::{EnumIndex, FromValue, IntoValue};
pub use variables::local::{LocalUpdate, LocalVariable};
pub use variables::reading_buffer::{ReadingBuffer, ReadingRef};
pub use writes::{
    GroupOutcome, NotTried, Write, WriteBatchId, WriteCounts, WriteMode, WriteOutcome,
};
