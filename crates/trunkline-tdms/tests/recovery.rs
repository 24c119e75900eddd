//! Putting files right, verifying them, and writing them anew.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod dump;
mod random_file;
mod segments;

use std::path::Path;

use proptest::prelude::*;
use trunkline_tdms::{
    Fault, Mending, ObjectPath, Repair, RewriteError, Scaling, TdmsFile, Text, Values, Version,
};

use self::dump::dump_of;
use self::random_file::random_file;
use self::segments::{BIG_ENDIAN, FIRST, I16, I32, INTERLEAVED, META, RAW, file, segment};

const A: &str = "/'g'/'a'";
const B: &str = "/'g'/'b'";

fn vector(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/tdms");
    std::fs::read(folder.join(name)).unwrap()
}

fn text(bytes: &[u8]) -> String {
    dump_of(&TdmsFile::open(bytes).unwrap()).unwrap().text()
}

fn values_of(bytes: &[u8]) -> u64 {
    let file = TdmsFile::open(bytes).unwrap();
    file.channels().map(|channel| channel.len()).sum()
}

/// Does what a repair asks for; and what it asked for.
fn mend(bytes: &[u8], mending: Mending) -> (Vec<u8>, Option<Repair>) {
    let mut mended = bytes.to_vec();
    let repair = TdmsFile::open(bytes).unwrap().repair(mending).unwrap();
    if let Some(repair) = &repair {
        mended.truncate(repair.length as usize);
        assert_eq!(mended.len() as u64 + repair.bytes_lost, bytes.len() as u64);
        if let Some((at, patch)) = repair.patch {
            mended[at as usize..at as usize + 8].copy_from_slice(&patch);
        }
        let lost = values_of(bytes)
            - if mended.is_empty() {
                0
            } else {
                values_of(&mended)
            };
        assert_eq!(lost, repair.values_lost);
    }
    (mended, repair)
}

/// Behaviour: B-70.
#[test]
fn what_a_repair_loses_is_said() {
    let torn = segment(FIRST)
        .plain(A, I32, 2)
        .plain(B, I16, 2)
        .i32s([1, 2])
        .raw([10, 0, 11, 0])
        .i32s([3])
        .not_closed();
    let bytes = file([segment(FIRST).plain(A, I32, 1).i32s([0]), torn]);
    let (closed, repair) = mend(&bytes, Mending::Close);
    let repair = repair.unwrap();
    assert_eq!(repair.finding.fault, Fault::NotClosed);
    assert_eq!((repair.bytes_lost, repair.values_lost), (4, 1));
    assert!(TdmsFile::open(&closed).unwrap().report().is_sound());
    assert_eq!(values_of(&closed), 5);

    let (cut, repair) = mend(&bytes, Mending::Cut);
    let repair = repair.unwrap();
    assert_eq!((repair.patch, repair.values_lost), (None, 5));
    assert_eq!(cut, bytes[..cut.len()]);
    assert_eq!(values_of(&cut), 1);
    assert_eq!(mend(&cut, Mending::Cut).1, None);
}

#[test]
fn closing_keeps_whole_rows_and_the_byte_order() {
    for toc in [INTERLEAVED | FIRST, INTERLEAVED | FIRST | BIG_ENDIAN] {
        let sut = segment(toc).plain(A, I32, 3).plain(B, I32, 3);
        let bytes = sut.i32s([1, 10, 2, 11, 3]).says(5_000).bytes();
        let (closed, repair) = mend(&bytes, Mending::Close);
        let repair = repair.unwrap();
        assert_eq!((repair.bytes_lost, repair.values_lost), (4, 0));
        let file = TdmsFile::open(&closed).unwrap();
        assert_eq!(file.report().incomplete, None);
        let b = file.channel(&ObjectPath::channel("g", "b")).unwrap();
        assert_eq!(b.read(0, 9).unwrap(), Values::I32(vec![10, 11]));
    }
}

