//! Tests the queue on a disk that completes writes in any order, fails, and stalls.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

mod rig;

use std::num::NonZeroUsize;
use std::time::Duration;

use rig::{LONG, OPENING, ROW, Ring, assert_prefix, numbers, recording, ring, rows};
use trunkline_record::{
    Backend, Durability, FailedStep, QueueError, QueueOptions, RecordError, Reservation, SimDisk,
    SimFault, WriteQueue,
};
use trunkline_ring::ReadRegion;
use trunkline_tdms::{ObjectPath, PropertyValue, TdmsFile};

const BLOCK: usize = 512;
const BLOCK_ROWS: i64 = (BLOCK / ROW) as i64;
const EIO: i32 = 5;
const ENOSPC: i32 = 28;

fn options(outstanding: usize) -> QueueOptions {
    QueueOptions {
        outstanding_max: NonZeroUsize::new(outstanding).unwrap(),
        ..rig::options()
    }
}

/// Returns the next `blocks` blocks of rows in a region.
fn next(ring: &mut Ring, blocks: i64) -> ReadRegion {
    let from = ring.filler.written() as i64;
    let count = blocks * BLOCK_ROWS;
    assert_eq!(
        ring.filler.push(&rows(from..from + count)).unwrap(),
        count as u64
    );
    ring.reader.acquire(count as u64).unwrap()
}

fn refused(error: RecordError) -> (ReadRegion, QueueError) {
    match error {
        RecordError::Refused(refused) => (refused.region, refused.error),
        error => panic!("{error}"),
    }
}

/// Behaviour: ZC-09, ZC-10, ZC-11.
#[test]
fn file_has_regions_in_call_order_and_each_is_returned_once() {
    for seed in 0..50 {
        let disk = SimDisk::new(seed, BLOCK);
        // The smallest possible ring: the device refills every returned region at once.
        let mut ring = ring(8 * BLOCK_ROWS as usize);
        let mut sut = recording(disk.clone(), &ring, options(4));
        let mut from = 0;
        for _ in 0..30 {
            while ring.reader.fill_level().unwrap()
                < (2 * (ring.reader.lent() as i64 + 1) * BLOCK_ROWS) as u64
            {
                sut.poll().unwrap();
                let room = ring.filler.room().unwrap() as i64;
                ring.filler.push(&rows(from..from + room)).unwrap();
                from += room;
            }
            sut.write(ring.reader.acquire(2 * BLOCK_ROWS as u64).unwrap())
                .unwrap();
            assert!(ring.reader.lent() <= 4);
        }
        sut.flush(Durability::InFile, LONG).unwrap();
        assert_eq!(ring.reader.lent(), 0);
        let closed = sut.close(LONG).unwrap();
        assert_eq!(closed.durability, Durability::OnDisk);
        let file = disk.file();
        assert_eq!(closed.length, file.len() as u64);
        assert_prefix(&file, 60 * BLOCK_ROWS as u64, 60 * BLOCK_ROWS as u64);
        assert!(TdmsFile::open(&file).unwrap().report().is_sound());
        assert_eq!(sut.progress().bytes_copied, 0);
        let (_, error) = refused(sut.write(next(&mut self::ring(8192), 1)).unwrap_err());
        assert!(matches!(error, QueueError::Closed), "{error}");
        assert_eq!(sut.close(LONG).unwrap(), closed);
    }
}

/// Behaviour: ZC-24.
#[test]
fn call_waits_and_reports_it_at_the_limit_of_outstanding_writes() {
    let disk = SimDisk::new(1, BLOCK);
    let mut ring = ring(8192);
    let mut sut = recording(disk.clone(), &ring, options(4));
    assert_eq!(rig::options().outstanding_max.get(), 4);
    assert_eq!(rig::options().wait, Duration::from_secs(5));
    // The oldest write never completes. Later writes complete, but cannot be retired before it.
    disk.fault(OPENING, SimFault::Stalls);
    for written in 1..=4 {
        let region = next(&mut ring, 1);
        sut.write(region).unwrap();
        assert_eq!(sut.progress().outstanding, written);
    }
    let before = disk.now();
    let (region, error) = refused(sut.write(next(&mut ring, 1)).unwrap_err());
    assert!(matches!(
        error,
        QueueError::Busy { outstanding: 4, waited } if waited == Duration::from_secs(5)
    ));
    assert_eq!(disk.now() - before, Duration::from_secs(5));
    assert!(
        error.to_string().contains("4 writes, the maximum"),
        "{error}"
    );
    // Only the region of that write and the refused region are still held.
    assert!(region.bytes() == rows(4 * BLOCK_ROWS..5 * BLOCK_ROWS));
    let error = sut.flush(Durability::InFile, LONG).unwrap_err();
    assert!(matches!(
        error,
        RecordError::Queue(QueueError::TimedOut { outstanding: 4, .. })
    ));
    assert!(
        error.to_string().contains("4 writes did not complete"),
        "{error}"
    );
    assert_eq!(disk.now() - before, Duration::from_secs(5) + LONG);
    assert_eq!(sut.progress().written, sut.progress().durable);
}

