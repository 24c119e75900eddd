//! Checks that a series of files with variables is played like one file.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use trunkline_record::{
    MissingPart, PlaybackError, RecordedVariables, Rotation, SegmentFile, VariableRecording,
    VariableSeries, series_path,
};
use trunkline_types::text::parse_type;
use trunkline_types::{Array, DataType, Elements, Lost, Quality, Reason, Sample, Timestamp, Value};

const MEMORY: usize = 1 << 20;
const START: i64 = 1_700_000_000_000_000_000;
const NOW: Duration = Duration::ZERO;
const HOUR: i64 = 3_600;

fn sample(value: Value, milliseconds: i64) -> Sample {
    let time = Timestamp::from_nanos(START + milliseconds * 1_000_000);
    Sample {
        value,
        source_timestamp: time,
        engine_timestamp: time,
        quality: Quality::GOOD,
    }
}

fn at(seconds: i64) -> Sample {
    sample(Value::I64(seconds), 1_000 * seconds)
}

/// Returns an update with an array of varying length, 250 ms after the given second.
fn shape(seconds: i64) -> Sample {
    let elements = (0..seconds % 7).map(|axis| (seconds * 10 + axis) as f64);
    let value = Array::vector(Elements::F64(elements.collect()));
    Sample {
        quality: Quality::bad(Reason::None),
        ..sample(Value::Array(Arc::new(value)), 1_000 * seconds + 250)
    }
}

/// A played update: variable, time after the first update, value, source time and quality.
type Played = (String, Duration, Value, Timestamp, Quality);

fn all(sut: &mut RecordedVariables) -> Vec<Played> {
    let names: Vec<_> = sut.variables().iter().map(|one| one.name.clone()).collect();
    let all = std::iter::from_fn(|| sut.next_update().unwrap());
    all.map(|one| {
        let name = names[one.variable].clone();
        (
            name,
            one.after,
            one.value,
            one.source_timestamp,
            one.quality,
        )
    })
    .collect()
}

/// Returns the numbers of a variable, each with the time at which it is played, in seconds.
fn numbers(played: &[Played], name: &str) -> Vec<(i64, u64)> {
    let of_it = played.iter().filter(|one| one.0 == name);
    of_it
        .map(|(_, after, value, ..)| match value {
            Value::I64(number) => (*number, after.as_secs()),
            other => panic!("{other:?}"),
        })
        .collect()
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, number: u32) -> PathBuf {
        series_path(self.0.path(), "run", number).unwrap()
    }

    /// Records "rig/level" every second and "rig/other" every third second, with one segment per
    /// second. `ends` contains the second before which each file ends.
    fn record(&self, ends: &[i64]) {
        let mut sut = self.series(ends.len());
        let level = sut.add("rig/level", &DataType::I64).unwrap();
        let other = sut.add("rig/other", &DataType::I64).unwrap();
        let mut second = 0;
        for (number, end) in ends.iter().enumerate() {
            let now = Duration::from_secs(number as u64);
            while second < *end {
                sut.take(level, &at(second), &Lost::NONE, now).unwrap();
                if second % 3 == 0 {
                    sut.take(other, &at(second), &Lost::NONE, now).unwrap();
                }
                sut.write_out(now).unwrap();
                second += 1;
            }
        }
        sut.finish(Duration::from_secs(ends.len() as u64)).unwrap();
        assert_eq!(sut.number() as usize, ends.len());
    }

    /// Starts a series whose files have a maximum age of one second, on the clock of its calls.
    fn series(
        &self,
        most: usize,
    ) -> VariableSeries<SegmentFile, impl FnMut(u32) -> std::io::Result<SegmentFile> + use<>> {
        for number in 1..=9 {
            let _ = std::fs::remove_file(self.path(number));
        }
        let folder = self.0.path().to_owned();
        let open = move |number: u32| {
            assert!(number as usize <= most, "{number}");
            SegmentFile::create(&series_path(&folder, "run", number)?)
        };
        let rotation = Rotation {
            age_max: Duration::from_secs(1),
            ..Rotation::default()
        };
        VariableSeries::start(open, Some(rotation), MEMORY, NOW).unwrap()
    }

    fn open(&self) -> RecordedVariables {
        RecordedVariables::open_series(&self.path(1)).unwrap()
    }

    fn cut(&self, number: u32, bytes: &[u8]) {
        std::fs::write(self.path(number), bytes).unwrap();
    }
}

