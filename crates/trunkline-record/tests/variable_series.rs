//! Tests recordings of variables in several files.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use trunkline_record::{
    DiscardedVariableResults, ENDED_FILES_MAX, RecordedVariables, Rotation, SegmentFile, Segments,
    VariableProgress, VariableRecordError, VariableSeries, series_path,
};
use trunkline_tdms::{ObjectPath, TdmsFile};
use trunkline_types::{Array, DataType, Elements, Lost, Quality, Sample, Timestamp, Value};

const MEMORY: usize = 1 << 20;
const START: i64 = 1_700_000_000_000_000_000;
const NOW: Duration = Duration::ZERO;

fn at(number: i64) -> Sample {
    let time = Timestamp::from_nanos(START + number * 1_000_000_000);
    Sample {
        value: Value::I64(number),
        source_timestamp: time,
        engine_timestamp: time,
        quality: Quality::GOOD,
    }
}

fn number(value: &Value) -> i64 {
    match value {
        Value::I64(number) => *number,
        other => panic!("{other:?}"),
    }
}

/// Returns the numbers of a variable in a file, each with the time at which it is played, in
/// seconds.
fn played(path: &Path, name: &str) -> Vec<(i64, u64)> {
    let mut sut = RecordedVariables::open(path).unwrap();
    let names: Vec<_> = sut.variables().iter().map(|one| one.name.clone()).collect();
    let all = std::iter::from_fn(|| sut.next_update().unwrap());
    all.filter(|one| names[one.variable] == name)
        .map(|one| {
            let number = number(&one.value);
            assert_eq!(one.source_timestamp, at(number).source_timestamp);
            (number, one.after.as_secs())
        })
        .collect()
}

/// Returns a property of a group as a whole number, which may be negative; `None` if the group does
/// not have it.
fn property(path: &Path, group: &str, name: &str) -> Option<i64> {
    let file = TdmsFile::open(std::fs::File::open(path).unwrap()).unwrap();
    let properties = file.properties(&ObjectPath::group(group)).unwrap();
    Some(properties.get(name.as_bytes())?.as_f64()? as i64)
}

fn folder_and_path() -> (tempfile::TempDir, impl Fn(u32) -> PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    (folder, move |number| {
        series_path(&path, "run", number).unwrap()
    })
}

/// Behaviour: B-70, B-72.
#[test]
fn series_files_are_self_contained_and_complete_together() {
    let (_folder, path) = folder_and_path();
    let rotation = Rotation {
        bytes_max: 1_000,
        ..Rotation::default()
    };
    let open = |number| SegmentFile::create_summed(&path(number));
    let mut sut = VariableSeries::start(open, Some(rotation), MEMORY, NOW).unwrap();
    let fast = sut.add("rig/fast", &DataType::I64).unwrap();
    let slow = sut.add("rig/slow", &DataType::I64).unwrap();
    sut.take(slow, &at(0), &Lost::NONE, NOW).unwrap();
    for second in 1..=200 {
        sut.take(fast, &at(second), &Lost::NONE, NOW).unwrap();
        if second % 10 == 0 {
            sut.write_out(NOW).unwrap();
        }
    }
    sut.finish(NOW).unwrap();
    let VariableProgress {
        updates,
        in_file,
        on_disk,
        lost,
        unknown_gaps,
        ..
    } = sut.progress();
    assert_eq!(
        (updates, in_file, on_disk, lost, unknown_gaps),
        (201, 201, 201, 0, 0)
    );
    let files = sut.number();
    assert!(files > 3, "{files}");
    let ended: Vec<_> = std::iter::from_fn(|| sut.take_ended()).collect();
    assert_eq!(ended.len() as u32, files - 1);
    let mut own = Vec::new();
    for file in 1..=files {
        let path = path(file);
        assert!(
            TdmsFile::open(std::fs::File::open(&path).unwrap())
                .unwrap()
                .report()
                .is_sound()
        );
        let (fast, slow) = (played(&path, "rig/fast"), played(&path, "rig/slow"));
        let is_first = file == 1;
        let carried = (!is_first).then_some(1);
        assert_eq!(property(&path, "rig/fast", "carried_rows"), carried);
        let series_row = (!is_first).then_some(own.len() as i64);
        assert_eq!(property(&path, "rig/fast", "series_row"), series_row);
        assert_eq!(slow.iter().map(|one| one.0).collect::<Vec<_>>(), [0]);
        if let Some(last) = own.last() {
            // Values copied from the previous file are played at once, regardless of their age.
            assert_eq!((fast[0], slow[0].1), ((*last, 0), 0));
            assert_eq!(fast[1], (last + 1, 0));
        }
        own.extend(fast.iter().skip(usize::from(!is_first)).map(|one| one.0));
        if let Some(ended) = ended.get(file as usize - 1) {
            let length = std::fs::metadata(&path).unwrap().len();
            assert_eq!(
                (ended.number, ended.bytes, ended.is_on_disk),
                (file, length, true)
            );
            assert!((1_000..2_000).contains(&length), "{length}");
        }
    }
    assert_eq!(own, (1..=200).collect::<Vec<_>>());
    assert_eq!(
        ended.iter().map(|one| one.updates).sum::<u64>()
            + played(&path(files), "rig/fast").len() as u64
            - 1,
        201
    );
}

