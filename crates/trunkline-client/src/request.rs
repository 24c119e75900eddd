//! Requests on their way: what was asked, what was sent of it, what was answered.
//!
//! A request that is unanswered when the connection breaks is asked again on the next one. Only
//! those of the program are; what the client asked for its own purposes is made anew from what it
//! then needs.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use trunkline_proto::message::forcing::{ForcedEntry, ForcingVerb};
use trunkline_proto::message::library::LibraryVerb;
use trunkline_proto::{Disconnect, Fault, Features, Frame};
use trunkline_types::LibraryDefinition;

use crate::answer::{Answer, Found, Lease, Opened, Page};
use crate::audit::Asked;
use crate::condition::Condition;
use crate::group::{Group, LeaseTerms, SnapshotSaid};
use crate::options::OpenOptions;
use crate::page::ReadList;
use crate::table::Key;
use trunkline_proto::message::info::VariableInfo;

/// Refused requests that are remembered.
const REFUSED_MAX: usize = 64;

/// A request of the program; its answer is taken with [`ClientCore::take`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RequestId(pub(crate) u64);

/// Every request that is not answered, and every answer that was not taken.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// Of requests and writes alike: they are sent in the order of their numbers.
    next: u64,
    pending: BTreeMap<u64, Request>,
    /// Requests that are not sent, or not completely, in the order they are to be.
    outbox: VecDeque<u64>,
    by_wire: BTreeMap<u32, u64>,
    next_wire: u32,
    answers: BTreeMap<u64, (Answer, usize)>,
    /// Numbers on the wire of requests that were refused as a whole, the latest ones.
    refused: VecDeque<u32>,
    /// Items of the program's requests, answered ones included until they are taken.
    items: usize,
    /// Of the program.
    open: usize,
    /// Requests that have to be answered before handles can be used.
    restoring: usize,
}

/// One request.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) verb: Verb,
    /// Whose answer someone will take; `None`: the client's own, or nobody's any more.
    pub(crate) program_items: Option<usize>,
    /// Handles cannot be used before it is answered.
    pub(crate) restoring: bool,
    /// What was sent is decided when the first frame is.
    pub(crate) prepared: bool,
    /// Items to be sent in all, sent, and answered.
    pub(crate) total: u32,
    pub(crate) sent: u32,
    pub(crate) answered: u32,
    pub(crate) wire: Option<u32>,
}

/// What is asked.
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
        /// The program takes the block of memory as it is.
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
        /// The number of the first write behind it, once it is sent.
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
    /// Asks to be the source of variables; the client's own.
    Provide {
        name: String,
    },
    /// Follows a pattern; the client's own.
    Watch {
        key: Key,
        number: u32,
        pattern: Arc<str>,
    },
    /// The engine is to hold everything it sent against what is here; nobody answers.
    CheckAll,
    /// Ends a watch; nobody answers.
    Unwatch {
        number: u32,
    },
    /// Opens again what the program had open.
    Restore {
        page: Page<()>,
    },
    /// Opens items of a wire subscription and subscribes them.
    OpenItems {
        wire: u32,
        items: Vec<u32>,
    },
    /// Subscribes open items behind the updates they have.
    Resume {
        wire: u32,
        items: Vec<u32>,
    },
    /// Ends items of a wire subscription; none: all of it.
    Unsubscribe {
        wire: u32,
        handles: Vec<u32>,
    },
}

impl Verb {
    /// Whether it needs the handles of this connection.
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

    /// What the engine must know of it, and what it is in words.
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

    /// Whether it changes the engine, so that to ask twice is not to ask once.
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

    /// From the start, on a connection on which nothing of it was sent.
    fn restart(&mut self) {
        self.wire = None;
        self.prepared = false;
        self.sent = 0;
        self.answered = 0;
        match &mut self.verb {
            // They were closed with the connection.
            Verb::Close { handles, .. } => handles.clear(),
            // The cursor meant something to that engine only.
            Verb::Snapshot { said, .. } => *said = None,
            Verb::Find { cursor, found, .. } => (*cursor, *found) = (0, Vec::new()),
            Verb::Audit(asked) => asked.restart(),
            Verb::Forcing { cursor, found, .. } => (*cursor, *found) = (0, Vec::new()),
            _ => {}
        }
    }