/// Returns the missing parts, without the folder.
fn missing(sut: &RecordedVariables) -> Vec<String> {
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    let all = sut.missing().iter().map(|one| match one {
        MissingPart::Files { first, last } => format!("{} to {}", name(first), name(last)),
        MissingPart::Updates {
            path,
            updates,
            variables,
        } => format!("{updates} of {variables} before {}", name(path)),
        MissingPart::End { path, .. } => format!("end of {}", name(path)),
        other => panic!("{other}"),
    });
    all.collect()
}

/// A series and one file with the same updates are played identically.
///
/// Behaviour: B-72.
#[test]
fn a_series_of_variables_plays_as_one_file_does() {
    let folder = Folder::new();
    let whole = folder.0.path().join("whole.tdms");
    let mut one = VariableRecording::new(SegmentFile::create(&whole).unwrap(), MEMORY);
    let mut sut = folder.series(7);
    let axes = parse_type("array(f64, *)").unwrap();
    let mut add = |name: &str, data_type: &DataType| {
        let id = sut.add(name, data_type).unwrap();
        assert_eq!(one.add(name, data_type).unwrap(), id);
        id
    };
    let [level, valve, mode] = ["level", "valve", "mode"].map(|name| add(name, &DataType::I64));
    let axes = add("axes", &axes);
    // Only the first file contains the older values.
    for (id, hours) in [(level, 2), (valve, 5)] {
        sut.take_initial(id, &at(-hours * HOUR), &Lost::NONE, NOW)
            .unwrap();
        one.take_initial(id, &at(-hours * HOUR), &Lost::NONE)
            .unwrap();
    }
    sut.write_out(NOW).unwrap();
    for second in 0..600 {
        let now = Duration::from_secs(1 + second as u64 / 100);
        let mut take = |id, sample: &Sample| {
            sut.take(id, sample, &Lost::NONE, now).unwrap();
            one.take(id, sample, &Lost::NONE).unwrap();
        };
        take(level, &at(second));
        if second % 4 == 0 {
            take(axes, &shape(second));
        }
        if second == 250 {
            // The variable appears here.
            let sample = sample(Value::I64(second), 1_000 * second + 500);
            sut.take_initial(mode, &sample, &Lost::NONE, now).unwrap();
            one.take_initial(mode, &sample, &Lost::NONE).unwrap();
        }
        if second % 10 == 9 {
            sut.write_out(now).unwrap();
        }
    }
    sut.finish(Duration::from_secs(7)).unwrap();
    one.finish().unwrap();
    assert_eq!(sut.number(), 7);
    let mut expected = RecordedVariables::open(&whole).unwrap();
    let mut sut = folder.open();
    assert_eq!(missing(&sut), [""; 0]);
    let counts = |sut: &RecordedVariables| -> Vec<(String, u64)> {
        let variables = sut.variables().iter();
        let mut counts: Vec<_> = variables
            .map(|one| (one.name.clone(), one.updates))
            .collect();
        counts.sort();
        counts
    };
    assert_eq!(counts(&sut), counts(&expected));
    let played = all(&mut sut);
    assert_eq!(played.len(), 2 + 600 + 150 + 1);
    for (played, expected) in played.iter().zip(all(&mut expected)) {
        assert_eq!(*played, expected);
    }
    assert!(sut.next_update().unwrap().is_none());
    // A file from the middle is played alone, with the values copied from the previous file.
    let mut alone = RecordedVariables::open_series(&folder.path(3)).unwrap();
    let levels = numbers(&all(&mut alone), "level");
    assert_eq!(levels.first(), Some(&(99, 0)));
    assert_eq!(levels.last(), Some(&(199, 99)));
}

