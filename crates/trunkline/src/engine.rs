//! Hosting variables: an engine with its listeners, its I/O servers and its clock.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use trunkline_config::{DeploymentPlan, SettingValue};
use trunkline_engine::realtime::{RtError, RtReader, RtWriter};
use trunkline_engine::{Caller, DeployError, Engine as Core, UnknownLibrary, Wakes};
use trunkline_io::{DriverError, IoServer, Setting, Settings};
use trunkline_net::server::{BindError, Server, ServerCounters, ServerOptions};
use trunkline_net::{Clock, Housekeeper};
use trunkline_proto::limits::{
    ITEMS_MAX_DEFAULT, KEEPALIVE_DEADLINE, KEEPALIVE_INTERVAL, QUEUE_BYTES_MAX_DEFAULT,
    WRITE_CREDIT_BYTES, WRITE_CREDIT_COUNT,
};
use trunkline_serve::ServeOptions;
use trunkline_types::{LibraryDefinition, Reason};

use crate::io_host::IoHost;
use crate::sessions::{Facts, SessionNumbers, Sessions};

/// How long the housekeeping thread sleeps at most: a time-out is noticed at worst this much late.
const HOUSEKEEPING: Duration = Duration::from_millis(250);
/// The pump's period while real-time threads write, and while they do not.
const PUMP_BUSY: Duration = Duration::from_millis(1);
const PUMP_IDLE: Duration = Duration::from_millis(10);

/// How an engine is hosted.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// What it calls itself.
    pub name: String,
    /// Where it listens; nowhere by default: then only this process reaches it.
    pub listen: Vec<SocketAddr>,
    /// Allows addresses that other machines can reach, although nothing is protected yet.
    pub insecure: bool,
    /// Connections at a time.
    pub sessions_max: usize,
    /// Items one connection may have.
    pub items_per_session_max: u32,
    /// Writes of one connection that may be unanswered, and bytes of their values.
    pub write_credit: (u32, u32),
    /// Bytes that may wait in the subscriptions of one connection: values, and 64 for each update.
    pub queue_bytes_per_session_max: usize,
    /// Interval of keep-alives.
    pub keep_alive: Duration,
    /// Silence after which a connection counts as dead.
    pub deadline: Duration,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            name: "trunkline".to_owned(),
            listen: Vec::new(),
            insecure: false,
            sessions_max: 1000,
            items_per_session_max: ITEMS_MAX_DEFAULT,
            write_credit: (WRITE_CREDIT_COUNT, WRITE_CREDIT_BYTES),
            queue_bytes_per_session_max: QUEUE_BYTES_MAX_DEFAULT,
            keep_alive: KEEPALIVE_INTERVAL,
            deadline: KEEPALIVE_DEADLINE,
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
    /// A library cannot be deployed.
    #[error("{0}")]
    Deploy(#[from] DeployError),
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

/// A hosted engine. It stops when the last reference to it is dropped, or by [`Engine::shutdown`].
#[derive(Clone)]
pub struct Engine {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) core: Core,
    pub(crate) clock: Clock,
    pub(crate) server: Arc<Server>,
    facts: Arc<Facts>,
    pub(crate) numbers: Arc<SessionNumbers>,
    pub(crate) uid: u32,
    /// Runs what time brings.
    _housekeeper: Housekeeper,
    /// Publishes what real-time threads write; asleep until there is one.
    pump: Housekeeper,
    has_rt_writers: Arc<AtomicBool>,
    io: Mutex<Vec<IoHost>>,
}

