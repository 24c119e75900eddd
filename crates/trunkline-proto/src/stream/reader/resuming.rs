//! Determines where a reader continues with a writer.

use crate::Features;
use crate::message::stream::{EndState, StreamEnd};
use crate::stream::half::Half;
use crate::stream::meeting::{Meeting, Mismatch};
use crate::stream::reader::Reader;
use crate::stream::walk::ElementWalk;

impl Reader {
    /// Called when a connection to this writer is up: determines where to continue.
    pub(super) fn go_on_with(
        &mut self,
        peer: &StreamEnd,
        meeting: Meeting,
    ) -> Result<(), Mismatch> {
        let EndState::Writer(writer) = peer.state else {
            return Err(Mismatch::Nonsense("it is no writer".to_owned()));
        };
        if writer.written < writer.kept {
            return Err(Mismatch::Nonsense(format!(
                "it keeps bytes from {} on and has written {}",
                writer.kept, writer.written
            )));
        }
        let drops = peer.features.contains(Features::DROPS);
        self.losses
            .handle_writer(drops, meeting == Meeting::First)
            .map_err(Mismatch::Nonsense)?;
        self.forget_part();
        let arrived = self.arrived.position();
        let is_fresh = arrived == 0 && meeting == Meeting::First;
        if is_fresh && writer.kept > 0 {
            // It replaces a reader that is gone: what that one had is not sent again.
            let (from, elements) = (writer.kept, writer.kept_elements);
            self.arrived = ElementWalk::new(self.form, self.bytes_max, from, elements);
            (self.read, self.read_elements, self.durable) = (from, elements, from);
            let now = self.now();
            self.granted = (now.credit_bytes, now.credit_elements);
            self.told = now;
        } else if meeting == Meeting::Successor
            && [0, self.arrived.boundary()].contains(&writer.written)
        {
            // The writer replaces one that is gone, and begins after that one's last whole element.
            // It has already been told so, or will be.
            let (from, elements) = self.ready_place();
            self.arrived = ElementWalk::new(self.form, self.bytes_max, from, elements);
            self.durable = self.durable.min(from);
            self.close = None;
        } else if writer.kept > arrived {
            return Err(Mismatch::Lost(writer.kept.saturating_sub(arrived)));
        } else if writer.written < arrived && !(writer.written == 0 && self.may_begin(meeting)) {
            let lost = arrived.saturating_sub(writer.written);
            return match meeting {
                Meeting::Again => Err(Mismatch::Nonsense(format!(
                    "it has written {} bytes where {arrived} have arrived",
                    writer.written
                ))),
                _ => Err(Mismatch::Lost(lost)),
            };
        }
        self.waits_at = (writer.written == 0).then(|| self.arrived.position());
        self.peer_bytes = peer.bytes_max;
        self.handle_down();
        Ok(())
    }

    /// Returns true if a writer that has written nothing may begin at the position of this reader:
    /// it connects for the first time, or was not heard since.
    fn may_begin(&self, meeting: Meeting) -> bool {
        meeting == Meeting::First || self.waits_at == Some(self.arrived.position())
    }

    fn ready_place(&self) -> (u64, u64) {
        (self.arrived.boundary(), self.arrived.elements())
    }
}
