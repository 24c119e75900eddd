//! Throughput mode: the client gathers what it sends, if the engine does so as well, and flushes.

use trunkline_proto::message::hello::Welcome;
use trunkline_proto::message::single::decode_empty;
use trunkline_proto::{Disconnect, Features, Frame, Gather, Throughput};
use trunkline_types::Tick;

use crate::answer::Answer;
use crate::client::ClientCore;
use crate::error::RequestError;
use crate::open::wrong_answer;
use crate::request::{Request, RequestId, Verb};

impl ClientCore {
    /// Sends everything handed over before, and has the engine send what it gathers for its
    /// clients. Answered by [`Answer::Flushed`] once the engine has carried out what came before,
    /// and every earlier write has ended. Later writes do not delay it.
    ///
    /// One buffer serves the whole connection, so a flush also sends the data of other threads and
    /// subscriptions of this client.
    ///
    /// # Errors
    /// [`RequestError`] if a bound is reached or the client is closed.
    pub fn flush(&mut self) -> Result<RequestId, RequestError> {
        self.check_request(1)?;
        Ok(self.ask(1, Verb::Flush { before: 0 }))
    }

    /// Sends the gathered data with the next output, without a FLUSH frame.
    pub fn send_gathered(&mut self) {
        self.send_gathered = true;
    }

    /// Returns the terms under which both directions of this connection gather, or `None` if
    /// everything is sent at once.
    pub fn throughput(&self) -> Option<Throughput> {
        self.gather.as_ref().map(|gather| gather.terms())
    }

    /// Starts throughput mode if both ends have it; otherwise neither uses it (LX-11).
    pub(crate) fn begin_to_gather(&mut self, welcome: &Welcome) {
        let wanted = self.options.throughput.is_some();
        let has_both =
            |session: &crate::state::Session| session.features.contains(Features::THROUGHPUT);
        let granted = welcome
            .throughput
            .filter(|_| wanted && self.session().is_some_and(has_both));
        self.gather = granted.map(|terms| Box::new(Gather::new(terms)));
    }

    /// Same as [`write_output`](Self::write_output), but through the gather buffer.
    pub(crate) fn gather_output(&mut self, now: Tick, budget: usize, out: &mut Vec<u8>) -> bool {
        let Some(mut gather) = self.gather.take() else {
            self.send_gathered = false;
            return self.write_output(now, budget, out);
        };
        let produce = |room: usize, out: &mut Vec<u8>| self.write_output(now, room, out);
        let more = gather.poll_output(now, budget, out, produce);
        let is_last = self.connection.closing().is_some();
        // Writes that wait for credit cannot fill the buffer. They wait for the engine's answers to
        // the writes in it.
        let is_full = self.writes.wait_for_credit();
        if std::mem::take(&mut self.send_gathered) || is_full || is_last {
            gather.release(out);
        }
        self.gather = Some(gather);
        more
    }

    /// Returns true if the request may be sent. A flush must come after the writes handed over
    /// before it, even if those wait for credit.
    pub(crate) fn may_send(&self, id: u64) -> bool {
        let is_flush = self.requests.is_flush(id);
        !is_flush || self.writes.oldest().is_none_or(|order| order > id)
    }

    /// Starts a flush. Returns the request if it must be sent, or `None` if this end has completed
    /// its part.
    pub(crate) fn begin_flush(&mut self, id: u64, mut request: Request) -> Option<Request> {
        let Verb::Flush { before } = &mut request.verb else {
            return Some(request);
        };
        *before = self.writes.next_write();
        self.send_gathered = true;
        let session = self.session();
        if session.is_some_and(|session| session.features.contains(Features::THROUGHPUT)) {
            return Some(request);
        }
        // An engine without throughput mode sends everything as soon as it has it.
        self.flushed(id, request);
        None
    }

    pub(crate) fn handle_flushed(&mut self, frame: &Frame<'_>) -> Result<(), Disconnect> {
        decode_empty(frame)?;
        let Some((id, request)) = self.requests.answered_by(frame)? else {
            return Ok(());
        };
        if !matches!(request.verb, Verb::Flush { .. }) {
            self.requests.put_back(id, request);
            return Err(wrong_answer("FLUSHED"));
        }
        self.flushed(id, request);
        Ok(())
    }

    /// Handles the end of the engine's part of a flush. Answers to writes that a provider carries
    /// out may still be missing.
    fn flushed(&mut self, id: u64, request: Request) {
        self.requests.end(id, &request);
        self.flushes.push((id, request));
        self.end_flushes();
    }

    /// Ends the flushes whose earlier writes have all been answered.
    pub(crate) fn end_flushes(&mut self) {
        if self.flushes.is_empty() {
            return;
        }
        let flushes = std::mem::take(&mut self.flushes);
        for (id, request) in flushes {
            match request.verb {
                Verb::Flush { before } if !self.writes.are_answered_before(before) => {
                    self.flushes.push((id, request));
                }
                _ => self.answer(id, request.program_items, Answer::Flushed),
            }
        }
    }

    /// Abandons a flush that only waits for writes. Returns false if `id` is not one.
    pub(crate) fn forget_flush(&mut self, id: u64) -> bool {
        let Some(at) = self.flushes.iter().position(|(of, _)| *of == id) else {
            return false;
        };
        let (_, mut request) = self.flushes.swap_remove(at);
        self.requests.disown(&mut request);
        true
    }
}
