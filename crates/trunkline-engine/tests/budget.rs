//! The limit on the bytes queued for one consumer, over all its subscriptions.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]
#![cfg(not(shuttle))]

mod rig;

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use rig::{
    Bell, ConsumerEvent, Recorder, Rig, applied, balanced, define, drain, drain_some, only_updates,
    sequences, updates,
};
use trunkline_engine::{Consumer, Variable, Wakes, Write};
use trunkline_types::{Contract, DataType, Properties, Value};

const STALL: Duration = Duration::from_millis(500);
/// The cost of a pending update in addition to its value; a text adds about two bytes of length.
const ENTRY: usize = 64;
/// The cost of a pending f64.
const NUMBER: usize = ENTRY + 8;

const ALL: Contract = Contract::All {
    elements: 1000,
    bytes: u32::MAX,
};

fn number(stall: Duration) -> Properties {
    let mut properties = Properties::new(DataType::F64);
    properties.stall = stall;
    properties
}

fn text(stall: Duration) -> Properties {
    let mut properties = Properties::new(DataType::String);
    properties.stall = stall;
    properties
}

/// Returns an engine with `rig/x` and `rig/y`, and a consumer that may queue `max` bytes.
fn scene(properties: Properties, max: usize) -> (Rig, Arc<Variable>, Arc<Variable>, Consumer) {
    let rig = Rig::with(vec![
        define("x", properties.clone()),
        define("y", properties),
    ]);
    let (x, y) = (rig.variable("rig/x"), rig.variable("rig/y"));
    let consumer = rig.consumer().queue_bytes_max(max);
    (rig, x, y, consumer)
}

/// Returns each ended subscription with the number of updates that its only item lost.
fn overrun_of(events: &[ConsumerEvent]) -> Vec<(u32, u64)> {
    let end = |event: &ConsumerEvent| match event {
        ConsumerEvent::Overrun {
            subscription,
            items,
        } => Some((*subscription, items[0].lost)),
        _ => None,
    };
    events.iter().filter_map(end).collect()
}

#[test]
fn subscription_beyond_the_consumer_budget_ends_as_at_its_bound() {
    let (rig, x, y, mut consumer) = scene(number(Duration::ZERO), 3 * NUMBER);
    rig.subscribe(&mut consumer, 1, ALL, &x);
    rig.subscribe(&mut consumer, 2, ALL, &y);
    for value in 1..=3 {
        assert_eq!(rig.write(&x, f64::from(value)), applied(value as u64));
    }
    // Updates of `x` use the whole budget. The subscription of `y` ends, and the writer of `y` is
    // not affected.
    assert_eq!(rig.write(&y, 1.0), applied(1));
    assert_eq!(balanced(&consumer, 2, &y).dropped_overrun, 1);
    let events = drain(&mut consumer);
    assert_eq!(overrun_of(&events), [(2, 1)]);
    // The consumer gets two first readings and the updates of `x`, whose subscription continues.
    assert_eq!(events.len(), 6);
    rig.write(&x, 4.0);
    assert_eq!(sequences(&updates(&mut consumer)), [4]);
}

#[test]
fn full_budget_acts_like_a_full_first_n_buffer() {
    let (rig, x, y, mut consumer) = scene(number(Duration::ZERO), 2 * NUMBER);
    rig.subscribe(&mut consumer, 1, Contract::First(10), &x);
    rig.subscribe(&mut consumer, 2, Contract::First(10), &y);
    drain(&mut consumer);
    rig.write(&x, 1.0);
    rig.write(&y, 1.0);
    rig.write(&y, 2.0);
    let ledger = balanced(&consumer, 2, &y);
    assert_eq!((ledger.waiting, ledger.dropped_queue), (1, 1));
    assert_eq!(updates(&mut consumer).len(), 2);
    rig.write(&y, 3.0);
    let got = updates(&mut consumer);
    assert_eq!((sequences(&got), got[0].lost.queue), (vec![3], 1));
}

