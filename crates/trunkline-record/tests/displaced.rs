//! Tests files that are removed, replaced or renamed while they are written. The reports of a
//! recording describe the file that can be opened by its name.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

mod rig;

use std::path::{Path, PathBuf};
use std::time::Duration;

use rig::{LONG, layout, numbers, options, ring, rows};
use trunkline_record::{
    BackendChoice, CacheMode, Durability, FailedStep, FileLocation, MovedFile, QueueError,
    RecordError, RecordedVariables, Rotation, SegmentFile, SimDisk, TdmsRecording, TdmsSeries,
    VariableProgress, VariableRecordError, VariableRecording, VariableSeries, WriteQueue,
    series_path, sums_path, tdms_queue,
};
use trunkline_types::{DataType, Lost, Quality, Sample, Timestamp, Value};

const BLOCK: usize = 512;
const MEMORY: usize = 1 << 20;

fn removed() -> Option<MovedFile> {
    Some(MovedFile {
        path: "a.tdms".into(),
        location: FileLocation::Removed { copy_from: None },
    })
}

fn renamed() -> Option<MovedFile> {
    Some(MovedFile {
        path: "a.tdms".into(),
        location: FileLocation::Renamed {
            to: Some("b.tdms".into()),
        },
    })
}

/// Behaviour: B-70.
#[test]
fn rows_of_a_removed_simulated_file_are_not_durable() {
    for (remove_after, is_renamed) in [(1, false), (3, false), (5, false), (2, true)] {
        let disk = SimDisk::new(7, BLOCK);
        let mut ring = ring(1 << 12);
        let queue = WriteQueue::new(Box::new(disk.clone()), options(), vec![ring.memory.clone()]);
        let mut sut = TdmsRecording::start(queue, &layout(), LONG).unwrap();
        let mut refused = 0;
        for number in 0..6_i64 {
            if number == remove_after {
                disk.set_moved_file(if is_renamed { renamed() } else { removed() });
            }
            ring.filler
                .push(&rows(number * 64..(number + 1) * 64))
                .unwrap();
            let region = ring.reader.acquire(64).unwrap();
            refused += u64::from(sut.write(region).is_err());
            disk.pass(Duration::from_millis(600));
            let _ = sut.poll();
        }
        let flushed = sut.flush(Durability::OnDisk, LONG);
        let closed = sut.close(LONG).unwrap();
        if is_renamed {
            flushed.unwrap();
            let found = sut.queue().moved_file().unwrap();
            assert!(!found.is_removed() && found.to_string().contains("b.tdms"));
            assert_eq!((sut.rows_in_file(), refused), (6 * 64, 0));
            assert_eq!(closed.durability, Durability::OnDisk);
            assert_eq!(closed.failure, None);
        } else {
            let Err(RecordError::Queue(QueueError::Failed(failure))) = flushed else {
                panic!("{flushed:?}");
            };
            assert_eq!((failure.step, failure.written), (FailedStep::Removed, 0));
            assert!(failure.to_string().contains("removed or replaced"));
            assert!(refused > 0 || remove_after == 5);
            assert_eq!(sut.rows_in_file(), 0);
            assert_eq!((closed.length, closed.durability), (0, Durability::InFile));
            assert_eq!(closed.failure.unwrap().step, FailedStep::Removed);
        }
    }
}

/// Behaviour: B-70.
#[test]
fn a_file_that_is_removed_after_its_last_row_is_noticed_when_it_is_closed() {
    let disk = SimDisk::new(8, BLOCK);
    let mut ring = ring(1 << 12);
    let queue = WriteQueue::new(Box::new(disk.clone()), options(), vec![ring.memory.clone()]);
    let mut sut = TdmsRecording::start(queue, &layout(), LONG).unwrap();
    ring.filler.push(&rows(0..64)).unwrap();
    sut.write(ring.reader.acquire(64).unwrap()).unwrap();
    sut.flush(Durability::OnDisk, LONG).unwrap();
    disk.set_moved_file(removed());
    let closed = sut.close(LONG).unwrap();
    assert_eq!(closed.failure.unwrap().step, FailedStep::Removed);
    assert_eq!(closed.durability, Durability::InFile);
    assert_eq!(sut.rows_in_file(), 0);
}

