//! Detaches the `all` subscriptions of a lost session, so that another session can take them over.

use std::collections::{BTreeMap, HashMap, HashSet};

use trunkline_types::Tick;

use super::backlog::{Backlog, GapTracker};
use super::detached::{Detached, DetachedFeed, ITEM_COST};
use super::unacked::Unacked;
use crate::caller::Caller;
use crate::delivery::feed::{FeedEntry, Older, QueueSize};
use crate::delivery::outbox::Wakes;
use crate::subscriptions::in_flight::InFlight;
use crate::subscriptions::items::Items;
use crate::subscriptions::membership::Membership;
use crate::subscriptions::teardown::{Leftover, RemainingReference};
use crate::subscriptions::{Consumer, Subscription, Subscriptions};
use crate::sync::{Arc, Mutex};
use crate::write::SLICE;

pub(crate) fn leave(mut consumer: Consumer, caller: &Caller, until: Tick) {
    let home = Arc::clone(&consumer.home);
    let mut wakes = Wakes::new();
    let mut charge = match &mut consumer.resume.unacked {
        Some(unacked) => std::mem::take(&mut unacked.charge),
        None => return,
    };
    // Queued updates will be charged here as well.
    let max = consumer.outbox.budget.max();
    charge.limit(max.saturating_add(max / 8));
    let backlog = Arc::new(Mutex::new(Backlog::new(charge)));
    let detached = Detached {
        sessions: vec![caller.session],
        principal: caller.principal.clone(),
        until,
        order: 0,
        feeds: BTreeMap::new(),
        owed: HashMap::new(),
        backlog: Arc::clone(&backlog),
    };
    let is_kept = |one: &Subscription| one.feed.is_some() && !one.only_changes;
    let ids = consumer
        .subscriptions
        .iter()
        .filter(|(_, one)| is_kept(one));
    let ids: Vec<u32> = ids.map(|(id, _)| *id).collect();
    // Borrowed bytes handed over so far, for past and taken updates.
    let mut handed_over = 0;
    let mut pending = Vec::new();
    for id in ids {
        let Some(subscription) = consumer.subscriptions.remove(&id) else {
            continue;
        };
        consumer.leftovers.push(Leftover {
            items: subscription.items,
            reference: RemainingReference::Nothing,
        });
        let Some(mut membership) = subscription.feed else {
            continue;
        };
        let past = std::mem::take(&mut membership.past);
        handed_over += consumer.resume.past.hand_over(past.cost());
        let mut room = QueueSize::default();
        let taken = membership.taken.iter();
        taken.for_each(|entry| room.add(entry.room()));
        // Taken entries stop counting first, so that afterwards the oldest of the other entries can
        // be dropped.
        let member = membership.member;
        handed_over += membership.feed.hand_over(member, room, &mut wakes);
        let missed = Arc::default();
        let older = Box::new(MissedUpdates(Arc::clone(&missed)));
        membership.feed.set_absent(member, older, &mut wakes);
        pending.push(PendingFeed {
            id,
            membership,
            missed,
        });
    }
    backlog.lock().charge.adopt(handed_over);
    for mut older in consumer.resume.followed.drain(..) {
        older.sessions.push(caller.session);
        home.absences.put(older);
    }
    let mut detaching = Detaching {
        detached,
        pending,
        taken: Vec::new(),
        items: std::mem::take(&mut consumer.items),
        in_flight: std::mem::take(&mut consumer.in_flight),
        unacked: consumer.resume.unacked.take(),
    };
    let work = detaching.pending.iter().map(PendingFeed::work);
    if work.sum::<usize>() <= SLICE {
        detaching.detach_some(&home, &mut { usize::MAX }, &mut wakes);
        let (detached, _) = detaching.into_detached();
        home.absences.put(detached);
    } else {
        home.absences.detach_later(detaching);
    }
}

/// A lost session that is not processed yet. Processing determines the variables whose updates the
/// successor is owed, and stores the updates that are outside the feeds.
pub(crate) struct Detaching {
    pub(crate) detached: Detached,
    pending: Vec<PendingFeed>,
    /// Entries that were taken from the feeds but not delivered.
    taken: Vec<(Option<u32>, FeedEntry)>,
    items: Items,
    in_flight: InFlight,
    unacked: Option<Unacked>,
}

/// An `all` subscription of a session that is not processed yet.
struct PendingFeed {
    id: u32,
    membership: Membership,
    /// Updates that its feed has dropped since the session was lost.
    missed: Arc<Mutex<Missed>>,
}

