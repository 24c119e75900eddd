//! A write on its way through the engine.

use trunkline_types::{Moment, Properties, WriteVerb};

use super::{Completion, EngineCore, Origin, Write, WriteEnd, WriteObserver};
use crate::caller::Caller;
use crate::delivery::outbox::Wakes;
use crate::outcome::{Refusal, WriteOutcome};
use crate::update::{Encoded, Update};
use crate::variable::{Admission, Redirect, Variable};

/// A write in its context: its caller, its time and its observers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    pub(crate) caller: &'a Caller,
    pub(crate) moment: Moment,
    pub(crate) variable: &'a Variable,
    pub(crate) write: &'a Write<'a>,
    /// True if the writer can wait for a full feed, for at most as long as the variable's owner
    /// allows.
    pub(crate) may_stall: bool,
    /// Notified that the write was applied before any subscriber sees the update, so the writer has
    /// the answer when its update arrives.
    pub(crate) completion: Option<&'a Completion>,
    pub(crate) observer: Option<&'a (dyn WriteObserver + 'static)>,
    /// The observer at the variable that redirected the write.
    pub(crate) outer: Option<&'a (dyn WriteObserver + 'static)>,
    /// Set if the caller named another variable than the one that is written.
    pub(crate) redirect: Option<&'a Redirect<'a>>,
}

impl<'a> Call<'a> {
    /// A write that can wait, and that only its caller observes.
    #[inline]
    pub(crate) fn of(
        caller: &'a Caller,
        moment: Moment,
        variable: &'a Variable,
        write: &'a Write<'a>,
    ) -> Self {
        Self {
            caller,
            moment,
            variable,
            write,
            may_stall: true,
            completion: None,
            observer: None,
            outer: None,
            redirect: None,
        }
    }

    /// Step 1: every check that needs no lock. Rights come first, so that a caller without them
    /// learns nothing else.
    pub(crate) fn check(&self, properties: &Properties) -> Result<(), Refusal> {
        let Self { caller, write, .. } = self;
        if write.origin != Origin::Client {
            return Ok(());
        }
        let is_permitted = match write.verb {
            // A request only reads.
            WriteVerb::Request => caller.rights.read,
            WriteVerb::Put
            | WriteVerb::Set
            | WriteVerb::Send
            | WriteVerb::Force
            | WriteVerb::Unforce => caller.rights.write,
        };
        if !is_permitted || !self.variable.is_visible_to(caller) {
            return Err(Refusal::Denied);
        }
        if matches!(
            write.verb,
            WriteVerb::Request | WriteVerb::Force | WriteVerb::Unforce
        ) {
            // The access type restricts clients' own writes, not a value that a person forces in
            // place of the source.
            return Ok(());
        }
        Refusal::by_access(properties.access).map_or(Ok(()), Err)
    }

    /// What a client's write asks of the rules of the variable.
    pub(super) fn asked<'s>(&'s self, properties: &'s Properties) -> Admission<'s> {
        Admission::Client {
            caller: self.caller,
            verb: self.write.verb,
            properties,
        }
    }

    /// Informs the observer, if there is one, of the end of the write.
    pub(crate) fn inform_observer(
        &self,
        core: &EngineCore,
        old: &Update,
        new: Option<&Encoded>,
        outcome: &WriteOutcome,
        wakes: &mut Wakes,
    ) {
        if let Some(observer) = self.observer {
            let end = WriteEnd {
                variable: self.variable,
                wall: self.moment.wall,
                old,
                new,
                outcome,
            };
            observer.ended(core, &end, wakes);
        }
    }
}
