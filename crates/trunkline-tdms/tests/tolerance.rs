//! Tests which deviations the reader tolerates, and which deviations it refuses with their
//! position.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

mod dump;
mod segments;

use std::path::Path;

use trunkline_tdms::{
    Fault, Finding, Limits, ObjectPath, OpenError, PropertyValue, ReadError, TdmsFile, TdmsType,
    Values,
};

use self::dump::dump_of;
use self::segments::{FIRST, I8, I32, INTERLEAVED, META, NEW_LIST, RAW, Segment, file, segment};

const A: &str = "/'g'/'a'";
const B: &str = "/'g'/'b'";

fn one() -> Segment {
    segment(FIRST).plain(A, I32, 1).i32s([1])
}

fn refused(bytes: &[u8]) -> Finding {
    match TdmsFile::open(bytes) {
        Err(OpenError::Refused(finding)) => finding,
        other => panic!("{other:?}"),
    }
}

/// Returns the values of channel `a`, and the faults found.
fn tolerated(bytes: &[u8]) -> (Vec<i32>, Vec<Fault>) {
    let file = TdmsFile::open(bytes).unwrap();
    let report = file.report();
    let all = report.incomplete.into_iter().chain(report.findings);
    let faults = all.map(|finding| finding.fault.clone()).collect();
    let a = file.channel(&ObjectPath::channel("g", "a"));
    match a.map(|a| a.read(0, 1_000).unwrap()) {
        Some(Values::I32(values)) => (values, faults),
        _ => (Vec::new(), faults),
    }
}

#[test]
fn tail_that_is_not_a_segment_is_ignored() {
    let good = one().bytes();
    for tail in [vec![0; 5_000], b"no segment at all, only words".to_vec()] {
        let bytes = [good.clone(), tail.clone()].concat();
        let fault = Fault::Garbage {
            bytes: tail.len() as u64,
        };
        assert_eq!(tolerated(&bytes), (vec![1], vec![fault]));
        let file = TdmsFile::open(&bytes).unwrap();
        let report = file.report();
        assert_eq!(report.incomplete.unwrap().position, good.len() as u64);
        assert_eq!(report.bytes_lost, tail.len() as u64);
    }
}

#[test]
fn torn_lead_in_or_metadata_is_ignored() {
    let good = one().bytes();
    let next = segment(META | RAW).plain(A, I32, 2).i32s([2, 3]).bytes();
    let at = |bytes: usize| [&good[..], &next[..bytes]].concat();
    let truncated = Fault::TruncatedLeadIn { bytes: 27 };
    assert_eq!(tolerated(&at(27)), (vec![1], vec![truncated]));
    let truncated = Fault::TruncatedMetadata { missing: 36 };
    assert_eq!(tolerated(&at(32)), (vec![1], vec![truncated]));
    assert_eq!(tolerated(&[]), (vec![], vec![Fault::Empty]));
}

#[test]
fn wrong_flags_versions_and_lengths_are_reported() {
    let mut strange = segment(FIRST | 0x8000_0001).plain(A, I32, 1).i32s([1]);
    strange.version = 4711;
    let quiet = segment(META | NEW_LIST).plain(A, I32, 1).i32s([2]);
    let empty = segment(RAW);
    let (values, faults) = tolerated(&file([strange, quiet, empty]));
    assert_eq!(values, [1, 2]);
    let expected = [
        Fault::UnknownVersion { version: 4711 },
        Fault::UnknownFlags { bits: 0x8000_0001 },
        Fault::VersionChange { version: 4713 },
        Fault::UnannouncedData,
    ];
    assert_eq!(faults, expected);
}

#[test]
fn empty_and_void_channels_exist() {
    let bytes = file([segment(META | NEW_LIST | RAW)
        .plain(A, I32, 0)
        .plain(B, 0, 0)]);
    let file = TdmsFile::open(&bytes).unwrap();
    assert!(file.report().is_sound());
    let types: Vec<_> = file.channels().map(|c| (c.data_type(), c.len())).collect();
    assert_eq!(types, [(TdmsType::I32, 0), (TdmsType::Void, 0)]);
}

