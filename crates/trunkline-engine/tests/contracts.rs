//! The deliveries of each contract, their order, and the loss reports.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]
#![cfg(not(shuttle))]

mod rig;

use std::time::Duration;

use rig::{
    ConsumerEvent, Rig, balanced, drain, drain_some, numbers, only_updates, sequences, updates,
};
use trunkline_engine::{Consumer, Origin, Wakes, Write};
use trunkline_types::{
    Contract, DataType, Lost, Properties, Quality, Reason, Value, VariableDefinition,
};

const CONTRACTS: [Contract; 4] = [
    Contract::Latest,
    Contract::Last(8),
    Contract::First(8),
    Contract::ALL,
];

fn coalesced(n: u64) -> Lost {
    Lost {
        coalesced: n,
        ..Lost::NONE
    }
}

fn queue(n: u64) -> Lost {
    Lost {
        queue: n,
        ..Lost::NONE
    }
}

/// Behaviour: NV-17, B-05.
#[test]
fn first_reading_is_the_current_value_and_nothing_older() {
    for contract in CONTRACTS {
        let (rig, x) = Rig::plain();
        for value in [1.0, 2.0, 3.0] {
            rig.write(&x, value);
        }
        let mut consumer = rig.consumer();
        rig.subscribe(&mut consumer, 1, contract, &x);
        assert_eq!(balanced(&consumer, 1, &x).waiting, 1, "{contract}");
        rig.write(&x, 4.0);
        let got = updates(&mut consumer);
        let expected = if contract == Contract::Latest {
            vec![4.0]
        } else {
            vec![3.0, 4.0]
        };
        assert_eq!(numbers(&got), expected, "{contract}");
        assert_eq!(balanced(&consumer, 1, &x).written, 2, "{contract}");
    }
}

#[test]
fn variable_without_value_has_a_first_reading_without_value() {
    for contract in CONTRACTS {
        let (rig, x) = Rig::plain();
        let mut consumer = rig.consumer();
        rig.subscribe(&mut consumer, 1, contract, &x);
        let got = updates(&mut consumer);
        assert_eq!(sequences(&got), [0], "{contract}");
        assert_eq!(got[0].quality, Quality::bad(Reason::NoValue), "{contract}");
        let ledger = balanced(&consumer, 1, &x);
        assert_eq!((ledger.written, ledger.received), (0, 0), "{contract}");
        rig.write(&x, 1.0);
        assert_eq!(sequences(&updates(&mut consumer)), [1], "{contract}");
        assert_eq!(balanced(&consumer, 1, &x).received, 1, "{contract}");
        assert_eq!(drain(&mut consumer), []);
    }
}

/// Behaviour: NV-05, LM-22, B-03.
#[test]
fn latest_delivers_the_newest_and_counts_what_it_merged() {
    let (rig, x) = Rig::plain();
    let mut consumer = rig.consumer();
    rig.subscribe(&mut consumer, 1, Contract::Latest, &x);
    assert_eq!(updates(&mut consumer).len(), 1);
    for value in 1..=1000 {
        rig.write(&x, f64::from(value));
    }
    let ledger = balanced(&consumer, 1, &x);
    assert_eq!((ledger.waiting, ledger.coalesced), (1, 999));
    let got = updates(&mut consumer);
    assert_eq!((sequences(&got), numbers(&got)), (vec![1000], vec![1000.0]));
    assert_eq!(got[0].lost, coalesced(999));
    assert!(
        got[0].lost.nothing_lost(),
        "coalescing is part of the contract"
    );
    assert_eq!(drain(&mut consumer), []);
    let ledger = balanced(&consumer, 1, &x);
    assert_eq!(
        (ledger.written, ledger.coalesced, ledger.received),
        (1000, 999, 1)
    );
}

