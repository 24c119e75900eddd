//! Queries the forced variables, and switches forcing on or off.

use trunkline_proto::message::forcing::{Forced, Forcing as ForcingFrame, ForcingVerb};
use trunkline_proto::{Disconnect, Fault, Features, FrameKind};

use super::{Answering, Ending, Exchange, Next, Sending};
use crate::answer::ForcedList;
use crate::error::malformed;

/// Queries the forced variables, or switches forcing for the whole engine.
#[derive(Debug)]
pub struct Forcing {
    verb: ForcingVerb,
    cursor: u32,
    list: ForcedList,
}

impl Forcing {
    pub(crate) fn new(verb: ForcingVerb) -> Self {
        let (is_on, total, entries) = (false, 0, Vec::new());
        let list = ForcedList {
            is_on,
            total,
            entries,
        };
        Self {
            verb,
            cursor: 0,
            list,
        }
    }
}

impl Exchange for Forcing {
    const ANSWERED_BY: Option<FrameKind> = Some(FrameKind::Forced);
    const CHECK_HINT: &'static str = "check with `trunkline force --list`";
    type End = Result<ForcedList, Fault>;

    fn requires(&self) -> Option<(Features, &'static str)> {
        let missing = "does not report its forced variables over the network; update it";
        Some((Features::FORCING, missing))
    }

    fn changes_engine(&self) -> bool {
        self.verb != ForcingVerb::List
    }

    fn encode(&mut self, sending: &mut Sending<'_>) {
        let (verb, cursor, limit) = (self.verb, self.cursor, 0);
        let frame = ForcingFrame {
            verb,
            cursor,
            limit,
        };
        frame.encode(sending.number, sending.out);
    }

    fn answered(&mut self, answer: &mut Answering<'_, '_>) -> Result<Next, Disconnect> {
        let forced = Forced::decode(answer.frame)?;
        let head = *forced.head();
        let max = answer.parts.base.options.request_items_max;
        let entries = &mut self.list.entries;
        entries.extend(forced.collect::<Result<Vec<_>, _>>()?);
        entries.truncate(max);
        (self.list.is_on, self.list.total) = (head.is_on, head.total);
        match head.next_cursor {
            0 => Ok(Next::Settle),
            next if next <= self.cursor => Err(malformed(format!(
                "the engine sent a page of the list that continues at {next}, which the client \
                 already has"
            ))),
            next if self.list.entries.len() < max => {
                self.cursor = next;
                Ok(Next::Again)
            }
            _ => Ok(Next::Settle),
        }
    }

    fn end(self, ending: Ending<'_>) -> Self::End {
        ending.whole(Some(self.list))
    }

    fn restart(&mut self) {
        // The cursor was valid only for the previous engine.
        *self = Self::new(self.verb);
    }
}
