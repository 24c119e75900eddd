//! Pending requests: what was asked, sent and answered.
//!
//! A request that is unanswered when the connection breaks is sent again on the next one, unless it
//! was sent completely and changes the engine: then its outcome is unknown. This applies only to
//! the program's requests; the client's own are derived again from what it then needs.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use trunkline_proto::message::forcing::{ForcedEntry, ForcingVerb};
use trunkline_proto::message::library::LibraryVerb;
use trunkline_proto::{Disconnect, Fault, Features, Frame};
use trunkline_types::{Condition, LibraryDefinition};

use crate::answer::{Answer, Found, Lease, Opened, Page};
use crate::audit::Asked;
use crate::group::{Group, LeaseTerms, SnapshotSaid};
use crate::options::OpenOptions;
use crate::page::ReadList;
use crate::table::Key;
use trunkline_proto::message::info::VariableInfo;

/// Number of refused requests to remember.
const REFUSED_MAX: usize = 64;

/// A request of the program. `ClientCore::take` takes its answer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RequestId(pub(crate) u64);

/// All unanswered requests, and all answers not yet taken.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// Last number given out. Requests and writes share the numbers, and are sent in their order.
    next: u64,
    pending: BTreeMap<u64, Request>,
    /// Requests not sent, or not sent completely, in sending order.
    outbox: VecDeque<u64>,
    by_wire: BTreeMap<u32, u64>,
    next_wire: u32,
    answers: BTreeMap<u64, (Answer, usize)>,
    /// Wire numbers of the latest requests that were refused as a whole.
    refused: VecDeque<u32>,
    /// Number of items in the program's requests, including answered ones until they are taken.
    items: usize,
    /// Number of unanswered requests of the program.
    open: usize,
    /// Number of requests that must be answered before handles can be used.
    restoring: usize,
}

#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) verb: Verb,
    /// Number of items if the program waits for the answer. `None` for the client's own requests,
    /// and for abandoned ones.
    pub(crate) program_items: Option<usize>,
    /// True if handles cannot be used before the answer.
    pub(crate) restoring: bool,
    /// True once the items to send are selected, which happens with the first frame.
    pub(crate) prepared: bool,
    /// Number of items to send in total; then those sent, and those answered.
    pub(crate) total: u32,
    pub(crate) sent: u32,
    pub(crate) answered: u32,
    pub(crate) wire: Option<u32>,
}

/// The kind of a request, with its arguments and the answer so far.
#[derive(Debug)]
pub(crate) enum Verb {
    Open {
        page: Page<Opened>,
        options: OpenOptions,
    },
    Close {
        handles: Vec<u32>,
        page: Page<()>,
    },
    Read {
        list: ReadList,
        /// True if the program takes the page itself.
        as_page: bool,
    },
    RequestValue(Page<()>),
    Info(Page<VariableInfo>),
    Find {
        pattern: String,
        conditions: Vec<Condition>,
        limit: usize,
        cursor: u64,
        found: Vec<Found>,
    },
    Why {
        name: String,
    },
    Engine,
    Flush {
        /// The number of the first write after the flush; set when it is sent.
        before: u64,
    },
    Forcing {
        verb: ForcingVerb,
        cursor: u32,
        found: Vec<ForcedEntry>,
    },
    Deploy {
        library: Arc<LibraryDefinition>,
        replace: bool,
    },
    OrderLibrary {
        verb: LibraryVerb,
        library: String,
    },
    Group(Group),
    Snapshot {
        list: ReadList,
        said: Option<SnapshotSaid>,
    },
    Lease {
        page: Page<Lease>,
        terms: LeaseTerms,
    },
    Audit(Box<Asked>),
    /// Asks to be the source of variables. One of the client's own requests.
    Provide {
        name: String,
    },
    /// Watches a pattern. One of the client's own requests.
    Watch {
        key: Key,
        number: u32,
        pattern: Arc<str>,
    },
    /// Asks the engine to compare everything it sent with what arrived. Has no answer.
    CheckAll,
    /// Ends a watch. Has no answer.
    Unwatch {
        number: u32,
    },
    /// Reopens the variables that the program had open.
    Restore {
        page: Page<()>,
    },
    /// Opens items of a wire subscription and subscribes them.
    OpenItems {
        wire: u32,
        items: Vec<u32>,
    },
    /// Subscribes open items, starting after their last updates.
    Resume {
        wire: u32,
        items: Vec<u32>,
    },
    /// Ends items of a wire subscription, or all of it if `handles` is empty.
    Unsubscribe {
        wire: u32,
        handles: Vec<u32>,
    },
}

impl Verb {
    /// Returns true if the request uses handles of this connection.
    fn needs_handles(&self) -> bool {
        use Verb::{Close, Group, Info, Lease, Read, RequestValue, Snapshot};
        matches!(
            self,
            Read { .. }
                | RequestValue(_)
                | Info(_)
                | Close { .. }
                | Group(_)
                | Snapshot { .. }
                | Lease { .. }
        )
    }

