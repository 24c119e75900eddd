//! Updates stored for the `all` subscriptions of lost sessions, and their cost.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]
#![cfg(not(shuttle))]

mod rig;

use std::time::Duration;

use rig::absent::{COST, MAX, leave, numbers, return_of, session, used};
use rig::{Recorder, Rig, all, at, balanced, define, sequences, updates};
use trunkline_engine::{Consumer, Subscribe, Wakes};
use trunkline_types::{Contract, DataType, Properties};

/// Behaviour: B-05.
#[test]
fn broken_session_no_longer_counts_as_subscriber() {
    let rig = Rig::with(numbers(10));
    let before = rig.engine.health().subscription_count();
    for _ in 0..3 {
        let mut consumer = session(&rig, MAX);
        for number in 0..10 {
            let variable = rig.variable(&format!("rig/x{number}"));
            rig.subscribe(&mut consumer, 1, all(10), &variable);
            rig.subscribe(&mut consumer, 2, all(10), &variable);
        }
        assert_eq!(rig.engine.health().subscription_count(), before + 20);
        leave(&rig, consumer);
        assert_eq!(rig.engine.health().subscription_count(), before);
    }
    assert_eq!(rig.engine.health().detached_sessions(), 3);
}

/// Behaviour: B-06, B-02.
#[test]
fn replayed_updates_count_against_the_session() {
    let rig = Rig::bounded(MAX, numbers(1));
    let x = rig.variable("rig/x0");
    let mut other = rig.consumer();
    rig.subscribe(&mut other, 1, all(10_000), &x);
    for _ in 0..1000 {
        rig.write(&x, 1.0);
    }
    let before = used(&rig);
    let mut consumer = session(&rig, 100 << 10);
    for id in 0..200 {
        rig.resume(&mut consumer, id, all(10_000), &x, at(500));
    }
    // Two variables get all 500 updates that they missed. The others get only the newest one.
    let charged = used(&rig) - before;
    assert!(
        (1000 * COST..=(100 << 10) + (16 << 10)).contains(&charged),
        "{charged}"
    );
    let got = updates(&mut consumer);
    assert_eq!(got.len(), 2 * 500 + 198);
    for id in [0, 1] {
        let of_it = got.iter().filter(|one| one.subscription == id);
        let numbers: Vec<u64> = of_it.map(|one| one.sequence).collect();
        assert_eq!(numbers, (501..=1000).collect::<Vec<_>>());
    }
    let lost: u64 = got.iter().map(|one| one.lost.disconnect).sum();
    assert_eq!(
        lost,
        198 * 499,
        "updates that were not stored are reported as lost"
    );
    balanced(&consumer, 0, &x);
    balanced(&consumer, 199, &x);
    // Delivered and confirmed updates cost nothing.
    assert!(consumer.confirm(got.len() as u64));
    assert_eq!(used(&rig), before);
    // Undelivered updates are released with their subscription, and with their session.
    rig.resume(&mut consumer, 300, all(10_000), &x, at(500));
    assert!(used(&rig) >= before + 500 * COST);
    consumer.unsubscribe(300, None, &mut Wakes::new());
    assert_eq!(used(&rig), before);
    rig.resume(&mut consumer, 301, all(10_000), &x, at(500));
    drop(consumer);
    assert_eq!(used(&rig), before);
}

/// Behaviour: B-02, B-03, B-11.
#[test]
fn replay_stays_within_twice_the_subscription_bound() {
    let rig = Rig::bounded(MAX, numbers(3));
    let variables = ["rig/x0", "rig/x1", "rig/x2"].map(|name| rig.variable(name));
    let mut other = rig.consumer();
    for variable in &variables {
        rig.subscribe(&mut other, 1, all(1000), variable);
        for _ in 0..9 {
            rig.write(variable, 1.0);
        }
    }
    let mut consumer = session(&rig, MAX);
    for variable in &variables[..2] {
        rig.resume(&mut consumer, 1, all(5), variable, at(1));
    }
    let got = updates(&mut consumer);
    let of = |variable: &trunkline_engine::Variable| {
        let of_it = got.iter().filter(|one| one.handle == variable.handle());
        of_it.map(|one| one.sequence).collect::<Vec<_>>()
    };
    assert_eq!(of(&variables[0]), (2..=9).collect::<Vec<_>>());
    assert_eq!(of(&variables[1]), [8, 9]);
    let lost: u64 = got.iter().map(|one| one.lost.disconnect).sum();
    assert_eq!(lost, 6, "updates that did not fit are reported as lost");
    // Delivered updates make room for the next replayed ones.
    rig.resume(&mut consumer, 1, all(5), &variables[2], at(1));
    assert_eq!(
        sequences(&updates(&mut consumer)),
        (2..=9).collect::<Vec<_>>()
    );
}