/// Behaviour: LM-22.
#[test]
fn pending_latest_updates_are_bounded_by_the_number_of_variables() {
    let paths = (0..100).map(|n| VariableDefinition::new(format!("v{n}"), DataType::F64));
    let rig = Rig::with(paths.collect());
    let variables: Vec<_> = (0..100)
        .map(|n| rig.variable(&format!("rig/v{n}")))
        .collect();
    let mut consumer = rig.consumer();
    for variable in &variables {
        rig.subscribe(&mut consumer, 1, Contract::Latest, variable);
    }
    drain(&mut consumer);
    for round in 0..50 {
        for variable in &variables {
            rig.write(variable, f64::from(round));
        }
    }
    let got = updates(&mut consumer);
    assert_eq!(got.len(), 100);
    assert!(got.iter().all(|got| got.value == Value::F64(49.0)));
}

/// Behaviour: NV-12, NV-13, NV-06, B-03.
#[test]
fn last_n_keeps_the_newest_n_in_order_and_counts_the_oldest_it_dropped() {
    let (rig, x) = Rig::plain();
    let mut consumer = rig.consumer();
    rig.subscribe(&mut consumer, 1, Contract::Last(5), &x);
    drain(&mut consumer);
    for value in 1..=5 {
        rig.write(&x, f64::from(value));
    }
    let got = updates(&mut consumer);
    assert_eq!(
        numbers(&got),
        [1.0, 2.0, 3.0, 4.0, 5.0],
        "a burst that fits in the buffer is delivered completely"
    );
    assert!(got.iter().all(|got| got.lost == Lost::NONE));
    for value in 6..=18 {
        rig.write(&x, f64::from(value));
    }
    let ledger = balanced(&consumer, 1, &x);
    assert_eq!((ledger.waiting, ledger.dropped_queue), (5, 8));
    let got = updates(&mut consumer);
    assert_eq!(numbers(&got), [14.0, 15.0, 16.0, 17.0, 18.0]);
    assert_eq!(got[0].lost, queue(8));
    assert!(got[1..].iter().all(|got| got.lost == Lost::NONE));
    let ledger = balanced(&consumer, 1, &x);
    assert_eq!(
        (ledger.received, ledger.dropped_queue, ledger.waiting),
        (10, 8, 0)
    );
}

/// Behaviour: NV-11.
#[test]
fn readers_of_one_variable_have_their_own_buffers() {
    let (rig, x) = Rig::plain();
    let mut consumers: Vec<Consumer> = (0..4).map(|_| rig.consumer()).collect();
    let lengths = [1, 3, 10, 100];
    for (consumer, n) in consumers.iter_mut().zip(lengths) {
        rig.subscribe(consumer, 1, Contract::Last(n), &x);
        drain(consumer);
    }
    for value in 1..=20 {
        rig.write(&x, f64::from(value));
        // One of the readers keeps up.
        assert_eq!(numbers(&updates(&mut consumers[0])), [f64::from(value)]);
    }
    for (consumer, n) in consumers.iter_mut().zip(lengths).skip(1) {
        let kept = n.min(20);
        let expected: Vec<f64> = (21 - kept..=20).map(f64::from).collect();
        let got = updates(consumer);
        assert_eq!(numbers(&got), expected);
        assert_eq!(got[0].lost, queue(u64::from(20 - kept)));
        assert_eq!(
            balanced(consumer, 1, &x).dropped_queue,
            u64::from(20 - kept)
        );
    }
    // The subscription with the longest buffer ends, and one with an even longer buffer begins. The
    // others are not affected.
    consumers.pop();
    for value in 21..=30 {
        rig.write(&x, f64::from(value));
    }
    let mut longer = rig.consumer();
    rig.subscribe(&mut longer, 1, Contract::Last(1000), &x);
    for value in 31..=40 {
        rig.write(&x, f64::from(value));
    }
    assert_eq!(
        numbers(&updates(&mut longer)),
        (30..=40).map(f64::from).collect::<Vec<_>>()
    );
    assert_eq!(numbers(&updates(&mut consumers[1])), [38.0, 39.0, 40.0]);
    let got = updates(&mut consumers[2]);
    assert_eq!(numbers(&got), (31..=40).map(f64::from).collect::<Vec<_>>());
    assert_eq!(got[0].lost, queue(10));
    assert_eq!(balanced(&consumers[2], 1, &x).written, 40);
}

