//! The mark of a variable in a controlled folder: checks each write of a client.

use trunkline_types::{Moment, WriteVerb};

use super::ControlTable;
use super::book::Token;
use crate::caller::{Caller, Principal};
use crate::outcome::Refusal;
use crate::sync::{Arc, Ordering, crossing};
use crate::variable::{Admission, Extension, Variable};

#[derive(Debug)]
pub(super) struct ControlMark {
    table: Arc<ControlTable>,
    /// The generation of the table at which `token` was looked up; 0 before the first look.
    generation: u64,
    token: Option<Arc<Token>>,
}

impl ControlMark {
    /// Returns the token of the variable's folder. Takes the lock of the table only after a change.
    fn token(&mut self, variable: &Variable) -> Option<&Arc<Token>> {
        // Acquire: pairs with the release in `finish`.
        let generation = self.table.generation.load(Ordering::Acquire);
        if self.generation != generation {
            let shared = self.table.shared.lock();
            // Read again under the lock, so that the generation and the token match.
            self.generation = self.table.generation.load(Ordering::Relaxed);
            self.token = shared.book.covering(variable.name()).cloned();
        }
        // The holder may change here. Its search waits for the lock that this write holds.
        crossing();
        self.token.as_ref()
    }

    /// Refuses a client other than the holder.
    fn check(
        &mut self,
        variable: &Variable,
        caller: &Caller,
        moment: Moment,
    ) -> Result<(), Refusal> {
        if caller.principal == Principal::Engine {
            return Ok(());
        }
        match self.token(variable) {
            Some(token) if token.is_valid(moment.now) && !token.admits(caller) => {
                Err(Refusal::Controlled(Arc::clone(&token.shown)))
            }
            _ => Ok(()),
        }
    }
}

impl Extension for ControlMark {
    /// Called before leases, so that a refused client does not enter the queue of a single writer.
    fn order(&self) -> u8 {
        0
    }

    /// Checks that a client may write the variable now.
    fn admit(
        &mut self,
        variable: &Variable,
        admission: &Admission<'_>,
        moment: Moment,
    ) -> Result<(), Refusal> {
        let Admission::Client { caller, verb, .. } = admission else {
            return Ok(());
        };
        // A request only reads.
        match *verb == WriteVerb::Request {
            true => Ok(()),
            false => self.check(variable, caller, moment),
        }
    }

    fn admit_lease(
        &mut self,
        variable: &Variable,
        caller: &Caller,
        moment: Moment,
    ) -> Result<(), Refusal> {
        self.check(variable, caller, moment)
    }
}

/// Marks a variable unless it has a mark.
pub(super) fn attach(table: &Arc<ControlTable>, variable: &Variable) {
    let mut state = variable.lock();
    if state.extension::<ControlMark>().is_none() {
        let mark = ControlMark {
            table: Arc::clone(table),
            generation: 0,
            token: None,
        };
        variable.attach(&mut state, mark);
    }
}

/// Removes the mark of a variable unless it is still needed.
pub(super) fn detach_unless(variable: &Variable, is_needed: impl FnOnce() -> bool) {
    let mut state = variable.lock();
    if state.extension::<ControlMark>().is_some() && !is_needed() {
        variable.detach::<ControlMark>(&mut state);
    }
}