impl PendingFeed {
    fn work(&self) -> usize {
        1 + self.membership.by_handle.len() + self.membership.taken.len()
    }
}

/// Updates dropped from a feed of a session that is not processed yet.
#[derive(Debug, Default)]
struct Missed {
    places: HashSet<u32>,
    all: bool,
}

/// Placeholder for a feed's older data until the session is processed. Records the missed updates.
#[derive(Debug)]
struct MissedUpdates(Arc<Mutex<Missed>>);

impl Older for MissedUpdates {
    fn miss(&mut self, place: u32) {
        self.0.lock().places.insert(place);
    }

    fn miss_all(&mut self) {
        self.0.lock().all = true;
    }

    fn forget_missed(&mut self, _: &mut Wakes) -> bool {
        false
    }

    fn reset_gaps(&mut self) {}
}

impl Detaching {
    /// Returns the state for the successor, and unused data that must be dropped while no lock is
    /// held.
    pub(crate) fn into_detached(self) -> (Detached, impl Sized) {
        (self.detached, (self.items, self.in_flight))
    }

    /// Processes about `budget` items, one subscription at a time. Returns false if some remain.
    pub(crate) fn detach_some(
        &mut self,
        home: &Subscriptions,
        budget: &mut usize,
        wakes: &mut Wakes,
    ) -> bool {
        while let Some(next) = self.pending.pop() {
            if *budget == 0 {
                self.pending.push(next);
                return false;
            }
            *budget = budget.saturating_sub(next.work());
            self.detach_feed(next, home, wakes);
        }
        self.store_updates(wakes);
        true
    }

    fn detach_feed(&mut self, pending: PendingFeed, home: &Subscriptions, wakes: &mut Wakes) {
        let PendingFeed {
            id,
            mut membership,
            missed,
        } = pending;
        let backlog = &self.detached.backlog;
        let log = Arc::clone(&membership.feed);
        let member = membership.member;
        let is_kept = {
            let cost = membership.by_handle.len() * ITEM_COST;
            backlog.lock().charge.take_over(cost)
        };
        let by_handle = membership.by_handle.iter();
        let handles: HashMap<u32, u32> = by_handle
            .map(|(handle, (_, place))| (*place, *handle))
            .collect();
        if !is_kept {
            let feed = DetachedFeed {
                membership,
                handles,
                owed: HashMap::new(),
                to_release: None,
            };
            return self.detached.give_up_later(id, feed, home);
        }
        let by_handle = membership.by_handle.iter();
        let owed: HashMap<u32, u64> = by_handle
            .filter_map(|(handle, (index, _))| Some((*handle, self.items.get(*index)?.opened_at())))
            .collect();
        let older = Box::new(GapTracker::new(backlog, handles.clone()));
        log.replace_older(member, older, wakes, &mut |older| {
            let missed = missed.lock();
            missed.places.iter().for_each(|place| older.miss(*place));
            if missed.all {
                older.miss_all();
            }
        });
        for entry in membership.taken.drain(..) {
            let handle = handles.get(&entry.place).copied();
            self.taken.push((handle, entry));
        }
        for handle in owed.keys() {
            *self.detached.owed.entry(*handle).or_default() += 1;
        }
        let feed = DetachedFeed {
            membership,
            handles,
            owed,
            to_release: None,
        };
        self.detached.feeds.insert(id, feed);
    }

    /// Stores the updates outside the feeds, up to the memory charged for them.
    fn store_updates(&mut self, wakes: &mut Wakes) {
        let backlog = Arc::clone(&self.detached.backlog);
        // Unacked updates are already charged; the others are stored if bytes can be spared.
        if let Some(mut unacked) = self.unacked.take() {
            for (handle, entry) in unacked.drain() {
                let (cost, mut backlog) = (entry.cost(), backlog.lock());
                match entry.into_update() {
                    Some(update) => backlog.add_charged(handle, update, wakes),
                    None => backlog.charge.give_back(cost, wakes),
                }
            }
        }
        let owed = &self.detached.owed;
        self.in_flight.unconfirmed_entries(&mut |handle, entry| {
            if owed.contains_key(&handle)
                && let Some(update) = entry.clone().into_update()
            {
                backlog.lock().add(handle, update, wakes);
            }
        });
        for (handle, entry) in self.taken.drain(..) {
            if let (Some(handle), Some(update)) = (handle, entry.into_update()) {
                backlog.lock().add_waiting(handle, update, wakes);
            }
        }
        backlog.lock().charge.settle(wakes);
    }
}