/// Behaviour: ZC-10.
#[test]
fn requested_region_is_returned_when_it_is_in_the_file() {
    let disk = SimDisk::new(3, BLOCK);
    let mut ring = ring(8192);
    let memories = vec![ring.memory.clone()];
    let mut sut = WriteQueue::new(Box::new(disk.clone()), options(4), memories);
    for _ in 0..3 {
        let region = next(&mut ring, 1);
        sut.append(&[7; BLOCK], region, &[], true).unwrap();
    }
    sut.flush(Durability::InFile, LONG).unwrap();
    assert_eq!(ring.reader.lent(), 3);
    let returned: Vec<ReadRegion> = std::iter::from_fn(|| sut.take_returned()).collect();
    assert_eq!(returned.len(), 3);
    for region in &returned {
        let from = region.position() as i64;
        assert!(region.bytes() == rows(from..from + BLOCK_ROWS));
    }
    drop(returned);
    assert_eq!(ring.reader.lent(), 0);
}

#[test]
fn file_is_intact_up_to_a_failed_write_and_accepts_no_more() {
    for seed in 0..200 {
        let disk = SimDisk::new(seed, BLOCK);
        let mut ring = ring(8192);
        let mut sut = recording(disk.clone(), &ring, options(3));
        let code = [EIO, ENOSPC][seed as usize % 2];
        disk.fault(OPENING + seed % 17, SimFault::Fails(code));
        let mut taken = 0;
        let failure = loop {
            match sut.write(next(&mut ring, 1)) {
                Ok(()) => taken += BLOCK_ROWS as u64,
                Err(error) => break refused(error).1,
            }
            assert!(taken < 1000, "it never failed");
        };
        let QueueError::Failed(failure) = failure else {
            panic!("{failure}");
        };
        assert_eq!(failure.os_error, code);
        assert!(matches!(
            failure.step,
            FailedStep::Body | FailedStep::Header
        ));
        let closed = sut.close(LONG).unwrap();
        assert_eq!(
            ring.reader.lent(),
            0,
            "regions are given back in spite of it"
        );
        assert_eq!(closed.durability, Durability::OnDisk);
        let last = closed.failure.unwrap();
        assert_eq!(
            (last.written, last.position),
            (closed.length, closed.length)
        );
        let file = disk.file();
        assert_eq!(file.len() as u64, closed.length);
        // All rows are in the file if only the next placeholder could not be written.
        assert_prefix(&file, 0, taken);
        assert!(TdmsFile::open(&file).unwrap().report().is_sound());
    }
}

#[test]
fn failed_file_gets_no_further_writes() {
    let disk = SimDisk::new(1, BLOCK);
    let mut ring = ring(8192);
    let mut sut = recording(disk.clone(), &ring, options(1));
    disk.fault(OPENING, SimFault::Fails(EIO));
    sut.write(next(&mut ring, 1)).unwrap();
    assert!(sut.flush(Durability::InFile, LONG).is_err());
    assert!(sut.write(next(&mut ring, 1)).is_err());
    assert_eq!(disk.operations(), OPENING + 1);
}