/// Behaviour: B-72.
#[test]
fn file_at_its_maximum_age_is_followed_by_another_on_new_data() {
    let (_folder, path) = folder_and_path();
    let rotation = Rotation {
        age_max: Duration::from_secs(60),
        ..Rotation::default()
    };
    let open = |number| SegmentFile::create(&path(number));
    let mut sut = VariableSeries::start(open, Some(rotation), MEMORY, NOW).unwrap();
    let level = sut.add("rig/level", &DataType::I64).unwrap();
    for minute in 0..10 {
        // No update arrives, so no new file is needed.
        sut.write_out(Duration::from_secs(60 * minute)).unwrap();
    }
    assert_eq!(sut.number(), 1);
    let now = Duration::from_secs(600);
    sut.take(level, &at(1), &Lost::NONE, now).unwrap();
    sut.write_out(now).unwrap();
    assert_eq!(sut.number(), 1, "it is as old as what is in it");
    for (seconds, number) in [(59, 1), (61, 2), (100, 2), (125, 3)] {
        let now = now + Duration::from_secs(seconds);
        sut.write_out(now).unwrap();
        sut.take(level, &at(seconds as i64), &Lost::NONE, now)
            .unwrap();
        sut.write_out(now).unwrap();
        assert_eq!(sut.number(), number, "after {seconds} s");
    }
    sut.finish(Duration::from_secs(10_000)).unwrap();
    assert!(!path(4).exists());
    assert_eq!(numbers(&path(2)), [59, 61, 100]);
}

/// A disk whose files fail on demand.
#[derive(Clone, Default)]
struct Disk(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    files: Vec<Vec<u8>>,
    /// The system error number with which the next append, sync or open fails.
    append: Option<i32>,
    sync: Option<i32>,
    open: Option<i32>,
    /// True if every append fails.
    is_dead: bool,
}

struct DiskFile(Disk, usize);

impl Disk {
    fn open(&self) -> io::Result<DiskFile> {
        let mut disk = self.0.lock().unwrap();
        if let Some(number) = disk.open.take() {
            return Err(io::Error::from_raw_os_error(number));
        }
        disk.files.push(Vec::new());
        Ok(DiskFile(self.clone(), disk.files.len() - 1))
    }
}

impl Segments for DiskFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut disk = self.0.0.lock().unwrap();
        let is_dead = disk.is_dead.then_some(EIO);
        if let Some(number) = disk.append.take().or(is_dead) {
            return Err(io::Error::from_raw_os_error(number));
        }
        disk.files[self.1].extend(bytes);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let number = self.0.0.lock().unwrap().sync.take();
        number.map_or(Ok(()), |number| Err(io::Error::from_raw_os_error(number)))
    }
}

const EIO: i32 = 5;
const ENOSPC: i32 = 28;

type Sut<O> = VariableSeries<DiskFile, O>;

fn series(disk: &Disk) -> Sut<impl FnMut(u32) -> io::Result<DiskFile> + use<>> {
    let disk = disk.clone();
    let open = move |_| disk.open();
    VariableSeries::start(open, Some(Rotation::default()), MEMORY, NOW).unwrap()
}

/// Saves the files of a disk in a folder.
fn saved(disk: &Disk) -> (tempfile::TempDir, impl Fn(u32) -> PathBuf) {
    let (folder, path) = folder_and_path();
    for (bytes, number) in disk.0.lock().unwrap().files.iter().zip(1..) {
        std::fs::write(path(number), bytes).unwrap();
    }
    (folder, path)
}

fn numbers(path: &Path) -> Vec<i64> {
    played(path, "rig/level")
        .into_iter()
        .map(|one| one.0)
        .collect()
}

