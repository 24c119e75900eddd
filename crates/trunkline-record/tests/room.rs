//! Tests a disk that becomes full. It is reported in advance, losses are counted, and the recording
//! continues automatically.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

mod rig;

use std::cell::RefCell;
use std::io;
use std::num::NonZeroUsize;
use std::time::Duration;

use rig::{LONG, OPENING, ROW, Ring, layout, numbers, recording, ring, rows};
use trunkline_record::{
    Copying, Durability, FreeSpaceAlarm, FreeSpaceState, FullDisk, QueueError, QueueOptions,
    RecordError, Rotation, SimDisk, SimFault, TdmsSeries, WriteQueue,
};
use trunkline_tdms::{ObjectPath, PropertyValue, TdmsFile};

const BLOCK: usize = 512;
const BLOCK_ROWS: i64 = (BLOCK / ROW) as i64;
const ENOSPC: i32 = 28;
const EIO: i32 = 5;

fn options(full_disk: FullDisk) -> QueueOptions {
    QueueOptions {
        outstanding_max: NonZeroUsize::new(3).unwrap(),
        reserve_bytes: 128 << 10,
        alarm: FreeSpaceAlarm {
            bytes: 256 << 10,
            time: Duration::from_secs(10),
        },
        full_disk,
        ..rig::options()
    }
}

/// Returns the next `blocks` blocks of rows in a region.
fn next(ring: &mut Ring, blocks: i64) -> trunkline_ring::ReadRegion {
    let from = ring.filler.written() as i64;
    let count = blocks * BLOCK_ROWS;
    ring.filler.push(&rows(from..from + count)).unwrap();
    ring.reader.acquire(count as u64).unwrap()
}

fn of_group(file: &[u8], name: &str) -> Option<PropertyValue> {
    let file = TdmsFile::open(file).unwrap();
    let group = file.properties(&ObjectPath::Group("rig".into())).unwrap();
    group.get(name.as_bytes()).cloned()
}

#[test]
fn nearly_full_disk_is_reported_by_space_and_by_time() {
    // One disk has little space; the other has more space, but is written at a high rate.
    for (room, blocks) in [(1 << 20, 1), (8 << 20, 512)] {
        let disk = SimDisk::new(2, BLOCK);
        disk.set_capacity(room);
        let mut ring = ring(1 << 16);
        let mut sut = recording(disk.clone(), &ring, options(FullDisk::Refuse));
        assert_eq!(sut.progress().free_space.state, FreeSpaceState::Enough);
        let mut reported = None;
        let full = loop {
            if let Err(error) = sut.write(next(&mut ring, blocks)) {
                break error;
            }
            disk.pass(Duration::from_millis(500));
            sut.poll().unwrap();
            let progress = sut.progress();
            let left = room - progress.accepted;
            if progress.free_space.state == FreeSpaceState::Low {
                reported.get_or_insert((left, progress.free_space));
            }
            assert_ne!(progress.free_space.state, FreeSpaceState::Full);
        };
        let RecordError::Refused(refused) = full else {
            panic!("{full}");
        };
        assert!(matches!(refused.error, QueueError::DiskFull { .. }));
        let (left, at) = reported.unwrap();
        let told_left = at.bytes.unwrap();
        assert!(told_left >= left && told_left < left + blocks as u64 * 3 * BLOCK as u64);
        match blocks {
            1 => assert!(told_left < 256 << 10, "{at:?}"),
            _ => {
                // Half a mebibyte is written each second.
                let full_in = at.full_in.unwrap().as_secs();
                assert!((4..10).contains(&full_in), "{at:?}");
                assert!(told_left > 2 << 20);
            }
        }
        assert_eq!(sut.progress().free_space.state, FreeSpaceState::Full);
        assert_eq!(sut.progress().free_space.alarms, 1);
        // The alarm ends once there is space again.
        disk.set_capacity(1 << 40);
        sut.write(refused.region).unwrap();
        disk.pass(Duration::from_secs(1000));
        sut.poll().unwrap();
        disk.pass(Duration::from_secs(1000));
        sut.poll().unwrap();
        assert_eq!(sut.progress().free_space.state, FreeSpaceState::Enough);
        assert_eq!(sut.progress().free_space.alarms, 1);
    }
}

