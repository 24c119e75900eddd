//! Tests repairing, verifying and rewriting files.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

mod dump;
mod random_file;
mod segments;

use std::path::Path;

use proptest::prelude::*;
use trunkline_tdms::{
    Arrangement, ChannelAmount, Data, Fault, Limits, ObjectPath, ReadAt, ReadError, Repair,
    RepairMode, ScaleError, Scaling, TdmsFile, TdmsType, Text, Values, Version, Writer,
    WriterOptions, unwritten_lead_in,
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

/// Applies a repair. Returns the result and the repair.
fn mend(bytes: &[u8], mode: RepairMode) -> (Vec<u8>, Option<Repair>) {
    let mut mended = bytes.to_vec();
    let repair = TdmsFile::open(bytes).unwrap().repair(mode).unwrap();
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
fn losses_of_a_repair_are_reported() {
    let truncated = segment(FIRST)
        .plain(A, I32, 2)
        .plain(B, I16, 2)
        .i32s([1, 2])
        .raw([10, 0, 11, 0])
        .i32s([3])
        .not_closed();
    let bytes = file([segment(FIRST).plain(A, I32, 1).i32s([0]), truncated]);
    let (closed, repair) = mend(&bytes, RepairMode::Close);
    let repair = repair.unwrap();
    assert_eq!(repair.finding.fault, Fault::NotClosed);
    assert_eq!((repair.bytes_lost, repair.values_lost), (4, 1));
    assert!(TdmsFile::open(&closed).unwrap().report().is_sound());
    assert_eq!(values_of(&closed), 5);

    let (cut, repair) = mend(&bytes, RepairMode::Remove);
    let repair = repair.unwrap();
    assert_eq!((repair.patch, repair.values_lost), (None, 5));
    assert_eq!(cut, bytes[..cut.len()]);
    assert_eq!(values_of(&cut), 1);
    assert_eq!(mend(&cut, RepairMode::Remove).1, None);
}

/// In a file that is being recorded, or whose recorder was killed, the bytes after the position of
/// the next segment are not read, even when salvaging.
///
/// Behaviour: B-70.
#[test]
fn a_file_ends_where_the_next_segment_is_not_written_yet() {
    let whole = file([segment(FIRST).plain(A, I32, 1).i32s([7])]);
    let another = segment(FIRST).plain(A, I32, 1).i32s([8]).bytes();
    for behind in [vec![], vec![0; 5_000], vec![9; 100], another] {
        let bytes = [&whole, &unwritten_lead_in()[..], &behind].concat();
        let length = bytes.len() as u64 - whole.len() as u64;
        for is_salvaging in [false, true] {
            let limits = Limits {
                is_salvaging,
                ..Limits::default()
            };
            let sut = TdmsFile::open_with(&bytes, limits).unwrap();
            let finding = sut.report().incomplete.unwrap();
            assert_eq!(finding.position, whole.len() as u64);
            assert_eq!(finding.fault, Fault::Unwritten { bytes: length });
            let a = sut.channel(&ObjectPath::channel("g", "a")).unwrap();
            assert_eq!(a.read(0, 9).unwrap(), Values::I32(vec![7]));
            assert!(sut.report().findings.is_empty());
        }
        for mode in [RepairMode::Remove, RepairMode::Close] {
            let (mended, repair) = mend(&bytes, mode);
            assert_eq!(repair.unwrap().values_lost, 0);
            assert_eq!(mended, whole);
        }
    }
    // No data was recorded yet.
    let nothing = unwritten_lead_in().to_vec();
    let sut = TdmsFile::open(&nothing).unwrap();
    assert_eq!(sut.channels().count(), 0);
}

#[test]
fn closing_keeps_whole_rows_and_the_byte_order() {
    for toc in [INTERLEAVED | FIRST, INTERLEAVED | FIRST | BIG_ENDIAN] {
        let sut = segment(toc).plain(A, I32, 3).plain(B, I32, 3);
        let bytes = sut.i32s([1, 10, 2, 11, 3]).says(5_000).bytes();
        let (closed, repair) = mend(&bytes, RepairMode::Close);
        let repair = repair.unwrap();
        assert_eq!((repair.bytes_lost, repair.values_lost), (4, 0));
        let file = TdmsFile::open(&closed).unwrap();
        assert_eq!(file.report().incomplete, None);
        let b = file.channel(&ObjectPath::channel("g", "b")).unwrap();
        assert_eq!(b.read(0, 9).unwrap(), Values::I32(vec![10, 11]));
    }
}

#[test]
fn every_truncation_of_a_vector_is_repaired() {
    for name in ["one_channel", "five_segments", "big_endian_time", "daqmx"] {
        let whole = vector(&format!("{name}.tdms"));
        for cut in 0..=whole.len() {
            for mode in [RepairMode::Remove, RepairMode::Close] {
                let (mended, repair) = mend(&whole[..cut], mode);
                if mended.is_empty() {
                    continue;
                }
                let file = TdmsFile::open(&mended).unwrap();
                assert_eq!(file.report().incomplete, None, "{name} {cut} {repair:?}");
                assert_eq!(file.repair(mode).unwrap(), None);
                let mut index = Vec::new();
                file.write_index(&mut index).unwrap();
                let verified = file.verify(Some(&index)).unwrap();
                assert_eq!(verified.is_index_equal, Some(true));
                assert_eq!(verified.values, values_of(&mended));
            }
        }
    }
}

/// Segments that were found after a damaged segment are in the index, which matches the readable
/// part of the file.
#[test]
fn the_index_of_a_damaged_file_has_the_segments_that_were_read() {
    let limits = Limits {
        is_salvaging: true,
        ..Limits::default()
    };
    let whole = [vector("five_segments.tdms"), vector("one_channel.tdms")].concat();
    let mut resumed = 0;
    for at in 0..whole.len() {
        for flip in [0x01, 0x10, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] ^= flip;
            let Ok(file) = TdmsFile::open_with(&bytes, limits) else {
                continue;
            };
            resumed += usize::from(file.report().bytes_skipped > 0);
            let mut index = Vec::new();
            file.write_index(&mut index).unwrap();
            let again = file.verify(Some(&index)).unwrap();
            assert_eq!(again.is_index_equal, Some(true), "{flip:02x} at {at}");
            let tags = index.windows(4).filter(|tag| *tag == b"TDSh").count() as u64;
            assert_eq!(tags, file.report().segments, "{flip:02x} at {at}");
        }
    }
    assert!(resumed > 0, "no damage is one to be read on behind");
}

#[test]
fn verify_detects_torn_ends_bad_strings_and_wrong_indexes() {
    let bytes = vector("five_segments.tdms");
    let index = vector("five_segments.tdms_index");
    let file = TdmsFile::open(&bytes).unwrap();
    let sut = file.verify(Some(&index)).unwrap();
    assert_eq!(sut.findings.len(), 1);
    assert_eq!(sut.findings[0].fault, Fault::NotClosed);
    assert_eq!((sut.channels, sut.values), (3, 18));
    assert_eq!(sut.is_index_equal, Some(true));
    assert_eq!(file.verify(None::<&[u8]>).unwrap().is_index_equal, None);
    let mut written = Vec::new();
    file.write_index(&mut written).unwrap();
    assert_eq!(written, index);
    for at in 0..index.len() {
        let mut other = index.clone();
        other[at] ^= 1;
        let sut = file.verify(Some(&other)).unwrap();
        assert_eq!(sut.is_index_equal, Some(false), "byte {at}");
        let sut = file.verify(Some(&index[..at])).unwrap();
        assert_eq!(sut.is_index_equal, Some(false), "cut at {at}");
    }
    let mut broken = bytes.clone();
    // The end of the middle string is after the end of the last string.
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
    let done = TdmsFile::open(&two)
        .unwrap()
        .rewrite(Version::V2, &mut Vec::new())
        .unwrap();
    assert_eq!(done.channels_left_out[0].0, path);
    assert!(
        done.channels_left_out[0]
            .1
            .contains("DAQmx data whose scales")
    );
}

#[test]
fn unsupported_types_are_omitted_by_name_or_refused() {
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
    assert_eq!(done.unwrap().properties_left_out, left_out);
    assert_eq!(values_of(&anew), 1);
    let extended = segment(FIRST).plain(A, 11, 1).raw([0; 10]).bytes();
    let done = TdmsFile::open(&extended)
        .unwrap()
        .rewrite(Version::V2, &mut Vec::new())
        .unwrap();
    let why = "/'g'/'a' has values of the type f80, which cannot be written".to_owned();
    let left_out = vec![(ObjectPath::channel("g", "a"), why)];
    assert_eq!(done.channels_left_out, left_out);
}

#[test]
fn big_endian_units_and_torn_files_are_rewritten_as_they_are_read() {
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
    fn rewritten_file_has_the_same_content_in_both_versions(seed in any::<u64>()) {
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
        prop_assert_eq!((one.values, &one.properties_left_out), (two.values, &two.properties_left_out));
        if !written.bytes.is_empty() {
            prop_assert_eq!(text(&anew), written.dump().text());
            prop_assert_eq!(text(&back), written.dump().text());
            // All values of a channel are in one segment, except for strings.
            let strings = file.channels().filter(|c| matches!(c.read(0, 1), Ok(Values::String(_))));
            let segments = sut.report().segments;
            prop_assert!(segments <= 1 + strings.count() as u64);
        }
    }

    #[test]
    fn randomly_truncated_file_is_repaired(
        seed in any::<u64>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let written = random_file(seed);
        let cut = cut.index(written.bytes.len() + 1);
        for mode in [RepairMode::Remove, RepairMode::Close] {
            let (mended, _) = mend(&written.bytes[..cut], mode);
            if !mended.is_empty() {
                let file = TdmsFile::open(&mended).unwrap();
                prop_assert_eq!(file.report().incomplete, None);
            }
        }
    }
}

/// Counts the bytes that are read.
struct Counted<'a>(&'a [u8], std::cell::Cell<u64>);

