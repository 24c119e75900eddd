//! Options of an engine, and the errors of starting it.

use std::path::PathBuf;
use std::time::Duration;

use trunkline_engine::NameTaken;
use trunkline_engine::history::HistoryError;
use trunkline_engine::store::StoreError;
use trunkline_io::DriverError;
use trunkline_net::SPIN_DEFAULT;
use trunkline_net::server::{BindError, InheritedSockets};
use trunkline_proto::limits::{
    ITEMS_MAX_DEFAULT, KEEPALIVE_DEADLINE, KEEPALIVE_INTERVAL, QUEUE_BYTES_MAX_DEFAULT,
    WRITE_CREDIT_BYTES, WRITE_CREDIT_COUNT,
};
use trunkline_types::ListenAddress;

use super::LibraryError;
use crate::logins::SecurityError;
use crate::machine;

/// Settings of a hosted engine.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Name of the engine, as clients see it.
    pub name: String,
    /// File that stores deployed libraries and retained values. With `None`, both are lost when the
    /// engine ends.
    pub store: Option<PathBuf>,
    /// Maximum number of audit entries in the store; older entries are removed. Without a store,
    /// the newest 10,000 entries stay in memory.
    pub audit_entries: u64,
    /// Maximum age of audit entries; older entries are removed. `None` is no limit.
    pub audit_age: Option<Duration>,
    /// Maximum number of entries of the alarm journal in the store; older entries are removed.
    /// Without a store, the newest 10,000 entries stay in memory.
    pub alarm_journal_entries: u64,
    /// Maximum age of entries of the alarm journal; older entries are removed. `None` is no limit.
    pub alarm_journal_age: Option<Duration>,
    /// Addresses to listen at. With the default, an empty list, only this process can reach the
    /// engine.
    pub listen: Vec<ListenAddress>,
    /// Sockets of a service manager that listen already. The engine uses those whose address is in
    /// `listen`, and opens the others itself.
    pub inherited: InheritedSockets,
    /// Adds a Unix socket to each loopback port, for programs of the same user. If the socket
    /// cannot be created, clients use the port instead.
    pub local_socket: bool,
    /// Lets programs of the same user that connect over a Unix socket use shared memory.
    pub shared_memory: bool,
    /// Allows listening at addresses that other machines can reach without encryption and without
    /// identities: every client may do everything.
    pub insecure: bool,
    /// The security folder, with the certificates, accounts and rules of the engine. With it,
    /// connections from other machines are encrypted, and their clients need an account. Without it,
    /// the engine serves only programs of its own user, unless it is insecure.
    pub security: Option<PathBuf>,
    /// Refuses programs of other users, over TCP as well. A program on another machine counts as a
    /// program of another user.
    pub same_user: bool,
    /// Maximum number of simultaneous connections.
    pub sessions_max: usize,
    /// Maximum number of simultaneous connections that are still in the handshake.
    pub handshakes_max: usize,
    /// Maximum number of connections per second from one address of another machine. This is also
    /// the size of a permitted burst.
    pub connections_per_address: u32,
    /// Maximum number of subscribed items per connection.
    pub items_per_session_max: u32,
    /// Write credit of a connection: the maximum number of its unanswered writes, and the maximum
    /// size of their values in bytes.
    pub write_credit: (u32, u32),
    /// Maximum size in bytes of the updates that wait in the subscriptions of one connection. Each
    /// update counts as its value plus 64 bytes.
    pub queue_bytes_per_session_max: usize,
    /// Maximum size in bytes of the updates that wait in the subscriptions of all connections and
    /// of this program together. By default, a quarter of the machine's memory.
    pub queue_bytes_max: usize,
    /// Maximum memory in bytes for the requests and items of all connections together. One
    /// connection gets at most half of it. By default, a quarter of the machine's memory.
    pub request_bytes_max: usize,
    /// Interval between keep-alive frames.
    pub keep_alive: Duration,
    /// Time without any data after which a connection is considered dead.
    pub deadline: Duration,
    /// Longest time that a connection thread spins before it sleeps. Spinning avoids the delay of a
    /// wake-up but costs processor time. A thread stops spinning when this brings no benefit. With
    /// zero, the thread sleeps at once.
    pub spin: Duration,
    /// Interval at which the engine measures itself and updates the variables of `_engine`, at
    /// least 250 ms. With zero, there are no measurements and no such variables.
    pub health: Duration,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            name: "trunkline".to_owned(),
            store: None,
            audit_entries: 100_000,
            audit_age: None,
            alarm_journal_entries: 1_000_000,
            alarm_journal_age: None,
            listen: Vec::new(),
            inherited: InheritedSockets::default(),
            local_socket: true,
            shared_memory: true,
            insecure: false,
            security: None,
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

/// The reason why an engine could not be started as requested.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The engine cannot listen at one of its addresses.
    #[error("{0}")]
    Bind(#[from] BindError),
    /// The system cannot start another thread.
    #[error("cannot start a thread ({0}); raise the system's limit on threads")]
    Thread(std::io::Error),
    /// The store cannot be used.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// The history cannot be opened.
    #[error("{0}")]
    History(HistoryError),
    /// The security folder cannot be used.
    #[error("{0}")]
    Security(#[from] SecurityError),
    /// The configuration has a history, but this program cannot record one.
    #[error(
        "[[history]]: this program records no history; remove the section, or use `trunkline serve`"
    )]
    NoHistory,
    /// A library cannot be deployed.
    #[error("{0}")]
    Deploy(#[from] LibraryError),
    /// Another I/O server with this name is running.
    #[error("{0}")]
    NameTaken(#[from] NameTaken),
    /// The driver of an I/O server cannot be created.
    #[error("[[io]] {name}: {error}")]
    Driver {
        /// Name of the I/O server.
        name: String,
        /// The driver's error.
        error: Box<DriverError>,
    },
    /// A variable names an item that its I/O server does not have.
    #[error("{variable}: I/O server {server} has no item {item}; correct `source`")]
    UnknownItem {
        /// Name of the variable.
        variable: String,
        /// Name of the I/O server.
        server: String,
        /// Name of the item.
        item: String,
    },
}