#[test]
fn unreadable_data_loses_only_its_segment() {
    let after = || segment(FIRST).plain(A, I32, 1).i32s([2]);
    let b = || ObjectPath::channel("g", "b");
    let unreadable = |data_type| Fault::UnreadableType {
        path: b(),
        data_type,
    };
    let fixed_point = TdmsType::Unknown(0x4f);
    let cases = [
        (
            segment(FIRST)
                .plain(A, I32, 1)
                .plain(B, 0x4f, 1)
                .raw([0; 20]),
            unreadable(fixed_point),
        ),
        (
            segment(FIRST).plain(A, I32, 1).plain(B, 0, 1).raw([0; 20]),
            unreadable(TdmsType::Void),
        ),
        (
            segment(FIRST | INTERLEAVED)
                .plain(A, I32, 1)
                .plain(B, I8, 2)
                .raw([0; 6]),
            Fault::UnequalRows,
        ),
        (
            segment(FIRST | INTERLEAVED)
                .plain(A, I32, 1)
                .strings(B, 1, 5)
                .raw([0; 9]),
            Fault::InterleavedStrings,
        ),
        (
            segment(FIRST).strings(B, 3, 11).raw([0; 11]),
            Fault::BadStrings,
        ),
        (
            segment(FIRST)
                .plain(A, I32, 1)
                .daqmx(B, false, (u32::MAX, 1), &[(3, 0, 0, 0)], &[2])
                .raw([0; 6]),
            Fault::MixedDaqmx,
        ),
        (
            segment(FIRST)
                .daqmx(B, false, (u32::MAX, 1), &[(3, 0, 1, 0)], &[2])
                .raw([0; 2]),
            Fault::BadDaqmx { path: b() },
        ),
        (
            segment(FIRST)
                .plain(A, I32, u64::MAX / 4)
                .plain(B, I8, u64::MAX / 4)
                .raw([0; 2]),
            Fault::Overflow,
        ),
        (
            segment(FIRST).no_data(A).raw([0; 7]),
            Fault::UnassignedData { bytes: 7 },
        ),
        (
            segment(FIRST)
                .object(B, &0x1369_u32.to_le_bytes())
                .raw([0; 7]),
            Fault::BadMetadata {
                problem: "a raw data index has an unknown kind",
            },
        ),
    ];
    for (broken, fault) in cases {
        let (values, faults) = tolerated(&file([one(), broken, after()]));
        assert_eq!(values, [1, 2], "{fault}");
        assert_eq!(faults[0], fault);
    }
}

#[test]
fn unreadable_property_loses_the_rest_of_its_block() {
    let strange = segment(META | RAW)
        .same_as_before(A)
        .with_property(b"good", I8, &[7])
        .plain(B, I32, 1)
        .with_property(b"bad", 0x4f, &[0; 16])
        .i32s([2, 10]);
    let bytes = file([
        one(),
        strange,
        // The list is unknown, even if a later segment continues it.
        segment(RAW).i32s([3, 11]),
        // The index is unknown too.
        segment(FIRST).same_as_before(A).i32s([4]),
        segment(FIRST).plain(A, I32, 1).i32s([5]),
        segment(RAW).i32s([6]),
    ]);
    let (values, faults) = tolerated(&bytes);
    assert_eq!(values, [1, 5, 6]);
    let unknown = "a property has an unknown type";
    let relies = "the segment relies on metadata that could not be read";
    assert_eq!(faults[0], Fault::BadMetadata { problem: unknown });
    assert_eq!(faults[1..3], [Fault::LostMetadata, Fault::LostMetadata]);
    assert_eq!(faults[3], Fault::BadMetadata { problem: relies });
    let file = TdmsFile::open(&bytes).unwrap();
    let a = file.properties(&ObjectPath::channel("g", "a")).unwrap();
    assert_eq!(a[b"good".as_slice()], PropertyValue::I8(7));
}

#[test]
fn strings_whose_ends_do_not_fit_are_not_read() {
    let sut = |ends: [u32; 3]| {
        let ends: Vec<u8> = ends.iter().flat_map(|end| end.to_le_bytes()).collect();
        file([segment(FIRST).strings(A, 3, 15).raw(ends).raw(*b"abc")])
    };
    let path = ObjectPath::channel("g", "a");
    for (ends, at) in [([1, 0, 3], 1), ([4, 4, 4], 0), ([1, 2, u32::MAX], 2)] {
        let bytes = sut(ends);
        let file = TdmsFile::open(&bytes).unwrap();
        let a = file.channel(&path).unwrap();
        assert_eq!(a.read_strings(0, at).unwrap().len() as u64, at);
        let Err(ReadError::Damaged { finding, .. }) = a.read_strings(0, 3) else {
            panic!("{ends:?} was read");
        };
        let table = bytes.len() as u64 - 15;
        let fault = Fault::BadStrings;
        let position = table + 4 * at;
        assert_eq!(finding, Finding { position, fault });
    }
}