/// Behaviour: B-02, B-03.
#[test]
fn only_unconfirmed_all_updates_are_kept_after_sending() {
    let rig = Rig::bounded(MAX, numbers(2));
    let (x, y) = (rig.variable("rig/x0"), rig.variable("rig/x1"));
    // A tenth of these bytes may hold sent updates: ten of them.
    let mut consumer = session(&rig, 10 * 10 * COST as usize);
    rig.subscribe(&mut consumer, 1, all(1000), &x);
    rig.subscribe(&mut consumer, 2, Contract::Latest, &y);
    let got = updates(&mut consumer).len();
    assert!(consumer.confirm(got as u64));
    // Keeps nine deliveries of `latest` and one of `all` in transit.
    for _ in 0..9 {
        rig.write(&y, 1.0);
        assert_eq!(updates(&mut consumer).len(), 1);
    }
    for _ in 0..100 {
        rig.write(&x, 1.0);
        assert_eq!(updates(&mut consumer).len(), 1);
        for _ in 0..9 {
            rig.write(&y, 1.0);
            assert_eq!(updates(&mut consumer).len(), 1);
        }
        assert!(consumer.confirm(10));
    }
    // Then five updates of each that the peer does not confirm.
    for _ in 0..5 {
        rig.write(&x, 1.0);
        rig.write(&y, 1.0);
        assert_eq!(updates(&mut consumer).len(), 2);
    }
    leave(&rig, consumer);
    let mut next = return_of(&rig);
    rig.resume(&mut next, 1, all(1000), &x, at(100));
    let got = updates(&mut next);
    assert_eq!(sequences(&got), [101, 102, 103, 104, 105]);
    assert_eq!(got[0].lost.count(), Some(0));
}

/// Behaviour: B-05, B-06.
#[test]
fn disconnected_session_yields_memory_and_keeps_the_newest_updates() {
    let rig = Rig::bounded(MAX, numbers(2));
    let (x, y) = (rig.variable("rig/x0"), rig.variable("rig/x1"));
    let sessions = 40;
    for _ in 0..sessions {
        let mut consumer = session(&rig, MAX);
        rig.subscribe(&mut consumer, 1, all(100_000), &x);
        updates(&mut consumer);
        leave(&rig, consumer);
    }
    for _ in 0..3000 {
        rig.write(&x, 1.0);
    }
    let (kept, half) = (used(&rig), MAX as u64 / 2);
    // Half of the engine's bytes, plus one borrowed chunk for each consumer.
    assert!(
        (half - half / 4..=half + sessions * (8 << 10)).contains(&kept),
        "{kept}"
    );
    // The connected session uses the other half, which is more than its floor.
    let mut present = rig.consumer();
    rig.subscribe(&mut present, 1, all(100_000), &y);
    for _ in 0..2000 {
        rig.write(&y, 1.0);
    }
    assert_eq!(updates(&mut present).len(), 2001);
    // The resumed session has the newest updates without a gap.
    let mut next = return_of(&rig);
    rig.resume(&mut next, 1, all(100_000), &x, at(0));
    let got = updates(&mut next);
    let first = got[0].sequence;
    assert!((1..3000).contains(&first), "{first}");
    assert_eq!(sequences(&got), (first..=3000).collect::<Vec<_>>());
    assert_eq!(got[0].lost.disconnect, first - 1);
}

