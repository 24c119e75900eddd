//! Tests regions that are copied, because they are small or not aligned for a direct write.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

mod rig;

use std::fs::File;
use std::num::NonZeroUsize;
use std::time::Duration;

use rig::{LONG, ROW, Ring, assert_prefix, numbers, recording, ring, rows};
use trunkline_record::{
    BackendChoice, COPY_BELOW_BYTES, CacheMode, Copying, Durability, QueueError, QueueOptions,
    RecordError, SimDisk, SimFault, WritePath, WriteQueue, open_file,
};
use trunkline_ring::ReadRegion;
use trunkline_tdms::{ObjectPath, PropertyValue, TdmsFile, unwritten_lead_in};

const BLOCK: usize = 512;
const BLOCK_ROWS: i64 = (BLOCK / ROW) as i64;

fn copying(below_bytes: usize, segment_bytes: usize) -> QueueOptions {
    QueueOptions {
        outstanding_max: NonZeroUsize::new(3).unwrap(),
        copying: Some(Copying {
            below_bytes,
            segment_bytes,
            ..Copying::default()
        }),
        ..rig::options()
    }
}

/// Returns the next `count` rows in a region.
fn next(ring: &mut Ring, count: i64) -> ReadRegion {
    let from = ring.filler.written() as i64;
    let pushed = ring.filler.push(&rows(from..from + count)).unwrap();
    assert_eq!(pushed, count as u64);
    ring.reader.acquire(count as u64).unwrap()
}

fn is_aligned(region: &ReadRegion) -> bool {
    region.bytes().as_ptr().addr().is_multiple_of(BLOCK)
}

/// Behaviour: ZC-13.
#[test]
fn unaligned_regions_are_written_whole_and_copies_are_counted() {
    for seed in 0..50 {
        let disk = SimDisk::new(seed, BLOCK);
        let mut ring = ring(1 << 15);
        let mut sut = recording(disk.clone(), &ring, copying(0, 16 * BLOCK));
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut all, mut copied, mut in_place) = (0, 0, 0);
        for _ in 0..60 {
            let count = match random.bool() {
                true => BLOCK_ROWS * random.i64(1..8),
                false => random.i64(1..200),
            };
            let region = next(&mut ring, count);
            let bytes = region.bytes().len();
            let is_aligned = is_aligned(&region);
            copied += match is_aligned {
                true => bytes % BLOCK,
                false => bytes,
            };
            in_place += u64::from(is_aligned);
            all += count as u64;
            sut.write(region).unwrap();
            let expected = match is_aligned {
                true => WritePath::InPlace,
                false => WritePath::Copied,
            };
            let progress = sut.progress();
            assert_eq!(progress.path, Some(expected));
            assert_eq!(progress.bytes_copied, copied as u64);
            assert_eq!(progress.regions_in_place, in_place);
        }
        assert!(in_place > 0 && copied > 0);
        assert_eq!(sut.progress().regions_copied, 60 - in_place);
        let closed = sut.close(LONG).unwrap();
        assert_eq!((closed.failure, sut.rows_in_file()), (None, all));
        assert_prefix(disk.file(), all, all);
        assert!(TdmsFile::open(&disk.file()).unwrap().report().is_sound());
    }
}

/// Behaviour: ZC-13.
#[test]
fn region_too_long_to_copy_is_refused_with_a_remedy() {
    let disk = SimDisk::new(1, BLOCK);
    let mut ring = ring(8192);
    let mut sut = recording(disk.clone(), &ring, copying(0, 4 * BLOCK));
    sut.write(next(&mut ring, 1)).unwrap();
    let region = next(&mut ring, 4 * BLOCK_ROWS + 1);
    let RecordError::Refused(refused) = sut.write(region).unwrap_err() else {
        panic!("it was not refused");
    };
    let bytes = (4 * BLOCK_ROWS as usize + 1) * ROW;
    assert!(matches!(
        refused.error,
        QueueError::Unaligned { bytes: b, copy_bytes_max, .. }
            if b == bytes && copy_bytes_max == 4 * BLOCK
    ));
    let text = refused.error.to_string();
    assert!(
        text.contains("allow regions of 2064 bytes to be copied"),
        "{text}"
    );
    sut.close(LONG).unwrap();
    assert_prefix(disk.file(), 1, 1);
}