#[test]
fn contradictions_are_refused_with_their_position() {
    let position = one().bytes().len() as u64;
    let path = || ObjectPath::channel("g", "a");
    let mut long = segment(FIRST).plain(A, I32, 1);
    long.metadata_bytes = Some(1_000);
    let index = one().index(20, I32, 2, 1);
    // After the lead-in, the count of objects, and the path with its length.
    let entry = position + 28 + 4;
    let raw_index = entry + 4 + A.len() as u64;
    let cases = [
        (
            long.says(999),
            position,
            Fault::MetadataBeyondSegment {
                metadata: 1_000,
                segment: 999,
            },
        ),
        (
            segment(FIRST).object(A, &index),
            raw_index + 8,
            Fault::Dimensions {
                path: path(),
                dimensions: 2,
            },
        ),
        (
            segment(FIRST).same_as_before(B),
            raw_index,
            Fault::NoPreviousDescription {
                path: ObjectPath::channel("g", "b"),
            },
        ),
        (
            segment(FIRST).plain(A, I8, 1),
            raw_index,
            Fault::TypeChange {
                path: path(),
                before: TdmsType::I32,
                now: TdmsType::I8,
            },
        ),
        (
            segment(FIRST).no_data("/'g'x"),
            entry,
            Fault::Path(ObjectPath::parse(b"/'g'x").unwrap_err()),
        ),
    ];
    for (broken, at, fault) in cases {
        let bytes = file([one(), broken, one()]);
        let finding = refused(&bytes);
        assert_eq!(finding.fault, fault);
        assert_eq!(finding.position, at, "{fault}");
        // Salvaging keeps the data before and after the fault, and reports the same fault.
        let limits = Limits {
            is_salvaging: true,
            ..Limits::default()
        };
        let file = TdmsFile::open_with(&bytes, limits).unwrap();
        let report = file.report();
        assert_eq!(report.incomplete, None);
        assert_eq!(report.findings, [finding]);
        let sound = 2 * one().bytes().len() as u64;
        assert_eq!(report.bytes_skipped, bytes.len() as u64 - sound);
        assert_eq!(file.channel(&path()).unwrap().len(), 2);
    }
}

#[test]
fn other_files_are_refused() {
    let index = [b"TDSh", &one().bytes()[4..]].concat();
    assert_eq!(refused(&index).fault, Fault::IndexFile);
    let tag = b"RIFF".to_vec();
    assert_eq!(refused(b"RIFF....").fault, Fault::NotTdms { tag });
    let tag = b"TX".to_vec();
    assert_eq!(refused(b"TX").fault, Fault::NotTdms { tag });
    // Printable bytes are shown unchanged.
    let text =
        "byte 0: this is not a TDMS file, because it begins with `{\"a\\n` instead of `TDSm`";
    assert_eq!(refused(b"{\"a\n").to_string(), text);
    let error = refused(&segment(RAW).i32s([1]).bytes());
    assert_eq!(
        error.to_string(),
        "byte 0: the first segment has no metadata"
    );
    let Err(OpenError::Refused(finding)) = TdmsFile::open_index(one().bytes(), Limits::default())
    else {
        panic!("a data file was opened as an index");
    };
    let tag = b"TDSm".to_vec();
    assert_eq!(finding.fault, Fault::NotIndex { tag });
}

#[test]
fn limits_hold() {
    let limits = Limits {
        objects_max: 3,
        path_bytes_max: 8,
        ..Limits::default()
    };
    let open = |bytes: Vec<u8>| match TdmsFile::open_with(bytes, limits) {
        Ok(_) => None,
        Err(OpenError::Refused(finding)) => Some(finding.fault),
        Err(other) => panic!("{other}"),
    };
    assert_eq!(open(one().bytes()), None);
    let more = one().plain(B, I32, 1).bytes();
    assert_eq!(open(more), Some(Fault::TooManyObjects { limit: 3 }));
    let long = one().plain("/'g'/'aa'", I32, 1).bytes();
    let expected = Fault::LongPath { bytes: 9, limit: 8 };
    assert_eq!(open(long), Some(expected));
}

/// Behaviour: B-70.
#[test]
fn every_vector_opens_when_truncated_anywhere() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/tdms");
    for name in ["one_channel", "five_segments", "big_endian_time", "daqmx"] {
        let whole = std::fs::read(folder.join(format!("{name}.tdms"))).unwrap();
        let text = |bytes: &[u8]| {
            let file = TdmsFile::open(bytes).unwrap();
            dump_of(&file).unwrap().text()
        };
        let all = text(&whole);
        let values = |text: &str| -> Vec<String> {
            let lines = text.lines().filter(|line| line.starts_with(['d', 's']));
            lines
                .map(|line| line.split(' ').next_back().unwrap().to_owned())
                .collect()
        };
        let all = values(&all);
        for cut in 0..whole.len() {
            let file = TdmsFile::open(&whole[..cut]).unwrap();
            let report = file.report();
            // A file that is truncated between segments looks complete.
            let is_at_end = report.incomplete.is_none();
            assert!(
                !is_at_end || whole[cut..].starts_with(b"TDSm"),
                "{name} {cut}"
            );
            for found in values(&text(&whole[..cut])) {
                let is_prefix = all.iter().any(|all| all.starts_with(&found));
                assert!(is_prefix, "{name} cut at {cut}: {found}");
            }
        }
    }
}

/// Found by the fuzzer: the end of the last chunk overflowed.
#[test]
fn last_chunk_with_an_impossible_length_has_the_existing_values() {
    let claimed = segment(FIRST).plain(A, I8, u64::MAX - 1).raw([7, 8, 9]);
    let bytes = file([
        segment(FIRST).plain(A, I8, 2).raw([5, 6]),
        claimed.not_closed(),
    ]);
    let file = TdmsFile::open(&bytes).unwrap();
    let a = file.channel(&ObjectPath::channel("g", "a")).unwrap();
    assert_eq!(a.read(0, 9).unwrap(), Values::I8(vec![5, 6, 7, 8, 9]));
    assert!(a.chunks().eq([0..2, 2..5]));
}
