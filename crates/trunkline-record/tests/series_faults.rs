//! Checks that counts, gaps and regions of a series are correct for any failure at any time.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

mod rig;
mod sample_file;

use std::cell::RefCell;
use std::num::NonZeroUsize;
use std::thread;
use std::time::Duration;

use rig::{LONG, ROW, layout, numbers, ring, rows};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use trunkline_record::{
    BackendChoice, CacheMode, Copying, EndedFile, QueueOptions, RecordError, Recording, Rotation,
    Selection, SimDisk, SimFault, TdmsSeries, WriteQueue, series_path, tdms_queue,
};
use trunkline_ring::ReadRegion;
use trunkline_tdms::{Arrangement, ObjectPath, Properties, TdmsFile};

const BLOCK: usize = 512;
const BLOCK_ROWS: i64 = (BLOCK / ROW) as i64;
const EIO: i32 = 5;
const EROFS: i32 = 30;

/// The result of a series, file by file.
struct Recorded {
    disks: Vec<SimDisk>,
    ended: Vec<EndedFile>,
    rows: u64,
}

/// Records regions of `count` rows to simulated disks, after `prepare` was called with each disk.
fn record(
    (regions, count): (u64, i64),
    options: QueueOptions,
    bytes_max: u64,
    prepare: impl Fn(u32, &SimDisk),
) -> Recorded {
    let options = QueueOptions {
        outstanding_max: NonZeroUsize::new(3).unwrap(),
        ..options
    };
    let disks = RefCell::new(Vec::new());
    let mut ring = ring(1 << 14);
    let memory = ring.memory.clone();
    let open = |number| {
        let disk = SimDisk::new(u64::from(number), BLOCK);
        prepare(number, &disk);
        disks.borrow_mut().push(disk.clone());
        Ok(WriteQueue::new(
            Box::new(disk),
            options,
            vec![memory.clone()],
        ))
    };
    let rotation = Rotation {
        bytes_max,
        ..Rotation::default()
    };
    let mut sut = TdmsSeries::start(open, layout(), rotation, LONG).unwrap();
    for _ in 0..regions {
        let from = ring.filler.written() as i64;
        ring.filler.push(&rows(from..from + count)).unwrap();
        let mut region = ring.reader.acquire(count as u64).unwrap();
        // Each region is either accepted or returned.
        for tries in 0.. {
            region = match sut.write(region) {
                Ok(()) => break,
                Err(RecordError::Refused(refused)) if tries < 5 => refused.region,
                Err(error) => panic!("{error}"),
            };
        }
    }
    let last = sut.close().unwrap();
    let mut ended: Vec<EndedFile> = std::iter::from_fn(|| sut.take_ended()).collect();
    ended.push(last);
    assert_eq!(ring.reader.lent(), 0);
    Recorded {
        disks: disks.take(),
        ended,
        rows: regions * count as u64,
    }
}

fn number_of(properties: &Properties, name: &str) -> Option<u64> {
    properties.get(name.as_bytes())?.as_u64()
}

impl Recorded {
    /// Checks that every row is in a file or lost, and that each file states the number of rows in
    /// the files before it. Checks that the gaps add up to the missing rows and, if `is_exact`,
    /// that they are at the exact positions.
    fn check(&self, is_exact: bool) {
        let (mut before, mut next, mut lost, mut reported) = (0, 0, 0, 0);
        for (ended, disk) in self.ended.iter().zip(&self.disks) {
            let file = disk.file();
            let numbers = numbers(&file);
            assert_eq!(numbers.len() as u64, ended.rows, "file {}", ended.number);
            let file = TdmsFile::open(&file).unwrap();
            let group = file.properties(&ObjectPath::group("rig")).unwrap();
            // A file that also failed may lack the correction.
            let is_told = is_exact || ended.closed.failure.is_none();
            if ended.rows > 0 && ended.number > 1 && is_told {
                let series_row = number_of(group, "series_row");
                assert_eq!(series_row, Some(before), "file {}", ended.number);
            }
            let gaps: Vec<(u64, u64)> = (1..)
                .map_while(|gap| {
                    let property = |what| number_of(group, &format!("gap_{gap}_{what}"));
                    property("row").zip(property("lost"))
                })
                .collect();
            reported += gaps.iter().map(|(_, lost)| lost).sum::<u64>();
            for (row, number) in numbers.iter().enumerate().filter(|_| is_exact) {
                let here = gaps.iter().filter(|(at, _)| *at == row as u64);
                let missing = here.map(|(_, lost)| *lost as i64).sum::<i64>();
                assert_eq!(*number, next + missing, "file {}, row {row}", ended.number);
                next = number + 1;
            }
            before += ended.rows;
            lost += ended.rows_lost;
        }
        assert_eq!(self.ended.len(), self.disks.len());
        assert_eq!(before + lost, self.rows);
        assert_eq!(reported, lost);
    }
}