#[test]
fn first_n_keeps_the_oldest_n_and_counts_the_newest_it_dropped() {
    let (rig, x) = Rig::plain();
    let mut consumer = rig.consumer();
    rig.subscribe(&mut consumer, 1, Contract::First(3), &x);
    drain(&mut consumer);
    for value in 1..=10 {
        rig.write(&x, f64::from(value));
    }
    let ledger = balanced(&consumer, 1, &x);
    assert_eq!((ledger.waiting, ledger.dropped_queue), (3, 7));
    let got = updates(&mut consumer);
    assert_eq!(numbers(&got), [1.0, 2.0, 3.0]);
    assert!(got.iter().all(|got| got.lost == Lost::NONE));
    assert_eq!(balanced(&consumer, 1, &x).dropped_queue, 7);
    rig.write(&x, 11.0);
    let got = updates(&mut consumer);
    assert_eq!((numbers(&got), got[0].lost), (vec![11.0], queue(7)));
    assert_eq!(balanced(&consumer, 1, &x).dropped_queue, 7);
}

#[test]
fn long_buffers_are_delivered_whole_by_one_drain() {
    for contract in [Contract::Last(1000), Contract::First(1000), Contract::ALL] {
        let (rig, x) = Rig::plain();
        let mut consumer = rig.consumer();
        rig.subscribe(&mut consumer, 1, contract, &x);
        for value in 0..1000 {
            rig.write(&x, f64::from(value));
        }
        let got = updates(&mut consumer);
        assert_eq!(
            sequences(&got),
            (0..=1000).collect::<Vec<_>>(),
            "{contract}"
        );
        assert!(consumer.is_idle(), "{contract}");
    }
}

/// Behaviour: B-05, NV-20, B-21.
#[test]
fn all_delivers_every_update_in_the_order_of_their_commits() {
    let rig = Rig::with(vec![
        VariableDefinition::new("x", DataType::F64),
        VariableDefinition::new("y", DataType::F64),
    ]);
    let (x, y) = (rig.variable("rig/x"), rig.variable("rig/y"));
    let mut consumer = rig.consumer();
    rig.subscribe(&mut consumer, 1, Contract::ALL, &x);
    rig.subscribe(&mut consumer, 1, Contract::ALL, &y);
    drain(&mut consumer);
    let mut expected = Vec::new();
    for n in 0..300u32 {
        let variable = if n % 3 == 0 { &x } else { &y };
        // Values alternate, so each equals the one before the previous one.
        let value = f64::from(n % 2);
        rig.write(variable, value);
        expected.push((variable.handle(), variable.sequence(), value));
    }
    let got = updates(&mut consumer);
    let as_told: Vec<(u32, u64, f64)> = got
        .iter()
        .map(|got| {
            (
                got.handle,
                got.sequence,
                got.value.as_f64().expect("a number"),
            )
        })
        .collect();
    assert_eq!(as_told, expected);
    assert!(
        got.iter()
            .all(|got| got.lost == Lost::NONE && got.filtered == 0)
    );
    assert!(got.iter().all(|got| got.writer == rig.caller.session));
    assert_eq!(balanced(&consumer, 1, &x).received, 100);
    assert_eq!(balanced(&consumer, 1, &y).received, 200);
}