impl ReadAt for Counted<'_> {
    fn byte_len(&self) -> std::io::Result<u64> {
        self.0.byte_len()
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> std::io::Result<usize> {
        let read = self.0.read_at(buffer, position)?;
        self.1.set(self.1.get() + read as u64);
        Ok(read)
    }
}

/// Behaviour: B-71.
#[test]
fn rows_of_many_channels_are_rewritten_in_one_pass() {
    const CHANNELS: u64 = 32;
    const ROWS: u64 = 200_000;
    let mut writer = Writer::new(WriterOptions::default());
    let channels: Vec<_> = (0..CHANNELS)
        .map(|number| {
            writer
                .channel("g", format!("c{number}"), TdmsType::I32)
                .unwrap()
        })
        .collect();
    let amounts: Vec<_> = channels
        .iter()
        .map(|channel| ChannelAmount {
            channel: *channel,
            count: ROWS,
            bytes: 0,
        })
        .collect();
    let mut bytes = Vec::new();
    writer
        .header(&amounts, Arrangement::Interleaved, &mut bytes)
        .unwrap();
    let rows = (0..ROWS * CHANNELS).flat_map(|number| (number as i32).to_le_bytes());
    bytes.extend(rows);
    let source = Counted(&bytes, std::cell::Cell::new(0));
    let file = TdmsFile::open(source).unwrap();
    let mut anew = Vec::new();
    let done = file.rewrite(Version::V2, &mut anew).unwrap();
    assert_eq!((done.values, done.unreadable), (ROWS * CHANNELS, 0));
    let read = file.source().1.get();
    assert!(
        read < bytes.len() as u64 * 3,
        "{read} of {} bytes",
        bytes.len()
    );
    let anew = TdmsFile::open(&anew).unwrap();
    assert!(anew.report().is_sound());
    for number in 0..CHANNELS {
        let path = ObjectPath::channel("g", format!("c{number}"));
        let (before, after) = (file.channel(&path).unwrap(), anew.channel(&path).unwrap());
        assert_eq!(before.read(0, ROWS).unwrap(), after.read(0, ROWS).unwrap());
    }
}