    /// Returns the feature that the engine must have, and the words for its absence.
    pub(crate) fn needs(&self) -> Option<(Features, &'static str)> {
        match self {
            Verb::Deploy { .. } | Verb::OrderLibrary { .. } => Some((
                Features::ADMINISTRATION,
                "takes no orders about libraries over the network; update it, or change its \
                 configuration files",
            )),
            Verb::Group(_) => Some((
                Features::GROUPS,
                "does not know groups; update it, or write the variables one by one",
            )),
            Verb::Snapshot { .. } => Some((
                Features::GROUPS,
                "does not know snapshots; update it, or read the variables",
            )),
            Verb::Lease { .. } => Some((
                Features::GROUPS,
                "does not know leases; update it, or write with expected positions",
            )),
            Verb::Forcing { .. } => Some((
                Features::FORCING,
                "does not tell its list of forced variables over the network; update it",
            )),
            Verb::Audit(_) => Some((Features::AUDIT, "keeps no audit; update it")),
            _ => None,
        }
    }

    /// Returns true if the request changes the engine, so that it must not be repeated.
    pub(crate) fn is_order(&self) -> bool {
        match self {
            Verb::Deploy { .. } | Verb::OrderLibrary { .. } | Verb::Group(_) => true,
            Verb::Forcing { verb, .. } => *verb != ForcingVerb::List,
            _ => false,
        }
    }
}

impl Request {
    fn new(verb: Verb) -> Self {
        Self {
            verb,
            program_items: None,
            restoring: false,
            prepared: false,
            total: 0,
            sent: 0,
            answered: 0,
            wire: None,
        }
    }

    /// Resets the request, for a connection on which nothing of it was sent.
    fn restart(&mut self) {
        self.wire = None;
        self.prepared = false;
        self.sent = 0;
        self.answered = 0;
        match &mut self.verb {
            // The handles were closed with the connection.
            Verb::Close { handles, .. } => handles.clear(),
            Verb::Snapshot { said, .. } => *said = None,
            // The cursor was valid only for that engine.
            Verb::Find { cursor, found, .. } => (*cursor, *found) = (0, Vec::new()),
            Verb::Audit(asked) => asked.restart(),
            Verb::Forcing { cursor, found, .. } => (*cursor, *found) = (0, Vec::new()),
            _ => {}
        }
    }

    /// Counts the next answered item. `index` comes from the engine.
    pub(crate) fn answer_item(&mut self, index: u32) -> Result<u32, Disconnect> {
        next_answered(&mut self.answered, self.sent, index)
    }
}

/// Counts the next answered item and returns its index. Fails if `index`, which comes from the
/// engine, is not the next one or was not sent.
#[inline]
pub(crate) fn next_answered(answered: &mut u32, sent: u32, index: u32) -> Result<u32, Disconnect> {
    if index != *answered || index >= sent {
        return Err(not_next(index, *answered, sent));
    }
    *answered += 1;
    Ok(index)
}

#[cold]
fn not_next(index: u32, answered: u32, sent: u32) -> Disconnect {
    malformed(format!(
        "item {index} is answered where {answered} was next and {sent} were asked for"
    ))
}

