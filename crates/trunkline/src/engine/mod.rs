//! Hosts variables in an [`Engine`], with its listeners, I/O servers and clock.

mod in_process;
mod libraries;
mod options;

use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use trunkline_config::{
    DeploymentPlan, EngineConfig, HistoryConfig, IoConfig, RunningConfig, StoreChoice,
};
use trunkline_engine::realtime::{Pumped, RtError, RtReader, RtWriter};
use trunkline_engine::store::{Start, Store, StoreErrorKind};
use trunkline_engine::{Caller, Engine as Core, Wakes};
use trunkline_io::{DriverError, Drivers, IoServer, SettingError, Settings};
use trunkline_net::server::{
    InheritedSockets, Server, ServerCounters, ServerLimits, ServerOptions,
};
use trunkline_net::tcp::USER_TIMEOUT;
use trunkline_net::{Clock, Housekeeper};
use trunkline_serve::{FlushBroadcast, RequestBudget, ServeOptions};
use trunkline_store::SqliteStore;
use trunkline_types::{ListenAddress, Moment, SocketPath};

use crate::administrator::OrderWorker;
use crate::audit::LogLimits;
use crate::deployments::{Deployments, item_of, lock};
use crate::health::{Health, HealthMonitor};
use crate::history::{HistoryHost, HistoryStartError, OpenHistory};
use crate::logins::Logins;
use crate::sessions::{Facts, SessionNumbers, Sessions};

pub use self::options::{EngineOptions, StartError};
pub use crate::deployments::LibraryError;

/// Longest sleep of the housekeeping thread, and so the longest delay until it detects a timeout.
const HOUSEKEEPING: Duration = Duration::from_millis(250);
/// Poll period of the pump while real-time threads write (busy) and while they do not (idle).
const PUMP_BUSY: Duration = Duration::from_millis(1);
const PUMP_IDLE: Duration = Duration::from_millis(10);

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
    health: Arc<Health>,
    flushes: Arc<FlushBroadcast>,
    pub(crate) numbers: Arc<SessionNumbers>,
    pub(crate) uid: u32,
    /// The housekeeping thread, which runs all tasks that are due.
    _housekeeper: Housekeeper,
    /// Publishes the writes of real-time threads. It sleeps while there are no such threads.
    pump: Housekeeper,
    has_rt_writers: Arc<AtomicBool>,
    pub(crate) deployments: Arc<Deployments>,
    pub(crate) logins: Arc<Logins>,
    /// The options of new sessions.
    serve: Arc<Mutex<Arc<ServeOptions>>>,
    /// The configuration that the engine uses; `None` if it was not started from files.
    pub(crate) running: Mutex<Option<RunningConfig>>,
    /// Stored libraries shadowed by configuration files.
    shadowed: Vec<String>,
}

/// A reference to an engine that does not keep it running.
pub(crate) struct WeakEngine(Weak<Inner>);

impl WeakEngine {
    /// Returns the engine, unless it has been dropped.
    pub(crate) fn upgrade(&self) -> Option<Engine> {
        let inner = self.0.upgrade()?;
        Some(Engine { inner })
    }
}

impl Engine {
    /// Starts an engine with the libraries of its store, if it has one.
    ///
    /// # Errors
    /// [`StartError`]: the engine cannot listen at one of its addresses, or cannot use its store.
    pub fn start(options: EngineOptions) -> Result<Engine, StartError> {
        let store = open_store(&options)?;
        Self::start_with_store(options, store)
    }

    /// As [`Engine::start`], with a store that the program supplies instead of a file.
    ///
    /// # Errors
    /// As [`Engine::start`].
    pub fn start_with_store(
        options: EngineOptions,
        store: Option<Box<dyn Store>>,
    ) -> Result<Engine, StartError> {
        Self::start_after(options, store, None, |_| Ok(()))
    }

