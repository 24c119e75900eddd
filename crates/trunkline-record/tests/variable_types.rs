//! Checks that variables of every type are played bit by bit, even from truncated files.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

mod random_values;

use std::path::Path;
use std::sync::Arc;

use fastrand::Rng;
use proptest::prelude::*;
use random_values::{data_type, sample};
use trunkline_record::{
    PlayedUpdate, RecordedVariables, SegmentFile, VariableRecordError, VariableRecording,
};
use trunkline_tdms::{ObjectPath, TdmsFile};
use trunkline_types::text::parse_type;
use trunkline_types::{Array, DataType, Elements, Lost, Quality, Sample, Timestamp, Value};

const MEMORY: usize = 1 << 24;

fn at(value: Value, nanoseconds: i64) -> Sample {
    let time = Timestamp::from_nanos(1_700_000_000_000_000_000 + nanoseconds);
    Sample {
        value,
        source_timestamp: time,
        engine_timestamp: time,
        quality: Quality::GOOD,
    }
}

/// Returns all updates, with the variable's number taken from its name.
fn all(path: &Path) -> Vec<PlayedUpdate> {
    let mut sut = RecordedVariables::open(path).unwrap();
    let names = sut.variables().iter();
    let numbers: Vec<_> = names
        .map(|one| one.name["rig/".len()..].parse().unwrap_or(0))
        .collect();
    let played = std::iter::from_fn(|| sut.next_update().unwrap());
    let numbered = |mut one: PlayedUpdate| {
        one.variable = numbers[one.variable];
        one
    };
    played.map(numbered).collect()
}

/// Returns the encoding of a value, which is equal only for values with equal bits.
fn bits(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    trunkline_types::wire::encode_value(value, &mut bytes);
    bytes
}

/// The recorded updates.
struct Made {
    types: Vec<DataType>,
    /// The samples, each with its variable.
    samples: Vec<(usize, Sample)>,
    /// The length of the file and the number of updates in it, after each segment.
    whole: Vec<(usize, usize)>,
}

/// Records updates of random types.
fn record(path: &Path, random: &mut Rng, turns: i64) -> Made {
    let mut sut = VariableRecording::new(SegmentFile::create(path).unwrap(), MEMORY);
    let types: Vec<_> = (0..random.usize(1..5))
        .map(|_| data_type(random, 2))
        .collect();
    let named = types.iter().enumerate();
    let ids: Vec<_> = named
        .map(|(number, data_type)| sut.add(&format!("rig/{number}"), data_type).unwrap())
        .collect();
    let (mut samples, mut whole) = (Vec::new(), vec![(0, 0)]);
    for turn in 0..turns {
        for _ in 0..random.usize(..5) {
            let variable = random.usize(..types.len());
            // Odd nanoseconds, which microseconds cannot represent.
            let time = Timestamp::from_nanos(turn * 1_000_003 + samples.len() as i64);
            let sample = sample(random, &types[variable], time);
            sut.take(ids[variable], &sample, &Lost::NONE).unwrap();
            samples.push((variable, sample));
        }
        sut.write_out().unwrap();
        let progress = sut.progress();
        whole.push((progress.bytes as usize, progress.in_file as usize));
    }
    sut.finish().unwrap();
    Made {
        types,
        samples,
        whole,
    }
}

fn assert_played(played: &[PlayedUpdate], samples: &[(usize, Sample)]) {
    for (played, (variable, sample)) in played.iter().zip(samples) {
        assert_eq!(played.variable, *variable);
        assert_eq!(bits(&played.value), bits(&sample.value), "{sample:?}");
        assert_eq!(played.source_timestamp, sample.source_timestamp);
        assert_eq!(played.quality, sample.quality);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    /// Behaviour: B-72, ZC-26.
    #[test]
    fn every_type_and_value_round_trips_bit_by_bit(seed in any::<u64>()) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.tdms");
        let Made { types, samples, .. } = record(&path, &mut Rng::with_seed(seed), 6);
        let recorded = RecordedVariables::open(&path).unwrap();
        prop_assert_eq!(recorded.skipped(), []);
        prop_assert_eq!(recorded.variables().len(), types.len());
        for found in recorded.variables() {
            let number: usize = found.name["rig/".len()..].parse().unwrap();
            prop_assert_eq!(&found.data_type, &types[number]);
        }
        let played = all(&path);
        prop_assert_eq!(played.len(), samples.len());
        assert_played(&played, &samples);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    /// Behaviour: B-70, B-72.
    #[test]
    fn truncated_file_plays_whole_updates_and_no_mixed_ones(seed in any::<u64>()) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.tdms");
        let Made { samples, whole, .. } = record(&path, &mut Rng::with_seed(seed), 3);
        let bytes = std::fs::read(&path).unwrap();
        let cut = folder.path().join("cut.tdms");
        let Some(first) = whole.iter().map(|(end, _)| *end).find(|end| *end > 0) else {
            return Ok(());
        };
        // Random lengths.
        let mut random = Rng::with_seed(seed);
        let some = (0..80).map(|_| random.usize(first..=bytes.len()));
        for length in some.chain([bytes.len() - 1, bytes.len()]) {
            std::fs::write(&cut, &bytes[..length]).unwrap();
            let played = all(&cut);
            let least = whole.iter().rfind(|(end, _)| *end <= length).unwrap().1;
            prop_assert!(played.len() >= least, "{length}: {} of {least}", played.len());
            // Each variable has its first updates of the truncated segment, or none of them.
            for variable in 0..8 {
                let played: Vec<_> = played.iter().filter(|one| one.variable == variable).collect();
                let samples = samples.iter().filter(|(of, _)| *of == variable);
                for (played, (_, sample)) in played.iter().zip(samples) {
                    prop_assert_eq!(bits(&played.value), bits(&sample.value));
                    prop_assert_eq!(played.source_timestamp, sample.source_timestamp);
                }
            }
        }
    }
}

