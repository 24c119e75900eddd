//! The write path: check, lock, decide, commit, and the work after unlocking.
//!
//! It runs on the writer's thread, without an engine thread, a global lock or blocking calls. A
//! write that would have to wait reports so before it has a sequence. Lock order: variable, then
//! feed.
//!
//! # Layout
//! - `request`: the arguments of a write; this file: a write in its context (`Call`), the write
//!   path and everything that needs no lock.
//! - `engine_core`: the part of the engine that the path needs; `hooks`: how features take part.
//! - `commit`: the part under the variable's lock, including the end of every commit.
//! - `publish`: updates that no client wrote.

pub(crate) mod accept;
mod commit;
pub(crate) mod engine_core;
pub(crate) mod hooks;
mod publish;
mod request;
pub(crate) mod wall_clock;

use trunkline_access::Action;
use trunkline_types::{Moment, Position, Properties, Quality, Reason, Tick, Timestamp};

pub use self::accept::WriteValue;
use self::accept::{Accepted, accept};
pub(crate) use self::commit::{
    Commit, Decision, admit, commit_undelayed, commit_update, decide, is_withheld,
};
use self::commit::{commit, commit_admitted};
pub(crate) use self::engine_core::{EngineCore, SLICE, View};
pub(crate) use self::hooks::{Hook, WriteEnd, WriteObserver};
pub(crate) use self::publish::{requalify, requalify_admitted, requalify_locked};
pub use self::request::{Completion, Origin, Write};
use crate::caller::Caller;
use crate::delivery::outbox::Wakes;
use crate::outcome::{Attempt, Refusal, UnknownCause, WriteOutcome};
use crate::update::{Encoded, Update};
use crate::variable::{Admission, Redirect, State, Variable};
pub use trunkline_types::WriteVerb;

/// A write in its context: its caller, its time and its observers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    pub(crate) caller: &'a Caller,
    pub(crate) moment: Moment,
    pub(crate) variable: &'a Variable,
    pub(crate) write: &'a Write<'a>,
    /// True if the writer can wait for a full feed, at most for the variable's `stall`.
    pub(crate) may_stall: bool,
    /// Receives the outcome of an applied write before any subscriber sees the update, so that the
    /// writer has the answer before its update arrives.
    pub(crate) completion: Option<&'a Completion>,
    pub(crate) observer: Option<&'a (dyn WriteObserver + 'static)>,
    /// The observer at the variable that redirected the write.
    pub(crate) outer: Option<&'a (dyn WriteObserver + 'static)>,
    /// Set if the caller named a variable other than the written one.
    pub(crate) redirect: Option<&'a Redirect<'a>>,
}

impl<'a> Call<'a> {
    /// Creates a call for a write that can wait, and that only its caller observes.
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

    /// Step 1: every check that needs no lock. Rights are checked first, so that a caller without
    /// them learns nothing else.
    pub(crate) fn check(&self, properties: &Properties) -> Result<(), Refusal> {
        let Self { caller, write, .. } = self;
        if write.origin != Origin::Client {
            return Ok(());
        }
        let action = match write.verb {
            // A request makes the source act, such as an I/O server read its device.
            WriteVerb::Put | WriteVerb::Set | WriteVerb::Send | WriteVerb::Request => Action::Write,
            WriteVerb::Force | WriteVerb::Unforce => Action::Force,
        };
        if !self.variable.permits(caller, action) {
            return Err(Refusal::Denied { action });
        }
        if matches!(
            write.verb,
            WriteVerb::Request | WriteVerb::Force | WriteVerb::Unforce
        ) {
            // The access type restricts clients' own writes, but not a value that an operator
            // forces in place of the source.
            return Ok(());
        }
        Refusal::by_access(self.variable.name(), properties.access).map_or(Ok(()), Err)
    }

    /// Returns the request that the rules of the variable must admit for a client's write.
    fn admission<'s>(&'s self, properties: &'s Properties) -> Admission<'s> {
        Admission::Client {
            caller: self.caller,
            verb: self.write.verb,
            properties,
        }
    }

    /// Informs the observer, if any, of the end of the write.
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
                moment: self.moment,
                old,
                new,
                outcome,
            };
            observer.ended(core, &end, wakes);
        }
    }
}

impl EngineCore {
    /// Writes one value, or returns the reason at once.
    ///
    /// Never waits, and calls no user code while it holds a lock. `wakes` collects the consumers to
    /// wake; flushing or dropping it wakes them.
    pub fn try_write(
        &self,
        caller: &Caller,
        now: Tick,
        wall: Timestamp,
        variable: &Variable,
        write: &Write<'_>,
        wakes: &mut Wakes,
    ) -> Attempt {
        let moment = Moment { now, wall };
        let call = Call::of(caller, moment, variable, write);
        self.put(&call, wakes).unwrap_or_else(|refusal| {
            let outcome = count_refused(variable, refusal);
            if write.origin != Origin::Client
                && let WriteOutcome::Refused(refusal) = &outcome
                && let Some(reason) = reason_of(refusal)
            {
                // The variable no longer has the source's value, so its quality must not stay good.
                requalify(variable, Quality::bad(reason), moment, wakes);
            }
            Attempt::Done(outcome)
        })
    }

