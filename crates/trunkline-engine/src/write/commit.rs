//! The part of a write under the variable's lock: decision and commit.

use std::time::Duration;

use trunkline_types::{ClockSync, Level, Properties, Reason, Timestamp};

use super::{Completion, Origin, Put, Write};
use crate::accept::{Accepted, within_deadband};
use crate::alias::commit_followed;
use crate::outbox::Wakes;
use crate::outcome::{Attempt, Refusal, WriteOutcome};
use crate::update::Update;
use crate::variable::{Extra, State, Variable};

/// The decision on a write that no rule refuses.
pub(crate) enum Decision {
    /// The value equals the update with this sequence.
    Unchanged { sequence: u64 },
    /// The value becomes the newest update. `changed` is false only if value and quality were
    /// compared with those of the previous update and are the same.
    Commit { changed: bool },
}

/// Step 3 except for the room in feeds. The caller holds the variable's lock. Always inlined,
/// because the result is as large as a refusal.
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

/// Steps 3 and 4: decide and commit. The caller holds the variable's lock. Always inlined, because
/// a call would slow down a write.
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
            return Ok(Attempt::Done(WriteOutcome::Unchanged(sequence)));
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
    Ok(Attempt::Done(WriteOutcome::Applied(sequence)))
}

/// Ends a [`commit`] that needs room in one `all` feed only, taking the feed's lock once. Returns
/// `None` if other subscribers are involved.
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
    Some(Attempt::Done(WriteOutcome::Applied(sequence)))
}

/// Returns the refusal of a write to a blocked variable. A value from the source of a forced
/// variable is kept until the variable is unforced.
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

/// Returns true if the sample is late: measured before the live value, with both clocks set. A late
/// sample does not overwrite the newer one (B-41).
///
/// A sample is not late if the live value is not a measurement (initial, retained or bad), if the
/// live value's clock was unset, or if that clock runs more than a day ahead.
fn is_late(current: &Update, source_timestamp: Timestamp, wall: Timestamp) -> bool {
    let quality = current.quality;
    let is_measured = current.sequence > 0
        && quality.level() != Level::Bad
        && !matches!(quality.reason(), Reason::Initial | Reason::Retained);
    let is_timed = quality.clock_sync() != ClockSync::Unset
        && current.source_timestamp <= wall.saturating_add_nanos(CLOCK_AHEAD_NANOS_MAX)
        // Otherwise the clock was set back, and timestamps from before and after cannot be
        // compared.
        && current.engine_timestamp <= wall;
    is_measured && is_timed && source_timestamp < current.source_timestamp
}

/// Maximum lead of a source's clock over the engine's clock that is still trusted: one day.
const CLOCK_AHEAD_NANOS_MAX: i64 = 86_400_000_000_000;