/// Behaviour: B-70.
#[test]
fn late_file_failure_corrects_the_gaps_of_the_following_files() {
    let mut lost = 0;
    for bytes_max in [1, 8 * BLOCK as u64] {
        let good = record((12, BLOCK_ROWS), rig::options(), bytes_max, |_, _| {});
        good.check(true);
        // The last operation is the sync at the end of the file; its failure loses no rows.
        let operations = good.disks[0].operations();
        for failing in rig::OPENING..operations {
            let recorded = record(
                (12, BLOCK_ROWS),
                rig::options(),
                bytes_max,
                |number, disk| {
                    if number == 1 {
                        disk.fault(failing, SimFault::Fails(EIO));
                    }
                },
            );
            recorded.check(true);
            let first = &recorded.ended[0];
            assert_eq!(first.closed.failure.unwrap().os_error, EIO);
            if failing + 1 == operations {
                assert_eq!(first.rows_lost, 0);
            }
            lost += first.rows_lost;
        }
    }
    assert!(lost > 0);
}

/// Behaviour: B-70.
#[test]
fn gap_is_recorded_in_the_next_file_if_the_current_one_fails_too() {
    for first in rig::OPENING..8 {
        for second in rig::OPENING..8 {
            for bytes_max in [1, 4 * BLOCK as u64] {
                let recorded = record(
                    (12, BLOCK_ROWS),
                    rig::options(),
                    bytes_max,
                    |number, disk| match number {
                        1 => disk.fault(first, SimFault::Fails(EIO)),
                        2 => disk.fault(second, SimFault::Fails(EIO)),
                        _ => {}
                    },
                );
                recorded.check(false);
            }
        }
    }
}

/// Behaviour: B-70.
#[test]
fn untruncatable_file_is_reported_and_does_not_stop_the_series() {
    for failing in rig::OPENING..18 {
        for bytes_max in [u64::MAX, 8 * BLOCK as u64] {
            let recorded = record(
                (20, BLOCK_ROWS),
                rig::options(),
                bytes_max,
                |number, disk| {
                    if number == 1 {
                        disk.fault(failing, SimFault::Fails(EIO));
                        disk.set_trim_fault(Some(EROFS));
                    }
                },
            );
            recorded.check(true);
            assert_eq!(recorded.ended[0].closed.truncate_error, Some(EROFS));
            assert!(recorded.ended.len() > 1);
        }
    }
    // A file without an earlier failure.
    let recorded = record(
        (20, BLOCK_ROWS),
        rig::options(),
        8 * BLOCK as u64,
        |number, disk| {
            disk.set_trim_fault((number == 2).then_some(EROFS));
        },
    );
    recorded.check(true);
    let failures: Vec<u32> = recorded
        .ended
        .iter()
        .filter(|ended| ended.closed.failure.is_some())
        .map(|ended| ended.number)
        .collect();
    assert_eq!(failures, [2]);
    let closed = recorded.ended[1].closed;
    assert_eq!(closed.truncate_error, Some(EROFS));
    assert!(closed.failure.unwrap().to_string().contains("truncating"));
}

/// Behaviour: B-70.
#[test]
fn every_region_lost_with_a_failed_copy_is_counted() {
    let options = QueueOptions {
        copying: Some(Copying {
            below_bytes: BLOCK,
            segment_bytes: 4 * BLOCK,
            age_max: Duration::ZERO,
        }),
        ..rig::options()
    };
    for failing in rig::OPENING..62 {
        let recorded = record((60, 7), options, u64::MAX, |number, disk| {
            if number == 1 {
                disk.fault(failing, SimFault::Fails(EIO));
            }
        });
        recorded.check(true);
        assert_eq!(recorded.ended.len(), 2);
    }
}

