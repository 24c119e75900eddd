//! What all sessions of one engine share.

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
use trunkline_types::Tick;

use crate::gathering::Flushes;
use crate::request_budget::RequestBudget;

/// How long a session that broke is kept: several attempts to reconnect, and a switch that starts
/// anew.
pub const RESUME_FOR: Duration = Duration::from_secs(30);

/// Facts about the running engine that only its host knows.
pub trait EngineFacts: Send + Sync {
    /// Connections open now.
    fn sessions(&self) -> u64;

    /// The name of the machine; empty when nobody knows it.
    fn host(&self) -> String {
        String::new()
    }

    /// What is said to clients because the engine is being stopped; `None` while it is not. Asked
    /// whenever a session has sent everything that was ready, so the host has to wake its sessions
    /// once this changes.
    fn goodbye(&self) -> Option<Goodbye> {
        None
    }
}

/// How sessions are served.
#[derive(Clone)]
pub struct ServeOptions {
    /// The program's version, for people.
    pub version: String,
    /// 128 random bits that tell engines apart, drawn at start.
    pub engine_id: [u8; 16],
    /// Process id.
    pub pid: u32,
    /// When the engine started.
    pub started: Tick,
    /// Versions, features and frame sizes.
    pub negotiation: Negotiation,
    /// How long a peer may take for its hello.
    pub hello_deadline: Duration,
    /// Interval of keep-alives.
    pub keepalive: Duration,
    /// Silence after which a peer counts as dead.
    pub deadline: Duration,
    /// Items one session may have.
    pub items_max: u32,
    /// Unanswered writes one session may have.
    pub write_credit_count: u32,
    /// Bytes of their values.
    pub write_credit_bytes: u32,
    /// Bytes that may wait in the subscriptions of one session: values, and 64 for each update.
    pub queue_bytes_max: usize,
    /// Memory that the requests and items of all sessions may take.
    pub requests: Arc<RequestBudget>,
    /// How long the `all` subscriptions of a session that broke are kept for the next one of its
    /// client; 0: not at all.
    pub resume_for: Duration,
    /// What only the host knows.
    pub facts: Option<Arc<dyn EngineFacts>>,
    /// Where a flush reaches every session that gathers.
    pub flushes: Arc<Flushes>,
    /// Who carries out orders; `None`: they are refused.
    pub administrator: Option<Arc<dyn Administrator>>,
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
