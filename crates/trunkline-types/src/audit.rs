//! The audit trail: a record of who acted on an engine, from where, when and with what outcome (B-24).
//!
//! ```text
//! number | when | who | from | action | name | type | old -> new | outcome
//! ```
//!
//! Entries are numbered consecutively from 1, even across crashes and restarts of the engine. The
//! oldest entries are removed; the number of the oldest remaining entry shows how many have been
//! removed. A hash chain makes every other change evident.

mod chain;

use std::fmt;
use std::ops::RangeInclusive;

pub use self::chain::{
    AuditHash, AuditHashError, AuditHead, AuditLink, CHAIN_FAULTS_MAX, ChainAnchor, ChainCheck,
    ChainEnd, ChainFault, ChainReport, canonical_bytes,
};
use crate::permitted::PermittedNames;
use crate::{Pattern, Position, StepBudget, Tick, Timestamp};

/// Maximum length of the text of a value, in bytes; a longer text is truncated and ends in `…`.
pub const AUDIT_VALUE_BYTES_MAX: usize = 256;
/// Maximum length of any other text in an entry, in bytes.
pub const AUDIT_TEXT_BYTES_MAX: usize = 1024;
/// Maximum number of entries of one page.
pub const AUDIT_PAGE_MAX: usize = 500;
/// Maximum number of entries examined for one page, including those that do not match.
pub const AUDIT_SCAN_MAX: usize = 5_000;
/// Number of steps of a [`StepBudget`] after which a page ends, regardless of the number of entries
/// examined. A query with a slow pattern therefore takes more pages.
pub const AUDIT_STEPS_MAX: usize = 400_000;

/// Selects whether client writes to a variable are recorded in the audit trail.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum AuditMode {
    /// Writes are not audited.
    #[default]
    Off,
    /// Writes are audited, but never wait for the audit trail. If the audit trail has no room for an entry,
    /// the entry is dropped. One entry in the place of the dropped entries reports their number.
    BestEffort,
    /// Every write is audited. A write waits until the audit trail has room for its entry, and is refused if
    /// the audit trail cannot be stored.
    Complete,
}

/// An action that was carried out or attempted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuditEntry {
    /// Number of the entry: the number of the previous entry plus one.
    pub number: u64,
    /// Time at which the action ended, by the engine's clock.
    pub when: Timestamp,
    /// The same time by the engine's monotonic clock, which no change of the system clock affects.
    /// Comparable only between entries of one start of the engine. Zero if it is not known.
    pub monotonic: Tick,
    /// The principal on whose behalf the action was carried out.
    pub who: String,
    /// The origin of the action: address, program and process, if known.
    pub from: String,
    pub action: AuditAction,
    /// Full name of the variable, or name of the library; empty for an action on the whole engine.
    pub name: String,
    /// The type of `old` and `new`; empty if the action has no values.
    pub data_type: String,
    /// The previous value, as text; empty if there was none.
    pub old: String,
    /// The new value, as text; for an action on a library or on the engine, a description of the
    /// change.
    pub new: String,
    pub outcome: AuditOutcome,
    /// Link in the hash chain; `None` before the entry is stored, and if the engine is of an earlier version.
    pub link: Option<AuditLink>,
}

/// The removal of the oldest entries of the audit trail or of the alarm journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Removal {
    /// Number of the entry that reports the removal.
    pub number: u64,
    /// Numbers of the removed entries.
    pub numbers: RangeInclusive<u64>,
    /// Times of the first and the last removed entry.
    pub times: RangeInclusive<Timestamp>,
}

impl Removal {
    /// Returns the number of removed entries.
    pub fn count(&self) -> u64 {
        (self.numbers.end() + 1).saturating_sub(*self.numbers.start())
    }
}

impl fmt::Display for Removal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((first, last), (from, to)) = (
            (self.numbers.start(), self.numbers.end()),
            (self.times.start(), self.times.end()),
        );
        let count = self.count();
        write!(
            f,
            "{count} entries, numbers {first} to {last}, from {from} to {to}"
        )
    }
}