/// Behaviour: B-71.
#[test]
fn damaged_string_table_affects_only_its_own_strings() {
    let mut writer = Writer::new(WriterOptions::default());
    let number = writer.channel("g", "n", TdmsType::I32).unwrap();
    let text = writer.channel("g", "s", TdmsType::String).unwrap();
    let mut bytes = Vec::new();
    let mut starts = Vec::new();
    for segment in 0..3_i32 {
        let texts: Vec<Text> = (0..4)
            .map(|at| Text::from(format!("{segment}.{at}")))
            .collect();
        let numbers = [segment; 4];
        let data = [(number, (&numbers).into()), (text, Data::String(&texts))];
        writer
            .write(&data, Arrangement::Contiguous, &mut bytes)
            .unwrap();
        starts.push(bytes.len());
    }
    // This is the end of the third string of the second segment, which has 4 ends and 12 bytes of
    // text.
    let at = starts[1] - 12 - 8;
    bytes[at + 3] = 0x7f;
    let file = TdmsFile::open(&bytes).unwrap();
    let texts = file.channel(&ObjectPath::channel("g", "s")).unwrap();
    assert!(matches!(
        texts.read_strings(0, 12),
        Err(ReadError::Damaged { .. })
    ));
    let (read, unreadable) = texts.read_strings_lossy(0, 12, u64::MAX).unwrap();
    assert_eq!((read.len(), unreadable.len()), (12, 1));
    assert_eq!(unreadable[0], 6..8);
    assert_eq!(
        (&read[5].to_str()[..], &read[8].to_str()[..]),
        ("1.1", "2.0")
    );
    assert_eq!(file.damaged_strings().unwrap().len(), 1);
    let mut anew = Vec::new();
    let done = file.rewrite(Version::V2, &mut anew).unwrap();
    assert_eq!((done.values, done.unreadable), (24, 2));
    assert!(TdmsFile::open(&anew).unwrap().report().is_sound());
}

