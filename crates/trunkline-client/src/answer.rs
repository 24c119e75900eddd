//! Answers to requests.

use std::sync::Arc;
use std::time::Duration;

use trunkline_proto::Fault;
use trunkline_proto::message::engine::EngineInfo;
use trunkline_proto::message::forcing::ForcedEntry;
use trunkline_proto::message::info::VariableInfo;
use trunkline_proto::message::library::LibraryReport;
use trunkline_types::{Access, AuditPage, DataType, Position, Properties, Reading, Timestamp};

use crate::outcome::GroupOutcome;
use crate::page::ReadingPage;
use crate::variable::VariableRef;

/// The answer to a request. Lists have one entry per item, in the order of the request. A fault of
/// one item does not affect the others.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Answer {
    /// Answers an opening.
    Opened(Vec<Result<Opened, Fault>>),
    /// Answers a closing.
    Closed(Vec<Result<(), Fault>>),
    /// Answers a read.
    Readings(Vec<Result<Reading, Fault>>),
    /// Answers a read into a page.
    Page(ReadingPage),
    /// Answers a request for fresh values. `Ok` means that the source was asked.
    Requested(Vec<Result<(), Fault>>),
    /// Answers a query for variable information.
    Info(Vec<Result<VariableInfo, Fault>>),
    /// Answers a search by name.
    Names(Vec<Found>),
    /// Answers a query for the reason why a variable does not deliver.
    Why(Vec<Step>),
    /// Answers a query for engine information.
    Engine(EngineInfo),
    /// Answers a group of writes, which are carried out together or not at all.
    Group(GroupOutcome),
    /// Answers a request for the values of variables at one instant.
    Snapshot(Snapshot),
    /// Answers a lease request.
    Leases(Vec<Result<Lease, Fault>>),
    /// Answers an audit query.
    Audit(AuditPage),
    /// Answers a library request.
    Library(LibraryReport),
    /// Answers a flush: the engine has carried out everything before it, and every earlier write
    /// has ended.
    Flushed,
    /// Answers a query for forced variables, or a switch of forcing.
    Forced(ForcedList),
    /// The engine refused the request as a whole.
    Refused(Fault),
}

/// The values of variables at one instant.
#[derive(Clone, PartialEq, Debug)]
pub struct Snapshot {
    /// True if all readings are of one instant. With more than 4,096 variables, each reading is
    /// consistent only by itself.
    pub is_consistent: bool,
    /// The number of the last group committed before the snapshot; 0 if there was none.
    pub commit: u64,
    /// The instant, by the engine's clock.
    pub instant: Timestamp,
    /// One reading per variable, in the order of the request.
    pub readings: Vec<Result<Reading, Fault>>,
}

/// A lease that this client holds or has given back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lease {
    /// The duration, counted from the engine's answer. Zero if the lease was given back.
    pub duration: Duration,
    /// The variable's current position, from which the holder continues.
    pub position: Position,
}

/// The engine's list of forced variables.
#[derive(Clone, PartialEq, Debug)]
pub struct ForcedList {
    /// True while forced values are in effect. When off, every variable shows its source's value.
    pub is_on: bool,
    /// Number of variables on the list, including those the caller cannot see. After a switch, the
    /// number of variables that it affected.
    pub total: u32,
    /// The variables on the list. Empty after a switch.
    pub entries: Vec<ForcedEntry>,
}

/// A variable that was opened.
#[derive(Clone, PartialEq, Debug)]
pub struct Opened {
    /// The reference to pass to the other verbs.
    pub variable: VariableRef,
    /// The type of its values.
    pub data_type: DataType,
    /// The access permitted, restricted to what the opening asked for.
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

/// A stage on the way from a variable's source to its consumer, with its verdict.
pub type Step = trunkline_types::WhyStep;

/// The items of one answer that arrives page by page.
#[derive(Debug)]
pub(crate) struct Page<T> {
    /// The variables of the request, in order.
    pub(crate) variables: Vec<VariableRef>,
    pub(crate) results: Vec<Option<Result<T, Fault>>>,
    /// The items sent: index within the request, and handle where one is sent.
    pub(crate) asked: Vec<(u32, u32)>,
}

impl<T> Page<T> {
    pub(crate) fn new(variables: Vec<VariableRef>) -> Self {
        let results = variables.iter().map(|_| None).collect();
        Self {
            variables,
            results,
            asked: Vec::new(),
        }
    }

    /// Selects the items to send: those for which `ask` returns a handle. The others get their
    /// faults. Returns the number of items to send.
    pub(crate) fn ask(&mut self, mut ask: impl FnMut(VariableRef) -> Result<u32, Fault>) -> u32 {
        self.asked.clear();
        self.asked.reserve_exact(self.variables.len());
        let items = self.variables.iter().zip(&mut self.results).zip(0..);
        for ((variable, result), item) in items {
            *result = match ask(*variable) {
                Ok(handle) => {
                    self.asked.push((item, handle));
                    None
                }
                Err(fault) => Some(Err(fault)),
            };
        }
        self.asked.len() as u32
    }

    /// Returns the item of the request at this index of the items sent.
    pub(crate) fn asked(&self, index: u32) -> Option<u32> {
        self.asked.get(index as usize).map(|(item, _)| *item)
    }

    pub(crate) fn variable(&self, item: u32) -> Option<VariableRef> {
        self.variables.get(item as usize).copied()
    }

    pub(crate) fn set(&mut self, item: u32, result: Result<T, Fault>) {
        if let Some(place) = self.results.get_mut(item as usize) {
            *place = Some(result);
        }
    }

    /// Returns the results; items without one get the fault `missing`.
    pub(crate) fn finish(self, missing: &Fault) -> Vec<Result<T, Fault>> {
        self.results
            .into_iter()
            .map(|r| r.unwrap_or_else(|| Err(missing.clone())))
            .collect()
    }
}
