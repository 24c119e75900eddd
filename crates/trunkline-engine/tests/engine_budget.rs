//! The limit on the bytes queued for all consumers of an engine together.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]
#![cfg(not(shuttle))]

mod rig;

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use rig::{Bell, ConsumerEvent, Rig, applied, balanced, define, drain, drain_some, updates};
use trunkline_engine::{
    AccessError, Attempt, Consumer, Subscribe, Variable, Wakes, Write, WriteOutcome,
};
use trunkline_types::{Contract, DataType, Properties, Value};

const STALL: Duration = Duration::from_millis(500);
const ALL: Contract = Contract::All {
    elements: 1_000_000,
    bytes: u32::MAX,
};
/// Bytes that a consumer may always queue.
const FLOOR: usize = 64 << 10;
const MAX: usize = 1 << 20;
/// Length of a text of which ten fill a consumer's floor, and about 160 the engine's budget.
const LONG: usize = 6000;

fn text(path: &str, stall: Duration) -> trunkline_types::VariableDefinition {
    let mut properties = Properties::new(DataType::String);
    properties.stall = stall;
    define(path, properties)
}

fn long() -> Value {
    Value::String("x".repeat(LONG).into())
}

fn bounded() -> (Rig, Arc<Variable>, Arc<Variable>) {
    let variables = vec![text("x", Duration::ZERO), text("y", STALL)];
    let rig = Rig::bounded(MAX, variables);
    let (x, y) = (rig.variable("rig/x"), rig.variable("rig/y"));
    (rig, x, y)
}

fn used(rig: &Rig) -> u64 {
    rig.engine
        .health()
        .queue_memory()
        .expect("the engine's memory is bounded")
        .used
}

/// Writes until the engine has no bytes left for `stopped`, which takes no updates.
fn fill(rig: &Rig, variable: &Variable, stopped: &Consumer, id: u32) {
    for _ in 0..2 * MAX / LONG {
        assert!(matches!(
            rig.attempt(variable, &Write::value(&long())),
            Attempt::Done(WriteOutcome::Applied(_))
        ));
        if rig.engine.health().queue_memory().unwrap().refusals > 0 {
            break;
        }
    }
    let _ledger = balanced(stopped, id, variable);
}

/// Behaviour: B-06.
///
/// Pending updates of stalled consumers are bounded for the whole engine: their subscriptions end
/// as at their own bound, and other consumers continue unaffected.
#[test]
fn engine_budget_is_bounded_and_does_not_affect_fast_consumers() {
    let (rig, x, _) = bounded();
    let mut live: Vec<Consumer> = (0..9).map(|_| rig.consumer()).collect();
    live.iter_mut().for_each(|one| {
        rig.subscribe(one, 1, ALL, &x);
        drain(one);
    });
    let mut stopped = rig.consumer();
    rig.subscribe(&mut stopped, 1, ALL, &x);
    for number in 1..=1000 {
        let outcome = rig.attempt(&x, &Write::value(&long()));
        assert_eq!(outcome, Attempt::Done(applied(number)), "no writer waits");
        for one in &mut live {
            assert_eq!(updates(one).len(), 1, "each consumer gets each update");
        }
        assert!(used(&rig) <= (MAX + 10 * FLOOR) as u64, "{}", used(&rig));
    }
    let ledger = balanced(&stopped, 1, &x);
    assert!(ledger.dropped_overrun > 800, "{ledger:?}");
    // The subscription ended at its bound, and the reported losses are exact.
    let events = drain(&mut stopped);
    let lost = events.iter().find_map(|event| match event {
        ConsumerEvent::Overrun { items, .. } => Some(items[0].lost),
        _ => None,
    });
    assert_eq!(lost, Some(ledger.dropped_overrun));
    drop(stopped);
    assert!(used(&rig) <= 9 * 8192, "bytes still in use: {}", used(&rig));
}

/// Behaviour: B-05, B-06.
#[test]
fn full_engine_refuses_new_buffers_until_there_is_room() {
    let (rig, x, _) = bounded();
    let mut stopped = rig.consumer();
    rig.subscribe(&mut stopped, 1, ALL, &x);
    drain(&mut stopped);
    fill(&rig, &x, &stopped, 1);
    let mut late = rig.consumer();
    let mut subscribe =
        |id, contract| late.subscribe(&rig.caller, &x, Subscribe::new(id, contract));
    for (id, contract) in [(1, ALL), (2, Contract::First(5)), (3, Contract::Last(5))] {
        let refused = subscribe(id, contract).expect_err("there is no room");
        assert_eq!(refused, AccessError::MemoryFull { max: MAX as u64 });
        let sentence = refused.to_string();
        assert!(sentence.contains("slow subscribers") && sentence.contains("queue_bytes_max"));
    }
    subscribe(4, Contract::Latest).expect("`latest` needs no buffer");
    drain(&mut stopped);
    subscribe(1, ALL).expect("there is room again");
    assert!(rig.engine.health().queue_memory().unwrap().refusals >= 4);
}