impl Requests {
    /// Returns the number for the next request or write.
    pub(crate) fn next_order(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Adds one of the client's own requests.
    pub(crate) fn push(&mut self, verb: Verb) -> u64 {
        self.insert(Request::new(verb))
    }

    /// Adds a request that must be answered before handles can be used, ahead of all others.
    pub(crate) fn push_restoring(&mut self, verb: Verb) {
        let id = self.next_order();
        self.pending.insert(
            id,
            Request {
                restoring: true,
                ..Request::new(verb)
            },
        );
        self.restoring += 1;
        let place = (self.restoring - 1).min(self.outbox.len());
        self.outbox.insert(place, id);
    }

    fn insert(&mut self, request: Request) -> u64 {
        let id = self.next_order();
        self.pending.insert(id, request);
        self.outbox.push_back(id);
        id
    }

    /// Returns true if handles can be used.
    pub(crate) fn are_handles_restored(&self) -> bool {
        self.restoring == 0
    }

    /// Returns true if the request is a group of writes, which must not overtake earlier writes.
    pub(crate) fn is_group(&self, id: u64) -> bool {
        let request = self.pending.get(&id);
        request.is_some_and(|request| matches!(request.verb, Verb::Group(_)))
    }

    /// Returns the request to send next, if it can be sent.
    pub(crate) fn front(&self) -> Option<u64> {
        let id = *self.outbox.front()?;
        let request = self.pending.get(&id)?;
        let waits = request.verb.needs_handles() && !self.are_handles_restored();
        (!waits).then_some(id)
    }

    pub(crate) fn is_flush(&self, id: u64) -> bool {
        let request = self.pending.get(&id);
        request.is_some_and(|request| matches!(request.verb, Verb::Flush { .. }))
    }

    /// Takes a request out to work on it. The caller must [`put_back`](Self::put_back) or end it.
    pub(crate) fn take_out(&mut self, id: u64) -> Option<Request> {
        self.pending.remove(&id)
    }

    pub(crate) fn put_back(&mut self, id: u64, request: Request) {
        self.pending.insert(id, request);
    }

    /// Removes the front request, which is completely sent.
    pub(crate) fn sent_front(&mut self) {
        self.outbox.pop_front();
    }

    /// Assigns the wire number of a request that is about to be sent.
    pub(crate) fn assign_wire(&mut self, id: u64) -> u32 {
        loop {
            self.next_wire = self.next_wire.wrapping_add(1);
            let wire = self.next_wire;
            if wire != 0 && !self.by_wire.contains_key(&wire) {
                self.by_wire.insert(wire, id);
                return wire;
            }
        }
    }

    /// Returns the request that a frame answers, or `None` for a late answer to a request that was
    /// refused as a whole.
    pub(crate) fn answered_by(
        &mut self,
        frame: &Frame<'_>,
    ) -> Result<Option<(u64, Request)>, Disconnect> {
        let wire = frame.request();
        let id = self.by_wire.get(&wire).copied();
        match id.and_then(|id| Some((id, self.take_out(id)?))) {
            None if self.refused.contains(&wire) => Ok(None),
            None => Err(malformed(format!(
                "request {wire} is answered, which nobody made"
            ))),
            found => Ok(found),
        }
    }

    /// Remembers a request that was refused as a whole. The engine may have received more of its
    /// frames before it refused, and may still answer them.
    pub(crate) fn refused(&mut self, request: &Request) {
        if self.refused.len() >= REFUSED_MAX {
            self.refused.pop_front();
        }
        self.refused.extend(request.wire);
    }

    /// Removes a finished request from all lists.
    pub(crate) fn end(&mut self, id: u64, request: &Request) {
        if let Some(wire) = request.wire {
            self.by_wire.remove(&wire);
        }
        if request.restoring {
            self.restoring -= 1;
        }
        if request.sent < request.total || request.wire.is_none() {
            self.outbox.retain(|waiting| *waiting != id);
        }
    }

    /// Sends a request again in its current state, for example for the next page.
    pub(crate) fn ask_again(&mut self, id: u64, mut request: Request) {
        if let Some(wire) = request.wire {
            self.by_wire.remove(&wire);
        }
        (request.wire, request.prepared) = (None, false);
        self.put_back(id, request);
        self.outbox.push_back(id);
    }

    /// Adds a request of the program with this many items.
    pub(crate) fn push_for_program(&mut self, items: usize, verb: Verb) -> u64 {
        self.items += items;
        self.open += 1;
        self.insert(Request {
            program_items: Some(items),
            ..Request::new(verb)
        })
    }

    /// Marks a request whose answer is no longer wanted. Returns true if the program wanted it
    /// before.
    pub(crate) fn disown(&mut self, request: &mut Request) -> bool {
        let Some(items) = request.program_items.take() else {
            return false;
        };
        self.items -= items;
        self.open -= 1;
        true
    }

    /// Stores an answer for the program.
    pub(crate) fn keep(&mut self, id: u64, answer: Answer, items: usize) {
        self.open -= 1;
        self.answers.insert(id, (answer, items));
    }

    pub(crate) fn take_answer(&mut self, id: u64) -> Option<Answer> {
        let (answer, items) = self.answers.remove(&id)?;
        self.items -= items;
        Some(answer)
    }

    pub(crate) fn is_answered(&self, id: u64) -> bool {
        self.answers.contains_key(&id)
    }

    /// Returns the number of the program's requests, including answered ones until the answer is
    /// taken.
    pub(crate) fn count(&self) -> usize {
        self.open + self.answers.len()
    }

    /// Returns the number of items in those requests.
    pub(crate) fn items(&self) -> usize {
        self.items
    }

    /// Prepares for the next connection: the program's requests will be sent again. Returns the
    /// client's own requests, and the program's requests whose outcome is unknown.
    pub(crate) fn disconnected(&mut self) -> (Vec<Request>, Vec<(u64, Request, Fault)>) {
        self.by_wire.clear();
        self.refused.clear();
        self.outbox.clear();
        self.restoring = 0;
        let (mut others, mut unknown) = (Vec::new(), Vec::new());
        for (id, mut request) in std::mem::take(&mut self.pending) {
            if request.program_items.is_none() {
                others.push(request);
                continue;
            }
            if let Some(fault) = request.unknown_outcome() {
                unknown.push((id, request, fault));
                continue;
            }
            request.restart();
            self.outbox.push_back(id);
            self.pending.insert(id, request);
        }
        (others, unknown)
    }

    /// Returns the first request whose verb matches.
    pub(crate) fn find(&self, wanted: impl Fn(&Verb) -> bool) -> Option<u64> {
        let mut pending = self.pending.iter();
        pending
            .find(|(_, request)| wanted(&request.verb))
            .map(|(id, _)| *id)
    }

    /// Returns the ids of all unanswered requests.
    pub(crate) fn ids(&self) -> Vec<u64> {
        self.pending.keys().copied().collect()
    }

    /// Returns the number of unanswered requests of the program.
    pub(crate) fn open(&self) -> usize {
        self.open
    }
}

/// The error for an engine that violates the protocol.
pub(crate) fn malformed(sentence: String) -> Disconnect {
    Disconnect::Malformed { sentence }
}
