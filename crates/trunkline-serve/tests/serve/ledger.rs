//! Tests the ledgers with random sequences of writes, reads, slow networks, cuts at any byte, reconnections
//! and engine restarts. Both ends account for every write and every update. Whenever no data is in flight,
//! both accounts are equal.
//!
//! One variable lets writers wait, one has a deadband and a range, and one is an alias. Some variables are
//! forced for a time, written in groups or written as `newest`. One of the programs gathers its output
//! (throughput mode).

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use trunkline_client::{
    ClientOptions, Event, SubscribeOptions, SubscriptionId, VariableRef, Write,
};
use trunkline_engine::WriteVerb;
use trunkline_proto::ThroughputMode;
use trunkline_serve::ServeOptions;
use trunkline_types::{Contract, DataType, Position, Properties, Tick, Value, VariableDefinition};

use crate::rig::{Pair, World, client_options, define, f64_variable};

const NAMES: [&str; 5] = ["rig/a", "rig/b", "rig/stall", "rig/dead", "rig/alias"];
/// A value that every variable with a range refuses.
const TOO_MUCH: u8 = 200;
/// The contracts: a bound that is low enough to be reached, a buffer that overflows, and filters.
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
        newest: bool,
    },
    /// A client writes several variables as a group.
    Group {
        client: usize,
        value: u8,
    },
    /// A program in the engine's process forces a variable to a value, or ends the forcing.
    Force {
        on: bool,
    },
    /// A client's program reads some of the pending events.
    Take {
        client: usize,
        subscription: usize,
        events: usize,
    },
    /// Bytes pass, or time passes.
    Exchange {
        client: usize,
    },
    Pass {
        client: usize,
        ms: u64,
    },
    /// The network accepts no bytes, or accepts bytes again.
    Capacity {
        client: usize,
        bytes: usize,
    },
    Cut {
        client: usize,
    },
    /// The connection breaks after this number of further bytes in each direction.
    CutAfter {
        client: usize,
        to_engine: usize,
        to_client: usize,
    },
    /// The engine restarts with another epoch.
    Restart,
    /// All data of this client arrives. Both ends must then have the same account.
    Quiet {
        client: usize,
    },
    Connect {
        client: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let client = 0..2_usize;
    let variable = 0..NAMES.len();
    let value = prop_oneof![12 => 0..3_u8, 1 => Just(TOO_MUCH)];
    let bytes = prop_oneof![0..100_usize, 0..3000_usize];
    prop_oneof![
        8 => (variable.clone(), value.clone())
            .prop_map(|(variable, value)| Step::Set { variable, value }),
        4 => (client.clone(), variable, value.clone(), any::<bool>()).prop_map(
            |(client, variable, value, newest)| Step::Write { client, variable, value, newest }
        ),
        1 => (client.clone(), value).prop_map(|(client, value)| Step::Group { client, value }),
        1 => any::<bool>().prop_map(|on| Step::Force { on }),
        6 => (client.clone(), 0..SUBSCRIPTIONS.len(), 1..6_usize).prop_map(
            |(client, subscription, events)| Step::Take { client, subscription, events }
        ),
        6 => client.clone().prop_map(|client| Step::Exchange { client }),
        2 => (client.clone(), 1..100_u64).prop_map(|(client, ms)| Step::Pass { client, ms }),
        1 => (client.clone(), prop_oneof![Just(0_usize), Just(300), Just(64 << 10)])
            .prop_map(|(client, bytes)| Step::Capacity { client, bytes }),
        1 => client.clone().prop_map(|client| Step::Cut { client }),
        1 => (client.clone(), bytes.clone(), bytes).prop_map(
            |(client, to_engine, to_client)| Step::CutAfter { client, to_engine, to_client }
        ),
        1 => Just(Step::Restart),
        1 => client.clone().prop_map(|client| Step::Quiet { client }),
        2 => client.prop_map(|client| Step::Connect { client }),
    ]
}

/// A client with one subscription of each kind, and the events that its program has received.
struct Program {
    pair: Pair,
    variables: Vec<VariableRef>,
    subscriptions: Vec<Subscription>,
}

struct Subscription {
    id: SubscriptionId,
    contract: Contract,
    only_changes: bool,
    /// The last position that was delivered to the program, by item.
    items: Vec<Option<Position>>,
    /// The position of each item when the subscription was created.
    began: Vec<Option<Position>>,
    /// Number of updates that had been received when the current session began.
    received_before: u64,
    /// True if the subscription has ended in the current session, and the engine's account with it.
    has_ended: bool,
}