/// Behaviour: B-70, B-72.
#[test]
fn updates_refused_by_a_failed_file_are_in_the_next_one() {
    let disk = Disk::default();
    let mut sut = series(&disk);
    let level = sut.add("rig/level", &DataType::I64).unwrap();
    // Enough updates that rows have other numbers in the next file.
    for number in -2..=1 {
        sut.take(level, &at(number), &Lost::NONE, NOW).unwrap();
    }
    sut.write_out(NOW).unwrap();
    sut.take(level, &at(2), &Lost::NONE, NOW).unwrap();
    sut.record_loss(level, Some(7)).unwrap();
    sut.take(level, &at(10), &Lost::NONE, NOW).unwrap();
    disk.0.lock().unwrap().append = Some(EIO);
    sut.write_out(NOW).unwrap();
    assert_eq!(sut.number(), 2);
    assert!(sut.take_ended().unwrap().is_on_disk, "what it has");
    sut.take(level, &at(11), &Lost::NONE, NOW).unwrap();
    sut.finish(NOW).unwrap();
    let progress = sut.progress();
    assert_eq!((progress.updates, progress.on_disk), (7, 7));
    assert_eq!((progress.lost, progress.unknown_gaps), (7, 0));
    let (_folder, path) = saved(&disk);
    assert_eq!(numbers(&path(1)), [-2, -1, 0, 1]);
    assert_eq!(numbers(&path(2)), [1, 2, 10, 11]);
    let mut whole = RecordedVariables::open_series(&path(1)).unwrap();
    let all = std::iter::from_fn(|| whole.next_update().unwrap());
    let all: Vec<_> = all.map(|one| number(&one.value)).collect();
    assert_eq!(all, [-2, -1, 0, 1, 2, 10, 11]);
    let gap = |name| property(&path(2), "rig/level", name);
    assert_eq!((gap("gap_1_row"), gap("gap_1_lost")), (Some(2), Some(7)));
    assert_eq!(gap("gap_2_row"), None);
}

/// Behaviour: B-72.
#[test]
fn initial_value_is_played_at_once_even_if_the_first_file_failed() {
    let disk = Disk::default();
    let mut sut = series(&disk);
    let level = sut.add("rig/level", &DataType::I64).unwrap();
    sut.take_initial(level, &at(-10_000), &Lost::NONE, NOW)
        .unwrap();
    disk.0.lock().unwrap().append = Some(EIO);
    sut.write_out(NOW).unwrap();
    assert_eq!(sut.number(), 2);
    sut.take(level, &at(0), &Lost::NONE, NOW).unwrap();
    sut.take(level, &at(5), &Lost::NONE, NOW).unwrap();
    sut.finish(NOW).unwrap();
    let (_folder, path) = saved(&disk);
    assert_eq!(
        played(&path(2), "rig/level"),
        [(-10_000, 0), (0, 0), (5, 5)]
    );
}

/// Behaviour: B-70, B-72.
#[test]
fn failed_sync_starts_a_file_that_reports_a_possible_gap() {
    let disk = Disk::default();
    let mut sut = series(&disk);
    let level = sut.add("rig/level", &DataType::I64).unwrap();
    let quiet = sut.add("rig/quiet", &DataType::I64).unwrap();
    sut.take(quiet, &at(0), &Lost::NONE, NOW).unwrap();
    sut.take(level, &at(1), &Lost::NONE, NOW).unwrap();
    sut.sync(NOW).unwrap();
    sut.take(level, &at(2), &Lost::NONE, NOW).unwrap();
    sut.take(level, &at(3), &Lost::NONE, NOW).unwrap();
    disk.0.lock().unwrap().sync = Some(EIO);
    sut.sync(NOW).unwrap();
    assert_eq!(sut.number(), 2);
    assert!(!sut.take_ended().unwrap().is_on_disk);
    sut.take(level, &at(4), &Lost::NONE, NOW).unwrap();
    sut.finish(NOW).unwrap();
    let progress = sut.progress();
    assert_eq!((progress.updates, progress.in_file), (5, 5));
    assert_eq!(
        progress.on_disk, 3,
        "without the two before the sync that failed"
    );
    assert_eq!(
        (progress.sync_failure, progress.unknown_gaps),
        (Some(EIO), 1)
    );
    let (_folder, path) = saved(&disk);
    assert_eq!(numbers(&path(2)), [3, 4]);
    let gap = |group, name| property(&path(2), group, name);
    assert_eq!(gap("rig/level", "gap_1_row"), Some(1));
    assert_eq!(gap("rig/level", "gap_1_lost"), Some(-1));
    assert_eq!(gap("rig/quiet", "gap_1_lost"), None, "it was safe");
    assert_eq!(played(&path(2), "rig/quiet").len(), 1);
}

