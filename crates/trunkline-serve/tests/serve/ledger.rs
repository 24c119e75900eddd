//! Random histories of writers, readers, slow networks, cuts and reconnections: whatever happens,
//! every update is accounted for at both ends, and both accounts are the same.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use trunkline_client::{Event, SubscribeOptions, SubscriptionId, VariableRef, Write};
use trunkline_types::{Contract, DataType, Value};

use crate::rig::{Pair, World, define, f64_variable};

const NAMES: [&str; 3] = ["rig/a", "rig/b", "rig/stall"];
/// A bound so low that it is reached, a buffer that overflows, and filters.
const SUBSCRIPTIONS: [(Contract, bool); 8] = [
    (Contract::Latest, false),
    (Contract::Latest, true),
    (Contract::Last(3), false),
    (Contract::Last(4), true),
    (Contract::First(3), false),
    (
        Contract::All {
            elements: 2,
            bytes: 1 << 20,
        },
        false,
    ),
    (
        Contract::All {
            elements: 1000,
            bytes: 1 << 20,
        },
        true,
    ),
    (Contract::Sampled(Duration::from_millis(20)), false),
];

#[derive(Clone, Debug)]
enum Step {
    /// A program in the engine's process writes.
    Set {
        variable: usize,
        value: u8,
    },
    /// A client writes.
    Write {
        client: usize,
        variable: usize,
        value: u8,
    },
    /// A client's program takes some of what waits.
    Take {
        client: usize,
        subscription: usize,
        events: usize,
    },
    /// Bytes move, or time passes.
    Exchange {
        client: usize,
    },
    Pass {
        client: usize,
        ms: u64,
    },
    /// The network takes nothing, or something again.
    Capacity {
        client: usize,
        bytes: usize,
    },
    Cut {
        client: usize,
    },
    Connect {
        client: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let client = 0..2_usize;
    let variable = 0..NAMES.len();
    let value = 0..3_u8;
    prop_oneof![
        8 => (variable.clone(), value.clone())
            .prop_map(|(variable, value)| Step::Set { variable, value }),
        4 => (client.clone(), variable, value)
            .prop_map(|(client, variable, value)| Step::Write { client, variable, value }),
        6 => (client.clone(), 0..SUBSCRIPTIONS.len(), 1..6_usize).prop_map(
            |(client, subscription, events)| Step::Take { client, subscription, events }
        ),
        6 => client.clone().prop_map(|client| Step::Exchange { client }),
        2 => (client.clone(), 1..100_u64).prop_map(|(client, ms)| Step::Pass { client, ms }),
        1 => (client.clone(), prop_oneof![Just(0_usize), Just(300), Just(64 << 10)])
            .prop_map(|(client, bytes)| Step::Capacity { client, bytes }),
        1 => client.clone().prop_map(|client| Step::Cut { client }),
        2 => client.prop_map(|client| Step::Connect { client }),
    ]
}

/// A client with one subscription of each kind, and what its program was told.
struct Program {
    pair: Pair,
    variables: Vec<VariableRef>,
    subscriptions: Vec<Subscription>,
}

struct Subscription {
    id: SubscriptionId,
    contract: Contract,
    only_changes: bool,
    /// Of each item: the last sequence its program was told.
    items: Vec<Option<u64>>,
    /// Updates received when the present session began.
    received_before: u64,
    /// It has ended under the present session, and the engine's account with it.
    has_ended: bool,
}

impl Program {
    fn new(world: &World) -> Self {
        let mut pair = Pair::on(world);
        let variables = NAMES.iter().map(|name| pair.variable(name)).collect();
        let subscribe = |(contract, only_changes): (Contract, bool)| Subscription {
            id: {
                let options = SubscribeOptions {
                    only_changes,
                    ..SubscribeOptions::default()
                };
                pair.subscribe_with(&NAMES, contract, options)
            },
            contract,
            only_changes,
            items: vec![None; NAMES.len()],
            received_before: 0,
            has_ended: false,
        };
        let subscriptions = SUBSCRIPTIONS.into_iter().map(subscribe).collect();
        Self {
            pair,
            variables,
            subscriptions,
        }
    }

    /// How many events were taken.
    fn take(&mut self, subscription: usize, events: usize) -> usize {
        let (now, _) = self.pair.world.time();
        let Self {
            pair,
            subscriptions,
            ..
        } = self;
        let subscription = &mut subscriptions[subscription];
        let waiting = std::iter::from_fn(|| pair.client.next_event(now, subscription.id));
        let taken: Vec<Event> = waiting.take(events).collect();
        let count = taken.len();
        taken
            .into_iter()
            .for_each(|event| subscription.check(event));
        count
    }

    fn connect(&mut self) {
        if self.pair.session.is_none() {
            for subscription in &mut self.subscriptions {
                let ledger = self.pair.client.ledger(subscription.id).unwrap();
                subscription.received_before = ledger.received;
                subscription.has_ended = false;
            }
            self.pair.connect();
        }
    }

