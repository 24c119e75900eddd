//! The course of a request: sent, answered and ended. Answers are kept, within bounds, until they
//! are taken.

use std::marker::PhantomData;
use std::sync::Arc;

use trunkline_proto::message::fault::FaultMessage;
use trunkline_proto::{Disconnect, Fault, FaultCode, Frame};
use trunkline_types::Tick;

use crate::client::ClientCore;
use crate::error::{RequestError, malformed, wrong_answer};
use crate::pending::Pending;
use crate::request::{
    Answering, AnyAnswer, AnyRequest, Ending, Flush, Next, Prepared, Request, RequestId, Sending,
    close_quietly,
};

impl ClientCore {
    /// Adds a request of the program with this many items, unless a bound is reached.
    pub(crate) fn ask<R: Request + Into<AnyRequest>>(
        &mut self,
        items: usize,
        request: R,
    ) -> Result<RequestId<R>, RequestError> {
        self.check_request(items)?;
        Ok(self.push(items, request))
    }

    /// Adds a request of the program, whatever the bounds.
    pub(crate) fn push<R: Into<AnyRequest>>(&mut self, items: usize, request: R) -> RequestId<R> {
        let id = self.requests.push_for_program(items, request);
        RequestId(id, PhantomData)
    }

    /// Ends a request that needs no answer of the engine.
    pub(crate) fn end_at_once<R>(&mut self, request: RequestId<R>) {
        if let Some(pending) = self.requests.take_out(request.0) {
            self.end_request(request.0, pending, None);
        }
    }

    /// Checks the bounds for a request with this many items.
    pub(crate) fn check_request(&self, items: usize) -> Result<(), RequestError> {
        if let Some(cause) = self.connection.closed() {
            return Err(RequestError::Closed {
                cause: Arc::clone(cause),
            });
        }
        let max = self.options.requests_max;
        if self.requests.count() >= max {
            return Err(RequestError::TooManyRequests { max });
        }
        let max = self.options.request_items_max;
        if self.requests.items().saturating_add(items) > max {
            return Err(RequestError::TooManyItems { items, max });
        }
        Ok(())
    }

    /// Takes the answer, or the fault with which the engine refused the whole request. Returns
    /// `None` if there is no answer yet, or if it was already taken.
    pub fn take<R: Request>(&mut self, request: RequestId<R>) -> Option<Result<R::Answer, Fault>> {
        self.requests.take_answer(request.0, R::unpack)
    }

    /// Returns true if the answer can be taken.
    pub fn is_answered<R>(&self, request: RequestId<R>) -> bool {
        self.requests.is_answered(request.0)
    }

    /// Ends a call that has waited long enough. Its request is cancelled if it was not sent, and
    /// never sent again if it was. Returns the engine's answer if it has arrived, or an answer with
    /// an unknown outcome if the request was sent and changes the engine.
    pub fn give_up<R: Request>(
        &mut self,
        request: RequestId<R>,
    ) -> Option<Result<R::Answer, Fault>> {
        let answer = self.take(request).or_else(|| {
            let unknown = self.requests.get(request.0)?.unknown_answer()?;
            R::unpack(unknown).ok()
        });
        self.forget(request);
        answer
    }

    /// Abandons a request whose answer is no longer wanted; otherwise the same as
    /// [`give_up`](Self::give_up). Variables that the request opens are closed again.
    pub fn forget<R>(&mut self, request: RequestId<R>) {
        let id = request.0;
        if let Some(answer) = self.requests.take_answer(id, Ok) {
            if let AnyAnswer::Open(Ok(results)) = answer {
                let opened = results.iter().flatten().map(|opened| opened.variable);
                close_quietly(self, &opened.collect::<Vec<_>>());
            }
            return;
        }
        let Some(mut pending) = self.requests.take_out(id) else {
            return;
        };
        let is_programs = self.requests.disown(&mut pending);
        match is_programs && pending.wire.is_none() {
            true => self.end_request(id, pending, None),
            false => self.requests.put_back(id, pending),
        }
    }

