//! The course of a request: sent, answered and ended. Answers are kept, within bounds, until they
//! are taken.

use trunkline_proto::message::fault::FaultMessage;
use trunkline_proto::{Disconnect, Fault, FaultCode, Frame};
use trunkline_types::Tick;

use super::pending::{Pending, Requests};
use super::{
    Answering, AnyAnswer, AnyRequest, Ending, Flush, Next, Prepared, Request, RequestId, Sending,
    close_quietly,
};
use crate::base::Base;
use crate::connection::Connection;
use crate::error::{RequestError, malformed, wrong_answer};
use crate::parts::Parts;
use crate::table::Key;

impl Requests {
    /// Adds a request of the program with this many items, unless a bound is reached.
    pub(crate) fn ask_for_program<R: Request + Into<AnyRequest>>(
        &mut self,
        base: &mut Base,
        items: usize,
        request: R,
    ) -> Result<RequestId<R>, RequestError> {
        self.check(base, items)?;
        Ok(self.push_for_program(&mut base.asked, items, request))
    }

    /// Ends a request that needs no answer of the engine.
    pub(crate) fn end_at_once(&mut self, parts: &mut Parts, id: u64) {
        if let Some(pending) = self.take_out(id) {
            self.end_request(parts, id, pending, None);
        }
    }

