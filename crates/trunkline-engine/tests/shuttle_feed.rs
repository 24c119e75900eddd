//! Interleavings of subscriptions that share a feed: they join, leave and end during writes.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]
#![cfg(shuttle)]

mod rig;
mod schedules;

use std::sync::Arc;
use std::time::Duration;

use rig::{ConsumerEvent, EPOCH, Got, Recorder, START};
use schedules::{Bell, NOW, engine, explore, has, of, subscribe, write};
use shuttle::thread;
use trunkline_engine::{
    Attempt, Caller, Consumer, Engine, Subscribe, Variable, Wake, Wakes, Write, WriteOutcome,
};
use trunkline_types::{Contract, Position, Tick, Value};

const VALUES: u64 = 3;

fn few(elements: u32) -> Contract {
    Contract::All {
        elements,
        bytes: 1 << 20,
    }
}

/// Returns a consumer of the first two variables, and its wake-up.
fn sharing(engine: &Engine, variables: &[Arc<Variable>], contract: Contract) -> (Consumer, Bell) {
    let bell = Bell::default();
    let mut consumer = Consumer::new(engine.clone(), Box::new(bell.clone()))
        .confirmed_by_peer()
        .queue_bytes_max(1 << 20)
        .sharing_feeds();
    for variable in variables.iter().take(2) {
        subscribe(&mut consumer, 1, contract, variable);
    }
    (consumer, bell)
}

fn drain(consumer: &mut Consumer, events: &mut Vec<ConsumerEvent>) -> bool {
    let mut sink = Recorder::default();
    sink.takes_runs = true;
    let more = consumer.drain(&mut sink, &mut Wakes::new());
    events.append(&mut sink.events);
    more
}

/// Drains until both variables have their last value, and sleeps between wake-ups. Calls `change`
/// once, after the first delivery.
fn drain_all(
    consumer: &mut Consumer,
    bell: &Bell,
    variables: &[Arc<Variable>],
    mut change: Option<&dyn Fn(&mut Consumer)>,
) -> Vec<ConsumerEvent> {
    let mut events = Vec::new();
    loop {
        let more = drain(consumer, &mut events);
        if let Some(change) = change.take_if(|_| !events.is_empty()) {
            change(consumer);
            continue;
        }
        if has(&events, &variables[0], VALUES) && has(&events, &variables[1], VALUES) {
            return events;
        }
        if !more {
            bell.wait();
        }
    }
}

fn write_both(engine: &Engine, variables: &[Arc<Variable>]) -> Vec<thread::JoinHandle<()>> {
    let one = |writer: usize| {
        let (engine, variable) = (engine.clone(), Arc::clone(&variables[writer]));
        thread::spawn(move || {
            for value in 0..VALUES {
                write(&engine, writer as u32, &variable, value as f64);
            }
        })
    };
    (0..2).map(one).collect()
}

fn assert_all(consumer: &Consumer, events: &[ConsumerEvent], variables: &[Arc<Variable>]) {
    for variable in variables.iter().take(2) {
        let got: Vec<Got> = of(events, variable);
        let numbers: Vec<u64> = got.iter().map(|got| got.sequence).collect();
        let expected: Vec<u64> = (numbers[0]..=VALUES).collect();
        assert_eq!(numbers, expected, "an update is missing or repeated");
        let ledger = consumer
            .ledger(1, variable.handle())
            .expect("the subscription exists");
        assert!(ledger.is_balanced(), "{ledger:?}");
        assert_eq!((ledger.waiting, ledger.dropped_overrun), (0, 0));
    }
}

/// Two consumers share a feed while both variables are written. `change` is applied to the first
/// consumer in the middle.
fn two_consumers(change: Option<fn(&mut Consumer, &Arc<Variable>)>) {
    let (engine, variables) = engine(Duration::ZERO);
    let writers = write_both(&engine, &variables);
    let readers: Vec<_> = (0..2)
        .map(|reader| {
            let (engine, variables) = (engine.clone(), variables.clone());
            thread::spawn(move || {
                let (mut consumer, bell) = sharing(&engine, &variables, Contract::ALL);
                let third = Arc::clone(&variables[2]);
                let change = change.filter(|_| reader == 0);
                let change = change.map(|change| move |one: &mut Consumer| change(one, &third));
                let change = change.as_ref().map(|one| one as &dyn Fn(&mut Consumer));
                let events = drain_all(&mut consumer, &bell, &variables, change);
                assert_all(&consumer, &events, &variables);
            })
        })
        .collect();
    for thread in writers.into_iter().chain(readers) {
        thread.join().expect("no panic");
    }
}