/// Behaviour: B-70.
#[test]
fn file_that_accepts_no_more_headers_is_followed_by_another() {
    let disks = RefCell::new(Vec::new());
    let mut ring = ring(1 << 14);
    let memory = ring.memory.clone();
    let open = |number| {
        let disk = SimDisk::new(u64::from(number), BLOCK);
        disks.borrow_mut().push(disk.clone());
        Ok(WriteQueue::new(
            Box::new(disk),
            rig::options(),
            vec![memory.clone()],
        ))
    };
    let mut sut = TdmsSeries::start(open, layout(), Rotation::default(), LONG).unwrap();
    let remark = "x".repeat(100_000);
    sut.current()
        .set(&ObjectPath::File, "remark", remark)
        .unwrap();
    ring.filler.lose(3);
    ring.filler.push(&rows(3..3 + BLOCK_ROWS)).unwrap();
    let region = ring.reader.acquire(BLOCK_ROWS as u64).unwrap();
    let RecordError::Refused(refused) = sut.write(region).unwrap_err() else {
        panic!("it fits");
    };
    sut.write(refused.region).unwrap();
    sut.close().unwrap();
    let first = sut.take_ended().unwrap();
    assert_eq!((first.rows, first.rows_lost), (0, 0));
    let file = disks.borrow()[1].file();
    assert_eq!(numbers(&file)[0], 3);
    let file = TdmsFile::open(&file).unwrap();
    let group = file.properties(&ObjectPath::group("rig")).unwrap();
    // Losses of the device are recorded once.
    let gaps = ["gap_1_row", "gap_1_lost", "gap_2_row"].map(|name| number_of(group, name));
    assert_eq!(gaps, [Some(0), Some(3), None]);
}

/// Behaviour: B-70, B-72.
#[test]
fn late_detected_gap_is_played_at_its_position() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.tdms");
    sample_file::write(&path, 50, Arrangement::Interleaved, |writer| {
        let group = ObjectPath::group("g");
        for (number, row, lost) in [(1, 15, 20), (2, 0, 7)] {
            let name = |what| format!("gap_{number}_{what}");
            writer.set(&group, name("row"), row as u64).unwrap();
            writer.set(&group, name("lost"), lost as u64).unwrap();
        }
    });
    let recording = Recording::open(&path, &Selection::default()).unwrap();
    let gaps: Vec<_> = recording
        .gaps()
        .iter()
        .map(|gap| (gap.row, gap.lost))
        .collect();
    assert_eq!(gaps, [(0, 7), (15, 20)]);
}

/// Makes every file sync of this thread, and of threads that it starts, fail from now on.
fn forbid_syncs() {
    let filter = SeccompFilter::new(
        [(libc::SYS_fdatasync, vec![])].into_iter().collect(),
        SeccompAction::Allow,
        SeccompAction::Errno(EIO as u32),
        std::env::consts::ARCH.try_into().unwrap(),
    );
    let program: BpfProgram = filter.unwrap().try_into().unwrap();
    seccompiler::apply_filter(&program).unwrap();
}

/// Behaviour: B-70.
#[test]
fn next_file_that_failed_to_start_can_be_created_again() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut ring = ring(8192);
    let memory = ring.memory.clone();
    let options = QueueOptions {
        has_sums: true,
        ..rig::options()
    };
    let open = |number| {
        let path = series_path(folder, "run", number)?;
        let (wanted, cache_mode) = (BackendChoice::PlainWrites, CacheMode::Cached);
        let memories = vec![memory.clone()];
        tdms_queue(&path, wanted, cache_mode, options, memories).map(|(queue, _)| queue)
    };
    let rotation = Rotation {
        bytes_max: 1,
        ..Rotation::default()
    };
    let mut sut = TdmsSeries::start(open, layout(), rotation, LONG).unwrap();
    let file_count = || std::fs::read_dir(folder).unwrap().count();
    assert_eq!(file_count(), 2);
    ring.filler.push(&rows(0..BLOCK_ROWS)).unwrap();
    let mut region: ReadRegion = ring.reader.acquire(BLOCK_ROWS as u64).unwrap();
    for _ in 0..3 {
        // A seccomp filter cannot be removed from its thread, so a separate thread is used.
        region = thread::scope(|scope| {
            let (sut, region) = (&mut sut, region);
            let refused = scope.spawn(move || {
                forbid_syncs();
                sut.write(region).unwrap_err()
            });
            match refused.join().unwrap() {
                RecordError::Refused(refused) => {
                    assert!(refused.error.to_string().contains("syncing"), "{refused}");
                    refused.region
                }
                error => panic!("{error}"),
            }
        });
        assert_eq!((file_count(), sut.number()), (2, 1), "it was removed again");
    }
    sut.write(region).unwrap();
    assert_eq!((file_count(), sut.number()), (4, 2));
    assert_eq!(sut.close().unwrap().rows, BLOCK_ROWS as u64);
}
