//! A reference implementation that keeps every update in a list, and is slow but obvious.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use trunkline_types::ledger::EndedItem;
use trunkline_types::ledger::SubscriptionLedger;
use trunkline_types::{Contract, Lost, Position, Quality, Tick, Value};

use crate::rig::{ConsumerEvent, EPOCH, Got};

/// One deployment of a variable. A redeployment creates another.
pub struct Variable {
    pub handle: u32,
    pub stall: Duration,
    pub gone: bool,
    /// All updates of the name, including those of earlier deployments.
    updates: Vec<Update>,
    /// Number of updates of earlier deployments.
    base: u64,
    /// Its subscribers, in order.
    subscribers: Vec<Key>,
}

#[derive(Clone)]
struct Update {
    value: f64,
    quality: Quality,
    /// True if the update differs from the previous one.
    changed: bool,
}

/// A consumer's number and its subscription's.
pub type Key = (usize, u32);

struct Item {
    /// Distinguishes the item from a closed one of the same variable.
    item_number: u64,
    opened_at: u64,
    /// The position of the variable when it was subscribed.
    subscribed_at: u64,
    last: u64,
    first: bool,
    /// The first reading, until it is taken (`last:n`, `first:n`).
    initial: Option<u64>,
    /// The item's own buffer; each entry with the number dropped just before it.
    queue: VecDeque<(u64, u64)>,
    /// Number of dropped updates to report with the next one.
    dropped: u64,
    dropped_reported: u64,
    coalesced: u64,
    disconnect: u64,
    unreported: Lost,
    filtered: u64,
    filtered_reported: u64,
    missed: u64,
    delivered: u64,
    unconfirmed: u64,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Entry {
    First(u64),
    Next(u64),
    Gone,
}

pub struct Subscription {
    pub contract: Contract,
    pub only_changes: bool,
    items: BTreeMap<usize, Item>,
    feed: VecDeque<(usize, Entry)>,
    ended: bool,
    full_since: Option<Tick>,
    credit: Option<u64>,
}

#[derive(Default)]
pub struct Model {
    pub variables: Vec<Variable>,
    pub subscriptions: BTreeMap<Key, Subscription>,
    /// Unconfirmed deliveries, by consumer.
    in_flight: BTreeMap<usize, VecDeque<(Key, usize, u64)>>,
    item_numbers: u64,
}

/// The expected outcome of a write.
#[derive(PartialEq, Debug)]
pub enum Expected {
    Applied(u64),
    WouldBlock(Tick),
    Gone,
}

impl Item {
    fn held_back(&self) -> u64 {
        self.filtered - self.filtered_reported
    }
}

impl Subscription {
    fn is_all(&self) -> bool {
        matches!(self.contract, Contract::All { .. })
    }

    fn waiting_within_bound(&self) -> usize {
        self.feed
            .iter()
            .filter(|(_, entry)| matches!(entry, Entry::Next(_)))
            .count()
    }

    fn is_full(&self) -> bool {
        let Contract::All { elements, .. } = self.contract else {
            return false;
        };
        self.waiting_within_bound() >= elements as usize
    }
}

impl Model {
    /// Adds a variable. `former` is the number of the variable that had its name before.
    pub fn deploy(&mut self, handle: u32, stall: Duration, former: Option<usize>) -> usize {
        let updates = former.map(|former| self.variables[former].updates.clone());
        let updates = updates.unwrap_or_default();
        self.variables.push(Variable {
            handle,
            stall,
            gone: false,
            base: updates.len() as u64,
            updates,
            subscribers: Vec::new(),
        });
        self.variables.len() - 1
    }

    pub fn confirms(&mut self, consumer: usize) {
        self.in_flight.insert(consumer, VecDeque::new());
    }

    fn newest(&self, variable: usize) -> u64 {
        self.variables[variable].updates.len() as u64
    }

    fn by_handle(&self, handle: u32) -> usize {
        self.variables
            .iter()
            .position(|v| v.handle == handle)
            .expect("the handle is known")
    }

