//! A session breaks and leaves its `all` subscriptions; another session takes over.

use std::collections::{BTreeMap, HashMap, HashSet};

use trunkline_types::Tick;

use super::Consumer;
use super::absence::{Absent, AbsentFeed, ITEM_COST};
use super::charge::Charge;
use super::departing::{LeftInterest, Leftover};
use super::in_flight::InFlight;
use super::item::Items;
use super::kept::{Kept, KeptBehind};
use super::membership::Membership;
use super::sent::Sent;
use crate::caller::Caller;
use crate::delivery::feed::{FeedEntry, Older, Room};
use crate::delivery::outbox::Wakes;
use crate::engine::{Engine, SLICE};
use crate::sync::{Arc, Mutex};
use crate::variable::Variable;

/// Maximum number of predecessors of a session. Each break during a resumption adds one.
const FOLLOWED_MAX: usize = 16;

impl Consumer {
    /// Keeps deliveries of `all` subscriptions until the peer has confirmed them, so that
    /// [`Consumer::leave`] can leave them to the next session. They may take a tenth of the bytes
    /// that may be queued. Call after [`Consumer::queue_bytes_max`] and
    /// [`Consumer::confirmed_by_peer`].
    #[must_use]
    pub fn keeping_sent(mut self) -> Self {
        let max = self.outbox.budget.max();
        let is_confirmed = self.in_flight.is_kept();
        self.sent = is_confirmed.then(|| Sent::new(&self.engine, max));
        self.past = Charge::of(&self.engine, max);
        self
    }