    /// Starts an engine, and calls `prepare` to deploy its variables before clients are admitted.
    fn start_after(
        options: EngineOptions,
        mut store: Option<Box<dyn Store>>,
        history: Option<(&HistoryConfig, OpenHistory)>,
        prepare: impl FnOnce(&Engine) -> Result<(), StartError>,
    ) -> Result<Engine, StartError> {
        let clock = Clock::new();
        let uid = rustix::process::getuid().as_raw();
        let start = match &mut store {
            // On a full disk the start count cannot be stored. A start without a stored count is
            // unique as well.
            Some(store) => match store.record_start() {
                Err(error) if error.kind == StoreErrorKind::Full => start_without_store(),
                start => start?,
            },
            None => start_without_store(),
        };
        let epoch = start.epoch(random());
        let mut core_options = trunkline_engine::EngineOptions::new(&options.name, epoch);
        core_options.queue_bytes_max = options.queue_bytes_max;
        let core = Core::new(core_options);
        let logins = Logins::open(
            &core,
            clock,
            uid,
            options.insecure,
            options.security.as_ref(),
        )?;
        let logins = Arc::new(logins);
        let [audit, alarms] = log_limits(&options);
        let history = match history {
            Some((config, open)) => Some(HistoryHost::start(config, open, &core, clock)?),
            None => None,
        };
        let deployments = Deployments::new(&core, clock, store, audit, alarms, history)
            .map_err(StartError::Thread)?;
        let deployments = Arc::new(deployments);
        let order_worker =
            OrderWorker::start(Arc::clone(&deployments), clock).map_err(StartError::Thread)?;
        let requests = Arc::new(RequestBudget::new(options.request_bytes_max));
        let facts = Arc::new(Facts::new(Arc::clone(&requests), &options));
        let numbers = Arc::new(SessionNumbers::new());
        let flushes = Arc::new(FlushBroadcast::default());
        let mut serve = ServeOptions {
            flushes: Arc::clone(&flushes),
            engine_id: start.engine_id,
            pid: std::process::id(),
            started: clock.now(),
            requests,
            facts: Some(Arc::clone(&facts) as Arc<_>),
            administrator: Some(Arc::new(order_worker)),
            authenticator: Some(Arc::clone(&logins) as Arc<_>),
            ..ServeOptions::default()
        };
        let directory = Arc::new(trunkline_stream::directory::DirectoryHost::default());
        set_session_options(&mut serve, &options);
        let serve = Arc::new(Mutex::new(Arc::new(serve)));
        let sessions = Sessions {
            engine: core.clone(),
            options: Arc::clone(&serve),
            numbers: Arc::clone(&numbers),
            uid,
            directory: Arc::clone(&directory),
            logins: Arc::clone(&logins),
            shown_values: Mutex::default(),
        };
        let has_port = options.listen.iter().any(|address| address.tcp().is_some());
        let near =
            (options.local_socket && has_port).then(trunkline_net::near::prepare_socket_folder);
        let user_timeout = user_timeout(&options);
        let server = ServerOptions {
            listen: options.listen,
            inherited: options.inherited,
            near: near.flatten(),
            insecure: options.insecure,
            tls: logins.tls(),
            same_user: options.same_user,
            sessions_max: options.sessions_max,
            handshakes_max: options.handshakes_max,
            connections_per_address: options.connections_per_address,
            spin: options.spin,
            shared_memory: options.shared_memory,
            user_timeout,
            // Early clients wait until every library is deployed.
            held: true,
            ..ServerOptions::default()
        };
        let server = Arc::new(Server::bind(server, Arc::new(sessions))?);
        logins.set_sessions_max(server.sessions_max());
        let _already = facts.server.set(Arc::downgrade(&server));
        let _already = facts.deployments.set(Arc::downgrade(&deployments));
        let health = Health::new(
            &core,
            &facts,
            &deployments,
            &logins,
            options.health,
            clock.now(),
        );
        let health = Arc::new(health);
        let (polled, measured) = (core.clone(), Arc::clone(&health));
        let examined = Arc::clone(&logins);
        let mut next_due = None;
        let housekeeper = Housekeeper::start(clock, move |now, wall| {
            measured.note_run(now, next_due);
            measured.poll(now, wall);
            examined.poll(Moment { now, wall });
            directory.end_revoked();
            let mut wakes = Wakes::new();
            let latest = now.saturating_add(HOUSEKEEPING);
            let due = polled.poll(now, wall, &mut wakes);
            next_due = Some(due.map_or(latest, |due| due.min(latest)));
            next_due
        })
        .map_err(StartError::Thread)?;
        let has_rt_writers = Arc::new(AtomicBool::new(false));
        let pump = start_pump(&core, clock, Arc::clone(&has_rt_writers))?;
        let mut engine = Engine {
            inner: Arc::new(Inner {
                core,
                clock,
                server,
                facts,
                health: Arc::clone(&health),
                flushes,
                numbers,
                uid,
                _housekeeper: housekeeper,
                pump,
                has_rt_writers,
                deployments,
                logins,
                serve,
                running: Mutex::new(None),
                shadowed: Vec::new(),
            }),
        };
        prepare(&engine)?;
        let shadowed = engine.inner.deployments.deploy_stored()?;
        // The engine is not shared with another thread yet.
        if let Some(inner) = Arc::get_mut(&mut engine.inner) {
            inner.shadowed = shadowed;
        }
        // A first attempt to store reports a failure of the store from the start.
        engine.inner.deployments.flush();
        if !options.health.is_zero() {
            let (now, wall) = clock.moment();
            health.begin(now, wall)?;
        }
        engine.inner.server.release();
        Ok(engine)
    }

