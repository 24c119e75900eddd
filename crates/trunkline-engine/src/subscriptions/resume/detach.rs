//! A lost session leaves its `all` subscriptions, and another session takes over.

use std::collections::{BTreeMap, HashMap, HashSet};

use trunkline_types::Tick;

use super::backlog::{Backlog, BacklogBehind};
use super::detached::{Detached, DetachedFeed, ITEM_COST};
use super::unacked::Unacked;
use crate::caller::Caller;
use crate::delivery::feed::{FeedEntry, Older, Room};
use crate::delivery::outbox::Wakes;
use crate::subscriptions::in_flight::InFlight;
use crate::subscriptions::items::Items;
use crate::subscriptions::membership::Membership;
use crate::subscriptions::teardown::{LeftSubscriber, Leftover};
use crate::subscriptions::{Consumer, Subscription, Subscriptions};
use crate::sync::{Arc, Mutex};
use crate::write::SLICE;

pub(crate) fn leave(mut consumer: Consumer, caller: &Caller, until: Tick) {
    let home = Arc::clone(&consumer.home);
    let mut wakes = Wakes::new();
    let mut charge = match &mut consumer.resume.unacked {
        Some(sent) => std::mem::take(&mut sent.charge),
        None => return,
    };
    // Queued updates are sorted into it as well.
    let max = consumer.outbox.budget.max();
    charge.limit(max.saturating_add(max / 8));
    let kept = Arc::new(Mutex::new(Backlog::new(charge)));
    let absent = Detached {
        sessions: vec![caller.session],
        principal: caller.principal.clone(),
        until,
        order: 0,
        feeds: BTreeMap::new(),
        owed: HashMap::new(),
        kept: Arc::clone(&kept),
    };
    let is_kept = |one: &Subscription| one.feed.is_some() && !one.only_changes;
    let ids = consumer
        .subscriptions
        .iter()
        .filter(|(_, one)| is_kept(one));
    let ids: Vec<u32> = ids.map(|(id, _)| *id).collect();
    // Bytes borrowed so far for the past and taken updates of the subscription.
    let mut lent = 0;
    let mut unsorted = Vec::new();
    for id in ids {
        let Some(subscription) = consumer.subscriptions.remove(&id) else {
            continue;
        };
        consumer.leftovers.push(Leftover {
            items: subscription.items,
            subscriber: LeftSubscriber::Nothing,
        });
        let Some(mut membership) = subscription.feed else {
            continue;
        };
        let past = std::mem::take(&mut membership.past);
        lent += consumer.resume.past.hand_over(past.cost());
        let mut room = Room::default();
        let taken = membership.taken.iter();
        taken.for_each(|entry| room.add(entry.room()));
        // Taken entries stop counting first, so that afterwards the oldest of the other entries can
        // be dropped.
        let member = membership.member;
        lent += membership.feed.hand_over(member, room, &mut wakes);
        let missed = Arc::default();
        let older = Box::new(Unsorted(Arc::clone(&missed)));
        membership.feed.set_absent(member, older, &mut wakes);
        unsorted.push(UnsortedFeed {
            id,
            membership,
            missed,
        });
    }
    kept.lock().charge.adopt(lent);
    for mut older in consumer.resume.followed.drain(..) {
        older.sessions.push(caller.session);
        home.absences.put(older);
    }
    let mut leaving = Detaching {
        absent,
        unsorted,
        taken: Vec::new(),
        items: std::mem::take(&mut consumer.items),
        in_flight: std::mem::take(&mut consumer.in_flight),
        sent: consumer.resume.unacked.take(),
    };
    let work = leaving.unsorted.iter().map(UnsortedFeed::work);
    if work.sum::<usize>() <= SLICE {
        leaving.sort_some(&home, &mut { usize::MAX }, &mut wakes);
        let (absent, _) = leaving.into_absent();
        home.absences.put(absent);
    } else {
        home.absences.sort_later(leaving);
    }
}

