//! The audit: who did what to an engine, from where, when, and what came of it (B-24).
//!
//! ```text
//! number | when | who | from | action | name | type | old -> new | outcome
//! ```
//!
//! Entries are numbered from 1 on without a gap, whatever happens to the engine; the oldest are
//! removed, and those that are left say by their numbers how many.

use std::fmt;
use std::ops::RangeInclusive;

use crate::{Effort, Pattern, Position, Timestamp};

/// Longest text of a value, bytes; what is longer is cut and ends in `…`.
pub const AUDIT_VALUE_BYTES_MAX: usize = 256;
/// Longest other text of an entry, bytes.
pub const AUDIT_TEXT_BYTES_MAX: usize = 1024;
/// Most entries of one page.
pub const AUDIT_PAGE_MAX: usize = 500;
/// Entries that are looked at for one page, whether they are asked for or not.
pub const AUDIT_SCAN_MAX: usize = 5_000;
/// Steps of an [`Effort`] after which a page ends, however few entries were looked at: a slow
/// pattern costs as many pages more as it is slower.
pub const AUDIT_STEPS_MAX: usize = 400_000;

/// Whether writes of clients to a variable get entries in the audit.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum AuditMode {
    /// They do not.
    #[default]
    Off,
    /// They do while there is room; a write never waits for the audit. Entries that find no room
    /// are counted, and one entry in their place says how many are missing.
    BestEffort,
    /// Each does: a write waits until there is room for its entry, and is refused where the audit
    /// cannot be stored.
    Complete,
}

/// One thing that somebody did, or tried to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuditEntry {
    /// Its number: one more than that of the entry before it.
    pub number: u64,
    /// When it ended, by the engine's clock.
    pub when: Timestamp,
    /// On whose behalf.
    pub who: String,
    /// From where: address, program and process as far as they are known.
    pub from: String,
    /// What was to be done.
    pub action: AuditAction,
    /// With what: a variable's full name, or that of a library; empty: the whole engine.
    pub name: String,
    /// The type of the values; empty without values.
    pub data_type: String,
    /// The value before, as text; empty when there was none.
    pub old: String,
    /// The value that was to be written, as text; of an order, what it changed.
    pub new: String,
    /// What came of it.
    pub outcome: AuditOutcome,
}

impl AuditEntry {
    /// The entry that reports the removal of the oldest entries, with their numbers and times.
    pub fn of_removal(
        number: u64,
        when: Timestamp,
        numbers: RangeInclusive<u64>,
        times: RangeInclusive<Timestamp>,
    ) -> Self {
        let (first, last) = numbers.into_inner();
        let (from, to) = times.into_inner();
        let count = (last + 1).saturating_sub(first);
        Self {
            number,
            when,
            who: "engine".to_owned(),
            from: "engine".to_owned(),
            action: AuditAction::Removed,
            name: String::new(),
            data_type: String::new(),
            old: String::new(),
            new: format!("{count} entries, numbers {first} to {last}, from {from} to {to}"),
            outcome: AuditOutcome::Done,
        }
    }
}