/// Behaviour: B-05.
#[test]
fn sampled_delivers_the_newest_once_per_period_and_only_if_it_changed() {
    let (rig, x) = Rig::plain();
    let period = Duration::from_millis(100);
    let mut consumer = rig.consumer();
    rig.write(&x, 1.0);
    rig.subscribe(&mut consumer, 1, Contract::Sampled(period), &x);
    assert_eq!(numbers(&updates(&mut consumer)), [1.0]);
    let first = consumer.poll(rig.now()).expect("a poll is due");
    assert_eq!(first, rig.now().saturating_add(period));
    for _ in 0..10 {
        rig.advance(Duration::from_millis(9));
        rig.write(&x, 2.0);
        assert_eq!(consumer.poll(rig.now()), Some(first));
        assert_eq!(
            drain(&mut consumer),
            [],
            "nothing is delivered before the period ends"
        );
    }
    assert_eq!(balanced(&consumer, 1, &x).waiting, 1);
    rig.advance(Duration::from_millis(11));
    let second = consumer.poll(rig.now()).expect("a poll is due");
    assert_eq!(
        second,
        first.saturating_add(period),
        "the period begins at the previous due time"
    );
    let got = updates(&mut consumer);
    assert_eq!((sequences(&got), got[0].lost), (vec![11], coalesced(9)));
    assert_eq!(balanced(&consumer, 1, &x).received, 2);
    rig.advance(period);
    assert!(consumer.poll(rig.now()).is_some());
    assert_eq!(drain(&mut consumer), [], "nothing has changed");
    // Missed periods are skipped.
    rig.advance(period * 50);
    rig.write(&x, 3.0);
    let next = consumer.poll(rig.now()).expect("a poll is due");
    assert!(next > rig.now());
    assert_eq!(numbers(&updates(&mut consumer)), [3.0]);
}

#[test]
fn sampled_items_are_examined_in_slices_in_turn() {
    let count = 2500;
    let paths = (0..count).map(|n| VariableDefinition::new(format!("v{n}"), DataType::F64));
    let rig = Rig::with(paths.collect());
    let variables: Vec<_> = (0..count)
        .map(|n| rig.variable(&format!("rig/v{n}")))
        .collect();
    let period = Duration::from_secs(1);
    let mut consumer = rig.consumer();
    for variable in &variables {
        rig.subscribe(&mut consumer, 1, Contract::Sampled(period), variable);
    }
    // A second subscription with a short period must not starve because of the long list.
    let short = Duration::from_millis(1);
    rig.subscribe(&mut consumer, 2, Contract::Sampled(short), &variables[0]);
    drain(&mut consumer);
    consumer.poll(rig.now());
    rig.advance(period);
    for variable in &variables {
        rig.write(variable, 1.0);
    }
    let mut seen = vec![0; count];
    let mut short_seen = 0;
    for _ in 0..4 {
        let due = consumer.poll(rig.now()).expect("a poll is due");
        for got in updates(&mut consumer) {
            match got.subscription {
                1 => seen[(got.handle - variables[0].handle()) as usize] += 1,
                _ => short_seen += 1,
            }
        }
        if due > rig.now() {
            break;
        }
    }
    assert!(
        seen.iter().all(|times| *times == 1),
        "each item is delivered once"
    );
    assert_eq!(short_seen, 1);
}

#[test]
fn sampled_items_changed_between_slices_are_delivered_once() {
    let count = 3000u32;
    let paths = (0..count).map(|n| VariableDefinition::new(format!("v{n}"), DataType::F64));
    let rig = Rig::with(paths.collect());
    let variables: Vec<_> = (0..count)
        .map(|n| rig.variable(&format!("rig/v{n}")))
        .collect();
    let mut consumer = rig.consumer();
    let period = Duration::from_secs(1);
    for variable in &variables {
        rig.subscribe(&mut consumer, 1, Contract::Sampled(period), variable);
    }
    drain(&mut consumer);
    consumer.poll(rig.now());
    rig.advance(period);
    for variable in &variables {
        rig.write(variable, 1.0);
    }
    consumer.poll(rig.now());
    let mut seen: Vec<u32> = updates(&mut consumer)
        .iter()
        .map(|got| got.handle)
        .collect();
    assert_eq!(seen.len(), 1000);
    // Writes some items that were already examined and some that were not.
    let gone: Vec<u32> = variables
        .iter()
        .map(|v| v.handle())
        .filter(|handle| handle % 7 == 0)
        .collect();
    assert_eq!(
        consumer.unsubscribe(1, Some(&gone), &mut Wakes::new()),
        gone.len()
    );
    for _ in 0..3 {
        consumer.poll(rig.now());
        seen.extend(updates(&mut consumer).iter().map(|got| got.handle));
    }
    let mut left: Vec<u32> = seen.iter().copied().filter(|h| !gone.contains(h)).collect();
    left.sort_unstable();
    let expected: Vec<u32> = variables
        .iter()
        .map(|v| v.handle())
        .filter(|handle| handle % 7 != 0)
        .collect();
    assert_eq!(left, expected);
}

