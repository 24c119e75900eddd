//! An I/O server in its own process, which provides variables of an engine elsewhere.
//!
//! The provider has its own connection and its own thread. While the thread waits for the next
//! scan, it drives the connection, so an order reaches the device without a change of threads. When
//! the process ends for any reason, the variables become bad, with the cause. Delivery
//! continues when a process with the same provider name runs.
//!
//! # Layout
//! - `link`: the connection, as both kinds of provider use it. `raw`: conversion of values.
//! - `runner`: calls an I/O server that implements [`IoServer`].
//! - `queued`: an I/O server whose program takes orders from a queue.

mod link;
mod queued;
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
pub use queued::{Order, OrderAnswer, QueuedProvider, QueuedProviderError, QueuedProviderOptions};
use runner::Runner;

/// Settings of a provider.
#[derive(Clone, Debug, Default)]
pub struct ProviderOptions {
    /// The name that `source = "NAME:ITEM"` refers to.
    pub name: String,
    /// Time from one scan to the next. With `None`, the period of the I/O server applies.
    pub period: Option<Duration>,
    /// Deploys the libraries that the I/O server offers, and replaces versions that are already
    /// deployed.
    pub publish: bool,
}

impl ProviderOptions {
    /// Returns the options of a provider with this name, with the I/O server's period and without
    /// publishing libraries.
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
    /// Number of variables that the provider delivers.
    pub variables: usize,
    /// Number of variables whose `source` names an item that the provider does not have. These
    /// variables are bad.
    pub missing: usize,
    /// Name of one of the missing items.
    pub missing_item: Option<String>,
    /// Current failure of the engine or of the connection to it.
    pub engine_error: Option<String>,
    /// Current failure of the device.
    pub device_error: Option<String>,
}

/// A running provider. Dropping it stops the provider, and its variables become bad.
pub struct Provider {
    shared: Arc<Shared>,
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

/// State shared by the provider handle and its thread.
#[derive(Debug, Default)]
struct State {
    is_stopping: AtomicBool,
    status: Mutex<ProviderStatus>,
    changed: Condvar,
}

impl Provider {
    /// Starts `server` as the source of the engine's variables that name it. The engine need not be
    /// running: the provider connects as soon as it is, and reconnects after a lost connection.
    ///
    /// # Errors
    /// [`ConnectError`]: the system cannot provide another descriptor or thread.
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
        self.state.status()
    }

    /// Waits until the state differs from `known`. Returns `None` once the provider is
    /// [stopped](Self::stop).
    pub fn wait_status(&self, known: &ProviderStatus) -> Option<ProviderStatus> {
        self.state.wait(known)
    }

    /// Stops the provider without waiting for its thread.
    pub fn stop(&self) {
        self.state.stop();
        self.shared.link.wake_waiters();
    }
}

impl State {
    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    fn status(&self) -> ProviderStatus {
        lock(&self.status).clone()
    }

    /// Waits until the status differs from `known`. Returns `None` once the provider is stopped.
    fn wait(&self, known: &ProviderStatus) -> Option<ProviderStatus> {
        let is_same = |status: &mut ProviderStatus| *status == *known && !self.is_stopping();
        let status = self.changed.wait_while(lock(&self.status), is_same);
        let status = status.unwrap_or_else(PoisonError::into_inner);
        (!self.is_stopping()).then(|| status.clone())
    }

    fn stop(&self) {
        // The lock prevents a waiter from checking the flag before this change and then missing the
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
            // The result is ignored, because a thread that panicked has ended as well.
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
