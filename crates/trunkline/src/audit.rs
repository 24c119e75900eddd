//! Numbers and stores the audit notes of the engine. Without a store, keeps the newest entries in
//! memory (B-24).

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use trunkline_engine::figures::AuditFigures;
use trunkline_engine::store::{LogBound, StoreError};
use trunkline_engine::{
    AUDIT_NOTES_MAX, AuditRoom, AuditStorage, Caller, Engine as Core, OrderNote, Wakes,
};
use trunkline_net::{Clock, Housekeeper};
use trunkline_types::audit::{AuditHead, AuditLink, Removal};
use trunkline_types::{
    AuditAction, AuditEntry, AuditOutcome, AuditPage, AuditQuery, Moment, Tick, Timestamp,
};

use crate::deployments::{SharedStore, lock};
use crate::retention::{WakeThread, next_step, start_thread};

/// Delay from the first note until notes are stored.
const STORE_DELAY: Duration = Duration::from_millis(100);
/// Number of entries that each log keeps in memory if the engine has no store.
pub(crate) const MEMORY_ENTRIES_MAX: u64 = 10_000;

/// The audit trail of an engine. Dropping it ends its thread. Only [`AuditLog::flush`] stores notes
/// that still wait.
pub(crate) struct AuditLog {
    core: Core,
    clock: Clock,
    shared: Arc<Shared>,
    has_stopped: AtomicBool,
    thread: Arc<Housekeeper>,
}

/// State that the audit's thread and its callers share.
struct Shared {
    core: Core,
    clock: Clock,
    entries: Mutex<Entries>,
    /// The last stored entry. Not part of `entries`, which are locked while they are stored.
    head: Mutex<AuditHead>,
    error: Mutex<Option<StoreError>>,
    /// Number of entries that wait in `entries`, which is locked while entries are stored.
    unstored: AtomicU64,
}

struct Entries {
    /// Number of the next entry; 0 until it is known.
    next: u64,
    /// Numbered entries that are not stored yet; at most [`AUDIT_NOTES_MAX`].
    waiting: Vec<AuditEntry>,
    storage: Storage,
}

enum Storage {
    Store {
        store: SharedStore,
        limits: LogLimits,
    },
    Memory(VecDeque<AuditEntry>),
}

