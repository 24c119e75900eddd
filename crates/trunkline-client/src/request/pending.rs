//! Stores pending requests (queued, sent or answered). Answers stay here, within limits, until the
//! program takes them.

use std::collections::{BTreeMap, VecDeque};
use std::marker::PhantomData;

use trunkline_proto::message::fault::FaultMessage;
use trunkline_proto::{Disconnect, Fault, FaultCode, Frame};
use trunkline_types::Tick;

use super::{
    Answering, AnyAnswer, AnyRequest, Ending, Flush, Next, Prepared, Request, RequestId, Sending,
    close_quietly,
};
use crate::ask::{OwnRequests, Place};
use crate::client_state::ClientState;
use crate::connection::Connection;
use crate::error::{RequestError, malformed, wrong_answer};
use crate::parts::Parts;
use crate::table::Key;

/// Maximum number of remembered requests that the engine refused as a whole.
const REFUSED_MAX: usize = 64;

/// All unanswered requests, and all answers that the program has not taken.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    pending: BTreeMap<u64, Pending>,
    /// Requests that are not completely sent, in the order in which they are sent.
    outbox: VecDeque<u64>,
    sent: SentRequests,
    answers: BTreeMap<u64, (AnyAnswer, usize)>,
    /// Protocol numbers of the most recent requests that the engine refused as a whole.
    refused: VecDeque<u32>,
    /// Number of items in the program's requests. A request counts until its answer is taken.
    items: usize,
    /// Number of the program's requests without an answer.
    open: usize,
    /// Number of requests that must be answered before handles can be used.
    restoring: usize,
    /// Flushes that the engine has completed, and that still wait for answers to writes.
    pub(crate) flushes: Vec<u64>,
}

#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) request: AnyRequest,
    /// Number of items if the program waits for the answer; `None` for abandoned requests and for
    /// requests that the client makes itself.
    pub(crate) program_items: Option<usize>,
    /// True if no handle can be used before this request is answered.
    pub(crate) restoring: bool,
    /// True once the items to send are selected, which happens with the first frame.
    pub(crate) prepared: bool,
    /// Number of items to send in total, of items sent, and of items answered.
    pub(crate) total: u32,
    pub(crate) sent: u32,
    pub(crate) answered: u32,
    /// Request number in the protocol; `None` until the request is sent.
    pub(crate) wire: Option<u32>,
}

/// The sent requests by their protocol numbers.
#[derive(Debug, Default)]
struct SentRequests {
    requests: BTreeMap<u32, u64>,
    next: u32,
}

impl SentRequests {
    fn assign(&mut self, id: u64) -> u32 {
        loop {
            self.next = self.next.wrapping_add(1);
            let wire = self.next;
            if wire != 0 && !self.requests.contains_key(&wire) {
                self.requests.insert(wire, id);
                return wire;
            }
        }
    }
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

    /// Resets the request for a new connection, on which no part of it has been sent yet.
    fn restart(&mut self) {
        (self.wire, self.prepared) = (None, false);
        (self.sent, self.answered) = (0, 0);
        self.request.restart();
    }

    /// Returns a fault if the request changes the engine and its connection was lost before the
    /// answer. Returns `None` if the request can be sent again.
    fn unknown_outcome(&self) -> Option<Fault> {
        let is_sent = self.wire.is_some() && self.sent >= self.total;
        let is_unknown = self.request.changes_engine() && is_sent;
        is_unknown.then(|| self.unknown_outcome_fault("the connection was lost"))
    }

    /// Returns the answer for a call that ends before the engine's answer. Returns `None` if the
    /// request was not sent or changes nothing.
    pub(crate) fn unknown_answer(&self) -> Option<AnyAnswer> {
        self.wire?;
        self.request
            .unknown(&self.unknown_outcome_fault("the call ended"))
    }

    fn unknown_outcome_fault(&self, why: &str) -> Fault {
        let hint = self.request.check_hint();
        let sentence = format!(
            "{why} before the engine answered, so the engine may or may not have carried out \
             the request; {hint}"
        );
        Fault::new(FaultCode::TimedOut, sentence)
    }
}

impl Requests {
    /// Adds the requests that the client has made itself.
    pub(super) fn take_over(&mut self, own_requests: &mut OwnRequests) {
        for (id, request, place) in own_requests.list.drain(..) {
            let mut pending = Pending::new(request.into());
            match place {
                Place::Last => self.outbox.push_back(id),
                Place::First => {
                    pending.restoring = true;
                    let index = self.restoring.min(self.outbox.len());
                    self.outbox.insert(index, id);
                    self.restoring += 1;
                }
            }
            self.pending.insert(id, pending);
        }
    }

