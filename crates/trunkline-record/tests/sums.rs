//! Checks that the checksums of a recording are correct wherever the recording ends.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

mod rig;

use std::fs::File;
use std::num::NonZeroUsize;
use std::time::Duration;

use rig::{LONG, ROW, Ring, Sut, assert_prefix, layout, numbers, ring, rows};
use trunkline_record::{
    BackendChoice, CacheMode, Durability, FailedStep, QueueError, QueueOptions, RecordError,
    SimDisk, SimFault, TdmsRecording, WriteQueue, sums_path, tdms_queue,
};
use trunkline_tdms::{Limits, SumsCheck, SumsState, TdmsFile, UncheckedSegments};

const BLOCK: usize = 512;
const BLOCK_ROWS: i64 = (BLOCK / ROW) as i64;
const EIO: i32 = 5;

fn options(outstanding: usize) -> QueueOptions {
    QueueOptions {
        outstanding_max: NonZeroUsize::new(outstanding).unwrap(),
        ..rig::options()
    }
}

/// Returns two simulated disks, one for the data and one for its checksums, and a recording to
/// them.
fn recording(seed: u64, ring: &Ring, options: QueueOptions) -> (SimDisk, SimDisk, Sut) {
    let (data, sums) = (SimDisk::new(seed, BLOCK), SimDisk::new(!seed, 1));
    let memories = vec![ring.memory.clone()];
    let queue = WriteQueue::new(Box::new(data.clone()), options, memories);
    let queue = queue.with_sums(Box::new(sums.clone())).unwrap();
    let sut = TdmsRecording::start(queue, &layout(), LONG).unwrap();
    (data, sums, sut)
}

/// Pushes `count` rows, and records them as a region.
fn write(ring: &mut Ring, sut: &mut Sut, count: i64) -> Result<(), RecordError> {
    let from = ring.filler.written() as i64;
    ring.filler.push(&rows(from..from + count)).unwrap();
    sut.write(ring.reader.acquire(count as u64).unwrap())
}

/// The guarantees at a moment: rows in the file, rows on the disk, and rows accepted.
struct Promised {
    written: u64,
    durable: u64,
    taken: u64,
}