/// Behaviour: B-72.
#[test]
fn value_older_than_a_later_file_is_played_there_at_once() {
    let folder = Folder::new();
    let mut sut = folder.series(2);
    let level = sut.add("rig/level", &DataType::I64).unwrap();
    for second in 0..10 {
        sut.take(level, &at(second), &Lost::NONE, NOW).unwrap();
    }
    sut.write_out(NOW).unwrap();
    let now = Duration::from_secs(1);
    let late = sut.add("rig/late", &DataType::I64).unwrap();
    sut.take_initial(late, &at(-HOUR), &Lost::NONE, now)
        .unwrap();
    for second in 10..20 {
        sut.take(level, &at(second), &Lost::NONE, now).unwrap();
    }
    sut.finish(now).unwrap();
    assert_eq!(sut.number(), 2);
    let played = all(&mut folder.open());
    assert_eq!(numbers(&played, "rig/late"), [(-HOUR, 9)]);
    let levels: Vec<_> = (0..20).map(|second| (second, second as u64)).collect();
    assert_eq!(numbers(&played, "rig/level"), levels);
    assert_eq!(played.iter().position(|one| one.0 == "rig/late"), Some(10));
}

/// Behaviour: B-70, B-72.
#[test]
fn files_that_are_missing_are_named_and_their_updates_counted() {
    let folder = Folder::new();
    folder.record(&[10, 20, 30, 40, 50]);
    std::fs::remove_file(folder.path(2)).unwrap();
    std::fs::remove_file(folder.path(3)).unwrap();
    let mut sut = folder.open();
    // The fourth file contains a copy of the last update of each variable: 29 and 27.
    assert_eq!(
        missing(&sut),
        [
            "run_0002.tdms to run_0003.tdms",
            "24 of 2 before run_0004.tdms"
        ]
    );
    assert!(sut.missing()[0].to_string().ends_with("are missing"));
    let counts: Vec<_> = sut.variables().iter().map(|one| one.updates).collect();
    assert_eq!(counts, [10 + 1 + 20, 4 + 1 + 7]);
    let played = all(&mut sut);
    let levels: Vec<_> = (0..10).chain(29..50).map(|one| (one, one as u64)).collect();
    assert_eq!(numbers(&played, "rig/level"), levels);
    let others = [0, 3, 6, 9, 27, 30, 33, 36, 39, 42, 45, 48].map(|one| (one, one as u64));
    assert_eq!(numbers(&played, "rig/other"), others);
}

/// Behaviour: B-70, B-72.
#[test]
fn truncated_last_file_is_played_to_its_end_and_named() {
    let folder = Folder::new();
    folder.record(&[10, 14]);
    let bytes = std::fs::read(folder.path(2)).unwrap();
    let expected = all(&mut folder.open());
    assert_eq!(expected.len(), 14 + 5);
    let mut silent = 0;
    for length in 0..bytes.len() {
        folder.cut(2, &bytes[..length]);
        let mut sut = folder.open();
        let parts = missing(&sut);
        match &parts[..] {
            // The file is truncated between two segments.
            [] => silent += 1,
            [end] => assert_eq!(end, "end of run_0002.tdms", "{length}"),
            more => panic!("{length}: {more:?}"),
        }
        let played = all(&mut sut);
        assert!((14..19).contains(&played.len()), "{length}");
        for name in ["rig/level", "rig/other"] {
            let (played, expected) = (numbers(&played, name), numbers(&expected, name));
            assert_eq!(played, expected[..played.len()], "{length}");
        }
    }
    assert_eq!(silent, 3);
}

/// Behaviour: B-70, B-72.
#[test]
fn truncated_middle_file_is_reported_with_its_losses() {
    let folder = Folder::new();
    folder.record(&[10, 14, 20]);
    let bytes = std::fs::read(folder.path(2)).unwrap();
    let expected = all(&mut folder.open()).len();
    let (mut refused, mut most) = (0, 0);
    for length in 0..bytes.len() {
        folder.cut(2, &bytes[..length]);
        let mut sut = match RecordedVariables::open_series(&folder.path(1)) {
            Ok(sut) => sut,
            // A file that is truncated between two segments looks complete.
            Err(error) => {
                assert!(
                    matches!(error, PlaybackError::NotContinued { .. }),
                    "{error}"
                );
                refused += 1;
                continue;
            }
        };
        assert_eq!(missing(&sut)[0], "end of run_0002.tdms", "{length}");
        let lost: u64 = sut
            .missing()
            .iter()
            .map(|one| match one {
                MissingPart::Updates { updates, .. } => *updates,
                _ => 0,
            })
            .sum();
        let played = all(&mut sut);
        assert_eq!(played.len() as u64 + lost, expected as u64, "{length}");
        most = most.max(lost);
        for name in ["rig/level", "rig/other"] {
            let played = numbers(&played, name);
            assert!(played.is_sorted_by(|one, next| one.0 < next.0), "{length}");
        }
    }
    // The third file contains a copy of the last update of each variable.
    assert_eq!((refused, most), (3, 3));
}

