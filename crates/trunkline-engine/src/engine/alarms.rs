//! Saves alarm states across restarts, and the alarm journal (H-11). The host provides the storage.

use std::collections::BTreeMap;

use trunkline_types::alarm::{AlarmEntry, JournalEvent, SavedAlarm};
use trunkline_types::{Moment, Value};

use super::Engine;
use crate::caller::Caller;
use crate::delivery::outbox::{Wake, Wakes};
use crate::features::alarms::{ALARM_CHANGES_MAX, AlarmReader, AlarmSnapshot};
use crate::host::store::StoreError;
use crate::write::{Origin, Write};

/// Name of the variable that contains the number of the newest journal entry.
const JOURNAL_VARIABLE: &str = "_engine/alarms/journal";

/// Storage for the alarm journal. Storage that survives a restart of the engine also contains the
/// alarm states.
pub trait AlarmStorage {
    /// Returns the number of the last entry; 0 if there is none.
    ///
    /// # Errors
    /// [`StoreError`] if the storage cannot be read. The engine calls this method again before it
    /// saves anything.
    fn last_entry(&mut self) -> Result<u64, StoreError>;

    /// Saves states and entries, either all or none, and returns the number of the last entry.
    ///
    /// # Errors
    /// [`StoreError`] if the storage fails. A later call passes the same states and entries again.
    /// If this call saved them despite the error, the storage recognizes them by their numbers.
    fn keep(
        &mut self,
        states: &[SavedAlarm],
        entries: &[AlarmEntry],
        moment: Moment,
    ) -> Result<u64, StoreError>;
}

/// Collects the changes of all alarms and saves them in an [`AlarmStorage`].
///
/// A state and the journal entry for its change are saved in one step, so that the journal and the
/// states agree after a crash.
#[derive(Debug)]
pub struct AlarmSaver {
    engine: Engine,
    reader: AlarmReader,
    keeps_states: bool,
    /// The number of the next entry; 0 while the end of the journal is unknown.
    next: u64,
    /// Entries that are not saved yet; about [`ALARM_CHANGES_MAX`] at most.
    entries: Vec<AlarmEntry>,
    /// The newest state of each alarm that changed, by variable and alarm.
    states: BTreeMap<(String, String), AlarmSnapshot>,
    /// Number of the newest saved entry of the journal.
    end: u64,
    lost: u64,
    is_closed: bool,
}

impl AlarmSaver {
    /// `wake` is called when there are changes to save.
    pub fn new(engine: &Engine, wake: Box<dyn Wake>, keeps_states: bool) -> Self {
        Self {
            engine: engine.clone(),
            reader: engine.alarms().reader(wake, keeps_states),
            keeps_states,
            next: 0,
            entries: Vec::new(),
            states: BTreeMap::new(),
            end: 0,
            lost: 0,
            is_closed: false,
        }
    }

    /// Returns true if there is nothing to save and the end of the journal is known.
    pub fn is_idle(&self) -> bool {
        self.next > 0 && !self.has_unsaved() && (self.is_closed || self.reader.is_idle())
    }

    /// Returns the number of the newest saved entry of the journal.
    pub fn last_entry(&self) -> u64 {
        self.end
    }

    /// Returns the number of changes since the engine started that are missing from the journal.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Stops collecting changes. Changes that result from stopping the engine are not changes of
    /// the process.
    pub fn close(&mut self) {
        self.is_closed = true;
    }

    /// Finds the end of the journal, unless it is known.
    ///
    /// # Errors
    /// [`StoreError`] if the storage cannot be read; [`keep`](Self::keep) tries again.
    pub fn begin(&mut self, place: &mut dyn AlarmStorage) -> Result<(), StoreError> {
        if self.next == 0 {
            self.end = place.last_entry()?;
            self.next = self.end + 1;
        }
        Ok(())
    }

    /// Saves the changes that remain from a failed step, and then the newer changes.
    ///
    /// # Errors
    /// [`StoreError`] if the storage fails. Unsaved changes wait here, then in the engine's log. The
    /// engine counts the changes that its full log discards.
    pub fn keep(&mut self, place: &mut dyn AlarmStorage, moment: Moment) -> Result<(), StoreError> {
        self.begin(place)?;
        if self.has_unsaved() {
            self.step(place, moment)?;
        }
        if !self.is_closed {
            self.take_changes(moment);
        }
        match self.has_unsaved() {
            true => self.step(place, moment),
            false => Ok(()),
        }
    }

    fn has_unsaved(&self) -> bool {
        !self.entries.is_empty() || !self.states.is_empty()
    }

    fn take_changes(&mut self, moment: Moment) {
        let alarms = self.engine.alarms();
        // Taken before the changes, so that this step also contains the change that led to each
        // state.
        let mut snapshots = alarms.unkept();
        let (notes, lost) = self.reader.take(ALARM_CHANGES_MAX);
        if lost > 0 {
            self.lost += lost;
            let text = "more alarms changed than could be stored in time".to_owned();
            let event = JournalEvent::Lost(lost);
            push(&mut self.entries, &mut self.next, |number| {
                AlarmEntry::of_journal(number, moment.wall, event, text)
            });
            snapshots.extend(alarms.all_snapshots());
        }
        for note in notes {
            push(&mut self.entries, &mut self.next, |number| {
                AlarmEntry::of_change(number, &note.change)
            });
            snapshots.push(note.snapshot());
        }
        if self.keeps_states {
            self.states = newest(snapshots);
        }
    }

    fn step(&mut self, place: &mut dyn AlarmStorage, moment: Moment) -> Result<(), StoreError> {
        let caller = Caller::engine();
        // The state of a variable that was undeployed in the meantime is not saved.
        let states = self.states.values().map(|snapshot| &snapshot.kept);
        let is_deployed = |kept: &&SavedAlarm| self.engine.resolve(&caller, &kept.variable).is_ok();
        let mut states: Vec<SavedAlarm> = states.filter(is_deployed).cloned().collect();
        states.sort_by(|a, b| (&a.variable, &a.alarm).cmp(&(&b.variable, &b.alarm)));
        let last = place.keep(&states, &self.entries, moment)?;
        self.next = last + 1;
        self.entries.clear();
        self.states.clear();
        if std::mem::replace(&mut self.end, last) != last {
            self.announce(moment);
        }
        Ok(())
    }

    /// Writes the number of the newest entry to the journal variable, so that clients that follow
    /// the journal are notified at once.
    fn announce(&self, moment: Moment) {
        let caller = Caller::engine();
        let Ok(variable) = self.engine.resolve(&caller, JOURNAL_VARIABLE) else {
            return;
        };
        let value = Value::U64(self.end);
        let mut write = Write::value(&value);
        write.origin = Origin::Source;
        let Moment { now, wall } = moment;
        let engine = &self.engine;
        let _attempt = engine.try_write(&caller, now, wall, &variable, &write, &mut Wakes::new());
    }
}

fn push(entries: &mut Vec<AlarmEntry>, next: &mut u64, entry: impl FnOnce(u64) -> AlarmEntry) {
    entries.push(entry(*next));
    *next += 1;
}

/// Returns the newest snapshot of each alarm.
fn newest(snapshots: Vec<AlarmSnapshot>) -> BTreeMap<(String, String), AlarmSnapshot> {
    let mut newest: BTreeMap<_, AlarmSnapshot> = BTreeMap::new();
    for one in snapshots {
        let key = (one.kept.variable.clone(), one.kept.alarm.clone());
        let is_newer = newest
            .get(&key)
            .is_none_or(|existing| existing.version < one.version);
        if is_newer {
            newest.insert(key, one);
        }
    }
    newest
}
