//! `all` subscriptions at their bound: writers that wait, writers that do not, and exact reports of
//! the end.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]
#![cfg(not(shuttle))]

mod rig;

use std::sync::Arc;
use std::time::Duration;

use rig::{
    Bell, ConsumerEvent, Rig, STALL, all, applied, at, balanced, define, drain, drain_some,
    numbers, only_updates, sequences, stalling, updates,
};
use trunkline_engine::{Consumer, Variable, Wakes, WriteOutcome};
use trunkline_types::ledger::EndedItem;
use trunkline_types::{Contract, DataType, Properties, Quality, Reason, VariableDefinition};

/// Behaviour: B-05, B-03.
#[test]
fn full_subscription_without_stall_ends_with_an_exact_count() {
    let (rig, x) = Rig::plain();
    let mut consumer = rig.consumer();
    rig.subscribe(&mut consumer, 4, all(10), &x);
    for value in 1..=10 {
        assert_eq!(rig.write(&x, f64::from(value)), applied(value as u64));
    }
    assert_eq!(balanced(&consumer, 4, &x).waiting, 10);
    // The writer never waits, and is not affected by the overrun.
    for value in 11..=25 {
        assert_eq!(rig.write(&x, f64::from(value)), applied(value as u64));
    }
    let ledger = balanced(&consumer, 4, &x);
    assert_eq!((ledger.waiting, ledger.dropped_overrun), (10, 15));
    let mut events = drain(&mut consumer);
    let ended = EndedItem {
        handle: x.handle(),
        last_sequence: 10,
        lost: 15,
    };
    assert_eq!(
        events.pop(),
        Some(ConsumerEvent::Overrun {
            subscription: 4,
            items: vec![ended]
        })
    );
    assert_eq!(
        sequences(&only_updates(events)),
        (0..=10).collect::<Vec<_>>()
    );
    assert_eq!((x.subscribers(), consumer.item_count()), (0, 0));
    assert_eq!(drain(&mut consumer), []);

    // The client subscribes again from its last position.
    rig.resume(&mut consumer, 4, all(10), &x, at(10));
    let got = updates(&mut consumer);
    assert_eq!((sequences(&got), got[0].lost.disconnect), (vec![25], 14));
    assert_eq!(balanced(&consumer, 4, &x).dropped_disconnect, 14);
}

/// Behaviour: B-08, B-05.
#[test]
fn stalled_write_waits_before_it_gets_a_sequence() {
    let (rig, x) = Rig::of(stalling());
    let mut consumer = rig.consumer();
    rig.subscribe(&mut consumer, 1, all(2), &x);
    rig.write(&x, 1.0);
    rig.write(&x, 2.0);
    let until = rig.blocks_until(&x, 3.0);
    assert_eq!(until, rig.now().saturating_add(STALL));
    let ledger = x.ledger();
    assert!(ledger.is_balanced());
    assert_eq!(
        (ledger.offered, x.sequence()),
        (2, 2),
        "a waiting write is not counted yet"
    );
    rig.advance(STALL / 2);
    assert_eq!(
        rig.blocks_until(&x, 3.0),
        until,
        "the stall time starts with the first waiting write"
    );

    // Once there is room, the write succeeds.
    assert_eq!(drain_some(&mut consumer, 2).0.len(), 2);
    assert_eq!(rig.write(&x, 3.0), applied(3));
    // The next time the subscription is full, the stall time starts again.
    rig.advance(STALL);
    assert_eq!(rig.blocks_until(&x, 4.0), rig.now().saturating_add(STALL));
    assert_eq!(numbers(&updates(&mut consumer)), [2.0, 3.0]);
    assert_eq!(balanced(&consumer, 1, &x).received, 3);
}

/// Behaviour: B-05.
#[test]
fn subscription_ends_after_the_stall_and_the_write_continues() {
    let (rig, x) = Rig::of(stalling());
    let bell = Bell::default();
    let mut consumer = Consumer::new(rig.engine.clone(), Box::new(bell.clone()));
    rig.subscribe(&mut consumer, 1, all(1), &x);
    rig.write(&x, 1.0);
    let until = rig.blocks_until(&x, 2.0);
    rig.advance(STALL - Duration::from_nanos(1));
    assert_eq!(rig.blocks_until(&x, 2.0), until);
    rig.advance(Duration::from_nanos(1));
    assert_eq!(rig.write(&x, 2.0), applied(2));
    assert_eq!(rig.write(&x, 3.0), applied(3));
    let ledger = balanced(&consumer, 1, &x);
    assert_eq!((ledger.waiting, ledger.dropped_overrun), (1, 2));
    let events = drain(&mut consumer);
    let ended = EndedItem {
        handle: x.handle(),
        last_sequence: 1,
        lost: 2,
    };
    assert_eq!(
        events.last(),
        Some(&ConsumerEvent::Overrun {
            subscription: 1,
            items: vec![ended]
        })
    );
}

