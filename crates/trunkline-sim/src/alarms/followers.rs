//! Simulates subscribers in the engine's process. They follow the states of alarms, which are fields of the
//! variables, and read the journal.

use std::collections::BTreeMap;

use trunkline_engine::{Caller, Consumer, Delivery, Engine, Sink, Subscribe, Wake, Wakes};
use trunkline_types::ledger::EndedItem;
use trunkline_types::{Contract, Moment, Value};

use super::checker::{AlarmChecker, Key};
use super::plan::{Follow, LIBRARY};

/// Number of the subscription of every follower.
const SUBSCRIPTION: u32 = 1;

pub struct NoWake;

impl Wake for NoWake {
    fn wake(&self) {}
}

/// A subscriber to the states of all alarms.
#[derive(Debug)]
pub struct Follower {
    contract: Contract,
    consumer: Option<Consumer>,
    /// The items of the subscription, by the handle of the field.
    items: BTreeMap<u32, Item>,
    /// Number of the next entry of the journal to read.
    pub next: u64,
}

/// A subscriber's knowledge of one alarm's states.
#[derive(Debug)]
pub struct Item {
    pub key: Key,
    /// Possible indexes of the last received state in the alarm's history. There can be several, because
    /// the same state can occur several times. Empty before the first state.
    indexes: Vec<usize>,
    /// Index of the oldest state in the history that may arrive first.
    first_index: usize,
    /// True if the alarm was replaced by another one. Any number of states may then be merged, but the
    /// newest state must arrive.
    is_merged: bool,
}

impl Item {
    /// Creates the item of an alarm. The current state must arrive first.
    pub fn new(key: Key, checker: &AlarmChecker) -> Self {
        let states = checker.history.get(&key);
        Self {
            key,
            indexes: Vec::new(),
            first_index: states.map_or(0, |states| states.len() - 1),
            is_merged: false,
        }
    }

    /// Called after a restart of the engine. Any state of this run of the engine may arrive first.
    pub fn restart(&mut self) {
        (self.indexes, self.first_index) = (Vec::new(), 0);
    }

    /// Checks a state that has arrived. `missed` is the number of states that were reported as missed before
    /// it, or `None` if the number is unknown.
    pub fn receive(&mut self, text: &str, missed: Option<u64>, checker: &mut AlarmChecker) {
        checker.totals.followed += 1;
        checker.totals.missed += missed.unwrap_or(0);
        let states = checker.history.get(&self.key);
        let states = states.map_or(&[][..], Vec::as_slice);
        if text.is_empty() && self.is_merged {
            // The alarm does not exist now, but a new alarm may have the same name later.
            (self.indexes, self.first_index) = (Vec::new(), states.len().saturating_sub(1));
            return;
        }
        let known = std::mem::take(&mut self.indexes);
        let possible: Vec<usize> = match (known.first(), missed.filter(|_| !self.is_merged)) {
            (None, _) => (self.first_index..states.len()).collect(),
            (Some(oldest), None) => (*oldest..states.len()).collect(),
            (Some(_), Some(missed)) => known.iter().map(|at| at + 1 + missed as usize).collect(),
        };
        let has = |index: &usize| {
            let state = states.get(*index);
            state.is_some_and(|state| state.name() == text)
        };
        self.indexes = possible.into_iter().filter(has).collect();
        if self.indexes.is_empty() {
            let (key, states) = (&self.key, format!("{states:?}"));
            checker.fail(|| {
                format!(
                    "SV-04: a subscriber of {key:?} receives {text}, {missed:?} missed, after \
                     {known:?} of {states}"
                )
            });
        }
    }

    /// Called after the alarm was replaced and all waiting states were taken. Checks that the newest state
    /// has arrived.
    fn settle_merged(&mut self, checker: &mut AlarmChecker) {
        let states = checker.history.get(&self.key);
        let states = states.map_or(&[][..], Vec::as_slice);
        let (false, Some(newest)) = (self.indexes.is_empty(), states.last()) else {
            return;
        };
        if self
            .indexes
            .iter()
            .any(|at| states.get(*at) == Some(newest))
        {
            (self.indexes, self.is_merged) = (vec![states.len() - 1], false);
            return;
        }
        let (key, indexes, states) = (&self.key, &self.indexes, format!("{states:?}"));
        checker.fail(|| {
            format!("SV-04: a subscriber of {key:?} has {indexes:?}, not the last of {states}")
        });
    }

