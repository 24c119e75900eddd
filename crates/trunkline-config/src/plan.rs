//! Defines the deployment plan: the validated content of configuration files, with everything that
//! an engine needs to start.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use trunkline_types::history::HistoryRule;
use trunkline_types::url::DEFAULT_PORT;
use trunkline_types::{LibraryDefinition, ListenAddress, Setting};

/// The validated content of the configuration files that were loaded together.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct DeploymentPlan {
    /// Settings of the engine itself.
    pub engine: EngineConfig,
    /// The libraries, in the order of their first appearance in the files.
    pub libraries: Vec<LibraryDefinition>,
    /// The I/O servers, in the order of the files.
    pub io: Vec<IoConfig>,
    /// The variables to record; `None` without `[[history]]` sections.
    pub history: Option<HistoryConfig>,
    /// The files that were read, including CSV files; empty if the configuration was not a file.
    pub sources: Vec<PathBuf>,
}

/// The `[engine]` section.
#[derive(Clone, PartialEq, Debug)]
pub struct EngineConfig {
    /// Name of the engine; `None`: the name of the host.
    pub name: Option<String>,
    /// Location of the store, for deployed libraries, retained values, alarms and the audit trail.
    pub store: StoreChoice,
    /// Maximum number of audit entries in the store.
    pub audit_entries: u64,
    /// Maximum age of audit entries; `None`: no limit.
    pub audit_age: Option<Duration>,
    /// Maximum number of alarm journal entries in the store.
    pub alarm_journal_entries: u64,
    /// Maximum age of alarm journal entries; `None`: no limit.
    pub alarm_journal_age: Option<Duration>,
    /// History folder; `None`: beside the store, see [`DeploymentPlan::set_store`].
    pub history: Option<PathBuf>,
    /// Folder on another disk that stores rows while the history folder cannot be written.
    pub history_spool: Option<PathBuf>,
    /// Addresses to listen on; at least one.
    pub listen: Vec<ListenAddress>,
    /// Loopback address of the HTTP server for metrics and health; `None`: no server.
    pub http: Option<SocketAddr>,
    /// Host names under which the HTTP server answers, besides those of the loopback addresses.
    pub http_hosts: Vec<String>,
    /// Adds a Unix socket to each loopback port, for programs of the same user.
    pub local_socket: bool,
    /// Lets programs of the same user use shared memory.
    pub shared_memory: bool,
    /// Allows addresses that other machines can reach without encryption and without identities.
    pub insecure: bool,
    /// The security folder, with certificates, accounts and rules; `None`: the engine serves only
    /// programs of its own user, unless it is insecure.
    pub security: Option<PathBuf>,
    /// Refuses programs of other users, even over TCP.
    pub same_user: bool,
    /// Interval of keep-alives on a connection without other traffic.
    pub keep_alive: Duration,
    /// Time without any received data after which a connection is closed; at least twice `keep_alive`.
    pub deadline: Duration,
    /// Interval at which the engine updates its health variables (`_engine/**`); zero: never.
    pub health: Duration,
    /// Maximum time that a connection thread polls before it sleeps; zero: it does not poll.
    pub spin: Duration,
    /// The least important events of the log; `None`: the program chooses.
    pub log_level: Option<LogLevel>,
    /// Bounds on the resources that clients may use.
    pub limits: Limits,
}

/// The importance of an event in the log, most important first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LogLevel {
    /// Data is not stored or not recorded.
    Error,
    /// Something that needs attention.
    Warn,
    /// The normal course, such as start and stop.
    Info,
    /// Details for the search for a fault.
    Debug,
    /// Everything.
    Trace,
}

/// Location of the data that survives a restart of the engine.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum StoreChoice {
    /// The files do not set a store: the program that starts the engine chooses.
    #[default]
    Unset,
    /// No store: deployed libraries and retained values are lost when the engine stops.
    Off,
    File(PathBuf),
}

