//! Keeps the audit: takes what the engine has noted, numbers it, and stores it, or keeps the newest
//! of it in memory where there is no store (B-24).

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use trunkline_engine::store::{AuditBound, StoreError};
use trunkline_engine::{
    AUDIT_NOTES_MAX, AuditKeeping, AuditRoom, Caller, Engine as Core, OrderNote, Wakes,
};
use trunkline_net::{Clock, Housekeeper};
use trunkline_types::{
    AuditAction, AuditEntry, AuditOutcome, AuditPage, AuditQuery, Tick, Timestamp,
};

use crate::keeper::{SharedStore, lock};
use crate::retention::WakeThread;

/// From the first note to the step that stores it.
const GATHER: Duration = Duration::from_millis(100);
/// How long after a step that failed it is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// Entries that an engine without a store keeps.
const MEMORY_ENTRIES_MAX: u64 = 10_000;

/// The audit of an engine. Dropping it ends its thread; what was noted by then is stored only by
/// [`AuditLog::flush`].
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
    trouble: Mutex<Option<StoreError>>,
}

/// What was taken from the engine.
struct Entries {
    /// The number of the next one.
    next: u64,
    /// Taken and not stored; at most [`AUDIT_NOTES_MAX`].
    waiting: Vec<AuditEntry>,
    place: Place,
}

enum Place {
    Store { store: SharedStore, keep: Keep },
    Memory(VecDeque<AuditEntry>),
}

/// How much of the audit a store keeps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keep {
    pub(crate) entries: u64,
    pub(crate) age: Option<Duration>,
}

impl AuditLog {
    /// # Errors
    /// The system starts no further thread.
    pub(crate) fn start(
        core: &Core,
        clock: Clock,
        store: Option<(SharedStore, Keep)>,
    ) -> io::Result<Self> {
        let (next, place, trouble) = match store {
            Some((store, keep)) => {
                let end = lock(&store).audit_end();
                // A store that cannot be read now is asked again before anything is stored.
                let next = end.as_ref().map_or(0, |end| end + 1);
                (next, Place::Store { store, keep }, end.err())
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
            trouble: Mutex::new(trouble),
        });
        kept.tell_keeping(&lock(&kept.entries));
        let thread: Arc<OnceLock<Weak<Housekeeper>>> = Arc::default();
        core.keep_audit(Box::new(WakeThread(Arc::clone(&thread))));
        let of_thread = Arc::clone(&kept);
        let mut due = None;
        let turn = move |now, _| {
            due = of_thread.turn(now, due);
            due
        };
        let running = Arc::new(Housekeeper::start(clock, turn)?);
        let _already = thread.set(Arc::downgrade(&running));
        // It may have looked before it could be woken.
        running.wake();
        Ok(Self {
            core: core.clone(),
            clock,
            kept,
            has_stopped: AtomicBool::new(false),
            thread: running,
        })
    }

    /// Room for the entry of an order; where there is none, what waits is stored first.
    ///
    /// # Errors
    /// It cannot be stored.
    pub(crate) fn room(&self) -> Result<AuditRoom, StoreError> {
        loop {
            if let Ok(room) = self.core.claim_audit(1, self.clock.now()) {
                return Ok(room);
            }
            let could_store = !self.kept.is_idle();
            if !self.kept.store_notes()
                && let Some(trouble) = self.trouble()
            {
                return Err(trouble);
            }
            if !could_store {
                // All of the room is claimed for what has not ended.
                return Ok(AuditRoom::default());
            }
        }
    }

    /// Notes the end of an order: `effect`, or the rule by which it was refused.
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
        self.core.note_order(caller, wall, note, room, &mut wakes);
    }

    /// Notes that the engine starts.
    pub(crate) fn note_start(&self) {
        let effect = format!("epoch {}", self.core.epoch());
        self.note_own(AuditAction::EngineStart, effect);
    }

    /// Notes that the engine stops, once: a start before which this is missing follows a crash.
    pub(crate) fn note_stop(&self) {
        if !self.has_stopped.swap(true, Ordering::Relaxed) {
            self.note_own(AuditAction::EngineStop, String::new());
        }
    }

    /// What the engine does by itself cannot wait for a store that has failed.
    fn note_own(&self, action: AuditAction, effect: String) {
        let room = self.room().unwrap_or_default();
        self.note(&Caller::engine(), action, "", Ok(effect), &room);
    }

    /// Stores what was noted, now.
    pub(crate) fn flush(&self) {
        if !self.kept.store_notes() {
            self.thread.wake();
        }
    }

    /// A page of everything that was noted until now. What cannot be stored is not among it, which
    /// the page says.
    pub(crate) fn page(&self, query: &AuditQuery) -> Result<AuditPage, StoreError> {
        self.flush();
        let entries = lock(&self.kept.entries);
        let mut page = match &entries.place {
            Place::Store { store, .. } => lock(store).audit(query)?,
            Place::Memory(newest) => of_memory(newest, query),
        };
        drop(entries);
        page.state = self.core.audit_keeping().sentence.to_string();
        Ok(page)
    }

    pub(crate) fn trouble(&self) -> Option<StoreError> {
        lock(&self.kept.trouble).clone()
    }
}

