//! Pending requests: what was asked, sent and answered.

use std::collections::{BTreeMap, VecDeque};
use std::marker::PhantomData;

use trunkline_proto::{Disconnect, Fault, FaultCode, Frame};

use super::{AnyAnswer, AnyRequest, RequestId};
use crate::ask::{Asked, Place};
use crate::error::malformed;

const REFUSED_MAX: usize = 64;

/// All unanswered requests, and all answers not yet taken.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    pending: BTreeMap<u64, Pending>,
    /// Requests not sent, or not sent completely, in sending order.
    outbox: VecDeque<u64>,
    by_wire: BTreeMap<u32, u64>,
    next_wire: u32,
    answers: BTreeMap<u64, (AnyAnswer, usize)>,
    /// Wire numbers of the latest requests that were refused as a whole.
    refused: VecDeque<u32>,
    /// Number of items in the program's requests, including answered ones until they are taken.
    items: usize,
    open: usize,
    /// Number of requests that must be answered before handles can be used.
    restoring: usize,
    /// Flushes that the engine has completed and that still wait for write answers.
    pub(super) flushes: Vec<u64>,
}

#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) request: AnyRequest,
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

impl Pending {
    fn new(request: AnyRequest) -> Self {
        Self {
            request,
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
        (self.wire, self.prepared) = (None, false);
        (self.sent, self.answered) = (0, 0);
        self.request.restart();
    }

    /// Returns the fault for a request that changes the engine and whose connection was lost, or
    /// `None` if the request can be sent again.
    pub(crate) fn unknown_outcome(&self) -> Option<Fault> {
        let is_with_the_engine = self.wire.is_some() && self.sent >= self.total;
        let is_unknown = self.request.changes_engine() && is_with_the_engine;
        is_unknown.then(|| self.unknown_because("the connection was lost"))
    }

    /// Returns the answer to a request whose call ends before the engine's answer. `None` if it
    /// was not sent, or changes nothing.
    pub(crate) fn unknown_answer(&self) -> Option<AnyAnswer> {
        self.wire?;
        self.request
            .unknown(&self.unknown_because("the call ended"))
    }

    fn unknown_because(&self, why: &str) -> Fault {
        let look = self.request.look();
        let sentence = format!(
            "{why} before the engine answered, so it may have been carried out or not; {look}"
        );
        Fault::new(FaultCode::TimedOut, sentence)
    }
}

impl Requests {
    /// Takes over the requests that the client has made by itself.
    pub(super) fn take_over(&mut self, asked: &mut Asked) {
        for (id, request, place) in asked.list.drain(..) {
            let mut pending = Pending::new(request.into());
            match place {
                Place::Last => self.outbox.push_back(id),
                Place::First => {
                    pending.restoring = true;
                    let place = self.restoring.min(self.outbox.len());
                    self.outbox.insert(place, id);
                    self.restoring += 1;
                }
            }
            self.pending.insert(id, pending);
        }
    }

    /// Adds a request whose answer the program does not take.
    pub(super) fn push(&mut self, asked: &mut Asked, request: impl Into<AnyRequest>) {
        self.insert(asked, Pending::new(request.into()));
    }

    fn insert(&mut self, asked: &mut Asked, pending: Pending) -> u64 {
        self.take_over(asked);
        let id = asked.next_order();
        self.pending.insert(id, pending);
        self.outbox.push_back(id);
        id
    }

    pub(crate) fn are_handles_restored(&self) -> bool {
        self.restoring == 0
    }

    pub(crate) fn waits_for_writes(&self, id: u64) -> bool {
        self.get(id)
            .is_some_and(|pending| pending.request.waits_for_writes())
    }

    /// Returns the request to send next, if it can be sent.
    pub(crate) fn front(&mut self, asked: &mut Asked) -> Option<u64> {
        self.take_over(asked);
        let id = *self.outbox.front()?;
        let request = &self.get(id)?.request;
        let waits = request.uses_handles() && !self.are_handles_restored();
        (!waits).then_some(id)
    }

    pub(crate) fn get(&self, id: u64) -> Option<&Pending> {
        self.pending.get(&id)
    }

    /// Takes a request out to work on it. The caller must [`put_back`](Self::put_back) or end it.
    pub(crate) fn take_out(&mut self, id: u64) -> Option<Pending> {
        self.pending.remove(&id)
    }

    pub(crate) fn put_back(&mut self, id: u64, pending: Pending) {
        self.pending.insert(id, pending);
    }

