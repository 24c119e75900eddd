//! Flushes all queued data.

use trunkline_proto::message::single::{decode_empty, encode_empty};
use trunkline_proto::{Disconnect, Fault, Features, FrameKind};

use super::{Answering, Ending, Exchange, Next, Prepared, Sending};
use crate::parts::Parts;
use crate::writes::WriteCounts;

/// Sends all queued data, and makes the engine carry it out and send the data that it gathers.
#[derive(Debug, Default)]
pub struct Flush {
    /// The number of the first write after the flush, set when the flush is sent.
    pub(crate) before: u64,
}

impl Exchange for Flush {
    const ANSWERED_BY: Option<FrameKind> = Some(FrameKind::Flushed);
    type End = Result<WriteCounts, Fault>;

    fn waits_for_writes(&self) -> bool {
        true
    }

    fn prepare(&mut self, parts: &mut Parts) -> Prepared {
        self.before = parts.writes.next_write();
        let connection = &mut parts.base.connection;
        connection.send_gathered = true;
        match connection.has(Features::THROUGHPUT) {
            true => Prepared::Single,
            // An engine without throughput mode sends everything at once.
            false => Prepared::Later,
        }
    }

    fn encode(&mut self, sending: &mut Sending<'_>) {
        encode_empty(FrameKind::Flush, sending.number, sending.out);
    }

    fn answered(&mut self, answer: &mut Answering<'_, '_>) -> Result<Next, Disconnect> {
        decode_empty(answer.frame)?;
        // Writes that a provider carries out may still be unanswered.
        Ok(Next::Later)
    }

    fn end(self, ending: Ending<'_>) -> Self::End {
        let counts = ending.parts.writes.counts();
        ending.whole(Some(counts))
    }
}
