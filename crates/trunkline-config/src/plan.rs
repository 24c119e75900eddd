//! The deployment plan: the checked and complete content of configuration files, with everything an
//! engine needs to start.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use trunkline_types::history::HistoryRule;
use trunkline_types::url::DEFAULT_PORT;
use trunkline_types::{LibraryDefinition, ListenAddress, Setting};

/// The content of the configuration files of one run.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct DeploymentPlan {
    /// Settings of the engine itself.
    pub engine: EngineConfig,
    /// The libraries, in the order in which the files name them.
    pub libraries: Vec<LibraryDefinition>,
    /// The I/O servers, in the order in which the files name them.
    pub io: Vec<IoConfig>,
    /// The variables to record; `None` without `[[history]]` sections.
    pub history: Option<HistoryConfig>,
    /// The files that were read, including CSV files; empty if the text came from elsewhere.
    pub sources: Vec<PathBuf>,
}

/// The `[engine]` section.
#[derive(Clone, PartialEq, Debug)]
pub struct EngineConfig {
    /// Name of the engine; `None`: chosen by the composition root (the host's name).
    pub name: Option<String>,
    /// Location of deployed libraries and retained values.
    pub store: StoreChoice,
    /// Number of audit entries kept in the store.
    pub audit_entries: u64,
    /// Maximum age of audit entries; `None`: no limit.
    pub audit_age: Option<Duration>,
    /// Number of entries of the alarm journal kept in the store.
    pub alarm_journal_entries: u64,
    /// Maximum age of entries of the alarm journal; `None`: no limit.
    pub alarm_journal_age: Option<Duration>,
    /// Folder of the history; `None`: beside the store, see [`DeploymentPlan::set_store`].
    pub history: Option<PathBuf>,
    /// Folder on another disk, for rows while the one of the history cannot be written.
    pub history_spool: Option<PathBuf>,
    /// Addresses to listen at; never empty.
    pub listen: Vec<ListenAddress>,
    /// Adds a Unix socket to each loopback port, for programs of the same user.
    pub local_socket: bool,
    /// Lets programs of the same user use shared memory.
    pub shared_memory: bool,
    /// Allows addresses that other machines can reach, although connections are not authenticated
    /// or encrypted yet.
    pub insecure: bool,
    /// Refuses programs of other users, also over TCP.
    pub same_user: bool,
    /// Interval of keep-alives on an otherwise silent connection.
    pub keep_alive: Duration,
    /// Silence after which a connection is considered dead; at least twice `keep_alive`.
    pub deadline: Duration,
    /// Interval at which the engine measures itself; zero: never.
    pub health: Duration,
    /// Longest time that a connection thread spins before it sleeps; zero: it does not spin.
    pub spin: Duration,
    /// Bounds on the resources that clients may use.
    pub limits: Limits,
}

/// The location where an engine keeps the data that survives a restart.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum StoreChoice {
    /// Not set: the composition root chooses.
    #[default]
    Unset,
    /// No store: deployments last as long as the engine.
    Off,
    File(PathBuf),
}

/// The `[engine.limits]` section: bounds enforced before anything is allocated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Maximum number of simultaneous connections.
    pub sessions_max: u32,
    /// Maximum number of connections being set up at the same time.
    pub handshakes_max: u32,
    /// Connections per second from one address of another machine; also the size of the permitted
    /// burst.
    pub connections_per_address: u32,
    /// Maximum number of variables that one session may have open.
    pub items_per_session_max: u32,
    /// Maximum number of bytes waiting to be sent to one session.
    pub queue_bytes_per_session_max: u64,
    /// Maximum number of bytes waiting to be sent to all sessions and programs together; `None`: a
    /// quarter of the machine's memory.
    pub queue_bytes_max: Option<u64>,
    /// Maximum size of the requests and items of all sessions together, in bytes; `None`: a quarter
    /// of the machine's memory.
    pub request_bytes_max: Option<u64>,
    /// Maximum number of unanswered writes of one session.
    pub writes_per_session_max: u32,
    /// Maximum size of the values of those writes, in bytes.
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
    /// Time from one scan to the next; `None`: the driver's own.
    pub period: Option<Duration>,
    /// Also deploys the libraries that the driver offers.
    pub publish: bool,
    /// All other keys, which the driver interprets.
    pub settings: BTreeMap<String, Setting>,
    /// Place of each setting, `file:line:column`, for errors found by the driver.
    pub setting_places: BTreeMap<String, String>,
    /// Place of the section, `file:line`; empty if made by a program.
    pub origin: String,
}

/// The `[[history]]` sections: what an engine records, and where.
#[derive(Clone, PartialEq, Debug)]
pub struct HistoryConfig {
    /// Folder of the history, which need not exist.
    pub folder: PathBuf,
    /// Folder on another disk, in which rows are stored while the folder cannot be written. It need
    /// not exist, but the folder that it is in must.
    pub spool: Option<PathBuf>,
    /// The rules in the order of the files; the first one that matches a variable decides.
    pub rules: Vec<HistoryRule>,
}

impl DeploymentPlan {
    /// Sets the place of the store. The history moves beside it, unless the files name a folder.
    ///
    /// The folder is `plant.history` for a store `plant.db`. Without a store it is `history`,
    /// beside the first configuration file.
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

/// Returns the folder that the files name for the history, or its default.
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

/// Returns a folder named after the store, because several engines may have their stores in one
/// folder.
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
    /// Returns an I/O server without settings that publishes its libraries, for use by programs.
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