    /// The index of the next answered item, which the engine says is `index`.
    pub(crate) fn answer_item(&mut self, index: u32) -> Result<u32, Disconnect> {
        next_answered(&mut self.answered, self.sent, index)
    }
}

/// The index of the next item, which the engine says is `index`, where so many are sent and
/// answered.
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
    /// The number of the next request or write.
    pub(crate) fn next_order(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Adds a request of the client's own.
    pub(crate) fn push(&mut self, verb: Verb) -> u64 {
        self.insert(Request::new(verb))
    }

    /// Adds a request that has to be answered before handles can be used, ahead of all others.
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

    /// Whether handles can be used.
    pub(crate) fn are_handles_restored(&self) -> bool {
        self.restoring == 0
    }

    /// Whether a request is a group of writes, which overtakes no write before it.
    pub(crate) fn is_group(&self, id: u64) -> bool {
        let request = self.pending.get(&id);
        request.is_some_and(|request| matches!(request.verb, Verb::Group(_)))
    }

    /// The request to be sent next, if one can be.
    pub(crate) fn front(&self) -> Option<u64> {
        let id = *self.outbox.front()?;
        let request = self.pending.get(&id)?;
        let waits = request.verb.needs_handles() && !self.are_handles_restored();
        (!waits).then_some(id)
    }

    /// Whether this request is a flush.
    pub(crate) fn is_flush(&self, id: u64) -> bool {
        let request = self.pending.get(&id);
        request.is_some_and(|request| matches!(request.verb, Verb::Flush { .. }))
    }

    /// Takes a request out, to work on it; [`put_back`](Self::put_back) or end it.
    pub(crate) fn take_out(&mut self, id: u64) -> Option<Request> {
        self.pending.remove(&id)
    }

    pub(crate) fn put_back(&mut self, id: u64, request: Request) {
        self.pending.insert(id, request);
    }

    /// Everything of the request at the front is sent.
    pub(crate) fn sent_front(&mut self) {
        self.outbox.pop_front();
    }

    /// The number on the wire of a request that is about to be sent.
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

    /// The request that a frame answers; `None` for what is left of one that was refused as a
    /// whole.
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

    /// A request was refused as a whole. The engine may have had more of its frames before it said
    /// so, and answers to those may come.
    pub(crate) fn refused(&mut self, request: &Request) {
        if self.refused.len() >= REFUSED_MAX {
            self.refused.pop_front();
        }
        self.refused.extend(request.wire);
    }

    /// A request is over: it is on no list any more.
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

    /// The same question once more, as it is now.
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

    /// Nobody will take the answer any more. Whether somebody would have.
    pub(crate) fn disown(&mut self, request: &mut Request) -> bool {
        let Some(items) = request.program_items.take() else {
            return false;
        };
        self.items -= items;
        self.open -= 1;
        true
    }

    /// Keeps an answer for the program.
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

    /// Requests of the program, answered ones included until the answer is taken.
    pub(crate) fn count(&self) -> usize {
        self.open + self.answers.len()
    }

    /// Items of those requests.
    pub(crate) fn items(&self) -> usize {
        self.items
    }

    /// The connection is gone: the program's requests are to be asked again. Returns the others,
    /// and the orders of which nobody knows what became of them.
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

    /// The first request that asks for this.
    pub(crate) fn find(&self, wanted: impl Fn(&Verb) -> bool) -> Option<u64> {
        let mut pending = self.pending.iter();
        pending
            .find(|(_, request)| wanted(&request.verb))
            .map(|(id, _)| *id)
    }

    /// The numbers of all requests that are not answered.
    pub(crate) fn ids(&self) -> Vec<u64> {
        self.pending.keys().copied().collect()
    }

    /// Requests of the program that are not answered.
    pub(crate) fn open(&self) -> usize {
        self.open
    }
}

/// The engine does not keep to the protocol.
pub(crate) fn malformed(sentence: String) -> Disconnect {
    Disconnect::Malformed { sentence }
}
