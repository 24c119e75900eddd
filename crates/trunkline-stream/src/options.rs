//! Defines the options for creating an endpoint.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use trunkline_net::{SPIN_DEFAULT, TlsClient};
use trunkline_proto::Credentials;

use crate::journal::JournalOptions;

/// Default capacity of a buffer, in elements (NS-20).
pub const CAPACITY_DEFAULT: usize = 4096;

/// Default size in bytes of a buffer for elements of varying length.
pub const BYTES_MAX_DEFAULT: usize = 16 << 20;

/// Options for creating an endpoint, besides its URL and type.
#[derive(Clone, Debug)]
pub struct Options {
    /// The peer's URL. An endpoint that names its peer opens the connection, and reopens it after
    /// each loss. Only one of the two endpoints has to name the other.
    pub peer: Option<String>,
    /// Capacity of the buffer in elements; at least 1.
    pub capacity: usize,
    /// Size in bytes of the buffer for elements of varying length. Memory is allocated as it is
    /// used, and released when the stream has been idle.
    pub bytes_max: usize,
    /// Allocates the memory for elements of varying length at creation instead of at first use.
    pub preallocate: bool,
    /// Longest time for which creation waits for the peer; `None`: no limit.
    pub timeout: Option<Duration>,
    /// Time for which an endpoint waits for a disconnected peer to return before it reports the
    /// peer as gone; `None`: no limit.
    pub gone_after: Option<Duration>,
    /// Lets another peer of the same name replace a peer that is gone. If elements vary in size, the
    /// new reader's buffer must be at least as large as the previous reader's buffer.
    pub accepts_successor: bool,
    /// Adds a checksum to the data, in addition to the transport's checksum; `None`: only between
    /// machines.
    pub is_checked: Option<bool>,
    /// A journal, with which the stream survives the end of the program.
    pub journal: Option<JournalOptions>,
    /// Longest time that a waiting thread spins before it sleeps; zero disables spinning.
    pub spin: Duration,
    /// The port of this machine's engine, which keeps the directory.
    pub directory_port: u16,
    /// The folder with the Unix sockets of this machine's engine; `None`: the current user's folder.
    pub sockets: Option<PathBuf>,
    /// Connects ends on one machine over TCP, as if they were on two machines; for tests and
    /// measurements.
    pub tcp_only: bool,
    /// Lets two ends on one machine share one ring, in memory that both processes have mapped.
    pub shared_memory: bool,
    /// Encryption and identity for the engine of the peer, if the peer is on another machine. The data
    /// is then encrypted from endpoint to endpoint.
    pub security: Option<EngineSecurity>,
    /// Permits connections with other machines that are not encrypted: to a peer on another machine
    /// without [`security`](Self::security), and to this endpoint's own port. Also permits programs of other
    /// users of this machine, at this endpoint's own port and at the port in the URL of its peer.
    pub insecure: bool,
    /// Name and release of the program, which the peer can display.
    pub program: String,
}

/// How a program reaches the engine of another machine.
#[derive(Clone, Debug)]
pub struct EngineSecurity {
    /// The engines that the program accepts.
    pub tls: Arc<TlsClient>,
    /// The proof of the program's identity.
    pub credentials: Option<Credentials>,
}

/// The default port of an engine, which keeps the directory.
pub const DIRECTORY_PORT: u16 = 5850;

impl Default for Options {
    fn default() -> Self {
        Self {
            peer: None,
            capacity: CAPACITY_DEFAULT,
            bytes_max: BYTES_MAX_DEFAULT,
            preallocate: false,
            timeout: None,
            gone_after: None,
            accepts_successor: false,
            is_checked: None,
            journal: None,
            spin: SPIN_DEFAULT,
            directory_port: DIRECTORY_PORT,
            sockets: None,
            tcp_only: false,
            shared_memory: true,
            security: None,
            insecure: false,
            program: String::new(),
        }
    }
}

impl Options {
    /// Returns the default options with this peer.
    pub fn to(peer: impl Into<String>) -> Self {
        Self {
            peer: Some(peer.into()),
            ..Self::default()
        }
    }
}