    /// Applies a write, or, if `may_wait` is false, a change that cannot wait.
    pub fn write(
        &mut self,
        variable: usize,
        value: f64,
        quality: Quality,
        now: Tick,
        may_wait: bool,
    ) -> Expected {
        let var = &self.variables[variable];
        if var.gone {
            return Expected::Gone;
        }
        let last = var.updates[var.base as usize..].last();
        let changed = last
            .is_none_or(|last| last.value.to_bits() != value.to_bits() || last.quality != quality);
        let stall = if may_wait { var.stall } else { Duration::ZERO };
        // The stall time of every full subscription runs. The write waits until the first one ends.
        let mut blocked: Option<Tick> = None;
        for key in var.subscribers.clone() {
            let Some(subscription) = self.subscriptions.get_mut(&key) else {
                continue;
            };
            let concerned = subscription.is_all() && (changed || !subscription.only_changes);
            if !concerned || subscription.ended || !subscription.is_full() {
                continue;
            }
            let until = subscription
                .full_since
                .get_or_insert(now)
                .saturating_add(stall);
            if now < until {
                blocked = Some(blocked.map_or(until, |known| known.min(until)));
                continue;
            }
            subscription.ended = true;
        }
        if let Some(until) = blocked {
            return Expected::WouldBlock(until);
        }
        let var = &mut self.variables[variable];
        var.updates.push(Update {
            value,
            quality,
            changed,
        });
        let sequence = var.updates.len() as u64;
        for key in var.subscribers.clone() {
            self.offer(key, variable, sequence, changed);
        }
        Expected::Applied(sequence)
    }

    fn offer(&mut self, key: Key, variable: usize, sequence: u64, changed: bool) {
        let subscription = self
            .subscriptions
            .get_mut(&key)
            .expect("the variable is subscribed");
        let item = subscription
            .items
            .get_mut(&variable)
            .expect("the variable is subscribed");
        if subscription.only_changes && !changed {
            item.filtered += 1;
            return;
        }
        match subscription.contract {
            Contract::Latest | Contract::Sampled(_) => {}
            Contract::Last(n) => {
                item.queue.push_back((0, sequence));
                if item.queue.len() > n as usize {
                    item.queue.pop_front();
                    item.dropped += 1;
                }
            }
            Contract::First(n) if item.queue.len() < n as usize => {
                let dropped = std::mem::take(&mut item.dropped);
                item.queue.push_back((dropped, sequence));
            }
            Contract::First(_) => item.dropped += 1,
            Contract::All { .. } if subscription.ended => item.missed += 1,
            Contract::All { .. } => subscription
                .feed
                .push_back((variable, Entry::Next(sequence))),
        }
    }

    pub fn subscribe(
        &mut self,
        key: Key,
        contract: Contract,
        only_changes: bool,
        variable: usize,
        resume: Option<Position>,
    ) {
        let newest = self.newest(variable);
        let before_first = newest - u64::from(newest > self.variables[variable].base);
        self.item_numbers += 1;
        let item_number = self.item_numbers;
        let subscription = self
            .subscriptions
            .entry(key)
            .or_insert_with(|| Subscription {
                contract,
                only_changes,
                items: BTreeMap::new(),
                feed: VecDeque::new(),
                ended: false,
                full_since: None,
                credit: None,
            });
        if subscription.items.contains_key(&variable) {
            return;
        }
        let mut item = Item {
            item_number,
            opened_at: before_first,
            subscribed_at: newest,
            last: before_first,
            first: true,
            initial: None,
            queue: VecDeque::new(),
            dropped: 0,
            dropped_reported: 0,
            coalesced: 0,
            disconnect: 0,
            unreported: Lost::NONE,
            filtered: 0,
            filtered_reported: 0,
            missed: 0,
            delivered: 0,
            unconfirmed: 0,
        };
        match resume {
            None => {}
            Some(had) if had.epoch != EPOCH || had.sequence > newest => {
                item.unreported.unknown = true
            }
            Some(had)
                if had.sequence == newest
                    && (newest == 0 || newest > self.variables[variable].base) =>
            {
                item.first = false;
                item.opened_at = newest;
                item.last = newest;
            }
            Some(had) => {
                item.opened_at = had.sequence;
                item.disconnect = before_first - had.sequence;
                item.unreported.disconnect = item.disconnect;
            }
        }
        if item.first {
            match contract {
                Contract::Last(_) | Contract::First(_) => item.initial = Some(newest),
                Contract::All { .. } => {
                    subscription
                        .feed
                        .push_back((variable, Entry::First(newest)));
                }
                Contract::Latest | Contract::Sampled(_) => {}
            }
        }
        subscription.items.insert(variable, item);
        self.variables[variable].subscribers.push(key);
    }

