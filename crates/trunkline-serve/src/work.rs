//! Waiting requests, carried out in slices, in the order in which they arrived.
//!
//! A request is taken over as a whole, so that the frame's buffer is free for the next one. It is
//! then carried out as far as there is room for its answers. So a request that names 100,000
//! variables does not disturb other sessions, and a client that does not read its answers stops
//! only its own requests.

use std::collections::VecDeque;
use std::ops::Range;

use trunkline_engine::Order;
use trunkline_engine::search::Matcher;
use trunkline_proto::Fault;
use trunkline_proto::message::forcing::Forcing;
use trunkline_proto::message::lease::LeaseItem;
use trunkline_proto::message::open::OpenTerms;
use trunkline_proto::message::subscribe::{SubscribeItem, SubscribeTerms};
use trunkline_proto::message::write::{WriteOptions, WriteRecord};
use trunkline_types::AuditAction;

use crate::group::{GroupWork, SnapshotWork};
use crate::lease::LeaseWork;
use crate::request_budget::Loan;

/// Maximum number of items in one slice of a search, a watch, a list of forced variables or a
/// sweep. A page may end before, at about `PAGE_BYTES`.
pub(crate) const SLICE: usize = 1000;
/// Maximum number of items of a list request that are handled at a time.
const ITEMS_AT_A_TIME: usize = 250;
/// Number of items that cost about as much as the overhead of a request.
const ITEMS_PER_UNIT: usize = 16;
/// Work done before the driver looks at its clock, in units of about 10 us.
pub(crate) const UNITS_MAX: usize = 16;

/// The unfinished requests of one session.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    requests: VecDeque<(Work, usize)>,
    bytes: usize,
}

/// The progress of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Progress {
    /// The request is carried out.
    Done,
    /// Part of the request is left.
    More,
    /// The request waits for room in a feed or in the audit.
    Parked,
}

/// One request, or one frame of a request that arrived in several.
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
        conditions: Vec<Matcher>,
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
    /// Compares everything that was sent with what the client has.
    CheckAll,
    /// A query or switch of forcing.
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
    /// An order that is refused. Its audit entry may have to wait.
    RefusedOrder {
        request: u32,
        action: AuditAction,
        /// The name of the library.
        name: String,
        fault: Fault,
    },
}

/// The operation on a list of handles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HandlesVerb {
    Read,
    Close,
    Info,
    RequestValue,
    /// Removes the handles from this subscription, or ends all of it if `whole`.
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
    /// Number of names not found so far.
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

/// The position of a frame's items within their request, and the number of items answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page {
    pub(crate) request: u32,
    /// Index of the frame's first item within the request.
    pub(crate) base: u32,
    /// True if further frames of the request follow.
    pub(crate) more: bool,
    /// Number of the frame's items that are answered.
    pub(crate) next: usize,
}

/// Writes that could not be carried out on arrival.
#[derive(Debug)]
pub(crate) struct WritesWork {
    pub(crate) writes: Vec<OwnedWrite>,
}

/// One write that could not be carried out on arrival.
#[derive(Debug)]
pub(crate) struct OwnedWrite {
    pub(crate) id: u64,
    pub(crate) handle: u32,
    pub(crate) options: WriteOptions,
    pub(crate) value: Box<[u8]>,
    /// True if the variable's provider published it.
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

    /// Takes the next request. The caller marks it as [`done`](Self::done) or puts it back.
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

    /// Returns the approximate memory of the requests in bytes, for the bound on waiting requests.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

impl Page {
    /// Returns the index of the next item within the request.
    pub(crate) fn first_index(&self) -> u32 {
        self.base.wrapping_add(self.next as u32)
    }

    /// Returns the largest range of items that may be answered next.
    pub(crate) fn range(&self, total: usize) -> Range<usize> {
        self.next..(self.next + ITEMS_AT_A_TIME).min(total)
    }

    pub(crate) fn slice<'i, T>(&self, items: &'i [T]) -> &'i [T] {
        items.get(self.range(items.len())).unwrap_or_default()
    }

    /// Returns true if further answers follow one that goes up to `next` of the frame's `total`
    /// items.
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
    /// Returns the cost of the next step, in units. A driver that reads a clock can interrupt a
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

    /// Returns the approximate memory in bytes. Never 0: a request without items also counts.
    fn bytes(&self) -> usize {
        let content = match self {
            Work::Open(work) => work.names.bytes.len() + size_of::<u32>() * work.names.len(),
            Work::Subscribe(work) => size_of::<SubscribeItem>() * work.items.len(),
            Work::Handles(work) => size_of::<u32>() * work.handles.len(),
            Work::Writes(work) => bytes_of(&work.writes),
            Work::Group(work) => bytes_of(&work.writes),
            Work::Snapshot(work) => work.bytes(),
            Work::Lease(work) => size_of::<LeaseItem>() * work.items.len(),
            Work::Find {
                pattern,
                conditions,
                ..
            } => {
                // A condition stores its text twice.
                let text = |condition: &Matcher| size_of::<Matcher>() + condition.text_bytes();
                let conditions: usize = conditions.iter().map(text).sum();
                pattern.len() + conditions
            }
            Work::Why { name, .. } => name.len(),
            Work::RefusedOrder { name, fault, .. } => name.len() + fault.sentence.len(),
            // The memory of an order is counted with the orders.
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
