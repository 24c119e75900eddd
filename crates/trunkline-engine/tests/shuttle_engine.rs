//! Interleavings of the write path, the consumer and concurrent operations, explored by shuttle.
//!
//! `SHUTTLE_SCHEDULES` says how many schedules each test tries (4,000 by default). A lost wake-up
//! or a lock taken twice shows as a deadlock, which shuttle reports with the schedule to replay.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]
#![cfg(shuttle)]

mod rig;
mod schedules;

use std::sync::Arc;
use std::time::Duration;

use rig::{ConsumerEvent, EPOCH, Got, Recorder, START, define, library_of};
use schedules::{Bell, NOW, engine, engine_with, explore, has, of, subscribe, try_write, write};
use shuttle::thread;
use trunkline_engine::{
    Attempt, Caller, Consumer, Engine, EngineOptions, Variable, Wakes, WriteOutcome,
};
use trunkline_types::{AuditMode, Contract, DataType, Properties};

fn write_four(engine: &Engine, variable: &Variable) {
    for value in 0..4 {
        write(engine, 1, variable, f64::from(value));
    }
}

/// Drains until `enough` returns true, and sleeps between wake-ups. Returns all deliveries.
fn drain_until(
    consumer: &mut Consumer,
    bell: &Bell,
    budget: Option<usize>,
    mut enough: impl FnMut(&[ConsumerEvent]) -> bool,
) -> Vec<ConsumerEvent> {
    let mut events = Vec::new();
    loop {
        let mut sink = Recorder::wanting(budget);
        let more = consumer.drain(&mut sink, &mut Wakes::new());
        events.append(&mut sink.events);
        if enough(&events) {
            return events;
        }
        if !more {
            bell.wait();
        }
    }
}

fn assert_contiguous(got: &[Got]) {
    let numbers: Vec<u64> = got.iter().map(|got| got.sequence).collect();
    let expected: Vec<u64> = numbers.iter().zip(numbers[0]..).map(|(_, n)| n).collect();
    assert_eq!(numbers, expected, "an update is missing or repeated");
}

/// Two threads write three variables, and one consumer sleeps whenever nothing is pending.
fn writers_and_a_sleeper(contract: Contract) {
    let (engine, variables) = engine(Duration::ZERO);
    let bell = Bell::default();
    let mut consumer = Consumer::new(engine.clone(), Box::new(bell.clone()));
    for variable in &variables {
        subscribe(&mut consumer, 1, contract, variable);
    }
    let writers: Vec<_> = (0..2usize)
        .map(|writer| {
            let (engine, variables) = (engine.clone(), variables.clone());
            thread::spawn(move || {
                for value in 0..3 {
                    write(&engine, writer as u32, &variables[writer], f64::from(value));
                    write(&engine, writer as u32, &variables[2], f64::from(value));
                }
            })
        })
        .collect();
    let events = drain_until(&mut consumer, &bell, None, |events| {
        has(events, &variables[0], 3)
            && has(events, &variables[1], 3)
            && has(events, &variables[2], 6)
    });
    for writer in writers {
        writer.join().expect("no panic");
    }
    for variable in &variables {
        let got = of(&events, variable);
        let ledger = consumer
            .ledger(1, variable.handle())
            .expect("the subscription exists");
        assert!(ledger.is_balanced(), "{ledger:?}");
        assert!(
            got.is_sorted_by(|a, b| a.sequence < b.sequence),
            "an update is out of order or repeated"
        );
        let coalesced: u64 = got.iter().map(|got| got.lost.coalesced).sum();
        assert_eq!((ledger.coalesced, ledger.waiting), (coalesced, 0));
        assert!(variable.ledger().is_balanced());
        if contract != Contract::Latest {
            assert_contiguous(&got);
        }
    }
}

/// Behaviour: SP-13.
#[test]
fn consumer_of_latest_never_sleeps_with_updates_pending() {
    explore(|| writers_and_a_sleeper(Contract::Latest));
}

#[test]
fn consumer_of_last_n_never_sleeps_with_updates_pending() {
    explore(|| writers_and_a_sleeper(Contract::Last(100)));
}

#[test]
fn consumer_of_first_n_never_sleeps_with_updates_pending() {
    explore(|| writers_and_a_sleeper(Contract::First(100)));
}

/// Behaviour: B-05.
#[test]
fn consumer_of_all_never_sleeps_with_updates_pending() {
    explore(|| writers_and_a_sleeper(Contract::ALL));
}