/// Records regions of different lengths, and calls `at` between any two operations of the disks.
fn record(seed: u64, mut at: impl FnMut(&SimDisk, &SimDisk, &Promised)) -> (Vec<u8>, Vec<u8>, u64) {
    let mut ring = ring(4096);
    let (data, sums, mut sut) = recording(seed, &ring, options(3));
    let mut ends = vec![(sut.progress().written, 0)];
    let mut check = |sut: &Sut, ends: &[(u64, u64)]| {
        let progress = sut.progress();
        let rows = |position: u64| ends.iter().find(|(end, _)| *end == position).unwrap().1;
        let promised = Promised {
            written: rows(progress.written),
            durable: rows(progress.durable),
            taken: ends.last().unwrap().1,
        };
        at(&data, &sums, &promised);
    };
    let mut random = fastrand::Rng::with_seed(seed);
    for round in 0..10 {
        let count = match round {
            9 => 7,
            _ => BLOCK_ROWS * random.i64(1..5),
        };
        write(&mut ring, &mut sut, count).unwrap();
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
    sut.flush(Durability::OnDisk, LONG).unwrap();
    check(&sut, &ends);
    let closed = sut.close(LONG).unwrap();
    assert_eq!(closed.durability, Durability::OnDisk);
    assert_eq!(sut.progress().durable, sut.progress().accepted);
    (data.file(), sums.file(), sut.rows())
}

/// Returns the rows that the checksums cover.
fn vouched_for(data: &[u8], sums: &[u8]) -> Vec<i64> {
    let opened =
        TdmsFile::open_verified(data, sums, UncheckedSegments::Remove, Limits::default()).unwrap();
    assert_eq!(opened.check.state, SumsState::ThisFile);
    // After the repair truncates it, it is a normal file.
    let repair = opened
        .file
        .repair(trunkline_tdms::RepairMode::Remove)
        .unwrap();
    let length = repair.map_or(data.len(), |repair| repair.length as usize);
    let cut = &data[..length];
    assert!(TdmsFile::open(cut).unwrap().report().is_sound());
    numbers(cut)
}

/// Behaviour: B-70.
#[test]
fn killed_recording_has_a_checksum_for_every_written_region() {
    let mut files = 0;
    for seed in 0..40 {
        let (data, sums, all) = record(seed, |data, sums, promised| {
            for (data, sums) in data
                .files_after_kill()
                .iter()
                .flat_map(|data| sums.files_after_kill().into_iter().map(move |s| (data, s)))
            {
                let found = vouched_for(data, &sums);
                assert!(found.iter().copied().eq(0..found.len() as i64));
                let count = found.len() as u64;
                assert!((promised.written..=promised.taken).contains(&count));
                files += 1;
            }
        });
        let check = SumsCheck::of(&data, &sums).unwrap();
        assert!(check.is_good(), "{check:?}");
        assert_prefix(data, all, all);
    }
    assert!(files > 5_000, "{files} files are few");
}

/// Behaviour: B-70.
#[test]
fn data_with_a_valid_checksum_is_correct_after_a_power_failure() {
    let (mut files, mut torn) = (0, 0);
    for seed in 0..60 {
        let mut lost = Vec::new();
        let (whole, _, _) = record(seed, |data, sums, promised| {
            for variant in 0..8 {
                let data = data.file_after_power_loss(seed * 1000 + variant);
                let sums = sums.file_after_power_loss(seed * 1000 + variant + 500);
                let found = vouched_for(&data, &sums);
                // The rows have no wrong value, and all durable rows exist.
                assert!(found.iter().copied().eq(0..found.len() as i64));
                assert!(found.len() as u64 >= promised.durable);
                assert!(found.len() as u64 <= promised.taken);
                let check = SumsCheck::of(&data, &sums).unwrap();
                torn += u64::from(check.first_mismatch.is_some());
                lost.push((data, check.verified_to as usize));
                files += 1;
            }
        });
        for (data, verified_to) in lost {
            assert_eq!(data[..verified_to], whole[..verified_to]);
        }
    }
    assert!(files > 1_000, "{files} files are few");
    assert!(
        torn > 100,
        "only {torn} files had a segment that is another"
    );
}

/// Behaviour: B-70.
#[test]
fn every_bit_that_flips_in_a_recording_is_reported() {
    let mut ring = ring(4096);
    let (data, sums, mut sut) = recording(1, &ring, options(3));
    for count in [BLOCK_ROWS, 2 * BLOCK_ROWS, BLOCK_ROWS, 7] {
        write(&mut ring, &mut sut, count).unwrap();
    }
    sut.close(LONG).unwrap();
    let (mut data, sums) = (data.file(), sums.file());
    for at in 0..data.len() {
        for bit in 0..8 {
            data[at] ^= 1 << bit;
            let check = SumsCheck::of(&data, &sums).unwrap();
            assert!(!check.is_good(), "byte {at}, bit {bit}");
            assert!(check.verified_to <= at as u64);
            data[at] ^= 1 << bit;
        }
    }
    assert!(SumsCheck::of(&data, &sums).unwrap().is_good());
}

/// Behaviour: B-70.
#[test]
fn nothing_counts_as_written_or_durable_before_its_checksum_does() {
    let mut ring = ring(4096);
    let (_, sums, mut sut) = recording(3, &ring, options(4));
    let before = sut.progress();
    // The next write of checksums stalls.
    sums.fault(sums.operations(), SimFault::Stalls);
    for _ in 0..3 {
        write(&mut ring, &mut sut, BLOCK_ROWS).unwrap();
    }
    let error = sut.flush(Durability::OnDisk, LONG).unwrap_err();
    assert!(matches!(
        error,
        RecordError::Queue(QueueError::TimedOut { outstanding: 0, .. })
    ));
    let sentence = error.to_string();
    assert!(
        sentence.contains("syncing or writing checksums did not complete"),
        "{sentence}"
    );
    let progress = sut.progress();
    assert_eq!(
        (progress.written, progress.durable),
        (before.written, before.durable)
    );
    assert_eq!(sut.rows_in_file(), 0);
    // The regions are released nevertheless, because only the checksums are delayed.
    assert_eq!(ring.reader.lent(), 0);
    assert_eq!(progress.outstanding, 0);
}

#[test]
fn pending_checksums_are_bounded_while_the_disk_stalls() {
    let mut ring = ring(4096);
    let mut options = options(4);
    options.wait = Duration::from_secs(1);
    let (_, sums, mut sut) = recording(3, &ring, options);
    sums.fault(sums.operations(), SimFault::Stalls);
    let mut taken = 0;
    let error = loop {
        match write(&mut ring, &mut sut, BLOCK_ROWS) {
            Ok(()) => taken += 1,
            Err(error) => break error,
        }
        assert!(taken < 10_000);
    };
    let RecordError::Refused(refused) = error else {
        panic!("{error}");
    };
    assert!(matches!(
        refused.error,
        QueueError::Busy { outstanding: 4, .. }
    ));
    // Each segment has a header of one block, and each of these regions is one block.
    let segments = sut.progress().accepted / BLOCK as u64 - taken;
    // The bound is the number of entries that fit in a batch, plus the stalled write and the
    // outstanding segments.
    assert!((170..180).contains(&segments), "{segments}");
}

#[test]
fn file_with_failed_checksums_accepts_no_more_and_reports_why() {
    let mut steps = [0; 2];
    for seed in 0..100 {
        let mut ring = ring(4096);
        let (data, sums, mut sut) = recording(seed, &ring, options(3));
        sums.fault(sums.operations() + seed % 9, SimFault::Fails(EIO));
        let error = loop {
            match write(&mut ring, &mut sut, BLOCK_ROWS) {
                Ok(()) => {}
                Err(error) => break error,
            }
            // The sync may already have failed.
            let _ = sut.begin_sync();
            assert!(sut.rows() < 10_000, "it never failed");
        };
        let RecordError::Refused(refused) = error else {
            panic!("{error}");
        };
        let QueueError::Failed(failure) = refused.error else {
            panic!("{}", refused.error);
        };
        drop(refused.region);
        assert_eq!(failure.os_error, EIO);
        assert!(matches!(failure.step, FailedStep::Sums | FailedStep::Sync));
        steps[usize::from(failure.step == FailedStep::Sync)] += 1;
        let closed = sut.close(LONG).unwrap();
        // The remaining part may have been synced before.
        let is_durable = sut.progress().durable == closed.length;
        assert_eq!(closed.durability == Durability::OnDisk, is_durable);
        assert_eq!(ring.reader.lent(), 0);
        let (data, sums) = (data.file(), sums.file());
        assert_eq!(data.len() as u64, closed.length);
        assert!(TdmsFile::open(&data).unwrap().report().is_sound());
        // The files contain only data that has a checksum, and the checksums of this data.
        assert_eq!(numbers(&data).len() as u64, sut.rows_in_file());
        let failure = closed.failure.unwrap();
        assert_eq!(failure.written, closed.length);
        let is_sums = failure.step == FailedStep::Sums;
        assert!(!is_sums || failure.position == closed.length);
        let check = SumsCheck::of(&data, &sums).unwrap();
        assert!(check.is_good(), "{check:?}");
        assert_eq!(check.verified_to, closed.length);
        assert!(check.verified_to >= sut.progress().durable);
    }
    assert!(steps.iter().all(|count| *count > 5), "{steps:?}");
}

#[test]
fn file_whose_checksums_cannot_be_written_is_closed() {
    for submit in 0..6 {
        let mut ring = ring(4096);
        let (data, sums, mut sut) = recording(submit, &ring, options(3));
        sums.fault(sums.operations() + submit, SimFault::NotStarted(EIO));
        while write(&mut ring, &mut sut, BLOCK_ROWS).is_ok() {
            assert!(sut.rows() < 10_000, "it never failed");
        }
        let error = sut.flush(Durability::InFile, LONG).unwrap_err();
        assert!(
            matches!(error, RecordError::Queue(QueueError::Failed(_))),
            "{error}"
        );
        let closed = sut.close(LONG).unwrap();
        assert_eq!(closed.failure.unwrap().step, FailedStep::Sums);
        assert_eq!(numbers(data.file()).len() as u64, sut.rows_in_file());
        assert!(SumsCheck::of(&data.file(), &sums.file()).unwrap().is_good());
    }
}

#[test]
fn checksums_are_stored_next_to_the_file_and_stale_ones_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tdms");
    let sums = sums_path(&path);
    assert_eq!(sums.file_name().unwrap(), "a.tdms.sums");
    for has_sums in [true, false] {
        std::fs::write(&sums, "of a file that is gone").unwrap();
        let mut ring = ring(4096);
        let options = QueueOptions {
            has_sums,
            ..rig::options()
        };
        let (wanted, cache_mode) = (BackendChoice::BestAvailable, CacheMode::PreferDirect);
        let memories = vec![ring.memory.clone()];
        let (queue, _) = tdms_queue(&path, wanted, cache_mode, options, memories).unwrap();
        let mut sut = TdmsRecording::start(queue, &layout(), LONG).unwrap();
        ring.filler.push(&rows(0..2048)).unwrap();
        for count in [1024, 512, 7] {
            sut.write(ring.reader.acquire(count).unwrap()).unwrap();
        }
        let closed = sut.close(LONG).unwrap();
        assert_eq!(
            (closed.durability, closed.failure),
            (Durability::OnDisk, None)
        );
        drop(sut);
        assert_eq!(sums.exists(), has_sums);
        let data = File::open(&path).unwrap();
        if has_sums {
            let check = SumsCheck::of(&data, &File::open(&sums).unwrap()).unwrap();
            assert!(check.is_good(), "{check:?}");
            // The first segment, and the three regions.
            assert_eq!((check.segments, check.verified_to), (4, closed.length));
        }
        assert_prefix(data, 1543, 1543);
        std::fs::remove_file(&path).unwrap();
    }
}
