//! The log of alarm changes, and its readers, such as the host's alarm journal.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use trunkline_alarm::Machine;
use trunkline_types::Timestamp;
use trunkline_types::alarm::{AlarmChange, AlarmDefinition, AlarmRecord, SavedAlarm};
use trunkline_types::wire::encode_alarm;

use crate::delivery::outbox::{Outbox, Wake, Wakes};
use crate::sync::{Arc, Mutex};

/// Maximum number of changes that wait for a reader. Beyond this number, a reader loses the oldest
/// changes, and [`AlarmReader::take`] reports how many.
pub const ALARM_CHANGES_MAX: usize = 100_000;

/// The changes that at least one reader has not taken yet.
#[derive(Debug, Default)]
pub(super) struct ChangeLog {
    notes: VecDeque<Arc<AlarmNote>>,
    /// The number of the first note in `notes`; the first note ever has number 0.
    first: u64,
    readers: Vec<Option<ReaderPosition>>,
    /// Variables with an alarm whose state must be saved although no note contains it: a delay has
    /// begun or ended, or the alarm is new. Empty unless a reader saves states.
    unkept: BTreeSet<u32>,
    /// Removed alarms whose saved state must be deleted, by variable and alarm name, each with the
    /// version of its removal. Empty unless a reader saves states.
    gone: BTreeMap<(String, String), u64>,
    /// The version of the newest snapshot of an alarm.
    version: u64,
}

/// A reader's position in the log.
#[derive(Debug)]
struct ReaderPosition {
    /// The number of the next note to take.
    next: u64,
    outbox: Arc<Outbox>,
    keeps_states: bool,
}

impl ChangeLog {
    /// Appends a change, with the alarm's state to save, if there are readers.
    pub(super) fn append(
        &mut self,
        change: AlarmChange,
        (machine, delayed_since): (Machine, Option<Timestamp>),
        wakes: &mut Wakes,
    ) {
        if self.readers.iter().all(Option::is_none) {
            return;
        }
        if self.notes.len() >= ALARM_CHANGES_MAX {
            self.notes.pop_front();
            self.first += 1;
        }
        let note = AlarmNote {
            change,
            machine,
            delayed_since,
            version: self.next_version(),
        };
        self.notes.push_back(Arc::new(note));
        for position in self.readers.iter().flatten() {
            wakes.add(&position.outbox);
        }
    }

    /// Marks a variable with an alarm whose state must be saved although no note contains it.
    pub(super) fn note_unkept(&mut self, handle: u32, wakes: &mut Wakes) {
        if !self.keeps_states() {
            return;
        }
        self.unkept.insert(handle);
        for position in self.readers.iter().flatten().filter(|one| one.keeps_states) {
            wakes.add(&position.outbox);
        }
    }

    /// Notes that an alarm was removed from a variable. A later alarm with the same name has a
    /// newer snapshot.
    pub(super) fn note_gone(&mut self, variable: &str, alarm: &str, wakes: &mut Wakes) {
        if !self.keeps_states() {
            return;
        }
        let version = self.next_version();
        self.gone
            .insert((variable.to_owned(), alarm.to_owned()), version);
        for position in self.readers.iter().flatten().filter(|one| one.keeps_states) {
            wakes.add(&position.outbox);
        }
    }

    pub(super) fn take_unkept(&mut self) -> (BTreeSet<u32>, Vec<AlarmSnapshot>) {
        let gone = std::mem::take(&mut self.gone).into_iter();
        let gone = gone.map(|((variable, alarm), version)| AlarmSnapshot {
            version,
            kept: SavedAlarm::gone(&variable, &alarm),
        });
        (std::mem::take(&mut self.unkept), gone.collect())
    }

    /// Returns a version that is greater than all previous ones.
    pub(super) fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    fn end(&self) -> u64 {
        self.first + self.notes.len() as u64
    }

    fn keeps_states(&self) -> bool {
        self.readers
            .iter()
            .flatten()
            .any(|position| position.keeps_states)
    }

