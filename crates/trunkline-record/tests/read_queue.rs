//! Tests reads into regions with every backend, in any order, from any position, and with faults.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

mod rig;

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rig::LONG;
use trunkline_record::{
    Backend, BackendChoice, BackendKind, CacheMode, FallbackReason, ReadFault, ReadOptions,
    ReadQueue, ReadQueueError, SimDisk, SimFault, open_to_read,
};
use trunkline_ring::{NoRegion, PagesWanted, RegionDrain, RegionMemory, RegionWriter};

/// Size of an element in bytes.
const ELEMENT: usize = 16;

/// Number of elements per region.
const REGION: u64 = 256;

/// Maximum number of waits for a read in a test, so that a queue without progress fails its test.
const WAITS_MAX: usize = 1_000;

struct Ring {
    memory: Arc<RegionMemory>,
    writer: RegionWriter,
    drain: RegionDrain,
}

fn ring() -> Ring {
    let made = RegionMemory::for_playback(ELEMENT, 8 * REGION as usize, PagesWanted::Ordinary, 16);
    let (memory, writer, drain) = made.unwrap();
    Ring {
        memory,
        writer,
        drain,
    }
}

/// Returns the content of a file in which every byte differs from its neighbours.
fn content(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at % 251) as u8).collect()
}

fn drained(drain: &mut RegionDrain) -> Vec<u8> {
    let count = drain.available().unwrap();
    let mut bytes = vec![0; count as usize * ELEMENT];
    assert_eq!(drain.take(&mut bytes).unwrap(), count);
    bytes
}

fn over(disk: &SimDisk, ring: &Ring, length: usize, options: ReadOptions) -> ReadQueue {
    ReadQueue::new(
        Box::new(disk.clone()),
        length as u64,
        options,
        vec![ring.memory.clone()],
    )
    .unwrap()
}

fn disk(seed: u64, block_bytes: usize, bytes: &[u8]) -> SimDisk {
    let disk = SimDisk::new(seed, block_bytes);
    disk.set_file(bytes.to_vec());
    disk
}

/// Reads the whole file. Returns the data that the device received.
fn read_all(sut: &mut ReadQueue, ring: &mut Ring) -> Vec<u8> {
    let mut got = Vec::new();
    for _ in 0..WAITS_MAX {
        if sut.progress().is_finished {
            return got;
        }
        sut.fill(&mut ring.writer, REGION).unwrap();
        sut.wait_for_one(LONG).unwrap();
        got.extend(drained(&mut ring.drain));
    }
    panic!("it never finishes: {:?}", sut.progress());
}

/// Reads until a failure is reported, without taking data from the ring.
fn read_until_failed(sut: &mut ReadQueue, ring: &mut Ring) -> ReadQueueError {
    for _ in 0..WAITS_MAX {
        if let Err(error) = sut.fill(&mut ring.writer, REGION) {
            return error;
        }
        sut.wait_for_one(LONG).unwrap();
    }
    panic!("the failure is not told of: {:?}", sut.progress());
}

/// Behaviour: ZC-12, ZC-13, ZC-25, ZC-29.
#[test]
fn every_backend_reads_the_same_and_reports_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("values");
    // The file has whole blocks, and a partial block at the end.
    let all = content(100 * 4096 + 5 * ELEMENT);
    std::fs::write(&path, &all).unwrap();
    let has_uring = open_to_read(&path, BackendChoice::Uring, CacheMode::Cached, 1).is_ok();
    let best = match has_uring {
        true => BackendKind::Uring,
        false => BackendKind::PlainWrites,
    };
    for (wanted, cache_mode, expected) in [
        (BackendChoice::BestAvailable, CacheMode::PreferDirect, best),
        (BackendChoice::BestAvailable, CacheMode::Cached, best),
        (
            BackendChoice::PlainWrites,
            CacheMode::PreferDirect,
            BackendKind::PlainWrites,
        ),
        (
            BackendChoice::PlainWrites,
            CacheMode::Cached,
            BackendKind::PlainWrites,
        ),
    ] {
        let options = ReadOptions::default();
        let file = open_to_read(&path, wanted, cache_mode, options.reads_max()).unwrap();
        assert_eq!(file.length, all.len() as u64);
        let report = file.opened.report;
        assert_eq!(report.backend, expected);
        let is_cached = cache_mode == CacheMode::Cached;
        let may_be_cached = is_cached
            || report
                .fallback_reasons
                .contains(&FallbackReason::NoDirectWrites);
        assert!(report.is_direct != may_be_cached, "{report:?}");
        let mut ring = ring();
        let memories = vec![ring.memory.clone()];
        let mut sut = ReadQueue::new(file.opened.backend, file.length, options, memories).unwrap();
        assert_eq!(sut.registration_failure(), None);
        assert!(!sut.progress().is_finished);
        assert!(read_all(&mut sut, &mut ring) == all, "{report:?}");
        let progress = sut.progress();
        assert!(progress.is_finished);
        let odd = match report.is_direct {
            true => 5 * ELEMENT as u64,
            false => 0,
        };
        assert_eq!(progress.bytes_copied, odd, "{report:?}");
    }
}

