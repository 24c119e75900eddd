//! Checks the content of the file when a recording ends at any moment.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

mod rig;

use std::num::NonZeroUsize;

use rig::{LONG, ROW, assert_prefix, has_no_gap, recording, ring, rows};
use trunkline_record::{Durability, QueueOptions, SimDisk};

/// Number of rows per block.
const BLOCK_ROWS: i64 = 512 / ROW as i64;

fn options(outstanding: usize) -> QueueOptions {
    QueueOptions {
        outstanding_max: NonZeroUsize::new(outstanding).unwrap(),
        ..rig::options()
    }
}

/// The guarantees at a moment: rows in the file, rows on the disk, and rows accepted.
struct Promised {
    written: u64,
    durable: u64,
    taken: u64,
}

/// Records regions of different lengths, and calls `at` between any two operations of the disk.
fn record(seed: u64, mut at: impl FnMut(&SimDisk, &Promised)) -> (SimDisk, u64) {
    let disk = SimDisk::new(seed, 512);
    let mut ring = ring(4096);
    let mut sut = recording(disk.clone(), &ring, options(3));
    // The ends of segments, in bytes of the file, and the number of rows before each.
    let mut ends = vec![(sut.progress().written, 0)];
    let mut check = |sut: &rig::Sut, ends: &[(u64, u64)]| {
        let progress = sut.progress();
        let rows = |position: u64| ends.iter().find(|(end, _)| *end == position).unwrap().1;
        let promised = Promised {
            written: rows(progress.written),
            durable: rows(progress.durable),
            taken: ends.last().unwrap().1,
        };
        at(&disk, &promised);
    };
    let mut random = fastrand::Rng::with_seed(seed);
    let mut from = 0;
    for _ in 0..10 {
        // Whole blocks, except for an odd number of rows at the end.
        let count = BLOCK_ROWS * random.i64(1..5);
        ring.filler.push(&rows(from..from + count)).unwrap();
        from += count;
        let region = ring.reader.acquire(count as u64).unwrap();
        sut.write(region).unwrap();
        ends.push((sut.progress().accepted, sut.rows()));
        check(&sut, &ends);
        if random.u8(0..3) == 0 {
            sut.begin_sync().unwrap();
            check(&sut, &ends);
        }
        for _ in 0..random.u8(0..6) {
            sut.poll().unwrap();
            check(&sut, &ends);
        }
    }
    ring.filler.push(&rows(from..from + 7)).unwrap();
    sut.write(ring.reader.acquire(7).unwrap()).unwrap();
    ends.push((sut.progress().accepted, sut.rows()));
    check(&sut, &ends);
    sut.flush(Durability::OnDisk, LONG).unwrap();
    check(&sut, &ends);
    assert_eq!(sut.progress().durable, sut.progress().accepted);
    sut.close(LONG).unwrap();
    assert_eq!(ring.reader.lent(), 0);
    (disk, from as u64 + 7)
}

/// Behaviour: B-70, ZC-11.
#[test]
fn killed_recording_opens_with_every_written_region() {
    let (mut files, mut longest_tail) = (0, 0);
    for seed in 0..100 {
        let (disk, all) = record(seed, |disk, promised| {
            for file in disk.files_after_kill() {
                let found = assert_prefix(&file, promised.written, promised.taken);
                assert!(has_no_gap(&file), "seed {seed}: other readers refuse it");
                longest_tail = longest_tail.max(found - promised.written);
                files += 1;
            }
        });
        assert_prefix(disk.file(), all, all);
    }
    assert!(files > 10_000, "{files} files are few");
    assert!(
        longest_tail > 0,
        "nothing was ever found that was not promised yet"
    );
}

/// Behaviour: B-70.
#[test]
fn durable_data_survives_a_power_failure() {
    let mut files = 0;
    for seed in 0..40 {
        record(seed, |disk, promised| {
            for variant in 0..8 {
                let file = disk.file_after_power_loss(seed * 1000 + variant);
                let numbers = rig::numbers(&file);
                let durable = promised.durable as usize;
                assert!(numbers.len() >= durable);
                assert!(numbers[..durable].iter().copied().eq(0..durable as i64));
                files += 1;
            }
        });
    }
    assert!(files > 1_000, "{files} files are few");
}
