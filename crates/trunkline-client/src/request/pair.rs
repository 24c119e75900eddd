//! Asks for a joining token for another program.

use trunkline_proto::message::pair::{Pair as PairFrame, Paired};
use trunkline_proto::{Disconnect, Fault, Features, FrameKind};

use super::{Answering, Ending, Exchange, Next, Sending};

/// Asks the engine for a joining token.
#[derive(Debug)]
pub struct Pair {
    pair: PairFrame,
    paired: Option<Paired>,
}

impl Pair {
    pub(crate) fn new(pair: PairFrame) -> Self {
        Self { pair, paired: None }
    }
}

impl Exchange for Pair {
    const ANSWERED_BY: Option<FrameKind> = Some(FrameKind::Paired);
    type End = Result<Paired, Fault>;

    fn requires(&self) -> Option<(Features, &'static str)> {
        Some((Features::ACCOUNTS, "has no accounts; update it"))
    }

    fn changes_engine(&self) -> bool {
        true
    }

    fn encode(&mut self, sending: &mut Sending<'_>) {
        self.pair.encode(sending.number, sending.out);
    }

    fn answered(&mut self, answer: &mut Answering<'_, '_>) -> Result<Next, Disconnect> {
        self.paired = Some(Paired::decode(answer.frame)?);
        Ok(Next::Settle)
    }

    fn end(self, ending: Ending<'_>) -> Self::End {
        ending.whole(self.paired)
    }
}
