//! How an engine is hosted, and why it may not start.

use std::path::PathBuf;
use std::time::Duration;

use trunkline_engine::NameTaken;
use trunkline_engine::store::StoreError;
use trunkline_io::DriverError;
use trunkline_net::SPIN_DEFAULT;
use trunkline_net::server::BindError;
use trunkline_proto::limits::{
    ITEMS_MAX_DEFAULT, KEEPALIVE_DEADLINE, KEEPALIVE_INTERVAL, QUEUE_BYTES_MAX_DEFAULT,
    WRITE_CREDIT_BYTES, WRITE_CREDIT_COUNT,
};
use trunkline_types::ListenAddress;

use super::LibraryError;
use crate::machine;

/// How an engine is hosted.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// What it calls itself.
    pub name: String,
    /// The file that deployed libraries and retained values are kept in; `None`: they last as long
    /// as the engine.
    pub store: Option<PathBuf>,
    /// Entries that the audit keeps there; beyond, the oldest are removed. Without a store it keeps
    /// the newest 10,000 in memory.
    pub audit_entries: u64,
    /// How old entries of the audit may be; older ones are removed. `None`: as old as they get.
    pub audit_age: Option<Duration>,
    /// Where it listens; nowhere by default: then only this process reaches it.
    pub listen: Vec<ListenAddress>,
    /// Whether each of its loopback ports can be reached by a Unix socket as well, by programs of
    /// the same user. Where that socket cannot be made, the port alone is there.
    pub local_socket: bool,
    /// Whether programs of the same user, which connect over a Unix socket, talk to it through
    /// shared memory.
    pub shared_memory: bool,
    /// Allows addresses that other machines can reach, although nothing is protected yet.
    pub insecure: bool,
    /// Refuses programs of other users, also over TCP. A program of another machine is of another
    /// user.
    pub same_user: bool,
    /// Connections at a time.
    pub sessions_max: usize,
    /// Connections that are being set up at a time: whose clients have not introduced themselves.
    pub handshakes_max: usize,
    /// Connections per second from one address of another machine; as many may come at once.
    pub connections_per_address: u32,
    /// Items one connection may have.
    pub items_per_session_max: u32,
    /// Writes of one connection that may be unanswered, and bytes of their values.
    pub write_credit: (u32, u32),
    /// Bytes that may wait in the subscriptions of one connection: values, and 64 for each update.
    pub queue_bytes_per_session_max: usize,
    /// Bytes that may wait in the subscriptions of all connections and of this program together;
    /// by default a quarter of the machine's memory.
    pub queue_bytes_max: usize,
    /// Bytes that the requests and items of all connections together may take, of which one
    /// connection has at most half; by default a quarter of the machine's memory.
    pub request_bytes_max: usize,
    /// Interval of keep-alives.
    pub keep_alive: Duration,
    /// Silence after which a connection counts as dead.
    pub deadline: Duration,
    /// How long a connection thread looks for something to do before it sleeps, at most. Looking
    /// spares the time that waking up takes and costs processor time; it is given up where it does
    /// not pay. Zero: it sleeps at once.
    pub spin: Duration,
    /// How often the engine measures itself, into the variables of `_engine`; zero: never, and
    /// there are none. It looks four times a second at most.
    pub health: Duration,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            name: "trunkline".to_owned(),
            store: None,
            audit_entries: 100_000,
            audit_age: None,
            listen: Vec::new(),
            local_socket: true,
            shared_memory: true,
            insecure: false,
            same_user: false,
            sessions_max: 1000,
            handshakes_max: 100,
            connections_per_address: 20,
            items_per_session_max: ITEMS_MAX_DEFAULT,
            write_credit: (WRITE_CREDIT_COUNT, WRITE_CREDIT_BYTES),
            queue_bytes_per_session_max: QUEUE_BYTES_MAX_DEFAULT,
            queue_bytes_max: machine::quarter_of_memory(),
            request_bytes_max: machine::quarter_of_memory(),
            keep_alive: KEEPALIVE_INTERVAL,
            deadline: KEEPALIVE_DEADLINE,
            spin: SPIN_DEFAULT,
            health: Duration::from_secs(1),
        }
    }
}

/// Why an engine could not be started as asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// It cannot listen.
    #[error("{0}")]
    Bind(#[from] BindError),
    /// A thread could not be started.
    #[error("a thread could not be started ({0}); the system's limit on threads is reached")]
    Thread(std::io::Error),
    /// The store cannot be used.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// A library cannot be deployed.
    #[error("{0}")]
    Deploy(#[from] LibraryError),
    /// Another I/O server of this name runs.
    #[error("{0}")]
    NameTaken(#[from] NameTaken),
    /// An I/O server cannot be made.
    #[error("[[io]] {name}: {error}")]
    Driver {
        /// Its name.
        name: String,
        /// What is wrong.
        error: Box<DriverError>,
    },
    /// A variable names an item that its I/O server does not have.
    #[error("{variable}: I/O server {server} has no item {item}; correct `source`")]
    UnknownItem {
        /// The variable.
        variable: String,
        /// The I/O server.
        server: String,
        /// The item.
        item: String,
    },
}