/// The `[engine.limits]` section. The engine enforces each limit before it allocates memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Maximum number of simultaneous connections.
    pub sessions_max: u32,
    /// Maximum number of connections whose handshake is not complete.
    pub handshakes_max: u32,
    /// Maximum number of connections per second from one address of another machine. The same number
    /// may arrive in one burst.
    pub connections_per_address: u32,
    /// Maximum number of variables that one session may have open.
    pub items_per_session_max: u32,
    /// Maximum number of bytes waiting to be sent to one session.
    pub queue_bytes_per_session_max: u64,
    /// Maximum number of bytes waiting to be sent to all sessions together; `None`: a quarter of the
    /// machine's memory.
    pub queue_bytes_max: Option<u64>,
    /// Maximum size of the requests and items of all sessions together, in bytes; `None`: a quarter
    /// of the machine's memory.
    pub request_bytes_max: Option<u64>,
    /// Maximum number of unanswered writes of one session.
    pub writes_per_session_max: u32,
    /// Maximum total size of the values of the unanswered writes of one session, in bytes.
    pub write_bytes_per_session_max: u32,
    /// Maximum number of variables that all files together may define.
    pub variables_max: u32,
}

/// One `[[io]]` section: an I/O server and its driver's settings.
#[derive(Clone, PartialEq, Debug)]
pub struct IoConfig {
    /// The name that `source = "name:item"` refers to.
    pub name: String,
    /// Kind of I/O server, such as `host` or `sim`.
    pub driver: String,
    /// Interval between scans; `None`: the default of the driver.
    pub period: Option<Duration>,
    /// Also deploys the libraries that the driver offers.
    pub publish: bool,
    /// All other keys. The driver interprets them.
    pub settings: BTreeMap<String, Setting>,
    /// Place of each setting, `file:line:column`, for errors that the driver reports.
    pub setting_places: BTreeMap<String, String>,
    /// Place of the section, `file:line`; empty if a program created the I/O server.
    pub origin: String,
}

/// The `[[history]]` sections: what an engine records, and where.
#[derive(Clone, PartialEq, Debug)]
pub struct HistoryConfig {
    /// History folder. The engine creates the folder if it does not exist.
    pub folder: PathBuf,
    /// Folder on another disk that stores rows while `folder` cannot be written. The engine creates
    /// the spool folder if it does not exist, but not its parent folder.
    pub spool: Option<PathBuf>,
    /// The rules, in the order of the files. The first rule that matches a variable applies.
    pub rules: Vec<HistoryRule>,
}

impl DeploymentPlan {
    /// Sets the location of the store, and moves the history folder beside the store unless the
    /// files set one.
    ///
    /// For a store `plant.db`, the history folder is `plant.history`. Without a store, it is
    /// `history`, beside the first configuration file.
    pub fn set_store(&mut self, store: StoreChoice) {
        self.engine.store = store;
        if let Some(history) = &mut self.history {
            history.folder = history_folder(&self.engine, &self.sources);
        }
    }

    /// Returns the number of variables in all libraries.
    pub fn variable_count(&self) -> usize {
        self.libraries
            .iter()
            .map(|library| library.variables.len())
            .sum()
    }
}

/// Returns the history folder that the files set, or the default.
pub(crate) fn history_folder(engine: &EngineConfig, sources: &[PathBuf]) -> PathBuf {
    match (&engine.history, &engine.store) {
        (Some(folder), _) => folder.clone(),
        (None, StoreChoice::File(store)) => folder_of_store(store),
        (None, StoreChoice::Off | StoreChoice::Unset) => {
            let first = sources.first().and_then(|file| file.parent());
            first.unwrap_or(Path::new("")).join("history")
        }
    }
}

/// Returns the history folder beside a store. It is named after the store, because the stores of
/// several engines may be in the same folder.
fn folder_of_store(store: &Path) -> PathBuf {
    if store.extension().is_some_and(|extension| extension == "db") {
        return store.with_extension("history");
    }
    let mut folder = store.as_os_str().to_owned();
    folder.push(".history");
    folder.into()
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            name: None,
            store: StoreChoice::Unset,
            audit_entries: 100_000,
            audit_age: None,
            alarm_journal_entries: 1_000_000,
            alarm_journal_age: None,
            history: None,
            history_spool: None,
            listen: vec![SocketAddr::from((Ipv4Addr::LOCALHOST, DEFAULT_PORT)).into()],
            http: None,
            http_hosts: Vec::new(),
            local_socket: true,
            shared_memory: true,
            insecure: false,
            security: None,
            same_user: false,
            keep_alive: Duration::from_secs(1),
            deadline: Duration::from_secs(3),
            health: Duration::from_secs(1),
            spin: Duration::from_micros(50),
            log_level: None,
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
    /// Returns an I/O server without settings that publishes its libraries.
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
