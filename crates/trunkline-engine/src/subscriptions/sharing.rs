//! Feeds shared by several `all` subscriptions.
//!
//! A subscription begins with its own feed. When it is first drained after its variables have
//! changed, and another feed has the same variables, it moves there with all its queued entries, at
//! a moment when no writer writes any of these variables. Before its variables change, it moves out
//! again in the same way. At any moment, an update is therefore in exactly one of its feeds, in
//! order.

use std::collections::{BTreeMap, HashMap};

use super::in_flight::{ItemRef, ItemTable};
use super::items::ItemVariables;
use super::membership::Membership;
use crate::delivery::feed::{Feed, Feeds, Moved};
use crate::delivery::group_room::GROUP_MAX;
use crate::delivery::outbox::Wakes;
use crate::delivery::subscribers::FeedSubscriber;
use crate::sync::{Arc, MutexGuard};
use crate::variable::{State, Variable};

impl Membership {
    /// Returns a new feed for a moved subscription, with the same places.
    fn feed_of(&self, moved: Moved) -> Arc<Feed> {
        let (places, next) = (self.by_handle.len(), self.table.len());
        Arc::new(Feed::moved_in(moved, places as u32, next as u32))
    }

    /// Replaces the places in its entries with the places in another feed.
    fn translate(&mut self, moved: &mut Moved, places: &HashMap<u32, u32>) {
        for entry in self.taken.iter_mut().chain(moved.entries_mut()) {
            entry.place = places.get(&entry.place).copied().unwrap_or(u32::MAX);
        }
    }

    fn variables(&self, items: &ItemVariables) -> BTreeMap<u32, Arc<Variable>> {
        let variables = self.by_handle.iter();
        let variables = variables
            .filter_map(|(handle, (index, _))| Some((*handle, items.get(*index)?.clone())));
        variables.collect()
    }

    pub(super) fn settle(&mut self, feeds: &Feeds, items: &ItemVariables, wakes: &mut Wakes) {
        self.is_settled = true;
        let count = self.by_handle.len();
        if count == 0 || count > GROUP_MAX {
            return;
        }
        let variables = self.variables(items);
        // Aliases and fields change under the lock of another variable.
        let is_plain = |one: &Arc<Variable>| !one.is_alias() && !one.name().contains('#');
        if variables.len() != count || !variables.values().all(is_plain) {
            return;
        }
        let handles: Vec<u32> = variables.keys().copied().collect();
        if let Some(found) = feeds.find_or_offer(&handles, &self.feed) {
            if join(self, &found, &variables, wakes) {
                return;
            }
            feeds.offer(&handles, &self.feed);
        }
        self.feed.set_open();
    }

    /// Moves the subscription to its own feed, because its variables are about to change.
    pub(super) fn stop_sharing(&mut self, items: &ItemVariables) {
        self.is_settled = false;
        if !self.feed.shut() {
            return;
        }
        let variables = self.variables(items);
        // Declared before the locks, so that they are released before it is dropped and wakes
        // consumers.
        let mut wakes = Wakes::new();
        let mut locked = lock_all(&variables);
        let Some(moved) = self.feed.move_out(self.member, &mut wakes) else {
            return;
        };
        // The places remain the same.
        let feed = self.feed_of(moved);
        for (handle, state) in &mut locked {
            if let Some((_, place)) = self.by_handle.get(handle) {
                let subscriber = FeedSubscriber::new(Arc::clone(&feed), *place, false);
                state.make_subscribers().add_feed(subscriber);
            }
        }
        drop(locked);
        self.feed = feed;
        self.member = 0;
    }
}

/// Moves a subscription into another feed, under the locks of all its variables. Returns false if
/// that feed now has other variables.
fn join(
    membership: &mut Membership,
    found: &Arc<Feed>,
    variables: &BTreeMap<u32, Arc<Variable>>,
    wakes: &mut Wakes,
) -> bool {
    let mut locked = lock_all(variables);
    let mut places = HashMap::with_capacity(variables.len());
    for (handle, state) in &locked {
        let there = state.subscribers().and_then(|one| one.find_feed(found));
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
                if let Some(subscribers) = state.subscribers_mut() {
                    subscribers.remove_feed(&membership.feed);
                }
            }
            (Arc::clone(found), member)
        }
        Err(mut moved) => {
            // Restores its previous places.
            let back = places.iter().map(|(here, there)| (*there, *here)).collect();
            membership.translate(&mut moved, &back);
            let feed = membership.feed_of(*moved);
            for (handle, state) in &mut locked {
                let place = membership.by_handle.get(handle).map(|(_, place)| *place);
                if let (Some(subscribers), Some(place)) = (state.subscribers_mut(), place) {
                    subscribers.remove_feed(&membership.feed);
                    subscribers.add_feed(FeedSubscriber::new(Arc::clone(&feed), place, false));
                }
            }
            membership.feed = feed;
            membership.member = 0;
            return false;
        }
    };
    drop(locked);
    let longest = places.values().max().map_or(0, |place| *place as usize + 1);
    let mut table: ItemTable = vec![ItemRef::EMPTY; longest];
    for (handle, (index, place)) in &mut membership.by_handle {
        let there = places.get(place).copied().unwrap_or(u32::MAX);
        *place = there;
        if let Some(item_ref) = table.get_mut(there as usize) {
            *item_ref = ItemRef {
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

fn lock_all(variables: &BTreeMap<u32, Arc<Variable>>) -> Vec<(u32, MutexGuard<'_, State>)> {
    let locked = variables.iter().map(|(handle, one)| (*handle, one.lock()));
    locked.collect()
}
