//! Keeps the states of alarms across restarts, and their journal (H-11), on a thread of its own.
//! Without a store, keeps the newest entries in memory.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::Duration;

use trunkline_engine::alarms::{AlarmKeeper, AlarmPlace};
use trunkline_engine::store::{LogBound, StoreError};
use trunkline_engine::{ALARM_CHANGES_MAX, Engine as Core};
use trunkline_net::{Clock, Housekeeper};
use trunkline_types::alarm::{
    AlarmEntry, AlarmJournalPage, AlarmJournalQuery, JournalEvent, KeptAlarm,
};
use trunkline_types::{Moment, Tick};

use crate::audit::{LogLimits, MEMORY_ENTRIES_MAX, remove_oldest};
use crate::deployments::{SharedStore, lock};
use crate::retention::{WakeThread, next_turn, start_thread};

/// Time from the first change to the step that stores it.
const GATHER: Duration = Duration::from_millis(20);

/// The journal of an engine's alarms. Dropping it ends its thread; only [`AlarmLog::flush`] stores
/// what has changed before.
pub(crate) struct AlarmLog {
    kept: Arc<Kept>,
    thread: Arc<Housekeeper>,
}

struct Kept {
    clock: Clock,
    pending: Mutex<Pending>,
    error: Mutex<Option<StoreError>>,
    /// Number of the newest entry of the journal.
    end: AtomicU64,
    /// Number of changes that are missing in the journal.
    lost: AtomicU64,
}

/// What the next step stores, and where.
pub(crate) struct Pending {
    keeper: AlarmKeeper,
    place: Place,
}

enum Place {
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
        let mut keeper = AlarmKeeper::new(core, wake, store.is_some());
        let mut place = match store {
            Some((store, limits)) => Place::Store { store, limits },
            None => Place::Memory(VecDeque::new()),
        };
        let error = keeper.begin(&mut place).err();
        let kept = Arc::new(Kept {
            clock,
            end: AtomicU64::new(keeper.end()),
            lost: AtomicU64::new(0),
            pending: Mutex::new(Pending { keeper, place }),
            error: Mutex::new(error),
        });
        let of_thread = Arc::clone(&kept);
        let running = start_thread(clock, &thread, move |now, due| of_thread.turn(now, due))?;
        Ok(Self {
            kept,
            thread: running,
        })
    }

    /// Prevents steps until the guard is dropped.
    pub(crate) fn pause(&self) -> MutexGuard<'_, Pending> {
        lock(&self.kept.pending)
    }

    /// Stores what has changed until now, and nothing that changes later.
    pub(crate) fn close(&self) {
        self.kept.store_changes();
        lock(&self.kept.pending).keeper.close();
    }

    pub(crate) fn flush(&self) {
        if !self.kept.store_changes() {
            self.thread.wake();
        }
    }

    /// Returns a page of everything that has changed until now. Changes that cannot be stored are
    /// missing from it, and the page reports that.
    pub(crate) fn page(&self, query: &AlarmJournalQuery) -> Result<AlarmJournalPage, StoreError> {
        self.flush();
        let pending = lock(&self.kept.pending);
        let mut page = match &pending.place {
            Place::Store { store, .. } => lock(store).alarm_journal(query)?,
            Place::Memory(newest) => of_memory(newest, query),
        };
        page.state = self.sentence(&pending);
        Ok(page)
    }

    /// Describes where the journal is kept, and why it cannot be.
    fn sentence(&self, pending: &Pending) -> String {
        match (self.error(), &pending.place) {
            (Some(error), _) => format!(
                "changes of alarms cannot be stored now and wait in memory, where \
                 {ALARM_CHANGES_MAX} find room: {error}"
            ),
            (None, Place::Store { store, limits }) => {
                let location = lock(store).location();
                format!(
                    "the newest {} entries are stored in {location}",
                    limits.entries
                )
            }
            (None, Place::Memory(_)) => format!(
                "this engine has no store, so the newest {MEMORY_ENTRIES_MAX} entries are kept in \
                 memory, until it stops"
            ),
        }
    }

    pub(crate) fn error(&self) -> Option<StoreError> {
        lock(&self.kept.error).clone()
    }

    /// Returns the number of the newest entry of the journal, and how many changes are missing in
    /// it since the engine started.
    pub(crate) fn end_and_lost(&self) -> (u64, u64) {
        let Kept { end, lost, .. } = &*self.kept;
        (end.load(Ordering::Relaxed), lost.load(Ordering::Relaxed))
    }
}

impl Kept {
    /// Stores what is due, and returns the time of the next step.
    fn turn(&self, now: Tick, due: Option<Tick>) -> Option<Tick> {
        next_turn(now, due, GATHER, || self.is_idle(), || self.store_changes())
    }

    /// Returns true if there is nothing to store, and the end of the journal is known.
    fn is_idle(&self) -> bool {
        lock(&self.pending).keeper.is_idle()
    }

    /// Stores all changes. Returns false if some must be retried.
    fn store_changes(&self) -> bool {
        let mut pending = lock(&self.pending);
        let Pending { keeper, place } = &mut *pending;
        let (now, wall) = self.clock.moment();
        let result = keeper.keep(place, Moment { now, wall });
        self.end.store(keeper.end(), Ordering::Relaxed);
        self.lost.store(keeper.lost(), Ordering::Relaxed);
        let is_stored = result.is_ok();
        *lock(&self.error) = result.err();
        is_stored
    }
}

impl AlarmPlace for Place {
    fn end(&mut self) -> Result<u64, StoreError> {
        match self {
            Self::Store { store, .. } => lock(store).alarm_journal_end(),
            Self::Memory(newest) => Ok(newest.back().map_or(0, |entry| entry.number)),
        }
    }

    fn keep(
        &mut self,
        states: &[KeptAlarm],
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
                let place = |entry: &AlarmEntry| (entry.number, entry.when);
                if let Some(removal) = remove_oldest(newest, now, place) {
                    let event = JournalEvent::Removed(removal.count());
                    let text = removal.to_string();
                    newest.push_back(AlarmEntry::of_journal(removal.number, now, event, text));
                }
                self.end()
            }
        }
    }
}

fn of_memory(newest: &VecDeque<AlarmEntry>, query: &AlarmJournalQuery) -> AlarmJournalPage {
    let is_after = |entry: &&AlarmEntry| query.from.is_none_or(|from| entry.number >= from);
    let is_before = |entry: &&AlarmEntry| query.from.is_none_or(|from| entry.number <= from);
    let taken: Result<_, std::convert::Infallible> = match query.newest_first {
        false => query.take_page(newest.iter().filter(is_after).cloned().map(Ok)),
        true => query.take_page(newest.iter().rev().filter(is_before).cloned().map(Ok)),
    };
    let (entries, next) = match taken {
        Ok(taken) => taken,
        Err(never) => match never {},
    };
    AlarmJournalPage {
        entries,
        next,
        removed: newest.front().map_or(0, |entry| entry.number - 1),
        state: String::new(),
    }
}