#[test]
fn full_disk_pauses_a_recording_that_counts_its_losses() {
    for copying in [None, Some(Copying::default())] {
        let disk = SimDisk::new(2, BLOCK);
        disk.set_capacity(2 << 20);
        let mut ring = ring(1 << 16);
        let options = QueueOptions {
            copying,
            ..options(FullDisk::Discard)
        };
        let mut sut = recording(disk.clone(), &ring, options);
        let mut expected: Vec<i64> = Vec::new();
        let mut gaps = Vec::new();
        let (mut lost, mut all_lost) = (0, 0);
        for round in 0..1500 {
            // Space becomes available twice, some time after it ran out.
            match round {
                700 => disk.set_capacity(3 << 20),
                1200 => disk.set_capacity(1 << 30),
                _ => {}
            }
            let from = ring.filler.written() as i64;
            let before = sut.rows();
            sut.write(next(&mut ring, 8)).unwrap();
            let is_taken = sut.rows() > before;
            assert_eq!(sut.disk_full_losses().is_stopped, !is_taken);
            if is_taken {
                if lost > 0 {
                    gaps.push((expected.len() as u64, lost));
                }
                lost = 0;
                expected.extend(from..from + 8 * BLOCK_ROWS);
            } else {
                lost += 8 * BLOCK_ROWS as u64;
                all_lost += 8 * BLOCK_ROWS as u64;
                assert_eq!(sut.progress().free_space.state, FreeSpaceState::Full);
            }
            assert_eq!(sut.disk_full_losses().rows_lost, all_lost);
        }
        let stop = sut.disk_full_losses();
        assert_eq!((stop.stops, gaps.len()), (2, 2));
        assert!(stop.rows_lost > 1000);
        let closed = sut.close(LONG).unwrap();
        assert_eq!(
            (closed.durability, closed.failure),
            (Durability::OnDisk, None)
        );
        let file = disk.file();
        assert!(TdmsFile::open(&file).unwrap().report().is_sound());
        assert!(numbers(&file) == expected);
        for (index, (row, lost)) in gaps.into_iter().enumerate() {
            let name = |what| format!("gap_{}_{what}", index + 1);
            assert_eq!(of_group(&file, &name("row")), Some(PropertyValue::U64(row)));
            assert_eq!(
                of_group(&file, &name("lost")),
                Some(PropertyValue::U64(lost))
            );
        }
    }
}

/// Records a series to simulated disks, after `prepare` was called with each disk. Returns the
/// files, the number of rows lost in failed files, and the number of rows lost while the disk was
/// full.
fn record_series(
    full_disk: FullDisk,
    regions: usize,
    prepare: impl Fn(u32, &SimDisk) -> io::Result<()>,
) -> (Vec<Vec<u8>>, u64, u64) {
    let disks = RefCell::new(Vec::new());
    let mut ring = ring(1 << 14);
    let memory = ring.memory.clone();
    let open = |number| {
        let disk = SimDisk::new(u64::from(number), BLOCK);
        prepare(number, &disk)?;
        disks.borrow_mut().push(disk.clone());
        Ok(WriteQueue::new(
            Box::new(disk),
            options(full_disk),
            vec![memory.clone()],
        ))
    };
    let mut sut = TdmsSeries::start(open, layout(), Rotation::default(), LONG).unwrap();
    for region in 0..regions {
        let mut to_write = next(&mut ring, 1);
        // Refused regions are written again.
        loop {
            match sut.write(to_write) {
                Ok(()) => break,
                Err(RecordError::Refused(refused)) if full_disk == FullDisk::Refuse => {
                    to_write = refused.region;
                }
                Err(error) => panic!("{error}"),
            }
        }
        if region % 3 == 0 {
            // If the previous sync has failed, the next region goes to another file.
            let _ = sut.current().begin_sync();
        }
    }
    let last = sut.close().unwrap();
    let of_files: u64 = std::iter::from_fn(|| sut.take_ended())
        .map(|ended| ended.rows_lost)
        .sum();
    assert_eq!(ring.reader.lent(), 0);
    let files = disks.borrow().iter().map(SimDisk::file).collect();
    (
        files,
        of_files + last.rows_lost,
        sut.disk_full_losses().rows_lost,
    )
}