impl AuditEntry {
    /// Builds the entry that reports a removal. `hash` is the hash of the last removed entry, to
    /// which the oldest remaining entry is linked.
    pub fn of_removal(removal: &Removal, when: Timestamp, hash: Option<AuditHash>) -> Self {
        Self {
            number: removal.number,
            when,
            monotonic: Tick::ZERO,
            who: "engine".to_owned(),
            from: "engine".to_owned(),
            action: AuditAction::Removed,
            name: String::new(),
            data_type: String::new(),
            old: hash.map(|hash| hash.to_string()).unwrap_or_default(),
            new: removal.to_string(),
            outcome: AuditOutcome::Done,
            link: None,
        }
    }
}

macro_rules! actions {
    ($($(#[doc = $doc:literal])+ $variant:ident = $number:literal, $name:literal;)+) => {
        /// The kind of an audited action.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum AuditAction {
            $($(#[doc = $doc])+ $variant,)+
            /// An action defined by a newer version; contains its number.
            Other(u8),
        }

        impl AuditAction {
            /// Every action known to this version.
            pub const ALL: &[AuditAction] = &[$(AuditAction::$variant,)+];

            /// Returns the number of the action in stores and frames.
            pub const fn number(self) -> u8 {
                match self {
                    $(AuditAction::$variant => $number,)+
                    AuditAction::Other(number) => number,
                }
            }

            pub const fn from_number(number: u8) -> Self {
                match number {
                    $($number => AuditAction::$variant,)+
                    other => AuditAction::Other(other),
                }
            }

            /// Returns the name shown to users.
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
    /// A variable was forced to a value.
    Force = 4, "force";
    /// A variable was released from forcing.
    Unforce = 5, "unforce";
    /// Forcing was switched on for the engine: forced values take effect.
    ForcingOn = 10, "forcing on";
    /// Forcing was switched off for the engine: forced values no longer take effect.
    ForcingOff = 11, "forcing off";
    /// Every variable was released from forcing.
    ForcingClear = 12, "forcing clear";
    /// A library was deployed or replaced.
    Deploy = 20, "deploy";
    /// A library was undeployed.
    Undeploy = 21, "undeploy";
    /// A library was started.
    Start = 22, "start";
    /// A library was stopped.
    Stop = 23, "stop";
    /// A program became the provider of an I/O server's variables, which the name names.
    Provide = 24, "provide";
    /// The engine was started.
    EngineStart = 30, "engine start";
    /// The engine was shut down cleanly. A start without a preceding stop follows a crash.
    EngineStop = 31, "engine stop";
    /// The engine was ordered to stop.
    StopOrder = 32, "stop order";
    /// The engine was ordered to read its configuration files again. The new value is a description of what changed.
    ReloadOrder = 33, "reload order";
    /// Entries are missing because the audit trail had no room for them.
    Lost = 40, "lost";
    /// The oldest entries were removed. The old value is the hash of the last removed entry.
    Removed = 41, "removed";
    /// A caller proved an identity, or failed to. The new value names the account and the method.
    Login = 50, "login";
    /// A session ended. The new value is the cause.
    Logout = 51, "logout";
    /// The engine ended a session, because its account or its rights were withdrawn. The new value is
    /// the cause.
    Revoke = 52, "revoke";
    /// A request was refused, because the caller has no right to make it. The new value names the
    /// request.
    Request = 53, "request";
    /// The accounts, roles or rules of access were changed. The new value is the change.
    AccessChange = 54, "access change";
    /// The configuration of the engine was changed. The new value is the change.
    Configure = 55, "configure";
    /// An alarm was acknowledged. The name is that of its variable; the new value is the name of the
    /// alarm, its new state and the comment. The same applies to the next actions.
    AlarmAcknowledge = 60, "alarm ack";
    /// A latched alarm was reset.
    AlarmReset = 61, "alarm reset";
    /// An alarm was shelved, so that it is hidden for a time.
    AlarmShelve = 62, "alarm shelve";
    /// An alarm was unshelved before its time was over.
    AlarmUnshelve = 63, "alarm unshelve";
    /// An alarm was taken out of service.
    AlarmDisable = 64, "alarm disable";
    /// An alarm was returned to service.
    AlarmEnable = 65, "alarm enable";
    /// A client got control of a folder. The name is the folder, or `**` for every variable; the new
    /// value is the level, and from whom control was taken. The same applies to the next actions.
    ControlTake = 70, "control take";
    /// A client asked for control of a folder that another client controls.
    ControlRequest = 71, "control request";
    /// A client released its control, or withdrew its request.
    ControlRelease = 72, "control release";
    /// A client handed its control over to one that had asked for it.
    ControlGive = 73, "control give";
    /// The engine ended control: its time had passed, its session had ended, or another client took
    /// control.
    ControlEnd = 74, "control end";
    /// A client leased a variable whose writes are recorded. The new value is the duration. Renewals of
    /// a lease have no entries.
    LeaseTake = 75, "lease take";
    /// A lease ended. The new value is the cause.
    LeaseEnd = 76, "lease end";
    /// An endpoint of a stream registered its name with the engine. The name is that of the stream.
    StreamRegister = 77, "stream register";
    /// The engine passed a connection to an endpoint of a stream. The name is that of this endpoint; the
    /// principal opened the connection.
    StreamConnect = 78, "stream connect";
}

/// The outcome of an audited action.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AuditOutcome {
    /// The action was carried out.
    Done,
    /// The write became the update at this position.
    Applied(Position),
    /// The write changed nothing: the value was within the deadband of the update at this position.
    Unchanged(Position),
    /// The action was refused and changed nothing; contains the violated rule, in a sentence.
    Refused(String),
    /// It is unknown whether anything was changed; contains the cause, in a sentence.
    Unknown(String),
    /// Entries are missing here because the audit trail had no room for them; contains their number.
    Lost(u64),
}

/// Selects entries of the audit trail.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct AuditQuery {
    /// Number of the first entry of the page, in either order. `None` starts at the newest or the
    /// oldest entry, according to the order.
    pub from: Option<u64>,
    /// Selects entries from this time on.
    pub since: Option<Timestamp>,
    /// Selects entries with a matching name.
    pub pattern: Option<Pattern>,
    /// Selects entries of this principal.
    pub who: Option<String>,
    /// True to return entries from newest to oldest; the default is oldest first.
    pub newest_first: bool,
    /// Maximum number of entries in the answer; 0 for the maximum of a page.
    pub limit: u32,
    /// The variables and libraries about which the reader may read entries. Entries without a name
    /// concern the engine as a whole, and are always included.
    pub permitted: PermittedNames,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AuditPage {
    /// The entries in the requested order. A page may be empty although more pages follow.
    pub entries: Vec<AuditEntry>,
    /// Number of the first entry of the next page; `None` if this is the last page.
    pub next: Option<u64>,
    /// Number of entries removed so far, oldest first.
    pub removed: u64,
    /// The place where the entries are stored and any problem of the store, in a sentence.
    pub state: String,
}

impl AuditQuery {
    /// Returns true if the entry matches the filters, regardless of its position.
    pub fn matches(&self, entry: &AuditEntry) -> bool {
        self.matches_within(&mut StepBudget::new(usize::MAX), entry)
    }

    fn matches_within(&self, budget: &mut StepBudget, entry: &AuditEntry) -> bool {
        let is_recent = self.since.is_none_or(|since| entry.when >= since);
        let is_by_principal = self.who.as_ref().is_none_or(|who| *who == entry.who);
        let mut name_matches = || {
            self.pattern
                .as_ref()
                .is_none_or(|pattern| pattern.matches_within(budget, &entry.name))
        };
        let is_permitted = || entry.name.is_empty() || self.permitted.contains(&entry.name);
        is_recent && is_by_principal && name_matches() && is_permitted()
    }

    /// Takes a page from `entries`, which must start at [`from`](Self::from) and be in the
    /// requested order. Returns the matching entries and the number at which the next page begins.
    pub fn take_page<E>(
        &self,
        entries: impl Iterator<Item = Result<AuditEntry, E>>,
    ) -> Result<(Vec<AuditEntry>, Option<u64>), E> {
        let matches =
            |budget: &mut StepBudget, entry: &AuditEntry| self.matches_within(budget, entry);
        PageScan::new(self.limit).take(entries, |entry| entry.number, matches)
    }
}

/// Limits the scan for one page of the audit trail or of the alarm journal.
pub(crate) struct PageScan {
    limit: usize,
}

impl PageScan {
    /// Creates the limits for a page of `limit` entries; 0 selects the maximum of a page.
    pub(crate) fn new(limit: u32) -> Self {
        Self {
            limit: match limit {
                0 => AUDIT_PAGE_MAX,
                limit => AUDIT_PAGE_MAX.min(limit as usize),
            },
        }
    }

    /// Takes the matching entries until the page is full or the scan has reached a limit. Returns the
    /// entries and the number of the entry at which the next page begins.
    pub(crate) fn take<T, E>(
        self,
        entries: impl Iterator<Item = Result<T, E>>,
        number: impl Fn(&T) -> u64,
        matches: impl Fn(&mut StepBudget, &T) -> bool,
    ) -> Result<(Vec<T>, Option<u64>), E> {
        let mut page = Vec::new();
        let mut budget = StepBudget::new(AUDIT_STEPS_MAX);
        for (examined, entry) in entries.enumerate() {
            let entry = entry?;
            if page.len() >= self.limit || examined >= AUDIT_SCAN_MAX || budget.is_spent() {
                return Ok((page, Some(number(&entry))));
            }
            if matches(&mut budget, &entry) {
                page.push(entry);
            }
        }
        Ok((page, None))
    }
}

/// The content of an outcome in columns. Columns that a kind of outcome does not use are 0 or empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutcomeParts<'a> {
    /// Number of the kind of outcome, in stores and canonical bytes.
    pub number: u8,
    pub epoch: u64,
    /// The sequence of a position, or the number of missing entries.
    pub count: u64,
    /// The rule or the cause.
    pub sentence: &'a str,
}

impl AuditOutcome {
    /// Returns the content of the outcome in columns.
    pub fn parts(&self) -> OutcomeParts<'_> {
        let parts = |number, epoch, count, sentence| OutcomeParts {
            number,
            epoch,
            count,
            sentence,
        };
        match self {
            AuditOutcome::Done => parts(1, 0, 0, ""),
            AuditOutcome::Applied(position) => parts(2, position.epoch, position.sequence, ""),
            AuditOutcome::Unchanged(position) => parts(3, position.epoch, position.sequence, ""),
            AuditOutcome::Refused(rule) => parts(4, 0, 0, rule),
            AuditOutcome::Unknown(cause) => parts(5, 0, 0, cause),
            AuditOutcome::Lost(count) => parts(6, 0, *count, ""),
        }
    }

    /// Returns the kind of outcome, in one word.
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

/// Truncates `text` to at most `max` bytes; a truncated text ends in `…`.
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
            AuditOutcome::Applied(position) => write!(f, "applied as update {}", position.sequence),
            AuditOutcome::Unchanged(position) => {
                write!(f, "unchanged since update {}", position.sequence)
            }
            AuditOutcome::Refused(rule) => write!(f, "refused: {rule}"),
            AuditOutcome::Unknown(cause) => write!(f, "unknown: {cause}"),
            AuditOutcome::Lost(count) => {
                write!(
                    f,
                    "{count} entries are missing because the audit trail had no room for them"
                )
            }
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
    fn query_with_a_slow_pattern_takes_more_pages_but_finds_every_entry() {
        const ENTRIES: u64 = 400;
        let slow = "**/ab/**/a*b*/**/*a*b*/**/*b/*c";
        let entry = |number: u64| AuditEntry {
            number,
            when: Timestamp::UNIX_EPOCH,
            monotonic: Tick::ZERO,
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
            link: None,
        };
        for (pattern, pages_min, pages_max) in [(slow, 5, 400), ("rig/**", 1, 4)] {
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
                (pages_min..=pages_max).contains(&pages),
                "{pattern}: {pages} pages"
            );
            let expected = (1..=ENTRIES).filter(|n| pattern != slow || n % 100 == 0);
            assert_eq!(found, expected.collect::<Vec<_>>());
        }
    }
}
