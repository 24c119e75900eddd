//! Throughput mode: the client gathers what it sends, if the engine does so as well.

use trunkline_proto::message::hello::Welcome;
use trunkline_proto::{Features, Gather, Throughput};
use trunkline_types::Tick;

use crate::client::ClientCore;
use crate::state::Session;

impl ClientCore {
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
        let has_both = |session: &Session| session.features.contains(Features::THROUGHPUT);
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
}