/// Asserts that every file is complete, that each row is in at most one file and in order, and that
/// missing rows are counted.
fn assert_whole(files: &[Vec<u8>], regions: usize, missing: u64) {
    let mut found = Vec::new();
    for file in files {
        let numbers = numbers(file);
        // A file that could not be started has no rows.
        assert!(numbers.is_empty() || TdmsFile::open(file).unwrap().report().is_sound());
        found.extend(numbers);
    }
    assert!(found.is_sorted_by(|one, other| one < other));
    let all = regions as u64 * BLOCK_ROWS as u64;
    assert_eq!(found.len() as u64 + missing, all);
}

/// Behaviour: B-70.
#[test]
fn failed_write_or_sync_of_a_series_loses_only_outstanding_data() {
    const REGIONS: usize = 30;
    let mut failed = 0;
    for code in [EIO, ENOSPC] {
        for operation in OPENING..80 {
            let second = RefCell::new(false);
            let (files, lost, _) = record_series(FullDisk::Refuse, REGIONS, |number, disk| {
                if number == 1 {
                    disk.fault(operation, SimFault::Fails(code));
                }
                // The first attempt to start the next file fails too.
                if number == 2 && !*second.borrow() {
                    *second.borrow_mut() = true;
                    disk.fault(operation % OPENING, SimFault::Fails(code));
                }
                Ok(())
            });
            assert!(
                lost <= 4 * BLOCK_ROWS as u64,
                "operation {operation}: {lost} rows"
            );
            assert_whole(&files, REGIONS, lost);
            // The files are the failed one, one that could not be started, and one with the other
            // rows.
            assert!(matches!(files.len(), 1 | 3), "{} files", files.len());
            failed += usize::from(files.len() > 1);
        }
    }
    assert!(failed > 100, "only {failed} files have failed");
}

/// Behaviour: B-70.
#[test]
fn series_without_room_for_its_next_file_continues_later() {
    const REGIONS: usize = 60;
    for operation in OPENING..40 {
        let tries = RefCell::new(0);
        let (files, failed, stopped) = record_series(FullDisk::Discard, REGIONS, |number, disk| {
            if number == 1 {
                disk.fault(operation, SimFault::Fails(ENOSPC));
                return Ok(());
            }
            *tries.borrow_mut() += 1;
            match *tries.borrow() {
                // First, the file cannot be created; then it has no space; then its first write
                // fails.
                1..=3 => Err(io::ErrorKind::StorageFull.into()),
                4..=6 => {
                    disk.set_capacity(0);
                    Ok(())
                }
                7 => {
                    disk.fault(0, SimFault::Fails(ENOSPC));
                    Ok(())
                }
                _ => Ok(()),
            }
        });
        assert_eq!(*tries.borrow(), 8);
        assert_eq!(stopped, 7 * BLOCK_ROWS as u64);
        assert_whole(&files, REGIONS, failed + stopped);
        let last = files.last().unwrap();
        let lost = |name: &str| match of_group(last, name) {
            Some(PropertyValue::U64(lost)) => lost,
            _ => 0,
        };
        assert_eq!(lost("gap_1_lost") + lost("gap_2_lost"), failed + stopped);
    }
}
