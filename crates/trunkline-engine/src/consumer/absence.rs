//! What is kept of `all` subscriptions when their session breaks, and given to the next one.
//!
//! ```text
//! confirmed | sent, not confirmed | taken | in the feed | written while nobody is there
//!           |<------------------------- kept ------------------------------------------>|
//! ```
//!
//! What was sent is kept until the peer has confirmed it. When the session breaks, its place in the
//! feeds stays for a while, and holds what comes as far as the subscription's own bound goes; the
//! oldest is dropped first, and no writer ever waits for it. The session that names it as the one
//! before begins where its peer was, item by item.
//!
//! Here is what is left of such a session and the list of them. `leaving`: how a session leaves it
//! and another one follows; `kept`: what lies outside the feeds; `reaching`: what is given out.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;

use trunkline_types::Tick;

use super::charge::Charge;
use super::departing::Departing;
use super::kept::Kept;
use super::leaving::Leaving;
use super::membership::Membership;
use crate::caller::{Caller, Principal};
use crate::engine::{Engine, SLICE};
use crate::feed::FeedEntry;
use crate::outbox::Wakes;
use crate::sync::{Arc, Mutex};
use crate::update::Update;

/// Sessions that broke and are kept; beyond, the oldest is given up.
const ABSENT_MAX: usize = 1024;
/// What keeping an item costs beside its updates: its place in tables.
pub(super) const ITEM_COST: usize = 128;

/// The `all` subscriptions of a session that broke.
#[derive(Debug)]
pub struct Absent {
    /// The session, and those after it that broke before all of it was taken: the peer may know the
    /// number of any.
    pub(super) sessions: Vec<u32>,
    pub(super) principal: Principal,
    pub(super) until: Tick,
    /// Which of them broke before which.
    pub(super) order: u64,
    /// By the number of the subscription.
    pub(super) feeds: BTreeMap<u32, AbsentFeed>,
    /// How many of them owe each variable.
    pub(super) owed: HashMap<u32, u32>,
    /// What was taken out of the feeds, or was never confirmed.
    pub(super) kept: Arc<Mutex<Kept>>,
}

/// One of them, with its place in the feed.
#[derive(Debug)]
pub(super) struct AbsentFeed {
    pub(super) membership: Membership,
    /// The variable at each place.
    pub(super) handles: HashMap<u32, u32>,
    /// The variables that nobody has come back for, and the number before the first that the
    /// subscription was to get.
    pub(super) owed: HashMap<u32, u64>,
    /// The variables that it has still to leave, by place, once it is given up.
    pub(super) leaving: Option<Vec<(u32, u32)>>,
}

impl Absent {
    /// Takes out what has come meanwhile for a subscription.
    pub(super) fn gather(&self, subscription: u32, wakes: &mut Wakes) {
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

    /// What it has of a variable that is subscribed again, behind the position that the subscriber
    /// has; its bytes of the engine's go to `charge`. Returns the number before the first that the
    /// subscription was to get. The caller holds the variable's lock.
    pub(super) fn claim(
        &mut self,
        subscription: u32,
        handle: u32,
        had: Option<u64>,
        (out, charge): (&mut Vec<Update>, &mut Charge),
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
            // Who has nothing of it gets what this subscription was to get.
            if let Some(after) = had.or(opened) {
                out.extend(known.into_iter().filter(|update| update.sequence > after));
            }
        }
        opened
    }

    /// Gives up the place in a feed when nothing of it is owed any more.
    pub(super) fn release_settled(
        &mut self,
        subscription: u32,
        engine: &Engine,
        wakes: &mut Wakes,
    ) {
        let feed = self.feeds.get(&subscription);
        if feed.is_some_and(|feed| feed.owed.is_empty())
            && let Some(feed) = self.feeds.remove(&subscription)
        {
            let cost = feed.handles.len() * ITEM_COST;
            self.kept.lock().charge.give_back(cost, wakes);
            self.give_up_feed(subscription, feed, engine, wakes);
        }
    }

    /// Gives up the place in a feed.
    fn give_up_feed(
        &self,
        subscription: u32,
        feed: AbsentFeed,
        engine: &Engine,
        wakes: &mut Wakes,
    ) {
        self.only_with(subscription, feed).give_up(engine, wakes);
    }

