//! Tests the content of the segments that the writer builds, and the data that it refuses.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

use trunkline_tdms::{
    Arrangement, ChannelAmount, ChannelId, Data, ObjectPath, PropertyValue, SegmentPlace, TdmsFile,
    TdmsType, Text, Values, Version, WriteError, Writer, WriterOptions, lengthen_segment,
};

const CONTIGUOUS: Arrangement = Arrangement::Contiguous;
const INTERLEAVED: Arrangement = Arrangement::Interleaved;

/// A writer with channels a (i32), b (i32) and s (strings).
fn sut(options: WriterOptions) -> (Writer, [ChannelId; 3]) {
    let mut sut = Writer::new(options);
    let a = sut.channel("g", "a", TdmsType::I32).unwrap();
    let b = sut.channel("g", "b", TdmsType::I32).unwrap();
    let s = sut.channel("g", "s", TdmsType::String).unwrap();
    (sut, [a, b, s])
}

fn toc(bytes: &[u8], place: SegmentPlace) -> u8 {
    bytes[place.position as usize + 4]
}

#[test]
fn segment_describes_only_changes() {
    let (mut sut, [a, b, s]) = sut(WriterOptions::default());
    let mut bytes = Vec::new();
    let mut write = |sut: &mut Writer, data: &[(ChannelId, Data<'_>)], arrangement| {
        let place = sut.write(data, arrangement, &mut bytes).unwrap();
        (toc(&bytes, place), place.header_bytes - 28)
    };
    let one: &[i32] = &[1];
    let two: &[i32] = &[1, 2];
    let texts = [Text::from("x")];
    let both = [(a, one.into()), (b, one.into())];
    let entry = 4 + 8;
    // The file, the group and s without data; a and b with an index of 20 bytes.
    let all = 4 + (4 + 1 + 8) + (4 + 4 + 8) + (entry + 8) + 2 * (entry + 24);
    assert_eq!(write(&mut sut, &both, CONTIGUOUS), (0x0e, all));
    assert_eq!(write(&mut sut, &both, CONTIGUOUS), (0x08, 0));
    assert_eq!(write(&mut sut, &both, INTERLEAVED), (0x28, 0));
    // Only the number of values of b differs.
    let more_b = [(a, one.into()), (b, two.into())];
    assert_eq!(write(&mut sut, &more_b, CONTIGUOUS), (0x0a, 4 + entry + 24));
    // A property of a: its index is unchanged.
    let path = ObjectPath::channel("g", "a");
    sut.set(&path, "p", true).unwrap();
    let property = 4 + 1 + 4 + 1;
    let expected = (0x0a, 4 + entry + 8 + property);
    assert_eq!(write(&mut sut, &more_b, CONTIGUOUS), expected);
    // Channel s keeps the position before a and b that it had in the first segment.
    let first_s = [(s, (&texts).into()), (a, one.into()), (b, two.into())];
    assert_eq!(
        write(&mut sut, &first_s, CONTIGUOUS),
        (0x0a, 4 + entry + 32)
    );
    // A channel leaves the list and the order changes, so a new list reuses the known indexes.
    let only_b = [(b, two.into())];
    assert_eq!(write(&mut sut, &only_b, CONTIGUOUS), (0x0e, 4 + entry + 8));
    let other = [(b, two.into()), (a, one.into())];
    assert_eq!(write(&mut sut, &other, CONTIGUOUS), (0x0a, 4 + entry + 8));
    assert_eq!(write(&mut sut, &both, CONTIGUOUS).0, 0x0e);
    // Properties alone do not change the data.
    sut.set(&path, "p", false).unwrap();
    assert_eq!(
        write(&mut sut, &[], CONTIGUOUS),
        (0x02, 4 + entry + 8 + property)
    );
    assert_eq!(write(&mut sut, &both, CONTIGUOUS), (0x08, 0));
    let place = sut.write(&[], CONTIGUOUS, &mut bytes).unwrap();
    assert_eq!((place.header_bytes, place.raw_bytes), (0, 0));

    let file = TdmsFile::open(&bytes).unwrap();
    assert!(file.report().is_sound());
    let length = |name| file.channel(&ObjectPath::channel("g", name)).unwrap().len();
    assert_eq!([length("a"), length("b"), length("s")], [9, 15, 1]);
    let properties = file.properties(&path).unwrap();
    assert_eq!(properties[b"p".as_slice()], PropertyValue::Bool(false));
}

#[test]
fn raw_data_is_block_aligned_wherever_the_segment_begins() {
    let (mut sut, [a, b, _]) = sut(WriterOptions {
        block_bytes: Some(4096.try_into().unwrap()),
        ..WriterOptions::default()
    });
    let mut bytes = Vec::new();
    for length in [1024, 1024, 7, 1024] {
        let values: Vec<i32> = (0..length).collect();
        let data = [(a, values.as_slice().into()), (b, values.as_slice().into())];
        let place = sut.write(&data, CONTIGUOUS, &mut bytes).unwrap();
        assert_eq!((place.position + place.header_bytes) % 4096, 0);
        assert_eq!(toc(&bytes, place) & 0x0a, 0x0a);
    }
    let file = TdmsFile::open(&bytes).unwrap();
    assert!(file.report().is_sound());
    assert_eq!(file.channels().map(|c| c.len()).sum::<u64>(), 2 * 3079);
}

/// Behaviour: ZC-13.
#[test]
fn padding_segment_aligns_the_next_one() {
    let (mut sut, [a, ..]) = sut(WriterOptions {
        block_bytes: Some(512.try_into().unwrap()),
        ..WriterOptions::default()
    });
    let mut bytes = Vec::new();
    let mut lengths = Vec::new();
    // The distances to the next block are 0, 4, 28, 32, 36 and 508 bytes; a segment needs 32.
    for length in [128, 127, 121, 120, 119, 1] {
        let values: Vec<i32> = (0..length).collect();
        let data = [(a, values.as_slice().into())];
        sut.write(&data, CONTIGUOUS, &mut bytes).unwrap();
        lengths.push(sut.pad(&mut bytes).unwrap().header_bytes);
        assert_eq!(sut.position(), bytes.len() as u64);
        assert_eq!(bytes.len() % 512, 0);
    }
    assert_eq!(lengths, [0, 516, 540, 32, 36, 508]);
    let file = TdmsFile::open(&bytes).unwrap();
    assert!(file.report().is_sound());
    let a = file.channel(&ObjectPath::channel("g", "a")).unwrap();
    assert_eq!(a.len(), 128 + 127 + 121 + 120 + 119 + 1);
    let mut last = [0; 2];
    a.read_into(a.len() - 2, &mut last).unwrap();
    assert_eq!(last, [118, 0]);

    let (mut sut, _) = self::sut(WriterOptions::default());
    assert_eq!(sut.pad(&mut bytes).unwrap().header_bytes, 0);
}

/// The caller writes the raw data separately from the header.
#[test]
fn header_and_separate_raw_data_form_a_segment() {
    let (mut sut, [a, b, _]) = sut(WriterOptions::default());
    let raw: Vec<u8> = [1_i32, 10, 2, 11]
        .iter()
        .flat_map(|v| v.to_le_bytes())
        .collect();
    let amounts = [a, b].map(|channel| ChannelAmount {
        channel,
        count: 2,
        bytes: 0,
    });
    let mut bytes = Vec::new();
    for _ in 0..3 {
        let place = sut.header(&amounts, INTERLEAVED, &mut bytes).unwrap();
        assert_eq!(place.raw_bytes, raw.len() as u64);
        bytes.extend(&raw);
        assert_eq!(sut.position(), bytes.len() as u64);
    }
    let file = TdmsFile::open(&bytes).unwrap();
    let b = file.channel(&ObjectPath::channel("g", "b")).unwrap();
    let expected = vec![10, 11, 10, 11, 10, 11];
    assert_eq!(b.read(0, 9).unwrap(), Values::I32(expected));
}

/// Later chunks have no header, and the length in the first header includes them.
#[test]
fn chunks_extend_the_last_segment_while_nothing_changes() {
    let (mut sut, [a, b, _]) = sut(WriterOptions::default());
    let amounts = |count| {
        [a, b].map(|channel| ChannelAmount {
            channel,
            count,
            bytes: 0,
        })
    };
    let mut bytes = Vec::new();
    assert_eq!(
        sut.add_chunk(&amounts(2), INTERLEAVED),
        None,
        "nothing is there"
    );
    for first in [0, 100] {
        let mut header = Vec::new();
        let place = sut.header(&amounts(2), INTERLEAVED, &mut header).unwrap();
        let mut raw = Vec::new();
        let chunk = |from: i32| {
            let rows = [from, -from, from + 1, -from - 1];
            rows.into_iter().flat_map(i32::to_le_bytes)
        };
        raw.extend(chunk(first));
        for more in 1..4 {
            let added = sut.add_chunk(&amounts(2), INTERLEAVED);
            assert_eq!(added, Some(place.raw_bytes));
            raw.extend(chunk(first + 2 * more));
            lengthen_segment(&mut header, added.unwrap());
        }
        bytes.extend(header.into_iter().chain(raw));
        assert_eq!(sut.position(), bytes.len() as u64);
    }
    let file = TdmsFile::open(&bytes).unwrap();
    assert!(file.report().is_sound());
    assert_eq!(file.report().segments, 2);
    let b = file.channel(&ObjectPath::channel("g", "b")).unwrap();
    let expected: Vec<i32> = (0..8).chain(100..108).map(|n| -n).collect();
    assert_eq!(b.read(0, 99).unwrap(), Values::I32(expected));
    // All other changes need a new header.
    assert_eq!(sut.add_chunk(&amounts(3), INTERLEAVED), None);
    assert_eq!(sut.add_chunk(&amounts(2), CONTIGUOUS), None);
    assert_eq!(sut.add_chunk(&amounts(2)[..1], INTERLEAVED), None);
    sut.set(&ObjectPath::File, "operator", "M").unwrap();
    assert_eq!(sut.add_chunk(&amounts(2), INTERLEAVED), None);
    sut.header(&[], INTERLEAVED, &mut Vec::new()).unwrap();
    assert_eq!(
        sut.add_chunk(&amounts(2), INTERLEAVED),
        None,
        "it has no values"
    );
    // Bytes that are not a header are left unchanged.
    let mut short = [7; 27];
    lengthen_segment(&mut short, 1);
    assert_eq!(short, [7; 27]);
}

#[test]
fn a_second_writer_appends_where_the_first_ended() {
    let mut bytes = Vec::new();
    for round in 0..3_i32 {
        let (mut sut, [a, ..]) = sut(WriterOptions {
            position: bytes.len() as u64,
            ..WriterOptions::default()
        });
        let values = [round];
        let data = [(a, (&values).into())];
        let place = sut.write(&data, CONTIGUOUS, &mut bytes).unwrap();
        assert_eq!(place.position + place.header_bytes + 4, bytes.len() as u64);
    }
    let file = TdmsFile::open(&bytes).unwrap();
    let a = file.channel(&ObjectPath::channel("g", "a")).unwrap();
    assert_eq!(a.read(0, 9).unwrap(), Values::I32(vec![0, 1, 2]));
}

#[test]
fn unwritable_data_is_refused_without_writing() {
    let (mut sut, [a, b, s]) = sut(WriterOptions::default());
    let mut bytes = Vec::new();
    let path = |name: &str| ObjectPath::channel("g", name);
    let mut refuse = |data: &[(ChannelId, Data<'_>)], arrangement| {
        let error = sut.write(data, arrangement, &mut bytes).unwrap_err();
        assert!(bytes.is_empty());
        assert!(!error.to_string().is_empty());
        error
    };
    let (one, two): (&[i32], &[i32]) = (&[1], &[1, 2]);
    let texts = [Text::from("x")];
    assert_eq!(
        refuse(&[(a, (&[1_i16]).into())], CONTIGUOUS),
        WriteError::TypeChange {
            path: path("a"),
            before: TdmsType::I32,
            now: TdmsType::I16
        }
    );
    assert_eq!(
        refuse(&[(a, one.into()), (a, one.into())], CONTIGUOUS),
        WriteError::DuplicateChannel { path: path("a") }
    );
    assert_eq!(
        refuse(&[(a, one.into()), (b, two.into())], INTERLEAVED),
        WriteError::UnequalRows {
            path: path("b"),
            count: 2,
            before: 1
        }
    );
    assert_eq!(
        refuse(&[(a, one.into()), (s, (&texts).into())], INTERLEAVED),
        WriteError::InterleavedStrings { path: path("s") }
    );
    let amount = |channel, bytes| ChannelAmount {
        channel,
        count: u64::MAX / 4,
        bytes,
    };
    for (amounts, expected) in [
        (vec![amount(a, 0), amount(b, 0)], WriteError::FileTooLong),
        (
            vec![amount(s, 1 << 32)],
            WriteError::TooLong {
                path: path("s"),
                what: "text of one segment",
                bytes: 1 << 32,
                limit: u64::from(u32::MAX),
            },
        ),
    ] {
        let error = sut.header(&amounts, CONTIGUOUS, &mut bytes).unwrap_err();
        assert_eq!(error, expected);
    }
    assert!(bytes.is_empty());
    assert_eq!(sut.position(), 0);
    // The following segment is complete.
    sut.write(&[(a, one.into())], CONTIGUOUS, &mut bytes)
        .unwrap();
    assert!(TdmsFile::open(&bytes).unwrap().report().is_sound());
}

#[test]
fn types_names_and_versions_have_their_limits() {
    let (mut sut, [a, ..]) = sut(WriterOptions {
        version: Version::V1,
        ..WriterOptions::default()
    });
    let mut bytes = Vec::new();
    let error = sut.write(&[(a, (&[1]).into())], INTERLEAVED, &mut bytes);
    assert_eq!(error, Err(WriteError::InterleavedInVersion1));
    for data_type in [
        TdmsType::Void,
        TdmsType::Extended,
        TdmsType::F32WithUnit,
        TdmsType::Daqmx,
        TdmsType::Unknown(0x4f),
    ] {
        let path = ObjectPath::channel("g", "x");
        let expected = WriteError::Unwritable { path, data_type };
        assert_eq!(sut.channel("g", "x", data_type), Err(expected));
    }
    let error = sut.channel("g", "a", TdmsType::F64).unwrap_err();
    let expected = "/'g'/'a' has the type i32, which cannot change; write the f64 values to a channel with another name";
    assert_eq!(error.to_string(), expected);
    let long = "'".repeat(33_000);
    let error = sut.object(&ObjectPath::group(long)).unwrap_err();
    assert!(matches!(error, WriteError::TooLong { bytes: 66_003, .. }));
    let error = sut.set(&ObjectPath::File, "x", PropertyValue::Void);
    assert!(matches!(error, Err(WriteError::UnwritableProperty { .. })));
    let mut other = Writer::new(WriterOptions::default());
    let error = other.write(&[(a, (&[1]).into())], CONTIGUOUS, &mut bytes);
    assert_eq!(error, Err(WriteError::UnknownChannel));
}
