//! The state that an engine keeps across restarts, and the trait of its store.
//!
//! The engine opens no file. Its host calls a store, without holding any of the locks of the
//! engine. Each call is one atomic step: when it returns successfully, it is done and survives a
//! power cut; otherwise it has no effect.

use std::fmt;
use std::time::Duration;

use trunkline_types::alarm::{AlarmEntry, AlarmJournalPage, AlarmJournalQuery, SavedAlarm};
use trunkline_types::audit::AuditHead;
use trunkline_types::{
    AuditEntry, AuditPage, AuditQuery, DataType, LibraryDefinition, Quality, Timestamp,
};

use super::figures::Space;
use crate::outcome::orders::LibraryState;
use crate::update::Encoded;

/// The bound of the audit trail, and of the alarm journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogBound {
    pub entries: u64,
    pub age: Option<Duration>,
    pub now: Timestamp,
}

impl LogBound {
    /// Returns the number up to which entries must be removed, given that `first` to `last` exist.
    /// Nothing is removed within the bound; beyond it a tenth is removed at once, so that few
    /// entries report removals.
    pub fn remove_through(&self, first: u64, last: u64) -> Option<u64> {
        let max = self.entries.max(2);
        let left = max - (max / 10).max(1);
        let count = (last + 1).saturating_sub(first);
        (count > max).then(|| last - left)
    }

    /// Returns the time before which entries must be removed, if the oldest exceeds the maximum age
    /// by a tenth.
    pub fn remove_before(&self, oldest: Timestamp) -> Option<Timestamp> {
        let age = self.age?;
        let before = |age: Duration| {
            let nanos = i64::try_from(age.as_nanos()).unwrap_or(i64::MAX);
            self.now.saturating_add_nanos(-nanos)
        };
        (oldest < before(age.saturating_add(age / 10))).then(|| before(age))
    }
}

/// Stores libraries, the count of starts, the newest values, the audit trail, and alarms with their
/// journal.
pub trait Store: Send {
    fn location(&self) -> String;

    /// Returns the parts found damaged. They are set aside, and not served.
    fn damage(&mut self) -> Vec<Damage> {
        Vec::new()
    }

