//! ALARM_JOURNAL and ALARM_ENTRIES: the record of all alarm changes.
//!
//! These frames are used only if both ends have the feature ALARMS. A page is sent in one or more
//! ALARM_ENTRIES frames, all with the same head; a page may be empty although more pages follow. To
//! get the next page, set `from` of the next ALARM_JOURNAL to `next`, unless it is 0. `event` is 1
//! to 10 for a change of an alarm (raise, clear, acknowledge, reset, shelve, unshelve, suppress,
//! unsuppress, take-out-of-service, return-to-service), 40 for `count` missing changes, and 41 for
//! `count` removed entries.

use trunkline_types::Timestamp;
use trunkline_types::alarm::{AlarmEntry, AlarmRecord, AlarmState, JournalEvent};

use super::alarm::Real;
use super::fields::{Always, IfSet, Mark, Maybe, fields};
use super::form::{Fixed, Nanos, Number, Text, Varint, VarintOrZero, Whole};
use super::layout::{Field, FieldSink, FrameContext, Record, record};
use super::list::list_frame;
#[cfg(test)]
use super::round_trip::Source;
use super::single::single_frame;
use crate::DecodeError;
use crate::decode::Payload;
use crate::limits::SENTENCE_BYTES_MAX;

fields! {
    /// Asks for a page of the alarm journal; see
    /// [`AlarmJournalQuery`](trunkline_types::alarm::AlarmJournalQuery).
    #[derive(Copy, Eq, Default)]
    pub struct AlarmJournal<'a> {
        /// Number of the page's first entry; `None` starts at the newest or the oldest entry,
        /// according to the order.
        1: pub from: Option<u64> = Maybe<Varint>,
        /// Selects entries from this time on.
        2: pub since: Option<Timestamp> = Maybe<Nanos>,
        /// Selects entries before this time.
        3: pub until: Option<Timestamp> = Maybe<Nanos>,
        /// Selects entries of variables with a matching name; empty for all. The engine checks the
        /// pattern.
        4: pub pattern: &'a str = IfSet<Whole>,
        /// Selects entries of alarms in this area; empty for all.
        5: pub area: &'a str = IfSet<Whole>,
        /// Selects entries of alarms of this priority or higher.
        6: pub priority_min: u32 = IfSet<Varint>,
        /// Selects entries whose state after the change is one of these: bit n represents the state
        /// with the number n. 0 selects all.
        7: pub states: u32 = IfSet<Varint>,
        /// True to return entries from newest to oldest; the default is oldest first.
        8: pub newest_first: bool = Mark,
        /// Maximum number of entries in the page; 0 lets the engine choose.
        9: pub limit: u32 = IfSet<Varint>,
    }
}

single_frame! { AlarmJournal, AlarmJournal<'a> }

record! {
    #[derive(Copy, Eq, Default)]
    pub struct AlarmEntriesHead<'a> {
        /// Number of the first entry of the next page; `None` if this is the last page.
        pub next: Option<u64> = VarintOrZero,
        /// Number of entries removed so far, oldest first.
        pub removed: u64 = Varint,
        /// The place where the entries are stored and any problem of the store, in a sentence.
        pub state: &'a str = Text<{ 4 * SENTENCE_BYTES_MAX }>,
    }
}

list_frame! {
    AlarmEntriesForm: AlarmEntries, AlarmEntriesFrame, AlarmEntriesBuilder,
    head AlarmEntriesHead<'a>, item AlarmEntry, empty_frame kept
}

