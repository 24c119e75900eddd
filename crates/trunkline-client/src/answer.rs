//! Answers to requests.

use std::sync::Arc;
use std::time::Duration;

use trunkline_proto::Fault;
use trunkline_proto::message::forcing::ForcedEntry;
use trunkline_types::{Access, DataType, Position, Properties, Reading, Timestamp};

use crate::variables::VariableRef;

/// The values of variables at one instant.
#[derive(Clone, PartialEq, Debug)]
pub struct Snapshot {
    /// True if all readings are of the same instant. With more than 4,096 variables, each reading
    /// is consistent only by itself.
    pub is_consistent: bool,
    /// The commit number of the last group before the snapshot; 0 if there was none.
    pub commit: u64,
    /// The instant of the snapshot, by the engine's clock.
    pub instant: Timestamp,
    /// One reading per variable, in the order of the request.
    pub readings: Vec<Result<Reading, Fault>>,
}

/// A lease that this client holds or has released.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lease {
    /// The duration, counted from the engine's answer. Zero if the lease was released.
    pub duration: Duration,
    /// The variable's current position, for the holder to continue from.
    pub position: Position,
}

/// The engine's list of forced variables.
#[derive(Clone, PartialEq, Debug)]
pub struct ForcedList {
    /// True while forced values are in effect. While false, every variable shows the value of its
    /// source.
    pub is_on: bool,
    /// Number of variables on the list, including those that the caller cannot see. In the answer
    /// to a switch, the number of affected variables.
    pub total: u32,
    /// The variables on the list. Empty in the answer to a switch.
    pub entries: Vec<ForcedEntry>,
}

/// An opened variable.
#[derive(Clone, PartialEq, Debug)]
pub struct Opened {
    /// The reference to pass to the other verbs.
    pub variable: VariableRef,
    /// The type of its values.
    pub data_type: DataType,
    /// The access permitted by the variable, restricted to the access that the opening asked for.
    pub access: Access,
    /// The current reading, if requested and readable.
    pub reading: Option<Reading>,
    /// The properties, if requested.
    pub properties: Option<Arc<Properties>>,
}

/// A variable found by a search.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// The full name.
    pub name: String,
    /// The type of its values.
    pub data_type: DataType,
    /// The access that the variable permits.
    pub access: Access,
}

/// A stage on the way from a variable's source to its consumer, with a verdict.
pub type Step = trunkline_types::WhyStep;
