//! Requests on their way: carried out in the order they came, in slices.
//!
//! A request is taken over whole, so that the frame's buffer is free for the next one, and worked
//! off as far as there is room for its answers. So one that names 100,000 variables disturbs
//! nobody, and a client that does not read its answers stops its own requests and nothing else.

use std::collections::VecDeque;
use std::ops::Range;

use trunkline_engine::Order;
use trunkline_engine::search::Condition;
use trunkline_proto::Fault;
use trunkline_proto::message::forcing::Forcing;
use trunkline_proto::message::open::OpenTerms;
use trunkline_proto::message::subscribe::{SubscribeItem, SubscribeTerms};
use trunkline_proto::message::write::{WriteOptions, WriteRecord};
use trunkline_types::AuditAction;

use crate::group::{GroupWork, SnapshotWork};
use crate::lease::LeaseWork;
use crate::request_budget::Loan;

/// Items of a page of an answer, at most; it may end before, at about a page of bytes.
pub(crate) const SLICE: usize = 1000;
/// Items of a request that are handled at a time.
const ITEMS_AT_A_TIME: usize = 250;
/// Items that cost about as much as what a request costs by itself.
const ITEMS_PER_UNIT: usize = 16;
/// What is done before the driver looks at its clock, in units of about 10 us.
pub(crate) const UNITS_MAX: usize = 16;

/// The requests of one session that are not done.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    requests: VecDeque<(Work, usize)>,
    bytes: usize,
}

/// How far a request came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Progress {
    /// It is carried out.
    Done,
    /// There is more of it.
    More,
    /// It waits for room in a feed or in the audit.
    Parked,
}

/// One request, or one frame of a request that came in several.
#[derive(Debug)]
pub(crate) enum Work {
    Open(OpenWork),
    Subscribe(SubscribeWork),
    Handles(HandlesWork),
    Writes(WritesWork),
    Group(GroupWork),
    Snapshot(SnapshotWork),
    Lease(LeaseWork),
    Find {
        request: u32,
        pattern: String,
        conditions: Vec<Condition>,
        cursor: u32,
        limit: u32,
    },
    Why {
        request: u32,
        name: String,
    },
    Engine {
        request: u32,
    },
    Flush {
        request: u32,
    },
    /// Everything that was sent is to be held against what the client has.
    CheckAll,
    /// About the forced variables.
    Forcing {
        request: u32,
        forcing: Forcing,
    },
    Order {
        request: u32,
        /// `None` once it is handed over.
        order: Option<Order>,
        /// The memory that it takes, until it is answered.
        loan: Option<Loan>,
    },
    /// An order that is refused; its entry in the audit may have to wait.
    RefusedOrder {
        request: u32,
        action: AuditAction,
        /// Of the library.
        name: String,
        fault: Fault,
    },
}

/// What is to be done with a list of handles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HandlesVerb {
    Read,
    Close,
    Info,
    RequestValue,
    /// Out of this subscription; all of it when `whole`.
    Unsubscribe {
        subscription: u32,
        whole: bool,
    },
}

#[derive(Debug)]
pub(crate) struct OpenWork {
    pub(crate) page: Page,
    pub(crate) terms: OpenTerms,
    pub(crate) names: Names,
    /// Names that were not found so far.
    pub(crate) misses: u32,
}

#[derive(Debug)]
pub(crate) struct SubscribeWork {
    pub(crate) page: Page,
    pub(crate) terms: SubscribeTerms,
    pub(crate) resume_epoch: Option<u64>,
    pub(crate) items: Vec<SubscribeItem>,
}

#[derive(Debug)]
pub(crate) struct HandlesWork {
    pub(crate) page: Page,
    pub(crate) verb: HandlesVerb,
    pub(crate) handles: Vec<u32>,
}

/// Where the items of a frame stand in their request, and how many of them are answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page {
    pub(crate) request: u32,
    /// Number of the frame's first item within the request.
    pub(crate) base: u32,
    /// Further frames of the request follow.
    pub(crate) more: bool,
    /// Items of the frame that are answered.
    pub(crate) next: usize,
}

/// Writes that could not be carried out on arrival.
#[derive(Debug)]
pub(crate) struct WritesWork {
    pub(crate) writes: Vec<OwnedWrite>,
}

/// One of them.
#[derive(Debug)]
pub(crate) struct OwnedWrite {
    pub(crate) id: u64,
    pub(crate) handle: u32,
    pub(crate) options: WriteOptions,
    pub(crate) value: Box<[u8]>,
    /// By the variable's provider.
    pub(crate) is_published: bool,
}