fields! {
    /// An [`AlarmEntry`] on the wire, with the text borrowed from the frame.
    #[derive(Default)]
    struct EntryFields<'a> (sized) {
        1: pub number: u64 = Always<Varint>,
        2: pub when: i64 = Always<Fixed>,
        3: pub event: u8 = Always<Fixed>,
        4: pub count: u64 = IfSet<Varint>,
        5: pub variable: &'a str = IfSet<Whole>,
        6: pub alarm: &'a str = IfSet<Whole>,
        7: pub priority: u32 = IfSet<Varint>,
        8: pub area: &'a str = IfSet<Whole>,
        9: pub description: &'a str = IfSet<Whole>,
        /// The state before the change.
        10: pub from: AlarmState = Always<Number>,
        /// The state after the change.
        11: pub state: AlarmState = Always<Number>,
        12: pub is_active: bool = Mark as "active",
        /// The principal of the operator; empty if the engine changed the state.
        13: pub who: &'a str = IfSet<Whole>,
        /// The comment of this change.
        14: pub remark: &'a str = IfSet<Whole>,
        /// The value when the alarm was last raised.
        15: pub value: Option<f64> = Maybe<Real>,
        /// The limit or the setpoint when the alarm was raised.
        16: pub operand: Option<f64> = Maybe<Real>,
        17: pub raised: Option<Timestamp> = Maybe<Nanos>,
        18: pub cleared: Option<Timestamp> = Maybe<Nanos>,
        19: pub acknowledged: Option<Timestamp> = Maybe<Nanos>,
        20: pub acknowledged_by: &'a str = IfSet<Whole>,
        /// The newest comment on the alarm.
        21: pub comment: &'a str = IfSet<Whole>,
        22: pub shelved_until: Option<Timestamp> = Maybe<Nanos>,
    }
}

impl<'a> EntryFields<'a> {
    fn of(entry: &'a AlarmEntry) -> Self {
        let AlarmEntry {
            number,
            when,
            event,
            variable,
            alarm,
            priority,
            area,
            description,
            from,
            who,
            comment: remark,
            record,
        } = entry;
        let AlarmRecord {
            state,
            is_active,
            value,
            operand,
            raised,
            cleared,
            acknowledged,
            acknowledged_by,
            comment,
            shelved_until,
        } = record;
        let (event, count) = event.parts();
        Self {
            number: *number,
            when: when.as_nanos(),
            event,
            count,
            variable,
            alarm,
            priority: u32::from(*priority),
            area,
            description,
            from: *from,
            state: *state,
            is_active: *is_active,
            who,
            remark,
            value: *value,
            operand: *operand,
            raised: *raised,
            cleared: *cleared,
            acknowledged: *acknowledged,
            acknowledged_by,
            comment,
            shelved_until: *shelved_until,
        }
    }

    fn to_entry(&self) -> AlarmEntry {
        AlarmEntry {
            number: self.number,
            when: Timestamp::from_nanos(self.when),
            event: JournalEvent::from_parts(self.event, self.count),
            variable: self.variable.to_owned(),
            alarm: self.alarm.to_owned(),
            priority: u16::try_from(self.priority).unwrap_or(u16::MAX),
            area: self.area.to_owned(),
            description: self.description.to_owned(),
            from: self.from,
            who: self.who.to_owned(),
            comment: self.remark.to_owned(),
            record: AlarmRecord {
                state: self.state,
                is_active: self.is_active,
                value: self.value,
                operand: self.operand,
                raised: self.raised,
                cleared: self.cleared,
                acknowledged: self.acknowledged,
                acknowledged_by: self.acknowledged_by.to_owned(),
                comment: self.comment.to_owned(),
                shelved_until: self.shelved_until,
            },
        }
    }
}

impl<'a> Record<'a> for AlarmEntry {
    const FIELDS: &'static [Field] = EntryFields::FIELDS;

    fn bytes_min(context: &FrameContext) -> usize {
        EntryFields::bytes_min(context)
    }

    fn put(&self, context: &mut FrameContext, out: &mut Vec<u8>) {
        EntryFields::of(self).put(context, out);
    }

    fn read(context: &mut FrameContext, payload: &mut Payload<'a>) -> Result<Self, DecodeError> {
        EntryFields::read(context, payload).map(|fields| fields.to_entry())
    }

    fn show(&self, to: &mut dyn FieldSink) {
        EntryFields::of(self).show(to);
    }

    #[cfg(test)]
    fn sample(source: &mut Source<'a>, context: &mut FrameContext) -> Self {
        EntryFields::sample(source, context).to_entry()
    }
}