#[test]
fn marks_rings_and_first_readings_are_not_charged() {
    let (rig, x, _, mut consumer) = scene(number(Duration::ZERO), NUMBER);
    for (id, contract) in [Contract::Latest, Contract::Last(5), ALL]
        .into_iter()
        .enumerate()
    {
        rig.subscribe(&mut consumer, id as u32, contract, &x);
    }
    rig.write(&x, 1.0);
    let events = drain(&mut consumer);
    assert_eq!(overrun_of(&events), []);
    // One delivery of `latest`, and a first reading and an update of each other subscription.
    assert_eq!(events.len(), 5);
}

#[test]
fn update_longer_than_the_budget_is_sent_alone() {
    let (rig, x, y, mut consumer) = scene(text(STALL), 100);
    rig.subscribe(&mut consumer, 1, ALL, &x);
    rig.subscribe(&mut consumer, 2, ALL, &y);
    let long = "x".repeat(10_000);
    assert_eq!(rig.write(&x, long.as_str()), applied(1));
    rig.blocks_until(&y, "");
    drain(&mut consumer);
    assert_eq!(rig.write(&y, ""), applied(1));
    // If anything else is queued, the long update has to wait.
    rig.blocks_until(&x, long.as_str());
    assert!(consumer.wait_for_room(&x));
    drain(&mut consumer);
    assert_eq!(rig.write(&x, long.as_str()), applied(2));
}

#[test]
fn stall_without_budget_ends_the_subscription() {
    let (rig, x, y, mut consumer) = scene(number(STALL), NUMBER);
    rig.subscribe(&mut consumer, 1, ALL, &x);
    rig.subscribe(&mut consumer, 2, ALL, &y);
    rig.write(&x, 1.0);
    let until = rig.blocks_until(&y, 1.0);
    assert_eq!(until, rig.now().saturating_add(STALL));
    assert_eq!(y.ledger().offered, 0, "a waiting write is not counted yet");
    rig.advance(STALL);
    assert_eq!(rig.write(&y, 1.0), applied(1));
    let events = drain(&mut consumer);
    assert_eq!(overrun_of(&events), [(2, 1)]);
    assert_eq!(rig.write(&x, 2.0), applied(2));
}

#[test]
fn abandoned_write_does_not_shorten_later_stalls() {
    let (rig, x, y, mut consumer) = scene(number(STALL), NUMBER);
    rig.subscribe(&mut consumer, 1, ALL, &x);
    rig.subscribe(&mut consumer, 2, ALL, &y);
    rig.write(&x, 1.0);
    rig.blocks_until(&y, 1.0);
    // The consumer catches up and `y` is not written. Much later the budget is used up again.
    drain(&mut consumer);
    rig.advance(STALL * 10);
    rig.write(&x, 2.0);
    let until = rig.blocks_until(&y, 1.0);
    assert_eq!(until, rig.now().saturating_add(STALL));
}

/// Returns a consumer whose budget is used up by `x`, and a writer waiting for room for `y`.
fn parked() -> (Rig, Arc<Variable>, Arc<Variable>, Consumer, Consumer, Bell) {
    let (rig, x, y, mut consumer) = scene(number(STALL), NUMBER);
    rig.subscribe(&mut consumer, 1, ALL, &x);
    rig.subscribe(&mut consumer, 2, ALL, &y);
    drain(&mut consumer);
    rig.write(&x, 1.0);
    let bell = Bell::default();
    let writer = Consumer::new(rig.engine.clone(), Box::new(bell.clone()));
    rig.blocks_until(&y, 1.0);
    assert!(writer.wait_for_room(&y));
    assert!(
        writer.wait_for_room(&y),
        "waiting twice has the same effect as waiting once"
    );
    assert_eq!(bell.rings(), 0);
    (rig, x, y, consumer, writer, bell)
}

