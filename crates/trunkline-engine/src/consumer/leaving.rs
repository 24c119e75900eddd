//! A session breaks and leaves its `all` subscriptions; another one follows it.

use std::collections::{BTreeMap, HashMap};

use trunkline_types::Tick;

use super::Consumer;
use super::absence::{Absent, AbsentFeed, ITEM_COST};
use super::charge::Charge;
use super::kept::{Kept, KeptBehind};
use super::sent::Sent;
use crate::caller::Caller;
use crate::feed::Room;
use crate::outbox::Wakes;
use crate::sync::{Arc, Mutex};
use crate::variable::Variable;

/// Those that one session follows: each time a session breaks while it comes back it is one more.
const FOLLOWED_MAX: usize = 16;

impl Consumer {
    /// From now on what is delivered under `all` is kept until the peer has confirmed it, so that
    /// [`Consumer::leave`] can leave it to who comes after: a tenth of the bytes that may wait for
    /// it. After [`Consumer::queue_bytes_max`] and [`Consumer::confirmed_by_peer`].
    #[must_use]
    pub fn keeping_sent(mut self) -> Self {
        let max = self.outbox.budget.max();
        let is_confirmed = self.in_flight.is_kept();
        self.sent = is_confirmed.then(|| Sent::new(&self.engine, max));
        self.past = Charge::of(&self.engine, max);
        self
    }

    /// The session broke: its `all` subscriptions are kept until then, for the one that names it.
    pub fn leave(mut self, caller: &Caller, until: Tick) {
        let engine = self.engine.clone();
        let mut wakes = Wakes::new();
        let mut charge = match &mut self.sent {
            Some(sent) => std::mem::take(&mut sent.charge),
            None => return,
        };
        // What waits is sorted out into it as well.
        let max = self.outbox.budget.max();
        charge.limit(max.saturating_add(max / 8));
        let kept = Arc::new(Mutex::new(Kept::new(charge)));
        let mut absent = Absent {
            sessions: vec![caller.session],
            principal: caller.principal.clone(),
            until,
            feeds: BTreeMap::new(),
            owed: HashMap::new(),
            kept: Arc::clone(&kept),
        };
        let is_kept = |one: &super::Subscription| one.feed.is_some() && !one.options.only_changes;
        let ids = self.subscriptions.iter().filter(|(_, one)| is_kept(one));
        let ids: Vec<u32> = ids.map(|(id, _)| *id).collect();
        let mut taken = Vec::new();
        // Bytes that were charged for it until now.
        let mut lent = 0;
        let mut left = Vec::new();
        for id in ids {
            let Some(subscription) = self.subscriptions.remove(&id) else {
                continue;
            };
            left.extend(subscription.items.iter());
            let Some(membership) = subscription.feed else {
                continue;
            };
            let items = membership.by_handle.iter();
            let owed: HashMap<u32, u64> = items
                .filter_map(|(handle, (index, _))| {
                    Some((*handle, self.items.get(*index)?.opened_at()))
                })
                .collect();
            let items = membership.by_handle.iter();
            let handles = items
                .map(|(handle, (_, place))| (*place, *handle))
                .collect();
            let mut feed = AbsentFeed {
                membership,
                handles,
                owed,
                leaving: None,
            };
            let membership = &mut feed.membership;
            let past = std::mem::take(&mut membership.past);
            lent += self.past.hand_over(past.cost());
            let cost = feed.handles.len() * ITEM_COST;
            if !kept.lock().charge.take_over(cost) {
                // No writer waits for it until it has gone.
                let nothing = Box::new(KeptBehind::new(&kept, HashMap::new()));
                let member = membership.member;
                membership.feed.set_absent(member, nothing, &mut wakes);
                absent.give_up_feed(id, feed, &engine, &mut wakes);
                continue;
            }
            let membership = &mut feed.membership;
            let mut room = Room::default();
            for entry in membership.taken.drain(..) {
                room.add(entry.room());
                taken.push((feed.handles.get(&entry.place).copied(), entry));
            }
            // What was taken counts no more before the oldest of what is left may go.
            let member = membership.member;
            lent += membership.feed.hand_over(member, room, &mut wakes);
            let older = Box::new(KeptBehind::new(&kept, feed.handles.clone()));
            membership
                .feed
                .set_absent(membership.member, older, &mut wakes);
            for handle in feed.owed.keys() {
                *absent.owed.entry(*handle).or_default() += 1;
            }
            absent.feeds.insert(id, feed);
        }
        // What was sent is charged already; the others where there is room to spare.
        if let Some(sent) = &mut self.sent {
            for (handle, entry) in sent.drain() {
                let (cost, mut kept) = (entry.cost(), kept.lock());
                match entry.into_update() {
                    Some(update) => kept.add_charged(handle, update, &mut wakes),
                    None => kept.charge.give_back(cost, &mut wakes),
                }
            }
        }
        let items = &self.items;
        self.in_flight.unconfirmed_entries(&mut |index, entry| {
            let handle = items.get(index).map(|item| item.handle());
            if let Some(handle) = handle.filter(|handle| absent.owed.contains_key(handle))
                && let Some(update) = entry.clone().into_update()
            {
                kept.lock().add(handle, update, &mut wakes);
            }
        });
        kept.lock().charge.adopt(lent);
        for (handle, entry) in taken {
            if let (Some(handle), Some(update)) = (handle, entry.into_update()) {
                kept.lock().add_waiting(handle, update, &mut wakes);
            }
        }
        for index in left {
            self.free(index);
        }
        kept.lock().charge.settle(&mut wakes);
        for mut older in self.followed.drain(..) {
            older.sessions.push(caller.session);
            engine.absences().put(older);
        }
        if !absent.feeds.is_empty() {
            engine.absences().put(absent);
        }
    }

    /// This session comes after another one of its peer, which broke: subscriptions that are made
    /// again go on from what that one has left.
    pub fn follow(&mut self, caller: &Caller, session: u32) -> bool {
        let absences = self.engine.absences();
        let found = absences.take(session, caller);
        let is_kept = !found.is_empty();
        self.followed.extend(found);
        while self.followed.len() > FOLLOWED_MAX {
            absences.give_up(self.followed.remove(0));
        }
        is_kept
    }

    /// Whether an item takes the place of one that was kept, and needs no further memory.
    pub(super) fn takes_over(&self, subscription: u32, variable: &Variable) -> bool {
        let mut feeds = self
            .followed
            .iter()
            .filter_map(|absent| absent.feeds.get(&subscription));
        feeds.any(|feed| feed.owed.contains_key(&variable.handle()))
    }

    /// Those it follows of which nothing is left, or whose time is over.
    pub(super) fn release_settled(&mut self, subscription: u32, wakes: &mut Wakes) {
        let engine = &self.engine;
        for absent in &mut self.followed {
            absent.release_settled(subscription, engine, wakes);
        }
        self.followed.retain(|absent| !absent.feeds.is_empty());
    }

    pub(super) fn release_followed(&mut self, now: Tick, wakes: &mut Wakes) -> Option<Tick> {
        while let Some(at) = self.followed.iter().position(|one| one.until <= now) {
            let absent = self.followed.remove(at);
            absent.give_up(&self.engine, wakes);
        }
        self.followed.iter().map(|one| one.until).min()
    }
}
