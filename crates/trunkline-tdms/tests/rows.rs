//! Tests rows that have the same layout in the file as in memory, and the conversion of other rows.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

use trunkline_tdms::{Arrangement, Data, ObjectPath, RowPlace, TdmsFile, TdmsType, Text, Writer};

const ALL: usize = 1000;

fn path(name: &str) -> ObjectPath {
    ObjectPath::channel("g", name)
}

/// A file with the channels `a` (I16) and `b` (F64), written in these pieces.
fn file(pieces: &[(usize, Arrangement)]) -> (Vec<u8>, Vec<u8>) {
    let mut writer = Writer::new(Default::default());
    let a = writer.channel("g", "a", TdmsType::I16).unwrap();
    let b = writer.channel("g", "b", TdmsType::F64).unwrap();
    let (mut bytes, mut rows, mut at) = (Vec::new(), Vec::new(), 0);
    for (count, arrangement) in pieces {
        let numbers: Vec<i16> = (at..at + *count as i16).collect();
        let halves: Vec<f64> = numbers.iter().map(|n| f64::from(*n) / 2.0).collect();
        let data = [(a, Data::from(&numbers[..])), (b, Data::from(&halves[..]))];
        writer.write(&data, *arrangement, &mut bytes).unwrap();
        for (number, half) in numbers.iter().zip(&halves) {
            rows.extend(number.to_le_bytes());
            rows.extend(half.to_le_bytes());
        }
        at += *count as i16;
    }
    (bytes, rows)
}

/// Behaviour: ZC-12, ZC-26.
#[test]
fn interleaved_rows_have_the_same_layout_in_file_and_memory() {
    let pieces = [10, 10, 3, 50].map(|count| (count, Arrangement::Interleaved));
    let (bytes, rows) = file(&pieces);
    let file = TdmsFile::open(&bytes).unwrap();
    let extents = file.rows_in_place(&[path("a"), path("b")], ALL).unwrap();
    assert_eq!(extents.iter().map(|extent| extent.rows).sum::<u64>(), 73);
    let there = extents.iter().flat_map(|extent| {
        let from = extent.position as usize;
        &bytes[from..from + extent.rows as usize * 10]
    });
    assert!(there.eq(&rows));
    // In another order, without one of them, or with a missing channel, the layout differs from
    // memory.
    assert_eq!(file.rows_in_place(&[path("b"), path("a")], ALL), None);
    assert_eq!(file.rows_in_place(&[path("a")], ALL), None);
    assert_eq!(file.rows_in_place(&[path("b")], ALL), None);
    assert_eq!(file.rows_in_place(&[path("a"), path("c")], ALL), None);
    assert_eq!(file.rows_in_place(&[], ALL), None);
    assert_eq!(file.rows_in_place(&[path("a"), path("b")], 1), None);
}

#[test]
fn one_contiguous_channel_is_in_place_and_several_are_not() {
    let pieces = [10, 3].map(|count| (count, Arrangement::Contiguous));
    let (bytes, _) = file(&pieces);
    let file = TdmsFile::open(&bytes).unwrap();
    let extents = file.rows_in_place(&[path("a")], ALL).unwrap();
    let there = extents.iter().flat_map(|extent| {
        let from = extent.position as usize;
        &bytes[from..from + extent.rows as usize * 2]
    });
    assert!(there.copied().eq((0..13_i16).flat_map(i16::to_le_bytes)));
    assert_eq!(file.rows_in_place(&[path("a"), path("b")], ALL), None);
}

#[test]
fn rows_in_several_chunks_are_not_in_place() {
    let pieces = [
        (10, Arrangement::Interleaved),
        (10, Arrangement::Contiguous),
    ];
    let (bytes, rows) = file(&pieces);
    let file = TdmsFile::open(&bytes).unwrap();
    assert_eq!(file.rows_in_place(&[path("a"), path("b")], ALL), None);
    // Reading value by value gives the same rows.
    let mut read = vec![0; rows.len()];
    for (name, offset) in [("a", 0), ("b", 2)] {
        let channel = file.channel(&path(name)).unwrap();
        let place = RowPlace {
            offset,
            row_bytes: 10,
        };
        assert_eq!(channel.read_into_rows(0, place, &mut read).unwrap(), 20);
        // A read that starts in the middle returns fewer values.
        let mut few = [0; 100];
        assert_eq!(channel.read_into_rows(15, place, &mut few).unwrap(), 5);
    }
    assert_eq!(read, rows);
}

#[test]
fn a_long_channel_is_read_into_rows_and_scaled_where_it_has_a_scale() {
    let mut writer = Writer::new(Default::default());
    let a = writer.channel("g", "a", TdmsType::I16).unwrap();
    for (name, value) in [
        ("NI_Scale[0]_Linear_Slope", 0.5),
        ("NI_Scale[0]_Linear_Y_Intercept", 1.0),
    ] {
        writer.set(&path("a"), name, value).unwrap();
    }
    writer
        .set(&path("a"), "NI_Scale[0]_Scale_Type", "Linear")
        .unwrap();
    writer
        .set(&path("a"), "NI_Number_Of_Scales", 1_u32)
        .unwrap();
    writer
        .set(&path("a"), "NI_Scaling_Status", "unscaled")
        .unwrap();
    let numbers: Vec<i16> = (0..10_000).collect();
    let mut bytes = Vec::new();
    let data = [(a, Data::from(&numbers[..]))];
    writer
        .write(&data, Arrangement::Contiguous, &mut bytes)
        .unwrap();
    let file = TdmsFile::open(&bytes).unwrap();
    let channel = file.channel(&path("a")).unwrap();
    let place = RowPlace {
        offset: 3,
        row_bytes: 12,
    };
    let mut rows = vec![7; 12 * 10_000];
    assert_eq!(
        channel.read_scaled_into_rows(0, place, &mut rows).unwrap(),
        10_000
    );
    for (row, number) in rows.chunks(12).zip(numbers) {
        let value = f64::from_le_bytes(row[3..11].try_into().unwrap());
        assert_eq!(value, f64::from(number) / 2.0 + 1.0);
        assert_eq!((row[0], row[11]), (7, 7), "the rest is left as it is");
    }
}

#[test]
fn strings_cannot_be_read_into_rows() {
    let mut writer = Writer::new(Default::default());
    let a = writer.channel("g", "a", TdmsType::String).unwrap();
    let texts = [Text::from("x"), Text::from("yz")];
    let mut bytes = Vec::new();
    let data = [(a, Data::from(&texts[..]))];
    writer
        .write(&data, Arrangement::Contiguous, &mut bytes)
        .unwrap();
    let file = TdmsFile::open(&bytes).unwrap();
    assert_eq!(file.rows_in_place(&[path("a")], ALL), None);
    let place = RowPlace {
        offset: 0,
        row_bytes: 4,
    };
    let channel = file.channel(&path("a")).unwrap();
    assert!(channel.read_into_rows(0, place, &mut [0; 8]).is_err());
}