/// Behaviour: LM-18.
#[test]
fn only_changes_filters_and_counts_equal_updates() {
    for contract in CONTRACTS {
        let (rig, x) = Rig::plain();
        let mut consumer = rig.consumer();
        rig.subscribe_changes(&mut consumer, 1, contract, &x);
        drain(&mut consumer);
        let mut events = Vec::new();
        let mut filtered = 0;
        for value in [1.0, 1.0, 1.0, 2.0, 2.0, 1.0, 1.0, 1.0, 3.0] {
            rig.write(&x, value);
            for got in updates(&mut consumer) {
                filtered += got.filtered;
                assert!(
                    got.lost.nothing_lost() && got.lost.coalesced == 0,
                    "{contract}"
                );
                events.push((got.sequence, got.value));
            }
            balanced(&consumer, 1, &x);
        }
        let expected = [(1, 1.0), (4, 2.0), (6, 1.0), (9, 3.0)];
        let expected = expected.map(|(sequence, value)| (sequence, Value::F64(value)));
        assert_eq!(events, expected, "{contract}");
        let ledger = balanced(&consumer, 1, &x);
        assert_eq!(
            (ledger.filtered, ledger.received, filtered),
            (5, 4, 5),
            "{contract}"
        );
        // A change of quality counts as a change.
        let value = Value::F64(3.0);
        let mut write = Write::value(&value);
        write.quality = Some(Quality::uncertain(Reason::Estimated));
        rig.attempt(&x, &write);
        assert_eq!(updates(&mut consumer).len(), 1, "{contract}");
    }
}

/// Behaviour: B-03.
#[test]
fn only_changes_and_a_full_buffer_are_counted_separately() {
    let values = [1.0, 1.0, 2.0, 2.0, 3.0, 4.0, 4.0, 5.0, 5.0];
    let sum = |contract| {
        let (rig, x) = Rig::plain();
        let mut consumer = rig.consumer();
        rig.subscribe_changes(&mut consumer, 1, contract, &x);
        drain(&mut consumer);
        for value in values {
            rig.write(&x, value);
        }
        let before = balanced(&consumer, 1, &x);
        let got = updates(&mut consumer);
        let after = balanced(&consumer, 1, &x);
        assert_eq!((before.filtered, after.filtered), (4, 4), "{contract}");
        let queue: u64 = got.iter().map(|got| got.lost.queue).sum();
        let filtered: u64 = got.iter().map(|got| got.filtered).sum();
        let coalesced: u64 = got.iter().map(|got| got.lost.coalesced).sum();
        (
            numbers(&got),
            queue,
            coalesced,
            filtered,
            after.dropped_queue,
        )
    };
    assert_eq!(sum(Contract::Latest), (vec![5.0], 0, 4, 4, 0));
    assert_eq!(sum(Contract::Last(2)), (vec![4.0, 5.0], 3, 0, 3, 3));
    // The last drops are reported with the next update.
    assert_eq!(sum(Contract::First(2)), (vec![1.0, 2.0], 0, 0, 1, 3));
    assert_eq!(
        sum(Contract::ALL),
        (vec![1.0, 2.0, 3.0, 4.0, 5.0], 0, 0, 3, 0)
    );
}