/// Behaviour: B-70.
#[test]
fn removed_file_of_a_series_counts_as_lost_and_the_series_continues() {
    let folder = tempfile::tempdir().unwrap();
    let path = |number| series_path(folder.path(), "run", number).unwrap();
    let mut ring = ring(1 << 14);
    let memory = ring.memory.clone();
    let open = |number| {
        let wanted = (BackendChoice::PlainWrites, CacheMode::Cached);
        let made = tdms_queue(
            &path(number),
            wanted.0,
            wanted.1,
            options(),
            vec![memory.clone()],
        );
        made.map(|(queue, _)| queue)
    };
    let mut sut = TdmsSeries::start(open, layout(), Rotation::default(), LONG).unwrap();
    let mut write = |sut: &mut TdmsSeries<_>, from: i64| {
        ring.filler.push(&rows(from..from + 64)).unwrap();
        sut.write(ring.reader.acquire(64).unwrap()).unwrap();
    };
    write(&mut sut, 0);
    sut.flush(Durability::OnDisk, LONG).unwrap();
    std::fs::remove_file(path(1)).unwrap();
    // The sync of these rows detects the removal. These rows and all earlier rows are lost.
    write(&mut sut, 64);
    sut.flush(Durability::OnDisk, LONG).unwrap();
    write(&mut sut, 128);
    let last = sut.close().unwrap();
    let first = sut.take_ended().unwrap();
    assert_eq!((first.rows, first.rows_lost), (0, 128));
    assert_eq!(first.closed.failure.unwrap().step, FailedStep::Removed);
    assert_eq!((last.rows, last.rows_lost), (64, 0));
    assert_eq!(sut.rows_lost(), 128);
    assert!(!path(1).exists());
    let file = std::fs::read(path(2)).unwrap();
    assert_eq!(numbers(file), (128..192).collect::<Vec<i64>>());
}

fn at(number: i64) -> Sample {
    let time = Timestamp::from_nanos(1_700_000_000_000_000_000 + number * 1_000_000_000);
    Sample {
        value: Value::I64(number),
        source_timestamp: time,
        engine_timestamp: time,
        quality: Quality::GOOD,
    }
}

fn played(path: &Path) -> Vec<i64> {
    let mut sut = RecordedVariables::open(path).unwrap();
    let all = std::iter::from_fn(|| sut.next_update().unwrap());
    all.map(|one| match one.value {
        Value::I64(number) => number,
        other => panic!("{other:?}"),
    })
    .collect()
}

fn folder_and_path() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tdms");
    (folder, path)
}

/// Behaviour: B-70.
#[test]
fn updates_in_a_removed_file_are_lost_and_never_durable() {
    for is_replaced in [false, true] {
        let (_folder, path) = folder_and_path();
        let file = SegmentFile::create_summed(&path).unwrap();
        let mut sut = VariableRecording::new(file, MEMORY);
        let id = sut.add("rig/level", &DataType::I64).unwrap();
        for number in 0..3 {
            sut.take(id, &at(number), &Lost::NONE).unwrap();
        }
        sut.sync().unwrap();
        assert_eq!(sut.moved_file(), None);
        std::fs::remove_file(&path).unwrap();
        if is_replaced {
            std::fs::write(&path, "of another program").unwrap();
        }
        sut.take(id, &at(3), &Lost::NONE).unwrap();
        let error = sut.write_out().unwrap_err();
        assert!(matches!(
            error,
            VariableRecordError::Removed { updates: 4, .. }
        ));
        let error = sut.finish().unwrap_err();
        assert!(error.to_string().contains("removed or replaced"), "{error}");
        let VariableProgress {
            updates,
            in_file,
            on_disk,
            lost,
            ..
        } = sut.progress();
        assert_eq!((updates, in_file, on_disk, lost), (4, 0, 0, 4));
        // Until the file is closed, its data can be copied.
        let FileLocation::Removed { copy_from } = &sut.moved_file().unwrap().location else {
            panic!("{:?}", sut.moved_file());
        };
        let copy = path.with_extension("copy.tdms");
        std::fs::copy(copy_from.as_ref().unwrap(), &copy).unwrap();
        assert_eq!(played(&copy), [0, 1, 2, 3]);
    }
}