/// Behaviour: ZC-10, ZC-13.
#[test]
fn unaligned_region_is_copied_and_returned_at_once() {
    let disk = SimDisk::new(1, BLOCK);
    let mut ring = ring(8192);
    let memories = vec![ring.memory.clone()];
    let mut sut = WriteQueue::new(Box::new(disk.clone()), copying(0, 4 * BLOCK), memories);
    drop(next(&mut ring, 1));
    let region = next(&mut ring, BLOCK_ROWS + 1);
    let odd = [9; BLOCK - ROW];
    sut.append(&[7; BLOCK], region, &odd, true).unwrap();
    // Nothing is written yet.
    assert_eq!(sut.outstanding(), 1);
    let region = sut.take_returned().unwrap();
    assert!(region.bytes() == rows(1..BLOCK_ROWS + 2));
    drop(region);
    assert_eq!(ring.reader.lent(), 0);
    sut.flush(Durability::InFile, LONG).unwrap();
    let expected = [vec![7; BLOCK], rows(1..BLOCK_ROWS + 2), odd.to_vec()].concat();
    // The placeholder of the next segment follows.
    let placeholder = [&unwritten_lead_in()[..], &[0; BLOCK - 28]].concat();
    assert!(disk.file() == [expected, placeholder].concat());
}

/// Behaviour: ZC-16.
#[test]
fn small_regions_are_collected_and_large_ones_written_in_place() {
    assert_eq!(Copying::default().below_bytes, COPY_BELOW_BYTES);
    for seed in 0..20 {
        let disk = SimDisk::new(seed, BLOCK);
        let mut ring = ring(1 << 15);
        let mut sut = recording(disk.clone(), &ring, copying(4 * BLOCK, 16 * BLOCK));
        for number in 1..=512 {
            sut.write(next(&mut ring, BLOCK_ROWS / 4)).unwrap();
            let progress = sut.progress();
            assert_eq!(ring.reader.lent(), 0, "it is given back at once");
            assert_eq!(progress.path, Some(WritePath::Copied));
            assert_eq!(progress.regions_copied, number);
            assert!(progress.bytes_collected <= 16 * BLOCK);
        }
        // Collected data is written first.
        sut.write(next(&mut ring, 4 * BLOCK_ROWS)).unwrap();
        assert_eq!(sut.progress().path, Some(WritePath::InPlace));
        assert_eq!(sut.progress().bytes_collected, 0);
        assert_eq!(sut.progress().bytes_copied, 128 * BLOCK as u64);
        sut.close(LONG).unwrap();
        let all = 132 * BLOCK_ROWS as u64;
        assert_prefix(disk.file(), all, all);
        // The segments are the first one, a padding segment, 128 blocks in segments of 16, and the
        // large region.
        assert_eq!(TdmsFile::open(&disk.file()).unwrap().report().segments, 11);
    }
}

/// Behaviour: ZC-16.
#[test]
fn collected_data_is_written_at_its_maximum_age() {
    let disk = SimDisk::new(2, BLOCK);
    let mut ring = ring(8192);
    let mut sut = recording(disk.clone(), &ring, copying(4 * BLOCK, 16 * BLOCK));
    let before = sut.progress().accepted;
    sut.write(next(&mut ring, 3)).unwrap();
    disk.pass(Duration::from_millis(999));
    sut.poll().unwrap();
    assert_eq!(sut.progress().accepted, before);
    // The age of collected data is the age of its oldest row.
    sut.write(next(&mut ring, 4)).unwrap();
    disk.pass(Duration::from_millis(1));
    sut.poll().unwrap();
    assert!(sut.progress().accepted > before);
    assert_eq!(sut.progress().bytes_collected, 0);
    while sut.rows_in_file() < 7 {
        sut.poll().unwrap();
    }
    assert_prefix(disk.file(), 7, 7);
}

#[test]
fn flush_writes_collected_rows_and_failure_loses_them() {
    const EIO: i32 = 5;
    let disk = SimDisk::new(2, BLOCK);
    let mut ring = ring(8192);
    let mut sut = recording(disk.clone(), &ring, copying(4 * BLOCK, 16 * BLOCK));
    sut.write(next(&mut ring, 5)).unwrap();
    sut.flush(Durability::OnDisk, LONG).unwrap();
    assert_eq!((sut.rows_in_file(), sut.rows()), (5, 5));
    disk.fault(disk.operations(), SimFault::Fails(EIO));
    sut.write(next(&mut ring, 6)).unwrap();
    assert!(sut.flush(Durability::InFile, LONG).is_err());
    let RecordError::Refused(refused) = sut.write(next(&mut ring, 7)).unwrap_err() else {
        panic!("it was not refused");
    };
    assert!(matches!(refused.error, QueueError::Failed(_)));
    let closed = sut.close(LONG).unwrap();
    assert_eq!(closed.failure.unwrap().os_error, EIO);
    assert_eq!((sut.rows_in_file(), sut.rows()), (5, 11));
    assert_prefix(disk.file(), 5, 5);
}

