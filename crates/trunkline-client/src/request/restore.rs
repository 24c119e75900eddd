//! Opens the program's variables again on a new connection.

use trunkline_proto::message::open::OpenTerms;
use trunkline_proto::{Disconnect, FrameKind};

use super::open::{check_name, note_opened, send_names, take_opened};
use super::{Answering, Ending, Exchange, Next, Prepared, Sending};
use crate::ask::Restore;
use crate::parts::Parts;

impl Exchange for Restore {
    const ANSWERED_BY: Option<FrameKind> = Some(FrameKind::Opened);
    type End = ();

    fn prepare(&mut self, parts: &mut Parts) -> Prepared {
        Prepared::Items(
            self.0
                .ask(|variable| check_name(&parts.base.variables, variable)),
        )
    }

    fn encode(&mut self, sending: &mut Sending<'_>) {
        let terms = OpenTerms::default();
        send_names(&terms, sending, |_, index| Some(self.0.sent(index)?.1));
    }

    fn answered(&mut self, answer: &mut Answering<'_, '_>) -> Result<Next, Disconnect> {
        take_opened(answer, |parts, now, index, opened| {
            if let Some((item, variable)) = self.0.sent(index) {
                let result = note_opened(parts, now, variable, opened)?;
                self.0.set(item, result.map(|_| ()));
            }
            Ok(())
        })
    }

    fn end(self, ending: Ending<'_>) {
        let missing = ending.missing();
        let (subscriptions, base) = (&mut ending.parts.subscriptions, &mut ending.parts.base);
        subscriptions.restored(base, &self.0, &missing);
    }
}
