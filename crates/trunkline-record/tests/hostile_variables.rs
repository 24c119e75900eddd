//! Tests recordings of variables with contradictory content. Playback does not panic, invents no
//! values, and reports the faults.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

mod play_everything;
mod random_values;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use play_everything::play_everything;
use random_values::{data_type, sample};
use trunkline_record::{
    PlaybackError, RecordedVariables, Rotation, SegmentFile, VariableRecording, VariableSeries,
    series_path,
};
use trunkline_tdms::{Arrangement, Data, ObjectPath, TdmsTime, Text, Writer, WriterOptions};
use trunkline_types::text::parse_type;
use trunkline_types::{Lost, Quality, Sample, Timestamp, Value};

const GROUP: &str = "rig/odd";

/// Writes a file with a variable of this type, and these channels in addition to `time`.
fn write(path: &Path, data_type: &str, rows: usize, channels: &[(&str, Data<'_>)]) {
    let mut writer = Writer::new(WriterOptions::default());
    let group = ObjectPath::group(GROUP);
    writer.set(&group, "variable_type", data_type).unwrap();
    let times: Vec<_> = (0..rows as i64).map(Timestamp::from_nanos).collect();
    let times: Vec<_> = times.into_iter().map(TdmsTime::from).collect();
    let times = ("time", Data::from(&*times));
    let data: Vec<_> = std::iter::once(&times)
        .chain(channels)
        .map(|(name, data)| {
            let channel = writer.channel(GROUP, *name, data.data_type()).unwrap();
            (channel, *data)
        })
        .collect();
    let mut bytes = Vec::new();
    writer
        .write(&data, Arrangement::Contiguous, &mut bytes)
        .unwrap();
    std::fs::write(path, bytes).unwrap();
    play_everything(path);
}

/// Returns the numbers of complete and of incomplete updates in a file, the played values, and the
/// error at the end, if any.
fn played(path: &Path) -> (Option<(u64, u64)>, Vec<Value>, Option<String>) {
    let mut sut = RecordedVariables::open(path).unwrap();
    let counts = sut
        .variables()
        .first()
        .map(|one| (one.updates, one.cut_off));
    let mut values = Vec::new();
    loop {
        match sut.next_update() {
            Ok(Some(update)) => values.push(update.value),
            Ok(None) => return (counts, values, None),
            Err(error) => {
                assert!(matches!(error, PlaybackError::Damaged { .. }), "{error}");
                assert!(sut.next_update().unwrap().is_none(), "nothing behind it");
                return (counts, values, Some(error.to_string()));
            }
        }
    }
}

/// Behaviour: B-70, B-72.
#[test]
fn missing_counted_elements_end_the_variable_before_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.tdms");
    let five = [1_i16, 2, 3, 4, 5];
    for (counts, whole) in [
        ([2, 3, 0], 3),
        ([2, 3, 1], 2),
        ([2, 4, 0], 1),
        ([u32::MAX, 0, 0], 0),
        // The sum wraps to 2 in 32 bits.
        ([3, u32::MAX, 0], 1),
    ] {
        let channels = [
            ("value", Data::from(&five)),
            ("value.count", Data::from(&counts)),
        ];
        write(&path, "array(i16, *)", 3, &channels);
        let (found, values, error) = played(&path);
        assert_eq!(found, Some((whole, 3 - whole)), "{counts:?}");
        assert_eq!((values.len() as u64, error), (whole, None), "{counts:?}");
    }
}

/// Behaviour: B-72.
#[test]
fn dimensions_that_do_not_fit_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.tdms");
    let six = [1_u8, 2, 3, 4, 5, 6];
    let huge = 1 << 31;
    for (data_type, count, lengths) in [
        ("array(u8, *, *)", 6_u32, [4, 2, 0, 0]),
        ("array(u8, *, *)", 6, [u32::MAX, u32::MAX, 0, 0]),
        // The product wraps to 0 in 64 bits.
        ("array(u8, *, *, *, *)", 0, [huge, huge, 4, 1]),
        ("array(u8, 2, *)", 6, [3, 2, 0, 0]),
    ] {
        let (count, lengths) = ([count], lengths.map(|length| [length]));
        let [one, two, three, four] = &lengths;
        let channels = [
            ("value", Data::from(&six)),
            ("value.count", Data::from(&count)),
            ("value.dim_1", Data::from(one)),
            ("value.dim_2", Data::from(two)),
            ("value.dim_3", Data::from(three)),
            ("value.dim_4", Data::from(four)),
        ];
        write(&path, data_type, 1, &channels);
        let (found, values, error) = played(&path);
        assert_eq!((found, values.len()), (Some((1, 0)), 0), "{data_type}");
        let error = error.unwrap();
        assert!(error.contains("update 0 of rig/odd"), "{error}");
        assert!(error.contains("dimensions"), "{error}");
    }
}

