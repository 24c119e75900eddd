//! AUDIT and AUDIT_PAGE: the record of all actions on the engine, with the principal, the origin,
//! the time and the outcome of each.
//!
//! Used only if both ends have the feature AUDIT. A page is sent in one or more AUDIT_PAGE frames,
//! all with the same head; a page may be empty although more pages follow. To get the next page,
//! set `from` of the next AUDIT to `next`, unless it is 0. An outcome that this version does not
//! know is read as [`Unknown`](trunkline_types::AuditOutcome::Unknown), with its sentence.
//!
//! Each entry has its link in the hash chain, if the engine has one: the hash of the previous
//! entry, and its own.

use trunkline_types::audit::{AuditHash, AuditLink};
use trunkline_types::{AuditAction, AuditEntry, AuditOutcome, Position, Tick, Timestamp};

use super::fields::{Always, IfSet, Mark, Maybe, fields};
use super::form::{Fixed, Flat, Nanos, Text, Varint, VarintOrZero, Whole, mapped};
use super::layout::{Field, FieldSink, FieldValue, FrameContext, Record, record};
use super::list::list_frame;
#[cfg(test)]
use super::round_trip::Source;
use super::single::single_frame;
use crate::DecodeError;
use crate::decode::Payload;
use crate::limits::SENTENCE_BYTES_MAX;

const DONE: u8 = 1;
const APPLIED: u8 = 2;
const UNCHANGED: u8 = 3;
const REFUSED: u8 = 4;
const UNKNOWN: u8 = 5;
const LOST: u8 = 6;

fields! {
    /// Asks for a page of the audit trail; see [`AuditQuery`](trunkline_types::AuditQuery).
    #[derive(Copy, Eq, Default)]
    pub struct Audit<'a> {
        /// Number of the page's first entry; `None` starts at the newest or the oldest entry,
        /// according to the order.
        1: pub from: Option<u64> = Maybe<Varint>,
        /// Selects entries from this time on.
        2: pub since: Option<Timestamp> = Maybe<Nanos>,
        /// Selects entries with a matching name; empty for all. The engine checks the pattern.
        3: pub pattern: &'a str = IfSet<Whole>,
        /// Selects entries of this principal; empty for all.
        4: pub who: &'a str = IfSet<Whole>,
        /// True to return entries from newest to oldest; the default is oldest first.
        5: pub newest_first: bool = Mark,
        /// Maximum number of entries in the page; 0 lets the engine choose.
        6: pub limit: u32 = IfSet<Varint>,
    }
}

single_frame! { Audit, Audit<'a> }

record! {
    #[derive(Copy, Eq, Default)]
    pub struct AuditPageHead<'a> {
        /// Number of the first entry of the next page; `None` if this is the last page.
        pub next: Option<u64> = VarintOrZero,
        /// Number of entries removed so far, oldest first.
        pub removed: u64 = Varint,
        /// The place where the entries are stored and any problem of the store, in a sentence.
        pub state: &'a str = Text<{ 4 * SENTENCE_BYTES_MAX }>,
    }
}

list_frame! {
    AuditPageForm: AuditPage, AuditPageFrame, AuditPageBuilder,
    head AuditPageHead<'a>, item AuditEntry, empty_frame kept
}

fields! {
    #[derive(Default)]
    struct EntryFields<'a> (sized) {
        1: pub number: u64 = Always<Varint>,
        2: pub when: i64 = Always<Fixed>,
        3: pub who: &'a str = IfSet<Whole>,
        4: pub from: &'a str = IfSet<Whole>,
        5: pub action: u8 = Always<Fixed>,
        6: pub name: &'a str = IfSet<Whole>,
        7: pub data_type: &'a str = IfSet<Whole>,
        8: pub old: &'a str = IfSet<Whole>,
        9: pub new: &'a str = IfSet<Whole>,
        10: pub outcome: u8 = Always<Fixed>,
        11: pub position: Option<Position> = Maybe<Flat>,
        12: pub sentence: &'a str = IfSet<Whole>,
        13: pub lost: Option<u64> = Maybe<Varint>,
        /// The time `when` by the engine's monotonic clock, in nanoseconds; 0 if it is not known.
        14: pub monotonic: u64 = IfSet<Varint>,
        /// Link of the entry in the hash chain: the hash of the previous entry, then its own.
        15: pub link: Option<AuditLink> = Maybe<Flat>,
    }
    absent Self { outcome: DONE, ..Self::default() }
}

