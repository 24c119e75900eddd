//! Tests the state that segments inherit from earlier segments, and the layout of raw data.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

mod segments;

use trunkline_tdms::{Fault, ObjectPath, PropertyValue, TdmsFile, Text, Values};

use self::segments::{
    BIG_ENDIAN, FIRST, I8, I16, I32, INTERLEAVED, META, NEW_LIST, RAW, file, segment,
};

const A: &str = "/'g'/'a'";
const B: &str = "/'g'/'b'";

fn i32s(bytes: &[u8], channel: &str) -> Vec<i32> {
    match values(bytes, channel) {
        Values::I32(values) => values,
        Values::Void => Vec::new(),
        other => panic!("{other:?}"),
    }
}

fn values(bytes: &[u8], channel: &str) -> Values {
    let file = TdmsFile::open(bytes).unwrap();
    let path = ObjectPath::channel("g", channel);
    file.channel(&path).unwrap().read(0, 1_000).unwrap()
}

fn faults(bytes: &[u8]) -> Vec<Fault> {
    let file = TdmsFile::open(bytes).unwrap();
    let report = file.report();
    let all = report.incomplete.into_iter().chain(report.findings);
    all.map(|finding| finding.fault.clone()).collect()
}

#[test]
fn unlisted_channel_keeps_its_data() {
    let bytes = file([
        segment(FIRST)
            .plain(A, I32, 1)
            .plain(B, I32, 1)
            .i32s([1, 10]),
        segment(META | RAW).plain(A, I32, 2).i32s([2, 3, 11]),
        segment(RAW).i32s([4, 5, 12]),
    ]);
    assert_eq!(i32s(&bytes, "a"), [1, 2, 3, 4, 5]);
    assert_eq!(i32s(&bytes, "b"), [10, 11, 12]);
}

#[test]
fn unchanged_index_refers_to_the_last_described_one() {
    let bytes = file([
        segment(FIRST).plain(A, I32, 2).i32s([1, 2]),
        segment(FIRST).no_data(A).plain(B, I32, 1).i32s([10]),
        segment(META | RAW).same_as_before(A).i32s([3, 4, 11]),
        segment(FIRST).same_as_before(A).i32s([5, 6]),
    ]);
    // In the third segment, channel a keeps the position in the list that it had in the second one.
    assert_eq!(i32s(&bytes, "a"), [1, 2, 3, 4, 5, 6]);
    assert_eq!(i32s(&bytes, "b"), [10, 11]);
}

#[test]
fn no_data_applies_to_segments_that_inherit_it() {
    let bytes = file([
        segment(FIRST)
            .plain(A, I32, 1)
            .plain(B, I32, 1)
            .i32s([1, 10]),
        segment(META | RAW).no_data(A).i32s([11]),
        segment(RAW).i32s([12, 13]),
    ]);
    assert_eq!(i32s(&bytes, "a"), [1]);
    assert_eq!(i32s(&bytes, "b"), [10, 11, 12, 13]);
}

#[test]
fn first_segment_starts_a_list_without_the_flag() {
    let bytes = file([segment(META | RAW).plain(A, I32, 2).i32s([1, 2])]);
    assert_eq!(i32s(&bytes, "a"), [1, 2]);
}

#[test]
fn later_of_two_entries_is_used() {
    let bytes = file([segment(FIRST)
        .plain(A, I32, 9)
        .plain(A, I32, 1)
        .i32s([1, 2])]);
    assert_eq!(i32s(&bytes, "a"), [1, 2]);
    let path = ObjectPath::channel("g", "a");
    assert_eq!(faults(&bytes), [Fault::DuplicatePath { path }]);
}

#[test]
fn last_value_of_a_property_is_used_and_missing_parents_are_created() {
    let bytes = file([
        segment(META | NEW_LIST)
            .no_data(A)
            .with_property(b"p", I32, &[1, 0, 0, 0]),
        segment(META).no_data(A).with_property(b"p", I8, &[2]),
    ]);
    let file = TdmsFile::open(&bytes).unwrap();
    let properties = file.properties(&ObjectPath::channel("g", "a")).unwrap();
    assert_eq!(properties[b"p".as_slice()], PropertyValue::I8(2));
    assert_eq!(properties.len(), 1);
    let paths: Vec<String> = file.paths().map(ToString::to_string).collect();
    assert_eq!(paths, ["/", "/'g'", A]);
    assert_eq!(file.groups().collect::<Vec<_>>(), [&Text::from("g")]);
}