#[test]
fn undelivered_writes_do_not_shorten_later_stalls() {
    let rig = Rig::with(vec![define("x", stalling()), define("y", stalling())]);
    let (x, y) = (rig.variable("rig/x"), rig.variable("rig/y"));
    let mut slow = rig.consumer();
    rig.subscribe(&mut slow, 1, all(1), &x);
    let mut shared = rig.consumer();
    rig.subscribe(&mut shared, 1, all(2), &x);
    rig.subscribe(&mut shared, 1, all(2), &y);
    rig.write(&x, 1.0);
    // `slow` is full. Attempts to write x do not change the other feed, no matter how many there
    // are.
    for _ in 0..10 {
        rig.blocks_until(&x, 2.0);
    }
    rig.advance(STALL / 2);
    assert_eq!(rig.write(&y, 1.0), applied(1));
    let ledger = balanced(&shared, 1, &y);
    assert_eq!((ledger.waiting, ledger.dropped_overrun), (1, 0));
    // Now the other feed becomes full, and its stall time starts.
    assert_eq!(rig.blocks_until(&y, 2.0), rig.now().saturating_add(STALL));
    drain(&mut slow);
    drain(&mut shared);
    assert_eq!(rig.write(&x, 2.0), applied(2));
    assert_eq!(numbers(&updates(&mut slow)), [2.0]);
    assert_eq!(numbers(&updates(&mut shared)), [2.0]);
}

/// Behaviour: NV-11.
#[test]
fn slow_subscriber_ends_alone() {
    let (rig, x) = Rig::plain();
    let (mut slow, mut fast, mut latest) = (rig.consumer(), rig.consumer(), rig.consumer());
    rig.subscribe(&mut slow, 1, all(3), &x);
    rig.subscribe(&mut fast, 1, all(3), &x);
    rig.subscribe(&mut latest, 1, Contract::Latest, &x);
    updates(&mut fast);
    for value in 1..=100 {
        rig.write(&x, f64::from(value));
        assert_eq!(numbers(&updates(&mut fast)), [f64::from(value)]);
    }
    assert_eq!(balanced(&fast, 1, &x).received, 100);
    let events = drain(&mut slow);
    assert!(matches!(events.last(), Some(ConsumerEvent::Overrun { .. })));
    assert_eq!(sequences(&updates(&mut latest)), [100]);
}

#[test]
fn bound_in_bytes_holds_and_one_value_always_fits() {
    let (rig, x) = Rig::of(Properties::new(DataType::String));
    let mut consumer = rig.consumer();
    rig.subscribe(
        &mut consumer,
        1,
        Contract::All {
            elements: 100,
            bytes: 50,
        },
        &x,
    );
    let text = |n| "x".repeat(n);
    assert_eq!(
        rig.write(&x, &*text(1000)),
        applied(1),
        "an update that is queued alone may exceed the bound"
    );
    drain(&mut consumer);
    assert_eq!(rig.write(&x, &*text(24)), applied(2));
    assert_eq!(rig.write(&x, &*text(24)), applied(3));
    assert_eq!(balanced(&consumer, 1, &x).waiting, 2);
    assert_eq!(rig.write(&x, &*text(1)), applied(4));
    let ledger = balanced(&consumer, 1, &x);
    assert_eq!((ledger.waiting, ledger.dropped_overrun), (2, 1));
}

#[test]
fn first_readings_do_not_count_against_the_bound() {
    let paths = (0..10).map(|n| VariableDefinition::new(format!("v{n}"), DataType::F64));
    let rig = Rig::with(paths.collect());
    let variables: Vec<_> = (0..10)
        .map(|n| rig.variable(&format!("rig/v{n}")))
        .collect();
    let mut consumer = rig.consumer();
    for variable in &variables {
        rig.write(variable, 1.0);
        rig.subscribe(&mut consumer, 1, all(1), variable);
    }
    assert_eq!(rig.write(&variables[3], 2.0), applied(2));
    let got = updates(&mut consumer);
    assert_eq!(got.len(), 11);
    assert_eq!(
        (got[10].handle, got[10].sequence),
        (variables[3].handle(), 2)
    );
    assert!(
        variables
            .iter()
            .all(|variable| balanced(&consumer, 1, variable).written > 0)
    );
}