impl Engine {
    /// Starts an engine without variables.
    ///
    /// # Errors
    /// [`StartError::Bind`] when it cannot listen where it is told to.
    pub fn start(options: EngineOptions) -> Result<Engine, StartError> {
        let clock = Clock::new();
        // Without a store, the start time tells one engine start from another.
        let epoch = clock.wall().as_nanos() as u64;
        let core = Core::new(trunkline_engine::EngineOptions::new(&options.name, epoch));
        let facts = Arc::new(Facts::default());
        let numbers = Arc::new(SessionNumbers::new());
        let uid = rustix::process::getuid().as_raw();
        let serve = ServeOptions {
            engine_id: engine_id(),
            pid: std::process::id(),
            started: clock.now(),
            keepalive: options.keep_alive,
            deadline: options.deadline,
            items_max: options.items_per_session_max,
            write_credit_count: options.write_credit.0,
            write_credit_bytes: options.write_credit.1,
            queue_bytes_max: options.queue_bytes_per_session_max,
            facts: Some(Arc::clone(&facts) as Arc<_>),
            ..ServeOptions::default()
        };
        let sessions = Sessions {
            engine: core.clone(),
            options: Arc::new(serve),
            numbers: Arc::clone(&numbers),
            uid,
        };
        let server = ServerOptions {
            listen: options.listen,
            insecure: options.insecure,
            sessions_max: options.sessions_max,
            ..ServerOptions::default()
        };
        let server = Arc::new(Server::bind(server, Arc::new(sessions))?);
        let _already = facts.server.set(Arc::downgrade(&server));
        let polled = core.clone();
        let housekeeper = Housekeeper::start(clock, move |now, wall| {
            let mut wakes = Wakes::new();
            let latest = now.saturating_add(HOUSEKEEPING);
            Some(
                polled
                    .poll(now, wall, &mut wakes)
                    .map_or(latest, |due| due.min(latest)),
            )
        })
        .map_err(StartError::Thread)?;
        let has_rt_writers = Arc::new(AtomicBool::new(false));
        let pump = start_pump(&core, clock, Arc::clone(&has_rt_writers))?;
        Ok(Engine {
            inner: Arc::new(Inner {
                core,
                clock,
                server,
                facts,
                numbers,
                uid,
                _housekeeper: housekeeper,
                pump,
                has_rt_writers,
                io: Mutex::new(Vec::new()),
            }),
        })
    }

    /// Starts what configuration files describe: listeners, libraries, I/O servers.
    ///
    /// # Errors
    /// The first thing that cannot be started; nothing keeps running then.
    pub fn from_plan(plan: &DeploymentPlan) -> Result<Engine, StartError> {
        let config = &plan.engine;
        let limits = &config.limits;
        let engine = Engine::start(EngineOptions {
            name: config
                .name
                .clone()
                .unwrap_or_else(|| "trunkline".to_owned()),
            listen: config.listen.clone(),
            insecure: config.insecure,
            sessions_max: limits.sessions_max as usize,
            items_per_session_max: limits.items_per_session_max,
            write_credit: (
                limits.writes_per_session_max,
                limits.write_bytes_per_session_max,
            ),
            queue_bytes_per_session_max: usize::try_from(limits.queue_bytes_per_session_max)
                .unwrap_or(usize::MAX),
            keep_alive: config.keep_alive,
            deadline: config.deadline,
        })?;
        for library in &plan.libraries {
            engine.deploy(library)?;
        }
        for io in &plan.io {
            let driver_error = |error| StartError::Driver {
                name: io.name.clone(),
                error: Box::new(error),
            };
            let mut settings = Settings::new();
            for (key, value) in &io.settings {
                settings.insert(key, setting(value));
            }
            let server = trunkline_io::driver(&io.driver, &settings).map_err(driver_error)?;
            engine.attach_io(&io.name, server, io.period, io.publish)?;
        }
        Ok(engine)
    }

    /// Deploys a library: all of it, or nothing.
    ///
    /// # Errors
    /// [`DeployError`] names what is wrong with it.
    pub fn deploy(&self, library: &LibraryDefinition) -> Result<usize, DeployError> {
        let (now, wall) = (self.inner.clock.now(), self.inner.clock.wall());
        Ok(self.inner.core.deploy(library, now, wall)?.len())
    }

    /// Removes a library; who uses its variables is told that they are gone.
    ///
    /// # Errors
    /// [`UnknownLibrary`] when there is no such library.
    pub fn undeploy(&self, name: &str) -> Result<usize, UnknownLibrary> {
        self.inner.core.undeploy(name, &mut Wakes::new())
    }

    /// Runs an I/O server under `name`. With `publish` the libraries it offers are deployed as
    /// well; every variable whose `source` is `name:item` gets its value from it.
    ///
    /// # Errors
    /// A library cannot be deployed, a variable names an item that does not exist, or no thread is
    /// left.
    pub fn attach_io(
        &self,
        name: &str,
        server: Box<dyn IoServer>,
        period: Option<Duration>,
        publish: bool,
    ) -> Result<(), StartError> {
        if publish {
            for library in server.libraries(name) {
                self.deploy(&library)?;
            }
        }
        let mut sources = Vec::new();
        for library in self.inner.core.libraries() {
            for handle in library.handles {
                let Some(variable) = self.inner.core.variable(handle) else {
                    continue;
                };
                let source = &variable.properties().source;
                let Some(item) = source.strip_prefix(name).and_then(|s| s.strip_prefix(':')) else {
                    continue;
                };
                let id = server.item(item).ok_or_else(|| StartError::UnknownItem {
                    variable: variable.name().to_owned(),
                    server: name.to_owned(),
                    item: item.to_owned(),
                })?;
                sources.push((handle, id));
            }
        }
        let host = IoHost::start(&self.inner.core, name, server, period, &sources)
            .map_err(StartError::Thread)?;
        self.io().push(host);
        Ok(())
    }

