//! Keeps the states of alarms over restarts, and their journal (H-11). Without a store, keeps the
//! newest entries in memory.
//!
//! A state and the entry of its change are stored in one step, so that after a crash the journal
//! and the states tell the same.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::Duration;

use trunkline_engine::store::{LogBound, StoreError};
use trunkline_engine::{
    ALARM_CHANGES_MAX, AlarmReader, AlarmSnapshot, Caller, Engine as Core, Origin, Wakes, Write,
};
use trunkline_net::{Clock, Housekeeper};
use trunkline_types::alarm::{
    AlarmEntry, AlarmJournalPage, AlarmJournalQuery, JournalEvent, KeptAlarm,
};
use trunkline_types::{Tick, Value};

use crate::audit::{LogLimits, MEMORY_ENTRIES_MAX, remove_oldest};
use crate::deployments::{SharedStore, lock};
use crate::retention::{WakeThread, next_turn, start_thread};

/// Time from the first change to the step that stores it.
const GATHER: Duration = Duration::from_millis(20);
/// The variable with the number of the newest entry.
const JOURNAL_VARIABLE: &str = "_engine/alarms/journal";

/// The journal of an engine's alarms. Dropping it ends its thread; only [`AlarmLog::flush`] stores
/// what has changed before.
pub(crate) struct AlarmLog {
    kept: Arc<Kept>,
    thread: Arc<Housekeeper>,
}

struct Kept {
    core: Core,
    clock: Clock,
    pending: Mutex<Pending>,
    error: Mutex<Option<StoreError>>,
    /// Number of the newest entry of the journal.
    end: AtomicU64,
    /// Number of changes that are missing in the journal.
    lost: AtomicU64,
}

