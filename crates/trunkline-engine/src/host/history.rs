//! The trait of an engine's history, which records updates of variables and answers queries.
//!
//! A history is a subscriber of the engine. Its host calls it from two threads, one for recording
//! and one for maintenance. It starts no thread and reads no clock of its own.

use trunkline_types::history::{HistoryPage, HistoryQuery, HistorySettings};
use trunkline_types::{Moment, Tick, Timestamp};

use super::store::{OpenFault, StoreErrorKind};

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
    #[error("the spool {location} {}", sentence_of_spool(.kind))]
    Spool {
        location: String,
        /// The fault; its message includes the remedy.
        kind: StoreErrorKind,
    },
    /// The folder is not a spool, or not the one of this history.
    #[error("the spool {location} {reason}")]
    ForeignSpool {
        location: String,
        /// The reason; its message includes the remedy.
        reason: ForeignSpoolReason,
    },
    /// The query cannot be answered.
    #[error("{0}")]
    Query(String),
}

/// The reason why a folder is not the spool of a history. Its message includes the remedy.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ForeignSpoolReason {
    /// The folder is that of a history.
    #[error(
        "is the folder of a history, not a spool; specify another folder with the key \
         `history_spool` of [engine]"
    )]
    History,
    #[error(
        "has a damaged file `identity`; put a copy of this file back, or delete it if the folder \
         has no logs, or specify another folder with the key `history_spool` of [engine]: rows in \
         the logs then stay behind"
    )]
    DamagedIdentity,
    /// The folder has the logs of an unknown spool.
    #[error(
        "has logs, but no file `identity`; put this file back, or specify another folder with the \
         key `history_spool` of [engine]: rows in the logs then stay behind"
    )]
    NoIdentity,
    /// The spool belongs to another history. The fields are the identities of the two histories.
    #[error(
        "belongs to the history with the identity {owner}, not to {history}; mount the disk with \
         the spool of this history, or specify another folder with the key `history_spool` of \
         [engine]"
    )]
    OtherHistory { owner: String, history: String },
    /// Another disk is mounted at its place, for example.
    #[error(
        "was replaced by another one while the engine used it; mount the disk of the spool again"
    )]
    Replaced,
}

/// Describes the fault of the folder and its remedy.
fn sentence_of(kind: &StoreErrorKind, location: &str) -> String {
    match kind {
        StoreErrorKind::InUse => "is in use by another engine; stop that one, or specify another \
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
        StoreErrorKind::Newer { found, known } => sentence_of_newer(*found, *known),
        // A folder created where the disk is not mounted would hide the history.
        StoreErrorKind::CannotOpen(OpenFault::Missing) => {
            "cannot be opened (its folder, or a file in it, does not exist); mount its disk, or restore \
             what is missing"
                .to_owned()
        }
        StoreErrorKind::Full
        | StoreErrorKind::NoMemory
        | StoreErrorKind::Folder
        | StoreErrorKind::CannotOpen(_)
        | StoreErrorKind::Failed(_)
        | StoreErrorKind::Replaced => kind.to_string(),
    }
}

/// Describes the fault of a spool and its remedy. The rows of a spool are nowhere else, so no remedy takes
/// the engine to another folder while this one can be used later.
fn sentence_of_spool(kind: &StoreErrorKind) -> String {
    match kind {
        StoreErrorKind::InUse => "is in use by another engine; stop that one, or specify another \
                                  folder with the key `history_spool` of [engine]"
            .to_owned(),
        StoreErrorKind::Damaged(what) => format!(
            "is damaged ({what}); keep its logs, whose rows are not in the history yet, and run \
             `trunkline history verify` for details"
        ),
        StoreErrorKind::Newer { found, known } => sentence_of_newer(*found, *known),
        StoreErrorKind::CannotOpen(OpenFault::Missing) => {
            "cannot be opened (the folder above it, or a file in it, does not exist); mount its disk, \
             or, if the disk is mounted, create the folder above the spool"
                .to_owned()
        }
        StoreErrorKind::CannotOpen(OpenFault::FileInPath) => format!(
            "cannot be opened ({}); move that file away, or specify another folder with the key \
             `history_spool` of [engine]",
            OpenFault::FileInPath
        ),
        StoreErrorKind::Full
        | StoreErrorKind::NoMemory
        | StoreErrorKind::ReadOnly
        | StoreErrorKind::Folder
        | StoreErrorKind::CannotOpen(_)
        | StoreErrorKind::Failed(_)
        | StoreErrorKind::Replaced => kind.to_string(),
    }
}