    /// Starts an engine from configuration files: listeners, libraries, I/O servers. It uses the
    /// drivers of [`Drivers::built_in`].
    ///
    /// # Errors
    /// The first failure; everything started before it has been stopped.
    pub fn from_plan(plan: &DeploymentPlan) -> Result<Engine, StartError> {
        Self::from_plan_with(plan, &Drivers::built_in(), None)
    }

    /// Starts an engine from configuration files. `drivers` creates the I/O servers, and `history`
    /// opens the history.
    ///
    /// As [`from_plan`](Self::from_plan). In addition, [`StartError::NoHistory`] if the files
    /// configure a history and `history` is `None`.
    pub fn from_plan_with(
        plan: &DeploymentPlan,
        drivers: &Drivers,
        history: Option<OpenHistory>,
    ) -> Result<Engine, StartError> {
        Self::from_plan_inheriting(plan, drivers, history, InheritedSockets::default())
    }

    /// As [`from_plan_with`](Self::from_plan_with), with sockets of a service manager that listen
    /// already. The engine uses those at its addresses.
    ///
    /// # Errors
    /// As [`from_plan_with`](Self::from_plan_with).
    pub fn from_plan_inheriting(
        plan: &DeploymentPlan,
        drivers: &Drivers,
        history: Option<OpenHistory>,
        inherited: InheritedSockets,
    ) -> Result<Engine, StartError> {
        let options = EngineOptions {
            inherited,
            ..options_of(&plan.engine)
        };
        let store = open_store(&options)?;
        let history = match (&plan.history, history) {
            (Some(_), None) => return Err(StartError::NoHistory),
            (config, open) => config.as_ref().zip(open),
        };
        let engine = Self::start_after(options, store, history, |engine| {
            engine.prepare(plan, drivers)
        })?;
        *lock(&engine.inner.running) = Some(RunningConfig::of(plan));
        Ok(engine)
    }

    /// Applies the settings that can be changed while the engine runs.
    pub(crate) fn apply_settings(&self, config: &EngineConfig) {
        let (options, inner) = (options_of(config), &self.inner);
        {
            let mut serve = lock(&inner.serve);
            set_session_options(Arc::make_mut(&mut serve), &options);
        }
        let facts = &inner.facts;
        facts.requests.set_max(options.request_bytes_max);
        let relaxed = Ordering::Relaxed;
        facts.handshakes_max.store(options.handshakes_max, relaxed);
        let per_address = options.connections_per_address;
        facts.connections_per_address.store(per_address, relaxed);
        inner.server.set_limits(ServerLimits {
            sessions_max: options.sessions_max,
            handshakes_max: options.handshakes_max,
            connections_per_address: per_address,
            user_timeout: user_timeout(&options),
        });
        inner.logins.set_sessions_max(inner.server.sessions_max());
        let [audit, alarms] = log_limits(&options);
        inner.deployments.audit().set_limits(audit);
        inner.deployments.alarms().set_limits(alarms);
    }

