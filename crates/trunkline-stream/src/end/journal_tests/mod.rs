//! Tests a writer and a reader whose journals are on disks that crash at every call. The model from
//! the journal tests verifies the result.

#[path = "../../../tests/journal/model.rs"]
mod model;
mod world;

use std::sync::Arc;

use crate::journal::sim_disk::{Crash, Failure, Tail, Tear};
use crate::journal::{Durability, ReaderJournal, WriterJournal};
use world::{BOUNDS, CAPACITY, ELEMENT, Plan, Step, World, owner};

fn steps(seed: u64, count: usize) -> Vec<Step> {
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = |bound: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % bound
    };
    let step = |_| match next(14) {
        0..5 => Step::Write(next(CAPACITY) + 1),
        5..7 => Step::Read(next(CAPACITY) + 1),
        7 | 8 => Step::Commit,
        9 | 10 => Step::Run,
        11 => Step::Cut,
        side => Step::Sync(side as usize & 1),
    };
    (0..count).map(step).collect()
}

fn crash_everywhere(seed: u64, count: usize, durability: Durability, crashes: &[Crash]) {
    let steps = steps(seed, count);
    let mut world = World::new(durability, None);
    world.play(&steps);
    let calls = [world.disks[0].calls(), world.disks[1].calls()];
    for side in [0, 1] {
        for call in 0..calls[side] {
            for crash in crashes {
                let plan = Plan {
                    side,
                    call,
                    crash: *crash,
                };
                let played = std::panic::catch_unwind(|| {
                    let mut world = World::new(durability, Some(plan));
                    world.play(&steps);
                    world.crashes
                });
                match played {
                    Ok(crashes) => assert_eq!(crashes, 1),
                    Err(_) => panic!("seed {seed} {durability:?} {plan:?}"),
                }
            }
        }
    }
}

/// Behaviour: B-60.
#[test]
fn ends_killed_at_any_disk_call_lose_and_duplicate_nothing() {
    for seed in 0..8 {
        for durability in [Durability::Process, Durability::Disk] {
            crash_everywhere(seed, 40, durability, &[Crash::Killed]);
        }
    }
}

/// Behaviour: B-60.
#[test]
fn power_failure_at_any_disk_call_loses_and_duplicates_nothing() {
    let mut crashes = Vec::new();
    for (bytes, tail) in [
        (0, Tail::Truncated),
        (25, Tail::Garbage),
        (u64::MAX, Tail::Zeroed),
    ] {
        for names in [0, 0b10, u64::MAX] {
            crashes.push(Crash::PowerFailed(Tear { bytes, tail, names }));
        }
    }
    for seed in 20..24 {
        crash_everywhere(seed, 30, Durability::Disk, &crashes);
    }
}

/// Behaviour: B-60.
///
/// Every call to either disk fails once.
#[test]
fn single_disk_failure_at_any_call_loses_and_duplicates_nothing() {
    for (seed, kind) in [
        (30, std::io::ErrorKind::StorageFull),
        (31, std::io::ErrorKind::Other),
        (32, std::io::ErrorKind::ReadOnlyFilesystem),
    ] {
        let steps = steps(seed, 40);
        for side in [0, 1] {
            let mut call = 0;
            loop {
                let mut world = World::new(Durability::Disk, None);
                world.disks[side].fail(Failure {
                    from: call,
                    until: call + 1,
                    kind,
                    only_changes: false,
                });
                while world.try_start().is_err() {}
                world.play(&steps);
                call += 1;
                if call > world.disks[side].calls() {
                    break;
                }
            }
            assert!(call > 40, "{call} calls");
        }
    }
}

