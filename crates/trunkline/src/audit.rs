//! Collects the audit notes of the engine, numbers them and stores them. Without a store, the
//! newest entries stay in memory (B-24).

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use trunkline_engine::store::{LogBound, StoreError};
use trunkline_engine::{
    AUDIT_NOTES_MAX, AuditKeeping, AuditRoom, Caller, Engine as Core, OrderNote, Wakes,
};
use trunkline_net::{Clock, Housekeeper};
use trunkline_types::audit::Removal;
use trunkline_types::{
    AuditAction, AuditEntry, AuditOutcome, AuditPage, AuditQuery, Tick, Timestamp,
};

use crate::deployments::{SharedStore, lock};
use crate::retention::{WakeThread, next_turn, start_thread};

/// Time from the first note to the step that stores it.
const GATHER: Duration = Duration::from_millis(100);
/// Number of entries of each log that an engine without a store keeps in memory.
pub(crate) const MEMORY_ENTRIES_MAX: u64 = 10_000;

/// The audit of an engine. Dropping it ends its thread. Only [`AuditLog::flush`] stores the notes
/// that are still waiting.
pub(crate) struct AuditLog {
    core: Core,
    clock: Clock,
    kept: Arc<Kept>,
    has_stopped: AtomicBool,
    thread: Arc<Housekeeper>,
}

struct Kept {
    core: Core,
    clock: Clock,
    entries: Mutex<Entries>,
    error: Mutex<Option<StoreError>>,
}

struct Entries {
    next: u64,
    /// Entries taken but not yet stored; at most [`AUDIT_NOTES_MAX`].
    waiting: Vec<AuditEntry>,
    place: Place,
}

enum Place {
    Store {
        store: SharedStore,
        limits: LogLimits,
    },
    Memory(VecDeque<AuditEntry>),
}

/// Limits on the part of the audit, or of the alarm journal, that a store keeps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogLimits {
    pub(crate) entries: u64,
    pub(crate) age: Option<Duration>,
}

impl AuditLog {
    /// # Errors
    /// The system cannot start another thread.
    pub(crate) fn start(
        core: &Core,
        clock: Clock,
        store: Option<(SharedStore, LogLimits)>,
    ) -> io::Result<Self> {
        let (next, place, error) = match store {
            Some((store, limits)) => {
                let end = lock(&store).audit_end();
                // If the store cannot be read now, its end is read again before the first entry is
                // stored.
                let next = end.as_ref().map_or(0, |end| end + 1);
                (next, Place::Store { store, limits }, end.err())
            }
            None => (1, Place::Memory(VecDeque::new()), None),
        };
        let kept = Arc::new(Kept {
            core: core.clone(),
            clock,
            entries: Mutex::new(Entries {
                next,
                waiting: Vec::new(),
                place,
            }),
            error: Mutex::new(error),
        });
        kept.tell_keeping(&lock(&kept.entries));
        let thread: Arc<OnceLock<Weak<Housekeeper>>> = Arc::default();
        core.audit().keep(Box::new(WakeThread(Arc::clone(&thread))));
        let of_thread = Arc::clone(&kept);
        let running = start_thread(clock, &thread, move |now, due| of_thread.turn(now, due))?;
        Ok(Self {
            core: core.clone(),
            clock,
            kept,
            has_stopped: AtomicBool::new(false),
            thread: running,
        })
    }

    /// Claims room for the entry of an order. If there is none, stores the waiting entries first.
    ///
    /// # Errors
    /// The entries cannot be stored.
    pub(crate) fn room(&self) -> Result<AuditRoom, StoreError> {
        loop {
            if let Ok(room) = self.core.audit().claim(1, self.clock.now()) {
                return Ok(room);
            }
            let could_store = !self.kept.is_idle();
            if !self.kept.store_notes()
                && let Some(error) = self.error()
            {
                return Err(error);
            }
            if !could_store {
                // Orders in progress have already claimed all of the room.
                return Ok(AuditRoom::default());
            }
        }
    }

