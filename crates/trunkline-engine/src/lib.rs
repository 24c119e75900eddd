//! The variables of one process: libraries, cells, contracts, the ledger and rights.
//!
//! The crate starts no thread, never sleeps, reads no clock and opens nothing: the composing
//! program supplies threads and time. The path of a sample:
//!
//! ```text
//! try_write --> check --> lock --> decide --> commit --> wakes          write, accept
//!              caller     variable  scale,     cell, marks, feeds       cell, interest, feed
//!              type                 deadband                                 |
//!                                                                            v
//!                                            Consumer::drain  <-- outbox (indices, not copies)
//! ```
//!
//! # Layout
//! - [`Engine`](engine), [`Library`], `registry`: libraries, names, handles.
//! - [`Variable`], `flags`, `cell`, `update`: one variable and its newest update.
//! - `alias`: variables that show and write others.
//! - `force`: variables that a person holds at a value.
//! - `write`, `accept`, [`outcome`]: the write path and the five ends of a write.
//! - `plain`: the fast path for numbers without rules.
//! - `lease`: exclusive rights to write a variable: leases and single writers.
//! - `mirror`: last values in tables that other programs read without a request.
//! - `group`: several variables written or read at one instant.
//! - `latest`, `interest`, `outbox`, `feed`, `retained`, `budget`: what a commit does for each
//!   contract.
//! - [`Consumer`]: subscriptions, deliveries, their side of the ledger.
//! - [`Order`]: requests that change the engine itself.
//! - [`provider`]: values owned by another party.
//! - [`realtime`]: cells and FIFOs for time-critical threads.
//! - `audit`: audit entries on their way to the host's store.
//! - [`health`]: totals over all variables.
//! - [`store`]: state that survives a restart.
//! - [`field`]: a variable's configuration and state, as cells of their own.
//! - [`search`]: variables by their fields.
//! - `explain`: why a variable does not update.

#![forbid(unsafe_code)]

mod accept;
mod age;
mod alias;
mod audit;
mod budget;
mod caller;
mod cell;
mod clock;
mod consumer;
pub mod engine;
mod explain;
mod feed;
pub mod field;
mod flags;
mod force;
mod group;
pub mod health;
mod interest;
mod latest;
mod lease;
mod library;
mod mirror;
mod order;
mod outbox;
pub mod outcome;
mod plain;
pub mod provider;
pub mod realtime;
mod registry;
mod retained;
pub mod search;
pub mod store;
mod sync;
mod update;
mod variable;
mod watch;
mod write;
mod writers;

pub use alias::{ALIAS_DEPTH_MAX, ALIASES_MAX, AliasFault};
pub use audit::{
    AUDIT_BEST_EFFORT_MAX, AUDIT_NOTES_MAX, AUDIT_PATIENCE, AuditKeeping, AuditRoom, NoAuditRoom,
    OrderNote,
};
pub use caller::{Caller, Principal, Rights};
pub use clock::{CLOCK_SETTLING, CLOCK_STEP_MIN, ClockSteps};
pub use consumer::{Consumer, Delivery, ITEMS_MAX, Looked, ProviderOrder, Sink, Subscribe};
pub use engine::{Engine, EngineOptions};
pub use feed::SharedRun;
pub use force::{ForcedPage, ForcedVariable};
pub use group::{GROUP_MAX, GroupAttempt, GroupMember, GroupOutcome, Snapshot};
pub use lease::{
    Granted, HeldBy, LEASE_MAX, LEASE_MIN, LeaseRequest, LeaseVerb, WRITERS_WAITING_MAX,
};
pub use library::{
    DeployError, Deployed, Library, LibraryState, Retained, RetainedValues, UnknownLibrary,
};
pub use mirror::Mirror;
pub use order::{Administrator, Order, OrderResult, Reply, Report};
pub use outbox::{Reader, Wake, Wakes, Whose};
pub use outcome::{AccessError, Attempt, Refusal, UnknownCause, WriteOutcome};
pub use plain::PlainUpdate;
pub use provider::{
    Answer, NameTaken, PROVIDER_PENDING_MAX, Provider, ProviderId, SourceItem, Ticket,
};
pub use registry::{FollowedHandles, HandleReader, SlotCounts, VARIABLES_MAX};
pub use retained::BUFFER_BYTES_MAX;
pub use update::{Encoded, LARGE_BYTES, NoMemory, Update, check_room_to_decode};
pub use variable::Variable;
pub use watch::{Watch, WatchProgress, WatchSlice};
pub use write::{Completion, Origin, Write, WriteValue, WriteVerb};
