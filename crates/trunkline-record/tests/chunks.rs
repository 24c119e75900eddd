//! Checks that regions that arrive while the disk is busy share one header.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod rig;

use std::num::NonZeroUsize;
use std::path::Path;
use std::time::Duration;

use rig::{LONG, ROW, Ring, Sut, assert_prefix, rows};
use trunkline_record::{
    Backend, FailedStep, PlayOptions, QueueOptions, Recording, Selection, SimDisk, SimFault,
    TdmsPlayback, TdmsRecording, WriteQueue,
};
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

/// A ring that may lend all the regions that a test needs.
fn ring(rows: usize) -> Ring {
    let made = RegionMemory::for_recording(ROW, rows, PagesWanted::Ordinary, 200);
    let (memory, filler, reader) = made.unwrap();
    Ring {
        memory,
        filler,
        reader,
    }
}

/// Records a region of `blocks` blocks.
fn write(ring: &mut Ring, sut: &mut Sut, blocks: i64) {
    let from = ring.filler.written() as i64;
    let count = blocks * BLOCK_ROWS;
    ring.filler.push(&rows(from..from + count)).unwrap();
    sut.write(ring.reader.acquire(count as u64).unwrap())
        .unwrap();
}

/// Returns the number of blocks accepted after position `start`.
fn blocks(sut: &Sut, start: u64) -> u64 {
    (sut.progress().accepted - start) / BLOCK as u64
}