/// Behaviour: B-72.
#[test]
fn variable_with_a_missing_or_mistyped_part_is_omitted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.tdms");
    let number = ("value.x", Data::from(&[1.5_f64]));
    let flag = ("value.ok", Data::from(&[true]));
    let data_type = "struct(x: f64, ok: bool)";
    write(&path, data_type, 1, &[number, flag]);
    assert_eq!(played(&path).0, Some((1, 0)));
    let wrong = ("value.ok", Data::from(&[1_u8]));
    let narrow = ("value.count", Data::from(&[1_u16]));
    let elements = ("value", Data::from(&[1.5_f64]));
    let cases: [(&str, &[_], u64); 6] = [
        (data_type, &[number], 2),
        (data_type, &[number, wrong], 3),
        ("struct(x: f64, ok:", &[number, flag], 3),
        ("array(f64, *)", &[elements], 2),
        ("array(f64, *)", &[elements, narrow], 3),
        (
            "array(i8, *)",
            &[elements, ("value.count", Data::from(&[1_u32]))],
            3,
        ),
    ];
    for (data_type, channels, skipped) in cases {
        write(&path, data_type, 1, channels);
        let sut = RecordedVariables::open(&path).unwrap();
        assert_eq!(sut.variables(), [], "{data_type}");
        assert_eq!(sut.skipped().len() as u64, skipped, "{data_type}");
    }
}

/// Behaviour: B-72.
#[test]
fn values_invalid_for_a_variable_are_not_played() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.tdms");
    let label = [7_u32];
    write(&path, "enum(off, on)", 1, &[("value", Data::from(&label))]);
    let (_, values, error) = played(&path);
    assert_eq!(values, []);
    assert!(
        error
            .unwrap()
            .contains("does not have the type enum(off, on)")
    );
    // One byte more than 16 MiB.
    let long = vec![0_u8; (16 << 20) + 1];
    let count = [long.len() as u32];
    let channels = [
        ("value", Data::from(&*long)),
        ("value.count", Data::from(&count)),
    ];
    write(&path, "bytes", 1, &channels);
    let (_, values, error) = played(&path);
    assert_eq!(values, []);
    assert!(
        error
            .unwrap()
            .contains("more elements than a value can have")
    );
    let words = [Text::from("{\"unit\":[]}")];
    let times = [TdmsTime::default()];
    let channels = [
        ("value.count", Data::from(&[0_u32])),
        ("value.t0", Data::from(&times)),
        ("value.dt", Data::from(&[0.5_f64])),
        ("value.attributes", Data::from(&words)),
    ];
    write(&path, "waveform(i16)", 1, &channels);
    assert!(played(&path).2.unwrap().contains("value.attributes"));
}

/// Behaviour: B-72.
#[test]
fn recordings_of_variables_with_bytes_altered_play_or_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.tdms");
    let altered = folder.path().join("altered.tdms");
    let mut random = Rng::with_seed(7);
    for _ in 0..8 {
        let _ = std::fs::remove_file(&path);
        let mut sut = VariableRecording::new(SegmentFile::create(&path).unwrap(), 1 << 20);
        for number in 0..3 {
            let data_type = data_type(&mut random, 2);
            let id = sut.add(&format!("rig/{number}"), &data_type).unwrap();
            for row in 0..4 {
                let sample = sample(&mut random, &data_type, Timestamp::from_nanos(row));
                sut.take(id, &sample, &Lost::NONE).unwrap();
            }
        }
        sut.finish().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        for _ in 0..60 {
            let mut bytes = bytes.clone();
            let at = random.usize(..bytes.len());
            bytes[at] = random.u8(..);
            std::fs::write(&altered, &bytes).unwrap();
            play_everything(&altered);
        }
    }
}