/// Limits of the audit trail, or of the alarm journal, in a store.
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
        let (head, storage, error) = match store {
            Some((store, limits)) => {
                let end = lock(&store).audit_end();
                // If the store cannot be read now, its end is read before the first entry is
                // stored.
                let head = end.as_ref().ok().copied();
                (head, Storage::Store { store, limits }, end.err())
            }
            None => (
                Some(AuditHead::default()),
                Storage::Memory(VecDeque::new()),
                None,
            ),
        };
        let shared = Arc::new(Shared {
            core: core.clone(),
            clock,
            entries: Mutex::new(Entries {
                next: head.map_or(0, |head| head.number + 1),
                waiting: Vec::new(),
                storage,
            }),
            head: Mutex::new(head.unwrap_or_default()),
            error: Mutex::new(error),
            unstored: AtomicU64::new(0),
        });
        shared.report_state(&lock(&shared.entries));
        let thread: Arc<OnceLock<Weak<Housekeeper>>> = Arc::default();
        core.audit().keep(Box::new(WakeThread(Arc::clone(&thread))));
        let thread_state = Arc::clone(&shared);
        let mut store_due = None;
        let running = start_thread(clock, &thread, move |now, _| {
            // Counts of repeated events first, so that their entries are stored in this step if one
            // is due.
            let counts_due = thread_state.note_repeats();
            store_due = thread_state.run_step(now, store_due);
            [store_due, counts_due].into_iter().flatten().min()
        })?;
        Ok(Self {
            core: core.clone(),
            clock,
            shared,
            has_stopped: AtomicBool::new(false),
            thread: running,
        })
    }

    /// Claims space for the audit entry of an order. Stores the waiting entries first if there is
    /// no space.
    ///
    /// # Errors
    /// The entries cannot be stored.
    pub(crate) fn room(&self) -> Result<AuditRoom, StoreError> {
        loop {
            if let Ok(room) = self.core.audit().claim(1, self.clock.now()) {
                return Ok(room);
            }
            let could_store = !self.shared.is_idle();
            if !self.shared.store_notes()
                && let Some(error) = self.error()
            {
                return Err(error);
            }
            if !could_store {
                // Orders in progress have claimed all the space.
                return Ok(AuditRoom::default());
            }
        }
    }

    /// Records the outcome of an order: its effect, or the rule that refused it.
    pub(crate) fn note(
        &self,
        caller: &Caller,
        action: AuditAction,
        name: &str,
        outcome: Result<String, String>,
        room: &AuditRoom,
    ) {
        let (effect, outcome) = match outcome {
            Ok(effect) => (effect, AuditOutcome::Done),
            Err(rule) => (String::new(), AuditOutcome::Refused(rule)),
        };
        let note = OrderNote {
            action,
            name,
            effect: &effect,
            outcome,
        };
        let mut wakes = Wakes::new();
        self.core
            .audit()
            .note_order(caller, self.shared.moment(), note, room, &mut wakes);
    }

    pub(crate) fn note_start(&self) {
        let effect = format!("epoch {}", self.core.epoch());
        self.note_own(AuditAction::EngineStart, effect);
    }

    /// Records once that the engine stops. A start entry without a stop entry before it indicates a
    /// crash.
    pub(crate) fn note_stop(&self) {
        if !self.has_stopped.swap(true, Ordering::Relaxed) {
            let moment = self.shared.moment();
            self.core
                .audit()
                .note_all_repeats(moment, &mut Wakes::new());
            self.note_own(AuditAction::EngineStop, String::new());
        }
    }

    /// Records an action of the engine itself, even if the store fails.
    fn note_own(&self, action: AuditAction, effect: String) {
        let room = self.room().unwrap_or_default();
        self.note(&Caller::engine(), action, "", Ok(effect), &room);
    }

    /// Changes the limits of a log in a store. They apply from the next stored entry on.
    pub(crate) fn set_limits(&self, limits: LogLimits) {
        let mut entries = lock(&self.shared.entries);
        if let Storage::Store { limits: own, .. } = &mut entries.storage {
            *own = limits;
        }
        self.shared.report_state(&entries);
    }

    pub(crate) fn flush(&self) {
        if !self.shared.store_notes() {
            self.thread.wake();
        }
    }

    /// Returns a page of everything recorded until now. If entries cannot be stored, the page does
    /// not contain them and says so in its state.
    pub(crate) fn page(&self, query: &AuditQuery) -> Result<AuditPage, StoreError> {
        self.flush();
        let entries = lock(&self.shared.entries);
        let mut page = match &entries.storage {
            Storage::Store { store, .. } => lock(store).audit(query)?,
            Storage::Memory(newest) => page_from_memory(newest, query),
        };
        drop(entries);
        page.state = self.core.audit().storage().sentence.to_string();
        Ok(page)
    }

    /// Returns the figures of the audit trail, without waiting for the disk.
    pub(crate) fn figures(&self) -> AuditFigures {
        let condition = self.core.audit().figures();
        let unstored = self.shared.unstored.load(Ordering::Relaxed);
        let head = self.head();
        AuditFigures {
            newest: head.number,
            head: head.hash.to_string(),
            is_full: condition.is_full,
            waiting: unstored + condition.waiting as u64,
            lost: condition.lost,
            is_lasting: self.core.audit().storage().is_lasting,
        }
    }

    pub(crate) fn error(&self) -> Option<StoreError> {
        lock(&self.shared.error).clone()
    }

    /// Returns the number and the hash of the last stored entry.
    pub(crate) fn head(&self) -> AuditHead {
        *lock(&self.shared.head)
    }
}

impl Shared {
    fn moment(&self) -> Moment {
        let (now, wall) = self.clock.moment();
        Moment { now, wall }
    }

    /// Notes the counts of repeated security events that are due. Returns the time of the next call.
    fn note_repeats(&self) -> Option<Tick> {
        let mut wakes = Wakes::new();
        self.core.audit().note_repeats(self.moment(), &mut wakes)
    }

