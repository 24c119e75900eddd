//! An I/O server in a process of its own: it delivers variables of an engine elsewhere.
//!
//! It has a connection and a thread of its own. While it waits for the next scan it drives the
//! connection, so an order reaches the device without a wake-up in between. When the process ends,
//! however it does, the engine's variables turn bad with the cause; when it runs again, or another
//! one under the same name, they go on.

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
use crate::keeper::lock;
use runner::Runner;

/// How an I/O server delivers.
#[derive(Clone, Debug, Default)]
pub struct ProviderOptions {
    /// What `source = "NAME:ITEM"` names.
    pub name: String,
    /// Time from one scan to the next; `None`: the I/O server's own.
    pub period: Option<Duration>,
    /// Deploy the libraries that the I/O server offers, in place of what was deployed of them.
    pub publish: bool,
}

impl ProviderOptions {
    /// An I/O server of this name, at its own pace, that offers nothing.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..Self::default()
        }
    }
}

/// How a provider is doing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProviderStatus {
    /// The engine has it deliver the variables that name it.
    pub is_provided: bool,
    /// Variables that it delivers.
    pub variables: usize,
    /// Variables whose `source` names an item that it does not have; they are bad.
    pub missing: usize,
    /// One of those items.
    pub missing_item: Option<String>,
    /// What is wrong with the engine, or between it and here.
    pub engine_trouble: Option<String>,
    /// What is wrong with the device.
    pub device_trouble: Option<String>,
}

/// A running provider. Dropping it ends it; its variables turn bad.
pub struct Provider {
    shared: Arc<Shared>,
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

/// What the provider and its thread share.
#[derive(Debug, Default)]
struct State {
    is_stopping: AtomicBool,
    status: Mutex<ProviderStatus>,
    changed: Condvar,
}

impl Provider {
    /// Starts `server` as the source of the engine's variables that name it. The engine need not
    /// run yet: the provider connects as soon as it does, and again whenever it must.
    ///
    /// # Errors
    /// [`ConnectError`]: the machine has no descriptor or thread left.
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

    /// How it is doing.
    pub fn status(&self) -> ProviderStatus {
        lock(&self.state.status).clone()
    }

    /// Waits until it is doing otherwise than `known`; `None` once it was [stopped](Self::stop).
    pub fn wait_status(&self, known: &ProviderStatus) -> Option<ProviderStatus> {
        let is_same = |status: &mut ProviderStatus| *status == *known && !self.state.is_stopping();
        let status = lock(&self.state.status);
        let status = self.state.changed.wait_while(status, is_same);
        let status = status.unwrap_or_else(PoisonError::into_inner);
        (!self.state.is_stopping()).then(|| status.clone())
    }

    /// Ends it, without waiting for that.
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
        // Under the lock, so that nobody looks at it before and waits after.
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
            // One that panicked has ended already.
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