/// Behaviour: B-72.
#[test]
fn parts_are_in_channels_that_other_readers_support() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tdms");
    let mut sut = VariableRecording::new(SegmentFile::create(&path).unwrap(), MEMORY);
    let image = parse_type("array(i16, *, *)").unwrap();
    let image = sut.add("rig/image", &image).unwrap();
    let shape = |rows: u32, columns: u32| {
        let elements = (0..rows * columns).map(|number| number as i16).collect();
        let array = Array::new(vec![rows, columns], Elements::I16(elements)).unwrap();
        Value::Array(Arc::new(array))
    };
    for (number, (rows, columns)) in [(2, 3), (0, 5), (1, 1)].into_iter().enumerate() {
        let sample = at(shape(rows, columns), number as i64);
        sut.take(image, &sample, &Lost::NONE).unwrap();
    }
    sut.finish().unwrap();
    let file = TdmsFile::open(std::fs::read(&path).unwrap()).unwrap();
    let numbers = |name: &str| {
        let channel = file
            .channel(&ObjectPath::channel("rig/image", name))
            .unwrap();
        let mut numbers = vec![0.0; channel.len() as usize];
        channel.read_f64_into(0, &mut numbers).unwrap();
        numbers
    };
    assert_eq!(numbers("value"), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 0.0]);
    assert_eq!(numbers("value.count"), [6.0, 0.0, 1.0]);
    assert_eq!(numbers("value.dim_1"), [2.0, 0.0, 1.0]);
    assert_eq!(numbers("value.dim_2"), [3.0, 5.0, 1.0]);
    let shapes = all(&path).into_iter().map(|one| match one.value {
        Value::Array(array) => array.shape().to_vec(),
        other => panic!("{other:?}"),
    });
    assert_eq!(shapes.collect::<Vec<_>>(), [[2, 3], [0, 5], [1, 1]]);
}

/// Behaviour: B-72.
#[test]
fn values_longer_than_the_read_ahead_are_played_one_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tdms");
    let mut sut = VariableRecording::new(SegmentFile::create(&path).unwrap(), MEMORY);
    let long = parse_type("struct(samples: array(u32, *), note: string, names: array(string, *))");
    let long = sut.add("rig/long", &long.unwrap()).unwrap();
    let mut samples = Vec::new();
    for number in 0..40_u32 {
        let count = if number % 3 == 0 { 200_000 } else { number };
        let elements = Elements::U32((0..count).map(|at| at * 40 + number).collect());
        // Longer and shorter than the read-ahead of text.
        let note = "n".repeat(if number % 7 == 0 { 3_000_000 } else { 10 } + number as usize);
        let names = (0..number * 100).map(|at| Arc::from(format!("{number}/{at}")));
        let value = Value::Struct(Arc::from([
            Value::Array(Arc::new(Array::vector(elements))),
            Value::String(note.into()),
            Value::Array(Arc::new(Array::vector(Elements::String(names.collect())))),
        ]));
        let sample = at(value, i64::from(number));
        sut.take(long, &sample, &Lost::NONE).unwrap();
        samples.push((0, sample));
    }
    sut.finish().unwrap();
    let played = all(&path);
    assert_eq!(played.len(), samples.len());
    assert_played(&played, &samples);
}

/// Behaviour: B-72.
#[test]
fn unsupported_variables_are_reported_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tdms");
    let mut sut = VariableRecording::new(SegmentFile::create(&path).unwrap(), MEMORY);
    let wide = (0..1024).map(|number| format!("f{number}: bytes"));
    let wide = format!("struct({})", wide.collect::<Vec<_>>().join(", "));
    let fields = (0..9).map(|number| format!("g{number}: {wide}"));
    let wide = format!("struct({})", fields.collect::<Vec<_>>().join(", "));
    let refused = sut
        .add("rig/wide", &parse_type(&wide).unwrap())
        .unwrap_err();
    assert!(matches!(refused, VariableRecordError::TooManyParts { .. }));
    assert!(refused.to_string().contains("rig/wide"), "{refused}");
    let raw = sut.add("rig/raw", &DataType::Bytes).unwrap();
    let long = Value::Bytes(vec![0; 16 << 20].into());
    let refused = sut.take(raw, &at(long, 0), &Lost::NONE).unwrap_err();
    assert!(matches!(refused, VariableRecordError::TooLong { .. }));
    assert!(refused.to_string().contains("rig/raw"), "{refused}");
    let ok = Value::Bytes(vec![7; 100].into());
    sut.take(raw, &at(ok, 1), &Lost::NONE).unwrap();
    sut.finish().unwrap();
    assert_eq!((sut.progress().lost, sut.progress().updates), (1, 1));
    assert_eq!(all(&path).len(), 1);
}
