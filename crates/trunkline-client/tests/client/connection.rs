//! The life cycle of a connection: hello, versions, keep-alive, goodbye and reconnection.

use std::net::IpAddr;
use std::time::Duration;

use trunkline_client::{
    ClientCore, ClientOptions, ConnectionState, Event, OpenOptions, RequestError,
};
use trunkline_proto::message::closing::{Goodbye, Refused};
use trunkline_proto::message::keepalive::Keepalive;
use trunkline_proto::{
    Channel, Disconnect, Endpoint, FaultCode, FrameKind, Negotiation, VersionMismatch, VersionRange,
};
use trunkline_types::{Tick, Timestamp};

use super::rig::{Rig, Said, WALL, write};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A client that speaks the versions of a release.
fn of_release(newest: u8) -> Rig {
    let versions = VersionRange::of_release(newest);
    let negotiation = Negotiation {
        versions,
        ..Negotiation::OURS
    };
    Rig::with(ClientOptions {
        negotiation,
        ..ClientOptions::default()
    })
}

fn cause(state: &ConnectionState) -> Disconnect {
    Disconnect::clone(state.cause().expect("a cause"))
}

#[test]
fn new_client_dials_at_once_and_identifies_itself() {
    let mut rig = Rig::with(ClientOptions {
        program: "sut 1.2".to_owned(),
        pid: 4711,
        ..ClientOptions::default()
    });
    assert_eq!(rig.client.poll_dial(), Some(Tick::ZERO));
    assert_eq!(rig.client.state().to_string(), "connecting");
    rig.connect();
    let Some(Said::Hello(hello)) = rig.said().into_iter().next() else {
        panic!("no hello")
    };
    assert_eq!(
        (hello.program.as_str(), hello.pid, hello.resume),
        ("sut 1.2", 4711, None)
    );
    assert_eq!(rig.client.state().to_string(), "connected to fake");
    assert_eq!(
        (rig.client.session().unwrap().epoch, rig.client.poll_dial()),
        (10, None)
    );
}

/// Behaviour: B-80.
#[test]
fn session_tells_whether_other_machines_can_read_it() {
    for (address, is_private, is_exposed) in [
        (Some([192, 0, 2, 7]), false, true),
        (Some([192, 0, 2, 7]), true, false),
        (Some([127, 0, 0, 1]), false, false),
        (None, true, false),
    ] {
        let mut rig = Rig::with(ClientOptions::default());
        rig.client.handle_channel(&Channel {
            address: address.map(IpAddr::from),
            is_private,
            ..Channel::default()
        });
        rig.connect();
        let session = rig.client.session().unwrap();
        assert_eq!(session.is_exposed, is_exposed, "{address:?}");
    }
}

/// Behaviour: B-50.
#[test]
fn engines_of_the_same_and_the_previous_version_are_accepted() {
    for version in [4, 5] {
        let mut rig = of_release(5);
        rig.engine.welcome.version = version;
        rig.connect();
        assert_eq!(
            rig.client.session().map(|session| session.version),
            Some(version)
        );
    }
}

/// Behaviour: B-50.
#[test]
fn other_version_is_refused_with_both_versions_and_a_remedy() {
    for (newest, older, other) in [(6, "client", "versions 6 to 7"), (3, "engine", "version 3")] {
        let mut rig = of_release(5);
        let engine = match newest {
            6 => VersionRange { min: 6, max: 7 },
            _ => VersionRange { min: 3, max: 3 },
        };
        let client = VersionRange::of_release(5);
        rig.engine.refused = Some(VersionMismatch { engine, client }.into());
        rig.connect();
        let sentence = rig.client.state().to_string();
        for part in [other, "versions 4 to 5", &format!("update the {older}")] {
            assert!(sentence.contains(part), "{sentence}");
        }
        assert!(matches!(rig.client.state(), ConnectionState::Closed { .. }));
        assert_eq!(rig.client.poll_dial(), None);
    }
}

#[test]
fn version_that_was_not_offered_is_not_used() {
    let mut rig = of_release(5);
    rig.engine.welcome.version = 6;
    rig.connect();
    assert!(matches!(
        cause(&rig.client.state()),
        Disconnect::VersionMismatch(_)
    ));
}

