//! The bounded log behind an `all` subscription: every update of its variables in commit order.
//!
//! A write reserves room before it is numbered and fills it at commit, so commit cannot fail. First
//! readings and ends stand in the log too, where they belong in the order, but outside its bound.
//! Lock order: variable, then feed.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use trunkline_types::Tick;

use crate::budget::{Budget, cost, cost_of};
use crate::outbox::{Outbox, Wakes};
use crate::sync::{Arc, Mutex};
use crate::update::Update;

/// One entry of the log.
#[derive(Clone, Debug)]
pub(crate) struct FeedEntry {
    /// The item of the consumer.
    pub(crate) item: u32,
    pub(crate) event: Event,
}

/// What an entry says.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// What the variable held when the item was subscribed; outside the bound.
    First(Update),
    /// An update; what the bound is about.
    Next(Update),
    /// The variable was undeployed; outside the bound.
    Gone,
}

/// Room for updates that are committed together: one, or those of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Room {
    pub(crate) updates: usize,
    /// Bytes of their values.
    pub(crate) bytes: usize,
}

impl Room {
    /// For one update with a value of `bytes`.
    pub(crate) fn one(bytes: usize) -> Self {
        Self { updates: 1, bytes }
    }

    /// What it costs of the consumer's budget.
    pub(crate) fn cost(self) -> usize {
        cost_of(self.updates, self.bytes)
    }
}

/// What reserving room came to.
#[derive(Debug)]
pub(crate) enum Reserve {
    /// The room is there; commit or release it.
    Reserved,
    /// The subscription has ended with `overrun`; nothing is to be pushed.
    Ended,
    /// The feed is full and writers may wait for it.
    WouldBlock {
        /// When it ends instead.
        until: Tick,
    },
}

/// The log of one subscription.
#[derive(Debug)]
pub(crate) struct Feed {
    elements_max: usize,
    bytes_max: usize,
    /// What may wait for the consumer in all its subscriptions.
    budget: Arc<Budget>,
    log: Mutex<Log>,
}

#[derive(Debug, Default)]
struct Log {
    entries: VecDeque<FeedEntry>,
    /// Entries within the bound, and the bytes of their values.
    elements: usize,
    bytes: usize,
    reserved: usize,
    reserved_bytes: usize,
    /// Since when writers have found it full and the subscriber has taken nothing.
    full_since: Option<Tick>,
    /// What the least of them needs of the consumer's budget, where it was that which had no room.
    short_of: Option<usize>,
    /// The budget's ebbs when one of them was last told to wait.
    ebbs: usize,
    ended: bool,
    /// Consumers whose writes wait for room here.
    parked: Vec<Arc<Outbox>>,
}

impl Log {
    /// Room came: writers that waited try again.
    fn make_way(&mut self, wakes: &mut Wakes) {
        self.forget_full();
        self.wake_parked(wakes);
    }

    /// Puts an update where room was reserved for it.
    fn fill(&mut self, item: u32, update: Update) {
        let bytes = update.value.as_slice().len();
        self.reserved -= 1;
        self.reserved_bytes -= bytes;
        self.elements += 1;
        self.bytes += bytes;
        self.entries.push_back(FeedEntry {
            item,
            event: Event::Next(update),
        });
    }

    fn forget_full(&mut self) {
        self.full_since = None;
        self.short_of = None;
    }

    fn wake_parked(&mut self, wakes: &mut Wakes) {
        for outbox in self.parked.drain(..) {
            wakes.add(&outbox);
        }
    }

    /// Takes an entry that has left the log out of its bound; returns what it cost there, 0 when it
    /// was outside.
    fn forget(&mut self, entry: &FeedEntry) -> usize {
        let Event::Next(update) = &entry.event else {
            return 0;
        };
        let bytes = update.value.as_slice().len();
        self.elements -= 1;
        self.bytes -= bytes;
        cost(bytes)
    }
}

impl Feed {
    pub(crate) fn new(elements: u32, bytes: u32, budget: Arc<Budget>) -> Self {
        Self {
            elements_max: elements as usize,
            bytes_max: bytes as usize,
            budget,
            log: Mutex::new(Log::default()),
        }
    }

    /// Whether there would be such room now.
    pub(crate) fn has_room(&self, room: Room) -> bool {
        let log = self.log.lock();
        let need = self.budget.need(room.cost(), 0);
        !log.ended && self.fits(&log, room) && self.budget.has(need)
    }

    /// A feed without elements takes an update of any length, and a group of any size: otherwise it
    /// would never go over.
    fn fits(&self, log: &Log, room: Room) -> bool {
        let elements = log.elements + log.reserved;
        let sum = log
            .bytes
            .saturating_add(log.reserved_bytes)
            .saturating_add(room.bytes);
        elements == 0 || (elements + room.updates <= self.elements_max && sum <= self.bytes_max)
    }

    /// Reserves room. `stall` is how long the variable's owner lets writers wait for a full feed.
    pub(crate) fn reserve(
        &self,
        room: Room,
        now: Tick,
        stall: Duration,
        wakes: &mut Wakes,
    ) -> Reserve {
        let mut log = self.log.lock();
        if log.ended {
            return Reserve::Ended;
        }
        if self.fits(&log, room) && self.budget.claim(room.cost()) {
            log.reserved += room.updates;
            log.reserved_bytes += room.bytes;
            log.forget_full();
            return Reserve::Reserved;
        }
        let ebbs = self.budget.ebbs();
        if log.short_of.is_some() && log.ebbs != ebbs {
            // The consumer has caught up since: whoever was told to wait then waits no more.
            log.forget_full();
        }
        log.ebbs = ebbs;
        let until = log.full_since.get_or_insert(now).saturating_add(stall);
        if now < until {
            return Reserve::WouldBlock { until };
        }
        log.ended = true;
        log.wake_parked(wakes);
        self.budget.wake_parked(wakes);
        Reserve::Ended
    }