    /// Drops the notes that all readers have taken.
    fn trim(&mut self) {
        let nexts = self.readers.iter().flatten().map(|position| position.next);
        let first_needed = nexts.min().unwrap_or(self.end());
        while self.first < first_needed && self.notes.pop_front().is_some() {
            self.first += 1;
        }
    }
}

/// A change of an alarm, with the alarm state to save across restarts.
#[derive(Debug)]
pub struct AlarmNote {
    pub change: AlarmChange,
    machine: Machine,
    delayed_since: Option<Timestamp>,
    version: u64,
}

/// A snapshot of an alarm. Of two snapshots of one alarm, the one with the greater version is newer.
#[derive(Clone, PartialEq, Debug)]
pub struct AlarmSnapshot {
    pub version: u64,
    pub kept: SavedAlarm,
}

impl AlarmNote {
    /// Returns the state of the alarm after the change.
    pub fn snapshot(&self) -> AlarmSnapshot {
        let status = &self.change.status;
        let machine = (self.machine, self.delayed_since);
        AlarmSnapshot {
            version: self.version,
            kept: kept_alarm(
                &status.variable,
                &status.definition,
                machine,
                &status.record,
            ),
        }
    }
}

pub(super) fn kept_alarm(
    variable: &str,
    definition: &AlarmDefinition,
    (machine, delayed_since): (Machine, Option<Timestamp>),
    record: &AlarmRecord,
) -> SavedAlarm {
    let (process, hidden) = machine.parts();
    SavedAlarm {
        variable: variable.to_owned(),
        alarm: definition.name.clone(),
        definition: wire_form(definition),
        process,
        hidden,
        delayed_since,
        record: record.clone(),
    }
}

pub(super) fn wire_form(definition: &AlarmDefinition) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_alarm(definition, &mut bytes);
    bytes
}

/// Reads the changes of all alarms that happen after its creation.
#[derive(Debug)]
pub struct AlarmReader {
    log: Arc<Mutex<ChangeLog>>,
    slot: usize,
}

impl AlarmReader {
    pub(super) fn new(
        log: &Arc<Mutex<ChangeLog>>,
        wake: Box<dyn Wake>,
        keeps_states: bool,
    ) -> Self {
        let shared = Arc::clone(log);
        let mut log = log.lock();
        let position = ReaderPosition {
            next: log.end(),
            outbox: Arc::new(Outbox::new(wake, true, None)),
            keeps_states,
        };
        let slot = match log.readers.iter().position(Option::is_none) {
            Some(slot) => slot,
            None => {
                log.readers.push(None);
                log.readers.len() - 1
            }
        };
        log.readers[slot] = Some(position);
        Self { log: shared, slot }
    }

    /// Takes the oldest changes, at most `limit`, with the number of changes that were lost before
    /// them because this reader was too slow.
    pub fn take(&self, limit: usize) -> (Vec<Arc<AlarmNote>>, u64) {
        let mut log = self.log.lock();
        let (first, end) = (log.first, log.end());
        let Some(Some(position)) = log.readers.get_mut(self.slot) else {
            return (Vec::new(), 0);
        };
        let lost = first.saturating_sub(position.next);
        let from = position.next.max(first);
        let count = (end - from).min(limit as u64);
        position.next = from + count;
        let notes = log.notes.iter().skip((from - first) as usize);
        let taken = notes.take(count as usize).map(Arc::clone).collect();
        log.trim();
        (taken, lost)
    }

    /// Returns true if there are no changes to take, and no states to save.
    pub fn is_idle(&self) -> bool {
        let log = self.log.lock();
        let position = log.readers.get(self.slot).and_then(Option::as_ref);
        position.is_none_or(|position| {
            let has_states = !log.unkept.is_empty() || !log.gone.is_empty();
            position.next == log.end() && !(position.keeps_states && has_states)
        })
    }
}

impl Drop for AlarmReader {
    fn drop(&mut self) {
        let mut log = self.log.lock();
        if let Some(position) = log.readers.get_mut(self.slot) {
            *position = None;
        }
        if !log.keeps_states() {
            log.unkept.clear();
            log.gone.clear();
        }
        log.trim();
    }
}
