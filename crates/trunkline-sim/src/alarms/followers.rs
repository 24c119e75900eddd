//! Those who follow alarms: by the states as fields of their variables, and by the journal.

use std::collections::BTreeMap;

use trunkline_engine::{Caller, Consumer, Delivery, Engine, Sink, Subscribe, Wake, Wakes};
use trunkline_types::ledger::EndedItem;
use trunkline_types::{Contract, Value};

use super::checker::{AlarmChecker, Key};
use super::model::At;
use super::plan::{Follow, LIBRARY};

/// The subscription of every follower.
const SUBSCRIPTION: u32 = 1;

pub struct Unheard;

impl Wake for Unheard {
    fn wake(&self) {}
}

/// A subscriber of the states of all alarms.
#[derive(Debug)]
pub struct Follower {
    contract: Contract,
    consumer: Option<Consumer>,
    /// By handle of the field.
    items: BTreeMap<u32, Item>,
    /// The next entry of the journal that it wants.
    pub next: u64,
}

/// What it has of one alarm.
#[derive(Debug)]
struct Item {
    key: Key,
    /// Place of the state that it received last, in the history of the alarm.
    at: Option<usize>,
    /// Place of the oldest state that may come.
    from: usize,
    /// The alarm was replaced by another, so several states may have become one. The newest state
    /// comes all the same.
    is_merged: bool,
}

impl Follower {
    pub fn new(follow: Follow) -> Self {
        let contract = match follow {
            Follow::All(elements) => Contract::All {
                elements,
                bytes: 1 << 20,
            },
            Follow::Last(count) => Contract::Last(count),
        };
        Self {
            contract,
            consumer: None,
            items: BTreeMap::new(),
            next: 1,
        }
    }

    /// It has no connection any more.
    pub fn disconnect(&mut self) {
        self.consumer = None;
        self.items.clear();
    }

    /// Subscribes to the states of all alarms, unless it has.
    pub fn connect(&mut self, engine: &Engine, checker: &mut AlarmChecker, at: At) {
        if self.consumer.is_none() {
            let consumer = Consumer::service(engine.clone(), Box::new(Unheard));
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
            let wanted = Subscribe::new(SUBSCRIPTION, self.contract);
            if let Err(error) = consumer.subscribe(&caller, &field, wanted) {
                return checker.fail(|| format!("{name} cannot be followed: {error}"));
            }
            let from = checker
                .history
                .get(&key)
                .map_or(0, |states| states.len() - 1);
            let item = Item {
                key,
                at: None,
                from,
                is_merged: false,
            };
            self.items.insert(field.handle(), item);
        }
    }

    /// These alarms were replaced by others of the same name, or removed.
    pub fn replaced(&mut self, keys: &[Key]) {
        for item in self.items.values_mut() {
            if keys.contains(&item.key) {
                item.is_merged = true;
            }
        }
    }

    /// Takes everything that waits, and has it checked. With `is_settled`, nothing may be missing.
    pub fn take(&mut self, checker: &mut AlarmChecker, is_settled: bool) {
        let Some(consumer) = &mut self.consumer else {
            return;
        };
        let mut sink = Taken {
            items: &mut self.items,
            checker,
            ended: false,
        };
        let mut turns = 0;
        while consumer.drain(&mut sink, &mut Wakes::new()) && turns < 10_000 {
            turns += 1;
        }
        if sink.ended {
            // It did not keep up, and was told so. It begins again.
            checker.totals.overrun += 1;
            return self.disconnect();
        }
        for item in self.items.values_mut().filter(|item| item.is_merged) {
            let states = checker.history.get(&item.key);
            let newest = states.and_then(|states| Some((states.len() - 1, states.last()?)));
            let has = item.at.and_then(|at| states?.get(at));
            match (has, newest) {
                (Some(has), Some((at, state))) if has == state => {
                    (item.at, item.is_merged) = (Some(at), false);
                }
                (Some(has), _) => {
                    let (key, has, newest) = (item.key.clone(), *has, format!("{newest:?}"));
                    checker.fail(|| {
                        format!("SV-04: a subscriber of {key:?} has {has}, and not {newest}")
                    });
                }
                (None, _) => {}
            }
        }
        if is_settled {
            let alarms = checker.alarms();
            for item in self.items.values() {
                let is_there = |(variable, alarm, ..): &(String, String, _, _)| {
                    format!("{LIBRARY}/{variable}") == item.key.0 && *alarm == item.key.1
                };
                if !alarms.iter().any(is_there) {
                    continue;
                }
                let Some(states) = checker.history.get(&item.key) else {
                    continue;
                };
                let has = item.at.and_then(|at| states.get(at));
                let is_newest = item.at.is_some_and(|at| at + 1 == states.len());
                if has != states.last() || !is_newest {
                    let (key, states) = (item.key.clone(), format!("{states:?}"));
                    let at = item.at;
                    checker.fail(|| {
                        format!("SV-04: a subscriber of {key:?} has state {at:?} of {states}")
                    });
                }
            }
        }
    }
}

struct Taken<'a> {
    items: &'a mut BTreeMap<u32, Item>,
    checker: &'a mut AlarmChecker,
    ended: bool,
}

impl Sink for Taken<'_> {
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
        let lost = delivery.lost.count().unwrap_or(u64::MAX);
        let checker = &mut *self.checker;
        checker.totals.followed += 1;
        checker.totals.missed += lost;
        let states = checker
            .history
            .get(&item.key)
            .map_or(&[][..], |states| states);
        if text.is_empty() && item.is_merged {
            // There is no alarm of this name any more; there may be one again.
            (item.at, item.from) = (None, states.len().saturating_sub(1));
            return;
        }
        let has = |place: usize| {
            states
                .get(place)
                .is_some_and(|state| state.name() == &*text)
        };
        let place = match item.at {
            // The present state comes first.
            None => (item.from..states.len()).find(|place| has(*place)),
            Some(at) if item.is_merged => (at..states.len()).find(|place| has(*place)),
            Some(at) => Some(at + 1 + lost as usize).filter(|place| has(*place)),
        };
        match place {
            Some(place) => item.at = Some(place),
            None => {
                let (key, states) = (item.key.clone(), format!("{states:?}"));
                let at = item.at;
                checker.fail(|| {
                    format!(
                        "SV-04: a subscriber of {key:?} receives {text}, {lost} lost, after state \
                         {at:?} of {states}"
                    )
                });
            }
        }
    }

    fn overrun(&mut self, _subscription: u32, _items: &[EndedItem]) {
        self.ended = true;
    }

    fn gone(&mut self, _subscription: u32, handle: u32) {
        self.items.remove(&handle);
    }
}
