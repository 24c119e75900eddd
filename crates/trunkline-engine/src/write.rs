//! The write path: check, lock, decide, commit, and the work after unlocking.
//!
//! It runs on the writer's thread, without an engine thread, a global lock or anything that blocks.
//! A write that would have to wait reports so before it has a sequence. Lock order: variable, then
//! feed.
//!
//! # Layout
//! - `request`: the arguments of a write; this file: the write path and everything that needs no
//!   lock.
//! - `commit`: the part under the variable's lock.
//! - `publish`: updates that no client wrote.

mod commit;
mod publish;
mod request;

use trunkline_types::{Position, Properties, Quality, Reason, Tick, Timestamp};

use self::commit::commit;
pub(crate) use self::commit::{Decision, decide};
pub(crate) use self::publish::{publish_locked, requalify, requalify_locked};
pub use self::request::{Completion, Origin, Write};
pub use crate::accept::WriteValue;
use crate::accept::{Accepted, accept};
use crate::alias::Watch;
use crate::audit::{Audited, is_noted};
use crate::caller::Caller;
use crate::engine::Engine;
use crate::outbox::Wakes;
use crate::outcome::{Attempt, Refusal, UnknownCause, WriteOutcome};
use crate::provider::{Ask, SendFailure, Waiting};
use crate::update::Encoded;
use crate::variable::{State, Variable};
pub use trunkline_types::WriteVerb;

impl Engine {
    /// Writes one value, or returns at once the reason why not.
    ///
    /// Never waits, and calls no user code while it holds a lock. `wakes` collects the consumers to
    /// wake; they are woken when it is flushed or dropped.
    pub fn try_write(
        &self,
        caller: &Caller,
        now: Tick,
        wall: Timestamp,
        variable: &Variable,
        write: &Write<'_>,
        wakes: &mut Wakes,
    ) -> Attempt {
        let put = Put {
            caller,
            now,
            wall,
            may_stall: true,
            completion: None,
            audited: None,
            watch: None,
        };
        if write.origin == Origin::Client && is_noted(variable, write.verb) {
            return self.put_audited(put, variable, write, wakes);
        }
        self.put(put, variable, write, wakes)
            .unwrap_or_else(|refusal| {
                let outcome = count_refused(variable, refusal);
                if write.origin != Origin::Client
                    && let WriteOutcome::Refused(refusal) = &outcome
                    && let Some(reason) = reason_of(refusal)
                {
                    // The variable no longer shows what its source reports, so it must not look
                    // good.
                    requalify(variable, Quality::bad(reason), now, wall, wakes);
                }
                Attempt::Done(outcome)
            })
    }

    /// Like [`Engine::try_write`], without counting refusals.
    pub(crate) fn put(
        &self,
        put: Put<'_>,
        variable: &Variable,
        write: &Write<'_>,
        wakes: &mut Wakes,
    ) -> Result<Attempt, Refusal> {
        if variable.is_alias() {
            return self.put_through(put, variable, write, wakes);
        }
        if write.origin == Origin::Client && !matches!(write.verb, WriteVerb::Put | WriteVerb::Set)
        {
            return self.order(put, variable, write, wakes);
        }
        let properties = variable.properties();
        check(put.caller, variable, &properties, write)?;
        let mut accepted = Accepted::nothing();
        accept(&properties, write, put.wall, &mut accepted)?;
        self.wall_clock().mark(&mut accepted.update.quality);
        if let Some(realtime) = &variable.realtime {
            realtime.check_length(accepted.update.value.as_slice())?;
        }
        if write.origin == Origin::Client
            && write.verb == WriteVerb::Put
            && let Some(index) = variable.provider_index()
        {
            let value = &accepted.update.value;
            self.ask_provider(index, put, variable, &properties, write, value)?;
            return Ok(Attempt::Pending);
        }
        let mut state = variable.lock();
        if !variable.is_current(&state, &properties) {
            // The write was checked against properties that are no longer current.
            drop(state);
            return self.put(put, variable, write, wakes);
        }
        let accepted = &mut accepted;
        match put.audited {
            None => self.decide(
                put,
                variable,
                &mut state,
                &properties,
                write,
                accepted,
                wakes,
            ),
            Some(audited) => {
                let by = (put, audited);
                self.decide_audited(
                    by,
                    variable,
                    &mut state,
                    &properties,
                    write,
                    accepted,
                    wakes,
                )
            }
        }
    }