/// The file is removed between the last write and its sync, or the end of the recording.
///
/// Behaviour: B-70.
#[test]
fn updates_in_a_file_removed_before_its_sync_are_not_durable() {
    for finishes in [false, true] {
        let (_folder, path) = folder_and_path();
        let file = SegmentFile::create_summed(&path).unwrap();
        let mut sut = VariableRecording::new(file, MEMORY);
        let id = sut.add("rig/level", &DataType::I64).unwrap();
        for number in 0..3 {
            sut.take(id, &at(number), &Lost::NONE).unwrap();
        }
        sut.write_out().unwrap();
        assert_eq!(sut.moved_file(), None);
        std::fs::remove_file(&path).unwrap();
        let error = match finishes {
            true => sut.finish().unwrap_err(),
            false => sut.sync().unwrap_err(),
        };
        let is_told = matches!(error, VariableRecordError::Removed { updates: 3, .. });
        assert!(is_told, "{error}");
        let progress = sut.progress();
        assert_eq!((progress.on_disk, progress.lost), (0, 3));
    }
}

/// Behaviour: B-70.
#[test]
fn updates_in_a_renamed_file_are_durable_and_its_name_is_reported() {
    let (_folder, path) = folder_and_path();
    let file = SegmentFile::create_summed(&path).unwrap();
    let mut sut = VariableRecording::new(file, MEMORY);
    let id = sut.add("rig/level", &DataType::I64).unwrap();
    sut.take(id, &at(0), &Lost::NONE).unwrap();
    sut.sync().unwrap();
    let moved = path.with_file_name("moved.tdms");
    std::fs::rename(&path, &moved).unwrap();
    std::fs::remove_file(sums_path(&path)).unwrap();
    sut.take(id, &at(1), &Lost::NONE).unwrap();
    sut.finish().unwrap();
    let to = Some(moved.canonicalize().unwrap());
    assert_eq!(
        sut.moved_file().unwrap().location,
        FileLocation::Renamed { to }
    );
    assert!(sut.moved_sums_file().unwrap().is_removed());
    assert_eq!((sut.progress().on_disk, sut.progress().lost), (2, 0));
    assert_eq!(played(&moved), [0, 1]);
}

/// Behaviour: B-70.
#[test]
fn series_continues_after_its_file_is_removed_and_reports_the_gap() {
    let folder = tempfile::tempdir().unwrap();
    let path = |number| series_path(folder.path(), "run", number).unwrap();
    let open = |number| SegmentFile::create(&path(number));
    let mut sut =
        VariableSeries::start(open, Some(Rotation::default()), MEMORY, Duration::ZERO).unwrap();
    let id = sut.add("rig/level", &DataType::I64).unwrap();
    for number in 0..5 {
        sut.take(id, &at(number), &Lost::NONE, Duration::ZERO)
            .unwrap();
    }
    sut.sync(Duration::ZERO).unwrap();
    std::fs::remove_file(path(1)).unwrap();
    sut.sync(Duration::ZERO).unwrap();
    assert_eq!(sut.number(), 2);
    for number in 5..8 {
        sut.take(id, &at(number), &Lost::NONE, Duration::ZERO)
            .unwrap();
    }
    sut.finish(Duration::ZERO).unwrap();
    // The last update of the first file is copied.
    assert_eq!(played(&path(2)), [4, 5, 6, 7]);
    let VariableProgress {
        updates,
        in_file,
        on_disk,
        lost,
        unknown_gaps,
        ..
    } = sut.progress();
    assert_eq!((updates, in_file, on_disk), (8, 4, 4));
    assert_eq!((lost, unknown_gaps), (4, 0));
}
