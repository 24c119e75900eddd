//! Reads the values of variables at one instant.

use trunkline_proto::message::group::GROUP_MAX;
use trunkline_proto::message::handles::HandlesBuilder;
use trunkline_proto::message::snapshot::{SnapshotHead, decode_snapshot};
use trunkline_proto::{Disconnect, Fault, Features, FrameKind};
use trunkline_types::Timestamp;

use super::read::take_readings;
use super::{Answering, Ending, Exchange, Next, Prepared, Sending};
use crate::answer;
use crate::parts::Parts;
use crate::variables::reading_buffer::ReadList;

/// Requests the values of variables at one instant.
#[derive(Debug)]
pub struct Snapshot {
    pub(crate) list: ReadList,
    /// The heads of all frames of the answer, combined.
    pub(crate) head: Option<SnapshotHead>,
}

impl Exchange for Snapshot {
    const ANSWERED_BY: Option<FrameKind> = Some(FrameKind::SnapshotAnswer);
    const USES_HANDLES: bool = true;
    type End = Result<answer::Snapshot, Fault>;

    fn requires(&self) -> Option<(Features, &'static str)> {
        let missing = "does not support snapshots; update it, or read the variables";
        Some((Features::GROUPS, missing))
    }

    fn prepare(&mut self, parts: &mut Parts) -> Prepared {
        Prepared::Items(self.list.ask(&parts.base.variables))
    }

    fn encode(&mut self, sending: &mut Sending<'_>) {
        if self.list.sent.len() <= GROUP_MAX {
            // A snapshot of one instant must be requested with a single frame.
            sending.page = usize::MAX;
        }
        let handle = |(_, handle): &(u32, u32)| *handle;
        sending.handles(HandlesBuilder::snapshot, &self.list.sent, handle);
    }

    fn answered(&mut self, answer: &mut Answering<'_, '_>) -> Result<Next, Disconnect> {
        let (mut head, readings) = decode_snapshot(answer.frame)?;
        take_readings(&mut self.list, readings, answer)?;
        head.is_consistent &= self.head.is_none_or(|earlier| earlier.is_consistent);
        self.head = Some(head);
        Ok(Next::Settle)
    }

    fn end(self, ending: Ending<'_>) -> Self::End {
        let head = self.head;
        Ok(answer::Snapshot {
            is_consistent: head.is_some_and(|head| head.is_consistent),
            commit: head.map_or(0, |head| head.commit),
            instant: head.map_or(Timestamp::UNIX_EPOCH, |head| head.instant),
            readings: self.list.finish(&ending.missing()).into_readings(),
        })
    }

    fn restart(&mut self) {
        self.head = None;
    }
}
