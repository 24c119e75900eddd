//! Stores the newest values of retained variables, so that they survive a restart.
//!
//! Retention is an ordinary subscriber under `latest`. One step stores all changed variables, at
//! most every half second.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use trunkline_engine::store::{RetainedValue, StoreError};
use trunkline_engine::{Caller, Consumer, Delivery, Engine as Core, Sink, Subscribe, Wake, Wakes};
use trunkline_net::{Clock, Housekeeper};
use trunkline_types::ledger::EndedItem;
use trunkline_types::{Contract, Reason, Tick};

use crate::deployments::{SharedStore, lock};

/// Delay from the first change until values are stored. With the duration of the write itself, a
/// value is on the disk within a second.
const STORE_DELAY: Duration = Duration::from_millis(500);
/// Delay before a failed step is repeated.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// The only subscription of the consumer.
const SUBSCRIPTION: u32 = 1;

/// Stores changed values on a dedicated thread. Dropping it ends the thread. Only
/// [`Retention::flush`] stores changes that still wait.
pub(crate) struct Retention {
    changes: Arc<PendingChanges>,
    thread: Arc<Housekeeper>,
}

/// Changes that are not stored yet.
struct PendingChanges {
    store: SharedStore,
    consumer: Mutex<Consumer>,
    /// Values that a failed step did not store, and later values.
    values: Mutex<BTreeMap<String, RetainedValue>>,
    error: Mutex<Option<StoreError>>,
}

impl Retention {
    /// # Errors
    /// The system cannot start another thread.
    pub(crate) fn start(core: &Core, clock: Clock, store: SharedStore) -> io::Result<Self> {
        let thread: Arc<OnceLock<Weak<Housekeeper>>> = Arc::default();
        let wake = Box::new(WakeThread(Arc::clone(&thread)));
        let changes = Arc::new(PendingChanges {
            store,
            consumer: Mutex::new(Consumer::service(core.clone(), wake)),
            values: Mutex::default(),
            error: Mutex::default(),
        });
        let thread_changes = Arc::clone(&changes);
        let running = start_thread(clock, &thread, move |now, due| {
            thread_changes.run_step(now, due)
        })?;
        Ok(Self {
            changes,
            thread: running,
        })
    }

    /// Starts or ends the retention of these variables, as their properties require.
    pub(crate) fn follow(&self, core: &Core, handles: &[u32]) {
        let caller = Caller::engine();
        let subscribe = Subscribe::new(SUBSCRIPTION, Contract::Latest);
        let mut consumer = lock(&self.changes.consumer);
        let (mut wakes, mut not_retained) = (Wakes::new(), Vec::new());
        for variable in handles.iter().filter_map(|handle| core.variable(*handle)) {
            if !variable.properties().retain {
                not_retained.push(variable.handle());
                continue;
            }
            // Fails for a write-only variable, which cannot be read, and for a variable that no
            // longer exists.
            let _followed = consumer.subscribe(&caller, &variable, subscribe);
        }
        consumer.unsubscribe(SUBSCRIPTION, Some(&not_retained), &mut wakes);
        drop(consumer);
        // The first readings do not wake the thread, and neither do readings that arrive while
        // others wait.
        self.thread.wake();
    }

    /// Stores all changes now.
    pub(crate) fn flush(&self) {
        self.changes.store_changes();
    }

    pub(crate) fn error(&self) -> Option<StoreError> {
        lock(&self.changes.error).clone()
    }
}

/// Calls `store` when it is due: `delay` after the first change, and again later if it returned
/// false. Returns the time of the next step.
pub(crate) fn next_step(
    now: Tick,
    due: Option<Tick>,
    delay: Duration,
    is_idle: impl FnOnce() -> bool,
    store: impl FnOnce() -> bool,
) -> Option<Tick> {
    match due {
        Some(due) if now < due => Some(due),
        Some(_) => (!store()).then(|| now.saturating_add(RETRY_DELAY)),
        None => (!is_idle()).then(|| now.saturating_add(delay)),
    }
}

impl PendingChanges {
    /// Stores what is due, and returns the time of the next step.
    fn run_step(&self, now: Tick, due: Option<Tick>) -> Option<Tick> {
        let is_idle = || lock(&self.consumer).rearm_if_idle();
        next_step(now, due, STORE_DELAY, is_idle, || self.store_changes())
    }

    /// Stores all changes. Returns false if some changes must be stored later.
    fn store_changes(&self) -> bool {
        // Locked until the end, so that of two concurrent calls, the call with the older value
        // cannot store last.
        let mut values = lock(&self.values);
        let mut consumer = lock(&self.consumer);
        let mut sink = ChangedValues {
            remaining: consumer.item_count(),
            values: &mut values,
        };
        let more = consumer.drain(&mut sink, &mut Wakes::new());
        drop(consumer);
        let stored: Vec<_> = values.values().cloned().collect();
        let result = lock(&self.store).retain(&stored);
        let is_stored = result.is_ok();
        if is_stored {
            values.clear();
        }
        *lock(&self.error) = result.err();
        is_stored && !more
    }
}

/// A sink that takes the newest value of each variable once.
struct ChangedValues<'a> {
    /// Number of values that may still be taken.
    remaining: usize,
    values: &'a mut BTreeMap<String, RetainedValue>,
}

impl Sink for ChangedValues<'_> {
    fn wants(&self) -> bool {
        self.remaining > 0
    }

    fn deliver(&mut self, delivery: &Delivery<'_>) {
        self.remaining = self.remaining.saturating_sub(1);
        let (variable, update) = (delivery.variable, delivery.update);
        let quality = update.quality;
        // Initial and retained values are in the configuration or the store already.
        let is_initial_or_retained = matches!(quality.reason(), Reason::Initial | Reason::Retained);
        let has_value = update.sequence > 0 && quality.has_value();
        if !has_value || quality.is_bad() || quality.is_forced() || is_initial_or_retained {
            return;
        }
        let value = RetainedValue {
            name: variable.name().to_owned(),
            data_type: variable.data_type().clone(),
            // The value is shared, because there may be no memory for a copy of a large value.
            value: update.value.clone(),
            source_timestamp: update.source_timestamp,
            quality,
        };
        self.values.insert(value.name.clone(), value);
    }

    fn overrun(&mut self, _subscription: u32, _items: &[EndedItem]) {}

    fn gone(&mut self, _subscription: u32, _handle: u32) {}
}

/// Starts a thread that calls `step` whenever it is woken, and at the time that the last `step`
/// returned. Other threads wake it through `thread`.
///
/// # Errors
/// The system cannot start another thread.
pub(crate) fn start_thread(
    clock: Clock,
    thread: &OnceLock<Weak<Housekeeper>>,
    mut step: impl FnMut(Tick, Option<Tick>) -> Option<Tick> + Send + 'static,
) -> io::Result<Arc<Housekeeper>> {
    let mut due = None;
    let step = move |now, _| {
        due = step(now, due);
        due
    };
    let running = Arc::new(Housekeeper::start(clock, step)?);
    let _already = thread.set(Arc::downgrade(&running));
    // The thread may have checked for work before other threads could wake it.
    running.wake();
    Ok(running)
}

pub(crate) struct WakeThread(pub(crate) Arc<OnceLock<Weak<Housekeeper>>>);

impl Wake for WakeThread {
    fn wake(&self) {
        if let Some(thread) = self.0.get().and_then(Weak::upgrade) {
            thread.wake();
        }
    }
}
