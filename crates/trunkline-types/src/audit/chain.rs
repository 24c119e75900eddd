//! The hash chain, which makes every change of the stored audit trail evident.
//!
//! ```text
//! hash of entry n = SHA-256(hash of entry n-1, 32 bytes || canonical bytes of entry n)
//! ```
//!
//! The entry before the first one counts as [`AuditHash::ZERO`]. The canonical bytes are defined in
//! the reference, page "The audit hash chain". The chain has no key: anyone who can write the whole
//! store can compute a new chain. The new chain has other hashes from the changed entry on, so a
//! hash that was noted elsewhere ([`ChainAnchor`]) shows the change.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};

use super::{AuditAction, AuditEntry};
use crate::Timestamp;

/// Version of the canonical bytes.
const CANONICAL_VERSION: u8 = 1;
/// Maximum number of faults that a [`ChainCheck`] keeps. Further faults are only counted.
pub const CHAIN_FAULTS_MAX: usize = 100;

/// The hash of an entry, which covers all earlier entries. The text form is 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct AuditHash(pub [u8; 32]);

/// Place of an entry in the chain.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AuditLink {
    /// Hash of the entry before this one; [`AuditHash::ZERO`] if the chain begins with this entry.
    pub previous: AuditHash,
    /// Hash of this entry.
    pub hash: AuditHash,
}

/// The last entry of a chain.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct AuditHead {
    /// Number of the last entry; 0 if there is none.
    pub number: u64,
    /// Its hash; zero if there is none.
    pub hash: AuditHash,
}

impl AuditHash {
    /// The hash before the first entry of a chain.
    pub const ZERO: AuditHash = AuditHash([0; 32]);

    /// Computes the hash of an entry that follows an entry with this hash.
    pub fn followed_by(&self, entry: &AuditEntry) -> AuditHash {
        let mut hasher = Sha256::new();
        hasher.update(self.0);
        hasher.update(canonical_bytes(entry));
        AuditHash(hasher.finalize().into())
    }
}

impl AuditLink {
    /// Links an entry to the entry before it, whose hash is `previous`.
    pub fn new(previous: AuditHash, entry: &AuditEntry) -> Self {
        Self {
            previous,
            hash: previous.followed_by(entry),
        }
    }
}

/// Returns the canonical bytes of an entry: all of its content, except its place in the chain.
pub fn canonical_bytes(entry: &AuditEntry) -> Vec<u8> {
    let outcome = entry.outcome.parts();
    let texts = [
        &*entry.who,
        &*entry.from,
        &*entry.name,
        &*entry.data_type,
        &*entry.old,
        &*entry.new,
        outcome.sentence,
    ];
    let length: usize = texts.iter().map(|text| text.len() + 4).sum();
    let mut bytes = Vec::with_capacity(length + 43);
    bytes.push(CANONICAL_VERSION);
    bytes.extend(entry.number.to_le_bytes());
    bytes.extend(entry.when.as_nanos().to_le_bytes());
    bytes.extend(entry.monotonic.as_nanos().to_le_bytes());
    bytes.push(entry.action.number());
    bytes.push(outcome.number);
    bytes.extend(outcome.epoch.to_le_bytes());
    bytes.extend(outcome.count.to_le_bytes());
    for text in texts {
        // No text of an entry is longer than 4 GiB. A longer one would only lose its length here.
        bytes.extend(u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
        bytes.extend(text.as_bytes());
    }
    bytes
}

/// A hash that was noted earlier, and optionally the number of its entry. The text form is
/// `NUMBER:HASH` or `HASH`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChainAnchor {
    pub number: Option<u64>,
    pub hash: AuditHash,
}

