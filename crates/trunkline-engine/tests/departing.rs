//! A consumer with very many items is removed in slices, by the engine's polls.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]
#![cfg(not(shuttle))]

mod rig;

use rig::absent::{MAX, leave, numbers, return_of, session, used};
use rig::{Bell, Rig, all, at, drain, only_updates, sequences};
use trunkline_engine::engine::SLICE;
use trunkline_engine::{Consumer, Wakes};
use trunkline_types::{Contract, DataType, VariableDefinition};

fn variables(count: usize) -> Vec<VariableDefinition> {
    let define = |index| VariableDefinition::new(format!("v{index}"), DataType::F64);
    (0..count).map(define).collect()
}

#[test]
fn a_consumer_with_very_many_items_ends_in_slices() {
    const VARIABLES: usize = 3000;
    let rig = Rig::with(variables(VARIABLES));
    let bell = Bell::default();
    let mut large = Consumer::new(rig.engine.clone(), Box::new(bell.clone()));
    let mut other = rig.consumer();
    let contracts = [Contract::Latest, Contract::Last(2), Contract::First(2)];
    for index in 0..VARIABLES {
        let variable = rig.variable(&format!("rig/v{index}"));
        for (number, contract) in contracts.into_iter().enumerate() {
            rig.subscribe(&mut large, number as u32, contract, &variable);
        }
        rig.subscribe(&mut other, 1, Contract::Latest, &variable);
        rig.write(&variable, 1.0);
    }
    drain(&mut large);
    drain(&mut other);
    bell.rings();
    let mut left = rig.engine.health().subscription_count();
    assert_eq!(left, 4 * VARIABLES as u64);
    drop(large);
    let mut polls = 0;
    // Its items are released at most a slice at a time, with writes in between.
    loop {
        let now = rig.engine.health().subscription_count();
        assert!(left - now <= SLICE as u64, "{} items at once", left - now);
        left = now;
        if left == VARIABLES as u64 {
            break;
        }
        // Writers continue, and do not wake the ended consumer.
        let variable = rig.variable(&format!("rig/v{}", polls % VARIABLES));
        rig.write(&variable, 2.0 + polls as f64);
        assert_eq!(drain(&mut other).len(), 1);
        let due = rig.engine.poll(rig.now(), rig.wall(), &mut Wakes::new());
        assert!(due.is_some() || rig.engine.health().subscription_count() == VARIABLES as u64);
        polls += 1;
        assert!(polls < 100, "the items are never released");
    }
    assert!(polls >= 8);
    assert_eq!(bell.rings(), 0, "an ended consumer is not woken");
    for index in 0..VARIABLES {
        let variable = rig.variable(&format!("rig/v{index}"));
        assert_eq!(variable.subscribers(), 1);
    }
}

/// Polls until only `left` items remain. Returns the number of polls.
fn poll_until(rig: &Rig, left: u64) -> usize {
    let mut before = rig.engine.health().subscription_count();
    for polls in 0..1000 {
        let now = rig.engine.health().subscription_count();
        assert!(
            before - now <= SLICE as u64,
            "{} items at once",
            before - now
        );
        before = now;
        if now == left && rig.engine.health().detached_sessions() == 0 {
            return polls;
        }
        let _due = rig.engine.poll(rig.now(), rig.wall(), &mut Wakes::new());
    }
    panic!("the items are never released");
}

/// Subscribes all variables under `all`, once for each of `ids`, and takes their first readings.
fn subscribe_all(rig: &Rig, consumer: &mut Consumer, ids: std::ops::Range<u32>, names: &[String]) {
    for id in ids {
        for name in names {
            rig.subscribe(consumer, id, all(100), &rig.variable(name));
        }
    }
    while !drain(consumer).is_empty() {}
}

fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count)
        .map(|index| format!("rig/{prefix}{index}"))
        .collect()
}

