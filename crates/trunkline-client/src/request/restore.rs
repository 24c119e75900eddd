//! Reopening of the program's variables on a new connection.

use trunkline_proto::message::open::OpenTerms;
use trunkline_proto::{Disconnect, FrameKind};

use super::open::{check_name, note_opened, send_names, take_opened};
use super::{Answering, Ending, Exchange, Next, Page, Prepared, Sending};
use crate::client::ClientCore;

/// Reopens the variables that the program had open.
#[derive(Debug)]
pub(crate) struct Restore(pub(crate) Page<()>);

impl Exchange for Restore {
    const ANSWERED_BY: Option<FrameKind> = Some(FrameKind::Opened);
    type End = ();

    fn prepare(&mut self, core: &mut ClientCore) -> Prepared {
        Prepared::Items(self.0.ask(|variable| check_name(&core.variables, variable)))
    }

    fn encode(&mut self, sending: &mut Sending<'_>) {
        let terms = OpenTerms::default();
        send_names(&terms, sending, |_, index| Some(self.0.asked(index)?.1));
    }

    fn answered(&mut self, answer: &mut Answering<'_, '_>) -> Result<Next, Disconnect> {
        take_opened(answer, |core, now, index, item| {
            if let Some((place, variable)) = self.0.asked(index) {
                let result = note_opened(core, now, variable, item)?;
                self.0.set(place, result.map(|_| ()));
            }
            Ok(())
        })
    }

    fn end(self, ending: Ending<'_>) {
        let missing = ending.missing();
        ending.core.restored(&self.0, &missing);
    }
}
