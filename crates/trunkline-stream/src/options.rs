//! What an endpoint is created with.

use std::path::PathBuf;
use std::time::Duration;

use trunkline_net::SPIN_DEFAULT;

use crate::journal::JournalOptions;

/// Elements that a buffer holds where nothing else is said (NS-20).
pub const CAPACITY_DEFAULT: usize = 4096;

/// Bytes that a buffer of elements of varying length holds where nothing else is said.
pub const BYTES_MAX_DEFAULT: usize = 16 << 20;

/// What an endpoint is created with, beside its URL and type.
#[derive(Clone, Debug)]
pub struct Options {
    /// The peer's URL. The endpoint that names its peer opens the connection, and opens it again
    /// after each cut; it is enough that one of the two does.
    pub peer: Option<String>,
    /// Elements that the buffer holds; at least 1.
    pub capacity: usize,
    /// Bytes that the buffer of elements of varying length holds. Memory is taken as it is used,
    /// and given back when the stream has been idle.
    pub bytes_max: usize,
    /// The memory of elements of varying length is taken at creation, not at their first use.
    pub preallocate: bool,
    /// How long creation waits for the peer; `None`: for ever.
    pub timeout: Option<Duration>,
    /// How long an end that was connected waits for its peer to come back before it reports that
    /// the peer is gone; `None`: for ever.
    pub gone_after: Option<Duration>,
    /// Whether another peer of the same name may take the place of one that is gone. A reader that
    /// does has a buffer of at least as many bytes, where elements vary.
    pub takes_successor: bool,
    /// Whether bytes carry a checksum beside that of the transport; `None`: between machines.
    pub is_checked: Option<bool>,
    /// A journal, with which the stream outlives the end of the program.
    pub journal: Option<JournalOptions>,
    /// How long a thread that waits looks before it sleeps, at most; zero: not at all.
    pub spin: Duration,
    /// Where this machine's engine keeps the directory: its port.
    pub directory_port: u16,
    /// The folder of that engine's Unix sockets; `None`: this user's.
    pub sockets: Option<PathBuf>,
    /// Ends on one machine are connected over TCP as those of two are, to see what that is like.
    pub tcp_only: bool,
    /// Whether two ends on one machine may use one ring in memory that both processes have mapped.
    pub shared_memory: bool,
    /// For an endpoint with a port of its own: other machines may reach it, although nothing is
    /// protected.
    pub insecure: bool,
    /// Name and release of the program; shown to people at the other end.
    pub program: String,
}

/// The port of an engine, where the directory is.
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
            takes_successor: false,
            is_checked: None,
            journal: None,
            spin: SPIN_DEFAULT,
            directory_port: DIRECTORY_PORT,
            sockets: None,
            tcp_only: false,
            shared_memory: true,
            insecure: false,
            program: String::new(),
        }
    }
}

impl Options {
    /// The defaults, with this peer.
    pub fn to(peer: impl Into<String>) -> Self {
        Self {
            peer: Some(peer.into()),
            ..Self::default()
        }
    }
}
