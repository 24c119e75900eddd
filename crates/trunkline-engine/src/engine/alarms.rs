//! Keeps the states of alarms across restarts, and their journal (H-11): what is kept, and in which
//! steps. The host says where.

use std::collections::BTreeMap;

use trunkline_types::alarm::{AlarmEntry, JournalEvent, KeptAlarm};
use trunkline_types::{Moment, Value};

use super::Engine;
use crate::caller::Caller;
use crate::delivery::outbox::{Wake, Wakes};
use crate::features::alarms::{ALARM_CHANGES_MAX, AlarmReader, AlarmSnapshot};
use crate::host::store::StoreError;
use crate::write::{Origin, Write};

/// The variable with the number of the newest entry.
const JOURNAL_VARIABLE: &str = "_engine/alarms/journal";

/// The place where the journal is kept, and the states of alarms if it survives the engine.
pub trait AlarmPlace {
    /// Returns the number of the last entry; 0 if there is none.
    ///
    /// # Errors
    /// [`StoreError`]; it is asked again before anything is kept.
    fn end(&mut self) -> Result<u64, StoreError>;

    /// Keeps states and entries, all or none, and returns the number of the last entry.
    ///
    /// # Errors
    /// [`StoreError`]; the same states and entries are kept by a later call. If this call has kept
    /// them all the same, their numbers show it.
    fn keep(
        &mut self,
        states: &[KeptAlarm],
        entries: &[AlarmEntry],
        moment: Moment,
    ) -> Result<u64, StoreError>;
}

/// Takes the changes of all alarms, and has them kept.
///
/// A state and the entry of its change are kept in one step, so that after a crash the journal and
/// the states tell the same.
#[derive(Debug)]
pub struct AlarmKeeper {
    engine: Engine,
    reader: AlarmReader,
    keeps_states: bool,
    /// The number of the next entry; 0 if the end of the journal is not known yet.
    next: u64,
    /// Entries taken but not kept yet; about [`ALARM_CHANGES_MAX`] at most.
    entries: Vec<AlarmEntry>,
    /// The newest state of each alarm that changed, by variable and alarm.
    states: BTreeMap<(String, String), AlarmSnapshot>,
    /// Number of the newest entry of the journal.
    end: u64,
    lost: u64,
    is_closed: bool,
}

impl AlarmKeeper {
    /// `wake` is called when there is something to keep.
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

    /// Returns true if there is nothing to keep, and the end of the journal is known.
    pub fn is_idle(&self) -> bool {
        self.next > 0 && !self.has_some() && (self.is_closed || self.reader.is_idle())
    }

    /// Number of the newest entry of the journal.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Number of changes that are missing in the journal since the engine started.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Takes no more changes: what happens to the variables of an engine that stops is no change of
    /// the process.
    pub fn close(&mut self) {
        self.is_closed = true;
    }

    /// Finds the end of the journal, unless it is known.
    ///
    /// # Errors
    /// [`StoreError`]; [`keep`](Self::keep) asks again.
    pub fn begin(&mut self, place: &mut dyn AlarmPlace) -> Result<(), StoreError> {
        if self.next == 0 {
            self.end = place.end()?;
            self.next = self.end + 1;
        }
        Ok(())
    }

    /// Keeps what a failed step has left, and then what has changed until now.
    ///
    /// # Errors
    /// [`StoreError`]; the changes wait here first and then in the engine, which counts those that
    /// find no room there.
    pub fn keep(&mut self, place: &mut dyn AlarmPlace, moment: Moment) -> Result<(), StoreError> {
        self.begin(place)?;
        if self.has_some() {
            self.step(place, moment)?;
        }
        if !self.is_closed {
            self.take_changes(moment);
        }
        match self.has_some() {
            true => self.step(place, moment),
            false => Ok(()),
        }
    }

    fn has_some(&self) -> bool {
        !self.entries.is_empty() || !self.states.is_empty()
    }

    fn take_changes(&mut self, moment: Moment) {
        let alarms = self.engine.alarms();
        // Before the changes: a state read here then has its change in this step too.
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

    fn step(&mut self, place: &mut dyn AlarmPlace, moment: Moment) -> Result<(), StoreError> {
        let caller = Caller::engine();
        // The state of a variable that was undeployed meanwhile is not kept.
        let states = self.states.values().map(|snapshot| &snapshot.kept);
        let is_there = |kept: &&KeptAlarm| self.engine.resolve(&caller, &kept.variable).is_ok();
        let mut states: Vec<KeptAlarm> = states.filter(is_there).cloned().collect();
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

    /// Writes the number of the newest entry to its variable, so that those who follow the journal
    /// learn of it at once.
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
            .is_none_or(|known| known.version < one.version);
        if is_newer {
            newest.insert(key, one);
        }
    }
    newest
}
