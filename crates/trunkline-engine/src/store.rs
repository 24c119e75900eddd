//! What an engine remembers from one start to the next, and who remembers it.
//!
//! The engine opens nothing: its host calls a store, outside every lock of the engine. Each call is
//! one step that is either done, and survives a power cut, when it returns, or not done at all.

use std::fmt;
use std::time::Duration;

use trunkline_types::{
    AuditEntry, AuditPage, AuditQuery, DataType, LibraryDefinition, Quality, Timestamp,
};

use crate::library::LibraryState;
use crate::update::Encoded;

/// How much of the audit is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AuditBound {
    /// Most entries.
    pub entries: u64,
    /// The greatest age of an entry.
    pub age: Option<Duration>,
    /// The time now.
    pub now: Timestamp,
}

impl AuditBound {
    /// The number up to which entries are removed where `first` to `last` are there: none while
    /// they are within the bound, then a tenth, so that there are few entries about it.
    pub fn surplus(&self, first: u64, last: u64) -> Option<u64> {
        let max = self.entries.max(2);
        let left = max - (max / 10).max(1);
        let count = (last + 1).saturating_sub(first);
        (count > max).then(|| last - left)
    }

    /// Entries before this time are removed, if the oldest is a tenth older than it may be.
    pub fn too_old(&self, oldest: Timestamp) -> Option<Timestamp> {
        let age = self.age?;
        let before = |age: Duration| {
            let nanos = i64::try_from(age.as_nanos()).unwrap_or(i64::MAX);
            self.now.saturating_add_nanos(-nanos)
        };
        (oldest < before(age.saturating_add(age / 10))).then(|| before(age))
    }
}

/// Keeps libraries, the count of starts, the newest values and the audit.
pub trait Store: Send {
    /// Where it keeps them, for people.
    fn location(&self) -> String;

    /// What was found damaged and is kept apart: it is served to nobody.
    fn damage(&mut self) -> Vec<Damage> {
        Vec::new()
    }

    /// Whether the store is still in its place.
    ///
    /// # Errors
    /// [`StoreError`]: it was removed or replaced, and keeps nothing any more.
    fn check_place(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Counts this start, durably.
    ///
    /// # Errors
    /// [`StoreError`].
    fn begin_start(&mut self) -> Result<Start, StoreError>;

    /// The libraries that were saved and not removed, in the order in which they were first saved.
    ///
    /// # Errors
    /// [`StoreError`].
    fn libraries(&mut self) -> Result<Vec<StoredLibrary>, StoreError>;

    /// Saves a library; one of the same name is replaced, in its place. Retained values of
    /// variables that it does not have, or not with that type, are dropped in the same step.
    ///
    /// # Errors
    /// [`StoreError`]; the library is stored as it was before.
    fn save_library(&mut self, library: &StoredLibrary) -> Result<(), StoreError>;

    /// Notes whether a library is to run; one that was not saved stays so.
    ///
    /// # Errors
    /// [`StoreError`]; nothing is noted.
    fn set_state(&mut self, name: &str, state: LibraryState) -> Result<(), StoreError>;

    /// Removes a library with its retained values; one that is not there is none.
    ///
    /// # Errors
    /// [`StoreError`]; the library is stored as it was before.
    fn remove_library(&mut self, name: &str) -> Result<(), StoreError>;

    /// The retained values of the variables of a library, whether it was saved or not.
    ///
    /// # Errors
    /// [`StoreError`].
    fn retained(&mut self, library: &str) -> Result<Vec<RetainedValue>, StoreError>;

    /// Retains these values, all of them or none.
    ///
    /// # Errors
    /// [`StoreError`]; what was retained before still is.
    fn retain(&mut self, values: &[RetainedValue]) -> Result<(), StoreError>;

    /// The number of the audit's last entry; 0 when there is none.
    ///
    /// # Errors
    /// [`StoreError`].
    fn audit_end(&mut self) -> Result<u64, StoreError>;

    /// Appends entries to the audit, all of them or none, and removes the oldest beyond `bound` in
    /// the same step, which then ends with an entry that says so. Their numbers follow those of the
    /// entries that are there; one that is there already is the same entry and is left as it is, so
    /// that a step of which nobody knows whether it was done can be done again. Nothing else
    /// changes the audit. Returns the number of the last entry.
    ///
    /// # Errors
    /// [`StoreError`]; the audit is as it was.
    fn append_audit(
        &mut self,
        entries: &[AuditEntry],
        bound: AuditBound,
    ) -> Result<u64, StoreError>;

    /// A page of the audit.
    ///
    /// # Errors
    /// [`StoreError`].
    fn audit(&mut self, query: &AuditQuery) -> Result<AuditPage, StoreError>;
}

/// Something in a store that is not as it was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Damage {
    /// What it is: a library, a retained value.
    pub kind: String,
    /// Its name, as far as that can be read.
    pub name: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

/// What tells one start of an engine from every other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Start {
    /// Identifies the store. Random, drawn when the store was made; copies of the file share it.
    pub engine_id: [u8; 16],
    /// Starts with this store so far, this one included: greater than that of every start before.
    pub count: u64,
}