#[test]
fn buffers_are_bounded_in_bytes_too() {
    let megabytes = |n: usize| Value::Bytes(vec![n as u8; 8 << 20].into());
    for contract in [Contract::Last(1000), Contract::First(1000)] {
        let (rig, x) = Rig::of(Properties::new(DataType::Bytes));
        let mut consumer = rig.consumer();
        rig.subscribe(&mut consumer, 1, contract, &x);
        drain(&mut consumer);
        for n in 0..12 {
            rig.write(&x, megabytes(n));
        }
        // 64 MiB hold seven values of a little more than 8 MiB.
        let ledger = balanced(&consumer, 1, &x);
        assert_eq!((ledger.waiting, ledger.dropped_queue), (7, 5), "{contract}");
        let got = updates(&mut consumer);
        let expected: Vec<u64> = if contract == Contract::Last(1000) {
            (6..=12).collect()
        } else {
            (1..=7).collect()
        };
        assert_eq!(sequences(&got), expected, "{contract}");
    }
}

#[test]
fn drops_before_the_first_reading_are_reported() {
    let (rig, x) = Rig::plain();
    rig.write(&x, 0.0);
    let mut consumer = rig.consumer();
    rig.subscribe(&mut consumer, 1, Contract::Last(2), &x);
    for value in 1..=5 {
        rig.write(&x, f64::from(value));
    }
    let ledger = balanced(&consumer, 1, &x);
    assert_eq!(
        (ledger.written, ledger.waiting, ledger.dropped_queue),
        (6, 3, 3)
    );
    let (events, more) = drain_some(&mut consumer, 2);
    assert!(more);
    let got = only_updates(events);
    assert_eq!((numbers(&got), got[1].lost), (vec![0.0, 4.0], queue(3)));
    let ledger = balanced(&consumer, 1, &x);
    assert_eq!(
        (ledger.received, ledger.waiting, ledger.dropped_queue),
        (2, 1, 3)
    );
    // Updates overwritten while the sink accepts nothing are counted as lost.
    for value in 6..=8 {
        rig.write(&x, f64::from(value));
    }
    let got = updates(&mut consumer);
    assert_eq!((numbers(&got), got[0].lost), (vec![7.0, 8.0], queue(2)));
    balanced(&consumer, 1, &x);
}

#[test]
fn source_and_client_updates_are_delivered_alike() {
    let (rig, x) = Rig::plain();
    let mut consumer = rig.consumer();
    rig.subscribe(&mut consumer, 1, Contract::ALL, &x);
    rig.write(&x, 1.0);
    rig.publish(&x, 2.0);
    let value = Value::F64(3.0);
    let mut write = Write::value(&value);
    write.origin = Origin::SourceRaw;
    rig.attempt_as(&trunkline_engine::Caller::engine(), &x, &write);
    let got = updates(&mut consumer);
    assert_eq!(numbers(&got[1..]), [1.0, 2.0, 3.0]);
    assert_eq!(
        got.iter().map(|got| got.writer).collect::<Vec<_>>(),
        [0, 1, 1, 0]
    );
    assert!(
        drain(&mut consumer)
            .iter()
            .all(|event| matches!(event, ConsumerEvent::Update(_)))
    );
}

#[test]
fn only_changes_is_fixed_for_the_life_of_the_subscription() {
    let (rig, x) = Rig::plain();
    let mut consumer = rig.consumer();
    rig.subscribe(&mut consumer, 1, Contract::Latest, &x);
    rig.subscribe_changes(&mut consumer, 2, Contract::Latest, &x);
    assert_eq!(consumer.only_changes(1), Some(false));
    assert_eq!(consumer.only_changes(2), Some(true));
    assert_eq!(consumer.only_changes(3), None);
    consumer.unsubscribe(2, None, &mut Wakes::new());
    assert_eq!(consumer.only_changes(2), None);
}
