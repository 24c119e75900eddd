//! Closes variables.

use trunkline_proto::message::handles::HandlesBuilder;
use trunkline_proto::message::results::Results;
use trunkline_proto::{Disconnect, Fault, FrameKind};

use super::pending::Requests;
use super::{Answering, Ending, Exchange, Next, Page, Prepared, Sending};
use crate::client_state::ClientState;
use crate::parts::Parts;
use crate::variables::VariableRef;

/// Closes each variable once.
#[derive(Debug)]
pub struct Close {
    pub(crate) handles: Vec<u32>,
    pub(crate) page: Page<()>,
}

impl Exchange for Close {
    const ANSWERED_BY: Option<FrameKind> = Some(FrameKind::Closed);
    const USES_HANDLES: bool = true;
    type End = Result<Vec<Result<(), Fault>>, Fault>;

    fn prepare(&mut self, _: &mut Parts) -> Prepared {
        Prepared::Items(self.handles.len() as u32)
    }

    fn encode(&mut self, sending: &mut Sending<'_>) {
        sending.handles(HandlesBuilder::close, &self.handles, |handle| *handle);
    }

    fn answered(&mut self, answer: &mut Answering<'_, '_>) -> Result<Next, Disconnect> {
        closed(answer)
    }

    fn end(self, ending: Ending<'_>) -> Self::End {
        Ok(self.page.finish(&ending.missing()))
    }

    fn restart(&mut self) {
        // The handles were closed with the connection.
        self.handles.clear();
    }
}

/// Processes a CLOSED frame. Closing cannot fail, because a handle that the engine does not know
/// counts as closed.
pub(super) fn closed(answer: &mut Answering<'_, '_>) -> Result<Next, Disconnect> {
    let results = Results::decode(answer.frame)?;
    let (first, count) = (results.first_index(), results.answered());
    for exception in results {
        exception?;
    }
    answer.run(first, count)?;
    Ok(Next::Settle)
}

/// Closes variables that the program never received. The answer is ignored.
pub(crate) fn close_quietly(
    base: &mut ClientState,
    requests: &mut Requests,
    variables: &[VariableRef],
) {
    let closed = variables
        .iter()
        .filter_map(|variable| base.variables.close_opening(*variable).ok());
    let handles: Vec<u32> = closed.flatten().collect();
    if !handles.is_empty() && base.connection.is_open() {
        let page = Page::new(Vec::new());
        requests.push(&mut base.own_requests, Close { handles, page });
    }
}