impl Start {
    /// The epoch of this start, given random bits.
    ///
    /// The count alone is no epoch: a store that is made anew, a backup that is put back and the
    /// store of another machine all count 1, 2, 3. So the count takes the upper 21 bits, which
    /// makes two starts of one store differ for certain, and the random bits take the lower 32,
    /// which makes starts of different stores and of copies differ. 53 bits are exact in every JSON
    /// reader.
    pub fn epoch(&self, random: u64) -> u64 {
        #[cfg(feature = "planted")]
        if trunkline_types::planted::is(trunkline_types::planted::Bug::EpochIsCount) {
            return self.count;
        }
        let (count, random) = (self.count & 0x1f_ffff, random & 0xffff_ffff);
        // 0 stands for no epoch.
        (count << 32 | random).max(1)
    }
}

/// A library as a store keeps it.
#[derive(Clone, PartialEq, Debug)]
pub struct StoredLibrary {
    /// Its variables.
    pub definition: LibraryDefinition,
    /// Whether it is to run.
    pub state: LibraryState,
}

/// The newest value of a variable that is to survive.
#[derive(Clone, PartialEq, Debug)]
pub struct RetainedValue {
    /// The variable's full name.
    pub name: String,
    /// The type of the value: a variable that has become another one does not get it.
    pub data_type: DataType,
    /// The value in wire form. It shares the memory of the variable's own.
    pub value: Encoded,
    /// When it was measured.
    pub source_timestamp: Timestamp,
    /// What it was worth.
    pub quality: Quality,
}

/// A step of a store that was not done.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the store {location} {trouble}")]
pub struct StoreError {
    /// Where the store is.
    pub location: String,
    /// What is wrong and what to do.
    pub trouble: StoreTrouble,
}

/// What is wrong with a store.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum StoreTrouble {
    /// It is of another program, cut off or damaged.
    Damaged(String),
    /// A newer version has written it.
    Newer {
        /// The form it has.
        found: u32,
        /// The newest form this version knows.
        known: u32,
    },
    /// Another engine uses it.
    InUse,
    /// The disk is full.
    Full,
    /// The system has no memory for the step.
    NoMemory,
    /// It cannot be written.
    ReadOnly,
    /// It cannot be opened.
    CannotOpen(String),
    /// The disk reports an error.
    Failed(String),
    /// Its file was removed or replaced while the engine uses it.
    Replaced,
}

impl fmt::Display for StoreTrouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreTrouble::Damaged(what) => write!(
                f,
                "is damaged ({what}); put a copy of it in its place, or move it away to start \
                 without what it holds"
            ),
            StoreTrouble::Newer { found, known } => write!(
                f,
                "has form {found}, and this version knows forms up to {known}: a newer version \
                 has used it; start that one, or move the store away"
            ),
            StoreTrouble::InUse => f.write_str(
                "is in use by another engine; stop that one, or give this one a store of its own",
            ),
            StoreTrouble::Full => {
                f.write_str("cannot be written: its disk is full; make room, then try again")
            }
            StoreTrouble::NoMemory => f.write_str(
                "cannot be used now: the engine's machine has no memory left for it; give the \
                 engine more memory",
            ),
            StoreTrouble::ReadOnly => f.write_str(
                "cannot be written: the file, its folder or its disk is read-only; permit \
                 writing, then try again",
            ),
            StoreTrouble::CannotOpen(why) => {
                write!(f, "cannot be opened ({why}); check that its folder exists")
            }
            StoreTrouble::Failed(why) => write!(
                f,
                "cannot be used: its disk reports an error ({why}); look at the disk, then try \
                 again"
            ),
            StoreTrouble::Replaced => f.write_str(
                "was removed or replaced while this engine uses it, so nothing is kept any \
                 more; put the file back, or restart the engine",
            ),
        }
    }
}
