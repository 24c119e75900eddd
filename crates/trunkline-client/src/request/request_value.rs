//! Requests fresh values from the sources of variables.

use trunkline_proto::message::handles::HandlesBuilder;
use trunkline_proto::message::results::Results;
use trunkline_proto::{Disconnect, Fault, FrameKind};

use super::{Answering, Ending, Exchange, Next, Page, Prepared, Sending};
use crate::parts::Parts;

/// Asks the sources of variables for fresh values. `Ok` means that the engine has asked the source.
#[derive(Debug)]
pub struct RequestValue(pub(crate) Page<()>);

impl Exchange for RequestValue {
    const ANSWERED_BY: Option<FrameKind> = Some(FrameKind::Requested);
    const USES_HANDLES: bool = true;
    type End = Result<Vec<Result<(), Fault>>, Fault>;

    fn prepare(&mut self, parts: &mut Parts) -> Prepared {
        Prepared::Items(self.0.ask(|variable| parts.base.variables.handle(variable)))
    }

    fn encode(&mut self, sending: &mut Sending<'_>) {
        let handle = |(_, handle): &(u32, u32)| *handle;
        sending.handles(HandlesBuilder::request_value, &self.0.sent, handle);
    }

    fn answered(&mut self, answer: &mut Answering<'_, '_>) -> Result<Next, Disconnect> {
        let results = Results::decode(answer.frame)?;
        for index in answer.run(results.first_index(), results.answered())? {
            self.0.answer(index, Ok(()));
        }
        for exception in results {
            let (index, fault) = exception?;
            self.0.answer(index, Err(fault.to_fault()));
        }
        Ok(Next::Settle)
    }

    fn end(self, ending: Ending<'_>) -> Self::End {
        Ok(self.0.finish(&ending.missing()))
    }
}