    /// Called when no data is in flight. Checks that the subscriber has the newest state of an alarm that
    /// exists.
    pub fn check_settled(&self, checker: &mut AlarmChecker) {
        let exists = checker.alarms().into_iter().any(|(variable, alarm, ..)| {
            format!("{LIBRARY}/{variable}") == self.key.0 && alarm == self.key.1
        });
        let Some(states) = checker.history.get(&self.key).filter(|_| exists) else {
            return;
        };
        if !self.indexes.iter().any(|at| at + 1 == states.len()) {
            let (key, indexes, states) = (&self.key, &self.indexes, format!("{states:?}"));
            checker.fail(|| {
                format!("SV-04: a subscriber of {key:?} has state {indexes:?} of {states}")
            });
        }
    }
}

impl Follower {
    pub fn new(follow: Follow) -> Self {
        Self {
            contract: follow.contract(),
            consumer: None,
            items: BTreeMap::new(),
            next: 1,
        }
    }

    /// Ends the subscription.
    pub fn disconnect(&mut self) {
        self.consumer = None;
        self.items.clear();
    }

    /// Subscribes to the states of all alarms to which the follower is not subscribed.
    pub fn connect(&mut self, engine: &Engine, checker: &mut AlarmChecker, at: Moment) {
        if self.consumer.is_none() {
            let consumer = Consumer::service(engine.clone(), Box::new(NoWake));
            self.consumer = Some(consumer);
        }
        let Some(consumer) = &mut self.consumer else {
            return;
        };
        let caller = Caller::local(7, 7);
        let known: Vec<Key> = self.items.values().map(|item| item.key.clone()).collect();
        let alarms = checker.alarms();
        for (variable, alarm, ..) in alarms {
            let key = (format!("{LIBRARY}/{variable}"), alarm);
            if known.contains(&key) {
                continue;
            }
            let name = format!("{}#alarm.{}.state", key.0, key.1);
            let opened = engine.fields().open(&caller, &name, at.now, at.wall);
            let field = match opened {
                Ok(field) => field,
                Err(error) => return checker.fail(|| format!("{name} cannot be opened: {error}")),
            };
            let request = Subscribe::new(SUBSCRIPTION, self.contract);
            if let Err(error) = consumer.subscribe(&caller, &field, request) {
                return checker.fail(|| format!("{name} cannot be followed: {error}"));
            }
            self.items.insert(field.handle(), Item::new(key, checker));
        }
    }

    /// Called when these alarms were removed, or replaced by other alarms with the same names.
    pub fn replaced(&mut self, keys: &[Key]) {
        for item in self.items.values_mut() {
            if keys.contains(&item.key) {
                item.is_merged = true;
            }
        }
    }

    /// Takes and checks all waiting states. If `is_settled` is true, no state may be missing.
    pub fn take(&mut self, checker: &mut AlarmChecker, is_settled: bool) {
        let Some(consumer) = &mut self.consumer else {
            return;
        };
        let mut sink = StateSink {
            items: &mut self.items,
            checker,
            ended: false,
        };
        let mut turns = 0;
        while consumer.drain(&mut sink, &mut Wakes::new()) && turns < 10_000 {
            turns += 1;
        }
        if sink.ended {
            // The subscriber did not keep up, and its subscription has ended. It subscribes again later.
            checker.totals.overrun += 1;
            return self.disconnect();
        }
        for item in self.items.values_mut().filter(|item| item.is_merged) {
            item.settle_merged(checker);
        }
        if is_settled {
            self.items
                .values()
                .for_each(|item| item.check_settled(checker));
        }
    }
}

struct StateSink<'a> {
    items: &'a mut BTreeMap<u32, Item>,
    checker: &'a mut AlarmChecker,
    ended: bool,
}

impl Sink for StateSink<'_> {
    fn wants(&self) -> bool {
        true
    }

    fn deliver(&mut self, delivery: &Delivery<'_>) {
        let Some(item) = self.items.get_mut(&delivery.variable.handle()) else {
            return;
        };
        let value = delivery.variable.sample_of(delivery.update).value;
        let Value::String(text) = value else {
            return;
        };
        item.receive(&text, delivery.lost.count(), self.checker);
    }

    fn overrun(&mut self, _subscription: u32, _items: &[EndedItem]) {
        self.ended = true;
    }

    fn gone(&mut self, _subscription: u32, handle: u32) {
        self.items.remove(&handle);
    }
}
