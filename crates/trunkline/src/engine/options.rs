//! The options of an engine, and the errors of its start.

use std::path::PathBuf;
use std::time::Duration;

use trunkline_engine::NameTaken;
use trunkline_engine::history::HistoryError;
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

/// Settings of a hosted engine.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Name of the engine, shown to its clients.
    pub name: String,
    /// File that stores deployed libraries and retained values. `None`: they are lost when the
    /// engine ends.
    pub store: Option<PathBuf>,
    /// Maximum number of audit entries in the store; older entries are removed. Without a store,
    /// the newest 10,000 entries stay in memory.
    pub audit_entries: u64,
    /// Maximum age of audit entries; older ones are removed. `None`: no limit.
    pub audit_age: Option<Duration>,
    /// Maximum number of entries of the alarm journal in the store; older entries are removed.
    /// Without a store, the newest 10,000 entries stay in memory.
    pub alarm_journal_entries: u64,
    /// Maximum age of entries of the alarm journal; older ones are removed. `None`: no limit.
    pub alarm_journal_age: Option<Duration>,
    /// Addresses to listen at. Empty by default: only this process can reach the engine.
    pub listen: Vec<ListenAddress>,
    /// Adds a Unix socket to each loopback port, for programs of the same user. If that socket
    /// cannot be created, only the port is available.
    pub local_socket: bool,
    /// Lets programs of the same user that connect over a Unix socket use shared memory.
    pub shared_memory: bool,
    /// Allows addresses that other machines can reach, although connections are neither
    /// authenticated nor encrypted yet.
    pub insecure: bool,
    /// Refuses programs of other users, also over TCP. A program on another machine counts as
    /// another user.
    pub same_user: bool,
    /// Maximum number of simultaneous connections.
    pub sessions_max: usize,
    /// Maximum number of simultaneous connections whose clients have not introduced themselves yet.
    pub handshakes_max: usize,
    /// Maximum number of connections per second from one address of another machine; also the size
    /// of the permitted burst.
    pub connections_per_address: u32,
    /// Maximum number of items per connection.
    pub items_per_session_max: u32,
    /// Write credit of a connection: the number of unanswered writes, and the bytes of their
    /// values.
    pub write_credit: (u32, u32),
    /// Bytes that may wait in the subscriptions of one connection. Each update counts with its
    /// value and 64 bytes.
    pub queue_bytes_per_session_max: usize,
    /// Bytes that may wait in the subscriptions of all connections and of this program together. By
    /// default a quarter of the machine's memory.
    pub queue_bytes_max: usize,
    /// Bytes that the requests and items of all connections together may take; one connection gets
    /// at most half of them. By default a quarter of the machine's memory.
    pub request_bytes_max: usize,
    /// Interval between keep-alives.
    pub keep_alive: Duration,
    /// Silence after which a connection is considered dead.
    pub deadline: Duration,
    /// Longest time that a connection thread spins before it sleeps. Spinning avoids the wake-up
    /// delay but costs processor time; the thread stops spinning where it does not pay. Zero: the
    /// thread sleeps at once.
    pub spin: Duration,
    /// Interval at which the engine measures itself and updates the variables of `_engine`, at most
    /// four times a second. Zero: no measurements, and no such variables.
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

/// The reason why an engine could not be started as requested.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The engine cannot listen.
    #[error("{0}")]
    Bind(#[from] BindError),
    /// A thread could not be started.
    #[error("cannot start a thread ({0}); the system's thread limit has been reached")]
    Thread(std::io::Error),
    /// The store cannot be used.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// The history cannot be opened.
    #[error("{0}")]
    History(HistoryError),
    /// The configuration asks for a history, but this program cannot record one.
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