#[test]
fn overrun_before_the_first_reading_was_taken_is_counted_exactly() {
    let (rig, x) = Rig::plain();
    for _ in 0..5 {
        rig.write(&x, 0.0);
    }
    let mut consumer = rig.consumer();
    rig.subscribe(&mut consumer, 1, all(1), &x);
    for _ in 0..7 {
        rig.write(&x, 1.0);
    }
    let ledger = balanced(&consumer, 1, &x);
    assert_eq!(
        (ledger.written, ledger.waiting, ledger.dropped_overrun),
        (8, 2, 6)
    );
    let events = drain(&mut consumer);
    let ended = EndedItem {
        handle: x.handle(),
        last_sequence: 6,
        lost: 6,
    };
    assert_eq!(
        events.last(),
        Some(&ConsumerEvent::Overrun {
            subscription: 1,
            items: vec![ended]
        })
    );
}

/// Behaviour: B-03.
#[test]
fn overrun_does_not_count_updates_filtered_by_only_changes() {
    let (rig, x) = Rig::plain();
    let mut consumer = rig.consumer();
    rig.subscribe_changes(&mut consumer, 1, all(2), &x);
    drain(&mut consumer);
    // The feed keeps 1.0 and 2.0, and misses 3.0 and 4.0. The repeated values are filtered out.
    for value in [1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 3.0, 4.0, 4.0] {
        rig.write(&x, value);
    }
    let ledger = balanced(&consumer, 1, &x);
    assert_eq!(
        (ledger.filtered, ledger.waiting, ledger.dropped_overrun),
        (5, 2, 2)
    );
    let events = drain(&mut consumer);
    let ended = EndedItem {
        handle: x.handle(),
        last_sequence: 3,
        lost: 2,
    };
    assert_eq!(
        events.last(),
        Some(&ConsumerEvent::Overrun {
            subscription: 1,
            items: vec![ended]
        })
    );
}

#[test]
fn every_item_of_an_ended_subscription_reports_its_own_count() {
    let rig = Rig::with(vec![
        VariableDefinition::new("x", DataType::F64),
        VariableDefinition::new("y", DataType::F64),
        VariableDefinition::new("z", DataType::F64),
    ]);
    let [x, y, z] = ["rig/x", "rig/y", "rig/z"].map(|name| rig.variable(name));
    let mut consumer = rig.consumer();
    for variable in [&x, &y, &z] {
        rig.subscribe(&mut consumer, 1, all(3), variable);
    }
    for variable in [&x, &y, &x, &x, &y, &y] {
        rig.write(variable, 1.0);
    }
    let events = drain(&mut consumer);
    let item = |variable: &Variable, last_sequence, lost| EndedItem {
        handle: variable.handle(),
        last_sequence,
        lost,
    };
    let items = vec![item(&x, 2, 1), item(&y, 1, 2), item(&z, 0, 0)];
    assert_eq!(
        events.last(),
        Some(&ConsumerEvent::Overrun {
            subscription: 1,
            items
        })
    );
}

/// Behaviour: B-08.
#[test]
fn writer_subscribed_to_its_own_variable_makes_progress() {
    let (rig, x) = Rig::of(stalling());
    let bell = Bell::default();
    let mut consumer = Consumer::new(rig.engine.clone(), Box::new(bell.clone()));
    rig.subscribe(&mut consumer, 1, all(1), &x);
    drain(&mut consumer);
    assert!(!consumer.wait_for_room(&x), "the feed has room");
    for value in 1..=100 {
        assert_eq!(rig.write(&x, f64::from(value)), applied(value as u64));
        rig.blocks_until(&x, -1.0);
        assert!(consumer.wait_for_room(&x));
        bell.rings();
        assert_eq!(numbers(&updates(&mut consumer)), [f64::from(value)]);
        assert_eq!(
            bell.rings(),
            1,
            "the waiting writer is woken when there is room"
        );
        assert!(!consumer.wait_for_room(&x));
    }
    assert!(x.ledger().is_balanced());
}

fn parked(rig: &Rig, x: &Arc<Variable>) -> (Consumer, Consumer, Bell) {
    let bell = Bell::default();
    let writer = Consumer::new(rig.engine.clone(), Box::new(bell.clone()));
    let mut reader = rig.consumer();
    rig.subscribe(&mut reader, 1, all(1), x);
    rig.write(x, 1.0);
    rig.blocks_until(x, 2.0);
    assert!(writer.wait_for_room(x));
    assert!(
        writer.wait_for_room(x),
        "waiting twice has the same effect as waiting once"
    );
    assert_eq!(bell.rings(), 0);
    (writer, reader, bell)
}