    /// Steps 3 and 4: decide and commit. The caller holds the variable's lock.
    #[inline(always)]
    #[expect(
        clippy::too_many_arguments,
        reason = "what `commit` takes, and the engine"
    )]
    pub(crate) fn decide(
        &self,
        put: Put<'_>,
        variable: &Variable,
        state: &mut State,
        properties: &Properties,
        write: &Write<'_>,
        accepted: &mut Accepted,
        wakes: &mut Wakes,
    ) -> Result<Attempt, Refusal> {
        if let Some(expected) = write.expected {
            check_expected(self.epoch(), variable, expected)?;
        }
        if variable.is_guarded() && write.origin == Origin::Client {
            let judged = (write, accepted);
            return self.commit_guarded(put, variable, state, properties, judged, wakes);
        }
        commit(put, variable, state, properties, write, accepted, wakes)
    }

    /// Calls [`commit`] for a variable whose writing may be restricted to one client.
    #[cold]
    fn commit_guarded(
        &self,
        put: Put<'_>,
        variable: &Variable,
        state: &mut State,
        properties: &Properties,
        (write, accepted): (&Write<'_>, &mut Accepted),
        wakes: &mut Wakes,
    ) -> Result<Attempt, Refusal> {
        self.check_guard(put.caller, put.now, variable, state, properties)?;
        let attempt = commit(put, variable, state, properties, write, accepted, wakes)?;
        if let Attempt::Done(_) = attempt {
            self.take_guard(put.caller, variable, state, properties);
        }
        Ok(attempt)
    }

    /// Sends a write of a provided variable to its provider, outside every lock. The cell changes
    /// when the provider reports the value it holds.
    pub(crate) fn ask_provider(
        &self,
        index: usize,
        put: Put<'_>,
        variable: &Variable,
        properties: &Properties,
        write: &Write<'_>,
        value: &Encoded,
    ) -> Result<(), Refusal> {
        check_state(self, variable, write)?;
        if variable.is_guarded() {
            // The provider decides later, so the first client that asks becomes the single writer.
            let mut state = variable.lock();
            let current = variable.shared_properties(&state);
            self.check_guard(put.caller, put.now, variable, &mut state, &current)?;
            self.take_guard(put.caller, variable, &mut state, &current);
        }
        let value = value.try_decode(&properties.data_type)?;
        let raw = match &properties.scaling {
            Some(scaling) => scaling
                .to_raw(&value, properties.raw_type())
                .map_err(Refusal::Scaling)?,
            None => value,
        };
        self.hand_over(index, put, variable, Ask::Take(raw), write)
    }

    pub(crate) fn hand_over(
        &self,
        index: usize,
        put: Put<'_>,
        variable: &Variable,
        ask: Ask,
        write: &Write<'_>,
    ) -> Result<(), Refusal> {
        let completion = write.completion.clone();
        let variable = self.variable(variable.handle()).ok_or(Refusal::Gone)?;
        let waiting = Waiting {
            completion,
            writer: match ask {
                Ask::Take(_) => put.caller.session,
                Ask::Read => 0,
            },
            asked: put.audited.map(|audited| Box::new(audited.asked.clone())),
        };
        let sent = self
            .providers()
            .send(index, put.now, &variable, ask, waiting);
        sent.map_err(|failure| match failure {
            SendFailure::Busy { provider, pending } => Refusal::ProviderBusy { provider, pending },
            SendFailure::Gone { provider } => Refusal::ProviderGone { provider },
        })
    }
}

/// Returns the reason with which a variable becomes bad if the value from its source is refused, or
/// `None` if its quality stays.
pub(crate) fn reason_of(refusal: &Refusal) -> Option<Reason> {
    match refusal {
        Refusal::Scaling(_) => Some(Reason::OutOfRange),
        Refusal::NoMemory(_) => Some(Reason::MemoryFull),
        _ => None,
    }
}

/// Checks the states that block every write, and the position this write expects.
pub(crate) fn check_state(
    engine: &Engine,
    variable: &Variable,
    write: &Write<'_>,
) -> Result<(), Refusal> {
    if variable.is_blocked()
        && let Some(refusal) = variable.blocked_by(&variable.lock())
    {
        return Err(refusal);
    }
    match write.expected {
        Some(expected) => check_expected(engine.epoch(), variable, expected),
        None => Ok(()),
    }
}

/// Compare-and-set on the whole position, epoch and sequence.
pub(crate) fn check_expected(
    epoch: u64,
    variable: &Variable,
    expected: Position,
) -> Result<(), Refusal> {
    let actual = variable.sequence();
    #[cfg(feature = "planted")]
    if trunkline_types::planted::is(trunkline_types::planted::Bug::EpochNotCompared)
        && expected.sequence == actual
    {
        return Ok(());
    }
    match (expected.epoch, expected.sequence) == (epoch, actual) {
        true => Ok(()),
        false => Err(Refusal::Conflict { epoch, actual }),
    }
}

/// The context of a write: its caller, its time and its observers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Put<'a> {
    pub(crate) caller: &'a Caller,
    pub(crate) now: Tick,
    pub(crate) wall: Timestamp,
    /// True if the writer can wait for a full feed, for at most as long as the variable's owner
    /// allows.
    pub(crate) may_stall: bool,
    /// Notified that the write was applied before any subscriber sees the update, so the writer has
    /// the answer when its update arrives.
    pub(crate) completion: Option<&'a Completion>,
    /// Set if the outcome is recorded in the audit.
    pub(crate) audited: Option<&'a Audited>,
    /// The alias through which the write came.
    pub(crate) watch: Option<&'a Watch>,
}

/// Step 1: every check that needs no lock. Rights come first, so that a caller without them learns
/// nothing else.
pub(crate) fn check(
    caller: &Caller,
    variable: &Variable,
    properties: &Properties,
    write: &Write<'_>,
) -> Result<(), Refusal> {
    if write.origin != Origin::Client {
        return Ok(());
    }
    let is_permitted = match write.verb {
        // A request only reads.
        WriteVerb::Request => caller.rights.read,
        _ => caller.rights.write,
    };
    if !is_permitted || !variable.is_visible_to(caller) {
        return Err(Refusal::Denied);
    }
    if matches!(
        write.verb,
        WriteVerb::Request | WriteVerb::Force | WriteVerb::Unforce
    ) {
        // The access type restricts clients' own writes, not a value that a person forces in place
        // of the source.
        return Ok(());
    }
    Refusal::by_access(properties.access).map_or(Ok(()), Err)
}

/// Counts a write whose outcome is unknown.
pub(crate) fn count_unknown(variable: &Variable, cause: UnknownCause) -> WriteOutcome {
    variable.lock().count(1, |unapplied| &mut unapplied.unknown);
    WriteOutcome::Unknown(cause)
}

/// Counts a refusal and returns it as the write's outcome.
pub(crate) fn count_refused(variable: &Variable, refusal: Refusal) -> WriteOutcome {
    let mut state = variable.lock();
    state.count_refused(variable.sequence(), &refusal);
    drop(state);
    WriteOutcome::Refused(refusal)
}
