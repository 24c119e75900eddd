//! Tests recordings of variables: the updates with their times, the losses, and playback in order.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use trunkline_record::{
    PlayedUpdate, RecordedVariables, SegmentFile, Segments, VariableRecordError, VariableRecording,
    sums_path,
};
use trunkline_tdms::{
    Arrangement, Data, ObjectPath, SumsCheck, SumsState, TdmsFile, TdmsType, Waveform, Writer,
    WriterOptions,
};
use trunkline_types::text::parse_type;
use trunkline_types::{DataType, Lost, Quality, Reason, Sample, Timestamp, Value};

/// Memory for waiting updates in bytes; much more than the tests need.
const MEMORY: usize = 1 << 20;

/// More variables than any plant has, and too many to compare each with all others.
const MANY: usize = 50_000;

/// A time in 2023, in nanoseconds since 1970.
const START: i64 = 1_700_000_000_000_000_000;

fn at(value: Value, milliseconds: i64) -> Sample {
    let time = Timestamp::from_nanos(START + milliseconds * 1_000_000 + 1);
    Sample {
        value,
        source_timestamp: time,
        engine_timestamp: time,
        quality: Quality::GOOD,
    }
}

fn all(path: &Path) -> Vec<PlayedUpdate> {
    let mut sut = RecordedVariables::open(path).unwrap();
    std::iter::from_fn(|| sut.next_update().unwrap()).collect()
}

/// Behaviour: B-72.
#[test]
fn values_older_than_the_recording_are_played_at_once() {
    const HOUR: i64 = 3_600_000;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tdms");
    let mut sut = VariableRecording::new(SegmentFile::create(&path).unwrap(), MEMORY);
    let [level, valve, late] =
        ["level", "valve", "late"].map(|name| sut.add(name, &DataType::I64).unwrap());
    let initial = |sut: &mut VariableRecording<_>, id, milliseconds| {
        let sample = at(Value::I64(milliseconds), milliseconds);
        sut.take_initial(id, &sample, &Lost::NONE).unwrap();
    };
    initial(&mut sut, level, 0);
    initial(&mut sut, valve, HOUR);
    for milliseconds in [3 * HOUR, 3 * HOUR + 500] {
        let sample = at(Value::I64(milliseconds), milliseconds);
        sut.take(level, &sample, &Lost::NONE).unwrap();
    }
    // A variable that appears during the recording, and another initial value of an existing one.
    initial(&mut sut, late, 3 * HOUR + 200);
    initial(&mut sut, level, 3 * HOUR + 700);
    sut.finish().unwrap();
    let after: Vec<_> = all(&path)
        .iter()
        .map(|update| update.after.as_millis())
        .collect();
    assert_eq!(after, [0, 0, 0, 200, 500, 700]);
    // This recording has only initial values.
    let path = folder.path().join("still.tdms");
    let mut sut = VariableRecording::new(SegmentFile::create(&path).unwrap(), MEMORY);
    for (name, hours) in [("level", 0), ("valve", 5)] {
        let id = sut.add(name, &DataType::I64).unwrap();
        initial(&mut sut, id, hours * HOUR);
    }
    sut.finish().unwrap();
    let after: Vec<_> = all(&path).iter().map(|update| update.after).collect();
    assert_eq!(after, [Duration::ZERO; 2]);
}

/// Behaviour: B-72.
#[test]
fn many_variables_are_distinguished() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("many.tdms");
    let mut sut = VariableRecording::new(SegmentFile::create(&path).unwrap(), MEMORY);
    let names: Vec<String> = (0..MANY).map(|number| format!("rig/{number}")).collect();
    let mut add_all = || -> Vec<_> {
        let ids = names.iter().map(|name| sut.add(name, &DataType::I64));
        ids.map(Result::unwrap).collect()
    };
    let ids = add_all();
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), MANY);
    assert_eq!(add_all(), ids, "the same once more");
    assert_eq!(sut.progress().variables, MANY as u64);
    let other = sut.add(&names[0], &DataType::F64).unwrap_err();
    assert!(
        matches!(other, VariableRecordError::OtherType { .. }),
        "{other}"
    );
}