impl Kept {
    /// Stores what is due, and returns when to come again.
    fn turn(&self, now: Tick, due: Option<Tick>) -> Option<Tick> {
        match due {
            Some(due) if now < due => Some(due),
            Some(_) => match self.store_notes() {
                true => None,
                false => Some(now.saturating_add(RETRY)),
            },
            None if self.is_idle() => None,
            None => Some(now.saturating_add(GATHER)),
        }
    }

    fn is_idle(&self) -> bool {
        self.core.waiting_audit() == (0, 0) && lock(&self.entries).waiting.is_empty()
    }

    /// Stores everything that was noted. False when some of it has to be tried again: it waits
    /// here, and then in the engine, which counts what finds no room there.
    fn store_notes(&self) -> bool {
        let mut entries = lock(&self.entries);
        let result = loop {
            if let Err(error) = entries.begin() {
                break Err(error);
            }
            if entries.waiting.is_empty() {
                entries.waiting = self.core.take_audit(entries.next, AUDIT_NOTES_MAX);
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
        let mut trouble = lock(&self.trouble);
        if *trouble != result.clone().err() {
            *trouble = result.err();
            drop(trouble);
            self.tell_keeping(&entries);
        }
        is_stored
    }

    /// The engine says it of the variables that are audited.
    fn tell_keeping(&self, entries: &Entries) {
        let trouble = lock(&self.trouble).clone();
        let (is_lasting, sentence) = match (&trouble, &entries.place) {
            (Some(trouble), _) => {
                let sentence = format!(
                    "entries cannot be stored now and wait in memory, where {AUDIT_NOTES_MAX} \
                     find room: {trouble}"
                );
                (false, sentence)
            }
            (None, Place::Store { store, keep }) => {
                let location = lock(store).location();
                (
                    true,
                    format!(
                        "the newest {} entries are stored in {location}",
                        keep.entries
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
        self.core.set_audit_keeping(AuditKeeping {
            is_lasting,
            sentence: sentence.into(),
        });
    }
}

impl Entries {
    /// The numbers go on where those of the store end.
    fn begin(&mut self) -> Result<(), StoreError> {
        if let (0, Place::Store { store, .. }) = (self.next, &self.place) {
            self.next = lock(store).audit_end()? + 1;
        }
        Ok(())
    }

    fn store(&mut self, now: Timestamp) -> Result<(), StoreError> {
        match &mut self.place {
            Place::Store { store, keep } => {
                let Keep { entries, age } = *keep;
                let bound = AuditBound { entries, age, now };
                let last = lock(store).append_audit(&self.waiting, bound)?;
                self.waiting.clear();
                self.next = last + 1;
            }
            Place::Memory(newest) => {
                newest.extend(self.waiting.drain(..));
                if let Some(removal) = remove_oldest(newest, now) {
                    self.next = removal.number + 1;
                    newest.push_back(removal);
                }
            }
        }
        Ok(())
    }
}

/// Keeps memory within its bound; returns the entry about what was removed.
fn remove_oldest(newest: &mut VecDeque<AuditEntry>, now: Timestamp) -> Option<AuditEntry> {
    let bound = AuditBound {
        entries: MEMORY_ENTRIES_MAX,
        age: None,
        now,
    };
    let (first, last) = (newest.front()?.number, newest.back()?.number);
    let end = bound.surplus(first, last)?;
    let count = usize::try_from(end + 1 - first).unwrap_or(usize::MAX);
    let removed: Vec<AuditEntry> = newest.drain(..count.min(newest.len())).collect();
    let times = removed.first()?.when..=removed.last()?.when;
    let removal = AuditEntry::of_removal(last + 1, now, first..=end, times);
    Some(removal)
}

fn of_memory(newest: &VecDeque<AuditEntry>, query: &AuditQuery) -> AuditPage {
    let first = newest.front().map_or(1, |entry| entry.number);
    // Numbers have no gaps, so each has its place.
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

/// Memory does not fail.
type Never = std::convert::Infallible;
