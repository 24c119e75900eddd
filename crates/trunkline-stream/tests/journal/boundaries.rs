//! Tests a crash at every call to the disk, with every state of the disk that the crash can cause.

use trunkline_stream::journal::Durability;
use trunkline_stream::journal::sim_disk::{Crash, Tail, Tear};

use crate::world::{Plan, World, steps};

/// Returns the number of calls that the undisturbed run makes to each disk.
fn calls(seed: u64, count: usize, durability: Durability) -> [u64; 2] {
    let mut world = World::new(durability, None);
    world.run(&steps(seed, count));
    [world.disks[0].calls(), world.disks[1].calls()]
}

/// Runs the scenario with a crash at each call of each side, and returns the number of crashes.
fn crash_everywhere(
    seed: u64,
    count: usize,
    durability: Durability,
    crashes: &[(u64, Crash)],
    again: &[Option<(u64, Crash)>],
) -> u64 {
    let steps = steps(seed, count);
    let calls = calls(seed, count, durability);
    let mut seen = 0;
    for (of_writer, calls) in [true, false].into_iter().zip(calls) {
        for call in 0..calls {
            for (bytes, crash) in crashes {
                for again in again {
                    let plan = Plan {
                        of_writer,
                        call,
                        bytes: *bytes,
                        crash: *crash,
                        again: *again,
                    };
                    let outcome = std::panic::catch_unwind(|| {
                        let mut world = World::new(durability, Some(plan));
                        world.run(&steps);
                        world.crashes
                    });
                    match outcome {
                        Ok(crashes) => seen += crashes,
                        Err(_) => panic!("seed {seed} {durability:?} {plan:?}"),
                    }
                }
            }
        }
    }
    assert!(
        seen >= calls[0] + calls[1],
        "{seen} crashes at {calls:?} calls"
    );
    seen
}

fn power(bytes: u64, tail: Tail, names: u64) -> Crash {
    Crash::PowerFailed(Tear { bytes, tail, names })
}

/// The number of bytes that an interrupted write has written at the crash.
const WRITTEN: [u64; 7] = [0, 1, 8, 23, 24, 31, u64::MAX];

/// Behaviour: B-60.
///
/// Either program is killed at every call to its disk, and at every byte of a record.
#[test]
fn program_killed_at_any_call_loses_and_duplicates_nothing() {
    for seed in 0..12 {
        let kills = WRITTEN.map(|bytes| (bytes, Crash::Killed));
        for durability in [Durability::Process, Durability::Disk] {
            crash_everywhere(seed, 40, durability, &kills, &[None]);
        }
    }
    let every_byte: Vec<_> = (0..80).map(|bytes| (bytes, Crash::Killed)).collect();
    crash_everywhere(99, 12, Durability::Process, &every_byte, &[None]);
}

/// Behaviour: B-60.
///
/// Power fails at every call. Unsynced data is truncated at any byte, or is zero or garbage from that
/// byte on. Any part of the changes of file names is kept.
#[test]
fn power_failure_at_any_call_loses_and_duplicates_nothing() {
    let mut crashes = Vec::new();
    for bytes in [0, 1, 24, 60, u64::MAX] {
        for tail in [Tail::Truncated, Tail::Zeroed, Tail::Garbage] {
            for names in [0, 0b01, 0b10, 0b101, u64::MAX] {
                crashes.push((7, power(bytes, tail, names)));
            }
        }
    }
    for seed in 100..104 {
        crash_everywhere(seed, 30, Durability::Disk, &crashes, &[None]);
    }
    let every_byte: Vec<_> = (0..160)
        .map(|bytes| (24, power(bytes, Tail::Truncated, u64::MAX)))
        .collect();
    crash_everywhere(98, 10, Durability::Disk, &every_byte, &[None]);
}

/// Behaviour: B-60.
///
/// The program crashes again during recovery, at every call.
#[test]
fn a_crash_during_the_recovery_from_a_crash_changes_nothing() {
    let crashes = [
        (7, Crash::Killed),
        (24, power(24, Tail::Truncated, 0)),
        (7, power(7, Tail::Garbage, u64::MAX)),
        (0, power(0, Tail::Zeroed, 0b10)),
    ];
    for seed in 200..203 {
        for first in crashes {
            let again = |call| crashes.map(|(_, crash)| Some((call, crash)));
            let again: Vec<_> = (0..25).flat_map(again).collect();
            crash_everywhere(seed, 15, Durability::Disk, &[first], &again);
        }
    }
}