record! {
    impl Position {
        epoch: u64 = Varint,
        sequence: u64 = Varint,
    }
}

record! {
    impl AuditLink {
        previous: AuditHash = HashBytes,
        hash: AuditHash = HashBytes,
    }
}

/// A hash, 32 bytes.
#[derive(Debug)]
pub enum HashBytes {}

mapped! {
    HashBytes: AuditHash = Fixed: [u8; 32], |hash| hash.0, AuditHash;
}

impl<'a> EntryFields<'a> {
    fn of(entry: &'a AuditEntry) -> Self {
        let mut fields = Self {
            number: entry.number,
            when: entry.when.as_nanos(),
            who: &entry.who,
            from: &entry.from,
            action: entry.action.number(),
            name: &entry.name,
            data_type: &entry.data_type,
            old: &entry.old,
            new: &entry.new,
            monotonic: entry.monotonic.as_nanos(),
            link: entry.link,
            ..Self::default()
        };
        match &entry.outcome {
            AuditOutcome::Done => fields.outcome = DONE,
            AuditOutcome::Applied(at) => (fields.outcome, fields.position) = (APPLIED, Some(*at)),
            AuditOutcome::Unchanged(at) => {
                (fields.outcome, fields.position) = (UNCHANGED, Some(*at));
            }
            AuditOutcome::Refused(rule) => (fields.outcome, fields.sentence) = (REFUSED, rule),
            AuditOutcome::Unknown(cause) => (fields.outcome, fields.sentence) = (UNKNOWN, cause),
            AuditOutcome::Lost(count) => (fields.outcome, fields.lost) = (LOST, Some(*count)),
        }
        fields
    }

    fn to_entry(&self) -> AuditEntry {
        let position = self.position.unwrap_or(Position {
            epoch: 0,
            sequence: 0,
        });
        AuditEntry {
            number: self.number,
            when: Timestamp::from_nanos(self.when),
            monotonic: Tick::from_nanos(self.monotonic),
            who: self.who.to_owned(),
            from: self.from.to_owned(),
            action: AuditAction::from_number(self.action),
            name: self.name.to_owned(),
            data_type: self.data_type.to_owned(),
            old: self.old.to_owned(),
            new: self.new.to_owned(),
            outcome: match self.outcome {
                DONE => AuditOutcome::Done,
                APPLIED => AuditOutcome::Applied(position),
                UNCHANGED => AuditOutcome::Unchanged(position),
                REFUSED => AuditOutcome::Refused(self.sentence.to_owned()),
                LOST => AuditOutcome::Lost(self.lost.unwrap_or(0)),
                _ => AuditOutcome::Unknown(self.sentence.to_owned()),
            },
            link: self.link,
        }
    }
}

impl<'a> Record<'a> for AuditEntry {
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
        to.field("number", FieldValue::NumberAsText(self.number));
        to.field("when", FieldValue::Signed(self.when.as_nanos()));
        to.field("who", FieldValue::Text(&self.who));
        to.field("from", FieldValue::Text(&self.from));
        to.field("action", FieldValue::Text(self.action.name()));
        to.field("name", FieldValue::Text(&self.name));
        to.field("type", FieldValue::Text(&self.data_type));
        to.field("old", FieldValue::Text(&self.old));
        to.field("new", FieldValue::Text(&self.new));
        to.field("outcome", FieldValue::Text(self.outcome.name()));
        match &self.outcome {
            AuditOutcome::Done => to.field("detail", FieldValue::Nothing),
            AuditOutcome::Applied(at) | AuditOutcome::Unchanged(at) => {
                to.object("detail", &|to| at.show(to));
            }
            AuditOutcome::Refused(sentence) | AuditOutcome::Unknown(sentence) => {
                to.field("detail", FieldValue::Text(sentence));
            }
            AuditOutcome::Lost(count) => to.field("detail", FieldValue::NumberAsText(*count)),
        }
        // Engines of earlier versions send neither of these fields.
        if self.monotonic != Tick::ZERO {
            let monotonic = FieldValue::NumberAsText(self.monotonic.as_nanos());
            to.field("monotonic", monotonic);
        }
        if let Some(link) = &self.link {
            link.show(to);
        }
    }

    #[cfg(test)]
    fn sample(source: &mut Source<'a>, context: &mut FrameContext) -> Self {
        let mut fields = EntryFields::sample(source, context);
        fields.outcome %= 7;
        fields.to_entry()
    }
}
