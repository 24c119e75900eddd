//! A write that is carried out by a variable other than the one named by the caller.

use std::cell::OnceCell;

use trunkline_types::WriteVerb;

use super::Variable;
use crate::outcome::WriteOutcome;

/// The variable that the caller of a redirected write named.
#[derive(Debug)]
pub(crate) struct Redirect<'a> {
    named: &'a Variable,
    recorded: OnceCell<WriteOutcome>,
}

impl<'a> Redirect<'a> {
    pub(crate) fn from(named: &'a Variable) -> Self {
        Self {
            named,
            recorded: OnceCell::new(),
        }
    }

    /// Records the outcome at `variable`, if `variable` is the one that the caller named.
    pub(crate) fn note(&self, variable: &Variable, outcome: &WriteOutcome) {
        if variable.handle() == self.named.handle() {
            let _first = self.recorded.set(outcome.clone());
        }
    }

    /// Converts the outcome at the written variable into the outcome at the named variable.
    pub(crate) fn outcome(&self, verb: WriteVerb, outcome: WriteOutcome) -> WriteOutcome {
        match self.recorded.get() {
            Some(recorded) => recorded.clone(),
            None => count_unreached(self.named, verb, outcome),
        }
    }
}

/// Returns the outcome at a named variable that the update did not reach, and counts it there.
pub(crate) fn count_unreached(
    named: &Variable,
    verb: WriteVerb,
    outcome: WriteOutcome,
) -> WriteOutcome {
    let mut state = named.lock();
    match &outcome {
        WriteOutcome::Applied(_) | WriteOutcome::Unchanged(_) => {
            if matches!(verb, WriteVerb::Put | WriteVerb::Set) {
                state.count(1, |unapplied| &mut unapplied.unchanged);
            }
            return WriteOutcome::Unchanged(named.sequence());
        }
        WriteOutcome::Refused(refusal) => state.count_refused(named.sequence(), refusal),
        WriteOutcome::Unknown(_) => state.count(1, |unapplied| &mut unapplied.unknown),
        WriteOutcome::Superseded => {}
        WriteOutcome::NotTried(never) => match *never {},
    }
    outcome
}