#[test]
fn every_cut_of_a_vector_is_mended() {
    for name in ["one_channel", "five_segments", "big_endian_time", "daqmx"] {
        let whole = vector(&format!("{name}.tdms"));
        for cut in 0..=whole.len() {
            for mending in [Mending::Cut, Mending::Close] {
                let (mended, repair) = mend(&whole[..cut], mending);
                if mended.is_empty() {
                    continue;
                }
                let file = TdmsFile::open(&mended).unwrap();
                assert_eq!(file.report().incomplete, None, "{name} {cut} {repair:?}");
                assert_eq!(file.repair(mending).unwrap(), None);
                let mut index = Vec::new();
                file.write_index(&mut index).unwrap();
                let verified = file.verify(Some(&index)).unwrap();
                assert_eq!(verified.is_index_same, Some(true));
                assert_eq!(verified.values, values_of(&mended));
            }
        }
    }
}

#[test]
fn verifying_finds_torn_ends_bad_strings_and_other_indexes() {
    let bytes = vector("five_segments.tdms");
    let index = vector("five_segments.tdms_index");
    let file = TdmsFile::open(&bytes).unwrap();
    let sut = file.verify(Some(&index)).unwrap();
    assert_eq!(sut.findings.len(), 1);
    assert_eq!(sut.findings[0].fault, Fault::NotClosed);
    assert_eq!((sut.channels, sut.values), (3, 18));
    assert_eq!(sut.is_index_same, Some(true));
    assert_eq!(file.verify(None::<&[u8]>).unwrap().is_index_same, None);
    let mut written = Vec::new();
    file.write_index(&mut written).unwrap();
    assert_eq!(written, index);
    for at in 0..index.len() {
        let mut other = index.clone();
        other[at] ^= 1;
        let sut = file.verify(Some(&other)).unwrap();
        assert_eq!(sut.is_index_same, Some(false), "byte {at}");
        let sut = file.verify(Some(&index[..at])).unwrap();
        assert_eq!(sut.is_index_same, Some(false), "cut at {at}");
    }
    let mut broken = bytes.clone();
    // The end of the middle string, beyond that of the last.
    broken[0x156] = 9;
    let sut = TdmsFile::open(&broken)
        .unwrap()
        .verify(Some(&index))
        .unwrap();
    assert_eq!(sut.findings[1].fault, Fault::BadStrings);
    assert_eq!(sut.findings[1].position, 0x156);
}

#[test]
fn daqmx_becomes_plain_with_its_scales() {
    let linear = |sut: segments::Segment| {
        sut.no_data(A)
            .with_property(b"NI_Scale[1]_Scale_Type", 0x20, b"\x06\0\0\0Linear")
            .no_data(A)
            .with_property(b"NI_Scale[1]_Linear_Slope", 10, &2.0_f64.to_le_bytes())
            .no_data(A)
            .with_property(
                b"NI_Scale[1]_Linear_Y_Intercept",
                10,
                &1.0_f64.to_le_bytes(),
            )
            .no_data(A)
            .with_property(b"NI_Scale[1]_Linear_Input_Source", 7, &[0; 4])
    };
    let bytes = file([
        segment(FIRST)
            .daqmx(A, false, (u32::MAX, 2), &[(3, 0, 0, 0)], &[2])
            .raw([5, 0, 0xff, 0xff]),
        linear(segment(META)),
    ]);
    let mut anew = Vec::new();
    let before = TdmsFile::open(&bytes).unwrap();
    before.rewrite(Version::V2, &mut anew).unwrap();
    let path = ObjectPath::channel("g", "a");
    for bytes in [&bytes, &anew] {
        let file = TdmsFile::open(bytes).unwrap();
        let a = file.channel(&path).unwrap();
        assert!(matches!(a.scaling(), Scaling::Chain(_)));
        let mut scaled = [0.0; 2];
        a.read_scaled_into(&a.scaling(), 0, &mut scaled).unwrap();
        assert_eq!(scaled, [11.0, -1.0]);
        assert_eq!(a.read(0, 9).unwrap(), Values::I16(vec![5, -1]));
    }
    let two = segment(FIRST)
        .daqmx(A, false, (u32::MAX, 1), &[(3, 0, 0, 0), (3, 0, 0, 1)], &[2])
        .raw([5, 0])
        .bytes();
    let error = TdmsFile::open(&two)
        .unwrap()
        .rewrite(Version::V2, &mut Vec::new());
    assert!(matches!(error, Err(RewriteError::Daqmx { .. })));
}