#[test]
fn giving_up_ends_all_waits_and_permits_another_attempt() {
    let mut rig = Rig::new();
    let request = rig.client.open(&["a/b"], OpenOptions::default()).unwrap();
    let id = rig
        .client
        .subscribe(&["a/b"], "all".parse().unwrap(), Default::default())
        .unwrap();
    let mismatch = VersionMismatch {
        engine: VersionRange { min: 9, max: 9 },
        client: VersionRange::OURS,
    };
    rig.engine.refused = Some(mismatch.into());
    rig.connect();
    let results = rig.client.take(request).unwrap().unwrap();
    let fault = results[0].as_ref().unwrap_err();
    assert_eq!(fault.code, FaultCode::VersionMismatch);
    assert!(fault.sentence.contains("version 9"), "{fault}");
    let events = rig.events(id);
    assert!(
        matches!(
            &events[..],
            [Event::Disconnected {
                reconnecting: false,
                ..
            }]
        ),
        "{events:?}"
    );
    let refused = rig
        .client
        .open(&["a/b"], OpenOptions::default())
        .unwrap_err();
    assert!(matches!(refused, RequestError::Closed { .. }));

    rig.engine.refused = None;
    rig.client.reconnect(rig.now);
    rig.connect();
    assert!(rig.client.state().is_connected());
    assert!(
        matches!(rig.events(id)[0], Event::Connected { .. }),
        "the subscription lives on"
    );
}

#[test]
fn every_redial_delay_is_jittered_and_its_ceiling_doubles() {
    let mut waits = vec![Vec::new(); 7];
    for seed in 0..2000 {
        let mut client = ClientCore::new(ClientOptions {
            seed,
            ..ClientOptions::default()
        });
        let mut now = Tick::from_nanos(1);
        for wait in &mut waits {
            client.handle_disconnected(now, Disconnect::PeerClosed);
            let due = client.poll_dial().unwrap();
            wait.push(due.since(now).as_secs_f64());
            now = due;
        }
    }
    let ceilings = [0.1, 0.2, 0.4, 0.8, 0.8, 0.8, 0.8];
    for (waits, ceiling) in waits.iter().zip(ceilings) {
        let mean = waits.iter().sum::<f64>() / waits.len() as f64;
        let variance = waits.iter().map(|w| (w - mean).powi(2)).sum::<f64>() / waits.len() as f64;
        assert!(waits.iter().all(|wait| *wait < ceiling));
        // Uniform from 0 to the ceiling: mean a half, standard deviation 0.289 of it.
        assert!(
            (mean / ceiling - 0.5).abs() < 0.03,
            "mean {mean} of {ceiling}"
        );
        assert!(
            (variance.sqrt() / ceiling - 0.289).abs() < 0.02,
            "deviation of {ceiling}"
        );
    }
}

#[test]
fn the_same_seed_dials_at_the_same_times() {
    let due = |seed| {
        let mut client = ClientCore::new(ClientOptions {
            seed,
            ..ClientOptions::default()
        });
        client.handle_disconnected(Tick::from_nanos(1), Disconnect::PeerClosed);
        client.poll_dial()
    };
    assert_eq!(due(3), due(3));
    assert_ne!(due(3), due(4));
}

#[test]
fn the_engines_wish_for_a_pause_is_kept() {
    let retry_after = Some(ms(2500));
    let sentence = "back soon".to_owned();
    let code = FaultCode::ShuttingDown;
    let mut rig = Rig::connected(&[]);
    rig.tell(|out| {
        Goodbye {
            code,
            retry_after,
            sentence: sentence.clone(),
        }
        .encode(out)
    });
    let wait = rig.client.poll_dial().unwrap().since(rig.now);
    assert!(wait >= ms(2500) && wait < ms(2600), "{wait:?}");
    assert!(rig.client.state().to_string().contains("back soon"));

    let versions = VersionRange::OURS;
    rig.engine.refused = Some(Refused {
        code,
        versions,
        retry_after,
        sentence,
    });
    rig.connect();
    let wait = rig.client.poll_dial().unwrap().since(rig.now);
    assert!(wait >= ms(2500) && wait < ms(2700), "{wait:?}");
}