/// Behaviour: B-72, ZC-26.
#[test]
fn every_update_is_recorded_and_played_in_the_order_of_the_times() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tdms");
    let mode = parse_type("enum(off, slow, fast)").unwrap();
    let file = SegmentFile::create(&path).unwrap();
    let mut sut = VariableRecording::new(file, MEMORY);
    let level = sut.add("rig/level", &DataType::F64).unwrap();
    let text = sut.add("rig/it's", &DataType::String).unwrap();
    let modes = sut.add("rig/mode", &mode).unwrap();
    assert_eq!(sut.add("rig/level", &DataType::F64).unwrap(), level);
    let mut expected = Vec::new();
    for turn in 0..300_i64 {
        let mut put = |id, variable: usize, sample: Sample| {
            sut.take(id, &sample, &Lost::NONE).unwrap();
            expected.push((variable, sample));
        };
        put(level, 0, at(Value::F64(turn as f64 / 4.0), 10 * turn));
        if turn % 3 == 0 {
            put(
                text,
                1,
                at(Value::String(format!("turn {turn}").into()), 10 * turn + 1),
            );
        }
        let bad = Sample {
            quality: Quality::bad(Reason::None),
            ..at(Value::Enum(turn as u32 % 3), 10 * turn + 2)
        };
        put(modes, 2, bad);
        if turn % 100 == 50 {
            sut.write_out().unwrap();
        }
    }
    sut.sync().unwrap();
    let progress = sut.progress();
    let count = expected.len() as u64;
    assert_eq!(
        (progress.updates, progress.in_file, progress.on_disk),
        (count, count, count)
    );
    assert_eq!(progress.bytes, std::fs::metadata(&path).unwrap().len());
    assert_eq!(
        (progress.lost, progress.waiting_bytes, progress.variables),
        (0, 0, 3)
    );

    let recorded = RecordedVariables::open(&path).unwrap();
    let variables = recorded.variables();
    assert_eq!(
        variables.iter().map(|one| &one.name).collect::<Vec<_>>(),
        ["rig/level", "rig/it's", "rig/mode"]
    );
    assert_eq!(
        (&variables[2].data_type, variables[1].updates),
        (&mode, 100)
    );
    assert!(recorded.skipped().is_empty());
    let played = all(&path);
    assert_eq!(played.len(), expected.len());
    for (played, (variable, sample)) in played.iter().zip(expected) {
        assert_eq!(played.variable, variable);
        assert_eq!(played.value, sample.value);
        assert_eq!(played.source_timestamp, sample.source_timestamp);
        assert_eq!(played.quality, sample.quality);
        let after = sample.source_timestamp.as_nanos() - START - 1;
        assert_eq!(played.after, Duration::from_nanos(after as u64));
    }
}

/// A truncated segment yields its numbers up to the cut, but none if it contains strings.
///
/// Behaviour: B-70.
#[test]
fn truncated_recording_plays_its_whole_updates() {
    cut_anywhere(&DataType::String, |number| {
        Value::String(number.to_string().into())
    });
    cut_anywhere(&DataType::I64, Value::I64);
}

/// Truncates a recording of a number and of a variable of type `other`, at any byte.
fn cut_anywhere(other: &DataType, made: fn(i64) -> Value) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tdms");
    let mut sut = VariableRecording::new(SegmentFile::create(&path).unwrap(), MEMORY);
    let level = sut.add("rig/level", &DataType::I32).unwrap();
    let text = sut.add("rig/other", other).unwrap();
    let mut whole = vec![(0, 0)];
    let bad = Quality::bad(Reason::None);
    let at = |value, milliseconds| Sample {
        quality: bad,
        ..at(value, milliseconds)
    };
    for turn in 0..6 {
        for number in 0..4 {
            let number = turn * 4 + number;
            sut.take(level, &at(Value::I32(number as i32), number), &Lost::NONE)
                .unwrap();
            sut.take(text, &at(made(number), number), &Lost::NONE)
                .unwrap();
        }
        sut.write_out().unwrap();
        let progress = sut.progress();
        whole.push((progress.bytes as usize, progress.in_file as usize));
    }
    let bytes = std::fs::read(&path).unwrap();
    let cut = folder.path().join("cut.tdms");
    for length in 28 + 300..bytes.len() {
        std::fs::write(&cut, &bytes[..length]).unwrap();
        let played = all(&cut);
        let least = whole.iter().rfind(|(end, _)| *end <= length).unwrap().1;
        assert!(
            played.len() >= least,
            "{length}: {} of {least}",
            played.len()
        );
        for update in &played {
            let number = update.after.as_millis() as i64;
            let expected = match update.variable {
                0 => Value::I32(number as i32),
                _ => made(number),
            };
            assert_eq!(
                (&update.value, update.quality),
                (&expected, bad),
                "{length}"
            );
        }
    }
}