/// Behaviour: B-05, B-08.
///
/// With `stall`, a write that finds the engine's bytes used up waits without a sequence, and is
/// woken when another consumer releases some.
#[test]
fn writer_without_engine_budget_is_woken_when_a_consumer_reads() {
    let (rig, x, y) = bounded();
    let (mut hog, mut slow) = (rig.consumer(), rig.consumer());
    rig.subscribe(&mut hog, 1, ALL, &x);
    rig.subscribe(&mut slow, 1, ALL, &y);
    drain(&mut hog);
    drain(&mut slow);
    // The consumer keeps its floor even when the other one has used all other bytes.
    fill(&rig, &x, &hog, 1);
    let floor = FLOOR / (LONG + 64 + 8);
    for number in 1..=floor {
        assert_eq!(
            rig.attempt(&y, &Write::value(&long())),
            Attempt::Done(applied(number as u64))
        );
    }
    let before = (y.sequence(), y.ledger().offered);
    assert!(matches!(
        rig.attempt(&y, &Write::value(&long())),
        Attempt::WouldBlock { .. }
    ));
    assert_eq!(
        (y.sequence(), y.ledger().offered),
        before,
        "a waiting write is not counted yet"
    );
    let bell = Bell::default();
    let writer = Consumer::new(rig.engine.clone(), Box::new(bell.clone()));
    assert!(writer.wait_for_room(&y));
    assert_eq!(bell.rings(), 0);
    drain(&mut hog);
    assert_eq!(bell.rings(), 1);
    assert!(matches!(
        rig.attempt(&y, &Write::value(&long())),
        Attempt::Done(WriteOutcome::Applied(_))
    ));
    assert_eq!(balanced(&slow, 1, &y).dropped_overrun, 0);
}

/// Behaviour: B-06.
#[test]
fn last_n_buffers_shrink_and_count_when_the_engine_is_full() {
    let (rig, x, _) = bounded();
    let mut consumer = rig.consumer();
    rig.subscribe(&mut consumer, 1, Contract::Last(1_000_000), &x);
    drain(&mut consumer);
    for _ in 0..1000 {
        rig.attempt(&x, &Write::value(&long()));
    }
    assert!(used(&rig) <= MAX as u64, "{}", used(&rig));
    let ledger = balanced(&consumer, 1, &x);
    assert!(ledger.dropped_queue > 800, "{ledger:?}");
    assert!(ledger.waiting > 100, "{ledger:?}");
    assert_eq!(updates(&mut consumer).len() as u64, ledger.waiting);
    consumer.unsubscribe(1, None, &mut Wakes::new());
    assert_eq!(used(&rig), 0);
}

#[derive(Clone, Debug)]
enum Step {
    Write(usize, usize),
    Subscribe(usize, usize, u32),
    Unsubscribe(usize, u32),
    Take(usize, usize),
    Advance,
    Drop(usize),
}

const SUBSCRIPTIONS: [Contract; 4] = [
    ALL,
    Contract::First(9),
    Contract::Last(30),
    Contract::Latest,
];

