//! Subscriptions with a callback: a dedicated thread calls a function of the program for every
//! event.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use trunkline_client::{Event, SubscriptionId};
use trunkline_net::never_send_on_this_thread;

use super::events::{EventSourceHandle, take_events};
use super::verbs::Shared;
use super::{CallError, ConnectError};

/// Maximum number of events taken at a time. All others stay in the queue, which the contract
/// limits.
const EVENTS_MAX: usize = 256;

/// A subscription that calls a function for every event. Dropping it ends the subscription: the
/// drop waits for a call in progress, and the function is not called again.
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
#[must_use = "dropping it ends the calls"]
pub struct Callbacks {
    shared: Arc<Shared>,
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct State {
    is_stopping: AtomicBool,
    panics: AtomicU64,
}

pub(super) fn start(
    shared: &Arc<Shared>,
    id: SubscriptionId,
    call: impl FnMut(Event) + Send + 'static,
) -> Result<Callbacks, OnChangeError> {
    let shared = Arc::clone(shared);
    let source = EventSourceHandle {
        shared: Arc::clone(&shared),
        id,
    };
    let state = Arc::new(State::default());
    let thread_state = Arc::clone(&state);
    let thread = thread::Builder::new()
        .name("trunkline-call".to_owned())
        .spawn(move || run(&source, &thread_state, call))
        .map_err(ConnectError::Thread)?;
    Ok(Callbacks {
        shared,
        state,
        thread: Some(thread),
    })
}

/// The reason why a callback could not be installed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OnChangeError {
    /// The subscription cannot be created.
    #[error("{0}")]
    Call(#[from] CallError),
    /// The system cannot start another thread.
    #[error("{0}")]
    Start(#[from] ConnectError),
}

fn run(source: &EventSourceHandle<SubscriptionId>, state: &State, mut call: impl FnMut(Event)) {
    // Data that the function writes is sent by other threads, because this thread runs the
    // function.
    never_send_on_this_thread();
    while let Some(events) = next(source, state) {
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

/// Waits for events. Returns `None` when the callbacks are stopping or no more events can arrive.
fn next(source: &EventSourceHandle<SubscriptionId>, state: &State) -> Option<Vec<Event>> {
    let events = source.shared.link.wait_until(None, |core, now| {
        if state.is_stopping() {
            return Some(None);
        }
        take_events(core, now, source.id, EVENTS_MAX).map(Some)
    });
    events.flatten()
}

impl State {
    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }
}

impl Callbacks {
    /// Returns the number of calls in which the function panicked.
    pub fn panics(&self) -> u64 {
        self.state.panics.load(Ordering::Relaxed)
    }
}

impl Drop for Callbacks {
    fn drop(&mut self) {
        self.state.is_stopping.store(true, Ordering::Release);
        self.shared.link.wake_waiters();
        // The function itself may have dropped this value. The callback thread must not wait for
        // itself.
        let thread = self.thread.take();
        let other_thread = thread.filter(|thread| thread.thread().id() != thread::current().id());
        if let Some(thread) = other_thread {
            // Panics of the function are counted already.
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