impl Program {
    fn new(world: &World, throughput_mode: Option<ThroughputMode>) -> Self {
        let options = ClientOptions {
            throughput_mode,
            ..client_options()
        };
        let mut pair = Pair::offline(world, ServeOptions::default(), options);
        pair.gathers = throughput_mode.is_some();
        pair.connect();
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
            began: Vec::new(),
            items: vec![None; NAMES.len()],
            received_before: 0,
            has_ended: false,
        };
        let mut subscriptions: Vec<_> = SUBSCRIPTIONS.into_iter().map(subscribe).collect();
        pair.pass(Duration::from_millis(100));
        for subscription in &mut subscriptions {
            let position = |item| pair.client.item(subscription.id, item).unwrap().position;
            subscription.began = (0..NAMES.len() as u32).map(position).collect();
        }
        Self {
            pair,
            variables,
            subscriptions,
        }
    }

    /// Returns the number of events taken.
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

    /// Passes, takes and confirms all data.
    fn drain(&mut self) {
        self.pair.capacity = 64 << 10;
        self.connect();
        // A bound of two lets two updates pass per round.
        for round in 0.. {
            self.pair.settle();
            if self.pair.session.is_none() {
                // The time that passed for the other client exceeded this client's deadline.
                self.connect();
                continue;
            }
            let taken = (0..SUBSCRIPTIONS.len())
                .map(|n| self.take(n, usize::MAX))
                .sum::<usize>();
            if taken == 0 {
                return;
            }
            assert!(round < 100, "there is always more");
        }
    }

    /// Called when no data is in flight. Checks that both ends have the same account.
    fn compare_accounts(&mut self, is_end: bool) {
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
            subscription.check_account(&self.pair);
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
                let epoch = self.pair.world.engine().epoch();
                // A filter may hold back the last updates before the end, or a buffer may have no room for
                // them.
                let drops_newest = matches!(subscription.contract, Contract::First(_));
                let is_held_back = !is_end && (subscription.only_changes || drops_newest);
                assert!(
                    (last.epoch, last.sequence) == (epoch, current) || is_held_back,
                    "{} of {name}",
                    subscription.contract
                );
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
        let applied = writes.applied + writes.unchanged + writes.superseded;
        let not_applied = writes.refused + writes.would_block + writes.cancelled;
        let ended = applied + not_applied + writes.unknown;
        assert_eq!(writes.issued, ended, "{writes:?}");
    }
}

impl Subscription {
    /// Checks that the client counts exactly the updates since the last check as received or missed.
    fn check_account(&self, pair: &Pair) {
        let account = pair.client.account(self.id).unwrap();
        let (mut numbered, epoch) = (0, pair.world.engine().epoch());
        for (item, began) in self.began.iter().enumerate() {
            let began = began.expect("it had its first reading");
            let last = pair
                .client
                .item(self.id, item as u32)
                .unwrap()
                .position
                .unwrap();
            if (began.epoch, last.epoch) != (epoch, epoch) {
                assert!(account.missed.unknown || last.epoch != epoch, "{account:?}");
                return;
            }
            numbered += last.sequence - began.sequence;
        }
        let missed = account.missed;
        assert!(!missed.unknown, "{account:?}");
        let known = missed.coalesced + missed.queue + missed.overrun + missed.disconnect;
        let told = account.ledger.received - NAMES.len() as u64 + known;
        match self.only_changes {
            // The remaining updates were filtered.
            true => assert!(told <= numbered, "{}: {account:?}", self.contract),
            false => assert_eq!(told, numbered, "{}: {account:?}", self.contract),
        }
    }

    fn check(&mut self, event: Event) {
        self.has_ended |= matches!(event, Event::Ended { .. });
        let Event::Reading { item, reading } = event else {
            return;
        };
        let item = item as usize;
        let (sequence, lost) = (reading.position.sequence, reading.lost);
        let Some(before) = self.items[item].replace(reading.position) else {
            return;
        };
        if before.epoch != reading.position.epoch {
            assert!(lost.unknown, "nobody can count across epochs: {lost:?}");
            return;
        }
        assert!(!lost.unknown, "the loss is known within an epoch");
        let before = before.sequence;
        assert!(sequence > before, "{sequence} after {before}");
        let gap = sequence - before - 1;
        let told = lost.coalesced + lost.queue + lost.overrun + lost.disconnect;
        match self.only_changes {
            // The unreported ones were filtered.
            true => assert!(told <= gap, "{lost:?} in a gap of {gap}"),
            false => assert_eq!(told, gap, "{}: {lost:?}", self.contract),
        }
    }
}