    /// Checks that the store's file is still in its place.
    ///
    /// # Errors
    /// [`StoreError`] if it was removed or replaced; from then on nothing is saved.
    fn check_place(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Returns the space of the file system where the store is; `None` if that is not known.
    fn disk_space(&mut self) -> Option<Space> {
        None
    }

    /// Records a start of the engine. Returns the id of the store and the number of the start.
    ///
    /// # Errors
    /// [`StoreError`]; the start is not counted.
    fn record_start(&mut self) -> Result<Start, StoreError>;

    /// Returns the saved libraries, in the order in which they were first saved.
    fn libraries(&mut self) -> Result<Vec<StoredLibrary>, StoreError>;

    /// Saves a library. A library with the same name is replaced, and keeps its position in the
    /// order. In the same step, retained values are dropped if their variable no longer exists or
    /// has another type, and the states of alarms if their variable no longer has the alarm.
    ///
    /// # Errors
    /// [`StoreError`]; the library is stored as it was before.
    fn save_library(&mut self, library: &StoredLibrary) -> Result<(), StoreError>;

    /// Records the state of a library. Does nothing if the library is not saved.
    ///
    /// # Errors
    /// [`StoreError`]; nothing is recorded.
    fn set_state(&mut self, name: &str, state: LibraryState) -> Result<(), StoreError>;

    /// Removes a library with its retained values and the states of its alarms. Does nothing if the
    /// library is not saved.
    ///
    /// # Errors
    /// [`StoreError`]; the library is stored as it was before.
    fn remove_library(&mut self, name: &str) -> Result<(), StoreError>;

    /// Returns the retained values of a library's variables, whether the library is saved or not.
    fn retained(&mut self, library: &str) -> Result<Vec<RetainedValue>, StoreError>;

    /// Retains these values, all or none.
    ///
    /// # Errors
    /// [`StoreError`]; the values retained before remain.
    fn retain(&mut self, values: &[RetainedValue]) -> Result<(), StoreError>;

    /// Returns the number and the hash of the audit's last entry.
    fn audit_end(&mut self) -> Result<AuditHead, StoreError>;

    /// Links entries to the hash chain and appends them to the audit trail, all or none. Returns
    /// the number and the hash of the last entry.
    ///
    /// In the same step the oldest entries beyond `bound` are removed; the step then ends with an
    /// entry that reports the removal. The numbers of new entries must follow those of existing
    /// ones. An entry whose number exists is the same entry and is left as it is, so that a step
    /// with an unknown outcome can be repeated. Nothing else changes the audit trail.
    ///
    /// # Errors
    /// [`StoreError`]; the audit trail is unchanged.
    fn append_audit(
        &mut self,
        entries: &[AuditEntry],
        bound: LogBound,
    ) -> Result<AuditHead, StoreError>;

    fn audit(&mut self, query: &AuditQuery) -> Result<AuditPage, StoreError>;

    /// Returns the kept states of the alarms of a library's variables, whether the library is saved
    /// or not.
    fn alarms(&mut self, library: &str) -> Result<Vec<SavedAlarm>, StoreError>;

    /// Drops the states of alarms that the library does not have, whether it is saved or not.
    ///
    /// # Errors
    /// [`StoreError`]; the states are unchanged.
    fn keep_only_alarms(&mut self, library: &LibraryDefinition) -> Result<(), StoreError>;

    /// Returns the number of the last entry of the alarm journal; 0 if there is none.
    fn alarm_journal_end(&mut self) -> Result<u64, StoreError>;

    /// Keeps the states of alarms and appends entries to the alarm journal, all or none, and returns
    /// the number of the last entry. The state of an alarm that is gone is dropped. Entries are
    /// handled as by [`append_audit`](Self::append_audit).
    ///
    /// # Errors
    /// [`StoreError`]; states and journal are unchanged.
    fn keep_alarms(
        &mut self,
        states: &[SavedAlarm],
        entries: &[AlarmEntry],
        bound: LogBound,
    ) -> Result<u64, StoreError>;

    fn alarm_journal(&mut self, query: &AlarmJournalQuery) -> Result<AlarmJournalPage, StoreError>;
}

/// A damaged part of a store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Damage {
    /// Kind of the damaged part: a library, a retained value.
    pub kind: String,
    /// Its name, if it can be read.
    pub name: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Start {
    /// Identifies the store. Drawn at random when the store is created; copies of the file share
    /// it.
    pub engine_id: [u8; 16],
    /// Number of starts with this store, including this one. Greater than at any earlier start.
    pub count: u64,
}

impl Start {
    /// Returns the epoch of this start, given random bits.
    ///
    /// The count alone cannot be the epoch: a re-created store, a restored backup and the store of
    /// another machine all count 1, 2, 3. The count takes the upper 21 bits, so two starts of one
    /// store always differ. The random bits take the lower 32, so starts of different stores and of
    /// copies differ. A number of 53 bits is exact in every JSON reader.
    pub fn epoch(&self, random: u64) -> u64 {
        let (count, random) = (self.count & 0x1f_ffff, random & 0xffff_ffff);
        // 0 means no epoch.
        (count << 32 | random).max(1)
    }
}

#[derive(Clone, PartialEq, Debug)]
pub struct StoredLibrary {
    pub definition: LibraryDefinition,
    pub state: LibraryState,
}

/// The newest value of a variable that retains it across restarts.
#[derive(Clone, PartialEq, Debug)]
pub struct RetainedValue {
    pub name: String,
    /// Type of the value. It is not restored to a variable that now has a different
    /// type.
    pub data_type: DataType,
    /// The value in wire form. It shares memory with the variable's own.
    pub value: Encoded,
    pub source_timestamp: Timestamp,
    /// Quality of the value when it was stored.
    pub quality: Quality,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the store {location} {kind}")]
pub struct StoreError {
    pub location: String,
    /// The fault; its message includes the remedy.
    pub kind: StoreErrorKind,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StoreErrorKind {
    Damaged(String),
    Newer {
        found: u32,
        /// Newest format version that this program knows.
        known: u32,
    },
    InUse,
    Full,
    NoMemory,
    ReadOnly,
    /// The store is a folder instead of a file.
    Folder,
    CannotOpen(OpenFault),
    Failed(String),
    Replaced,
}

/// The reason why a store, or the folder of a history, cannot be opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OpenFault {
    Missing,
    /// A part of the path is a file.
    FileInPath,
    /// The folder contains no history.
    NoHistory,
    /// The folder is the spool of a history.
    Spool,
    /// Another folder is at the place of the folder that was opened first.
    OtherFolder,
    /// The identity of the history cannot be read from its file.
    Identity,
    /// An earlier release wrote a log, in a format that this release cannot read.
    EarlierLog,
    /// SQLite reports this error.
    Database(String),
}

impl OpenFault {
    /// Returns what to do next.
    fn remedy(&self) -> &'static str {
        match self {
            OpenFault::Missing => "mount its disk, or create its folder",
            OpenFault::FileInPath => "move that file away, or specify another path",
            OpenFault::NoHistory => "specify a history folder",
            OpenFault::Spool => "specify another folder with the key `history` of [engine]",
            OpenFault::OtherFolder => "mount the disk of the history again",
            OpenFault::Identity => "restore this file",
            OpenFault::EarlierLog => {
                "start the release that wrote it once more, which moves its rows to files"
            }
            OpenFault::Database(_) => {
                "check that its folder exists, and that the engine's user may use the files in it"
            }
        }
    }
}

impl fmt::Display for OpenFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OpenFault::Missing => "its folder, or a file in it, does not exist",
            OpenFault::FileInPath => "a part of its path is a file, not a folder",
            OpenFault::NoHistory => "the folder contains no history",
            OpenFault::Spool => "the folder is the spool of a history",
            OpenFault::OtherFolder => "another folder has replaced it",
            OpenFault::Identity => "its file `identity` has an unknown format",
            OpenFault::EarlierLog => "a log has an earlier version of the format",
            OpenFault::Database(error) => error,
        })
    }
}

