//! What a sleeping round trip costs: counted in voluntary context switches, never in time.
#![cfg(not(shuttle))]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod echo;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use echo::{Caller, CallerLink, Over, Rig};
use trunkline_net::{Clock, Link, LinkOptions};

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
    let _alone = alone();
    for over in [Over::Tcp, Over::Unix, Over::Pipe(64 << 10)] {
        let rig = Rig::new(over);
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

#[test]
fn who_waits_now_and_then_does_not_wake_the_background_thread() {
    const TRIPS: u64 = 100;
    const IDLE: Duration = Duration::from_millis(1);
    let _alone = alone();
    for over in [Over::Tcp, Over::Unix, Over::Pipe(64 << 10)] {
        let rig = Rig::new(over);
        let options = LinkOptions {
            idle: IDLE,
            ..LinkOptions::default()
        };
        let sut = Link::start(rig.dialler(), Caller::default(), options).unwrap();
        let clock = Clock::new();
        let slow_call = || {
            // Each call comes so late that the background thread drives in between.
            let next = clock.now().saturating_add(IDLE * 3);
            while clock.now() < next {
                std::hint::spin_loop();
            }
            sut.call(b"8 bytes.");
        };
        (0..3).for_each(|_| slow_call());
        let before = sleeps_of("trunkline-link");
        (0..TRIPS).for_each(|_| slow_call());
        let background = sleeps_of("trunkline-link") - before;
        assert!(
            background <= TRIPS / 4,
            "{over:?}: the background thread slept {background} times"
        );
    }
}

/// Switches are counted by the names of threads: one test at a time has any.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