#[test]
fn parked_writer_is_woken_when_it_can_continue() {
    // The reader makes room.
    let (rig, x) = Rig::of(stalling());
    let (_writer, mut reader, bell) = parked(&rig, &x);
    drain_some(&mut reader, 1);
    assert_eq!(bell.rings(), 0, "taking a first reading makes no room");
    drain_some(&mut reader, 1);
    assert_eq!(bell.rings(), 1);
    assert_eq!(rig.write(&x, 2.0), applied(2));

    // The reader is dropped.
    let (rig, x) = Rig::of(stalling());
    let (_writer, reader, bell) = parked(&rig, &x);
    drop(reader);
    assert_eq!(bell.rings(), 1);
    assert_eq!(rig.write(&x, 2.0), applied(2));

    // The reader unsubscribes from this variable only.
    let rig = Rig::with(vec![define("x", stalling()), define("y", stalling())]);
    let (x, y) = (rig.variable("rig/x"), rig.variable("rig/y"));
    let (_writer, mut reader, bell) = parked(&rig, &x);
    rig.subscribe(&mut reader, 1, all(1), &y);
    reader.unsubscribe(1, Some(&[x.handle()]), &mut Wakes::new());
    assert_eq!(bell.rings(), 1);
    assert_eq!(rig.write(&x, 2.0), applied(2));
    assert_eq!(
        rig.write(&y, 2.0),
        applied(1),
        "removing the updates of x has made room"
    );

    // The variable is undeployed.
    let (rig, x) = Rig::of(stalling());
    let (_writer, _reader, bell) = parked(&rig, &x);
    rig.engine
        .libraries()
        .undeploy("rig", rig.now(), rig.wall(), &mut Wakes::new())
        .expect("the library is deployed");
    assert_eq!(bell.rings(), 1);
    assert!(matches!(rig.write(&x, 2.0), WriteOutcome::Refused(_)));

    // A write of another client that may not wait ends the subscription.
    let rig = Rig::with(vec![
        define("x", stalling()),
        VariableDefinition::new("y", DataType::F64),
    ]);
    let (x, y) = (rig.variable("rig/x"), rig.variable("rig/y"));
    let (_writer, mut reader, bell) = parked(&rig, &x);
    rig.subscribe(&mut reader, 1, all(1), &y);
    assert_eq!(rig.write(&y, 1.0), applied(1));
    assert_eq!(bell.rings(), 1);
    assert_eq!(rig.write(&x, 2.0), applied(2));
    assert!(matches!(
        drain(&mut reader).last(),
        Some(ConsumerEvent::Overrun { .. })
    ));
}

#[test]
fn change_of_quality_ends_a_full_subscription_instead_of_being_lost() {
    let (rig, x) = Rig::of(stalling());
    let mut consumer = rig.consumer();
    rig.subscribe(&mut consumer, 1, all(1), &x);
    rig.write(&x, 1.0);
    let bad = Quality::bad(Reason::DeviceFailure);
    rig.engine
        .providers()
        .set_quality(x.handle(), bad, rig.now(), rig.wall(), &mut Wakes::new());
    assert_eq!((x.sequence(), x.sample().quality), (2, bad));
    let ledger = balanced(&consumer, 1, &x);
    assert_eq!((ledger.waiting, ledger.dropped_overrun), (1, 1));
    let events = drain(&mut consumer);
    let ended = EndedItem {
        handle: x.handle(),
        last_sequence: 1,
        lost: 1,
    };
    assert_eq!(
        events.last(),
        Some(&ConsumerEvent::Overrun {
            subscription: 1,
            items: vec![ended]
        })
    );
}