/// A fault of the chain at one entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChainFault {
    /// The hash is not that of this content and the hash before it.
    Altered,
    /// The entry states another previous hash than that of the entry before it.
    Unlinked,
    /// Entries before this one are missing: the number of the first one.
    Missing(u64),
    /// The number is not greater than that of the entry before it.
    Order,
    /// The entry has no hash.
    NoHash,
    /// The oldest entry does not follow the entries whose removal is reported, or no entry reports
    /// the removal of those before it.
    Start,
    /// The entry cannot be read, or its checksum is wrong; contains the reason.
    Unreadable(String),
    /// The noted hash is not the hash of the entry with the noted number, or of any entry.
    OtherPast,
    /// The entry of the noted hash has been removed, because the audit trail is bounded.
    AnchorRemoved,
}

/// The result of a check.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ChainReport {
    /// Number of entries.
    pub entries: u64,
    pub first: Option<ChainEnd>,
    pub last: Option<ChainEnd>,
    /// Hash of the last entry; zero if there is none.
    pub head: AuditHash,
    /// The first faults, in the order of the entries: the number of the entry, and the fault.
    pub faults: Vec<(u64, ChainFault)>,
    /// Number of all faults.
    pub fault_count: u64,
    /// Number of the entry with the noted hash; `None` if no hash was noted, or if it was not found.
    pub anchored: Option<u64>,
}

/// The first or the last entry of a chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChainEnd {
    pub number: u64,
    pub when: Timestamp,
}

/// Checks the entries of a chain, which are passed from the oldest to the newest.
#[derive(Debug, Default)]
pub struct ChainCheck {
    report: ChainReport,
    /// Number and hash of the entry before; the hash is `None` if it is unknown.
    before: Option<(u64, Option<AuditHash>)>,
    /// Hash before the first entry; `None` if it is unknown.
    start: Option<AuditHash>,
    /// True if an entry reports the removal of the entries up to the first one.
    is_start_reported: bool,
    /// True if an entry reports a removal without a hash, as earlier versions did.
    has_unhashed_removal: bool,
    /// True if the content of an entry is not known, so it may be the one that reports the removal.
    has_unknown_content: bool,
    anchor: Option<ChainAnchor>,
}

impl ChainCheck {
    /// Begins a check. It reports a fault unless the chain contains the hash of `anchor`.
    pub fn new(anchor: Option<ChainAnchor>) -> Self {
        Self {
            anchor,
            ..Self::default()
        }
    }

    /// Checks the next entry.
    pub fn push(&mut self, entry: &AuditEntry) {
        self.follow(entry.number, entry.when);
        let Some(link) = entry.link else {
            self.push_fault(entry.number, ChainFault::NoHash);
            self.has_unknown_content = true;
            self.before = Some((entry.number, None));
            return;
        };
        match self.before {
            Some((number, Some(hash))) if number.checked_add(1) == Some(entry.number) => {
                if hash != link.previous {
                    self.push_fault(entry.number, ChainFault::Unlinked);
                }
            }
            None => {
                self.start = Some(link.previous);
                let end = entry.number.saturating_sub(1);
                self.compare_with_anchor(end, link.previous);
            }
            Some(_) => {}
        }
        if link.previous.followed_by(entry) != link.hash {
            self.push_fault(entry.number, ChainFault::Altered);
            self.has_unknown_content = true;
        }
        if entry.action == AuditAction::Removed {
            // A removal that was made during the check concerns entries that were checked before.
            self.is_start_reported |= self
                .start
                .is_some_and(|start| entry.old.parse() == Ok(start));
            self.has_unhashed_removal |= entry.old.is_empty();
        }
        self.compare_with_anchor(entry.number, link.hash);
        self.report.head = link.hash;
        self.before = Some((entry.number, Some(link.hash)));
    }

    /// Reports an entry that cannot be read. `link` is its link in the chain, if known.
    pub fn push_unreadable(&mut self, number: u64, link: Option<AuditLink>, why: String) {
        let when = self
            .report
            .last
            .map_or(Timestamp::UNIX_EPOCH, |last| last.when);
        self.follow(number, when);
        self.push_fault(number, ChainFault::Unreadable(why));
        self.has_unknown_content = true;
        if let (None, Some(link)) = (self.before, link) {
            self.start = Some(link.previous);
        }
        if let Some(link) = link {
            self.report.head = link.hash;
        }
        self.before = Some((number, link.map(|link| link.hash)));
    }