#[test]
fn nothing_is_durable_after_a_failed_sync() {
    let disk = SimDisk::new(5, BLOCK);
    let mut ring = ring(8192);
    let mut sut = recording(disk.clone(), &ring, options(3));
    sut.write(next(&mut ring, 1)).unwrap();
    sut.flush(Durability::OnDisk, LONG).unwrap();
    let durable = sut.progress().durable;
    sut.write(next(&mut ring, 1)).unwrap();
    sut.flush(Durability::InFile, LONG).unwrap();
    disk.fault(disk.operations(), SimFault::Fails(EIO));
    let error = sut.flush(Durability::OnDisk, LONG).unwrap_err();
    assert!(error.to_string().contains("syncing"), "{error}");
    assert!(
        sut.begin_sync().is_err(),
        "a later sync would prove nothing"
    );
    assert!(sut.write(next(&mut ring, 1)).is_err());
    let closed = sut.close(LONG).unwrap();
    assert_eq!(closed.durability, Durability::InFile);
    assert_eq!(sut.progress().durable, durable);
    assert_prefix(disk.file(), 2 * BLOCK_ROWS as u64, 2 * BLOCK_ROWS as u64);
}

#[test]
fn short_and_deferred_writes_are_completed() {
    const EINTR: i32 = 4;
    const EAGAIN: i32 = 11;
    for seed in 0..50 {
        let disk = SimDisk::new(seed, BLOCK);
        let mut ring = ring(8192);
        let mut sut = recording(disk.clone(), &ring, options(3));
        // The disk shortens writes to one block, to a block and a part, and to nothing, and then
        // postpones writes.
        for (index, fault) in [
            SimFault::Short(BLOCK),
            SimFault::Short(BLOCK + 100),
            SimFault::Short(0),
            SimFault::Fails(EINTR),
            SimFault::Fails(EAGAIN),
        ]
        .into_iter()
        .enumerate()
        {
            disk.fault(OPENING + seed % 5 + 3 * index as u64, fault);
        }
        for _ in 0..20 {
            sut.write(next(&mut ring, 3)).unwrap();
        }
        assert_eq!(sut.close(LONG).unwrap().failure, None);
        assert_prefix(disk.file(), 60 * BLOCK_ROWS as u64, 60 * BLOCK_ROWS as u64);
    }
}

/// Behaviour: ZC-14, ZC-27.
#[test]
fn space_is_reserved_ahead_and_released_at_the_end() {
    let disk = SimDisk::new(2, BLOCK);
    let mut ring = ring(8192);
    let options = QueueOptions {
        reserve_bytes: 1 << 20,
        ..options(2)
    };
    let mut sut = recording(disk.clone(), &ring, options);
    assert_eq!(disk.reserved_to(), 1 << 20);
    assert_eq!(sut.progress().reservation, Reservation::Ahead);
    for _ in 0..64 {
        sut.write(next(&mut ring, 64)).unwrap();
    }
    assert_eq!(disk.reserved_to(), 3 << 20);
    let closed = sut.close(LONG).unwrap();
    assert_eq!(disk.reserved_to(), closed.length);
}

#[test]
fn full_disk_refuses_regions_until_there_is_room() {
    let disk = SimDisk::new(2, BLOCK);
    let mut ring = ring(8192);
    let options = QueueOptions {
        reserve_bytes: 128 << 10,
        ..options(2)
    };
    disk.set_capacity(200 << 10);
    let mut sut = recording(disk.clone(), &ring, options);
    let region = loop {
        if let Err(error) = sut.write(next(&mut ring, 16)) {
            let (region, error) = refused(error);
            let QueueError::DiskFull { bytes } = error else {
                panic!("{error}");
            };
            assert!(disk.reserved_to() + bytes > 200 << 10, "{bytes}");
            break region;
        }
    };
    let before = sut.rows();
    sut.flush(Durability::OnDisk, LONG).unwrap();
    assert_prefix(disk.file(), before, before);
    disk.set_capacity(u64::MAX);
    sut.write(region).unwrap();
    sut.write(next(&mut ring, 16)).unwrap();
    sut.close(LONG).unwrap();
    let all = before + 32 * BLOCK_ROWS as u64;
    assert_prefix(disk.file(), all, all);
}