/// Behaviour: B-60.
///
/// When the reader's disk is full, the reader's program gets an error that names the folder, and the
/// writer gets the same error. Once there is room, everything arrives.
#[test]
fn full_disk_of_a_reader_is_reported_to_both_programs() {
    let mut world = World::new(Durability::Process, None);
    world.total = 40 * ELEMENT;
    world.start();
    world.write(5).unwrap();
    world.run();
    world.read(2);
    world.disks[1].fail(Failure {
        from: 0,
        until: u64::MAX,
        kind: std::io::ErrorKind::StorageFull,
        only_changes: true,
    });
    world.write(1).unwrap();
    world.run();
    let reader = &mut world.reader.as_mut().unwrap().end;
    let message = reader.journal_error().unwrap().to_string();
    assert!(
        message.contains("/simulated") && message.contains("free some space"),
        "{message}"
    );
    let writer = &world.writer.as_ref().unwrap().end;
    let at_writer = writer.link.last_disconnect().unwrap().to_string();
    assert!(at_writer.contains(&message), "{at_writer}");
    world.read(9);
    assert_eq!(
        world.model.received.len() as u64,
        5 * ELEMENT,
        "only stored elements are delivered"
    );
    world.disks[1].clear_faults();
    while world.model.committed < world.total {
        world.write(3).unwrap();
        world.sync(0);
        world.run();
        world.sync(1);
        world.read(9);
        world.commit().unwrap();
    }
    world.model.finish(world.total);
}

/// Behaviour: B-60.
///
/// Once the reader has confirmed the end of the stream, the writer can be destroyed, because the
/// reader's journal contains the whole stream.
#[test]
fn confirmed_end_of_the_stream_is_durable() {
    let mut world = World::new(Durability::Process, None);
    world.total = 5 * ELEMENT;
    world.start();
    world.write(5).unwrap();
    let close = |world: &mut World| {
        let end = &mut world.writer.as_mut().unwrap().end;
        end.end_journal().unwrap();
        end.poll_ring();
        end.link.close();
    };
    let is_closed = |world: &World| world.writer.as_ref().unwrap().end.link.is_closed();
    close(&mut world);
    world.run();
    assert!(!is_closed(&world), "nothing is on the reader's disk yet");
    world.sync(1);
    world.run();
    assert!(is_closed(&world));
    let nothing = Tear {
        bytes: 0,
        tail: Tail::Truncated,
        names: 0,
    };
    let disk = Arc::new(world.disks[1].after(Crash::PowerFailed(nothing)));
    let (_, start) = ReaderJournal::open(disk, &owner(1), BOUNDS, Durability::Process).unwrap();
    assert_eq!(start.bytes, model::bytes(0, 5 * ELEMENT));
    assert_eq!(start.end.map(|end| end.position), Some(5 * ELEMENT));
    // Then the writer empties its own journal.
    world
        .writer
        .as_mut()
        .unwrap()
        .end
        .release_journal(Ok([9; 8]))
        .unwrap();
    let disk = world.disk(0);
    let (_, start) = WriterJournal::open(disk, &owner(0), BOUNDS, Durability::Process).unwrap();
    assert_eq!((start.written, start.lineage), (0, [9; 8]));
}

/// Behaviour: B-60.
///
/// When the writer's disk is full, refused elements are not in the stream, stored elements are
/// delivered, and writing continues once there is room.
#[test]
fn full_disk_of_a_writer_is_reported_and_stored_elements_are_delivered() {
    let mut world = World::new(Durability::Process, None);
    world.total = 40 * ELEMENT;
    world.start();
    world.write(5).unwrap();
    world.disks[0].set_capacity(world.disks[0].used() + 9);
    for _ in 0..3 {
        let message = world.write(2).unwrap_err().to_string();
        let is_reported = message.contains("/simulated") && message.contains("free some space");
        assert!(is_reported, "{message}");
        world.run();
    }
    world.read(9);
    assert_eq!(world.model.received.len() as u64, 5 * ELEMENT);
    world.disks[0].clear_faults();
    while world.model.committed < world.total {
        world.write(3).unwrap();
        world.run();
        world.sync(1);
        world.read(9);
        world.commit().unwrap();
    }
    world.model.finish(world.total);
}
