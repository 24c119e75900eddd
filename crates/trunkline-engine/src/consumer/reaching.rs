//! What a subscription that is made again is given of the time before.

use trunkline_types::Contract;

use super::Consumer;
use super::kept::cost_of;
use crate::feed::Room;
use crate::outbox::Wakes;
use crate::update::Update;
use crate::variable::{State, Variable};

/// Entries of other subscribers' feeds that are looked through for the updates of one variable: who
/// comes back with many variables must not keep the writers waiting.
const LOOK_BACK: usize = 1024;
/// The same for all variables of one request.
pub(super) const LOOKS_PER_REQUEST: usize = 64 * LOOK_BACK;

/// Each once, in the order of their numbers.
fn in_order(found: &mut Vec<Update>) {
    found.sort_by_key(|update| update.sequence);
    found.dedup_by_key(|update| update.sequence);
}

/// Whether all behind `had` is there; whether the newest is makes no difference.
fn reaches(found: &[Update], had: u64, newest: u64) -> bool {
    let behind = |one: &&Update| (had..newest).contains(&one.sequence.saturating_sub(1));
    let known = found.iter().filter(behind).count() as u64;
    let has_newest = found.last().is_some_and(|one| one.sequence == newest);
    known + u64::from(!has_newest) >= newest.saturating_sub(had)
}

impl Consumer {
    /// Another request of the peer's begins: subscriptions that it makes again are given what other
    /// subscribers' feeds still have, at most about 65,000 of whose entries are looked through for
    /// all of them together.
    pub fn begin_request(&mut self) {
        self.looks = LOOKS_PER_REQUEST;
    }

    /// Entries of other subscribers' feeds that this request may still look through.
    pub fn looks_left(&self) -> usize {
        self.looks
    }

    /// Takes out what has come meanwhile for a subscription that is made again, before the lock of
    /// any of its variables: that may be much.
    pub(super) fn gather_followed(&mut self, subscription: u32, wakes: &mut Wakes) {
        for absent in &self.followed {
            absent.gather(subscription, wakes);
        }
    }

    /// The updates of a variable that is subscribed again, from the first on behind which none is
    /// missing, up to the newest; and the number before the first that the subscription was to get
    /// in the sessions before. The caller holds the variable's lock.
    pub(super) fn reach_back(
        &mut self,
        subscription: u32,
        (variable, state): (&Variable, &State),
        had: Option<u64>,
        newest: &Update,
        wakes: &mut Wakes,
    ) -> (Vec<Update>, Option<u64>) {
        let mut found = Vec::new();
        let mut opened = None;
        for absent in &mut self.followed {
            let to = (&mut found, &mut self.past);
            let before = absent.claim(subscription, variable.handle(), had, to, wakes);
            opened = opened.into_iter().chain(before).min();
        }
        in_order(&mut found);
        if let (Some(had), Some(interests)) = (had, state.interests()) {
            let most = LOOK_BACK.min(self.looks);
            let mut looks = most;
            let mut is_whole = reaches(&found, had, newest.sequence);
            for interest in interests.feeds().filter(|one| !one.only_changes) {
                if looks == 0 || is_whole {
                    break;
                }
                // A feed that has nothing is a look as well.
                looks -= 1;
                let known = found.len();
                interest
                    .feed
                    .recent_of(interest.place, had, &mut looks, &mut found);
                if found.len() > known {
                    in_order(&mut found);
                    is_whole = reaches(&found, had, newest.sequence);
                }
            }
            self.looks -= most - looks;
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

    /// Counts what was found of a variable, which is to wait with all the others; what exceeds the
    /// subscription's bound is left out from the oldest on, and where no bytes are to spare only
    /// the newest is left. `is_kept`: it has waited until now, somewhere else.
    pub(super) fn count_past(
        &mut self,
        subscription: u32,
        mut found: Vec<Update>,
        is_kept: bool,
    ) -> Vec<Update> {
        let room = self.room_for_past(subscription);
        let mut taken = Room::default();
        let fits = found.iter().rev().take_while(|update| {
            taken.add(Room::one(update.value.as_slice().len()));
            taken.updates <= room.updates && taken.bytes <= room.bytes
        });
        let fitting = fits.count().max(1);
        found.drain(..found.len().saturating_sub(fitting));
        if found.len() > 1 {
            let cost = found.iter().map(cost_of).sum();
            let is_taken = match is_kept {
                true => self.past.take_over(cost),
                false => self.past.take(cost),
            };
            if !is_taken {
                found.drain(..found.len() - 1);
            }
        }
        found
    }

    /// What may still come before what a subscription gets: all of it together twice its bound. So
    /// much may have been on its way and have waited, and so much its subscriber has room for: with
    /// more it would end with `overrun`, begin again and get the same again, without end.
    fn room_for_past(&self, subscription: u32) -> Room {
        let Some(subscription) = self.subscriptions.get(&subscription) else {
            return Room::default();
        };
        let (Contract::All { elements, bytes }, Some(membership)) =
            (subscription.contract, &subscription.feed)
        else {
            return Room::default();
        };
        Room {
            updates: (elements as usize)
                .saturating_mul(2)
                .saturating_sub(membership.past.updates),
            bytes: (bytes as usize)
                .saturating_mul(2)
                .saturating_sub(membership.past.bytes),
        }
    }
}