macro_rules! actions {
    ($($(#[doc = $doc:literal])+ $variant:ident = $number:literal, $name:literal;)+) => {
        /// What was to be done.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[non_exhaustive]
        pub enum AuditAction {
            $($(#[doc = $doc])+ $variant,)+
            /// Something that only a newer version knows, by its number.
            Other(u8),
        }

        impl AuditAction {
            /// Every action that this version knows.
            pub const ALL: &[AuditAction] = &[$(AuditAction::$variant,)+];

            /// The number that stands for it in stores and frames.
            pub const fn number(self) -> u8 {
                match self {
                    $(AuditAction::$variant => $number,)+
                    AuditAction::Other(number) => number,
                }
            }

            /// The action of this number.
            pub const fn from_number(number: u8) -> Self {
                match number {
                    $($number => AuditAction::$variant,)+
                    other => AuditAction::Other(other),
                }
            }

            /// What people call it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(AuditAction::$variant => $name,)+
                    AuditAction::Other(_) => "other",
                }
            }
        }
    };
}

actions! {
    /// A value was written.
    Put = 1, "put";
    /// A value was written to the engine only.
    Set = 2, "set";
    /// The engine's value was sent to the device.
    Send = 3, "send";
    /// A variable was held at a value.
    Force = 4, "force";
    /// A variable was let go.
    Unforce = 5, "unforce";
    /// Forced values hold from now on.
    ForcingOn = 10, "forcing on";
    /// Forced values no longer hold.
    ForcingOff = 11, "forcing off";
    /// Every variable was let go.
    ForcingClear = 12, "forcing clear";
    /// A library was deployed, or replaced.
    Deploy = 20, "deploy";
    /// A library was undeployed.
    Undeploy = 21, "undeploy";
    /// A library was started.
    Start = 22, "start";
    /// A library was stopped.
    Stop = 23, "stop";
    /// The engine was started.
    EngineStart = 30, "engine start";
    /// The engine was stopped in order; before a start it is missing when it was not.
    EngineStop = 31, "engine stop";
    /// Entries found no room.
    Lost = 40, "lost";
    /// The oldest entries were removed.
    Removed = 41, "removed";
}

/// What came of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AuditOutcome {
    /// An order was carried out.
    Done,
    /// The write is the update at this position.
    Applied(Position),
    /// The write changed nothing: the variable held that already, at this position.
    Unchanged(Position),
    /// Nothing was changed; the rule, in a sentence.
    Refused(String),
    /// Nobody can say; the cause, in a sentence.
    Unknown(String),
    /// So many entries found no room and are missing here.
    Lost(u64),
}

/// Which entries are asked for.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct AuditQuery {
    /// Where the page begins: the number of its first entry, the newest first as well as the
    /// oldest first; `None`: at the end where it begins.
    pub from: Option<u64>,
    /// Only those from then on.
    pub since: Option<Timestamp>,
    /// Only those with a matching name.
    pub pattern: Option<Pattern>,
    /// Only those of whom this says.
    pub who: Option<String>,
    /// From the newest to the oldest, instead of the other way.
    pub newest_first: bool,
    /// Most entries in the answer; 0: as many as a page holds.
    pub limit: u32,
}

/// A page of the audit.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AuditPage {
    /// In the order that was asked for; a page may be empty although others follow.
    pub entries: Vec<AuditEntry>,
    /// Where the next page begins; `None`: this is the last.
    pub next: Option<u64>,
    /// How many entries were removed so far, the oldest ones.
    pub removed: u64,
    /// Where the entries are kept and what is wrong with that, in a sentence.
    pub state: String,
}

impl AuditQuery {
    /// Whether an entry is one of those asked for, wherever it stands.
    pub fn matches(&self, entry: &AuditEntry) -> bool {
        self.matches_within(&mut Effort::new(usize::MAX), entry)
    }

    fn matches_within(&self, effort: &mut Effort, entry: &AuditEntry) -> bool {
        let is_since = self.since.is_none_or(|since| entry.when >= since);
        let is_whose = self.who.as_ref().is_none_or(|who| *who == entry.who);
        let mut is_named = || {
            self.pattern
                .as_ref()
                .is_none_or(|pattern| pattern.matches_within(effort, &entry.name))
        };
        is_since && is_whose && is_named()
    }

    /// Takes a page out of the entries from [`from`](Self::from) on, in the order that is asked
    /// for: the entries, and where the next page begins.
    ///
    /// # Errors
    /// The first error of `entries`.
    pub fn take_page<E>(
        &self,
        entries: impl Iterator<Item = Result<AuditEntry, E>>,
    ) -> Result<(Vec<AuditEntry>, Option<u64>), E> {
        let limit = match self.limit {
            0 => AUDIT_PAGE_MAX,
            limit => AUDIT_PAGE_MAX.min(limit as usize),
        };
        let mut page = Vec::new();
        let mut effort = Effort::new(AUDIT_STEPS_MAX);
        for (looked, entry) in entries.enumerate() {
            let entry = entry?;
            if page.len() >= limit || looked >= AUDIT_SCAN_MAX || effort.is_spent() {
                return Ok((page, Some(entry.number)));
            }
            if self.matches_within(&mut effort, &entry) {
                page.push(entry);
            }
        }
        Ok((page, None))
    }
}