    pub fn is_subscribed(&self, key: Key, variable: usize) -> bool {
        self.subscriptions
            .get(&key)
            .is_some_and(|s| s.items.contains_key(&variable))
    }

    pub fn unsubscribe(&mut self, key: Key, variable: Option<usize>) {
        let Some(subscription) = self.subscriptions.get_mut(&key) else {
            return;
        };
        let closing: Vec<usize> = match variable {
            Some(variable) => vec![variable],
            None => subscription.items.keys().copied().collect(),
        };
        for variable in closing {
            subscription.items.remove(&variable);
            let waiting = subscription.waiting_within_bound();
            subscription.feed.retain(|(of, _)| *of != variable);
            if subscription.waiting_within_bound() < waiting {
                subscription.full_since = None;
            }
            self.variables[variable]
                .subscribers
                .retain(|interest| *interest != key);
        }
        self.remove_if_empty(key);
    }

    fn remove_if_empty(&mut self, key: Key) {
        if self
            .subscriptions
            .get(&key)
            .is_some_and(|s| s.items.is_empty())
        {
            self.subscriptions.remove(&key);
        }
    }

    pub fn undeploy(&mut self, variable: usize) {
        self.variables[variable].gone = true;
        for key in self.variables[variable].subscribers.clone() {
            let subscription = self
                .subscriptions
                .get_mut(&key)
                .expect("the variable is subscribed");
            if subscription.is_all() && !subscription.ended {
                subscription.feed.push_back((variable, Entry::Gone));
            }
        }
    }

    pub fn grant(&mut self, key: Key, more: u64) {
        if let Some(subscription) = self.subscriptions.get_mut(&key) {
            subscription.credit = Some(subscription.credit.unwrap_or(0).saturating_add(more));
        }
    }

    pub fn unconfirmed(&self, consumer: usize) -> usize {
        self.in_flight.get(&consumer).map_or(0, VecDeque::len)
    }

    pub fn confirm(&mut self, consumer: usize, records: usize) {
        let Some(in_flight) = self.in_flight.get_mut(&consumer) else {
            return;
        };
        for (key, variable, item_number) in in_flight.drain(..records) {
            let item = self
                .subscriptions
                .get_mut(&key)
                .and_then(|s| s.items.get_mut(&variable));
            if let Some(item) = item
                && item.item_number == item_number
            {
                item.unconfirmed -= 1;
            }
        }
    }

    /// Checks and records one delivery to a consumer.
    pub fn take_event(&mut self, consumer: usize, event: &ConsumerEvent) {
        match event {
            ConsumerEvent::Update(got) => self.update(consumer, got),
            ConsumerEvent::Gone {
                subscription,
                handle,
            } => self.gone((consumer, *subscription), *handle),
            ConsumerEvent::Overrun {
                subscription,
                items,
            } => {
                self.overrun((consumer, *subscription), items);
            }
        }
    }

