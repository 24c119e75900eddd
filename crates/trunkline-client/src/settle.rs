//! Ends of requests. Answers are kept, within bounds, until they are taken.

use std::sync::Arc;

use trunkline_proto::{Disconnect, Fault, FaultCode, Frame};
use trunkline_types::Timestamp;

use crate::answer::{Answer, Snapshot};
use crate::client::ClientCore;
use crate::error::RequestError;
use crate::outcome::{NotTried, WriteOutcome};
use crate::request::{Request, RequestId, Verb, malformed};
use crate::write::not_sent;

impl ClientCore {
    /// Adds a request of the program with this many items.
    pub(crate) fn ask(&mut self, items: usize, verb: Verb) -> RequestId {
        RequestId(self.requests.push_for_program(items, verb))
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

    /// Takes the answer. Returns `None` if there is none yet, or if it was already taken.
    pub fn take(&mut self, request: RequestId) -> Option<Answer> {
        self.requests.take_answer(request.0)
    }

    /// Returns true if the answer can be taken.
    pub fn is_answered(&self, request: RequestId) -> bool {
        self.requests.is_answered(request.0)
    }

    /// Ends a call that has waited long enough. Its request is cancelled if it was not sent, and
    /// never sent again if it was. Returns the engine's answer if it has arrived, or an answer with
    /// an unknown outcome if the request was sent and changes the engine.
    pub fn give_up(&mut self, request: RequestId) -> Option<Answer> {
        if let Some(answer) = self.take(request) {
            return Some(answer);
        }
        let Some(pending) = self.requests.take_out(request.0) else {
            self.forget_flush(request.0);
            return None;
        };
        let answer = pending.wire.and_then(|_| pending.unknown_answer());
        self.requests.put_back(request.0, pending);
        self.forget(request);
        answer
    }

    /// Abandons a request whose answer is no longer wanted; otherwise the same as
    /// [`give_up`](Self::give_up). Variables that the request opens are closed again.
    pub fn forget(&mut self, request: RequestId) {
        let id = request.0;
        if let Some(answer) = self.take(request) {
            if let Answer::Opened(results) = answer {
                let opened: Vec<_> = results
                    .iter()
                    .flatten()
                    .map(|opened| opened.variable)
                    .collect();
                self.close_quietly(&opened);
            }
            return;
        }
        if self.forget_flush(id) {
            return;
        }
        let Some(mut request) = self.requests.take_out(id) else {
            return;
        };
        let is_programs = self.requests.disown(&mut request);
        if !is_programs || request.wire.is_some() {
            return self.requests.put_back(id, request);
        }
        if let Verb::Group(group) = &request.verb {
            let outcome = WriteOutcome::NotTried(NotTried::Cancelled(not_sent(&self.connection)));
            self.writes.count_group(&vec![outcome; group.writes.len()]);
            return self.requests.end(id, &request);
        }
        self.end_request(id, request, None);
    }

    /// Puts the request back after a frame was processed, or ends it if the answer is complete.
    pub(crate) fn settle(
        &mut self,
        id: u64,
        request: Request,
        frame: &Frame<'_>,
    ) -> Result<(), Disconnect> {
        if frame.has_more() {
            self.requests.put_back(id, request);
            return Ok(());
        }
        let (answered, total) = (request.answered, request.total);
        if answered < total {
            self.requests.put_back(id, request);
            return Err(malformed(format!(
                "the answer to request {} ends after {answered} of {total} items",
                frame.request()
            )));
        }
        self.end_request(id, request, None);
        Ok(())
    }

    /// Ends a request. `fault` applies to unanswered items, or to the whole request.
    pub(crate) fn end_request(&mut self, id: u64, request: Request, fault: Option<Fault>) {
        self.requests.end(id, &request);
        let whole = fault.clone();
        let fault = fault.unwrap_or_else(|| FaultCode::Internal.into());
        let wanted = request.program_items;
        let answer = match request.verb {
            Verb::Open { page, .. } => {
                let results = self.finish_opening(page, &fault, wanted.is_some());
                Answer::Opened(results)
            }
            Verb::Close { page, .. } => Answer::Closed(page.finish(&fault)),
            Verb::Read {
                list,
                as_page: true,
            } => Answer::Page(list.finish(&fault)),
            Verb::Read { list, .. } => Answer::Readings(list.finish_readings(&fault)),
            Verb::RequestValue(page) => Answer::Requested(page.finish(&fault)),
            Verb::Info(page) => Answer::Info(page.finish(&fault)),
            Verb::Group(group) => Answer::Group(group.ended(match fault.code {
                // By this code, the engine says that it does not know.
                FaultCode::TimedOut => WriteOutcome::Unknown(fault),
                _ => WriteOutcome::Refused(fault),
            })),
            Verb::Snapshot { list, said } => Answer::Snapshot(Snapshot {
                is_consistent: said.is_some_and(|said| said.is_consistent),
                commit: said.map_or(0, |said| said.commit),
                instant: said.map_or(Timestamp::UNIX_EPOCH, |said| said.instant),
                readings: list.finish_readings(&fault),
            }),
            Verb::Lease { page, .. } => Answer::Leases(page.finish(&fault)),
            Verb::Find { found, .. } => match whole {
                Some(fault) => Answer::Refused(fault),
                None => Answer::Names(found),
            },
            Verb::Why { .. }
            | Verb::Engine
            | Verb::Flush { .. }
            | Verb::Forcing { .. }
            | Verb::Deploy { .. }
            | Verb::OrderLibrary { .. }
            | Verb::Audit(_) => Answer::Refused(fault),
            Verb::Restore { page } => return self.restored(&page, &fault),
            Verb::OpenItems { wire, items } | Verb::Resume { wire, items } => {
                return self.items_answered(wire, &items, &fault);
            }
            Verb::Provide { .. } => return self.provide_refused(&fault),
            Verb::Watch { key, .. } => return self.watch_refused(key, fault),
            Verb::Unsubscribe { wire, handles } => {
                if let Some(wire) = self.wires.get_mut(wire) {
                    wire.items_ended(&handles);
                }
                return;
            }
            Verb::Unwatch { .. } | Verb::CheckAll => return,
        };
        self.answer(id, wanted, answer);
    }

    /// Ends a request with a complete answer.
    pub(crate) fn end_with(&mut self, id: u64, request: &Request, answer: Answer) {
        self.requests.end(id, request);
        self.answer(id, request.program_items, answer);
    }

    pub(crate) fn answer(&mut self, id: u64, wanted: Option<usize>, answer: Answer) {
        if let Answer::Group(group) = &answer {
            self.writes.count_group(&group.outcomes);
        }
        if let Some(items) = wanted {
            self.requests.keep(id, answer, items);
            self.changes += 1;
        }
    }
}