#[test]
fn a_consumer_of_all_with_very_many_items_ends_in_slices() {
    const VARIABLES: usize = 2500;
    let rig = Rig::with(variables(VARIABLES));
    let names = names("v", VARIABLES);
    let (mut large, mut other) = (rig.consumer(), rig.consumer());
    subscribe_all(&rig, &mut large, 0..2, &names);
    subscribe_all(&rig, &mut other, 0..1, &names);
    let before = rig.engine.health().subscription_count();
    assert_eq!(before, 3 * VARIABLES as u64);
    drop(large);
    assert!(before - rig.engine.health().subscription_count() <= SLICE as u64);
    // Writers add nothing to an ended subscription, and the other consumers get the updates.
    for name in [&names[0], &names[VARIABLES - 1]] {
        let variable = rig.variable(name);
        rig.write(&variable, 1.0);
        assert_eq!(drain(&mut other).len(), 1);
        assert_eq!(variable.subscribers(), 1);
    }
    let polls = poll_until(&rig, VARIABLES as u64);
    assert!(polls >= 4, "{polls} polls");
}

/// A lost session with very many items is processed in slices. No writer waits for it meanwhile,
/// and the next session gets the updates from before, during and after the processing.
#[test]
fn broken_session_with_many_items_is_processed_in_slices() {
    const VARIABLES: usize = 600;
    for polls_before_return in [0, 1, 100] {
        let rig = Rig::bounded(1 << 30, numbers(VARIABLES));
        let names = names("x", VARIABLES);
        let mut large = session(&rig, MAX);
        subscribe_all(&rig, &mut large, 0..6, &names);
        assert!(large.confirm(large.in_flight() as u64));
        let variables = [&names[0], &names[VARIABLES - 1]].map(|name| rig.variable(name));
        let mut expected = 0;
        let mut write_all = || {
            expected += 1;
            variables.iter().for_each(|one| drop(rig.write(one, 1.0)));
        };
        // Updates that were sent, queued, written before the lost session is processed, and written
        // later.
        write_all();
        assert!(!drain(&mut large).is_empty());
        write_all();
        leave(&rig, large);
        let left = rig.engine.health().subscription_count();
        assert!(left > 0, "the session is not processed at once");
        assert_eq!(rig.engine.health().detached_sessions(), 1);
        write_all();
        // Stored updates take bytes as their items are processed.
        let (mut sorted, mut most) = (0, 0);
        for _ in 0..polls_before_return {
            let (before, used_before) = (rig.engine.health().subscription_count(), used(&rig));
            let _due = rig.engine.poll(rig.now(), rig.wall(), &mut Wakes::new());
            assert!(before - rig.engine.health().subscription_count() <= SLICE as u64);
            let bytes = used(&rig).saturating_sub(used_before);
            sorted += bytes;
            most = most.max(bytes);
        }
        if polls_before_return == 100 {
            assert!(
                most > 0 && most <= sorted / 2,
                "{most} of {sorted} bytes at once"
            );
        }
        write_all();
        let mut next = return_of(&rig);
        for id in 0..6 {
            for variable in &variables {
                rig.resume(&mut next, id, all(100), variable, at(0));
            }
        }
        let got = only_updates(drain(&mut next));
        assert_eq!(
            got.len(),
            2 * 6 * expected,
            "after {polls_before_return} polls"
        );
        let of_one = got
            .iter()
            .filter(|one| one.subscription == 5 && one.handle == variables[1].handle());
        let of_one: Vec<_> = of_one.cloned().collect();
        assert_eq!(sequences(&of_one), [1, 2, 3, 4]);
        assert!(
            got.iter()
                .all(|one| one.lost == trunkline_types::Lost::NONE)
        );
        drop(next);
        poll_until(&rig, 0);
        assert_eq!(used(&rig), 0);
    }
}

