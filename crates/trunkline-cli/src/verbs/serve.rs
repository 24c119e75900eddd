//! `serve`: runs an engine from configuration files.

mod activation;
mod http;
mod log;
mod reload;
#[cfg(target_os = "linux")]
mod service_manager;

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use trunkline::engine::StartError;
use trunkline::io::{DriverError, SettingError};
use trunkline::recording::HistoryError;
use trunkline::store::StoreErrorKind;
use trunkline::types::ListenAddress;
use trunkline::types::url::DEFAULT_PORT;
use trunkline::{Engine, SecurityError, config};
use trunkline_config::{ConfigErrors, DeploymentPlan, HTTP_PORT, LogLevel, StoreChoice};
use trunkline_identity::accounts::AccessFileError;
use trunkline_identity::files;
use trunkline_net::server::{BindError, raise_descriptor_limit};

use self::activation::PassedAddresses;
use self::log::{LoadWatch, LogArgs, Part, Reporter};
use self::reload::{Hangups, Http, Reload};
use self::service_manager::ServiceManager;
use super::{backup, io};
use crate::output::record::{JsonSchema, Serialize, json};
use crate::problem::folder_reason;
use crate::terminal::{padded, width};
use crate::{CliError, Context, Exit, Problem, counted};

/// Run an engine with the libraries and I/O servers of configuration files
///
/// The command prints a summary with its addresses, and runs until Ctrl-C or SIGTERM. Libraries
/// deployed earlier are loaded from the store; without FILE, the engine serves only these.
/// `trunkline init` writes an example configuration; `trunkline help config` lists all keys.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Configuration files, and folders of files that end in .toml
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// File for deployed libraries, retained values, states of alarms, the audit trail and the alarm journal;
    /// `none` keeps them in memory only. Default: the configured store, otherwise
    /// ~/.local/state/trunkline/engine-PORT.db
    #[arg(long, value_name = "FILE")]
    store: Option<PathBuf>,

    #[command(flatten)]
    listen: ListenArgs,

    /// Serve metrics and health over HTTP on this loopback address: an IP address, a port, or both;
    /// without port: 8420. Default: the configured address, otherwise none
    #[arg(long, value_name = "ADDRESS", value_parser = http_address)]
    http: Option<SocketAddr>,

    #[command(flatten)]
    log: LogArgs,
}

/// The addresses of an engine, and who may connect to it.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct ListenArgs {
    /// Listen on this address instead of the configured one: an IP address, a port, or both; port 0
    /// is any free port; unix:PATH is a Unix socket; PATH must be absolute and end in .sock. May be
    /// given several times
    #[arg(long, value_name = "ADDRESS", value_parser = listen_address)]
    pub(crate) listen: Vec<ListenAddress>,

    /// Permit addresses that other machines can reach without encryption and identities: anyone who
    /// can reach them may do everything
    #[arg(long)]
    pub(crate) insecure: bool,

    /// Refuse connections from other machines and from programs of other users; for loopback ports, the
    /// system must be able to identify the user
    #[arg(long)]
    pub(crate) same_user: bool,
}

const LISTEN_FORM: &str =
    "not an address; use an address such as 127.0.0.1:5851, a port, or unix:/path/to/a.sock";

/// Number of attempts to open a store that another engine uses, and the pause between them.
const STORE_ATTEMPTS: u32 = 50;
const STORE_PAUSE: Duration = Duration::from_millis(100);
const FAILURE_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// An insecure engine repeats its warning after this number of checks, which is every minute.
const INSECURE_CHECKS: u64 = 60;

/// Time that connections get to send their queued data at shutdown.
pub(super) const GRACE: Duration = Duration::from_secs(1);