/// Behaviour: B-05.
#[test]
fn disconnected_subscription_drops_the_oldest_updates_to_fit() {
    let long = define("long", Properties::new(DataType::String));
    let rig = Rig::bounded(MAX, [numbers(1), vec![long]].concat());
    let (x, long) = (rig.variable("rig/x0"), rig.variable("rig/long"));
    let mut consumer = session(&rig, 100 << 10);
    rig.subscribe(&mut consumer, 1, all(10_000), &x);
    rig.subscribe(&mut consumer, 1, all(10_000), &long);
    updates(&mut consumer);
    leave(&rig, consumer);
    for _ in 0..2000 {
        rig.write(&x, 1.0);
    }
    // As expensive as several hundred pending updates.
    rig.write(&long, "x".repeat(50_000).as_str());
    rig.write(&x, 1.0);
    let mut next = return_of(&rig);
    rig.resume(&mut next, 1, all(10_000), &x, at(0));
    let got = updates(&mut next);
    let first = got[0].sequence;
    assert!((1001..2001).contains(&first), "{first}");
    assert_eq!(sequences(&got), (first..=2001).collect::<Vec<_>>());
}

/// Behaviour: B-05.
#[test]
fn expired_sessions_are_released_in_slices() {
    let rig = Rig::bounded(64 << 20, numbers(5000));
    let before = used(&rig);
    let mut consumer = session(&rig, 64 << 20);
    for number in 0..5000 {
        let variable = rig.variable(&format!("rig/x{number}"));
        let id = if number < 2000 { number } else { 9999 };
        rig.subscribe(&mut consumer, id, all(10), &variable);
    }
    leave(&rig, consumer);
    rig.advance(Duration::from_secs(30));
    let mut polls = 0;
    while rig.engine.health().detached_sessions() > 0 {
        let mut wakes = Wakes::new();
        rig.engine.poll(rig.now(), rig.wall(), &mut wakes);
        polls += 1;
    }
    assert!((4..=20).contains(&polls), "{polls}");
    assert_eq!(used(&rig), before);
    for number in [0, 1999, 2000, 4999] {
        let variable = rig.variable(&format!("rig/x{number}"));
        assert_eq!(rig.write(&variable, 1.0), rig::applied(1));
    }
    assert_eq!(
        used(&rig),
        before,
        "no session is left to take the updates over"
    );
}

/// Behaviour: B-02, B-03, B-05.
#[test]
fn sent_updates_before_a_dropped_one_are_no_longer_charged() {
    let rig = Rig::bounded(MAX, numbers(2));
    let (x, y) = (rig.variable("rig/x0"), rig.variable("rig/x1"));
    let mut consumer = session(&rig, MAX);
    rig.subscribe(&mut consumer, 1, all(400), &x);
    rig.subscribe(&mut consumer, 1, all(400), &y);
    let count = updates(&mut consumer).len();
    assert!(consumer.confirm(count as u64));
    for _ in 0..400 {
        rig.write(&x, 1.0);
        rig.write(&y, 1.0);
        updates(&mut consumer);
    }
    leave(&rig, consumer);
    let sent = used(&rig);
    assert!(sent >= 800 * COST, "{sent}");
    for _ in 0..400 {
        rig.write(&x, 1.0);
    }
    let full = used(&rig);
    assert!(full >= 1200 * COST, "{full}");
    // There is no room for this update. The updates dropped for it lie between the sent updates and
    // this one.
    rig.write(&x, 1.0);
    let given_back = full - used(&rig);
    // Bytes are released in multiples of a kilobyte.
    assert!(given_back >= 400 * COST - 1024, "{given_back}");
    let mut next = return_of(&rig);
    // No update of this variable was dropped.
    rig.resume(&mut next, 1, all(400), &y, at(0));
    assert_eq!(
        sequences(&updates(&mut next)),
        (1..=400).collect::<Vec<_>>()
    );
    rig.resume(&mut next, 1, all(400), &x, at(0));
    let got = updates(&mut next);
    let first = got[0].sequence;
    assert!((402..=460).contains(&first), "{first}");
    assert_eq!(sequences(&got), (first..=801).collect::<Vec<_>>());
    assert_eq!(got[0].lost.disconnect, first - 1);
}