    /// Stops an I/O server; its variables turn bad. False when none of that name runs.
    pub fn stop_io(&self, name: &str) -> bool {
        let mut io = self.io();
        let Some(place) = io.iter().position(|host| &*host.name == name) else {
            return false;
        };
        let host = io.remove(place);
        drop(io);
        host.stop(&self.inner.core, Reason::ProviderGone);
        true
    }

    /// Where it listens, with the ports that were free when port 0 was asked for.
    pub fn local_addrs(&self) -> Vec<SocketAddr> {
        self.inner.server.local_addrs().to_vec()
    }

    /// Number of variables deployed.
    pub fn variable_count(&self) -> usize {
        self.inner.core.variable_count()
    }

    /// Names of the deployed libraries, and how many variables each has.
    pub fn libraries(&self) -> Vec<(String, usize)> {
        let libraries = self.inner.core.libraries().into_iter();
        libraries
            .map(|library| (library.name, library.handles.len()))
            .collect()
    }

    /// What its listeners count.
    pub fn counters(&self) -> ServerCounters {
        self.inner.server.counters()
    }

    /// A writing endpoint for a time-critical thread.
    ///
    /// # Errors
    /// [`RtError`]: no such variable, no right to write it, no FIFO.
    pub fn rt_writer(&self, name: &str) -> Result<RtWriter, RtError> {
        let writer = self.inner.core.rt_writer(&self.caller(), name)?;
        self.inner.has_rt_writers.store(true, Ordering::Release);
        self.inner.pump.wake();
        Ok(writer)
    }

    /// A reading endpoint for a time-critical thread.
    ///
    /// # Errors
    /// [`RtError`]: no such variable, no right to read it, no FIFO.
    pub fn rt_reader(&self, name: &str) -> Result<RtReader, RtError> {
        self.inner.core.rt_reader(&self.caller(), name)
    }

    /// Stops: I/O servers, then connections, which have `grace` to send what waits and to say
    /// goodbye.
    pub fn shutdown(&self, grace: Duration) {
        let hosts = std::mem::take(&mut *self.io());
        for host in hosts {
            host.stop(&self.inner.core, Reason::Inactive);
        }
        self.inner.facts.stopping.store(true, Ordering::Release);
        self.inner.server.shutdown(grace);
    }

    /// A program of this process, with a session number of its own.
    pub(crate) fn caller(&self) -> Caller {
        Caller::local(self.inner.numbers.next(), self.inner.uid)
    }

    fn io(&self) -> std::sync::MutexGuard<'_, Vec<IoHost>> {
        self.inner.io.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("name", &self.inner.core.name())
            .field("listening", &self.inner.server.local_addrs())
            .field("variables", &self.variable_count())
            .finish_non_exhaustive()
    }
}

/// Real-time threads only mark: this one looks, often while they write, and not at all without any.
fn start_pump(
    core: &Core,
    clock: Clock,
    has_writers: Arc<AtomicBool>,
) -> Result<Housekeeper, StartError> {
    let core = core.clone();
    Housekeeper::start(clock, move |now, wall| {
        if !has_writers.load(Ordering::Acquire) {
            return None;
        }
        let moved = core.pump(now, wall, &mut Wakes::new());
        Some(now.saturating_add(if moved { PUMP_BUSY } else { PUMP_IDLE }))
    })
    .map_err(StartError::Thread)
}

fn setting(value: &SettingValue) -> Setting {
    match value {
        SettingValue::Bool(value) => Setting::Bool(*value),
        SettingValue::Integer(value) => Setting::Integer(*value),
        SettingValue::Float(value) => Setting::Float(*value),
        SettingValue::String(value) => Setting::String(value.clone()),
        SettingValue::List(values) => Setting::List(values.iter().map(setting).collect()),
        other => Setting::String(format!("{other:?}")),
    }
}

/// 128 bits that no other engine has: from the system's random numbers by way of the hash seeds.
fn engine_id() -> [u8; 16] {
    use std::hash::{BuildHasher, RandomState};
    let mut id = [0; 16];
    id[..8].copy_from_slice(&RandomState::new().hash_one(0).to_le_bytes());
    id[8..].copy_from_slice(&RandomState::new().hash_one(1).to_le_bytes());
    id
}

/// Loads configuration files; see [`trunkline_config::load`].
///
/// # Errors
/// All errors of all files.
pub fn load_config(paths: &[PathBuf]) -> Result<DeploymentPlan, trunkline_config::ConfigErrors> {
    trunkline_config::load(paths)
}
