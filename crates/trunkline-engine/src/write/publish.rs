//! Updates that no client wrote. Nothing can delay them.

use trunkline_types::{Clock, ClockSync, Moment, Quality, Timestamp};

use super::commit::{Commit, commit_undelayed};
use crate::delivery::outbox::Wakes;
use crate::update::{Encoded, Update};
use crate::variable::{Admission, State, Variable};

/// Publishes the current value again with another quality, after a change reported by its source.
///
/// The source cannot wait here, so a full `all` subscription ends, whatever the variable's `stall`
/// setting.
pub(crate) fn requalify(variable: &Variable, quality: Quality, moment: Moment, wakes: &mut Wakes) {
    requalify_admitted(variable, &mut variable.lock(), quality, moment, wakes);
}

/// Like [`requalify`], for a caller that holds the variable's lock.
pub(crate) fn requalify_admitted(
    variable: &Variable,
    state: &mut State,
    quality: Quality,
    moment: Moment,
    wakes: &mut Wakes,
) {
    let admission = Admission::Quality(quality);
    if variable.admit(state, &admission, moment).is_ok() {
        requalify_locked(variable, state, quality, moment, wakes);
    }
}

/// Like [`requalify_admitted`], for a quality that no rule refuses.
pub(crate) fn requalify_locked(
    variable: &Variable,
    state: &mut State,
    quality: Quality,
    moment: Moment,
    wakes: &mut Wakes,
) {
    let current = variable.update_locked(state);
    // A quality alone does not provide a value to a variable that has none.
    let quality = match current.sequence > 0 && current.quality.has_value() {
        true => quality,
        false => quality.without_value(),
    };
    let (stamp, quality) = match variable.deployed().timestamps {
        true => (moment.wall, quality),
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
            // The variable remains without a value, which is also bad.
            Err(_) => return,
        }
    } else {
        current.value
    };
    let mut update = Update::new(stamp, quality, 0, value);
    commit_undelayed(variable, state, &mut update, Commit::at(moment), wakes);
}