    /// Like [`try_write`](Self::try_write), without counting refusals.
    pub(crate) fn put(&self, call: &Call<'_>, wakes: &mut Wakes) -> Result<Attempt, Refusal> {
        let Call {
            variable, write, ..
        } = *call;
        let is_client = write.origin == Origin::Client;
        let is_order = is_client && !matches!(write.verb, WriteVerb::Put | WriteVerb::Set);
        if (is_order || variable.is_hooked(is_client))
            && let Some(result) = self.begin(call, wakes)
        {
            return result;
        }
        let properties = variable.properties();
        call.check(&properties)?;
        let mut accepted = Accepted::nothing();
        self.accept_write(call, &properties, &mut accepted)?;
        let mut state = variable.lock();
        if !variable.is_current(&state, &properties) {
            // The write was checked against properties that are no longer current.
            drop(state);
            return self.put(call, wakes);
        }
        match call.observer {
            None => self.decide(call, &mut state, &properties, &mut accepted, wakes),
            Some(_) => self.decide_observed(call, &mut state, &properties, &mut accepted, wakes),
        }
    }

    #[inline(always)]
    pub(crate) fn accept_write(
        &self,
        call: &Call<'_>,
        properties: &Properties,
        accepted: &mut Accepted,
    ) -> Result<(), Refusal> {
        accept(properties, call.write, call.moment.wall, accepted)?;
        self.wall_clock.mark(&mut accepted.update.quality);
        match &call.variable.realtime {
            Some(realtime) => realtime.check_length(accepted.update.value.as_slice()),
            None => Ok(()),
        }
    }

    /// Calls [`decide`](Self::decide), and informs the observer while the variable's lock is still
    /// held.
    #[cold]
    fn decide_observed(
        &self,
        call: &Call<'_>,
        state: &mut State,
        properties: &Properties,
        accepted: &mut Accepted,
        wakes: &mut Wakes,
    ) -> Result<Attempt, Refusal> {
        let old = call.variable.update_locked(state);
        let result = self.decide(call, state, properties, accepted, wakes);
        let refused;
        let (outcome, new) = match &result {
            Ok(Attempt::Done(outcome @ WriteOutcome::Applied(_))) => {
                (outcome, Some(&accepted.update.value))
            }
            Ok(Attempt::Done(outcome)) => (outcome, None),
            // The caller that asked a provider decides on the value read back.
            Err(refusal) if call.write.origin == Origin::Client => {
                refused = WriteOutcome::Refused(refusal.clone());
                (&refused, None)
            }
            _ => return result,
        };
        call.inform_observer(self, &old, new, outcome, wakes);
        result
    }

    /// Steps 3 and 4: decide and commit. The caller holds the variable's lock.
    #[inline(always)]
    fn decide(
        &self,
        call: &Call<'_>,
        state: &mut State,
        properties: &Properties,
        accepted: &mut Accepted,
        wakes: &mut Wakes,
    ) -> Result<Attempt, Refusal> {
        if let Some(expected) = call.write.expected {
            check_expected(self.epoch(), call.variable, expected)?;
        }
        if call.variable.has_rules() {
            return commit_admitted(call, state, properties, accepted, wakes);
        }
        commit(call, state, properties, accepted, wakes)
    }

    /// Checks the position that a client's write expects, and the rules of the variable, for a
    /// write that does not reach [`decide`](Self::decide). `is_carried_out` is false if the write
    /// only requests information.
    pub(crate) fn check_rules(&self, call: &Call<'_>, is_carried_out: bool) -> Result<(), Refusal> {
        let variable = call.variable;
        if let Some(expected) = call.write.expected {
            check_expected(self.epoch(), variable, expected)?;
        }
        if !variable.has_rules() {
            return Ok(());
        }
        let mut state = variable.lock();
        let properties = variable.shared_properties(&state);
        variable.admit(&mut state, &call.admission(&properties), call.moment)?;
        if is_carried_out {
            variable.written(&mut state, call.caller, &properties);
        }
        Ok(())
    }
}

/// Returns the reason for the bad quality of a variable whose source value was refused, or `None`
/// if its quality remains.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "only two refusals concern the quality"
)]
pub(crate) fn reason_of(refusal: &Refusal) -> Option<Reason> {
    match refusal {
        Refusal::Scaling(_) => Some(Reason::OutOfRange),
        Refusal::NoMemory(_) => Some(Reason::MemoryFull),
        _ => None,
    }
}

/// Checks the expected position of a compare-and-set: both epoch and sequence must match.
pub(crate) fn check_expected(
    epoch: u64,
    variable: &Variable,
    expected: Position,
) -> Result<(), Refusal> {
    let sequence = variable.sequence();
    let actual = Position { epoch, sequence };
    match actual == expected {
        true => Ok(()),
        false => Err(Refusal::Conflict { actual, expected }),
    }
}

pub(crate) fn count_unknown(variable: &Variable, cause: UnknownCause) -> WriteOutcome {
    variable.lock().count(1, |unapplied| &mut unapplied.unknown);
    WriteOutcome::Unknown(cause)
}

pub(crate) fn count_refused(variable: &Variable, refusal: Refusal) -> WriteOutcome {
    let mut state = variable.lock();
    state.count_refused(variable.sequence(), &refusal);
    drop(state);
    WriteOutcome::Refused(refusal)
}