#[test]
fn engine_that_drops_connections_is_dialled_at_growing_intervals() {
    let mut rig = Rig::connected(&[]);
    for _ in 0..12 {
        rig.reconnect();
    }
    rig.cut();
    let ConnectionState::Connecting { attempt, .. } = rig.client.state() else {
        panic!("up")
    };
    assert_eq!(attempt, 13);
    rig.connect();
    for _ in 0..10 {
        rig.pass(ms(1000));
        rig.tell(|out| Keepalive::default().encode(out));
    }
    rig.cut();
    let ConnectionState::Connecting { attempt, .. } = rig.client.state() else {
        panic!("up")
    };
    assert_eq!(attempt, 1, "a connection that lasted starts over");
}

/// A network that breaks each connection after a while does not lengthen the delays.
///
/// Behaviour: B-11.
#[test]
fn long_connections_reset_the_redial_delay() {
    let mut rig = Rig::connected(&[]);
    for _ in 0..20 {
        rig.pass(ms(500));
        rig.cut();
        let ConnectionState::Connecting { attempt, .. } = rig.client.state() else {
            panic!("up")
        };
        assert_eq!(attempt, 1);
        rig.connect();
    }
}

#[test]
fn both_ends_receive_a_frame_every_second() {
    let mut rig = Rig::connected(&[]);
    rig.said();
    for _ in 0..5 {
        rig.pass(ms(1000));
        rig.tell(|out| {
            Keepalive {
                sent: 77,
                ..Keepalive::default()
            }
            .encode(out)
        });
    }
    let said = rig.said();
    let keepalives: Vec<_> = said
        .iter()
        .filter(|said| said.kind() == FrameKind::Keepalive)
        .collect();
    assert_eq!(keepalives.len(), 5);
    let Said::Keepalive(last) = keepalives[4] else {
        panic!("no keep-alive")
    };
    // The client answers the engine's keep-alive at once, so neither end needs its own timer.
    assert_eq!((last.echo, last.echo_held_ns), (77, 0));
    rig.pass(ms(1249));
    assert!(rig.said().is_empty());
    // If no keep-alive of the engine arrives, the timer sends one.
    rig.pass(ms(1));
    let Some(Said::Keepalive(last)) = rig.said().pop() else {
        panic!("no keep-alive")
    };
    assert_eq!((last.echo, last.echo_held_ns), (77, 1_250_000_000));
    assert!(rig.client.state().is_connected());
}

#[test]
fn the_round_trip_is_measured_without_the_time_the_engine_held_the_echo() {
    let mut rig = Rig::connected(&[]);
    rig.pass(ms(1250));
    let Some(Said::Keepalive(ours)) = rig.said().pop() else {
        panic!("no keep-alive")
    };
    rig.pass(ms(105));
    let echo_held_ns = 100_000_000;
    rig.tell(|out| {
        Keepalive {
            echo: ours.sent,
            echo_held_ns,
            ..Keepalive::default()
        }
        .encode(out)
    });
    assert_eq!(rig.client.round_trip(), Some(ms(5)));
}

#[test]
fn a_silent_engine_is_dead_at_the_deadline() {
    let mut rig = Rig::connected(&["a/b"]);
    let id = rig.subscribe(&["a/b"], "latest");
    rig.events(id);
    rig.pass(ms(2999));
    assert!(rig.client.state().is_connected());
    rig.pass(ms(2));
    assert!(matches!(
        cause(&rig.client.state()),
        Disconnect::Dead { .. }
    ));
    let events = rig.events(id);
    let [
        Event::Disconnected {
            cause,
            reconnecting: true,
        },
    ] = &events[..]
    else {
        panic!("{events:?}")
    };
    assert!(cause.to_string().contains("3.0 s"), "{cause}");
    let Some(Said::Goodbye(goodbye)) = rig.said().pop() else {
        panic!("no goodbye")
    };
    assert_eq!(goodbye.code, FaultCode::PeerSilent);
}