/// Returns the variables that are deployed at every start.
fn library() -> Vec<VariableDefinition> {
    vec![
        f64_variable("a"),
        f64_variable("b"),
        define("stall", DataType::F64, |p: &mut Properties| {
            p.stall = Duration::from_millis(30);
        }),
        define("dead", DataType::F64, |p: &mut Properties| {
            p.range = Some((0.0, 150.0));
            p.deadband.user_percent = 1.0;
        }),
        define("alias", DataType::F64, |p: &mut Properties| {
            p.alias = "rig/a".to_owned();
        }),
    ]
}

fn force(world: &World, on: bool) {
    let value = Value::F64(50.0);
    let mut write = trunkline_engine::Write::value(&value);
    write.verb = if on {
        WriteVerb::Force
    } else {
        WriteVerb::Unforce
    };
    world.try_write("rig/b", &write);
}

/// Checks the outcome of every write to the engine.
fn check_variables(world: &World) {
    for name in NAMES {
        let engine = world.engine();
        let variable = engine.resolve(&world.caller(), name).unwrap();
        let ledger = variable.ledger();
        assert!(ledger.is_balanced(), "{name}: {ledger:?}");
    }
}

fn run(steps: Vec<Step>) {
    let world = World::with_library("rig", library());
    NAMES.iter().for_each(|name| world.set(name, 0.0));
    let mut programs = [
        Program::new(&world, None),
        Program::new(&world, Some(ThroughputMode::DEFAULT)),
    ];
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
                newest,
            } => {
                let program = &mut programs[client];
                let (variable, value) = (program.variables[variable], Value::F64(f64::from(value)));
                let write = match newest {
                    true => Write::newest(variable, value),
                    false => Write::new(variable, value),
                };
                program
                    .pair
                    .client
                    .write_untracked([write], Tick::MAX)
                    .unwrap();
            }
            Step::Group { client, value } => {
                let program = &mut programs[client];
                let value = Value::F64(f64::from(value));
                // Exclude the alias, because its target is already in the group.
                let members = program.variables[..4].iter();
                let writes = members.map(|v| Write::new(*v, value.clone())).collect();
                let request = program.pair.client.write_group(writes, true).unwrap();
                program.pair.client.forget(request);
            }
            Step::Force { on } => force(&world, on),
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
            Step::CutAfter {
                client,
                to_engine,
                to_client,
            } => programs[client].pair.cut_after(to_engine, to_client),
            Step::Restart => {
                programs.iter_mut().for_each(|program| program.pair.cut());
                world.restart();
                world.deploy("rig", library());
                NAMES.iter().for_each(|name| world.set(name, 0.0));
            }
            Step::Quiet { client } => {
                programs[client].drain();
                programs[client].compare_accounts(false);
            }
            Step::Connect { client } => programs[client].connect(),
        }
        check_variables(&world);
        for program in &programs {
            for subscription in &program.subscriptions {
                let ledger = program.pair.client.ledger(subscription.id).unwrap();
                assert!(ledger.is_balanced(), "{ledger:?}");
            }
        }
    }
    force(&world, false);
    // One client may wait until another client makes room.
    for _ in 0..2 {
        programs.iter_mut().for_each(|program| {
            program.pair.capacity = 64 << 10;
            program.connect();
            program.pair.pass(Duration::from_secs(1));
        });
    }
    programs.iter_mut().for_each(Program::drain);
    // Write each variable once more with a value that passes every filter, so that earlier gaps are reported.
    for (name, value) in NAMES.into_iter().zip(100_u8..) {
        world.set(name, f64::from(value));
        programs.iter_mut().for_each(Program::drain);
    }
    programs
        .iter_mut()
        .for_each(|program| program.compare_accounts(true));
    check_variables(&world);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 96,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Behaviour: B-02, B-03.
    #[test]
    fn every_update_is_accounted_for_at_both_ends(
        steps in proptest::collection::vec(step(), 1..120),
    ) {
        run(steps);
    }
}