    /// Counts the entry, and compares its number with that of the entry before it.
    fn follow(&mut self, number: u64, when: Timestamp) {
        let end = ChainEnd { number, when };
        self.report.entries += 1;
        self.report.first.get_or_insert(end);
        self.report.last = Some(end);
        match self.before {
            Some((before, _)) if number <= before => self.push_fault(number, ChainFault::Order),
            Some((before, _)) if number - before > 1 => {
                self.push_fault(number, ChainFault::Missing(before + 1));
            }
            Some(_) | None => {}
        }
    }

    /// Adds a fault that was found at this entry in another way.
    pub fn push_fault(&mut self, number: u64, fault: ChainFault) {
        self.report.fault_count += 1;
        if self.report.faults.len() < CHAIN_FAULTS_MAX {
            self.report.faults.push((number, fault));
        }
    }

    fn compare_with_anchor(&mut self, number: u64, hash: AuditHash) {
        let is_anchor = self.anchor.is_some_and(|anchor| {
            anchor.hash == hash && anchor.number.is_none_or(|noted| noted == number)
        });
        if is_anchor {
            self.report.anchored = Some(number);
        }
    }

    /// Ends the check.
    pub fn finish(mut self) -> ChainReport {
        self.check_start();
        self.check_anchor();
        // The fault that concerns the whole chain may belong to an earlier entry than the others.
        self.report.faults.sort_by_key(|(number, _)| *number);
        self.report
    }

    /// Checks that the oldest entry follows those whose removal is reported.
    fn check_start(&mut self) {
        let (Some(first), Some(start)) = (self.report.first, self.start) else {
            return;
        };
        // Earlier versions removed entries without stating a hash. The chain of their audit begins
        // with the first entry that was kept.
        let may_begin = first.number == 1 || self.has_unhashed_removal;
        let is_begin = start == AuditHash::ZERO && may_begin;
        if !self.is_start_reported && !is_begin && !self.has_unknown_content {
            self.push_fault(first.number, ChainFault::Start);
        }
    }

    fn check_anchor(&mut self) {
        let Some(anchor) = self.anchor.filter(|_| self.report.anchored.is_none()) else {
            return;
        };
        let first = self.report.first.map_or(1, |first| first.number);
        match anchor.number {
            Some(number) if number < first.saturating_sub(1) => {
                self.push_fault(number, ChainFault::AnchorRemoved)
            }
            Some(number) => self.push_fault(number, ChainFault::OtherPast),
            None => self.push_fault(first, ChainFault::OtherPast),
        }
    }
}

impl ChainReport {
    /// Returns true if the chain has no fault.
    pub fn is_intact(&self) -> bool {
        self.fault_count == 0
    }
}

impl ChainFault {
    /// Returns the kind of fault, in one word.
    pub fn name(&self) -> &'static str {
        match self {
            ChainFault::Altered => "altered",
            ChainFault::Unlinked => "unlinked",
            ChainFault::Missing(_) => "missing",
            ChainFault::Order => "order",
            ChainFault::NoHash => "no-hash",
            ChainFault::Start => "start",
            ChainFault::Unreadable(_) => "unreadable",
            ChainFault::OtherPast => "other-past",
            ChainFault::AnchorRemoved => "anchor-removed",
        }
    }
}

