//! Sessions that are lost and resumed while the engine's budget is in use.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]
#![cfg(not(shuttle))]

mod rig;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rig::absent::{COST, MAX, leave, numbers, return_of, session, used};
use rig::{Rig, all, applied, at, define, drain_some, only_updates, sequences, stalling, updates};
use trunkline_engine::{AccessError, Attempt, Caller, Consumer, Subscribe, Variable, Wakes, Write};
use trunkline_types::Value;

/// Subscribes to a variable without taking updates, and writes it until at most `left` bytes of the
/// engine are free.
fn fill(rig: &Rig, left: usize) -> Consumer {
    let stopped_at = "rig/x1";
    let variable = rig.variable(stopped_at);
    let mut stopped = rig.consumer();
    rig.subscribe(&mut stopped, 1, all(100_000), &variable);
    while used(rig) + (left as u64) < MAX as u64 {
        rig.write(&variable, 1.0);
    }
    stopped
}

fn write(rig: &Rig, variable: &Variable, count: usize) {
    for _ in 0..count {
        rig.write(variable, 1.0);
    }
}

/// Behaviour: B-02, B-05.
#[test]
fn lost_session_keeps_its_whole_backlog_even_if_it_fills_the_engine() {
    let rig = Rig::bounded(MAX, numbers(1));
    let x = rig.variable("rig/x0");
    let mut consumer = session(&rig, MAX);
    rig.subscribe(&mut consumer, 1, all(100_000), &x);
    let got = updates(&mut consumer).len();
    assert!(consumer.confirm(got as u64));
    write(&rig, &x, 9000);
    assert!(used(&rig) >= 9000 * COST);
    leave(&rig, consumer);
    assert_eq!(rig.engine.health().detached_sessions(), 1);
    let mut next = return_of(&rig);
    rig.resume(&mut next, 1, all(100_000), &x, at(0));
    let got = sequences(&updates(&mut next));
    assert_eq!(got, (1..=9000).collect::<Vec<_>>());
}

/// Behaviour: B-05, B-06.
#[test]
fn resumed_session_gets_everything_even_if_the_engine_is_full() {
    // Covers update counts whose cost is fully or only partly borrowed, in an engine that has bytes
    // for a few more updates or for none.
    for (count, left) in [(1000, 60_000), (1000, 4096), (900, 60_000), (900, 4096)]
        .into_iter()
        .chain([2, 3, 57, 58, 800, 950].map(|count| (count, 4096)))
    {
        let rig = Rig::bounded(MAX, numbers(2));
        let (x, y) = (rig.variable("rig/x0"), rig.variable("rig/x1"));
        let mut consumer = session(&rig, MAX);
        rig.subscribe(&mut consumer, 1, all(100_000), &x);
        updates(&mut consumer);
        leave(&rig, consumer);
        write(&rig, &x, count);
        let _stopped = fill(&rig, left);
        let mut next = return_of(&rig);
        let mut subscribe = |id, variable| {
            let had = Some(at(0));
            next.subscribe(
                &rig.caller,
                variable,
                Subscribe {
                    resume: had,
                    ..Subscribe::new(id, all(100_000))
                },
            )
        };
        for (id, variable) in [(2, &y), (2, &x)] {
            let refused = subscribe(id, variable);
            assert!(
                matches!(refused, Err(AccessError::MemoryFull { .. })),
                "{refused:?}"
            );
        }
        subscribe(1, &x).expect("the subscription replaces the stored one");
        assert!(used(&rig) <= MAX as u64);
        let got = sequences(&updates(&mut next));
        assert_eq!(got, (1..=count as u64).collect::<Vec<_>>(), "{left}");
        assert_eq!(rig.engine.health().detached_sessions(), 0);
    }
}

/// Behaviour: B-02, B-05.
#[test]
fn resumed_session_with_many_variables_gets_everything_of_each() {
    const VARIABLES: usize = 400;
    let rig = Rig::bounded(MAX, numbers(VARIABLES + 2));
    let variable = |number: usize| rig.variable(&format!("rig/x{}", number + 2));
    let variables: Vec<_> = (0..VARIABLES).map(variable).collect();
    let mut consumer = session(&rig, MAX);
    for variable in &variables {
        rig.subscribe(&mut consumer, 1, all(100_000), variable);
    }
    updates(&mut consumer);
    leave(&rig, consumer);
    for variable in &variables {
        write(&rig, variable, 10);
    }
    let _stopped = fill(&rig, 4096);
    let mut next = return_of(&rig);
    for variable in &variables {
        rig.resume(&mut next, 1, all(100_000), variable, at(0));
    }
    assert!(used(&rig) <= MAX as u64);
    let got = updates(&mut next);
    assert_eq!(got.len(), 10 * VARIABLES);
    assert_eq!(got.iter().map(|one| one.lost.disconnect).sum::<u64>(), 0);
}

