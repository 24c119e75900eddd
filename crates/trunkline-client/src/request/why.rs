//! Explains why a variable does not update.

use trunkline_proto::message::why::{Why as WhyFrame, WhyAnswer};
use trunkline_proto::{Disconnect, Fault, FrameKind};

use super::{Answering, Ending, Exchange, Next, Sending};
use crate::answer::Step;
use crate::explain::explain_consumer;

/// Asks the engine why a variable does not update.
#[derive(Debug)]
pub struct Why {
    name: String,
    /// True if the steps of the client itself follow those of the engine.
    with_consumer: bool,
    steps: Option<Vec<Step>>,
}

impl Why {
    pub(crate) fn new(name: &str, with_consumer: bool, steps: Option<Vec<Step>>) -> Self {
        let name = name.to_owned();
        Self {
            name,
            with_consumer,
            steps,
        }
    }
}

impl Exchange for Why {
    const ANSWERED_BY: Option<FrameKind> = Some(FrameKind::WhyAnswer);
    type End = Result<Vec<Step>, Fault>;

    fn encode(&mut self, sending: &mut Sending<'_>) {
        WhyFrame { name: &self.name }.encode(sending.number, sending.out);
    }

    fn answered(&mut self, answer: &mut Answering<'_, '_>) -> Result<Next, Disconnect> {
        let steps = WhyAnswer::decode(answer.frame)?.map(|step| Ok(step?.to_step()));
        let mut steps = steps.collect::<Result<Vec<_>, Disconnect>>()?;
        if self.with_consumer {
            steps.extend(explain_consumer(answer.parts, answer.now, &self.name));
        }
        self.steps = Some(steps);
        Ok(Next::Settle)
    }

    fn end(self, ending: Ending<'_>) -> Self::End {
        ending.whole(self.steps)
    }
}