    /// Deploys the libraries of the configuration files. They are not stored, because every start
    /// reads them from the files.
    fn prepare(&self, plan: &DeploymentPlan, drivers: &Drivers) -> Result<(), StartError> {
        self.inner.deployments.deploy_files(&plan.libraries)?;
        for io in &plan.io {
            let driver_error = |error| StartError::Driver {
                name: io.name.clone(),
                error: Box::new(error),
            };
            let settings: Settings = io.settings.clone().into_iter().collect();
            if io.driver == PROCESS_DRIVER {
                check_process(io, &settings).map_err(driver_error)?;
                let (now, wall) = self.inner.clock.moment();
                let core = &self.inner.core;
                core.providers()
                    .expect_source(&io.name, now, wall, &mut Wakes::new());
                continue;
            }
            let server = drivers
                .create(&io.driver, &settings)
                .map_err(driver_error)?;
            self.attach_io(&io.name, server, io.period, io.publish)?;
        }
        Ok(())
    }

    /// Checks the I/O servers of a configuration, and that they have every item that its variables
    /// name, as a start does. Starts nothing.
    ///
    /// # Errors
    /// [`StartError::Driver`], [`StartError::UnknownItem`].
    pub fn check_io(plan: &DeploymentPlan, drivers: &Drivers) -> Result<(), StartError> {
        for io in &plan.io {
            let driver_error = |error| StartError::Driver {
                name: io.name.clone(),
                error: Box::new(error),
            };
            let settings: Settings = io.settings.clone().into_iter().collect();
            if io.driver == PROCESS_DRIVER {
                check_process(io, &settings).map_err(driver_error)?;
                continue;
            }
            let server = drivers
                .create(&io.driver, &settings)
                .map_err(driver_error)?;
            for library in &plan.libraries {
                for variable in &library.variables {
                    let item = item_of(&variable.properties.source, &io.name);
                    if let Some(item) = item.filter(|item| server.item(item).is_none()) {
                        return Err(StartError::UnknownItem {
                            variable: format!("{}/{}", library.name, variable.path),
                            server: io.name.clone(),
                            item: item.to_owned(),
                        });
                    }
                }
            }
        }
        Ok(())
    }

    /// Runs an I/O server under `name`. It provides the value of every variable whose `source` is
    /// `name:item`, including variables that are deployed later. With `publish`, this also deploys
    /// the libraries that the server offers.
    ///
    /// # Errors
    /// A library cannot be deployed, a variable names an item that does not exist, or the system
    /// cannot start another thread.
    pub fn attach_io(
        &self,
        name: &str,
        server: Box<dyn IoServer>,
        period: Option<Duration>,
        publish: bool,
    ) -> Result<(), StartError> {
        if publish {
            for library in server.libraries(name) {
                self.inner.deployments.deploy_published(&library)?;
            }
        }
        self.inner.deployments.attach_io(name, server, period)
    }

    /// Stops an I/O server; its variables become bad. Returns false if no server with that name is
    /// running.
    pub fn stop_io(&self, name: &str) -> bool {
        self.inner.deployments.detach_io(name)
    }

    /// Returns the TCP addresses in use. For a requested port 0, the address contains the port that
    /// the system chose.
    pub fn local_addrs(&self) -> Vec<SocketAddr> {
        self.inner.server.local_addrs().to_vec()
    }

    /// Returns the listen addresses (TCP ports and Unix sockets) as given in the options.
    pub fn listening(&self) -> Vec<ListenAddress> {
        self.inner.server.listening().to_vec()
    }

    /// Returns the Unix sockets that accompany the loopback ports.
    pub fn local_sockets(&self) -> Vec<SocketPath> {
        self.inner.server.local_sockets().to_vec()
    }

    /// Returns the reason why the engine does not use the newest accounts and rules, or cannot renew
    /// its certificate; `None` if all is well.
    pub fn security_error(&self) -> Option<String> {
        self.inner.logins.error()
    }

    /// Returns the limit on simultaneous connections: the limit in the options, or less if the
    /// system grants fewer file descriptors.
    pub fn sessions_max(&self) -> usize {
        self.inner.server.sessions_max()
    }