/// A file that can be made to accept nothing, like a full disk.
#[derive(Clone, Default)]
struct Full(Arc<Mutex<(Vec<u8>, bool)>>);

impl Full {
    fn set(&self, is_full: bool) {
        self.0.lock().unwrap().1 = is_full;
    }
}

impl Segments for Full {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut file = self.0.lock().unwrap();
        if file.1 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        file.0.extend(bytes);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Behaviour: B-70, B-72.
#[test]
fn full_disk_loses_only_what_exceeds_memory_and_reports_it() {
    let disk = Full::default();
    let mut sut = VariableRecording::new(disk.clone(), 10_000);
    let level = sut.add("rig/level", &DataType::I64).unwrap();
    let (mut lost, mut taken) = (Vec::new(), Vec::new());
    for number in 0..5_000_i64 {
        disk.set((1_000..4_000).contains(&number));
        match sut.take(level, &at(Value::I64(number), number), &Lost::NONE) {
            Ok(()) => taken.push(number),
            Err(VariableRecordError::File(_)) => lost.push(number),
            Err(error) => panic!("{error}"),
        }
        let bytes = sut.progress().waiting_bytes;
        assert!(bytes <= 2 * 10_000 + 1_000, "{bytes} bytes wait");
    }
    sut.sync().unwrap();
    let progress = sut.progress();
    assert!(lost.len() > 2_000 && lost.iter().all(|number| (1_000..=4_000).contains(number)));
    assert_eq!(progress.lost, lost.len() as u64);
    assert_eq!(progress.on_disk, taken.len() as u64);
    let bytes = disk.0.lock().unwrap().0.clone();
    let file = TdmsFile::open(bytes).unwrap();
    assert!(file.report().is_sound());
    let group = ObjectPath::group("rig/level");
    let value = file
        .channel(&ObjectPath::channel("rig/level", "value"))
        .unwrap();
    let mut values = vec![0_i64; value.len() as usize];
    value.read_into(0, &mut values).unwrap();
    assert_eq!(values, taken);
    let property = |name: &[u8]| file.properties(&group).unwrap()[name].as_u64().unwrap();
    let row = property(b"gap_1_row") as usize;
    assert_eq!(
        taken[row] - taken[row - 1] - 1,
        property(b"gap_1_lost") as i64
    );
    assert_eq!(property(b"gap_1_lost"), lost.len() as u64);
}

/// Behaviour: B-72.
#[test]
fn losses_before_an_update_are_recorded_as_a_gap() {
    let disk = Full::default();
    let mut sut = VariableRecording::new(disk.clone(), MEMORY);
    let level = sut.add("rig/level", &DataType::Bool).unwrap();
    let seven = Lost {
        queue: 3,
        overrun: 4,
        coalesced: 100,
        ..Lost::NONE
    };
    let unknown = Lost {
        unknown: true,
        ..Lost::NONE
    };
    for (number, lost) in [Lost::NONE, seven, Lost::NONE, unknown].iter().enumerate() {
        sut.take(level, &at(Value::Bool(true), number as i64), lost)
            .unwrap();
    }
    sut.record_loss(level, Some(5)).unwrap();
    sut.take(level, &at(Value::Bool(false), 9), &Lost::NONE)
        .unwrap();
    sut.sync().unwrap();
    assert_eq!((sut.progress().lost, sut.progress().unknown_gaps), (12, 1));
    let file = TdmsFile::open(disk.0.lock().unwrap().0.clone()).unwrap();
    let properties = file.properties(&ObjectPath::group("rig/level")).unwrap();
    let number = |name: String| properties.get(name.as_bytes())?.as_f64();
    let gap = |gap| number(format!("gap_{gap}_row")).zip(number(format!("gap_{gap}_lost")));
    assert_eq!(
        [1, 2, 3, 4].map(gap),
        [Some((1.0, 7.0)), Some((3.0, -1.0)), Some((4.0, 5.0)), None]
    );
}

#[test]
fn unrecorded_variables_are_reported() {
    let mut sut = VariableRecording::new(Full::default(), MEMORY);
    let level = sut.add("rig/level", &DataType::F64).unwrap();
    let changed = sut.add("rig/level", &DataType::I8).unwrap_err();
    assert!(
        matches!(changed, VariableRecordError::OtherType { .. }),
        "{changed}"
    );
    let other = sut
        .take(level, &at(Value::I8(1), 0), &Lost::NONE)
        .unwrap_err();
    assert!(
        matches!(other, VariableRecordError::OtherType { .. }),
        "{other}"
    );
    sut.sync().unwrap();
    assert_eq!(sut.progress().updates, 0);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("there.tdms");
    SegmentFile::create(&path).unwrap();
    assert!(
        SegmentFile::create(&path).is_err(),
        "nothing is written over"
    );
}

/// Behaviour: B-72.
#[test]
fn waveform_channels_are_played_as_variables_in_time_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tdms");
    let mut writer = Writer::new(WriterOptions::default());
    let even = writer.channel("g", "even", TdmsType::I16).unwrap();
    let odd = writer.channel("g", "odd", TdmsType::I16).unwrap();
    let waveform = Waveform {
        start: Some(Timestamp::from_nanos(START).into()),
        increment: 0.5,
        ..Waveform::default()
    };
    for (name, value) in waveform.to_properties() {
        writer
            .set(&ObjectPath::channel("g", "even"), name, value)
            .unwrap();
    }
    let mut bytes = Vec::new();
    let data = [
        (even, Data::from(&[1_i16, 2, 3])),
        (odd, Data::from(&[4_i16])),
    ];
    writer
        .write(&data, Arrangement::Contiguous, &mut bytes)
        .unwrap();
    std::fs::write(&path, bytes).unwrap();
    let sut = RecordedVariables::open(&path).unwrap();
    assert_eq!(sut.variables()[0].name, "g/even");
    assert_eq!(sut.skipped(), [ObjectPath::channel("g", "odd")]);
    let played = all(&path);
    let halves: Vec<_> = played.iter().map(|one| one.after.as_millis()).collect();
    assert_eq!(halves, [0, 500, 1000]);
    assert_eq!(played[2].source_timestamp.as_nanos(), START + 1_000_000_000);

