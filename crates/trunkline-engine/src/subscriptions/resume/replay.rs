//! Replays missed updates to a re-created subscription.

use super::Resume;
use super::backlog::cost_of;
use crate::delivery::feed::QueueSize;
use crate::delivery::outbox::Wakes;
use crate::update::Update;
use crate::variable::{State, Variable};

/// Maximum number of entries in other subscribers' feeds examined for the updates of one variable.
/// A returning subscriber with many variables must not delay the writers.
const SCAN_ENTRIES_PER_VARIABLE: usize = 1024;
/// Maximum number of such entries for all variables of one request.
pub(crate) const SCAN_ENTRIES_PER_REQUEST: usize = 64 * SCAN_ENTRIES_PER_VARIABLE;

fn in_order(found: &mut Vec<Update>) {
    found.sort_by_key(|update| update.sequence);
    found.dedup_by_key(|update| update.sequence);
}

/// Returns true if all updates after `had` were found, except possibly the newest one.
fn reaches(found: &[Update], had: u64, newest: u64) -> bool {
    let behind = |one: &&Update| (had..newest).contains(&one.sequence.saturating_sub(1));
    let known = found.iter().filter(behind).count() as u64;
    let has_newest = found.last().is_some_and(|one| one.sequence == newest);
    known + u64::from(!has_newest) >= newest.saturating_sub(had)
}

impl Resume {
    /// Takes out the updates that have arrived in the meantime for a re-created subscription. Done
    /// before any of its variables is locked, because there may be many updates.
    pub(crate) fn gather(&mut self, subscription: u32, wakes: &mut Wakes) {
        for detached in &self.followed {
            detached.gather(subscription, wakes);
        }
    }

    /// Returns the latest updates of a re-subscribed variable without a gap, up to the newest. Also
    /// returns the sequence after which the subscription is owed updates from earlier sessions. The
    /// caller holds the variable's lock.
    pub(crate) fn reach_back(
        &mut self,
        subscription: u32,
        variable: &Variable,
        state: &State,
        had: Option<u64>,
        newest: &Update,
        wakes: &mut Wakes,
    ) -> (Vec<Update>, Option<u64>) {
        let mut found = Vec::new();
        let mut opened = None;
        for detached in &mut self.followed {
            let (handle, past) = (variable.handle(), &mut self.past);
            let before = detached.claim(subscription, handle, had, &mut found, past, wakes);
            opened = opened.into_iter().chain(before).min();
        }
        in_order(&mut found);
        if let (Some(had), Some(subscribers)) = (had, state.subscribers()) {
            let most = SCAN_ENTRIES_PER_VARIABLE.min(self.scan_budget);
            let mut scan_budget = most;
            let mut is_whole = reaches(&found, had, newest.sequence);
            for subscriber in subscribers.feeds().filter(|one| !one.only_changes) {
                if scan_budget == 0 || is_whole {
                    break;
                }
                // A feed without such updates also uses up one entry of the budget.
                scan_budget -= 1;
                let known = found.len();
                subscriber
                    .feed
                    .recent_of(subscriber.place, had, &mut scan_budget, &mut found);
                if found.len() > known {
                    in_order(&mut found);
                    is_whole = reaches(&found, had, newest.sequence);
                }
            }
            self.scan_budget -= most - scan_budget;
        }
        if found
            .last()
            .is_none_or(|last| last.sequence < newest.sequence)
        {
            found.push(newest.clone());
        }
        let gap = found
            .array_windows()
            .rposition(|[before, after]| before.sequence + 1 != after.sequence);
        found.drain(..gap.map_or(0, |at| at + 1));
        (found, opened)
    }

    /// Charges the updates found for a variable, which will be queued together. Drops the oldest
    /// updates that exceed `room`. If no bytes can be spared, keeps only the newest. `is_kept` is
    /// true if a lost session's state stored them until now.
    pub(crate) fn count_past(
        &mut self,
        room: QueueSize,
        mut found: Vec<Update>,
        is_kept: bool,
    ) -> Vec<Update> {
        let mut taken = QueueSize::default();
        let fits = found.iter().rev().take_while(|update| {
            taken.add(QueueSize::one(update.value.as_slice().len()));
            taken.updates <= room.updates && taken.bytes <= room.bytes
        });
        let fitting = fits.count().max(1);
        found.drain(..found.len().saturating_sub(fitting));
        if found.len() > 1 {
            let cost = found.iter().map(cost_of).sum();
            let is_charged = match is_kept {
                true => self.past.take_over(cost),
                false => self.past.take(cost),
            };
            if !is_charged {
                found.drain(..found.len() - 1);
            }
        }
        found
    }
}
