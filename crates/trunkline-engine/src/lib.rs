//! The variables of one process: libraries, cells, contracts, the ledger and rights.
//!
//! The crate starts no thread, never sleeps, reads no clock and opens nothing: the host program
//! supplies threads and time. The path of a sample:
//!
//! ```text
//! try_write --> check --> lock --> decide --> commit --> wakes          write
//!              caller     variable  scale,     cell, marks, feeds       variable, delivery
//!              type                 deadband                                 |
//!                                                                            v
//!                                            Consumer::drain  <-- outbox (indices, not copies)
//! ```
//!
//! # Layout
//! In order of dependency: a module may use only those above it. Decision 0057 lists the
//! exceptions.
//! - `sync`, `caller`, `update`, [`outcome`]: locks and atomics; the author of a request; a value
//!   with its quality; the outcomes of a write.
//! - `delivery`: the effect of a commit on each subscriber, depending on its contract.
//! - `variable`: one variable: its newest update, its state, and the data that features store
//!   there.
//! - `variables`: names and handles.
//! - `write`: the write path, and how features take part in a write.
//! - `subscriptions`: consumers, deliveries, and the subscribers' side of the ledger.
//! - `features`: features of variables beyond holding a value.
//! - `queries`: answers about many variables, or detailed answers about one.
//! - `host`: services that the engine's host provides.
//! - [`engine`]: the public type, with all features.

#![forbid(unsafe_code)]
#![warn(
    clippy::match_wildcard_for_single_variants,
    clippy::wildcard_enum_match_arm
)]

mod caller;
mod delivery;
pub mod engine;
mod features;
mod fifo;
mod host;
pub mod outcome;
mod queries;
mod rights;
mod subscriptions;
mod sync;
mod update;
mod variable;
mod variables;
mod write;

pub use caller::{Caller, Principal};
pub use delivery::feed::SharedRun;
pub use delivery::group_room::GROUP_MAX;
pub use delivery::mail::{ProviderId, ProviderOrder, SourceItem, Ticket};
pub use delivery::outbox::{Reader, SessionInfo, Wake, Wakes};
pub use delivery::rings::BUFFER_BYTES_MAX;
pub use engine::{Engine, EngineOptions, alarms};
pub use features::alarms::{
    ALARM_CHANGES_MAX, AlarmCounts, AlarmNote, AlarmReader, AlarmRefusal, AlarmSnapshot,
    PriorityBand, SHELVE_MAX,
};
pub use features::alias::{ALIAS_DEPTH_MAX, ALIASES_MAX, AliasFault};
pub use features::audit::{
    AUDIT_BEST_EFFORT_MAX, AUDIT_NOTES_MAX, AUDIT_REPEAT_PERIOD, AUDIT_WAIT_MAX, AuditCondition,
    AuditRoom, AuditStorage, NoAuditRoom, OrderNote, SecurityEvent, SecurityNote,
};
pub use features::control::{ControlList, ControlRefusal, ControlState};
pub use features::forcing::{ForcedPage, ForcedVariable};
pub use features::groups::{GroupAttempt, GroupMember, GroupOutcome, Snapshot};
pub use features::leases::{
    Granted, LEASE_MAX, LEASE_MIN, LeaseHolder, LeaseRequest, LeaseVerb, WRITERS_WAITING_MAX,
};
pub use features::libraries::{
    DeployError, Deployed, Deployment, Library, Retained, RetainedValues, UnknownLibrary,
};
pub use features::providers::{
    Answer, NameTaken, PROVIDER_PENDING_MAX, Provider, SourceConnection, SourceState,
};
pub use features::tables::MirrorGuard;
pub use features::{fields, providers, realtime};
pub use host::orders::{Administrator, Order, Reply, check_configure};
pub use host::{figures, history, store};
pub use outcome::orders::{LibraryState, LogPage, OrderResult, ReloadedKeys, Report};
pub use outcome::{
    AccessError, Attempt, Controlled, LateKept, Refusal, UnknownCause, WriteOutcome,
};
pub use queries::names::{Watch, WatchProgress, WatchSlice};
pub use queries::{health, search};
pub use rights::{Rights, RightsClass, io_item, io_server};
pub use subscriptions::{
    Consumer, Delivery, ITEMS_MAX, Sink, Subscribe, Subscriptions, SweepSlice,
};
pub use update::{Encoded, LARGE_BYTES, NoMemory, PlainUpdate, Update, check_room_to_decode};
pub use variable::Variable;
pub use variables::{FollowedHandles, HandleReader, SlotCounts, VARIABLES_MAX};
pub use write::engine_core::{EngineCore, View};
pub use write::wall_clock::{CLOCK_SETTLING, CLOCK_STEP_MIN, ClockSteps};
pub use write::{Completion, Origin, Write, WriteValue, WriteVerb};