    /// Notes the outcome of an order: its effect, or the rule that refused it.
    pub(crate) fn note(
        &self,
        caller: &Caller,
        action: AuditAction,
        name: &str,
        end: Result<String, String>,
        room: &AuditRoom,
    ) {
        let (effect, outcome) = match end {
            Ok(effect) => (effect, AuditOutcome::Done),
            Err(rule) => (String::new(), AuditOutcome::Refused(rule)),
        };
        let (_, wall) = self.clock.moment();
        let note = OrderNote {
            action,
            name,
            effect: &effect,
            outcome,
        };
        let mut wakes = Wakes::new();
        self.core
            .audit()
            .note_order(caller, wall, note, room, &mut wakes);
    }

    pub(crate) fn note_start(&self) {
        let effect = format!("epoch {}", self.core.epoch());
        self.note_own(AuditAction::EngineStart, effect);
    }

    /// Notes once that the engine stops. A start entry that has no stop entry before it indicates a
    /// crash.
    pub(crate) fn note_stop(&self) {
        if !self.has_stopped.swap(true, Ordering::Relaxed) {
            self.note_own(AuditAction::EngineStop, String::new());
        }
    }

    /// Notes an action of the engine itself, without waiting for a failed store.
    fn note_own(&self, action: AuditAction, effect: String) {
        let room = self.room().unwrap_or_default();
        self.note(&Caller::engine(), action, "", Ok(effect), &room);
    }

    pub(crate) fn flush(&self) {
        if !self.kept.store_notes() {
            self.thread.wake();
        }
    }

    /// Returns a page of everything noted until now. Entries that cannot be stored are missing from
    /// it, and the page reports that.
    pub(crate) fn page(&self, query: &AuditQuery) -> Result<AuditPage, StoreError> {
        self.flush();
        let entries = lock(&self.kept.entries);
        let mut page = match &entries.place {
            Place::Store { store, .. } => lock(store).audit(query)?,
            Place::Memory(newest) => of_memory(newest, query),
        };
        drop(entries);
        page.state = self.core.audit().keeping().sentence.to_string();
        Ok(page)
    }

    pub(crate) fn error(&self) -> Option<StoreError> {
        lock(&self.kept.error).clone()
    }
}

impl Kept {
    /// Stores what is due, and returns the time of the next step.
    fn turn(&self, now: Tick, due: Option<Tick>) -> Option<Tick> {
        next_turn(now, due, GATHER, || self.is_idle(), || self.store_notes())
    }

    fn is_idle(&self) -> bool {
        self.core.audit().waiting() == (0, 0) && lock(&self.entries).waiting.is_empty()
    }

    /// Stores all notes. Returns false if some must be retried. Those wait here first and then in
    /// the engine, which counts notes that do not fit.
    fn store_notes(&self) -> bool {
        let mut entries = lock(&self.entries);
        let result = loop {
            if let Err(error) = entries.begin() {
                break Err(error);
            }
            if entries.waiting.is_empty() {
                entries.waiting = self.core.audit().take(entries.next, AUDIT_NOTES_MAX);
                entries.next += entries.waiting.len() as u64;
            }
            if entries.waiting.is_empty() {
                break Ok(());
            }
            if let Err(error) = entries.store(self.clock.moment().1) {
                break Err(error);
            }
        };
        let is_stored = result.is_ok();
        let mut error = lock(&self.error);
        if *error != result.clone().err() {
            *error = result.err();
            drop(error);
            self.tell_keeping(&entries);
        }
        is_stored
    }

