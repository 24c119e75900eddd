//! Requests the engine's description of itself.

use trunkline_proto::message::engine::EngineInfo;
use trunkline_proto::message::single::encode_empty;
use trunkline_proto::{Disconnect, Fault, FrameKind};

use super::{Answering, Ending, Exchange, Next, Sending};

/// Requests information about the engine itself.
#[derive(Debug, Default)]
pub struct Engine(Option<EngineInfo>);

impl Exchange for Engine {
    const ANSWERED_BY: Option<FrameKind> = Some(FrameKind::EngineAnswer);
    type End = Result<EngineInfo, Fault>;

    fn encode(&mut self, sending: &mut Sending<'_>) {
        encode_empty(FrameKind::Engine, sending.number, sending.out);
    }

    fn answered(&mut self, answer: &mut Answering<'_, '_>) -> Result<Next, Disconnect> {
        self.0 = Some(EngineInfo::decode(answer.frame)?);
        Ok(Next::Settle)
    }

    fn end(self, ending: Ending<'_>) -> Self::End {
        ending.whole(self.0)
    }
}