fn sentence_of_newer(found: u32, known: u32) -> String {
    format!(
        "has format {found}, but this version supports formats up to {known}: a newer version has used \
         it; start the newer version"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Behaviour: H-14.
    #[test]
    fn message_of_a_foreign_spool_has_the_remedy_for_its_reason() {
        use ForeignSpoolReason::{DamagedIdentity, History, NoIdentity, OtherHistory, Replaced};
        let other = OtherHistory {
            owner: "1".to_owned(),
            history: "2".to_owned(),
        };
        let name_another = "specify another folder with the key `history_spool` of [engine]";
        for (reason, remedies) in [
            (History, vec![name_another]),
            (
                DamagedIdentity,
                vec![name_another, "put a copy of this file back", "delete it if"],
            ),
            (NoIdentity, vec![name_another, "put this file back"]),
            (other, vec![name_another, "mount the disk with the spool"]),
            (Replaced, vec!["mount the disk of the spool again"]),
        ] {
            let location = "/spool".to_owned();
            let message = HistoryError::ForeignSpool { location, reason }.to_string();
            let remedy = message.split("; ").nth(1).unwrap_or_default();
            assert_eq!(message.split("; ").count(), 2, "{message}");
            assert_eq!(remedy.split(", or ").count(), remedies.len(), "{message}");
            assert!(remedies.iter().all(|one| remedy.contains(one)), "{message}");
        }
    }

    /// Rows in the logs of a folder are nowhere else, and a folder created on another disk would hide them.
    ///
    /// Behaviour: H-14.
    #[test]
    fn message_of_a_history_or_spool_has_a_remedy_that_keeps_its_rows() {
        let location = || "/folder".to_owned();
        let kinds = [
            StoreErrorKind::Damaged("a log".to_owned()),
            StoreErrorKind::Newer { found: 3, known: 2 },
            StoreErrorKind::InUse,
            StoreErrorKind::Full,
            StoreErrorKind::NoMemory,
            StoreErrorKind::ReadOnly,
            StoreErrorKind::CannotOpen(OpenFault::Missing),
            StoreErrorKind::CannotOpen(OpenFault::FileInPath),
            StoreErrorKind::CannotOpen(OpenFault::NoHistory),
            StoreErrorKind::CannotOpen(OpenFault::Spool),
            StoreErrorKind::CannotOpen(OpenFault::OtherFolder),
            StoreErrorKind::CannotOpen(OpenFault::Identity),
            StoreErrorKind::CannotOpen(OpenFault::EarlierLog),
            StoreErrorKind::CannotOpen(OpenFault::Database("away".to_owned())),
            StoreErrorKind::Failed("away".to_owned()),
        ];
        for kind in kinds {
            let of_files = HistoryError::Files {
                location: location(),
                kind: kind.clone(),
            };
            let of_spool = HistoryError::Spool {
                location: location(),
                kind: kind.clone(),
            };
            for message in [of_files.to_string(), of_spool.to_string()] {
                assert_eq!(message.split("; ").count(), 2, "{message}");
                for wrong in ["it away", "store", "empty", "create its folder"] {
                    let without_restore = message.replace("restore", "");
                    assert!(!without_restore.contains(wrong), "{message}");
                }
            }
            let message = of_spool.to_string();
            assert!(!message.contains("backup"), "{message}");
            assert!(!message.contains("rebuild"), "{message}");
        }
    }
}