#[test]
fn an_engine_that_does_not_answer_the_hello_is_left_after_five_seconds() {
    let mut rig = Rig::new();
    rig.engine.hold(FrameKind::Hello);
    rig.connect();
    rig.pass(ms(4999));
    assert!(rig.connected);
    rig.pass(ms(1));
    assert!(matches!(
        cause(&rig.client.state()),
        Disconnect::Slow { what: "hello", .. }
    ));
}

#[test]
fn a_frame_that_does_not_arrive_completely_ends_the_connection() {
    let mut rig = Rig::connected(&[]);
    let mut bytes = Vec::new();
    Keepalive::default().encode(&mut bytes);
    for tick in 0..7 {
        // One byte per second: the engine is alive, but its frame never ends.
        rig.pass(ms(1000));
        rig.client.handle_input(rig.now, WALL, &bytes[tick..=tick]);
    }
    assert!(matches!(
        cause(&rig.client.state()),
        Disconnect::Slow { what: "frame", .. }
    ));
}

#[test]
fn steps_of_the_wall_clock_change_nothing() {
    let walls = [0, i64::MAX, -5, WALL.as_nanos(), i64::MIN];
    let mut rig = Rig::new();
    let mut steps = walls.iter().cycle().map(|ns| Timestamp::from_nanos(*ns));
    let mut wall = || steps.next().unwrap();
    rig.engine.connected();
    rig.client.handle_connected(rig.now, wall());
    rig.connected = true;
    rig.exchange();
    let mut due = Vec::new();
    for _ in 0..20 {
        let at = rig.client.poll_timeout().unwrap();
        due.push(at.since(rig.now).as_millis());
        rig.now = at;
        let mut bytes = Vec::new();
        rig.client.handle_timeout(rig.now, wall());
        rig.client.poll_output(rig.now, wall(), 1 << 20, &mut bytes);
        bytes.clear();
        Keepalive::default().encode(&mut bytes);
        rig.client.handle_input(rig.now, wall(), &bytes);
    }
    assert!(due.iter().all(|wait| *wait == 1250), "{due:?}");
    assert!(rig.client.state().is_connected());
}

#[test]
fn client_that_shuts_down_says_goodbye_and_never_redials() {
    let mut rig = Rig::connected(&["a/b"]);
    let variable = rig.open_one("a/b");
    rig.client.shut_down();
    rig.exchange();
    assert!(matches!(rig.said().last(), Some(Said::Goodbye(_))));
    assert_eq!(rig.client.poll_dial(), None);
    assert!(rig.client.write([write(variable, 1.0)]).is_err());
    assert!(matches!(
        cause(&rig.client.state()),
        Disconnect::ClosedLocally
    ));
}

#[test]
fn a_client_that_is_shut_down_while_it_dials_closes_the_new_connection() {
    let mut rig = Rig::new();
    let id = rig
        .client
        .subscribe(&["a/b"], "latest".parse().unwrap(), Default::default())
        .unwrap();
    rig.client.shut_down();
    rig.client.handle_connected(rig.now, WALL);
    assert_eq!(rig.client.wants_close(), Some(Disconnect::ClosedLocally));
    rig.client
        .handle_disconnected(rig.now, Disconnect::ClosedLocally);
    assert_eq!((rig.client.poll_dial(), rig.events(id).len()), (None, 1));
}

#[test]
fn waiting_threads_are_woken_only_when_something_changed() {
    let mut rig = Rig::connected(&["a/b", "a/c"]);
    let (b, c) = (
        rig.subscribe(&["a/b"], "latest"),
        rig.subscribe(&["a/c"], "last:2"),
    );
    let (of_b, of_c) = (
        rig.client.subscription_changes(b),
        rig.client.subscription_changes(c),
    );
    let before = rig.client.changes();
    rig.pass(ms(1000));
    rig.tell(|out| Keepalive::default().encode(out));
    assert_eq!(rig.client.changes(), before, "a keep-alive is no news");
    rig.set("a/c", 1.0);
    assert!(rig.client.changes() > before);
    assert_eq!(rig.client.subscription_changes(b), of_b);
    assert!(rig.client.subscription_changes(c) > of_c);
}
