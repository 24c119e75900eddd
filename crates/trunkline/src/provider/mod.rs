//! An I/O server in a separate process, which delivers variables of an engine elsewhere.
//!
//! The provider has its own connection and its own thread. While it waits for the next scan it
//! drives the connection, so orders reach the device without a wake-up in between. When the process
//! ends for any reason, the engine's variables become bad, with the cause. Delivery continues when
//! it or another process with the same name runs.

mod raw;
mod runner;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use trunkline_io::IoServer;

use crate::client::verbs::Shared;
use crate::client::{ConnectError, ConnectOptions};
use crate::deployments::lock;
use runner::Runner;

/// Settings of a provider.
#[derive(Clone, Debug, Default)]
pub struct ProviderOptions {
    /// The name that `source = "NAME:ITEM"` refers to.
    pub name: String,
    /// Time from one scan to the next; `None`: the period of the I/O server.
    pub period: Option<Duration>,
    /// Deploys the libraries that the I/O server offers, replacing deployed versions.
    pub publish: bool,
}

impl ProviderOptions {
    /// Returns the options of an I/O server with this name, its own period, and no libraries to
    /// publish.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..Self::default()
        }
    }
}

/// The state of a provider.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProviderStatus {
    /// True while the engine uses this provider for the variables that name it.
    pub is_provided: bool,
    /// Number of variables that it delivers.
    pub variables: usize,
    /// Number of variables whose `source` names an item that the provider does not have; they are
    /// bad.
    pub missing: usize,
    /// Name of one of the missing items.
    pub missing_item: Option<String>,
    /// Current failure of the engine or of the connection to it.
    pub engine_error: Option<String>,
    /// Current failure of the device.
    pub device_error: Option<String>,
}

/// A running provider. Dropping it stops it, and its variables become bad.
pub struct Provider {
    shared: Arc<Shared>,
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

/// State shared by the provider and its thread.
#[derive(Debug, Default)]
struct State {
    is_stopping: AtomicBool,
    status: Mutex<ProviderStatus>,
    changed: Condvar,
}

impl Provider {
    /// Starts `server` as the source of the engine's variables that name it. The engine need not be
    /// running yet: the provider connects when it is, and reconnects when necessary.
    ///
    /// # Errors
    /// [`ConnectError`]: the system has no descriptor or thread left.
    pub fn start(
        engine: &ConnectOptions,
        options: &ProviderOptions,
        server: Box<dyn IoServer>,
    ) -> Result<Self, ConnectError> {
        let shared = Shared::start(engine.dialler(), engine)?;
        let state = Arc::new(State::default());
        let runner = Runner::new(Arc::clone(&shared), Arc::clone(&state), options, server);
        shared.link.with(|core, _, _| core.provide(&options.name));
        let thread = thread::Builder::new()
            .name("trunkline-io".to_owned())
            .spawn(move || runner.run())
            .map_err(ConnectError::Thread)?;
        Ok(Self {
            shared,
            state,
            thread: Some(thread),
        })
    }

    /// Returns the current state.
    pub fn status(&self) -> ProviderStatus {
        lock(&self.state.status).clone()
    }

    /// Waits until the state differs from `known`. Returns `None` once the provider was
    /// [stopped](Self::stop).
    pub fn wait_status(&self, known: &ProviderStatus) -> Option<ProviderStatus> {
        let is_same = |status: &mut ProviderStatus| *status == *known && !self.state.is_stopping();
        let status = lock(&self.state.status);
        let status = self.state.changed.wait_while(status, is_same);
        let status = status.unwrap_or_else(PoisonError::into_inner);
        (!self.state.is_stopping()).then(|| status.clone())
    }

    /// Ends the provider without waiting for its thread.
    pub fn stop(&self) {
        self.state.stop();
        self.shared.link.wake_waiters();
    }
}

impl State {
    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    fn stop(&self) {
        // Set under the lock, so that a waiter cannot check the flag just before and miss the
        // notification.
        let _status = lock(&self.status);
        self.is_stopping.store(true, Ordering::Release);
        self.changed.notify_all();
    }

    fn count_variables(&self, variables: usize, missing: usize, item: Option<&str>) {
        let mut status = lock(&self.status);
        if (status.variables, status.missing) != (variables, missing) {
            (status.variables, status.missing) = (variables, missing);
            status.missing_item = item.map(str::to_owned);
            self.changed.notify_all();
        }
    }

    fn change(&self, change: impl FnOnce(&mut ProviderStatus)) {
        change(&mut lock(&self.status));
        self.changed.notify_all();
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has already ended.
            let _ended = thread.join();
        }
        self.shared.close();
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider")
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}
