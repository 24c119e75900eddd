//! The trait of an engine's history, which records updates of variables and answers queries.
//!
//! A history is a subscriber of the engine. Its host calls it from two threads, one for recording
//! and one for maintenance. It starts no thread and reads no clock of its own.

use trunkline_types::history::{HistoryPage, HistoryQuery, HistorySettings};
use trunkline_types::{Moment, Tick, Timestamp};

use super::store::StoreErrorKind;

/// Records the updates of variables, and answers queries about them. Every method may be called
/// from any thread.
pub trait History: Send + Sync {
    fn location(&self) -> String;

    /// Starts or ends the recording of these variables, according to its rules. Called for the
    /// variables of a library whenever they are deployed or replaced.
    ///
    /// # Errors
    /// [`HistoryError`]; none of the variables is recorded until a later call succeeds.
    fn follow(&self, handles: &[u32], wall: Timestamp) -> Result<(), HistoryError>;

    /// Returns true if nothing is waiting to be recorded.
    fn is_idle(&self) -> bool;

    /// Records what happened until now, and returns when it is durable. Only one call runs at a
    /// time; others wait for it. Returns the time by which the next call is due even if nothing
    /// wakes the recorder, if there is one; `moment.now` means that there is more to record.
    ///
    /// # Errors
    /// [`HistoryError`]. Rows that could not be stored are buffered in memory, and then in the
    /// engine.
    fn record(&self, moment: Moment) -> Result<Option<Tick>, HistoryError>;

    /// Does one step of maintenance, which keeps the history small and fast, such as moving rows
    /// from the log into files. Returns true if more is due.
    ///
    /// # Errors
    /// [`HistoryError`]; the history is unchanged.
    fn maintain(&self, wall: Timestamp) -> Result<bool, HistoryError>;

    /// Returns true if [`maintain`](Self::maintain) has something to do.
    fn is_maintenance_due(&self) -> bool;

    /// Returns a page of committed rows.
    ///
    /// # Errors
    /// [`HistoryError`] if it cannot be read.
    fn read(&self, query: &HistoryQuery, wall: Timestamp) -> Result<HistoryPage, HistoryError>;

    /// Returns how this variable is recorded; `None` if it is not.
    fn settings(&self, variable: &str) -> Option<HistorySettings>;

    /// Records that the engine stops. Nothing is recorded afterwards.
    ///
    /// # Errors
    /// [`HistoryError`]; the stop is not recorded, so the next start reports an interruption.
    fn close(&self, wall: Timestamp) -> Result<(), HistoryError>;

    fn figures(&self) -> HistoryFigures;

    /// Returns the state of its spool; `None` if it has none.
    fn spool(&self) -> Option<SpoolState>;
}

/// The state of a spool: a folder on another disk in which a history stores rows while its own
/// folder cannot be written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpoolState {
    pub location: String,
    /// Why rows are stored in the spool now; `None` if they are not.
    pub cause: Option<HistoryError>,
    /// Why the spool cannot be used now; `None` if it can.
    pub fault: Option<HistoryError>,
}

/// Statistics of a history, for the engine's health variables.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HistoryFigures {
    /// Rows recorded since the engine started.
    pub recorded: u64,
    /// Updates that are missing because they could not be recorded in time.
    pub lost: u64,
    /// Rows that are only in the log so far, not in Parquet files.
    pub unsealed: u64,
    /// Number of these unsealed rows that are in the spool.
    pub spooled: u64,
    /// Size of all files of the history, in bytes.
    pub bytes: u64,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HistoryError {
    #[error("the history {location} {}", sentence_of(.kind, .location))]
    Files {
        location: String,
        /// The fault; its message includes the remedy.
        kind: StoreErrorKind,
    },
    /// The spool cannot be used.
    #[error("the spool {location} {kind}")]
    Spool {
        location: String,
        /// The fault; its message includes the remedy.
        kind: StoreErrorKind,
    },
    /// The folder is not a spool, or not the one of this history.
    #[error(
        "the spool {location} {reason}; name another folder with the key `history_spool` of \
             [engine]"
    )]
    ForeignSpool { location: String, reason: String },
    /// The query cannot be answered.
    #[error("{0}")]
    Query(String),
}

/// Describes the fault of the folder and its remedy.
fn sentence_of(kind: &StoreErrorKind, location: &str) -> String {
    match kind {
        StoreErrorKind::InUse => "is in use by another engine; stop that one, or name another \
                                  folder with the key `history` of [engine]"
            .to_owned(),
        StoreErrorKind::Damaged(what) => format!(
            "is damaged ({what}); run `trunkline history rebuild {location}` to write a new catalogue, \
             or restore the folder from a backup"
        ),
        StoreErrorKind::ReadOnly => {
            let sentence = "cannot be written: the engine's user has no permission, or the \
                            disk is read-only; permit writing, or start the engine as the \
                            folder's owner";
            sentence.to_owned()
        }
        StoreErrorKind::Newer { .. }
        | StoreErrorKind::Full
        | StoreErrorKind::NoMemory
        | StoreErrorKind::Folder
        | StoreErrorKind::CannotOpen(_)
        | StoreErrorKind::Failed(_)
        | StoreErrorKind::Replaced => kind.to_string(),
    }
}