    /// Returns the counters of the listeners.
    pub fn counters(&self) -> ServerCounters {
        self.inner.server.counters()
    }

    /// Returns a monitor of the engine's health. From now on the engine measures itself once per
    /// second, even if it does not update the variables of `_engine`.
    pub fn health_monitor(&self) -> HealthMonitor {
        HealthMonitor::new(&self.inner.health, self.inner.clock)
    }

    /// Sends the data gathered for clients in throughput mode at once, as a client's flush does.
    pub fn flush(&self) {
        self.inner.flushes.flush();
    }

    /// Returns a writing endpoint for a time-critical thread.
    ///
    /// # Errors
    /// [`RtError`]: the variable does not exist or has no FIFO, or this program has no right to
    /// write it.
    pub fn rt_writer(&self, name: &str) -> Result<RtWriter, RtError> {
        let writer = self.inner.core.realtime().writer(&self.caller(), name)?;
        self.inner.has_rt_writers.store(true, Ordering::Release);
        self.inner.pump.wake();
        Ok(writer)
    }

    /// Returns a reading endpoint for a time-critical thread.
    ///
    /// # Errors
    /// [`RtError`]: the variable does not exist or has no FIFO, or this program has no right to
    /// read it.
    pub fn rt_reader(&self, name: &str) -> Result<RtReader, RtError> {
        self.inner.core.realtime().reader(&self.caller(), name)
    }

    /// Accepts orders of clients to stop the engine. Such an order calls `handler`, which must return
    /// at once and cause a call of [`shutdown`](Self::shutdown) elsewhere. Without a handler, the
    /// orders are refused. Only the first call of this function has an effect.
    pub fn accept_stop_orders(&self, handler: impl Fn() + Send + Sync + 'static) {
        self.inner.deployments.set_stop_handler(Box::new(handler));
    }

    /// Stops the I/O servers, then the connections. Connections have `grace` to send waiting data
    /// and to close.
    pub fn shutdown(&self, grace: Duration) {
        // Stores the values before the variables become bad.
        self.inner.deployments.flush();
        self.inner.deployments.alarms().close();
        if let Some(history) = self.inner.deployments.history() {
            history.close();
        }
        self.inner.deployments.stop_io();
        self.inner.facts.stopping.store(true, Ordering::Release);
        self.inner.server.shutdown(grace);
        self.inner.deployments.audit().note_stop();
        self.inner.deployments.flush();
    }

    /// Returns a reference that does not keep the engine running.
    pub(crate) fn downgrade(&self) -> WeakEngine {
        WeakEngine(Arc::downgrade(&self.inner))
    }

    /// Returns the identity of a program in this process as a caller, with its own session number.
    pub(crate) fn caller(&self) -> Caller {
        let caller = Caller::local(self.inner.numbers.next(), self.inner.uid);
        self.inner.core.writers().remember_name(&caller);
        caller
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("name", &self.inner.core.name())
            .field("listening", &self.inner.server.listening())
            .field("variables", &self.variable_count())
            .finish_non_exhaustive()
    }
}

/// Returns the options that a configuration sets.
fn options_of(config: &EngineConfig) -> EngineOptions {
    let limits = &config.limits;
    EngineOptions {
        name: config
            .name
            .clone()
            .unwrap_or_else(|| "trunkline".to_owned()),
        store: match &config.store {
            StoreChoice::File(path) => Some(path.clone()),
            StoreChoice::Off | StoreChoice::Unset => None,
        },
        audit_entries: config.audit_entries,
        audit_age: config.audit_age,
        alarm_journal_entries: config.alarm_journal_entries,
        alarm_journal_age: config.alarm_journal_age,
        listen: config.listen.clone(),
        inherited: InheritedSockets::default(),
        local_socket: config.local_socket,
        shared_memory: config.shared_memory,
        insecure: config.insecure,
        security: config.security.clone(),
        same_user: config.same_user,
        sessions_max: limits.sessions_max as usize,
        handshakes_max: limits.handshakes_max as usize,
        connections_per_address: limits.connections_per_address,
        items_per_session_max: limits.items_per_session_max,
        write_credit: (
            limits.writes_per_session_max,
            limits.write_bytes_per_session_max,
        ),
        queue_bytes_per_session_max: usize::try_from(limits.queue_bytes_per_session_max)
            .unwrap_or(usize::MAX),
        queue_bytes_max: limits
            .queue_bytes_max
            .map_or_else(crate::machine::quarter_of_memory, |bytes| {
                usize::try_from(bytes).unwrap_or(usize::MAX)
            }),
        request_bytes_max: limits
            .request_bytes_max
            .map_or_else(crate::machine::quarter_of_memory, |bytes| {
                usize::try_from(bytes).unwrap_or(usize::MAX)
            }),
        keep_alive: config.keep_alive,
        deadline: config.deadline,
        health: config.health,
        spin: config.spin,
    }
}

