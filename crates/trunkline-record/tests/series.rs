//! Tests a recording that continues in other files.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

mod rig;

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::time::Duration;

use rig::{LONG, ROW, Ring, layout, numbers, ring, rows};
use trunkline_record::{
    BackendChoice, CacheMode, DiscardedResults, Durability, ENDED_FILES_MAX, EndedFile,
    QueueOptions, RecordError, Rotation, SimDisk, SimFault, TdmsLayout, TdmsSeries, WriteQueue,
    series_path, tdms_queue,
};
use trunkline_tdms::{ObjectPath, PropertyValue, TdmsFile, Waveform};
use trunkline_types::Timestamp;

const BLOCK: usize = 512;
const BLOCK_ROWS: i64 = (BLOCK / ROW) as i64;

fn options() -> QueueOptions {
    QueueOptions {
        outstanding_max: NonZeroUsize::new(3).unwrap(),
        ..rig::options()
    }
}

/// Returns the next block of rows in a region.
fn next(ring: &mut Ring) -> trunkline_ring::ReadRegion {
    let from = ring.filler.written() as i64;
    ring.filler.push(&rows(from..from + BLOCK_ROWS)).unwrap();
    ring.reader.acquire(BLOCK_ROWS as u64).unwrap()
}

fn of_group(file: &[u8], name: &str) -> Option<PropertyValue> {
    let file = TdmsFile::open(file).unwrap();
    let group = file.properties(&ObjectPath::Group("rig".into())).unwrap();
    group.get(name.as_bytes()).cloned()
}

/// Opens files on simulated disks, after `prepare` was called with each disk.
fn open_on<'a>(
    disks: &'a RefCell<Vec<SimDisk>>,
    ring: &Ring,
    prepare: fn(u32, &SimDisk),
) -> impl FnMut(u32) -> io::Result<WriteQueue> + use<'a> {
    let memory = ring.memory.clone();
    move |number| {
        let disk = SimDisk::new(u64::from(number), BLOCK);
        prepare(number, &disk);
        disks.borrow_mut().push(disk.clone());
        Ok(WriteQueue::new(
            Box::new(disk),
            options(),
            vec![memory.clone()],
        ))
    }
}

/// Returns the rows of all files, concatenated.
fn all_numbers(disks: &RefCell<Vec<SimDisk>>) -> Vec<i64> {
    let disks = disks.borrow();
    disks.iter().flat_map(|disk| numbers(disk.file())).collect()
}

#[test]
fn a_file_that_is_large_is_followed_by_another_and_no_row_is_lost() {
    let disks = RefCell::new(Vec::new());
    let mut ring = ring(8192);
    let rotation = Rotation {
        bytes_max: 8 * BLOCK as u64,
        ..Rotation::default()
    };
    let open = open_on(&disks, &ring, |_, _| {});
    let mut sut = TdmsSeries::start(open, layout(), rotation, LONG).unwrap();
    for _ in 0..50 {
        sut.write(next(&mut ring)).unwrap();
    }
    let last = sut.close().unwrap();
    let mut ended: Vec<EndedFile> = std::iter::from_fn(|| sut.take_ended()).collect();
    ended.push(last);
    assert!(all_numbers(&disks).into_iter().eq(0..50 * BLOCK_ROWS));
    assert_eq!(ended.len(), disks.borrow().len());
    assert!(ended.len() > 10, "{} files", ended.len());
    let mut before = 0;
    for (index, (ended, disk)) in ended.iter().zip(disks.borrow().iter()).enumerate() {
        assert_eq!(ended.number, index as u32 + 1);
        assert_eq!((ended.rows_lost, ended.closed.failure), (0, None));
        assert_eq!(ended.closed.durability, Durability::OnDisk);
        let file = disk.file();
        assert!(file.len() <= 10 * BLOCK, "{} bytes", file.len());
        assert_eq!(numbers(&file).len() as u64, ended.rows);
        let series_row = (index > 0).then_some(PropertyValue::U64(before));
        assert_eq!(of_group(&file, "series_row"), series_row);
        before += ended.rows;
    }
}