/// Behaviour: ZC-11, B-70.
#[test]
fn regions_share_headers_and_every_prefix_is_complete() {
    let mut headers = 0;
    for seed in 0..20 {
        let disk = SimDisk::new(seed, BLOCK);
        let mut ring = ring(8192);
        let mut sut = rig::recording(disk.clone(), &ring, options(6));
        for _ in 0..30 {
            write(&mut ring, &mut sut, 1);
            let (rows_min, rows_max) = (sut.rows_in_file(), sut.rows());
            for file in disk.files_after_kill() {
                assert_prefix(&file, rows_min, rows_max);
            }
        }
        let all = sut.rows();
        sut.close(LONG).unwrap();
        assert_eq!(sut.rows_in_file(), all);
        assert_prefix(disk.file(), all, all);
        let file = TdmsFile::open(disk.file()).unwrap();
        assert!(file.report().is_sound());
        // The first segment only defines the channels.
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
    let start = sut.progress().accepted;
    // The first write never completes, so its segment stays open for further regions.
    disk.fault(disk.operations(), SimFault::Stalls);
    for _ in 0..70 {
        write(&mut ring, &mut sut, 1);
    }
    assert_eq!(blocks(&sut, start), 64 + 6 + 2);
    // Regions of another length need a separate header. Four of 1 MiB share one, and the fifth
    // begins another segment.
    for number in 1..=4 {
        write(&mut ring, &mut sut, 2048);
        assert_eq!(blocks(&sut, start), 72 + number * 2048 + 1);
    }
    write(&mut ring, &mut sut, 2048);
    assert_eq!(blocks(&sut, start), 72 + 5 * 2048 + 2);
    disk.pass(Duration::from_millis(99));
    write(&mut ring, &mut sut, 2048);
    assert_eq!(blocks(&sut, start), 72 + 6 * 2048 + 2);
    disk.pass(Duration::from_millis(1));
    write(&mut ring, &mut sut, 2048);
    assert_eq!(blocks(&sut, start), 72 + 7 * 2048 + 3);
}

/// A gap must be recorded in a header before the rows after it.
///
/// Behaviour: ZC-11.
#[test]
fn change_of_the_header_begins_a_new_segment() {
    let disk = SimDisk::new(1, BLOCK);
    let mut ring = ring(4096);
    let mut sut = rig::recording(disk.clone(), &ring, options(100));
    let start = sut.progress().accepted;
    disk.fault(disk.operations(), SimFault::Stalls);
    write(&mut ring, &mut sut, 1);
    write(&mut ring, &mut sut, 1);
    assert_eq!(blocks(&sut, start), 3);
    ring.filler.lose(7);
    write(&mut ring, &mut sut, 1);
    assert_eq!(blocks(&sut, start), 5);
    sut.set(&ObjectPath::File, "operator", "M").unwrap();
    write(&mut ring, &mut sut, 1);
    assert_eq!(blocks(&sut, start), 7);
    // This part repeats the test on a disk that completes all writes.
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

/// An extended header of several blocks is written in parts, or its write fails.
///
/// Behaviour: B-70.
#[test]
fn extended_header_is_written_completely_despite_disk_faults() {
    for (number, fault) in (0..24).flat_map(|n| {
        let faults = [
            SimFault::Short(BLOCK),
            SimFault::Fails(4),
            SimFault::NotStarted(EIO),
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
        // Close again if the sync could not be started.
        let closed = sut.close(LONG).or_else(|_| sut.close(LONG)).unwrap();
        assert_eq!(ring.reader.lent(), 0);
        let file = disk.file();
        let rows_in_file = assert_prefix(&file, 0, taken);
        assert_eq!(rows_in_file, sut.rows_in_file());
        if closed.failure.is_none() {
            assert_eq!(rows_in_file, 12 * BLOCK_ROWS as u64);
        }
        match (closed.failure, fault) {
            (None, _) | (Some(_), SimFault::NotStarted(_)) => {}
            // A failed sync is not retried.
            (Some(failure), _) => assert_eq!(failure.step, FailedStep::Sync, "{fault:?} {number}"),
        }
        let file = TdmsFile::open(&file).unwrap();
        assert!(file.report().is_sound());
    }
}

/// Behaviour: ZC-11, B-70.
#[test]
fn regions_before_a_failed_region_are_in_the_file() {
    let mut cases = 0;
    for seed in 0..200 {
        let (data, sums) = (SimDisk::new(seed, BLOCK), SimDisk::new(!seed, 1));
        let mut ring = ring(4096);
        let memories = vec![ring.memory.clone()];
        let queue = WriteQueue::new(Box::new(data.clone()), options(6), memories);
        let queue = queue.with_sums(Box::new(sums.clone())).unwrap();
        let mut sut = TdmsRecording::start(queue, &rig::layout(), LONG).unwrap();
        let start = sut.progress().accepted;
        let first = data.operations();
        for _ in 0..5 {
            write(&mut ring, &mut sut, 1);
        }
        if blocks(&sut, start) != 6 || data.operations() != first + 5 {
            // The regions are not all in one segment whose header is still to be written.
            continue;
        }
        cases += 1;
        // This part repeats the recording, with a fault in the third region.
        let (data, sums) = (SimDisk::new(seed, BLOCK), SimDisk::new(!seed, 1));
        let mut ring = self::ring(4096);
        let memories = vec![ring.memory.clone()];
        let queue = WriteQueue::new(Box::new(data.clone()), options(6), memories);
        let queue = queue.with_sums(Box::new(sums.clone())).unwrap();
        let mut sut = TdmsRecording::start(queue, &rig::layout(), LONG).unwrap();
        data.fault(first + 2, SimFault::Fails(EIO));
        for _ in 0..5 {
            let count = BLOCK_ROWS as u64;
            let from = ring.filler.written() as i64;
            ring.filler.push(&rows(from..from + BLOCK_ROWS)).unwrap();
            // The region is refused if the queue has already detected the failure.
            let _ = sut.write(ring.reader.acquire(count).unwrap());
        }
        let closed = sut.close(LONG).unwrap();
        let failure = closed.failure.unwrap();
        assert_eq!((failure.step, failure.os_error), (FailedStep::Body, EIO));
        assert_eq!(failure.position, closed.length);
        assert_eq!(ring.reader.lent(), 0);
        let rows_in_file = 2 * BLOCK_ROWS as u64;
        assert_eq!(sut.rows_in_file(), rows_in_file);
        assert_prefix(data.file(), rows_in_file, rows_in_file);
        assert!(SumsCheck::of(&data.file(), &sums.file()).unwrap().is_good());
    }
    assert!(cases > 10, "{cases}");
}

/// Returns the positions of the start, the values and the end of every segment of a file.
fn segments(file: &[u8]) -> Vec<[usize; 3]> {
    let mut segments = Vec::new();
    let mut start = 0;
    while start < file.len() {
        assert_eq!(&file[start..start + 4], b"TDSm");
        let number = |offset: usize| {
            let bytes = file[start + offset..start + offset + 8].try_into().unwrap();
            u64::from_le_bytes(bytes) as usize
        };
        // Both lengths are counted from the end of the lead-in.
        let [end, body] = [number(12), number(20)].map(|bytes| start + 28 + bytes);
        segments.push([start, body, end]);
        start = end;
    }
    segments
}

/// Returns the data that a device gets from a recording, and the number of copied bytes. The file
/// is read from the real disk, or from a simulated one that completes reads in any order.
fn played(path: &Path, disk: Option<SimDisk>) -> (Vec<u8>, u64) {
    let recording = Recording::open(path, &Selection::default()).unwrap();
    assert_eq!(recording.rows_in_place(), recording.rows());
    let made = RegionMemory::for_playback(ROW, 512, PagesWanted::Ordinary, 16);
    let (memory, writer, mut drain) = made.unwrap();
    let options = PlayOptions {
        region_rows: 2 * BLOCK_ROWS as u64,
        ..PlayOptions::default()
    };
    let sut = match disk {
        None => TdmsPlayback::new(recording, memory, writer, options),
        Some(disk) => {
            let opens = move |path: &Path, _| {
                let bytes = std::fs::read(path)?;
                let length = bytes.len() as u64;
                disk.set_file(bytes);
                Ok((Box::new(disk.clone()) as Box<dyn Backend>, length))
            };
            TdmsPlayback::with_backends(recording, memory, writer, options, opens)
        }
    };
    let mut sut = sut.unwrap();
    let mut all = Vec::new();
    // Each iteration delivers at least one row.
    for _ in 0..10_000 {
        sut.fill().unwrap();
        sut.wait_for_one(LONG).unwrap();
        let available = drain.available().unwrap();
        let mut rows = vec![0; available as usize * ROW];
        assert_eq!(drain.take(&mut rows).unwrap(), available);
        all.extend(rows);
        if sut.progress().is_finished && drain.available().unwrap() == 0 {
            return (all, sut.progress().bytes_copied);
        }
    }
    panic!("it never ends: {:?}", sut.progress());
}

/// Each row is played once and in order, in the blocks in which it was recorded.
///
/// Behaviour: ZC-08, ZC-12, ZC-25, B-72.
#[test]
fn regions_with_a_shared_header_are_played_as_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tdms");
    let (mut of_several, mut cut_within) = (0, 0);
    for seed in 0..10 {
        let disk = SimDisk::new(seed, BLOCK);
        let mut ring = ring(8192);
        let mut sut = rig::recording(disk.clone(), &ring, options(6));
        // Regions of another length start another segment.
        for blocks in [[1; 10], [3; 10], [1; 10]].concat() {
            write(&mut ring, &mut sut, blocks);
        }
        let all = rows(0..sut.rows() as i64);
        sut.close(LONG).unwrap();
        let file = disk.file();
        std::fs::write(&path, &file).unwrap();
        let (direct, _) = played(&path, None);
        assert!(direct == all, "{seed}");
        let (found, copied) = played(&path, Some(SimDisk::new(!seed, BLOCK)));
        assert!(found == all, "{seed}");
        assert_eq!(copied, 0, "{seed}");

        // Truncate within the values of a segment: in a row, between rows, and between regions.
        let mut before = 0;
        for [_, body, end] in segments(&file) {
            let is_of_several = end - body > 3 * BLOCK;
            of_several += u32::from(is_of_several);
            for bytes in [1, ROW, BLOCK, BLOCK + 5 * ROW + 3, 3 * BLOCK] {
                if !is_of_several || bytes >= end - body {
                    continue;
                }
                cut_within += 1;
                std::fs::write(&path, &file[..body + bytes]).unwrap();
                let expected = &all[..before + bytes / ROW * ROW];
                for disk in [None, Some(SimDisk::new(seed, BLOCK))] {
                    let (rows, _) = played(&path, disk);
                    assert!(rows == expected, "{seed}: {body} and {bytes}");
                }
            }
            before += end - body;
        }
        assert_eq!(before, all.len());
    }
    assert!(of_several >= 10 && cut_within >= 50, "{of_several}");
}