/// Behaviour: B-70, B-72.
#[test]
fn a_file_that_is_of_another_series_is_refused_and_named() {
    let why = |folder: &Folder| {
        let error = RecordedVariables::open_series(&folder.path(1)).unwrap_err();
        let PlaybackError::NotContinued { path, difference } = &error else {
            panic!("{error}");
        };
        assert_eq!(path, &folder.path(2));
        assert!(error.to_string().contains("play it separately"), "{error}");
        difference.clone()
    };
    let copy = |from: &Folder, number, to: &Folder| {
        std::fs::copy(from.path(number), to.path(2)).unwrap();
    };
    let folder = Folder::new();
    folder.record(&[10, 20, 30]);
    std::fs::remove_file(folder.path(3)).unwrap();
    let other = Folder::new();
    for ends in [[9, 20], [11, 20]] {
        other.record(&ends);
        copy(&other, 2, &folder);
        let reason = why(&folder);
        let expected = format!(
            "it expects {} updates of rig/level in them, but they have 10",
            ends[0]
        );
        assert!(reason.contains(&expected), "{reason}");
    }
    // The first file of another series.
    copy(&other, 1, &folder);
    let reason = why(&folder);
    assert!(
        reason.contains("does not state how many updates of rig/level"),
        "{reason}"
    );

    // This file has the same number of updates, but at other times.
    let mut sut = other.series(2);
    let level = sut.add("rig/level", &DataType::I64).unwrap();
    let third = sut.add("rig/other", &DataType::I64).unwrap();
    for second in 0..10 {
        sut.take(level, &at(HOUR + second), &Lost::NONE, NOW)
            .unwrap();
        if second % 3 == 0 {
            sut.take(third, &at(HOUR + second), &Lost::NONE, NOW)
                .unwrap();
        }
    }
    sut.write_out(NOW).unwrap();
    let now = Duration::from_secs(1);
    sut.take(level, &at(HOUR + 10), &Lost::NONE, now).unwrap();
    sut.finish(now).unwrap();
    copy(&other, 2, &folder);
    let reason = why(&folder);
    assert!(reason.contains("differs from the original"), "{reason}");

    // These files have another variable, or a variable of another type.
    for (name, data_type, expected) in [
        ("rig/valve", "i64", "lacks the variable rig/level"),
        (
            "rig/level",
            "bytes",
            "rig/level has the type bytes, but had the type i64 before",
        ),
    ] {
        let data_type = parse_type(data_type).unwrap();
        let mut sut = VariableRecording::new(SegmentFile::create(&other.path(3)).unwrap(), MEMORY);
        let id = sut.add(name, &data_type).unwrap();
        let value = match &data_type {
            DataType::Bytes => Value::Bytes(Arc::from([1_u8, 2])),
            _ => Value::I64(1),
        };
        sut.take(id, &sample(value, 1), &Lost::NONE).unwrap();
        sut.finish().unwrap();
        copy(&other, 3, &folder);
        std::fs::remove_file(other.path(3)).unwrap();
        let reason = why(&folder);
        assert!(reason.contains(expected), "{reason}");
    }
    // The first file can still be played separately.
    let mut sut = RecordedVariables::open(&folder.path(1)).unwrap();
    assert_eq!(all(&mut sut).len(), 14);
}

/// Files with similar names do not belong to the series.
///
/// Behaviour: B-72.
#[test]
fn only_files_named_like_the_series_are_opened() {
    let folder = Folder::new();
    folder.record(&[10, 20]);
    let names = [
        "run_2.tdms",
        "run_00002.tdms",
        "run_0001.tdms",
        "run_0003.tdms.sums",
        "run_+003.tdms",
        "runs_0003.tdms",
        "run_0003.txt",
    ];
    for name in names {
        std::fs::write(folder.0.path().join(name), "no recording").unwrap();
    }
    std::fs::create_dir(folder.path(3)).unwrap();
    let mut sut = folder.open();
    assert_eq!(missing(&sut), [""; 0]);
    assert_eq!(all(&mut sut).len(), 20 + 7);
}
