//! The deliveries of each contract, and its loss reports.

use std::time::Duration;

use trunkline::types::{Contract, Lost, Value};
use trunkline::{Batch, Event, SubscribeOptions};

use crate::place::{Place, TIMEOUT, block_on, reading};

/// Behaviour: B-05, NV-05, NV-17.
pub fn latest_gives_the_newest_value(place: &Place) {
    let level = place
        .engine
        .variable::<f64>("all/f64")
        .expect("the variable exists");
    for i in 0..100 {
        level.write(f64::from(i)).expect("applied");
    }
    let updates = place.subscribe("all/f64", Contract::Latest);
    let first = reading(&updates);
    assert_eq!(
        (first.sample.value, first.position.sequence),
        (Value::F64(99.0), 100)
    );
    for i in 100..1000 {
        level.write(f64::from(i)).expect("applied");
    }
    let mut last = first.position.sequence;
    let mut coalesced = 0;
    while last < 1000 {
        let next = reading(&updates);
        assert_eq!(next.position.sequence, last + 1 + next.lost.coalesced);
        assert!(next.lost.nothing_lost(), "coalescing is no loss");
        coalesced += next.lost.coalesced;
        last = next.position.sequence;
    }
    let ledger = updates.ledger().expect("the subscription exists");
    assert!(ledger.is_balanced(), "{ledger:?}");
    assert!(coalesced < 900);
}

/// Behaviour: B-03, B-05, NV-06, NV-12, NV-13.
pub fn last_drops_the_oldest_and_says_so(place: &Place) {
    let level = place
        .engine
        .variable::<f64>("all/f64")
        .expect("the variable exists");
    let updates = place.subscribe("all/f64", Contract::Last(10));
    reading(&updates);
    for i in 1..=10_000 {
        level.write(f64::from(i)).expect("applied");
    }
    let (mut last, mut lost) = (0, 0);
    while last < 10_000 {
        let next = reading(&updates);
        let missed = next.lost.count().expect("it is known");
        assert_eq!(
            next.position.sequence,
            last + 1 + missed,
            "a gap is told, exactly"
        );
        lost += missed;
        last = next.position.sequence;
    }
    let ledger = updates.ledger().expect("the subscription exists");
    assert!(ledger.is_balanced(), "{ledger:?}");
    assert!(lost < 10_000);
}

/// Behaviour: B-03, B-05.
pub fn first_drops_the_newest_and_says_so(place: &Place) {
    let level = place
        .engine
        .variable::<f64>("all/f64")
        .expect("the variable exists");
    let updates = place.subscribe("all/f64", Contract::First(10));
    reading(&updates);
    for i in 1..=10_000 {
        level.write(f64::from(i)).expect("applied");
    }
    // The gap after the last kept update is reported with the next delivered one.
    let (mut last, mut extra) = (0, 10_000);
    loop {
        match updates.next(Some(Duration::from_millis(50))) {
            Some(Event::Reading { reading: next, .. }) => {
                let missed = next.lost.count().expect("it is known");
                assert_eq!(
                    next.position.sequence,
                    last + 1 + missed,
                    "a gap is told, exactly"
                );
                last = next.position.sequence;
                if last > 10_000 {
                    return;
                }
            }
            Some(_) => {}
            None => {
                extra += 1;
                level.write(f64::from(extra)).expect("applied");
            }
        }
    }
}

/// Behaviour: B-01, B-05, NV-01, VS-09.
pub fn all_gives_every_update_in_order(place: &Place) {
    let level = place
        .engine
        .variable::<f64>("all/f64")
        .expect("the variable exists");
    let updates = place.subscribe("all/f64", Contract::ALL);
    reading(&updates);
    for i in 1..=5000 {
        level.write(f64::from(i)).expect("applied");
    }
    for i in 1..=5000u32 {
        let next = reading(&updates);
        assert_eq!(next.position.sequence, u64::from(i));
        assert_eq!(next.sample.value, Value::F64(f64::from(i)));
        assert_eq!(next.lost, trunkline::types::Lost::NONE);
    }
    let copy = updates.value(0).expect("the client's own copy");
    assert_eq!(copy.position.sequence, 5000);
}

/// A thread and a task that take readings in blocks get the same readings in the same order.
pub fn readings_are_taken_in_blocks(place: &Place) {
    let level = place
        .engine
        .variable::<f64>("all/f64")
        .expect("the variable exists");
    let blocks = place.subscribe("all/f64", Contract::ALL);
    let tasks = place.client.clone().into_async();
    let options = SubscribeOptions::default();
    let awaited = tasks.subscribe(&["all/f64"], Contract::ALL, options);
    let awaited = awaited.expect("a subscription");
    reading(&blocks);
    while !is_reading(&block_on(awaited.next()).expect("it is open")) {}
    for i in 1..=3000 {
        level.write(f64::from(i)).expect("applied");
    }
    check_blocks(|| blocks.next_many(100, Some(TIMEOUT)));
    check_blocks(|| block_on(awaited.next_many(100)));
    assert!(blocks.next_many(100, Some(Duration::ZERO)).is_empty());
}