fn step() -> impl Strategy<Value = Step> {
    let id = 0..SUBSCRIPTIONS.len() as u32;
    prop_oneof![
        12 => (0..2usize, 0..40_000usize).prop_map(|(x, length)| Step::Write(x, length)),
        4 => (0..3usize, 0..2usize, id.clone()).prop_map(|(c, x, id)| Step::Subscribe(c, x, id)),
        1 => (0..3usize, id).prop_map(|(c, id)| Step::Unsubscribe(c, id)),
        3 => (0..3usize, 0..6usize).prop_map(|(c, count)| Step::Take(c, count)),
        1 => Just(Step::Advance),
        1 => (0..3usize).prop_map(Step::Drop),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 128,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Behaviour: B-02, B-06.
    #[test]
    fn engine_stays_within_its_bound_and_gets_all_bytes_back(
        steps in proptest::collection::vec(step(), 1..150),
    ) {
        let max = 400_000;
        let variables = vec![text("x", Duration::ZERO), text("y", STALL)];
        let rig = Rig::bounded(max, variables);
        let variables = [rig.variable("rig/x"), rig.variable("rig/y")];
        let mut consumers: Vec<Consumer> = (0..3)
            .map(|_| rig.consumer().queue_bytes_max(200_000))
            .collect();
        for step in steps {
            match step {
                Step::Write(x, length) => {
                    let value = Value::String("x".repeat(length).into());
                    rig.attempt(&variables[x], &Write::value(&value));
                }
                Step::Subscribe(c, x, id) => {
                    let contract = SUBSCRIPTIONS[id as usize];
                    let made = consumers[c]
                        .subscribe(&rig.caller, &variables[x], Subscribe::new(id, contract));
                    let is_fair = matches!(made, Ok(()) | Err(AccessError::MemoryFull { .. }));
                    prop_assert!(is_fair);
                }
                Step::Unsubscribe(c, id) => {
                    consumers[c].unsubscribe(id, None, &mut Wakes::new());
                }
                Step::Take(c, count) => {
                    drain_some(&mut consumers[c], count);
                }
                Step::Advance => rig.advance(STALL),
                Step::Drop(c) => consumers[c] = rig.consumer().queue_bytes_max(200_000),
            }
            // In addition to the bound, each consumer may use its floor, and each buffer one update
            // of any length.
            let beside = 3 * (FLOOR + 45_000) + 4 * 45_000;
            prop_assert!(used(&rig) <= (max + beside) as u64, "{}", used(&rig));
            let pairs = consumers
                .iter()
                .flat_map(|c| variables.iter().map(move |x| (c, x)));
            for (consumer, x) in pairs {
                for (id, _) in consumer.subscriptions_of(x.handle()) {
                    let ledger = consumer.ledger(id, x.handle()).unwrap();
                    prop_assert!(ledger.is_balanced(), "{ledger:?}");
                }
            }
        }
        drop(consumers);
        prop_assert_eq!(used(&rig), 0);
    }
}

/// Behaviour: B-02, B-06.
///
/// Writers on separate threads borrow and return bytes while consumers read: no byte is lent twice
/// or lost.
#[test]
fn bytes_lent_to_many_threads_are_all_returned() {
    const WRITES: usize = 20_000;
    let variables = vec![text("x", Duration::ZERO), text("y", Duration::ZERO)];
    let rig = Rig::bounded(MAX, variables);
    let (engine, caller, now, wall) = (&rig.engine, &rig.caller, rig.now(), rig.wall());
    let variables = [rig.variable("rig/x"), rig.variable("rig/y")];
    let mut consumers: Vec<Consumer> = (0..3).map(|_| rig.consumer()).collect();
    for consumer in &mut consumers {
        for (id, variable) in (1..).zip(&variables) {
            rig.subscribe(consumer, id, Contract::First(500), variable);
            rig.subscribe(consumer, id + 10, Contract::Last(100), variable);
            rig.subscribe(consumer, id + 20, ALL, variable);
        }
    }
    std::thread::scope(|scope| {
        for variable in &variables {
            scope.spawn(move || {
                for number in 0..WRITES {
                    let value = Value::String("x".repeat(number % 3000).into());
                    let (write, mut wakes) = (Write::value(&value), Wakes::new());
                    engine.try_write(caller, now, wall, variable, &write, &mut wakes);
                }
            });
        }
        // The last consumer takes no updates.
        let takers = consumers.split_last_mut().map(|(_, takers)| takers);
        for consumer in takers.into_iter().flatten() {
            scope.spawn(move || {
                for _ in 0..2000 {
                    drain_some(consumer, 50);
                }
            });
        }
    });
    for variable in &variables {
        assert_eq!(variable.sequence(), WRITES as u64);
        for (consumer, id) in consumers
            .iter()
            .flat_map(|c| [1, 2, 11, 12].map(|id| (c, id)))
        {
            let ledger = consumer.ledger(id, variable.handle());
            assert!(
                ledger.is_none_or(|ledger| ledger.is_balanced()),
                "{ledger:?}"
            );
        }
    }
    assert!(
        used(&rig) <= (MAX + 3 * (FLOOR + 8192)) as u64,
        "{}",
        used(&rig)
    );
    drop(consumers);
    assert_eq!(used(&rig), 0);
}