    /// Gives up the place in a feed from the next [poll](Engine::poll) on.
    pub(super) fn give_up_later(&self, subscription: u32, feed: AbsentFeed, engine: &Engine) {
        engine
            .absences()
            .give_up(self.only_with(subscription, feed));
    }

    fn only_with(&self, subscription: u32, feed: AbsentFeed) -> Self {
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

    /// Nobody may come back for it any more. It is given up at once where that is soon done, and
    /// the rest with the engine's next [polls](Engine::poll).
    pub(super) fn give_up(mut self, engine: &Engine, wakes: &mut Wakes) {
        if !self.release_some(engine, &mut { SLICE }, wakes) {
            engine.absences().give_up(self);
        }
    }

    /// Gives it up in slices of `budget` items; false when there is more to do. Nobody may come
    /// back for it any more.
    fn release_some(&mut self, engine: &Engine, budget: &mut usize, wakes: &mut Wakes) -> bool {
        if !self.sessions.is_empty() {
            self.sessions.clear();
            self.kept.lock().forget_all();
        }
        if !self.kept.lock().drop_over(budget, wakes) {
            return false;
        }
        while let Some(mut feed) = self.feeds.first_entry() {
            if !feed.get_mut().release_some(engine, budget, wakes) {
                return false;
            }
            feed.remove();
        }
        true
    }
}

impl AbsentFeed {
    /// Gives its place up in slices of `budget` items; false when there is more to do.
    fn release_some(&mut self, engine: &Engine, budget: &mut usize, wakes: &mut Wakes) -> bool {
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
                // Somebody has joined meanwhile, and goes on.
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
            if let Some(variable) = engine.variable(handle) {
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

/// A session that broke and is sorted out in slices, by the engine's polls or by the session that
/// follows it: whichever has the lock.
#[derive(Clone)]
struct Sorting {
    session: u32,
    principal: Principal,
    /// `None`: it is sorted out, and was taken.
    leaving: Arc<Mutex<Option<Leaving>>>,
}

impl fmt::Debug for Sorting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sorting")
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}

/// The sessions that broke, of an engine.
#[derive(Debug, Default)]
pub(crate) struct Absences {
    lists: Mutex<Lists>,
}

#[derive(Debug, Default)]
struct Lists {
    /// Sessions that broke so far, and the times that one was kept again.
    broken: u64,
    /// Oldest first.
    kept: VecDeque<Absent>,
    /// Those that are given up, in slices: nobody comes back for them any more.
    given_up: VecDeque<Absent>,
    /// What is left of consumers that have ended, in slices as well.
    departing: VecDeque<Departing>,
    /// Those that broke just now, oldest first.
    sorting: VecDeque<Sorting>,
}

impl Lists {
    fn next_order(&mut self) -> u64 {
        self.broken += 1;
        self.broken
    }

    /// Keeps one more, if there is anything to come back for.
    fn keep(&mut self, absent: Absent) {
        if absent.feeds.is_empty() {
            return;
        }
        // One that took long to sort out is older than those that were sorted out meanwhile.
        let place = self.kept.partition_point(|one| one.order < absent.order);
        self.kept.insert(place, absent);
        if self.kept.len() > ABSENT_MAX {
            self.given_up.extend(self.kept.pop_front());
        }
    }
}

impl Absences {
    /// The next of those whose time is over, and when the others' is.
    fn expired(&self, now: Tick) -> (Option<Absent>, Option<Tick>) {
        let Lists { kept, given_up, .. } = &mut *self.lists.lock();
        let over = given_up.pop_front().or_else(|| {
            let over = kept.iter().position(|one| one.until <= now);
            kept.remove(over?)
        });
        (over, kept.iter().map(|one| one.until).min())
    }

    /// Keeps one more; where they are too many the oldest is given up.
    pub(super) fn put(&self, mut absent: Absent) {
        let mut lists = self.lists.lock();
        absent.order = lists.next_order();
        lists.keep(absent);
    }

    /// From the next [poll](Engine::poll) on it is given up, in slices.
    pub(super) fn give_up(&self, absent: Absent) {
        self.lists.lock().given_up.push_back(absent);
    }

    /// From the next [poll](Engine::poll) on it is given up, in slices.
    pub(super) fn depart(&self, departing: Departing) {
        self.lists.lock().departing.push_back(departing);
    }

    /// From the next [poll](Engine::poll) on it is sorted out, in slices.
    pub(super) fn sort_later(&self, mut leaving: Leaving) {
        let mut lists = self.lists.lock();
        leaving.absent.order = lists.next_order();
        lists.sorting.push_back(Sorting {
            session: leaving.absent.sessions.first().copied().unwrap_or(0),
            principal: leaving.absent.principal.clone(),
            leaving: Arc::new(Mutex::new(Some(leaving))),
        });
    }

    /// Sorts out at most about `budget` items of sessions that broke; false when there are more.
    fn sort_some(&self, engine: &Engine, budget: &mut usize, wakes: &mut Wakes) -> bool {
        loop {
            let Some(next) = self.lists.lock().sorting.front().cloned() else {
                return true;
            };
            let mut leaving = next.leaving.lock();
            let is_sorted = match &mut *leaving {
                Some(leaving) => leaving.sort_some(engine, budget, wakes),
                None => true,
            };
            drop(leaving);
            if !is_sorted {
                return false;
            }
            // The session that follows it may have taken it meanwhile; if not, it finds it in one
            // of the two lists at any moment.
            let mut lists = self.lists.lock();
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

    /// Those of a session that is not sorted out yet, which is done at once.
    fn take_unsorted(
        &self,
        session: u32,
        caller: &Caller,
        engine: &Engine,
        found: &mut Vec<Absent>,
    ) {
        loop {
            let unsorted = {
                let list = &mut self.lists.lock().sorting;
                let is_it =
                    |one: &Sorting| one.session == session && one.principal == caller.principal;
                let at = list.iter().position(is_it);
                at.and_then(|at| list.remove(at))
            };
            let Some(unsorted) = unsorted else { return };
            let leaving = unsorted.leaving.lock().take();
            if let Some(mut leaving) = leaving {
                let mut wakes = Wakes::new();
                let is_sorted = leaving.sort_some(engine, &mut { usize::MAX }, &mut wakes);
                debug_assert!(is_sorted, "the budget has no end");
                let (absent, _) = leaving.into_absent();
                if !absent.feeds.is_empty() {
                    found.push(absent);
                }
            }
        }
    }

    fn next_departing(&self) -> Option<Departing> {
        self.lists.lock().departing.pop_front()
    }

    /// The next to go on with.
    fn put_back(&self, absent: Absent) {
        self.lists.lock().given_up.push_front(absent);
    }

    /// Those of a session of the same principal; none where there are none.
    pub(super) fn take(&self, session: u32, caller: &Caller, engine: &Engine) -> Vec<Absent> {
        let mut found = Vec::new();
        self.take_unsorted(session, caller, engine, &mut found);
        let list = &mut self.lists.lock().kept;
        let is_it =
            |one: &Absent| one.sessions.contains(&session) && one.principal == caller.principal;
        while let Some(at) = list.iter().position(is_it) {
            found.extend(list.remove(at));
        }
        found
    }

    fn count(&self) -> usize {
        let lists = self.lists.lock();
        lists.kept.len() + lists.given_up.len() + lists.sorting.len()
    }
}

impl Engine {
    /// Gives up what is kept of sessions that nobody has come back for in time, at most about
    /// `budget` items of them. When the next are due.
    pub(crate) fn expire_absent(
        &self,
        now: Tick,
        mut budget: usize,
        wakes: &mut Wakes,
    ) -> Option<Tick> {
        if !self.absences().sort_some(self, &mut budget, wakes) {
            return Some(now);
        }
        while let Some(mut departing) = self.absences().next_departing() {
            if !departing.give_up_some(self, &mut budget, wakes) {
                // The others have their turn before it goes on.
                self.absences().depart(departing);
                return Some(now);
            }
        }
        loop {
            let mut absent = match self.absences().expired(now) {
                (Some(absent), _) => absent,
                (None, next) => return next,
            };
            if !absent.release_some(self, &mut budget, wakes) {
                self.absences().put_back(absent);
                return Some(now);
            }
        }
    }

    /// Sessions that broke and are kept for a while, or are being given up. What waits for them is
    /// part of the [queue memory](Self::queue_memory).
    pub fn absent_sessions(&self) -> u64 {
        self.absences().count() as u64
    }
}