impl OwnedWrite {
    pub(crate) fn record(&self) -> WriteRecord<'_> {
        WriteRecord {
            write: self.id,
            handle: self.handle,
            options: self.options,
            value: &self.value,
        }
    }
}

/// Names in one buffer.
#[derive(Debug, Default)]
pub(crate) struct Names {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl Queue {
    pub(crate) fn push(&mut self, work: Work) {
        let bytes = work.bytes();
        self.bytes += bytes;
        self.requests.push_back((work, bytes));
    }

    /// The request to go on with; [`done`](Self::done) with it, or put it back.
    pub(crate) fn take(&mut self) -> Option<(Work, usize)> {
        self.requests.pop_front()
    }

    pub(crate) fn put_back(&mut self, work: (Work, usize)) {
        self.requests.push_front(work);
    }

    pub(crate) fn done(&mut self, bytes: usize) {
        self.bytes -= bytes;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Bytes of the requests, roughly, for the bound on what may wait.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

impl Page {
    /// Number of the next item within the request.
    pub(crate) fn first_index(&self) -> u32 {
        self.base.wrapping_add(self.next as u32)
    }

    /// The items that may be answered next, at most.
    pub(crate) fn range(&self, total: usize) -> Range<usize> {
        self.next..(self.next + ITEMS_AT_A_TIME).min(total)
    }

    pub(crate) fn slice<'i, T>(&self, items: &'i [T]) -> &'i [T] {
        items.get(self.range(items.len())).unwrap_or_default()
    }

    /// Whether further answers follow one that goes up to `next` of the frame's `total` items.
    pub(crate) fn has_more(&self, total: usize) -> bool {
        self.more || self.next < total
    }

    pub(crate) fn progress(&self, total: usize) -> Progress {
        match self.next < total {
            true => Progress::More,
            false => Progress::Done,
        }
    }
}

impl Names {
    pub(crate) fn push(&mut self, name: &[u8]) {
        self.bytes.extend_from_slice(name);
        // A frame, and so all of its names, is far below 4 GiB.
        self.ends.push(self.bytes.len() as u32);
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn get(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends.get(index)? as usize;
        let start = match index.checked_sub(1) {
            Some(before) => *self.ends.get(before)? as usize,
            None => 0,
        };
        self.bytes.get(start..end)
    }
}

impl Work {
    /// What the next step of it costs, in units: a driver that reads a clock can interrupt a
    /// session only between two steps.
    pub(crate) fn units(&self) -> usize {
        let items = match self {
            Work::Open(work) => work.names.len() - work.page.next,
            Work::Subscribe(work) => work.items.len() - work.page.next,
            Work::Handles(work) => work.handles.len() - work.page.next,
            Work::Lease(work) => work.items.len(),
            Work::Writes(work) => work.writes.len(),
            Work::Why { .. } => ITEMS_PER_UNIT,
            Work::Order { .. } | Work::RefusedOrder { .. } => 0,
            _ => return UNITS_MAX,
        };
        1 + items.min(ITEMS_AT_A_TIME) / ITEMS_PER_UNIT
    }

    /// Never 0: a request that names nothing waits like any other.
    fn bytes(&self) -> usize {
        let content = match self {
            Work::Open(work) => work.names.bytes.len() + size_of::<u32>() * work.names.len(),
            Work::Subscribe(work) => size_of::<SubscribeItem>() * work.items.len(),
            Work::Handles(work) => size_of::<u32>() * work.handles.len(),
            Work::Writes(work) => bytes_of(&work.writes),
            Work::Group(work) => bytes_of(&work.writes),
            Work::Snapshot(work) => work.bytes(),
            Work::Lease(work) => size_of::<(u32, u64)>() * work.items.len(),
            Work::Find {
                pattern,
                conditions,
                ..
            } => {
                // A condition keeps its text twice.
                let text = |condition: &Condition| size_of::<Condition>() + condition.text_bytes();
                let conditions: usize = conditions.iter().map(text).sum();
                pattern.len() + conditions
            }
            Work::Why { name, .. } => name.len(),
            Work::RefusedOrder { name, fault, .. } => name.len() + fault.sentence.len(),
            // What an order holds is bounded with the orders.
            Work::Engine { .. }
            | Work::Flush { .. }
            | Work::CheckAll
            | Work::Forcing { .. }
            | Work::Order { .. } => 0,
        };
        size_of::<Work>() + content
    }
}

fn bytes_of(writes: &[OwnedWrite]) -> usize {
    let write = |write: &OwnedWrite| size_of::<OwnedWrite>() + write.value.len();
    writes.iter().map(write).sum()
}
