//! The state left by lost sessions, and the list of these states.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;

use trunkline_types::Tick;

use super::backlog::Backlog;
use super::charge::Charge;
use super::detach::Detaching;
use crate::caller::{Caller, Principal};
use crate::delivery::feed::FeedEntry;
use crate::delivery::outbox::Wakes;
use crate::subscriptions::Subscriptions;
use crate::subscriptions::membership::Membership;
use crate::subscriptions::teardown::Teardown;
use crate::sync::{Arc, Mutex};
use crate::update::Update;
use crate::write::SLICE;

/// Maximum number of lost sessions whose state is stored. Beyond it, the oldest is dropped.
const DETACHED_MAX: usize = 1024;
/// Memory cost of storing an item in addition to its updates: its entries in tables.
pub(crate) const ITEM_COST: usize = 128;

/// The state left by a lost session: its `all` subscriptions.
#[derive(Debug)]
pub struct Detached {
    /// The session, and later ones that were lost before they had taken over everything. The peer
    /// may name any of them.
    pub(crate) sessions: Vec<u32>,
    pub(crate) principal: Principal,
    pub(crate) until: Tick,
    /// Sessions are dropped in this order if there are too many.
    pub(crate) order: u64,
    pub(crate) feeds: BTreeMap<u32, DetachedFeed>,
    /// For each variable, the number of these feeds that still owe updates to a successor.
    pub(crate) owed: HashMap<u32, u32>,
    /// Updates that were taken from the feeds, or sent but never confirmed.
    pub(crate) backlog: Arc<Mutex<Backlog>>,
}

/// An `all` subscription of a lost session that is still a member of its feed.
#[derive(Debug)]
pub(crate) struct DetachedFeed {
    pub(super) membership: Membership,
    /// Handle of the variable at each place.
    pub(crate) handles: HashMap<u32, u32>,
    /// Variables that no session has taken over yet, each with the sequence after which the
    /// subscription is owed updates.
    pub(crate) owed: HashMap<u32, u64>,
    /// Variables, by place and handle, that still refer to the feed while the subscription is being
    /// dropped; `None` before that.
    pub(crate) to_release: Option<Vec<(u32, u32)>>,
}

impl Detached {
    /// Takes out the updates that have arrived for a subscription in the meantime.
    pub(crate) fn gather(&self, subscription: u32, wakes: &mut Wakes) {
        let Some(feed) = self.feeds.get(&subscription) else {
            return;
        };
        let mut entries = VecDeque::new();
        let Membership {
            feed: log, member, ..
        } = &feed.membership;
        let handed_over = log.take_rest(*member, &mut entries, wakes);
        if entries.is_empty() {
            return;
        }
        let of_handle = |entry: FeedEntry| {
            let handle = feed.handles.get(&entry.place).copied()?;
            let update = entry.into_update()?;
            self.owed.contains_key(&handle).then_some((handle, update))
        };
        let updates: Vec<_> = entries.into_iter().filter_map(of_handle).collect();
        let mut backlog = self.backlog.lock();
        backlog.charge.adopt(handed_over);
        for (handle, update) in updates {
            backlog.add_waiting(handle, update, wakes);
        }
        backlog.charge.settle(wakes);
    }

