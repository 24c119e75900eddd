//! The answers to requests.

use std::sync::Arc;
use std::time::Duration;

use trunkline_proto::Fault;
use trunkline_proto::message::forcing::ForcedEntry;
use trunkline_types::{Access, ControlEntry, DataType, Position, Properties, Reading, Timestamp};

use crate::variables::VariableRef;

/// The values of variables at one instant.
#[derive(Clone, PartialEq, Debug)]
pub struct Snapshot {
    /// True if all readings are from one instant. With more than 4,096 variables, they are not.
    pub is_consistent: bool,
    /// Commit number of the last group before the snapshot; 0 if there was no group.
    pub commit: u64,
    /// The instant of the snapshot, by the engine's clock.
    pub instant: Timestamp,
    /// One reading per variable, in the order of the request.
    pub readings: Vec<Result<Reading, Fault>>,
}

/// A lease that this client holds or has released.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lease {
    /// The duration of the lease from the engine's answer on. Zero if the lease was released.
    pub duration: Duration,
    /// The variable's current position, which the holder can expect in its first write.
    pub position: Position,
}

/// The controlled folders, and the requests for control.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ControlList {
    /// Number of changes so far of what this client controls and waits for, for the call that waits
    /// for the next one.
    pub revision: u64,
    /// Tokens and requests, in the order of their numbers. Contains only folders with a variable that
    /// the client may read.
    pub entries: Vec<ControlEntry>,
}

/// The engine's list of forced variables.
#[derive(Clone, PartialEq, Debug)]
pub struct ForcedList {
    /// True while forced values take effect. Otherwise, every variable shows the value of its
    /// source.
    pub is_on: bool,
    /// Number of forced variables, including variables that the caller cannot see. In the answer to
    /// a switch, the number of affected variables.
    pub total: u32,
    /// The forced variables. Empty in the answer to a switch.
    pub entries: Vec<ForcedEntry>,
}

/// A variable that was opened.
#[derive(Clone, PartialEq, Debug)]
pub struct Opened {
    /// The reference for other verbs.
    pub variable: VariableRef,
    /// The type of the variable's values.
    pub data_type: DataType,
    /// The access that the variable permits, without access that the opening does not use.
    pub access: Access,
    /// The current reading, if it was requested and the variable can be read.
    pub reading: Option<Reading>,
    /// The properties, if they were requested.
    pub properties: Option<Arc<Properties>>,
}

/// A variable that a search has found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// The full name of the variable.
    pub name: String,
    /// The type of the variable's values.
    pub data_type: DataType,
    /// The access that the variable permits.
    pub access: Access,
}

/// A step on the way from a variable's source to its consumer, with a verdict.
pub type Step = trunkline_types::WhyStep;
