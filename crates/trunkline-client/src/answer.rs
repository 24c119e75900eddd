//! What requests are answered with.

use std::sync::Arc;
use std::time::Duration;

use trunkline_proto::Fault;
use trunkline_proto::message::engine::EngineInfo;
use trunkline_proto::message::forcing::ForcedEntry;
use trunkline_proto::message::info::VariableInfo;
use trunkline_proto::message::library::LibraryReport;
use trunkline_proto::message::why::{WhyStage, WhyVerdict};
use trunkline_types::{Access, AuditPage, DataType, Position, Properties, Reading, Timestamp};

use crate::outcome::WriteOutcome;
use crate::page::ReadingPage;
use crate::variable::VariableRef;

/// The answer to a request. Lists have one entry per item, in the order of the request; a fault of
/// one item is that item's only.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Answer {
    /// To an opening.
    Opened(Vec<Result<Opened, Fault>>),
    /// To a closing.
    Closed(Vec<Result<(), Fault>>),
    /// To a read.
    Readings(Vec<Result<Reading, Fault>>),
    /// To a read into a page.
    Page(ReadingPage),
    /// To a request for fresh values: whether the sources were asked.
    Requested(Vec<Result<(), Fault>>),
    /// To a question about variables.
    Info(Vec<Result<VariableInfo, Fault>>),
    /// To a search.
    Names(Vec<Found>),
    /// To the question why a variable does not deliver.
    Why(Vec<Step>),
    /// To a question about the engine.
    Engine(EngineInfo),
    /// To writes of which all are carried out, or none.
    Group(GroupOutcome),
    /// To the question what variables held at one instant.
    Snapshot(Snapshot),
    /// To an order about leases.
    Leases(Vec<Result<Lease, Fault>>),
    /// To the question who did what.
    Audit(AuditPage),
    /// To an order about a library.
    Library(LibraryReport),
    /// To a flush: the engine has carried out what came before it, and every write before it has
    /// ended.
    Flushed,
    /// To a question about forced variables, or a switch of forcing.
    Forced(ForcedList),
    /// The request as a whole was refused.
    Refused(Fault),
}

/// How a group of writes ended.
#[derive(Clone, PartialEq, Debug)]
pub struct GroupOutcome {
    /// The number of its commit, from 1 within the engine's epoch; `None`: nothing was written, or
    /// nobody knows.
    pub commit: Option<u64>,
    /// The place of the write because of which the others were refused.
    pub culprit: Option<usize>,
    /// One per write, in their order.
    pub outcomes: Vec<WriteOutcome>,
}

/// What variables held at one instant.
#[derive(Clone, PartialEq, Debug)]
pub struct Snapshot {
    /// Whether it is one instant; of more than 4,096 variables each is consistent by itself.
    pub is_consistent: bool,
    /// The number of the last group that was committed before; 0: none was.
    pub commit: u64,
    /// When, by the engine's clock.
    pub instant: Timestamp,
    /// One per variable, in their order.
    pub readings: Vec<Result<Reading, Fault>>,
}

/// A lease that one holds, or has given back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lease {
    /// For how long from when the engine answered; zero: it was given back.
    pub duration: Duration,
    /// Where the variable is: from there the holder goes on.
    pub position: Position,
}

/// The engine's list of forced variables.
#[derive(Clone, PartialEq, Debug)]
pub struct ForcedList {
    /// Whether forced values hold; off, every variable shows what its source says.
    pub is_on: bool,
    /// Variables on the list, those you cannot see included; after a switch, those it concerned.
    pub total: u32,
    /// Those on the list, unless something was switched.
    pub entries: Vec<ForcedEntry>,
}

/// A variable that was opened.
#[derive(Clone, PartialEq, Debug)]
pub struct Opened {
    /// What the other verbs take.
    pub variable: VariableRef,
    /// The type of its values.
    pub data_type: DataType,
    /// What can be done with it, as far as the opening wants it.
    pub access: Access,
    /// Its current reading, if asked for and readable.
    pub reading: Option<Reading>,
    /// Its properties, if asked for.
    pub properties: Option<Arc<Properties>>,
}

/// A variable that was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// Its full name.
    pub name: String,
    /// The type of its values.
    pub data_type: DataType,
    /// What can be done with it at all.
    pub access: Access,
}

/// A stage on the way from a variable's source to its consumer, and how it stands there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// Where.
    pub stage: WhyStage,
    /// How it stands.
    pub verdict: WhyVerdict,
    /// What was found.
    pub sentence: String,
    /// What to do next; empty where there is nothing to do.
    pub next: String,
}

/// Items of one answer that come page by page.
#[derive(Debug)]
pub(crate) struct Page<T> {
    /// The variables of the request, in its order.
    pub(crate) variables: Vec<VariableRef>,
    pub(crate) results: Vec<Option<Result<T, Fault>>>,
    /// What was sent: item of the request, and its handle where one is sent.
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

    /// Decides what is asked for: the items that `ask` gives a handle, the others have their
    /// faults.
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

    /// The item behind this index of what was sent.
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

    /// The results; what has none yet gets this fault.
    pub(crate) fn finish(self, missing: &Fault) -> Vec<Result<T, Fault>> {
        self.results
            .into_iter()
            .map(|r| r.unwrap_or_else(|| Err(missing.clone())))
            .collect()
    }
}