    /// Adds to `out` the updates of a re-subscribed variable after sequence `had`, which the
    /// subscriber already has. Their borrowed engine bytes go to `charge`. Returns the sequence
    /// after which the subscription is owed updates. The caller holds the variable's lock.
    pub(crate) fn claim(
        &mut self,
        subscription: u32,
        handle: u32,
        had: Option<u64>,
        out: &mut Vec<Update>,
        charge: &mut Charge,
        wakes: &mut Wakes,
    ) -> Option<u64> {
        self.gather(subscription, wakes);
        let feed = self.feeds.get_mut(&subscription);
        let opened = feed.and_then(|feed| feed.owed.remove(&handle));
        if let (Some(_), Some(count)) = (opened, self.owed.get_mut(&handle)) {
            *count -= 1;
            if *count == 0 {
                self.owed.remove(&handle);
            }
        }
        let stored = match self.owed.contains_key(&handle) {
            true => self.backlog.lock().of(handle).map(|stored| (stored, 0)),
            false => self.backlog.lock().take(handle),
        };
        if let Some((stored, handed_over)) = stored {
            charge.adopt(handed_over);
            // A subscriber that has no update of the variable gets all updates that this
            // subscription was owed.
            if let Some(after) = had.or(opened) {
                out.extend(stored.into_iter().filter(|update| update.sequence > after));
            }
        }
        opened
    }

    /// Leaves the feed of a subscription once it owes no more updates.
    pub(crate) fn release_settled(
        &mut self,
        subscription: u32,
        home: &Subscriptions,
        wakes: &mut Wakes,
    ) {
        let feed = self.feeds.get(&subscription);
        if feed.is_some_and(|feed| feed.owed.is_empty())
            && let Some(feed) = self.feeds.remove(&subscription)
        {
            let cost = feed.handles.len() * ITEM_COST;
            self.backlog.lock().charge.give_back(cost, wakes);
            self.give_up_feed(subscription, feed, home, wakes);
        }
    }

    fn give_up_feed(
        &self,
        subscription: u32,
        feed: DetachedFeed,
        home: &Subscriptions,
        wakes: &mut Wakes,
    ) {
        self.with_feed(subscription, feed).give_up(home, wakes);
    }

    /// Leaves a feed in slices, beginning with the next [poll](crate::Engine::poll).
    pub(crate) fn give_up_later(
        &self,
        subscription: u32,
        feed: DetachedFeed,
        home: &Subscriptions,
    ) {
        home.absences.give_up(self.with_feed(subscription, feed));
    }

    fn with_feed(&self, subscription: u32, feed: DetachedFeed) -> Self {
        Self {
            sessions: Vec::new(),
            principal: self.principal.clone(),
            until: self.until,
            order: self.order,
            feeds: BTreeMap::from([(subscription, feed)]),
            owed: HashMap::new(),
            backlog: Arc::clone(&self.backlog),
        }
    }

    /// Drops the state, so that no session may take it over any more. Releases one slice at once,
    /// and the others in the engine's next [polls](crate::Engine::poll).
    pub(crate) fn give_up(mut self, home: &Subscriptions, wakes: &mut Wakes) {
        if !self.release_some(home, &mut { SLICE }, wakes) {
            home.absences.give_up(self);
        }
    }

    /// Releases the state in slices of `budget` items. Returns false if some remain. No session may
    /// take the state over any more.
    fn release_some(
        &mut self,
        home: &Subscriptions,
        budget: &mut usize,
        wakes: &mut Wakes,
    ) -> bool {
        if !self.sessions.is_empty() {
            self.sessions.clear();
            self.backlog.lock().forget_all();
        }
        if !self.backlog.lock().drop_excess(budget, wakes) {
            return false;
        }
        while let Some(mut feed) = self.feeds.first_entry() {
            if !feed.get_mut().release_some(home, budget, wakes) {
                return false;
            }
            feed.remove();
        }
        true
    }
}

impl DetachedFeed {
    /// Leaves the feed in slices of `budget` items. Returns false if some remain.
    fn release_some(
        &mut self,
        home: &Subscriptions,
        budget: &mut usize,
        wakes: &mut Wakes,
    ) -> bool {
        let (feed, member) = (Arc::clone(&self.membership.feed), self.membership.member);
        if *budget == 0 {
            return false;
        }
        *budget -= 1;
        if self.to_release.is_none() {
            if feed.depart_from_others(member, wakes) {
                return true;
            }
            if feed.shut() {
                // Another subscription has joined in the meantime, and continues.
                feed.set_open();
                feed.depart(member, wakes);
                return true;
            }
        }
        let handles = &mut self.handles;
        let to_release = self
            .to_release
            .get_or_insert_with(|| handles.drain().collect());
        while let Some((place, handle)) = to_release.pop() {
            feed.miss(member, place, wakes);
            if let Some(variable) = home.core.variable(handle) {
                self.membership.forget(&variable);
            }
            *budget = budget.saturating_sub(1);
            if *budget == 0 && !to_release.is_empty() {
                return false;
            }
        }
        feed.depart(member, wakes);
        true
    }
}

