//! Processes that share memory and are killed at any instruction: the other one goes on.
#![cfg(not(shuttle))]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod echo;

use std::hash::{BuildHasher, RandomState};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use echo::{Caller, CallerLink, Echo, Over, Rig, cut_off};
use trunkline_net::{Clock, Dialler, Link, LinkOptions, Server, ServerOptions};
use trunkline_types::SocketPath;

/// Where a child is to connect to, or to listen.
const SOCKET: &str = "TRUNKLINE_KILLED_SOCKET";

/// This program again, running one of the tests below that are nothing by themselves.
struct Victim(Child);

impl Victim {
    fn start(role: &str, socket: &SocketPath) -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", role, "--nocapture"])
            .env(SOCKET, socket.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(child.expect("a child"))
    }

    /// After up to two milliseconds, at whatever instruction that is.
    fn kill_soon(&mut self) {
        let clock = Clock::new();
        let pause = RandomState::new().hash_one(self.0.id()) % 2_000_000;
        let at = clock.now().saturating_add(Duration::from_nanos(pause));
        while clock.now() < at {
            std::hint::spin_loop();
        }
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn socket() -> Option<SocketPath> {
    let text = std::env::var(SOCKET).ok()?;
    Some(SocketPath::parse(&text).unwrap())
}

#[test]
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
        let mut victim = Victim::start("victim_client", rig.socket());
        until("a connection", || rig.server().counters().sessions == 2);
        victim.kill_soon();
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
        let mut victim = Victim::start("victim_server", &path);
        let connected = link.wait_until(cut_off(), |caller, _| {
            (caller.connected && caller.connections >= round).then_some(caller.connections)
        });
        let connections = connected.expect("a connection");
        link.with(|caller, _, _| caller.received.clear());
        link.send(&vec![7; 300 << 10]);
        victim.kill_soon();
        let lost = link.wait_until(cut_off(), |caller, _| {
            (!caller.connected && caller.connections >= connections).then_some(())
        });
        assert_eq!(lost, Some(()), "round {round}");
        // What was not answered is forgotten with its connection.
        link.with(|caller, _, _| caller.forget());
    }
    drop(link);
    until("giving the memory back", || mappings() == 0);
}
