//! Regions that come while the disk is busy stand under one header.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod rig;

use std::num::NonZeroUsize;
use std::time::Duration;

use rig::{LONG, ROW, Ring, Sut, assert_prefix, rows};
use trunkline_record::{FailedStep, QueueOptions, SimDisk, SimFault, TdmsRecording, WriteQueue};
use trunkline_ring::{PagesWanted, RegionMemory};
use trunkline_tdms::{ObjectPath, PropertyValue, SumsCheck, TdmsFile};

const BLOCK: usize = 512;
const BLOCK_ROWS: i64 = (BLOCK / ROW) as i64;
const EIO: i32 = 5;

fn options(outstanding: usize) -> QueueOptions {
    QueueOptions {
        outstanding_max: NonZeroUsize::new(outstanding).unwrap(),
        ..rig::options()
    }
}

/// A ring of which as many regions as there are may be lent.
fn ring(rows: usize) -> Ring {
    let made = RegionMemory::to_record(ROW, rows, PagesWanted::Ordinary, 200);
    let (memory, filler, reader) = made.unwrap();
    Ring {
        memory,
        filler,
        reader,
    }
}

/// Records a region of so many blocks.
fn write(ring: &mut Ring, sut: &mut Sut, blocks: i64) {
    let from = ring.filler.written() as i64;
    let count = blocks * BLOCK_ROWS;
    ring.filler.push(&rows(from..from + count)).unwrap();
    sut.write(ring.reader.acquire(count as u64).unwrap())
        .unwrap();
}

/// How many blocks were taken since the file began.
fn blocks(sut: &Sut, begin: u64) -> u64 {
    (sut.progress().accepted - begin) / BLOCK as u64
}

/// Behaviour: ZC-11, B-70.
#[test]
fn a_file_has_fewer_headers_than_regions_and_is_whole_wherever_it_ends() {
    let mut headers = 0;
    for seed in 0..20 {
        let disk = SimDisk::new(seed, BLOCK);
        let mut ring = ring(8192);
        let mut sut = rig::recording(disk.clone(), &ring, options(6));
        for _ in 0..30 {
            write(&mut ring, &mut sut, 1);
            let (least, most) = (sut.rows_in_file(), sut.rows());
            for file in disk.files_after_kill() {
                assert_prefix(&file, least, most);
            }
        }
        let all = sut.rows();
        sut.close(LONG).unwrap();
        assert_eq!(sut.rows_in_file(), all);
        assert_prefix(disk.file(), all, all);
        let file = TdmsFile::open(disk.file()).unwrap();
        assert!(file.report().is_sound());
        // One more has the channels.
        headers += file.report().segments - 1;
        assert_eq!(sut.progress().bytes_copied, 0);
    }
    assert!((20..20 * 15).contains(&headers), "{headers}");
}

#[test]
fn a_header_has_at_most_64_regions_4_mib_and_those_of_100_ms() {
    let disk = SimDisk::new(1, BLOCK);
    let mut ring = ring(1 << 20);
    let mut sut = rig::recording(disk.clone(), &ring, options(100));
    let begin = sut.progress().accepted;
    // The first never gets done: its segment stays open for others.
    disk.fault(disk.operations(), SimFault::Stands);
    for _ in 0..70 {
        write(&mut ring, &mut sut, 1);
    }
    assert_eq!(blocks(&sut, begin), 64 + 6 + 2);
    // Of another length, so that they have a header of their own: four of 1 MiB, and another one.
    for number in 1..=4 {
        write(&mut ring, &mut sut, 2048);
        assert_eq!(blocks(&sut, begin), 72 + number * 2048 + 1);
    }
    write(&mut ring, &mut sut, 2048);
    assert_eq!(blocks(&sut, begin), 72 + 5 * 2048 + 2);
    disk.pass(Duration::from_millis(99));
    write(&mut ring, &mut sut, 2048);
    assert_eq!(blocks(&sut, begin), 72 + 6 * 2048 + 2);
    disk.pass(Duration::from_millis(1));
    write(&mut ring, &mut sut, 2048);
    assert_eq!(blocks(&sut, begin), 72 + 7 * 2048 + 3);
}

/// A gap has to be said before the rows behind it.
///
/// Behaviour: ZC-11.
#[test]
fn what_a_header_has_to_say_begins_another_segment() {
    let disk = SimDisk::new(1, BLOCK);
    let mut ring = ring(4096);
    let mut sut = rig::recording(disk.clone(), &ring, options(100));
    let begin = sut.progress().accepted;
    disk.fault(disk.operations(), SimFault::Stands);
    write(&mut ring, &mut sut, 1);
    write(&mut ring, &mut sut, 1);
    assert_eq!(blocks(&sut, begin), 3);
    ring.filler.lose(7);
    write(&mut ring, &mut sut, 1);
    assert_eq!(blocks(&sut, begin), 5);
    sut.set(&ObjectPath::File, "operator", "M").unwrap();
    write(&mut ring, &mut sut, 1);
    assert_eq!(blocks(&sut, begin), 7);
    // The same where the disk goes on.
    let disk = SimDisk::new(1, BLOCK);
    let mut ring = self::ring(4096);
    let mut sut = rig::recording(disk.clone(), &ring, options(100));
    write(&mut ring, &mut sut, 1);
    write(&mut ring, &mut sut, 1);
    ring.filler.lose(7);
    write(&mut ring, &mut sut, 1);
    sut.close(LONG).unwrap();
    assert_prefix(disk.file(), 3 * BLOCK_ROWS as u64, 3 * BLOCK_ROWS as u64);
    let file = TdmsFile::open(disk.file()).unwrap();
    let properties = file.properties(&ObjectPath::group("rig")).unwrap();
    let number = |name: &str| properties[name.as_bytes()].clone();
    assert_eq!(
        number("gap_1_row"),
        PropertyValue::U64(2 * BLOCK_ROWS as u64)
    );
    assert_eq!(number("gap_1_lost"), PropertyValue::U64(7));
}

