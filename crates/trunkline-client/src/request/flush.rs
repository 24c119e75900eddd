//! Flushes: the engine carries out everything that was queued before.

use trunkline_proto::message::single::{decode_empty, encode_empty};
use trunkline_proto::{Disconnect, Fault, Features, FrameKind};

use super::{Answering, Ending, Exchange, Next, Prepared, Sending};
use crate::parts::Parts;
use crate::writes::WriteCounts;

/// Sends everything queued before, and asks the engine to send the data that it gathers.
#[derive(Debug, Default)]
pub struct Flush {
    /// The number of the first write after the flush; set when it is sent.
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
        // Answers to writes that a provider carries out may still be outstanding.
        Ok(Next::Later)
    }

    fn end(self, ending: Ending<'_>) -> Self::End {
        let counts = ending.parts.writes.counts();
        ending.whole(Some(counts))
    }
}
