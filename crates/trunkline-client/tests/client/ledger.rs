//! The client's side of the ledger, after any events: every update is accounted for, and the losses
//! in readings are the real ones.

use std::collections::BTreeMap;

use proptest::prelude::*;

use trunkline_client::{Batch, ClientCore, ClientOptions, Event, SubscriptionId};
use trunkline_types::{Position, Reading, Tick, Value};

use super::rig::{Rig, write};

const NAMES: [&str; 3] = ["a/b", "a/c", "a/d"];
const CONTRACTS: [&str; 6] = [
    "latest",
    "latest",
    "last:3",
    "first:2",
    "all:6",
    "sampled:1s",
];

#[derive(Clone, Debug)]
enum Step {
    Set(usize),
    Burst(usize, u8),
    Take(usize),
    TakeAll(usize),
    TakeBatch(usize, usize),
    ReadNew(usize, u32),
    Write(usize),
    Reconnect,
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let (name, contract) = (0..NAMES.len(), 0..CONTRACTS.len());
    prop_oneof![
        8 => name.clone().prop_map(Step::Set),
        2 => (name.clone(), 2u8..12).prop_map(|(name, count)| Step::Burst(name, count)),
        6 => contract.clone().prop_map(Step::Take),
        2 => contract.clone().prop_map(Step::TakeAll),
        2 => (contract.clone(), 1usize..5)
            .prop_map(|(contract, most)| Step::TakeBatch(contract, most)),
        2 => (contract, 0u32..3).prop_map(|(contract, item)| Step::ReadNew(contract, item)),
        2 => name.prop_map(Step::Write),
        1 => Just(Step::Reconnect),
        1 => Just(Step::Restart),
    ]
}

/// The state of one item according to its readings so far.
#[derive(Default)]
struct Seen {
    last: Option<Position>,
}

impl Seen {
    /// Checks a reading against the previous one: no update is duplicated or reordered, and every
    /// gap is explained.
    fn check(&mut self, reading: &Reading) -> Result<(), TestCaseError> {
        let Some(last) = self.last.replace(reading.position) else {
            return Ok(());
        };
        if last.epoch != reading.position.epoch {
            prop_assert!(reading.lost.unknown, "{reading:?} after {last:?}");
            return Ok(());
        }
        prop_assert!(
            last.sequence < reading.position.sequence,
            "{reading:?} after {last:?}"
        );
        let gap = reading.position.sequence - last.sequence - 1;
        let lost = reading.lost;
        prop_assert!(!lost.unknown, "{reading:?} after {last:?}");
        prop_assert_eq!(lost.coalesced + lost.count().unwrap(), gap, "{:?}", reading);
        Ok(())
    }
}

struct World {
    rig: Rig,
    subscriptions: Vec<SubscriptionId>,
    seen: BTreeMap<(usize, u32), Seen>,
}

impl World {
    fn new(budget: usize) -> Self {
        let mut rig = Rig::with(ClientOptions {
            seed: 1,
            window_records: 8,
            ..Default::default()
        });
        rig.budget = budget;
        for name in NAMES {
            rig.engine.add(name, Value::F64(0.0));
        }
        rig.connect();
        let subscriptions = CONTRACTS
            .map(|contract| rig.subscribe(&NAMES, contract))
            .to_vec();
        Self {
            rig,
            subscriptions,
            seen: BTreeMap::new(),
        }
    }

    fn apply(&mut self, step: &Step) -> Result<(), TestCaseError> {
        let rig = &mut self.rig;
        match step {
            Step::Set(name) => rig.set(NAMES[*name], 1.0),
            Step::Burst(name, count) => {
                for _ in 0..*count {
                    rig.engine.set(NAMES[*name], 2.0);
                }
                rig.exchange();
            }
            Step::Take(index) => {
                let event = rig.client.next_event(rig.now, self.subscriptions[*index]);
                self.rig.exchange();
                self.check(*index, event)?;
            }
            Step::TakeAll(index) => {
                for event in rig.events(self.subscriptions[*index]) {
                    self.check(*index, Some(event))?;
                }
            }
            Step::TakeBatch(index, most) => {
                for event in take_batch(rig, self.subscriptions[*index], *most) {
                    self.check(*index, Some(event))?;
                }
            }
            Step::ReadNew(index, item) => {
                let reading = rig
                    .client
                    .read_new(rig.now, self.subscriptions[*index], *item);
                let item = *item;
                let event = reading.map(|reading| Event::Reading { item, reading });
                self.rig.exchange();
                self.check(*index, event)?;
            }
            Step::Write(name) => {
                let variable = rig
                    .client
                    .item(self.subscriptions[0], *name as u32)
                    .unwrap();
                rig.client
                    .write_untracked([write(variable.variable, 3.0)], Tick::MAX)
                    .unwrap();
                rig.exchange();
                let handle = rig.engine.handle_of(NAMES[*name]);
                let ids: Vec<u32> = rig.engine.subscriptions.keys().copied().collect();
                ids.iter()
                    .for_each(|id| rig.engine.send_current(*id, handle));
                rig.exchange();
            }
            Step::Reconnect => rig.reconnect(),
            Step::Restart => {
                rig.engine.welcome.epoch += 1;
                rig.engine
                    .variables
                    .iter_mut()
                    .for_each(|variable| variable.sequence = 1);
                rig.reconnect();
            }
        }
        for id in &self.subscriptions {
            let ledger = self.rig.client.ledger(*id).unwrap();
            prop_assert!(ledger.is_balanced(), "{ledger:?} after {step:?}");
        }
        let counts = self.rig.client.write_counts();
        prop_assert_eq!(
            counts.issued,
            counts.applied + counts.waiting + counts.in_flight
        );
        Ok(())
    }

