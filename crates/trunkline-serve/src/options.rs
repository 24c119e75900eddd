//! Defines the settings that all sessions of an engine share.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use trunkline_engine::Administrator;
use trunkline_proto::Negotiation;
use trunkline_proto::limits::{
    HELLO_DEADLINE, ITEMS_MAX_DEFAULT, KEEPALIVE_DEADLINE, KEEPALIVE_INTERVAL,
    QUEUE_BYTES_MAX_DEFAULT, REQUEST_BYTES_MAX_DEFAULT, WRITE_CREDIT_BYTES, WRITE_CREDIT_COUNT,
};
use trunkline_proto::message::closing::Goodbye;
use trunkline_types::{Tick, WhyStep};

use crate::gathering::FlushBroadcast;
use crate::login::Authenticator;
use crate::request_budget::RequestBudget;

/// Default of [`ServeOptions::resume_for`]: long enough for several attempts to reconnect, and for
/// the restart of a network switch.
pub const RESUME_FOR: Duration = Duration::from_secs(30);

/// Information about the running engine that only its host program has.
pub trait EngineFacts: Send + Sync {
    /// Returns the current number of open connections.
    fn sessions(&self) -> u64;

    /// Returns the name of the machine; empty if unknown.
    fn host(&self) -> String {
        String::new()
    }

    /// Returns the GOODBYE to send to clients while the engine stops, and `None` before that. A
    /// session calls this function after each output, so the host must wake all sessions when the
    /// result changes.
    fn goodbye(&self) -> Option<Goodbye> {
        None
    }

    /// Returns a step that explains whether and how a variable is recorded; `None` if the engine
    /// records nothing.
    fn recording(&self, _variable: &str) -> Option<WhyStep> {
        None
    }
}

/// Options for serving sessions.
#[derive(Clone)]
pub struct ServeOptions {
    /// Version of the program, which clients show to users.
    pub version: String,
    /// Identifies the engine's store. Without a store, the id is random for each start.
    pub engine_id: [u8; 16],
    /// Process id of the engine; 0 if unknown.
    pub pid: u32,
    /// Time at which the engine started.
    pub started: Tick,
    /// Protocol versions, features and frame sizes that the engine supports.
    pub negotiation: Negotiation,
    /// Maximum time from the connection to the client's HELLO.
    pub hello_deadline: Duration,
    /// Interval between keep-alives.
    pub keepalive: Duration,
    /// Maximum time without input from the client, after which the connection ends.
    pub deadline: Duration,
    /// Maximum number of items per session.
    pub items_max: u32,
    /// Maximum number of unanswered writes per session.
    pub write_credit_count: u32,
    /// Maximum total size of the values of unanswered writes per session, in bytes.
    pub write_credit_bytes: u32,
    /// Maximum size of the updates queued for one session, in bytes: the values, and 64 bytes per
    /// update.
    pub queue_bytes_max: usize,
    /// Memory budget for the requests and items of all sessions.
    pub requests: Arc<RequestBudget>,
    /// Time for which the `all` subscriptions of a broken connection are kept, so that the client's
    /// next session can resume them; zero: they are not kept.
    pub resume_for: Duration,
    /// Information that only the host program has; `None` if there is none.
    pub facts: Option<Arc<dyn EngineFacts>>,
    /// Passes a flush to all sessions in throughput mode.
    pub flushes: Arc<FlushBroadcast>,
    /// Carries out orders; `None`: orders are refused.
    pub administrator: Option<Arc<dyn Administrator>>,
    /// Decides who a client is. `None`: every session runs as the caller with which it was created.
    pub authenticator: Option<Arc<dyn Authenticator>>,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            engine_id: [0; 16],
            pid: 0,
            started: Tick::ZERO,
            negotiation: Negotiation::OURS,
            hello_deadline: HELLO_DEADLINE,
            keepalive: KEEPALIVE_INTERVAL,
            deadline: KEEPALIVE_DEADLINE,
            items_max: ITEMS_MAX_DEFAULT,
            write_credit_count: WRITE_CREDIT_COUNT,
            write_credit_bytes: WRITE_CREDIT_BYTES,
            queue_bytes_max: QUEUE_BYTES_MAX_DEFAULT,
            requests: Arc::new(RequestBudget::new(REQUEST_BYTES_MAX_DEFAULT)),
            resume_for: RESUME_FOR,
            facts: None,
            flushes: Arc::default(),
            administrator: None,
            authenticator: None,
        }
    }
}

impl fmt::Debug for ServeOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServeOptions")
            .field("version", &self.version)
            .field("negotiation", &self.negotiation)
            .field("items_max", &self.items_max)
            .finish_non_exhaustive()
    }
}