#[test]
fn index_length_may_be_16_or_too_large() {
    let sut = segment(FIRST);
    let short = sut.index(16, I32, 1, 1);
    let mut long = sut.index(24, I32, 1, 1);
    long.extend([0xee; 4]);
    let bytes = file([sut.object(A, &short).object(B, &long).i32s([1, 10])]);
    assert_eq!(i32s(&bytes, "a"), [1]);
    assert_eq!(i32s(&bytes, "b"), [10]);
}

#[test]
fn metadata_may_be_padded() {
    let mut sut = segment(FIRST).plain(A, I32, 1);
    sut.metadata.extend([0; 4_000]);
    let bytes = file([sut.i32s([1]), segment(RAW).i32s([2])]);
    assert_eq!(i32s(&bytes, "a"), [1, 2]);
    assert_eq!(faults(&bytes), []);
}

#[test]
fn segments_may_differ_in_byte_order() {
    let bytes = file([
        segment(FIRST).plain(A, I32, 1).i32s([1]),
        segment(FIRST | BIG_ENDIAN).plain(A, I32, 1).i32s([2, 3]),
        segment(RAW).i32s([4]),
        segment(META | RAW | BIG_ENDIAN | INTERLEAVED)
            .plain(B, I32, 1)
            .i32s([5, 10, 6, 11]),
    ]);
    assert_eq!(i32s(&bytes, "a"), [1, 2, 3, 4, 5, 6]);
    assert_eq!(i32s(&bytes, "b"), [10, 11]);
    assert_eq!(faults(&bytes), [(); 3].map(|()| Fault::ByteOrderChange));
}

#[test]
fn interleaved_rows_hold_values_of_different_sizes() {
    let bytes = file([segment(FIRST | INTERLEAVED)
        .plain(A, I8, 2)
        .plain(B, I32, 2)
        .raw([1, 10, 0, 0, 0, 2, 11, 0, 0, 0, 3, 12, 0, 0, 0])]);
    assert_eq!(values(&bytes, "a"), Values::I8(vec![1, 2, 3]));
    assert_eq!(i32s(&bytes, "b"), [10, 11, 12]);
}

#[test]
fn lone_string_channel_is_contiguous_despite_the_interleaved_flag() {
    let raw = [2, 0, 0, 0, 3, 0, 0, 0, b'h', b'i', b'!'];
    let bytes = file([segment(FIRST | INTERLEAVED)
        .strings(A, 2, 11)
        .raw(raw.into_iter().chain(raw))]);
    let two = ["hi", "!"].map(Text::from);
    let expected = [two.clone(), two].concat();
    assert_eq!(values(&bytes, "a"), Values::String(expected));
}

#[test]
fn short_last_chunk_of_a_closed_segment_shortens_all_channels() {
    let bytes = file([
        segment(FIRST)
            .plain(A, I32, 4)
            .plain(B, I16, 4)
            .i32s([1, 2, 3, 4])
            .raw([10, 0, 11, 0, 12, 0, 13, 0])
            .i32s([5, 6])
            .raw([14, 0, 15, 0]),
        segment(RAW)
            .i32s([7, 8, 9, 10])
            .raw([16, 0, 17, 0, 18, 0, 19, 0]),
    ]);
    assert_eq!(i32s(&bytes, "a"), (1..=10).collect::<Vec<_>>());
    assert_eq!(values(&bytes, "b"), Values::I16((10..=19).collect()));
    assert_eq!(
        faults(&bytes),
        [Fault::ShortChunk {
            bytes: 12,
            chunk: 24
        }]
    );
}

#[test]
fn truncated_chunk_fills_the_channels_in_order() {
    let whole = segment(FIRST)
        .plain(A, I32, 2)
        .plain(B, I16, 3)
        .i32s([1, 2])
        .raw([10, 0, 11, 0, 12]);
    for (sut, fault) in [
        (whole.clone().not_closed(), Fault::NotClosed),
        (whole.says(1_000), Fault::TruncatedData { missing: 911 }),
    ] {
        let bytes = file([sut]);
        assert_eq!(i32s(&bytes, "a"), [1, 2]);
        assert_eq!(values(&bytes, "b"), Values::I16(vec![10, 11]));
        let file = TdmsFile::open(&bytes).unwrap();
        let report = file.report();
        assert_eq!(report.incomplete.unwrap().fault, fault);
        assert_eq!(report.bytes_lost, 1);
    }
}