impl fmt::Display for ChainFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChainFault::Altered => f.write_str(
                "the entry does not match its hash: this entry or the hash of the entry before it \
                 was altered",
            ),
            ChainFault::Unlinked => f.write_str(
                "the entry does not follow the entry before it; one of them was replaced",
            ),
            ChainFault::Missing(first) => {
                write!(f, "entries from number {first} up to this one are missing")
            }
            ChainFault::Order => f.write_str(
                "the number is not greater than that of the entry before it: an entry was inserted \
                 or moved",
            ),
            ChainFault::NoHash => f.write_str(
                "the entry has no hash; an engine of this version adds the hashes when it starts",
            ),
            ChainFault::Start => f.write_str(
                "the oldest entry does not follow the entries whose removal the audit trail \
                 reports: older entries were removed by another program",
            ),
            ChainFault::Unreadable(why) => write!(f, "the entry is damaged: {why}"),
            ChainFault::OtherPast => f.write_str(
                "the audit trail does not contain the noted hash: entries up to it were rewritten, \
                 or it is the hash of another audit trail or of a removed entry",
            ),
            ChainFault::AnchorRemoved => f.write_str(
                "the entry of the noted hash has been removed, because the number or the age of \
                 entries is limited; compare with a hash that was noted later",
            ),
        }
    }
}

impl fmt::Display for AuditHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for AuditHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The reason why a text is not a hash or an anchor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AuditHashError {
    /// The text does not have the form of a hash.
    #[error("a hash has 64 hexadecimal digits")]
    Hash,
    /// The text before the colon is not the number of an entry.
    #[error("the number before the colon must be the number of an entry, from 1 on")]
    Number,
}

impl FromStr for AuditHash {
    type Err = AuditHashError;

    fn from_str(text: &str) -> Result<Self, AuditHashError> {
        let mut hash = [0; 32];
        if text.len() != 64 {
            return Err(AuditHashError::Hash);
        }
        for (byte, digits) in hash.iter_mut().zip(text.as_bytes().chunks(2)) {
            *byte = digits.iter().try_fold(0, |byte: u8, digit| {
                let digit = char::from(*digit)
                    .to_digit(16)
                    .ok_or(AuditHashError::Hash)?;
                // A hexadecimal digit fits into four bits.
                Ok(byte << 4 | u8::try_from(digit).unwrap_or_default())
            })?;
        }
        Ok(AuditHash(hash))
    }
}

impl FromStr for ChainAnchor {
    type Err = AuditHashError;