/// Updates that feeds drop before a lost session is processed count as missing, like those dropped
/// later: older updates of the same variable are dropped as well, and their bytes released.
#[test]
fn drops_before_a_broken_session_is_processed_count_as_missing() {
    const VARIABLES: usize = 600;
    const SENT: u64 = 50;
    const LAST: u64 = 150;
    const KEPT: u64 = 60;
    let mut bytes_kept = Vec::new();
    for (polls_before, polls_after) in [(100, 0), (0, 100), (0, 0)] {
        let rig = Rig::bounded(1 << 30, numbers(VARIABLES));
        let names = names("x", VARIABLES);
        let mut broken = session(&rig, MAX);
        for id in 0..6 {
            for name in &names {
                let variable = rig.variable(name);
                rig.subscribe(&mut broken, id, all(KEPT as u32), &variable);
            }
        }
        while !drain(&mut broken).is_empty() {}
        assert!(broken.confirm(broken.in_flight() as u64));
        let variable = rig.variable(&names[0]);
        let write = |number: u64| drop(rig.write(&variable, number as f64));
        let poll = |times: usize| {
            for _ in 0..times {
                let _due = rig.engine.poll(rig.now(), rig.wall(), &mut Wakes::new());
            }
        };
        // This update is sent, but not confirmed.
        (1..=SENT).for_each(write);
        while !drain(&mut broken).is_empty() {}
        leave(&rig, broken);
        poll(polls_before);
        (SENT + 1..=LAST).for_each(write);
        poll(polls_after);
        if polls_before + polls_after > 0 {
            bytes_kept.push(used(&rig));
        }
        let mut next = return_of(&rig);
        for id in 0..6 {
            rig.resume(&mut next, id, all(KEPT as u32), &variable, at(0));
        }
        let got = only_updates(drain(&mut next));
        for id in 0..6 {
            let of_one = got.iter().filter(|one| one.subscription == id);
            let of_one: Vec<_> = of_one.cloned().collect();
            let expected: Vec<u64> = (LAST - KEPT + 1..=LAST).collect();
            assert_eq!(sequences(&of_one), expected, "{polls_before} {polls_after}");
            assert_eq!(of_one[0].lost.count(), Some(LAST - KEPT));
        }
        drop(next);
        poll_until(&rig, 0);
        assert_eq!(used(&rig), 0);
    }
    assert_eq!(bytes_kept[0], bytes_kept[1]);
}

/// A client ends a subscription of very many variables: its deliveries stop at once, and its items
/// are removed in slices.
#[test]
fn a_subscription_of_very_many_variables_ends_in_slices() {
    const VARIABLES: usize = 2500;
    let rig = Rig::with(variables(VARIABLES));
    let names = names("v", VARIABLES);
    for contract in [
        Contract::Latest,
        all(100),
        Contract::Last(2),
        Contract::First(2),
    ] {
        let mut consumer = rig.consumer();
        for id in [1, 2] {
            for name in &names {
                rig.subscribe(&mut consumer, id, contract, &rig.variable(name));
            }
        }
        while !drain(&mut consumer).is_empty() {}
        let mut wakes = Wakes::new();
        let mut slices = 1;
        let mut left = consumer.item_count();
        while !consumer.unsubscribe_some(1, &mut wakes) {
            let now = consumer.item_count();
            assert!(left - now <= SLICE, "{} items at once", left - now);
            left = now;
            slices += 1;
            for name in [&names[0], &names[VARIABLES - 1]] {
                rig.write(&rig.variable(name), f64::from(slices));
            }
            let got = only_updates(drain(&mut consumer));
            assert!(got.iter().all(|one| one.subscription == 2), "{contract}");
            assert_eq!(got.len(), 2, "{contract}");
        }
        assert_eq!(slices, 3, "{contract}");
        assert_eq!(consumer.item_count(), VARIABLES);
        assert!(!consumer.has_subscription(1));
        // The subscription number can be reused for the same variable.
        let variable = rig.variable(&names[0]);
        rig.subscribe(&mut consumer, 1, contract, &variable);
        assert_eq!(
            drain(&mut consumer).len(),
            1,
            "{contract}: its first reading"
        );
        assert!(consumer.unsubscribe_some(1, &mut wakes));
        drop(consumer);
        poll_until(&rig, 0);
    }
}