    /// Adds a request that the client makes itself.
    pub(super) fn push(&mut self, own_requests: &mut OwnRequests, request: impl Into<AnyRequest>) {
        self.insert(own_requests, Pending::new(request.into()));
    }

    fn insert(&mut self, own_requests: &mut OwnRequests, pending: Pending) -> u64 {
        self.take_over(own_requests);
        let id = own_requests.next_order();
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

    /// Returns the next request if it can be sent.
    pub(crate) fn front(&mut self, own_requests: &mut OwnRequests) -> Option<u64> {
        self.take_over(own_requests);
        let id = *self.outbox.front()?;
        let request = &self.get(id)?.request;
        let waits = request.uses_handles() && !self.are_handles_restored();
        (!waits).then_some(id)
    }

    pub(crate) fn get(&self, id: u64) -> Option<&Pending> {
        self.pending.get(&id)
    }

    /// Returns the request that a frame answers, and the id of the request. Returns `None` for a
    /// late answer to a request that the engine refused as a whole.
    fn answered_by(
        &mut self,
        frame: &Frame<'_>,
    ) -> Result<Option<(u64, &mut Pending)>, Disconnect> {
        let wire = frame.request();
        let id = self.sent.requests.get(&wire).copied();
        match id.and_then(|id| Some((id, self.pending.get_mut(&id)?))) {
            None if self.refused.contains(&wire) => Ok(None),
            None => Err(malformed(format!(
                "the engine answered request {wire}, which the client did not make"
            ))),
            found => Ok(found),
        }
    }

    /// Remembers a request that the engine refused as a whole. The engine may have received further
    /// frames of the request before the refusal, and may still answer them.
    fn remember_refused(&mut self, wire: Option<u32>) {
        if self.refused.len() >= REFUSED_MAX {
            self.refused.pop_front();
        }
        self.refused.extend(wire);
    }

    /// Removes a request.
    fn end(&mut self, id: u64) -> Option<Pending> {
        let pending = self.pending.remove(&id)?;
        if let Some(wire) = pending.wire {
            self.sent.requests.remove(&wire);
        }
        if pending.restoring {
            self.restoring -= 1;
        }
        if pending.sent < pending.total || pending.wire.is_none() {
            self.outbox.retain(|waiting| *waiting != id);
        }
        Some(pending)
    }

    /// Removes the protocol number of an answered request. The request is then sent again, or ends
    /// when the writes before it have ended.
    fn release_number(&mut self, id: u64) {
        if let Some(pending) = self.pending.get_mut(&id) {
            pending.prepared = false;
            if let Some(wire) = pending.wire.take() {
                self.sent.requests.remove(&wire);
            }
        }
    }

    pub(crate) fn push_for_program<R: Into<AnyRequest>>(
        &mut self,
        own_requests: &mut OwnRequests,
        items: usize,
        request: R,
    ) -> RequestId<R> {
        self.items += items;
        self.open += 1;
        let pending = Pending {
            program_items: Some(items),
            ..Pending::new(request.into())
        };
        RequestId(self.insert(own_requests, pending), PhantomData)
    }

    fn store_answer(&mut self, id: u64, answer: AnyAnswer, items: usize) {
        self.open -= 1;
        self.answers.insert(id, (answer, items));
    }

    /// Takes the answer if `unpack` accepts it. `unpack` rejects the answer to another kind of
    /// request, because the id may come from another client.
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

    /// Returns the number of the program's requests. A request counts until its answer is taken.
    pub(crate) fn count(&self) -> usize {
        self.open + self.answers.len()
    }

    fn items(&self) -> usize {
        self.items
    }

    /// Prepares for the next connection, on which the program's requests are sent again. Returns
    /// the requests that the client made itself, and the program's requests with an unknown
    /// outcome.
    fn disconnected(&mut self) -> (Vec<Pending>, Vec<(u64, Pending, Fault)>) {
        self.sent.requests.clear();
        self.refused.clear();
        self.outbox.clear();
        self.restoring = 0;
        let (mut own, mut unknown) = (Vec::new(), Vec::new());
        for (id, mut pending) in std::mem::take(&mut self.pending) {
            if pending.program_items.is_none() {
                own.push(pending);
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
        (own, unknown)
    }

    fn find(&self, matches: impl Fn(&AnyRequest) -> bool) -> Option<u64> {
        let mut pending = self.pending.iter();
        pending
            .find(|(_, pending)| matches(&pending.request))
            .map(|(id, _)| *id)
    }

    fn ids(&self) -> Vec<u64> {
        self.pending.keys().copied().collect()
    }

    pub(crate) fn open(&self) -> usize {
        self.open
    }

    /// Adds a request of the program with this number of items, unless a limit is reached.
    pub(crate) fn ask_for_program<R: Request + Into<AnyRequest>>(
        &mut self,
        base: &mut ClientState,
        items: usize,
        request: R,
    ) -> Result<RequestId<R>, RequestError> {
        self.check(base, items)?;
        Ok(self.push_for_program(&mut base.own_requests, items, request))
    }

    /// Ends a request that needs no answer from the engine.
    pub(crate) fn end_at_once(&mut self, parts: &mut Parts, id: u64) {
        self.end_request(parts, id, None);
    }

    pub(crate) fn check(&self, base: &ClientState, items: usize) -> Result<(), RequestError> {
        let closed = |cause| RequestError::Closed { cause };
        base.connection.check_usable().map_err(closed)?;
        let max = base.options.requests_max;
        if self.count() >= max {
            return Err(RequestError::TooManyRequests { max });
        }
        let max = base.options.request_items_max;
        if self.items().saturating_add(items) > max {
            return Err(RequestError::TooManyItems { items, max });
        }
        Ok(())
    }

    /// Abandons a request whose answer the program no longer needs. Closes the variables that the
    /// request opened.
    pub(crate) fn forget(&mut self, parts: &mut Parts, id: u64) {
        if let Some(answer) = self.take_answer(id, Ok) {
            if let AnyAnswer::Open(Ok(results)) = answer {
                let opened = results.iter().flatten().map(|opened| opened.variable);
                close_quietly(&mut parts.base, self, &opened.collect::<Vec<_>>());
            }
            return;
        }
        let Some(pending) = self.pending.get_mut(&id) else {
            return;
        };
        let is_sent = pending.wire.is_some();
        if let Some(items) = pending.program_items.take() {
            self.items -= items;
            self.open -= 1;
            if !is_sent {
                self.end_request(parts, id, None);
            }
        }
    }

    pub(crate) fn send(&mut self, parts: &mut Parts, id: u64, page: usize, out: &mut Vec<u8>) {
        let Some(pending) = self.pending.get_mut(&id) else {
            self.outbox.pop_front();
            return;
        };
        if !pending.prepared {
            if let Some(fault) = not_supported(&parts.base.connection, &pending.request) {
                return self.end_request(parts, id, Some(fault));
            }
            pending.total = match pending.request.prepare(parts) {
                Prepared::Items(0) => return self.end_request(parts, id, None),
                Prepared::Later => {
                    self.outbox.pop_front();
                    return self.wait_for_writes(parts, id);
                }
                Prepared::Items(count) => count,
                Prepared::Single => 0,
            };
            pending.prepared = true;
            pending.wire = Some(self.sent.assign(id));
        }
        pending.request.encode(&mut Sending {
            parts,
            number: pending.wire.unwrap_or(0),
            total: pending.total,
            sent: &mut pending.sent,
            page,
            out,
        });
        if pending.sent >= pending.total {
            self.outbox.pop_front();
        }
        if pending.request.answered_by().is_none() {
            self.end_request(parts, id, None);
        }
    }

    /// Handles a frame that answers a request, in full or in part.
    pub(crate) fn handle_answer(
        &mut self,
        parts: &mut Parts,
        now: Tick,
        frame: &Frame<'_>,
    ) -> Result<(), Disconnect> {
        let Some((id, pending)) = self.answered_by(frame)? else {
            return Ok(());
        };
        // After an error, the connection ends, which decides the outcome of the request.
        let next = process(parts, now, frame, pending)?;
        let (answered, total) = (pending.answered, pending.total);
        match next {
            Next::Again => {
                self.release_number(id);
                self.outbox.push_back(id);
            }
            Next::Later => {
                self.release_number(id);
                self.wait_for_writes(parts, id);
            }
            Next::Settle if frame.has_more() => {}
            Next::Settle if answered >= total => self.end_request(parts, id, None),
            Next::Settle => {
                let number = frame.request();
                return Err(malformed(format!(
                    "the answer to request {number} ends after {answered} of {total} items"
                )));
            }
        }
        Ok(())
    }

    /// Handles the refusal of a whole request. Every unanswered item gets the fault.
    pub(crate) fn handle_fault(
        &mut self,
        parts: &mut Parts,
        frame: &Frame<'_>,
    ) -> Result<(), Disconnect> {
        let fault: Fault = FaultMessage::decode(frame)?.fault.to_fault();
        if let Some((id, _)) = self.answered_by(frame)? {
            self.remember_refused(Some(frame.request()));
            self.end_request(parts, id, Some(fault));
        }
        Ok(())
    }

    fn wait_for_writes(&mut self, parts: &mut Parts, id: u64) {
        self.flushes.push(id);
        self.end_flushes(parts);
    }

    /// Ends the flushes whose preceding writes have all been answered.
    pub(crate) fn end_flushes(&mut self, parts: &mut Parts) {
        for id in std::mem::take(&mut self.flushes) {
            // A flush that is no longer pending was abandoned.
            if let Some(AnyRequest::Flush(Flush { before })) =
                self.get(id).map(|pending| &pending.request)
            {
                match parts.writes.are_answered_before(*before) {
                    true => self.end_at_once(parts, id),
                    false => self.flushes.push(id),
                }
            }
        }
    }

    /// Ends a watch. Returns true if the engine may have received its request.
    pub(crate) fn end_watch(&mut self, base: &mut ClientState, key: Key) -> bool {
        self.take_over(&mut base.own_requests);
        let is_of_watch =
            |request: &AnyRequest| matches!(request, AnyRequest::Watch(watch) if watch.key == key);
        let Some(id) = self.find(is_of_watch) else {
            return true;
        };
        let wire = self.end(id).and_then(|pending| pending.wire);
        // Pages of the answer may still arrive, so the request is remembered as refused.
        self.remember_refused(wire);
        wire.is_some()
    }

    /// Ends the request of a watch whose listing is complete.
    pub(crate) fn listed(&mut self, frame: &Frame<'_>) -> Result<(), Disconnect> {
        if frame.request() == 0 {
            return Ok(());
        }
        let Ok(Some((id, pending))) = self.answered_by(frame) else {
            return Ok(());
        };
        if !matches!(pending.request, AnyRequest::Watch(_)) {
            return Err(wrong_answer(frame));
        }
        self.end(id);
        Ok(())
    }

    /// Prepares for the next connection. Requests that were sent and change the engine end with an
    /// unknown outcome.
    pub(crate) fn connection_lost(&mut self, parts: &mut Parts) {
        parts.base.own_requests.list.clear();
        let (own, unknown) = self.disconnected();
        for (id, pending, fault) in unknown {
            self.answer(parts, id, pending, Some(fault));
        }
        for pending in own {
            // The variables that these requests opened are released, and their writes are counted as
            // unknown.
            let fault = pending.unknown_outcome();
            let fault = fault.unwrap_or_else(|| FaultCode::TimedOut.into());
            pending.request.abandoned(Ending {
                parts,
                requests: self,
                fault: Some(fault),
                wanted: false,
            });
        }
    }

    /// Ends all requests, because there will be no further connection.
    pub(crate) fn refuse_all(&mut self, parts: &mut Parts, fault: &Fault) {
        for id in self.ids() {
            self.end_request(parts, id, Some(fault.clone()));
        }
    }

    /// Ends a request. `fault` applies to unanswered items, or to the whole request.
    fn end_request(&mut self, parts: &mut Parts, id: u64, fault: Option<Fault>) {
        if let Some(pending) = self.end(id) {
            self.answer(parts, id, pending, fault);
        }
    }

    /// Stores the answer to a removed request if the program waits for it.
    fn answer(&mut self, parts: &mut Parts, id: u64, pending: Pending, fault: Option<Fault>) {
        let wanted = pending.program_items;
        let answer = pending.request.end(Ending {
            parts,
            requests: self,
            fault,
            wanted: wanted.is_some(),
        });
        if let (Some(answer), Some(items)) = (answer, wanted) {
            self.store_answer(id, answer, items);
            parts.base.changes += 1;
        }
    }
}

/// Returns a fault if the engine does not support this request. Such an engine would ignore the
/// frame and never answer.
fn not_supported(connection: &Connection, request: &AnyRequest) -> Option<Fault> {
    let session = connection.session()?;
    let (feature, missing) = request.requires()?;
    if session.features.contains(feature) {
        return None;
    }
    let sentence = format!("{} {missing}", session.engine_name);
    Some(Fault::new(FaultCode::NotSupported, sentence))
}

fn process(
    parts: &mut Parts,
    now: Tick,
    frame: &Frame<'_>,
    pending: &mut Pending,
) -> Result<Next, Disconnect> {
    if frame.kind() != pending.request.answered_by() {
        return Err(wrong_answer(frame));
    }
    pending.request.answered(&mut Answering {
        parts,
        now,
        frame,
        sent: pending.sent,
        answered: &mut pending.answered,
    })
}
