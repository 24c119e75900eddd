//! Keeps the newest values of the variables that are to survive a restart.
//!
//! It is a subscriber like any other, under `latest`: however often a variable changes, it is
//! stored once in half a second, all that have changed in one step.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use trunkline_engine::store::{RetainedValue, StoreError};
use trunkline_engine::{
    Caller, Consumer, Delivery, EndedItem, Engine as Core, Sink, SubscribeOptions, Wake, Wakes,
};
use trunkline_net::{Clock, Housekeeper};
use trunkline_types::{Contract, Reason, Tick};

use crate::keeper::{SharedStore, lock};

/// From the first change to the step that stores it: with what that step takes, a value is on the
/// disk within a second.
const GATHER: Duration = Duration::from_millis(500);
/// How long after a step that failed it is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// The one subscription.
const SUBSCRIPTION: u32 = 1;

/// Dropping it ends its thread; what has changed by then is stored only by [`Retention::flush`].
pub(crate) struct Retention {
    gathered: Arc<Gathered>,
    thread: Arc<Housekeeper>,
}

/// What has changed and is not stored.
struct Gathered {
    store: SharedStore,
    consumer: Mutex<Consumer>,
    /// What a step that failed has left, and what has changed since.
    waiting: Mutex<BTreeMap<String, RetainedValue>>,
    trouble: Mutex<Option<StoreError>>,
}

impl Retention {
    /// # Errors
    /// The system starts no further thread.
    pub(crate) fn start(core: &Core, clock: Clock, store: SharedStore) -> io::Result<Self> {
        let thread: Arc<OnceLock<Weak<Housekeeper>>> = Arc::default();
        let wake = Box::new(WakeThread(Arc::clone(&thread)));
        let gathered = Arc::new(Gathered {
            store,
            consumer: Mutex::new(Consumer::service(core.clone(), wake)),
            waiting: Mutex::default(),
            trouble: Mutex::default(),
        });
        let of_thread = Arc::clone(&gathered);
        let mut due = None;
        let turn = move |now, _| {
            due = of_thread.turn(now, due);
            due
        };
        let running = Arc::new(Housekeeper::start(clock, turn)?);
        let _already = thread.set(Arc::downgrade(&running));
        Ok(Self {
            gathered,
            thread: running,
        })
    }

    /// From now on these variables are retained, or no longer, as their properties say.
    pub(crate) fn follow(&self, core: &Core, handles: &[u32]) {
        let caller = Caller::engine();
        let mut consumer = lock(&self.gathered.consumer);
        let (mut wakes, mut dropped) = (Wakes::new(), Vec::new());
        for variable in handles.iter().filter_map(|handle| core.variable(*handle)) {
            if !variable.properties().retain {
                dropped.push(variable.handle());
                continue;
            }
            // A write-only variable is not for reading, and one that has gone is no more.
            let _followed = consumer.subscribe(
                &caller,
                SUBSCRIPTION,
                Contract::Latest,
                SubscribeOptions::default(),
                &variable,
                None,
            );
        }
        consumer.unsubscribe(SUBSCRIPTION, Some(&dropped), &mut wakes);
        drop(consumer);
        // First readings wait without waking anybody, and what already waits wakes nobody again.
        self.thread.wake();
    }

    /// Stores what has changed, now.
    pub(crate) fn flush(&self) {
        self.gathered.store_changes();
    }

    pub(crate) fn trouble(&self) -> Option<StoreError> {
        lock(&self.gathered.trouble).clone()
    }
}

impl Gathered {
    /// Stores what is due, and returns when to come again.
    fn turn(&self, now: Tick, due: Option<Tick>) -> Option<Tick> {
        match due {
            Some(due) if now < due => Some(due),
            Some(_) => match self.store_changes() {
                true => None,
                false => Some(now.saturating_add(RETRY)),
            },
            None if lock(&self.consumer).is_idle() => None,
            None => Some(now.saturating_add(GATHER)),
        }
    }

    /// Stores everything that has changed. False when some of it has to be tried again.
    fn store_changes(&self) -> bool {
        // Held to the end: two that store at the same time must not store the older value last.
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
        *lock(&self.trouble) = result.err();
        is_stored && !more
    }
}

/// Takes each variable's newest value, once.
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
        // What is not a value that somebody measured or wrote since the start says nothing new.
        let is_known = matches!(quality.reason(), Reason::Initial | Reason::Retained);
        let has_value = update.sequence > 0 && quality.has_value();
        if !has_value || quality.is_bad() || quality.is_forced() || is_known {
            return;
        }
        let value = RetainedValue {
            name: variable.name().to_owned(),
            data_type: variable.data_type().clone(),
            // Not copied: a large value may have no memory for that.
            value: update.value.clone(),
            source_timestamp: update.source_timestamp,
            quality,
        };
        self.waiting.insert(value.name.clone(), value);
    }

    fn overrun(&mut self, _subscription: u32, _items: &[EndedItem]) {}

    fn gone(&mut self, _subscription: u32, _handle: u32) {}
}

/// Has the thread look.
pub(crate) struct WakeThread(pub(crate) Arc<OnceLock<Weak<Housekeeper>>>);

impl Wake for WakeThread {
    fn wake(&self) {
        if let Some(thread) = self.0.get().and_then(Weak::upgrade) {
            thread.wake();
        }
    }
}