/// Behaviour: B-02, B-03.
#[test]
fn sent_updates_are_kept_while_a_subscription_needs_them() {
    let rig = Rig::bounded(MAX, numbers(1));
    let x = rig.variable("rig/x0");
    let mut consumer = session(&rig, MAX);
    rig.subscribe(&mut consumer, 1, all(10), &x);
    rig.subscribe(&mut consumer, 2, all(1000), &x);
    for _ in 0..5 {
        rig.write(&x, 1.0);
        updates(&mut consumer);
    }
    leave(&rig, consumer);
    for _ in 0..20 {
        rig.write(&x, 1.0);
    }
    let mut next = return_of(&rig);
    rig.resume(&mut next, 2, all(1000), &x, at(0));
    assert_eq!(sequences(&updates(&mut next)), (1..=25).collect::<Vec<_>>());
}

/// Behaviour: B-02, B-06.
#[test]
fn request_examines_a_bounded_number_of_foreign_entries() {
    const VARIABLES: usize = 200;
    let rig = Rig::with(numbers(VARIABLES));
    let variable = |number: usize| rig.variable(&format!("rig/x{number}"));
    let variables: Vec<_> = (0..VARIABLES).map(variable).collect();
    let mut other = rig.consumer();
    for variable in &variables {
        rig.subscribe(&mut other, 1, all(10_000), variable);
    }
    for _ in 0..5 {
        variables.iter().for_each(|one| drop(rig.write(one, 1.0)));
    }
    let mut consumer = session(&rig, MAX);
    consumer.begin_request();
    let per_request = consumer.scan_budget_left();
    assert_eq!(per_request, 65_536);
    let mut left = per_request;
    for variable in &variables {
        let wanted = Subscribe {
            resume: Some(at(1)),
            ..Subscribe::new(1, all(10_000))
        };
        consumer
            .subscribe(&rig.caller, variable, wanted)
            .expect("the variable can be subscribed");
        let examined = left - consumer.scan_budget_left();
        assert!(examined <= 1024, "{examined}");
        left -= examined;
    }
    assert_eq!(left, 0, "the budget is used up");
    let got = updates(&mut consumer);
    let of = |number: usize| {
        let handle = variables[number].handle();
        got.iter().filter(move |one| one.handle == handle)
    };
    assert_eq!(of(0).count(), 4);
    assert_eq!(of(0).map(|one| one.lost.disconnect).sum::<u64>(), 0);
    // Updates beyond that are reported.
    assert_eq!(of(VARIABLES - 1).count(), 1);
    let last = of(VARIABLES - 1).map(|one| one.lost.disconnect);
    assert_eq!(last.sum::<u64>(), 3);
    // The next request has a full budget again.
    rig.resume(&mut consumer, 2, all(10), &variables[VARIABLES - 1], at(1));
    assert!((per_request - 1024..per_request).contains(&consumer.scan_budget_left()));
    assert_eq!(sequences(&updates(&mut consumer)), [2, 3, 4, 5]);
}