    fn check(&mut self, index: usize, event: Option<Event>) -> Result<(), TestCaseError> {
        let Some(Event::Reading { item, reading }) = event else {
            return Ok(());
        };
        self.seen.entry((index, item)).or_default().check(&reading)
    }
}

/// A batch of at most this many readings, as events.
fn take_batch(rig: &mut Rig, id: SubscriptionId, most: usize) -> Vec<Event> {
    let mut batch = Batch::new();
    rig.client.take_batch(rig.now, id, most, &mut batch);
    rig.exchange();
    assert!(batch.readings().len() <= most);
    let readings = batch.readings().iter().map(|reading| Event::Reading {
        item: reading.item(),
        reading: reading.to_reading(),
    });
    readings.chain(batch.event().cloned()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Single calls, lists and batches return the same events in the same order.
    #[test]
    fn however_they_are_taken_they_are_the_same_events(
        steps in prop::collection::vec(step(), 1..60),
        most in 1usize..6,
    ) {
        let [mut one_by_one, mut in_lists, mut in_batches] = [(); 3].map(|()| World::new(4000));
        for step in &steps {
            for world in [&mut one_by_one, &mut in_lists, &mut in_batches] {
                world.apply(step)?;
            }
        }
        for index in 0..CONTRACTS.len() {
            let id = one_by_one.subscriptions[index];
            let expected = one_by_one.rig.events(id);
            let (mut listed, mut batched) = (Vec::new(), Vec::new());
            let rig = &mut in_lists.rig;
            while rig.client.take_events(rig.now, id, most, &mut listed) > 0 {
                rig.exchange();
            }
            loop {
                let events = take_batch(&mut in_batches.rig, id, most);
                if events.is_empty() {
                    break;
                }
                batched.extend(events);
            }
            prop_assert_eq!(&listed[..expected.len()], &expected);
            prop_assert_eq!(&batched, &listed);
        }
    }

    /// received = taken + coalesced + dropped + waiting, at every moment; and gaps are explained
    /// exactly.
    #[test]
    fn every_update_is_accounted_for(
        steps in prop::collection::vec(step(), 1..120),
        budget in 1usize..4000,
    ) {
        let mut world = World::new(budget);
        for step in &steps {
            world.apply(step)?;
        }
        // In the end, every client has the newest value of each variable.
        for index in 0..CONTRACTS.len() {
            for _ in 0..3 {
                world.apply(&Step::TakeAll(index))?;
            }
        }
        for (name, item) in NAMES.iter().zip(0..) {
            let handle = world.rig.engine.handle_of(name);
            let newest = world.rig.engine.variable(handle).sequence;
            for (index, id) in world.subscriptions.iter().enumerate() {
                let seen = world.seen[&(index, item)].last.unwrap();
                let position = world.rig.client.item(*id, item).unwrap().position.unwrap();
                prop_assert_eq!(position.sequence, newest);
                if CONTRACTS[index] != "first:2" {
                    prop_assert_eq!(seen.sequence, newest, "{} {}", CONTRACTS[index], name);
                }
            }
        }
    }

    /// The same inputs give the same outputs, byte for byte: the simulator needs this to replay a
    /// run.
    #[test]
    fn a_run_can_be_replayed_bit_for_bit(steps in prop::collection::vec(step(), 1..60)) {
        let run = || {
            let mut world = World::new(1000);
            let mut log = Vec::new();
            for step in &steps {
                world.apply(step).unwrap();
                log.append(&mut world.rig.engine.said);
            }
            format!("{log:?}")
        };
        prop_assert_eq!(run(), run());
    }
}

/// The client can be moved to another thread: a driver may run it anywhere.
#[test]
fn a_client_can_move_between_threads() {
    fn is_send<T: Send>() {}
    is_send::<ClientCore>();
}
