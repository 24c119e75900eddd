//! Searches for names, and collects all pages of the answer.

use trunkline_proto::message::find::{Find as FindHead, FindBuilder, FindCondition, Names};
use trunkline_proto::{Disconnect, Fault, Features, FrameKind};
use trunkline_types::Condition;

use super::{Answering, Ending, Exchange, Next, Sending};
use crate::answer::Found;
use crate::error::malformed;

/// Searches for names that match a pattern.
#[derive(Debug)]
pub struct Find {
    pub(crate) pattern: String,
    pub(crate) conditions: Vec<Condition>,
    pub(crate) limit: usize,
    pub(crate) cursor: u64,
    pub(crate) found: Vec<Found>,
}

impl Exchange for Find {
    const ANSWERED_BY: Option<FrameKind> = Some(FrameKind::Names);
    type End = Result<Vec<Found>, Fault>;

    fn requires(&self) -> Option<(Features, &'static str)> {
        let missing = "cannot search by fields; update it, or search by names only";
        (!self.conditions.is_empty()).then_some((Features::CONDITIONS, missing))
    }

    fn encode(&mut self, sending: &mut Sending<'_>) {
        let remaining = self.limit - self.found.len().min(self.limit);
        let head = FindHead {
            cursor: self.cursor,
            limit: u32::try_from(remaining).unwrap_or(u32::MAX),
            pattern: &self.pattern,
        };
        let mut frame = FindBuilder::begin(sending.out, sending.number, &head);
        for condition in &self.conditions {
            frame.push(&FindCondition::from(condition));
        }
        frame.finish(false);
    }

    fn answered(&mut self, answer: &mut Answering<'_, '_>) -> Result<Next, Disconnect> {
        let names = Names::decode(answer.frame)?;
        let next = names.head().next_cursor;
        for name in names {
            let name = name?;
            if self.found.len() < self.limit {
                self.found.push(Found {
                    name: name.name.to_owned(),
                    data_type: name.data_type,
                    access: name.access,
                });
            }
        }
        match next.filter(|_| self.found.len() < self.limit) {
            Some(next) if next == self.cursor => Err(malformed(format!(
                "the engine sent a page of the search that continues at {next}, which the client \
                 already has"
            ))),
            // A page is empty if a long search has found no match so far. The cursor still
            // advances.
            Some(next) => {
                self.cursor = next;
                Ok(Next::Again)
            }
            None => Ok(Next::Settle),
        }
    }

    fn end(self, ending: Ending<'_>) -> Self::End {
        ending.whole(Some(self.found))
    }

    fn restart(&mut self) {
        // The cursor was valid only for the previous engine.
        (self.cursor, self.found) = (0, Vec::new());
    }
}