#[test]
fn gap_among_collected_rows_keeps_its_position() {
    let disk = SimDisk::new(2, BLOCK);
    let mut ring = ring(8192);
    let mut sut = recording(disk.clone(), &ring, copying(4 * BLOCK, 16 * BLOCK));
    ring.filler.push(&rows(0..5)).unwrap();
    ring.filler.lose(3);
    ring.filler.push(&rows(8..20)).unwrap();
    sut.write(ring.reader.acquire(5).unwrap()).unwrap();
    sut.write(ring.reader.acquire(12).unwrap()).unwrap();
    sut.close(LONG).unwrap();
    let file = disk.file();
    assert!(numbers(&file).into_iter().eq((0..5).chain(8..20)));
    let file = TdmsFile::open(&file).unwrap();
    let group = file.properties(&ObjectPath::Group("rig".into())).unwrap();
    assert_eq!(group[b"gap_1_row".as_slice()], PropertyValue::U64(5));
    assert_eq!(group[b"gap_1_lost".as_slice()], PropertyValue::U64(3));
}

/// Behaviour: B-70, ZC-16.
#[test]
fn killed_recording_with_copies_contains_all_written_rows() {
    let mut files = 0;
    for seed in 0..40 {
        let disk = SimDisk::new(seed, BLOCK);
        let mut ring = ring(1 << 14);
        let mut sut = recording(disk.clone(), &ring, copying(BLOCK, 4 * BLOCK));
        let mut random = fastrand::Rng::with_seed(seed);
        let mut check = |sut: &rig::Sut| {
            for file in disk.files_after_kill() {
                assert_prefix(&file, sut.rows_in_file(), sut.rows());
                files += 1;
            }
        };
        for _ in 0..30 {
            let count = match random.bool() {
                true => random.i64(1..BLOCK_ROWS),
                false => BLOCK_ROWS * random.i64(1..3),
            };
            sut.write(next(&mut ring, count)).unwrap();
            check(&sut);
            for _ in 0..random.u8(0..4) {
                sut.poll().unwrap();
                check(&sut);
            }
            if random.u8(0..6) == 0 {
                sut.flush(Durability::OnDisk, LONG).unwrap();
                assert_eq!(sut.rows_in_file(), sut.rows());
                check(&sut);
            }
        }
        let all = sut.rows();
        sut.close(LONG).unwrap();
        assert_prefix(disk.file(), all, all);
    }
    assert!(files > 3_000, "{files} files are few");
}

/// Behaviour: ZC-13, ZC-16, ZC-29.
#[test]
fn regions_of_any_length_are_written_to_real_files() {
    let folder = tempfile::tempdir().unwrap();
    for (index, wanted) in [BackendChoice::BestAvailable, BackendChoice::PlainWrites]
        .into_iter()
        .enumerate()
    {
        let path = folder.path().join(format!("{index}.tdms"));
        let options = copying(8 << 10, 256 << 10);
        let opened = open_file(&path, wanted, CacheMode::PreferDirect, options.writes_max());
        let mut ring = ring(1 << 14);
        let mut sut = rig::recording_of(opened.unwrap().backend, &ring, options);
        let mut random = fastrand::Rng::with_seed(5);
        let mut all = 0;
        for _ in 0..300 {
            let count = random.u64(1..4096);
            // At the end of the ring's memory, the rows are in two regions.
            let mut left = count;
            while left > 0 {
                let room = loop {
                    match ring.filler.room().unwrap() {
                        0 => sut.poll().unwrap(),
                        room => break room.min(left) as i64,
                    }
                };
                sut.write(next(&mut ring, room)).unwrap();
                left -= room as u64;
            }
            all += count;
        }
        let progress = sut.progress();
        assert!(progress.regions_copied > 0, "{progress:?}");
        sut.close(LONG).unwrap();
        assert_prefix(File::open(&path).unwrap(), all, all);
    }
}

/// Behaviour: B-70.
#[test]
fn unwritten_copies_are_never_reported_as_durable() {
    let disk = SimDisk::new(1, BLOCK);
    let mut ring = ring(8192);
    let mut sut = recording(disk.clone(), &ring, copying(BLOCK, 16 * BLOCK));
    sut.write(next(&mut ring, 7)).unwrap();
    sut.flush(Durability::OnDisk, LONG).unwrap();
    sut.set(&ObjectPath::File, "remark", "x".repeat(100_000))
        .unwrap();
    sut.write(next(&mut ring, 7)).unwrap();
    let error = sut.flush(Durability::OnDisk, LONG).unwrap_err();
    assert!(error.to_string().contains("header_bytes_max"), "{error}");
    for durability in [Durability::OnDisk, Durability::InFile] {
        let error = sut.flush(durability, LONG).unwrap_err();
        assert!(matches!(error, RecordError::HeaderOverflow), "{error}");
    }
    for _ in 0..2 {
        let error = sut.close(LONG).unwrap_err();
        assert!(matches!(error, RecordError::HeaderOverflow), "{error}");
    }
    assert_eq!((sut.rows(), sut.rows_in_file()), (14, 7));
    // The file is closed nevertheless.
    assert_eq!(disk.reserved_to(), sut.progress().written);
    assert_prefix(disk.file(), 7, 7);
}