#[test]
fn what_is_never_written_is_left_out_by_name_or_refused() {
    let void = segment(FIRST)
        .plain(A, I32, 1)
        .with_property(b"nothing", 0, &[])
        .i32s([1])
        .bytes();
    let mut anew = Vec::new();
    let done = TdmsFile::open(&void)
        .unwrap()
        .rewrite(Version::V2, &mut anew);
    let left_out = vec![(ObjectPath::channel("g", "a"), Text::from("nothing"))];
    assert_eq!(done.unwrap().left_out, left_out);
    assert_eq!(values_of(&anew), 1);
    let extended = segment(FIRST).plain(A, 11, 1).raw([0; 10]).bytes();
    let error = TdmsFile::open(&extended)
        .unwrap()
        .rewrite(Version::V2, &mut Vec::new())
        .unwrap_err();
    let expected = "/'g'/'a': values of type f80 are not written";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn big_endian_units_and_torn_files_are_written_as_they_are_read() {
    let float = 1.5_f32.to_be_bytes();
    let bytes = file([
        segment(FIRST | BIG_ENDIAN)
            .plain(A, 0x19, 1)
            .plain(B, I16, 1)
            .raw(float)
            .raw([0, 7]),
        segment(RAW | BIG_ENDIAN).raw(float).raw([0]).not_closed(),
    ]);
    let mut anew = Vec::new();
    let done = TdmsFile::open(&bytes)
        .unwrap()
        .rewrite(Version::V1, &mut anew);
    assert_eq!(done.unwrap().values, 3);
    assert_eq!(text(&anew), text(&bytes));
    let file = TdmsFile::open(&anew).unwrap();
    assert_eq!(file.report().version, Some(4712));
}

proptest! {
    /// Behaviour: ZC-28.
    #[test]
    fn a_file_written_anew_holds_the_same_in_either_version(seed in any::<u64>()) {
        let written = random_file(seed);
        let file = TdmsFile::open(&written.bytes).unwrap();
        let (mut anew, mut back) = (Vec::new(), Vec::new());
        let one = file.rewrite(Version::V1, &mut anew).unwrap();
        prop_assert_eq!(one.bytes, anew.len() as u64);
        let sut = TdmsFile::open(&anew).unwrap();
        prop_assert!(sut.report().is_sound());
        prop_assert_eq!(sut.report().version, Some(4712));
        let two = sut.rewrite(Version::V2, &mut back).unwrap();
        prop_assert_eq!(TdmsFile::open(&back).unwrap().report().version, Some(4713));
        prop_assert_eq!((one.values, &one.left_out), (two.values, &two.left_out));
        if !written.bytes.is_empty() {
            prop_assert_eq!(text(&anew), written.dump().text());
            prop_assert_eq!(text(&back), written.dump().text());
            // All values of a channel together, but for strings.
            let strings = file.channels().filter(|c| matches!(c.read(0, 1), Ok(Values::String(_))));
            let segments = sut.report().segments;
            prop_assert!(segments <= 1 + strings.count() as u64);
        }
    }

    #[test]
    fn a_random_file_cut_anywhere_is_mended(
        seed in any::<u64>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let written = random_file(seed);
        let cut = cut.index(written.bytes.len() + 1);
        for mending in [Mending::Cut, Mending::Close] {
            let (mended, _) = mend(&written.bytes[..cut], mending);
            if !mended.is_empty() {
                let file = TdmsFile::open(&mended).unwrap();
                prop_assert_eq!(file.report().incomplete, None);
            }
        }
    }
}
