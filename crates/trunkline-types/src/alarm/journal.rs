//! The alarm journal: the record of every change of an alarm (H-11).
//!
//! ```text
//! number | when | variable | alarm | event | from -> to | who | comment | value | limit | ..
//! ```
//!
//! Entries are numbered consecutively from 1, even across restarts of the engine. The oldest
//! entries are removed; the number of the oldest remaining entry shows how many have been removed.

use super::{AlarmEvent, AlarmRecord, AlarmState, AlarmStatus};
use crate::audit::PageScan;
use crate::permitted::PermittedNames;
use crate::{Pattern, StepBudget, Timestamp};

/// A change of an alarm.
#[derive(Clone, PartialEq, Debug)]
pub struct AlarmChange {
    pub when: Timestamp,
    pub event: AlarmEvent,
    /// The state before the change; the state after it is in the record.
    pub from: AlarmState,
    /// The principal of the operator; empty if the engine changed the state.
    pub who: String,
    /// The operator's comment; may be empty.
    pub comment: String,
    /// The alarm after the change.
    pub status: AlarmStatus,
}

/// An event recorded in the journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JournalEvent {
    Alarm(AlarmEvent),
    /// Changes are missing because the journal had no room for them; contains their number.
    Lost(u64),
    /// The oldest entries were removed; contains their number.
    Removed(u64),
    /// An event defined by a newer version; contains its number.
    Other(u8),
}

impl JournalEvent {
    /// Returns the number of the event in stores and frames, and the associated count.
    pub fn parts(self) -> (u8, u64) {
        match self {
            Self::Alarm(event) => (event.number(), 0),
            Self::Lost(count) => (40, count),
            Self::Removed(count) => (41, count),
            Self::Other(number) => (number, 0),
        }
    }

    pub fn from_parts(number: u8, count: u64) -> Self {
        match number {
            40 => Self::Lost(count),
            41 => Self::Removed(count),
            number => AlarmEvent::from_number(number).map_or(Self::Other(number), Self::Alarm),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Alarm(event) => event.name(),
            Self::Lost(_) => "lost",
            Self::Removed(_) => "removed",
            Self::Other(_) => "other",
        }
    }
}

/// An entry of the alarm journal.
#[derive(Clone, PartialEq, Debug)]
pub struct AlarmEntry {
    /// Number of the entry: the number of the previous entry plus one.
    pub number: u64,
    /// Time of the change, by the engine's clock.
    pub when: Timestamp,
    pub event: JournalEvent,
    /// Full name of the variable; empty for [`JournalEvent::Lost`] and [`JournalEvent::Removed`].
    pub variable: String,
    /// Name of the alarm.
    pub alarm: String,
    pub priority: u16,
    pub area: String,
    pub description: String,
    pub from: AlarmState,
    /// The principal of the operator; empty if the engine changed the state.
    pub who: String,
    /// The operator's comment; may be empty.
    pub comment: String,
    /// The alarm after the change.
    pub record: AlarmRecord,
}

impl AlarmEntry {
    /// Creates the entry for a change.
    pub fn of_change(number: u64, change: &AlarmChange) -> Self {
        let AlarmStatus {
            variable,
            definition,
            record,
            ..
        } = &change.status;
        Self {
            number,
            when: change.when,
            event: JournalEvent::Alarm(change.event),
            variable: variable.clone(),
            alarm: definition.name.clone(),
            priority: definition.priority,
            area: definition.area.clone(),
            description: definition.description.clone(),
            from: change.from,
            who: change.who.clone(),
            comment: change.comment.clone(),
            record: record.clone(),
        }
    }

    /// Creates an entry for an event of the journal itself.
    pub fn of_journal(number: u64, when: Timestamp, event: JournalEvent, comment: String) -> Self {
        Self {
            number,
            when,
            event,
            variable: String::new(),
            alarm: String::new(),
            priority: 0,
            area: String::new(),
            description: String::new(),
            from: AlarmState::Normal,
            who: String::new(),
            comment,
            record: AlarmRecord::default(),
        }
    }
}