/// A lost session that is not processed yet. Processing determines the variables that it is owed,
/// and the updates outside the feeds to store for its successor.
pub(crate) struct Detaching {
    pub(crate) absent: Detached,
    unsorted: Vec<UnsortedFeed>,
    /// Entries that were taken from the feeds but not delivered.
    taken: Vec<(Option<u32>, FeedEntry)>,
    items: Items,
    in_flight: InFlight,
    sent: Option<Unacked>,
}

/// An `all` subscription of a session that is not processed yet.
struct UnsortedFeed {
    id: u32,
    membership: Membership,
    /// Updates that its feed has dropped since the session was lost.
    missed: Arc<Mutex<Missed>>,
}

impl UnsortedFeed {
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

/// Placeholder for a feed's older data until the session is processed.
#[derive(Debug)]
struct Unsorted(Arc<Mutex<Missed>>);

impl Older for Unsorted {
    fn miss(&mut self, place: u32) {
        self.0.lock().places.insert(place);
    }

    fn miss_all(&mut self) {
        self.0.lock().all = true;
    }

    fn forget_missed(&mut self, _: &mut Wakes) -> bool {
        false
    }

    fn begin_anew(&mut self) {}
}

impl Detaching {
    /// Returns the state for the successor, and useless data that must be dropped while no lock is
    /// held.
    pub(crate) fn into_absent(self) -> (Detached, impl Sized) {
        (self.absent, (self.items, self.in_flight))
    }

    /// Processes about `budget` items, one subscription at a time. Returns false if some remain.
    pub(crate) fn sort_some(
        &mut self,
        home: &Subscriptions,
        budget: &mut usize,
        wakes: &mut Wakes,
    ) -> bool {
        while let Some(next) = self.unsorted.pop() {
            if *budget == 0 {
                self.unsorted.push(next);
                return false;
            }
            *budget = budget.saturating_sub(next.work());
            self.sort_feed(next, home, wakes);
        }
        self.sort_updates(wakes);
        true
    }

    fn sort_feed(&mut self, unsorted: UnsortedFeed, home: &Subscriptions, wakes: &mut Wakes) {
        let UnsortedFeed {
            id,
            mut membership,
            missed,
        } = unsorted;
        let kept = &self.absent.kept;
        let log = Arc::clone(&membership.feed);
        let member = membership.member;
        let is_kept = {
            let cost = membership.by_handle.len() * ITEM_COST;
            kept.lock().charge.take_over(cost)
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
                leaving: None,
            };
            return self.absent.give_up_later(id, feed, home);
        }
        let by_handle = membership.by_handle.iter();
        let owed: HashMap<u32, u64> = by_handle
            .filter_map(|(handle, (index, _))| Some((*handle, self.items.get(*index)?.opened_at())))
            .collect();
        let older = Box::new(BacklogBehind::new(kept, handles.clone()));
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
            *self.absent.owed.entry(*handle).or_default() += 1;
        }
        let feed = DetachedFeed {
            membership,
            handles,
            owed,
            leaving: None,
        };
        self.absent.feeds.insert(id, feed);
    }

    /// Stores the updates outside the feeds, as far as the charge allows.
    fn sort_updates(&mut self, wakes: &mut Wakes) {
        let kept = Arc::clone(&self.absent.kept);
        // Unacked updates are already charged; the others are stored if bytes can be spared.
        if let Some(mut sent) = self.sent.take() {
            for (handle, entry) in sent.drain() {
                let (cost, mut kept) = (entry.cost(), kept.lock());
                match entry.into_update() {
                    Some(update) => kept.add_charged(handle, update, wakes),
                    None => kept.charge.give_back(cost, wakes),
                }
            }
        }
        let owed = &self.absent.owed;
        self.in_flight.unconfirmed_entries(&mut |handle, entry| {
            if owed.contains_key(&handle)
                && let Some(update) = entry.clone().into_update()
            {
                kept.lock().add(handle, update, wakes);
            }
        });
        for (handle, entry) in self.taken.drain(..) {
            if let (Some(handle), Some(update)) = (handle, entry.into_update()) {
                kept.lock().add_waiting(handle, update, wakes);
            }
        }
        kept.lock().charge.settle(wakes);
    }
}