impl AuditOutcome {
    /// Its kind, in a word.
    pub fn name(&self) -> &'static str {
        match self {
            AuditOutcome::Done => "done",
            AuditOutcome::Applied(_) => "applied",
            AuditOutcome::Unchanged(_) => "unchanged",
            AuditOutcome::Refused(_) => "refused",
            AuditOutcome::Unknown(_) => "unknown",
            AuditOutcome::Lost(_) => "lost",
        }
    }
}

/// At most `max` bytes of `text`, and at the end `…` when something is missing.
pub fn cut(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(max.saturating_sub('…'.len_utf8()));
    format!("{}…", text.get(..end).unwrap_or_default())
}

impl fmt::Display for AuditAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AuditAction::Other(number) => write!(f, "action {number}"),
            known => f.write_str(known.name()),
        }
    }
}

impl fmt::Display for AuditOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AuditOutcome::Done => f.write_str("done"),
            AuditOutcome::Applied(position) => write!(f, "applied at {}", position.sequence),
            AuditOutcome::Unchanged(position) => write!(f, "unchanged at {}", position.sequence),
            AuditOutcome::Refused(rule) => write!(f, "refused: {rule}"),
            AuditOutcome::Unknown(cause) => write!(f, "unknown: {cause}"),
            AuditOutcome::Lost(count) => write!(f, "{count} entries found no room"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_keep_their_numbers() {
        for action in AuditAction::ALL {
            assert_eq!(AuditAction::from_number(action.number()), *action);
        }
        assert_eq!(AuditAction::from_number(200).number(), 200);
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        assert_eq!(cut("short", 5), "short");
        assert_eq!(cut("longer", 5), "lo…");
        assert_eq!(cut("ääää", 6), "ä…");
        assert_eq!(cut("ääää", 8), "ääää");
    }

    /// Behaviour: B-83, B-24.
    #[test]
    fn a_slow_pattern_gets_short_pages_and_all_of_them_together_are_complete() {
        const ENTRIES: u64 = 400;
        let slow = "**/ab/**/a*b*/**/*a*b*/**/*b/*c";
        let entry = |number: u64| AuditEntry {
            number,
            when: Timestamp::UNIX_EPOCH,
            who: String::new(),
            from: String::new(),
            action: AuditAction::Put,
            name: match number % 100 {
                0 => "rig/ab/ab/ab/ab/xc".to_owned(),
                _ => format!("rig/{}{number}", "ab/".repeat(300)),
            },
            data_type: String::new(),
            old: String::new(),
            new: String::new(),
            outcome: AuditOutcome::Done,
        };
        for (pattern, pages_least, pages_most) in [(slow, 5, 400), ("rig/**", 1, 4)] {
            let mut sut = AuditQuery {
                pattern: Some(Pattern::parse(pattern).unwrap()),
                from: Some(1),
                ..AuditQuery::default()
            };
            let (mut found, mut pages) = (Vec::new(), 0);
            while let Some(from) = sut.from {
                let entries = (from..=ENTRIES).map(entry).map(Ok::<_, ()>);
                let (page, next) = sut.take_page(entries).unwrap();
                found.extend(page.iter().map(|entry| entry.number));
                pages += 1;
                sut.from = next;
            }
            assert!(
                (pages_least..=pages_most).contains(&pages),
                "{pattern}: {pages} pages"
            );
            let expected = (1..=ENTRIES).filter(|n| pattern != slow || n % 100 == 0);
            assert_eq!(found, expected.collect::<Vec<_>>());
        }
    }
}
