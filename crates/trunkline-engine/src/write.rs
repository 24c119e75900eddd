//! The write path: check, lock, decide, commit, and what is done after the lock is gone.
//!
//! It runs on the writer's thread. No engine thread, no global lock, nothing that blocks: a write
//! that would have to wait says so before it has a number. Lock order: variable, then feed.

use std::time::Duration;

use trunkline_types::{
    Clock, ClockSync, Level, Position, Properties, Quality, Reason, Tick, Timestamp, Value,
};

pub use crate::accept::WriteValue;
use crate::accept::{Accepted, accept, within_deadband};
use crate::alias::{Following, Watch, commit_followed};
use crate::audit::{Audited, is_noted};
use crate::caller::Caller;
use crate::engine::Engine;
use crate::outbox::{Outbox, Wakes};
use crate::outcome::{Attempt, Refusal, UnknownCause, WriteOutcome};
use crate::provider::{Ask, SendFailure, Waiting};
use crate::sync::Arc;
use crate::update::{Encoded, Update};
use crate::variable::{Extra, State, Variable};

/// One value to be written.
#[derive(Clone, Debug)]
pub struct Write<'a> {
    /// The value.
    pub value: WriteValue<'a>,
    /// When it was measured; `None`: now, by the engine's clock.
    pub source_timestamp: Option<Timestamp>,
    /// Its quality; `None`: good.
    pub quality: Option<Quality>,
    /// Who produced it.
    pub origin: Origin,
    /// What is to be done, by a client; sources only publish.
    pub verb: Verb,
    /// Only if the variable is still at this update (B-22). Where a provider is asked, it may have
    /// published meanwhile.
    pub expected: Option<Position>,
    /// Where the outcome goes when a provider has to be asked first; `None`: nowhere.
    pub completion: Option<Completion>,
}

/// What a client wants done.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Verb {
    /// The value goes to the variable's provider, and into the cell when it has taken it; without a
    /// provider, into the cell.
    #[default]
    Put,
    /// The value goes into the cell only; no provider is asked (LM-04).
    Set,
    /// What the cell holds goes to the provider (LM-06). The write has no value of its own.
    Send,
    /// The provider is asked for a fresh value (LM-05). The write has no value of its own.
    Request,
    /// The value stays, whatever the source and other writers say, until it is unforced (H-27).
    Force,
    /// The variable shows what its source says again. The write has no value of its own.
    Unforce,
}

/// Who produced a value, which decides scaling, deadband and access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// A client or program, in engineering units; a provided variable asks its provider first.
    Client,
    /// The variable's source, already in engineering units.
    Source,
    /// The variable's source, in raw units: scaled by the variable's scaling.
    SourceRaw,
}

/// Where the outcome of a write that a provider answers is delivered.
#[derive(Clone, Debug)]
pub struct Completion {
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) id: u64,
    /// The alias through which the write came.
    pub(crate) alias: Option<Arc<Variable>>,
}

impl<'a> Write<'a> {
    /// A client's write of `value`, stamped on arrival.
    pub fn value(value: &'a Value) -> Self {
        Self::of(WriteValue::Value(value))
    }

    /// A client's write of a value in wire form, stamped on arrival.
    pub fn wire(bytes: &'a [u8]) -> Self {
        Self::of(WriteValue::Wire(bytes))
    }

    pub(crate) fn of(value: WriteValue<'a>) -> Self {
        Self {
            value,
            source_timestamp: None,
            quality: None,
            origin: Origin::Client,
            verb: Verb::Put,
            expected: None,
            completion: None,
        }
    }

    /// A client's order that has no value of its own: send, request, unforce.
    pub fn order(verb: Verb) -> Self {
        Self {
            verb,
            ..Self::of(WriteValue::Wire(&[]))
        }
    }
}

