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

use std::collections::{BTreeMap, HashMap, VecDeque};

use trunkline_types::{Contract, Tick};

use super::Consumer;
use super::feeding::Membership;
use super::sent::{Charge, Sent};
use crate::caller::{Caller, Principal};
use crate::engine::Engine;
use crate::feed::{Event, FeedEntry, Room};
use crate::outbox::Wakes;
use crate::sync::{Arc, Mutex};
use crate::update::Update;
use crate::variable::{State, Variable};

/// Sessions that broke and are kept; beyond, the oldest is given up.
const ABSENT_MAX: usize = 1024;
/// Those that one session follows: each time a session breaks while it comes back it is one more.
const FOLLOWED_MAX: usize = 16;
/// Entries of other subscribers' feeds that are looked through for the updates of one variable: who
/// comes back with many variables must not keep the writers waiting.
const LOOK_BACK: usize = 1024;
/// What keeping an item costs beside its updates: its place in tables.
const ITEM_COST: usize = 128;

/// The `all` subscriptions of a session that broke.
#[derive(Debug)]
pub struct Absent {
    /// The session, and those after it that broke before all of it was taken: the peer may know the
    /// number of any.
    sessions: Vec<u32>,
    principal: Principal,
    until: Tick,
    /// By the number of the subscription.
    feeds: BTreeMap<u32, AbsentFeed>,
    /// How many of them owe each variable.
    owed: HashMap<u32, u32>,
    /// What was taken out of the feeds, or was never confirmed, by the variable's handle.
    past: HashMap<u32, Vec<Update>>,
    charge: Charge,
}

/// Each once, in the order of their numbers.
fn in_order(found: &mut Vec<Update>) {
    found.sort_by_key(|update| update.sequence);
    found.dedup_by_key(|update| update.sequence);
}

fn cost_of(update: &Update) -> usize {
    Room::one(update.value.as_slice().len()).cost()
}

/// One of them, with its place in the feed.
#[derive(Debug)]
struct AbsentFeed {
    membership: Membership,
    handles: HashMap<u32, u32>,
    /// The variables that nobody has come back for, and the number before the first that the
    /// subscription was to get.
    owed: HashMap<u32, u64>,
    /// The variables that it has still to leave, once it is given up.
    leaving: Option<Vec<u32>>,
}

impl Absent {
    /// Adds an update, where bytes are to spare, or become free when the older half of what is kept
    /// goes.
    fn add(&mut self, handle: u32, update: Update, wakes: &mut Wakes) {
        self.put(handle, update, Charge::take, wakes);
    }

    /// [`add`](Self::add) of what has waited until now, in bytes that are free again.
    fn add_waiting(&mut self, handle: u32, update: Update, wakes: &mut Wakes) {
        self.put(handle, update, Charge::take_over, wakes);
    }

    fn put(
        &mut self,
        handle: u32,
        update: Update,
        take: impl Fn(&mut Charge, usize) -> bool,
        wakes: &mut Wakes,
    ) {
        let cost = cost_of(&update);
        let is_taken = take(&mut self.charge, cost) || {
            self.forget_older(wakes);
            take(&mut self.charge, cost)
        };
        if is_taken {
            self.past.entry(handle).or_default().push(update);
        } else if let Some(known) = self.past.remove(&handle) {
            // Only what is the newest without a gap is of use.
            self.charge
                .give_back(known.iter().map(cost_of).sum(), wakes);
        }
    }

    /// Drops the older half of what is kept of each variable.
    #[cold]
    fn forget_older(&mut self, wakes: &mut Wakes) {
        let mut cost = 0;
        self.past.retain(|_, known| {
            let half = known.len().div_ceil(2);
            cost += known.drain(..half).map(|one| cost_of(&one)).sum::<usize>();
            !known.is_empty()
        });
        self.charge.give_back(cost, wakes);
        self.charge.settle(wakes);
    }

    /// Takes out what has come meanwhile for a subscription.
    fn gather(&mut self, subscription: u32, wakes: &mut Wakes) {
        let Some(feed) = self.feeds.get(&subscription) else {
            return;
        };
        let mut entries = Vec::new();
        let membership = &feed.membership;
        membership
            .feed
            .take_rest(membership.member, &mut entries, wakes);
        let of_handle = |entry: FeedEntry| {
            let handle = feed.handles.get(&entry.place).copied()?;
            let update = entry.into_update()?;
            self.owed.contains_key(&handle).then_some((handle, update))
        };
        let updates: Vec<_> = entries.into_iter().filter_map(of_handle).collect();
        for (handle, update) in updates {
            self.add_waiting(handle, update, wakes);
        }
    }