/// A lost session that is being processed in slices, by the engine's polls or by its successor
/// session, whichever holds the lock.
#[derive(Clone)]
struct PendingDetach {
    session: u32,
    principal: Principal,
    /// `None` once the session was processed and its state taken.
    detaching: Arc<Mutex<Option<Detaching>>>,
}

impl fmt::Debug for PendingDetach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingDetach")
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
pub(crate) struct DetachedSessions {
    lists: Mutex<Lists>,
}

#[derive(Debug, Default)]
struct Lists {
    /// Number of sessions lost so far, plus the number of states stored again after an interrupted
    /// resumption.
    lost_count: u64,
    /// States that a session may take over, oldest first.
    kept: VecDeque<Detached>,
    /// States being dropped in slices. No session may take them over any more.
    dropping: VecDeque<Detached>,
    /// Remaining data of ended consumers, also dropped in slices.
    teardowns: VecDeque<Teardown>,
    /// Recently lost sessions that are still being processed, oldest first.
    pending: VecDeque<PendingDetach>,
}

impl Lists {
    fn next_order(&mut self) -> u64 {
        self.lost_count += 1;
        self.lost_count
    }

    /// Stores the state of one more session, unless there is nothing to take over.
    fn keep(&mut self, detached: Detached) {
        if detached.feeds.is_empty() {
            return;
        }
        // A session that took long to process is older than those processed in the meantime.
        let place = self.kept.partition_point(|one| one.order < detached.order);
        self.kept.insert(place, detached);
        if self.kept.len() > DETACHED_MAX {
            self.dropping.extend(self.kept.pop_front());
        }
    }
}

impl DetachedSessions {
    /// Returns a state to drop, if any, and the time at which the next state expires.
    fn expired(&self, now: Tick) -> (Option<Detached>, Option<Tick>) {
        let Lists { kept, dropping, .. } = &mut *self.lists.lock();
        let expired = dropping.pop_front().or_else(|| {
            let expired = kept.iter().position(|one| one.until <= now);
            kept.remove(expired?)
        });
        (expired, kept.iter().map(|one| one.until).min())
    }

    /// Stores the state of one more session. If there are too many, drops the oldest.
    pub(crate) fn put(&self, mut detached: Detached) {
        let mut lists = self.lists.lock();
        detached.order = lists.next_order();
        lists.keep(detached);
    }

    /// Drops the state in slices, beginning with the next [poll](crate::Engine::poll).
    pub(crate) fn give_up(&self, detached: Detached) {
        self.lists.lock().dropping.push_back(detached);
    }

    /// Drops the remaining data of a consumer in slices, beginning with the next
    /// [poll](crate::Engine::poll).
    pub(crate) fn depart(&self, teardown: Teardown) {
        self.lists.lock().teardowns.push_back(teardown);
    }

    /// Processes the session in slices, beginning with the next [poll](crate::Engine::poll).
    pub(crate) fn detach_later(&self, mut detaching: Detaching) {
        let mut lists = self.lists.lock();
        detaching.detached.order = lists.next_order();
        lists.pending.push_back(PendingDetach {
            session: detaching.detached.sessions.first().copied().unwrap_or(0),
            principal: detaching.detached.principal.clone(),
            detaching: Arc::new(Mutex::new(Some(detaching))),
        });
    }