/// A header of several blocks that was made longer, and is written in pieces or not begun.
///
/// Behaviour: B-70.
#[test]
fn a_header_that_was_made_longer_is_written_whole_whatever_the_disk_does() {
    for (number, fault) in (0..24).flat_map(|n| {
        let faults = [
            SimFault::Short(BLOCK),
            SimFault::Fails(4),
            SimFault::NotBegun(EIO),
        ];
        faults.map(|fault| (n, fault))
    }) {
        let disk = SimDisk::new(number, BLOCK);
        let mut ring = ring(4096);
        let mut sut = rig::recording(disk.clone(), &ring, options(8));
        let remark = "x".repeat(5 * BLOCK);
        sut.set(&ObjectPath::File, "remark", remark.as_str())
            .unwrap();
        disk.fault(disk.operations() + number, fault);
        let mut taken = 0;
        for _ in 0..12 {
            let from = ring.filler.written() as i64;
            ring.filler.push(&rows(from..from + BLOCK_ROWS)).unwrap();
            let region = ring.reader.acquire(BLOCK_ROWS as u64).unwrap();
            taken += u64::from(sut.write(region).is_ok()) * BLOCK_ROWS as u64;
        }
        let closed = sut.close(LONG).unwrap();
        assert_eq!(ring.reader.lent(), 0);
        let file = disk.file();
        let kept = assert_prefix(&file, 0, taken);
        assert_eq!(kept, sut.rows_in_file());
        if closed.failure.is_none() {
            assert_eq!(kept, 12 * BLOCK_ROWS as u64);
        }
        assert_eq!(
            closed.failure.is_some(),
            matches!(fault, SimFault::NotBegun(_)) && kept < 12 * BLOCK_ROWS as u64,
            "{fault:?} {number}"
        );
        let file = TdmsFile::open(&file).unwrap();
        assert!(file.report().is_sound());
    }
}

/// Behaviour: ZC-11, B-70.
#[test]
fn what_stands_before_a_region_that_fails_is_in_the_file() {
    let mut cases = 0;
    for seed in 0..200 {
        let (data, sums) = (SimDisk::new(seed, BLOCK), SimDisk::new(!seed, 1));
        let mut ring = ring(4096);
        let memories = vec![ring.memory.clone()];
        let queue = WriteQueue::new(data.clone(), options(6), memories);
        let queue = queue.with_sums(sums.clone()).unwrap();
        let mut sut = TdmsRecording::start(queue, &rig::layout(), LONG).unwrap();
        let begin = sut.progress().accepted;
        let first = data.operations();
        for _ in 0..5 {
            write(&mut ring, &mut sut, 1);
        }
        if blocks(&sut, begin) != 6 || data.operations() != first + 5 {
            // They are not all in one segment whose header is still to be written.
            continue;
        }
        cases += 1;
        // The same once more, with a fault in the third of them.
        let (data, sums) = (SimDisk::new(seed, BLOCK), SimDisk::new(!seed, 1));
        let mut ring = self::ring(4096);
        let memories = vec![ring.memory.clone()];
        let queue = WriteQueue::new(data.clone(), options(6), memories);
        let queue = queue.with_sums(sums.clone()).unwrap();
        let mut sut = TdmsRecording::start(queue, &rig::layout(), LONG).unwrap();
        data.fault(first + 2, SimFault::Fails(EIO));
        for _ in 0..5 {
            let count = BLOCK_ROWS as u64;
            let from = ring.filler.written() as i64;
            ring.filler.push(&rows(from..from + BLOCK_ROWS)).unwrap();
            // Refused where the failure is known already.
            let _ = sut.write(ring.reader.acquire(count).unwrap());
        }
        let closed = sut.close(LONG).unwrap();
        let failure = closed.failure.unwrap();
        assert_eq!((failure.step, failure.os_error), (FailedStep::Body, EIO));
        assert_eq!(failure.position, closed.length);
        assert_eq!(ring.reader.lent(), 0);
        let kept = 2 * BLOCK_ROWS as u64;
        assert_eq!(sut.rows_in_file(), kept);
        assert_prefix(data.file(), kept, kept);
        assert!(SumsCheck::of(&data.file(), &sums.file()).unwrap().is_good());
    }
    assert!(cases > 10, "{cases}");
}