impl Engine {
    /// Writes one value, or says at once why not. Never waits, and calls nobody's code while it
    /// holds a lock. `wakes` collects the consumers to be woken; they are when it is flushed or
    /// dropped.
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
                if write.origin == Origin::SourceRaw
                    && matches!(outcome, WriteOutcome::Refused(Refusal::Scaling(_)))
                {
                    // What the source says now is not what the variable shows: it must not look
                    // good.
                    requalify(variable, Quality::bad(Reason::OutOfRange), now, wall, wakes);
                }
                Attempt::Done(outcome)
            })
    }

    /// [`Engine::try_write`] without counting refusals.
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
        if write.origin == Origin::Client && !matches!(write.verb, Verb::Put | Verb::Set) {
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
            && write.verb == Verb::Put
            && let Some(index) = variable.provider_index()
        {
            let value = &accepted.update.value;
            self.ask_provider(index, put, variable, &properties, write, value)?;
            return Ok(Attempt::Pending);
        }
        let mut state = variable.lock();
        if !variable.is_current(&state, &properties) {
            // It was judged by properties that hold no longer.
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

    /// Steps 3 and 4. The caller holds the variable's lock.
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

    /// [`commit`] of a variable that somebody else may have for himself.
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

    /// A write to a provided variable goes to the provider, outside every lock; the cell waits for
    /// what the provider says it holds.
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
            // It is the provider that decides, later: who asks first is the single writer.
            let mut state = variable.lock();
            let current = variable.shared_properties(&state);
            self.check_guard(put.caller, put.now, variable, &mut state, &current)?;
            self.take_guard(put.caller, variable, &mut state, &current);
        }
        let value = value.decode(&properties.data_type);
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
        let (handle, completion) = (variable.handle(), write.completion.clone());
        let waiting = Waiting {
            completion,
            asked: put.audited.map(|audited| Box::new(audited.asked.clone())),
        };
        let sent = self.providers().send(index, put.now, handle, ask, waiting);
        sent.map_err(|failure| match failure {
            SendFailure::Busy { provider, pending } => Refusal::ProviderBusy { provider, pending },
            SendFailure::Gone { provider } => Refusal::ProviderGone { provider },
        })
    }
}

/// What forbids every write now, and what this one expects.
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

/// Compare-and-set, on the whole position.
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

/// Who writes and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Put<'a> {
    pub(crate) caller: &'a Caller,
    pub(crate) now: Tick,
    pub(crate) wall: Timestamp,
    /// The writer can be asked to wait for a full feed, as long as the variable's owner allows.
    pub(crate) may_stall: bool,
    /// Told that the write was applied before anybody hears of the update: whoever wrote has the
    /// answer when the update comes.
    pub(crate) completion: Option<&'a Completion>,
    /// How it ends is noted in the audit.
    pub(crate) audited: Option<&'a Audited>,
    /// The alias through which it came.
    pub(crate) watch: Option<&'a Watch>,
}

/// Step 1: everything that needs no lock. Rights come first: whoever may not write learns no more.
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
        // It only looks.
        Verb::Request => caller.rights.read,
        _ => caller.rights.write,
    };
    if !is_permitted || !variable.is_visible_to(caller) {
        return Err(Refusal::Denied);
    }
    if matches!(write.verb, Verb::Request | Verb::Force | Verb::Unforce) {
        // What clients write by themselves is not what a person holds in place of the source.
        return Ok(());
    }
    Refusal::by_access(properties.access).map_or(Ok(()), Err)
}

/// What becomes of a write that nothing refuses.
pub(crate) enum Decision {
    /// It equals the update of this number.
    Unchanged { sequence: u64 },
    /// It becomes the newest update; `changed`: another value or quality than the one before, as
    /// far as anybody asks.
    Commit { changed: bool },
}

/// Step 3 but for the room in feeds. The caller holds the variable's lock. Always in place: what it
/// returns is as long as a refusal.
#[inline(always)]
pub(crate) fn decide(
    variable: &Variable,
    state: &mut State,
    properties: &Properties,
    write: &Write<'_>,
    accepted: &mut Accepted,
    wall: Timestamp,
) -> Result<Decision, Refusal> {
    if variable.is_blocked()
        && let Some(refusal) = blocked(variable, state, write, accepted, wall)
    {
        return Err(refusal);
    }
    let wants_changes = state
        .interests()
        .is_some_and(|interests| interests.wants_changes());
    let mut changed = true;
    let compares = accepted.number.is_some() || wants_changes || !state.followers().is_empty();
    if accepted.is_stamped || compares {
        let current = match compares {
            true => variable.update_locked(state),
            false => variable.update_without_value(),
        };
        if accepted.is_stamped && is_late(&current, accepted.update.source_timestamp, wall) {
            return Err(Refusal::Late {
                live: current.source_timestamp,
            });
        }
        if within_deadband(properties, write, accepted, &current) {
            return Ok(Decision::Unchanged {
                sequence: current.sequence,
            });
        }
        changed = !compares
            || current.sequence == 0
            || current.quality != accepted.update.quality
            || current.value.as_slice() != accepted.update.value.as_slice();
    }
    Ok(Decision::Commit { changed })
}

