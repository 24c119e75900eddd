//! Under the variable's lock: what becomes of a write, and its commit.

use std::time::Duration;

use trunkline_types::{ClockSync, Level, Properties, Reason, Timestamp};

use super::{Completion, Origin, Put, Write};
use crate::accept::{Accepted, within_deadband};
use crate::alias::commit_followed;
use crate::outbox::Wakes;
use crate::outcome::{Attempt, Refusal, WriteOutcome};
use crate::update::Update;
use crate::variable::{Extra, State, Variable};

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
pub(super) fn commit(
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