    /// Stores what is due, and returns the time of the next step.
    fn run_step(&self, now: Tick, due: Option<Tick>) -> Option<Tick> {
        next_step(
            now,
            due,
            STORE_DELAY,
            || self.is_idle(),
            || self.store_notes(),
        )
    }

    fn is_idle(&self) -> bool {
        self.core.audit().waiting() == (0, 0) && lock(&self.entries).waiting.is_empty()
    }

    /// Stores all notes. Returns false if some notes must be stored later. These wait first here
    /// and then in the engine, which counts notes that it cannot keep.
    fn store_notes(&self) -> bool {
        let mut entries = lock(&self.entries);
        let result = loop {
            match entries.read_head() {
                Ok(Some(head)) => *lock(&self.head) = head,
                Ok(None) => {}
                Err(error) => break Err(error),
            }
            if entries.waiting.is_empty() {
                entries.waiting = self.core.audit().take(entries.next, AUDIT_NOTES_MAX);
                entries.next += entries.waiting.len() as u64;
                self.count_unstored(&entries);
            }
            if entries.waiting.is_empty() {
                break Ok(());
            }
            let head = *lock(&self.head);
            match entries.store(self.clock.moment().1, head) {
                Ok(head) => *lock(&self.head) = head,
                Err(error) => break Err(error),
            }
        };
        self.count_unstored(&entries);
        let is_stored = result.is_ok();
        let mut error = lock(&self.error);
        if *error != result.clone().err() {
            *error = result.err();
            drop(error);
            self.report_state(&entries);
        }
        is_stored
    }

    fn count_unstored(&self, entries: &Entries) {
        let count = entries.waiting.len() as u64;
        self.unstored.store(count, Ordering::Relaxed);
    }

    /// Passes the state of the audit trail to the engine, which reports it for audited variables.
    fn report_state(&self, entries: &Entries) {
        let error = lock(&self.error).clone();
        let (is_lasting, sentence) = match (&error, &entries.storage) {
            (Some(error), _) => {
                let sentence = format!(
                    "entries cannot be stored now; up to {AUDIT_NOTES_MAX} of them wait in \
                     memory: {error}"
                );
                (false, sentence)
            }
            (None, Storage::Store { store, limits }) => {
                let location = lock(store).location();
                (
                    true,
                    format!(
                        "the newest {} entries are stored in {location}",
                        limits.entries
                    ),
                )
            }
            (None, Storage::Memory(_)) => {
                let sentence = format!(
                    "this engine has no store, so the newest {MEMORY_ENTRIES_MAX} entries are kept \
                     in memory, until it stops"
                );
                (false, sentence)
            }
        };
        self.core.audit().set_storage(AuditStorage {
            is_lasting,
            sentence: sentence.into(),
        });
    }
}

impl Entries {
    /// Reads the last entry of the store, unless it is known.
    fn read_head(&mut self) -> Result<Option<AuditHead>, StoreError> {
        let (0, Storage::Store { store, .. }) = (self.next, &self.storage) else {
            return Ok(None);
        };
        let head = lock(store).audit_end()?;
        self.next = head.number + 1;
        Ok(Some(head))
    }

    /// Stores the waiting entries after the entry `head`. Returns the last entry.
    fn store(&mut self, now: Timestamp, head: AuditHead) -> Result<AuditHead, StoreError> {
        match &mut self.storage {
            Storage::Store { store, limits } => {
                let LogLimits { entries, age } = *limits;
                let bound = LogBound { entries, age, now };
                let head = lock(store).append_audit(&self.waiting, bound)?;
                self.waiting.clear();
                self.next = head.number + 1;
                Ok(head)
            }
            Storage::Memory(newest) => {
                let mut head = head;
                let mut link = |mut entry: AuditEntry| {
                    let link = AuditLink::new(head.hash, &entry);
                    entry.link = Some(link);
                    head = AuditHead {
                        number: entry.number,
                        hash: link.hash,
                    };
                    entry
                };
                newest.extend(self.waiting.drain(..).map(&mut link));
                let number_and_time = |entry: &AuditEntry| (entry.number, entry.when);
                if let Some(removal) = remove_oldest(newest, now, number_and_time) {
                    self.next = removal.number + 1;
                    let oldest = newest.front().and_then(|entry| entry.link);
                    let removed = oldest.map(|link| link.previous);
                    newest.push_back(link(AuditEntry::of_removal(&removal, now, removed)));
                }
                Ok(head)
            }
        }
    }
}

