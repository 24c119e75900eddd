//! The part of a write under the variable's lock: decision and commit. Every commit ends in
//! [`commit_update`], including those that no client requested.

use std::time::Duration;

use trunkline_types::{ClockSync, Level, Moment, Properties, Reason, Timestamp};

use super::{Call, Completion, Origin, Write, WriteVerb};
use crate::delivery::feed::Stall;
use crate::delivery::group_room::GroupRooms;
use crate::delivery::outbox::Wakes;
use crate::outcome::{Attempt, LateKept, Refusal, WriteOutcome};
use crate::update::Update;
use crate::variable::{Admission, Extra, Redirect, State, Variable};
use crate::write::accept::{Accepted, within_deadband};

pub(crate) enum Decision {
    /// The value equals the update with this sequence.
    Unchanged { sequence: u64 },
    /// The value becomes the newest update. `changed` is false only if value and quality were
    /// compared with those of the previous update and are equal.
    Commit { changed: bool },
}

/// Step 3 except for the rules and the room in feeds. The caller holds the variable's lock. Always
/// inlined, because the result is as large as a refusal.
#[inline(always)]
pub(crate) fn decide(
    call: &Call<'_>,
    state: &mut State,
    properties: &Properties,
    accepted: &Accepted,
) -> Result<Decision, Refusal> {
    let Call {
        variable, write, ..
    } = *call;
    let wants_changes = state
        .subscribers()
        .is_some_and(|subscribers| subscribers.wants_changes());
    let mut changed = true;
    let compares = accepted.number.is_some() || wants_changes;
    if accepted.is_stamped || compares {
        let current = match compares {
            true => variable.update_locked(state),
            false => variable.update_without_value(),
        };
        if accepted.is_stamped
            && is_late(&current, accepted.update.source_timestamp, call.moment.wall)
        {
            return Err(Refusal::Late {
                live: current.source_timestamp,
                kept: LateKept::Nowhere,
            });
        }
        let moment = call.moment;
        if is_withheld(
            variable, state, properties, write, accepted, &current, moment,
        ) {
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

/// Returns true if the update is not committed, because its change is within the deadband (H-05)
/// and no feature needs it. Always inlined, because a call would slow down writes.
#[inline(always)]
pub(crate) fn is_withheld(
    variable: &Variable,
    state: &State,
    properties: &Properties,
    write: &Write<'_>,
    accepted: &Accepted,
    current: &Update,
    moment: Moment,
) -> bool {
    within_deadband(properties, write, accepted, current)
        && !(variable.concerns_extensions(state, &accepted.update)
            && variable.needs_commit(state, &accepted.update, moment))
}

/// Steps 3 and 4: decide and commit. The caller holds the variable's lock. Always inlined, because
/// a call would slow down a write.
#[inline(always)]
pub(super) fn commit(
    call: &Call<'_>,
    state: &mut State,
    properties: &Properties,
    accepted: &mut Accepted,
    wakes: &mut Wakes,
) -> Result<Attempt, Refusal> {
    let Call {
        variable, moment, ..
    } = *call;
    let stall = Stall {
        now: moment.now,
        limit: match call.may_stall {
            true => properties.stall,
            false => Duration::ZERO,
        },
    };
    let changed = match decide(call, state, properties, accepted) {
        Ok(Decision::Commit { changed }) => changed,
        Ok(Decision::Unchanged { sequence }) => {
            state.count_unchanged(sequence);
            return Ok(Attempt::Done(WriteOutcome::Unchanged(sequence)));
        }
        Err(refusal) => return Err(record_late(refusal, call, state, accepted, wakes)),
    };
    let update = &mut accepted.update;
    update.writer = call.caller.session;
    if properties.timestamps {
        update.engine_timestamp = moment.wall;
    }
    if call.completion.is_none()
        && let Some(attempt) = commit_to_one_feed(call, state, update, changed, stall, wakes)
    {
        return Ok(attempt);
    }
    if let Some(subscribers) = state.subscribers_mut() {
        let bytes = update.value.as_slice().len();
        if let Err(until) = subscribers.reserve_room(changed, bytes, stall, wakes) {
            return Ok(Attempt::WouldBlock { until });
        }
    }
    let commit = Commit {
        moment,
        changed,
        group: None,
        redirect: call.redirect,
    };
    let sequence = match call.completion {
        None => commit_update(variable, state, update, commit, wakes),
        Some(completion) => commit_completed(completion, variable, state, update, commit, wakes),
    };
    Ok(Attempt::Done(WriteOutcome::Applied(sequence)))
}

/// Passes a late sample to the history that records the variable, if any (B-41). Returns the
/// refusal, which states whether the sample was recorded.
#[cold]
fn record_late(
    refusal: Refusal,
    call: &Call<'_>,
    state: &State,
    accepted: &mut Accepted,
    wakes: &mut Wakes,
) -> Refusal {
    let Refusal::Late { live, .. } = refusal else {
        return refusal;
    };
    let update = &mut accepted.update;
    update.writer = call.caller.session;
    update.engine_timestamp = call.moment.wall;
    let kept = state.keep_late(call.variable, update, wakes);
    Refusal::Late { live, kept }
}

/// Calls [`commit`] for a variable whose rules must admit the write.
#[cold]
pub(super) fn commit_admitted(
    call: &Call<'_>,
    state: &mut State,
    properties: &Properties,
    accepted: &mut Accepted,
    wakes: &mut Wakes,
) -> Result<Attempt, Refusal> {
    admit(call, state, properties, accepted)?;
    let attempt = commit(call, state, properties, accepted, wakes)?;
    if let (Attempt::Done(_), Origin::Client) = (&attempt, call.write.origin) {
        call.variable.written(state, call.caller, properties);
    }
    Ok(attempt)
}

/// Checks whether the rules of the variable admit the write. The caller holds the variable's lock.
pub(crate) fn admit(
    call: &Call<'_>,
    state: &mut State,
    properties: &Properties,
    accepted: &Accepted,
) -> Result<(), Refusal> {
    let admission = match call.write.origin {
        Origin::Client => call.admission(properties),
        Origin::Source | Origin::SourceRaw => Admission::Source(&accepted.update),
    };
    call.variable.admit(state, &admission, call.moment)
}

/// Commits the update of a write that a provider has answered, and reports its outcome.
#[cold]
fn commit_completed(
    completion: &Completion,
    variable: &Variable,
    state: &mut State,
    update: &mut Update,
    commit: Commit<'_>,
    wakes: &mut Wakes,
) -> u64 {
    wakes.add(&completion.outbox);
    let redirect = commit.redirect;
    let mut sequence = 0;
    completion.outbox.complete_with(completion.id, || {
        sequence = commit_update(variable, state, update, commit, wakes);
        let applied = WriteOutcome::Applied(sequence);
        match redirect {
            Some(redirect) => redirect.outcome(WriteVerb::Put, applied),
            None => applied,
        }
    });
    sequence
}

/// Finishes a [`commit`] that needs room in only one `all` feed, with a single lock of the feed.
/// Returns `None` if other subscribers are involved.
#[inline]
fn commit_to_one_feed(
    call: &Call<'_>,
    state: &mut State,
    update: &mut Update,
    changed: bool,
    stall: Stall,
    wakes: &mut Wakes,
) -> Option<Attempt> {
    let Call {
        variable, moment, ..
    } = *call;
    let State {
        offered,
        latest,
        extra,
    } = state;
    let Extra {
        subscribers,
        shared,
        ..
    } = extra.as_deref_mut()?;
    if !subscribers.has_one_feed() || !latest.is_empty() {
        return None;
    }
    let publish = |update: &mut Update| {
        *offered += 1;
        variable.publish_to(shared, update);
    };
    if let Err(until) = subscribers.commit_one(update, changed, stall, wakes, publish) {
        return Some(Attempt::WouldBlock { until });
    }
    if variable.concerns_extensions(state, update) {
        variable.committed(state, update, moment, call.redirect, wakes);
    }
    Some(Attempt::Done(WriteOutcome::Applied(update.sequence)))
}

pub(crate) struct Commit<'a> {
    pub(crate) moment: Moment,
    /// False only if value and quality are known to equal those of the previous update.
    pub(crate) changed: bool,
    /// Set for a member of a group, whose updates enter the feeds together.
    pub(crate) group: Option<&'a mut GroupRooms>,
    pub(crate) redirect: Option<&'a Redirect<'a>>,
}

impl Commit<'_> {
    /// A commit of a changed value, outside a group.
    pub(crate) fn at(moment: Moment) -> Self {
        Self {
            moment,
            changed: true,
            group: None,
            redirect: None,
        }
    }
}

/// Publishes the update, for which every `all` feed has reserved room. Notifies the subscribers,
/// then the extensions of the variable. Returns the sequence of the update.
#[inline]
pub(crate) fn commit_update(
    variable: &Variable,
    state: &mut State,
    update: &mut Update,
    commit: Commit<'_>,
    wakes: &mut Wakes,
) -> u64 {
    let Commit {
        moment,
        changed,
        group,
        redirect,
    } = commit;
    state.offered += 1;
    let sequence = variable.publish(state, update);
    state.announce(update, changed, group, wakes);
    if variable.concerns_extensions(state, update) {
        variable.committed(state, update, moment, redirect, wakes);
    }
    sequence
}

/// Commits an update that nothing can delay: a full `all` subscription ends, whatever the
/// variable's `stall` setting.
pub(crate) fn commit_undelayed(
    variable: &Variable,
    state: &mut State,
    update: &mut Update,
    commit: Commit<'_>,
    wakes: &mut Wakes,
) -> u64 {
    if let Some(subscribers) = state.subscribers_mut() {
        let bytes = update.value.as_slice().len();
        let stall = Stall {
            now: commit.moment.now,
            limit: Duration::ZERO,
        };
        let reserved = subscribers.reserve_room(commit.changed, bytes, stall, wakes);
        debug_assert!(
            reserved.is_ok(),
            "without stall a full feed ends instead of blocking"
        );
    }
    commit_update(variable, state, update, commit, wakes)
}

/// Returns true if the sample is late: measured before the live value, with both clocks set. A late
/// sample does not replace the newer value (B-41).
///
/// A sample is not late if the live value is not a measurement (initial, retained or bad), if the
/// clock of the live value was not set, or if that clock is more than a day ahead.
fn is_late(current: &Update, source_timestamp: Timestamp, wall: Timestamp) -> bool {
    let quality = current.quality;
    let is_measured = current.sequence > 0
        && quality.level() != Level::Bad
        && !matches!(quality.reason(), Reason::Initial | Reason::Retained);
    let is_timed = quality.clock_sync() != ClockSync::Unset
        && current.source_timestamp <= wall.saturating_add_nanos(CLOCK_AHEAD_NANOS_MAX)
        // Otherwise the clock was set back, and timestamps from before and after that cannot be
        // compared.
        && current.engine_timestamp <= wall;
    is_measured && is_timed && source_timestamp < current.source_timestamp
}

/// Maximum lead of a source's clock over the engine's clock that is still trusted: one day.
const CLOCK_AHEAD_NANOS_MAX: i64 = 86_400_000_000_000;
