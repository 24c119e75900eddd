//! F3: all clients reconnect at once.

use std::collections::HashSet;
use std::time::Duration;

use trunkline_net::Clock;
use trunkline_proto::Disconnect;
use trunkline_types::{Contract, Reading, Tick};

use crate::crowd::Crowd;
use crate::engine::{Engine, Handles, Launch, config, names};
use crate::figures::{is_full, record, seconds, size};
use crate::netns::Network;
use crate::{alone, last};

const VARIABLES: usize = 20;

fn written(engine: &Engine, value: f64) -> Vec<Reading> {
    let client = engine.client();
    let handles = Handles::open(&client, &names(VARIABLES));
    handles.write(&client, value);
    client.flush(crate::CUT_OFF).unwrap();
    handles.read(&client)
}

fn all_have(crowd: &Crowd, engine: &[Reading]) -> bool {
    crowd.connected() == crowd.members.len()
        && crowd
            .members
            .iter()
            .all(|member| member.view.equals(engine))
}

/// Behaviour: B-11, B-31.
#[test]
fn killed_engine_regains_all_its_clients_with_its_values() {
    let _alone = alone();
    // Without optimisation, one thread cannot drive that many clients.
    let most = if cfg!(debug_assertions) { 1000 } else { 10_000 };
    let count = size(200, most);
    trunkline_net::server::raise_descriptor_limit(count + 100);
    let limits = format!("[engine.limits]\nsessions_max = {}\n", count + 100);
    let mut engine = Engine::start(&config(VARIABLES, "f64", &limits));
    let (clock, before) = (Clock::new(), written(&engine, 1.0));
    let mut crowd = Crowd::new(engine.address);
    for _ in 0..count {
        crowd.join(&names(VARIABLES), Contract::Latest);
    }
    crowd.run("the first connection", |crowd| all_have(crowd, &before));

    crowd.attempts.clear();
    engine.kill();
    let killed = clock.now();
    // The clients continue while it is away.
    let restarting = std::thread::spawn(move || {
        last(Duration::from_millis(200));
        engine.start_again();
        let up = clock.now();
        let after = written(&engine, 2.0);
        (engine, up, after)
    });
    crowd.run("the engine", |_| restarting.is_finished());
    let (engine, up, after) = restarting.join().unwrap();
    crowd.run("the return of all", |crowd| all_have(crowd, &after));
    let back = clock.now();
    for member in &crowd.members {
        assert_eq!(
            member.view.restarts, VARIABLES as u64,
            "each says that its loss is unknown"
        );
    }

    let check = format!("F3, {count} sessions");
    if is_full() {
        record(
            &check,
            "all reconnected and consistent after the engine is up",
            &seconds(back.since(up)),
            "30 s",
        );
        let (most, average) = attempt_rate(&crowd.attempts, killed, back);
        record(
            &check,
            "attempts in the busiest 100 ms (after the first second), relative to the average",
            &format!("{most} to {average:.1}"),
            "2 times",
        );
        let attempts = crowd.attempts.len() as f64 / count as f64;
        record(
            &check,
            "attempts per session",
            &format!("{attempts:.1}"),
            "",
        );
        let memory = format!("{} MiB", engine.resident() >> 10);
        record(
            &check,
            "resident memory of the engine afterwards",
            &memory,
            "",
        );
    }
}

/// The most attempts in any 100 ms, and the average, between a second after the kill and the end.
fn attempt_rate(attempts: &[Tick], killed: Tick, back: Tick) -> (usize, f64) {
    let from = killed.saturating_add(Duration::from_secs(1));
    let windows = (back.since(from).as_millis() / 100).max(1) as usize;
    let mut counts = vec![0; windows + 1];
    for attempt in attempts.iter().filter(|attempt| **attempt >= from) {
        let window = (attempt.since(from).as_millis() / 100) as usize;
        counts[window.min(windows)] += 1;
    }
    let total: usize = counts.iter().sum();
    (
        counts.iter().copied().max().unwrap_or(0),
        total as f64 / windows as f64,
    )
}

/// A hundred clients lose their connections at the same instant; twenty others stay connected.
///
/// Behaviour: B-31.
#[test]
fn a_storm_of_a_hundred_clients_keeps_every_client_alive() {
    let _alone = alone();
    let engine = Engine::start(&config(VARIABLES, "f64", ""));
    let (clock, values) = (Clock::new(), written(&engine, 1.0));
    let mut crowd = Crowd::new(engine.address);
    for _ in 0..120 {
        crowd.join(&names(VARIABLES), Contract::Latest);
    }
    crowd.run("the first connection", |crowd| all_have(crowd, &values));
    let rounds = size(5, 10);
    let mut slowest = Duration::ZERO;
    for round in 0..rounds {
        let now = clock.now();
        for member in &mut crowd.members[20..] {
            member.hang_up(now, Disconnect::PeerClosed);
        }
        let values = written(&engine, f64::from(round) + 2.0);
        crowd.run("the return of the hundred", |crowd| {
            all_have(crowd, &values)
        });
        slowest = slowest.max(clock.now().since(now));
    }
    for (index, member) in crowd.members.iter().enumerate() {
        let lost = member.view.disconnects.len();
        let own = if index < 20 { 0 } else { rounds as usize };
        assert_eq!(lost, own, "client {index}: {:?}", member.view.disconnects);
        assert!(
            member.view.lost == 0,
            "nothing against the contract `latest`"
        );
    }
    if is_full() {
        record(
            "B-31, 100 of 120 clients",
            "longest time until all have reconnected, 10 times",
            &seconds(slowest),
            "",
        );
    }
}

/// Clients of another machine are admitted at the rate of its address, and all of them get in.
#[test]
fn machine_that_connects_too_often_learns_when_to_retry() {
    let _alone = alone();
    let Some(network) = Network::create("the pace of an address") else {
        return;
    };
    let engine = Engine::launch(Launch {
        before: network.before(),
        environment: Vec::new(),
        listen: vec![format!("{}:0", network.engine)],
        config: config(VARIABLES, "f64", "insecure = true\n"),
    });
    let mut crowd = Crowd::new(engine.address);
    for _ in 0..60 {
        crowd.join(&names(VARIABLES), Contract::Latest);
    }
    let mut told = HashSet::new();
    crowd.run("all of them", |crowd| {
        for (index, member) in crowd.members.iter().enumerate() {
            let state = member.core.state();
            let cause = state.cause().filter(|cause| cause.retry_after().is_some());
            if let Some(cause) = cause {
                let sentence = cause.to_string();
                assert!(sentence.contains("20 connections per second"), "{sentence}");
                told.insert(index);
            }
        }
        crowd.connected() == 60
    });
    assert!(
        told.len() >= 20,
        "only {} were told to come again",
        told.len()
    );
}