/// Sets the options of sessions that can be changed while the engine runs.
fn set_session_options(serve: &mut ServeOptions, options: &EngineOptions) {
    serve.keepalive = options.keep_alive;
    serve.deadline = options.deadline;
    serve.items_max = options.items_per_session_max;
    serve.write_credit_count = options.write_credit.0;
    serve.write_credit_bytes = options.write_credit.1;
    serve.queue_bytes_max = options.queue_bytes_per_session_max;
}

/// Returns the time-out of unacknowledged data. A client that may be silent for longer may also stop
/// reading for longer.
fn user_timeout(options: &EngineOptions) -> Duration {
    USER_TIMEOUT.max(options.deadline)
}

fn log_limits(options: &EngineOptions) -> [LogLimits; 2] {
    let audit = LogLimits {
        entries: options.audit_entries,
        age: options.audit_age,
    };
    let alarms = LogLimits {
        entries: options.alarm_journal_entries,
        age: options.alarm_journal_age,
    };
    [audit, alarms]
}

/// Starts the pump. Real-time threads only mark the variables that they write. The pump polls the
/// marks frequently while such threads exist, and not at all otherwise.
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
        let due = match core.realtime().pump(now, wall, &mut Wakes::new()) {
            Pumped::Nothing => PUMP_IDLE,
            Pumped::Moved => PUMP_BUSY,
            Pumped::More => Duration::ZERO,
        };
        Some(now.saturating_add(due))
    })
    .map_err(StartError::Thread)
}

/// The driver of an I/O server in a separate process: see [`Provider`](crate::Provider).
const PROCESS_DRIVER: &str = "process";

/// Refuses a period and settings, because they belong to the command that starts the process.
fn check_process(io: &IoConfig, settings: &Settings) -> Result<(), DriverError> {
    let setting_error = |cause| DriverError::Setting {
        driver: PROCESS_DRIVER.to_owned(),
        cause,
    };
    settings.check_keys(&[]).map_err(setting_error)?;
    match io.period {
        None => Ok(()),
        Some(period) => Err(setting_error(SettingError::BadValue {
            key: "period".to_owned(),
            given: format!("{period:?}"),
            rule: "set it in the command that starts the process, `trunkline io run --period`"
                .to_owned(),
        })),
    }
}

impl From<HistoryStartError> for StartError {
    fn from(error: HistoryStartError) -> Self {
        match error {
            HistoryStartError::History(error) => Self::History(error),
            HistoryStartError::Thread(error) => Self::Thread(error),
        }
    }
}

fn open_store(options: &EngineOptions) -> Result<Option<Box<dyn Store>>, StartError> {
    Ok(match &options.store {
        Some(path) => Some(Box::new(match SqliteStore::open(path) {
            // The store is opened later, when the disk has free space again.
            Err(error) if error.kind == StoreErrorKind::Full => SqliteStore::unopened(path),
            store => store?,
        })),
        None => None,
    })
}

/// Creates the record of a start without a store. Each such start has a new identity of the engine.
fn start_without_store() -> Start {
    let mut engine_id = [0; 16];
    engine_id[..8].copy_from_slice(&random().to_le_bytes());
    engine_id[8..].copy_from_slice(&random().to_le_bytes());
    let count = random();
    Start { engine_id, count }
}

/// Returns 64 random bits from the system: the keys of a new hash map.
fn random() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0)
}
