//! Operations of a register other than reading and setting it (LM-05, LM-06, LM-11): send its value
//! to the device, ask the device for a fresh one.

use crate::engine::Engine;
use crate::outbox::Wakes;
use crate::outcome::{Attempt, Refusal, WriteOutcome};
use crate::provider::Ask;
use crate::variable::Variable;
use crate::write::{Put, Write, WriteVerb, check, check_state};

impl Engine {
    /// Carries out clients' operations that are not plain writes.
    pub(crate) fn order(
        &self,
        put: Put<'_>,
        variable: &Variable,
        write: &Write<'_>,
        wakes: &mut Wakes,
    ) -> Result<Attempt, Refusal> {
        let properties = variable.properties();
        check(put.caller, variable, &properties, write)?;
        match write.verb {
            WriteVerb::Put | WriteVerb::Set | WriteVerb::Force => {
                self.force(put, variable, write, wakes)
            }
            WriteVerb::Unforce => self.unforce(put, variable, wakes),
            WriteVerb::Send | WriteVerb::Request => {
                check_state(self, variable, write)?;
                let sequence = variable.sequence();
                // Without a provider there is only the cell (LM-11).
                let done = Attempt::Done(WriteOutcome::Unchanged(sequence));
                let Some(index) = variable.provider_index() else {
                    return Ok(done);
                };
                if write.verb == WriteVerb::Request {
                    self.hand_over(index, put, variable, Ask::Read, write)?;
                } else if sequence == 0 {
                    return Err(Refusal::NoValue);
                } else {
                    let value = variable.update().value;
                    self.ask_provider(index, put, variable, &properties, write, &value)?;
                }
                Ok(Attempt::Pending)
            }
        }
    }
}