    let path = folder.path().join("clock.tdms");
    let mut sut = VariableRecording::new(SegmentFile::create(&path).unwrap(), MEMORY);
    let level = sut.add("rig/level", &DataType::I64).unwrap();
    for (number, time) in [0, 100, 40, 110].into_iter().enumerate() {
        sut.take(level, &at(Value::I64(number as i64), time), &Lost::NONE)
            .unwrap();
    }
    sut.sync().unwrap();
    let played = all(&path);
    let after: Vec<_> = played.iter().map(|one| one.after.as_millis()).collect();
    assert_eq!(after, [0, 100, 100, 110]);
    let values: Vec<_> = played.into_iter().map(|one| one.value).collect();
    assert_eq!(values, [0_i64, 1, 2, 3].map(Value::I64));
}

/// Behaviour: B-70.
#[test]
fn checksums_cover_every_update_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tdms");
    std::fs::write(sums_path(&path), "of an earlier file").unwrap();
    let file = SegmentFile::create_summed(&path).unwrap();
    let mut sut = VariableRecording::new(file, MEMORY);
    let level = sut.add("rig/level", &DataType::F64).unwrap();
    for turn in 0..3 {
        let sample = at(Value::F64(1.5), turn);
        sut.take(level, &sample, &Lost::NONE).unwrap();
        sut.write_out().unwrap();
    }
    sut.sync().unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let sums = std::fs::read(sums_path(&path)).unwrap();
    let check = SumsCheck::of(&bytes, &sums).unwrap();
    assert!(check.is_good(), "{check:?}");
    assert_eq!(check.segments, 3);
    assert_eq!(check.verified_to, bytes.len() as u64);
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    let check = SumsCheck::of(&bytes, &sums).unwrap();
    assert_eq!(check.segments, 2, "{check:?}");

    let other = folder.path().join("other.tdms");
    let mut sut = VariableRecording::new(SegmentFile::create_summed(&other).unwrap(), MEMORY);
    let level = sut.add("rig/level", &DataType::F64).unwrap();
    let sample = at(Value::F64(1.5), 0);
    sut.take(level, &sample, &Lost::NONE).unwrap();
    sut.sync().unwrap();
    let check = SumsCheck::of(&std::fs::read(&other).unwrap(), &sums).unwrap();
    assert_eq!(check.state, SumsState::OtherFile, "the same update");

    std::fs::remove_file(&path).unwrap();
    SegmentFile::create(&path).unwrap();
    assert!(!sums_path(&path).exists(), "readers would believe them");
}