/// Steps 3 and 4: decide, commit. The caller holds the variable's lock. Always in place: a write
/// pays for a call.
#[inline(always)]
fn commit(
    put: Put<'_>,
    variable: &Variable,
    state: &mut State,
    properties: &Properties,
    write: &Write<'_>,
    accepted: &mut Accepted,
    wakes: &mut Wakes,
) -> Result<Attempt, Refusal> {
    let Put {
        caller,
        now,
        wall,
        may_stall,
        completion,
        ..
    } = put;
    let stall = if may_stall {
        properties.stall
    } else {
        Duration::ZERO
    };
    let changed = match decide(variable, state, properties, write, accepted, wall)? {
        Decision::Commit { changed } => changed,
        Decision::Unchanged { sequence } => {
            state.count_unchanged(sequence);
            return Ok(Attempt::Done(WriteOutcome::Unchanged { sequence }));
        }
    };
    let update = &mut accepted.update;
    update.writer = caller.session;
    if properties.timestamps {
        update.engine_timestamp = wall;
    }
    let is_followed = !state.followers().is_empty();
    if completion.is_none()
        && !is_followed
        && let Some(attempt) =
            commit_to_one_feed(variable, state, update, changed, (put, stall), wakes)
    {
        return Ok(attempt);
    }
    if let Some(interests) = state.interests_mut() {
        let bytes = update.value.as_slice().len();
        if let Err(until) = interests.reserve_room(changed, bytes, now, stall, wakes) {
            return Ok(Attempt::WouldBlock { until });
        }
    }
    state.offered += 1;
    if is_followed {
        let outcome = commit_followed(put, variable, state, update, changed, wakes);
        return Ok(Attempt::Done(outcome));
    }
    let mut publish = || variable.publish(state, update);
    let sequence = match completion {
        Some(Completion { outbox, id, .. }) => {
            wakes.add(outbox);
            outbox.complete_applied(*id, publish)
        }
        None => publish(),
    };
    state.announce(update, changed, None, wakes);
    if !state.fields().is_empty() {
        variable.refresh_fields(state, now, wall, wakes);
    }
    Ok(Attempt::Done(WriteOutcome::Applied { sequence }))
}