    /// Passes the state of the audit to the engine, which reports it with the audited variables.
    fn tell_keeping(&self, entries: &Entries) {
        let error = lock(&self.error).clone();
        let (is_lasting, sentence) = match (&error, &entries.place) {
            (Some(error), _) => {
                let sentence = format!(
                    "entries cannot be stored now and wait in memory, where {AUDIT_NOTES_MAX} \
                     find room: {error}"
                );
                (false, sentence)
            }
            (None, Place::Store { store, limits }) => {
                let location = lock(store).location();
                (
                    true,
                    format!(
                        "the newest {} entries are stored in {location}",
                        limits.entries
                    ),
                )
            }
            (None, Place::Memory(_)) => {
                let sentence = format!(
                    "this engine has no store, so the newest {MEMORY_ENTRIES_MAX} entries are kept \
                     in memory, until it stops"
                );
                (false, sentence)
            }
        };
        self.core.audit().set_keeping(AuditKeeping {
            is_lasting,
            sentence: sentence.into(),
        });
    }
}

impl Entries {
    fn begin(&mut self) -> Result<(), StoreError> {
        if let (0, Place::Store { store, .. }) = (self.next, &self.place) {
            self.next = lock(store).audit_end()? + 1;
        }
        Ok(())
    }

    fn store(&mut self, now: Timestamp) -> Result<(), StoreError> {
        match &mut self.place {
            Place::Store { store, limits } => {
                let LogLimits { entries, age } = *limits;
                let bound = LogBound { entries, age, now };
                let last = lock(store).append_audit(&self.waiting, bound)?;
                self.waiting.clear();
                self.next = last + 1;
            }
            Place::Memory(newest) => {
                newest.extend(self.waiting.drain(..));
                let place = |entry: &AuditEntry| (entry.number, entry.when);
                if let Some(removal) = remove_oldest(newest, now, place) {
                    self.next = removal.number + 1;
                    newest.push_back(AuditEntry::of_removal(&removal, now));
                }
            }
        }
        Ok(())
    }
}

/// Limits a log in memory to [`MEMORY_ENTRIES_MAX`]. Returns what was removed, so that the next
/// entry can report it. `place` returns the number and the time of an entry.
pub(crate) fn remove_oldest<T>(
    newest: &mut VecDeque<T>,
    now: Timestamp,
    place: impl Fn(&T) -> (u64, Timestamp),
) -> Option<Removal> {
    let bound = LogBound {
        entries: MEMORY_ENTRIES_MAX,
        age: None,
        now,
    };
    let (first, last) = (place(newest.front()?).0, place(newest.back()?).0);
    let end = bound.remove_through(first, last)?;
    let count = usize::try_from(end + 1 - first).unwrap_or(usize::MAX);
    let removed: Vec<T> = newest.drain(..count.min(newest.len())).collect();
    Some(Removal {
        number: last + 1,
        numbers: first..=end,
        times: place(removed.first()?).1..=place(removed.last()?).1,
    })
}

fn of_memory(newest: &VecDeque<AuditEntry>, query: &AuditQuery) -> AuditPage {
    let first = newest.front().map_or(1, |entry| entry.number);
    // Numbers have no gaps, so a number gives the index.
    let place = |number: u64| usize::try_from(number.saturating_sub(first)).unwrap_or(usize::MAX);
    let taken = match (query.newest_first, query.from) {
        (false, from) => {
            let from = from.map_or(0, place);
            query.take_page(newest.iter().skip(from).cloned().map(Ok::<_, Never>))
        }
        (true, from) => {
            let end = from.map_or(newest.len(), |from| match from < first {
                true => 0,
                false => place(from).saturating_add(1),
            });
            let surplus = newest.len().saturating_sub(end);
            query.take_page(
                newest
                    .iter()
                    .rev()
                    .skip(surplus)
                    .cloned()
                    .map(Ok::<_, Never>),
            )
        }
    };
    let (entries, next) = match taken {
        Ok(taken) => taken,
        Err(never) => match never {},
    };
    AuditPage {
        entries,
        next,
        removed: first - 1,
        state: String::new(),
    }
}

/// The error type of the audit in memory, which cannot fail.
type Never = std::convert::Infallible;
