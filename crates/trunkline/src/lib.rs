//! Trunkline: a distributed real-time data system for measurement and control.
//!
//! Add this crate to a program to host variables in an [`Engine`], or to use the variables of any
//! engine with a [`Client`]. One program can do both. A client has the same methods, called verbs,
//! whether the engine is in this process, on this machine or elsewhere in the network.
//!
//! ```
//! use trunkline::types::{Contract, DataType, LibraryDefinition, VariableDefinition};
//! use trunkline::{Engine, EngineOptions};
//!
//! let engine = Engine::start(EngineOptions::default())?;
//! engine.deploy(&LibraryDefinition {
//!     name: "rig".into(),
//!     description: String::new(),
//!     variables: vec![VariableDefinition::new("pump1/pressure", DataType::F64)],
//! })?;
//! let pressure = engine.variable::<f64>("rig/pump1/pressure")?;
//! pressure.write(2.41)?;
//! assert_eq!(pressure.read()?.value, 2.41);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Layout
//! - [`Engine`]: hosts variables. `sessions` creates an endpoint for each connection,
//!   `stream_sessions` serves the directory of streams, `io_host`
//!   runs I/O servers, `deployments` keeps libraries, store and I/O servers consistent, `reload` applies
//!   changed configuration files, `retention` stores values, `audit` stores the audit entries,
//!   `administrator` carries out the orders of
//!   clients, `logins` decides who they are, and `health` measures the engine itself.
//! - [`realtime`]: endpoints of variables for time-critical threads.
//! - [`local`]: variables and subscriptions of an engine in this process, without a connection.
//! - [`Client`], [`aio`], [`polled`]: the verbs of a client in blocking, async and polled form.
//! - [`Provider`]: runs an I/O server in this process that delivers to an engine elsewhere.
//! - [`contexts`]: the engines that the user has joined.
//! - [`stream`]: lossless streams between programs.
//! - `record`: recording and playback of devices, streams and variables (Linux only).
//! - [`types`], [`config`], [`io`]: the types that these modules use.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod administrator;
mod alarms;
mod audit;
pub mod client;
pub mod contexts;
mod deployments;
mod device;
pub mod engine;
mod file_libraries;
mod health;
mod history;
mod io_host;
pub mod local;
mod logins;
mod machine;
mod provider;
#[cfg(target_os = "linux")]
pub mod record;
mod reload;
mod retention;
mod sessions;
mod stream_sessions;

pub use client::{
    CallError, Callbacks, Client, ConnectError, ConnectOptions, LocalReader, OnChangeError,
    PatternSet, PatternSubscription, RecordedSubscription, Subscription, VariableError, Watch, aio,
    polled,
};
pub use contexts::{
    ClientSecurity, Context, ContextError, ContextProof, Contexts, JoinError, NewContext, NewKey,
    engine_of_peer, stream_options,
};
pub use engine::{Engine, EngineOptions, LibraryError, StartError};
pub use history::OpenHistory;
pub use logins::SecurityError;
pub use provider::{
    Order, OrderAnswer, Provider, ProviderOptions, ProviderStatus, QueuedProvider,
    QueuedProviderError, QueuedProviderOptions,
};
pub use reload::{ReloadError, Reloaded};
pub use trunkline_client::{
    AlarmName, AlarmQuery, Batch, BatchReading, Bookmark, Comparison, Condition, ConnectionState,
    ControlList, Credentials, Event, FollowEvent, ForcedList, Found, FromValue, GROUP_MAX,
    GroupOutcome, IntoValue, Item, Lease, LeaseTerms, LeaseVerb, NotTried, OpenOptions, Opened,
    ReadingBuffer, ReadingRef, RecordedStart, RequestError, Session, Snapshot, Step,
    SubscribeError, SubscribeOptions, SubscriptionAccount, Typed, VariableRef, WatchEvent, Write,
    WriteCounts, WriteError, WriteMode, WriteOutcome,
};
pub use trunkline_config as config;
pub use trunkline_io as io;
pub use trunkline_net::server::{InheritedError, InheritedSockets};
pub use trunkline_net::{Peer, SPIN_DEFAULT, TransportUsed};
pub use trunkline_stream as stream;
#[cfg(target_os = "linux")]
pub use trunkline_tdms as tdms;
pub use trunkline_types as types;

/// Endpoints of variables with a FIFO, for time-critical threads.
pub mod realtime {
    pub use trunkline_engine::realtime::{RtError, RtRead, RtReader, RtReading, RtWrite, RtWriter};
}

/// Measurements of an engine.
pub mod figures {
    pub use crate::health::HealthMonitor;
    pub use trunkline_engine::figures::*;
    pub use trunkline_engine::{AlarmCounts, PriorityBand, SourceConnection, SourceState};
}

/// The history interface of an engine, for programs that record history themselves.
pub mod recording {
    pub use trunkline_engine::history::{
        ForeignSpoolReason, History, HistoryError, HistoryFigures, SpoolState,
    };
}

/// The persistent state of an engine, and the stores that contain it.
pub mod store {
    pub use trunkline_engine::store::{
        Damage, LogBound, OpenFault, RetainedValue, Start, Store, StoreError, StoreErrorKind,
        StoredLibrary,
    };
    pub use trunkline_engine::{Encoded, LibraryState};
    pub use trunkline_store::SqliteStore;
}

/// Protocol types that the verbs return: faults, causes of a disconnection, and the answers to
/// `info` and `why`.
pub mod proto {
    pub use trunkline_proto::message::ended::EndReason;
    pub use trunkline_proto::message::engine::{EngineInfo, LibraryInfo};
    pub use trunkline_proto::message::forcing::ForcedEntry;
    pub use trunkline_proto::message::info::{ReaderInfo, SubscriptionInfo, VariableInfo};
    pub use trunkline_proto::message::library::{LibraryAfter, LibraryReport, LibraryVerb};
    pub use trunkline_proto::message::login::{Password, PasswordTooLong};
    pub use trunkline_proto::message::pair::{Pair, Paired};
    pub use trunkline_proto::message::why::{WhyStage, WhyVerdict};
    pub use trunkline_proto::{Disconnect, Fault, FaultCode, ThroughputMode, VersionMismatch};
}
