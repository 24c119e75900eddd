//! Feeds shared by several `all` subscriptions.
//!
//! A subscription begins with a feed of its own. When it is first drained after its variables have
//! changed, and there is another feed of the same variables, it moves there with everything queued
//! for it, at a moment when no writer writes any of them. Before its variables change it moves out
//! again in the same way. So at any moment an update is in exactly one of its feeds, in order.

use std::collections::{BTreeMap, HashMap};

use super::Consumer;
use super::in_flight::{Seat, Table};
use super::membership::Membership;
use crate::delivery::feed::{Feed, Moved};
use crate::delivery::group_room::GROUP_MAX;
use crate::delivery::outbox::Wakes;
use crate::delivery::subscribers::FeedInterest;
use crate::sync::{Arc, MutexGuard};
use crate::variable::{State, Variable};

impl Membership {
    /// Returns a new feed for a moved subscription, with the same places.
    fn feed_of(&self, moved: Moved) -> Arc<Feed> {
        let (places, next) = (self.by_handle.len(), self.table.len());
        Arc::new(Feed::moved_in(moved, places as u32, next as u32))
    }

    /// Replaces the places in its entries by those of another feed.
    fn translate(&mut self, moved: &mut Moved, places: &HashMap<u32, u32>) {
        for entry in self.taken.iter_mut().chain(moved.entries_mut()) {
            entry.place = places.get(&entry.place).copied().unwrap_or(u32::MAX);
        }
    }
}

impl Consumer {
    /// Joins another feed of the same variables if there is one.
    pub(super) fn settle(&mut self, id: u32, wakes: &mut Wakes) {
        if !self.shares_feeds || self.membership(id).is_none_or(|one| one.is_settled) {
            return;
        }
        let Some(subscription) = self.subscriptions.get_mut(&id) else {
            return;
        };
        let only_changes = subscription.only_changes;
        let Some(membership) = &mut subscription.feed else {
            return;
        };
        membership.is_settled = true;
        let count = membership.by_handle.len();
        if only_changes || count == 0 || count > GROUP_MAX {
            return;
        }
        let variables: BTreeMap<u32, Arc<Variable>> = membership
            .by_handle
            .iter()
            .filter_map(|(handle, (index, _))| Some((*handle, self.bound.get(*index)?.clone())))
            .collect();
        // Aliases and fields change under the lock of another variable.
        let is_plain = |one: &Arc<Variable>| !one.is_alias() && !one.name().contains('#');
        if variables.len() != count || !variables.values().all(is_plain) {
            return;
        }
        let handles: Vec<u32> = variables.keys().copied().collect();
        let feeds = self.engine.feeds();
        if let Some(found) = feeds.find_or_offer(&handles, &membership.feed) {
            if join(membership, &found, &variables, wakes) {
                return;
            }
            feeds.offer(&handles, &membership.feed);
        }
        membership.feed.set_open();
    }

    /// Moves the subscription to a feed of its own, because its variables are about to change.
    pub(super) fn stop_sharing(&mut self, id: u32) {
        let Some(subscription) = self.subscriptions.get_mut(&id) else {
            return;
        };
        let Some(membership) = &mut subscription.feed else {
            return;
        };
        membership.is_settled = false;
        if !membership.feed.shut() {
            return;
        }
        let variables: BTreeMap<u32, Arc<Variable>> = membership
            .by_handle
            .iter()
            .filter_map(|(handle, (index, _))| Some((*handle, self.bound.get(*index)?.clone())))
            .collect();
        // Declared before the locks, so that they are released before it is dropped and wakes
        // consumers.
        let mut wakes = Wakes::new();
        let mut locked = lock_all(&variables);
        let Some(moved) = membership.feed.move_out(membership.member, &mut wakes) else {
            return;
        };
        // The places stay the same.
        let feed = membership.feed_of(moved);
        for (handle, state) in &mut locked {
            if let Some((_, place)) = membership.by_handle.get(handle) {
                let interest = FeedInterest::new(Arc::clone(&feed), *place, false);
                state.make_interests().add_feed(interest);
            }
        }
        drop(locked);
        membership.feed = feed;
        membership.member = 0;
    }
}

/// Moves a subscription into another feed, under the locks of all its variables. Returns false if
/// that feed has other variables now.
fn join(
    membership: &mut Membership,
    found: &Arc<Feed>,
    variables: &BTreeMap<u32, Arc<Variable>>,
    wakes: &mut Wakes,
) -> bool {
    let mut locked = lock_all(variables);
    let mut places = HashMap::with_capacity(variables.len());
    for (handle, state) in &locked {
        let there = state.interests().and_then(|one| one.find_feed(found));
        let (Some(there), Some((_, here))) = (there, membership.by_handle.get(handle)) else {
            return false;
        };
        if there.only_changes {
            return false;
        }
        places.insert(*here, there.place);
    }
    if membership.feed.has_ended(membership.member) {
        return false;
    }
    let Some(mut moved) = membership.feed.move_out(membership.member, wakes) else {
        return false;
    };
    membership.translate(&mut moved, &places);
    let count = variables.len() as u32;
    let (feed, member) = match found.join(moved, count) {
        Ok(member) => {
            for (_, state) in &mut locked {
                if let Some(interests) = state.interests_mut() {
                    interests.remove_feed(&membership.feed);
                }
            }
            (Arc::clone(found), member)
        }
        Err(mut moved) => {
            // Restores its former places.
            let back = places.iter().map(|(here, there)| (*there, *here)).collect();
            membership.translate(&mut moved, &back);
            let feed = membership.feed_of(*moved);
            for (handle, state) in &mut locked {
                let place = membership.by_handle.get(handle).map(|(_, place)| *place);
                if let (Some(interests), Some(place)) = (state.interests_mut(), place) {
                    interests.remove_feed(&membership.feed);
                    interests.add_feed(FeedInterest::new(Arc::clone(&feed), place, false));
                }
            }
            membership.feed = feed;
            membership.member = 0;
            return false;
        }
    };
    drop(locked);
    let longest = places.values().max().map_or(0, |place| *place as usize + 1);
    let mut table: Table = vec![Seat::EMPTY; longest];
    for (handle, (index, place)) in &mut membership.by_handle {
        let there = places.get(place).copied().unwrap_or(u32::MAX);
        *place = there;
        if let Some(seat) = table.get_mut(there as usize) {
            *seat = Seat {
                index: *index,
                handle: *handle,
            };
        }
    }
    membership.table = Arc::new(table);
    membership.feed = feed;
    membership.member = member;
    true
}

/// Takes the locks in ascending order of the handles.
fn lock_all(variables: &BTreeMap<u32, Arc<Variable>>) -> Vec<(u32, MutexGuard<'_, State>)> {
    let locked = variables.iter().map(|(handle, one)| (*handle, one.lock()));
    locked.collect()
}