/// The first line of `serve` and `demo`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(crate) enum ServeEvent {
    /// What the engine serves, and at which addresses.
    Serving {
        /// Name of the engine.
        engine: String,
        /// Number of variables that it hosts.
        variables: usize,
        /// URLs at which it listens.
        listen: Vec<String>,
        /// The Unix sockets in addition to its ports, for programs of the same user. Left out when there are
        /// none.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        local_sockets: Vec<String>,
        /// Names of its I/O servers.
        io: Vec<String>,
        /// URL of its HTTP server. Left out when there is none.
        #[serde(skip_serializing_if = "Option::is_none")]
        http: Option<String>,
        /// The file of its store. Left out when there is none.
        #[serde(skip_serializing_if = "Option::is_none")]
        store: Option<String>,
        /// Deployed libraries that libraries in the configuration files replace. Left out when there are
        /// none.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        shadowed: Vec<String>,
    },
}

impl ServeEvent {
    pub(super) fn new(engine: &Engine, plan: &DeploymentPlan) -> Self {
        let sockets = engine.local_sockets();
        Self::Serving {
            engine: name_of(plan).to_owned(),
            variables: engine.variable_count(),
            listen: urls(engine),
            local_sockets: sockets.iter().map(ToString::to_string).collect(),
            io: plan.io.iter().map(|io| io.name.clone()).collect(),
            http: plan.engine.http.map(http::url),
            store: match &plan.engine.store {
                StoreChoice::File(path) => Some(path.display().to_string()),
                _ => None,
            },
            shadowed: engine.shadowed_libraries().to_vec(),
        }
    }
}

/// Checks that no other user can change the configuration of an engine with accounts, because the
/// configuration names the folder of the accounts.
fn check_writers(plan: &DeploymentPlan) -> Result<(), Problem> {
    let mut sources = plan.sources.iter();
    let checked = sources.try_for_each(|source| files::check_writers(source));
    checked.map_err(|error| Problem::from_message("security", error.to_string()))
}

pub(super) fn name_of(plan: &DeploymentPlan) -> &str {
    plan.engine.name.as_deref().unwrap_or("trunkline")
}

/// The reason why a configuration cannot be used.
enum Unreadable {
    Files(ConfigErrors),
    Other(Problem),
}

