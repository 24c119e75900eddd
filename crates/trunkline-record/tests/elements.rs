//! Checks that stream elements that vary in size or have parts are recorded and played bit by bit.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

mod nptdms;
mod random_values;

use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use proptest::prelude::*;
use random_values::{data_type, sample};
use serde_json::json;
use trunkline_record::{
    ElementSeries, PlayedUpdate, RecordedVariables, Rotation, SegmentFile, Segments,
    VariableRecordError, series_file,
};
use trunkline_tdms::{ObjectPath, TdmsFile};
use trunkline_types::text::parse_type;
use trunkline_types::{Array, DataType, Elements, Timestamp, Value, Waveform};

const MEMORY: usize = 1 << 20;
const NOW: Duration = Duration::ZERO;

type Open = Box<dyn FnMut(u32) -> io::Result<SegmentFile>>;

fn open(first: &Path) -> Open {
    let first: PathBuf = first.to_owned();
    Box::new(move |number| SegmentFile::create_summed(&series_file(&first, number)))
}

fn start(
    path: &Path,
    data_type: &DataType,
    rotation: Option<Rotation>,
) -> ElementSeries<SegmentFile, Open> {
    ElementSeries::start(open(path), rotation, MEMORY, ("stream", data_type), NOW).unwrap()
}

fn bits(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    trunkline_types::wire::encode_value(value, &mut bytes);
    bytes
}

fn all(mut recorded: RecordedVariables) -> Vec<PlayedUpdate> {
    std::iter::from_fn(|| recorded.next_update().unwrap()).collect()
}

fn values(random: &mut Rng, data_type: &DataType, count: usize) -> Vec<Value> {
    let values = (0..count).map(|_| sample(random, data_type, Timestamp::UNIX_EPOCH).value);
    values.collect()
}

/// Takes all values. Each value is in a new segment or in the segment of the previous value.
fn take_all(sut: &mut ElementSeries<SegmentFile, Open>, values: &[Value], random: &mut Rng) {
    for (number, value) in values.iter().enumerate() {
        let time = Timestamp::from_nanos(1_700_000_000_000_000_001 + number as i64);
        sut.take(value.clone(), time).unwrap();
        if random.bool() {
            sut.write_out(NOW).unwrap();
        }
    }
    sut.finish(NOW).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    /// Elements are recorded in one file, or in a series, in which each element is in exactly one
    /// file.
    ///
    /// Behaviour: B-72, ZC-26.
    #[test]
    fn elements_of_every_type_round_trip_bit_by_bit(seed in any::<u64>(), bytes_max in 1..2000_u64) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.tdms");
        let random = &mut Rng::with_seed(seed);
        let data_type = data_type(random, 2);
        let count = random.usize(..20);
        let values = values(random, &data_type, count);
        let rotation = random.bool().then_some(Rotation {
            bytes_max,
            ..Rotation::default()
        });
        let mut sut = start(&path, &data_type, rotation);
        take_all(&mut sut, &values, random);
        let progress = sut.progress();
        let count = values.len() as u64;
        prop_assert_eq!((progress.updates, progress.on_disk, progress.lost), (count, count, 0));
        let recorded = RecordedVariables::open_series(&path).unwrap();
        prop_assert_eq!((recorded.skipped(), recorded.missing()), (&[][..], &[][..]));
        prop_assert_eq!(&recorded.variables()[0].data_type, &data_type);
        let mut of_files = 0;
        for number in 1..=sut.number() {
            let file = RecordedVariables::open(&series_file(&path, number)).unwrap();
            of_files += file.variables().iter().map(|one| one.updates).sum::<u64>();
        }
        prop_assert_eq!(of_files, count);
        let played = all(recorded);
        prop_assert_eq!(played.len(), values.len());
        for (number, (played, value)) in played.iter().zip(&values).enumerate() {
            prop_assert_eq!(bits(&played.value), bits(value));
            prop_assert_eq!(played.after, Duration::from_nanos(number as u64));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    /// The file is truncated at any byte, as if the recorder had been killed.
    ///
    /// Behaviour: B-70, B-72.
    #[test]
    fn a_file_that_is_cut_plays_every_whole_element(seed in any::<u64>()) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.tdms");
        let random = &mut Rng::with_seed(seed);
        let data_type = data_type(random, 2);
        let values = values(random, &data_type, 12);
        let mut sut = start(&path, &data_type, None);
        let mut whole = Vec::new();
        for some in values.chunks(4) {
            for value in some {
                sut.take(value.clone(), Timestamp::UNIX_EPOCH).unwrap();
            }
            sut.write_out(NOW).unwrap();
            let progress = sut.progress();
            whole.push((progress.bytes as usize, progress.in_file as usize));
        }
        let bytes = std::fs::read(&path).unwrap();
        let cut = folder.path().join("cut.tdms");
        // Random lengths.
        let some = (0..100).map(|_| random.usize(whole[0].0..bytes.len()));
        for length in some.collect::<Vec<_>>().into_iter().chain([bytes.len() - 1, bytes.len()]) {
            std::fs::write(&cut, &bytes[..length]).unwrap();
            let played = all(RecordedVariables::open(&cut).unwrap());
            let least = whole.iter().rfind(|(end, _)| *end <= length).unwrap().1;
            prop_assert!(played.len() >= least, "{length}: {} of {least}", played.len());
            for (played, value) in played.iter().zip(&values) {
                prop_assert_eq!(bits(&played.value), bits(value));
            }
        }
    }
}