/// A disk with less space than is reserved at a time is used completely, and only the space that is
/// needed soon is reserved.
///
/// Behaviour: ZC-14.
#[test]
fn a_small_disk_is_used_to_its_end() {
    const ROOM: u64 = 4 << 20;
    let disk = SimDisk::new(2, BLOCK);
    let mut ring = ring(8192);
    let options = QueueOptions {
        reserve_bytes: 256 << 20,
        ..options(2)
    };
    disk.set_capacity(ROOM);
    let mut sut = recording(disk.clone(), &ring, options);
    assert!(disk.reserved_to() <= ROOM / 8);
    loop {
        let reserved = disk.reserved_to();
        let written = sut.write(next(&mut ring, 1));
        let more = disk.reserved_to() - reserved;
        // The reservation covers a region and the longest header, or an eighth of the free space.
        let needed = (64 << 10) + 4 * BLOCK as u64;
        assert!(more <= needed.max((ROOM - reserved) / 8), "{more}");
        let Err(error) = written else { continue };
        let (_, error) = refused(error);
        assert!(matches!(error, QueueError::DiskFull { bytes } if bytes <= needed));
        assert!(disk.reserved_to() + needed > ROOM, "{reserved}");
        break;
    }
    let rows = sut.rows();
    sut.close(LONG).unwrap();
    assert_prefix(disk.file(), rows, rows);
}

/// Behaviour: ZC-13.
#[test]
fn unaligned_start_is_refused_and_unaligned_end_is_padded() {
    // With the first length, the remaining part of the block has space for a segment; with the
    // second length, it does not.
    for odd in [3, BLOCK_ROWS - 1] {
        let disk = SimDisk::new(2, BLOCK);
        let mut ring = ring(8192);
        let mut sut = recording(disk.clone(), &ring, options(2));
        let count = 2 * BLOCK_ROWS + odd;
        ring.filler.push(&rows(0..count + BLOCK_ROWS)).unwrap();
        sut.write(ring.reader.acquire(count as u64).unwrap())
            .unwrap();
        let unaligned = ring.reader.acquire(BLOCK_ROWS as u64).unwrap();
        let (region, error) = refused(sut.write(unaligned).unwrap_err());
        assert!(error.to_string().contains("whole blocks"), "{error}");
        drop(region);
        assert_eq!(sut.progress().bytes_copied, (odd as usize * ROW) as u64);
        sut.close(LONG).unwrap();
        assert_eq!(disk.file().len() % BLOCK, 0);
        assert_prefix(disk.file(), count as u64, count as u64);
        assert!(TdmsFile::open(&disk.file()).unwrap().report().is_sound());
    }
    // Without blocks, regions of any length are written in place.
    let disk = SimDisk::new(2, 1);
    let mut ring = ring(8192);
    let mut sut = recording(disk.clone(), &ring, options(2));
    ring.filler.push(&rows(0..100)).unwrap();
    for count in [3, 90, 7] {
        sut.write(ring.reader.acquire(count).unwrap()).unwrap();
    }
    sut.close(LONG).unwrap();
    assert_prefix(disk.file(), 100, 100);
    assert_eq!(sut.progress().bytes_copied, 0);
}

#[test]
fn device_losses_are_recorded_in_the_file() {
    let disk = SimDisk::new(2, BLOCK);
    let mut ring = ring(8192);
    let mut sut = recording(disk.clone(), &ring, options(2));
    let mut from = 0;
    for lost in [0, 5, 0, 17] {
        ring.filler.lose(lost as u64);
        from += lost;
        ring.filler.push(&rows(from..from + BLOCK_ROWS)).unwrap();
        from += BLOCK_ROWS;
        sut.write(ring.reader.acquire(BLOCK_ROWS as u64).unwrap())
            .unwrap();
    }
    sut.close(LONG).unwrap();
    assert_eq!((sut.rows(), sut.lost()), (4 * BLOCK_ROWS as u64, 22));
    let file = disk.file();
    assert_eq!(numbers(&file).len() as i64, 4 * BLOCK_ROWS);
    let file = TdmsFile::open(&file).unwrap();
    let group = file.properties(&ObjectPath::Group("rig".into())).unwrap();
    for (name, value) in [
        ("gap_1_row", BLOCK_ROWS as u64),
        ("gap_1_lost", 5),
        ("gap_2_row", 3 * BLOCK_ROWS as u64),
        ("gap_2_lost", 17),
    ] {
        assert_eq!(group[name.as_bytes()], PropertyValue::U64(value), "{name}");
    }
}