/// The series keeps a bounded number of untaken results, and the totals of the discarded results.
///
/// Behaviour: B-70.
#[test]
fn oldest_results_that_are_not_taken_are_omitted_and_counted() {
    const EIO: i32 = 5;
    const OMITTED: u32 = 3;
    let disks = RefCell::new(Vec::new());
    let mut ring = ring(8192);
    let open = open_on(&disks, &ring, |number, disk| match number {
        2 => disk.fault(rig::OPENING, SimFault::Fails(EIO)),
        // The sync at the end follows the placeholder, body and header of the only region.
        3 => disk.fault(rig::OPENING + 3, SimFault::Fails(EIO)),
        _ => {}
    });
    // The header alone exceeds the limit, so each region goes to a separate file.
    let rotation = Rotation {
        bytes_max: 1,
        ..Rotation::default()
    };
    let mut sut = TdmsSeries::start(open, layout(), rotation, LONG).unwrap();
    let ended_max = ENDED_FILES_MAX as u32;
    while sut.number() <= ended_max {
        sut.write(next(&mut ring)).unwrap();
    }
    sut.flush(Durability::InFile, LONG).unwrap();
    assert_eq!(
        sut.discarded_results(),
        DiscardedResults::default(),
        "all fit"
    );
    while sut.number() <= ended_max + OMITTED {
        sut.write(next(&mut ring)).unwrap();
    }
    let last = sut.close().unwrap();
    assert_eq!(last.number, ended_max + OMITTED + 1);
    let bytes = disks
        .borrow()
        .iter()
        .take(OMITTED as usize)
        .map(|disk| disk.file().len() as u64)
        .sum();
    let expected = DiscardedResults {
        files: OMITTED,
        bytes,
        rows_lost: BLOCK_ROWS as u64,
        failed: 2,
        not_on_disk: 1,
        sync_failure: Some(EIO),
        truncate_error: None,
    };
    assert_eq!(sut.discarded_results(), expected);
    let ended: Vec<EndedFile> = std::iter::from_fn(|| sut.take_ended()).collect();
    let numbers = ended.iter().map(|one| one.number);
    assert!(numbers.eq(OMITTED + 1..=ended_max + OMITTED));
    let is_good = |one: &EndedFile| one.rows_lost == 0 && one.closed.failure.is_none();
    assert!(ended.iter().all(is_good), "the failed ones are omitted");
}

/// Each file of a series has the times of its own rows, despite earlier losses.
///
/// Behaviour: B-70.
#[test]
fn evenly_spaced_rows_share_one_axis_in_all_files() {
    let waveform = Waveform {
        start: Some(Timestamp::from_nanos(1_767_225_600_000_000_000).into()),
        offset: 0.25,
        increment: 0.5,
        samples: None,
    };
    let layout = TdmsLayout {
        waveform: Some(waveform),
        ..layout()
    };
    let rotation = Rotation {
        bytes_max: 8 * BLOCK as u64,
        ..Rotation::default()
    };
    let sound = |_: u32, _: &SimDisk| {};
    // The second file fails, so rows that it accepted are missing before the third file.
    let second_fails = |number: u32, disk: &SimDisk| {
        if number == 2 {
            disk.fault(rig::OPENING + 2, SimFault::Fails(5));
        }
    };
    for prepare in [sound as fn(u32, &SimDisk), second_fails] {
        for lost_at in [0, 20, 24] {
            let disks = RefCell::new(Vec::new());
            let mut ring = ring(8192);
            let open = open_on(&disks, &ring, prepare);
            let mut sut = TdmsSeries::start(open, layout.clone(), rotation, LONG).unwrap();
            for block in 0..40 {
                if block == lost_at {
                    ring.filler.lose(3);
                }
                sut.write(next(&mut ring)).unwrap();
            }
            sut.close().unwrap();
            let disks = disks.borrow();
            assert!(disks.len() > 5);
            for disk in disks.iter().filter(|disk| !numbers(disk.file()).is_empty()) {
                // The numbers in the rows do not count lost rows.
                let first = numbers(disk.file())[0];
                let lost = if first >= lost_at * BLOCK_ROWS { 3 } else { 0 };
                let offset = 0.25 + 0.5 * (first + lost) as f64;
                let expected = Waveform { offset, ..waveform };
                let file = TdmsFile::open(disk.file()).unwrap();
                for (name, _) in &layout.channels {
                    let path = ObjectPath::channel(layout.group.clone(), name.clone());
                    assert_eq!(file.channel(&path).unwrap().waveform(), Some(expected));
                }
            }
        }
    }
}

#[test]
fn a_file_that_is_old_is_followed_by_another() {
    let disks = RefCell::new(Vec::new());
    let mut ring = ring(8192);
    let rotation = Rotation {
        age_max: Duration::from_secs(10),
        ..Rotation::default()
    };
    // All disks have the same time, as with the system's clock.
    let open = open_on(&disks, &ring, |number, disk| {
        disk.pass(Duration::from_secs(10) * (number - 1));
    });
    let mut sut = TdmsSeries::start(open, layout(), rotation, LONG).unwrap();
    for second in 0..25 {
        sut.write(next(&mut ring)).unwrap();
        disks
            .borrow()
            .iter()
            .for_each(|disk| disk.pass(Duration::from_secs(1)));
        assert_eq!(sut.number(), 1 + second / 10, "second {second}");
    }
    sut.close().unwrap();
    assert!(all_numbers(&disks).into_iter().eq(0..25 * BLOCK_ROWS));
}