    /// What it has of a variable that is subscribed again, behind the position that the subscriber
    /// has. The caller holds the variable's lock.
    fn claim(
        &mut self,
        subscription: u32,
        handle: u32,
        had: Option<u64>,
        out: &mut Vec<Update>,
        wakes: &mut Wakes,
    ) {
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
            true => self.past.get(&handle).cloned(),
            false => self.past.remove(&handle).inspect(|known| {
                let cost = known.iter().map(cost_of).sum();
                self.charge.give_back(cost, wakes);
            }),
        };
        // Who has nothing of it gets what this subscription was to get.
        let (Some(known), Some(after)) = (known, had.or(opened)) else {
            return;
        };
        out.extend(known.into_iter().filter(|update| update.sequence > after));
    }

    /// Gives up the place in a feed when nothing of it is owed any more.
    fn release_settled(&mut self, subscription: u32, engine: &Engine, wakes: &mut Wakes) {
        let feed = self.feeds.get(&subscription);
        if feed.is_some_and(|feed| feed.owed.is_empty())
            && let Some(feed) = self.feeds.remove(&subscription)
        {
            self.charge.give_back(feed.handles.len() * ITEM_COST, wakes);
            feed.release(engine, wakes);
        }
    }

    fn release(mut self, engine: &Engine, wakes: &mut Wakes) {
        self.release_some(engine, &mut { usize::MAX }, wakes);
    }

    /// [`release`](Self::release) in slices of `budget` items; false when there is more to do.
    /// Nobody may come back for it any more.
    fn release_some(&mut self, engine: &Engine, budget: &mut usize, wakes: &mut Wakes) -> bool {
        self.sessions.clear();
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
    fn release(mut self, engine: &Engine, wakes: &mut Wakes) {
        self.release_some(engine, &mut { usize::MAX }, wakes);
    }

    /// [`release`](Self::release) in slices of `budget` items; false when there is more to do.
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
            .get_or_insert_with(|| handles.drain().map(|(_, handle)| handle).collect());
        while let Some(handle) = leaving.pop() {
            if let Some(variable) = engine.variable(handle) {
                self.membership.forget(variable);
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

/// The sessions that broke, of an engine.
#[derive(Debug, Default)]
pub(crate) struct Absences {
    list: Mutex<VecDeque<Absent>>,
}

impl Absences {
    /// The next of those whose time is over, and when the others' is.
    fn expired(&self, now: Tick) -> (Option<Absent>, Option<Tick>) {
        let mut list = self.list.lock();
        let over = list.iter().position(|one| one.until <= now);
        let over = over.and_then(|at| list.remove(at));
        (over, list.iter().map(|one| one.until).min())
    }

    fn put(&self, absent: Absent) -> Option<Absent> {
        let mut list = self.list.lock();
        list.push_back(absent);
        (list.len() > ABSENT_MAX).then(|| list.pop_front())?
    }

    /// The next to go on with.
    fn put_back(&self, absent: Absent) {
        self.list.lock().push_front(absent);
    }

    /// Those of a session of the same principal; none where there are none.
    fn take(&self, session: u32, caller: &Caller) -> Vec<Absent> {
        let mut list = self.list.lock();
        let mut found = Vec::new();
        let is_it =
            |one: &Absent| one.sessions.contains(&session) && one.principal == caller.principal;
        while let Some(at) = list.iter().position(is_it) {
            found.extend(list.remove(at));
        }
        found
    }

    fn count(&self) -> usize {
        self.list.lock().len()
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

    /// Sessions that broke and are kept for a while. What waits for them is part of the
    /// [queue memory](Self::queue_memory).
    pub fn absent_sessions(&self) -> u64 {
        self.absences().count() as u64
    }
}

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
        let mut absent = Absent {
            sessions: vec![caller.session],
            principal: caller.principal.clone(),
            until,
            feeds: BTreeMap::new(),
            owed: HashMap::new(),
            past: HashMap::new(),
            charge,
        };
        let is_kept = |one: &super::Subscription| one.feed.is_some() && !one.options.only_changes;
        let ids = self.subscriptions.iter().filter(|(_, one)| is_kept(one));
        let ids: Vec<u32> = ids.map(|(id, _)| *id).collect();
        let mut taken = Vec::new();
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
            if !absent.charge.take(feed.handles.len() * ITEM_COST) {
                feed.release(&engine, &mut wakes);
                continue;
            }
            let membership = &mut feed.membership;
            let mut room = Room::default();
            for entry in membership.taken.drain(..) {
                room.add(entry.room());
                taken.push((feed.handles.get(&entry.place).copied(), entry));
            }
            // What was taken counts no more before the oldest of what is left may go.
            membership.feed.pass(membership.member, room, &mut wakes);
            membership.feed.set_absent(membership.member, &mut wakes);
            for handle in feed.owed.keys() {
                *absent.owed.entry(*handle).or_default() += 1;
            }
            absent.feeds.insert(id, feed);
        }
        // What was sent is charged already; the others where there is room to spare.
        if let Some(sent) = &mut self.sent {
            for (handle, entry) in sent.drain() {
                absent.charge.give_back(entry.cost(), &mut wakes);
                if let Some(update) = entry.into_update()
                    && absent.owed.contains_key(&handle)
                {
                    absent.add(handle, update, &mut wakes);
                }
            }
        }
        let items = &self.items;
        self.in_flight.unconfirmed_entries(&mut |index, entry| {
            let handle = items.get(index).map(|item| item.handle());
            if let Some(handle) = handle.filter(|handle| absent.owed.contains_key(handle))
                && let Some(update) = entry.clone().into_update()
            {
                absent.add(handle, update, &mut wakes);
            }
        });
        for (handle, entry) in taken {
            if let (Some(handle), Some(update)) = (handle, entry.into_update()) {
                absent.add_waiting(handle, update, &mut wakes);
            }
        }
        for index in left {
            self.free(index);
        }
        absent.charge.settle(&mut wakes);
        for mut older in self.followed.drain(..) {
            older.sessions.push(caller.session);
            if let Some(oldest) = engine.absences().put(older) {
                oldest.release(&engine, &mut wakes);
            }
        }
        if !absent.feeds.is_empty()
            && let Some(oldest) = engine.absences().put(absent)
        {
            oldest.release(&engine, &mut wakes);
        }
    }

    /// This session comes after another one of its peer, which broke: subscriptions that are made
    /// again go on from what that one has left.
    pub fn follow(&mut self, caller: &Caller, session: u32) {
        let engine = self.engine.clone();
        let mut wakes = Wakes::new();
        self.followed
            .extend(engine.absences().take(session, caller));
        while self.followed.len() > FOLLOWED_MAX {
            let oldest = self.followed.remove(0);
            oldest.release(&engine, &mut wakes);
        }
    }

    /// Whether an item takes the place of one that was kept, and needs no further memory.
    pub(super) fn takes_over(&self, subscription: u32, variable: &Variable) -> bool {
        let mut feeds = self
            .followed
            .iter()
            .filter_map(|absent| absent.feeds.get(&subscription));
        feeds.any(|feed| feed.owed.contains_key(&variable.handle()))
    }

    /// The updates of a variable that is subscribed again, from the first on behind which none is
    /// missing, up to the newest; the newest is left out where nothing is before it. The caller
    /// holds the variable's lock.
    pub(super) fn reach_back(
        &mut self,
        subscription: u32,
        (variable, state): (&Variable, &State),
        had: Option<u64>,
        newest: &Update,
        wakes: &mut Wakes,
    ) -> Vec<Update> {
        let mut found = Vec::new();
        for absent in &mut self.followed {
            absent.claim(subscription, variable.handle(), had, &mut found, wakes);
        }
        in_order(&mut found);
        if let (Some(had), Some(interests)) = (had, state.interests()) {
            let mut looks = LOOK_BACK;
            for interest in interests.feeds().filter(|one| !one.only_changes) {
                let missed = newest.sequence.saturating_sub(had);
                let behind = |one: &&Update| {
                    (had..newest.sequence).contains(&one.sequence.saturating_sub(1))
                };
                let known = found.iter().filter(behind).count() as u64;
                // Whether the newest is there makes no difference.
                let has_newest = found
                    .last()
                    .is_some_and(|one| one.sequence == newest.sequence);
                if looks == 0 || known + u64::from(!has_newest) >= missed {
                    break;
                }
                interest
                    .feed
                    .recent_of(interest.place, had, &mut looks, &mut found);
                in_order(&mut found);
            }
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
        found
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

    /// What may still come before what a subscription gets: all of it together no more than its
    /// bound, because its subscriber has no room for more, and would begin again without end.
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
            updates: (elements as usize).saturating_sub(membership.past.updates),
            bytes: (bytes as usize).saturating_sub(membership.past.bytes),
        }
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
            absent.release(&self.engine, wakes);
        }
        self.followed.iter().map(|one| one.until).min()
    }
}

impl Membership {
    /// Puts what was found of a variable before what comes.
    pub(super) fn put_past(&mut self, place: u32, updates: Vec<Update>) {
        for update in updates {
            self.past.add(Room::one(update.value.as_slice().len()));
            let entry = FeedEntry {
                place,
                event: Event::Past(update),
            };
            self.taken.push_back(entry);
        }
    }
}