/// Behaviour: B-02, B-03, B-06.
#[test]
fn newest_sent_updates_are_kept_and_confirmed_exactly() {
    // The number of updates confirmed out of 25, and whether the updates are delivered one by one.
    for (confirmed, singly) in [(0, true), (0, false), (22, true), (22, false), (25, true)] {
        let rig = Rig::bounded(MAX, numbers(2));
        let (x, y) = (rig.variable("rig/x0"), rig.variable("rig/x1"));
        let before = used(&rig);
        // A tenth of these bytes may hold sent updates: ten of them.
        let mut consumer = session(&rig, 10 * 10 * COST as usize);
        rig.subscribe(&mut consumer, 1, all(1000), &x);
        rig.subscribe(&mut consumer, 2, Contract::Latest, &y);
        let got = updates(&mut consumer).len();
        assert!(consumer.confirm(got as u64));
        let mut deliveries = 0;
        for _ in 0..25 {
            rig.write(&x, 1.0);
            if singly {
                deliveries += updates(&mut consumer).len();
                rig.write(&y, 1.0);
                deliveries += updates(&mut consumer).len();
            }
        }
        deliveries += updates(&mut consumer).len();
        let each = deliveries / 25;
        assert!(consumer.confirm((confirmed * each) as u64));
        if confirmed == 25 {
            // Stored updates borrow bytes in chunks four times as large as those of pending ones.
            let left = used(&rig) - before;
            assert!(
                left <= 4 << 10,
                "all updates are confirmed, but {left} bytes are used"
            );
        }
        leave(&rig, consumer);
        let mut next = return_of(&rig);
        rig.resume(&mut next, 1, all(1000), &x, at(0));
        let got = sequences(&updates(&mut next));
        let first = got[0];
        assert_eq!(got, (first..=25).collect::<Vec<_>>());
        match confirmed {
            0 => assert!((16..=21).contains(&first), "{first}"),
            22 => assert_eq!(first, 23),
            _ => assert_eq!(first, 25),
        }
    }
}

/// Behaviour: B-05.
#[test]
fn oldest_of_too_many_broken_sessions_is_dropped_in_slices() {
    let rig = Rig::bounded(64 << 20, numbers(4000));
    let mut first = session(&rig, 64 << 20);
    for number in 0..4000 {
        let variable = rig.variable(&format!("rig/x{number}"));
        rig.subscribe(&mut first, 1, all(10), &variable);
    }
    leave(&rig, first);
    let x = rig.variable("rig/x0");
    for _ in 0..1024 {
        let mut consumer = session(&rig, 64 << 20);
        rig.subscribe(&mut consumer, 1, all(10), &x);
        leave(&rig, consumer);
    }
    assert_eq!(rig.engine.health().detached_sessions(), 1025);
    let mut polls = 0;
    while rig.engine.health().detached_sessions() > 1024 {
        let due = rig.engine.poll(rig.now(), rig.wall(), &mut Wakes::new());
        polls += 1;
        if rig.engine.health().detached_sessions() > 1024 {
            assert_eq!(due, Some(rig.now()), "the next slice is due at once");
        }
    }
    // One poll processes the lost session, four release its items, and four more its memberships in
    // feeds.
    assert!((8..=10).contains(&polls), "{polls}");
}

/// Releases expired sessions. Returns the number of slices.
fn polls_until_released(rig: &Rig) -> u32 {
    let mut polls = 0;
    while rig.engine.health().detached_sessions() > 0 {
        rig.poll();
        polls += 1;
    }
    polls
}

/// Behaviour: B-05.
#[test]
fn updates_unused_by_the_next_session_are_released_in_slices() {
    /// What the successor of the lost session does.
    #[derive(Clone, Copy, PartialEq, Debug)]
    enum Successor {
        TakesTooLong,
        Ends,
        TakesAll,
    }
    for successor in [
        Successor::TakesTooLong,
        Successor::Ends,
        Successor::TakesAll,
    ] {
        let rig = Rig::bounded(64 << 20, numbers(5000));
        let before = used(&rig);
        let variable = |number: usize| rig.variable(&format!("rig/x{number}"));
        let variables: Vec<_> = (0..5000).map(variable).collect();
        let mut consumer = session(&rig, 64 << 20);
        for variable in &variables {
            rig.subscribe(&mut consumer, 1, all(10), variable);
        }
        leave(&rig, consumer);
        let mut next = return_of(&rig);
        let count = if successor == Successor::TakesAll {
            5000
        } else {
            2500
        };
        for variable in &variables[..count] {
            rig.resume(&mut next, 1, all(10), variable, at(0));
        }
        match successor {
            Successor::TakesTooLong => {
                rig.advance(Duration::from_secs(30));
                next.poll(rig.now());
            }
            Successor::Ends => drop(next),
            Successor::TakesAll => {}
        }
        let polls = polls_until_released(&rig);
        assert!((4..=10).contains(&polls), "{successor:?}: {polls}");
        assert_eq!(used(&rig), before);
    }
}