    pub(crate) fn check(&self, base: &Base, items: usize) -> Result<(), RequestError> {
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

    /// Abandons a request whose answer is no longer wanted. Variables that it opens are closed again.
    pub(crate) fn forget(&mut self, parts: &mut Parts, id: u64) {
        if let Some(answer) = self.take_answer(id, Ok) {
            if let AnyAnswer::Open(Ok(results)) = answer {
                let opened = results.iter().flatten().map(|opened| opened.variable);
                close_quietly(&mut parts.base, self, &opened.collect::<Vec<_>>());
            }
            return;
        }
        let Some(mut pending) = self.take_out(id) else {
            return;
        };
        let is_programs = self.disown(&mut pending);
        match is_programs && pending.wire.is_none() {
            true => self.end_request(parts, id, pending, None),
            false => self.put_back(id, pending),
        }
    }

    pub(crate) fn send(&mut self, parts: &mut Parts, id: u64, page: usize, out: &mut Vec<u8>) {
        let Some(mut pending) = self.take_out(id) else {
            self.sent_front();
            return;
        };
        if !pending.prepared {
            if let Some(fault) = not_supported(&parts.base.connection, &pending.request) {
                return self.end_request(parts, id, pending, Some(fault));
            }
            pending.total = match pending.request.prepare(parts) {
                Prepared::Items(0) => return self.end_request(parts, id, pending, None),
                Prepared::Later => return self.wait_for_writes(parts, id, pending),
                Prepared::Items(count) => count,
                Prepared::Single => 0,
            };
            pending.prepared = true;
            pending.wire = Some(self.assign_wire(id));
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
            self.sent_front();
        }
        match pending.request.answered_by() {
            Some(_) => self.put_back(id, pending),
            None => self.end_request(parts, id, pending, None),
        }
    }

    /// Handles a frame that answers a request, in full or in part.
    pub(crate) fn handle_answer(
        &mut self,
        parts: &mut Parts,
        now: Tick,
        frame: &Frame<'_>,
    ) -> Result<(), Disconnect> {
        let Some((id, mut pending)) = self.answered_by(frame)? else {
            return Ok(());
        };
        let next = process(parts, now, frame, &mut pending);
        let (answered, total) = (pending.answered, pending.total);
        match next {
            Ok(Next::Again) => self.ask_again(id, pending),
            Ok(Next::Later) => self.wait_for_writes(parts, id, pending),
            Ok(Next::Settle) if frame.has_more() => self.put_back(id, pending),
            Ok(Next::Settle) if answered >= total => self.end_request(parts, id, pending, None),
            Ok(Next::Settle) => {
                self.put_back(id, pending);
                let number = frame.request();
                return Err(malformed(format!(
                    "the answer to request {number} ends after {answered} of {total} items"
                )));
            }
            Err(cause) => {
                // The disconnect decides what becomes of it.
                self.put_back(id, pending);
                return Err(cause);
            }
        }
        Ok(())
    }

    /// Handles the refusal of a whole request: every item without an answer gets this fault.
    pub(crate) fn handle_fault(
        &mut self,
        parts: &mut Parts,
        frame: &Frame<'_>,
    ) -> Result<(), Disconnect> {
        let fault: Fault = FaultMessage::decode(frame)?.fault.to_fault();
        let Some((id, pending)) = self.answered_by(frame)? else {
            return Ok(());
        };
        self.refused(&pending);
        self.end_request(parts, id, pending, Some(fault));
        Ok(())
    }

    fn wait_for_writes(&mut self, parts: &mut Parts, id: u64, pending: Pending) {
        self.keep_for_writes(id, pending);
        self.flushes.push(id);
        self.end_flushes(parts);
    }

    /// Ends the flushes whose earlier writes have all been answered.
    pub(crate) fn end_flushes(&mut self, parts: &mut Parts) {
        for id in std::mem::take(&mut self.flushes) {
            // The others were given up.
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

    /// Ends a watch. Returns true if the engine may have received the request for it.
    pub(crate) fn end_watch(&mut self, base: &mut Base, key: Key) -> bool {
        self.take_over(&mut base.asked);
        let of_it =
            |request: &AnyRequest| matches!(request, AnyRequest::Watch(watch) if watch.key == key);
        let Some(id) = self.find(of_it) else {
            return true;
        };
        let Some(pending) = self.take_out(id) else {
            return true;
        };
        // Pages of the answer may still arrive.
        self.refused(&pending);
        self.end(id, &pending);
        pending.wire.is_some()
    }

    /// Ends the request for a watch, whose listing is complete.
    pub(crate) fn listed(&mut self, frame: &Frame<'_>) -> Result<(), Disconnect> {
        if frame.request() == 0 {
            return Ok(());
        }
        let Ok(Some((id, pending))) = self.answered_by(frame) else {
            return Ok(());
        };
        if !matches!(pending.request, AnyRequest::Watch(_)) {
            self.put_back(id, pending);
            return Err(wrong_answer(frame));
        }
        self.end(id, &pending);
        Ok(())
    }

    /// Prepares for the next connection. Requests that were sent and change the engine end as
    /// unknown.
    pub(crate) fn connection_lost(&mut self, parts: &mut Parts) {
        parts.base.asked.list.clear();
        let (others, unknown) = self.disconnected();
        for (id, pending, fault) in unknown {
            self.end_request(parts, id, pending, Some(fault));
        }
        for pending in others {
            // Their calls have ended: what they opened is released, and what they wrote is counted.
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

    /// Ends all requests, because no connection will be made.
    pub(crate) fn refuse_all(&mut self, parts: &mut Parts, fault: &Fault) {
        for id in self.ids() {
            if let Some(request) = self.take_out(id) {
                self.end_request(parts, id, request, Some(fault.clone()));
            }
        }
    }

    /// Ends a request. `fault` applies to unanswered items, or to the whole request.
    fn end_request(&mut self, parts: &mut Parts, id: u64, pending: Pending, fault: Option<Fault>) {
        self.end(id, &pending);
        let wanted = pending.program_items;
        let answer = pending.request.end(Ending {
            parts,
            requests: self,
            fault,
            wanted: wanted.is_some(),
        });
        if let (Some(answer), Some(items)) = (answer, wanted) {
            self.keep(id, answer, items);
            parts.base.changes += 1;
        }
    }
}

/// Returns a fault if the engine does not support this request. It would skip the frame and never
/// answer.
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
