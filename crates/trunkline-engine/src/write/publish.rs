//! Updates that no client wrote. Nothing can delay them.

use std::time::Duration;

use trunkline_types::{Clock, ClockSync, Quality, Tick, Timestamp};

use crate::alias::Following;
use crate::outbox::Wakes;
use crate::update::{Encoded, Update};
use crate::variable::{State, Variable};

/// Publishes the current value again with another quality, after its source has reported a change.
///
/// The source cannot wait here, so a full `all` subscription ends, whatever the owner's `stall`
/// setting.
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

/// Like [`requalify`], for a caller that holds the variable's lock and has checked that the
/// variable is not blocked.
pub(crate) fn requalify_locked(
    variable: &Variable,
    state: &mut State,
    quality: Quality,
    now: Tick,
    wall: Timestamp,
    wakes: &mut Wakes,
) {
    let current = variable.update_locked(state);
    // A quality alone does not give a value to a variable that has none.
    let quality = match current.sequence > 0 && current.quality.has_value() {
        true => quality,
        false => quality.without_value(),
    };
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
        match Encoded::try_default_of(variable.data_type()) {
            Ok(value) => value,
            // The variable stays without a value, which is bad as well.
            Err(_) => return,
        }
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

/// Publishes an update that nothing can delay. The caller holds the variable's lock.
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
        variable.refresh_fields(state, now, wall, wakes);
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
