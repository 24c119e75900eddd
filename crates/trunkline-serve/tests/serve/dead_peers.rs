//! Tests peers that have disappeared or are reachable in one direction only. Both ends detect this within
//! the deadline, and release the resources of the connection.

use std::time::Duration;

use trunkline_engine::Caller;
use trunkline_proto::{Disconnect, Endpoint};
use trunkline_serve::{ServeOptions, Session};
use trunkline_types::{Contract, Tick};

use super::rig::{Pair, client_options};

const STEP: Duration = Duration::from_millis(50);

/// The directions in which bytes still pass.
#[derive(Clone, Copy, Debug)]
struct Line {
    to_engine: bool,
    to_client: bool,
}

/// Returns the time from the break of the line until each end disconnects; `None` if it does not do so
/// within 20 s. If `is_told` is true, a disconnection by one end reaches the other end in the working
/// direction, as a reset does. Otherwise a broken line reports nothing.
fn given_up(
    pair: &mut Pair,
    line: Line,
    is_told: bool,
) -> (Option<Duration>, Option<Duration>, Session) {
    let mut session = pair.session.take().unwrap();
    let broken = pair.world.time().0;
    let (mut at_client, mut at_engine) = (None, None);
    while pair.world.time().0.since(broken) < Duration::from_secs(20) {
        pair.world.advance(STEP);
        let (now, wall) = pair.world.time();
        let since = now.since(broken);
        if at_client.is_none() {
            pair.client.handle_timeout(now, wall);
        }
        if at_engine.is_none() {
            session.handle_timeout(now, wall);
        }
        for _ in 0..3 {
            let (mut from_client, mut from_engine) = (Vec::new(), Vec::new());
            if at_client.is_none() {
                pair.client
                    .poll_output(now, wall, 1 << 20, &mut from_client);
            }
            if at_engine.is_none() {
                session.poll_output(now, wall, 1 << 20, &mut from_engine);
            }
            if line.to_engine && at_engine.is_none() && !from_client.is_empty() {
                session.handle_input(now, wall, &from_client);
            }
            if line.to_client && at_client.is_none() && !from_engine.is_empty() {
                pair.client.handle_input(now, wall, &from_engine);
            }
        }
        if let Some(cause) = pair.client.wants_close().filter(|_| at_client.is_none()) {
            pair.client.handle_disconnected(now, cause);
            at_client = Some(since);
            if is_told && line.to_engine && at_engine.is_none() {
                session.handle_disconnected(now, Disconnect::PeerClosed);
                at_engine = Some(since);
            }
        }
        if let Some(cause) = session.wants_close().filter(|_| at_engine.is_none()) {
            session.handle_disconnected(now, cause);
            at_engine = Some(since);
            if is_told && line.to_client && at_client.is_none() {
                pair.client.handle_disconnected(now, Disconnect::PeerClosed);
                at_client = Some(since);
            }
        }
    }
    (at_client, at_engine, session)
}

fn subscribers(pair: &Pair) -> usize {
    let engine = pair.world.engine();
    let variable = engine.resolve(&Caller::engine(), "rig/x").unwrap();
    variable.subscribers()
}

/// Behaviour: B-13.
#[test]
fn broken_line_is_detected_by_both_ends_within_the_deadline() {
    for (to_engine, to_client) in [(false, false), (false, true), (true, false)] {
        for contract in ["latest", "all", "last:10"] {
            let mut sut = Pair::of(&["x"]);
            let id = sut.subscribe(&["rig/x"], contract);
            sut.events(id);
            sut.pass(Duration::from_millis(1300));
            assert_eq!(subscribers(&sut), 1);
            let line = Line {
                to_engine,
                to_client,
            };
            let (at_client, at_engine, _session) = given_up(&mut sut, line, false);
            let latest = Duration::from_millis(3500);
            assert!(
                at_client.is_some_and(|after| after <= latest),
                "{line:?} {at_client:?}"
            );
            assert!(
                at_engine.is_some_and(|after| after <= latest),
                "{line:?} {at_engine:?}"
            );
            assert_eq!(subscribers(&sut), 0, "{line:?}");
            // The client reconnects by itself, and everything continues.
            sut.world.set("rig/x", 5.0);
            sut.connect();
            assert_eq!(sut.values(id).last(), Some(&5.0), "{line:?}");
        }
    }
}

/// The end that receives nothing disconnects at the deadline. The other end learns of this over the working
/// direction, even though keep-alives still arrive there.
///
/// Behaviour: B-13.
#[test]
fn whenever_a_line_breaks_both_have_noticed_soon_after_the_deadline() {
    for (to_engine, to_client) in [(false, false), (false, true), (true, false)] {
        for phase in 0..20 {
            let mut sut = Pair::of(&["x"]);
            let id = sut.subscribe(&["rig/x"], "latest");
            sut.events(id);
            sut.pass(STEP * (20 + phase));
            let line = Line {
                to_engine,
                to_client,
            };
            let (at_client, at_engine, _session) = given_up(&mut sut, line, true);
            let latest = Duration::from_secs(3) + STEP;
            for noticed in [at_client, at_engine] {
                let in_time = noticed.is_some_and(|after| after <= latest);
                assert!(in_time, "{line:?} in phase {phase}: {noticed:?}");
            }
        }
    }
}

/// Behaviour: B-13.
#[test]
fn the_deadline_is_configured_at_the_engine_and_holds_at_both_ends() {
    for (keepalive, deadline) in [(200, 600), (1000, 10_000)] {
        let (keepalive, deadline) = (
            Duration::from_millis(keepalive),
            Duration::from_millis(deadline),
        );
        let world = Pair::of(&["x"]).world;
        let serve = ServeOptions {
            keepalive,
            deadline,
            ..ServeOptions::default()
        };
        let mut sut = Pair::offline(&world, serve, client_options());
        sut.connect();
        sut.pass(keepalive * 3);
        let line = Line {
            to_engine: false,
            to_client: false,
        };
        let (at_client, at_engine, _session) = given_up(&mut sut, line, false);
        let expected = deadline.saturating_sub(keepalive)..=deadline + 2 * STEP;
        assert!(expected.contains(&at_client.unwrap()), "{at_client:?}");
        assert!(expected.contains(&at_engine.unwrap()), "{at_engine:?}");
    }
}

/// Behaviour: B-12, B-13.
#[test]
fn values_over_a_lost_connection_are_never_shown_as_current() {
    let mut sut = Pair::of(&["x"]);
    let contract: Contract = "latest".parse().unwrap();
    let id = sut.subscribe_with(&["rig/x"], contract, Default::default());
    sut.events(id);
    sut.pass(Duration::from_secs(2));
    let live = sut.client.value(sut.world.time().0, id, 0).unwrap();
    assert_eq!(live.stale, None);
    sut.cut();
    let mut before = Duration::ZERO;
    for second in 1..10 {
        let at: Tick = sut
            .world
            .time()
            .0
            .saturating_add(Duration::from_secs(second));
        let reading = sut.client.value(at, id, 0).unwrap();
        let age = reading.stale.expect("it says that it is stale");
        assert!(
            age >= before + Duration::from_secs(1) || second == 1,
            "{age:?}"
        );
        assert!(!reading.sample.quality.is_good());
        before = age;
    }
    assert!(
        before >= Duration::from_secs(11),
        "its age before the cut counts: {before:?}"
    );
    assert!(matches!(
        sut.client.state().cause(),
        Some(cause) if matches!(**cause, Disconnect::PeerClosed)
    ));
}
