//! Requests information about variables.

use trunkline_proto::message::handles::HandlesBuilder;
use trunkline_proto::message::info::{InfoAnswer, VariableInfo};
use trunkline_proto::{Disconnect, Fault, FrameKind};

use super::{Answering, Ending, Exchange, Next, Page, Prepared, Sending};
use crate::parts::Parts;

/// Requests everything that the engine knows about variables.
#[derive(Debug)]
pub struct Info(pub(crate) Page<VariableInfo>);

impl Exchange for Info {
    const ANSWERED_BY: Option<FrameKind> = Some(FrameKind::InfoAnswer);
    const USES_HANDLES: bool = true;
    type End = Result<Vec<Result<VariableInfo, Fault>>, Fault>;

    fn prepare(&mut self, parts: &mut Parts) -> Prepared {
        Prepared::Items(self.0.ask(|variable| parts.base.variables.handle(variable)))
    }

    fn encode(&mut self, sending: &mut Sending<'_>) {
        sending.handles(HandlesBuilder::info, &self.0.sent, |(_, handle)| *handle);
    }

    fn answered(&mut self, answer: &mut Answering<'_, '_>) -> Result<Next, Disconnect> {
        let infos = InfoAnswer::decode(answer.frame)?;
        let mut index = infos.head().first_index;
        for info in infos {
            let info = info?.map_err(|fault| fault.to_fault());
            self.0.answer(answer.item(&mut index)?, info);
        }
        Ok(Next::Settle)
    }

    fn end(self, ending: Ending<'_>) -> Self::End {
        Ok(self.0.finish(&ending.missing()))
    }
}
