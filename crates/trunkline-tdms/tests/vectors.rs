//! Tests the example files of the format's specification, byte for byte.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

use std::path::Path;

use trunkline_tdms::{
    Arrangement, Fault, Limits, ObjectPath, PropertyValue, TdmsFile, TdmsTime, TdmsType, Text,
    Values, Waveform, Writer, WriterOptions, index_of,
};
use trunkline_types::Timestamp;

fn vector(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/tdms");
    let path = folder.join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn path(channel: &str) -> ObjectPath {
    ObjectPath::channel("g", channel)
}

fn values(file: &TdmsFile<Vec<u8>>, channel: &str) -> Values {
    file.channel(&path(channel)).unwrap().read(0, 100).unwrap()
}

/// 2026-01-01T00:00:00.5Z
const HALF_PAST_NEW_YEAR: Timestamp = Timestamp::from_nanos(1_767_225_600_500_000_000);

#[test]
fn one_channel_is_read() {
    let file = TdmsFile::open(vector("one_channel.tdms")).unwrap();
    assert!(file.report().is_sound());
    assert_eq!(file.report().version, Some(4713));
    assert_eq!(values(&file, "v"), Values::F64(vec![1.0, -2.5, 0.1]));
    let properties = file.properties(&ObjectPath::File).unwrap();
    assert_eq!(properties[b"name".as_slice()], PropertyValue::from("demo"));
    let channel = file.channel(&path("v")).unwrap();
    let unit = &channel.properties()[b"unit_string".as_slice()];
    assert_eq!(*unit, PropertyValue::from("V"));
    let waveform = Waveform {
        start: Some(HALF_PAST_NEW_YEAR.into()),
        increment: 0.001,
        ..Waveform::default()
    };
    assert_eq!(channel.waveform(), Some(waveform));
    assert!(channel.chunks().eq(std::iter::once(0..3)));
}

#[test]
fn one_channel_is_written_byte_for_byte_and_its_index_too() {
    let mut sut = Writer::new(WriterOptions::default());
    sut.set(&ObjectPath::File, "name", "demo").unwrap();
    let channel = sut.channel("g", "v", TdmsType::F64).unwrap();
    sut.set(&path("v"), "wf_start_time", HALF_PAST_NEW_YEAR)
        .unwrap();
    sut.set(&path("v"), "wf_increment", 0.001).unwrap();
    sut.set(&path("v"), "unit_string", "V").unwrap();
    let mut bytes = Vec::new();
    let data = [(channel, (&[1.0, -2.5, 0.1]).into())];
    let place = sut
        .write(&data, Arrangement::Contiguous, &mut bytes)
        .unwrap();
    assert_eq!(bytes, vector("one_channel.tdms"));
    let header = &bytes[..place.header_bytes as usize];
    assert_eq!(index_of(header), vector("one_channel.tdms_index"));
}

#[test]
fn five_segments_are_read_without_the_truncated_row() {
    let check = |file: &TdmsFile<Vec<u8>>| {
        assert_eq!(values(file, "a"), Values::I32((1..=10).collect()));
        assert_eq!(values(file, "b"), Values::U16((100..=104).collect()));
        let strings = ["hi", "", "µV!"].map(Text::from).to_vec();
        assert_eq!(values(file, "s"), Values::String(strings));
        let a = file.channel(&path("a")).unwrap();
        assert_eq!(a.properties()[b"ok".as_slice()], PropertyValue::Bool(true));
        let chunks: Vec<_> = a.chunks().collect();
        assert_eq!(chunks, [0..2, 2..4, 4..6, 6..8, 8..10]);
        let report = file.report();
        assert_eq!(report.segments, 5);
        let incomplete = report.incomplete.unwrap();
        assert_eq!(
            (incomplete.position, &incomplete.fault),
            (0x164, &Fault::NotClosed)
        );
        // The last value is 11; the single byte after it is not a value.
        assert_eq!(report.bytes_lost, 5);
    };
    let bytes = vector("five_segments.tdms");
    check(&TdmsFile::open(bytes.clone()).unwrap());
    let index = vector("five_segments.tdms_index");
    let limits = Limits::default();
    check(&TdmsFile::open_indexed(bytes, &index, limits).unwrap());
    let alone = TdmsFile::open_index(index, limits).unwrap();
    let names: Vec<String> = alone.channels().map(|c| c.path().to_string()).collect();
    assert_eq!(names, ["/'g'/'a'", "/'g'/'b'", "/'g'/'s'"]);
    assert!(alone.channels().all(|channel| channel.is_empty()));
}

/// Every part of a channel is read, across all its segments.
#[test]
fn every_range_of_a_channel_is_read() {
    let file = TdmsFile::open(vector("five_segments.tdms")).unwrap();
    let a = file.channel(&path("a")).unwrap();
    let s = file.channel(&path("s")).unwrap();
    for start in 0..=11_u64 {
        for count in 0..=11 {
            let mut out = vec![0_i32; count];
            let read = a.read_into(start, &mut out).unwrap();
            let expected: Vec<i32> = (1..=10).skip(start as usize).take(count).collect();
            assert_eq!(out[..read], expected, "{start} {count}");
            let expected = ["hi", "", "µV!"].map(Text::from);
            let expected: Vec<Text> = expected
                .into_iter()
                .skip(start as usize)
                .take(count)
                .collect();
            assert_eq!(s.read_strings(start, count as u64).unwrap(), expected);
        }
    }
}

/// The strings have 2, 0 and 4 bytes.
#[test]
fn strings_are_read_up_to_a_number_of_bytes() {
    let file = TdmsFile::open(vector("five_segments.tdms")).unwrap();
    let s = file.channel(&path("s")).unwrap();
    for (bytes_max, count) in [(0, 1), (1, 1), (2, 1), (3, 3), (6, 3), (u64::MAX, 3)] {
        let read = s.read_strings_within(0, 9, bytes_max).unwrap();
        assert_eq!(read.len(), count, "{bytes_max}");
    }
    assert_eq!(s.read_strings_within(1, 9, 4).unwrap().len(), 2);
    assert_eq!(s.read_strings_within(3, 9, 4).unwrap().len(), 0);
    assert!(
        file.channel(&path("a"))
            .unwrap()
            .read_strings_within(0, 1, 1)
            .is_err()
    );
}

#[test]
fn big_endian_time_is_read() {
    let file = TdmsFile::open(vector("big_endian_time.tdms")).unwrap();
    assert!(file.report().is_sound());
    let expected = TdmsTime {
        seconds: 3_850_070_400,
        fraction: 1 << 63,
    };
    assert_eq!(values(&file, "t"), Values::Time(vec![expected]));
    assert_eq!(expected.to_timestamp(), Some(HALF_PAST_NEW_YEAR));
}

#[test]
fn daqmx_rows_are_split_into_channels() {
    let file = TdmsFile::open(vector("daqmx.tdms")).unwrap();
    assert!(file.report().is_sound());
    assert_eq!(values(&file, "x"), Values::I16(vec![1, 2]));
    assert_eq!(values(&file, "y"), Values::I16(vec![-1, -2]));
    let y = file.channel(&path("y")).unwrap();
    assert_eq!(y.data_type(), TdmsType::Daqmx);
    assert_eq!(y.scalers().len(), 1);
    let mut numbers = [0.0; 3];
    assert_eq!(y.read_f64_into(1, &mut numbers).unwrap(), 1);
    assert_eq!(numbers[0], -2.0);
}