/// Behaviour: B-05.
#[test]
fn sent_updates_of_expired_sessions_are_released_in_slices() {
    let rig = Rig::bounded(64 << 20, numbers(1));
    let before = used(&rig);
    let x = rig.variable("rig/x0");
    let mut consumer = session(&rig, 64 << 20);
    rig.subscribe(&mut consumer, 1, all(10_000), &x);
    for _ in 0..5000 {
        rig.write(&x, 1.0);
    }
    updates(&mut consumer);
    leave(&rig, consumer);
    assert!(used(&rig) >= 5000 * COST);
    rig.advance(Duration::from_secs(30));
    let polls = polls_until_released(&rig);
    assert!((5..=8).contains(&polls), "{polls}");
    assert_eq!(used(&rig), before);
}

/// Behaviour: B-02, B-06.
#[test]
fn empty_feeds_count_as_examined() {
    let rig = Rig::with(numbers(1));
    let x = rig.variable("rig/x0");
    let mut others = rig.consumer();
    for id in 0..2000 {
        rig.subscribe(&mut others, id, all(10), &x);
    }
    for _ in 0..5 {
        rig.write(&x, 1.0);
    }
    updates(&mut others);
    let mut consumer = session(&rig, MAX);
    consumer.begin_request();
    let before = consumer.scan_budget_left();
    rig.resume(&mut consumer, 1, all(10), &x, at(1));
    assert_eq!(before - consumer.scan_budget_left(), 1024);
}

/// Behaviour: B-02, B-03.
#[test]
fn subscriber_without_a_position_learns_its_losses() {
    let rig = Rig::with(numbers(1));
    let x = rig.variable("rig/x0");
    let write = |count| (0..count).for_each(|_| drop(rig.write(&x, 1.0)));
    write(10);
    for drains in [false, true] {
        let mut consumer = session(&rig, MAX);
        let opened = x.update().sequence;
        rig.subscribe(&mut consumer, 1, all(100), &x);
        if drains {
            // The first reading is sent, but never confirmed.
            updates(&mut consumer);
        }
        leave(&rig, consumer);
        write(500);
        let mut next = return_of(&rig);
        rig.subscribe(&mut next, 1, all(100), &x);
        let ledger = balanced(&next, 1, &x);
        assert_eq!(
            ledger.written, 501,
            "the first reading and the 500 later updates"
        );
        let got = updates(&mut next);
        let first = got[0].sequence;
        assert!((opened + 400..opened + 500).contains(&first), "{first}");
        assert_eq!(sequences(&got), (first..=opened + 500).collect::<Vec<_>>());
        assert_eq!(got[0].lost.disconnect, first - opened);
        let ledger = balanced(&next, 1, &x);
        assert_eq!(ledger.dropped_disconnect, first - opened);
    }
    // A session that resumes before the next write still gets its first reading.
    for rig in [&rig, &Rig::with(numbers(1))] {
        let x = rig.variable("rig/x0");
        let mut consumer = session(rig, MAX);
        rig.subscribe(&mut consumer, 1, all(100), &x);
        leave(rig, consumer);
        let mut next = return_of(rig);
        rig.subscribe(&mut next, 1, all(100), &x);
        let got = updates(&mut next);
        assert_eq!(sequences(&got), [x.update().sequence]);
        assert_eq!(got[0].lost.count(), Some(0));
    }
}

/// Behaviour: B-02, B-03.
#[test]
fn leftovers_of_a_resumed_subscription_are_dropped_with_the_oldest() {
    let rig = Rig::bounded(MAX, numbers(1));
    let x = rig.variable("rig/x0");
    let mut consumer = session(&rig, MAX);
    rig.subscribe(&mut consumer, 1, all(400), &x);
    rig.subscribe(&mut consumer, 2, all(400), &x);
    for _ in 0..200 {
        rig.write(&x, 1.0);
    }
    updates(&mut consumer);
    leave(&rig, consumer);
    let mut next = return_of(&rig);
    rig.resume(&mut next, 1, all(10_000), &x, at(200));
    let mut write = |count| {
        for _ in 0..count {
            rig.write(&x, 1.0);
        }
        let got = updates(&mut next).len();
        assert!(next.confirm(got as u64));
        used(&rig)
    };
    let full = write(400);
    assert!(full >= 800 * COST, "{full}");
    // The other variable has no room for this update. The dropped updates lie between the sent
    // updates and this one.
    let given_back = full - write(1);
    assert!(given_back >= 400 * COST - 1024, "{given_back}");
}

