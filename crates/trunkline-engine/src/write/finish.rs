//! The end of a commit: an update gets its sequence, and all that depends on the variable learns of
//! it. Every caller holds the variable's lock.

use std::time::Duration;

use trunkline_types::Moment;

use crate::delivery::feed::Stall;
use crate::delivery::group_room::GroupRooms;
use crate::delivery::outbox::Wakes;
use crate::update::Update;
use crate::variable::{Redirect, State, Variable};

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

/// Publishes the update, for which every `all` feed has reserved room. Informs the subscribers, then
/// the extensions of the variable. Returns the sequence of the update.
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
    if variable.is_extended() {
        variable.committed(state, update, moment, redirect, wakes);
    }
    sequence
}

/// Commits an update that nothing can delay: a full `all` subscription ends, whatever the owner's
/// `stall` setting.
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