#[test]
fn parked_writer_is_woken_when_bytes_are_freed() {
    let ways: [fn(&Rig, &mut Consumer, &mut Wakes); 4] = [
        |_, consumer, wakes| {
            let mut sink = Recorder::default();
            consumer.drain(&mut sink, wakes);
        },
        |_, consumer, wakes| {
            consumer.unsubscribe(1, None, wakes);
        },
        |_, consumer, wakes| {
            consumer.unsubscribe(2, None, wakes);
        },
        |rig, consumer, _| {
            let other = rig.consumer();
            drop(std::mem::replace(consumer, other));
        },
    ];
    for (number, way) in ways.into_iter().enumerate() {
        let (rig, _x, y, mut consumer, _writer, bell) = parked();
        let mut wakes = Wakes::new();
        way(&rig, &mut consumer, &mut wakes);
        wakes.flush();
        assert_eq!(bell.rings(), 1, "way {number}");
        assert_eq!(rig.write(&y, 1.0), applied(1), "way {number}");
    }
}

#[test]
fn parked_writer_is_woken_when_its_variable_is_removed() {
    let (rig, _x, _y, _consumer, _writer, bell) = parked();
    let mut wakes = Wakes::new();
    rig.engine
        .libraries()
        .undeploy("rig", rig.now(), rig.wall(), &mut wakes)
        .expect("the library is deployed");
    wakes.flush();
    assert_eq!(bell.rings(), 1);
}

#[test]
fn writer_waiting_for_bytes_is_woken_even_if_another_feed_is_full() {
    let (rig, x, y, mut consumer) = scene(text(STALL), 500);
    let narrow = Contract::All {
        elements: 1000,
        bytes: 100,
    };
    rig.subscribe(&mut consumer, 1, narrow, &x);
    rig.subscribe(&mut consumer, 2, ALL, &y);
    rig.write(&x, "a");
    rig.write(&y, "b".repeat(350).as_str());
    let bell = Bell::default();
    let writer = Consumer::new(rig.engine.clone(), Box::new(bell.clone()));
    // The first write lacks bytes, the second one room in the feed.
    rig.blocks_until(&x, "c");
    rig.blocks_until(&x, "d".repeat(200).as_str());
    assert!(writer.wait_for_room(&x));
    let mut wakes = Wakes::new();
    consumer.unsubscribe(2, None, &mut wakes);
    wakes.flush();
    assert_eq!(bell.rings(), 1);
    assert_eq!(rig.write(&x, "c"), applied(2));
}

#[test]
fn write_that_needs_bytes_twice_waits_for_both_and_never_spins() {
    let (rig, x, _, mut consumer) = scene(number(STALL), 3 * NUMBER);
    rig.subscribe(&mut consumer, 1, ALL, &x);
    rig.subscribe(&mut consumer, 2, ALL, &x);
    drain(&mut consumer);
    assert_eq!(rig.write(&x, 1.0), applied(1));
    // Only one of the two feeds has room, so the write reserves none and must wait.
    let until = rig.blocks_until(&x, 2.0);
    let bell = Bell::default();
    let writer = Consumer::new(rig.engine.clone(), Box::new(bell.clone()));
    assert!(writer.wait_for_room(&x), "retrying at once would spin");
    // An attempt that returns its reservation wakes no writer. Otherwise two writers would wake
    // each other forever.
    rig.advance(STALL / 2);
    assert_eq!(rig.blocks_until(&x, 2.0), until);
    assert_eq!(bell.rings(), 0);
    let mut wakes = Wakes::new();
    let mut sink = Recorder::wanting(Some(1));
    consumer.drain(&mut sink, &mut wakes);
    wakes.flush();
    assert_eq!(bell.rings(), 1);
    assert_eq!(rig.write(&x, 2.0), applied(2));
}

#[test]
fn blocked_write_releases_the_room_of_other_consumers() {
    let (rig, x, y, mut slow) = scene(number(STALL), usize::MAX);
    let bound_one = Contract::All {
        elements: 1,
        bytes: u32::MAX,
    };
    let mut budgeted = rig.consumer().queue_bytes_max(2 * NUMBER);
    rig.subscribe(&mut budgeted, 1, ALL, &x);
    rig.subscribe(&mut budgeted, 2, ALL, &y);
    rig.subscribe(&mut slow, 1, bound_one, &x);
    rig.write(&x, 1.0);
    for _ in 0..100 {
        rig.blocks_until(&x, 2.0);
    }
    assert_eq!(
        rig.write(&y, 1.0),
        applied(1),
        "there is room for one more update"
    );
    assert_eq!(updates(&mut budgeted).len(), 4);
}