/// Behaviour: B-02, B-05.
#[test]
fn untaken_updates_of_a_resumed_session_are_kept_again() {
    let rig = Rig::bounded(MAX, numbers(2));
    let x = rig.variable("rig/x0");
    let mut consumer = session(&rig, MAX);
    rig.subscribe(&mut consumer, 1, all(100_000), &x);
    updates(&mut consumer);
    leave(&rig, consumer);
    write(&rig, &x, 6000);
    let _stopped = fill(&rig, 4096);
    for _ in 0..3 {
        let mut next = return_of(&rig);
        rig.resume(&mut next, 1, all(100_000), &x, at(0));
        leave(&rig, next);
        assert!(used(&rig) <= MAX as u64);
    }
    let mut next = return_of(&rig);
    rig.resume(&mut next, 1, all(100_000), &x, at(0));
    let got = sequences(&updates(&mut next));
    assert_eq!(got, (1..=6000).collect::<Vec<_>>());
}

/// Behaviour: B-05.
#[test]
fn writers_do_not_wait_for_a_session_without_budget() {
    const VARIABLES: usize = 3000;
    let stalling = |number: usize| define(&format!("s{number}"), stalling());
    let stalling: Vec<_> = (0..VARIABLES).map(stalling).collect();
    let rig = Rig::bounded(MAX, [numbers(2), stalling].concat());
    let mut consumer = session(&rig, MAX);
    for number in 0..VARIABLES {
        let variable = rig.variable(&format!("rig/s{number}"));
        rig.subscribe(&mut consumer, 1, all(1), &variable);
    }
    let first = rig.variable("rig/s0");
    rig.write(&first, 1.0);
    rig.blocks_until(&first, 2.0);
    let _stopped = fill(&rig, 4096);
    leave(&rig, consumer);
    assert_eq!(rig.write(&first, 2.0), applied(2));
    while rig.engine.health().detached_sessions() > 0 {
        rig.poll();
    }
    assert_eq!(rig.write(&first, 3.0), applied(3));
}

/// Behaviour: B-02, B-06.
#[test]
fn budget_moved_between_accounts_is_conserved_under_writes() {
    let rig = Rig::bounded(MAX, numbers(3));
    let variables = [0, 1, 2].map(|number| rig.variable(&format!("rig/x{number}")));
    let is_over = AtomicBool::new(false);
    // The floor of each consumer, and one borrowed chunk for two of them.
    let most = MAX as u64 + 4 * (64 << 10);
    std::thread::scope(|scope| {
        for (session, variable) in (2..).zip(&variables) {
            let (engine, is_over, now, wall) = (&rig.engine, &is_over, rig.now(), rig.wall());
            scope.spawn(move || {
                let (caller, value) = (Caller::local(session, 1000), Value::F64(1.0));
                let write = Write::value(&value);
                while !is_over.load(Ordering::Relaxed) {
                    let mut wakes = Wakes::new();
                    let attempt =
                        engine.try_write(&caller, now, wall, variable, &write, &mut wakes);
                    assert!(matches!(attempt, Attempt::Done(_)));
                }
            });
        }
        let _stop = Stop(&is_over);
        let (mut had, mut stopped) = ([0; 2], None);
        for round in 0..100 {
            let mut consumer = return_of(&rig);
            for (index, variable) in variables[..2].iter().enumerate() {
                rig.resume(&mut consumer, 1, all(3000), variable, at(had[index]));
            }
            assert!(used(&rig) <= most, "{}", used(&rig));
            // The session takes some updates, confirms some of these, and is lost.
            let (events, _) = drain_some(&mut consumer, round * 7 % 500);
            let count = events.len() / 2;
            let got = only_updates(events);
            assert!(consumer.confirm(count as u64));
            for one in &got[..count] {
                let index = variables.iter().position(|v| v.handle() == one.handle);
                let had = &mut had[index.expect("one of them")];
                assert_eq!(one.sequence, *had + 1 + one.lost.disconnect);
                *had = one.sequence;
            }
            leave(&rig, consumer);
            // Another client, which never takes the updates of the third variable, uses a varying
            // number of bytes.
            stopped = stopped.xor(Some(rig.consumer()));
            if let Some(stopped) = &mut stopped {
                rig.subscribe(stopped, 1, all(20_000), &variables[2]);
            }
        }
    });
    rig.advance(Duration::from_secs(30));
    while rig.engine.health().detached_sessions() > 0 {
        rig.poll();
    }
    assert_eq!(used(&rig), 0);
}

/// Stops the writers, even if the test panics.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