/// Behaviour: B-01, B-03.
#[test]
fn consumers_join_each_others_feed_while_it_is_written() {
    explore(|| two_consumers(None));
}

/// Behaviour: B-01, B-03.
#[test]
fn consumer_that_changes_variables_leaves_the_feed_without_loss() {
    explore(|| {
        two_consumers(Some(|consumer, third| {
            subscribe(consumer, 1, Contract::ALL, third);
        }));
    });
}

/// A member that takes nothing ends at its bound. The other member misses nothing, and the reported
/// loss is exact. Behaviour: B-05, B-06.
#[test]
fn stopped_member_ends_alone() {
    explore(|| {
        let (engine, variables) = engine(Duration::ZERO);
        let (mut live, bell) = sharing(&engine, &variables, Contract::ALL);
        let (mut stopped, _) = sharing(&engine, &variables, few(1));
        let (mut first, mut second) = (Vec::new(), Vec::new());
        drain(&mut live, &mut first);
        drain(&mut stopped, &mut second);
        let writers = write_both(&engine, &variables);
        let mut events = drain_all(&mut live, &bell, &variables, None);
        first.append(&mut events);
        assert_all(&live, &first, &variables);
        for writer in writers {
            writer.join().expect("no panic");
        }
        while drain(&mut stopped, &mut second) {}
        let ends: Vec<_> = second
            .iter()
            .filter_map(|event| match event {
                ConsumerEvent::Overrun { items, .. } => Some(items.clone()),
                _ => None,
            })
            .collect();
        assert_eq!(ends.len(), 1);
        for item in &ends[0] {
            assert_eq!(item.last_sequence + item.lost, VALUES);
        }
    });
}

/// A session with both variables is lost while they are written, and another session takes over its
/// updates. `elements` is the bound of its subscription. With `has_sent`, the session is lost only
/// after it has sent something. With `shares`, another consumer shares the feed.
fn broken_session(elements: u32, has_sent: bool, shares: bool) {
    let (engine, variables) = engine(Duration::ZERO);
    let caller = Caller::local(1, 7);
    let keeping = || {
        let bell = Bell::default();
        let consumer = Consumer::new(engine.clone(), Box::new(bell.clone()));
        let consumer = consumer.confirmed_by_peer().queue_bytes_max(1 << 20);
        let consumer = consumer.resumable();
        match shares {
            true => (consumer.sharing_feeds(), bell),
            false => (consumer, bell),
        }
    };
    let (mut broken, bell) = keeping();
    for variable in variables.iter().take(2) {
        subscribe(&mut broken, 1, few(elements), variable);
    }
    if has_sent {
        drain(&mut broken, &mut Vec::new());
    }
    let other = shares.then(|| {
        let (mut other, bell) = sharing(&engine, &variables, Contract::ALL);
        drain(&mut other, &mut Vec::new());
        let variables = variables.clone();
        thread::spawn(move || {
            let events = drain_all(&mut other, &bell, &variables, None);
            for variable in variables.iter().take(2) {
                let got = of(&events, variable).into_iter();
                let got: Vec<u64> = got.map(|got| got.sequence).collect();
                assert_eq!(
                    got,
                    (1..=VALUES).collect::<Vec<_>>(),
                    "the other consumer gets all updates"
                );
            }
        })
    });
    let writers = write_both(&engine, &variables);
    if has_sent {
        bell.wait();
    }
    // These updates are sent, but never confirmed.
    drain(&mut broken, &mut Vec::new());
    broken.leave(&caller, Tick::MAX);
    let (mut next, bell) = keeping();
    next.follow(&caller, caller.session);
    for variable in variables.iter().take(2) {
        let had = Some(Position {
            epoch: EPOCH,
            sequence: 0,
        });
        next.subscribe(
            &caller,
            variable,
            Subscribe {
                resume: had,
                ..Subscribe::new(1, few(100))
            },
        )
        .expect("the variable can be subscribed");
    }
    let events = drain_all(&mut next, &bell, &variables, None);
    for thread in writers.into_iter().chain(other) {
        thread.join().expect("no panic");
    }
    assert_all(&next, &events, &variables);
    for variable in variables.iter().take(2) {
        let got = of(&events, variable);
        let (first, lost) = (got[0].sequence, got[0].lost.disconnect);
        assert_eq!(lost, first - 1, "missing updates are reported");
        let ledger = next
            .ledger(1, variable.handle())
            .expect("the subscription exists");
        assert_eq!(ledger.dropped_disconnect, lost);
        if u64::from(elements) >= 2 * VALUES {
            assert_eq!(first, 1, "there was room for all updates");
        }
    }
    assert_eq!(engine.health().detached_sessions(), 0);
}