/// The end of [`commit`] where one `all` feed is all that has to have room: its lock is taken once.
/// `None` where it is not so.
#[inline]
fn commit_to_one_feed(
    variable: &Variable,
    state: &mut State,
    update: &mut Update,
    changed: bool,
    (put, stall): (Put<'_>, Duration),
    wakes: &mut Wakes,
) -> Option<Attempt> {
    let State {
        offered,
        plains,
        extra,
    } = state;
    let Extra {
        interests, shared, ..
    } = extra.as_deref_mut()?;
    if !interests.has_one_feed() || !plains.is_empty() {
        return None;
    }
    let publish = |update: &mut Update| {
        *offered += 1;
        variable.publish_to(shared, update);
    };
    let time = (put.now, stall);
    if let Err(until) = interests.commit_one(update, changed, time, wakes, publish) {
        return Some(Attempt::WouldBlock { until });
    }
    if !state.fields().is_empty() {
        variable.refresh_fields(state, put.now, put.wall, wakes);
    }
    let sequence = update.sequence;
    Some(Attempt::Done(WriteOutcome::Applied { sequence }))
}

/// A write to a variable that takes none. What a source says of a forced variable is kept for the
/// time when it is unforced.
#[cold]
fn blocked(
    variable: &Variable,
    state: &mut State,
    write: &Write<'_>,
    accepted: &mut Accepted,
    wall: Timestamp,
) -> Option<Refusal> {
    let refusal = variable.blocked_by(state)?;
    if let (Refusal::Forced { .. }, false) = (&refusal, write.origin == Origin::Client)
        && let Some(forced) = state.forced_mut()
    {
        accepted.update.engine_timestamp = wall;
        forced.behind = Some(accepted.update.clone());
    }
    Some(refusal)
}

/// Publishes the current value again with another quality: what its source said about itself
/// changed.
///
/// Nobody can be asked to wait here, so a full `all` subscription ends, whatever the owner's
/// `stall`.
pub(crate) fn requalify(
    variable: &Variable,
    quality: Quality,
    now: Tick,
    wall: Timestamp,
    wakes: &mut Wakes,
) {
    let mut guard = variable.lock();
    if !variable.is_blocked() {
        requalify_locked(variable, &mut guard, quality, now, wall, wakes);
    } else if let Some(forced) = guard.forced_mut() {
        forced.requalify(quality, wall);
    }
}

/// [`requalify`] for a caller that holds the variable's lock and has seen to it that it may be
/// written.
pub(crate) fn requalify_locked(
    variable: &Variable,
    state: &mut State,
    quality: Quality,
    now: Tick,
    wall: Timestamp,
    wakes: &mut Wakes,
) {
    let current = variable.update_locked(state);
    let (stamp, quality) = match variable.deployed().timestamps {
        true => (wall, quality),
        false => (
            Timestamp::UNIX_EPOCH,
            quality.with_clock(Clock::Unknown, ClockSync::Unknown),
        ),
    };
    if current.sequence > 0 && current.quality == quality {
        return;
    }
    let value = if current.sequence == 0 {
        Encoded::from_value(&Value::default_of(variable.data_type()))
    } else {
        current.value
    };
    let update = Update {
        sequence: 0,
        source_timestamp: stamp,
        engine_timestamp: stamp,
        quality,
        writer: 0,
        value,
    };
    publish_locked(variable, state, update, now, wall, wakes);
}

/// Publishes an update that nothing can hold up. The caller holds the variable's lock.
pub(crate) fn publish_locked(
    variable: &Variable,
    state: &mut State,
    mut update: Update,
    now: Tick,
    wall: Timestamp,
    wakes: &mut Wakes,
) -> u64 {
    if let Some(interests) = state.interests_mut() {
        let bytes = update.value.as_slice().len();
        let reserved = interests.reserve_room(true, bytes, now, Duration::ZERO, wakes);
        debug_assert!(
            reserved.is_ok(),
            "without stall a full feed ends instead of blocking"
        );
    }
    state.offered += 1;
    let sequence = variable.publish(state, &mut update);
    state.announce(&update, true, None, wakes);
    if !state.fields().is_empty() {
        variable.refresh_fields(state, now, update.engine_timestamp, wakes);
    }
    if !state.followers().is_empty() {
        let following = Following {
            source: variable,
            update: &update,
            now,
            wall,
            watched: 0,
        };
        following.tell(state, wakes);
    }
    sequence
}

/// Counts a write whose outcome nobody knows.
pub(crate) fn count_unknown(variable: &Variable, cause: UnknownCause) -> WriteOutcome {
    variable.lock().count(1, |unapplied| &mut unapplied.unknown);
    WriteOutcome::Unknown(cause)
}

/// Counts a refusal and returns it as the write's end.
pub(crate) fn count_refused(variable: &Variable, refusal: Refusal) -> WriteOutcome {
    let mut state = variable.lock();
    state.count_refused(variable.sequence(), &refusal);
    drop(state);
    WriteOutcome::Refused(refusal)
}

/// A sample is late when it was measured before the live value and both clocks were set: it does
/// not overwrite the newer one (B-41). What replaces every live value that is no measurement
/// (initial, retained, bad), and one whose own clock was unset or runs more than a day ahead, is
/// not late.
fn is_late(current: &Update, source_timestamp: Timestamp, wall: Timestamp) -> bool {
    let quality = current.quality;
    let is_measured = current.sequence > 0
        && quality.level() != Level::Bad
        && !matches!(quality.reason(), Reason::Initial | Reason::Retained);
    let is_timed = quality.clock_sync() != ClockSync::Unset
        && current.source_timestamp <= wall.saturating_add_nanos(CLOCK_AHEAD_NANOS_MAX)
        // Else the clock was set back since, and times from before say nothing about those after.
        && current.engine_timestamp <= wall;
    is_measured && is_timed && source_timestamp < current.source_timestamp
}

/// How far a source's clock may run ahead of the engine's and still be believed: one day.
const CLOCK_AHEAD_NANOS_MAX: i64 = 86_400_000_000_000;
