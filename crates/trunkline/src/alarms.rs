//! Stores the states of alarms across restarts, and the alarm journal (H-11), on a dedicated
//! thread. Without a store, keeps the newest entries in memory.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::Duration;

use trunkline_engine::alarms::{AlarmSaver, AlarmStorage};
use trunkline_engine::store::{LogBound, StoreError};
use trunkline_engine::{ALARM_CHANGES_MAX, Engine as Core};
use trunkline_net::{Clock, Housekeeper};
use trunkline_types::alarm::{
    AlarmEntry, AlarmJournalPage, AlarmJournalQuery, JournalEvent, SavedAlarm,
};
use trunkline_types::{Moment, Tick};

use crate::audit::{LogLimits, MEMORY_ENTRIES_MAX, remove_oldest};
use crate::deployments::{SharedStore, lock};
use crate::retention::{WakeThread, next_step, start_thread};

/// Delay from the first change until changes are stored.
const STORE_DELAY: Duration = Duration::from_millis(20);

/// The alarm states and the alarm journal of an engine. Dropping it ends its thread. Only
/// [`AlarmLog::flush`] stores changes that still wait.
pub(crate) struct AlarmLog {
    shared: Arc<Shared>,
    thread: Arc<Housekeeper>,
}

/// State that the thread and its callers share.
struct Shared {
    clock: Clock,
    pending: Mutex<Pending>,
    error: Mutex<Option<StoreError>>,
    /// Number of the newest entry of the journal.
    end: AtomicU64,
    /// Number of changes that are missing from the journal.
    lost: AtomicU64,
}

/// The changes that the next step stores, and the place where it stores them.
pub(crate) struct Pending {
    keeper: AlarmSaver,
    storage: Storage,
}

enum Storage {
    Store {
        store: SharedStore,
        limits: LogLimits,
    },
    Memory(VecDeque<AlarmEntry>),
}

impl AlarmLog {
    /// # Errors
    /// The system cannot start another thread.
    pub(crate) fn start(
        core: &Core,
        clock: Clock,
        store: Option<(SharedStore, LogLimits)>,
    ) -> io::Result<Self> {
        let thread: Arc<OnceLock<Weak<Housekeeper>>> = Arc::default();
        let wake = Box::new(WakeThread(Arc::clone(&thread)));
        let mut keeper = AlarmSaver::new(core, wake, store.is_some());
        let mut storage = match store {
            Some((store, limits)) => Storage::Store { store, limits },
            None => Storage::Memory(VecDeque::new()),
        };
        let error = keeper.begin(&mut storage).err();
        let shared = Arc::new(Shared {
            clock,
            end: AtomicU64::new(keeper.last_entry()),
            lost: AtomicU64::new(0),
            pending: Mutex::new(Pending { keeper, storage }),
            error: Mutex::new(error),
        });
        let thread_state = Arc::clone(&shared);
        let running = start_thread(clock, &thread, move |now, due| {
            thread_state.run_step(now, due)
        })?;
        Ok(Self {
            shared,
            thread: running,
        })
    }

    /// Keeps the thread from storing anything until the guard is dropped.
    pub(crate) fn pause(&self) -> MutexGuard<'_, Pending> {
        lock(&self.shared.pending)
    }

    /// Stores everything that has changed until now, and nothing that changes later.
    pub(crate) fn close(&self) {
        self.shared.store_changes();
        lock(&self.shared.pending).keeper.close();
    }

    /// Changes the limits of the journal in a store. They apply from the next stored entry on.
    pub(crate) fn set_limits(&self, limits: LogLimits) {
        if let Storage::Store { limits: own, .. } = &mut lock(&self.shared.pending).storage {
            *own = limits;
        }
    }

    pub(crate) fn flush(&self) {
        if !self.shared.store_changes() {
            self.thread.wake();
        }
    }

    /// Returns a page of everything that has changed until now. If changes cannot be stored, the
    /// page does not contain them and says so in its state.
    pub(crate) fn page(&self, query: &AlarmJournalQuery) -> Result<AlarmJournalPage, StoreError> {
        self.flush();
        let pending = lock(&self.shared.pending);
        let mut page = match &pending.storage {
            Storage::Store { store, .. } => lock(store).alarm_journal(query)?,
            Storage::Memory(newest) => page_from_memory(newest, query),
        };
        page.state = self.state_sentence(&pending);
        Ok(page)
    }

    /// Describes where the journal is stored, or why it cannot be stored.
    fn state_sentence(&self, pending: &Pending) -> String {
        match (self.error(), &pending.storage) {
            (Some(error), _) => format!(
                "alarm changes cannot be stored now; up to {ALARM_CHANGES_MAX} of them wait in \
                 memory: {error}"
            ),
            (None, Storage::Store { store, limits }) => {
                let location = lock(store).location();
                format!(
                    "the newest {} entries are stored in {location}",
                    limits.entries
                )
            }
            (None, Storage::Memory(_)) => format!(
                "this engine has no store, so the newest {MEMORY_ENTRIES_MAX} entries are kept in \
                 memory, until it stops"
            ),
        }
    }

    pub(crate) fn error(&self) -> Option<StoreError> {
        lock(&self.shared.error).clone()
    }

    /// Returns the number of the newest entry of the journal, and the number of changes since the
    /// engine's start that are missing from it.
    pub(crate) fn end_and_lost(&self) -> (u64, u64) {
        let Shared { end, lost, .. } = &*self.shared;
        (end.load(Ordering::Relaxed), lost.load(Ordering::Relaxed))
    }
}

