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
    pub(crate) order: u64,
    pub(crate) feeds: BTreeMap<u32, DetachedFeed>,
    /// Number of these feeds in which each variable is owed.
    pub(crate) owed: HashMap<u32, u32>,
    /// Updates that were taken from the feeds, or sent but never confirmed.
    pub(crate) kept: Arc<Mutex<Backlog>>,
}

/// An `all` subscription of a lost session, with its place in the feed.
#[derive(Debug)]
pub(crate) struct DetachedFeed {
    pub(super) membership: Membership,
    /// Handle of the variable at each place.
    pub(crate) handles: HashMap<u32, u32>,
    /// Variables that no session has taken over yet, each with the sequence after which the
    /// subscription is owed updates.
    pub(crate) owed: HashMap<u32, u64>,
    /// The place and handle of variables whose feed must still be left, once the subscription is
    /// dropped.
    pub(crate) leaving: Option<Vec<(u32, u32)>>,
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
        let lent = log.take_rest(*member, &mut entries, wakes);
        if entries.is_empty() {
            return;
        }
        let of_handle = |entry: FeedEntry| {
            let handle = feed.handles.get(&entry.place).copied()?;
            let update = entry.into_update()?;
            self.owed.contains_key(&handle).then_some((handle, update))
        };
        let updates: Vec<_> = entries.into_iter().filter_map(of_handle).collect();
        let mut kept = self.kept.lock();
        kept.charge.adopt(lent);
        for (handle, update) in updates {
            kept.add_waiting(handle, update, wakes);
        }
        kept.charge.settle(wakes);
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
        let known = match self.owed.contains_key(&handle) {
            true => self.kept.lock().of(handle).map(|known| (known, 0)),
            false => self.kept.lock().take(handle),
        };
        if let Some((known, lent)) = known {
            charge.adopt(lent);
            // A subscriber that has no update of the variable gets all updates that this
            // subscription was owed.
            if let Some(after) = had.or(opened) {
                out.extend(known.into_iter().filter(|update| update.sequence > after));
            }
        }
        opened
    }

    /// Leaves the place in a feed once the feed contains no more owed updates.
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
            self.kept.lock().charge.give_back(cost, wakes);
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
        self.only_with(subscription, feed).give_up(home, wakes);
    }

    /// Leaves the place in a feed, beginning with the next [poll](crate::Engine::poll).
    pub(crate) fn give_up_later(
        &self,
        subscription: u32,
        feed: DetachedFeed,
        home: &Subscriptions,
    ) {
        home.absences.give_up(self.only_with(subscription, feed));
    }

    fn only_with(&self, subscription: u32, feed: DetachedFeed) -> Self {
        Self {
            sessions: Vec::new(),
            principal: self.principal.clone(),
            until: self.until,
            order: self.order,
            feeds: BTreeMap::from([(subscription, feed)]),
            owed: HashMap::new(),
            kept: Arc::clone(&self.kept),
        }
    }

    /// Drops the state, so that no session may take over any more. Does what is quick at once, and
    /// leaves the rest to the engine's next [polls](crate::Engine::poll).
    pub(crate) fn give_up(mut self, home: &Subscriptions, wakes: &mut Wakes) {
        if !self.release_some(home, &mut { SLICE }, wakes) {
            home.absences.give_up(self);
        }
    }

    /// Releases the state in slices of `budget` items. Returns false if some remain. No session may
    /// take over any more.
    fn release_some(
        &mut self,
        home: &Subscriptions,
        budget: &mut usize,
        wakes: &mut Wakes,
    ) -> bool {
        if !self.sessions.is_empty() {
            self.sessions.clear();
            self.kept.lock().forget_all();
        }
        if !self.kept.lock().drop_excess(budget, wakes) {
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
    /// Releases its place in slices of `budget` items. Returns false if some remain.
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
        if self.leaving.is_none() {
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
        let leaving = self
            .leaving
            .get_or_insert_with(|| handles.drain().collect());
        while let Some((place, handle)) = leaving.pop() {
            feed.miss(member, place, wakes);
            if let Some(variable) = home.core.variable(handle) {
                self.membership.forget(&variable);
            }
            *budget = budget.saturating_sub(1);
            if *budget == 0 && !leaving.is_empty() {
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
struct Sorting {
    session: u32,
    principal: Principal,
    /// `None` once it was processed and taken.
    leaving: Arc<Mutex<Option<Detaching>>>,
}

impl fmt::Debug for Sorting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sorting")
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
    /// Number of sessions lost so far, plus the number of times that one was stored again.
    broken: u64,
    /// States that a session may take over, oldest first.
    kept: VecDeque<Detached>,
    /// States being dropped in slices. No session may take them over any more.
    given_up: VecDeque<Detached>,
    /// The rest of ended consumers, also dropped in slices.
    departing: VecDeque<Teardown>,
    /// Recently lost sessions, oldest first.
    sorting: VecDeque<Sorting>,
}

impl Lists {
    fn next_order(&mut self) -> u64 {
        self.broken += 1;
        self.broken
    }

    /// Stores the state of one more session, unless there is nothing to take over.
    fn keep(&mut self, absent: Detached) {
        if absent.feeds.is_empty() {
            return;
        }
        // A session that took long to process is older than those processed in the meantime.
        let place = self.kept.partition_point(|one| one.order < absent.order);
        self.kept.insert(place, absent);
        if self.kept.len() > DETACHED_MAX {
            self.given_up.extend(self.kept.pop_front());
        }
    }
}

impl DetachedSessions {
    /// Returns the next expired state, and the time at which the next one expires.
    fn expired(&self, now: Tick) -> (Option<Detached>, Option<Tick>) {
        let Lists { kept, given_up, .. } = &mut *self.lists.lock();
        let over = given_up.pop_front().or_else(|| {
            let over = kept.iter().position(|one| one.until <= now);
            kept.remove(over?)
        });
        (over, kept.iter().map(|one| one.until).min())
    }

    /// Stores the state of one more session. If there are too many, drops the oldest.
    pub(crate) fn put(&self, mut absent: Detached) {
        let mut lists = self.lists.lock();
        absent.order = lists.next_order();
        lists.keep(absent);
    }

    /// Drops the state in slices, beginning with the next [poll](crate::Engine::poll).
    pub(crate) fn give_up(&self, absent: Detached) {
        self.lists.lock().given_up.push_back(absent);
    }

    /// Drops the rest of the consumer in slices, beginning with the next
    /// [poll](crate::Engine::poll).
    pub(crate) fn depart(&self, departing: Teardown) {
        self.lists.lock().departing.push_back(departing);
    }

    /// Processes the session in slices, beginning with the next [poll](crate::Engine::poll).
    pub(crate) fn sort_later(&self, mut leaving: Detaching) {
        let mut lists = self.lists.lock();
        leaving.absent.order = lists.next_order();
        lists.sorting.push_back(Sorting {
            session: leaving.absent.sessions.first().copied().unwrap_or(0),
            principal: leaving.absent.principal.clone(),
            leaving: Arc::new(Mutex::new(Some(leaving))),
        });
    }

    fn next_departing(&self) -> Option<Teardown> {
        self.lists.lock().departing.pop_front()
    }

    /// Puts a state back at the front, to continue with it.
    fn put_back(&self, absent: Detached) {
        self.lists.lock().given_up.push_front(absent);
    }

    pub(crate) fn count(&self) -> usize {
        let lists = self.lists.lock();
        lists.kept.len() + lists.given_up.len() + lists.sorting.len()
    }
}

impl Subscriptions {
    /// Drops about `budget` items of the sessions that no client has resumed in time. Returns the
    /// time at which the next state expires.
    pub(crate) fn poll(&self, now: Tick, mut budget: usize, wakes: &mut Wakes) -> Option<Tick> {
        if !self.sort_some(&mut budget, wakes) {
            return Some(now);
        }
        while let Some(mut departing) = self.absences.next_departing() {
            if !departing.give_up_some(self, &mut budget, wakes) {
                // Others are processed before it continues.
                self.absences.depart(departing);
                return Some(now);
            }
        }
        loop {
            let mut absent = match self.absences.expired(now) {
                (Some(absent), _) => absent,
                (None, next) => return next,
            };
            if !absent.release_some(self, &mut budget, wakes) {
                self.absences.put_back(absent);
                return Some(now);
            }
        }
    }

    /// Processes about `budget` items of lost sessions. Returns false if some remain.
    fn sort_some(&self, budget: &mut usize, wakes: &mut Wakes) -> bool {
        loop {
            let Some(next) = self.absences.lists.lock().sorting.front().cloned() else {
                return true;
            };
            let mut leaving = next.leaving.lock();
            let is_sorted = match &mut *leaving {
                Some(leaving) => leaving.sort_some(self, budget, wakes),
                None => true,
            };
            drop(leaving);
            if !is_sorted {
                return false;
            }
            // The successor session may have taken it in the meantime. Otherwise the successor
            // finds it in one of the two lists at any moment.
            let mut lists = self.absences.lists.lock();
            let is_it = |one: &Sorting| Arc::ptr_eq(&one.leaving, &next.leaving);
            let sorted = match lists.sorting.iter().position(is_it) {
                Some(at) => {
                    lists.sorting.remove(at);
                    next.leaving.lock().take()
                }
                None => None,
            };
            if let Some(sorted) = sorted {
                let (absent, rest) = sorted.into_absent();
                lists.keep(absent);
                drop((lists, rest));
            }
        }
    }

    /// Finds the state of a session that is not processed yet, and processes it at once.
    fn take_unsorted(&self, session: u32, caller: &Caller, found: &mut Vec<Detached>) {
        loop {
            let unsorted = {
                let list = &mut self.absences.lists.lock().sorting;
                let is_it =
                    |one: &Sorting| one.session == session && one.principal == caller.principal;
                let at = list.iter().position(is_it);
                at.and_then(|at| list.remove(at))
            };
            let Some(unsorted) = unsorted else { return };
            let leaving = unsorted.leaving.lock().take();
            if let Some(mut leaving) = leaving {
                let mut wakes = Wakes::new();
                let is_sorted = leaving.sort_some(self, &mut { usize::MAX }, &mut wakes);
                debug_assert!(is_sorted, "the budget has no end");
                let (absent, _) = leaving.into_absent();
                if !absent.feeds.is_empty() {
                    found.push(absent);
                }
            }
        }
    }

    /// Takes the states of a session of the same principal; empty if there are none.
    pub(crate) fn take(&self, session: u32, caller: &Caller) -> Vec<Detached> {
        let mut found = Vec::new();
        self.take_unsorted(session, caller, &mut found);
        let list = &mut self.absences.lists.lock().kept;
        let is_it =
            |one: &Detached| one.sessions.contains(&session) && one.principal == caller.principal;
        while let Some(at) = list.iter().position(is_it) {
            found.extend(list.remove(at));
        }
        found
    }
}