/// Behaviour: B-71.
#[test]
fn a_damaged_index_changes_nothing_that_is_read() {
    let bytes = vector("five_segments.tdms");
    let index = vector("five_segments.tdms_index");
    let expected = text(&bytes);
    for at in 0..index.len() {
        for flip in [0x01, 0x80] {
            let mut index = index.clone();
            index[at] ^= flip;
            let indexed = TdmsFile::open_indexed(&bytes, &index, Limits::default()).unwrap();
            assert_eq!(dump_of(&indexed).unwrap().text(), expected, "byte {at}");
            let findings = indexed.report().findings;
            assert!(findings.iter().any(|one| one.fault == Fault::StaleIndex));
        }
    }
}

#[test]
fn scales_that_refer_to_a_missing_scaler_return_raw_numbers() {
    // Only the first scale is declared, but the scaler belongs to the second one.
    let bytes = segment(FIRST)
        .daqmx(A, false, (u32::MAX, 2), &[(3, 0, 0, 1)], &[2])
        .with_property(b"NI_Number_Of_Scales", 7, &1_u32.to_le_bytes())
        .raw([5, 0, 0xff, 0xff])
        .bytes();
    let file = TdmsFile::open(&bytes).unwrap();
    let channel = file.channel(&ObjectPath::channel("g", "a")).unwrap();
    let scaling = channel.scaling();
    assert_eq!(scaling, Scaling::Unknown(ScaleError::NoScaler { scale: 0 }));
    let mut numbers = [0.0; 2];
    channel.read_scaled_into(&scaling, 0, &mut numbers).unwrap();
    assert_eq!(numbers, [5.0, -1.0]);
}