/// A batch that a thread and a task fill repeatedly has the same readings, and reports a change of
/// the connection at its position among them.
pub fn readings_are_looked_at_in_batches(place: &Place) {
    let level = place
        .engine
        .variable::<f64>("all/f64")
        .expect("the variable exists");
    let batches = place.subscribe("all/f64", Contract::ALL);
    let tasks = place.client.clone().into_async();
    let options = SubscribeOptions::default();
    let awaited = tasks.subscribe(&["all/f64"], Contract::ALL, options);
    let awaited = awaited.expect("a subscription");
    let sequence = reading(&batches).position.sequence;
    while !is_reading(&block_on(awaited.next()).expect("it is open")) {}
    for i in 1..=3000 {
        level.write(f64::from(i)).expect("applied");
    }
    let check = |batch: &Batch, last: &mut u64| {
        assert!((1..=100).contains(&batch.readings().len()));
        assert!(batch.event().is_none(), "{:?}", batch.event());
        for reading in batch.readings() {
            *last += 1;
            assert_eq!(reading.position().sequence, sequence + *last);
            assert_eq!(reading.get::<f64>(), Some(*last as f64));
            assert_eq!(reading.to_reading().lost, Lost::NONE);
        }
    };
    let (mut batch, mut last) = (Batch::new(), 0);
    while last < 3000 {
        assert!(batches.next_batch(&mut batch, 100, Some(TIMEOUT)));
        check(&batch, &mut last);
    }
    last = 0;
    while last < 3000 {
        assert!(block_on(awaited.next_batch(&mut batch, 100)));
        check(&batch, &mut last);
    }
    assert!(!batches.next_batch(&mut batch, 100, Some(Duration::ZERO)));
    assert!(batch.is_empty());
}

fn check_blocks(mut next_block: impl FnMut() -> Vec<Event>) {
    let mut last = 0;
    while last < 3000 {
        let block = next_block();
        assert!((1..=100).contains(&block.len()), "{}", block.len());
        for event in block {
            let Event::Reading { reading, .. } = event else {
                panic!("a reading was expected, not {event:?}");
            };
            last += 1;
            assert_eq!(reading.position.sequence, last);
        }
    }
}

fn is_reading(event: &Event) -> bool {
    matches!(event, Event::Reading { .. })
}

/// Behaviour: B-05.
pub fn sampled_gives_one_value_per_period(place: &Place) {
    let level = place
        .engine
        .variable::<f64>("all/f64")
        .expect("the variable exists");
    level.write(0.0).expect("applied");
    let updates = place.subscribe("all/f64", Contract::Sampled(Duration::from_millis(5)));
    let mut last = reading(&updates).position.sequence;
    for i in 1..=3 {
        for _ in 0..10 {
            level.write(f64::from(i)).expect("applied");
        }
        let newest = u64::from(i as u32) * 10 + 1;
        while last < newest {
            let next = reading(&updates);
            assert!(next.lost.nothing_lost());
            assert!(next.position.sequence > last);
            last = next.position.sequence;
        }
    }
}

/// Behaviour: B-05.
pub fn changes_only_leaves_out_what_is_equal(place: &Place) {
    let level = place
        .engine
        .variable::<f64>("all/f64")
        .expect("the variable exists");
    let options = SubscribeOptions {
        only_changes: true,
        ..SubscribeOptions::default()
    };
    let updates = place.subscribe_with("all/f64", Contract::ALL, options);
    reading(&updates);
    for value in [1.0, 1.0, 1.0, 2.0, 2.0, 1.0] {
        level.write(value).expect("applied");
    }
    let delivered: Vec<_> = (0..3).map(|_| reading(&updates)).collect();
    let sequences: Vec<_> = delivered.iter().map(|r| r.position.sequence).collect();
    assert_eq!(sequences, [1, 4, 6]);
    assert!(
        delivered.iter().all(|r| r.lost.nothing_lost()),
        "what was filtered is not lost"
    );
}

/// Behaviour: B-03.
pub fn undeployed_variables_say_that_they_are_gone(place: &Place) {
    let level = place
        .engine
        .variable::<f64>("all/f64")
        .expect("the variable exists");
    let updates = place.subscribe("all/f64", Contract::ALL);
    reading(&updates);
    level.write(1.0).expect("applied");
    place
        .engine
        .undeploy("all")
        .expect("the library is deployed");
    assert_eq!(
        reading(&updates).position.sequence,
        1,
        "the end follows the last update"
    );
    match updates.next(Some(TIMEOUT)) {
        Some(Event::Ended { sentence, .. }) => assert!(!sentence.is_empty()),
        other => panic!("the end was expected, not {other:?}"),
    }
    assert!(level.read().is_err());
}

/// Behaviour: B-02.
pub fn the_ledgers_of_both_sides_balance(place: &Place) {
    let level = place
        .engine
        .variable::<f64>("all/f64")
        .expect("the variable exists");
    let updates = place.subscribe("all/f64", Contract::Last(5));
    reading(&updates);
    for i in 0..1000 {
        level.write(f64::from(i)).expect("applied");
    }
    while reading(&updates).position.sequence < 1000 {}
    let client = updates.ledger().expect("the subscription exists");
    assert!(client.is_balanced(), "{client:?}");
    let variable = place.variable("all/f64");
    let info = place
        .client
        .info(&[variable], TIMEOUT)
        .expect("an answer")
        .remove(0);
    let info = info.expect("it exists");
    assert!(info.write_ledger.is_balanced(), "{:?}", info.write_ledger);
    assert_eq!(info.write_ledger.written, 1000);
    for subscription in info.subscriptions {
        assert!(
            subscription.ledger.is_balanced(),
            "{:?}",
            subscription.ledger
        );
        assert_eq!(subscription.ledger.waiting, 0);
    }
}