/// Reads the configuration files, and adds the options of the command line. Also returns advice if
/// nothing is stored. `has_accounts`: the engine has accounts already, whatever the files say now.
fn read(
    args: &Args,
    passed: &PassedAddresses,
    has_accounts: bool,
) -> Result<(DeploymentPlan, Option<String>), Unreadable> {
    let mut plan = config::load(&args.files).map_err(Unreadable::Files)?;
    apply(&mut plan, &args.listen);
    plan.engine.http = args.http.or(plan.engine.http);
    passed.apply(&mut plan);
    if has_accounts || plan.engine.security.is_some() {
        check_writers(&plan).map_err(Unreadable::Other)?;
    }
    let (store, advice) = store(args.store.as_deref(), &plan).map_err(Unreadable::Other)?;
    plan.set_store(store);
    Ok((plan, advice))
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, CliError> {
    let reporter = Reporter::start(args.log, context)?;
    reporter.starting(args.files.len());
    let hangups = reload::catch_hangups()?;
    let passed = PassedAddresses::of(&context.sockets)?;
    let (mut plan, advice) = match read(args, &passed, false) {
        Ok(plan) => plan,
        Err(Unreadable::Files(errors)) => return show_errors(&errors, context),
        Err(Unreadable::Other(problem)) => return Err(problem.into()),
    };
    reporter.set_level(plan.engine.log_level.unwrap_or(LogLevel::Info));
    passed.check_use(&plan)?;
    backup::check_restored(&plan)?;
    if let Some(advice) = advice {
        reporter.advice(&advice)?;
    }
    context.interrupted.handle_presses(u32::MAX);
    raise_descriptor_limit(plan.engine.limits.sessions_max as usize);
    let manager = ServiceManager::of_this_process()?;
    let http = http::bind(&plan, &context.sockets)?;
    let engine = start(&plan, &reporter, context)?;
    accept_stop_orders(&engine, context);
    let mut served = Http {
        address: plan.engine.http,
        hosts: plan.engine.http_hosts.clone(),
        server: None,
    };
    if let Some(listener) = http {
        // The system has chosen the port if it was 0.
        plan.engine.http = Some(listener.address());
        let monitor = engine.health_monitor();
        served.server = Some(http::serve(listener, &plan, monitor)?);
    }
    let watchdog = match manager.wants_signs_of_life() {
        true => manager.watch(engine.health_monitor())?,
        false => None,
    };
    announce(&engine, &plan, &reporter, context)?;
    let reported = failures(&engine);
    for (part, sentence) in Part::ALL.into_iter().zip(&reported) {
        if let Some(sentence) = sentence {
            reporter.initial_failure(part, sentence, context)?;
        }
    }
    if let Some(sentence) = engine.store_damage() {
        reporter.initial_failure(Part::Store, &sentence, context)?;
    }
    let status = status(&engine, None);
    manager.ready(&status);
    let watch = FailureWatch {
        engine: engine.clone(),
        reporter: reporter.clone(),
        manager: manager.clone(),
        status,
        reported,
        insecure: insecure_warnings(&engine, &plan),
    };
    let watch = watch.start(context)?;
    let reload = Arc::new(Reload {
        args: args.clone(),
        passed,
        reporter: reporter.clone(),
        manager: manager.clone(),
        has_accounts: plan.engine.security.is_some(),
        http: Mutex::new(served),
    });
    // The files need much memory, and are read again for a reload.
    drop(plan);
    reload::accept_reload_orders(&engine, &reload);
    let hangups = Hangups::follow(hangups, engine.clone())?;
    context.interrupted.wait_for_first();
    manager.stopping();
    reporter.stopping();
    drop((watch, hangups));
    engine.shutdown(GRACE);
    reporter.stopped();
    drop(watchdog);
    reload.close_http();
    match engine.store_error() {
        None => Ok(Exit::Success),
        Some(error) => {
            let sentence = format!(
                "the newest retained values and deployments were not saved to the store: {error}"
            );
            Err(Problem::failed("store", sentence).into())
        }
    }
}

/// The sentence about the engine for the service manager: its first failure, or its addresses. `fault`
/// is why the changed configuration is not used.
fn status(engine: &Engine, fault: Option<String>) -> String {
    let failure = failures(engine).into_iter().flatten().next();
    failure
        .or_else(|| Some(format!("the changed configuration is not used: {}", fault?)))
        .unwrap_or_else(|| {
            format!(
                "{}, {}",
                urls(engine).join(" and "),
                counted(engine.variable_count() as u64, "variable")
            )
        })
}

/// Returns the reporter of a command that writes human-readable messages.
pub(super) fn notes(context: &Context) -> Reporter {
    Reporter::Notes(context.terminal.clone())
}

/// Lets `trunkline engine stop` end this command as Ctrl-C does.
pub(super) fn accept_stop_orders(engine: &Engine, context: &Context) {
    let interrupted = context.interrupted.clone();
    engine.accept_stop_orders(move || interrupted.request_end());
}

/// Starts the engine. If another engine still uses the store or the history, reports this and
/// retries for a few seconds.
fn start(
    plan: &DeploymentPlan,
    reporter: &Reporter,
    context: &Context,
) -> Result<Engine, CliError> {
    for attempt in 0..STORE_ATTEMPTS {
        let started = from_plan(plan, context);
        let location = match &started {
            Err(StartError::Store(error)) if error.kind == StoreErrorKind::InUse => {
                format!("the store {}", error.location)
            }
            Err(StartError::History(HistoryError::Files {
                location,
                kind: StoreErrorKind::InUse,
            })) => format!("the history {location}"),
            _ => return started.map_err(|error| start_problem(&error, plan).into()),
        };
        if attempt == 0 {
            let seconds = (STORE_PAUSE * STORE_ATTEMPTS).as_secs();
            let sentence = format!(
                "{location} is in use by another engine; waiting up to {seconds} s for that \
                 engine to stop"
            );
            reporter.advice(&sentence)?;
        }
        context.interrupted.wait(STORE_PAUSE);
    }
    from_plan(plan, context).map_err(|error| start_problem(&error, plan).into())
}

fn from_plan(plan: &DeploymentPlan, context: &Context) -> Result<Engine, StartError> {
    let (history, sockets) = (trunkline_history::open, context.sockets.clone());
    Engine::from_plan_inheriting(plan, &io::drivers(), Some(history), sockets)
}

/// Describes the current failures of the [parts](Part) of the engine.
fn failures(engine: &Engine) -> [Option<String>; 4] {
    let store = engine.store_error().map(|error| {
        format!(
            "new retained values and deployments will not survive a restart: {error}; the engine keeps \
             trying"
        )
    });
    let spool = engine.history_spool();
    let history = engine.history_error().map(|error| match &spool {
        Some(spool) if spool.cause.is_some() => format!(
            "updates are recorded in the spool {}: {error}; the engine keeps trying",
            spool.location
        ),
        _ => format!("updates are not recorded: {error}; the engine keeps trying"),
    });
    let fault = spool.and_then(|spool| spool.fault);
    let spool = fault.map(|error| format!("{error}; the engine keeps trying"));
    [store, history, spool, engine.security_error()]
}

/// Reports when a part of the engine fails or recovers, also to the service manager.
struct FailureWatch {
    engine: Engine,
    reporter: Reporter,
    manager: ServiceManager,
    /// What the service manager shows.
    status: String,
    /// The failures that were already reported.
    reported: [Option<String>; 4],
    /// Warnings of an insecure engine, which are repeated.
    insecure: Vec<String>,
}

impl FailureWatch {
    /// Starts the thread of the watch, which ends when the sender is dropped.
    fn start(mut self, context: &Context) -> Result<mpsc::Sender<()>, CliError> {
        let (watch, ended) = mpsc::channel();
        let (engine, clock) = (self.engine.clone(), context.clock);
        let monitor = || engine.health_monitor();
        let mut load = LoadWatch::new(&self.reporter, monitor, engine.counters());
        let check = move || {
            let mut checks: u64 = 0;
            while ended.recv_timeout(FAILURE_CHECK_INTERVAL) == Err(mpsc::RecvTimeoutError::Timeout)
            {
                self.check();
                checks += 1;
                if checks.is_multiple_of(INSECURE_CHECKS) {
                    for warning in &self.insecure {
                        // A closed standard error is no reason to stop serving.
                        let _ = self.reporter.advice(warning);
                    }
                }
                if let Some(load) = &mut load {
                    load.check(clock.now(), self.engine.counters());
                }
            }
        };
        let thread = std::thread::Builder::new().name("failure-watch".to_owned());
        thread.spawn(check).map_err(|error| {
            let sentence = format!("the operating system cannot start another thread: {error}");
            Problem::failed("system", sentence)
        })?;
        Ok(watch)
    }

    fn check(&mut self) {
        let current = failures(&self.engine);
        for (part, (previous, failure)) in Part::ALL
            .into_iter()
            .zip(self.reported.iter().zip(&current))
        {
            match (previous, failure) {
                (Some(_), None) => self.reporter.recovery(part),
                (previous, Some(sentence)) if previous.as_ref() != Some(sentence) => {
                    self.reporter.failure(part, sentence);
                }
                (Some(_), Some(_)) | (None, _) => {}
            }
        }
        self.reported = current;
        let status = status(&self.engine, self.engine.configuration_fault());
        if self.status != status {
            self.manager.status(&status);
            self.status = status;
        }
    }
}

/// Returns where the engine stores data that survives a restart, and advice if nothing survives.
/// `option` is the value of `--store`.
pub(super) fn store(
    option: Option<&Path>,
    plan: &DeploymentPlan,
) -> Result<(StoreChoice, Option<String>), Problem> {
    match (option, &plan.engine.store) {
        (Some(none), _) if none == Path::new("none") => Ok((StoreChoice::Off, None)),
        (Some(path), _) => Ok((StoreChoice::File(path.to_owned()), None)),
        (None, StoreChoice::Unset) => default_store(plan),
        (None, choice) => Ok((choice.clone(), None)),
    }
}

/// Returns a file in the service manager's state folder, or in the user's folder for program state.
/// The port identifies the file, so an engine without a fixed port has no store by default.
fn default_store(plan: &DeploymentPlan) -> Result<(StoreChoice, Option<String>), Problem> {
    let first = plan.engine.listen.iter().find_map(ListenAddress::tcp);
    let port = first.map_or(0, |address| address.port());
    if port == 0 {
        let mut variables = plan.libraries.iter().flat_map(|library| &library.variables);
        let advice = "no values survive a restart, although variables have `retain`: an engine \
                      without a fixed port has no store by default; specify a file with --store";
        let has_retained = variables.any(|variable| variable.properties.retain);
        return Ok((StoreChoice::Off, has_retained.then(|| advice.to_owned())));
    }
    let Some(folder) = state_folder(|name| std::env::var_os(name)) else {
        let advice = "no values or deployments survive a restart, because none of the environment \
                      variables STATE_DIRECTORY, XDG_STATE_HOME and HOME contains an absolute path; use \
                      --store FILE, or accept this with --store none";
        return Ok((StoreChoice::Off, Some(advice.to_owned())));
    };
    let mut folders = std::fs::DirBuilder::new();
    let created = folders.recursive(true).mode(0o700).create(&folder);
    created.map_err(|error| {
        let folder = folder.display();
        let error = folder_reason(&error);
        let sentence = format!(
            "the folder {folder} for the engine's store cannot be created ({error}); specify another \
             file with --store, or use --store none"
        );
        Problem::failed("store", sentence)
    })?;
    let file = folder.join(format!("engine-{port}.db"));
    Ok((StoreChoice::File(file), None))
}

/// Returns the state folder of the service if the service manager sets one, otherwise the state folder
/// of the user. If the service manager sets several folders, the first is used.
fn state_folder(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let folder_in = |name: &str| {
        let value = variable(name).filter(|value| !value.is_empty())?;
        std::env::split_paths(&value)
            .next()
            .filter(|path| path.is_absolute())
    };
    folder_in("STATE_DIRECTORY")
        .or_else(|| Some(folder_in("XDG_STATE_HOME")?.join("trunkline")))
        .or_else(|| Some(folder_in("HOME")?.join(".local/state/trunkline")))
}

/// Applies the options of the command line, which take precedence over the files.
pub(super) fn apply(plan: &mut DeploymentPlan, listen: &ListenArgs) {
    if !listen.listen.is_empty() {
        plan.engine.listen.clone_from(&listen.listen);
    }
    plan.engine.insecure |= listen.insecure;
    plan.engine.same_user |= listen.same_user;
    if plan.engine.name.is_none() {
        plan.engine.name = host_name();
    }
}

pub(super) fn host_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    let name = name.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

fn announce(
    engine: &Engine,
    plan: &DeploymentPlan,
    reporter: &Reporter,
    context: &Context,
) -> Result<(), CliError> {
    let name = name_of(plan);
    let terminal = &context.terminal;
    if context.settings.is_json() {
        terminal.line(&json(&ServeEvent::new(engine, plan)))?;
    } else {
        let version = env!("CARGO_PKG_VERSION");
        let count = counted(engine.variable_count() as u64, "variable");
        terminal.line(&format!("trunkline {version} · {name} · {count}"))?;
        list_libraries(engine, context)?;
        for io in &plan.io {
            terminal.line(&format!("  I/O server {} ({})", io.name, io.driver))?;
        }
        for name in engine.shadowed_libraries() {
            let line =
                format!("  library {name} comes from the files, not from the earlier deployment");
            terminal.line(&line)?;
        }
        if let StoreChoice::File(path) = &plan.engine.store {
            terminal.line(&format!("Store: {}", path.display()))?;
        }
        if let Some(history) = &plan.history {
            terminal.line(&format!("History: {}", history.folder.display()))?;
            if let Some(spool) = &history.spool {
                terminal.line(&format!("Spool: {}", spool.display()))?;
            }
        }
        if let Some(address) = plan.engine.http {
            terminal.line(&format!("HTTP: {}", http::url(address)))?;
        }
        terminal.line(&format!(
            "Listening on {} · press Ctrl-C to stop",
            urls(engine).join(" and ")
        ))?;
    }
    terminal.flush()?;
    reporter.listening(name, &urls(engine), engine.variable_count());
    warn(engine, plan, reporter, context)
}

/// Warns if the system allows fewer connections than configured, and if other users or machines can
/// connect without an identity.
pub(super) fn warn(
    engine: &Engine,
    plan: &DeploymentPlan,
    reporter: &Reporter,
    context: &Context,
) -> Result<(), CliError> {
    let (sessions, configured) = (engine.sessions_max(), plan.engine.limits.sessions_max);
    if sessions < configured as usize {
        let sentence = format!(
            "at most {sessions} connections at a time, not {configured}: the system limits the \
             file descriptors of this process; raise its `ulimit -n`"
        );
        reporter.warning(&sentence, context)?;
    }
    for warning in insecure_warnings(engine, plan) {
        reporter.warning(&warning, context)?;
    }
    Ok(())
}

/// Returns a warning for each address that other machines can reach without encryption and without
/// an identity.
fn insecure_warnings(engine: &Engine, plan: &DeploymentPlan) -> Vec<String> {
    if !plan.engine.insecure {
        return Vec::new();
    }
    let addresses = engine.local_addrs().into_iter();
    let reachable = addresses.filter(|address| !address.ip().to_canonical().is_loopback());
    let warning = |address| match plan.engine.same_user {
        true => format!(
            "other machines can reach {address}, but same_user refuses their connections and those \
             of other users of this machine"
        ),
        false => {
            format!("insecure: anyone who can reach {address} may read and write every variable")
        }
    };
    reachable.map(warning).collect()
}

pub(super) fn urls(engine: &Engine) -> Vec<String> {
    let listening = engine.listening().into_iter();
    listening
        .map(|address| match address {
            ListenAddress::Tcp(address) => format!("tl://{address}"),
            ListenAddress::Unix(path) => format!("tl+unix://{path}"),
        })
        .collect()
}

pub(super) fn list_libraries(engine: &Engine, context: &Context) -> Result<(), CliError> {
    // Only the engine knows which libraries its I/O servers publish.
    let timeout = context.settings.timeout;
    let info = engine
        .client()
        .ok()
        .and_then(|client| client.engine_info(timeout).ok());
    let libraries = info.map(|info| info.libraries).unwrap_or_default();
    let names = libraries.iter().map(|library| width(&library.name));
    let width = names.max().unwrap_or(0);
    for library in &libraries {
        let (name, count) = (padded(&library.name, width), library.variables);
        let word = if count == 1 { "variable " } else { "variables" };
        let line = format!("  {name}   {count:>5} {word}   {}", library.description);
        context.terminal.line(line.trim_end())?;
    }
    Ok(())
}

pub(super) fn show_errors(errors: &ConfigErrors, context: &Context) -> Result<Exit, CliError> {
    let terminal = &context.terminal;
    if !context.settings.is_json() {
        terminal.note(&errors.to_string())?;
        return Ok(Exit::ProblemsFound);
    }
    for error in &errors.errors {
        let problem = Problem {
            name: None,
            code: error.kind.code().into(),
            message: format!("{} {}", error.place(), error.message()),
            hint: error.hint(),
            exit: Exit::ProblemsFound,
        };
        terminal.problem(&problem, 0)?;
    }
    if errors.further > 0 {
        let sentence = format!("{} more errors were found", errors.further);
        terminal.problem(
            &Problem::new(Exit::ProblemsFound, "further-errors", sentence),
            0,
        )?;
    }
    Ok(Exit::ProblemsFound)
}

pub(super) fn start_problem(error: &StartError, plan: &DeploymentPlan) -> Problem {
    match error {
        StartError::Bind(bind) => {
            let (exit, code) = match bind {
                BindError::NotLoopback { .. } => (Exit::NotPermitted, "not-loopback"),
                BindError::PortDenied { .. } | BindError::SocketDenied { .. } => {
                    (Exit::NotPermitted, "denied")
                }
                BindError::PortInUse { .. } => (Exit::Failed, "port-taken"),
                BindError::SocketInUse { .. } => (Exit::Failed, "socket-taken"),
                _ => (Exit::Failed, "listen"),
            };
            Problem::new(exit, code, bind.to_string())
        }
        StartError::Driver { name, error } => {
            let place = place_of_setting(plan, name, error);
            Problem::new(
                Exit::ProblemsFound,
                "driver",
                format!("{place}[[io]] {name}: {error}"),
            )
        }
        StartError::UnknownItem { variable, .. } => {
            let place = place_of_variable(plan, variable);
            Problem::new(
                Exit::ProblemsFound,
                "unknown-item",
                format!("{place}{error}"),
            )
        }
        StartError::Store(_) => Problem::failed("store", error.to_string()),
        // The text has several lines with remedies of their own.
        StartError::Security(SecurityError::Access(AccessFileError::Invalid { .. })) => Problem {
            exit: Exit::ProblemsFound,
            ..Problem::from_message("security", error.to_string())
        },
        StartError::Security(_) => Problem::failed("security", error.to_string()),
        StartError::Deploy(_) => Problem::new(Exit::ProblemsFound, "deploy", error.to_string()),
        _ => Problem::system(&error),
    }
}

/// Returns the file and line of the setting that a driver refused, followed by a space.
fn place_of_setting(plan: &DeploymentPlan, name: &str, error: &DriverError) -> String {
    let Some(io) = plan.io.iter().find(|io| io.name == name) else {
        return String::new();
    };
    let key = match error {
        DriverError::Setting {
            cause:
                SettingError::Unknown { key, .. }
                | SettingError::WrongType { key, .. }
                | SettingError::BadValue { key, .. },
            ..
        } => Some(key),
        _ => None,
    };
    let place = key.and_then(|key| io.setting_places.get(key));
    followed_by_space(place.unwrap_or(&io.origin))
}

fn followed_by_space(place: &str) -> String {
    match place {
        "" => String::new(),
        place => format!("{place} "),
    }
}

fn place_of_variable(plan: &DeploymentPlan, name: &str) -> String {
    let (library, path) = name.split_once('/').unwrap_or((name, ""));
    let library = plan
        .libraries
        .iter()
        .find(|candidate| candidate.name == library);
    let mut variables = library.iter().flat_map(|library| &library.variables);
    let variable = variables.find(|variable| variable.path == path);
    variable.map_or_else(String::new, |variable| {
        followed_by_space(&variable.properties.origin)
    })
}

/// Parses a listen address: `127.0.0.1:5851`, `[::1]`, `localhost:5851`, `5851`,
/// `unix:/run/a.sock`.
fn listen_address(text: &str) -> Result<ListenAddress, String> {
    match ListenAddress::parse_unix(text) {
        Some(socket) => socket.map_err(|error| error.to_string()),
        None => {
            let address = tcp_address(text, DEFAULT_PORT).map(ListenAddress::from);
            address.map_err(|fault| match fault {
                AddressFault::Form => LISTEN_FORM.to_owned(),
                AddressFault::Port(sentence) => sentence,
            })
        }
    }
}

/// Parses an address of the HTTP server, in the same forms, except for Unix sockets.
fn http_address(text: &str) -> Result<SocketAddr, String> {
    tcp_address(text, HTTP_PORT).map_err(|fault| match fault {
        AddressFault::Form => {
            "not an address; use an address such as 127.0.0.1:8420, or a port".to_owned()
        }
        AddressFault::Port(sentence) => sentence,
    })
}

enum AddressFault {
    /// It is no address at all.
    Form,
    /// Its port is impossible; a sentence says why.
    Port(String),
}

fn tcp_address(text: &str, default_port: u16) -> Result<SocketAddr, AddressFault> {
    let text = match text.strip_prefix("localhost") {
        Some(rest) => &format!("127.0.0.1{rest}"),
        None => text,
    };
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(address);
    }
    let bare = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    if let Ok(ip) = bare.unwrap_or(text).parse::<IpAddr>() {
        return Ok(SocketAddr::new(ip, default_port));
    }
    let (_, last) = text.rsplit_once(':').unwrap_or(("", text));
    let is_number = !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit());
    let port = text.strip_prefix(':').unwrap_or(text).parse::<u16>();
    port.map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
        .map_err(|_| match last.parse::<u16>() {
            Err(_) if is_number => AddressFault::Port(format!(
                "{last} is not a port; use a number from 0 to 65535"
            )),
            _ => AddressFault::Form,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_folder_of_the_service_precedes_the_one_of_the_user() {
        let folder = |set: &[(&str, &str)]| {
            let value = |name: &str| set.iter().find(|(known, _)| *known == name);
            state_folder(|name| value(name).map(|(_, value)| value.into()))
        };
        let user = ("HOME", "/home/ann");
        let state = ("XDG_STATE_HOME", "/state");
        let service = ("STATE_DIRECTORY", "/var/lib/plant:/var/lib/other");
        assert_eq!(folder(&[]), None);
        assert_eq!(folder(&[("HOME", "")]), None);
        assert_eq!(
            folder(&[user]),
            Some("/home/ann/.local/state/trunkline".into())
        );
        assert_eq!(folder(&[user, state]), Some("/state/trunkline".into()));
        assert_eq!(
            folder(&[user, state, service]),
            Some("/var/lib/plant".into())
        );
    }

    #[test]
    fn http_address_has_its_own_port_and_no_sockets() {
        let parsed = |text| http_address(text).map(|address| address.to_string());
        assert_eq!(parsed("localhost").as_deref(), Ok("127.0.0.1:8420"));
        assert_eq!(parsed("[::1]").as_deref(), Ok("[::1]:8420"));
        assert_eq!(parsed("9000").as_deref(), Ok("127.0.0.1:9000"));
        assert!(parsed("unix:/run/a.sock").unwrap_err().contains("8420"));
        assert!(parsed("70000").unwrap_err().contains("not a port"));
    }

    #[test]
    fn port_and_address_are_optional() {
        for (text, expected) in [
            ("127.0.0.1:5851", "127.0.0.1:5851"),
            ("127.0.0.1", "127.0.0.1:5850"),
            ("[::1]:0", "[::1]:0"),
            ("::1", "[::1]:5850"),
            ("[::1]", "[::1]:5850"),
            ("localhost:6000", "127.0.0.1:6000"),
            ("6000", "127.0.0.1:6000"),
            (":0", "127.0.0.1:0"),
            ("unix:/run/plant.sock", "unix:/run/plant.sock"),
        ] {
            let address = listen_address(text).map(|address| address.to_string());
            assert_eq!(address.as_deref(), Ok(expected), "{text}");
        }
        assert!(listen_address("plant7:port").is_err());
        for text in ["99999", ":99999", "127.0.0.1:99999"] {
            let error = listen_address(text).unwrap_err();
            assert_eq!(
                error, "99999 is not a port; use a number from 0 to 65535",
                "{text}"
            );
        }
        assert!(listen_address("unix:plant.sock").is_err());
    }
}