#[test]
fn only_regular_files_are_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let open = |path: &Path| {
        open_to_read(path, BackendChoice::BestAvailable, CacheMode::Cached, 4).map(|_| ())
    };
    assert!(open(folder.path()).is_err());
    assert!(open(&folder.path().join("missing")).is_err());
}

/// Behaviour: ZC-08, ZC-11, ZC-12.
#[test]
fn device_gets_everything_in_order_from_any_start() {
    let all = content(40_000);
    for seed in 0..200 {
        for (block, from) in [
            (1, 0),
            (512, 0),
            (512, 1024),
            (512, 16),
            (512, 1023),
            (1, 333),
        ] {
            let disk = disk(seed, block, &all);
            let mut ring = ring();
            // Some reads are also short.
            disk.fault(0, SimFault::Short(700));
            disk.fault(3, SimFault::Short(1));
            let bytes = (all.len() - from as usize) / ELEMENT * ELEMENT;
            let options = ReadOptions {
                from,
                total: Some(bytes as u64),
                bounce_bytes: 1024,
                ..ReadOptions::default()
            };
            let mut sut = over(&disk, &ring, all.len(), options);
            let got = read_all(&mut sut, &mut ring);
            assert!(
                got == all[from as usize..][..bytes],
                "{seed} {block} {from}"
            );
            let progress = sut.progress();
            let expected = match (block, from) {
                (1, _) => 0,
                // Only the partial block at the end is copied.
                (_, 0 | 1024) => bytes as u64 % 512,
                _ => bytes as u64,
            };
            assert_eq!(progress.bytes_copied, expected, "{block} {from}");
            assert_eq!(
                (progress.read, progress.total),
                (bytes as u64, bytes as u64)
            );
        }
    }
}

/// Behaviour: ZC-12, ZC-13.
#[test]
fn region_with_the_alignment_of_its_bytes_is_copied_only_at_its_ends() {
    let all = content(4096 + 3 * ELEMENT);
    for seed in 0..50 {
        let disk = disk(seed, 512, &all);
        let mut ring = ring();
        let mut sut = over(&disk, &ring, all.len(), ReadOptions::default());
        sut.read(ring.writer.acquire(1).unwrap()).unwrap();
        sut.read(ring.writer.acquire(REGION + 2).unwrap()).unwrap();
        sut.wait(LONG).unwrap();
        assert!(sut.progress().is_finished);
        assert!(drained(&mut ring.drain) == all);
        // Only the first block and the bytes after the last whole block are copied.
        assert_eq!(sut.progress().bytes_copied, 512 + 3 * ELEMENT as u64);
    }
}

/// Without a total, the whole file is read, except for an incomplete element at the end.
///
/// Behaviour: ZC-25.
#[test]
fn total_limits_the_read_and_without_one_the_whole_file_is_read() {
    let all = content(10 * ELEMENT + 5);
    for (total, elements) in [(None, 10), (Some(4 * ELEMENT as u64), 4), (Some(0), 0)] {
        let disk = disk(1, 1, &all);
        let mut ring = ring();
        let options = ReadOptions {
            total,
            ..ReadOptions::default()
        };
        let mut sut = over(&disk, &ring, all.len(), options);
        assert_eq!(sut.progress().total, total.unwrap_or(all.len() as u64));
        assert_eq!(read_all(&mut sut, &mut ring), all[..elements * ELEMENT]);
        assert!(sut.progress().is_finished);
        assert_eq!(sut.remaining(), [0, 5][usize::from(total.is_none())]);
        // No other read is started.
        assert_eq!(sut.fill(&mut ring.writer, REGION).unwrap(), 0);
        let region = ring.writer.acquire(1).unwrap();
        let refused = sut.read(region).unwrap_err();
        assert!(matches!(refused.error, ReadQueueError::TooLong { .. }));
    }
    let disk = disk(1, 1, &all);
    let options = ReadOptions {
        from: 10,
        total: Some(all.len() as u64),
        ..ReadOptions::default()
    };
    let refused = ReadQueue::new(
        Box::new(disk.clone()),
        all.len() as u64,
        options,
        Vec::new(),
    );
    assert!(matches!(refused, Err(ReadQueueError::BeyondEnd { .. })));
    let mut ring = ring();
    let mut sut = over(&disk, &ring, all.len(), ReadOptions::default());
    sut.seek(all.len() as u64 - 8);
    let refused = sut.read(ring.writer.acquire(1).unwrap()).unwrap_err();
    assert!(matches!(refused.error, ReadQueueError::BeyondEnd { .. }));
    // The refused region is still available, and can be filled from another position.
    sut.seek(16);
    sut.read(refused.region).unwrap();
    sut.wait(LONG).unwrap();
    assert_eq!(drained(&mut ring.drain), all[16..16 + ELEMENT]);
}

