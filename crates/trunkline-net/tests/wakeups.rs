//! What a sleeping round trip costs: counted in voluntary context switches, never in time.
#![cfg(not(shuttle))]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod echo;

use echo::{CallerLink, Over, Rig};
use trunkline_net::Clock;

/// Voluntary context switches of the threads of this process whose names begin with `name`.
fn sleeps_of(name: &str) -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let read = |path: std::path::PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    let tasks = tasks.map(|task| task.unwrap().path());
    let tasks = tasks.filter(|task| read(task.join("comm")).starts_with(name));
    tasks
        .map(|task| sleeps_in(&read(task.join("status"))))
        .sum()
}

fn own_sleeps() -> u64 {
    sleeps_in(&std::fs::read_to_string("/proc/thread-self/status").unwrap())
}

fn sleeps_in(status: &str) -> u64 {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.and_then(|count| count.trim().parse().ok())
        .unwrap_or(0)
}

#[test]
fn a_round_trip_costs_one_wake_up_on_each_side() {
    const TRIPS: u64 = 2000;
    for over in [Over::Tcp, Over::Unix, Over::Shared, Over::Pipe(64 << 10)] {
        let rig = Rig::sleeping(over);
        let sut = rig.link();
        sut.call(b"warm up");
        let clock = Clock::new();
        let before = (
            own_sleeps(),
            sleeps_of("trunkline-link"),
            sleeps_of("trunkline-conn"),
        );
        let start = clock.now();
        for _ in 0..TRIPS {
            sut.call(b"8 bytes.");
        }
        let elapsed = clock.now().since(start);
        let client = own_sleeps() - before.0;
        let background = sleeps_of("trunkline-link") - before.1;
        let server = sleeps_of("trunkline-conn") - before.2;
        // The background thread looks every 5 ms whether it is needed: on a machine so busy that a
        // round trip takes long, that is seen. Everything else it does is part of the round trips.
        let looks = elapsed.as_millis() as u64 / 5 * 2;
        assert!(
            client + background <= TRIPS * 11 / 10 + looks,
            "{over:?}: the client's side slept {client} + {background} times, {looks} are free"
        );
        assert!(
            server <= TRIPS * 11 / 10,
            "{over:?}: the engine's side slept {server} times"
        );
    }
}
