//! Reads the configuration of a running `serve` again: by order of a client, and after SIGHUP.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use signal_hook::consts::SIGHUP;
use signal_hook::iterator::{Handle, Signals};
use trunkline::{Engine, InheritedSockets, ReloadError, Reloaded};
use trunkline_config::{ConfigErrors, DeploymentPlan, LogLevel};
use trunkline_net::server::raise_descriptor_limit;
use trunkline_web::HttpServer;

use super::activation::PassedAddresses;
use super::log::Reporter;
use super::service_manager::ServiceManager;
use super::{Args, Unreadable, http, io, read, start_problem, status};
use crate::{Problem, counted};

/// Number of errors of the files that an answer names. The others are counted.
const ERRORS_NAMED: usize = 3;

/// What a running `serve` needs to read its configuration again.
pub(super) struct Reload {
    pub(super) args: Args,
    /// The addresses that the service manager sets.
    pub(super) passed: PassedAddresses,
    pub(super) reporter: Reporter,
    pub(super) manager: ServiceManager,
    /// The engine has accounts, so nobody else may be able to change its configuration.
    pub(super) has_accounts: bool,
    pub(super) http: Mutex<Http>,
}

/// The HTTP server, and the configuration that it was started with.
#[derive(Debug, Default)]
pub(super) struct Http {
    pub(super) address: Option<SocketAddr>,
    pub(super) hosts: Vec<String>,
    pub(super) server: Option<HttpServer>,
}

impl Reload {
    /// Reads the files and applies them: all or, after an error, nothing. Reports the result.
    pub(super) fn run(&self, engine: &Engine) -> Result<Reloaded, ReloadError> {
        self.manager.reloading();
        let result = self.read_and_apply(engine);
        self.reporter.reloaded(&result);
        let fault = result.as_ref().err().map(ToString::to_string);
        self.manager.ready(&status(engine, fault));
        result
    }

    fn read_and_apply(&self, engine: &Engine) -> Result<Reloaded, ReloadError> {
        let (plan, _) = read(&self.args, &self.passed, self.has_accounts).map_err(|error| {
            ReloadError::Configuration(match error {
                Unreadable::Files(errors) => sentence_of(&errors),
                Unreadable::Other(problem) => problem.message,
            })
        })?;
        let refused = |problem: Problem| ReloadError::Configuration(problem.message);
        // A configuration with which the engine would not start is not applied in part either.
        let checked = Engine::check_io(&plan, &io::drivers());
        checked.map_err(|error| refused(start_problem(&error, &plan)))?;
        let mut http = self.http.lock().unwrap_or_else(PoisonError::into_inner);
        // Started before anything changes, because it may fail.
        let new = http.started_for(&plan, engine).map_err(refused)?;
        raise_descriptor_limit(plan.engine.limits.sessions_max as usize);
        let reloaded = engine.reload(&plan)?;
        self.reporter
            .set_level(plan.engine.log_level.unwrap_or(LogLevel::Info));
        http.replace(new);
        Ok(reloaded)
    }

    /// Ends the HTTP server.
    pub(super) fn close_http(&self) {
        let mut http = self.http.lock().unwrap_or_else(PoisonError::into_inner);
        http.server = None;
    }
}

/// The change of an HTTP server.
enum NewHttp {
    Same,
    Hosts(Vec<String>, trunkline_web::AllowedHosts),
    Server(Http),
}

impl Http {
    /// Starts the server that a changed configuration requires.
    fn started_for(&self, plan: &DeploymentPlan, engine: &Engine) -> Result<NewHttp, Problem> {
        let (address, hosts) = (plan.engine.http, plan.engine.http_hosts.clone());
        if address != self.address {
            let listener = http::bind(plan, &InheritedSockets::default())?;
            let server = listener
                .map(|listener| http::serve(listener, plan, engine.health_monitor()))
                .transpose()?;
            return Ok(NewHttp::Server(Self {
                address,
                hosts,
                server,
            }));
        }
        match hosts == self.hosts {
            true => Ok(NewHttp::Same),
            false => Ok(NewHttp::Hosts(hosts, http::allowed_hosts(plan)?)),
        }
    }

    fn replace(&mut self, new: NewHttp) {
        match new {
            NewHttp::Same => {}
            NewHttp::Hosts(hosts, allowed) => {
                self.hosts = hosts;
                if let Some(server) = &self.server {
                    server.set_hosts(allowed);
                }
            }
            NewHttp::Server(http) => *self = http,
        }
    }
}

/// The first errors of the files, in one sentence.
fn sentence_of(errors: &ConfigErrors) -> String {
    let named = errors.errors.iter().take(ERRORS_NAMED);
    let mut sentences: Vec<String> = named.map(ToString::to_string).collect();
    let others = errors.errors.len() - sentences.len() + errors.further;
    if others > 0 {
        sentences.push(counted(others as u64, "more error"));
    }
    sentences.join("; ")
}

/// The thread that reloads the configuration after SIGHUP. Dropping it ends the thread.
pub(super) struct Hangups {
    signals: Handle,
    thread: Option<JoinHandle<()>>,
}

/// Catches SIGHUP, which would end the process otherwise. A signal that arrives before
/// [`Hangups::follow`] waits for it.
pub(super) fn catch_hangups() -> Result<Signals, Problem> {
    Signals::new([SIGHUP]).map_err(|error| {
        let sentence = format!("cannot install a handler for SIGHUP: {error}");
        Problem::failed("system", sentence)
    })
}

impl Hangups {
    /// # Errors
    /// The system cannot start another thread.
    pub(super) fn follow(mut signals: Signals, engine: Engine) -> Result<Self, Problem> {
        let handle = signals.handle();
        let reload = move || {
            for _ in signals.forever() {
                // The reload reports its result itself.
                let _ = engine.order_reload();
            }
        };
        let thread = thread::Builder::new().name("reload".to_owned());
        let thread = thread.spawn(reload).map_err(|error| {
            let sentence = format!("the operating system cannot start another thread: {error}");
            Problem::failed("system", sentence)
        })?;
        Ok(Self {
            signals: handle,
            thread: Some(thread),
        })
    }
}

impl Drop for Hangups {
    fn drop(&mut self) {
        self.signals.close();
        if let Some(thread) = self.thread.take() {
            // If the thread panicked, it has ended already.
            let _ = thread.join();
        }
    }
}

/// Lets clients and SIGHUP reload the configuration of the engine.
pub(super) fn accept_reload_orders(engine: &Engine, reload: &Arc<Reload>) {
    let reload = Arc::clone(reload);
    engine.accept_reload_orders(move |engine| reload.run(engine));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentence_names_the_first_errors_and_counts_the_others() {
        let text = "[engine]\na = 1\nb = 1\nc = 1\nd = 1\ne = 1\n";
        let errors = trunkline_config::parse("plant.toml", text).unwrap_err();
        let sentence = sentence_of(&errors);
        assert!(
            sentence.starts_with("plant.toml:2:1 unknown key \"a\""),
            "{sentence}"
        );
        assert!(sentence.ends_with("; 2 more errors"), "{sentence}");
        assert_eq!(sentence.matches("unknown key").count(), 3, "{sentence}");
    }
}