/// Selects entries of the alarm journal.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct AlarmJournalQuery {
    /// Number of the first entry of the page, in either order. `None` starts at the newest or the
    /// oldest entry, according to the order.
    pub from: Option<u64>,
    /// Selects entries from this time on.
    pub since: Option<Timestamp>,
    /// Selects entries before this time.
    pub until: Option<Timestamp>,
    /// Selects entries of variables with a matching name.
    pub pattern: Option<Pattern>,
    /// Selects entries of alarms in this area; empty for all.
    pub area: String,
    /// Selects entries of alarms of this priority or higher.
    pub priority_min: u16,
    /// Selects entries whose state after the change is one of these; empty for all.
    pub states: Vec<AlarmState>,
    /// True to return entries from newest to oldest; the default is oldest first.
    pub newest_first: bool,
    /// Maximum number of entries in the answer; 0 for the maximum of a page.
    pub limit: u32,
    /// The variables whose entries the reader may query. Entries about the journal itself have no
    /// variable, and are always included.
    pub permitted: PermittedNames,
}

#[derive(Clone, PartialEq, Debug, Default)]
pub struct AlarmJournalPage {
    /// The entries in the requested order. A page may be empty although more pages follow.
    pub entries: Vec<AlarmEntry>,
    /// Number of the first entry of the next page; `None` if this is the last page.
    pub next: Option<u64>,
    /// Number of entries removed so far, oldest first.
    pub removed: u64,
    /// The place where the entries are stored and any problem of the store, in a sentence.
    pub state: String,
}

impl AlarmJournalQuery {
    fn matches(&self, budget: &mut StepBudget, entry: &AlarmEntry) -> bool {
        let is_in_period = self.since.is_none_or(|since| entry.when >= since)
            && self.until.is_none_or(|until| entry.when < until);
        if let JournalEvent::Lost(_) = entry.event {
            // The missing entries may belong to any alarm.
            return is_in_period;
        }
        let is_selected = (self.area.is_empty() || self.area == entry.area)
            && entry.priority >= self.priority_min
            && (self.states.is_empty() || self.states.contains(&entry.record.state));
        let mut name_matches = || {
            let pattern = self.pattern.as_ref();
            pattern.is_none_or(|pattern| pattern.matches_within(budget, &entry.variable))
        };
        let is_permitted = || entry.variable.is_empty() || self.permitted.contains(&entry.variable);
        is_in_period && is_selected && name_matches() && is_permitted()
    }

    /// Takes a page from `entries`, which must start at [`from`](Self::from) and be in the
    /// requested order. Returns the matching entries and the number at which the next page begins.
    pub fn take_page<E>(
        &self,
        entries: impl Iterator<Item = Result<AlarmEntry, E>>,
    ) -> Result<(Vec<AlarmEntry>, Option<u64>), E> {
        let matches = |budget: &mut StepBudget, entry: &AlarmEntry| self.matches(budget, entry);
        PageScan::new(self.limit).take(entries, |entry| entry.number, matches)
    }
}

/// The part of an alarm's state that an engine preserves across restarts.
#[derive(Clone, PartialEq, Debug)]
pub struct SavedAlarm {
    /// Full name of the variable.
    pub variable: String,
    /// Name of the alarm.
    pub alarm: String,
    /// Wire form of the definition. The state is discarded if the alarm now has a different
    /// definition. Empty if the alarm is [gone](Self::gone).
    pub definition: Vec<u8>,
    /// The state according to the process, regardless of whether the alarm is hidden.
    pub process: AlarmState,
    /// Three flags, which are true if the alarm is shelved, suppressed by design, and out of service.
    pub hidden: [bool; 3],
    /// Start of the on-delay or off-delay in progress; `None` if there is none.
    pub delayed_since: Option<Timestamp>,
    pub record: AlarmRecord,
}

impl SavedAlarm {
    /// Returns a marker for an alarm that its variable no longer has. The store then deletes the saved
    /// state of this alarm.
    pub fn gone(variable: &str, alarm: &str) -> Self {
        Self {
            variable: variable.to_owned(),
            alarm: alarm.to_owned(),
            definition: Vec::new(),
            process: AlarmState::Normal,
            hidden: [false; 3],
            delayed_since: None,
            record: AlarmRecord::default(),
        }
    }

    pub fn is_gone(&self) -> bool {
        self.definition.is_empty()
    }
}