#[test]
fn a_wall_clock_that_steps_changes_neither_files_nor_rows() {
    let disks = RefCell::new(Vec::new());
    let mut ring = ring(8192);
    let rotation = Rotation {
        age_max: Duration::from_secs(10),
        ..Rotation::default()
    };
    let open = open_on(&disks, &ring, |_, _| {});
    let mut sut = TdmsSeries::start(open, layout(), rotation, LONG).unwrap();
    let group = ObjectPath::Group("rig".into());
    // The wall clock steps back by a day, far ahead, and back again. Its time is only used for a
    // property.
    let mut wall = [1_800_000_000_u64, 1_799_913_600, 9_000_000_000, 0]
        .into_iter()
        .cycle();
    let mut readings = Vec::new();
    for second in 0..25 {
        let reading = wall.next().unwrap();
        sut.current().set(&group, "wall", reading).unwrap();
        sut.write(next(&mut ring)).unwrap();
        readings.push((sut.number(), reading));
        disks
            .borrow()
            .iter()
            .for_each(|disk| disk.pass(Duration::from_secs(1)));
        assert_eq!(sut.number(), 1 + second / 10, "second {second}");
    }
    sut.close().unwrap();
    assert!(all_numbers(&disks).into_iter().eq(0..25 * BLOCK_ROWS));
    let last = readings.last().unwrap();
    let file = disks.borrow()[last.0 as usize - 1].file();
    assert_eq!(of_group(&file, "wall"), Some(PropertyValue::U64(last.1)));
}

/// Behaviour: B-70.
#[test]
fn failed_file_is_followed_by_one_that_reports_the_gap() {
    const EIO: i32 = 5;
    let disks = RefCell::new(Vec::new());
    let mut ring = ring(8192);
    let open = open_on(&disks, &ring, |number, disk| {
        if number == 1 {
            disk.fault(rig::OPENING + 10, SimFault::Fails(EIO));
        }
    });
    let mut sut = TdmsSeries::start(open, layout(), Rotation::default(), LONG).unwrap();
    for _ in 0..30 {
        sut.write(next(&mut ring)).unwrap();
    }
    sut.close().unwrap();
    let failed = sut.take_ended().unwrap();
    assert_eq!(
        (failed.number, failed.closed.failure.unwrap().os_error),
        (1, EIO)
    );
    assert!(failed.rows_lost > 0);
    assert_eq!(ring.reader.lent(), 0);
    let first: Vec<i64> = numbers(disks.borrow()[0].file());
    let second: Vec<i64> = numbers(disks.borrow()[1].file());
    assert!(first.iter().copied().eq(0..failed.rows as i64));
    let from = (failed.rows + failed.rows_lost) as i64;
    assert!(second.iter().copied().eq(from..30 * BLOCK_ROWS));
    let file = disks.borrow()[1].file();
    let property = |name| of_group(&file, name).unwrap();
    assert_eq!(property("gap_1_row"), PropertyValue::U64(0));
    assert_eq!(property("gap_1_lost"), PropertyValue::U64(failed.rows_lost));
    assert_eq!(property("series_row"), PropertyValue::U64(failed.rows));
}

#[test]
fn region_is_returned_until_the_next_file_can_be_opened() {
    let disks = RefCell::new(Vec::new());
    let may_open = Cell::new(true);
    let mut ring = ring(8192);
    let mut open_on_disk = open_on(&disks, &ring, |_, _| {});
    let open = |number| match may_open.get() {
        true => open_on_disk(number),
        false => Err(io::ErrorKind::StorageFull.into()),
    };
    let rotation = Rotation {
        bytes_max: 1,
        ..Rotation::default()
    };
    let mut sut = TdmsSeries::start(open, layout(), rotation, LONG).unwrap();
    may_open.set(false);
    let mut region = next(&mut ring);
    for _ in 0..3 {
        region = match sut.write(region).unwrap_err() {
            RecordError::Refused(refused) => refused.region,
            error => panic!("{error}"),
        };
    }
    may_open.set(true);
    sut.write(region).unwrap();
    sut.write(next(&mut ring)).unwrap();
    sut.close().unwrap();
    assert!(all_numbers(&disks).into_iter().eq(0..2 * BLOCK_ROWS));
}

/// Behaviour: ZC-27.
#[test]
fn files_of_a_series_have_names_and_no_index_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let path = |number| series_path(folder, "run 7", number).unwrap();
    assert_eq!(path(1).file_name().unwrap(), "run 7.tdms");
    assert_eq!(path(2).file_name().unwrap(), "run 7_0002.tdms");
    for name in ["", "../x", "a/b", ".", ".hidden", "a\\b"] {
        assert!(series_path(folder, name, 1).is_err(), "{name:?}");
    }
    std::fs::write(
        path(2).with_extension("tdms_index"),
        "of a file that is gone",
    )
    .unwrap();
    let mut ring = ring(8192);
    let memory = ring.memory.clone();
    let open = |number| {
        let (wanted, cache_mode) = (BackendChoice::BestAvailable, CacheMode::Cached);
        let memories = vec![memory.clone()];
        let opened = tdms_queue(&path(number), wanted, cache_mode, options(), memories);
        opened.map(|(queue, _)| queue)
    };
    let rotation = Rotation {
        bytes_max: 1,
        ..Rotation::default()
    };
    let mut sut = TdmsSeries::start(open, layout(), rotation, LONG).unwrap();
    sut.write(next(&mut ring)).unwrap();
    sut.close().unwrap();
    drop(sut);
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 2);
    let second = File::open(path(2)).unwrap();
    assert!(numbers(second).into_iter().eq(0..BLOCK_ROWS));
}