    fn update(&mut self, consumer: usize, got: &Got) {
        let key = (consumer, got.subscription);
        let variable = self.by_handle(got.handle);
        let newest = self.newest(variable);
        let subscription = self
            .subscriptions
            .get_mut(&key)
            .expect("the variable is subscribed");
        let item = subscription
            .items
            .get_mut(&variable)
            .expect("the variable is subscribed");
        let mut lost = Lost::NONE;
        let sequence = match subscription.contract {
            Contract::Latest | Contract::Sampled(_) => {
                let news = newest - item.last;
                let held_back = item.held_back();
                assert!(
                    item.first || news > held_back,
                    "the item already has this update: {got:?}"
                );
                lost.coalesced = news.saturating_sub(1).saturating_sub(held_back);
                item.coalesced += lost.coalesced;
                newest
            }
            Contract::Last(_) | Contract::First(_) => match item.initial.take() {
                Some(initial) => initial,
                None => {
                    let (before, sequence) = item.queue.pop_front().expect("an update is pending");
                    lost.queue = match subscription.contract {
                        Contract::Last(_) => std::mem::take(&mut item.dropped),
                        _ => before,
                    };
                    item.dropped_reported += lost.queue;
                    sequence
                }
            },
            Contract::All { .. } => {
                let (of, entry) = subscription.feed.pop_front().expect("an update is pending");
                assert_eq!(of, variable, "out of order: {got:?}");
                if let Some(credit) = &mut subscription.credit {
                    *credit = credit
                        .checked_sub(1)
                        .expect("a delivery exceeds the granted credit");
                }
                match entry {
                    Entry::First(sequence) => sequence,
                    Entry::Next(sequence) => {
                        subscription.full_since = None;
                        sequence
                    }
                    Entry::Gone => panic!("expected the end of the variable: {got:?}"),
                }
            }
        };
        let between = item.last.max(item.subscribed_at) + 1..sequence;
        let Variable { updates, base, .. } = &self.variables[variable];
        let has_value = sequence > *base;
        let is_changed = |sequence: &u64| updates[*sequence as usize - 1].changed;
        let filtered = match subscription.contract {
            _ if !subscription.only_changes => 0,
            Contract::Latest | Contract::Sampled(_) => item.held_back(),
            _ => between.filter(|sequence| !is_changed(sequence)).count() as u64,
        };
        item.filtered_reported += filtered;
        let lost = lost.plus(std::mem::take(&mut item.unreported));
        item.last = sequence;
        item.first = false;
        if has_value {
            let update = &updates[sequence as usize - 1];
            assert_eq!(
                (&got.value, got.quality),
                (&Value::F64(update.value), update.quality)
            );
            item.delivered += 1;
        }
        if let Some(in_flight) = self.in_flight.get_mut(&consumer) {
            let item_number = if has_value { item.item_number } else { 0 };
            in_flight.push_back((key, variable, item_number));
            item.unconfirmed += u64::from(has_value);
        }
        assert_eq!(
            (got.sequence, got.lost, got.filtered),
            (if has_value { sequence } else { 0 }, lost, filtered),
            "{got:?}"
        );
    }

    fn gone(&mut self, key: Key, handle: u32) {
        let variable = self.by_handle(handle);
        assert!(self.variables[variable].gone);
        self.assert_item_quiet(key, variable, true);
        let subscription = self
            .subscriptions
            .get_mut(&key)
            .expect("the variable is subscribed");
        if subscription.is_all() {
            assert_eq!(subscription.feed.pop_front(), Some((variable, Entry::Gone)));
        }
        subscription
            .items
            .remove(&variable)
            .expect("the variable is subscribed");
        self.variables[variable]
            .subscribers
            .retain(|interest| *interest != key);
        self.remove_if_empty(key);
    }

    fn overrun(&mut self, key: Key, items: &[EndedItem]) {
        let subscription = self
            .subscriptions
            .remove(&key)
            .expect("the variable is subscribed");
        assert!(
            subscription.ended && subscription.feed.is_empty(),
            "the ended subscription still has updates"
        );
        let mut reported: Vec<EndedItem> = items.to_vec();
        reported.sort_by_key(|item| item.handle);
        let mut expected: Vec<EndedItem> = subscription
            .items
            .iter()
            .map(|(variable, item)| EndedItem {
                handle: self.variables[*variable].handle,
                last_sequence: item.last,
                lost: item.missed,
            })
            .collect();
        expected.sort_by_key(|item| item.handle);
        assert_eq!(reported, expected);
        for variable in subscription.items.keys() {
            self.variables[*variable]
                .subscribers
                .retain(|interest| *interest != key);
        }
    }