    pub(crate) fn sent_front(&mut self) {
        self.outbox.pop_front();
    }

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
    ) -> Result<Option<(u64, Pending)>, Disconnect> {
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
    pub(crate) fn refused(&mut self, pending: &Pending) {
        if self.refused.len() >= REFUSED_MAX {
            self.refused.pop_front();
        }
        self.refused.extend(pending.wire);
    }

    pub(crate) fn end(&mut self, id: u64, pending: &Pending) {
        if let Some(wire) = pending.wire {
            self.by_wire.remove(&wire);
        }
        if pending.restoring {
            self.restoring -= 1;
        }
        if pending.sent < pending.total || pending.wire.is_none() {
            self.outbox.retain(|waiting| *waiting != id);
        }
    }

    /// Sends a request again in its current state, for example for the next page.
    pub(crate) fn ask_again(&mut self, id: u64, mut pending: Pending) {
        self.take_off_wire(&mut pending);
        pending.prepared = false;
        self.put_back(id, pending);
        self.outbox.push_back(id);
    }

    /// Keeps a request that the engine has answered, or is not sent, until the writes before it
    /// have ended.
    pub(crate) fn keep_for_writes(&mut self, id: u64, mut pending: Pending) {
        if pending.wire.is_none() {
            self.sent_front();
        }
        self.take_off_wire(&mut pending);
        self.put_back(id, pending);
    }

    fn take_off_wire(&mut self, pending: &mut Pending) {
        if let Some(wire) = pending.wire.take() {
            self.by_wire.remove(&wire);
        }
    }

    pub(crate) fn push_for_program<R: Into<AnyRequest>>(
        &mut self,
        asked: &mut Asked,
        items: usize,
        request: R,
    ) -> RequestId<R> {
        self.items += items;
        self.open += 1;
        let pending = Pending {
            program_items: Some(items),
            ..Pending::new(request.into())
        };
        RequestId(self.insert(asked, pending), PhantomData)
    }

    /// Marks a request whose answer is no longer wanted. Returns true if the program wanted it
    /// before.
    pub(crate) fn disown(&mut self, pending: &mut Pending) -> bool {
        let Some(items) = pending.program_items.take() else {
            return false;
        };
        self.items -= items;
        self.open -= 1;
        true
    }

    pub(crate) fn keep(&mut self, id: u64, answer: AnyAnswer, items: usize) {
        self.open -= 1;
        self.answers.insert(id, (answer, items));
    }

    /// Takes the answer if `unpack` accepts it. The id may be one of another client.
    pub(crate) fn take_answer<A>(
        &mut self,
        id: u64,
        unpack: impl FnOnce(AnyAnswer) -> Result<A, AnyAnswer>,
    ) -> Option<A> {
        let (answer, items) = self.answers.remove(&id)?;
        match unpack(answer) {
            Ok(answer) => {
                self.items -= items;
                Some(answer)
            }
            Err(other) => {
                self.answers.insert(id, (other, items));
                None
            }
        }
    }

    pub(crate) fn is_answered(&self, id: u64) -> bool {
        self.answers.contains_key(&id)
    }

    /// Returns the number of the program's requests, including answered ones until the answer is
    /// taken.
    pub(crate) fn count(&self) -> usize {
        self.open + self.answers.len()
    }

    pub(crate) fn items(&self) -> usize {
        self.items
    }

    /// Prepares for the next connection: the program's requests will be sent again. Returns the
    /// client's own requests, and the program's requests whose outcome is unknown.
    pub(crate) fn disconnected(&mut self) -> (Vec<Pending>, Vec<(u64, Pending, Fault)>) {
        self.by_wire.clear();
        self.refused.clear();
        self.outbox.clear();
        self.restoring = 0;
        let (mut others, mut unknown) = (Vec::new(), Vec::new());
        for (id, mut pending) in std::mem::take(&mut self.pending) {
            if pending.program_items.is_none() {
                others.push(pending);
                continue;
            }
            if let Some(fault) = pending.unknown_outcome() {
                unknown.push((id, pending, fault));
                continue;
            }
            pending.restart();
            self.outbox.push_back(id);
            self.pending.insert(id, pending);
        }
        (others, unknown)
    }

    pub(crate) fn find(&self, wanted: impl Fn(&AnyRequest) -> bool) -> Option<u64> {
        let mut pending = self.pending.iter();
        pending
            .find(|(_, pending)| wanted(&pending.request))
            .map(|(id, _)| *id)
    }

    pub(crate) fn ids(&self) -> Vec<u64> {
        self.pending.keys().copied().collect()
    }

    pub(crate) fn open(&self) -> usize {
        self.open
    }
}
