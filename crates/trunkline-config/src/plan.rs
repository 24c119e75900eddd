//! What configuration files say, checked and complete: everything an engine needs to start.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use trunkline_types::url::DEFAULT_PORT;
use trunkline_types::{LibraryDefinition, ListenAddress};

/// Everything the configuration files of one run say.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct DeploymentPlan {
    /// How the engine itself runs.
    pub engine: EngineConfig,
    /// The libraries in the order in which the files name them.
    pub libraries: Vec<LibraryDefinition>,
    /// The I/O servers in the order in which the files name them.
    pub io: Vec<IoConfig>,
    /// The files that were read, CSV files included; empty when the text came from elsewhere.
    pub sources: Vec<PathBuf>,
}

/// The `[engine]` section.
#[derive(Clone, PartialEq, Debug)]
pub struct EngineConfig {
    /// What the engine calls itself; `None`: the composition root chooses (the host's name).
    pub name: Option<String>,
    /// Where deployed libraries and retained values are kept.
    pub store: StoreChoice,
    /// Entries that the audit keeps in the store.
    pub audit_entries: u64,
    /// How old its entries may be; `None`: as old as they get.
    pub audit_age: Option<Duration>,
    /// Where it listens, never empty.
    pub listen: Vec<ListenAddress>,
    /// Whether programs of the same user reach its loopback ports by Unix sockets as well.
    pub local_socket: bool,
    /// Whether programs of the same user talk to it through shared memory.
    pub shared_memory: bool,
    /// Whether addresses that other machines can reach are permitted although connections are not
    /// yet protected.
    pub insecure: bool,
    /// Refuses programs of other users, also over TCP.
    pub same_user: bool,
    /// How often a connection that is otherwise silent says that it lives.
    pub keep_alive: Duration,
    /// A connection that was silent this long is dead; at least twice `keep_alive`.
    pub deadline: Duration,
    /// How often the engine measures itself; zero: never.
    pub health: Duration,
    /// How long a connection thread looks for something to do before it sleeps, at most; zero: not
    /// at all.
    pub spin: Duration,
    /// Bounds of what clients may use.
    pub limits: Limits,
}

/// Where an engine keeps what survives a restart.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum StoreChoice {
    /// Nobody said: the composition root chooses.
    #[default]
    Unsaid,
    /// Nowhere: what is deployed lasts as long as the engine.
    Off,
    /// In this file.
    File(PathBuf),
}

/// The `[engine.limits]` section: bounds that are enforced before anything is allocated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Connections at the same time.
    pub sessions_max: u32,
    /// Connections that are being set up at the same time.
    pub handshakes_max: u32,
    /// Connections per second from one address of another machine; as many may come at once.
    pub connections_per_address: u32,
    /// Variables that one session may have open.
    pub items_per_session_max: u32,
    /// Bytes that may wait to be sent to one session.
    pub queue_bytes_per_session_max: u64,
    /// Bytes that may wait to be sent to all sessions and programs together; `None`: a quarter of
    /// the machine's memory.
    pub queue_bytes_max: Option<u64>,
    /// Bytes that the requests and items of all sessions together may take; `None`: a quarter of
    /// the machine's memory.
    pub request_bytes_max: Option<u64>,
    /// Writes of one session that may be without an answer.
    pub writes_per_session_max: u32,
    /// Bytes of the values of those writes.
    pub write_bytes_per_session_max: u32,
    /// Variables that all files together may define.
    pub variables_max: u32,
}

/// One `[[io]]` section: an I/O server and its driver's settings.
#[derive(Clone, PartialEq, Debug)]
pub struct IoConfig {
    /// What `source = "name:item"` refers to.
    pub name: String,
    /// The kind of I/O server, such as `host` or `sim`.
    pub driver: String,
    /// Time from one acquisition cycle to the next; `None`: the driver's own.
    pub period: Option<Duration>,
    /// Whether the libraries that the driver offers are deployed as well.
    pub publish: bool,
    /// Every other key; the driver knows what they mean.
    pub settings: BTreeMap<String, SettingValue>,
    /// Where each setting stands, `file:line:column`, for the driver's own complaints.
    pub setting_places: BTreeMap<String, String>,
    /// Where the section stands, `file:line`; empty when made by a program.
    pub origin: String,
}

/// A setting of an I/O server.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum SettingValue {
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// A number with a fraction or an exponent.
    Float(f64),
    /// Text.
    String(String),
    /// Any number of the above, not necessarily of one kind.
    List(Vec<SettingValue>),
}

impl DeploymentPlan {
    /// Number of variables in all libraries.
    pub fn variable_count(&self) -> usize {
        self.libraries
            .iter()
            .map(|library| library.variables.len())
            .sum()
    }
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            name: None,
            store: StoreChoice::Unsaid,
            audit_entries: 100_000,
            audit_age: None,
            listen: vec![SocketAddr::from((Ipv4Addr::LOCALHOST, DEFAULT_PORT)).into()],
            local_socket: true,
            shared_memory: true,
            insecure: false,
            same_user: false,
            keep_alive: Duration::from_secs(1),
            deadline: Duration::from_secs(3),
            health: Duration::from_secs(1),
            spin: Duration::from_micros(50),
            limits: Limits::default(),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            sessions_max: 1_000,
            handshakes_max: 100,
            connections_per_address: 20,
            items_per_session_max: 2_000_000,
            queue_bytes_per_session_max: 64 << 20,
            queue_bytes_max: None,
            request_bytes_max: None,
            writes_per_session_max: 4_096,
            write_bytes_per_session_max: 1 << 20,
            variables_max: 1_000_000,
        }
    }
}

impl IoConfig {
    /// An I/O server without settings, as a program would ask for it.
    pub fn new(name: impl Into<String>, driver: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            driver: driver.into(),
            period: None,
            publish: true,
            settings: BTreeMap::new(),
            setting_places: BTreeMap::new(),
            origin: String::new(),
        }
    }
}