impl Shared {
    /// Stores what is due, and returns the time of the next step.
    fn run_step(&self, now: Tick, due: Option<Tick>) -> Option<Tick> {
        next_step(
            now,
            due,
            STORE_DELAY,
            || self.is_idle(),
            || self.store_changes(),
        )
    }

    /// Returns true if there is nothing to store and the number of the newest entry is known.
    fn is_idle(&self) -> bool {
        lock(&self.pending).keeper.is_idle()
    }

    /// Stores all changes. Returns false if some changes must be stored later.
    fn store_changes(&self) -> bool {
        let mut pending = lock(&self.pending);
        let Pending { keeper, storage } = &mut *pending;
        let (now, wall) = self.clock.moment();
        let result = keeper.keep(storage, Moment { now, wall });
        self.end.store(keeper.last_entry(), Ordering::Relaxed);
        self.lost.store(keeper.lost(), Ordering::Relaxed);
        let is_stored = result.is_ok();
        *lock(&self.error) = result.err();
        is_stored
    }
}

impl AlarmStorage for Storage {
    fn last_entry(&mut self) -> Result<u64, StoreError> {
        match self {
            Self::Store { store, .. } => lock(store).alarm_journal_end(),
            Self::Memory(newest) => Ok(newest.back().map_or(0, |entry| entry.number)),
        }
    }

    fn keep(
        &mut self,
        states: &[SavedAlarm],
        entries: &[AlarmEntry],
        moment: Moment,
    ) -> Result<u64, StoreError> {
        let now = moment.wall;
        match self {
            Self::Store { store, limits } => {
                let LogLimits { entries: max, age } = *limits;
                let bound = LogBound {
                    entries: max,
                    age,
                    now,
                };
                lock(store).keep_alarms(states, entries, bound)
            }
            Self::Memory(newest) => {
                newest.extend(entries.iter().cloned());
                let number_and_time = |entry: &AlarmEntry| (entry.number, entry.when);
                if let Some(removal) = remove_oldest(newest, now, number_and_time) {
                    let event = JournalEvent::Removed(removal.count());
                    let text = removal.to_string();
                    newest.push_back(AlarmEntry::of_journal(removal.number, now, event, text));
                }
                self.last_entry()
            }
        }
    }
}

fn page_from_memory(newest: &VecDeque<AlarmEntry>, query: &AlarmJournalQuery) -> AlarmJournalPage {
    let is_after = |entry: &&AlarmEntry| query.from.is_none_or(|from| entry.number >= from);
    let is_before = |entry: &&AlarmEntry| query.from.is_none_or(|from| entry.number <= from);
    let page: Result<_, std::convert::Infallible> = match query.newest_first {
        false => query.take_page(newest.iter().filter(is_after).cloned().map(Ok)),
        true => query.take_page(newest.iter().rev().filter(is_before).cloned().map(Ok)),
    };
    let (entries, next) = match page {
        Ok(page) => page,
        Err(never) => match never {},
    };
    AlarmJournalPage {
        entries,
        next,
        removed: newest.front().map_or(0, |entry| entry.number - 1),
        state: String::new(),
    }
}