    /// Ends a broken session, and keeps its `all` subscriptions until `until` for the session that
    /// names it. From here on no writer waits for them. A session with very many items is sorted
    /// out in slices, by the engine's [polls](Engine::poll) or by the session that takes over.
    pub fn leave(mut self, caller: &Caller, until: Tick) {
        let engine = self.engine.clone();
        let mut wakes = Wakes::new();
        let mut charge = match &mut self.sent {
            Some(sent) => std::mem::take(&mut sent.charge),
            None => return,
        };
        // Queued updates are sorted into it as well.
        let max = self.outbox.budget.max();
        charge.limit(max.saturating_add(max / 8));
        let kept = Arc::new(Mutex::new(Kept::new(charge)));
        let absent = Absent {
            sessions: vec![caller.session],
            principal: caller.principal.clone(),
            until,
            order: 0,
            feeds: BTreeMap::new(),
            owed: HashMap::new(),
            kept: Arc::clone(&kept),
        };
        let is_kept = |one: &super::Subscription| one.feed.is_some() && !one.only_changes;
        let ids = self.subscriptions.iter().filter(|(_, one)| is_kept(one));
        let ids: Vec<u32> = ids.map(|(id, _)| *id).collect();
        // Bytes borrowed so far for its past and taken updates.
        let mut lent = 0;
        let mut unsorted = Vec::new();
        for id in ids {
            let Some(subscription) = self.subscriptions.remove(&id) else {
                continue;
            };
            self.leftovers.push(Leftover {
                items: subscription.items,
                interest: LeftInterest::Nothing,
            });
            let Some(mut membership) = subscription.feed else {
                continue;
            };
            let past = std::mem::take(&mut membership.past);
            lent += self.past.hand_over(past.cost());
            let mut room = Room::default();
            let taken = membership.taken.iter();
            taken.for_each(|entry| room.add(entry.room()));
            // Taken entries stop counting first, so that the oldest of the rest can be dropped
            // after that.
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
        for mut older in self.followed.drain(..) {
            older.sessions.push(caller.session);
            engine.absences().put(older);
        }
        let mut leaving = Leaving {
            absent,
            unsorted,
            taken: Vec::new(),
            items: std::mem::take(&mut self.items),
            in_flight: std::mem::take(&mut self.in_flight),
            sent: self.sent.take(),
        };
        let work = leaving.unsorted.iter().map(UnsortedFeed::work);
        if work.sum::<usize>() <= SLICE {
            leaving.sort_some(&engine, &mut { usize::MAX }, &mut wakes);
            let (absent, _) = leaving.into_absent();
            engine.absences().put(absent);
        } else {
            engine.absences().sort_later(leaving);
        }
    }

    /// Makes this session the successor of another one of its peer, which broke. Re-created
    /// subscriptions resume from what that session has left. Returns false if nothing was kept.
    pub fn follow(&mut self, caller: &Caller, session: u32) -> bool {
        let absences = self.engine.absences();
        let found = absences.take(session, caller, &self.engine);
        let is_kept = !found.is_empty();
        self.followed.extend(found);
        while self.followed.len() > FOLLOWED_MAX {
            absences.give_up(self.followed.remove(0));
        }
        is_kept
    }

    /// Returns true if an item replaces one that was kept, and therefore needs no further memory.
    pub(super) fn takes_over(&self, subscription: u32, variable: &Variable) -> bool {
        let mut feeds = self
            .followed
            .iter()
            .filter_map(|absent| absent.feeds.get(&subscription));
        feeds.any(|feed| feed.owed.contains_key(&variable.handle()))
    }

    /// Releases the predecessors whose remains are all taken.
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

/// A broken session that is not sorted out yet. Sorting it out determines the variables it is owed,
/// and the updates outside the feeds to keep for its successor.
pub(super) struct Leaving {
    pub(super) absent: Absent,
    unsorted: Vec<UnsortedFeed>,
    /// Entries that were taken out of the feeds and not delivered.
    taken: Vec<(Option<u32>, FeedEntry)>,
    items: Items,
    in_flight: InFlight,
    sent: Option<Sent>,
}

/// An `all` subscription of a session that is not sorted out yet.
struct UnsortedFeed {
    id: u32,
    membership: Membership,
    /// Updates that its feed has dropped since the session broke.
    missed: Arc<Mutex<Missed>>,
}

impl UnsortedFeed {
    /// The amount of work to sort it out, in items.
    fn work(&self) -> usize {
        1 + self.membership.by_handle.len() + self.membership.taken.len()
    }
}

/// Updates dropped from a feed whose session is not sorted out yet.
#[derive(Debug, Default)]
struct Missed {
    places: HashSet<u32>,
    all: bool,
}

/// Takes the place of a feed's older data until that is sorted out.
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

impl Leaving {
    /// Returns the remains, and data without further use that must be dropped while nothing is
    /// locked.
    pub(super) fn into_absent(self) -> (Absent, impl Sized) {
        (self.absent, (self.items, self.in_flight))
    }

    /// Sorts out about `budget` items, one subscription at a time. Returns false if there are more.
    pub(super) fn sort_some(
        &mut self,
        engine: &Engine,
        budget: &mut usize,
        wakes: &mut Wakes,
    ) -> bool {
        while let Some(next) = self.unsorted.pop() {
            if *budget == 0 {
                self.unsorted.push(next);
                return false;
            }
            *budget = budget.saturating_sub(next.work());
            self.sort_feed(next, engine, wakes);
        }
        self.sort_updates(wakes);
        true
    }

    fn sort_feed(&mut self, unsorted: UnsortedFeed, engine: &Engine, wakes: &mut Wakes) {
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
            let feed = AbsentFeed {
                membership,
                handles,
                owed: HashMap::new(),
                leaving: None,
            };
            return self.absent.give_up_later(id, feed, engine);
        }
        let by_handle = membership.by_handle.iter();
        let owed: HashMap<u32, u64> = by_handle
            .filter_map(|(handle, (index, _))| Some((*handle, self.items.get(*index)?.opened_at())))
            .collect();
        let older = Box::new(KeptBehind::new(kept, handles.clone()));
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
        let feed = AbsentFeed {
            membership,
            handles,
            owed,
            leaving: None,
        };
        self.absent.feeds.insert(id, feed);
    }

    /// Keeps the updates outside the feeds, as many as the charge allows.
    fn sort_updates(&mut self, wakes: &mut Wakes) {
        let kept = Arc::clone(&self.absent.kept);
        // Sent updates are already charged; the others are kept if bytes can be spared.
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