/// Behaviour: B-72.
#[test]
fn series_of_variables_with_bytes_altered_play_or_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = |number| series_path(folder.path(), "x", number).unwrap();
    let mut random = Rng::with_seed(11);
    let mut accepted = 0;
    for _ in 0..6 {
        (1..4).for_each(|number| drop(std::fs::remove_file(path(number))));
        let rotation = Rotation {
            bytes_max: 1,
            ..Rotation::default()
        };
        let open = |number| SegmentFile::create(&path(number));
        let now = Duration::ZERO;
        let mut sut = VariableSeries::start(open, Some(rotation), 1 << 20, now).unwrap();
        let types = [0, 1, 2].map(|_| data_type(&mut random, 2));
        for row in 0..3 {
            for (number, data_type) in types.iter().enumerate() {
                let id = sut.add(&format!("rig/{number}"), data_type).unwrap();
                let sample = sample(&mut random, data_type, Timestamp::from_nanos(row));
                sut.take(id, &sample, &Lost::NONE, now).unwrap();
            }
            sut.write_out(now).unwrap();
        }
        assert_eq!(sut.number(), 3);
        play_everything(&path(1));
        for _ in 0..80 {
            let altered = path(random.u32(1..4));
            let before = std::fs::read(&altered).unwrap();
            let mut bytes = before.clone();
            let at = random.usize(..bytes.len());
            bytes[at] = random.u8(..);
            std::fs::write(&altered, &bytes).unwrap();
            play_everything(&path(1));
            accepted += u32::from(RecordedVariables::open_series(&path(1)).is_ok());
            std::fs::write(&altered, &before).unwrap();
        }
    }
    assert!((1..480).contains(&accepted), "{accepted}");
}

/// Strings in three segments. In the second segment, the second string offset is damaged, so that
/// only the first string is readable. A further variable has no strings.
///
/// Behaviour: B-70.
#[test]
fn only_updates_with_unreadable_text_are_omitted_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tdms");
    let mut sut = VariableRecording::new(SegmentFile::create(&path).unwrap(), 1 << 20);
    let mut add =
        |name: &str, data_type: &str| sut.add(name, &parse_type(data_type).unwrap()).unwrap();
    let note = add("rig/note", "string");
    let pair = add("rig/pair", "struct(n: u8, s: string)");
    let number = add("rig/number", "i64");
    for turn in 0..12_i64 {
        let text = Value::String(format!("text {turn:02}").into());
        let both = Value::Struct(Arc::from([Value::U8(turn as u8), text.clone()]));
        let time = Timestamp::from_nanos(turn);
        for (variable, value) in [(note, text), (pair, both), (number, Value::I64(turn))] {
            let sample = Sample {
                value,
                source_timestamp: time,
                engine_timestamp: time,
                quality: Quality::GOOD,
            };
            sut.take(variable, &sample, &Lost::NONE).unwrap();
        }
        if turn % 4 == 3 {
            sut.write_out().unwrap();
        }
    }
    sut.finish().unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let ends: Vec<u8> = [7_u32, 14, 21, 28]
        .into_iter()
        .flat_map(u32::to_le_bytes)
        .collect();
    let places = bytes.windows(ends.len()).enumerate();
    let places: Vec<usize> = places
        .filter(|(_, w)| *w == ends)
        .map(|(at, _)| at)
        .collect();
    assert_eq!(places.len(), 6, "two columns of strings in three segments");
    for place in &places[2..4] {
        bytes[place + 4..place + 8].fill(0xff);
    }
    std::fs::write(&path, bytes).unwrap();

    let mut sut = RecordedVariables::open(&path).unwrap();
    let mut played: [Vec<i64>; 3] = Default::default();
    while let Some(update) = sut.next_update().unwrap() {
        played[update.variable].push(update.source_timestamp.as_nanos());
        let expected = format!("text {:02}", update.source_timestamp.as_nanos());
        match &update.value {
            Value::String(text) => assert_eq!(**text, *expected),
            Value::Struct(parts) => assert_eq!(parts[1], Value::String(expected.into())),
            _ => {}
        }
    }
    let sound: Vec<i64> = (0..5).chain(8..12).collect();
    assert_eq!(played, [sound.clone(), sound, (0..12).collect()]);
    let unreadable: Vec<u64> = sut.variables().iter().map(|one| one.unreadable).collect();
    assert_eq!(unreadable, [3, 3, 0]);
}