    /// Everything is carried, taken and confirmed.
    fn drain(&mut self) {
        self.pair.capacity = 64 << 10;
        self.connect();
        // A bound of two lets two through per round.
        for round in 0.. {
            self.pair.settle();
            let taken = (0..SUBSCRIPTIONS.len())
                .map(|n| self.take(n, usize::MAX))
                .sum::<usize>();
            if taken == 0 {
                return;
            }
            assert!(round < 100, "there is always more");
        }
    }

    /// Nothing is on its way: both ends have the same to say.
    fn compare_accounts(&mut self) {
        let ledgers: Vec<BTreeMap<u32, _>> = self
            .variables
            .iter()
            .map(|variable| {
                let subscriptions = self.pair.info(*variable).subscriptions;
                subscriptions
                    .into_iter()
                    .map(|s| (s.terms.subscription, s.ledger))
                    .collect()
            })
            .collect();
        for subscription in &self.subscriptions {
            let wire = self.pair.client.wire_number(subscription.id).unwrap();
            let client = self.pair.client.ledger(subscription.id).unwrap();
            assert!(client.is_balanced() && client.waiting == 0, "{client:?}");
            let mut received = 0;
            for (item, name) in NAMES.iter().enumerate() {
                let engine = ledgers[item][&wire];
                assert!(engine.is_balanced(), "{engine:?}");
                assert_eq!(
                    (engine.waiting, engine.sent_unconfirmed),
                    (0, 0),
                    "{engine:?}"
                );
                received += engine.received;
                let current = self.pair.world.sequence(name);
                let last = subscription.items[item].expect("it has had its first reading");
                assert_eq!(last, current, "{} of {name}", subscription.contract);
            }
            if !subscription.has_ended {
                assert_eq!(
                    received,
                    client.received - subscription.received_before,
                    "{}: the engine counts other updates as received than the client",
                    subscription.contract,
                );
            }
        }
        let writes = self.pair.client.write_counts();
        let ended = writes.applied + writes.unchanged + writes.refused + writes.unknown;
        assert_eq!(writes.issued, ended, "{writes:?}");
    }
}

impl Subscription {
    fn check(&mut self, event: Event) {
        self.has_ended |= matches!(event, Event::Ended { .. });
        let Event::Reading { item, reading } = event else {
            return;
        };
        let item = item as usize;
        let (sequence, lost) = (reading.position.sequence, reading.lost);
        assert!(!lost.unknown, "the loss is known within an epoch");
        let Some(before) = self.items[item].replace(sequence) else {
            return;
        };
        assert!(sequence > before, "{sequence} after {before}");
        let gap = sequence - before - 1;
        let told = lost.coalesced + lost.queue + lost.overrun + lost.disconnect;
        match self.only_changes {
            // What is not told was filtered.
            true => assert!(told <= gap, "{lost:?} in a gap of {gap}"),
            false => assert_eq!(told, gap, "{}: {lost:?}", self.contract),
        }
    }
}

fn run(steps: Vec<Step>) {
    let stall = |p: &mut trunkline_types::Properties| p.stall = Duration::from_millis(30);
    let variables = vec![
        f64_variable("a"),
        f64_variable("b"),
        define("stall", DataType::F64, stall),
    ];
    let world = World::with_library("rig", variables);
    NAMES.iter().for_each(|name| world.set(name, 0.0));
    let mut programs = [Program::new(&world), Program::new(&world)];
    for step in steps {
        match step {
            Step::Set { variable, value } => {
                let value = Value::F64(f64::from(value));
                world.try_write(NAMES[variable], &trunkline_engine::Write::value(&value));
            }
            Step::Write {
                client,
                variable,
                value,
            } => {
                let program = &mut programs[client];
                let value = Value::F64(f64::from(value));
                let write = Write::new(program.variables[variable], value);
                program.pair.client.write_untracked([write]).unwrap();
            }
            Step::Take {
                client,
                subscription,
                events,
            } => {
                let _taken = programs[client].take(subscription, events);
            }
            Step::Exchange { client } => programs[client].pair.exchange(),
            Step::Pass { client, ms } => programs[client].pair.pass(Duration::from_millis(ms)),
            Step::Capacity { client, bytes } => programs[client].pair.capacity = bytes,
            Step::Cut { client } => programs[client].pair.cut(),
            Step::Connect { client } => programs[client].connect(),
        }
    }
    // What one still waits for may be what the other takes.
    for _ in 0..2 {
        programs.iter_mut().for_each(|program| {
            program.pair.capacity = 64 << 10;
            program.connect();
            program.pair.pass(Duration::from_secs(1));
        });
    }
    programs.iter_mut().for_each(Program::drain);
    // One more of each, which every filter lets pass: the gap before it is accounted for too.
    for name in NAMES {
        world.set(name, 100.0);
        programs.iter_mut().for_each(Program::drain);
    }
    programs.iter_mut().for_each(Program::compare_accounts);
    for name in NAMES {
        let variable = world
            .engine()
            .resolve(&world.caller(), name)
            .unwrap()
            .clone();
        assert!(variable.ledger().is_balanced());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Behaviour: B-02, B-03.
    #[test]
    fn every_update_is_accounted_for_at_both_ends(
        steps in proptest::collection::vec(step(), 1..120),
    ) {
        run(steps);
    }
}