/// What the next step stores.
pub(crate) struct Pending {
    reader: AlarmReader,
    /// The number of the next entry; 0 if the end of the journal is not known yet.
    next: u64,
    /// Entries taken but not yet stored; about [`ALARM_CHANGES_MAX`] at most.
    entries: Vec<AlarmEntry>,
    /// The newest state of each alarm that changed, by variable and alarm.
    states: HashMap<(String, String), AlarmSnapshot>,
    place: Place,
    /// True once the engine stops: what happens to its variables then is no change of the process.
    is_closed: bool,
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
        let reader = core.alarms().reader(wake, store.is_some());
        let (next, place, error) = match store {
            Some((store, limits)) => {
                let end = lock(&store).alarm_journal_end();
                // If the store cannot be read now, it is asked again before anything is stored.
                let next = end.as_ref().map_or(0, |end| end + 1);
                (next, Place::Store { store, limits }, end.err())
            }
            None => (1, Place::Memory(VecDeque::new()), None),
        };
        let kept = Arc::new(Kept {
            core: core.clone(),
            clock,
            pending: Mutex::new(Pending {
                reader,
                next,
                entries: Vec::new(),
                states: HashMap::new(),
                place,
                is_closed: false,
            }),
            error: Mutex::new(error),
            end: AtomicU64::new(next.saturating_sub(1)),
            lost: AtomicU64::new(0),
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
        lock(&self.kept.pending).is_closed = true;
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
        let pending = lock(&self.pending);
        pending.next > 0 && !pending.has_some() && (pending.is_closed || pending.reader.is_idle())
    }

    /// Stores all changes. Returns false if some must be retried: they wait here first and then in
    /// the engine, which counts those that find no room there.
    fn store_changes(&self) -> bool {
        let mut pending = lock(&self.pending);
        let result = self.store_pending(&mut pending);
        let is_stored = result.is_ok();
        *lock(&self.error) = result.err();
        is_stored
    }

    /// Stores what a failed step has left, and then what has changed until now. Later changes wake
    /// the thread again.
    fn store_pending(&self, pending: &mut Pending) -> Result<(), StoreError> {
        if pending.begin()? {
            self.end.store(pending.next - 1, Ordering::Relaxed);
        }
        if pending.has_some() {
            self.store(pending)?;
        }
        if !pending.is_closed {
            self.take_changes(pending);
        }
        match pending.has_some() {
            true => self.store(pending),
            false => Ok(()),
        }
    }

    fn take_changes(&self, pending: &mut Pending) {
        let alarms = self.core.alarms();
        // Before the changes: a state read here then has its change in this step too.
        let mut snapshots = alarms.unkept();
        let (notes, lost) = pending.reader.take(ALARM_CHANGES_MAX);
        if lost > 0 {
            self.lost.fetch_add(lost, Ordering::Relaxed);
            let text = "more alarms changed than could be stored in time".to_owned();
            let event = JournalEvent::Lost(lost);
            pending
                .push(|number| AlarmEntry::of_journal(number, self.clock.moment().1, event, text));
            snapshots.extend(alarms.all_snapshots());
        }
        for note in notes {
            pending.push(|number| AlarmEntry::of_change(number, &note.change));
            snapshots.push(note.snapshot());
        }
        if let Place::Store { .. } = pending.place {
            pending.states = newest(snapshots);
        }
    }

    fn store(&self, pending: &mut Pending) -> Result<(), StoreError> {
        let (_, now) = self.clock.moment();
        match &mut pending.place {
            Place::Store { store, limits } => {
                let caller = Caller::engine();
                // The state of a variable that was undeployed meanwhile is not kept.
                let states = pending.states.values().map(|snapshot| &snapshot.kept);
                let is_there =
                    |kept: &&KeptAlarm| self.core.resolve(&caller, &kept.variable).is_ok();
                let states: Vec<KeptAlarm> = states.filter(is_there).cloned().collect();
                let LogLimits { entries, age } = *limits;
                let bound = LogBound { entries, age, now };
                let last = lock(store).keep_alarms(&states, &pending.entries, bound)?;
                pending.next = last + 1;
            }
            Place::Memory(newest) => {
                newest.extend(pending.entries.drain(..));
                let place = |entry: &AlarmEntry| (entry.number, entry.when);
                if let Some(removal) = remove_oldest(newest, now, place) {
                    pending.next = removal.number + 1;
                    let event = JournalEvent::Removed(removal.count());
                    let text = removal.to_string();
                    newest.push_back(AlarmEntry::of_journal(removal.number, now, event, text));
                }
            }
        }
        pending.entries.clear();
        pending.states.clear();
        let end = pending.next.saturating_sub(1);
        if self.end.swap(end, Ordering::Relaxed) != end {
            self.announce(end);
        }
        Ok(())
    }
}

impl Kept {
    /// Writes the number of the newest entry to its variable, so that those who follow the journal
    /// learn of it at once.
    fn announce(&self, end: u64) {
        let caller = Caller::engine();
        let Ok(variable) = self.core.resolve(&caller, JOURNAL_VARIABLE) else {
            return;
        };
        let (now, wall) = self.clock.moment();
        let value = Value::U64(end);
        let mut write = Write::value(&value);
        write.origin = Origin::Source;
        let _attempt =
            self.core
                .try_write(&caller, now, wall, &variable, &write, &mut Wakes::new());
    }
}

impl Pending {
    /// Finds the end of the journal, unless it is known. Returns true if it was not.
    fn begin(&mut self) -> Result<bool, StoreError> {
        let (0, Place::Store { store, .. }) = (self.next, &self.place) else {
            return Ok(false);
        };
        self.next = lock(store).alarm_journal_end()? + 1;
        Ok(true)
    }

    fn has_some(&self) -> bool {
        !self.entries.is_empty() || !self.states.is_empty()
    }

    fn push(&mut self, entry: impl FnOnce(u64) -> AlarmEntry) {
        self.entries.push(entry(self.next));
        self.next += 1;
    }
}

/// Returns the newest snapshot of each alarm.
fn newest(snapshots: Vec<AlarmSnapshot>) -> HashMap<(String, String), AlarmSnapshot> {
    let mut newest: HashMap<_, AlarmSnapshot> = HashMap::new();
    for one in snapshots {
        let key = (one.kept.variable.clone(), one.kept.alarm.clone());
        let is_newer = newest
            .get(&key)
            .is_none_or(|known| known.version < one.version);
        if is_newer {
            newest.insert(key, one);
        }
    }
    newest
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