/// Behaviour: B-02, B-03, B-05.
#[test]
fn updates_of_a_broken_session_are_resumed_during_drops() {
    explore(|| broken_session(2, false, false));
}

/// Behaviour: B-02, B-03.
#[test]
fn broken_session_leaves_all_updates_that_fit() {
    explore(|| broken_session(100, true, false));
}

/// Behaviour: B-02, B-03, B-05.
#[test]
fn shared_updates_of_a_broken_session_are_resumed_during_drops() {
    explore(|| broken_session(2, true, true));
}

/// Behaviour: B-02, B-03.
#[test]
fn broken_session_leaves_all_shared_updates_that_fit() {
    explore(|| broken_session(100, true, true));
}

/// Writes with a list of wake-ups that the caller flushes.
fn write_with(engine: &Engine, session: u32, variable: &Variable, value: f64, wakes: &mut Wakes) {
    let value = Value::F64(value);
    let (caller, write) = (Caller::local(session, 0), Write::value(&value));
    let attempt = engine.try_write(&caller, NOW, START, variable, &write, wakes);
    assert!(
        matches!(attempt, Attempt::Done(WriteOutcome::Applied(_))),
        "{attempt:?}"
    );
}

/// One writer adds updates to a feed, but does not wake the consumer until the second writer's
/// updates have been delivered, as if it were preempted. The second writer ends each write with
/// `flush`.
fn a_writer_that_wakes_late(flush: fn(Wakes)) {
    let (engine, variables) = engine(Duration::ZERO);
    let (consumer, bell) = sharing(&engine, &variables, Contract::ALL);
    let (second, second_bell) = sharing(&engine, &variables, Contract::ALL);
    let delivered = [Bell::default(), Bell::default()];
    let late = {
        let (engine, variables, delivered) = (engine.clone(), variables.clone(), delivered.clone());
        thread::spawn(move || {
            let mut wakes = Wakes::new();
            for value in 1..=VALUES {
                write_with(&engine, 1, &variables[0], value as f64, &mut wakes);
            }
            delivered.iter().for_each(Bell::wait);
            wakes.flush();
        })
    };
    let prompt = {
        let (engine, variables) = (engine.clone(), variables.clone());
        thread::spawn(move || {
            for value in 1..=VALUES {
                let mut wakes = Wakes::new();
                write_with(&engine, 2, &variables[1], value as f64, &mut wakes);
                flush(wakes);
            }
        })
    };
    let [first_done, second_done] = delivered;
    let reader = |mut consumer: Consumer, bell: Bell, done: Bell, variables: Vec<Arc<Variable>>| {
        let mut events = Vec::new();
        while !has(&events, &variables[1], VALUES) {
            if !drain(&mut consumer, &mut events) && !has(&events, &variables[1], VALUES) {
                bell.wait();
            }
        }
        done.wake();
        while !has(&events, &variables[0], VALUES) {
            if !drain(&mut consumer, &mut events) && !has(&events, &variables[0], VALUES) {
                bell.wait();
            }
        }
        assert_all(&consumer, &events, &variables);
    };
    let other = {
        let variables = variables.clone();
        thread::spawn(move || reader(second, second_bell, second_done, variables))
    };
    reader(consumer, bell, first_done, variables);
    for thread in [late, prompt, other] {
        thread.join().expect("no panic");
    }
}

/// An update is delivered as soon as its own writer has ended its write, regardless of the writers
/// before it.
#[test]
fn writers_of_all_do_not_depend_on_each_others_wake_ups() {
    explore(|| a_writer_that_wakes_late(drop));
}

/// The test detects a writer that relies on earlier writers to wake the consumer.
#[test]
#[should_panic(expected = "deadlock")]
fn missing_wake_ups_of_all_writers_are_detected() {
    explore(|| a_writer_that_wakes_late(std::mem::forget));
}