/// Other programs can read the recording of a stream.
///
/// Behaviour: B-72, ZC-26.
#[test]
fn other_readers_find_the_parts_of_every_element() {
    let folder = tempfile::tempdir().unwrap();
    let array = |elements| Value::Array(Arc::new(Array::vector(elements)));
    let wave = |samples: &[i16]| {
        Value::Waveform(Arc::new(Waveform {
            t0: Timestamp::from_nanos(1_700_000_000_000_000_000),
            dt: 0.25,
            samples: Elements::I16(samples.to_vec()),
            attributes: [(Arc::from("unit"), Value::String("V".into()))].into(),
        }))
    };
    let pose =
        |x: f64, name: &str| Value::Struct(Arc::from([Value::F64(x), Value::String(name.into())]));
    let cases = [
        (
            "string",
            vec![
                Value::String("one".into()),
                Value::String("".into()),
                Value::String("zwölf".into()),
            ],
            json!({ "value": ["one", "", "zwölf"] }),
        ),
        (
            "bytes",
            vec![
                Value::Bytes([1, 2].into()),
                Value::Bytes([].into()),
                Value::Bytes([3].into()),
            ],
            json!({ "value": [1, 2, 3], "value.count": [2, 0, 1] }),
        ),
        (
            "array(f64, *)",
            vec![
                array(Elements::F64(vec![1.5, 2.5])),
                array(Elements::F64(vec![])),
                array(Elements::F64(vec![3.5])),
            ],
            json!({ "value": [1.5, 2.5, 3.5], "value.count": [2, 0, 1] }),
        ),
        (
            "struct(x: f64, name: string)",
            vec![pose(1.0, "a"), pose(2.0, "b"), pose(3.0, "")],
            json!({ "value.x": [1.0, 2.0, 3.0], "value.name": ["a", "b", ""] }),
        ),
        (
            "waveform(i16)",
            vec![wave(&[1, 2]), wave(&[]), wave(&[3])],
            json!({
                "value": [1, 2, 3],
                "value.count": [2, 0, 1],
                "value.t0": vec!["2023-11-14T22:13:20.000000"; 3],
                "value.dt": [0.25, 0.25, 0.25],
                "value.attributes": vec!["{\"unit\":\"V\"}"; 3],
            }),
        ),
    ];
    for (number, (text, values, mut channels)) in cases.into_iter().enumerate() {
        let path = folder.path().join(format!("{number}.tdms"));
        let mut sut = start(&path, &parse_type(text).unwrap(), None);
        for (number, value) in values.into_iter().enumerate() {
            let seconds = 1_700_000_000 + number as i64;
            sut.take(value, Timestamp::from_nanos(seconds * 1_000_000_000))
                .unwrap();
            sut.write_out(NOW).unwrap();
        }
        sut.finish(NOW).unwrap();
        let times = (0..3).map(|number| format!("2023-11-14T22:13:2{number}.000000"));
        channels["time"] = times.collect();
        channels["type"] = text.into();
        assert_eq!(nptdms::read(&path), json!({ "stream": channels }), "{text}");
    }
}

/// A file on a disk that can be made full.
#[derive(Clone, Default)]
struct Disk(Rc<RefCell<(bool, Vec<u8>)>>);