    fn next_teardown(&self) -> Option<Teardown> {
        self.lists.lock().teardowns.pop_front()
    }

    /// Puts a state back at the front, so that dropping it continues next time.
    fn put_back(&self, detached: Detached) {
        self.lists.lock().dropping.push_front(detached);
    }

    pub(crate) fn count(&self) -> usize {
        let lists = self.lists.lock();
        lists.kept.len() + lists.dropping.len() + lists.pending.len()
    }
}

impl Subscriptions {
    /// Drops about `budget` items of the sessions that no client has resumed in time. Returns the
    /// time at which the next state expires.
    pub(crate) fn poll(&self, now: Tick, mut budget: usize, wakes: &mut Wakes) -> Option<Tick> {
        if !self.detach_some(&mut budget, wakes) {
            return Some(now);
        }
        while let Some(mut teardown) = self.absences.next_teardown() {
            if !teardown.give_up_some(self, &mut budget, wakes) {
                // Others are processed before it continues.
                self.absences.depart(teardown);
                return Some(now);
            }
        }
        loop {
            let mut detached = match self.absences.expired(now) {
                (Some(detached), _) => detached,
                (None, next) => return next,
            };
            if !detached.release_some(self, &mut budget, wakes) {
                self.absences.put_back(detached);
                return Some(now);
            }
        }
    }

    /// Processes about `budget` items of lost sessions. Returns false if some remain.
    fn detach_some(&self, budget: &mut usize, wakes: &mut Wakes) -> bool {
        loop {
            let Some(next) = self.absences.lists.lock().pending.front().cloned() else {
                return true;
            };
            let mut detaching = next.detaching.lock();
            let is_finished = match &mut *detaching {
                Some(detaching) => detaching.detach_some(self, budget, wakes),
                None => true,
            };
            drop(detaching);
            if !is_finished {
                return false;
            }
            // The successor session may have taken it in the meantime. Otherwise the successor
            // finds it in one of the two lists at any moment.
            let mut lists = self.absences.lists.lock();
            let matches = |one: &PendingDetach| Arc::ptr_eq(&one.detaching, &next.detaching);
            let finished = match lists.pending.iter().position(matches) {
                Some(at) => {
                    lists.pending.remove(at);
                    next.detaching.lock().take()
                }
                None => None,
            };
            if let Some(finished) = finished {
                let (detached, unused) = finished.into_detached();
                lists.keep(detached);
                drop((lists, unused));
            }
        }
    }

    /// Finds the state of a session that is not processed yet, and processes it at once.
    fn take_pending(&self, session: u32, caller: &Caller, found: &mut Vec<Detached>) {
        loop {
            let pending = {
                let list = &mut self.absences.lists.lock().pending;
                let matches = |one: &PendingDetach| {
                    one.session == session && one.principal == caller.principal
                };
                let at = list.iter().position(matches);
                at.and_then(|at| list.remove(at))
            };
            let Some(pending) = pending else { return };
            let detaching = pending.detaching.lock().take();
            if let Some(mut detaching) = detaching {
                let mut wakes = Wakes::new();
                let is_finished = detaching.detach_some(self, &mut { usize::MAX }, &mut wakes);
                debug_assert!(is_finished, "the budget has no end");
                let (detached, _) = detaching.into_detached();
                if !detached.feeds.is_empty() {
                    found.push(detached);
                }
            }
        }
    }

    /// Takes the states of a session of the same principal; empty if there are none.
    pub(crate) fn take(&self, session: u32, caller: &Caller) -> Vec<Detached> {
        let mut found = Vec::new();
        self.take_pending(session, caller, &mut found);
        let list = &mut self.absences.lists.lock().kept;
        let matches =
            |one: &Detached| one.sessions.contains(&session) && one.principal == caller.principal;
        while let Some(at) = list.iter().position(matches) {
            found.extend(list.remove(at));
        }
        found
    }
}