impl fmt::Display for StoreErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreErrorKind::Damaged(what) => write!(
                f,
                "is damaged ({what}); replace it with a backup, or move it away to start \
                 with an empty store"
            ),
            StoreErrorKind::Newer { found, known } => write!(
                f,
                "has format {found}, but this version supports formats up to {known}: a newer \
                 version has used it; start the newer version, or move the store away"
            ),
            StoreErrorKind::InUse => f.write_str(
                "is in use by another engine; stop that one, or give this one a store of its own",
            ),
            StoreErrorKind::Full => {
                f.write_str("cannot be written: its disk is full; free some space, then try again")
            }
            StoreErrorKind::NoMemory => f.write_str(
                "cannot be used now: the engine's machine is out of memory; give the engine more \
                 memory",
            ),
            StoreErrorKind::ReadOnly => f.write_str(
                "cannot be written: the file, its folder or its disk is read-only; permit \
                 writing, then try again",
            ),
            StoreErrorKind::Folder => f.write_str("is a folder; specify a file"),
            StoreErrorKind::CannotOpen(fault) => {
                write!(f, "cannot be opened ({fault}); {}", fault.remedy())
            }
            StoreErrorKind::Failed(why) => write!(
                f,
                "cannot be used: its disk reports an error ({why}); check the disk, then try again"
            ),
            StoreErrorKind::Replaced => f.write_str(
                "was removed or replaced while this engine was using it, so nothing is saved any \
                 more; put the file back, or restart the engine",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_of_a_fault_at_opening_has_one_remedy_for_its_reason() {
        let database = OpenFault::Database("unable to open database file".to_owned());
        for (fault, remedy) in [
            (OpenFault::Missing, "mount its disk"),
            (OpenFault::FileInPath, "move that file away"),
            (OpenFault::NoHistory, "specify a history folder"),
            (OpenFault::Spool, "with the key `history` of [engine]"),
            (OpenFault::OtherFolder, "mount the disk of the history"),
            (OpenFault::Identity, "restore this file"),
            (OpenFault::EarlierLog, "start the release that wrote it"),
            (database, "check that its folder exists"),
        ] {
            let message = StoreErrorKind::CannotOpen(fault).to_string();
            let parts: Vec<&str> = message.split("; ").collect();
            assert!(
                matches!(parts.as_slice(), [_, last] if last.contains(remedy)),
                "{message}"
            );
        }
    }
}