/// Behaviour: ZC-24, ZC-25.
#[test]
fn four_reads_are_outstanding_and_the_fifth_waits_five_seconds() {
    let all = content(100 * ELEMENT);
    let disk = disk(1, 1, &all);
    (0..4).for_each(|read| disk.fault(read, SimFault::Stalls));
    let mut ring = ring();
    let mut sut = over(&disk, &ring, all.len(), ReadOptions::default());
    for expected in 1..=4 {
        sut.read(ring.writer.acquire(1).unwrap()).unwrap();
        assert_eq!(sut.outstanding(), expected);
    }
    assert_eq!(sut.fill(&mut ring.writer, 1).unwrap(), 0, "it never waits");
    let before = disk.now();
    let refused = sut.read(ring.writer.acquire(1).unwrap()).unwrap_err();
    let ReadQueueError::Busy {
        outstanding,
        waited,
    } = refused.error
    else {
        panic!("{refused}")
    };
    assert_eq!((outstanding, waited), (4, Duration::from_secs(5)));
    assert_eq!(disk.now() - before, waited);
    assert!(matches!(
        sut.wait(LONG),
        Err(ReadQueueError::TimedOut { outstanding: 4, .. })
    ));
    assert_eq!(disk.now() - before, waited + LONG);
    sut.wait_for_one(LONG).unwrap();
    assert_eq!(disk.now() - before, waited + LONG + LONG);
    let more = ReadOptions {
        outstanding_max: NonZeroUsize::new(6).unwrap(),
        ..ReadOptions::default()
    };
    let disk = self::disk(1, 1, &all);
    (0..6).for_each(|read| disk.fault(read, SimFault::Stalls));
    let mut ring = self::ring();
    let mut sut = over(&disk, &ring, all.len(), more);
    assert_eq!(sut.fill(&mut ring.writer, 1).unwrap(), 6);
}

/// Behaviour: ZC-25.
#[test]
fn failed_read_ends_reading_after_the_preceding_data() {
    let all = content(8 * 4096);
    let error = rustix_eio();
    for seed in 0..200 {
        for failing in 0..8 {
            let disk = disk(seed, 512, &all);
            disk.fault(failing, SimFault::Fails(error));
            let mut ring = ring();
            let mut sut = over(&disk, &ring, all.len(), ReadOptions::default());
            let failed = read_until_failed(&mut sut, &mut ring);
            let _ = sut.wait(LONG);
            let at = failing * 4096;
            let failure = sut.progress().failure.unwrap();
            assert_eq!(
                (failure.position, failure.fault),
                (at, ReadFault::System(error))
            );
            assert!(matches!(failed, ReadQueueError::Failed(one) if one == failure));
            assert_eq!(sut.outstanding(), 0);
            assert_eq!(drained(&mut ring.drain), all[..at as usize]);
            assert_eq!(sut.progress().read, at);
            // The ring has a gap, after which nothing can be played.
            assert_eq!(ring.writer.acquire(1).unwrap_err(), NoRegion::Abandoned);
        }
    }
}

fn rustix_eio() -> i32 {
    rustix::io::Errno::IO.raw_os_error()
}

/// A shortened file is an error, but an interruption is not.
///
/// Behaviour: ZC-25.
#[test]
fn shortened_file_is_reported_and_an_interruption_is_not() {
    let all = content(8 * 4096);
    let disk = disk(3, 512, &all);
    disk.fault(1, SimFault::Fails(rustix::io::Errno::INTR.raw_os_error()));
    disk.fault(4, SimFault::Fails(rustix::io::Errno::AGAIN.raw_os_error()));
    let mut ring = ring();
    let mut sut = over(&disk, &ring, all.len(), ReadOptions::default());
    assert!(read_all(&mut sut, &mut ring) == all);
    for (block, length) in [(512, 3 * 4096), (512, 3 * 4096 + 100), (1, 3 * 4096 + 100)] {
        let disk = self::disk(5, block, &all[..length]);
        let mut ring = self::ring();
        let mut sut = over(&disk, &ring, all.len(), ReadOptions::default());
        let failed = read_until_failed(&mut sut, &mut ring);
        assert!(
            matches!(&failed, ReadQueueError::Failed(failure) if failure.fault == ReadFault::Ended),
            "{failed}"
        );
        assert_eq!(drained(&mut ring.drain), all[..3 * 4096]);
    }
}

/// Dropping the queue waits for running reads, so that the kernel never writes into freed memory.
#[test]
fn dropping_a_queue_waits_for_running_reads() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("values");
    std::fs::write(&path, content(64 * 4096)).unwrap();
    for wanted in [BackendChoice::BestAvailable, BackendChoice::PlainWrites] {
        let options = ReadOptions::default();
        let file = open_to_read(&path, wanted, CacheMode::Cached, options.reads_max()).unwrap();
        let mut ring = ring();
        let memories = vec![ring.memory.clone()];
        let mut sut = ReadQueue::new(file.opened.backend, file.length, options, memories).unwrap();
        assert!(sut.fill(&mut ring.writer, REGION).unwrap() > 0);
        drop(sut);
        assert!(matches!(
            ring.writer.acquire(8 * REGION),
            Err(NoRegion::Abandoned | NoRegion::NotYet { .. })
        ));
    }
}
