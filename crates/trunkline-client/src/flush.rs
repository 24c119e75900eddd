//! Throughput mode: what the client sends is gathered, where the engine does so as well, and
//! flushed.

use trunkline_proto::message::flush::{decode_flushed, encode_flush};
use trunkline_proto::message::hello::Welcome;
use trunkline_proto::{Disconnect, Features, Frame, Gather, Throughput};
use trunkline_types::Tick;

use crate::answer::Answer;
use crate::client::ClientCore;
use crate::error::RequestError;
use crate::open::wrong_answer;
use crate::request::{Request, RequestId, Verb};

impl ClientCore {
    /// Has everything sent that was handed over before, and what the engine gathers for its
    /// clients. Answered by [`Answer::Flushed`] once the engine has carried out what came before,
    /// and every write before it has ended. Writes that are handed over later do not delay it.
    ///
    /// One buffer serves the whole connection: what other threads and subscriptions of this client
    /// have in it goes along.
    ///
    /// # Errors
    /// [`RequestError`] when a bound is reached or the client is closed.
    pub fn flush(&mut self) -> Result<RequestId, RequestError> {
        self.check_request(1)?;
        Ok(self.ask(1, Verb::Flush { before: 0 }))
    }

    /// What is gathered goes with the next output, without a word to the engine.
    pub fn send_gathered(&mut self) {
        self.send_gathered = true;
    }

    /// How both directions of this connection gather; `None` where everything is sent at once.
    pub fn throughput(&self) -> Option<Throughput> {
        self.gather.as_ref().map(|gather| gather.terms())
    }

    /// Both ends have throughput mode, or none uses it (LX-11).
    pub(crate) fn begin_to_gather(&mut self, welcome: &Welcome) {
        let wanted = self.options.throughput.is_some();
        let has_both = |session: &crate::Session| session.features.contains(Features::THROUGHPUT);
        let granted = welcome
            .throughput
            .filter(|_| wanted && self.session().is_some_and(has_both));
        self.gather = granted.map(|terms| Box::new(Gather::new(terms)));
    }

    /// As [`write_output`](Self::write_output), by way of the buffer.
    pub(crate) fn gather_output(&mut self, now: Tick, budget: usize, out: &mut Vec<u8>) -> bool {
        let Some(mut gather) = self.gather.take() else {
            self.send_gathered = false;
            return self.write_output(now, budget, out);
        };
        let produce = |room: usize, out: &mut Vec<u8>| self.write_output(now, room, out);
        let more = gather.poll_output(now, budget, out, produce);
        let is_last = self.connection.closing().is_some();
        // Writes that wait for credit cannot fill the buffer, and the engine's answers to those in
        // it are what they wait for.
        let is_full = self.writes.wait_for_credit();
        if std::mem::take(&mut self.send_gathered) || is_full || is_last {
            gather.release(out);
        }
        self.gather = Some(gather);
        more
    }

    /// A flush stands behind the writes that were handed over before it, also when they have to
    /// wait for credit.
    pub(crate) fn may_send(&self, id: u64) -> bool {
        let is_flush = self.requests.is_flush(id);
        !is_flush || self.writes.oldest().is_none_or(|order| order > id)
    }

    /// A flush is sent, or what of it this end can do alone is done; `Some` when that is all.
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
        // Such an engine sends everything as soon as it has it.
        self.flushed(id, request);
        None
    }

    pub(crate) fn handle_flushed(&mut self, frame: &Frame<'_>) -> Result<(), Disconnect> {
        decode_flushed(frame)?;
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

    /// The engine has done its part of a flush. Answers to writes may be missing: of those that a
    /// provider carries out.
    fn flushed(&mut self, id: u64, request: Request) {
        self.requests.end(id, &request);
        self.flushes.push((id, request));
        self.end_flushes();
    }

    /// Ends the flushes before which no write is on its way any more.
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

    /// Nobody waits for this flush any more; false where it is none that only waits for writes.
    pub(crate) fn forget_flush(&mut self, id: u64) -> bool {
        let Some(at) = self.flushes.iter().position(|(of, _)| *of == id) else {
            return false;
        };
        let (_, mut request) = self.flushes.swap_remove(at);
        self.requests.disown(&mut request);
        true
    }
}

/// Appends a FLUSH frame.
pub(crate) fn send_flush(number: u32, out: &mut Vec<u8>) {
    encode_flush(number, out);
}