/// One step of a random sequence of operations.
#[derive(Clone, Debug)]
enum Step {
    Write(usize, usize),
    Subscribe(usize, u32),
    Unsubscribe(u32),
    Take(usize),
    Advance,
    Redeploy,
}

const SUBSCRIPTIONS: [Contract; 5] = [
    ALL,
    Contract::All {
        elements: 2,
        bytes: 300,
    },
    Contract::First(3),
    Contract::Last(2),
    Contract::Latest,
];

fn step() -> impl Strategy<Value = Step> {
    let id = 0..SUBSCRIPTIONS.len() as u32;
    prop_oneof![
        8 => (0..3usize, 0..400usize).prop_map(|(variable, length)| Step::Write(variable, length)),
        3 => (0..3usize, id.clone()).prop_map(|(variable, id)| Step::Subscribe(variable, id)),
        1 => id.prop_map(Step::Unsubscribe),
        3 => (0..6usize).prop_map(Step::Take),
        1 => Just(Step::Advance),
        1 => Just(Step::Redeploy),
    ]
}

const MAX: usize = 600;

fn deploy(rig: &Rig) -> Vec<Arc<Variable>> {
    let library = vec![
        define("a", text(Duration::ZERO)),
        define("b", text(STALL)),
        define("c", text(STALL)),
    ];
    let handles = rig.deploy("rig", library);
    let variable = |handle: u32| Arc::clone(&rig.engine.variable(handle).unwrap());
    handles.into_iter().map(variable).collect()
}

/// Asserts that the budget is unused. Only then does it accept an update that exceeds it.
fn assert_unused(rig: &Rig, consumer: &mut Consumer) {
    let handles = rig.deploy(
        "probe",
        vec![define("p", text(STALL)), define("q", text(STALL))],
    );
    let variable = |handle: u32| Arc::clone(&rig.engine.variable(handle).unwrap());
    let (p, q) = (variable(handles[0]), variable(handles[1]));
    rig.subscribe(consumer, 100, ALL, &p);
    rig.subscribe(consumer, 101, ALL, &q);
    let long = "x".repeat(MAX * 2);
    assert_eq!(
        rig.write(&p, long.as_str()),
        applied(1),
        "the budget still counts some bytes"
    );
    // The budget still counts bytes at all.
    rig.blocks_until(&q, "");
    assert_eq!(only_updates(drain(consumer)).len(), 3);
    assert_eq!(rig.write(&q, long.as_str()), applied(1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn budget_is_unused_after_all_updates_were_taken_or_closed(
        steps in proptest::collection::vec(step(), 1..120),
        close in any::<bool>(),
    ) {
        let rig = Rig::new();
        let mut variables = deploy(&rig);
        let mut consumer = rig.consumer().queue_bytes_max(MAX);
        for step in steps {
            match step {
                Step::Write(variable, length) => {
                    let value = Value::String("x".repeat(length).into());
                    rig.attempt(&variables[variable], &Write::value(&value));
                }
                Step::Subscribe(variable, id) => {
                    let contract = SUBSCRIPTIONS[id as usize];
                    rig.subscribe(&mut consumer, id, contract, &variables[variable]);
                }
                Step::Unsubscribe(id) => {
                    consumer.unsubscribe(id, None, &mut Wakes::new());
                }
                Step::Take(count) => {
                    drain_some(&mut consumer, count);
                }
                Step::Advance => rig.advance(STALL),
                Step::Redeploy => {
                    rig.engine.libraries().undeploy("rig", rig.now(), rig.wall(), &mut Wakes::new()).unwrap();
                    variables = deploy(&rig);
                }
            }
        }
        if close {
            for id in 0..SUBSCRIPTIONS.len() as u32 {
                consumer.unsubscribe(id, None, &mut Wakes::new());
            }
        }
        drain(&mut consumer);
        assert_unused(&rig, &mut consumer);
    }
}