    /// Asserts that nothing is pending for this consumer, apart from updates that wait for credit
    /// or their period.
    pub fn assert_quiet(&self, consumer: usize) {
        for (key, subscription) in &self.subscriptions {
            if key.0 != consumer || matches!(subscription.contract, Contract::Sampled(_)) {
                continue;
            }
            if subscription.is_all() {
                let starved = subscription.credit == Some(0);
                assert!(
                    subscription.feed.is_empty() || starved,
                    "{key:?} has pending updates"
                );
                assert!(
                    !subscription.ended || starved,
                    "{key:?} has ended without a report"
                );
                continue;
            }
            for variable in subscription.items.keys() {
                assert!(
                    !self.variables[*variable].gone,
                    "{key:?}: an end is not reported"
                );
                self.assert_item_quiet(*key, *variable, false);
            }
        }
    }

    /// Asserts that every `sampled` item has the newest value.
    pub fn assert_sampled_quiet(&self, consumer: usize) {
        for (key, subscription) in &self.subscriptions {
            if key.0 == consumer && matches!(subscription.contract, Contract::Sampled(_)) {
                for variable in subscription.items.keys() {
                    self.assert_item_quiet(*key, *variable, true);
                }
            }
        }
    }

    fn assert_item_quiet(&self, key: Key, variable: usize, at_its_end: bool) {
        let subscription = &self.subscriptions[&key];
        let item = &subscription.items[&variable];
        match subscription.contract {
            Contract::Sampled(_) if !at_its_end => {}
            Contract::Latest | Contract::Sampled(_) => {
                let news = self.newest(variable) - item.last;
                assert!(
                    !item.first && news == item.held_back(),
                    "{key:?} missed the newest update"
                );
            }
            Contract::Last(_) | Contract::First(_) => {
                assert!(item.initial.is_none() && item.queue.is_empty(), "{key:?}");
            }
            Contract::All { .. } => {}
        }
    }

    /// Returns the items of a consumer.
    pub fn items(&self, consumer: usize) -> Vec<(u32, usize)> {
        let own = self
            .subscriptions
            .iter()
            .filter(|(key, _)| key.0 == consumer);
        own.flat_map(|(key, s)| s.items.keys().map(|variable| (key.1, *variable)))
            .collect()
    }

    pub fn ledger(&self, key: Key, variable: usize) -> SubscriptionLedger {
        let subscription = &self.subscriptions[&key];
        let item = &subscription.items[&variable];
        let (newest, base) = (self.newest(variable), self.variables[variable].base);
        let mut ledger = SubscriptionLedger {
            written: newest - item.opened_at,
            filtered: item.filtered,
            coalesced: item.coalesced,
            dropped_queue: item.dropped_reported,
            dropped_overrun: item.missed,
            dropped_disconnect: item.disconnect,
            waiting: 0,
            sent_unconfirmed: item.unconfirmed,
            received: item.delivered - item.unconfirmed,
            repaired: 0,
        };
        match subscription.contract {
            Contract::Latest | Contract::Sampled(_) => {
                let pending = (newest - item.last).saturating_sub(item.held_back());
                ledger.waiting = u64::from(pending > 0);
                ledger.coalesced += pending.saturating_sub(1);
            }
            Contract::Last(_) | Contract::First(_) => {
                ledger.waiting = item.queue.len() as u64;
                ledger.waiting += u64::from(item.initial.is_some_and(|sequence| sequence > base));
                let before: u64 = item.queue.iter().map(|(dropped, _)| dropped).sum();
                ledger.dropped_queue += item.dropped + before;
            }
            Contract::All { .. } => {
                let is_update = |entry: &Entry| match entry {
                    Entry::First(sequence) => *sequence > base,
                    Entry::Next(_) => true,
                    Entry::Gone => false,
                };
                let waits = |(of, entry): &&(usize, Entry)| *of == variable && is_update(entry);
                ledger.waiting = subscription.feed.iter().filter(waits).count() as u64;
            }
        }
        ledger
    }
}