#[test]
fn credit_limits_deliveries_including_first_readings() {
    let paths = (0..3).map(|n| VariableDefinition::new(format!("v{n}"), DataType::F64));
    let rig = Rig::with(paths.collect());
    let variables: Vec<_> = (0..3).map(|n| rig.variable(&format!("rig/v{n}"))).collect();
    let mut consumer = rig.consumer();
    for variable in &variables {
        rig.subscribe(&mut consumer, 1, all(100), variable);
    }
    consumer.grant(1, 2);
    consumer.grant(99, 5);
    assert_eq!(updates(&mut consumer).len(), 2);
    for _ in 0..5 {
        rig.write(&variables[0], 1.0);
    }
    assert_eq!(drain(&mut consumer), []);
    assert!(
        consumer.is_idle(),
        "updates that wait for credit do not wake the consumer"
    );
    consumer.grant(1, 1);
    assert_eq!(updates(&mut consumer).len(), 1);
    consumer.grant(1, 3);
    consumer.grant(1, 1);
    assert_eq!(sequences(&updates(&mut consumer)), [1, 2, 3, 4]);
    let ledger = balanced(&consumer, 1, &variables[0]);
    assert_eq!((ledger.received, ledger.waiting), (4, 1));
    rig.engine
        .libraries()
        .undeploy("rig", rig.now(), rig.wall(), &mut Wakes::new())
        .expect("the library is deployed");
    assert_eq!(drain(&mut consumer), []);
    consumer.grant(1, u64::MAX);
    consumer.grant(1, u64::MAX);
    let events = drain(&mut consumer);
    assert_eq!(events.len(), 4, "{events:?}");
    assert!(
        events[1..]
            .iter()
            .all(|event| matches!(event, ConsumerEvent::Gone { .. }))
    );
}

#[test]
fn overrun_without_credit_is_reported_after_the_queued_updates() {
    let (rig, x) = Rig::plain();
    let mut consumer = rig.consumer();
    rig.subscribe(&mut consumer, 1, all(2), &x);
    consumer.grant(1, 2);
    assert_eq!(updates(&mut consumer).len(), 1);
    for _ in 0..5 {
        rig.write(&x, 1.0);
    }
    assert_eq!(sequences(&updates(&mut consumer)), [1]);
    consumer.grant(1, 1);
    let events = drain(&mut consumer);
    assert_eq!(events.len(), 2);
    let ended = EndedItem {
        handle: x.handle(),
        last_sequence: 2,
        lost: 3,
    };
    assert_eq!(
        events[1],
        ConsumerEvent::Overrun {
            subscription: 1,
            items: vec![ended]
        }
    );
}

#[test]
fn ended_subscription_can_be_created_again() {
    let (rig, x) = Rig::plain();
    let mut consumer = rig.consumer();
    for round in 0..3 {
        rig.subscribe(&mut consumer, 1, all(1), &x);
        rig.write(&x, 1.0);
        rig.write(&x, 2.0);
        let events = drain(&mut consumer);
        assert!(
            matches!(events.last(), Some(ConsumerEvent::Overrun { .. })),
            "round {round}"
        );
        assert_eq!(x.subscribers(), 0);
    }
}

#[test]
fn item_added_to_an_ended_subscription_ends_with_it() {
    let rig = Rig::with(vec![
        VariableDefinition::new("x", DataType::F64),
        VariableDefinition::new("y", DataType::F64),
    ]);
    let (x, y) = (rig.variable("rig/x"), rig.variable("rig/y"));
    let mut consumer = rig.consumer();
    rig.subscribe(&mut consumer, 1, all(1), &x);
    rig.write(&x, 1.0);
    rig.write(&x, 2.0);
    rig.write(&y, 1.0);
    rig.subscribe(&mut consumer, 1, all(1), &y);
    rig.write(&y, 2.0);
    balanced(&consumer, 1, &y);
    let events = drain(&mut consumer);
    let items = vec![
        EndedItem {
            handle: x.handle(),
            last_sequence: 1,
            lost: 1,
        },
        EndedItem {
            handle: y.handle(),
            last_sequence: 1,
            lost: 1,
        },
    ];
    assert_eq!(
        events.last(),
        Some(&ConsumerEvent::Overrun {
            subscription: 1,
            items
        })
    );
}

#[test]
fn undeployment_after_the_overrun_does_not_hide_its_count() {
    let (rig, x) = Rig::plain();
    let mut consumer = rig.consumer();
    rig.subscribe(&mut consumer, 1, all(1), &x);
    for _ in 0..4 {
        rig.write(&x, 1.0);
    }
    rig.engine
        .libraries()
        .undeploy("rig", rig.now(), rig.wall(), &mut Wakes::new())
        .expect("the library is deployed");
    let events = drain(&mut consumer);
    let ended = EndedItem {
        handle: x.handle(),
        last_sequence: 1,
        lost: 3,
    };
    assert_eq!(
        events[2..],
        [ConsumerEvent::Overrun {
            subscription: 1,
            items: vec![ended]
        }]
    );
    assert_eq!((consumer.item_count(), drain(&mut consumer)), (0, vec![]));
}
