//! `monitor --since`: prints recorded updates, and then new updates.

use std::time::Duration;

use trunkline::RecordedSubscription;
use trunkline_types::Timestamp;

use super::Monitor;
use crate::{CliError, Exit};

impl Monitor<'_> {
    /// Prints the updates of these variables since a point in time, and follows the variables.
    pub(super) fn follow_since(
        mut self,
        names: &[&str],
        since: Timestamp,
    ) -> Result<Exit, CliError> {
        let (context, clock) = (self.context, self.context.clock);
        let end = self.args.duration;
        let end = end.map(|duration| clock.now().saturating_add(duration));
        let timeout = context.settings.timeout;
        let mut subscription = self
            .connection
            .call(|client, _| RecordedSubscription::new(client, names, since, timeout))?;
        loop {
            let next = match subscription.next(Some(Duration::ZERO)) {
                Ok(None) => {
                    // No event is waiting, so flush the output for its reader.
                    context.terminal.flush()?;
                    subscription.next(end.map(|end| end.since(clock.now())))
                }
                next => next,
            };
            let is_done = match next {
                Ok(Some(event)) => self.handle(event)?,
                Ok(None) => end.is_none(),
                Err(error) => {
                    let problem = self.connection.failed(&error);
                    return Err(problem.into());
                }
            };
            if is_done {
                return Ok(self.tally.exit());
            }
            if end.is_some_and(|end| clock.now() >= end) {
                return self.timed_out();
            }
        }
    }
}