    fn from_str(text: &str) -> Result<Self, AuditHashError> {
        let (number, hash) = match text.split_once(':') {
            Some((number, hash)) => {
                let number = number.parse().ok().filter(|number| *number > 0);
                (Some(number.ok_or(AuditHashError::Number)?), hash)
            }
            None => (None, text),
        };
        Ok(Self {
            number,
            hash: hash.parse()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::{AuditOutcome, Removal};
    use crate::{Position, Tick};

    fn entry(number: u64) -> AuditEntry {
        AuditEntry {
            number,
            when: Timestamp::from_nanos(1_700_000_000_000_000_000),
            monotonic: Tick::from_nanos(5_000 + number),
            who: "local:1000".to_owned(),
            from: "process 7".to_owned(),
            action: AuditAction::Put,
            name: "rig/volts".to_owned(),
            data_type: "f64".to_owned(),
            old: "1.0".to_owned(),
            new: "2.0".to_owned(),
            outcome: AuditOutcome::Applied(Position {
                epoch: 3,
                sequence: number,
            }),
            link: None,
        }
    }

    fn chain(count: u64) -> Vec<AuditEntry> {
        let mut previous = AuditHash::ZERO;
        let linked = |number| {
            let mut entry = entry(number);
            let link = AuditLink::new(previous, &entry);
            previous = link.hash;
            entry.link = Some(link);
            entry
        };
        (1..=count).map(linked).collect()
    }

    fn relink(entry: &mut AuditEntry) {
        let previous = entry.link.unwrap().previous;
        entry.link = Some(AuditLink::new(previous, entry));
    }

    fn checked(entries: &[AuditEntry], anchor: Option<ChainAnchor>) -> ChainReport {
        let mut sut = ChainCheck::new(anchor);
        entries.iter().for_each(|entry| sut.push(entry));
        sut.finish()
    }

    fn faults(entries: &[AuditEntry]) -> Vec<(u64, ChainFault)> {
        checked(entries, None).faults
    }

    /// The bytes and the hash of the reference, page "The audit hash chain".
    #[test]
    fn canonical_bytes_of_an_entry_are_those_of_the_reference() {
        let bytes = canonical_bytes(&entry(1));
        let expected = [
            &[1][..],
            &[1, 0, 0, 0, 0, 0, 0, 0],
            &[0, 0, 42, 54, 254, 156, 151, 23],
            &[0x89, 0x13, 0, 0, 0, 0, 0, 0],
            &[1, 2],
            &[3, 0, 0, 0, 0, 0, 0, 0],
            &[1, 0, 0, 0, 0, 0, 0, 0],
            &[10, 0, 0, 0],
            b"local:1000",
            &[9, 0, 0, 0],
            b"process 7",
            &[9, 0, 0, 0],
            b"rig/volts",
            &[3, 0, 0, 0],
            b"f64",
            &[3, 0, 0, 0],
            b"1.0",
            &[3, 0, 0, 0],
            b"2.0",
            &[0, 0, 0, 0],
        ]
        .concat();
        assert_eq!(bytes, expected);
        let hash = AuditHash::ZERO.followed_by(&entry(1)).to_string();
        assert_eq!(
            hash,
            "bcfc06770b9cc848c052e6a13ba1dbaf3de4e8c6af86aad165271648b2819e3a"
        );
    }

    #[test]
    fn intact_chain_has_its_ends_and_its_head() {
        let entries = chain(5);
        let report = checked(&entries, None);
        assert!(report.is_intact(), "{report:?}");
        assert_eq!(report.entries, 5);
        let ends = [report.first, report.last].map(|end| end.unwrap().number);
        assert_eq!(ends, [1, 5]);
        assert_eq!(report.head, entries[4].link.unwrap().hash);
        assert_eq!(checked(&[], None), ChainReport::default());
    }

    #[test]
    fn every_field_is_part_of_the_hash() {
        let changes: [fn(&mut AuditEntry); 13] = [
            |entry| entry.when = entry.when.saturating_add_nanos(1),
            |entry| entry.monotonic = Tick::from_nanos(1),
            |entry| entry.who.push('x'),
            |entry| entry.from.push('x'),
            |entry| entry.action = AuditAction::Set,
            |entry| entry.name.push('x'),
            |entry| entry.data_type = "f32".to_owned(),
            |entry| entry.old.clear(),
            |entry| entry.new = "2.1".to_owned(),
            |entry| entry.outcome = AuditOutcome::Done,
            |entry| entry.outcome = AuditOutcome::Refused(String::new()),
            |entry| {
                // A byte moves from one text to the next.
                entry.old.push('2');
                entry.new = ".0".to_owned();
            },
            |entry| {
                let link = entry.link.as_mut().unwrap();
                link.hash.0[31] ^= 1;
            },
        ];
        for (index, change) in changes.iter().enumerate() {
            let mut entries = chain(3);
            change(&mut entries[1]);
            let found = faults(&entries);
            assert_eq!(found[0], (2, ChainFault::Altered), "change {index}");
        }
    }

    #[test]
    fn removed_moved_and_replaced_entries_are_named() {
        let mut removed = chain(5);
        removed.remove(2);
        assert_eq!(faults(&removed), [(4, ChainFault::Missing(3))]);

        let mut swapped = chain(4);
        swapped.swap(1, 2);
        assert!(faults(&swapped).contains(&(2, ChainFault::Order)));

        // The entry has a correct hash, but the entries after it do not follow it.
        let mut replaced = chain(4);
        replaced[1].new = "3.0".to_owned();
        relink(&mut replaced[1]);
        assert_eq!(faults(&replaced), [(3, ChainFault::Unlinked)]);

        let mut unknown = chain(3);
        unknown[1].link = None;
        assert_eq!(faults(&unknown), [(2, ChainFault::NoHash)]);

        let mut beheaded = chain(4);
        beheaded.remove(0);
        assert_eq!(faults(&beheaded), [(2, ChainFault::Start)]);
    }

    #[test]
    fn reported_removal_is_the_start_of_the_chain() {
        let mut entries = chain(10);
        let end = entries[3].link.unwrap().hash;
        let when = Timestamp::UNIX_EPOCH;
        let removal = Removal {
            number: 11,
            numbers: 1..=4,
            times: when..=when,
        };
        let mut report = AuditEntry::of_removal(&removal, when, Some(end));
        report.link = Some(AuditLink::new(entries[9].link.unwrap().hash, &report));
        entries.push(report);
        assert_eq!(faults(&entries[4..]), []);
        // One entry more was removed.
        assert_eq!(faults(&entries[5..]), [(6, ChainFault::Start)]);
    }

    #[test]
    fn noted_hash_shows_a_rewritten_past() {
        let entries = chain(6);
        let noted = |number: usize| entries[number - 1].link.unwrap().hash;
        let anchor = |number, hash| Some(ChainAnchor { number, hash });
        for anchor in [anchor(None, noted(4)), anchor(Some(4), noted(4))] {
            assert_eq!(checked(&entries, anchor).anchored, Some(4));
        }
        let mut rewritten = entries.clone();
        rewritten[1].new = "3.0".to_owned();
        for index in 1..rewritten.len() {
            let previous = rewritten[index - 1].link.unwrap().hash;
            rewritten[index].link = Some(AuditLink::new(previous, &rewritten[index]));
        }
        assert_eq!(faults(&rewritten), [], "the chain itself is consistent");
        let found = checked(&rewritten, anchor(Some(4), noted(4))).faults;
        assert_eq!(found, [(4, ChainFault::OtherPast)]);
        let found = checked(&rewritten, anchor(None, noted(4))).faults;
        assert_eq!(found, [(1, ChainFault::OtherPast)]);
        // The entry before the oldest one can still be compared, older ones cannot.
        let kept = &entries[3..];
        assert_eq!(checked(kept, anchor(Some(3), noted(3))).anchored, Some(3));
        let found = checked(kept, anchor(Some(2), noted(2))).faults;
        assert!(found.contains(&(2, ChainFault::AnchorRemoved)), "{found:?}");
    }

    /// An engine can send any number.
    #[test]
    fn largest_numbers_are_checked_without_overflow() {
        let mut entries = chain(2);
        entries[0].number = u64::MAX;
        let anchor = ChainAnchor {
            number: Some(u64::MAX),
            hash: AuditHash::ZERO,
        };
        let found = checked(&entries, Some(anchor)).faults;
        assert!(found.contains(&(2, ChainFault::Order)), "{found:?}");
        assert!(
            found.contains(&(u64::MAX, ChainFault::OtherPast)),
            "{found:?}"
        );
    }

    #[test]
    fn hash_is_read_from_its_text() {
        let hash = AuditHash::ZERO.followed_by(&entry(1));
        assert_eq!(hash.to_string().parse(), Ok(hash));
        let anchor: ChainAnchor = format!("17:{hash}").parse().unwrap();
        assert_eq!((anchor.number, anchor.hash), (Some(17), hash));
        assert_eq!(
            hash.to_string().parse::<ChainAnchor>().unwrap().number,
            None
        );
        for wrong in ["", "12", &"g".repeat(64), &"ä".repeat(32), &"0".repeat(65)] {
            assert_eq!(wrong.parse::<AuditHash>(), Err(AuditHashError::Hash));
        }
        for wrong in [format!("0:{hash}"), format!("x:{hash}"), format!(":{hash}")] {
            assert_eq!(wrong.parse::<ChainAnchor>(), Err(AuditHashError::Number));
        }
    }
}