/// The series keeps a bounded number of untaken results, and counts the discarded results.
///
/// Behaviour: B-70.
#[test]
fn oldest_results_that_are_not_taken_are_omitted_and_counted() {
    const OMITTED: u32 = 3;
    let disk = Disk::default();
    let open = {
        let disk = disk.clone();
        move |_| disk.open()
    };
    let rotation = Rotation {
        bytes_max: 1,
        ..Rotation::default()
    };
    let mut sut = VariableSeries::start(open, Some(rotation), MEMORY, NOW).unwrap();
    let level = sut.add("rig/level", &DataType::I64).unwrap();
    let ended_max = ENDED_FILES_MAX as u32;
    let last = ended_max + OMITTED + 1;
    for number in 1..=last {
        if number == 2 {
            // This is the sync at the end of the first file.
            disk.0.lock().unwrap().sync = Some(EIO);
        }
        sut.take(level, &at(number.into()), &Lost::NONE, NOW)
            .unwrap();
        sut.write_out(NOW).unwrap();
        assert_eq!(sut.number(), number);
        let files = number.saturating_sub(1 + ended_max);
        let expected = DiscardedVariableResults {
            files,
            not_on_disk: files.min(1),
        };
        assert_eq!(sut.discarded_results(), expected, "file {number}");
    }
    let ended: Vec<_> = std::iter::from_fn(|| sut.take_ended()).collect();
    let numbers = ended.iter().map(|one| one.number);
    assert!(numbers.eq(OMITTED + 1..last));
    assert!(ended.iter().all(|one| one.is_on_disk));
}

/// Behaviour: B-70, B-72.
#[test]
fn full_disk_is_awaited_and_the_next_file_is_retried() {
    let disk = Disk::default();
    let mut sut = series(&disk);
    let level = sut.add("rig/level", &DataType::I64).unwrap();
    sut.take(level, &at(1), &Lost::NONE, NOW).unwrap();
    disk.0.lock().unwrap().append = Some(ENOSPC);
    let full = sut.write_out(NOW).unwrap_err();
    assert!(matches!(full, VariableRecordError::File(_)), "{full}");
    sut.write_out(NOW).unwrap();
    assert_eq!(sut.number(), 1, "no reason for another file");
    sut.take(level, &at(2), &Lost::NONE, NOW).unwrap();
    {
        let mut disk = disk.0.lock().unwrap();
        (disk.append, disk.open) = (Some(EIO), Some(EIO));
    }
    // The update is written to the first file.
    sut.write_out(NOW).unwrap_err();
    assert_eq!((sut.number(), sut.progress().in_file), (1, 2));
    sut.take(level, &at(3), &Lost::NONE, NOW).unwrap();
    sut.finish(NOW).unwrap();
    assert_eq!(sut.number(), 2);
    assert_eq!((sut.progress().on_disk, sut.progress().lost), (3, 0));
    let (_folder, path) = saved(&disk);
    assert_eq!(numbers(&path(1)), [1, 2]);
    assert_eq!(numbers(&path(2)), [2, 3]);
}

/// The queue is bounded for any failure, and lost updates are counted and recorded as a gap.
///
/// Behaviour: B-70, B-72.
#[test]
fn losses_without_a_further_file_are_bounded_and_counted() {
    let disk = Disk::default();
    let of_disk = disk.clone();
    let open = move |number| match number {
        1 => of_disk.open(),
        _ => Err(io::Error::from_raw_os_error(EIO)),
    };
    let most = 100_000;
    let mut sut = VariableSeries::start(open, Some(Rotation::default()), most, NOW).unwrap();
    let shape = DataType::Array(Arc::new(trunkline_types::ArrayType {
        element: trunkline_types::ElementType::U8,
        shape: vec![None],
    }));
    let level = sut.add("rig/level", &shape).unwrap();
    let mut lost = 0;
    disk.0.lock().unwrap().is_dead = true;
    for number in 0..1_000 {
        let value = Value::Array(Arc::new(Array::vector(Elements::U8(vec![1; 1_000]))));
        let sample = Sample {
            value,
            ..at(number)
        };
        lost += u64::from(sut.take(level, &sample, &Lost::NONE, NOW).is_err());
        let waiting = sut.progress().waiting_bytes;
        assert!(waiting <= 3 * most + 10_000, "{waiting}");
    }
    assert!(lost > 500, "{lost}");
    assert_eq!(
        (sut.progress().lost, sut.progress().updates),
        (lost, 1_000 - lost)
    );
    // The disk accepts data again.
    disk.0.lock().unwrap().is_dead = false;
    sut.take(
        level,
        &Sample {
            value: Value::Array(Arc::new(Array::vector(Elements::U8(vec![2])))),
            ..at(2_000)
        },
        &Lost::NONE,
        NOW,
    )
    .unwrap();
    sut.finish(NOW).unwrap_err();
    assert_eq!(sut.progress().on_disk, 1_001 - lost);
    let (_folder, path) = saved(&disk);
    assert_eq!(
        property(&path(1), "rig/level", "gap_1_lost"),
        Some(lost as i64)
    );
}