    /// Notes what a write that was told to wait here needs of the consumer's budget, beside the
    /// `held` bytes it has given back to it. What other writers need stays noted as long as it is
    /// not free.
    pub(crate) fn note_need(&self, room: Room, held: usize) {
        let mut log = self.log.lock();
        let known = log.short_of.filter(|need| !self.budget.has(*need));
        let need = self
            .fits(&log, room)
            .then(|| self.budget.need(room.cost(), held));
        log.short_of = known.into_iter().chain(need).min();
    }

    /// Gives reserved room back: the write was not committed after all.
    pub(crate) fn release(&self, room: Room, wakes: &mut Wakes) {
        let mut log = self.log.lock();
        log.reserved -= room.updates;
        log.reserved_bytes -= room.bytes;
        log.make_way(wakes);
        self.budget.give_back(room.cost(), wakes);
    }

    /// Fills reserved room.
    pub(crate) fn commit(&self, item: u32, update: &Update) {
        self.log.lock().fill(item, update.clone());
    }

    /// Fills reserved room with the updates of a group: nobody else's come between them.
    pub(crate) fn commit_run(&self, run: impl IntoIterator<Item = (u32, Update)>) {
        let mut log = self.log.lock();
        for (item, update) in run {
            log.fill(item, update);
        }
    }

    /// Adds a first reading, which the bound is not about.
    pub(crate) fn push_first(&self, item: u32, update: Update) {
        let event = Event::First(update);
        self.log.lock().entries.push_back(FeedEntry { item, event });
    }

    /// Notes behind its last update that an item's variable was undeployed, and lets writers that
    /// wait to write it go on. Of a subscription that has ended that end is told, with what it
    /// misses.
    pub(crate) fn push_gone(&self, item: u32, wakes: &mut Wakes) {
        let mut log = self.log.lock();
        if !log.ended {
            log.entries.push_back(FeedEntry {
                item,
                event: Event::Gone,
            });
        }
        log.wake_parked(wakes);
        self.budget.wake_parked(wakes);
    }

    /// Copies up to `limit` entries from the front to `out`; they stay where they are until
    /// [`Feed::advance`].
    pub(crate) fn peek(&self, limit: usize, out: &mut Vec<FeedEntry>) {
        out.extend(self.log.lock().entries.iter().take(limit).cloned());
    }

    /// Takes out the first `count` entries and wakes writers that waited for room. Returns whether
    /// any entry is left.
    pub(crate) fn advance(&self, count: usize, wakes: &mut Wakes) -> bool {
        let mut log = self.log.lock();
        #[cfg(feature = "planted")]
        let count = count
            + usize::from(
                trunkline_types::planted::is(trunkline_types::planted::Bug::FeedCursor)
                    && count > 0,
            );
        let mut freed = 0;
        for _ in 0..count {
            let Some(entry) = log.entries.pop_front() else {
                break;
            };
            freed += log.forget(&entry);
        }
        if freed > 0 {
            log.make_way(wakes);
            self.budget.release(freed, wakes);
        }
        !log.entries.is_empty()
    }

    /// Takes the entries of these items out, and lets every waiting writer try again. The time that
    /// writers have waited goes on unless this has made room: nobody gets more of it for nothing.
    pub(crate) fn remove_items(&self, items: &HashSet<u32>, wakes: &mut Wakes) {
        if items.is_empty() {
            return;
        }
        let mut log = self.log.lock();
        let (left, kept) = std::mem::take(&mut log.entries)
            .into_iter()
            .partition::<VecDeque<_>, _>(|entry| items.contains(&entry.item));
        log.entries = kept;
        let freed = left.iter().map(|entry| log.forget(entry)).sum();
        if freed > 0 {
            log.forget_full();
        }
        log.wake_parked(wakes);
        self.budget.release(freed, wakes);
        self.budget.wake_parked(wakes);
    }

    /// Asks for `outbox` to be woken at the next room. False when there is room already, or will
    /// never be any.
    pub(crate) fn park(&self, outbox: &Arc<Outbox>) -> bool {
        let mut log = self.log.lock();
        let full = log.full_since.is_some() && !log.ended;
        if full
            && let Some(need) = log.short_of
            && !self.budget.park(outbox, need)
        {
            return false;
        }
        if full && !log.parked.iter().any(|parked| Arc::ptr_eq(parked, outbox)) {
            log.parked.push(Arc::clone(outbox));
        }
        full
    }

    /// Updates of one item that wait, its first reading included.
    pub(crate) fn waiting_of(&self, item: u32) -> u64 {
        let log = self.log.lock();
        let waits = |entry: &&FeedEntry| match &entry.event {
            Event::First(update) | Event::Next(update) => entry.item == item && update.sequence > 0,
            Event::Gone => false,
        };
        log.entries.iter().filter(waits).count() as u64
    }

    /// Whether it ended with `overrun`; what was in it before is still to be taken.
    pub(crate) fn has_ended(&self) -> bool {
        self.log.lock().ended
    }

    /// Ends it because its consumer goes; waiting writers go on.
    pub(crate) fn close(&self, wakes: &mut Wakes) {
        let mut log = self.log.lock();
        log.ended = true;
        let entries = std::mem::take(&mut log.entries);
        let freed = entries.iter().map(|entry| log.forget(entry)).sum();
        log.wake_parked(wakes);
        self.budget.release(freed, wakes);
        self.budget.wake_parked(wakes);
    }
}