/// Every session writes and reads the variable under `all` on one thread, and sleeps whenever it
/// can do neither. Only one update at a time fits in the subscription, or in the session's budget.
fn sessions_that_write_what_they_read(sessions: u32, writes: u64, contract: Contract) {
    let (engine, variables) = engine(HOUR);
    let x = Arc::clone(&variables[0]);
    let last = u64::from(sessions) * writes;
    let threads: Vec<_> = (0..sessions)
        .map(|session| {
            let (engine, x) = (engine.clone(), Arc::clone(&x));
            let bell = Bell::default();
            let mut consumer = Consumer::new(engine.clone(), Box::new(bell.clone()));
            if contract != ONE {
                consumer = consumer.queue_bytes_max(1);
            }
            subscribe(&mut consumer, 1, contract, &x);
            thread::spawn(move || {
                let mut events = Vec::new();
                let mut answered = 0;
                loop {
                    let mut parked = false;
                    while answered < writes && !parked {
                        match try_write(&engine, session, &x, 1.0) {
                            Attempt::Done(WriteOutcome::Applied(_)) => answered += 1,
                            Attempt::WouldBlock { .. } => parked = consumer.wait_for_room(&x),
                            other => panic!("{other:?}"),
                        }
                    }
                    let mut sink = Recorder::default();
                    consumer.drain(&mut sink, &mut Wakes::new());
                    let took = !sink.events.is_empty();
                    events.append(&mut sink.events);
                    if answered == writes && has(&events, &x, last) {
                        break;
                    }
                    if !took {
                        bell.wait();
                    }
                }
                assert_contiguous(&of(&events, &x));
                let ledger = consumer
                    .ledger(1, x.handle())
                    .expect("the subscription exists");
                assert!(ledger.is_balanced(), "{ledger:?}");
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("no panic");
    }
    assert_eq!(x.ledger().written, last);
    assert!(x.ledger().is_balanced());
}

/// Behaviour: B-08.
#[test]
fn three_sessions_that_write_what_they_subscribe_never_deadlock() {
    explore(|| sessions_that_write_what_they_read(3, 1, ONE));
}

/// Behaviour: B-08.
#[test]
fn two_sessions_with_bound_one_never_deadlock() {
    explore(|| sessions_that_write_what_they_read(2, 2, ONE));
}

/// Behaviour: B-08.
#[test]
fn two_sessions_with_bytes_for_one_update_never_deadlock() {
    explore(|| sessions_that_write_what_they_read(2, 2, Contract::ALL));
}

/// A write refused by one full feed returns the room that it reserved in another feed, and wakes
/// the writers waiting for it.
#[test]
fn unused_reservation_is_released_and_reported() {
    explore(|| {
        let (engine, variables) = engine(HOUR);
        let (x, y) = (Arc::clone(&variables[0]), Arc::clone(&variables[1]));
        // Both subscriptions of the reader contain x and y.
        let bell = Bell::default();
        let mut reader = Consumer::new(engine.clone(), Box::new(bell.clone()));
        for id in [1, 2] {
            subscribe(&mut reader, id, ONE, &x);
            subscribe(&mut reader, id, ONE, &y);
        }
        let writers: Vec<_> = [x.clone(), y.clone()]
            .into_iter()
            .map(|variable| {
                let engine = engine.clone();
                let bell = Bell::default();
                let waiter = Consumer::new(engine.clone(), Box::new(bell.clone()));
                thread::spawn(move || {
                    for _ in 0..2 {
                        while let Attempt::WouldBlock { .. } = try_write(&engine, 1, &variable, 1.0)
                        {
                            if waiter.wait_for_room(&variable) {
                                bell.wait();
                            }
                        }
                    }
                })
            })
            .collect();
        let events = drain_until(&mut reader, &bell, Some(1), |events| {
            let of_both = |id| {
                let of_id = events.iter().filter(|event| {
                    matches!(event, ConsumerEvent::Update(got) if got.subscription == id && got.sequence > 0)
                });
                of_id.count() == 4
            };
            of_both(1) && of_both(2)
        });
        for writer in writers {
            writer.join().expect("no panic");
        }
        assert!(
            events
                .iter()
                .all(|event| matches!(event, ConsumerEvent::Update(_))),
            "no subscription ended with `overrun`"
        );
        for variable in [&x, &y] {
            for id in [1, 2] {
                let ledger = reader
                    .ledger(id, variable.handle())
                    .expect("the subscription exists");
                assert!(ledger.is_balanced());
                assert_eq!(ledger.received, 2);
            }
        }
    });
}

const HOUR: Duration = Duration::from_secs(3600);
const ONE: Contract = Contract::All {
    elements: 1,
    bytes: 1 << 20,
};

/// A write delayed by one full feed must never make another feed appear full.
#[test]
fn failed_attempt_does_not_end_other_subscriptions() {
    explore(|| {
        let (engine, variables) = engine_with([HOUR, Duration::ZERO, Duration::ZERO]);
        let (x, y) = (Arc::clone(&variables[0]), Arc::clone(&variables[1]));
        let mut shared = Consumer::new(engine.clone(), Box::new(Bell::default()));
        let mut full = Consumer::new(engine.clone(), Box::new(Bell::default()));
        // The order matters: a write first reserves room in `shared`.
        subscribe(&mut shared, 1, ONE, &x);
        subscribe(&mut full, 1, ONE, &x);
        subscribe(&mut shared, 1, ONE, &y);
        write(&engine, 1, &x, 0.0);
        shared.drain(&mut Recorder::default(), &mut Wakes::new());
        let held_up = thread::spawn({
            let (engine, x) = (engine.clone(), Arc::clone(&x));
            move || {
                for _ in 0..2 {
                    let attempt = try_write(&engine, 1, &x, 1.0);
                    assert!(matches!(attempt, Attempt::WouldBlock { .. }));
                }
            }
        });
        write(&engine, 2, &y, 1.0);
        held_up.join().expect("no panic");
        let ledger = shared
            .ledger(1, y.handle())
            .expect("the subscription exists");
        assert_eq!((ledger.waiting, ledger.dropped_overrun), (1, 0));
    });
}

/// Without a drain, the writer that may not wait ends the subscription, which releases the waiting
/// writer.
#[test]
fn waiting_writer_continues_when_the_subscription_ends() {
    explore(|| {
        let (engine, variables) = engine_with([HOUR, Duration::ZERO, Duration::ZERO]);
        let (x, y) = (Arc::clone(&variables[0]), Arc::clone(&variables[1]));
        let mut reader = Consumer::new(engine.clone(), Box::new(Bell::default()));
        subscribe(&mut reader, 1, ONE, &x);
        subscribe(&mut reader, 1, ONE, &y);
        let patient = thread::spawn({
            let (engine, x) = (engine.clone(), Arc::clone(&x));
            move || {
                let bell = Bell::default();
                let waiter = Consumer::new(engine.clone(), Box::new(bell.clone()));
                while let Attempt::WouldBlock { .. } = try_write(&engine, 1, &x, 1.0) {
                    if waiter.wait_for_room(&x) {
                        bell.wait();
                    }
                }
            }
        });
        for _ in 0..3 {
            write(&engine, 2, &y, 1.0);
        }
        patient.join().expect("no panic");
        assert_eq!((x.sequence(), y.sequence()), (1, 3));
    });
}

/// Behaviour: B-05, B-03.
#[test]
fn overrun_is_reported_once_with_an_exact_count_under_races() {
    explore(|| {
        let (engine, variables) = engine(Duration::ZERO);
        let bell = Bell::default();
        let mut consumer = Consumer::new(engine.clone(), Box::new(bell.clone()));
        let two = Contract::All {
            elements: 2,
            bytes: 1 << 20,
        };
        for variable in &variables[..2] {
            subscribe(&mut consumer, 1, two, variable);
        }
        let writers: Vec<_> = variables[..2]
            .iter()
            .cloned()
            .map(|variable| {
                let engine = engine.clone();
                thread::spawn(move || write_four(&engine, &variable))
            })
            .collect();
        let events = drain_until(&mut consumer, &bell, None, |events| {
            let done = variables[..2]
                .iter()
                .all(|variable| has(events, variable, 4));
            done || matches!(events.last(), Some(ConsumerEvent::Overrun { .. }))
        });
        for writer in writers {
            writer.join().expect("no panic");
        }
        for variable in &variables[..2] {
            let got = of(&events, variable);
            assert_contiguous(&got);
            let last = got.last().map_or(0, |got| got.sequence);
            if let Some(ConsumerEvent::Overrun { items, .. }) = events.last() {
                let ended = items.iter().find(|item| item.handle == variable.handle());
                let ended = ended.expect("both subscriptions report their end");
                assert_eq!(ended.last_sequence, last);
                assert!(last + ended.lost <= 4);
                assert_eq!(variable.subscribers(), 0);
            }
        }
    });
}

/// Undeploys a variable during writes and drains. The end is delivered once, after the last update.
fn end_follows_the_last_update(contract: Contract) {
    let (engine, variables) = engine(Duration::ZERO);
    let x = Arc::clone(&variables[0]);
    let bell = Bell::default();
    let mut consumer = Consumer::new(engine.clone(), Box::new(bell.clone()));
    subscribe(&mut consumer, 1, contract, &x);
    let writer = {
        let (engine, x) = (engine.clone(), Arc::clone(&x));
        thread::spawn(move || {
            for n in 0..3 {
                // The write is refused once the variable is undeployed.
                try_write(&engine, 1, &x, f64::from(n));
            }
        })
    };
    let undeployer = {
        let engine = engine.clone();
        thread::spawn(move || {
            engine
                .libraries()
                .undeploy("a", NOW, START, &mut Wakes::new())
                .expect("deployed")
        })
    };
    let gone = ConsumerEvent::Gone {
        subscription: 1,
        handle: x.handle(),
    };
    let events = drain_until(&mut consumer, &bell, Some(2), |events| {
        events.contains(&gone)
    });
    writer.join().expect("no panic");
    undeployer.join().expect("no panic");
    assert_eq!(events.iter().filter(|event| **event == gone).count(), 1);
    assert_eq!(events.last(), Some(&gone), "the end is the last delivery");
    let got = of(&events, &x);
    assert_eq!(
        got.last().map(|got| got.sequence),
        Some(x.sequence()),
        "the last update is missing"
    );
    assert!(x.ledger().is_balanced());
    assert_eq!(x.ledger().offered, 3);
}

#[test]
fn gone_follows_the_last_update_of_latest() {
    explore(|| end_follows_the_last_update(Contract::Latest));
}

#[test]
fn gone_follows_the_last_update_of_last_n() {
    explore(|| end_follows_the_last_update(Contract::Last(8)));
}

#[test]
fn gone_follows_the_last_update_of_first_n() {
    explore(|| end_follows_the_last_update(Contract::First(8)));
}

#[test]
fn gone_follows_the_last_update_of_all() {
    explore(|| end_follows_the_last_update(Contract::ALL));
}

/// Behaviour: B-02.
#[test]
fn subscriptions_changed_during_writes_count_exactly() {
    explore(|| {
        let (engine, variables) = engine(Duration::ZERO);
        let x = Arc::clone(&variables[0]);
        let writer = {
            let (engine, x) = (engine.clone(), Arc::clone(&x));
            thread::spawn(move || write_four(&engine, &x))
        };
        let mut consumer = Consumer::new(engine.clone(), Box::new(Bell::default()));
        let contracts = [
            Contract::Latest,
            Contract::Last(2),
            Contract::First(2),
            Contract::ALL,
        ];
        for (id, contract) in contracts.into_iter().enumerate() {
            let id = id as u32;
            subscribe(&mut consumer, id, contract, &x);
            consumer.drain(&mut Recorder::default(), &mut Wakes::new());
            let ledger = consumer
                .ledger(id, x.handle())
                .expect("the subscription exists");
            assert!(ledger.is_balanced(), "{contract}: {ledger:?}");
            if id % 2 == 1 {
                consumer.unsubscribe(id - 1, None, &mut Wakes::new());
            }
        }
        writer.join().expect("no panic");
        consumer.drain(&mut Recorder::default(), &mut Wakes::new());
        for id in [1, 3] {
            let ledger = consumer
                .ledger(id, x.handle())
                .expect("the subscription exists");
            assert!(ledger.is_balanced(), "{ledger:?}");
            assert_eq!(ledger.waiting, 0);
        }
        drop(consumer);
        assert_eq!(x.subscribers(), 0);
    });
}

/// The host of the audit sleeps between wake-ups, and gets every entry in the order of the updates.
///
/// Behaviour: B-24.
#[test]
fn audit_host_is_woken_for_every_entry() {
    explore(|| {
        let engine = Engine::new(EngineOptions::new("sut", EPOCH));
        let mut properties = Properties::new(DataType::F64);
        properties.audit = AuditMode::Complete;
        let definition = library_of("a", vec![define("x", properties)]);
        engine
            .libraries()
            .deploy(&definition, NOW, START)
            .expect("well formed");
        let caller = Caller::local(1, 0);
        let x = engine.resolve(&caller, "a/x").expect("deployed");
        let bell = Bell::default();
        engine.audit().keep(Box::new(bell.clone()));
        let writers = [1, 2].map(|session| {
            let (engine, x) = (engine.clone(), Arc::clone(&x));
            thread::spawn(move || {
                for value in 0..2 {
                    write(&engine, session, &x, f64::from(10 * session + value));
                }
            })
        });
        let mut entries = Vec::new();
        while entries.len() < 4 {
            let taken = engine.audit().take(entries.len() as u64 + 1, 1);
            if taken.is_empty() {
                bell.wait();
            }
            entries.extend(taken);
        }
        let mut value = String::new();
        for (number, entry) in (1..).zip(&entries) {
            assert_eq!((entry.number, &entry.old), (number, &value));
            value.clone_from(&entry.new);
        }
        for writer in writers {
            writer.join().expect("no panic");
        }
    });
}