#[test]
fn digital_lines_are_read_as_bits_of_words() {
    let line = |sut: segments::Segment, path, bit, id| {
        sut.daqmx(path, true, (0xffff_ffff, 3), &[(0, 0, bit, id)], &[2])
    };
    let bytes = file([
        line(line(segment(FIRST), A, 3, 0), B, 8, 7).raw([0x08, 0x00, 0xf7, 0xff, 0x08, 0x01])
    ]);
    assert_eq!(values(&bytes, "a"), Values::U8(vec![1, 0, 1]));
    assert_eq!(values(&bytes, "b"), Values::U8(vec![0, 1, 1]));
}

/// The digital lines are as wide as the rows, so they are stored like plain bytes but read as bits.
#[test]
fn digital_lines_are_bits_where_a_row_is_one_byte() {
    let line = |bit| {
        let sut = segment(FIRST).daqmx(A, true, (0xffff_ffff, 3), &[(0, 0, bit, 0)], &[1]);
        file([sut.raw([0x08, 0xf7, 0x18])])
    };
    assert_eq!(values(&line(3), "a"), Values::U8(vec![1, 0, 1]));
    assert_eq!(values(&line(4), "a"), Values::U8(vec![0, 1, 1]));
}

#[test]
fn daqmx_channels_have_several_scalers_buffers_and_byte_orders() {
    for toc in [FIRST, FIRST | BIG_ENDIAN] {
        let sut = segment(toc);
        let mut raw = Vec::new();
        for row in 0..3 {
            raw.extend(sut.u32(row));
            raw.push(100 + row as u8);
        }
        for row in 0..2 {
            raw.extend(sut.u32(10 + row));
        }
        let widths = [5, 4];
        let both = [(5, 0, 0, 0), (0, 0, 4, 1)];
        let bytes = file([sut
            .daqmx(A, false, (0xffff_ffff, 3), &both, &widths)
            // This channel has an ordinary type instead of the DAQmx type.
            .daqmx(B, false, (I32, 2), &[(5, 1, 0, 0)], &widths)
            .raw(raw.clone())
            .raw(raw)]);
        let file = TdmsFile::open(&bytes).unwrap();
        assert!(file.report().is_sound());
        let a = file.channel(&ObjectPath::channel("g", "a")).unwrap();
        let words = Values::I32(vec![0, 1, 2, 0, 1, 2]);
        assert_eq!(a.read_scaler(0, 0, 99).unwrap(), words);
        let bytes_of = Values::U8(vec![100, 101, 102, 100, 101, 102]);
        assert_eq!(a.read_scaler(1, 0, 99).unwrap(), bytes_of);
        let error = a.read(0, 1).unwrap_err().to_string();
        assert_eq!(error, "/'g'/'a' has 2 DAQmx scalers; specify one of them");
        let error = a.read_scaler(7, 0, 1).unwrap_err().to_string();
        let sentence = "/'g'/'a' has no DAQmx scaler with the id 7; use one of 0, 1";
        assert_eq!(error, sentence);
        let b = file.channel(&ObjectPath::channel("g", "b")).unwrap();
        assert_eq!(b.read(0, 99).unwrap(), Values::I32(vec![10, 11, 10, 11]));
    }
}

#[test]
fn values_are_read_only_with_their_own_type() {
    let bytes = file([segment(FIRST).plain(A, I32, 1).i32s([1])]);
    let file = TdmsFile::open(&bytes).unwrap();
    let a = file.channel(&ObjectPath::channel("g", "a")).unwrap();
    let error = a.read_into(0, &mut [0_u32]).unwrap_err().to_string();
    assert_eq!(error, "/'g'/'a' has the type i32 and cannot be read as u32");
    assert!(a.read_strings(0, 1).is_err());
    let mut numbers = [0.0; 2];
    assert_eq!(a.read_f64_into(0, &mut numbers).unwrap(), 1);
    assert_eq!(numbers, [1.0, 0.0]);
}