impl Segments for Disk {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let (is_full, file) = &mut *self.0.borrow_mut();
        match is_full {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => {
                file.extend_from_slice(bytes);
                Ok(())
            }
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Behaviour: ZC-08.
#[test]
fn elements_are_kept_while_the_disk_is_full() {
    let disk = Disk::default();
    let open = |_| Ok(disk.clone());
    let stream = ("stream", &DataType::String);
    let mut sut = ElementSeries::start(open, None, 1000, stream, NOW).unwrap();
    disk.0.borrow_mut().0 = true;
    let mut taken = 0;
    for _ in 0..2 {
        while sut.has_room() {
            let text = format!("element {taken}");
            sut.take(Value::String(text.into()), Timestamp::UNIX_EPOCH)
                .unwrap();
            taken += 1;
        }
        // The first time, the elements become a segment, which frees memory for the same number of
        // elements again.
        assert!(sut.write_out(NOW).unwrap_err().is_disk_full());
    }
    assert!(!sut.has_room());
    assert!(
        sut.progress().waiting_bytes < 10_000,
        "{:?}",
        sut.progress()
    );
    // An element that is taken beyond the memory limit is not lost either.
    sut.take(
        Value::String(format!("element {taken}").into()),
        Timestamp::UNIX_EPOCH,
    )
    .unwrap();
    taken += 1;
    assert!(sut.finish(NOW).unwrap_err().is_disk_full());
    disk.0.borrow_mut().0 = false;
    sut.finish(NOW).unwrap();
    assert!(sut.has_room());
    let progress = sut.progress();
    assert_eq!((progress.on_disk, progress.lost), (taken, 0));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tdms");
    std::fs::write(&path, &disk.0.borrow().1).unwrap();
    let played = all(RecordedVariables::open(&path).unwrap());
    let expected = (0..taken).map(|number| Value::String(format!("element {number}").into()));
    assert!(played.into_iter().map(|one| one.value).eq(expected));
}

/// Behaviour: ZC-08.
#[test]
fn discarded_elements_are_counted() {
    let disk = Disk::default();
    let open = |_| Ok(disk.clone());
    let stream = ("stream", &DataType::String);
    let mut sut = ElementSeries::start(open, None, 1000, stream, NOW).unwrap();
    let text = || Value::String("text".into());
    sut.take(text(), Timestamp::UNIX_EPOCH).unwrap();
    sut.write_out(NOW).unwrap();
    disk.0.borrow_mut().0 = true;
    for _ in 0..3 {
        sut.take(text(), Timestamp::UNIX_EPOCH).unwrap();
        assert!(sut.write_out(NOW).is_err());
    }
    assert!(sut.finish(NOW).is_err());
    assert_eq!(sut.discard_waiting(), 3);
    let progress = sut.progress();
    assert_eq!(
        (progress.updates, progress.in_file, progress.lost),
        (4, 1, 3)
    );
}

/// The elements of a removed file of a series are counted as lost, and the next file reports them
/// as missing. No element is in two files.
///
/// Behaviour: B-70.
#[test]
fn lost_elements_of_a_removed_file_are_reported_in_the_next_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tdms");
    let mut sut = start(&path, &DataType::String, Some(Rotation::default()));
    let take = |sut: &mut ElementSeries<SegmentFile, Open>, count| {
        for number in 0..count {
            let text = format!("element {number}");
            sut.take(Value::String(text.into()), Timestamp::UNIX_EPOCH)
                .unwrap();
        }
    };
    take(&mut sut, 5);
    sut.write_out(NOW).unwrap();
    std::fs::remove_file(&path).unwrap();
    take(&mut sut, 3);
    // These elements are written to the removed file, and the removal is detected.
    sut.write_out(NOW).unwrap();
    take(&mut sut, 2);
    sut.finish(NOW).unwrap();
    let progress = sut.progress();
    assert_eq!((sut.number(), progress.updates), (2, 10));
    let recorded = RecordedVariables::open(&series_file(&path, 2)).unwrap();
    let in_file = recorded.variables()[0].updates;
    assert_eq!(progress.lost + in_file, 10, "{progress:?}");
    assert_eq!(progress.on_disk, in_file);
    assert_eq!(progress.lost, 8);
    let known = &recorded.variables()[0];
    assert_eq!((known.gaps, known.lost, known.unknown_gaps), (1, 8, 0));
    let second = TdmsFile::open(std::fs::read(series_file(&path, 2)).unwrap()).unwrap();
    let properties = second.properties(&ObjectPath::group("stream")).unwrap();
    let number = |name: &str| properties.get(name.as_bytes()).and_then(|one| one.as_u64());
    assert_eq!(number("gap_1_row"), Some(0));
    assert_eq!(number("gap_1_lost"), Some(progress.lost));
    assert_eq!(number("series_row"), Some(progress.lost));
    assert_eq!(number("carried_rows"), None);
}

#[test]
fn unsupported_elements_are_refused_before_a_file_is_created() {
    let wide = (0..1024).map(|number| format!("f{number}: bytes"));
    let wide = format!("struct({})", wide.collect::<Vec<_>>().join(", "));
    let fields = (0..9).map(|number| format!("g{number}: {wide}"));
    let wide = format!("struct({})", fields.collect::<Vec<_>>().join(", "));
    let wide = parse_type(&wide).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tdms");
    let refused = ElementSeries::start(open(&path), None, MEMORY, ("stream", &wide), NOW);
    let refused = refused.map(|_| ()).unwrap_err();
    assert!(matches!(refused, VariableRecordError::TooManyParts { .. }));
    assert!(!path.exists());
}

#[test]
fn one_variable_is_played_alone() {
    use trunkline_record::VariableRecording;
    use trunkline_types::{Lost, Quality, Sample};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tdms");
    let mut file = VariableRecording::new(SegmentFile::create(&path).unwrap(), MEMORY);
    let ids = ["a", "b"].map(|name| file.add(name, &DataType::I32).unwrap());
    for number in 0..10 {
        let time = Timestamp::from_nanos(number.into());
        let sample = Sample {
            value: Value::I32(number),
            source_timestamp: time,
            engine_timestamp: time,
            quality: Quality::GOOD,
        };
        file.take(ids[number as usize % 2], &sample, &Lost::NONE)
            .unwrap();
    }
    file.finish().unwrap();
    let mut sut = RecordedVariables::open(&path).unwrap();
    sut.select_only(1);
    let played = all(sut).into_iter().map(|one| (one.variable, one.value));
    assert!(played.eq([1, 3, 5, 7, 9].map(|number| (1, Value::I32(number)))));
}