/// Returns two consumers that share the feed of `rig/x0`. The first one is a session that can be
/// resumed.
fn sharing(rig: &Rig, queue_bytes_max: usize) -> (Consumer, Consumer) {
    let x = rig.variable("rig/x0");
    let one = session(rig, queue_bytes_max).sharing_feeds();
    let mut both = (one, rig.consumer().sharing_feeds());
    for consumer in [&mut both.0, &mut both.1] {
        rig.subscribe(consumer, 1, all(10_000), &x);
        let count = updates(consumer).len();
        consumer.confirm(count as u64);
    }
    both
}

/// Takes all pending updates as encoded runs.
fn take_runs(consumer: &mut Consumer) {
    let mut sink = Recorder::default();
    sink.takes_runs = true;
    consumer.drain(&mut sink, &mut Wakes::new());
    assert!(sink.runs > 0);
}

/// Behaviour: B-02, B-03.
#[test]
fn older_half_is_dropped_regardless_of_how_it_was_sent() {
    let rig = Rig::bounded(64 << 20, numbers(1));
    let x = rig.variable("rig/x0");
    let write = |count| (0..count).for_each(|_| drop(rig.write(&x, 1.0)));
    // A tenth of these bytes may hold sent updates: a hundred of them, in addition to those in
    // partially confirmed runs.
    let (mut consumer, mut other) = sharing(&rig, 1000 * COST as usize);
    for _ in 0..9 {
        write(100);
        take_runs(&mut consumer);
        updates(&mut other);
    }
    write(100);
    updates(&mut consumer);
    updates(&mut other);
    leave(&rig, consumer);
    // These exceed the budget.
    write(200);
    updates(&mut other);
    let mut next = return_of(&rig);
    rig.resume(&mut next, 1, all(10_000), &x, at(0));
    let got = updates(&mut next);
    let first = got[0].sequence;
    assert!((500..=700).contains(&first), "{first}");
    assert_eq!(sequences(&got), (first..=1200).collect::<Vec<_>>());
    assert_eq!(got[0].lost.disconnect, first - 1);
}

/// Behaviour: B-02, B-05.
#[test]
fn charge_is_kept_without_budget_for_partially_sent_updates() {
    let rig = Rig::bounded(MAX, numbers(3));
    let [x, y, z] = ["rig/x0", "rig/x1", "rig/x2"].map(|name| rig.variable(name));
    let (mut consumer, mut other) = sharing(&rig, MAX);
    rig.subscribe(&mut consumer, 2, all(1000), &y);
    updates(&mut consumer);
    for _ in 0..50 {
        rig.write(&y, 1.0);
    }
    updates(&mut consumer);
    for _ in 0..10 {
        for _ in 0..100 {
            rig.write(&x, 1.0);
        }
        take_runs(&mut consumer);
        updates(&mut other);
    }
    let mut stopped = rig.consumer();
    rig.subscribe(&mut stopped, 1, all(100_000), &z);
    while used(&rig) <= MAX as u64 * 3 / 4 {
        rig.write(&z, 1.0);
    }
    leave(&rig, consumer);
    let mut next = return_of(&rig);
    rig.resume(&mut next, 2, all(1000), &y, at(0));
    assert_eq!(sequences(&updates(&mut next)), (1..=50).collect::<Vec<_>>());
    // The budget had no bytes for most of these updates.
    rig.resume(&mut next, 1, all(1000), &x, at(0));
    let got = updates(&mut next);
    let first = got[0].sequence;
    assert!(first > 500, "{first}");
    assert_eq!(sequences(&got), (first..=1000).collect::<Vec<_>>());
    assert_eq!(got[0].lost.disconnect, first - 1);
}
