//! Subscriptions that call: a function of the program is given every event, on a thread of its own.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use trunkline_client::{Event, SubscribeOptions};
use trunkline_net::only_mark;
use trunkline_types::Contract;

use super::blocking::Client;
use super::subscription::{Followed, take_events};
use super::{CallError, ConnectError};

/// Events that are taken at a time. More wait where the contract bounds them.
const TAKEN_MAX: usize = 256;

/// A function that is called for every event of a subscription. Dropping this ends it: a call that
/// runs is waited for, and there is none afterwards.
#[must_use = "dropping it ends the calls"]
pub struct Callbacks {
    shared: Arc<super::verbs::Shared>,
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct State {
    is_stopping: AtomicBool,
    panics: AtomicU64,
}

impl Client {
    /// Follows variables as [`Client::subscribe`] does, and calls a function with every event: the
    /// readings, each with what was lost before it, and changes of the connection.
    ///
    /// The calls come one after the other from a thread of their own, so neither the connection nor
    /// a writer ever waits for the function. While it is busy, updates wait as the contract says,
    /// within its bound. One that panics is called again for the next event.
    ///
    /// ```
    /// # use trunkline::types::{Contract, DataType, LibraryDefinition, VariableDefinition};
    /// # use trunkline::{Engine, EngineOptions, Event, SubscribeOptions};
    /// # let engine = Engine::start(EngineOptions::default())?;
    /// # engine.deploy(&LibraryDefinition {
    /// #     name: "rig".into(),
    /// #     description: String::new(),
    /// #     variables: vec![VariableDefinition::new("level", DataType::F64)],
    /// # })?;
    /// # let client = engine.client()?;
    /// let options = SubscribeOptions::default();
    /// let calls = client.on_change(&["rig/level"], Contract::Latest, options, |event| {
    ///     if let Event::Reading { reading, .. } = event {
    ///         println!("{:?}, after {:?}", reading.sample.value, reading.lost);
    ///     }
    /// })?;
    /// # drop(calls);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`OnChangeError`]: the subscription cannot be made, or the machine has no thread left.
    pub fn on_change<N: AsRef<str>>(
        &self,
        names: &[N],
        contract: Contract,
        options: SubscribeOptions,
        call: impl FnMut(Event) + Send + 'static,
    ) -> Result<Callbacks, OnChangeError> {
        let followed = self.subscribe(names, contract, options)?.0;
        let state = Arc::new(State::default());
        let (shared, kept) = (Arc::clone(&self.shared), Arc::clone(&state));
        let thread = thread::Builder::new()
            .name("trunkline-call".to_owned())
            .spawn(move || run(&followed, &kept, call))
            .map_err(ConnectError::Thread)?;
        Ok(Callbacks {
            shared,
            state,
            thread: Some(thread),
        })
    }
}

/// Why a function cannot be called.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OnChangeError {
    /// The subscription cannot be made.
    #[error("{0}")]
    Call(#[from] CallError),
    /// The machine has no thread left.
    #[error("{0}")]
    Start(#[from] ConnectError),
}

fn run(followed: &Followed, state: &State, mut call: impl FnMut(Event)) {
    // What the function writes is sent by others: it has enough to do.
    only_mark();
    while let Some(events) = next(followed, state) {
        for event in events {
            if state.is_stopping() {
                return;
            }
            if catch_unwind(AssertUnwindSafe(|| call(event))).is_err() {
                state.panics.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Waits for events; `None` when there will be none.
fn next(followed: &Followed, state: &State) -> Option<Vec<Event>> {
    let events = followed.shared.link.wait_until(None, |core, now| {
        if state.is_stopping() {
            return Some(None);
        }
        take_events(core, now, followed.id, TAKEN_MAX).map(Some)
    });
    events.flatten()
}

impl State {
    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }
}

impl Callbacks {
    /// How often the function has panicked.
    pub fn panics(&self) -> u64 {
        self.state.panics.load(Ordering::Relaxed)
    }
}

impl Drop for Callbacks {
    fn drop(&mut self) {
        self.state.is_stopping.store(true, Ordering::Release);
        self.shared.link.wake_waiters();
        // The function itself may have dropped it.
        let thread = self.thread.take();
        let others = thread.filter(|thread| thread.thread().id() != thread::current().id());
        if let Some(thread) = others {
            // What it panicked with was counted.
            let _ended = thread.join();
        }
    }
}

impl fmt::Debug for Callbacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callbacks")
            .field("panics", &self.panics())
            .finish_non_exhaustive()
    }
}
