//! Stores the newest values of retained variables, which survive a restart.
//!
//! Retention is an ordinary subscriber under `latest`. However often a variable changes, it is
//! stored at most once every half second, and one step stores all changed variables.

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

/// Time from the first change to the step that stores it. Including the duration of that step, a
/// value is on the disk within a second.
const GATHER: Duration = Duration::from_millis(500);
/// Delay before a failed step is retried.
const RETRY: Duration = Duration::from_secs(1);
/// The only subscription of the consumer.
const SUBSCRIPTION: u32 = 1;

/// Stores changed values on a dedicated thread. Dropping it ends the thread; only
/// [`Retention::flush`] stores the changes that are still waiting.
pub(crate) struct Retention {
    gathered: Arc<Gathered>,
    thread: Arc<Housekeeper>,
}

/// Changes not stored yet.
struct Gathered {
    store: SharedStore,
    consumer: Mutex<Consumer>,
    /// Values left by a failed step, and later changes.
    waiting: Mutex<BTreeMap<String, RetainedValue>>,
    error: Mutex<Option<StoreError>>,
}

impl Retention {
    /// # Errors
    /// The system cannot start another thread.
    pub(crate) fn start(core: &Core, clock: Clock, store: SharedStore) -> io::Result<Self> {
        let thread: Arc<OnceLock<Weak<Housekeeper>>> = Arc::default();
        let wake = Box::new(WakeThread(Arc::clone(&thread)));
        let gathered = Arc::new(Gathered {
            store,
            consumer: Mutex::new(Consumer::service(core.clone(), wake)),
            waiting: Mutex::default(),
            error: Mutex::default(),
        });
        let of_thread = Arc::clone(&gathered);
        let running = start_thread(clock, &thread, move |now, due| of_thread.turn(now, due))?;
        Ok(Self {
            gathered,
            thread: running,
        })
    }

    /// Starts or ends the retention of these variables, according to their properties.
    pub(crate) fn follow(&self, core: &Core, handles: &[u32]) {
        let caller = Caller::engine();
        let wanted = Subscribe::new(SUBSCRIPTION, Contract::Latest);
        let mut consumer = lock(&self.gathered.consumer);
        let (mut wakes, mut dropped) = (Wakes::new(), Vec::new());
        for variable in handles.iter().filter_map(|handle| core.variable(*handle)) {
            if !variable.properties().retain {
                dropped.push(variable.handle());
                continue;
            }
            // Fails for a write-only variable, which cannot be read, and for a variable that is
            // gone.
            let _followed = consumer.subscribe(&caller, &variable, wanted);
        }
        consumer.unsubscribe(SUBSCRIPTION, Some(&dropped), &mut wakes);
        drop(consumer);
        // First readings wait without waking the thread, and readings that arrive while others wait
        // do not wake it again.
        self.thread.wake();
    }

    /// Stores all changes now.
    pub(crate) fn flush(&self) {
        self.gathered.store_changes();
    }

    pub(crate) fn error(&self) -> Option<StoreError> {
        lock(&self.gathered.error).clone()
    }
}

/// Calls `store` when it is due: `gather` after the first change, and again later if it returned
/// false. Returns the time of the next turn.
pub(crate) fn next_turn(
    now: Tick,
    due: Option<Tick>,
    gather: Duration,
    is_idle: impl FnOnce() -> bool,
    store: impl FnOnce() -> bool,
) -> Option<Tick> {
    match due {
        Some(due) if now < due => Some(due),
        Some(_) => (!store()).then(|| now.saturating_add(RETRY)),
        None => (!is_idle()).then(|| now.saturating_add(gather)),
    }
}

impl Gathered {
    /// Stores what is due, and returns the time of the next turn.
    fn turn(&self, now: Tick, due: Option<Tick>) -> Option<Tick> {
        let is_idle = || lock(&self.consumer).is_at_rest();
        next_turn(now, due, GATHER, is_idle, || self.store_changes())
    }

    /// Stores all changes. Returns false if some must be retried.
    fn store_changes(&self) -> bool {
        // Held to the end, so that of two concurrent calls, the one with the older value cannot
        // store last.
        let mut waiting = lock(&self.waiting);
        let mut consumer = lock(&self.consumer);
        let mut sink = Changes {
            room: consumer.item_count(),
            waiting: &mut waiting,
        };
        let more = consumer.drain(&mut sink, &mut Wakes::new());
        drop(consumer);
        let values: Vec<_> = waiting.values().cloned().collect();
        let result = lock(&self.store).retain(&values);
        let is_stored = result.is_ok();
        if is_stored {
            waiting.clear();
        }
        *lock(&self.error) = result.err();
        is_stored && !more
    }
}

/// Takes the newest value of each variable, once.
struct Changes<'a> {
    room: usize,
    waiting: &'a mut BTreeMap<String, RetainedValue>,
}

impl Sink for Changes<'_> {
    fn wants(&self) -> bool {
        self.room > 0
    }

    fn deliver(&mut self, delivery: &Delivery<'_>) {
        self.room = self.room.saturating_sub(1);
        let (variable, update) = (delivery.variable, delivery.update);
        let quality = update.quality;
        // Only values measured or written since the start need to be stored.
        let is_known = matches!(quality.reason(), Reason::Initial | Reason::Retained);
        let has_value = update.sequence > 0 && quality.has_value();
        if !has_value || quality.is_bad() || quality.is_forced() || is_known {
            return;
        }
        let value = RetainedValue {
            name: variable.name().to_owned(),
            data_type: variable.data_type().clone(),
            // Shared, not copied: there may be no memory for a copy of a large value.
            value: update.value.clone(),
            source_timestamp: update.source_timestamp,
            quality,
        };
        self.waiting.insert(value.name.clone(), value);
    }

    fn overrun(&mut self, _subscription: u32, _items: &[EndedItem]) {}

    fn gone(&mut self, _subscription: u32, _handle: u32) {}
}

/// Starts the thread that calls `turn` whenever it is woken, and at the time that the last `turn`
/// returned. Others wake the thread through `thread`.
///
/// # Errors
/// The system cannot start another thread.
pub(crate) fn start_thread(
    clock: Clock,
    thread: &OnceLock<Weak<Housekeeper>>,
    mut turn: impl FnMut(Tick, Option<Tick>) -> Option<Tick> + Send + 'static,
) -> io::Result<Arc<Housekeeper>> {
    let mut due = None;
    let turn = move |now, _| {
        due = turn(now, due);
        due
    };
    let running = Arc::new(Housekeeper::start(clock, turn)?);
    let _already = thread.set(Arc::downgrade(&running));
    // The thread may already have checked for work before it could be woken.
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
