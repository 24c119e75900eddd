//! Processes that share memory and are killed at any instruction: the other one continues.
#![cfg(not(shuttle))]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

mod echo;
mod victim;

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use echo::{Caller, CallerLink, Echo, Over, Rig, cut_off};
use trunkline_net::{Clock, Dialler, Link, LinkOptions, Server, ServerOptions};
use trunkline_types::SocketPath;
use victim::{Victim, socket};

/// After up to two milliseconds, at an arbitrary instruction.
fn kill_soon(victim: Victim) {
    let clock = Clock::new();
    let pause = RandomState::new().hash_one(victim.id()) % 2_000_000;
    let at = clock.now().saturating_add(Duration::from_nanos(pause));
    while clock.now() < at {
        std::hint::spin_loop();
    }
    victim.kill();
}

#[test]
#[ignore = "an entry point of the processes that are killed"]
fn victim_client() {
    let Some(socket) = socket() else { return };
    let dialler = Dialler::Shared(socket);
    let link = Link::start(dialler, Caller::default(), LinkOptions::default()).unwrap();
    let long = vec![7; 300 << 10];
    for round in 0_usize.. {
        match round % 8 {
            7 => link.call(&long),
            _ => link.call(b"8 bytes."),
        };
    }
}

#[test]
#[ignore = "an entry point of the processes that are killed"]
fn victim_server() {
    let Some(socket) = socket() else { return };
    let options = ServerOptions {
        listen: vec![socket.into()],
        ..ServerOptions::default()
    };
    let _server = Server::bind(options, Echo::factory()).unwrap();
    loop {
        std::thread::park();
    }
}

/// Memory of this process that it shares with others.
fn mappings() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines()
        .filter(|line| line.contains("memfd:trunkline"))
        .count()
}

/// Spins until `done`.
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let (clock, cut_off) = (Clock::new(), cut_off().unwrap());
    while !done() {
        assert!(clock.now() < cut_off, "{what} did not happen");
        std::thread::yield_now();
    }
}

#[test]
fn clients_and_servers_are_killed_at_any_instruction() {
    let rig = Rig::new(Over::Shared);
    let bystander = rig.link();
    bystander.call(b"here");
    let own = mappings();
    for _ in 0..150 {
        let victim = Victim::start("victim_client", rig.socket());
        until("a connection", || rig.server().counters().sessions == 2);
        kill_soon(victim);
        until("the end of its session", || {
            rig.server().counters().sessions == 1
        });
        assert_eq!(bystander.call(b"still here"), b"still here");
    }
    until("giving the memory back", || mappings() == own);
    drop(bystander);
    drop(rig);

    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("victim.sock");
    let path = SocketPath::parse(path.to_str().unwrap()).unwrap();
    let dialler = Dialler::Shared(path.clone());
    let link = Link::start(dialler, Caller::redialling(), LinkOptions::default()).unwrap();
    for round in 1..=50 {
        let victim = Victim::start("victim_server", &path);
        let connected = link.wait_until(cut_off(), |caller, _| {
            (caller.connected && caller.connections >= round).then_some(caller.connections)
        });
        let connections = connected.expect("a connection");
        link.with(|caller, _, _| caller.received.clear());
        link.send(&vec![7; 300 << 10]);
        kill_soon(victim);
        let lost = link.wait_until(cut_off(), |caller, _| {
            (!caller.connected && caller.connections >= connections).then_some(())
        });
        assert_eq!(lost, Some(()), "round {round}");
        // Unanswered messages are discarded with their connection.
        link.with(|caller, _, _| caller.forget());
    }
    drop(link);
    until("giving the memory back", || mappings() == 0);
}