/// Limits a log in memory to [`MEMORY_ENTRIES_MAX`] entries. Returns the removal, so that the next
/// entry can report it. `number_and_time` returns the number and the time of an entry.
pub(crate) fn remove_oldest<T>(
    newest: &mut VecDeque<T>,
    now: Timestamp,
    number_and_time: impl Fn(&T) -> (u64, Timestamp),
) -> Option<Removal> {
    let bound = LogBound {
        entries: MEMORY_ENTRIES_MAX,
        age: None,
        now,
    };
    let (first, last) = (
        number_and_time(newest.front()?).0,
        number_and_time(newest.back()?).0,
    );
    let end = bound.remove_through(first, last)?;
    let count = usize::try_from(end + 1 - first).unwrap_or(usize::MAX);
    let removed: Vec<T> = newest.drain(..count.min(newest.len())).collect();
    Some(Removal {
        number: last + 1,
        numbers: first..=end,
        times: number_and_time(removed.first()?).1..=number_and_time(removed.last()?).1,
    })
}

fn page_from_memory(newest: &VecDeque<AuditEntry>, query: &AuditQuery) -> AuditPage {
    let first = newest.front().map_or(1, |entry| entry.number);
    // Entry numbers are consecutive, so the number of an entry gives its index.
    let index_of =
        |number: u64| usize::try_from(number.saturating_sub(first)).unwrap_or(usize::MAX);
    let page = match (query.newest_first, query.from) {
        (false, from) => {
            let from = from.map_or(0, index_of);
            query.take_page(newest.iter().skip(from).cloned().map(Ok::<_, Never>))
        }
        (true, from) => {
            let end = from.map_or(newest.len(), |from| match from < first {
                true => 0,
                false => index_of(from).saturating_add(1),
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
    let (entries, next) = match page {
        Ok(page) => page,
        Err(never) => match never {},
    };
    AuditPage {
        entries,
        next,
        removed: first - 1,
        state: String::new(),
    }
}

/// The error type of the audit trail in memory, which cannot fail.
type Never = std::convert::Infallible;

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use trunkline_engine::{EngineOptions, SecurityEvent, SecurityNote};
    use trunkline_types::audit::ChainCheck;

    use super::*;

    /// The number of refused logins that were not yet due is stored before the stop, and the entries
    /// are a chain.
    #[test]
    fn counted_logins_are_stored_when_the_engine_stops() {
        let core = Core::new(EngineOptions::new("rig", 1));
        let sut = AuditLog::start(&core, Clock::new(), None).unwrap();
        sut.note_start();
        for _ in 0..1_000 {
            let event = SecurityEvent::LoginRefused {
                account: "root",
                method: "password",
                rule: "the password is wrong",
            };
            let note = SecurityNote {
                peer: "10.0.0.7",
                event,
            };
            let caller = Caller::local(1, 1000);
            let moment = sut.shared.moment();
            core.audit()
                .note_security(&caller, note, moment, &mut Wakes::new());
        }
        sut.note_stop();
        let page = sut.page(&AuditQuery::default()).unwrap();
        let actions: Vec<AuditAction> = page.entries.iter().map(|entry| entry.action).collect();
        let expected = [
            AuditAction::EngineStart,
            AuditAction::Login,
            AuditAction::Login,
            AuditAction::EngineStop,
        ];
        assert_eq!(actions, expected);
        let count = &page.entries[2].new;
        assert!(count.starts_with("999 more since "), "{count}");
        let mut check = ChainCheck::new(None);
        page.entries.iter().for_each(|entry| check.push(entry));
        let report = check.finish();
        assert!(report.is_intact(), "{report:?}");
        let last = AuditHead {
            number: 4,
            hash: report.head,
        };
        assert_eq!(sut.head(), last);
    }
}