    /// Appends the next frame of a request.
    pub(crate) fn send_request(&mut self, id: u64, page: usize, out: &mut Vec<u8>) {
        let Some(mut pending) = self.requests.take_out(id) else {
            self.requests.sent_front();
            return;
        };
        if !pending.prepared {
            if let Some(fault) = self.not_supported(&pending.request) {
                return self.end_request(id, pending, Some(fault));
            }
            pending.total = match pending.request.prepare(self) {
                Prepared::Items(0) => return self.end_request(id, pending, None),
                Prepared::Later => return self.wait_for_writes(id, pending),
                Prepared::Items(count) => count,
                Prepared::Single => 0,
            };
            pending.prepared = true;
            pending.wire = Some(self.requests.assign_wire(id));
        }
        pending.request.encode(&mut Sending {
            core: self,
            number: pending.wire.unwrap_or(0),
            total: pending.total,
            sent: &mut pending.sent,
            page,
            out,
        });
        if pending.sent >= pending.total {
            self.requests.sent_front();
        }
        match pending.request.answered_by() {
            Some(_) => self.requests.put_back(id, pending),
            None => self.end_request(id, pending, None),
        }
    }

    /// Returns a fault if the engine does not support this request. It would skip the frame and
    /// never answer.
    fn not_supported(&self, request: &AnyRequest) -> Option<Fault> {
        let session = self.connection.session()?;
        let (feature, missing) = request.requires()?;
        if session.features.contains(feature) {
            return None;
        }
        let sentence = format!("{} {missing}", session.engine_name);
        Some(Fault::new(FaultCode::NotSupported, sentence))
    }

    /// Handles a frame that answers a request, in full or in part.
    pub(crate) fn handle_answer(&mut self, now: Tick, frame: &Frame<'_>) -> Result<(), Disconnect> {
        let Some((id, mut pending)) = self.requests.answered_by(frame)? else {
            return Ok(());
        };
        let next = self.take_answer(now, frame, &mut pending);
        let (answered, total) = (pending.answered, pending.total);
        match next {
            Ok(Next::Again) => self.requests.ask_again(id, pending),
            Ok(Next::Later) => self.wait_for_writes(id, pending),
            Ok(Next::Settle) if frame.has_more() => self.requests.put_back(id, pending),
            Ok(Next::Settle) if answered >= total => self.end_request(id, pending, None),
            Ok(Next::Settle) => {
                self.requests.put_back(id, pending);
                let number = frame.request();
                return Err(malformed(format!(
                    "the answer to request {number} ends after {answered} of {total} items"
                )));
            }
            Err(cause) => {
                // The disconnect decides what becomes of it.
                self.requests.put_back(id, pending);
                return Err(cause);
            }
        }
        Ok(())
    }

    fn take_answer(
        &mut self,
        now: Tick,
        frame: &Frame<'_>,
        pending: &mut Pending,
    ) -> Result<Next, Disconnect> {
        if frame.kind() != pending.request.answered_by() {
            return Err(wrong_answer(frame));
        }
        pending.request.answered(&mut Answering {
            core: self,
            now,
            frame,
            sent: pending.sent,
            answered: &mut pending.answered,
        })
    }

    /// Handles the refusal of a whole request: every item without an answer gets this fault.
    pub(crate) fn handle_fault(&mut self, frame: &Frame<'_>) -> Result<(), Disconnect> {
        let fault: Fault = FaultMessage::decode(frame)?.fault.to_fault();
        let Some((id, pending)) = self.requests.answered_by(frame)? else {
            return Ok(());
        };
        self.requests.refused(&pending);
        self.end_request(id, pending, Some(fault));
        Ok(())
    }

    fn wait_for_writes(&mut self, id: u64, pending: Pending) {
        self.requests.keep_for_writes(id, pending);
        self.flushes.push(id);
        self.end_flushes();
    }

    /// Ends the flushes whose earlier writes have all been answered.
    pub(crate) fn end_flushes(&mut self) {
        for id in std::mem::take(&mut self.flushes) {
            // The others were given up.
            if let Some(AnyRequest::Flush(Flush { before })) =
                self.requests.get(id).map(|pending| &pending.request)
            {
                match self.writes.are_answered_before(*before) {
                    true => self.end_at_once(RequestId::<Flush>(id, PhantomData)),
                    false => self.flushes.push(id),
                }
            }
        }
    }

    /// Ends a request. `fault` applies to unanswered items, or to the whole request.
    pub(crate) fn end_request(&mut self, id: u64, pending: Pending, fault: Option<Fault>) {
        self.requests.end(id, &pending);
        let wanted = pending.program_items;
        let ending = Ending {
            core: self,
            fault,
            wanted: wanted.is_some(),
        };
        if let (Some(answer), Some(items)) = (pending.request.end(ending), wanted) {
            self.requests.keep(id, answer, items);
            self.changes += 1;
        }
    }
}
